/* SPDX-License-Identifier: MIT */
/* Loops for RECURRENT, once per instruction set (core/isa.h) and element type. recurrent_table.h
 * defines each loop; compute/backend.h has the formulas. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "recurrent_table.h"
#include "program/isa/element.h"
#include "program/isa/math_f32.h"
#include "program/isa/math_f64.h"

#define SIGMOID(x) CPU_PASTE(sigmoid, CPU_VARIANT)(x)
#define TANH(x)    CPU_PASTE(tanh, CPU_VARIANT)(x)

#define READ(name, from)  const ELEMENT *name = from
#define WRITE(name, from) ELEMENT *name = from /* does not overlap any other array */

/* Keeps NaN. */
ALWAYS_INLINE ELEMENT clamp(ELEMENT x, ELEMENT clip) {
  x = x < -clip ? -clip : x;
  return x > clip ? clip : x;
}

static void rnn(int64_t count, const cpu_recurrent_row *row) {
  READ(x, row->x[0]);
  READ(sum, row->sums[0]);
  WRITE(next, row->next);
  const ELEMENT clip = (ELEMENT)row->clip;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) next[i] = TANH(clamp(x[i] + sum[i], clip));
}

ALWAYS_INLINE void lstm_loop(const bool peepholes, int64_t count, const cpu_recurrent_row *row) {
  READ(x_input, row->x[0]);
  READ(x_output, row->x[1]);
  READ(x_forget, row->x[2]);
  READ(x_cell, row->x[3]);
  READ(input, row->sums[0]);
  READ(output, row->sums[1]);
  READ(forget, row->sums[2]);
  READ(cell, row->sums[3]);
  READ(peep_input, row->peephole[0]);
  READ(peep_output, row->peephole[1]);
  READ(peep_forget, row->peephole[2]);
  WRITE(next, row->next);
  WRITE(c, row->c);
  const ELEMENT clip = (ELEMENT)row->clip;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    ELEMENT a = x_input[i] + input[i], f = x_forget[i] + forget[i], o = x_output[i] + output[i];
    if (peepholes) {
      a += peep_input[i] * c[i];
      f += peep_forget[i] * c[i];
    }
    const ELEMENT kept = SIGMOID(clamp(f, clip)) * c[i];
    const ELEMENT value = TANH(clamp(x_cell[i] + cell[i], clip));
    const ELEMENT now = kept + SIGMOID(clamp(a, clip)) * value;
    if (peepholes) o += peep_output[i] * now;
    next[i] = SIGMOID(clamp(o, clip)) * TANH(now);
    c[i] = now;
  }
}

static void lstm(int64_t count, const cpu_recurrent_row *row) {
  lstm_loop(false, count, row);
}

static void lstm_peepholes(int64_t count, const cpu_recurrent_row *row) {
  lstm_loop(true, count, row);
}

ALWAYS_INLINE void gru_loop(const bool biased, int64_t count, const cpu_recurrent_row *row) {
  READ(x_update, row->x[0]);
  READ(x_reset, row->x[1]);
  READ(x_hidden, row->x[2]);
  READ(update, row->sums[0]);
  READ(reset, row->sums[1]);
  READ(hidden, row->sums[2]);
  READ(bias, row->bias);
  READ(h, row->h);
  WRITE(next, row->next);
  const ELEMENT clip = (ELEMENT)row->clip;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const ELEMENT z = SIGMOID(clamp(x_update[i] + update[i], clip));
    const ELEMENT r = SIGMOID(clamp(x_reset[i] + reset[i], clip));
    const ELEMENT sum = biased ? hidden[i] + bias[i] : hidden[i];
    next[i] = (1 - z) * TANH(clamp(x_hidden[i] + r * sum, clip)) + z * h[i];
  }
}

static void gru(int64_t count, const cpu_recurrent_row *row) {
  if (row->bias)
    gru_loop(true, count, row);
  else
    gru_loop(false, count, row);
}

static void gru_gates(int64_t count, const cpu_recurrent_row *row) {
  READ(x_update, row->x[0]);
  READ(x_reset, row->x[1]);
  READ(reset, row->sums[1]);
  READ(h, row->h);
  WRITE(update, row->sums[0]);
  WRITE(reset_h, row->reset_h);
  const ELEMENT clip = (ELEMENT)row->clip;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    update[i] = SIGMOID(clamp(x_update[i] + update[i], clip));
    reset_h[i] = SIGMOID(clamp(x_reset[i] + reset[i], clip)) * h[i];
  }
}

static void gru_state(int64_t count, const cpu_recurrent_row *row) {
  READ(x, row->x[2]);
  READ(z, row->sums[0]);
  READ(sum, row->sums[2]);
  READ(h, row->h);
  WRITE(next, row->next);
  const ELEMENT clip = (ELEMENT)row->clip;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++)
    next[i] = (1 - z[i]) * TANH(clamp(x[i] + sum[i], clip)) + z[i] * h[i];
}

#ifdef CPU_VARIANT_F32
/* Nearest, ties to even, for |x| < 2^22. */
ALWAYS_INLINE float nearest(float x) {
  return x + 0x1.8p23f - 0x1.8p23f;
}

/* Each lane has separate limits, so that compilers use vectors. NaN is ignored. */
static void find_limits(int64_t count, const float *h, float *least, float *most) {
  enum { LANES = 16 };
  float low[LANES] = {0}, high[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int j = 0; j < LANES; j++) {
      low[j] = h[i + j] < low[j] ? h[i + j] : low[j];
      high[j] = h[i + j] > high[j] ? h[i + j] : high[j];
    }
  for (; i < count; i++) {
    low[0] = h[i] < low[0] ? h[i] : low[0];
    high[0] = h[i] > high[0] ? h[i] : high[0];
  }
  *least = *most = 0;
  for (int j = 0; j < LANES; j++) {
    *least = low[j] < *least ? low[j] : *least;
    *most = high[j] > *most ? high[j] : *most;
  }
}

/* As the operator DynamicQuantizeLinear. NaN becomes 0. */
static void round_state(int64_t count, const float *h, bool is_signed, uint8_t *bytes,
                        cpu_recurrent_rounding *rounding) {
  const int32_t shift = is_signed ? 128 : 0;
  float least, most;
  find_limits(count, h, &least, &most);
  const float range = (most - least) / 255, scale = most == least ? 1 : range;
  const float exact = -least / scale;
  const float zero = nearest(exact < 255 ? exact : 255);
  int32_t sum = 0;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    float q = nearest(h[i] / scale) + zero;
    q = q > 0 ? q : 0;
    q = q < 255 ? q : 255;
    const int32_t byte = (int32_t)q - shift;
    sum += byte;
    bytes[i] = (uint8_t)byte;
  }
  *rounding = (cpu_recurrent_rounding){scale, (int32_t)zero - shift, sum};
}

static void scale_sums(int64_t count, int64_t hidden, const cpu_recurrent_rounding *rounding,
                       const cpu_recurrent_columns *columns, int32_t *sums) {
  const uint32_t zero = (uint32_t)rounding->zero;
  const uint32_t rest = (uint32_t)rounding->sum - (uint32_t)hidden * zero;
  const int32_t *column_sums = columns->sums, *zeros = columns->zeros;
  const float *scales = columns->scales, scale = rounding->scale;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    /* Only the result is sure to fit. */
    const uint32_t exact =
        (uint32_t)sums[i] - zero * (uint32_t)column_sums[i] - (uint32_t)zeros[i] * rest;
    const float value = (float)(int32_t)exact * (scale * scales[i]);
    memcpy(&sums[i], &value, sizeof value);
  }
}
#endif

const cpu_recurrent_loops CPU_VARIANT_SYMBOL(cpu_recurrent) = {
    .rnn = rnn,
    .lstm = lstm,
    .lstm_peepholes = lstm_peepholes,
    .gru = gru,
    .gru_gates = gru_gates,
    .gru_state = gru_state,
#ifdef CPU_VARIANT_F32
    .round = round_state,
    .scale = scale_sums,
#endif
};
