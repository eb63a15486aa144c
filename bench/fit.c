/* SPDX-License-Identifier: MIT */
/* Suite "fit": batched Gaussian fits of simulated ROIs, from arrays in memory to parameters,
 * uncertainties, ratio, p-value, iterations and status. A record's ms is for the whole stack. Its
 * "fit" has the rates of all threads and of one, and the numbers that make rates comparable: size,
 * parameters, iterations, spread against the Cramér–Rao bound, converged fraction. */
#include "fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"

/* ---- Arrays in host memory ------------------------------------------------------------------ */

/* One fitter, on all threads or on one. */
typedef struct fit_side {
  compute_context *context;
  compute_fit *fit;
  const fit_stack *stack;
  compute_fit_results results;
  compute_status status;
} fit_side;

static void side_run(void *state, int64_t times) {
  fit_side *side = state;
  const compute_fit_run_options options = {.pixels = {.array = side->stack->pixels},
                                           .count = side->stack->count,
                                           .results = side->results};
  for (int64_t i = 0; i < times && !side->status; i++)
    side->status = compute_fit_run(side->fit, &options, NULL);
}

static void side_open(bench_session *session, int threads, const fit_stack *stack,
                      compute_fit_results results, fit_side *side) {
  *side = (fit_side){.stack = stack, .results = results};
  side->status =
      compute_open(&side->context,
                   &(compute_open_options){.device = session->options->device, .threads = threads});
  compute_device *device = compute_default_device(side->context);
  if (!side->status)
    side->status = compute_fit_create(side->context,
                                      &(compute_fit_options){.problem = stack->problem,
                                                             .dtype = stack->dtype,
                                                             .devices = &device,
                                                             .device_count = 1,
                                                             .fallback = COMPUTE_FALLBACK_STRICT},
                                      &side->fit);
}

/* Measures all threads and one thread in turn. */
static void measure_sides(bench_session *session, fit_side *side, int sides, bench_record *record) {
  bench_runner runner[2] = {{.run = side_run, .state = &side[0]},
                            {.run = side_run, .state = &side[1]}};
  bench_measure(runner, sides, session->options->quick ? 0.2 : 1);
  record->ms = bench_quantile(&runner[0], 0.5);
  record->ms_p10 = bench_quantile(&runner[0], 0.1);
  record->ms_p90 = bench_quantile(&runner[0], 0.9);
  record->fit.rate = (double)record->fit.rois / record->ms * 1e3;
  if (sides == 1) return;
  record->peer_ms = bench_quantile(&runner[1], 0.5);
  record->fit.rate_one_thread = (double)record->fit.rois / record->peer_ms * 1e3;
  snprintf(record->peer, sizeof record->peer, "one thread");
}

static void add_record(bench_session *session, bench_record *record) {
  const bench_fit *f = &record->fit;
  record->gbytes_s = f->rate * f->rows * f->columns * (record->dtype[0] == 'u' ? 2 : 4) * 1e-9;
  bench_record_add(session, record);
}

/* Fewer ROIs for models that take ten times as long. */
static int64_t roi_count(const bench_session *session, const bench_case *c) {
  const int64_t count = session->info.type == COMPUTE_DEVICE_CPU ? 200000 : 1000000;
  const bool slow = c->size[0] == COMPUTE_FIT_SPLINE || c->size[3] == COMPUTE_FIT_READOUT;
  return (session->options->quick ? count : 5 * count) / (c->size[1] > 9 ? 2 : 1) / (slow ? 10 : 1);
}

/* size: model and side of the ROI; 1: in page-locked memory; the camera. */
static void run_stack(bench_session *session, const char *suite, const bench_case *c) {
  fit_stack stack = {0};
  compute_fit_results results = {0};
  fit_side side[2] = {{0}};
  compute_tensor *lock = NULL;
  const int sides = session->info.type == COMPUTE_DEVICE_CPU && session->threads > 1 ? 2 : 1;
  bench_record record = bench_record_new(session, suite, c);
  compute_status s = fit_stack_create(session->context, (compute_fit_model)c->size[0],
                                      (compute_fit_camera)c->size[3], (int32_t)c->size[1], c->dtype,
                                      roi_count(session, c), &stack);
  if (!s) {
    results = fit_results_create(&stack);
    if (!results.status) s = COMPUTE_ERROR_OUT_OF_MEMORY;
  }
  if (!s && c->size[2] != 0)
    s = compute_tensor_wrap(session->device, COMPUTE_U8,
                            COMPUTE_SHAPE((int64_t)fit_stack_bytes(&stack)), NULL, stack.pixels,
                            NULL, NULL, &lock);
  if (s == COMPUTE_ERROR_UNSUPPORTED) {
    bench_note(session, "%s/%s skipped: the device does not page-lock memory", suite, c->name);
    goto end;
  }
  for (int i = 0; i < sides && !s; i++) {
    side_open(session, i == 0 ? (int)session->options->threads : 1, &stack, results, &side[i]);
    if (!side[i].status) side_run(&side[i], 1);
    s = side[i].status;
  }
  if (!s) {
    fit_judge(session->context, &stack, &results, &record);
    measure_sides(session, side, sides, &record);
    s = side[0].status ? side[0].status : side[1].status;
  }
  if (s)
    bench_fail(session, suite, c, "does not run");
  else
    add_record(session, &record);
end:
  for (int i = 0; i < 2; i++) {
    compute_fit_release(side[i].fit);
    bench_close_context(session, suite, c, side[i].context);
  }
  compute_tensor_release(lock);
  fit_results_release(&results);
  fit_stack_release(&stack);
}

/* ---- A plan, with pixels and records on the device ------------------------------------------ */

typedef struct plan_state {
  compute_plan *plan;
  compute_binding binding[2];
  compute_queue *queue;
} plan_state;

static compute_status plan_call(const plan_state *p) {
  compute_status s = compute_run(p->plan, p->binding, 2, p->queue);
  return s ? s : compute_queue_wait(p->queue);
}

static void plan_run(void *state, int64_t times) {
  for (int64_t i = 0; i < times; i++) (void)plan_call(state);
}

static compute_status judge_plan(bench_session *session, const fit_stack *stack, plan_state *p,
                                 bench_record *record) {
  const int32_t columns = compute_fit_column(stack->problem.model, 0, 0);
  const size_t bytes = (size_t)stack->count * (size_t)columns * sizeof(float);
  float *records = malloc(bytes);
  compute_fit_results results = fit_results_create(stack);
  compute_status s = records && results.status ? plan_call(p) : COMPUTE_ERROR_OUT_OF_MEMORY;
  if (!s) s = compute_tensor_read(p->binding[1].tensor, records, bytes);
  if (!s) {
    fit_results_from_records(stack, records, &results);
    fit_judge(session->context, stack, &results, record);
  }
  fit_results_release(&results);
  free(records);
  return s;
}

static void run_plan(bench_session *session, const char *suite, const bench_case *c) {
  fit_stack stack = {0};
  plan_state p = {.queue = session->queue};
  const int64_t side = c->size[1];
  bench_record record = bench_record_new(session, suite, c);
  compute_graph *g = compute_graph_create(session->context);
  compute_status s = fit_stack_create(session->context, (compute_fit_model)c->size[0],
                                      (compute_fit_camera)c->size[3], (int32_t)side, c->dtype,
                                      roi_count(session, c), &stack);
  p.binding[0].node = compute_input(g, c->dtype, COMPUTE_SHAPE(stack.count, side, side));
  p.binding[1].node = compute_gaussian_fit(g, p.binding[0].node, &stack.problem, NULL);
  if (!s)
    s = compute_compile(
        g, &p.binding[1].node, 1,
        &(compute_plan_options){.device = session->device, .fallback = COMPUTE_FALLBACK_STRICT},
        &p.plan);
  for (int i = 0; i < 2 && !s; i++)
    s = compute_plan_create_tensor(p.plan, p.binding[i].node, &p.binding[i].tensor);
  if (!s) s = compute_tensor_write(p.binding[0].tensor, stack.pixels, fit_stack_bytes(&stack));
  if (!s) s = judge_plan(session, &stack, &p, &record);
  if (s) {
    bench_fail(session, suite, c, "does not run");
  } else {
    bench_runner runner = {.run = plan_run, .state = &p};
    bench_measure(&runner, 1, session->options->quick ? 0.2 : 1);
    record.ms = bench_quantile(&runner, 0.5);
    record.ms_p10 = bench_quantile(&runner, 0.1);
    record.ms_p90 = bench_quantile(&runner, 0.9);
    record.fit.rate = (double)record.fit.rois / record.ms * 1e3;
    add_record(session, &record);
  }
  for (int i = 0; i < 2; i++) compute_tensor_release(p.binding[i].tensor);
  compute_plan_release(p.plan);
  compute_graph_release(g);
  fit_stack_release(&stack);
}

/* ---- Cases ---------------------------------------------------------------------------------- */

#define CASE(name_, dtype_, when_, run_, ...)                                                      \
  {                                                                                                \
    .name = name_, .dtype = COMPUTE_##dtype_, .when = BENCH_##when_, .run = run_, .size = {        \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }

/* clang-format off */
static const bench_case cases[] = {
    CASE("XYNB_7",          F32, ALWAYS, run_stack, COMPUTE_FIT_XYNB, 7),
    CASE("XYNB_7_u16",      U16, ALWAYS, run_stack, COMPUTE_FIT_XYNB, 7),
    CASE("XYNB_11",         F32, ALWAYS, run_stack, COMPUTE_FIT_XYNB, 11),
    CASE("XYNB_11_u16",     U16, ALWAYS, run_stack, COMPUTE_FIT_XYNB, 11),
    CASE("XYNBS_7",         F32, ALWAYS, run_stack, COMPUTE_FIT_XYNBS, 7),
    CASE("XYNBS_7_u16",     U16, FULL,   run_stack, COMPUTE_FIT_XYNBS, 7),
    CASE("XYNBSXSY_7",      F32, ALWAYS, run_stack, COMPUTE_FIT_XYNBSXSY, 7),
    CASE("XYNBSXSY_7_u16",  U16, FULL,   run_stack, COMPUTE_FIT_XYNBSXSY, 7),
    CASE("XYZNB_11",        F32, ALWAYS, run_stack, COMPUTE_FIT_XYZNB, 11),
    CASE("XYZNB_11_u16",    U16, FULL,   run_stack, COMPUTE_FIT_XYZNB, 11),
    CASE("SPLINE_11",       F32, ALWAYS, run_stack, COMPUTE_FIT_SPLINE, 11),
    CASE("XYNB_7_readout",  F32, ALWAYS, run_stack, COMPUTE_FIT_XYNB, 7, 0, COMPUTE_FIT_READOUT),
    CASE("XYNB_7_pinned",   F32, GPU,    run_stack, COMPUTE_FIT_XYNB, 7, 1),
    CASE("XYNB_7_u16_pinned", U16, GPU,  run_stack, COMPUTE_FIT_XYNB, 7, 1),
    CASE("XYNB_7_plan",     F32, ALWAYS, run_plan,  COMPUTE_FIT_XYNB, 7),
    CASE("XYNB_7_tiff",     U16, ALWAYS, fit_run_file, COMPUTE_FIT_XYNB, 7),
    CASE("XYNB_7_10M_u16",  U16, FULL,   fit_run_memory, COMPUTE_FIT_XYNB, 7),
};
/* clang-format on */

const bench_suite bench_suite_fit = {"fit", "Gaussian fits of single molecules", cases,
                                     sizeof cases / sizeof *cases};
