/* SPDX-License-Identifier: MIT */
/* Element types and sizes of operands, for all vendor libraries. */
#include "vendor.h"

bool cuda_vendor_type(compute_dtype dtype, int32_t bf16, int32_t *type) {
  switch (dtype) {
  case COMPUTE_F32: *type = 0; return true;
  case COMPUTE_F64: *type = 1; return true;
  case COMPUTE_F16: *type = 2; return true;
  case COMPUTE_BF16: *type = bf16; return true;
  default: return false;
  }
}

uint64_t cuda_element_bytes(compute_dtype dtype) {
#define BYTES(code, number, name, kind, bytes, type, element) [COMPUTE_##code] = bytes,
  static const uint8_t bytes_of[COMPUTE_DTYPE_COUNT] = {COMPUTE_DTYPES(BYTES)};
#undef BYTES
  return bytes_of[dtype];
}

uint64_t cuda_extent_bytes(const int64_t *size, const int64_t *stride, int32_t rank,
                           compute_dtype dtype) {
  uint64_t last = 0;
  for (int32_t i = 0; i < rank; i++) {
    if (size[i] == 0) return 0;
    last += (uint64_t)(size[i] - 1) * (uint64_t)(stride[i] < 0 ? -stride[i] : stride[i]);
  }
  return (last + 1) * cuda_element_bytes(dtype);
}
