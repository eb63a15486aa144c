#include "generate/sweep.h"

#include "generate/fold.h"
#include "generate/kinds/indexed.h"
#include "kernel/operand.h"

enum {
  GROUPS_PER_UNIT = 4, /* of a CPU */
  MOST_GROUPS = 1 << 16,
  MOST_ITEMS =
      1 << 24, /* with what needs_wide of spaces leaves, a step beyond the end fits 32 bits */
  NARROW = 0x7e000000
};

sweep sweep_plan(generation *g, int64_t count, int64_t least, uint32_t group) {
  sweep s = {.count = count, .group = 1};
  if (emit_for_cpu(g)) {
    const int64_t units = g->target->compute_units > 0 ? g->target->compute_units : 1;
    const int64_t most = fold_divide_up(count, least > 0 ? least : 1);
    s.share = fold_divide_up(count, fold_clamp(units * GROUPS_PER_UNIT, 1, most));
    s.groups = fold_divide_up(count, s.share);
  } else {
    s.group = indexed_group(g, g->tuning.group_x ? g->tuning.group_x : group);
    s.groups = fold_clamp(fold_divide_up(count, s.group), 1, MOST_ITEMS / s.group);
    if (s.groups > MOST_GROUPS) s.groups = MOST_GROUPS;
  }
  g->tuning.group_x = s.group;
  return s;
}

void sweep_begin(generation *g, emit_launch *launch, const sweep *s) {
  text_buffer *text = &launch->body;
  emit_field_index(g, launch, "positions", s->count);
  emit_field_index(g, launch, "step", s->share ? s->share : s->groups * s->group);
  if (s->share) {
    text_add(text, "const INDEX begin = (INDEX)GROUP_ID_X * shape.step;\n"
                   "const INDEX end = shape.positions - begin < shape.step ? shape.positions\n"
                   "  : begin + shape.step;\n"
                   "for (INDEX at = begin; at < end; at++) {\n");
  } else {
    text_add(text,
             "for (INDEX at = (INDEX)GROUP_ID_X * %u + (INDEX)LOCAL_ID_X; at < shape.positions;\n"
             "     at += shape.step) {\n",
             (unsigned)s->group);
  }
}

void sweep_measure(generation *g, double more) {
  const compute_kernel_descriptor *d = g->descriptor;
  double most = more, count = 1;
  for (uint32_t i = 0; i < d->input_count + d->output_count; i++) {
    const compute_operand *o = i < d->input_count ? &d->inputs[i] : &d->outputs[i - d->input_count];
    int64_t size[COMPUTE_MAX_RANK];
    double reach = 0;
    kernel_operand_sizes(d, i, size);
    for (int32_t k = 0; k < d->rank; k++) {
      const double step = (double)o->stride[k] * (double)size[k];
      reach += step < 0 ? -step : step;
    }
    if (reach > most) most = reach;
  }
  for (int32_t k = 0; k < d->rank; k++) count *= (double)d->size[k];
  if (most > NARROW || count > NARROW) g->wide = true;
}

bool sweep_rows(generation *g, emit_space *space, int32_t rank) {
  const compute_kernel_descriptor *d = g->descriptor;
  space_begin(space, "space", rank, d->size);
  space_add_inputs(g, space, 0, d->input_count);
  space_add_outputs(g, space);
  if (space_count(space, 0, rank) == 0) return false;
  space_canonicalise(g, space);
  space->generic = space->rank;
  return true;
}
