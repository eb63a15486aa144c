/* SPDX-License-Identifier: MIT */
/* The measured process is this program again, since drivers and compilers start only once in a
 * process. Its caches are in a separate folder: empty for the cold start, filled by an earlier run
 * for the warm one. The process measures itself, from the start of main. */
#include "first_result.h"

#include <math.h>
#include <stdio.h>

#include "measure.h"
#include "process.h"

/* ---- The measured process ------------------------------------------------------------------ */

enum { ROWS = 32, INNER = 64, COLUMNS = 16 };

/* gelu(x·w + b) and its mean: a matrix product, an epilogue and a reduction. */
static compute_status run_once(const char *device) {
  float x[ROWS * INNER], w[INNER * COLUMNS], b[COLUMNS], mean = NAN;
  for (int i = 0; i < ROWS * INNER; i++) x[i] = (float)(i % 7) - 3;
  for (int i = 0; i < INNER * COLUMNS; i++) w[i] = (float)(i % 5) * 0.1f;
  for (int i = 0; i < COLUMNS; i++) b[i] = (float)i * 0.5f;
  compute_context *context;
  compute_status status = compute_open(&context, &(compute_open_options){.device = device});
  if (status) return status;
  compute_graph *g = compute_graph_create(context);
  compute_binding binding[4] = {
      {.node = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(ROWS, INNER))},
      {.node = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(INNER, COLUMNS))},
      {.node = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(COLUMNS))}};
  compute_node product = compute_matmul(g, binding[0].node, binding[1].node);
  compute_node hidden = compute_gelu(g, compute_add(g, product, binding[2].node));
  binding[3].node = compute_mean(g, hidden, COMPUTE_ALL_AXES, false);
  const void *values[3] = {x, w, b};
  const size_t bytes[3] = {sizeof x, sizeof w, sizeof b};
  compute_plan *plan = NULL;
  status = compute_compile(g, &binding[3].node, 1, NULL, &plan);
  for (int i = 0; i < 4 && !status; i++) {
    status = compute_plan_create_tensor(plan, binding[i].node, &binding[i].tensor);
    if (!status && i < 3) status = compute_tensor_write(binding[i].tensor, values[i], bytes[i]);
  }
  if (!status) status = compute_run(plan, binding, 4, NULL);
  if (!status) status = compute_tensor_read(binding[3].tensor, &mean, sizeof mean);
  if (!status && !isfinite(mean)) status = COMPUTE_ERROR_INTERNAL;
  return status; /* the process ends and frees everything */
}

int first_result_main(const char *device) {
  double start = clock_seconds();
  compute_status status = run_once(device);
  double ms = (clock_seconds() - start) * 1e3;
  if (status) {
    fprintf(stderr, "compute-bench: first result: %s\n", compute_error_message(NULL));
    return 1;
  }
  printf("%.6f\n", ms);
  return 0;
}

/* ---- The measuring process ----------------------------------------------------------------- */

/* Milliseconds, or NaN when the process failed; `said` then has the reason. */
static double start_process(const process_folder *folder, char *device, char *said, size_t bytes) {
  char program[4096], first[] = "--first-result", option[] = "--device", ours[64], pocl[64];
  double ms = NAN;
  char *words[] = {program, first, option, device, NULL};
  process_call call = {.words = words, .variables = {ours, pocl}, .folder = folder};
  snprintf(ours, sizeof ours, "COMPUTE_CACHE_DIR=%s/cache", folder->path);
  snprintf(pocl, sizeof pocl, "POCL_CACHE_DIR=%s/cache", folder->path);
  if (!process_find(NULL, program, sizeof program)) return NAN;
  if (!process_run(&call))
    snprintf(said, bytes, ": %s", call.said);
  else if (!process_numbers(folder, &ms, 1))
    ms = NAN;
  return ms;
}

void first_result_run(bench_session *session, const char *suite, const bench_case *c) {
  enum { TIMES = 5 };
  double ms[TIMES];
  bool warm = c->size[0] != 0;
  int times = session->options->quick ? 3 : TIMES;
  bench_record record = bench_record_new(session, suite, c);
  bool good = true;
  process_folder folder = {""};
  char said[204] = "";
  for (int i = 0; i < times && good; i++) {
    bool fresh = i == 0 || !warm;
    good = !fresh || process_folder_make(&folder);
    if (good && fresh && warm) (void)start_process(&folder, session->info.name, said, sizeof said);
    ms[i] = good ? start_process(&folder, session->info.name, said, sizeof said) : NAN;
    good = good && ms[i] > 0;
    if (!warm || !good || i == times - 1) process_folder_remove(&folder);
  }
  if (good) {
    bench_sort(ms, (size_t)times);
    record.ms = ms[times / 2];
    record.ms_p10 = ms[0];
    record.ms_p90 = ms[times - 1];
  }
  bench_require(&record, good, "the measured process failed%s", said);
  bench_record_add(session, &record);
}
