/* Arithmetic that notices overflow. Each returns false and leaves *result alone when the true
 * result does not fit. */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool checked_multiply(int64_t a, int64_t b, int64_t *result) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return false;
  *result = r;
  return true;
}

static inline bool checked_add(int64_t a, int64_t b, int64_t *result) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return false;
  *result = r;
  return true;
}

#endif
