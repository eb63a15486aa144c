/* SPDX-License-Identifier: MIT */
/* Max pooling of bytes across channels, as bytes; core/isa.h describes how this file is
 * compiled. */
#include <string.h>

#include "program/isa/tile_loops.h"
#include "window_table.h"

#define WINDOW_BYTES(name, type)                                                                   \
  CPU_INLINE type larger_##name(type a, type b) {                                                  \
    return a > b ? a : b;                                                                          \
  }                                                                                                \
  /* Folds lines `apart` bytes apart: three together, then the others one by one. */               \
  CPU_INLINE void fold_##name(type *restrict result, const type *source, int64_t lines,            \
                              int64_t apart, int64_t length) {                                     \
    int64_t done = lines < 3 ? lines : 3;                                                          \
    const type *a = source + (done > 1 ? apart : 0), *b = source + (done > 2 ? 2 * apart : 0);     \
    if (done == 1)                                                                                 \
      memcpy(result, source, (size_t)length);                                                      \
    else if (done == 2)                                                                            \
      for (int64_t i = 0; i < length; i++) result[i] = larger_##name(source[i], a[i]);             \
    else                                                                                           \
      for (int64_t i = 0; i < length; i++)                                                         \
        result[i] = larger_##name(larger_##name(source[i], a[i]), b[i]);                           \
    for (; done < lines; done++) {                                                                 \
      a = source + done * apart;                                                                   \
      for (int64_t i = 0; i < length; i++) result[i] = larger_##name(result[i], a[i]);             \
    }                                                                                              \
  }                                                                                                \
  static void maximum_##name(void *to, const void *from, int64_t count, int64_t step,              \
                             int64_t taps, int64_t tap_step, int64_t lanes) {                      \
    type *result = to;                                                                             \
    const type *source = from;                                                                     \
    if (step == 1) {                                                                               \
      fold_##name(result, source, taps, tap_step *lanes, count *lanes);                            \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t q = 0; q < count; q++, result += lanes, source += step * lanes)                   \
      fold_##name(result, source, taps, tap_step *lanes, lanes);                                   \
  }
WINDOW_BYTES(u8, uint8_t)
WINDOW_BYTES(i8, int8_t)

const cpu_window_loops CPU_SYMBOL(cpu_window_u8) = {.maximum = maximum_u8};
const cpu_window_loops CPU_SYMBOL(cpu_window_i8) = {.maximum = maximum_i8};
