/* SPDX-License-Identifier: MIT */
/* RECURRENT: the steps of an LSTM, GRU or RNN.
 *
 * R is packed once for the micro-kernels of matrix multiplication and stays in the caches from step
 * to step. Sequences are divided into units, which run through all steps independently. If there
 * are fewer units than threads and a step is long enough, threads share the hidden units of each
 * step instead, by whole panels of R's columns.
 *
 * If states are rounded to 8 bits, the products are of bytes: a product with ones gives the sums of
 * R's columns, which the zero points need. Each sequence is rounded by itself.
 *
 * An element of a product is the same sum in every tile, so neither the number of threads nor the
 * division of the work changes a bit of the result. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gemm/isa/gemm_table.h"
#include "program/program.h"
#include "recurrent/isa/recurrent_table.h"

enum {
  UNIT_ROWS = 8, /* minimum sequences of a unit: enough to pay for reading R from the cache */
  UNITS_PER_THREAD = 2,
  STEP_WORK = 1 << 17, /* multiply-adds of a thread's part of a step that pay for starting it */
  PACK_WORK = 1 << 14, /* elements of a packing task */
  GATES = CPU_RECURRENT_GATES
};

enum { X = 0, R = 1, H = 2, C = 3, LENGTHS, BIAS, PEEPHOLES, SCALE, ZERO, Y, OPERANDS };

typedef struct recurrent_operand {
  int32_t pointer; /* number among the launch's pointers; −1: none */
  compute_dtype dtype;
  int64_t size; /* bytes of an element */
  int64_t stride[3];
} recurrent_operand;

typedef struct recurrent_kernel {
  cpu_kernel head;
  const cpu_gemm_type *product;
  const cpu_recurrent_loops *loops;
  bool quantized;
  recurrent_operand operand[OPERANDS];
  compute_recurrent_cell cell;
  bool reverse, reset_after;
  double clip; /* infinite: none */
  compute_dtype type;
  int64_t element; /* bytes of a value */
  int64_t steps, batch, hidden, gates;
  int64_t rows, units;   /* sequences of a unit */
  int64_t panels, chunk; /* of a gate; per task of a step */
  bool by_steps;
  uint64_t gate_bytes, state_bytes, sum_bytes, vector_bytes;
  uint64_t byte_bytes, word_bytes, column_bytes; /* with quantized states */
} recurrent_kernel;

/* Memory of a launch: states and sums are [batch, hidden] and [batch, gates · hidden]. */
typedef struct launch {
  const recurrent_kernel *kernel;
  const cpu_gemm_type *product;
  int64_t words; /* of k elements of the product */
  void *const *pointers;
  unsigned char *weights; /* one gate after the other */
  unsigned char *h[2];    /* before and after the step */
  unsigned char *c, *reset_h, *sums, *x;
  unsigned char *bias, *peepholes;
  /* With quantized states: rows of bytes and of words, and how they were rounded; a row of ones;
   * per column R's sum, scale and zero point. */
  unsigned char *bytes, *rows, *ones;
  cpu_recurrent_rounding *rounding;
  int32_t *column_sums, *zeros;
  float *scales;
  int64_t step; /* the current step, if tasks share it */
  int phase;
} launch;

/* Hidden units of sequences. */
typedef struct part {
  int64_t row, rows, panel, panels, first, count; /* first … are units */
} part;

static int64_t steps_of(const compute_kernel_descriptor *d) {
  return d->size[0] - compute_recurrent_states(compute_recurrent_of(d)->cell);
}

static const unsigned char *place(const launch *l, int which, int64_t i, int64_t j, int64_t k) {
  const recurrent_operand *o = &l->kernel->operand[which];
  return (const unsigned char *)l->pointers[o->pointer] +
         (i * o->stride[0] + j * o->stride[1] + k * o->stride[2]) * o->size;
}

/* Reads `count` elements from unit `k` on as contiguous values. */
static void read_values(const launch *l, int which, int64_t i, int64_t j, int64_t k, int64_t count,
                        void *values) {
  const recurrent_operand *o = &l->kernel->operand[which];
  l->kernel->head.device->isa->tile->load[o->dtype](count, values, place(l, which, i, j, k),
                                                    o->stride[2]);
}

/* Stores values to row i of the output, sequence j, from unit k on; overwrites `spare`. */
static void write_values(const launch *l, int64_t i, int64_t j, int64_t k, int64_t count,
                         const void *values, void *spare) {
  const recurrent_kernel *kernel = l->kernel;
  const recurrent_operand *o = &kernel->operand[Y];
  const cpu_tile_table *tile = kernel->head.device->isa->tile;
  const cpu_type made = cpu_type_of(kernel->type);
  if (made != cpu_type_of(o->dtype)) {
    tile->narrow[made][o->dtype](count, spare, values);
    values = spare;
  }
  tile->store[o->dtype](count, (unsigned char *)(uintptr_t)place(l, Y, i, j, k), o->stride[2],
                        values);
}

/* ---- A step -------------------------------------------------------------------------------- */

static int64_t gate_columns(const recurrent_kernel *kernel) {
  return kernel->gates * kernel->hidden;
}

/* Elements of a packed panel of R. */
static int64_t panel_elements(const recurrent_kernel *kernel, const cpu_gemm_type *type) {
  return type->columns * (cpu_divide_up(kernel->hidden, type->group) + type->terms);
}

/* The block of a product of packed rows of words with R's columns from panel `panel` of a gate. */
static cpu_gemm_block word_block(const launch *l, int64_t gate, int64_t panel, int64_t count,
                                 const unsigned char *rows) {
  const recurrent_kernel *kernel = l->kernel;
  const int64_t elements = panel_elements(kernel, l->product);
  return (cpu_gemm_block){.n = count,
                          .k = l->words,
                          .a = rows,
                          .a_row = l->words,
                          .a_k = 1,
                          .b = l->weights + (uint64_t)gate * kernel->gate_bytes +
                               (uint64_t)(panel * elements) * sizeof(int32_t),
                          .b_k = l->product->columns,
                          .b_column = elements,
                          .c_row = gate_columns(kernel)};
}

static uint64_t word_row_bytes(const recurrent_kernel *kernel, const cpu_gemm_type *type) {
  return (uint64_t)cpu_divide_up(kernel->hidden, type->group) * sizeof(int32_t);
}

/* Rounds the states of sequences to bytes, and packs them. */
static void round_states(const launch *l, int64_t row, int64_t rows) {
  const recurrent_kernel *kernel = l->kernel;
  const cpu_gemm_type *type = l->product;
  const bool is_signed = type->left_signed;
  const int64_t hidden = kernel->hidden;
  if (!kernel->quantized) return;
  for (int64_t i = row; i < row + rows; i++)
    kernel->loops->round(hidden, (const float *)l->h[0] + i * hidden, is_signed,
                         l->bytes + i * hidden, &l->rounding[i]);
  type->pack_rows(
      l->rows + (uint64_t)row * word_row_bytes(kernel, l->product), l->words * type->group, rows,
      hidden,
      &(cpu_gemm_source){l->bytes + row * hidden, is_signed ? COMPUTE_I8 : COMPUTE_U8, hidden, 1});
}

/* As multiply, for quantized states: exact sums, then their values. */
static void multiply_bytes(const launch *l, const part *p, int64_t first, int64_t end) {
  const recurrent_kernel *kernel = l->kernel;
  for (int64_t gate = first; gate < end; gate++) {
    const int64_t column = gate * kernel->hidden + p->first;
    cpu_gemm_block block =
        word_block(l, gate, p->panel, p->count,
                   l->rows + (uint64_t)p->row * word_row_bytes(kernel, l->product));
    int32_t *sums = (int32_t *)l->sums + p->row * gate_columns(kernel) + column;
    block.m = p->rows;
    block.c = sums;
    l->product->multiply(&block);
    for (int64_t i = 0; i < p->rows; i++)
      kernel->loops->scale(
          p->count, kernel->hidden, &l->rounding[p->row + i],
          &(cpu_recurrent_columns){l->column_sums + column, l->zeros + column, l->scales + column},
          sums + i * gate_columns(kernel));
  }
}

/* sums = state · R's columns of gates first … end − 1. */
static void multiply(const launch *l, const part *p, const unsigned char *state, int64_t first,
                     int64_t end) {
  const recurrent_kernel *kernel = l->kernel;
  const int64_t hidden = kernel->hidden, panel = panel_elements(kernel, l->product);
  if (kernel->quantized) {
    multiply_bytes(l, p, first, end);
    return;
  }
  for (int64_t gate = first; gate < end; gate++) {
    const int64_t to = p->row * gate_columns(kernel) + gate * hidden + p->first;
    l->product->multiply(&(cpu_gemm_block){.m = p->rows,
                                           .n = p->count,
                                           .k = hidden,
                                           .a = state + p->row * hidden * kernel->element,
                                           .a_row = hidden,
                                           .a_k = 1,
                                           .b = l->weights + (uint64_t)gate * kernel->gate_bytes +
                                                (uint64_t)(p->panel * panel * kernel->element),
                                           .b_k = l->product->columns,
                                           .b_column = panel,
                                           .c = l->sums + to * kernel->element,
                                           .c_row = gate_columns(kernel)});
  }
}

/* The step's input for a sequence: in place, or converted. */
static void find_inputs(const launch *l, const part *p, int64_t step, int64_t row,
                        cpu_recurrent_row *r) {
  const recurrent_kernel *kernel = l->kernel;
  const recurrent_operand *o = &kernel->operand[X];
  const bool direct = o->dtype == kernel->type && o->stride[2] == 1;
  for (int64_t gate = 0; gate < kernel->gates; gate++) {
    const int64_t column = gate * kernel->hidden + p->first;
    unsigned char *copy = l->x + (row * gate_columns(kernel) + column) * kernel->element;
    if (!direct) read_values(l, X, step, row, column, p->count, copy);
    r->x[gate] = direct ? place(l, X, step, row, column) : copy;
  }
}

static void find_row(const launch *l, const part *p, int64_t step, int64_t row,
                     cpu_recurrent_row *r) {
  const recurrent_kernel *kernel = l->kernel;
  const int64_t hidden = kernel->hidden, element = kernel->element;
  const int64_t at = (row * hidden + p->first) * element;
  *r = (cpu_recurrent_row){.h = l->h[0] + at,
                           .next = l->h[1] + at,
                           .c = l->c + at,
                           .reset_h = l->reset_h + at,
                           .bias = l->bias ? l->bias + p->first * element : NULL,
                           .clip = kernel->clip};
  for (int64_t gate = 0; gate < kernel->gates; gate++)
    r->sums[gate] = l->sums + (row * gate_columns(kernel) + gate * hidden + p->first) * element;
  for (int i = 0; i < 3 && l->peepholes; i++)
    r->peephole[i] = l->peepholes + (i * hidden + p->first) * element;
  find_inputs(l, p, step, row, r);
}

static bool takes_part(const launch *l, int64_t step, int64_t row) {
  int32_t length;
  if (l->kernel->operand[LENGTHS].pointer < 0) return true;
  memcpy(&length, place(l, LENGTHS, 0, 0, row), sizeof length);
  return step < length;
}

/* Computes the state after the step, and its row of the output. */
static void finish_row(const launch *l, const part *p, int64_t step, int64_t row,
                       cpu_recurrent_loop loop) {
  const recurrent_kernel *kernel = l->kernel;
  const size_t bytes = (size_t)(p->count * kernel->element);
  cpu_recurrent_row r;
  find_row(l, p, step, row, &r);
  if (takes_part(l, step, row)) {
    loop(p->count, &r);
    write_values(l, step, row, p->first, p->count, r.next, r.sums[0]);
  } else {
    memcpy(r.next, r.h, bytes);
    memset(r.sums[0], 0, bytes);
    write_values(l, step, row, p->first, p->count, r.sums[0], r.sums[0]);
  }
}

static cpu_recurrent_loop last_loop(const launch *l) {
  const cpu_recurrent_loops *loops = l->kernel->loops;
  switch (l->kernel->cell) {
  case COMPUTE_RECURRENT_LSTM: return l->peepholes ? loops->lstm_peepholes : loops->lstm;
  case COMPUTE_RECURRENT_GRU: return l->kernel->reset_after ? loops->gru : loops->gru_state;
  case COMPUTE_RECURRENT_RNN: break;
  }
  return loops->rnn;
}

static int phases(const recurrent_kernel *kernel) {
  return kernel->cell == COMPUTE_RECURRENT_GRU && !kernel->reset_after ? 2 : 1;
}

/* One phase of a step. If there are two, the first computes r · h of all units, and the second
 * multiplies it. */
static void run_phase(const launch *l, const part *p, int64_t step, int phase) {
  const recurrent_kernel *kernel = l->kernel;
  const bool first_of_two = phases(kernel) == 2 && phase == 0;
  if (first_of_two)
    multiply(l, p, l->h[0], 0, 2);
  else if (phase == 1)
    multiply(l, p, l->reset_h, 2, 3);
  else
    multiply(l, p, l->h[0], 0, kernel->gates);
  for (int64_t row = p->row; row < p->row + p->rows; row++) {
    cpu_recurrent_row r;
    if (!first_of_two) {
      finish_row(l, p, step, row, last_loop(l));
    } else {
      find_row(l, p, step, row, &r);
      kernel->loops->gru_gates(p->count, &r);
    }
  }
}

static void exchange(launch *l) {
  unsigned char *after = l->h[1];
  l->h[1] = l->h[0];
  l->h[0] = after;
}

/* ---- Tasks --------------------------------------------------------------------------------- */

static part unit_part(const recurrent_kernel *kernel, int64_t unit) {
  const int64_t row = unit * kernel->rows;
  return (part){.row = row,
                .rows = cpu_min(kernel->rows, kernel->batch - row),
                .panels = kernel->panels,
                .count = kernel->hidden};
}

static int64_t step_at(const recurrent_kernel *kernel, int64_t i) {
  return kernel->reverse ? kernel->steps - 1 - i : i;
}

static void unit_task(void *argument, int64_t unit, int32_t worker) {
  launch l = *(const launch *)argument; /* a copy: units swap their states independently */
  const part p = unit_part(l.kernel, unit);
  (void)worker;
  for (int64_t i = 0; i < l.kernel->steps; i++) {
    round_states(&l, p.row, p.rows);
    for (int phase = 0; phase < phases(l.kernel); phase++)
      run_phase(&l, &p, step_at(l.kernel, i), phase);
    exchange(&l);
  }
}

static void chunk_task(void *argument, int64_t chunk, int32_t worker) {
  const launch *l = argument;
  const recurrent_kernel *kernel = l->kernel;
  const int64_t width = kernel->product->columns;
  part p = {.rows = kernel->batch, .panel = chunk * kernel->chunk};
  (void)worker;
  p.panels = cpu_min(kernel->chunk, kernel->panels - p.panel);
  p.first = p.panel * width;
  p.count = cpu_min(p.panels * width, kernel->hidden - p.first);
  run_phase(l, &p, l->step, l->phase);
}

static void run_by_steps(launch *l) {
  const recurrent_kernel *kernel = l->kernel;
  const int64_t chunks = cpu_divide_up(kernel->panels, kernel->chunk);
  for (int64_t i = 0; i < kernel->steps; i++) {
    l->step = step_at(kernel, i);
    round_states(l, 0, kernel->batch);
    for (l->phase = 0; l->phase < phases(kernel); l->phase++)
      cpu_parallel(kernel->head.device, chunks, chunk_task, l);
    exchange(l);
  }
}

static int64_t pack_chunk(const recurrent_kernel *kernel) {
  return cpu_max(1, PACK_WORK / (kernel->hidden * kernel->product->columns));
}

/* Packs some panels of a gate. */
static void pack_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const recurrent_kernel *kernel = l->kernel;
  const recurrent_operand *o = &kernel->operand[R];
  const int64_t width = l->product->columns, chunk = pack_chunk(kernel);
  const int64_t chunks = cpu_divide_up(kernel->panels, chunk);
  const int64_t gate = task / chunks, panel = task % chunks * chunk, first = panel * width;
  const cpu_gemm_source source = {place(l, R, 0, 0, gate * kernel->hidden + first), o->dtype,
                                  o->stride[1], o->stride[2]};
  const int64_t count = cpu_min(chunk * width, kernel->hidden - first);
  unsigned char *to = l->weights + (uint64_t)gate * kernel->gate_bytes +
                      (uint64_t)(panel * panel_elements(kernel, l->product) * kernel->element);
  (void)worker;
  if (!kernel->quantized) {
    l->product->pack_panels(to, kernel->hidden, count, &source);
    return;
  }
  l->product->pack_words(to, true, count, kernel->hidden, &source,
                         l->product->left_signed ? COMPUTE_I8 : COMPUTE_U8);
  cpu_gemm_block block = word_block(l, gate, panel, count, l->ones);
  block.m = 1;
  block.c = l->column_sums + gate * kernel->hidden + first;
  l->product->multiply(&block);
}

/* ---- Launching ----------------------------------------------------------------------------- */

static bool has(const recurrent_kernel *kernel, int which) {
  return kernel->operand[which].pointer >= 0;
}

static void begin_states(const launch *l) {
  const recurrent_kernel *kernel = l->kernel;
  for (int64_t row = 0; row < kernel->batch; row++) {
    const int64_t at = row * kernel->hidden * kernel->element;
    read_values(l, H, 0, row, 0, kernel->hidden, l->h[0] + at);
    if (has(kernel, C)) read_values(l, C, 0, row, 0, kernel->hidden, l->c + at);
  }
  if (l->bias) read_values(l, BIAS, 0, 0, 0, kernel->hidden, l->bias);
  if (l->peepholes) read_values(l, PEEPHOLES, 0, 0, 0, 3 * kernel->hidden, l->peepholes);
  if (!kernel->quantized) return;
  read_values(l, SCALE, 0, 0, 0, gate_columns(kernel), l->scales);
  for (int64_t i = 0; i < gate_columns(kernel); i++)
    l->zeros[i] = *(const int8_t *)place(l, ZERO, 0, 0, i);
  memset(l->bytes, 1, (size_t)kernel->hidden);
  l->product->pack_rows(l->ones, l->words * l->product->group, 1, kernel->hidden,
                        &(cpu_gemm_source){l->bytes,
                                           l->product->left_signed ? COMPUTE_I8 : COMPUTE_U8,
                                           kernel->hidden, 1});
}

/* After an odd number of steps the states are in the other half. */
static void end_states(const launch *l, const unsigned char *h) {
  const recurrent_kernel *kernel = l->kernel;
  for (int64_t row = 0; row < kernel->batch; row++) {
    const int64_t at = row * kernel->hidden * kernel->element;
    write_values(l, kernel->steps, row, 0, kernel->hidden, h + at, l->sums);
    if (has(kernel, C))
      write_values(l, kernel->steps + 1, row, 0, kernel->hidden, l->c + at, l->sums);
  }
}

/* `true` if R has no −128. */
static bool is_symmetric(const launch *l) {
  const recurrent_kernel *kernel = l->kernel;
  if (kernel->operand[R].stride[2] != 1) return false;
  for (int64_t k = 0; k < kernel->hidden; k++) {
    const int8_t *row = (const int8_t *)place(l, R, 0, k, 0);
    int found = 0;
    for (int64_t i = 0; i < gate_columns(kernel); i++) found |= row[i] == INT8_MIN;
    if (found) return false;
  }
  return true;
}

/* Takes `bytes` from the memory at *memory and advances it. */
static unsigned char *take(unsigned char **memory, uint64_t bytes) {
  unsigned char *taken = *memory;
  *memory += bytes;
  return taken;
}

static void divide_memory(launch *l, unsigned char *memory) {
  const recurrent_kernel *kernel = l->kernel;
  l->weights = take(&memory, (uint64_t)kernel->gates * kernel->gate_bytes);
  l->h[0] = take(&memory, kernel->state_bytes);
  l->h[1] = take(&memory, kernel->state_bytes);
  l->c = l->reset_h = take(&memory, kernel->state_bytes); /* used by different cells */
  l->sums = take(&memory, kernel->sum_bytes);
  l->x = take(&memory, kernel->sum_bytes);
  if (has(kernel, BIAS)) l->bias = take(&memory, kernel->vector_bytes);
  if (has(kernel, PEEPHOLES)) l->peepholes = take(&memory, kernel->vector_bytes);
  if (!kernel->quantized) return;
  l->bytes = take(&memory, kernel->byte_bytes);
  l->rows = take(&memory, kernel->word_bytes);
  l->ones = take(&memory, cpu_whole_lines(word_row_bytes(kernel, kernel->product)));
  l->column_sums = (int32_t *)take(&memory, kernel->column_bytes);
  l->zeros = (int32_t *)take(&memory, kernel->column_bytes);
  l->scales = (float *)take(&memory, kernel->column_bytes);
  l->rounding = (cpu_recurrent_rounding *)take(&memory, 0);
}

/* Memory that only quantized states need. */
static uint64_t quantized_bytes(const recurrent_kernel *kernel) {
  if (!kernel->quantized) return 0;
  return kernel->byte_bytes + kernel->word_bytes +
         cpu_whole_lines(word_row_bytes(kernel, kernel->product)) + 3 * kernel->column_bytes +
         (uint64_t)kernel->batch * sizeof(cpu_recurrent_rounding);
}

/* Chooses the product of a run. The symmetric one needs less memory than the kernel's. */
static void choose_bytes(launch *l) {
  const recurrent_kernel *kernel = l->kernel;
  const cpu_gemm_type *symmetric = kernel->head.device->isa->gemm->symmetric;
  if (symmetric && symmetric->columns == kernel->product->columns && is_symmetric(l))
    l->product = symmetric;
  l->words = cpu_divide_up(kernel->hidden, l->product->group);
}

static compute_status recurrent_run(const cpu_kernel *head, void *const *pointers) {
  const recurrent_kernel *kernel = (const recurrent_kernel *)head;
  cpu_device *device = head->device;
  if (kernel->batch == 0 || kernel->hidden == 0) return COMPUTE_OK;
  const uint64_t bytes = (uint64_t)kernel->gates * kernel->gate_bytes + 3 * kernel->state_bytes +
                         2 * kernel->sum_bytes + 2 * kernel->vector_bytes + quantized_bytes(kernel);
  unsigned char *memory = cpu_workspace_acquire(device, bytes);
  if (!memory) return cpu_out_of_memory(device, bytes);
  launch l = {.kernel = kernel, .product = kernel->product, .pointers = pointers};
  if (kernel->quantized) choose_bytes(&l);
  divide_memory(&l, memory);
  begin_states(&l);
  if (kernel->steps > 0)
    cpu_parallel(device, kernel->gates * cpu_divide_up(kernel->panels, pack_chunk(kernel)),
                 pack_task, &l);
  const unsigned char *last = l.h[kernel->steps % 2];
  if (kernel->by_steps)
    run_by_steps(&l);
  else
    cpu_parallel(device, kernel->units, unit_task, &l);
  end_states(&l, last);
  cpu_workspace_return(device, memory);
  return COMPUTE_OK;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

static void read_operand(recurrent_kernel *kernel, int which, const compute_operand *from,
                         int32_t pointer) {
  recurrent_operand *o = &kernel->operand[which];
  o->pointer = pointer;
  o->dtype = from->dtype;
  o->size = cpu_dtype_size(from->dtype);
  memcpy(o->stride, from->stride, sizeof o->stride);
}

static void read_operands(recurrent_kernel *kernel, const compute_kernel_descriptor *d) {
  const compute_recurrent_attributes *a = compute_recurrent_of(d);
  const bool there[OPERANDS] = {
      true,        true,    true,         a->cell == COMPUTE_RECURRENT_LSTM,
      a->lengths,  a->bias, a->peepholes, a->quantized,
      a->quantized};
  int32_t next = 0;
  for (int which = 0; which < Y; which++) {
    kernel->operand[which].pointer = -1;
    if (!there[which]) continue;
    read_operand(kernel, which, &d->inputs[next], next);
    next++;
  }
  read_operand(kernel, Y, &d->outputs[0], next);
}

/* Threads take separate sequences or, if these are few, columns of R. */
static void choose_units(recurrent_kernel *kernel) {
  const int64_t threads = kernel->head.device->threads, width = kernel->product->columns;
  const int64_t units = cpu_min(cpu_max(1, kernel->batch / UNIT_ROWS), threads * UNITS_PER_THREAD);
  kernel->rows = cpu_divide_up(kernel->batch, units);
  kernel->units = cpu_divide_up(kernel->batch, kernel->rows);
  kernel->panels = cpu_divide_up(kernel->hidden, width);
  kernel->chunk = cpu_divide_up(kernel->panels, threads);
  const double share = (double)kernel->batch * (double)kernel->gates * (double)kernel->hidden *
                       (double)kernel->hidden / (double)(threads * phases(kernel));
  kernel->by_steps = threads > 1 && kernel->units < threads && kernel->chunk < kernel->panels &&
                     share >= STEP_WORK;
}

static bool count_bytes(recurrent_kernel *kernel) {
  const int64_t columns = kernel->product->columns, padded = kernel->panels * columns;
  const double most = 0x1p60, element = (double)kernel->element;
  if ((double)padded * (double)kernel->hidden * element > most ||
      (double)kernel->batch * (double)kernel->hidden * element * GATES > most)
    return false;
  kernel->gate_bytes = cpu_whole_lines(
      (uint64_t)(kernel->panels * panel_elements(kernel, kernel->product) * kernel->element));
  kernel->byte_bytes = cpu_whole_lines((uint64_t)(kernel->batch * kernel->hidden));
  kernel->word_bytes =
      cpu_whole_lines((uint64_t)kernel->batch * word_row_bytes(kernel, kernel->product));
  kernel->column_bytes = cpu_whole_lines((uint64_t)gate_columns(kernel) * sizeof(int32_t));
  kernel->state_bytes =
      cpu_whole_lines((uint64_t)(kernel->batch * kernel->hidden * kernel->element));
  kernel->sum_bytes =
      cpu_whole_lines((uint64_t)(kernel->batch * gate_columns(kernel) * kernel->element));
  kernel->vector_bytes = cpu_whole_lines((uint64_t)(3 * kernel->hidden * kernel->element));
  return true;
}

static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  const compute_dtype type = descriptor->accumulate;
  const bool known =
      type == COMPUTE_F32 || (type == COMPUTE_F64 && !compute_recurrent_of(descriptor)->quantized);
  return known ? NULL : "unsupported combination of dtypes";
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  recurrent_kernel *kernel = (recurrent_kernel *)head;
  const compute_recurrent_attributes *a = compute_recurrent_of(descriptor);
  const cpu_isa *isa = head->device->isa;
  kernel->type = descriptor->accumulate;
  kernel->element = cpu_dtype_size(kernel->type);
  kernel->quantized = a->quantized;
  kernel->product = a->quantized                  ? isa->gemm->bytes
                    : kernel->type == COMPUTE_F64 ? isa->gemm->f64
                                                  : isa->gemm->f32;
  kernel->loops = CPU_PICK_FLOAT(isa, cpu_recurrent, kernel->type);
  kernel->cell = a->cell;
  kernel->reverse = a->reverse;
  kernel->reset_after = a->reset_after;
  kernel->clip = a->clip > 0 ? a->clip : (double)INFINITY;
  kernel->steps = steps_of(descriptor);
  kernel->batch = descriptor->size[1];
  kernel->hidden = descriptor->size[2];
  kernel->gates = compute_recurrent_gates(a->cell);
  read_operands(kernel, descriptor);
  if (kernel->batch > 0 && kernel->hidden > 0) {
    choose_units(kernel);
    if (!count_bytes(kernel)) return cpu_fail_overflow(head);
  }
  snprintf(head->description, sizeof head->description, "recurrent %s%s, %lld sequences at once%s",
           isa->name, kernel->quantized ? " of bytes" : "", (long long)kernel->rows,
           kernel->by_steps ? ", threads share each step" : "");
  return COMPUTE_OK;
}

const cpu_kind cpu_recurrent_kind = {.name = "recurrent",
                                     .refuse = refuse_descriptor,
                                     .bytes = sizeof(recurrent_kernel),
                                     .prepare = prepare,
                                     .run = recurrent_run};
