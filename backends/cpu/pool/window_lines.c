/* SPDX-License-Identifier: MIT */
/* The lines of a unit of pooling: which data its windows cover, reading them, and storing results. */
#include "window.h"
#include "gemm/isa/gemm_table.h"

/* ---- Geometry ------------------------------------------------------------------------------ */

void window_taps(const compute_window_attributes *w, int d, int64_t i, int64_t *first,
                 int64_t *end) {
  const int64_t begin = i * w->stride[d] - w->padding[d];
  const int64_t left = w->data_size[d] - begin;
  *first = begin < 0 ? cpu_divide_up(-begin, w->dilation[d]) : 0;
  *end = left > 0 ? cpu_min(cpu_divide_up(left, w->dilation[d]), w->size[d]) : 0;
  *first = cpu_min(*first, *end);
}

int64_t window_count(const compute_window_attributes *w, int d, int64_t i) {
  int64_t first, end;
  window_taps(w, d, i, &first, &end);
  if (w->count_padding) {
    int64_t left; /* saturates */
    if (__builtin_add_overflow(w->data_size[d] + w->padding[d] + w->padding_more[d],
                               w->padding[d] - i * w->stride[d], &left))
      left = INT64_MAX;
    first = 0;
    end = left > 0 ? cpu_min(cpu_divide_up(left, w->dilation[d]), w->size[d]) : 0;
  }
  return cpu_max(end - first, 1);
}

void window_results(const compute_window_attributes *w, int d, int64_t first, int64_t end,
                    int64_t *from, int64_t *to) {
  const int64_t reach = (w->size[d] - 1) * w->dilation[d];
  const int64_t low = first + w->padding[d] - reach, high = end + w->padding[d];
  *from = low > 0 ? cpu_divide_up(low, w->stride[d]) : 0;
  *to = cpu_min(cpu_divide_up(high, w->stride[d]), w->result_size[d]);
}

void window_reach(const compute_window_attributes *w, int d, int64_t first, int64_t count,
                  int64_t *from, int64_t *size) {
  const int64_t begin = first * w->stride[d] - w->padding[d];
  const int64_t end = begin + (count - 1) * w->stride[d] + (w->size[d] - 1) * w->dilation[d] + 1;
  *from = cpu_min(cpu_max(begin, 0), w->data_size[d]);
  *size = cpu_max(cpu_min(end, w->data_size[d]) - *from, 0);
}

window_unit window_find_unit(const cpu_window *kernel, int64_t number) {
  const int64_t chunk = number % kernel->chunks, rest = number / kernel->chunks;
  const int64_t band = rest % kernel->bands, plane = rest / kernel->bands * kernel->planes;
  window_unit unit = {.image = plane / kernel->groups,
                      .channel = plane % kernel->groups * kernel->lanes,
                      .row = band * kernel->rows,
                      .column = chunk * kernel->columns};
  unit.rows = cpu_min(kernel->rows, kernel->size[2] - unit.row);
  unit.columns = cpu_min(kernel->columns, kernel->size[3] - unit.column);
  unit.planes = cpu_min(kernel->planes, kernel->size[0] * kernel->groups - plane);
  return unit;
}

window_lines window_read(const window_launch *l, int which, const window_unit *unit, int64_t row,
                         int64_t rows, int64_t column, int64_t columns, unsigned char *room) {
  const cpu_window *kernel = l->kernel;
  const window_operand *in = &kernel->input[which];
  const int64_t at = unit->image * in->stride[0] + unit->channel * in->stride[1] +
                     row * in->stride[2] + column * in->stride[3];
  const unsigned char *from = (const unsigned char *)l->pointers[which] + at * in->size;
  window_lines lines = {from, row, column, in->stride[2]};
  if (in->direct || rows <= 0 || columns <= 0) return lines;
  const cpu_load_loop load = kernel->head.device->isa->tile->load[in->dtype];
  lines.data = room;
  lines.pitch = columns * kernel->lanes;
  int64_t length = lines.pitch;
  if (kernel->lanes == 1 && in->stride[2] == columns * in->stride[3]) {
    length *= rows; /* all rows form one contiguous line */
    rows = 1;
  }
  for (int64_t i = 0; i < rows; i++) {
    const unsigned char *line = from + i * in->stride[2] * in->size;
    if (kernel->lanes == 1 || in->stride[3] == kernel->lanes * in->stride[1]) {
      load(length, room, line, kernel->lanes == 1 ? in->stride[3] : in->stride[1]);
      room += length * kernel->element;
    } else {
      for (int64_t j = 0; j < columns; j++, room += kernel->lanes * kernel->element)
        load(kernel->lanes, room, line + j * in->stride[3] * in->size, in->stride[1]);
    }
  }
  return lines;
}

/* ---- Results -------------------------------------------------------------------------------- */

unsigned char *window_output(const window_launch *l, const window_unit *unit, int64_t row) {
  const cpu_window *kernel = l->kernel;
  const window_operand *o = &kernel->output[0];
  const int64_t at = unit->image * o->stride[0] + unit->channel * o->stride[1] +
                     row * o->stride[2] + unit->column * o->stride[3];
  return (unsigned char *)l->pointers[kernel->input_count + kernel->extra_count] + at * o->size;
}

/* An operand's steps along rows, columns and lanes. Returns the byte offset of the unit's first
 * element. */
static int64_t unit_steps(const window_unit *unit, const window_operand *o,
                          int64_t step[CPU_BOX_RANK]) {
  step[0] = o->stride[2];
  step[1] = o->stride[3];
  step[2] = o->stride[1];
  return (unit->image * o->stride[0] + unit->channel * o->stride[1] + unit->row * o->stride[2] +
          unit->column * o->stride[3]) *
         (int64_t)o->size;
}

/* Transposes lines of channels to planes, like the rows of products. The interpreter would instead
 * store each channel of each pixel separately. */
static void turn(const window_launch *l, const window_unit *unit, const unsigned char *values) {
  const cpu_window *kernel = l->kernel;
  const window_operand *to = &kernel->output[0];
  const cpu_gemm_type *type = cpu_gemm_type_of(kernel->head.device->isa->gemm, kernel->type);
  const int64_t line = unit->columns * kernel->lanes * kernel->element;
  const bool whole = to->stride[2] == unit->columns;
  for (int64_t row = 0; row < (whole ? 1 : unit->rows); row++) {
    const cpu_gemm_source source = {values + row * line, kernel->type, 1, kernel->lanes};
    type->pack_rows(window_output(l, unit, unit->row + row), to->stride[1], kernel->lanes,
                    whole ? unit->rows * unit->columns : unit->columns, &source);
  }
}

void window_finish(const window_launch *l, const window_unit *unit, unsigned char *values) {
  const cpu_window *kernel = l->kernel;
  if (kernel->turns) {
    turn(l, unit, values);
    return;
  }
  const int64_t *size = kernel->size, line = unit->columns * kernel->lanes;
  cpu_box box;
  box.program = kernel->epilogue;
  box.rank = kernel->lanes > 1 ? 3 : 2;
  const int64_t count[3] = {unit->rows, unit->columns, kernel->lanes};
  const int64_t values_step[3] = {line, kernel->lanes, 1};
  const int64_t position_step[3] = {size[3], 1, size[2] * size[3]};
  const int64_t first[4] = {unit->image, unit->channel, unit->row, unit->column};
  for (int32_t d = 0; d < box.rank; d++) {
    box.count[d] = count[d];
    box.dimension[d] = d == 2 ? 1 : d + 2;
    box.pace[d] = 1;
    box.input_step[0][d] = values_step[d];
    box.position_step[d] = position_step[d];
  }
  for (int d = 0; d < COMPUTE_MAX_RANK; d++) box.coordinate[d] = d < 4 ? first[d] : 0;
  box.position = ((first[0] * size[1] + first[1]) * size[2] + first[2]) * size[3] + first[3];
  box.input[0] = values;
  void *const *pointers = l->pointers + kernel->input_count;
  for (uint32_t i = 0; i < kernel->extra_count; i++)
    box.input[i + 1] = (const unsigned char *)pointers[i] +
                       unit_steps(unit, &kernel->extra[i], box.input_step[i + 1]);
  pointers += kernel->extra_count;
  for (uint32_t k = 0; k < kernel->output_count; k++)
    box.output[k] =
        (unsigned char *)pointers[k] + unit_steps(unit, &kernel->output[k], box.output_step[k]);
  cpu_box_merge(&box);
  cpu_box_run(&box, box.rank - 1);
}
