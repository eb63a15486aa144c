/* SPDX-License-Identifier: MIT */
/* Arrays in host memory; see host.h. */
#include "host.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

void *host_allocate(size_t bytes) {
  void *p =
      mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

void host_release(void *pointer, size_t bytes) {
  if (pointer) munmap(pointer, bytes ? bytes : 1);
}

uint64_t host_memory_available(void) {
  unsigned long long kib = 0;
  char line[128];
  FILE *file = fopen("/proc/meminfo", "r");
  if (!file) return 0;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
  fclose(file);
  return (uint64_t)kib * 1024;
}

/* xorshift64* by Vigna, 2016: fast, and random enough for this. */
uint64_t host_random(uint64_t *state) {
  uint64_t x = *state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  *state = x;
  return x * UINT64_C(0x2545f4914f6cdd1d);
}

/* Rounds to nearest even; the values here are finite. */
static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static double from_bf16(uint16_t value) {
  uint32_t bits = (uint32_t)value << 16;
  float result;
  memcpy(&result, &bits, sizeof result);
  return (double)result;
}

static void fill_f32(float *array, int64_t count, double low, double high, uint64_t state) {
  float base = (float)low, step = (float)((high - low) / 16777216.0);
  for (int64_t i = 0; i < count; i++) array[i] = base + step * (float)(host_random(&state) >> 40);
}

void host_fill(compute_dtype dtype, void *array, int64_t count, double low, double high,
               uint64_t seed) {
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  if (dtype == COMPUTE_F32) {
    fill_f32(array, count, low, high, state);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    double value = low + (high - low) * (double)(host_random(&state) >> 11) / 9007199254740992.0;
    if (dtype == COMPUTE_F64) ((double *)array)[i] = value;
    if (dtype == COMPUTE_BF16) ((uint16_t *)array)[i] = to_bf16((float)value);
    if (dtype == COMPUTE_I32) ((int32_t *)array)[i] = (int32_t)value;
    if (dtype == COMPUTE_I64) ((int64_t *)array)[i] = (int64_t)value;
  }
}

void host_load(compute_dtype dtype, const void *array, int64_t first, int64_t stride, int64_t count,
               double *values) {
  switch (dtype) {
  case COMPUTE_F32:
    for (int64_t i = 0; i < count; i++)
      values[i] = (double)((const float *)array)[first + i * stride];
    break;
  case COMPUTE_F64:
    for (int64_t i = 0; i < count; i++) values[i] = ((const double *)array)[first + i * stride];
    break;
  case COMPUTE_BF16:
    for (int64_t i = 0; i < count; i++)
      values[i] = from_bf16(((const uint16_t *)array)[first + i * stride]);
    break;
  case COMPUTE_I32:
    for (int64_t i = 0; i < count; i++) values[i] = ((const int32_t *)array)[first + i * stride];
    break;
  case COMPUTE_I64:
    for (int64_t i = 0; i < count; i++)
      values[i] = (double)((const int64_t *)array)[first + i * stride];
    break;
  default: memset(values, 0, (size_t)count * sizeof *values);
  }
}

double host_epsilon(compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_F64: return 0x1p-52;
  case COMPUTE_F32: return 0x1p-23;
  case COMPUTE_F16: return 0x1p-10;
  case COMPUTE_BF16: return 0x1p-7;
  default: return 0;
  }
}
