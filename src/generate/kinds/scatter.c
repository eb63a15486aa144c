/* SCATTER: adds updates to elements of an axis that an index tensor chooses, without atomics, so
 * that every run gives the same bits.
 *
 * The dimensions of the space fall into two kinds. Along the free ones the output moves: their
 * points, the columns, never meet. Along the others it does not: their points, the updates, may.
 * An item owns some columns and a range of the axis, and walks the updates in row-major order; it
 * adds those whose index falls into its range. The indices are read once for each range, but where
 * there are few columns only ranges give a GPU enough to do.
 *
 * Two refinements. Where all columns share the indices and a group lies within one range, the group
 * reads a chunk of indices together and then visits only those that hit ("staged"). And where the
 * axis is short, or f16 and bf16 must be summed in f32, updates are cut into parts, each of which
 * sums into a copy of its own in the workspace; a second launch adds the copies in order. */
#include <stdio.h>
#include <string.h>

#include "generate/kinds/scatter.h"

#include "generate/kinds/indexed.h"
#include "type/dtype.h"

/* ---- Spaces -------------------------------------------------------------------------------- */

static int64_t magnitude(int64_t a) {
  return a < 0 ? -a : a;
}

/* The free dimensions in the order in which the output lies, or the others as they stand. */
static int32_t choose_dimensions(const compute_kernel_descriptor *d, bool free,
                                 int32_t chosen[COMPUTE_MAX_RANK]) {
  const int64_t *stride = d->outputs[0].stride;
  int32_t count = 0;
  for (int32_t i = 0; i < d->rank; i++) {
    if ((stride[i] != 0) != free) continue;
    int32_t at = count++;
    for (; free && at > 0 && magnitude(stride[chosen[at - 1]]) < magnitude(stride[i]); at--)
      chosen[at] = chosen[at - 1];
    chosen[at] = i;
  }
  return count;
}

static void begin_space(const scatter *s, emit_space *space, const char *name, bool free) {
  int32_t chosen[COMPUTE_MAX_RANK];
  int64_t size[COMPUTE_MAX_RANK] = {0};
  const int32_t rank = choose_dimensions(s->g->descriptor, free, chosen);
  for (int32_t i = 0; i < rank; i++) size[i] = s->g->descriptor->size[chosen[i]];
  space_begin(space, name, rank, size);
}

static void add_walk(const scatter *s, emit_space *space, const char *name,
                     const compute_operand *operand, bool free) {
  int32_t chosen[COMPUTE_MAX_RANK];
  int64_t stride[COMPUTE_MAX_RANK] = {0};
  const int32_t rank = choose_dimensions(s->g->descriptor, free, chosen);
  for (int32_t i = 0; i < rank; i++) stride[i] = operand->stride[chosen[i]];
  space_add(space, name, stride);
}

/* The output over axis and columns, for the second launch. */
static void build_result(scatter *s) {
  const compute_kernel_descriptor *d = s->g->descriptor;
  int32_t chosen[COMPUTE_MAX_RANK];
  int64_t size[COMPUTE_MAX_RANK] = {compute_index_of(d)->axis_size}, stride[COMPUTE_MAX_RANK] = {compute_index_of(d)->axis_stride};
  const int32_t rank = choose_dimensions(d, true, chosen);
  for (int32_t i = 0; i < rank; i++) {
    size[i + 1] = d->size[chosen[i]];
    stride[i + 1] = d->outputs[0].stride[chosen[i]];
  }
  space_begin(&s->result, "r", rank + 1, size);
  space_add(&s->result, "out0", stride);
  space_canonicalise(s->g, &s->result);
}

static void build_spaces(scatter *s) {
  const compute_kernel_descriptor *d = s->g->descriptor;
  int32_t chosen[COMPUTE_MAX_RANK];
  const int32_t rank = choose_dimensions(d, true, chosen);
  s->slices = true;
  for (int32_t i = 0; i < rank; i++)
    if (d->inputs[1].stride[chosen[i]] != 0 && d->size[chosen[i]] > 1) s->slices = false;
  begin_space(s, &s->columns, "c", true);
  add_walk(s, &s->columns, "in0", &d->inputs[0], true);
  if (!s->slices) add_walk(s, &s->columns, "in1", &d->inputs[1], true);
  add_walk(s, &s->columns, "out0", &d->outputs[0], true);
  begin_space(s, &s->updates, "u", false);
  add_walk(s, &s->updates, "in0", &d->inputs[0], false);
  begin_space(s, &s->indices, "i", false);
  add_walk(s, &s->indices, "in1", &d->inputs[1], false);
  s->column_count = space_count(&s->columns, 0, s->columns.rank);
  s->update_count = space_count(&s->updates, 0, s->updates.rank);
  emit_space *const spaces[] = {&s->columns, &s->updates, &s->indices};
  for (int i = 0; i < 3; i++) {
    space_canonicalise(s->g, spaces[i]);
    indexed_fill_rank(spaces[i]);
  }
  /* Positions of updates times anything else are never multiplied, but both are counted in INDEX.
   */
  if (s->column_count > INT32_MAX || s->update_count > INT32_MAX - 65536) s->g->wide = true;
}

/* ---- Shares -------------------------------------------------------------------------------- */

static int64_t at_most(int64_t value, int64_t limit) {
  return value < limit ? value : limit;
}

static int64_t at_least(int64_t value, int64_t limit) {
  return value > limit ? value : limit;
}

/* Parts that the workspace may have a copy for: the copies together stay below the limit, and less
 * work than the updates themselves. */
static int64_t most_parts(const scatter *s, int64_t updates_of_part) {
  const double copy = (double)at_least(1, compute_index_of(s->g->descriptor)->axis_size) * (double)s->column_count;
  const double fits = (double)WORKSPACE_LIMIT / (copy * (double)s->sum_bytes);
  const double pays = (double)s->update_count * (double)s->column_count / copy;
  double most = (double)(s->update_count / updates_of_part);
  if (fits < most) most = fits;
  if (pays < most) most = pays;
  return at_most(most < 1 ? 1 : (int64_t)most, 65535);
}

static void share_for_gpu(scatter *s) {
  generation *g = s->g;
  const int64_t axis = at_least(1, compute_index_of(g->descriptor)->axis_size);
  const uint32_t group = indexed_group(g, g->tuning.group_x ? g->tuning.group_x : GROUP);
  const int64_t units = g->target->compute_units ? g->target->compute_units : DEFAULT_UNITS;
  const int64_t wanted = units * (g->tuning.groups ? g->tuning.groups : GROUPS_PER_UNIT) * group;
  s->group_x = 1;
  while (s->group_x < group && s->group_x < s->column_count) s->group_x *= 2;
  s->group_y = group / s->group_x;
  if (s->group_y > g->target->group_limit_of[1]) s->group_y = g->target->group_limit_of[1];
  s->ranges = at_most(s->group_y, axis);
  s->parts = 1;
  if (s->column_count * s->ranges < wanted)
    s->parts = at_most(most_parts(s, UPDATES_OF_PART),
                       indexed_divide_up(wanted, s->column_count * s->ranges));
  if (s->column_count * s->ranges * s->parts < wanted)
    s->ranges = at_most(at_most(axis, 65535), wanted / (s->column_count * s->parts));
  s->ranges = at_least(1, s->ranges);
  s->width = s->pieces = 1;
  s->staged = s->slices && s->group_y == 1 && s->group_x >= 32 && g->tuning.variant != WALK;
}

static void share_for_cpu(scatter *s) {
  generation *g = s->g;
  const int64_t axis = at_least(1, compute_index_of(g->descriptor)->axis_size);
  const int64_t length = s->columns.size[s->columns.rank - 1], lines = s->column_count / length;
  const int64_t units = g->target->compute_units ? g->target->compute_units : DEFAULT_UNITS;
  const double work = (double)s->column_count * (double)s->update_count;
  int64_t wanted = units * (g->tuning.groups ? g->tuning.groups : SHARES_PER_UNIT);
  if (work / SHARE < (double)wanted) wanted = at_least(1, (int64_t)(work / SHARE));
  s->group_x = s->group_y = 1;
  s->pieces = lines >= wanted ? 1 : at_most(indexed_divide_up(wanted, lines), length);
  s->width = at_most(length, at_least(LINE, indexed_divide_up(length, s->pieces)));
  s->pieces = indexed_divide_up(length, s->width);
  s->ranges = s->parts = 1;
  const int64_t missing = indexed_divide_up(wanted, lines * s->pieces);
  if (missing > 1) s->parts = at_most(missing, most_parts(s, UPDATES_OF_CPU_PART));
  if (missing > 1 && s->parts == 1) s->ranges = at_most(missing, axis);
  s->staged = false;
}

static void choose_shares(scatter *s) {
  const compute_dtype dtype = s->g->descriptor->outputs[0].dtype;
  const int64_t axis = compute_index_of(s->g->descriptor)->axis_size;
  s->sum = dtype_compute_type(dtype);
  s->sum_bytes = (uint32_t)compute_dtype_size(s->sum);
  if (emit_for_cpu(s->g))
    share_for_cpu(s);
  else
    share_for_gpu(s);
  s->rows = at_least(1, indexed_divide_up(axis, s->ranges));
  s->ranges = at_least(1, indexed_divide_up(axis, s->rows));
  s->part = at_least(1, indexed_divide_up(s->update_count, s->parts));
  s->parts = at_least(1, indexed_divide_up(s->update_count, s->part));
  s->copies = s->parts > 1 || dtype == COMPUTE_F16 || dtype == COMPUTE_BF16;
  const double copied = (double)s->parts * (double)axis * (double)s->column_count;
  if (s->copies && copied > INT32_MAX) s->g->wide = true;
}

static compute_status check_shares(const scatter *s) {
  const double columns = (double)s->column_count;
  const double tiles = emit_for_cpu(s->g) ? columns / (double)s->columns.size[s->columns.rank - 1] *
                                                (double)s->pieces
                                          : columns / s->group_x;
  if (tiles > INT32_MAX) return emit_refuse(s->g, "more groups than one launch can have");
  const double bytes =
      (double)s->parts * (double)compute_index_of(s->g->descriptor)->axis_size * columns * (double)s->sum_bytes;
  if (s->copies && bytes > 0x1p40) return emit_refuse(s->g, "the sums do not fit any memory");
  return COMPUTE_OK;
}

compute_status emit_scatter(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  scatter s;
  memset(&s, 0, sizeof s);
  s.g = g;
  compute_status status = indexed_check(g, &d->outputs[0]);
  if (status) return status;
  for (int32_t i = 0; i < d->rank; i++)
    if (d->size[i] == 0) return COMPUTE_OK;
  build_spaces(&s);
  choose_shares(&s);
  status = check_shares(&s);
  if (status) return status;
  if (s.copies) build_result(&s);
  scatter_write(&s);
  g->tuning.variant = s.staged ? STAGED : WALK;
  g->tuning.group_x = s.group_x * s.group_y;
  snprintf(g->text, sizeof g->text, "scatter, %s, %u by %u items, %lld ranges, %lld parts%s",
           s.staged ? "staged" : "walked", s.group_x, s.group_y, (long long)s.ranges,
           (long long)s.parts, s.copies ? ", copies added" : "");
  return COMPUTE_OK;
}
