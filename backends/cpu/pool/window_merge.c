/* Planes one below the other.
 *
 * Networks pool thousands of small planes. Where planes follow each other in memory and windows
 * neither leave a plane nor lie across two, all planes are one tall plane: units of work are then
 * as large as caches and threads want them, not as small as a plane. */
#include "program/interpreter_private.h"
#include "window.h"

/* Whether rows of all planes are equally far from each other; *step is how far. */
static bool rows_follow(const window_operand *o, int64_t images, int64_t channels, int64_t rows,
                        int64_t *step) {
  *step = rows > 1 ? o->stride[2] : channels > 1 ? o->stride[1] : o->stride[0];
  return (channels == 1 || o->stride[1] == rows * *step) &&
         (images == 1 || o->stride[0] == channels * rows * *step);
}

static bool may_merge(const cpu_window *kernel) {
  const compute_window *w = &kernel->shape;
  const int64_t span = (w->size[0] - 1) * w->dilation[0] + 1;
  /* What an epilogue computes from a coordinate would change; positions stay. */
  return (cpu_program_places(kernel->epilogue) & ~CPU_PLACES_POSITION) == 0 &&
         kernel->size[0] * kernel->size[1] > 1 && kernel->size[2] > 0 && kernel->size[3] > 0 &&
         w->padding[0] == 0 && w->result_size[0] > 0 && w->data_size[0] % w->result_size[0] == 0 &&
         span <= w->data_size[0] / w->result_size[0] &&
         (w->result_size[0] == 1 || w->stride[0] == w->data_size[0] / w->result_size[0]);
}

void window_merge_planes(cpu_window *kernel) {
  compute_window *w = &kernel->shape;
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
}

void window_find_short_halves(cpu_window *kernel) {
  const compute_window *w = &kernel->shape;
  const int64_t count = w->result_size[1];
  bool is_short = kernel->lanes == 1 && count > 0 && count <= CPU_WINDOW_SHORT &&
                  w->data_size[1] == 2 * count && 2 * w->result_size[0] <= w->data_size[0] &&
                  (!w->by_data || w->operation == COMPUTE_WINDOW_MAX);
  for (int d = 0; d < 2; d++)
    is_short = is_short && w->size[d] == 2 && w->stride[d] == 2 && w->dilation[d] == 1 &&
               w->padding[d] == 0;
  /* Data that are converted come in dense lines; gradients are converted line by line. */
  const window_operand *data = &kernel->input[0], *gradient = &kernel->input[1];
  is_short = is_short && (!data->direct || data->stride[2] == 2 * count);
  if (w->by_data) is_short = is_short && gradient->direct && gradient->stride[2] == count;
  if (kernel->in_place) is_short = is_short && kernel->output[0].stride[2] == kernel->size[3];
  kernel->halves_short = is_short;
}
