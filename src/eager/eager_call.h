/* How an eager call describes itself: a builder of graph.h with its operands and attributes. */
#ifndef EAGER_EAGER_CALL_H
#define EAGER_EAGER_CALL_H

#include "compute/eager.h"
#include "graph/graph.h"

typedef struct eager_call eager_call;

/* Adds the operation to a graph; `x` has a node for each operand. */
typedef compute_node eager_build(compute_graph *graph, const compute_node *x,
                                 const eager_call *call);

/* Attributes that the operation lacks are zero. */
struct eager_call {
  const char *operation;
  eager_build *build;
  const compute_tensor *const *operands;
  size_t operand_count;
  bool optional;          /* operands after the first may be NULL: left out */
  compute_device *device; /* without operands; else the first operand's is used */
  double number[2];
  int64_t integer[3];
  int32_t axis;
  uint32_t stream;
  compute_dtype dtype;
  bool keep_axes;
  compute_axes axes;
  compute_shape shape;
};

/* Runs the call; on success *result is a new tensor. */
compute_status eager_run(const eager_call *call, compute_tensor **result);

#endif
