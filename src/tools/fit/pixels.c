/* memcpy and shifts, so that neither alignment nor aliasing matters; compilers vectorise them. */
#include "tools/fit/pixels.h"

#include <stdint.h>
#include <string.h>

compute_dtype pixels_dtype(compute_dtype stored) {
  switch (stored) {
  case COMPUTE_U8:
  case COMPUTE_U16: return COMPUTE_U16;
  case COMPUTE_F32:
  case COMPUTE_F64: return COMPUTE_F32;
  default: return COMPUTE_DTYPE_NONE;
  }
}

static void widen(const unsigned char *source, unsigned char *target, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint16_t value = source[i];
    memcpy(target + 2 * i, &value, 2);
  }
}

static void swap_u16(const unsigned char *source, unsigned char *target, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint16_t value;
    memcpy(&value, source + 2 * i, 2);
    value = __builtin_bswap16(value);
    memcpy(target + 2 * i, &value, 2);
  }
}

static void swap_f32(const unsigned char *source, unsigned char *target, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint32_t value;
    memcpy(&value, source + 4 * i, 4);
    value = __builtin_bswap32(value);
    memcpy(target + 4 * i, &value, 4);
  }
}

static void narrow_f64(const unsigned char *source, bool swapped, unsigned char *target,
                       size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint64_t bits;
    double value;
    memcpy(&bits, source + 8 * i, 8);
    if (swapped) bits = __builtin_bswap64(bits);
    memcpy(&value, &bits, 8);
    float narrow = (float)value;
    memcpy(target + 4 * i, &narrow, 4);
  }
}

void pixels_convert(compute_dtype stored, bool swapped, const void *source, void *target,
                    size_t count) {
  if (stored == COMPUTE_U8) {
    widen(source, target, count);
  } else if (stored == COMPUTE_F64) {
    narrow_f64(source, swapped, target, count);
  } else if (swapped) {
    (stored == COMPUTE_U16 ? swap_u16 : swap_f32)(source, target, count);
  } else if (source != target) {
    memcpy(target, source, count * compute_dtype_size(stored));
  }
}
