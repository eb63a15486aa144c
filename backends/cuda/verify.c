/* SPDX-License-Identifier: MIT */
/* Verifies a library's candidates. A library's notes are incomplete: some engines transform their
 * factors without a note, and are less exact than sums in the requested precision. So the factors
 * are filled with random numbers before autotuning, each candidate runs once, and some of its
 * results are compared with the same sums in double.
 *
 * For random numbers, the mean square error of plain f32 sums is typically a twentieth of the
 * allowed error, for sums of any length, and sometimes nearly half of it. So the mean of a few
 * results is a better test than the worst result. Each result must also meet a separate bound. */
#include <math.h>
#include <string.h>

#include "cuda.h"

enum { PERIOD = 4084, MOST_RESULTS = 64, LEAST_RESULTS = 8 };

#define MOST_TERMS    1500000.0 /* in all results: a few milliseconds */
#define MEAN_OF_BOUND 0.083
#define NOT_A_NUMBER  0x7fc07fc0 /* two NaNs in 16 bits, or one in 32 */

struct cuda_expected {
  double values[2][PERIOD]; /* element i of a factor is values[i mod PERIOD] */
  double stored[PERIOD];    /* one factor in its dtype */
  uint32_t count;
  int64_t place[MOST_RESULTS]; /* in elements */
  double sum[MOST_RESULTS], allowed[MOST_RESULTS];
};

static uint64_t next_random(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* ---- Elements ------------------------------------------------------------------------------ */

static bool is_half(compute_dtype dtype) {
  return dtype == COMPUTE_F16 || dtype == COMPUTE_BF16;
}

/* Stores a number between -1 and 1, exact in the dtype, to *to, and returns it. */
static double make_element(compute_dtype dtype, uint64_t random, void *to) {
  if (dtype == COMPUTE_F64) {
    const double value = (double)(int64_t)random * 0x1p-63;
    memcpy(to, &value, sizeof value);
    return value;
  }
  const int32_t whole = (int32_t)(random >> 32);
  const float value =
      is_half(dtype) ? (float)(whole >> 24) * 0x1p-7F : (float)(whole >> 8) * 0x1p-23F;
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint16_t bf16 = (uint16_t)(bits >> 16);
  const uint32_t small = bits & 0x7fffffffu;
  const uint16_t f16 =
      (uint16_t)((bits >> 16 & 0x8000u) | (small ? (small - 0x38000000u) >> 13 : 0));
  if (is_half(dtype))
    memcpy(to, dtype == COMPUTE_F16 ? &f16 : &bf16, 2);
  else
    memcpy(to, &value, sizeof value);
  return (double)value;
}

static double read_element(compute_dtype dtype, const void *from) {
  if (dtype == COMPUTE_F64) {
    double value;
    memcpy(&value, from, sizeof value);
    return value;
  }
  if (dtype == COMPUTE_F32) {
    float value;
    memcpy(&value, from, sizeof value);
    return (double)value;
  }
  uint16_t half;
  memcpy(&half, from, sizeof half);
  const bool f16 = dtype == COMPUTE_F16;
  const int fraction_bits = f16 ? 10 : 7, last = f16 ? 31 : 255, bias = f16 ? 15 : 127;
  const int exponent = half >> fraction_bits & last;
  const int fraction = half & ((1 << fraction_bits) - 1);
  if (exponent == last) return (double)NAN; /* no sum of these numbers is that large */
  const double size = exponent ? ldexp(fraction + (1 << fraction_bits), exponent - 1) : fraction;
  return ldexp(half & 0x8000 ? -size : size, 1 - bias - fraction_bits);
}

/* The relative rounding of a result whose dtype is narrower than the sum's, with a margin for the
 * mean. */
static double rounding_of(compute_dtype result) {
  return result == COMPUTE_F16 ? 0x1.8p-9 : result == COMPUTE_BF16 ? 0x1.8p-6 : 0;
}

/* ---- Filling and verifying ----------------------------------------------------------------- */

/* Fills a factor with repetitions of the same few elements. */
static cuda_result fill(const cuda_driver *driver, const void *elements, uint64_t element_bytes,
                        cuda_pointer to, uint64_t bytes, cuda_stream stream) {
  uint64_t filled = PERIOD * element_bytes;
  if (filled > bytes) filled = bytes;
  cuda_result code = driver->copy_to_device(to, elements, (size_t)filled, stream);
  while (code == CUDA_OK && filled < bytes) {
    const uint64_t more = filled < bytes - filled ? filled : bytes - filled;
    code = driver->copy_on_device(to + filled, to, (size_t)more, stream);
    filled += more;
  }
  /* The next call overwrites the memory of the elements. */
  return code == CUDA_OK ? driver->stream_wait(stream) : code;
}

static void choose_results(const cuda_verification *v, cuda_expected *expected, uint64_t *random) {
  const double *const values[2] = {expected->values[0], expected->values[1]};
  const double many = MOST_TERMS / v->terms;
  expected->count = many > MOST_RESULTS    ? MOST_RESULTS
                    : many < LEAST_RESULTS ? LEAST_RESULTS
                                           : (uint32_t)many;
  for (uint32_t i = 0; i < expected->count; i++) {
    double magnitude = 0;
    v->sum(v->of, next_random(random), values, PERIOD, &expected->place[i], &expected->sum[i],
           &magnitude);
    expected->allowed[i] =
        v->allowed * magnitude + rounding_of(v->dtype[2]) * fabs(expected->sum[i]);
  }
}

cuda_expected *cuda_verify_begin(cuda_device *device, const cuda_verification *v,
                                 const cuda_pointer *operands, const uint64_t *operand_bytes,
                                 cuda_stream stream) {
  cuda_expected *expected = builder_allocate(&device->builder, sizeof *expected);
  uint64_t random = 1;
  cuda_result code = CUDA_OK;
  if (!expected) return NULL;
  for (int i = 0; i < 2 && code == CUDA_OK; i++) {
    const uint64_t bytes = cuda_element_bytes(v->dtype[i]);
    for (uint64_t k = 0; k < PERIOD; k++)
      expected->values[i][k] = make_element(v->dtype[i], next_random(&random),
                                            (unsigned char *)expected->stored + k * bytes);
    code = fill(device->driver, expected->stored, bytes, operands[i], operand_bytes[i], stream);
  }
  cuda_notice(device, code, "examining a library's proposals");
  if (code == CUDA_OK) {
    choose_results(v, expected, &random);
    return expected;
  }
  builder_free(&device->builder, expected);
  return NULL;
}

void cuda_verify_end(cuda_device *device, cuda_expected *expected) {
  if (expected) builder_free(&device->builder, expected);
}

bool cuda_verify_prepare(cuda_device *device, cuda_pointer result, uint64_t bytes,
                         cuda_stream stream) {
  const cuda_result code =
      device->driver->set_words(result, NOT_A_NUMBER, (size_t)(bytes + 3) / 4, stream);
  cuda_notice(device, code, "examining a library's proposals");
  return code == CUDA_OK;
}

double cuda_verify_error(cuda_device *device, const cuda_verification *v,
                         const cuda_expected *expected, cuda_pointer result, cuda_stream stream) {
  double seen[MOST_RESULTS] = {0}, squares = 0, largest = 0;
  const uint64_t bytes = cuda_element_bytes(v->dtype[2]);
  cuda_result code = CUDA_OK;
  for (uint32_t i = 0; i < expected->count && code == CUDA_OK; i++)
    code = device->driver->copy_to_host(&seen[i], result + (uint64_t)expected->place[i] * bytes,
                                        (size_t)bytes, stream);
  if (code == CUDA_OK) code = device->driver->stream_wait(stream);
  cuda_notice(device, code, "examining a library's proposals");
  if (code != CUDA_OK) return (double)INFINITY;
  for (uint32_t i = 0; i < expected->count; i++) {
    const double error = fabs(read_element(v->dtype[2], &seen[i]) - expected->sum[i]);
    const double part = error > 0 ? error / expected->allowed[i] : 0;
    if (isnan(error)) return (double)INFINITY;
    if (part > largest) largest = part;
    squares += part * part;
  }
  return fmax(largest, sqrt(squares / expected->count) / MEAN_OF_BOUND);
}
