/* SPDX-License-Identifier: MIT */
/* Collects sources and distributes them over processes. */
#include "support/samples/sample_sources.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/generate/generate.h"

enum { MOST_WORKERS = 8, MOST_FAILURES = 100, NOTHING_THERE = 101, FIRST_MATRIX_ARCH = 80 };
enum { WARPGROUP_ARCH = 90 };

static uint64_t hash_of(const char *text) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  return hash;
}

static sample_source *known(const sample_sources *all, const char *text, uint64_t hash) {
  for (size_t i = 0; i < all->count; i++)
    if (all->sources[i].hash == hash && !strcmp(all->sources[i].text, text))
      return &all->sources[i];
  return NULL;
}

static bool grow(sample_sources *all) {
  if (all->count < all->capacity) return true;
  const size_t capacity = all->capacity ? 2 * all->capacity : 512;
  sample_source *larger = realloc(all->sources, capacity * sizeof *larger);
  if (!larger) return false;
  all->sources = larger;
  all->capacity = capacity;
  return true;
}

static void add(sample_sources *all, const sample_kernel *s, const compute_target *target,
                const char *name, uint32_t way) {
  const bool matrix_cores = (target->flags & COMPUTE_TARGET_MATRIX_CORES) != 0;
  const uint32_t width = target->type == COMPUTE_DEVICE_CPU ? target->vector_width : 0;
  const compute_generated *generated = NULL;
  char reason[200];
  if (generate_kernel(target, &s->descriptor, way ? &s->tuning[way - 1] : NULL, &generated, reason,
                      sizeof reason))
    return;
  const uint64_t hash = generated->source ? hash_of(generated->source) : 0;
  sample_source *source = generated->source ? known(all, generated->source, hash) : NULL;
  if (source && !matrix_cores) source->least_arch = 0;
  if (source && width < source->vector_width) source->vector_width = width;
  if (generated->source && !source && grow(all)) {
    source = &all->sources[all->count];
    *source = (sample_source){.hash = hash,
                              .text = strdup(generated->source),
                              .f64 = sample_kernel_uses_f64(s),
                              .vector_width = width,
                              .least_arch = matrix_cores ? FIRST_MATRIX_ARCH : 0};
    if (strstr(source->text, "\nWARPGROUP_UNIT"))
      source->least_arch = source->only_arch = WARPGROUP_ARCH;
    snprintf(source->name, sizeof source->name, "%s on %s, way %u", s->name, name, way);
    if (source->text) all->count++;
  }
  generate_release(generated);
}

static void visit(const sample_kernel *s, void *user) {
  const sample_sources *all = user;
  if (!strstr(s->name, all->part)) return;
  /* OpenCL compilers are slow. Convolutions are similar to each other, and so are the kinds from
   * WINDOW on. Of the convolutions without tunings and of these kinds, take a third. */
  const compute_kernel_kind kind = s->descriptor.kind;
  const bool alike =
      (kind == COMPUTE_KERNEL_CONV && s->tuning_count == 0) || kind >= COMPUTE_KERNEL_WINDOW;
  if (all->dialect == COMPUTE_DIALECT_OPENCL && alike && strlen(s->name) % 3 != 0) return;
  for (int target = 0; target < TARGET_COUNT; target++) {
    if (all->dialect == COMPUTE_DIALECT_CUDA && target != TARGET_GPU) continue;
    const char *name = sample_target_name((sample_target)target);
    const compute_target whole = sample_target_create((sample_target)target, all->dialect);
    compute_target less = whole;   /* without matrix cores, or with vectors of half the size */
    compute_target middle = whole; /* without warpgroup matrix instructions */
    middle.flags &= ~(uint32_t)COMPUTE_TARGET_WARPGROUP_MATRIX;
    less.flags = middle.flags & ~(uint32_t)COMPUTE_TARGET_MATRIX_CORES;
    if (whole.type == COMPUTE_DEVICE_CPU) less.vector_width /= 2;
    for (uint32_t way = 0; way <= s->tuning_count; way++) {
      /* First the source for every device, then the sources that add features. */
      add(user, s, &less, name, way);
      if (all->dialect == COMPUTE_DIALECT_CUDA) add(user, s, &middle, name, way);
      if (whole.type == COMPUTE_DEVICE_CPU || all->dialect == COMPUTE_DIALECT_CUDA)
        add(user, s, &whole, name, way);
    }
  }
}

sample_sources sample_sources_create(compute_dialect dialect, const char *part) {
  sample_sources all = {.dialect = dialect, .part = part};
  sample_kernels_visit(visit, &all);
  return all;
}

void sample_sources_release(sample_sources *sources) {
  for (size_t i = 0; i < sources->count; i++) free(sources->sources[i].text);
  free(sources->sources);
  *sources = (sample_sources){0};
}

int sample_sources_in_parallel(const sample_sources *sources,
                               int (*compile)(const sample_sources *sources, int worker,
                                              int workers)) {
  const int64_t processors = sysconf(_SC_NPROCESSORS_ONLN);
  const int workers = processors < 1              ? 1
                      : processors > MOST_WORKERS ? MOST_WORKERS
                                                  : (int)processors;
  pid_t pids[MOST_WORKERS];
  int failures = 0;
  fflush(NULL);
  for (int w = 0; w < workers; w++) {
    pids[w] = fork();
    if (pids[w] != 0) continue;
    const int failed = compile(sources, w, workers);
    fflush(NULL);
    _exit(failed < 0 ? NOTHING_THERE : failed > MOST_FAILURES ? MOST_FAILURES : failed);
  }
  for (int w = 0; w < workers; w++) {
    int status = 0;
    if (pids[w] < 0 || waitpid(pids[w], &status, 0) < 0 || !WIFEXITED(status)) {
      fprintf(stderr, "worker %d was lost\n", w);
      if (failures >= 0) failures++;
    } else if (WEXITSTATUS(status) == NOTHING_THERE) {
      failures = -1;
    } else if (failures >= 0) {
      failures += WEXITSTATUS(status);
    }
  }
  return failures;
}
