/* The epilogue over a unit's results, which are still in a cache of this core, and where they go.
 */
#include "window.h"

unsigned char *window_output(const window_launch *l, const window_unit *unit, int64_t row) {
  const cpu_window *kernel = l->kernel;
  const window_operand *o = &kernel->output[0];
  const int64_t at = unit->image * o->stride[0] + unit->channel * o->stride[1] +
                     row * o->stride[2] + unit->column * o->stride[3];
  return (unsigned char *)l->pointers[kernel->input_count + kernel->extra_count] + at * o->size;
}

/* Runs `count` elements along dimension `along` of the space. */
static void run(const window_launch *l, const int64_t point[4], int along, int64_t count,
                unsigned char *values, cpu_scratch *scratch) {
  const cpu_window *kernel = l->kernel;
  const int64_t most = cpu_program_tile_elements(kernel->epilogue);
  cpu_tile tile;
  int64_t step = 1, at = 0;
  for (int d = 3; d >= 0; d--) {
    at += point[d] * step;
    if (d == along) tile.position_step = step;
    tile.coordinate[d] = point[d];
    step *= kernel->size[d];
  }
  tile.dimension = along;
  for (int64_t done = 0; done < count; done += most) {
    tile.count = cpu_min(most, count - done);
    tile.position = at + done * tile.position_step;
    tile.coordinate[along] = point[along] + done;
    tile.input[0] = values + done * kernel->element;
    tile.input_stride[0] = 1;
    for (uint32_t i = 0; i < kernel->extra_count + kernel->output_count; i++) {
      const bool is_extra = i < kernel->extra_count;
      const window_operand *o =
          is_extra ? &kernel->extra[i] : &kernel->output[i - kernel->extra_count];
      int64_t offset = done * o->stride[along];
      for (int d = 0; d < 4; d++) offset += point[d] * o->stride[d];
      unsigned char *address =
          (unsigned char *)l->pointers[kernel->input_count + i] + offset * o->size;
      if (is_extra) {
        tile.input[i + 1] = address;
        tile.input_stride[i + 1] = o->stride[along];
      } else {
        tile.output[i - kernel->extra_count] = address;
        tile.output_stride[i - kernel->extra_count] = o->stride[along];
      }
    }
    cpu_program_run(kernel->epilogue, &tile, scratch, false);
  }
}

void window_finish(const window_launch *l, const window_unit *unit, unsigned char *values) {
  const cpu_window *kernel = l->kernel;
  const bool whole = unit->columns == kernel->size[3];
  const int along = kernel->lanes > 1 ? 1 : 3;
  int64_t rows = unit->rows, columns = unit->columns, count = kernel->lanes;
  cpu_scratch scratch;
  /* The longest runs that go through all operands without a gap. */
  if (kernel->lanes == 1 || kernel->positions_continue) {
    count *= columns;
    columns = 1;
    if (whole && kernel->rows_continue) {
      count *= rows;
      rows = 1;
    }
  }
  for (int64_t p = 0; p < rows; p++)
    for (int64_t q = 0; q < columns; q++) {
      const int64_t point[4] = {unit->image, unit->channel, unit->row + p, unit->column + q};
      run(l, point, along, count, values, &scratch);
      values += count * kernel->element;
    }
}
