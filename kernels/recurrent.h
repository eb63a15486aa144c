/* SPDX-License-Identifier: MIT */
/* The steps of an LSTM, GRU or RNN. Configured by
 *
 *   VALUE                        type of states and sums
 *   RECURRENT_SIGMOID(x), _TANH(x), _MAD(a, b, c)
 *   RECURRENT_CELL               0: RNN, 1: GRU, 2: LSTM
 *   RECURRENT_RESET_AFTER, _BIASED, _PEEPHOLES, _REVERSE, _CLIPPED      options, 0 or 1
 *   RECURRENT_GATES, _HIDDEN     numbers of gates and hidden units
 *   RECURRENT_LANES, _SLICES     items side by side in a group, each for some units; and the number
 *                                of parts of their sums, for further items
 *   RECURRENT_X(step, row, j), _WEIGHT(k, j), _H(row, k), _C(row, k), _LENGTH(row), _BIAS(k),
 *   _PEEPHOLE(k)                 elements; without lengths _LENGTH is the number of steps
 *   RECURRENT_STORE(i, row, k, value)
 *
 * Sums of products pass through local memory, which brings together each unit's gates. */
//@ recurrent
#define RECURRENT_GROUP (RECURRENT_LANES * RECURRENT_SLICES)
#define RECURRENT_SHARE ((RECURRENT_HIDDEN + RECURRENT_SLICES - 1) / RECURRENT_SLICES)
#if RECURRENT_CLIPPED
#define RECURRENT_CLAMP(x) recurrent_clamp(x, shape.clip)
DEVICE VALUE recurrent_clamp(VALUE x, VALUE clip) {
  x = x < -clip ? -clip : x;
  return x > clip ? clip : x;
}
#else
#define RECURRENT_CLAMP(x) (x)
#endif
#define RECURRENT_GATE(x)  RECURRENT_SIGMOID(RECURRENT_CLAMP(x))
#define RECURRENT_VALUE(x) RECURRENT_TANH(RECURRENT_CLAMP(x))

/* The gates of one multiplication. */
#define RECURRENT_ONE(GATE)   GATE(0)
#define RECURRENT_TWO(GATE)   GATE(0) GATE(1)
#define RECURRENT_THREE(GATE) GATE(0) GATE(1) GATE(2)
#define RECURRENT_FOUR(GATE)  GATE(0) GATE(1) GATE(2) GATE(3)
#define RECURRENT_THIRD(GATE) GATE(2)

#define RECURRENT_PART(gate)   sums[(slice * RECURRENT_GATES + gate) * RECURRENT_HIDDEN + unit]
#define RECURRENT_FACTOR(gate) RECURRENT_WEIGHT(k, gate *RECURRENT_HIDDEN + unit)

/* The partial products of `vector`. On a CPU, the only item of a group goes along the rows of R. */
#ifdef FOR_CPU
#define RECURRENT_CLEAR(gate) RECURRENT_PART(gate) = 0;
#define RECURRENT_ADD(gate)                                                                        \
  RECURRENT_PART(gate) = RECURRENT_MAD(factor, RECURRENT_FACTOR(gate), RECURRENT_PART(gate));
#define RECURRENT_MULTIPLY(vector, GATES)                                                          \
  RECURRENT_UNITS {                                                                                \
    GATES(RECURRENT_CLEAR)                                                                         \
  }                                                                                                \
  for (int k = 0; k < RECURRENT_HIDDEN; k++) {                                                     \
    const VALUE factor = vector[k];                                                                \
    INDEPENDENT RECURRENT_UNITS {                                                                  \
      GATES(RECURRENT_ADD)                                                                         \
    }                                                                                              \
  }
#else
#define RECURRENT_BEGIN(gate) VALUE part##gate = 0;
#define RECURRENT_ADD(gate)   part##gate = RECURRENT_MAD(factor, RECURRENT_FACTOR(gate), part##gate);
#define RECURRENT_END(gate)   RECURRENT_PART(gate) = part##gate;
#define RECURRENT_MULTIPLY(vector, GATES)                                                          \
  for (int unit = lane; unit < RECURRENT_HIDDEN; unit += RECURRENT_LANES) {                        \
    GATES(RECURRENT_BEGIN)                                                                         \
    for (int k = slice * RECURRENT_SHARE; k < limit; k++) {                                        \
      const VALUE factor = vector[k];                                                              \
      GATES(RECURRENT_ADD)                                                                         \
    }                                                                                              \
    GATES(RECURRENT_END)                                                                           \
  }                                                                                                \
  BARRIER();
#endif

#define RECURRENT_UNITS for (int unit = item; unit < RECURRENT_HIDDEN; unit += RECURRENT_GROUP)

/* Defines VALUE name: the whole product of a unit. */
#define RECURRENT_SUM(name, gate)                                                                  \
  VALUE name = 0;                                                                                  \
  UNROLL for (int s = 0; s < RECURRENT_SLICES; s++) name +=                                        \
      sums[(s * RECURRENT_GATES + (gate)) * RECURRENT_HIDDEN + unit];

/* The state after the step, if the sequence is still active. */
#define RECURRENT_KEEP(h)                                                                          \
  if (active) state[unit] = h;                                                                     \
  RECURRENT_STORE(step, row, unit, active ? h : (VALUE)0)

#define RECURRENT_INPUT(gate) RECURRENT_X(step, row, (gate)*RECURRENT_HIDDEN + unit)

/* Runs all steps of the group's sequence. PoCL 3.1's optimiser breaks a loop over several
 * sequences, with the barriers one level deeper. Configured as recurrent. */
//@ recurrent_sequence
LOCAL_ARRAY(VALUE, state, RECURRENT_HIDDEN);
LOCAL_ARRAY(VALUE, cell, RECURRENT_HIDDEN); /* c of LSTM, z of GRU */
LOCAL_ARRAY(VALUE, sums, RECURRENT_SLICES *RECURRENT_GATES *RECURRENT_HIDDEN);
#if RECURRENT_CELL == 1 && !RECURRENT_RESET_AFTER
LOCAL_ARRAY(VALUE, reset_state, RECURRENT_HIDDEN);
#endif
const int item = (int)LOCAL_ID_X, lane = item % RECURRENT_LANES, slice = item / RECURRENT_LANES;
const int share_end = (slice + 1) * RECURRENT_SHARE;
const int limit = share_end < RECURRENT_HIDDEN ? share_end : RECURRENT_HIDDEN;
const INDEX row = (INDEX)GROUP_ID_X;
const INDEX length = RECURRENT_LENGTH(row);
RECURRENT_UNITS {
  state[unit] = RECURRENT_H(row, unit);
#if RECURRENT_CELL == 2
  cell[unit] = RECURRENT_C(row, unit);
#endif
}
BARRIER();
for (INDEX i = 0; i < shape.steps; i++) {
#if RECURRENT_REVERSE
  const INDEX step = shape.steps - 1 - i;
#else
  const INDEX step = i;
#endif
  const boolean active = step < length;
#if RECURRENT_CELL == 0
  RECURRENT_MULTIPLY(state, RECURRENT_ONE)
  RECURRENT_UNITS {
    RECURRENT_SUM(sum, 0)
    const VALUE h = RECURRENT_VALUE(RECURRENT_INPUT(0) + sum);
    RECURRENT_KEEP(h)
  }
#elif RECURRENT_CELL == 1
#if RECURRENT_RESET_AFTER
  RECURRENT_MULTIPLY(state, RECURRENT_THREE)
  RECURRENT_UNITS {
    RECURRENT_SUM(update, 0)
    RECURRENT_SUM(reset, 1)
    RECURRENT_SUM(hidden, 2)
#if RECURRENT_BIASED
    hidden += RECURRENT_BIAS(unit);
#endif
    const VALUE z = RECURRENT_GATE(RECURRENT_INPUT(0) + update);
    const VALUE r = RECURRENT_GATE(RECURRENT_INPUT(1) + reset);
    const VALUE n = RECURRENT_VALUE(RECURRENT_INPUT(2) + r * hidden);
    const VALUE h = (1 - z) * n + z * state[unit];
    RECURRENT_KEEP(h)
  }
#else
  RECURRENT_MULTIPLY(state, RECURRENT_TWO)
  RECURRENT_UNITS {
    RECURRENT_SUM(update, 0)
    RECURRENT_SUM(reset, 1)
    cell[unit] = RECURRENT_GATE(RECURRENT_INPUT(0) + update);
    reset_state[unit] = RECURRENT_GATE(RECURRENT_INPUT(1) + reset) * state[unit];
  }
  BARRIER();
  RECURRENT_MULTIPLY(reset_state, RECURRENT_THIRD)
  RECURRENT_UNITS {
    RECURRENT_SUM(hidden, 2)
    const VALUE z = cell[unit], n = RECURRENT_VALUE(RECURRENT_INPUT(2) + hidden);
    const VALUE h = (1 - z) * n + z * state[unit];
    RECURRENT_KEEP(h)
  }
#endif
#else
  RECURRENT_MULTIPLY(state, RECURRENT_FOUR)
  RECURRENT_UNITS {
    RECURRENT_SUM(input, 0)
    RECURRENT_SUM(output, 1)
    RECURRENT_SUM(forget, 2)
    RECURRENT_SUM(value, 3)
    input += RECURRENT_INPUT(0);
    forget += RECURRENT_INPUT(2);
#if RECURRENT_PEEPHOLES
    input += RECURRENT_PEEPHOLE(unit) * cell[unit];
    forget += RECURRENT_PEEPHOLE(2 * RECURRENT_HIDDEN + unit) * cell[unit];
#endif
    const VALUE kept = RECURRENT_GATE(forget) * cell[unit];
    const VALUE n = RECURRENT_VALUE(RECURRENT_INPUT(3) + value);
    const VALUE c = kept + RECURRENT_GATE(input) * n;
    output += RECURRENT_INPUT(1);
#if RECURRENT_PEEPHOLES
    output += RECURRENT_PEEPHOLE(RECURRENT_HIDDEN + unit) * c;
#endif
    const VALUE h = RECURRENT_GATE(output) * RECURRENT_TANH(c);
    if (active) cell[unit] = c;
    RECURRENT_KEEP(h)
  }
#endif
  BARRIER();
}
RECURRENT_UNITS {
  RECURRENT_STORE(shape.steps, row, unit, state[unit])
#if RECURRENT_CELL == 2
  RECURRENT_STORE(shape.steps + 1, row, unit, cell[unit])
#endif
}
