/* SPDX-License-Identifier: MIT */
/* Prints the instruction set of the CPU backend, and the product of a row of u8 with a column of i8
 * of the same length: 255 · (−128) · 100. */
#include <compute/compute.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  enum { LENGTH = 100 };
  uint8_t a[LENGTH];
  int8_t b[LENGTH];
  int32_t product = 0;
  memset(a, 255, sizeof a);
  memset(b, -128, sizeof b);
  compute_context *context = NULL;
  compute_tensor *row = NULL, *column = NULL, *result = NULL;
  compute_device_info info = {.isa = "none"};
  compute_status s = compute_open(&context, NULL);
  compute_device *device = s ? NULL : compute_default_device(context);
  if (!s) s = compute_device_describe(device, &info);
  if (!s) s = compute_tensor_create(device, COMPUTE_U8, COMPUTE_SHAPE(1, LENGTH), &row);
  if (!s) s = compute_tensor_create(device, COMPUTE_I8, COMPUTE_SHAPE(LENGTH, 1), &column);
  if (!s) s = compute_tensor_write(row, a, sizeof a);
  if (!s) s = compute_tensor_write(column, b, sizeof b);
  if (!s) s = compute_tensor_matmul_integer(row, column, NULL, NULL, &result);
  if (!s) s = compute_tensor_read(result, &product, sizeof product);
  if (s) fprintf(stderr, "%s\n", compute_error_message(NULL));
  printf("%s %d\n", info.isa, (int)product);
  compute_tensor_release(row), compute_tensor_release(column), compute_tensor_release(result);
  compute_close(context);
  return s ? 1 : 0;
}
