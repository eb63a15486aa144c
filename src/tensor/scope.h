/* Memory scopes: per thread and context, a stack of lists of tensors. */
#ifndef TENSOR_SCOPE_H
#define TENSOR_SCOPE_H

#include "compute/tensor.h"

/* Called for every new tensor: registers it with the innermost scope of this thread, if any. */
compute_status scope_register(compute_tensor *tensor);

/* Called when a tensor dies; any thread. */
void scope_forget(compute_tensor *tensor);

#endif
