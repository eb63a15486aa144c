/* SPDX-License-Identifier: MIT */
/* Generated kernels. The core writes the source; this file builds it and keeps the launches in a
 * form close to the driver's.
 *
 * A version that does not build, or whose group size the driver refuses, is not an error yet:
 * preparation falls back to plainer versions and warns for each step. Only the failure of the last
 * version is an error, reported with the compiler's log. */
#include <stdio.h>
#include <string.h>

#include "common/builder.h"

static bool has_generator(const compute_services *services) {
  const size_t needed = offsetof(compute_services, tuning_lookup) + sizeof services->tuning_lookup;
  return services->struct_size >= needed && services->generate && services->generated_release &&
         services->generates && services->tuning_lookup;
}

bool builder_supports(const builder *b, const compute_kernel_descriptor *descriptor, char *reason,
                      size_t reason_bytes) {
  const compute_services *services = b->services;
  if (has_generator(services))
    return services->generates(services->host, b->target, descriptor, reason, reason_bytes);
  snprintf(reason, reason_bytes,
           "this libcompute is older than the %s module and cannot write kernels",
           b->driver->title);
  return false;
}

compute_tuning_source builder_tuning(const builder *b, const compute_kernel_descriptor *descriptor,
                                     compute_tuning *tuning) {
  const compute_services *services = b->services;
  *tuning = (compute_tuning){0};
  if (!has_generator(services)) return COMPUTE_TUNING_HEURISTIC;
  return services->tuning_lookup(services->host, b->target, descriptor, tuning);
}

static compute_status no_generator(const builder *b) {
  return b->services->fail(b->services->host, COMPUTE_ERROR_UNSUPPORTED, 0,
                           "run this step on the CPU", "%s: this libcompute cannot write kernels",
                           b->driver->module);
}

/* ---- From generated source to launches ----------------------------------------------------- */

static bool impossible(build_problem *problem, const char *words) {
  build_problem_set(problem, COMPUTE_ERROR_COMPILATION, 0, NULL, "the generator");
  build_problem_log(problem, words);
  return false;
}

/* Checks the limits that the rest of the module relies on. */
static bool launch_is_sound(const builder_kernel *kernel, const compute_generated_launch *launch) {
  if (launch->shape_bytes > BUILDER_SHAPE_BYTES || launch->buffer_count > BUILDER_BUFFERS ||
      launch->shape_bytes < 8 * launch->buffer_count)
    return false;
  for (uint32_t i = 0; i < launch->buffer_count; i++) {
    const uint32_t argument = launch->buffers[i].argument;
    if (argument == COMPUTE_GENERATED_FAULT) continue;
    if (argument == COMPUTE_GENERATED_WORKSPACE ? kernel->workspace_bytes == 0
                                                : argument >= kernel->operands)
      return false;
  }
  return true;
}

static bool launch_keep(builder *b, builder_kernel *kernel, const compute_generated_launch *launch,
                        build_problem *problem) {
  builder_launch *kept = &kernel->launches[kernel->launch_count];
  if (!launch_is_sound(kernel, launch)) return impossible(problem, "an invalid launch");
  kept->entry = builder_entry_get(b, kernel->program, launch->entry, problem);
  if (!kept->entry || !b->driver->launch_fits(b->device, launch, kept->entry, problem))
    return false;
  const size_t buffer_bytes = launch->buffer_count * sizeof *launch->buffers;
  const size_t shape_at = (buffer_bytes + 15) & ~(size_t)15;
  unsigned char *block = builder_allocate(b, shape_at + launch->shape_bytes + 1);
  if (!block)
    return build_problem_set(problem, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL, "a kernel's record");
  kept->buffers = (compute_generated_buffer *)(void *)block;
  kept->shape = block + shape_at;
  if (buffer_bytes) memcpy(kept->buffers, launch->buffers, buffer_bytes);
  if (launch->shape_bytes) memcpy(kept->shape, launch->shape, launch->shape_bytes);
  memset(kept->shape, 0, 8 * launch->buffer_count);
  kept->buffer_count = launch->buffer_count;
  kept->shape_bytes = launch->shape_bytes;
  kept->local_bytes = launch->local_bytes;
  for (int i = 0; i < 3; i++) {
    kept->group[i] = launch->group[i];
    kept->groups[i] = launch->groups[i];
  }
  for (uint32_t i = 0; i < kept->buffer_count; i++)
    kernel->faults |= kept->buffers[i].argument == COMPUTE_GENERATED_FAULT;
  kernel->launch_count++;
  return true;
}

static bool kernel_fill(builder *b, builder_kernel *kernel, const compute_generated *generated,
                        build_problem *problem) {
  snprintf(kernel->text, sizeof kernel->text, "%s %s", b->driver->title, generated->text);
  kernel->workspace_bytes = generated->workspace_bytes;
  if (generated->launch_count == 0) return true;
  if (!generated->source || generated->launch_count > COMPUTE_GENERATED_LAUNCHES)
    return impossible(problem, "launches without source");
  kernel->program = builder_get(b, generated->source, generated->source_bytes, b->options, problem);
  if (!kernel->program) return false;
  for (uint32_t i = 0; i < generated->launch_count; i++)
    if (!launch_keep(b, kernel, &generated->launches[i], problem)) return false;
  return true;
}

void builder_kernel_clear(builder *b, builder_kernel *kernel) {
  for (int i = 0; i < COMPUTE_GENERATED_LAUNCHES; i++) builder_free(b, kernel->launches[i].buffers);
  builder_release(b, kernel->program);
  *kernel = (builder_kernel){0};
}

/* Builds one version. A refusal by the generator is recorded as an error and leaves the problem's
 * status OK. A failed build fills in the problem and records nothing. */
static compute_status build(builder *b, const compute_target *target,
                            const compute_kernel_descriptor *descriptor,
                            const compute_tuning *tuning, build_problem *problem,
                            builder_kernel *kernel) {
  const compute_services *services = b->services;
  const compute_generated *generated = NULL;
  build_problem_set(problem, COMPUTE_OK, 0, NULL, NULL);
  const compute_status status =
      services->generate(services->host, target, descriptor, tuning, &generated);
  if (status != COMPUTE_OK) return status;
  *kernel = (builder_kernel){.operands = descriptor->input_count + descriptor->output_count};
  const bool built = kernel_fill(b, kernel, generated, problem);
  services->generated_release(services->host, generated);
  if (built) return COMPUTE_OK;
  builder_kernel_clear(b, kernel);
  return problem->status;
}

compute_status builder_kernel_build(builder *b, const compute_kernel_descriptor *descriptor,
                                    const compute_tuning *tuning, builder_kernel *kernel) {
  build_problem problem;
  if (!has_generator(b->services)) return no_generator(b);
  const compute_status status = build(b, b->target, descriptor, tuning, &problem, kernel);
  return problem.status == COMPUTE_OK ? status
                                      : builder_fail(b, &problem, "the kernel does not build");
}

/* ---- Plainer versions ---------------------------------------------------------------------- */

/* Fallback versions, from the tuner's choice to one that any device should run. Groups are at most
 * `group_limit` large. From the third row on, kernels avoid local memory where possible. */
static const struct {
  const char *name;
  uint32_t group_limit; /* 0: the device's limit */
  bool tuned, plain;
} versions[] = {
    {"the tuned version", 0, true, false},
    {"the default version", 0, false, false},
    {"a plain version in groups of 64", 64, false, true},
    {"a plain version in groups of 1", 1, false, true},
};

enum { VERSIONS = sizeof versions / sizeof *versions };

static void limit_target(compute_target *target, uint32_t group_limit) {
  if (group_limit == 0 || group_limit > target->group_limit) return;
  target->group_limit = group_limit;
  for (int i = 0; i < 3; i++) {
    if (target->group_limit_of[i] > group_limit) target->group_limit_of[i] = group_limit;
  }
}

static void step_down(const builder *b, size_t version, const build_problem *problem) {
  const char *name = problem->code_name;
  b->services->log(b->services->host, COMPUTE_LOG_WARNING, b->driver->module,
                   "device %u cannot run %s of a kernel (%s%s%s)%s%.600s; trying another one",
                   b->index, versions[version].name, problem->call, name ? ": " : "",
                   name ? name : "", problem->log[0] ? ": " : "", problem->log);
}

compute_status builder_kernel_fall_back(builder *b, const compute_kernel_descriptor *descriptor,
                                        const compute_tuning *tuning, builder_kernel *kernel) {
  build_problem problem, first = {.status = COMPUTE_OK};
  compute_status status = COMPUTE_OK;
  if (!has_generator(b->services)) return no_generator(b);
  for (size_t version = tuning ? 0 : 1; version < VERSIONS; version++) {
    compute_target target = *b->target;
    limit_target(&target, versions[version].group_limit);
    if (versions[version].plain) target.flags &= ~(uint32_t)COMPUTE_TARGET_FAST_LOCAL;
    status =
        build(b, &target, descriptor, versions[version].tuned ? tuning : NULL, &problem, kernel);
    if (status == COMPUTE_OK) return status;
    const bool refused_tuning = problem.status == COMPUTE_OK && versions[version].tuned &&
                                status == COMPUTE_ERROR_UNSUPPORTED;
    if (refused_tuning) {
      impossible(&problem, "these parameters do not fit");
    } else if (problem.status != COMPUTE_ERROR_COMPILATION) {
      break; /* a plainer version would not help */
    } else if (first.status == COMPUTE_OK) {
      first = problem;
    }
    if (version + 1 < VERSIONS) step_down(b, version, &problem);
  }
  /* Report the first failure: it is the one to fix, not the limits of a plain version. */
  if (problem.status != COMPUTE_OK && problem.status != COMPUTE_ERROR_COMPILATION) first = problem;
  return first.status == COMPUTE_OK ? status
                                    : builder_fail(b, &first, "no version of the kernel builds");
}

/* ---- Faults -------------------------------------------------------------------------------- */

uint32_t fault_take(fault_table *table, uint32_t label) {
  uint32_t record = 1;
  if (table->used == 0) table->used = 1; /* the shared record */
  while (record < table->used && table->labels[record] != label) record++;
  if (label == 0 || record == FAULT_RECORDS) return 0;
  if (record == table->used) table->labels[table->used++] = label;
  return record * COMPUTE_GENERATED_FAULT_WORDS;
}

static int64_t join(const int32_t *halves) {
  return (int64_t)((uint64_t)(uint32_t)halves[1] << 32 | (uint32_t)halves[0]);
}

compute_status fault_report(fault_table *table, const compute_services *services,
                            const int32_t *words, const char *device) {
  const uint32_t used = table->used;
  table->used = 0;
  for (uint32_t i = 0; i < used; i++) {
    const int32_t *record = words + (size_t)i * COMPUTE_GENERATED_FAULT_WORDS;
    if (record[0] == 0) continue;
    if (services->struct_size >=
            offsetof(compute_services, fail_index) + sizeof services->fail_index &&
        services->fail_index)
      return services->fail_index(services->host, i > 0 ? table->labels[i] : 0, join(record + 2),
                                  join(record + 4));
    return services->fail(services->host, COMPUTE_ERROR_INDEX, 0,
                          "check the values of index tensors before the call",
                          "%s: an index in the data is out of range", device);
  }
  return COMPUTE_OK;
}

/* ---- Matrices for vendor libraries --------------------------------------------------------- */

bool builder_matrix_lies(int64_t rows, int64_t columns, const int64_t stride[2],
                         bool prefer_columns, bool *by_columns, int64_t *leading) {
  for (int attempt = 0; attempt < 2; attempt++) {
    const bool columnwise = prefer_columns != (attempt == 1);
    const int64_t inner = columnwise ? rows : columns, outer = columnwise ? columns : rows;
    const int64_t inner_stride = stride[columnwise ? 0 : 1];
    const int64_t outer_stride = outer > 1 ? stride[columnwise ? 1 : 0] : inner;
    if ((inner > 1 && inner_stride != 1) || outer_stride < inner) continue;
    *by_columns = columnwise;
    *leading = outer_stride;
    return true;
  }
  return false;
}
