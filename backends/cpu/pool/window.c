/* SPDX-License-Identifier: MIT */
/* WINDOW: pooling. Makes the kernel and schedules it; window.h has the algorithm. */
#include <stdio.h>
#include <string.h>

#include "window.h"
#include "gemm/isa/gemm_table.h"
#include "program/program.h"

enum {
  WORK = 1 << 14, /* elements that repay another thread, */
  TAPS = 5,       /* with windows of at most so many rows and columns together */
  UNITS_PER_THREAD = 4,
  LONGEST_LINE = 4096, /* elements of a part of a line: it should stay in the level-1 cache */
  MOST_TAPS = 1 << 28  /* of a window with numbered taps: the numbers fit any type */
};

/* ---- Launching ----------------------------------------------------------------------------- */

static void do_task(void *argument, int64_t task, int32_t worker) {
  const window_launch *l = argument;
  const cpu_window *kernel = l->kernel;
  unsigned char *scratch = l->workers + (uint64_t)worker * kernel->worker_bytes;
  const int64_t end = cpu_min((task + 1) * kernel->per_task, kernel->units);
  for (int64_t unit = task * kernel->per_task; unit < end; unit++) {
    if (kernel->shape.by_data)
      window_gradient_unit(l, unit, scratch);
    else if (kernel->shape.operation == COMPUTE_WINDOW_ARGMAX)
      window_find_unit_maxima(l, unit, scratch);
    else
      window_fold_unit(l, unit, scratch);
  }
}

static compute_status window_run(const cpu_kernel *head, void *const *pointers) {
  const cpu_window *kernel = (const cpu_window *)head;
  cpu_device *device = head->device;
  if (kernel->units == 0) return COMPUTE_OK;
  const uint64_t workers = kernel->tasks == 1 ? 1 : (uint64_t)device->threads;
  const uint64_t bytes = workers * kernel->worker_bytes;
  unsigned char *scratch = cpu_workspace_acquire(device, bytes);
  if (!scratch) return cpu_out_of_memory(device, bytes);
  window_launch l = {kernel, pointers, scratch};
  cpu_parallel(device, kernel->tasks, do_task, &l);
  cpu_workspace_return(device, scratch);
  return COMPUTE_OK;
}

static void window_clear(cpu_kernel *head) {
  cpu_window *kernel = (cpu_window *)head;
  cpu_release(head->device, kernel->counts);
  cpu_release(head->device, kernel->fold_rows);
  cpu_release(head->device, kernel->taps);
  cpu_program_release(head->device, kernel->epilogue);
}

/* ---- Preparing ----------------------------------------------------------------------------- */

static window_operand read_operand(const compute_operand *from) {
  window_operand to = {.dtype = from->dtype, .size = cpu_dtype_size(from->dtype)};
  for (int d = 0; d < 4; d++) to.stride[d] = from->stride[d];
  return to;
}

/* `true` if lines of this operand need no conversion to be lines of the computing type. */
static bool is_dense(const cpu_window *kernel, const window_operand *o) {
  return o->dtype == kernel->type && o->stride[3] == kernel->lanes &&
         (kernel->lanes == 1 || o->stride[1] == 1);
}

/* The number of inputs before the epilogue's. */
static uint32_t own_inputs(const compute_kernel_descriptor *descriptor) {
  const compute_window_attributes *w = compute_window_of(descriptor);
  return w->by_data && w->operation == COMPUTE_WINDOW_MAX ? 2 : 1;
}

static compute_dtype type_of_values(const compute_kernel_descriptor *descriptor) {
  const bool place = compute_window_of(descriptor)->operation == COMPUTE_WINDOW_ARGMAX;
  return place ? COMPUTE_I64 : descriptor->accumulate;
}

static void read_descriptor(const compute_kernel_descriptor *descriptor, cpu_window *kernel) {
  const compute_window_attributes *w = compute_window_of(descriptor);
  kernel->shape = *w;
  kernel->type = descriptor->accumulate;
  kernel->element = cpu_dtype_size(descriptor->accumulate);
  kernel->value = cpu_dtype_size(type_of_values(descriptor));
  kernel->plane = w->data_size[0] * w->data_size[1];
  kernel->loops = CPU_PICK_NUMBER(kernel->head.device->isa, cpu_window, descriptor->accumulate);
  kernel->input_count = own_inputs(descriptor);
  kernel->extra_count = descriptor->input_count - kernel->input_count;
  kernel->output_count = descriptor->output_count;
  for (int d = 0; d < 4; d++) kernel->size[d] = descriptor->size[d];
  for (uint32_t i = 0; i < kernel->input_count; i++)
    kernel->input[i] = read_operand(&descriptor->inputs[i]);
  for (uint32_t i = 0; i < kernel->extra_count; i++)
    kernel->extra[i] = read_operand(&descriptor->inputs[kernel->input_count + i]);
  for (uint32_t i = 0; i < kernel->output_count; i++)
    kernel->output[i] = read_operand(&descriptor->outputs[i]);
}

static compute_status prepare_epilogue(cpu_window *kernel,
                                       const compute_kernel_descriptor *descriptor) {
  compute_dtype inputs[COMPUTE_MAX_OPERANDS + 1], outputs[COMPUTE_MAX_OPERANDS];
  inputs[0] = type_of_values(descriptor);
  for (uint32_t i = 0; i < kernel->extra_count; i++) inputs[i + 1] = kernel->extra[i].dtype;
  for (uint32_t i = 0; i < kernel->output_count; i++) outputs[i] = kernel->output[i].dtype;
  return cpu_program_prepare(kernel->head.device, &descriptor->epilogue, kernel->extra_count + 1,
                             inputs, kernel->output_count, outputs, &kernel->epilogue);
}

static void choose_lines(cpu_window *kernel) {
  const window_operand *in = &kernel->input[0];
  const int64_t channels = kernel->size[1];
  const bool side_by_side =
      in->stride[1] == 1 && channels > 1 && (in->stride[3] != 1 || kernel->shape.data_size[1] == 1);
  kernel->lanes = side_by_side ? channels : 1;
  kernel->groups = side_by_side ? 1 : channels;
  for (uint32_t i = 0; i < kernel->input_count; i++)
    kernel->input[i].direct = is_dense(kernel, &kernel->input[i]);
  const bool stores =
      kernel->shape.operation != COMPUTE_WINDOW_ARGMAX && cpu_program_is_identity(kernel->epilogue);
  kernel->in_place = stores && is_dense(kernel, &kernel->output[0]);
  kernel->turns = stores && !kernel->in_place && kernel->lanes > 1 && !kernel->shape.by_data &&
                  kernel->output[0].dtype == kernel->type && kernel->output[0].stride[3] == 1 &&
                  cpu_gemm_type_of(kernel->head.device->isa->gemm, kernel->type);
}

/* `true` if the epilogue stores its input unchanged. */
static bool passes_through(const compute_program *p) {
  return p->count == 0 || (p->count == 1 && p->instructions[0].code == COMPUTE_I_LOAD &&
                           p->instructions[0].immediate.i64 == 0);
}

/* Max pooling of bytes across channels works on the bytes themselves, without widening. */
static void choose_bytes(const compute_kernel_descriptor *descriptor, cpu_window *kernel) {
  const window_operand *in = &kernel->input[0], *out = &kernel->output[0];
  const compute_dtype dtype = in->dtype;
  if ((dtype != COMPUTE_U8 && dtype != COMPUTE_I8) || kernel->shape.by_data ||
      kernel->shape.operation != COMPUTE_WINDOW_MAX || kernel->lanes == 1 ||
      kernel->output_count != 1 || out->dtype != dtype || !passes_through(&descriptor->epilogue))
    return;
  if (in->stride[3] != kernel->lanes || out->stride[3] != kernel->lanes || out->stride[1] != 1)
    return;
  const cpu_isa *isa = kernel->head.device->isa;
  kernel->type = dtype;
  kernel->element = kernel->value = 1;
  kernel->loops = dtype == COMPUTE_U8 ? CPU_PICK(isa, cpu_window_u8) : CPU_PICK(isa, cpu_window_i8);
  kernel->input[0].direct = kernel->in_place = true;
  kernel->turns = false;
}

/* Chooses row tiles whose data fit a part of the level-2 cache; threads may need more of them. */
static void choose_units(cpu_window *kernel) {
  const compute_window_attributes *w = &kernel->shape;
  const int64_t planes = kernel->size[0] * kernel->groups, threads = kernel->head.device->threads;
  const int64_t line = cpu_max(w->data_size[1], w->result_size[1]) * kernel->lanes;
  kernel->columns = kernel->size[3];
  if (!w->by_data && line > LONGEST_LINE) {
    const int64_t width = cpu_max(LONGEST_LINE / kernel->lanes, 2 * w->size[1] * w->dilation[1]);
    kernel->columns = cpu_min(cpu_max(width / w->stride[1], 1), kernel->size[3]);
  }
  kernel->chunks = cpu_divide_up(kernel->size[3], kernel->columns);
  const int64_t fit = (int64_t)(kernel->head.device->l2_bytes / 4) / (int64_t)kernel->element;
  int64_t per_row = cpu_max(line / kernel->chunks, 1);
  if (!w->by_data && __builtin_mul_overflow(per_row, w->stride[0], &per_row)) per_row = INT64_MAX;
  kernel->rows = cpu_min(cpu_max(fit / per_row, 1), kernel->size[2]);
  int64_t work = planes * kernel->size[2];
  const int64_t taps = cpu_min(w->size[0], w->data_size[0]) + cpu_min(w->size[1], w->data_size[1]);
  if (__builtin_mul_overflow(work, line, &work) ||
      __builtin_mul_overflow(work, w->by_data ? 1 : cpu_max(1, taps / TAPS), &work))
    work = INT64_MAX;
  const int64_t wanted = cpu_min(threads * UNITS_PER_THREAD, work / WORK);
  if (threads > 1 && planes * kernel->chunks < wanted) {
    const int64_t bands = cpu_divide_up(wanted, planes * kernel->chunks);
    kernel->rows = cpu_min(kernel->rows, cpu_divide_up(kernel->size[2], bands));
  }
  if (w->by_data) {
    /* Windows across two tiles are searched twice. There should be few of them, and none if windows
     * do not overlap. */
    const int64_t least = 2 * ((w->size[0] - 1) * w->dilation[0] + 1);
    kernel->rows = cpu_min(cpu_max(kernel->rows, least), kernel->size[2]);
    if (w->stride[0] < kernel->rows && kernel->rows < kernel->size[2])
      kernel->rows -= kernel->rows % w->stride[0];
  }
  kernel->bands = cpu_divide_up(kernel->size[2], kernel->rows);
  kernel->planes = 1;
  kernel->units = planes * kernel->bands * kernel->chunks;
  kernel->tasks = threads > 1 ? cpu_max(1, cpu_min(kernel->units, wanted)) : 1;
  kernel->per_task = cpu_divide_up(kernel->units, kernel->tasks);
  kernel->tasks = cpu_divide_up(kernel->units, kernel->per_task);
}

/* Most data rows or columns that `results` windows cover. */
static int64_t reach_of(const compute_window_attributes *w, int d, int64_t results) {
  return cpu_min((results - 1) * w->stride[d] + (w->size[d] - 1) * w->dilation[d] + 1,
                 w->data_size[d]);
}

static void choose_memory(cpu_window *kernel) {
  const compute_window_attributes *w = &kernel->shape;
  const int64_t element = kernel->element * kernel->lanes;
  int64_t width = w->data_size[1], height;
  if (w->by_data) {
    const int64_t window = (w->size[0] - 1) * w->dilation[0] + 1;
    height = cpu_min(kernel->rows + 2 * window, w->data_size[0]);
    width = cpu_max(width, w->result_size[1]);
    if (w->operation == COMPUTE_WINDOW_MAX)
      kernel->offset_bytes = cpu_whole_lines((uint64_t)(w->size[0] * w->size[1]) * sizeof(int64_t));
  } else {
    height = reach_of(w, 0, kernel->rows);
    width = reach_of(w, 1, kernel->columns);
  }
  const bool place = w->operation == COMPUTE_WINDOW_ARGMAX; /* two lines along the results */
  const bool reads =
      !kernel->input[0].direct && !(w->by_data && w->operation == COMPUTE_WINDOW_AVERAGE);
  if (!kernel->fold_rows)
    kernel->line_bytes =
        cpu_whole_lines((uint64_t)((place ? cpu_max(width, kernel->columns) : width) * element));
  kernel->source_bytes = reads ? cpu_whole_lines((uint64_t)(height * width * element)) : 0;
  kernel->values_bytes = kernel->in_place
                             ? 0
                             : cpu_whole_lines((uint64_t)(kernel->rows * kernel->columns *
                                                          kernel->lanes * kernel->value));
  kernel->worker_bytes = kernel->source_bytes +
                         (w->by_data ? 3
                          : place    ? 2
                                     : 1) *
                             kernel->line_bytes +
                         kernel->offset_bytes + kernel->values_bytes + 64;
  if (kernel->stride2) kernel->worker_bytes += window_stride2_bytes(kernel);
}

static compute_status count_columns(cpu_window *kernel) {
  const compute_window_attributes *w = &kernel->shape;
  /* A loop for gradients reads one count per pair of columns (window_stride2.c). */
  const int64_t room =
      cpu_max(w->result_size[1], cpu_divide_up(w->data_size[1], 2)) + CPU_WINDOW_WHOLE;
  const uint64_t bytes = (uint64_t)room * kernel->element;
  if (w->operation != COMPUTE_WINDOW_AVERAGE) return COMPUTE_OK;
  kernel->counts = cpu_allocate(kernel->head.device, bytes);
  if (!kernel->counts) return cpu_out_of_memory(kernel->head.device, bytes);
  for (int64_t q = 0; q < room; q++) {
    const int64_t count = q < w->result_size[1] ? window_count(w, 1, q) : 1;
    if (kernel->type == COMPUTE_F64)
      ((double *)(void *)kernel->counts)[q] = (double)count;
    else
      ((float *)(void *)kernel->counts)[q] = (float)count;
  }
  return COMPUTE_OK;
}

static void find_inside(cpu_window *kernel) {
  const compute_window_attributes *w = &kernel->shape;
  const int64_t room = w->data_size[1] + w->padding[1] - (w->size[1] - 1) * w->dilation[1];
  kernel->first_inside = cpu_divide_up(w->padding[1], w->stride[1]);
  kernel->end_inside = room > 0 ? cpu_divide_up(room, w->stride[1]) : 0;
}

static void describe(cpu_window *kernel) {
  static const char *const names[] = {"max", "average", "argmax"};
  const compute_window_attributes *w = &kernel->shape;
  snprintf(kernel->head.description, sizeof kernel->head.description,
           "%s pooling%s %s, %s, bands of %lld rows", names[w->operation],
           w->by_data ? " by data" : "", kernel->head.device->isa->name,
           kernel->lanes > 1 ? "across channels" : "along rows", (long long)kernel->rows);
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  cpu_window *kernel = (cpu_window *)head;
  const compute_window_attributes *w = compute_window_of(descriptor);
  read_descriptor(descriptor, kernel);
  compute_status status = prepare_epilogue(kernel, descriptor);
  if (status) return status;
  window_merge_planes(kernel);
  choose_lines(kernel);
  choose_bytes(descriptor, kernel);
  for (int d = 0; d < 4; d++)
    if (kernel->size[d] == 0) {
      snprintf(kernel->head.description, sizeof kernel->head.description, "pooling of no elements");
      return COMPUTE_OK;
    }
  find_inside(kernel);
  window_find_short_halves(kernel);
  window_find_dense(kernel);
  kernel->stride2 = window_has_stride2(kernel);
  choose_units(kernel);
  status = window_fold_prepare(kernel);
  if (status) return status;
  choose_memory(kernel);
  status = count_columns(kernel);
  if (!status && w->by_data) status = window_gradient_prepare(kernel);
  describe(kernel);
  return status;
}

static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  const compute_window_attributes *w = compute_window_of(descriptor);
  const compute_dtype type = descriptor->accumulate;
  const bool is_float = type == COMPUTE_F64 || type == COMPUTE_F32;
  const bool is_whole = type == COMPUTE_I64 || type == COMPUTE_I32;
  if ((unsigned)w->operation > COMPUTE_WINDOW_ARGMAX) return "unknown pooling";
  if (!is_float && (!is_whole || w->by_data || w->operation == COMPUTE_WINDOW_AVERAGE))
    return "unsupported dtype for pooling";
  for (uint32_t i = 0; i < own_inputs(descriptor); i++)
    if (cpu_type_of(descriptor->inputs[i].dtype) != cpu_type_of(type))
      return "elements are folded in their own computing type only";
  const bool finds =
      w->operation == COMPUTE_WINDOW_ARGMAX || (w->by_data && w->operation == COMPUTE_WINDOW_MAX);
  int64_t taps;
  if (__builtin_mul_overflow(w->size[0], w->size[1], &taps) ||
      (w->by_data && w->size[1] > MOST_TAPS) || (finds && taps > MOST_TAPS))
    return "the window is too large";
  return NULL;
}

const cpu_kind cpu_window_kind = {.name = "pooling",
                                  .refuse = refuse_descriptor,
                                  .bytes = sizeof(cpu_window),
                                  .prepare = prepare,
                                  .run = window_run,
                                  .clear = window_clear};

/* ---- Merging planes -------------------------------------------------------------------------- */

/* Merges planes one below the other.
 *
 * Networks pool thousands of small planes. If planes are contiguous, and windows neither extend
 * past a plane nor span two, all planes form one tall plane. The size of units then suits caches
 * and threads instead of being limited to a plane. */

/* `true` if the rows of all planes are evenly spaced; *step is the distance. */
static bool rows_follow(const window_operand *o, int64_t images, int64_t channels, int64_t rows,
                        int64_t *step) {
  *step = rows > 1 ? o->stride[2] : channels > 1 ? o->stride[1] : o->stride[0];
  return (channels == 1 || o->stride[1] == rows * *step) &&
         (images == 1 || o->stride[0] == channels * rows * *step);
}

static bool may_merge(const cpu_window *kernel) {
  const compute_window_attributes *w = &kernel->shape;
  const int64_t span = (w->size[0] - 1) * w->dilation[0] + 1;
  /* Merging would change an epilogue's coordinates, but not its positions. */
  return (cpu_program_places(kernel->epilogue) & ~CPU_PLACES_POSITION) == 0 &&
         w->operation != COMPUTE_WINDOW_ARGMAX && kernel->size[0] * kernel->size[1] > 1 &&
         kernel->size[2] > 0 && kernel->size[3] > 0 && w->padding[0] == 0 &&
         w->result_size[0] > 0 && w->data_size[0] % w->result_size[0] == 0 &&
         span <= w->data_size[0] / w->result_size[0] &&
         (w->result_size[0] == 1 || w->stride[0] == w->data_size[0] / w->result_size[0]);
}

void window_merge_planes(cpu_window *kernel) {
  compute_window_attributes *w = &kernel->shape;
  window_operand *operands[3 * COMPUTE_MAX_OPERANDS];
  int64_t rows[3 * COMPUTE_MAX_OPERANDS], steps[3 * COMPUTE_MAX_OPERANDS];
  const int64_t images = kernel->size[0], channels = kernel->size[1], planes = images * channels;
  const bool has_data = !w->by_data || w->operation == COMPUTE_WINDOW_MAX;
  uint32_t count = 0;
  if (!may_merge(kernel)) return;
  for (uint32_t i = 0; i < kernel->input_count; i++) {
    rows[count] = i == 0 && has_data ? w->data_size[0] : w->result_size[0];
    operands[count++] = &kernel->input[i];
  }
  for (uint32_t i = 0; i < kernel->extra_count; i++) {
    rows[count] = kernel->size[2];
    operands[count++] = &kernel->extra[i];
  }
  for (uint32_t i = 0; i < kernel->output_count; i++) {
    rows[count] = kernel->size[2];
    operands[count++] = &kernel->output[i];
  }
  for (uint32_t i = 0; i < count; i++)
    if (!rows_follow(operands[i], images, channels, rows[i], &steps[i])) return;
  for (uint32_t i = 0; i < count; i++) {
    operands[i]->stride[0] = operands[i]->stride[1] = 0;
    operands[i]->stride[2] = steps[i];
  }
  w->stride[0] = w->data_size[0] / w->result_size[0];
  w->data_size[0] *= planes;
  w->result_size[0] *= planes;
  kernel->size[0] = kernel->size[1] = 1;
  kernel->size[2] *= planes;
  kernel->merged = true;
}

static bool is_one_line(const cpu_window *kernel, const window_operand *o, int64_t rows,
                        int64_t columns) {
  int64_t step;
  return rows_follow(o, kernel->size[0], kernel->size[1], rows, &step) && step == columns;
}

void window_find_dense(cpu_window *kernel) {
  const compute_window_attributes *w = &kernel->shape;
  const uint32_t last = kernel->input_count - 1; /* with by_data, the gradient */
  kernel->dense[0] = kernel->input[0].direct &&
                     is_one_line(kernel, &kernel->input[0], w->data_size[0], w->data_size[1]);
  kernel->dense[1] =
      kernel->input[last].direct &&
      is_one_line(kernel, &kernel->input[last], w->result_size[0], w->result_size[1]);
  kernel->dense[2] =
      kernel->in_place && is_one_line(kernel, &kernel->output[0], kernel->size[2], kernel->size[3]);
}

void window_find_short_halves(cpu_window *kernel) {
  const compute_window_attributes *w = &kernel->shape;
  const int64_t count = w->result_size[1];
  bool is_short = kernel->lanes == 1 && count > 0 && count <= CPU_WINDOW_SHORT &&
                  w->data_size[1] == 2 * count && 2 * w->result_size[0] <= w->data_size[0] &&
                  (!w->by_data || w->operation == COMPUTE_WINDOW_MAX) &&
                  w->operation != COMPUTE_WINDOW_ARGMAX;
  for (int d = 0; d < 2; d++)
    is_short = is_short && w->size[d] == 2 && w->stride[d] == 2 && w->dilation[d] == 1 &&
               w->padding[d] == 0;
  /* Converted data are in dense lines; gradients are converted line by line. */
  const window_operand *data = &kernel->input[0], *gradient = &kernel->input[1];
  is_short = is_short && (!data->direct || data->stride[2] == 2 * count);
  if (w->by_data) is_short = is_short && gradient->direct && gradient->stride[2] == count;
  if (kernel->in_place) is_short = is_short && kernel->output[0].stride[2] == kernel->size[3];
  kernel->halves_short = is_short;
}
