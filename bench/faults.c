/* SPDX-License-Identifier: MIT */
/* Suite "faults": injected faults, how the library handles them, and how long that takes.
 *
 * All faults are injected from outside, as a program or its machine may cause them: too little
 * memory, failing sources and sinks, time limits, cancellation, source text that does not compile,
 * damaged files, invalid modules, devices that compute nothing. A record is correct if the library
 * kept the promises of its headers and the final result was correct. Its time runs from the fault
 * to that result, or to the status if the fault must be reported. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "faults.h"
#include "measure.h"

enum { BATCH_ITEMS = 4096, BATCH_WIDTH = 64, FAILING_ITEM = 1000 };

/* ---- A plan with a known result ------------------------------------------------------------ */

/* So small that rounding errors do not grow from one repetition to the next. */
static float fault_element(int64_t i) {
  return (float)(i * 37 % 29 - 14) * (1.0F / 1024);
}

/* h = tanh(h·x) + x, repeated `repeats` times so that it takes a while, then summed over rows. */
compute_status fault_model_create(compute_context *context, compute_device *device,
                                  compute_device *where, int repeats, compute_fallback fallback,
                                  uint32_t flags, fault_model *m) {
  static float values[FAULT_SIDE * FAULT_SIDE];
  *m = (fault_model){.repeats = repeats};
  for (int64_t i = 0; i < FAULT_SIDE * FAULT_SIDE; i++) values[i] = fault_element(i);
  compute_graph *g = compute_graph_create(context);
  if (!g) return COMPUTE_ERROR_OUT_OF_MEMORY;
  m->x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(FAULT_SIDE, FAULT_SIDE));
  compute_node h = m->x;
  for (int i = 0; i < repeats; i++)
    h = compute_add(g, compute_tanh(g, compute_matmul(g, h, m->x)), m->x);
  m->y = compute_sum(g, h, COMPUTE_AXES(1), false);
  const compute_plan_options options = {
      .device = device, .fallback = fallback, .flags = flags, .name = "fault"};
  compute_status s = compute_compile(g, &m->y, 1, &options, &m->plan);
  compute_graph_release(g);
  if (!s)
    s = compute_tensor_from_host(where, COMPUTE_F32, COMPUTE_SHAPE(FAULT_SIDE, FAULT_SIDE), values,
                                 &m->in);
  if (!s) s = compute_tensor_create(where, COMPUTE_F32, COMPUTE_SHAPE(FAULT_SIDE), &m->out);
  return s;
}

void fault_model_release(fault_model *m) {
  compute_plan_release(m->plan);
  compute_tensor_release(m->in);
  compute_tensor_release(m->out);
}

size_t fault_model_bind(const fault_model *m, compute_binding bindings[2]) {
  bindings[0] = (compute_binding){m->x, m->in};
  bindings[1] = (compute_binding){m->y, m->out};
  return 2;
}

compute_status fault_model_run(const fault_model *m, const compute_run_options *options) {
  compute_binding bindings[2];
  return compute_run_with(m->plan, bindings, fault_model_bind(m, bindings), options, NULL);
}

/* The same in double precision. */
static void evaluate(int repeats, double sums[FAULT_SIDE]) {
  static double h[FAULT_SIDE][FAULT_SIDE], next[FAULT_SIDE][FAULT_SIDE];
  for (int64_t i = 0; i < FAULT_SIDE * FAULT_SIDE; i++)
    h[i / FAULT_SIDE][i % FAULT_SIDE] = (double)fault_element(i);
  for (int r = 0; r < repeats; r++) {
    for (int i = 0; i < FAULT_SIDE; i++)
      for (int j = 0; j < FAULT_SIDE; j++) {
        double sum = 0;
        for (int k = 0; k < FAULT_SIDE; k++)
          sum += h[i][k] * (double)fault_element(k * FAULT_SIDE + j);
        next[i][j] = tanh(sum) + (double)fault_element(i * FAULT_SIDE + j);
      }
    memcpy(h, next, sizeof h);
  }
  for (int i = 0; i < FAULT_SIDE; i++) {
    sums[i] = 0;
    for (int j = 0; j < FAULT_SIDE; j++) sums[i] += h[i][j];
  }
}

bool fault_model_is_right(const fault_model *m) {
  float found[FAULT_SIDE];
  double expected[FAULT_SIDE];
  if (compute_tensor_read(m->out, found, sizeof found)) return false;
  evaluate(m->repeats, expected);
  for (int i = 0; i < FAULT_SIDE; i++)
    if (!(fabs((double)found[i] - expected[i]) <= 1e-5)) return false;
  return true;
}

bool fault_computes(compute_context *context, compute_device *device) {
  fault_model m;
  const bool right =
      !fault_model_create(context, device, device, 1, COMPUTE_FALLBACK_STRICT, 0, &m) &&
      !fault_model_run(&m, NULL) && fault_model_is_right(&m);
  fault_model_release(&m);
  return right;
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* Blocks of other sizes are in the cache and fill the budget. */
static bool cached_blocks_go(fault *f) {
  enum { BYTES = 8 << 20, MANY = 4 };
  compute_pool_statistics before, after;
  compute_tensor *tensor = NULL;
  bool ok = !compute_pool_trim(f->device, 0) && !compute_pool_query(f->device, &before) &&
            !compute_pool_set_budget(f->device, before.bytes_allocated + MANY * BYTES);
  for (int i = 0; ok && i < MANY; i++) { /* of sizes that cannot be reused for each other */
    compute_tensor *other = NULL;
    ok =
        !compute_tensor_create(f->device, COMPUTE_U8, COMPUTE_SHAPE(BYTES / 2 + (i << 18)), &other);
    compute_tensor_release(other);
  }
  const double start = clock_seconds();
  ok = ok &&
       !compute_tensor_create(f->device, COMPUTE_U8, COMPUTE_SHAPE(4 * BYTES - (1 << 20)), &tensor);
  f->seconds = clock_seconds() - start;
  ok = ok && !compute_pool_query(f->device, &after) && after.evictions > before.evictions;
  fault_says(f, "the pool was full of cached blocks; %d were released",
             ok ? (int)(after.evictions - before.evictions) : 0);
  compute_tensor_release(tensor);
  compute_pool_set_budget(f->device, 0);
  return ok && fault_computes(f->context, f->device);
}

/* The CPU has no fallback: the status must report the shortage, and with memory the plan must
 * work. */
static bool memory_is_short(fault *f) {
  fault_model m;
  bool ok = !fault_model_create(f->context, f->device, f->cpu, 3, COMPUTE_FALLBACK_SILENT, 0, &m) &&
            !fault_model_run(&m, NULL) && !compute_pool_trim(f->device, 0) &&
            !compute_pool_set_budget(f->device, 1);
  const double start = clock_seconds();
  const compute_status s = ok ? fault_model_run(&m, NULL) : COMPUTE_ERROR_INTERNAL;
  f->seconds = clock_seconds() - start;
  compute_pool_set_budget(f->device, 0);
  fault_says(f, "no device memory at all: %s", compute_status_name(s));
  if (f->device == f->cpu) {
    ok = ok && s == COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY;
    ok = ok && !fault_model_run(&m, NULL);
  } else {
    ok = ok && s == COMPUTE_OK && fault_counted(f).runs_on_cpu == 1;
  }
  ok = ok && fault_model_is_right(&m);
  fault_model_release(&m);
  return ok;
}

/* ---- Batches ------------------------------------------------------------------------------- */

typedef struct fault_stream {
  int64_t read_failure, write_failure; /* the item that fails; negative: none */
  int64_t written;
  bool wrong;
} fault_stream;

static void build_batch(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                        compute_node *outputs) {
  (void)user;
  (void)items;
  outputs[0] = compute_sum(graph, compute_mul(graph, inputs[0], inputs[0]), COMPUTE_AXES(1), false);
}

static compute_status read_batch(void *user, int64_t first, int64_t items, void *to,
                                 int64_t *count) {
  const fault_stream *s = user;
  float *x = to;
  for (int64_t i = 0; i < items * BATCH_WIDTH; i++) x[i] = (float)((first * BATCH_WIDTH + i) % 7);
  const bool fails = s->read_failure >= first && s->read_failure < first + items;
  *count = fails ? s->read_failure - first : items;
  return fails ? COMPUTE_ERROR_FILE : COMPUTE_OK;
}

static compute_status write_batch(void *user, int64_t first, int64_t items, const void *data) {
  fault_stream *s = user;
  const float *sums = data;
  if (s->write_failure >= first && s->write_failure < first + items) return COMPUTE_ERROR_FILE;
  for (int64_t i = 0; i < items; i++) {
    float sum = 0;
    for (int64_t j = 0; j < BATCH_WIDTH; j++) {
      const float x = (float)(((first + i) * BATCH_WIDTH + j) % 7);
      sum += x * x;
    }
    s->wrong |= sums[i] != sum;
  }
  s->written += items;
  return COMPUTE_OK;
}

static compute_status stream(fault *f, fault_stream *s, uint64_t budget, double *seconds,
                             compute_batch_result *result) {
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SHAPE(BATCH_WIDTH)};
  const compute_batch_source source = {.read = read_batch, .user = s};
  const compute_batch_sink sink = {.write = write_batch, .user = s};
  compute_batch *batch = NULL;
  const compute_batch_options options = {.build = build_batch,
                                         .inputs = &port,
                                         .input_count = 1,
                                         .output_count = 1,
                                         .devices = &f->device,
                                         .device_count = 1,
                                         .batch = budget ? BATCH_ITEMS : 256,
                                         .fallback = COMPUTE_FALLBACK_SILENT};
  compute_status status = compute_batch_create(f->context, &options, &batch);
  if (budget) {
    compute_pool_trim(f->device, 0);
    compute_pool_set_budget(f->device, budget);
  }
  const double start = clock_seconds();
  if (!status)
    status = compute_batch_run(
        batch,
        &(compute_batch_run_options){.items = BATCH_ITEMS, .sources = &source, .sinks = &sink},
        result);
  *seconds = clock_seconds() - start;
  if (budget) compute_pool_set_budget(f->device, 0);
  compute_batch_release(batch);
  return status;
}

static bool batches_are_halved(fault *f) {
  fault_stream s = {.read_failure = -1, .write_failure = -1};
  compute_batch_result result = {0};
  const compute_status status = stream(f, &s, 1 << 20, &f->seconds, &result);
  fault_says(f, "1 MiB for batches of 1 MiB: made smaller %lld times, %lld of %d items",
             (long long)result.halved, (long long)result.items, BATCH_ITEMS);
  return !status && result.halved > 0 && s.written == BATCH_ITEMS && !s.wrong;
}

/* Earlier items are delivered, and the next run completes. */
static bool ends_at(fault *f, fault_stream s, const char *what) {
  compute_batch_result result = {0};
  const compute_status status = stream(f, &s, 0, &f->seconds, &result);
  fault_says(f, "a %s failed at item %d: %s, %lld items complete", what, FAILING_ITEM,
             compute_status_name(status), (long long)result.items);
  const bool clean = status == COMPUTE_ERROR_FILE && result.items == s.written &&
                     result.items <= FAILING_ITEM && !s.wrong;
  fault_stream again = {.read_failure = -1, .write_failure = -1};
  double seconds;
  return clean && !stream(f, &again, 0, &seconds, &result) && again.written == BATCH_ITEMS &&
         !again.wrong;
}

static bool source_fails(fault *f) {
  return ends_at(f, (fault_stream){.read_failure = FAILING_ITEM, .write_failure = -1}, "source");
}

static bool sink_fails(fault *f) {
  return ends_at(f, (fault_stream){.read_failure = -1, .write_failure = FAILING_ITEM}, "sink");
}

/* ---- Time ---------------------------------------------------------------------------------- */

/* Waits for a kernel that had not ended in time. */
static bool is_back(compute_device *device) {
  const double start = clock_seconds();
  while (compute_device_recover(device))
    if (clock_seconds() - start > 10) return false;
  return true;
}

static bool time_limit_passes(fault *f) {
  fault_model m;
  bool ok =
      !fault_model_create(f->context, f->device, f->device, 40, COMPUTE_FALLBACK_SILENT, 0, &m) &&
      !fault_model_run(&m, NULL);
  const double start = clock_seconds();
  const compute_status s =
      ok ? fault_model_run(&m, &(compute_run_options){.time_limit = 1e-5}) : COMPUTE_ERROR_INTERNAL;
  f->seconds = clock_seconds() - start;
  fault_says(f, "10 us for a plan that takes longer: %s", compute_status_name(s));
  /* A device that seemed to hang may only now have delivered the tensors' contents. */
  ok = ok && (s == COMPUTE_ERROR_TIMEOUT || s == COMPUTE_ERROR_DEVICE_LOST) && is_back(f->device) &&
       !fault_model_run(&m, NULL) && fault_model_is_right(&m);
  fault_model_release(&m);
  return ok;
}

/* If the job has already ended, it is too late: try another one. */
static compute_status submit_and_cancel(fault *f, const fault_model *m) {
  compute_binding bindings[2];
  compute_status s = COMPUTE_OK;
  for (int i = 0; i < 50 && s == COMPUTE_OK; i++) {
    compute_job *job = NULL;
    s = compute_submit(m->plan, bindings, fault_model_bind(m, bindings), NULL, &job);
    const double start = clock_seconds();
    if (!s) s = compute_job_cancel(job);
    if (!s) s = compute_job_wait(job, 0);
    f->seconds = clock_seconds() - start;
    compute_job_release(job);
  }
  return s;
}

static bool job_is_cancelled(fault *f) {
  fault_model m;
  compute_status s =
      fault_model_create(f->context, f->device, f->device, 200, COMPUTE_FALLBACK_SILENT, 0, &m);
  if (!s) s = submit_and_cancel(f, &m);
  fault_says(f, "cancelled: %s", compute_status_name(s));
  const bool ok =
      s == COMPUTE_ERROR_CANCELLED && !fault_model_run(&m, NULL) && fault_model_is_right(&m);
  fault_model_release(&m);
  return ok;
}

/* ---- Cases --------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  bool (*provoke)(fault *f);
  bool once; /* independent of devices: not repeated for each */
} faults[] = {
    {"cached_blocks_go", cached_blocks_go, false},
    {"memory_is_short", memory_is_short, false},
    {"batches_are_halved", batches_are_halved, false},
    {"source_fails", source_fails, false},
    {"sink_fails", sink_fails, false},
    {"time_limit_passes", time_limit_passes, false},
    {"job_is_cancelled", job_is_cancelled, false},
    {"kernel_source_is_wrong", fault_kernel_source_is_wrong, false},
    {"cache_is_damaged", fault_cache_is_damaged, false},
    {"step_is_refused", fault_step_is_refused, true},
    {"module_is_none", fault_module_is_none, true},
};

/* "; 1 runs on the CPU": the library's own counts of fallbacks. */
static const char *fallbacks_text(const fault *f, char *text, size_t bytes) {
  const compute_fallback_statistics now = fault_counted(f);
  const struct {
    uint64_t count;
    const char *what;
  } counters[] = {
      {now.steps_on_cpu, "steps on the CPU"},
      {now.other_kernels, "other kernels"},
      {now.evictions, "evictions"},
      {now.smaller_batches, "smaller batches"},
      {now.runs_on_cpu, "runs on the CPU"},
      {now.devices_recovered, "devices recovered"},
      {now.split_transfers, "transfers in pieces"},
  };
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < sizeof counters / sizeof *counters && used < bytes; i++)
    if (counters[i].count)
      used += (size_t)snprintf(text + used, bytes - used, "%s%llu %s",
                               used ? ", " : "; counted: ", (unsigned long long)counters[i].count,
                               counters[i].what);
  return text;
}

static void run_on(bench_session *session, const char *suite, const bench_case *c, size_t which,
                   compute_device *cpu, const compute_device_info *info, compute_device *device) {
  bench_record record = bench_record_new(session, suite, c);
  fault f = {.context = session->context, .device = device, .cpu = cpu, .seconds = NAN};
  record.dtype = "";
  memcpy(record.device, info->name, sizeof record.device);
  compute_fallback_query(f.context, &f.before);
  compute_error_clear(NULL);
  const bool kept = faults[which].provoke(&f);
  bench_require(&record, kept, "not as documented: %.120s; %.80s", f.said,
                compute_error_message(NULL));
  record.ms = record.ms_p10 = record.ms_p90 = f.seconds * 1e3;
  char fallbacks[256];
  bench_note(session, "%s%s/%s on %s: %s%s", kept ? "expected: " : "", suite, c->name, info->name,
             f.said, fallbacks_text(&f, fallbacks, sizeof fallbacks));
  bench_record_add(session, &record);
}

static void run_fault(bench_session *session, const char *suite, const bench_case *c) {
  compute_device *cpu = NULL, *device;
  compute_device_info info;
  size_t which = 0;
  while (strcmp(faults[which].name, c->name) != 0) which++;
  if (compute_device_by_name(session->context, "cpu", &cpu)) {
    bench_note(session, "%s/%s skipped: there is no CPU device", suite, c->name);
    return;
  }
  for (size_t i = 0; (device = compute_device_at(session->context, i)) != NULL; i++)
    if (!compute_device_describe(device, &info) &&
        (info.capabilities & COMPUTE_CAPABILITY_COMPUTE) && (device == cpu || !faults[which].once))
      run_on(session, suite, c, which, cpu, &info, device);
}

#define CASE(name_)                                                                                \
  { .name = name_, .dtype = COMPUTE_F32, .when = BENCH_ALWAYS, .run = run_fault }

static const bench_case cases[] = {
    CASE("cached_blocks_go"),   CASE("memory_is_short"),
    CASE("batches_are_halved"), CASE("source_fails"),
    CASE("sink_fails"),         CASE("time_limit_passes"),
    CASE("job_is_cancelled"),   CASE("kernel_source_is_wrong"),
    CASE("cache_is_damaged"),   CASE("step_is_refused"),
    CASE("module_is_none"),
};

const bench_suite bench_suite_faults = {"faults",
                                        "faults injected on purpose, and how long recovery takes",
                                        cases, sizeof cases / sizeof *cases};
