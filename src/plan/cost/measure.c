/* SPDX-License-Identifier: MIT */
/* Measures the curves of a device. A point is the minimum of a few timings, since other load only
 * adds time. Small kernels are timed many at a time, which excludes the wait from their cost. */
#include "plan/cost/costs.h"

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "core/device/kernel_cache.h"
#include "core/device/transfer.h"
#include "plan/cost/probe.h"

/* Sizes beyond the caches of a CPU, and of a GPU. */
enum {
  CPU_ELEMENTS = 4194304,
  OTHER_ELEMENTS = 16777216,
  LEAST_ELEMENTS = 1048576,
  MOST_REPETITIONS = 64
};
enum { LEAST_SAMPLES = 4, MOST_SAMPLES = 8 };

/* The target duration of one timing; a point takes a few timings. */
static const double SAMPLE_SECONDS = 0.4e-3, POINT_SECONDS = 2.5e-3, LONGEST_POINT_SECONDS = 40e-3;

typedef struct session {
  compute_device *device;
  compute_queue *queue;
  void *host;                                 /* source of uploads, and target of downloads */
  compute_memory input[PROBE_INPUTS], output; /* allocated directly: the pool would keep them */
  uint64_t elements;                          /* f32 elements in each of these */
  probe_data held[PROBE_INPUTS];
  uint64_t held_elements[PROBE_INPUTS];
  double deadline;
  device_costs *costs;
} session;

static bool is_late(const session *s) {
  return clock_seconds() > s->deadline;
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Fills in numbers between 1 and 2 with random signs, or indices below the count. */
static void fill(void *data, probe_data kind, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t r = random_mix(i) >> 33, sign = r & 1;
    switch (kind) {
    case PROBE_F32:
      ((uint32_t *)data)[i] = (uint32_t)(sign << 31) | 0x3f800000u | (uint32_t)(r & 0x7fffff);
      break;
    case PROBE_F64:
      ((uint64_t *)data)[i] = sign << 63 | UINT64_C(0x3ff0000000000000) | r << 20;
      break;
    case PROBE_F16: ((uint16_t *)data)[i] = (uint16_t)(sign << 15 | 0x3c00u | (r & 0x3ff)); break;
    case PROBE_BF16: ((uint16_t *)data)[i] = (uint16_t)(sign << 15 | 0x3f80u | (r & 0x7f)); break;
    case PROBE_INDEX: ((int32_t *)data)[i] = (int32_t)(r % count); break;
    }
  }
}

static size_t element_bytes(probe_data kind) {
  return kind == PROBE_F64 ? 8 : kind == PROBE_F16 || kind == PROBE_BF16 ? 2 : 4;
}

static compute_status wait_after(const session *s, compute_status submitted) {
  compute_status waited = compute_queue_wait(s->queue);
  return submitted ? submitted : waited;
}

static compute_status upload(const session *s, uint32_t input, uint64_t bytes) {
  const compute_argument to = {&s->input[input], 0};
  return wait_after(s, queue_upload(s->queue, &to, s->host, bytes, "measuring costs"));
}

static compute_status download(const session *s, uint64_t bytes) {
  const compute_argument from = {&s->output, 0};
  return wait_after(s, queue_download(s->queue, s->host, &from, bytes, "measuring costs"));
}

/* Creates and uploads only the probe's inputs, and only if they are not on the device already. */
static compute_status provide(session *s, const probe *p) {
  for (uint32_t i = 0; i < p->descriptor.input_count; i++) {
    bool enough = p->data[i] == PROBE_INDEX ? p->elements[i] == s->held_elements[i]
                                            : p->elements[i] <= s->held_elements[i];
    if (p->data[i] == s->held[i] && enough) continue;
    fill(s->host, p->data[i], p->elements[i]);
    s->held_elements[i] = 0;
    compute_status status = upload(s, i, p->elements[i] * element_bytes(p->data[i]));
    if (status) return status;
    s->held[i] = p->data[i];
    s->held_elements[i] = p->elements[i];
  }
  return COMPUTE_OK;
}

/* ---- The session ----------------------------------------------------------------------------- */

static compute_status allocate(const session *s, compute_memory *memory) {
  return s->device->backend->memory_allocate(s->device->handle, s->elements * 4, memory);
}

static void release(const session *s, compute_memory *memory) {
  if (memory->bytes > 0 && !device_hangs(s->device))
    s->device->backend->memory_release(s->device->handle, memory);
}

static compute_status open_session(session *s) {
  compute_device_info info = {0};
  compute_status status = compute_device_describe(s->device, &info);
  if (status) return status;
  s->elements = info.type == COMPUTE_DEVICE_CPU ? CPU_ELEMENTS : OTHER_ELEMENTS;
  uint64_t most = info.memory_max_allocation / 4, room = info.memory_free / 64;
  while (s->elements > LEAST_ELEMENTS &&
         ((room > 0 && s->elements > room) || (most > 0 && s->elements > most)))
    s->elements /= 2;
  s->host = base_allocate_aligned((uint64_t)s->elements * 4, 4096);
  if (!s->host)
    return error_set(s->device->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_route_measure",
                     "not enough host memory to measure %s", s->device->info.name);
  status = compute_queue_create(s->device, &s->queue);
  for (uint32_t i = 0; !status && i < PROBE_INPUTS; i++) status = allocate(s, &s->input[i]);
  return status ? status : allocate(s, &s->output);
}

static void close_session(session *s) {
  compute_queue_release(s->queue);
  for (uint32_t i = 0; i < PROBE_INPUTS; i++) release(s, &s->input[i]);
  release(s, &s->output);
  base_release(s->host);
}

/* ---- Timing ---------------------------------------------------------------------------------- */

/* An action that can be repeated and ends with a wait. */
typedef compute_status (*action)(const session *s, const void *what, uint32_t repetitions);

static compute_status time_once(const session *s, action act, const void *what,
                                uint32_t repetitions, double *seconds) {
  double start = clock_seconds();
  compute_status status = act(s, what, repetitions);
  *seconds = (clock_seconds() - start) / repetitions;
  return status;
}

/* Returns the repetitions per sample, so that a sample takes long enough to be measured. */
static uint32_t repetitions_for(double seconds) {
  double wanted = SAMPLE_SECONDS / (seconds > 1e-8 ? seconds : 1e-8);
  return wanted < 1 ? 1 : wanted < MOST_REPETITIONS ? (uint32_t)wanted + 1 : MOST_REPETITIONS;
}

/* Returns the minimum time of one repetition. The first run warms up and does not count. The
 * minimum is over several samples, because other load may disturb any of them. */
static compute_status time_point(const session *s, action act, const void *what, bool repeat,
                                 double *seconds) {
  double taken = 0, spent = 0;
  *seconds = 1e30;
  compute_status status = time_once(s, act, what, 1, &taken);
  for (int i = 0; !status && i < MOST_SAMPLES; i++) {
    if (spent > LONGEST_POINT_SECONDS || (spent > POINT_SECONDS && i >= LEAST_SAMPLES)) break;
    uint32_t repetitions = repeat && i > 0 ? repetitions_for(*seconds) : 1;
    status = time_once(s, act, what, repetitions, &taken);
    spent += taken * repetitions;
    if (taken < *seconds) *seconds = taken;
  }
  return status;
}

typedef struct probe_kernel {
  void *kernel;
  uint32_t inputs;
} probe_kernel;

static compute_status run_probe(const session *s, const void *what, uint32_t repetitions) {
  const probe_kernel *k = what;
  compute_argument argument[PROBE_INPUTS + 1];
  for (uint32_t i = 0; i < k->inputs; i++) argument[i] = (compute_argument){&s->input[i], 0};
  argument[k->inputs] = (compute_argument){&s->output, 0};
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; !status && i < repetitions; i++)
    status = queue_enqueue(s->queue, k->kernel, argument, k->inputs + 1);
  return wait_after(s, status);
}

static void add_point(cost_curve *curve, double work, double seconds) {
  if (curve->count == COSTS_POINTS || !(seconds > 0)) return;
  /* More work never takes less time, except for noise. */
  if (curve->count > 0 && seconds < curve->seconds[curve->count - 1])
    seconds = curve->seconds[curve->count - 1];
  curve->work[curve->count] = work;
  curve->seconds[curve->count++] = seconds;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static bool is_refusal(compute_status status) {
  return status == COMPUTE_ERROR_UNSUPPORTED || status == COMPUTE_ERROR_COMPILATION ||
         status == COMPUTE_ERROR_LAUNCH;
}

/* Measures the cost of a launch and a wait with the smallest kernel. */
static compute_status measure_launch(session *s, const probe_kernel *k, double seconds) {
  double single;
  compute_status status = time_point(s, run_probe, k, false, &single);
  s->costs->launch = seconds;
  s->costs->wait = max_f64(single, seconds);
  return status;
}

static compute_status measure_point(session *s, work_class class, uint32_t point, const probe *p) {
  const compute_backend *backend = s->device->backend;
  char reason[256] = "";
  probe_kernel k = {.inputs = p->descriptor.input_count};
  if (!kernel_is_supported(s->device, &p->descriptor, reason, sizeof reason))
    return COMPUTE_ERROR_UNSUPPORTED;
  compute_status status = provide(s, p);
  if (!status) status = backend->kernel_prepare(s->device->handle, &p->descriptor, &k.kernel);
  if (status) return status;
  double seconds;
  status = time_point(s, run_probe, &k, true, &seconds);
  if (!status && class == WORK_STREAM && point == 0) status = measure_launch(s, &k, seconds);
  if (!status) add_point(&s->costs->curve[class], p->work, seconds);
  if (!device_hangs(s->device)) backend->kernel_destroy(s->device->handle, k.kernel);
  return status;
}

/* Sizes grow until one would take too long, as predicted from the previous size. The first point is
 * always measured, because a prediction needs one. */
static compute_status measure_class(session *s, work_class class, probe *p) {
  const double longest = 20e-3;
  const cost_curve *c = &s->costs->curve[class];
  for (uint32_t point = 0; probe_build(class, point, s->elements, p); point++) {
    if (is_late(s) && s->costs->curve[WORK_STREAM].count > 0) break;
    uint32_t n = c->count;
    if (n > 0 && p->work / c->work[n - 1] * c->seconds[n - 1] > longest &&
        c->seconds[n - 1] > 4 * s->costs->launch)
      break;
    compute_status status = measure_point(s, class, point, p);
    if (is_refusal(status)) break;
    if (status) return status;
  }
  return COMPUTE_OK;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static compute_status copy_in(const session *s, const void *what, uint32_t repetitions) {
  (void)repetitions;
  return upload(s, 0, *(const uint64_t *)what);
}

static compute_status copy_out(const session *s, const void *what, uint32_t repetitions) {
  (void)repetitions;
  return download(s, *(const uint64_t *)what);
}

static compute_status measure_copies(session *s) {
  static const uint64_t size[] = {4096, 262144, 4194304, 16777216};
  compute_status status = COMPUTE_OK;
  s->held_elements[0] = 0;
  for (uint32_t i = 0; i < 4 && size[i] <= s->elements * 4 && !is_late(s); i++) {
    double up, down = 0;
    status = time_point(s, copy_in, &size[i], false, &up);
    if (!status) status = time_point(s, copy_out, &size[i], false, &down);
    if (status) break;
    add_point(&s->costs->curve[WORK_UPLOAD], (double)size[i], up);
    add_point(&s->costs->curve[WORK_DOWNLOAD], (double)size[i], down);
  }
  return status;
}

/* The most informative first: the time limit may leave the last ones to estimates. */
static const work_class in_turn[] = {WORK_STREAM,   WORK_GEMM_F32,  WORK_UPLOAD,  WORK_FUNCTION,
                                     WORK_ROW,      WORK_REDUCE,    WORK_SIMPLE,  WORK_COPY,
                                     WORK_RUN,      WORK_SHORT_ROW, WORK_GATHER,  WORK_CONVOLUTION,
                                     WORK_GEMM_F64, WORK_GEMM_BF16, WORK_GEMM_F16};

compute_status costs_measure_device(compute_device *device, double limit, device_costs *costs) {
  session s = {.device = device, .costs = costs, .deadline = clock_seconds() + limit};
  *costs = (device_costs){.source = COMPUTE_COSTS_MEASURED};
  probe *p = base_allocate(1, sizeof *p);
  if (!p)
    return error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_route_measure",
                     "not enough memory to measure %s", device->info.name);
  compute_error before;
  compute_error_get(NULL, &before);
  compute_status status = open_session(&s);
  for (size_t i = 0; !status && i < sizeof in_turn / sizeof *in_turn; i++)
    status = in_turn[i] == WORK_UPLOAD ? measure_copies(&s) : measure_class(&s, in_turn[i], p);
  close_session(&s);
  base_release(p);
  if (status) return status;
  error_restore(NULL, &before); /* refusals are not failures */
  if (costs->curve[WORK_STREAM].count > 0) return COMPUTE_OK;
  return error_set(device->context, COMPUTE_ERROR_UNSUPPORTED, "compute_route_measure",
                   "%s does not support the kernels that measure it", device->info.name);
}
