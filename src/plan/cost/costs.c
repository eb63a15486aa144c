/* SPDX-License-Identifier: MIT */
/* Cost curves: their evaluation, and estimates for curves that were not measured. */
#include "plan/cost/costs.h"
#include "core/base/arithmetic.h"

static const char *const class_names[WORK_CLASSES] = {
    "stream",    "reduce",      "row",      "copy",     "gather",   "run",
    "short_row", "simple",      "function", "gemm_f32", "gemm_f64", "gemm_f16",
    "gemm_bf16", "convolution", "upload",   "download"};

const char *work_class_name(work_class class) {
  return class_names[class];
}

static bool is_transfer(work_class class) {
  return class == WORK_UPLOAD || class == WORK_DOWNLOAD;
}

double costs_curve_seconds(const device_costs *costs, work_class class, double work) {
  const cost_curve *c = &costs->curve[class];
  double before = 0, seconds = is_transfer(class) ? 0 : costs->launch;
  if (work <= 0 || c->count == 0) return seconds;
  for (uint32_t i = 0; i < c->count; i++) {
    if (work <= c->work[i]) {
      /* The first point of a copy is its latency at any size. */
      if (i == 0 && is_transfer(class)) return c->seconds[0];
      return seconds + (work - before) / (c->work[i] - before) * (c->seconds[i] - seconds);
    }
    before = c->work[i];
    seconds = c->seconds[i];
  }
  uint32_t last = c->count - 1;
  if (last == 0) return seconds * work / before;
  /* The marginal cost per unit at this size. A last point that costs hardly more than the previous
   * one cannot show it. */
  double slope = (seconds - c->seconds[last - 1]) / (before - c->work[last - 1]);
  double average = seconds / before;
  return seconds + (work - before) * (slope > average / 4 ? slope : average);
}

double costs_curve_rate(const cost_curve *curve) {
  double best = 0;
  for (uint32_t i = 0; i < curve->count; i++)
    if (curve->work[i] > best * curve->seconds[i]) best = curve->work[i] / curve->seconds[i];
  return best;
}

double costs_copy_seconds(const device_costs *costs, bool upload, double bytes) {
  return costs_curve_seconds(costs, upload ? WORK_UPLOAD : WORK_DOWNLOAD, bytes);
}

static double beyond_launch(const device_costs *costs, work_class class, double work) {
  double seconds = costs_curve_seconds(costs, class, work) - costs->launch;
  return max_f64(seconds, 0);
}

/* An access costs as much as one of the probe that reads as large an array: its time depends on the
 * cache that the array fits into. */
static double single_seconds(const device_costs *costs, const kernel_work *work) {
  enum { WORK_OF_BYTE = 3 }; /* the probe reads an index, and reads and writes an element */
  const double typical = max_f64(WORK_OF_BYTE * work->reach, 1);
  return work->singles * beyond_launch(costs, WORK_GATHER, typical) / typical;
}

/* Memory traffic and arithmetic overlap, so the slower of the two counts. Programs in a reduction,
 * row or product kernel are additional work. */
double costs_kernel_seconds(const device_costs *costs, const kernel_work *work) {
  double moved = beyond_launch(costs, work->moved, work->bytes);
  double programs = beyond_launch(costs, WORK_SIMPLE, work->simple) +
                    beyond_launch(costs, WORK_FUNCTION, work->functions) +
                    beyond_launch(costs, WORK_RUN, work->runs) +
                    beyond_launch(costs, WORK_SHORT_ROW, work->rows) + single_seconds(costs, work);
  if (work->product != WORK_CLASSES) {
    double product = beyond_launch(costs, work->product, work->flops);
    return costs->launch + max_f64(product, moved) + programs;
  }
  if (work->moved == WORK_STREAM) return costs->launch + max_f64(moved, programs);
  return costs->launch + moved + programs;
}

/* ---- Estimates ------------------------------------------------------------------------------- */

static void guess_rate(device_costs *costs, work_class class, double per_second) {
  costs->curve[class] = (cost_curve){.count = 1, .work = {1e9}, .seconds = {1e9 / per_second}};
}

static void guess_copy(device_costs *costs, work_class class, double latency, double per_second) {
  costs->curve[class] = (cost_curve){
      .count = 2, .work = {4096, 1e8}, .seconds = {latency, latency + 1e8 / per_second}};
}

/* Assumes one multiply-add per SIMD lane and cycle, at a typical clock rate. */
void costs_guess(const compute_device_info *info, device_costs *costs) {
  *costs = (device_costs){.source = COMPUTE_COSTS_GUESSED, .guessed = (1u << WORK_CLASSES) - 1};
  bool host = info->type == COMPUTE_DEVICE_CPU,
       native = (info->capabilities & COMPUTE_CAPABILITY_HOST) != 0;
  double units = info->compute_units > 0 ? info->compute_units : 1;
  double lanes = host ? 2.0 * (info->vector_width > 0 ? info->vector_width : 4) : 128;
  double flops = units * lanes * 2 * (host ? 3e9 : 1.5e9) * (native ? 0.8 : 0.4);
  double bytes = host ? 25e9 : 20e9 + 5e9 * units;
  costs->launch = native ? 0.5e-6 : host ? 30e-6 : 4e-6;
  costs->wait = native ? 0.5e-6 : host ? 60e-6 : 15e-6;
  guess_rate(costs, WORK_STREAM, bytes);
  guess_rate(costs, WORK_REDUCE, bytes * 0.8);
  guess_rate(costs, WORK_ROW, bytes * 0.5);
  guess_rate(costs, WORK_COPY, bytes * 0.4);
  guess_rate(costs, WORK_GATHER, bytes * 0.25);
  guess_rate(costs, WORK_RUN, host ? units * 2e8 : bytes / 32);
  guess_rate(costs, WORK_SHORT_ROW, host ? units * 3e7 : bytes / 32);
  guess_rate(costs, WORK_SIMPLE, flops / 8);
  guess_rate(costs, WORK_FUNCTION, flops / 64);
  guess_rate(costs, WORK_GEMM_F32, flops);
  guess_rate(costs, WORK_GEMM_F64, flops / 2);
  bool matrix = (info->capabilities & COMPUTE_CAPABILITY_MATRIX_CORES) != 0;
  guess_rate(costs, WORK_GEMM_F16, matrix ? 4 * flops : 0.7 * flops);
  guess_rate(costs, WORK_GEMM_BF16, matrix ? 4 * flops : 0.7 * flops);
  guess_rate(costs, WORK_CONVOLUTION, 0.6 * flops);
  guess_copy(costs, WORK_UPLOAD, native ? 0.2e-6 : host ? 20e-6 : 10e-6, 10e9);
  guess_copy(costs, WORK_DOWNLOAD, native ? 0.2e-6 : host ? 20e-6 : 12e-6, 10e9);
}

/* The measured classes that may replace an unmeasured one, in order of similarity. */
static const work_class likeness[WORK_CLASSES][4] = {
    [WORK_STREAM] = {WORK_COPY, WORK_REDUCE, WORK_ROW, WORK_SIMPLE},
    [WORK_REDUCE] = {WORK_STREAM, WORK_ROW, WORK_COPY, WORK_SIMPLE},
    [WORK_ROW] = {WORK_REDUCE, WORK_STREAM, WORK_COPY, WORK_SIMPLE},
    [WORK_COPY] = {WORK_STREAM, WORK_REDUCE, WORK_ROW, WORK_SIMPLE},
    [WORK_GATHER] = {WORK_COPY, WORK_STREAM, WORK_REDUCE, WORK_ROW},
    [WORK_RUN] = {WORK_SHORT_ROW, WORK_COPY, WORK_STREAM, WORK_SIMPLE},
    [WORK_SHORT_ROW] = {WORK_RUN, WORK_ROW, WORK_COPY, WORK_STREAM},
    [WORK_SIMPLE] = {WORK_FUNCTION, WORK_STREAM, WORK_GEMM_F32, WORK_ROW},
    [WORK_FUNCTION] = {WORK_SIMPLE, WORK_GEMM_F32, WORK_ROW, WORK_STREAM},
    [WORK_GEMM_F32] = {WORK_GEMM_F64, WORK_CONVOLUTION, WORK_SIMPLE, WORK_FUNCTION},
    [WORK_GEMM_F64] = {WORK_GEMM_F32, WORK_CONVOLUTION, WORK_SIMPLE, WORK_FUNCTION},
    [WORK_GEMM_F16] = {WORK_GEMM_BF16, WORK_GEMM_F32, WORK_GEMM_F64, WORK_SIMPLE},
    [WORK_GEMM_BF16] = {WORK_GEMM_F16, WORK_GEMM_F32, WORK_GEMM_F64, WORK_SIMPLE},
    [WORK_CONVOLUTION] = {WORK_GEMM_F32, WORK_GEMM_F64, WORK_SIMPLE, WORK_FUNCTION},
    [WORK_UPLOAD] = {WORK_DOWNLOAD, WORK_DOWNLOAD, WORK_DOWNLOAD, WORK_DOWNLOAD},
    [WORK_DOWNLOAD] = {WORK_UPLOAD, WORK_UPLOAD, WORK_UPLOAD, WORK_UPLOAD},
};

/* A single small point shows only the launch cost, not the rate. Adds a second point from the
 * estimate. */
static void extend(const cost_curve *guess, cost_curve *c) {
  double work = guess->work[guess->count - 1], seconds = guess->seconds[guess->count - 1];
  if (c->count != 1 || c->work[0] >= work) return;
  c->work[1] = work;
  c->seconds[1] = seconds > c->seconds[0] ? seconds : c->seconds[0];
  c->count = 2;
}

void costs_complete(const device_costs *guess, device_costs *costs) {
  for (uint32_t class = 0; class < WORK_CLASSES; class ++)
    extend(&guess->curve[class], &costs->curve[class]);
  device_costs whole = *costs;
  whole.guessed = 0;
  for (uint32_t class = 0; class < WORK_CLASSES; class ++) {
    if (costs->curve[class].count > 0) continue;
    whole.guessed |= 1u << class;
    whole.curve[class] = guess->curve[class];
    for (int i = 0; i < 4; i++) {
      work_class like = likeness[class][i];
      if (costs->curve[like].count == 0) continue;
      double ratio = is_transfer(class) ? 1
                                        : costs_curve_rate(&guess->curve[class]) /
                                              costs_curve_rate(&guess->curve[like]);
      whole.curve[class] = costs->curve[like];
      for (uint32_t p = 0; p < whole.curve[class].count; p++) whole.curve[class].work[p] *= ratio;
      break;
    }
  }
  *costs = whole;
}
