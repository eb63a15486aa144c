/* SPDX-License-Identifier: MIT */
/* ROW: softmax, log-softmax and normalize over the last dimension.
 *
 * The rows are one loop nest, the positions along a row another. Rows are processed in groups: one
 * row at a time if its elements are contiguous ("single"), or several neighbouring rows at once if
 * those are contiguous instead, or if rows are very short ("wide"). A row is divided into blocks
 * that fit the L2 cache. Every block gives two statistics per row,
 *
 *   softmax, log-softmax   its largest element, and the sum of exp(x − largest)
 *   normalize              its mean, and the sum of squared differences from it
 *
 * which are merged over the blocks; then every block is finished with the merged ones. So a row of
 * one block, the usual case, is read from memory once. Softmax of such rows is one loop (`softmax`
 * in isa/row_table.h). For other rows it keeps the exponentials of the first half, in the output if
 * that takes plain values, otherwise in a buffer. If the row has several blocks and only a buffer,
 * it computes them again.
 *
 * Threads share whole groups if there are many, otherwise their blocks. Blocks depend only on the
 * row's length and are merged in order, so a row has the same bits beside any other rows and with
 * any number of threads. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "program/formulas.h"
#include "program/isa/formulas_table.h"
#include "row/isa/row_table.h"
#include "core/nest.h"
#include "core/portable.h"

enum {
  LONG_ROW = 1024,  /* shorter rows do not pay for non-temporal stores, which go row by row */
  TILE = 1024,      /* results between the row operation and the epilogue */
  SHORT_ROW = 32,   /* shorter rows are processed in wide groups, however few there are */
  LEAST_TURNED = 4, /* elements of rows that transposing pays for */
  NARROWEST = 16,   /* minimum rows of a wide group, if there are as many: a cache line */
  WIDEST = 512,
  GROUP = 1 << 12, /* elements of a single group: with its results it fills an L1 cache */
  BLOCK = 1 << 15, /* maximum elements of a block: with its results it fits an L2 cache */
  WORK = 1 << 14,  /* with fewer elements, another thread does not pay */
  TASKS_PER_THREAD = 4
};

#define LEAST_EPSILON 0x1p-60 /* hides variances below 2^-100 */

typedef struct row_kernel {
  cpu_kernel head;
  cpu_stage prologue, epilogue;
  cpu_nest rows, along; /* along has one dimension */
  const cpu_row_way *loops;
  double exponential_scale;
  compute_row_operation operation;
  double epsilon;
  uint32_t value_bytes;
  bool wide;          /* panels run across rows, not along them */
  bool direct_input;  /* elements are read in place */
  bool direct_output; /* results are written in place */
  bool stream;        /* non-temporal stores */
  int32_t gain, bias; /* operand numbers if the normalizing loop can multiply rows by gain and add
                       * bias, with no further epilogue; otherwise −1 */
  bool affine_bf16;   /* gain, bias and results are bf16 */
  bool turns_input, turns_output; /* whole rows pass a stage as one line (run_turned) */
  bool whole;                     /* softmax in one loop, from elements to results */
  bool split;                     /* threads share the blocks of a group, not the groups */
  int64_t row_count, length;
  int64_t width, groups_per_line, groups;
  int64_t block, blocks;
  int64_t tasks;
  uint64_t buffer_bytes;     /* for one block, per worker */
  uint64_t statistics_bytes; /* of one group */
} row_kernel;

typedef struct launch {
  const row_kernel *kernel;
  void *const *pointers;
  cpu_scratch *scratch;      /* one per worker */
  unsigned char *buffers;    /* one per worker */
  unsigned char *statistics; /* one per worker, or one per group if split */
} launch;

/* A worker's current job. */
typedef struct job {
  const launch *launch;
  cpu_scratch *scratch;
  unsigned char *buffer;
  double *statistics; /* vectors of `width`: two per block, then the merged ones */
  cpu_walk walk;
  int64_t first, count; /* rows of the group, along the last dimension of the nest */
  cpu_place place;
} job;

/* The merged vectors: normalize and softmax end in (x − shift) · factor + offset, log-softmax in x
 * − shift − offset. */
enum { SHIFT = 0, FACTOR = 1, OFFSET = 2, MERGED = 3 };

static double *block_statistic(const job *j, int64_t block, int which) {
  return j->statistics + (2 * block + which) * j->launch->kernel->width;
}

static double *merged_statistic(const job *j, int which) {
  return j->statistics + (2 * j->launch->kernel->blocks + which) * j->launch->kernel->width;
}

/* ---- Panels -------------------------------------------------------------------------------- */

static void set_place(job *j, int64_t row, int64_t position) {
  const row_kernel *kernel = j->launch->kernel;
  static const cpu_walk start = {{0}, {0}};
  cpu_place_set(&j->place, (cpu_position){&kernel->rows, &j->walk, j->first + row},
                (cpu_position){&kernel->along, &start, position});
}

/* Step of a contiguous panel in a buffer for blocks of this length. */
static int64_t dense_step(const row_kernel *kernel, int64_t length) {
  return kernel->wide ? kernel->width : length;
}

/* `true` if neighbouring rows are contiguous in all operands of a stage, as in contiguous tensors,
 * so that several rows form one long line. */
static bool rows_continue(const row_kernel *kernel, const cpu_stage *stage) {
  if (stage->coordinates) return false;
  for (int32_t k = 0; k < CPU_NEST_OPERANDS; k++) {
    const bool read = k >= stage->first_input && k < stage->first_input + stage->inputs;
    const bool written = k >= stage->first_output && k < stage->first_output + stage->outputs;
    if ((read || written || k == stage->position) &&
        cpu_nest_step(&kernel->rows, k) != kernel->length * cpu_nest_step(&kernel->along, k))
      return false;
  }
  return true;
}

/* Runs a stage over whole short rows of a wide group, as one long line, and turns them from or to
 * the panel: line by line, each element would be read or written by itself. */
static void run_turned(job *j, const cpu_stage *stage, int64_t rows, unsigned char *values) {
  const row_kernel *kernel = j->launch->kernel;
  const int64_t bytes = (int64_t)kernel->value_bytes, length = kernel->length;
  const int64_t step = kernel->width * bytes;
  const int32_t operand = stage->epilogue ? stage->first_output : stage->first_input;
  const cpu_transpose_block transpose =
      kernel->head.device->isa->tile->transpose[bytes == sizeof(double) ? 3 : 2];
  const bool direct = stage->identity && cpu_nest_step(&kernel->along, operand) == 1;
  set_place(j, 0, 0);
  unsigned char *lines = direct ? cpu_place_address(stage, &j->place, j->launch->pointers, operand)
                                : j->buffer + kernel->buffer_bytes / 2;
  if (stage->epilogue) transpose(length, rows, values, step, lines, length * bytes);
  if (!direct)
    cpu_stage_run(stage, &kernel->along, &j->place, j->launch->pointers, lines, rows * length,
                  j->scratch, false);
  if (!stage->epilogue) transpose(rows, length, lines, length * bytes, values, step);
}

/* Runs a stage over `length` positions of `rows` rows, line by line, with values `step` apart. */
static void run_stage(job *j, const cpu_stage *stage, int64_t row, int64_t rows, int64_t first,
                      int64_t length, unsigned char *values, int64_t step) {
  const row_kernel *kernel = j->launch->kernel;
  const bool stream = stage->epilogue && kernel->stream;
  int64_t lines = kernel->wide ? length : rows;
  if (!kernel->wide && lines > 1 && length == kernel->length && length == step &&
      rows_continue(kernel, stage)) {
    length *= lines;
    lines = 1;
  }
  for (int64_t l = 0; l < lines; l++) {
    if (kernel->wide)
      set_place(j, row, first + l);
    else
      set_place(j, row + l, first);
    cpu_stage_run(stage, kernel->wide ? &kernel->rows : &kernel->along, &j->place,
                  j->launch->pointers, values + l * step * (int64_t)kernel->value_bytes,
                  kernel->wide ? rows : length, j->scratch, stream);
  }
}

/* The nest along which a panel's step runs. */
static const cpu_nest *across(const row_kernel *kernel) {
  return kernel->wide ? &kernel->along : &kernel->rows;
}

static int64_t block_length(const row_kernel *kernel, int64_t block) {
  const int64_t left = kernel->length - block * kernel->block;
  return left < kernel->block ? left : kernel->block;
}

/* A panel with a block's elements as its source: in place, or in the buffer. */
static cpu_row_panel read_block(job *j, int64_t block) {
  const row_kernel *kernel = j->launch->kernel;
  const int64_t first = block * kernel->block;
  cpu_row_panel panel = {.length = block_length(kernel, block),
                         .width = j->count,
                         .tiny = kernel->epsilon < LEAST_EPSILON};
  if (kernel->direct_input) {
    set_place(j, 0, first);
    panel.source = cpu_place_address(&kernel->prologue, &j->place, j->launch->pointers, 0);
    panel.source_step = cpu_nest_step(across(kernel), 0);
    /* The distance to the next block of the rows, or to the next rows. */
    if (!kernel->wide)
      panel.ahead = kernel->blocks > 1 ? kernel->block : kernel->width * panel.source_step;
  } else {
    panel.source = j->buffer;
    panel.source_step = dense_step(kernel, kernel->block);
    if (kernel->turns_input)
      run_turned(j, &kernel->prologue, panel.width, j->buffer);
    else
      run_stage(j, &kernel->prologue, 0, panel.width, first, panel.length, j->buffer,
                panel.source_step);
  }
  return panel;
}

static void aim_at_buffer(const job *j, cpu_row_panel *panel) {
  panel->target = j->buffer;
  panel->target_step = dense_step(j->launch->kernel, j->launch->kernel->block);
}

static void aim_at_output(job *j, int64_t block, cpu_row_panel *panel) {
  const row_kernel *kernel = j->launch->kernel;
  const int32_t output = kernel->epilogue.first_output;
  set_place(j, 0, block * kernel->block);
  panel->target = cpu_place_address(&kernel->epilogue, &j->place, j->launch->pointers, output);
  panel->target_step = cpu_nest_step(across(kernel), output);
}

/* The target becomes the source. */
static void turn(cpu_row_panel *panel) {
  panel->source = panel->target;
  panel->source_step = panel->target_step;
  panel->ahead = 0;
}

/* ---- The two halves of a block, and the merge in between ----------------------------------- */

/* `true` if softmax keeps its exponentials after the first half: the output or the buffer has
 * room. */
static bool keeps_exponentials(const row_kernel *kernel) {
  return kernel->direct_output || kernel->blocks == 1;
}

/* Returns the panel in the state that the second half needs if it follows immediately. */
static cpu_row_panel measure_block(job *j, int64_t block) {
  const row_kernel *kernel = j->launch->kernel;
  double *first = block_statistic(j, block, 0), *second = block_statistic(j, block, 1);
  cpu_row_panel panel = read_block(j, block);
  if (kernel->operation == COMPUTE_ROW_NORMALIZE) {
    kernel->loops->moments(&panel, first, second);
    return panel;
  }
  kernel->loops->maximum(&panel, first);
  if (kernel->operation == COMPUTE_ROW_SOFTMAX && keeps_exponentials(kernel)) {
    if (kernel->direct_output)
      aim_at_output(j, block, &panel);
    else
      aim_at_buffer(j, &panel);
    kernel->loops->exponentials(&panel, first, second);
    turn(&panel);
  } else {
    kernel->loops->exponentials(&panel, first, second);
  }
  return panel;
}

/* Merges means and spreads: Chan, Golub & LeVeque, "Updating formulae and a pairwise algorithm for
 * computing sample variances", 1979. */
static void merge_moments(const job *j, int64_t row) {
  const row_kernel *kernel = j->launch->kernel;
  const double count = (double)kernel->length;
  double mean = 0, spread = 0;
  for (int64_t b = 0; b < kernel->blocks; b++)
    mean += block_statistic(j, b, 0)[row] * ((double)block_length(kernel, b) / count);
  for (int64_t b = 0; b < kernel->blocks; b++) {
    const double away = block_statistic(j, b, 0)[row] - mean;
    spread += block_statistic(j, b, 1)[row] + away * away * (double)block_length(kernel, b);
  }
  /* Rounding may make a spread negative; NaN is kept. */
  const double factor = 1 / sqrt((spread < 0 ? 0 : spread) / count + kernel->epsilon);
  const double shift = kernel->value_bytes == sizeof(double) ? mean : (double)(float)mean;
  merged_statistic(j, SHIFT)[row] = shift;
  merged_statistic(j, FACTOR)[row] = factor;
  merged_statistic(j, OFFSET)[row] = (shift - mean) * factor;
}

/* A row with only −infinity, or with a +infinity, is NaN throughout, as the formula gives. A NaN
 * element has already made one of the totals NaN. */
static void merge_exponentials(const job *j, int64_t row) {
  const row_kernel *kernel = j->launch->kernel;
  double peak = block_statistic(j, 0, 0)[row], total = block_statistic(j, 0, 1)[row];
  for (int64_t b = 1; b < kernel->blocks; b++) peak = fmax(peak, block_statistic(j, b, 0)[row]);
  if (kernel->blocks > 1) {
    total = 0;
    for (int64_t b = 0; b < kernel->blocks; b++)
      total += block_statistic(j, b, 1)[row] * cpu_exp(block_statistic(j, b, 0)[row] - peak);
  }
  if (isinf(peak)) total = NAN;
  merged_statistic(j, SHIFT)[row] = peak;
  merged_statistic(j, FACTOR)[row] = 1 / (total * kernel->exponential_scale);
  merged_statistic(j, OFFSET)[row] = kernel->operation == COMPUTE_ROW_SOFTMAX ? 0 : cpu_log(total);
}

static void merge_group(const job *j) {
  const bool moments = j->launch->kernel->operation == COMPUTE_ROW_NORMALIZE;
  for (int64_t row = 0; row < j->count; row++) {
    if (moments)
      merge_moments(j, row);
    else
      merge_exponentials(j, row);
  }
}

typedef struct transform {
  bool subtract;
  const double *shift, *factor, *offset;
} transform;

/* Applies the operation to a panel whose first row is number `row` of the group. */
static void apply(const job *j, const cpu_row_panel *panel, int64_t row, const transform *t) {
  const cpu_row_way *loops = j->launch->kernel->loops;
  if (t->subtract)
    loops->subtract(panel, t->shift + row, t->offset + row);
  else
    loops->scale(panel, t->shift + row, t->factor + row, t->offset + row);
}

/* Number of positions in the first tile of a row: if outputs are streamed, up to the first whole
 * cache line of the output. */
static int64_t first_tile(job *j, int64_t row, int64_t position) {
  const row_kernel *kernel = j->launch->kernel;
  const int32_t output = kernel->epilogue.first_output;
  const uintptr_t bytes = kernel->epilogue.bytes[output];
  if (!kernel->stream || kernel->wide || cpu_nest_step(&kernel->along, output) != 1) return TILE;
  set_place(j, row, position);
  const uintptr_t address =
      (uintptr_t)cpu_place_address(&kernel->epilogue, &j->place, j->launch->pointers, output);
  return address & 63 ? cpu_max(1, (int64_t)((64 - (address & 63)) / bytes)) : TILE;
}

/* The results go through small tiles to the epilogue, so that they stay in the L1 cache. */
static void store_through_tiles(job *j, int64_t block, const cpu_row_panel *panel,
                                const transform *t) {
  const row_kernel *kernel = j->launch->kernel;
  _Alignas(64) unsigned char tile[TILE * sizeof(double)];
  if (kernel->turns_output) {
    cpu_row_panel results = *panel;
    aim_at_buffer(j, &results);
    apply(j, &results, 0, t);
    run_turned(j, &kernel->epilogue, panel->width, j->buffer);
    return;
  }
  const int64_t rows = kernel->wide ? panel->width : 1;
  const int64_t whole = kernel->wide ? TILE / kernel->width : TILE;
  const int64_t row_step = kernel->wide ? 1 : panel->source_step;
  const int64_t position_step = kernel->wide ? panel->source_step : 1;
  for (int64_t row = 0; row < panel->width; row += rows) {
    int64_t positions = cpu_min(whole, first_tile(j, row, block * kernel->block));
    for (int64_t p = 0; p < panel->length; p += positions, positions = whole) {
      cpu_row_panel part = *panel;
      part.width = rows;
      part.length = panel->length - p < positions ? panel->length - p : positions;
      part.source = (const unsigned char *)panel->source +
                    (row * row_step + p * position_step) * (int64_t)kernel->value_bytes;
      part.target = tile;
      part.target_step = dense_step(kernel, TILE);
      apply(j, &part, row, t);
      run_stage(j, &kernel->epilogue, row, rows, block * kernel->block + p, part.length, tile,
                part.target_step);
    }
  }
}

/* The output has a block's exponentials relative to the block's peak: makes that its panel, and
 * sets `relative` to the remaining factor. */
static void take_up_exponentials(job *j, int64_t block, cpu_row_panel *panel, double *relative) {
  static const double zeros[WIDEST];
  const row_kernel *kernel = j->launch->kernel;
  const double *peak = block_statistic(j, block, 0), *row_peak = merged_statistic(j, SHIFT);
  const double scale = kernel->exponential_scale;
  bool tiny = false;
  aim_at_output(j, block, panel);
  turn(panel);
  for (int64_t row = 0; row < j->count; row++) {
    relative[row] = merged_statistic(j, FACTOR)[row] * cpu_exp(peak[row] - row_peak[row]);
    tiny |= relative[row] < FLT_MIN;
  }
  if (!tiny || scale == 1) return;
  /* As a float such a factor would lose digits, although the product need not be that small. */
  double unscale[WIDEST];
  for (int64_t row = 0; row < j->count; row++) {
    unscale[row] = 1 / scale;
    relative[row] *= scale;
  }
  kernel->loops->scale(panel, zeros, unscale, zeros);
}

/* Layer norm with its gain and bias, which all rows share. */
static void apply_affine(job *j, int64_t block, cpu_row_panel *panel, const transform *t) {
  const row_kernel *kernel = j->launch->kernel;
  void *const *pointers = j->launch->pointers;
  aim_at_output(j, block, panel); /* sets the panel's target */
  const void *gain = cpu_place_address(&kernel->epilogue, &j->place, pointers, kernel->gain);
  const void *bias = cpu_place_address(&kernel->epilogue, &j->place, pointers, kernel->bias);
  (kernel->affine_bf16 ? kernel->loops->affine_bf16
                       : kernel->loops->affine)(panel, t->shift, t->factor, t->offset, gain, bias);
}

/* `measured` is measure_block's panel if that was just called for this block, otherwise NULL. */
static void finish_block(job *j, int64_t block, const cpu_row_panel *measured) {
  static const double zeros[WIDEST];
  const row_kernel *kernel = j->launch->kernel;
  const bool softmax = kernel->operation == COMPUTE_ROW_SOFTMAX;
  double relative[WIDEST];
  transform t = {kernel->operation == COMPUTE_ROW_LOG_SOFTMAX, merged_statistic(j, SHIFT),
                 merged_statistic(j, FACTOR), merged_statistic(j, OFFSET)};
  cpu_row_panel panel = {.length = block_length(kernel, block), .width = j->count};
  if (measured) {
    panel = *measured;
  } else if (softmax && keeps_exponentials(kernel)) {
    take_up_exponentials(j, block, &panel, relative);
    t.factor = relative;
  } else {
    panel = read_block(j, block);
    if (softmax) {
      aim_at_buffer(j, &panel);
      kernel->loops->exponentials(&panel, t.shift, relative);
      turn(&panel);
    }
  }
  if (softmax) t.shift = zeros;
  if (kernel->direct_output) {
    aim_at_output(j, block, &panel);
    apply(j, &panel, 0, &t);
  } else if (kernel->gain >= 0) {
    apply_affine(j, block, &panel, &t);
  } else {
    store_through_tiles(j, block, &panel, &t);
  }
}

/* ---- Launching ----------------------------------------------------------------------------- */

static void start_group(job *j, int64_t group) {
  const row_kernel *kernel = j->launch->kernel;
  const int64_t rows = cpu_nest_length(&kernel->rows);
  cpu_walk_start(&kernel->rows, kernel->rows.rank - 1, group / kernel->groups_per_line, &j->walk);
  j->first = group % kernel->groups_per_line * kernel->width;
  j->count = rows - j->first < kernel->width ? rows - j->first : kernel->width;
}

/* `owner` is the worker or the group that owns the job's statistics. */
static job start_job(const launch *l, int32_t worker, int64_t owner) {
  const row_kernel *kernel = l->kernel;
  unsigned char *statistics = l->statistics + (uint64_t)owner * kernel->statistics_bytes;
  return (job){.launch = l,
               .scratch = &l->scratch[worker],
               .buffer = l->buffers + (uint64_t)worker * kernel->buffer_bytes,
               .statistics = (double *)(void *)statistics};
}

static void soften_group(job *j) {
  const row_kernel *kernel = j->launch->kernel;
  cpu_row_panel panel = read_block(j, 0);
  if (kernel->direct_output)
    aim_at_output(j, 0, &panel);
  else
    aim_at_buffer(j, &panel);
  kernel->loops->softmax(&panel);
  if (!kernel->direct_output)
    run_stage(j, &kernel->epilogue, 0, panel.width, 0, panel.length, j->buffer, panel.target_step);
}

/* Whole groups. */
static void group_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const row_kernel *kernel = l->kernel;
  job j = start_job(l, worker, worker);
  const int64_t end = (task + 1) * kernel->groups / kernel->tasks;
  for (int64_t group = task * kernel->groups / kernel->tasks; group < end; group++) {
    start_group(&j, group);
    if (kernel->whole) {
      soften_group(&j);
      continue;
    }
    cpu_row_panel panel = {0};
    for (int64_t b = 0; b < kernel->blocks; b++) panel = measure_block(&j, b);
    merge_group(&j);
    for (int64_t b = 0; b < kernel->blocks; b++)
      finish_block(&j, b, kernel->blocks == 1 ? &panel : NULL);
  }
  if (kernel->stream) cpu_stream_fence();
}

static void measure_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  job j = start_job(l, worker, task / l->kernel->blocks);
  start_group(&j, task / l->kernel->blocks);
  measure_block(&j, task % l->kernel->blocks);
}

static void finish_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  job j = start_job(l, worker, task / l->kernel->blocks);
  start_group(&j, task / l->kernel->blocks);
  finish_block(&j, task % l->kernel->blocks, NULL);
  if (l->kernel->stream) cpu_stream_fence();
}

static compute_status row_run(const cpu_kernel *head, void *const *pointers) {
  const row_kernel *kernel = (const row_kernel *)head;
  cpu_device *device = head->device;
  if (kernel->row_count == 0 || kernel->length == 0) return COMPUTE_OK;
  const uint64_t buffers = kernel->buffer_bytes * (uint64_t)device->threads;
  const uint64_t owners = (uint64_t)(kernel->split ? kernel->groups : device->threads);
  const uint64_t scratch = sizeof(cpu_scratch) * (uint64_t)device->threads;
  const uint64_t bytes = scratch + buffers + owners * kernel->statistics_bytes;
  unsigned char *memory = cpu_workspace_acquire(device, bytes);
  if (!memory) return cpu_out_of_memory(device, bytes);
  launch l = {kernel, pointers, (cpu_scratch *)(void *)memory, memory + scratch,
              memory + scratch + buffers};
  if (kernel->split) {
    cpu_parallel(device, kernel->groups * kernel->blocks, measure_task, &l);
    for (int64_t group = 0; group < kernel->groups; group++) {
      job j = start_job(&l, 0, group);
      start_group(&j, group);
      merge_group(&j);
    }
    cpu_parallel(device, kernel->groups * kernel->blocks, finish_task, &l);
  } else {
    cpu_parallel(device, kernel->tasks, group_task, &l);
  }
  cpu_workspace_return(device, memory);
  return COMPUTE_OK;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

static void build_nests(row_kernel *kernel, const compute_kernel_descriptor *descriptor) {
  const int32_t rank = descriptor->rank;
  cpu_nest_begin(&kernel->rows, descriptor, 0, rank - 1);
  cpu_nest_begin(&kernel->along, descriptor, rank - 1, rank);
  cpu_stage *const stages[] = {&kernel->prologue, &kernel->epilogue};
  for (int s = 0; s < 2; s++) {
    if (!stages[s]->positions) continue;
    stages[s]->position = cpu_nest_add_position(&kernel->rows, descriptor, 0, rank);
    cpu_nest_add_position(&kernel->along, descriptor, 0, rank);
  }
  cpu_nest_sort(&kernel->rows, kernel->epilogue.first_output);
  if (!kernel->prologue.coordinates && !kernel->epilogue.coordinates)
    cpu_nest_collapse(&kernel->rows);
  cpu_nest_finish(&kernel->rows);
}

/* The number of inputs and outputs that are contiguous, or repeat, along the last dimension of a
 * nest. */
static int count_dense(const row_kernel *kernel, const cpu_nest *nest) {
  const int32_t operands = kernel->epilogue.first_output + kernel->epilogue.outputs;
  int dense = 0;
  for (int32_t k = 0; k < operands; k++) {
    const int64_t step = cpu_nest_step(nest, k);
    dense += step == 0 || step == 1;
  }
  return dense;
}

static void choose_direction(row_kernel *kernel) {
  const int64_t neighbours = cpu_nest_length(&kernel->rows);
  const int32_t output = kernel->epilogue.first_output;
  const int single = count_dense(kernel, &kernel->along);
  const int wide = count_dense(kernel, &kernel->rows);
  kernel->wide = (wide > single && neighbours > 1) || kernel->length < SHORT_ROW;
  const cpu_nest *nest = kernel->wide ? &kernel->rows : &kernel->along;
  const bool single_element = !kernel->wide && kernel->length == 1;
  kernel->direct_input =
      kernel->prologue.identity && (cpu_nest_step(nest, 0) == 1 || single_element);
  kernel->direct_output = !kernel->stream && kernel->epilogue.identity &&
                          (cpu_nest_step(nest, output) == 1 || single_element);
}

/* `true` if the epilogue multiplies by one input and adds another, of any dtype. */
static bool is_affine(const row_kernel *kernel, const compute_kernel_descriptor *descriptor,
                      cpu_formula *f) {
  const cpu_isa *isa = kernel->head.device->isa;
  compute_dtype f32[COMPUTE_MAX_OPERANDS];
  if (descriptor->epilogue.count == 0 || descriptor->output_count != 1) return false;
  for (int i = 0; i < COMPUTE_MAX_OPERANDS; i++) f32[i] = COMPUTE_F32;
  cpu_formula_read(isa, &descriptor->epilogue, f32, 1, f32, f);
  return f->loop && f->loop == CPU_PICK(isa, cpu_formulas)->loop[CPU_FORMULA_scale_shift] &&
         f->operands.input[0] == 0 && f->operands.repeated[0] >= 1 && f->operands.repeated[1] >= 1;
}

/* Finds gain and bias of layer norm. They have the value's type, or bf16 like the results, are
 * contiguous along the row, and the same for all rows. */
static void find_affine(row_kernel *kernel, const compute_kernel_descriptor *descriptor) {
  cpu_formula f;
  kernel->gain = kernel->bias = -1;
  if (kernel->operation != COMPUTE_ROW_NORMALIZE || kernel->wide || kernel->stream ||
      kernel->value_bytes != sizeof(float) || !is_affine(kernel, descriptor, &f))
    return;
  const int32_t output = kernel->epilogue.first_output;
  const compute_dtype dtype = descriptor->outputs[0].dtype;
  if (cpu_nest_step(&kernel->along, output) != 1) return;
  if (dtype != COMPUTE_F32 && dtype != COMPUTE_BF16) return;
  int32_t operand[2];
  for (int i = 0; i < 2; i++) {
    operand[i] = kernel->epilogue.first_input + f.operands.repeated[i] - 1;
    if (cpu_nest_step(&kernel->along, operand[i]) != 1) return;
    if (descriptor->inputs[operand[i]].dtype != dtype) return;
    for (int32_t d = 0; d < descriptor->rank - 1; d++)
      if (descriptor->inputs[operand[i]].stride[d] != 0 && descriptor->size[d] > 1) return;
  }
  kernel->gain = operand[0];
  kernel->bias = operand[1];
  kernel->affine_bf16 = dtype == COMPUTE_BF16;
}

static void choose_extents(row_kernel *kernel) {
  int64_t width = cpu_max(1, GROUP / kernel->length), positions = BLOCK;
  if (kernel->wide) {
    const int64_t fitting = BLOCK / kernel->length / NARROWEST * NARROWEST;
    width = fitting < NARROWEST ? 4 * NARROWEST : cpu_min(fitting, WIDEST);
    positions = BLOCK / width;
  }
  kernel->width = cpu_min(width, cpu_nest_length(&kernel->rows));
  kernel->blocks = cpu_divide_up(kernel->length, positions);
  kernel->block = cpu_divide_up(kernel->length, kernel->blocks);
  if (!kernel->wide && kernel->blocks > 1) kernel->block = (kernel->block + 63) / 64 * 64;
  kernel->blocks = cpu_divide_up(kernel->length, kernel->block);
}

static void count_groups(row_kernel *kernel) {
  const int64_t rows = cpu_nest_length(&kernel->rows);
  kernel->groups_per_line = cpu_divide_up(rows, kernel->width);
  kernel->groups = kernel->row_count / rows * kernel->groups_per_line;
}

static void choose_tasks(row_kernel *kernel) {
  const int64_t threads = kernel->head.device->threads;
  int64_t total;
  if (__builtin_mul_overflow(kernel->row_count, kernel->length, &total)) total = INT64_MAX;
  const int64_t wanted = cpu_max(1, cpu_min(threads * TASKS_PER_THREAD, total / WORK));
  count_groups(kernel);
  if (kernel->groups < wanted && threads > 1) {
    const int64_t rows = cpu_nest_length(&kernel->rows);
    const int64_t width = cpu_divide_up(rows, cpu_divide_up(wanted, kernel->row_count / rows));
    const int64_t whole = cpu_max(NARROWEST, (width + 15) / 16 * 16);
    kernel->width = cpu_min(kernel->width, kernel->wide ? whole : width);
    count_groups(kernel);
  }
  /* Split if there are too few groups for the threads. */
  kernel->whole = kernel->operation == COMPUTE_ROW_SOFTMAX && !kernel->wide && !kernel->stream &&
                  kernel->blocks == 1;
  kernel->split =
      threads > 1 && kernel->blocks > 1 && kernel->groups < 2 * threads && kernel->groups < wanted;
  kernel->tasks = threads > 1 ? cpu_min(kernel->groups, wanted) : 1;
}

static void choose_memory(row_kernel *kernel) {
  const uint64_t block = (uint64_t)kernel->block * (uint64_t)kernel->width * kernel->value_bytes;
  const uint64_t vectors = 2 * (uint64_t)kernel->blocks + MERGED;
  const uint64_t vector = (uint64_t)kernel->width * sizeof(double);
  const bool needed = !kernel->direct_input || !kernel->direct_output;
  const bool may_turn =
      kernel->wide && kernel->blocks == 1 && kernel->length >= LEAST_TURNED && !kernel->stream;
  kernel->turns_input =
      may_turn && !kernel->direct_input && rows_continue(kernel, &kernel->prologue);
  kernel->turns_output =
      may_turn && !kernel->direct_output && rows_continue(kernel, &kernel->epilogue);
  kernel->buffer_bytes = needed ? cpu_whole_lines(block) : 0;
  if (kernel->turns_input || kernel->turns_output) kernel->buffer_bytes *= 2;
  kernel->statistics_bytes = cpu_whole_lines(vectors * vector);
}

/* `true` if the output is larger than half of the last-level cache: it would only evict data needed
 * next. */
static bool output_exceeds_cache(const row_kernel *kernel) {
  int64_t bytes, values;
  const int32_t output = kernel->epilogue.first_output;
  if (__builtin_mul_overflow(kernel->row_count, kernel->length, &values) ||
      __builtin_mul_overflow(values, (int64_t)kernel->epilogue.bytes[output], &bytes))
    return true;
  return (uint64_t)bytes > kernel->head.device->share_bytes / 2;
}

static void describe(row_kernel *kernel) {
  static const char *const names[] = {"softmax", "log-softmax", "normalize"};
  char passes[48];
  if (kernel->blocks > 1)
    snprintf(passes, sizeof passes, "%lld blocks per row%s", (long long)kernel->blocks,
             kernel->split ? ", shared out" : "");
  else
    snprintf(passes, sizeof passes, "one pass per row");
  snprintf(kernel->head.description, sizeof kernel->head.description, "row %s %s, %s%s%s",
           names[kernel->operation], kernel->head.device->isa->name,
           kernel->turns_input || kernel->turns_output ? "across turned rows, "
           : kernel->wide                              ? "across rows, "
                                                       : "",
           passes, kernel->stream ? ", streaming" : "");
}

static void row_clear(cpu_kernel *head) {
  row_kernel *kernel = (row_kernel *)head;
  cpu_stage_release(head->device, &kernel->prologue);
  cpu_stage_release(head->device, &kernel->epilogue);
}

static void choose_loops(row_kernel *kernel) {
  const cpu_isa *isa = kernel->head.device->isa;
  const cpu_row_loops *loops = kernel->value_bytes == sizeof(double) ? CPU_PICK(isa, cpu_row_f64)
                                                                     : CPU_PICK(isa, cpu_row_f32);
  kernel->loops = kernel->wide ? &loops->wide : &loops->single;
  kernel->exponential_scale = loops->exponential_scale;
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  row_kernel *kernel = (row_kernel *)head;
  cpu_device *device = kernel->head.device;
  const compute_dtype type = descriptor->accumulate;
  kernel->operation = compute_row_of(descriptor)->operation;
  kernel->epsilon = compute_row_of(descriptor)->epsilon;
  kernel->length = descriptor->size[descriptor->rank - 1];
  kernel->value_bytes = cpu_dtype_size(type);
  compute_status status = cpu_stage_prepare_prologue(device, descriptor, type, &kernel->prologue);
  if (!status) status = cpu_stage_prepare_epilogue(device, descriptor, type, &kernel->epilogue);
  if (status) return status;
  build_nests(kernel, descriptor);
  if (!cpu_nest_count(&kernel->rows, kernel->rows.rank, &kernel->row_count))
    return cpu_fail_overflow(head);
  if (kernel->row_count > 0 && kernel->length > 0) {
    kernel->stream = kernel->length >= LONG_ROW && output_exceeds_cache(kernel);
    choose_direction(kernel);
    choose_extents(kernel);
    if (kernel->blocks > 1 && kernel->operation == COMPUTE_ROW_SOFTMAX) {
      /* Exponentials that are kept in the output round otherwise than later ones. So this must not
       * depend on the number of rows. */
      kernel->stream = false;
      choose_direction(kernel);
    }
    find_affine(kernel, descriptor);
    choose_tasks(kernel);
    choose_memory(kernel);
  }
  choose_loops(kernel);
  describe(kernel);
  return COMPUTE_OK;
}

static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  if (descriptor->accumulate != COMPUTE_F32 && descriptor->accumulate != COMPUTE_F64)
    return "rows are computed in f32 or f64";
  return descriptor->rank < 1 ? "there is no dimension for rows" : NULL;
}

const cpu_kind cpu_row_kind = {.name = "row",
                               .refuse = refuse_descriptor,
                               .bytes = sizeof(row_kernel),
                               .prepare = prepare,
                               .run = row_run,
                               .clear = row_clear};
