/* SPDX-License-Identifier: MIT */
/* ROW: softmax, log-softmax and normalize along the last dimension, with a prologue and an
 * epilogue.
 *
 * Templates do the work, two for devices with groups and two for CPUs; this file writes the macros
 * around them. If there are few rows, each is cut into parts. A first launch measures the parts and
 * leaves statistics in the workspace; a second merges these and finishes. There are no atomics: the
 * same input gives the same bits.
 *
 * The first half of the file plans the division of rows. The second half writes the text.
 * Parameters: variant (1: along rows, 2: across them) and vector (elements of one load; for CPUs of
 * a vector). For groups also group_x, items (elements of an item), tile_k (items for one row) and
 * groups (for each compute unit, before rows are split). */
#include <inttypes.h>
#include <stdio.h>

#include "codegen/generate/kinds/plan.h"

enum {
  GROUP = 256,
  MOST_COLUMNS = 32, /* rows of a group that runs across them: a cache line of f32 */
  LEAST_ACROSS = 16, /* neighbouring rows that make a vector worthwhile */
  SHORT_ROW = 32,    /* too short to fill vectors */
  LEAST_ITEMS = 4,
  SOME_ITEMS = 16,
  MOST_ITEMS = 32,
  LEAST_LANES = 8,
  WARP = 32,
  MOST_GROUP = 1024,
  GROUPS_PER_UNIT = 4,
  MOST_SPLITS = 1024,
  MOST_GROUPS = 1 << 20, /* beyond this, groups stride */
  HELD_BYTES = 1 << 13,
  ITEMS_PER_UNIT = 4,
  ITEM_WORK = 1 << 14, /* elements that make a CPU item worthwhile */
  ITEM_LEAST = 1 << 11
};

static int64_t multiply(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* The cost of a walk along a dimension, from the strides of the main input and the first output. */
static int64_t cost(const row_problem *p, int32_t dimension) {
  char names[2][16] = {"out0", ""};
  int64_t sum = 0;
  if (p->main_input >= 0) snprintf(names[1], sizeof names[1], "in%d", (int)p->main_input);
  for (int i = 0; i < 2; i++) {
    const emit_walk *walk = names[i][0] ? space_walk(p->space, names[i]) : NULL;
    const int64_t stride = walk ? walk->stride[dimension] : 0;
    sum += emit_clamp(stride < 0 ? -stride : stride, 0, 16);
  }
  return sum;
}

static bool choose_across(const generation *g, const row_problem *p, bool items) {
  const int32_t fence = p->space->fence, rank = p->space->rank;
  const int64_t neighbours = fence > 0 ? p->space->size[fence - 1] : 1;
  if (g->tuning.variant > 0) return g->tuning.variant == 2;
  if (emit_is_reproducible(g)) return false;
  if (rank == fence || neighbours < (items ? LEAST_ACROSS : 2)) return false;
  if (items && p->length < SHORT_ROW && neighbours > p->length) return true;
  return cost(p, fence - 1) < cost(p, rank - 1);
}

static void set_share(row_cut *cut, const row_problem *p, int64_t splits, int64_t multiple) {
  cut->share = divide_up(divide_up(p->length, splits), multiple) * multiple;
  cut->splits = divide_up(p->length, cut->share);
}

/* ---- By groups ----------------------------------------------------------------------------- */

/* The number of items that share a row. With more than SOME_ITEMS elements for each item, the
 * resident items cannot keep memory busy, which costs more than a barrier between warps. If a load
 * takes 8 elements, this does not apply: arithmetic takes the time. There are few classes, so that
 * few sources serve all lengths. */
static uint32_t choose_lanes(const row_problem *p, const row_cut *cut, uint32_t limit) {
  const int64_t columns = emit_power_of_two(emit_clamp(p->rows, 1, MOST_COLUMNS));
  const int64_t most = cut->across ? emit_clamp(limit, 1, GROUP) / columns : limit;
  const int64_t some = cut->vector == VECTOR_MOST && p->bytes == 4 ? MOST_ITEMS : SOME_ITEMS;
  int64_t lanes = p->length <= LEAST_LANES * LEAST_ITEMS ? LEAST_LANES : WARP;
  while (lanes < most && p->length > lanes * some) lanes *= 2;
  if (p->length > lanes * some && lanes > GROUP) lanes = GROUP; /* reads it twice anyway */
  return (uint32_t)emit_clamp(lanes, 1, most);
}

static void choose_items(const row_problem *p, row_cut *cut) {
  const int64_t items = divide_up(p->length, cut->lanes);
  const uint32_t most = MOST_ITEMS * (uint32_t)sizeof(float) / p->bytes;
  cut->items = items <= LEAST_ITEMS ? LEAST_ITEMS : items <= SOME_ITEMS ? SOME_ITEMS : most;
  if (items > most) cut->items = SOME_ITEMS; /* in two passes */
  if (cut->items < cut->vector) cut->items = cut->vector;
}

static void split_groups(const generation *g, const row_problem *p, row_cut *cut) {
  const int64_t wanted = emit_units(g) * (g->tuning.groups ? g->tuning.groups : GROUPS_PER_UNIT);
  const int64_t round = (int64_t)cut->lanes * cut->items;
  const int64_t most = emit_clamp(p->length / (2 * round), 1, MOST_SPLITS);
  const bool few = cut->tiles < wanted && !emit_is_reproducible(g);
  set_share(cut, p, few ? emit_clamp(divide_up(wanted, cut->tiles), 1, most) : 1, round);
}

static uint32_t group_limit(const generation *g) {
  uint32_t limit = g->target->group_limit ? g->target->group_limit : GROUP;
  if (g->target->group_limit_of[0] && g->target->group_limit_of[0] < limit)
    limit = g->target->group_limit_of[0];
  return limit < MOST_GROUP ? limit : MOST_GROUP;
}

static void choose_groups(const generation *g, const row_problem *p, row_cut *cut, uint32_t limit) {
  const compute_tuning *t = &g->tuning;
  const bool inner = p->space->rank > p->space->fence;
  /* Also limits a request. Vectors have an order that unaligned rows cannot have. */
  const uint32_t most = inner && !emit_is_reproducible(g) ? vector_choose(g, p->space) : 1;
  cut->vector = cut->across ? 1 : most;
  if (t->vector) cut->vector = t->vector < most ? t->vector : most;
  cut->lanes = t->tile_k ? t->tile_k : choose_lanes(p, cut, t->group_x ? t->group_x : limit);
  cut->group = t->group_x ? t->group_x : cut->lanes > GROUP ? cut->lanes : GROUP;
  while (!t->group_x && cut->group > limit) cut->group /= 2;
  choose_items(p, cut);
  if (t->items) cut->items = t->items;
  cut->shuffle = emit_has(g, COMPUTE_TARGET_LOCKSTEP) && g->target->lanes == WARP &&
                 g->target->dialect != COMPUTE_DIALECT_OPENCL && !cut->across &&
                 cut->group % WARP == 0;
}

static bool plan_groups(generation *g, const row_problem *p, row_cut *cut) {
  compute_tuning *t = &g->tuning;
  const uint32_t limit = group_limit(g);
  choose_groups(g, p, cut, limit);
  if (cut->group > limit || !emit_is_power(cut->group) || cut->lanes > cut->group ||
      !emit_is_power(cut->lanes) || cut->items > 64 || !emit_is_power(cut->vector) ||
      cut->vector > VECTOR_MOST || cut->items % cut->vector != 0) {
    emit_refuse(g,
                "row: %u elements for each item, %u at once, %u items for a row, in groups of %u",
                cut->items, cut->vector, cut->lanes, cut->group);
    return false;
  }
  if ((uint64_t)cut->group * p->bytes * 2 > g->target->local_bytes) {
    emit_refuse(g, "row: a group of %u needs more local memory than the device has", cut->group);
    return false;
  }
  cut->rows = cut->group / cut->lanes;
  cut->tiles = divide_up(p->rows, cut->rows);
  cut->groups = emit_clamp(cut->tiles, 1, MOST_GROUPS);
  cut->form = p->length <= (int64_t)cut->lanes * cut->items ? ROW_HELD : ROW_LONG;
  if (cut->form == ROW_LONG)
    split_groups(g, p, cut);
  else
    set_share(cut, p, 1, 1);
  t->group_x = cut->group;
  t->items = cut->items;
  t->tile_k = cut->lanes;
  t->vector = cut->vector;
  if (!t->groups) t->groups = GROUPS_PER_UNIT;
  return true;
}

/* ---- By items ------------------------------------------------------------------------------ */

static bool plan_items(generation *g, const row_problem *p, row_cut *cut) {
  const int32_t fence = p->space->fence;
  const int64_t wanted = emit_units(g) * ITEMS_PER_UNIT, total = multiply(p->rows, p->length);
  int64_t splits = 1;
  cut->form = cut->across ? ROW_ACROSS : ROW_ITEM;
  cut->group = cut->lanes = cut->rows = cut->items = 1;
  cut->held = HELD_BYTES / p->bytes;
  cut->inner = cut->across && fence > 0 ? p->space->size[fence - 1] : 1;
  if (cut->across)
    cut->width = cut->inner >= 64 && p->rows >= 64 * wanted ? 64 : 16;
  else
    cut->width = p->length >= 64 ? 32 : 8;
  if (g->tuning.vector) cut->width = g->tuning.vector;
  if (cut->width > 256 || cut->width & (cut->width - 1) ||
      (cut->across && cut->width > cut->inner)) {
    emit_refuse(g, "row: vectors of %u elements", cut->width);
    return false;
  }
  cut->pieces = divide_up(cut->inner, cut->across ? cut->width : 1);
  cut->tiles = p->rows / cut->inner * cut->pieces;
  if (!cut->across && p->rows < wanted && !emit_is_reproducible(g)) {
    const int64_t most = emit_clamp(total / ITEM_WORK, 1, MOST_SPLITS);
    splits = emit_clamp(divide_up(wanted, p->rows), 1,
                        emit_clamp(most, 1, divide_up(p->length, cut->width)));
  }
  set_share(cut, p, splits, cut->width);
  const int64_t most = emit_clamp(wanted * 4, 1, cut->tiles);
  cut->run = divide_up(cut->tiles, emit_clamp(total / ITEM_LEAST, 1, most));
  cut->groups = divide_up(cut->tiles, cut->run);
  g->tuning.group_x = 1;
  g->tuning.vector = cut->width;
  return true;
}

bool row_plan(generation *g, const row_problem *p, row_cut *cut) {
  const bool items = emit_for_cpu(g);
  if (g->tuning.variant > 2) {
    emit_refuse(g, "row: there is no variant %u", g->tuning.variant);
    return false;
  }
  *cut = (row_cut){.inner = 1, .pieces = 1};
  cut->across = choose_across(g, p, items);
  if (!(items ? plan_items(g, p, cut) : plan_groups(g, p, cut))) return false;
  g->tuning.variant = cut->across ? 2 : 1;
  return true;
}

/* ---- Problem ------------------------------------------------------------------------------- */

typedef struct row_kernel {
  generation *g;
  emit_function prologue, epilogue;
  space_order order;
  emit_space space;
  row_problem problem;
  row_cut cut;
} row_kernel;

static int64_t count_rows(const compute_kernel_descriptor *d) {
  int64_t count = 1;
  for (int32_t i = 0; i + 1 < d->rank; i++) count *= d->size[i];
  return count;
}

static void make_space(row_kernel *r) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  row_problem *p = &r->problem;
  p->rows = count_rows(d);
  p->length = d->size[d->rank - 1];
  p->bytes = emit_value_bytes(d->accumulate);
  r->order = space_sort(d, d->rank - 1, d->prologue_inputs, &p->main_input);
  space_begin_in_order(&r->space, "space", d, &r->order, d->rank);
  r->space.fence = d->rank - 1;
  space_add_function(&r->space, d, &r->prologue, &r->order, d->rank);
  space_add_function(&r->space, d, &r->epilogue, &r->order, d->rank);
  space_add_outputs_in_order(&r->space, d, &r->order);
  space_canonicalise(g, &r->space);
  /* Loops step past the end by up to one step of a group. */
  if (p->rows > INT32_MAX / 2 || p->length > INT32_MAX / 2) g->wide = true;
  p->space = &r->space;
}

/* ---- Text ---------------------------------------------------------------------------------- */

/* f64 can hold the squares of all f32 values. */
static bool rescales(const compute_kernel_descriptor *d) {
  return compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE && d->accumulate == COMPUTE_F32;
}

static void define_row(row_kernel *r) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const row_cut *cut = &r->cut;
  const bool wide = d->accumulate == COMPUTE_F64;
  text_buffer *text = &g->definitions;
  emit_define(text, "VALUE", emit_type(d->accumulate));
  emit_define_number(text, "ROW_OPERATION", (int64_t)compute_row_of(d)->operation);
  emit_define(text, "ROW_INFINITY", wide ? "INFINITY_f64" : "INFINITY_f32");
  if (compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE) {
    emit_define(text, "ROW_ROOT", wide ? "sqrt_f64" : "sqrt_f32");
    emit_define_number(text, "ROW_RESCALES", rescales(d));
  } else {
    emit_define(text, "ROW_EXP", wide ? "exp_f64" : "exp_falling_f32");
    emit_define(text, "ROW_NAN", wide ? "NAN_f64" : "NAN_f32");
  }
  if (compute_row_of(d)->operation == COMPUTE_ROW_LOG_SOFTMAX)
    emit_define(text, "ROW_LOG", wide ? "log_f64" : "log_f32");
  if (cut->form == ROW_HELD || cut->form == ROW_LONG) {
    emit_define_number(text, "ROW_GROUP", cut->group);
    emit_define_number(text, "ROW_LANES", cut->lanes);
    emit_define_number(text, "ROW_ROWS", cut->rows);
    emit_define_number(text, "ROW_ITEMS", cut->items);
    emit_define_number(text, "ROW_ACROSS", cut->across);
    emit_define_number(text, "ROW_PITCH", cut->across ? cut->rows : 1);
    emit_define_number(text, "ROW_VECTOR", cut->vector);
    if (cut->shuffle)
      emit_define(text, "ROW_SHUFFLE", wide ? "SHUFFLE_XOR_f64" : "SHUFFLE_XOR_f32");
  } else {
    emit_define_number(text, "ROW_WIDTH", cut->width);
    emit_define_number(text, "ROW_HELD", cut->held);
  }
  if (cut->form != ROW_HELD) emit_template(g, text, "fold_compensated");
  emit_template(g, text, "row");
  if (cut->form == ROW_ITEM) emit_template(g, text, "row_lines");
}

static void define_vectors(row_kernel *r, text_buffer *body, bool apply) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const uint32_t vector = r->cut.vector;
  text_buffer aligned = {0};
  text_add(&aligned, vector > 1 ? "shape.whole" : "0");
  if (vector > 1) {
    vector_aligned(g, &aligned, &r->space, apply ? d->input_count : d->prologue_inputs, apply,
                   vector);
    vector_define_elements(g, body, &r->space, &r->prologue, vector, "row_$ + (at_step) * step_$");
    vector_define_finish(g, body, &r->space, &r->epilogue, vector, "row_$ + (at_step) * step_$");
  }
  emit_define_text(body, "ROW_ALIGNED", &aligned);
}

static void define_body(row_kernel *r, text_buffer *body) {
  generation *g = r->g;
  const emit_space *space = &r->space;
  const int32_t fence = space->fence;
  const bool tiled = r->cut.form == ROW_ACROSS;
  const char *index =
      tiled ? "row_$ + (INDEX)lane * across_$ + (at_step) * step_$" : "row_$ + (at_step) * step_$";
  text_buffer text = {0};
  emit_define_offsets(g, body, "ROW_OFFSETS", "at_row", space, 0, fence, "row");
  emit_steps(&text, "step", space, space->rank > fence ? space->rank - 1 : COMPUTE_MAX_RANK);
  if (tiled) emit_steps(&text, "across", space, fence > 0 ? fence - 1 : COMPUTE_MAX_RANK);
  emit_define_text(body, "ROW_STEPS", &text);
  emit_function_call(g, &text, &r->prologue, NULL, index);
  emit_define_text(body, "ELEMENT(at_step)", &text);
  emit_define_finish(g, body, &r->epilogue, "at_step, finished_value", "", "finished_value", index);
}

static const char *template_of(row_form form) {
  switch (form) {
  case ROW_HELD: return "row_held";
  case ROW_LONG: return "row_long";
  case ROW_ITEM: return "row_item";
  case ROW_ACROSS: break;
  }
  return "row_across";
}

/* ---- Launches ------------------------------------------------------------------------------ */

static void add_fields(row_kernel *r, emit_launch *launch) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const row_cut *cut = &r->cut;
  emit_field_index(g, launch, "rows", r->problem.rows);
  emit_field_index(g, launch, "length", r->problem.length);
  emit_field_index(g, launch, "share", cut->share);
  emit_field_index(g, launch, "splits", cut->splits);
  emit_field_index(g, launch, "tiles", cut->tiles);
  if (cut->vector > 1) emit_field_u32(g, launch, "whole", vector_fits(g, &r->space, cut->vector));
  if (cut->form == ROW_ITEM || cut->form == ROW_ACROSS) {
    emit_field_index(g, launch, "run", cut->run);
    emit_field_index(g, launch, "inner", cut->inner);
    emit_field_index(g, launch, "pieces", cut->pieces);
  }
  if (compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE) {
    if (d->accumulate == COMPUTE_F64)
      emit_field_f64(g, launch, "epsilon", compute_row_of(d)->epsilon);
    else
      emit_field_f32(g, launch, "epsilon", (float)compute_row_of(d)->epsilon);
  }
  emit_space_fields(g, launch, &r->space, 0, r->space.rank);
}

/* The statistics of the parts, one array after the other. */
static void add_statistics(row_kernel *r, emit_launch *launch, bool written) {
  static const char *const names[] = {"shifts", "sums", "spreads", "units"};
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const uint64_t parts = (uint64_t)r->problem.rows * (uint64_t)r->cut.splits;
  const uint64_t bytes = (parts * r->problem.bytes + 63) / 64 * 64;
  const uint32_t count = rescales(d)                                             ? 4
                         : compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE ? 3
                                                                                 : 2;
  for (uint32_t i = 0; i < count; i++)
    emit_workspace(g, launch, names[i], emit_type(d->accumulate), r->problem.bytes, i * bytes,
                   written);
  g->workspace_bytes = count * bytes;
}

static void add_launch(row_kernel *r, bool measure, bool apply) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const row_cut *cut = &r->cut;
  const uint32_t group[3] = {cut->group, 1, 1};
  const uint32_t groups[3] = {(uint32_t)cut->groups, (uint32_t)cut->splits, 1};
  emit_launch *launch = emit_launch_begin(g, apply ? "row" : "row_parts", group, groups);
  if (!launch) return;
  emit_inputs(g, launch, 0, apply ? d->input_count : d->prologue_inputs);
  if (apply) emit_outputs(g, launch);
  if (!(measure && apply)) add_statistics(r, launch, measure);
  add_fields(r, launch);
  define_body(r, &launch->body);
  if (cut->form == ROW_HELD || cut->form == ROW_LONG) define_vectors(r, &launch->body, apply);
  emit_define_number(&launch->body, "ROW_MEASURE", measure);
  emit_define_number(&launch->body, "ROW_APPLY", apply);
  emit_template(g, &launch->body, template_of(cut->form));
}

static void describe(const row_kernel *r) {
  static const char *const names[] = {[COMPUTE_ROW_SOFTMAX] = "softmax",
                                      [COMPUTE_ROW_LOG_SOFTMAX] = "log-softmax",
                                      [COMPUTE_ROW_NORMALIZE] = "normalize"};
  generation *g = r->g;
  const row_cut *cut = &r->cut;
  char parts[48] = "";
  if (cut->splits > 1) snprintf(parts, sizeof parts, ", rows in %" PRId64 " parts", cut->splits);
  if (cut->form == ROW_ITEM || cut->form == ROW_ACROSS)
    snprintf(g->text, sizeof g->text, "row %s %s rows, %" PRIu32 " lanes%s",
             names[compute_row_of(g->descriptor)->operation], cut->across ? "across" : "along",
             cut->width, parts);
  else
    snprintf(g->text, sizeof g->text, "row %s %s, %" PRIu32 " items for a row%s",
             names[compute_row_of(g->descriptor)->operation],
             cut->form == ROW_HELD ? "in registers" : "in two passes", cut->lanes, parts);
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  row_kernel r = {.g = g};
  if (count_rows(d) == 0 || d->size[d->rank - 1] == 0) return COMPUTE_OK;
  emit_program(g, &r.prologue, "prologue", &d->prologue, COMPUTE_DTYPE_NONE, 0, d->prologue_inputs);
  emit_program(g, &r.epilogue, "epilogue", &d->epilogue, d->accumulate, d->prologue_inputs,
               d->input_count);
  make_space(&r);
  if (!row_plan(g, &r.problem, &r.cut)) return COMPUTE_ERROR_UNSUPPORTED;
  define_row(&r);
  if (r.cut.splits > 1) add_launch(&r, true, false);
  add_launch(&r, r.cut.splits == 1, true);
  describe(&r);
  return COMPUTE_OK;
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS,
     {TUNE(group_x, 64, 128, 256, 512, 1024), TUNE(tile_k, 8, 32, 64, 128, 256, 512),
      TUNE(items, 4, 8, 16, 32), TUNE(vector, 1, 2, 4, 8)}},
    {TUNE_CPU, {TUNE(variant, 1, 2), TUNE(vector, 4, 8, 16, 32, 64, 128)}},
    {.target = TUNE_END},
};

const emit_kind emit_row = {.name = "ROW", .accumulates = true, .emit = emit, .grids = grids};
