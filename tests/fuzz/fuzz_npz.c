/* SPDX-License-Identifier: MIT */
/* Files of named tensors as .npz. */
#include "fuzz_tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_tensor_file(data, size, true);
  return 0;
}
