/* MAP: a program on every element. */
#include "generate/kinds/elementwise.h"

compute_status emit_map(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  elementwise e = {.g = g, .what = "map"};
  emit_program(g, &e.program, "program", &d->epilogue, COMPUTE_DTYPE_NONE, 0, d->input_count);
  space_begin(&e.space, "space", d->rank, d->size);
  for (uint32_t i = 0; i < d->input_count; i++) {
    if (e.program.used[i]) space_add_inputs(g, &e.space, i, i + 1);
  }
  space_add_outputs(g, &e.space);
  space_add_program(&e.space, &d->epilogue, d->rank);
  elementwise_order(&e);
  return elementwise_emit(&e);
}
