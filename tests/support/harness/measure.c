/* SPDX-License-Identifier: MIT */
#include "support/harness/measure.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

typedef struct measured {
  char operation[32];
  compute_dtype dtype;
  double ulp, relative;
  bool elsewhere, wrong;
} measured;

static measured seen[COMPUTE_DTYPE_COUNT * 128];
static size_t seen_count;

static measured *find(const char *operation, compute_dtype dtype) {
  for (size_t i = 0; i < seen_count; i++)
    if (seen[i].dtype == dtype && strcmp(seen[i].operation, operation) == 0) return &seen[i];
  assert_true(seen_count < sizeof seen / sizeof *seen);
  measured *entry = &seen[seen_count++];
  snprintf(entry->operation, sizeof entry->operation, "%s", operation);
  entry->dtype = dtype;
  return entry;
}

/* The largest finite number; 0 for exact dtypes. */
static double largest(compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_F64: return DBL_MAX;
  case COMPUTE_F32: return (double)FLT_MAX;
  case COMPUTE_F16: return 65504;
  case COMPUTE_BF16: return 0x1.fep127;
  default: return 0;
  }
}

void measure_result(const char *operation, compute_dtype dtype, const test_values *actual,
                    const test_values *expected, bool elsewhere, bool right) {
  if (!operation || !getenv("COMPUTE_TEST_ERRORS")) return;
  if (test_seed()) return; /* a sample may miss the largest error */
  measured *entry = find(operation, dtype);
  double error = 0, size = 0;
  entry->elsewhere = entry->elsewhere || elsewhere;
  entry->wrong = entry->wrong || !right;
  const double limit = largest(actual->dtype);
  for (int64_t i = 0; limit > 0 && i < actual->count; i++) {
    const double want = test_values_get(expected, i), got = test_values_get(actual, i);
    /* NaN, infinities and numbers outside the dtype are right or wrong, never nearly right. */
    if (!(fabs(want) <= limit) || !(fabs(got) <= limit)) continue;
    const double difference = fabs(got - want);
    entry->ulp = fmax(entry->ulp, difference / test_spacing(actual->dtype, want));
    error = fmax(error, difference);
    size = fmax(size, fabs(want));
  }
  if (size > 0) entry->relative = fmax(entry->relative, error / size);
}

void measure_write(const compute_context *context) {
  const char *start = getenv("COMPUTE_TEST_ERRORS");
  if (!start || seen_count == 0) return;
  compute_device_info info;
  assert_ok(compute_device_describe(compute_default_device(context), &info));
  char path[4096];
  snprintf(path, sizeof path, "%s-%s.txt", start, info.name);
  FILE *file = fopen(path, "w");
  if (!file) fail_msg("%s cannot be written", path);
  fprintf(file, "device %s %s\n", info.name, info.model);
  for (size_t i = 0; i < seen_count; i++)
    fprintf(file, "%s %s %.9g %.9g %d %d\n", seen[i].operation, compute_dtype_name(seen[i].dtype),
            seen[i].ulp, seen[i].relative, seen[i].elsewhere, seen[i].wrong);
  assert_int_equal(fclose(file), 0);
}
