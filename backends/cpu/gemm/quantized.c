/* SPDX-License-Identifier: MIT */
/* QUANTIZED_GEMM: products with weights of a few bits.
 *
 * With few rows, the weights are read once and expanded in registers. With more rows, or if blocks
 * are too short for vectors, the GEMM implementation of gemm_own.c packs panels of dequantized
 * weights, and the rows repay the packing. The two ways add in another order, so a strict product
 * takes one of them for any number of rows. */
#include <stdio.h>
#include <string.h>

#include "gemm.h"
#include "gemm/isa/quantized_table.h"

enum {
  FEW_ROWS = 32,      /* up to this many rows do not repay panels */
  TASKS = 8,          /* at most, per thread */
  TASK_BYTES = 16384, /* of weights, at least */
  MOST_REST = 32      /* most numbers after the last whole group of the loops */
};

enum { A, NUMBERS, SCALE, ZERO };

/* One of the inputs of B, over columns and their bytes or blocks. */
typedef struct weight_operand {
  compute_dtype dtype;
  uint32_t size; /* bytes of an element */
  int64_t column, along;
} weight_operand;

typedef struct quantized_kernel {
  cpu_gemm gemm; /* its problem has a dense B */
  const cpu_quantized_table *loops;
  weight_operand numbers, scale, zero;
  bool zeros;
  int32_t bits;
  int64_t block, blocks; /* numbers in a block; blocks in a column */
  int64_t bytes;         /* in a column */
  uint32_t own, inputs, outputs;
  bool few, in_registers;
  int64_t group;                           /* numbers per step of the loops in
                                                         * registers */
  int64_t chunk, tasks;                    /* columns of a task */
  uint64_t a_bytes, copy_bytes, row_bytes; /* scratch memory */
} quantized_kernel;

typedef struct launch {
  gemm_source source; /* must be first */
  const quantized_kernel *kernel;
  const unsigned char *numbers, *scale, *zero;
  unsigned char *copies; /* each worker's columns that cannot be read in place */
  gemm_matrix matrix;
  const float *a; /* rows as f32, in the loops' order */
  unsigned char *sums;
} launch;

/* ---- Columns of weights ---------------------------------------------------------------------- */

static bool is_float_row(const weight_operand *o) {
  return o->dtype == COMPUTE_F32 && o->along == 1;
}

/* Blocks of some columns. */
typedef struct part {
  int64_t column, columns, block, blocks;
} part;

static uint64_t blocks_bytes(const part *p) {
  return cpu_whole_lines((uint64_t)(p->columns * p->blocks) * sizeof(float));
}

/* Finds scales or zero points as f32, in place or in `copy`, and the distance between columns. */
static const float *find_blocks(const quantized_kernel *k, const weight_operand *o,
                                const unsigned char *from, const part *p, float *copy,
                                int64_t *column) {
  from += (p->column * o->column + p->block * o->along) * o->size;
  *column = is_float_row(o) ? o->column : p->blocks;
  if (is_float_row(o)) return (const void *)from;
  if (o->dtype != COMPUTE_U8) {
    const cpu_gemm_source source = {from, o->dtype, o->column, o->along};
    k->gemm.problem.type->pack_rows(copy, p->blocks, p->columns, p->blocks, &source);
    return copy;
  }
  for (int64_t j = 0; j < p->columns; j++)
    for (int64_t i = 0; i < p->blocks; i++)
      copy[j * p->blocks + i] = from[j * o->column + i * o->along];
  return copy;
}

/* Bytes of a column in a part's blocks; the last block may be partial. */
static int64_t count_bytes(const quantized_kernel *k, const part *p) {
  const int64_t each = k->block * k->bits / 8;
  return cpu_min(p->blocks * each, k->bytes - p->block * each);
}

/* Finds the data of a part, in place if possible, otherwise in `copy` (copy_bytes). */
static cpu_quantized_columns find_columns(const launch *l, const part *p, unsigned char *copy) {
  const quantized_kernel *k = l->kernel;
  float *scale = (void *)copy, *zero = (void *)(copy + blocks_bytes(p));
  unsigned char *bytes = copy + 2 * blocks_bytes(p);
  cpu_quantized_columns c = {.block = k->block, .bits = k->bits};
  c.scale = find_blocks(k, &k->scale, l->scale, p, scale, &c.scale_column);
  if (k->zeros) {
    c.zero = find_blocks(k, &k->zero, l->zero, p, zero, &c.zero_column);
  } else {
    for (int64_t i = 0; i < p->blocks; i++) zero[i] = (float)(1 << (k->bits - 1));
    c.zero = zero;
  }
  const weight_operand *o = &k->numbers;
  const unsigned char *from =
      l->numbers + p->column * o->column + p->block * (k->block * k->bits / 8) * o->along;
  c.numbers = from;
  c.numbers_column = o->column;
  if (o->along == 1) return c;
  const int64_t count = count_bytes(k, p);
  for (int64_t j = 0; j < p->columns; j++)
    for (int64_t i = 0; i < count; i++) bytes[j * count + i] = from[j * o->column + i * o->along];
  c.numbers = bytes;
  c.numbers_column = count;
  return c;
}

static uint64_t copy_bytes(const quantized_kernel *k, int64_t columns) {
  const part all = {.columns = columns, .blocks = k->blocks};
  const int64_t bytes = k->numbers.along == 1 ? 0 : columns * k->bytes;
  return cpu_whole_lines(2 * blocks_bytes(&all) + (uint64_t)bytes);
}

/* Expands `count` numbers of each of `many` columns, from number p of the part on. */
static void expand(const quantized_kernel *k, const cpu_quantized_columns *columns, int64_t p,
                   int64_t count, int64_t column, int64_t many, float *to) {
  for (int64_t j = column; j < column + many; j++) {
    cpu_quantized_columns one = *columns;
    one.numbers += j * columns->numbers_column;
    one.scale += j * columns->scale_column;
    one.zero += j * columns->zero_column;
    k->loops->expand(&one, p, count, to + (j - column) * count);
  }
}

/* ---- Many rows ------------------------------------------------------------------------------- */

/* True if the panel loop accepts `count` numbers from p on, and there is room for their scales and
 * zero points. */
static bool makes_panel(const quantized_kernel *k, int64_t p, int64_t count, const part *needed) {
  const int64_t columns = needed->columns;
  return k->loops->panel && columns == k->gemm.problem.type->columns && p * k->bits % 32 == 0 &&
         k->block * k->bits % 32 == 0 && 2 * needed->blocks <= count;
}

/* Transposes scales or zero points: the values of each block become contiguous. */
static const float *turn_blocks(const quantized_kernel *k, const float *from, int64_t column,
                                const part *p, float *to) {
  const cpu_gemm_source source = {(const void *)from, COMPUTE_F32, 1, column};
  k->gemm.problem.type->pack_panels(to, p->blocks, p->columns, &source);
  return to;
}

static void fill(const gemm_source *source, int64_t p, int64_t count, int64_t column,
                 int64_t columns, int32_t worker, void *space, void *panel) {
  const launch *l = (const launch *)source;
  const quantized_kernel *k = l->kernel;
  const int64_t block = k->block, first = p / block;
  if (count == 0) return;
  const part needed = {column, columns, first, (p + count - 1) / block + 1 - first};
  const cpu_quantized_columns c =
      find_columns(l, &needed, l->copies + (uint64_t)worker * k->copy_bytes);
  if (makes_panel(k, p, count, &needed)) {
    float *turned = space;
    const float *scale = turn_blocks(k, c.scale, c.scale_column, &needed, turned);
    turned += needed.blocks * columns;
    const float *zero = turn_blocks(k, c.zero, c.zero_column, &needed, turned);
    k->loops->panel(&c, scale, zero, p - first * block, count, columns, panel);
    return;
  }
  expand(k, &c, p - first * block, count, 0, columns, space);
  const cpu_gemm_source filled = {space, COMPUTE_F32, 1, count};
  k->gemm.problem.type->pack_panels(panel, count, columns, &filled);
}

/* ---- Few rows -------------------------------------------------------------------------------- */

/* The length of k that the loops cover. */
static int64_t whole_groups(const quantized_kernel *k) {
  return k->gemm.problem.k / k->group * k->group;
}

/* Adds the numbers after the last whole group, which the loops leave out. */
static void add_rest(const launch *l, const cpu_quantized_columns *c, int64_t columns,
                     int64_t first, float *sums, int64_t sums_row) {
  const gemm_problem *problem = &l->kernel->gemm.problem;
  float rest[MOST_REST];
  const int64_t count = problem->k - first;
  for (int64_t j = 0; j < columns; j++) {
    expand(l->kernel, c, first, count, j, 1, rest);
    for (int64_t i = 0; i < problem->m; i++) {
      float sum = 0;
      for (int64_t p = 0; p < count; p++) sum += l->a[i * problem->k + first + p] * rest[p];
      sums[i * sums_row + j] += sum;
    }
  }
}

static void multiply_in_registers(const launch *l, const cpu_quantized_columns *c, int64_t columns,
                                  float *sums, int64_t sums_row) {
  const quantized_kernel *k = l->kernel;
  const gemm_problem *problem = &k->gemm.problem;
  const int64_t whole = whole_groups(k);
  const int64_t rows = cpu_divide_up(problem->m, cpu_divide_up(problem->m, CPU_QUANTIZED_ROWS));
  for (int64_t i = 0; i < problem->m; i += rows)
    k->loops->dot(c, columns, l->a + i * problem->k, problem->k, cpu_min(rows, problem->m - i),
                  whole, sums + i * sums_row, sums_row);
  if (whole < problem->k) add_rest(l, c, columns, whole, sums, sums_row);
}

static void few_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const quantized_kernel *k = l->kernel;
  const gemm_problem *problem = &k->gemm.problem;
  const int64_t first = task * k->chunk, columns = cpu_min(k->chunk, problem->n - first);
  const part all = {first, columns, 0, k->blocks};
  float *sums = (void *)(l->sums + (uint64_t)worker * k->row_bytes);
  const cpu_quantized_columns c =
      find_columns(l, &all, l->copies + (uint64_t)worker * k->copy_bytes);
  multiply_in_registers(l, &c, columns, sums, columns);
  gemm_epilogue_run(&k->gemm, &l->matrix, sums, columns, 0, problem->m, first, columns);
}

/* Copies A to dense rows of f32, in the loops' order. */
static void take_rows(const launch *l, float *a) {
  const quantized_kernel *k = l->kernel;
  const gemm_problem *problem = &k->gemm.problem;
  const cpu_gemm_source source = {l->matrix.a, problem->a.dtype, problem->a.row, problem->a.column};
  problem->type->pack_rows(a, problem->k, problem->m, problem->k, &source);
  for (int64_t i = 0; i < problem->m; i++)
    k->loops->arrange(k->bits, k->block, a + i * problem->k, whole_groups(k));
}

/* ---- The kernel ------------------------------------------------------------------------------ */

static compute_status run(const cpu_kernel *head, void *const *pointers) {
  const quantized_kernel *k = (const quantized_kernel *)head;
  cpu_device *device = head->device;
  const uint64_t threads = k->few && k->tasks == 1 ? 1 : (uint64_t)device->threads;
  launch l = {.source = {fill},
              .kernel = k,
              .numbers = pointers[NUMBERS],
              .scale = pointers[SCALE],
              .zero = k->zeros ? pointers[ZERO] : NULL};
  void *dense[COMPUTE_MAX_OPERANDS] = {pointers[A], pointers[NUMBERS]};
  memcpy(dense + 2, pointers + k->own, (k->inputs - k->own + k->outputs) * sizeof *dense);
  const uint64_t bytes = cpu_whole_lines(1) + k->a_bytes + threads * (k->copy_bytes + k->row_bytes);
  unsigned char *scratch = cpu_workspace_acquire(device, bytes);
  if (!scratch) return cpu_out_of_memory(device, bytes);
  l.copies = scratch + k->a_bytes;
  l.sums = l.copies + threads * k->copy_bytes;
  compute_status status = COMPUTE_OK;
  if (k->few) {
    gemm_problem_matrix(&k->gemm.problem, dense, 0, &l.matrix);
    take_rows(&l, (void *)scratch);
    l.a = (const void *)scratch;
    cpu_parallel(device, k->tasks, few_task, &l);
  } else {
    status = gemm_run_filled(&k->gemm, dense, &l.source);
  }
  cpu_workspace_return(device, scratch);
  return status;
}

static weight_operand read_operand(const compute_kernel_descriptor *d, int input) {
  const compute_operand *o = &d->inputs[input];
  return (weight_operand){o->dtype, cpu_dtype_size(o->dtype), o->stride[d->rank - 2],
                          o->stride[d->rank - 1]};
}

static void choose_few(quantized_kernel *k) {
  const gemm_problem *problem = &k->gemm.problem;
  k->group = k->loops->group ? k->loops->group(k->bits, k->block) : 0;
  k->in_registers = k->group > 0;
  k->few = problem->batches == 1 && problem->k > 0 && k->in_registers &&
           (problem->m <= FEW_ROWS || problem->strict);
  if (!k->few) return;
  const int64_t threads = k->gemm.head.device->threads;
  const int64_t least = cpu_max(TASK_BYTES / cpu_max(k->bytes, 1), 1);
  k->chunk = cpu_round_up(cpu_max(cpu_divide_up(problem->n, TASKS * threads), least), 4);
  k->tasks = cpu_divide_up(problem->n, k->chunk);
  const uint64_t element = sizeof(float);
  k->a_bytes = cpu_whole_lines((uint64_t)(problem->m * problem->k) * element);
  k->copy_bytes = copy_bytes(k, k->chunk);
  k->row_bytes = cpu_whole_lines((uint64_t)(problem->m * k->chunk) * element);
}

/* Prepares the product as a GEMM with dense columns of B. */
static compute_status prepare_dense(quantized_kernel *k, const compute_kernel_descriptor *d) {
  compute_operand inputs[COMPUTE_MAX_OPERANDS];
  compute_kernel_descriptor dense = *d;
  compute_gemm_attributes product = {.k = compute_quantized_gemm_of(d)->k};
  if (compute_quantized_gemm_of(d)->reproducible)
    product.precision = COMPUTE_PRECISION_REPRODUCIBLE;
  inputs[0] = d->inputs[A];
  inputs[1] = (compute_operand){.dtype = d->accumulate};
  inputs[1].stride[d->rank - 2] = 1;
  inputs[1].stride[d->rank - 1] = product.k;
  memcpy(inputs + 2, d->inputs + k->own, (d->input_count - k->own) * sizeof *inputs);
  dense.kind = COMPUTE_KERNEL_GEMM;
  dense.inputs = inputs;
  dense.input_count = d->input_count - k->own + 2;
  dense.attributes = &product;
  dense.attribute_bytes = sizeof product;
  dense.constant_inputs = 0;
  k->gemm.filled = true;
  return gemm_prepare(&k->gemm.head, &dense);
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *d) {
  quantized_kernel *k = (quantized_kernel *)head;
  const compute_quantized_gemm_attributes *a = compute_quantized_gemm_of(d);
  k->own = a->zeros ? 4 : 3;
  k->inputs = d->input_count;
  k->outputs = d->output_count;
  const compute_status status = prepare_dense(k, d);
  if (status || head->run == cpu_run_nothing) return status;
  k->loops = CPU_PICK(head->device->isa, cpu_quantized);
  k->numbers = read_operand(d, NUMBERS);
  k->scale = read_operand(d, SCALE);
  k->zeros = a->zeros;
  if (a->zeros) k->zero = read_operand(d, ZERO);
  k->bits = a->bits;
  k->block = a->block;
  k->blocks = cpu_divide_up(a->k, a->block);
  k->bytes = cpu_divide_up(a->k, 8 / a->bits);
  choose_few(k);
  if (!k->few) k->copy_bytes = copy_bytes(k, k->gemm.problem.type->columns);
  char dense[sizeof head->description];
  snprintf(dense, sizeof dense, "%s", head->description);
  head->run = run;
  if (k->few)
    snprintf(head->description, sizeof head->description,
             "quantized gemm %s, expanded in registers, %lld tasks", head->device->isa->name,
             (long long)k->tasks);
  else
    snprintf(head->description, sizeof head->description, "quantized %.140s", dense);
  return COMPUTE_OK;
}

static void clear(cpu_kernel *kernel) {
  cpu_program_release(kernel->device, ((cpu_gemm *)kernel)->epilogue);
}

/* Refuses other accumulate types: the graph expands weights in f64. */
static const char *refuse(const compute_kernel_descriptor *d) {
  return d->accumulate == COMPUTE_F32 ? NULL : "sums are only f32";
}

const cpu_kind cpu_quantized_gemm_kind = {.name = "quantized_gemm",
                                          .refuse = refuse,
                                          .bytes = sizeof(quantized_kernel),
                                          .prepare = prepare,
                                          .clear = clear};
