/* SPDX-License-Identifier: MIT */
/* The autotuner for vendor libraries: it times candidates for one computation, because a library's
 * order is only an estimate and its first choice is often not the fastest. Each candidate runs on
 * scratch memory and a private stream, between two events, several times in a row; its best time
 * counts. A failure here never fails a kernel: a candidate that cannot be timed leaves the order
 * unchanged. */
#include "cuda.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  ROUNDS = 3,
  MOST_REPETITIONS = 20,
  LARGEST_PART = 4, /* at most 1/LARGEST_PART of the free memory */
  ALIGNMENT = 256,
  PATTERN = 0x3f803f80 /* about 1 in f32 and in bf16, about 1.9 in f16 */
};

#define LARGEST_SCRATCH ((uint64_t)4 << 30)
static const float time_for_round = 1.0F; /* milliseconds */

/* The driver objects for timing. */
typedef struct ground {
  cuda_stream stream;
  cuda_event first, last;
  cuda_pointer memory;
  cuda_pointer operands[COMPUTE_MAX_OPERANDS];
  cuda_pointer workspace;
  cuda_expected *expected; /* NULL: no verification */
} ground;

static uint64_t padded(uint64_t bytes) {
  return (bytes + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
}

static void clear(cuda_device *device, const cuda_autotune *a, ground *g) {
  const cuda_driver *driver = device->driver;
  cuda_result code = CUDA_OK;
  cuda_verify_end(device, g->expected);
  if (!cuda_enter_to_release(device)) return;
  if (g->stream) code = driver->stream_wait(g->stream);
  if (g->first && !cuda_is_fatal(code)) code = driver->event_destroy(g->first);
  if (g->last && !cuda_is_fatal(code)) code = driver->event_destroy(g->last);
  if (g->stream && !a->stream && !cuda_is_fatal(code)) code = driver->stream_destroy(g->stream);
  if (g->memory && !cuda_is_fatal(code)) code = driver->memory_free(g->memory);
  cuda_notice(device, code, "releasing the memory of an autotuning");
}

/* Scratch memory comes directly from the driver, so that the pools keep nothing of it. */
static bool prepare(cuda_device *device, const cuda_autotune *a, ground *g) {
  const cuda_driver *driver = device->driver;
  size_t available = 0, total = 0;
  uint64_t bytes = padded(a->workspace_bytes);
  for (int i = 0; i < COMPUTE_MAX_OPERANDS; i++) bytes += padded(a->operand_bytes[i]);
  cuda_result code = driver->memory_info(&available, &total);
  if (code == CUDA_OK && (bytes > LARGEST_SCRATCH || bytes > available / LARGEST_PART))
    return false;
  if (code == CUDA_OK) code = driver->memory_allocate(&g->memory, bytes + ALIGNMENT);
  if (code != CUDA_OK) g->memory = 0;
  g->stream = a->stream;
  if (code == CUDA_OK && !g->stream)
    code = driver->stream_create(&g->stream, CUDA_STREAM_NON_BLOCKING);
  if (code == CUDA_OK) code = driver->event_create(&g->first, CUDA_EVENT_DEFAULT);
  if (code == CUDA_OK) code = driver->event_create(&g->last, CUDA_EVENT_DEFAULT);
  if (code == CUDA_OK) code = driver->set_words(g->memory, PATTERN, bytes / 4, g->stream);
  cuda_notice(device, code, "timing a library's proposals");
  cuda_pointer at = g->memory;
  for (int i = 0; i < COMPUTE_MAX_OPERANDS; i++) {
    g->operands[i] = a->operand_bytes[i] ? at : 0;
    at += padded(a->operand_bytes[i]);
  }
  g->workspace = at;
  if (code == CUDA_OK && a->verify)
    g->expected = cuda_verify_begin(device, a->verify, g->operands, a->operand_bytes, g->stream);
  return code == CUDA_OK;
}

/* Time of `repetitions` runs in milliseconds; negative if they fail, or if timing is impossible. */
static float measure(cuda_device *device, const cuda_autotune *a, const ground *g, uint32_t which,
                     int repetitions, bool *ran) {
  const cuda_driver *driver = device->driver;
  float milliseconds = -1;
  cuda_result code = driver->event_record(g->first, g->stream);
  *ran = true;
  for (int i = 0; i < repetitions && code == CUDA_OK && *ran; i++)
    *ran = a->submit(a->argument, which, g->operands, g->workspace, g->stream);
  if (!*ran) return -1;
  if (code == CUDA_OK) code = driver->event_record(g->last, g->stream);
  if (code == CUDA_OK) code = driver->event_wait(g->last);
  if (code == CUDA_OK) code = driver->event_elapsed(&milliseconds, g->first, g->last);
  cuda_notice(device, code, "timing a library's proposals");
  return code == CUDA_OK ? milliseconds : -1;
}

/* Time of one run in milliseconds, the best of a few rounds; negative if unknown. The first run
 * loads the kernel; the second determines the number of runs per round. `ran`: it can be
 * submitted. */
static float time_one(cuda_device *device, const cuda_autotune *a, const ground *g, uint32_t which,
                      bool *ran) {
  float best = measure(device, a, g, which, 1, ran);
  if (best >= 0) best = measure(device, a, g, which, 1, ran);
  if (best < 0 || best > 10 * time_for_round) return best;
  const float repetitions = best > 0 ? time_for_round / best : MOST_REPETITIONS;
  const int count = repetitions >= MOST_REPETITIONS ? MOST_REPETITIONS
                    : repetitions < 1               ? 1
                                                    : (int)repetitions;
  for (int round = 0; round < ROUNDS; round++) {
    const float time = measure(device, a, g, which, count, ran) / (float)count;
    if (time < 0) return -1;
    if (round == 0 || time < best) best = time;
  }
  return best;
}

/* The candidate's error relative to the allowed error: it passes up to 1. `ran`: it can be
 * submitted. */
static double verify(cuda_device *device, const cuda_autotune *a, const ground *g, uint32_t which,
                     bool *ran) {
  const cuda_pointer result = g->operands[2];
  *ran = true;
  if (!g->expected) return 0;
  if (!cuda_verify_prepare(device, result, a->operand_bytes[2], g->stream)) return (double)INFINITY;
  *ran = a->submit(a->argument, which, g->operands, g->workspace, g->stream);
  return *ran ? cuda_verify_error(device, a->verify, g->expected, result, g->stream)
              : (double)INFINITY;
}

/* One line for the log: the candidates and their times. */
typedef struct report {
  char text[1000];
  size_t length;
} report;

/* `error`: greater than 1 (or not a number) if the candidate failed verification. */
static void note(const cuda_autotune *a, uint32_t which, double error, float time, report *r) {
  const size_t room = sizeof r->text - r->length;
  char name[160], result[64] = "does not run";
  if (!isfinite(error))
    snprintf(result, sizeof result, "is left out: its results are not finite, or not known");
  else if (error > 1)
    snprintf(result, sizeof result, "is left out as inexact (%.2f times what is allowed)", error);
  if (time >= 0) snprintf(result, sizeof result, "%.1f us", (double)time * 1e3);
  a->name(a->argument, which, name, sizeof name);
  const int added =
      snprintf(r->text + r->length, room, "%s%s %s", r->length ? ", " : "", name, result);
  if (added > 0) r->length += (size_t)added < room ? (size_t)added : room - 1;
}

int32_t cuda_autotune_run(cuda_device *device, const cuda_autotune *a, bool *timed) {
  ground g = {0};
  report r = {.length = 0};
  int32_t best = -1, first = -1;
  float best_time = 0;
  *timed = false;
  if (a->count == 0) return -1;
  if (!prepare(device, a, &g)) {
    clear(device, a, &g);
    return 0;
  }
  for (uint32_t i = 0; i < a->count; i++) {
    bool ran;
    const double error = verify(device, a, &g, i, &ran);
    const bool passed = error <= 1;
    const float time = passed ? time_one(device, a, &g, i, &ran) : -1;
    if (a->name) note(a, i, ran ? error : 0, time, &r);
    if (passed && ran && first < 0) first = (int32_t)i;
    if (time < 0 || (best >= 0 && time >= best_time * (1 - a->lead))) continue;
    best = (int32_t)i;
    best_time = time;
  }
  clear(device, a, &g);
  if (a->name)
    device->services->log(device->services->host, COMPUTE_LOG_INFO, "cuda",
                          "cuda:%u: timed for a %s: %s", device->index, a->what, r.text);
  *timed = best >= 0;
  return *timed ? best : first;
}

/* ---- Stored winners ------------------------------------------------------------------------ */

enum { DEVICE_PARTS = 3 };

static uint32_t key_make(const cuda_device *device, const compute_cache_part *key,
                         uint32_t key_parts, compute_cache_part *parts) {
  const compute_target *t = &device->target;
  const char *const texts[DEVICE_PARTS] = {t->model, t->family, t->driver};
  memcpy(parts, key, key_parts * sizeof *key);
  for (int i = 0; i < DEVICE_PARTS; i++)
    parts[key_parts + (uint32_t)i] = (compute_cache_part){texts[i], strlen(texts[i])};
  return key_parts + DEVICE_PARTS;
}

int32_t cuda_autotune_recall(const cuda_device *device, const compute_cache_part *key,
                             uint32_t key_parts, int32_t count) {
  const compute_services *services = device->services;
  compute_cache_part parts[CUDA_AUTOTUNE_KEY + DEVICE_PARTS];
  int32_t known[2] = {0, -1};
  size_t bytes = 0;
  if (!services->cache_load) return -1;
  const uint32_t all = key_make(device, key, key_parts, parts);
  void *stored = services->cache_load(services->host, parts, all, &bytes);
  if (stored && bytes == sizeof known) memcpy(known, stored, sizeof known);
  if (stored) services->release(services->host, stored);
  return known[0] == count && known[1] >= 0 && known[1] < count ? known[1] : -1;
}

void cuda_autotune_remember(const cuda_device *device, const compute_cache_part *key,
                            uint32_t key_parts, int32_t count, int32_t winner) {
  const compute_services *services = device->services;
  compute_cache_part parts[CUDA_AUTOTUNE_KEY + DEVICE_PARTS];
  const int32_t known[2] = {count, winner};
  if (!services->cache_store) return;
  const uint32_t all = key_make(device, key, key_parts, parts);
  services->cache_store(services->host, parts, all, known, sizeof known);
}
