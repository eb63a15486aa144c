/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/long_run.h"
#include "support/harness/failing_allocator.h"
#include "support/reference/reference.h"
#include "support/harness/test.h"

enum { MOST_JOBS = 4, RESULTS = MOST_JOBS + 1 };

/* All objects of a task, so that there is one clean-up. */
typedef struct task {
  const run_round *round;
  const run_sample *sample;
  test_random random;
  compute_graph *graph[2];
  compute_plan *plan[2]; /* of the sample, and of its second result from its first */
  run_nodes nodes;
  compute_node second_in, second_out;
  compute_tensor *in[RANDOM_GRAPH_OPERANDS], *result[RESULTS];
  compute_queue *queue;
  compute_job *job[RESULTS];
  bool limited, cancels; /* an early end is right */
  bool plain;            /* a kernel whose build failed may stay on the CPU */
} task;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char first_failure[RUN_FAILURE_BYTES];
static atomic_bool failed;
static atomic_int_fast64_t right, refused;

void run_wrong(const run_sample *sample, const char *format, ...) {
  char words[RUN_FAILURE_BYTES - 80];
  va_list list;
  va_start(list, format);
  vsnprintf(words, sizeof words, format, list);
  va_end(list);
  pthread_mutex_lock(&mutex);
  if (!atomic_exchange(&failed, true))
    snprintf(first_failure, sizeof first_failure, "plan %llu, %s: %s",
             (unsigned long long)sample->request.seed, compute_dtype_name(sample->dtype), words);
  pthread_mutex_unlock(&mutex);
}

bool run_has_failed(void) {
  return atomic_load(&failed);
}

bool run_failure(char text[RUN_FAILURE_BYTES]) {
  pthread_mutex_lock(&mutex);
  memcpy(text, first_failure, sizeof first_failure);
  pthread_mutex_unlock(&mutex);
  return run_has_failed();
}

run_counts run_count(void) {
  return (run_counts){atomic_load(&right), atomic_load(&refused)};
}

static int choose(task *t, int options) {
  return (int)test_random_integer(&t->random, 0, options - 1);
}

/* ---- Statuses ------------------------------------------------------------------------------ */

/* Returns true if this round's faults can cause the status. */
static bool is_expected(const task *t, compute_status status) {
  const run_faults faults = t->round->faults;
  switch (status) {
  case COMPUTE_ERROR_CANCELLED: return t->cancels;
  case COMPUTE_ERROR_TIMEOUT: return t->limited || faults == FAULTS_DRIVER;
  case COMPUTE_ERROR_OUT_OF_MEMORY:
  case COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY: return faults != FAULTS_NONE;
  case COMPUTE_ERROR_DEVICE_LOST:
  case COMPUTE_ERROR_UNSUPPORTED:
  case COMPUTE_ERROR_COMPILATION:
  case COMPUTE_ERROR_LAUNCH:
  case COMPUTE_ERROR_TRANSFER: return faults == FAULTS_DRIVER;
  default: return false;
  }
}

/* Returns true if the task can go on after `what`. Otherwise the error must have a message and an
 * expected status. */
static bool passes(task *t, compute_status status, const char *what) {
  if (status == COMPUTE_OK) return true;
  compute_error error;
  compute_error_get(NULL, &error);
  if (error.status != status || error.message[0] == '\0')
    run_wrong(t->sample, "%s: %s without words of its own (%s \"%.200s\")", what,
              compute_status_name(status), compute_status_name(error.status), error.message);
  else if (!is_expected(t, status))
    run_wrong(t->sample, "%s: %s: %.300s", what, compute_status_name(status), error.message);
  atomic_fetch_add(&refused, 1);
  return false;
}

static bool built(task *t, const compute_graph *graph) {
  if (graph) return passes(t, compute_graph_status(graph), "building a graph");
  compute_error error;
  compute_error_get(NULL, &error);
  return passes(t, error.status ? error.status : COMPUTE_ERROR_INTERNAL, "compute_graph_create");
}

/* ---- Checking ------------------------------------------------------------------------------ */

static test_tolerance tolerance_of(compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_F64: return (test_tolerance){.atol = 1e-7, .rtol = 1e-7};
  case COMPUTE_F32: return (test_tolerance){.atol = 5e-2, .rtol = 1e-2};
  default: return (test_tolerance){0};
  }
}

static void check_result(task *t, const compute_tensor *result, int which) {
  const test_values *expected = &t->sample->expected[which];
  const test_tolerance tolerance = tolerance_of(t->sample->dtype);
  test_values actual = test_values_create(t->sample->dtype, expected->shape);
  if (passes(t, compute_tensor_read(result, actual.data, actual.bytes), "compute_tensor_read")) {
    for (int64_t i = 0; i < actual.count; i++) {
      double error;
      if (reference_matches(&actual, expected, i, &tolerance, &error)) continue;
      run_wrong(t->sample, "result %d, element %lld of %lld is %.9g, not %.9g", which, (long long)i,
                (long long)actual.count, test_values_get(&actual, i), test_values_get(expected, i));
      break;
    }
    atomic_fetch_add(&right, 1);
  }
  test_values_release(&actual);
}

static void check_inputs(task *t) {
  for (int i = 0; i < RANDOM_GRAPH_OPERANDS; i++) {
    const test_values *before = &t->sample->operand[i];
    test_values after = test_values_create(before->dtype, before->shape);
    if (compute_tensor_read(t->in[i], after.data, after.bytes) == COMPUTE_OK &&
        memcmp(after.data, before->data, before->bytes) != 0)
      run_wrong(t->sample, "input %d was changed", i);
    test_values_release(&after);
  }
}

/* ---- Preparing ----------------------------------------------------------------------------- */

run_nodes run_build(const run_sample *sample, compute_graph *graph) {
  run_nodes nodes;
  for (int i = 0; i < RANDOM_GRAPH_OPERANDS; i++)
    nodes.in[i] = compute_input(graph, sample->operand[i].dtype, sample->operand[i].shape);
  nodes.out[0] = random_graph_build(graph, nodes.in, &sample->request);
  nodes.out[1] = compute_neg(graph, nodes.out[0]);
  return nodes;
}

static compute_device *any_device(task *t) {
  return choose(t, 4) ? t->round->device : t->round->cpu;
}

static bool compile(task *t, int which) {
  const uint32_t flags = (choose(t, 3) ? 0 : COMPUTE_PLAN_NO_FUSION) |
                         (choose(t, 3) ? 0 : COMPUTE_PLAN_NO_SIMPLIFICATION) |
                         (choose(t, 4) ? 0 : COMPUTE_PLAN_AUTO);
  const compute_fallback fallback = (compute_fallback)choose(t, 4);
  const compute_plan_options options = {.device = any_device(t),
                                        .fallback = t->plain ? COMPUTE_FALLBACK_SILENT : fallback,
                                        .flags = flags,
                                        .name = "random"};
  const compute_node *out = which ? &t->second_out : &t->nodes.out[0];
  return passes(t, compute_compile(t->graph[which], out, 1, &options, &t->plan[which]),
                "compute_compile");
}

static bool prepare(task *t) {
  t->graph[0] = compute_graph_create(t->round->context);
  if (t->graph[0]) t->nodes = run_build(t->sample, t->graph[0]);
  if (!built(t, t->graph[0]) || !compile(t, 0)) return false;
  for (int i = 0; i < RANDOM_GRAPH_OPERANDS; i++) {
    const test_values *values = &t->sample->operand[i];
    if (!passes(t,
                compute_tensor_from_host(any_device(t), values->dtype, values->shape, values->data,
                                         &t->in[i]),
                "compute_tensor_from_host"))
      return false;
  }
  for (int i = 0; i < RESULTS; i++)
    if (!passes(t,
                compute_tensor_create(any_device(t), t->sample->dtype, t->sample->expected[0].shape,
                                      &t->result[i]),
                "compute_tensor_create"))
      return false;
  return true;
}

/* Compiles the plan that computes the second result from the first. */
static bool prepare_second(task *t) {
  t->graph[1] = compute_graph_create(t->round->context);
  if (t->graph[1]) {
    t->second_in = compute_input(t->graph[1], t->sample->dtype, t->sample->expected[0].shape);
    t->second_out = compute_neg(t->graph[1], t->second_in);
  }
  return built(t, t->graph[1]) && compile(t, 1);
}

static void release(task *t) {
  for (int i = 0; i < RESULTS; i++) compute_job_release(t->job[i]);
  compute_queue_release(t->queue);
  for (int i = 0; i < RANDOM_GRAPH_OPERANDS; i++) compute_tensor_release(t->in[i]);
  for (int i = 0; i < RESULTS; i++) compute_tensor_release(t->result[i]);
  for (int i = 0; i < 2; i++) {
    compute_plan_release(t->plan[i]);
    compute_graph_release(t->graph[i]);
  }
}

/* ---- Ways to run --------------------------------------------------------------------------- */

static size_t bind(const task *t, int result, compute_binding *bindings) {
  for (int i = 0; i < RANDOM_GRAPH_OPERANDS; i++)
    bindings[i] = (compute_binding){t->nodes.in[i], t->in[i]};
  bindings[RANDOM_GRAPH_OPERANDS] = (compute_binding){t->nodes.out[0], t->result[result]};
  return RANDOM_GRAPH_OPERANDS + 1;
}

/* On a device with events, an expired limit marks the device as lost for a while, also for other
 * threads. */
static double choose_limit(task *t) {
  const bool may = t->round->device == t->round->cpu || t->round->faults == FAULTS_DRIVER;
  if (!may || choose(t, 4)) return 0;
  t->limited = true;
  return test_random_uniform(&t->random, 1e-6, 2e-3);
}

static void run_directly(task *t) {
  compute_binding bindings[RANDOM_GRAPH_OPERANDS + 1];
  compute_run_options options = {.fallback = (compute_fallback)choose(t, 4),
                                 .time_limit = choose_limit(t)};
  compute_run_report report;
  if (choose(t, 2) && passes(t, compute_queue_create(compute_plan_device(t->plan[0]), &t->queue),
                             "compute_queue_create"))
    options.queue = t->queue;
  const size_t count = bind(t, 0, bindings);
  bool ok = passes(t, compute_run_with(t->plan[0], bindings, count, &options, &report),
                   "compute_run_with");
  if (options.queue) ok = passes(t, compute_queue_wait(t->queue), "compute_queue_wait") && ok;
  if (ok) check_result(t, t->result[0], 0);
}

/* Another job may wait for this job's end; the last job also reads its result. */
static void submit_all(task *t) {
  const int jobs = 1 + choose(t, MOST_JOBS);
  compute_binding bindings[RANDOM_GRAPH_OPERANDS + 1];
  for (int i = 0; i < jobs; i++) {
    const bool follows = i > 0 && t->job[i - 1] && choose(t, 2);
    const compute_submit_options options = {.after = follows ? &t->job[i - 1] : NULL,
                                            .after_count = follows,
                                            .fallback = (compute_fallback)choose(t, 4),
                                            .time_limit = choose_limit(t)};
    const size_t count = bind(t, i, bindings);
    passes(t, compute_submit(t->plan[0], bindings, count, &options, &t->job[i]), "compute_submit");
  }
  if (t->job[0] && t->plan[1]) {
    const compute_submit_options options = {.after = &t->job[0], .after_count = 1};
    passes(t,
           compute_submit(t->plan[1],
                          (compute_binding[]){{t->second_in, t->result[0]},
                                              {t->second_out, t->result[MOST_JOBS]}},
                          2, &options, &t->job[MOST_JOBS]),
           "compute_submit after a job");
  }
}

static void run_jobs(task *t) {
  if (choose(t, 2) && !prepare_second(t)) return;
  t->cancels = t->round->faults != FAULTS_NONE; /* jobs that depend on a failed job */
  submit_all(t);
  if (choose(t, 3) == 0) {
    compute_job *job = t->job[choose(t, RESULTS)];
    t->cancels = true;
    if (job) passes(t, compute_job_cancel(job), "compute_job_cancel");
  }
  if (t->limited) t->cancels = true;
  /* Abandons the jobs, unless the device will be recovered: then no job may be using it. */
  if (choose(t, 8) == 0 && t->round->faults != FAULTS_DRIVER) return;
  bool ok[RESULTS] = {false};
  for (int i = 0; i < RESULTS; i++)
    ok[i] = t->job[i] && passes(t, compute_job_wait(t->job[i], 0), "compute_job_wait");
  for (int i = 0; i < RESULTS; i++)
    if (ok[i]) check_result(t, t->result[i], i == MOST_JOBS);
}

static void run_batches(task *t) {
  int64_t items = 0;
  bool good = true;
  t->cancels = choose(t, 4) == 0;
  const bool ok =
      passes(t, run_batch(t->round, (compute_fallback)choose(t, 4), t->cancels, &items, &good),
             "compute_batch");
  if (!good) run_wrong(t->sample, "of %lld items of a batch run some are wrong", (long long)items);
  if (ok && items != RUN_BATCH_ITEMS)
    run_wrong(t->sample, "%lld items of a batch run are complete", (long long)items);
}

/* Orders a failure of host memory from now on, in any thread. */
static void arm(task *t) {
  if (t->round->faults != FAULTS_MEMORY) return;
  if (choose(t, 2))
    failing_allocator_arm(test_random_integer(&t->random, 1, 400), choose(t, 4) == 0);
  else
    failing_allocator_arm(0, false);
}

void run_task(const run_round *round, const run_sample *sample) {
  task t = {.round = round, .sample = sample, .random = {sample->request.seed ^ 0x5eed}};
  compute_error_clear(NULL);
  arm(&t);
  const int way = choose(&t, 8);
  if (way == 0) {
    run_batches(&t);
  } else if (prepare(&t)) {
    if (way < 4)
      run_directly(&t);
    else
      run_jobs(&t);
    /* Abandoned jobs still use the inputs: reading is allowed. */
    check_inputs(&t);
  }
  release(&t);
}

void run_plainly(const run_round *round, const run_sample *sample) {
  task t = {.round = round, .sample = sample, .random = {sample->request.seed}, .plain = true};
  compute_binding bindings[RANDOM_GRAPH_OPERANDS + 1];
  if (prepare(&t)) {
    const size_t count = bind(&t, 0, bindings);
    if (passes(&t, compute_run(t.plan[0], bindings, count, NULL), "compute_run afterwards"))
      check_result(&t, t.result[0], 0);
  }
  release(&t);
}
