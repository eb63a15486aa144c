/* SPDX-License-Identifier: MIT */
/* Targets, descriptors and entries for the tuner's tests. */
#ifndef TUNE_FIXTURE_H
#define TUNE_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/tune/entry.h"
#include "codegen/tune/tuning.h"
#include "support/harness/test.h"

static inline compute_target fixture_target(const char *model) {
  compute_target target = {.struct_size = sizeof target,
                           .dialect = COMPUTE_DIALECT_OPENCL,
                           .type = COMPUTE_DEVICE_GPU,
                           .flags = COMPUTE_TARGET_F64 | COMPUTE_TARGET_FAST_LOCAL,
                           .backend = "opencl",
                           .vendor = "Vendor \"&\" Sons",
                           .family = "gfx1100",
                           .driver = "3.1",
                           .compute_units = 8,
                           .lanes = 32,
                           .vector_width = 4,
                           .group_limit = 1024,
                           .group_limit_of = {1024, 1024, 64},
                           .local_bytes = 32768};
  snprintf(target.model, sizeof target.model, "%s", model);
  return target;
}

/* A one-dimensional sum of two f32 operands. Its parts live as long as the caller's struct. */
typedef struct fixture_map {
  compute_kernel_descriptor descriptor;
  compute_operand inputs[2], output;
} fixture_map;

static inline const compute_kernel_descriptor *fixture_descriptor(fixture_map *map, int64_t count) {
  const compute_operand dense = {.dtype = COMPUTE_F32, .stride = {1}};
  *map = (fixture_map){.inputs = {dense, dense}, .output = dense};
  map->descriptor = (compute_kernel_descriptor){.struct_size = sizeof map->descriptor,
                                                .kind = COMPUTE_KERNEL_MAP,
                                                .rank = 1,
                                                .size = {count},
                                                .input_count = 2,
                                                .output_count = 1,
                                                .inputs = map->inputs,
                                                .outputs = &map->output};
  return &map->descriptor;
}

/* Writes the line of an entry with one parameter to `text`, which has ENTRY_LINE_BYTES. Returns its
 * length. */
static inline size_t fixture_line(const char *model, const char *kernel_class, uint32_t vector,
                                  char *text) {
  const compute_target target = fixture_target(model);
  char identity[ENTRY_IDENTITY_BYTES];
  const tuning_entry entry = {
      entry_identity(&target, identity), kernel_class, {.vector = vector}, 12345};
  return entry_print(&entry, text);
}

/* An unused path in the test's scratch folder; from now on the store's file. */
static inline const char *fixture_file(const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, TEST_SCRATCH_DIR "/%s", name);
  unlink(path);
  assert_int_equal(setenv("COMPUTE_TUNING_FILE", path, 1), 0);
  return path;
}

/* Removes a file before it is written again: some file systems flush a file that is truncated to
 * 0. */
static inline void fixture_write(const char *path, const char *mode, const void *data,
                                 size_t bytes) {
  if (mode[0] == 'w') unlink(path);
  FILE *file = fopen(path, mode);
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static inline void fixture_append_entry(const char *path, const char *model,
                                        const char *kernel_class, uint32_t vector) {
  char line[ENTRY_LINE_BYTES];
  fixture_write(path, "ab", line, fixture_line(model, kernel_class, vector, line));
}

#endif
