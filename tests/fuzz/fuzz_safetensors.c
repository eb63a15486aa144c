/* SPDX-License-Identifier: MIT */
/* Files of named tensors as safetensors. In every second input, the length before the header is
 * corrected, so that headers are reached. */
#include <string.h>

#include "fuzz_tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_tensor_file(data, size, false);
  const uint8_t *end = size > 8 ? memrchr(data + 8, '}', size - 8) : NULL;
  if (!end) return 0;
  static uint8_t copy[1 << 16];
  if (size > sizeof copy) return 0;
  memcpy(copy, data, size);
  uint64_t length = (uint64_t)(end - data) - 7;
  for (int i = 0; i < 8; i++) copy[i] = (uint8_t)(length >> 8 * i);
  fuzz_tensor_file(copy, size, false);
  return 0;
}
