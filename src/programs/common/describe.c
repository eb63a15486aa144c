/* SPDX-License-Identifier: MIT */
/* Texts for the properties that a context reports; see describe.h. */
#include "programs/common/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const describe_capability describe_capabilities[] = {
    {COMPUTE_CAPABILITY_COMPUTE, "compute"},
    {COMPUTE_CAPABILITY_HOST, "host"},
    {COMPUTE_CAPABILITY_UNIFIED_MEMORY, "unified memory"},
    {COMPUTE_CAPABILITY_MATRIX_CORES, "matrix cores"},
    {COMPUTE_CAPABILITY_F64, "f64"},
    {COMPUTE_CAPABILITY_F16, "f16"},
    {COMPUTE_CAPABILITY_BF16, "bf16"},
    {COMPUTE_CAPABILITY_AVX2, "AVX2"},
    {COMPUTE_CAPABILITY_AVX512, "AVX-512"},
    {0, NULL},
};

const char *describe_device_type(compute_device_type type) {
  switch (type) {
  case COMPUTE_DEVICE_NULL: return "null";
  case COMPUTE_DEVICE_CPU: return "CPU";
  case COMPUTE_DEVICE_GPU: return "GPU";
  case COMPUTE_DEVICE_ACCELERATOR: return "accelerator";
  }
  return "unknown";
}

void describe_cache_folder(char *text, size_t text_bytes) {
  static const struct {
    const char *variable, *suffix;
  } place[] = {
      {"COMPUTE_CACHE_DIR", ""}, {"XDG_CACHE_HOME", "/compute"}, {"HOME", "/.cache/compute"}};
  text[0] = '\0';
  for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
    const char *folder = compute_variable_value(place[i].variable);
    if (!folder) continue;
    snprintf(text, text_bytes, "%s%s", folder, place[i].suffix);
    return;
  }
}

bool describe_is_blas_variable(const char *assignment) {
  static const char *const prefix[] = {"OPENBLAS_", "OMP_", "GOMP_", "GOTO_", "KMP_"};
  for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
    if (!strncmp(assignment, prefix[i], strlen(prefix[i]))) return true;
  return false;
}
