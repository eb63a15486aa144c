/* SPDX-License-Identifier: MIT */
/* Makes the iterators of cases, runs them, and checks the results. */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch/misuse.h"
#include "support/harness/schedule.h"

/* ---- Errors -------------------------------------------------------------------------------- */

static pthread_mutex_t wrong_mutex = PTHREAD_MUTEX_INITIALIZER;
static char wrong_text[2 * MISUSE_TEXT];
static atomic_int_fast64_t complete, ended, refused;

static void write_down(const misuse_case *c, const misuse_run *run, const char *format,
                       va_list list) {
  char about[MISUSE_TEXT], words[MISUSE_TEXT - 8];
  misuse_describe(c, run, about);
  vsnprintf(words, sizeof words, format, list);
  pthread_mutex_lock(&wrong_mutex);
  if (wrong_text[0] == '\0') snprintf(wrong_text, sizeof wrong_text, "%s [%s]", words, about);
  pthread_mutex_unlock(&wrong_mutex);
}

void misuse_wrong(const misuse_run *run, const char *format, ...) {
  va_list list;
  va_start(list, format);
  write_down(run->of, run, format, list);
  va_end(list);
}

COMPUTE_PRINTF(2, 3) static void wrong_case(const misuse_case *c, const char *format, ...) {
  va_list list;
  va_start(list, format);
  write_down(c, NULL, format, list);
  va_end(list);
}

bool misuse_failure(char text[2 * MISUSE_TEXT]) {
  pthread_mutex_lock(&wrong_mutex);
  memcpy(text, wrong_text, sizeof wrong_text);
  pthread_mutex_unlock(&wrong_mutex);
  return text[0] != '\0';
}

misuse_counts misuse_count(void) {
  return (misuse_counts){atomic_load(&complete), atomic_load(&ended), atomic_load(&refused)};
}

/* ---- Statuses ------------------------------------------------------------------------------ */

static bool is_short_of_memory(compute_status s) {
  return s == COMPUTE_ERROR_OUT_OF_MEMORY || s == COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY;
}

/* Statuses that a failing allocation or driver may cause. */
static bool is_fault(compute_status s) {
  return is_short_of_memory(s) || s == COMPUTE_ERROR_DEVICE_LOST ||
         s == COMPUTE_ERROR_COMPILATION || s == COMPUTE_ERROR_LAUNCH ||
         s == COMPUTE_ERROR_TRANSFER || s == COMPUTE_ERROR_TIMEOUT ||
         s == COMPUTE_ERROR_UNSUPPORTED;
}

static bool is_of_builder(compute_status s) {
  return s == COMPUTE_ERROR_SHAPE || s == COMPUTE_ERROR_WRONG_GRAPH;
}

static void check_message(const misuse_run *run, compute_status status) {
  compute_error error;
  if (compute_error_get(run->round->context, &error) != COMPUTE_OK || error.status != status ||
      error.message[0] == '\0')
    misuse_wrong(run, "the run ended with %s, and the error is %s, '%s'",
                 compute_status_name(status), compute_status_name(error.status), error.message);
}

static bool may_end_with(const misuse_run *run, compute_status status) {
  for (int i = 0; i < run->trouble_count; i++)
    if (run->trouble[i].status == status) return true;
  return (run->round->faults && is_fault(status)) ||
         (run->of->builder_fails && is_of_builder(status));
}

/* For a single trouble that certainly happens, the status and the items are known. */
static void judge_single(const misuse_run *run, compute_status status, int64_t items) {
  const misuse_trouble *t = &run->trouble[0];
  const int64_t cut = atomic_load(&run->cut);
  switch (t->kind) {
  case SOURCE_ENDS:
    if (run->until_end) { /* a source that ends is only an error if another one has more */
      int ends = 0;
      for (int i = 0; i < run->of->inputs; i++)
        ends += run->source[i] == WAY_CALL || (run->source[i] == WAY_FILE && run->of->width > 0);
      if (ends == 1) {
        if (status != COMPUTE_OK || items != t->item)
          misuse_wrong(run, "%s after %lld items", compute_status_name(status), (long long)items);
        return;
      }
    }
    break;
  case SOURCE_FAILS:
  case SOURCE_LIES:
  case SINK_FAILS:
  case STEP_FAILS: break;
  case CANCEL_IN_SINK:
    if (cut == run->items) return;
    break;
  case CANCEL_IN_SOURCE:
  case CANCEL_IN_STEP:
    if (!atomic_load(&run->cancelled) || status == COMPUTE_ERROR_CANCELLED) return;
    misuse_wrong(run, "%s after a callback cancelled", compute_status_name(status));
    return;
  default: return;
  }
  const bool lies_last = t->kind == SOURCE_LIES && cut == INT64_MAX;
  if (lies_last) return; /* only a fully answered call has a false count */
  if (status != t->status || items != (cut == INT64_MAX ? t->item : cut))
    misuse_wrong(run, "%s after %lld items instead of %lld: %s", compute_status_name(status),
                 (long long)items, (long long)(cut == INT64_MAX ? t->item : cut),
                 compute_error_message(run->round->context));
}

/* ---- Results ------------------------------------------------------------------------------- */

static void check_items(const misuse_run *run, int port, int64_t items, const float *have) {
  for (int64_t i = 0; i < items; i++)
    for (int e = 0; e < run->of->width; e++)
      if (*have++ != misuse_output(run->of, port, i, e)) {
        misuse_wrong(run, "output %d, item %lld, element %d is %g", port, (long long)i, e,
                     (double)have[-1]);
        return;
      }
}

static void file_name(const misuse_run *run, bool source, int port, char *name, size_t bytes) {
  snprintf(name, bytes, "%s_%d_%d_%d", source ? "source" : "sink", (int)getpid(), run->of->worker,
           port);
}

static void check_file(const misuse_run *run, int port, int64_t items) {
  char name[64];
  file_name(run, false, port, name, sizeof name);
  const size_t bytes = (size_t)(items * run->of->width) * sizeof(float);
  float *have = malloc(bytes + 1);
  const int file = open(name, O_RDONLY | O_CLOEXEC);
  const ssize_t got = file >= 0 ? pread(file, have, bytes, (off_t)run->offset) : -1;
  if (items > 0 && got != (ssize_t)bytes)
    misuse_wrong(run, "sink %d has %lld of %lld bytes", port, (long long)got, (long long)bytes);
  else
    check_items(run, port, items, have);
  if (file >= 0) close(file);
  free(have);
}

static bool has_kind(const misuse_run *run, misuse_kind kind) {
  for (int i = 0; i < run->trouble_count; i++)
    if (run->trouble[i].kind == kind) return true;
  return false;
}

static void check_results(const misuse_run *run, const compute_batch_result *result,
                          compute_status status) {
  for (int i = 0; i < run->of->outputs; i++) {
    if (run->sink[i] == WAY_ARRAY) check_items(run, i, result->items, run->out[i]);
    if (run->sink[i] == WAY_FILE) check_file(run, i, result->items);
    if (run->sink[i] != WAY_CALL) continue;
    const int64_t next = run->sink_port[i].next;
    /* One sink may have accepted items that a later sink refused. */
    if (next < result->items || (next > result->items && !has_kind(run, SINK_FAILS)))
      misuse_wrong(run, "sink %d has %lld of %lld items", i, (long long)next,
                   (long long)result->items);
  }
  int64_t share = 0;
  compute_batch_device_info info;
  for (size_t i = 0; compute_batch_device_at(run->batch, i, &info) == COMPUTE_OK; i++)
    share += info.items;
  if (share != result->items && !has_kind(run, THREAD_RUNS))
    misuse_wrong(run, "the devices' shares are %lld of %lld items", (long long)share,
                 (long long)result->items);
  if (status != COMPUTE_OK) return;
  const bool early = run->until_end && has_kind(run, SOURCE_ENDS);
  if (result->items != run->items && !early)
    misuse_wrong(run, "COMPUTE_OK after %lld items", (long long)result->items);
}

static void judge(const misuse_run *run, compute_status status,
                  const compute_batch_result *result) {
  if (result->items < 0 || result->items > run->items || result->items > atomic_load(&run->cut))
    misuse_wrong(run, "%lld items are complete, with a failure at %lld", (long long)result->items,
                 (long long)atomic_load(&run->cut));
  if (status != COMPUTE_OK && !may_end_with(run, status))
    misuse_wrong(run, "%s without a reason: %s", compute_status_name(status),
                 compute_error_message(run->round->context));
  if (status != COMPUTE_OK) check_message(run, status);
  check_results(run, result, status); /* the calls in it change the error */
  if (run->endless && status == COMPUTE_OK) misuse_wrong(run, "an endless run has ended");
  if (run->trouble_count == 1 && !run->round->faults && !run->of->builder_fails)
    judge_single(run, status, result->items);
  atomic_fetch_add(status == COMPUTE_OK ? &complete : &ended, 1);
}

/* ---- Sources and sinks --------------------------------------------------------------------- */

/* A source's file ends, or fails, in the middle of an item. */
static bool make_source_file(const misuse_run *run, int port, const char *name) {
  const misuse_trouble *ends = misuse_find(run, SOURCE_ENDS, port);
  const misuse_trouble *fails = misuse_find(run, SOURCE_FAILS, port);
  int64_t items = run->items;
  if (ends && ends->item < items) items = ends->item;
  const bool half = fails && fails->item < items;
  if (half) items = fails->item;
  FILE *file = fopen(name, "wb");
  if (!file) return false;
  for (uint64_t i = 0; i < run->offset; i++) fputc('#', file);
  for (int64_t i = 0; i < items; i++)
    for (int e = 0; e < run->of->width; e++) {
      const float x = misuse_input(port, i, e);
      fwrite(&x, sizeof x, 1, file);
    }
  if (half) fputc('#', file);
  return fclose(file) == 0;
}

static void make_array(misuse_run *run, int port) {
  float *to = run->in[port] = malloc((size_t)(run->items * run->of->width) * sizeof *to + 1);
  for (int64_t i = 0; i < run->items; i++)
    for (int e = 0; e < run->of->width; e++) *to++ = misuse_input(port, i, e);
}

typedef char misuse_name[64];

static bool open_ports(misuse_run *run, compute_batch_source *sources, compute_batch_sink *sinks,
                       misuse_name *names) {
  const misuse_case *c = run->of;
  bool good = true;
  for (int i = 0; i < c->inputs; i++) {
    run->source_port[i] = (struct misuse_port){.run = run, .number = i};
    file_name(run, true, i, names[i], sizeof *names);
    if (run->source[i] == WAY_ARRAY) make_array(run, i);
    if (run->source[i] == WAY_ARRAY) sources[i].array = run->in[i];
    if (run->source[i] == WAY_FILE) {
      good = make_source_file(run, i, names[i]) && good;
      sources[i] = (compute_batch_source){.path = names[i], .offset = run->offset};
    }
    if (run->source[i] == WAY_CALL)
      sources[i] = (compute_batch_source){.read = misuse_read, .user = &run->source_port[i]};
  }
  for (int i = 0; i < c->outputs; i++) {
    char *name = names[MISUSE_PORTS + i];
    run->sink_port[i] = (struct misuse_port){.run = run, .number = i};
    file_name(run, false, i, name, sizeof *names);
    if (run->sink[i] == WAY_ARRAY)
      sinks[i].array = run->out[i] =
          malloc((size_t)(run->items * c->width) * sizeof *run->out[i] + 1);
    if (run->sink[i] == WAY_FILE) {
      unlink(name);
      sinks[i] = (compute_batch_sink){.path = name, .offset = run->offset};
    }
    if (run->sink[i] == WAY_CALL)
      sinks[i] = (compute_batch_sink){.write = misuse_write, .user = &run->sink_port[i]};
    if (run->sink[i] == WAY_DISCARD) sinks[i].discard = true;
  }
  return good;
}

static void close_ports(misuse_run *run) {
  misuse_name name;
  for (int i = 0; i < MISUSE_PORTS; i++) {
    for (int source = 0; source < 2; source++) {
      file_name(run, source, i, name, sizeof name);
      unlink(name);
    }
    free(run->in[i]);
    free(run->out[i]);
    run->in[i] = run->out[i] = NULL;
  }
}

/* ---- Another thread ------------------------------------------------------------------------ */

static void wait_a_while(int64_t microseconds) {
  if (microseconds > 0) nanosleep(&(struct timespec){0, microseconds * 1000}, NULL);
}

/* Waits until the run is visible to other threads. */
static void wait_for_run(const misuse_run *run) {
  compute_batch_device_info info;
  while (!atomic_load(&run->over) &&
         compute_batch_device_at(run->batch, 0, &info) != COMPUTE_ERROR_INVALID_STATE) {
  }
}

static void *cancel_from_thread(void *argument) {
  misuse_run *run = argument;
  const misuse_trouble *t = misuse_find(run, THREAD_CANCELS, 0);
  wait_a_while(t->item);
  if (t->item < 0) wait_for_run(run);
  for (int i = 0; i < 1 + (int)(run->seed % 3); i++) compute_batch_cancel(run->batch);
  return NULL;
}

/* A run of no items: it is refused, or in progress when the other run starts. */
static void *run_from_thread(void *argument) {
  misuse_run *run = argument;
  const misuse_trouble *t = misuse_find(run, THREAD_RUNS, 0);
  const compute_batch_source source = {.array = &wrong_text};
  const compute_batch_source sources[MISUSE_PORTS] = {source, source, source};
  const compute_batch_sink sinks[MISUSE_PORTS] = {
      {.discard = true}, {.discard = true}, {.discard = true}};
  wait_a_while(t->item);
  const compute_status s = compute_batch_run(
      run->batch, &(compute_batch_run_options){.sources = sources, .sinks = sinks}, NULL);
  if (s != COMPUTE_OK && s != COMPUTE_ERROR_INVALID_STATE && !may_end_with(run, s))
    misuse_wrong(run, "a run from another thread ended with %s", compute_status_name(s));
  return NULL;
}

/* ---- Invalid calls ------------------------------------------------------------------------- */

static compute_status broken_create(const misuse_round *round, compute_batch_options options,
                                    int64_t which, compute_batch **batch) {
  const compute_batch_port bad = {COMPUTE_F32, {.rank = COMPUTE_MAX_RANK}};
  const compute_batch_port negative = {COMPUTE_F32, {.rank = 1, .size = {-3}}};
  compute_device *none = NULL;
  switch (which) {
  case 0: options.batch = -1; break;
  case 1: options.slots = COMPUTE_BATCH_MAX_SLOTS + 1; break;
  case 2: options.output_count = 0; break;
  case 3: options.output_count = COMPUTE_BATCH_MAX_PORTS + 1; break;
  case 4: options.reserved[3] = 1; break;
  case 5: options.build = misuse_build, options.step = misuse_step; break;
  case 6: options.build = NULL, options.step = NULL; break;
  case 7: options.devices = &none, options.device_count = 1; break;
  case 8: options.device_count += 70; break;
  case 9: options.inputs = NULL, options.input_count = 2; break;
  case 10: options.inputs = &bad, options.input_count = 1; break;
  case 11: options.inputs = &negative, options.input_count = 1; break;
  case 12: options.batch = INT64_MAX; break;
  case 13: options.fallback = (compute_fallback)77; break;
  default: options.devices = NULL; break;
  }
  return compute_batch_create(round->context, &options, batch);
}

static void refuse_create(const misuse_round *round, const misuse_case *c,
                          const compute_batch_options *options) {
  compute_batch *batch = NULL;
  const int64_t which = (int64_t)(c->seed % 15);
  const compute_status s = broken_create(round, *options, which, &batch);
  /* Any number of items without bytes is valid. */
  if (which == 12 && c->width == 0) {
    compute_batch_release(batch);
    return;
  }
  if (s == COMPUTE_OK || batch) wrong_case(c, "option %lld is accepted", (long long)which);
  atomic_fetch_add(&refused, 1);
}

static void refuse_run(const misuse_run *run, compute_batch_run_options options) {
  compute_batch_sink sinks[MISUSE_PORTS] = {{0}};
  compute_batch_result result;
  switch (run->seed % 6) {
  case 0: options.items = -2; break;
  case 1: options.sinks = sinks; break;
  case 2: options.reserved[1] = 1; break;
  case 3: options.progress_seconds = -1; break;
  case 4: options.sinks = NULL; break;
  default: sinks[0].discard = true, sinks[0].path = "x"; options.sinks = sinks;
  }
  if (compute_batch_run(run->batch, &options, &result) == COMPUTE_OK || result.items != 0)
    misuse_wrong(run, "a run that makes no sense is accepted");
  atomic_fetch_add(&refused, 1);
}

/* ---- Runs ---------------------------------------------------------------------------------- */

static void run_once(misuse_run *run) {
  compute_batch_source sources[MISUSE_PORTS] = {{0}};
  compute_batch_sink sinks[MISUSE_PORTS] = {{0}};
  misuse_name names[2 * MISUSE_PORTS];
  pthread_t threads[2];
  int count = 0;
  if (!open_ports(run, sources, sinks, names)) misuse_wrong(run, "no scratch file");
  const compute_batch_run_options options = {.items = run->until_end ? COMPUTE_BATCH_UNTIL_END
                                                                     : run->items,
                                             .sources = sources,
                                             .sinks = sinks,
                                             .progress = run->progress ? misuse_progress : NULL,
                                             .progress_user = run,
                                             .progress_seconds = run->progress_seconds};
  if (run->seed % 8 == 1) refuse_run(run, options);
  if (misuse_find(run, THREAD_CANCELS, 0) &&
      pthread_create(&threads[count], NULL, cancel_from_thread, run) == 0)
    count++;
  if (misuse_find(run, THREAD_RUNS, 0) &&
      pthread_create(&threads[count], NULL, run_from_thread, run) == 0)
    count++;
  compute_batch_result result;
  misuse_arm_unlock(run, 0);
  const compute_status s = compute_batch_run(run->batch, &options, &result);
  schedule_call_at_unlock(0, NULL, NULL);
  atomic_store(&run->over, true);
  while (count > 0) pthread_join(threads[--count], NULL);
  judge(run, s, &result);
  close_ports(run);
}

static compute_status create(const misuse_round *round, const misuse_case *c, misuse_user *user,
                             compute_batch **batch) {
  compute_batch_port ports[MISUSE_PORTS];
  compute_device *devices[MISUSE_DEVICES];
  for (int i = 0; i < MISUSE_PORTS; i++)
    ports[i] = (compute_batch_port){COMPUTE_F32, COMPUTE_SHAPE(c->width)};
  for (int i = 0; i < c->device_count; i++) devices[i] = round->devices[c->device[i]];
  compute_batch_options options = {.build = c->by_step ? NULL : misuse_build,
                                   .step = c->by_step ? misuse_step : NULL,
                                   .user = user,
                                   .inputs = ports,
                                   .input_count = (size_t)c->inputs,
                                   .outputs = ports,
                                   .output_count = (size_t)c->outputs,
                                   .devices = devices,
                                   .device_count = (size_t)c->device_count,
                                   .batch = c->batch,
                                   .slots = c->slots,
                                   .memory = c->memory,
                                   .fallback = c->fallback};
  if (c->seed % 8 == 1) refuse_create(round, c, &options);
  if (c->all_devices) {
    options.devices = NULL;
    options.device_count = 0;
    options.flags = COMPUTE_BATCH_ALL_DEVICES;
  }
  return compute_batch_create(round->context, &options, batch);
}

void misuse_carry_out(const misuse_round *round, uint64_t seed, int worker) {
  test_random random = {seed};
  misuse_case c;
  misuse_run run;
  compute_batch *batch = NULL;
  misuse_draw_case(round, test_random_bits(&random), &c);
  c.worker = worker;
  misuse_user user = {.of = &c};
  const compute_status s = create(round, &c, &user, &batch);
  if (s != COMPUTE_OK) {
    if (!(round->faults && is_fault(s)) && !(c.builder_fails && is_of_builder(s)))
      wrong_case(&c, "no iterator: %s", compute_error_message(round->context));
    atomic_fetch_add(&refused, 1);
    return;
  }
  for (int i = 0; i < c.runs; i++) {
    misuse_draw_run(round, &c, test_random_bits(&random), &run);
    run.batch = batch;
    user.run = &run;
    run_once(&run);
  }
  compute_batch_release(batch);
}
