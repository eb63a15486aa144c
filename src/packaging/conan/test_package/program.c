/* SPDX-License-Identifier: MIT */
/* Adds two tensors, and fails if the sum is wrong. */
#include <compute/core.h>

int main(void) {
  compute_context *context = NULL;
  compute_tensor *two = NULL, *sum = NULL;
  float result = 0;
  compute_status status = compute_open(&context, NULL);
  if (!status)
    status = compute_tensor_full(compute_default_device(context), COMPUTE_F32, COMPUTE_SHAPE(1), 2,
                                 &two);
  if (!status) status = compute_tensor_add(two, two, &sum);
  if (!status) status = compute_tensor_read(sum, &result, sizeof result);
  compute_tensor_release(sum);
  compute_tensor_release(two);
  if (context) compute_close(context);
  return status || result != 4;
}
