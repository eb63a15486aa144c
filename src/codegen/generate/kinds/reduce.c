/* SPDX-License-Identifier: MIT */
/* REDUCE: prologue, fold, epilogue.
 *
 * Templates fold, one for devices with groups and one for CPUs; this file writes the macros around
 * them. If there are few results, elements are cut into parts. Their partial results go to the
 * workspace, and a second launch of the same template folds them. There are no atomics: the same
 * input gives the same bits.
 *
 * The first half of the file plans the reduction: along which dimensions, over how many items, in
 * how many passes. The second half writes the text. Parameters: variant (1: along reduced
 * dimensions, 2: across kept ones). For groups also group_x, items (loads of an item in flight),
 * tile_k (items for one result) and groups (for each compute unit, before results are split). For
 * CPUs vector (elements). */
#include <inttypes.h>
#include <stdio.h>

#include "codegen/generate/kinds/plan.h"

enum {
  GROUP = 256,
  UNROLLED = 4,
  MOST_COLUMNS = 32, /* of a group that runs across: a cache line of f32 */
  GROUPS_PER_UNIT = 8,
  ROUNDS = 4, /* at least, for an item, before another group pays */
  MOST_SPLITS = 1024,
  MOST_GROUPS = 1 << 20, /* beyond this, groups stride */
  ITEM_WORK = 1 << 15,   /* elements that make a CPU item worthwhile */
  ITEM_LEAST = 1 << 12,
  ITEMS_PER_UNIT = 4,
  SHORT_COUNT = 16,      /* elements; this many do not fill vectors */
  LEAST_ACROSS = 8,      /* results; fewer do not fill vectors */
  FIXED_SHARE = 1 << 16, /* elements of a part if parts must not depend on the results */
  BLOCK = 64             /* rounds between fresh partial sums */
};

static uint64_t distance(const reduce_problem *p, int32_t first, int32_t end) {
  char name[16] = "in0";
  if (p->main_input < 0 || end <= first) return UINT64_MAX;
  name[2] = (char)('0' + p->main_input % 10);
  if (p->main_input > 9) {
    name[2] = (char)('0' + p->main_input / 10);
    name[3] = (char)('0' + p->main_input % 10);
    name[4] = 0;
  }
  const emit_walk *walk = space_walk(p->space, name);
  const int64_t stride = walk ? walk->stride[end - 1] : 0;
  if (stride == 0) return UINT64_MAX;
  return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

static int64_t innermost(const reduce_problem *p, int32_t first, int32_t end) {
  return end > first ? p->space->size[end - 1] : 1;
}

/* True if kept dimensions have smaller strides in memory than reduced ones. */
static bool choose_across(const generation *g, const reduce_problem *p, bool items) {
  const int32_t fence = p->space->fence, rank = p->space->rank;
  const int64_t neighbours = innermost(p, 0, fence);
  if (g->tuning.variant > 0) return g->tuning.variant == 2;
  if (items && emit_is_reproducible(g)) return false; /* the two forms order sums differently */
  if (neighbours < (items ? LEAST_ACROSS : 2)) return false;
  if (items && p->count <= SHORT_COUNT && neighbours > p->count) return true;
  return distance(p, 0, fence) < distance(p, fence, rank);
}

static void set_share(reduce_pass *pass, int64_t splits, int64_t multiple) {
  const int64_t pieces = divide_up(divide_up(pass->count, splits), multiple);
  pass->share = pieces * multiple;
  pass->splits = pass->count > 0 ? divide_up(pass->count, pass->share) : 1;
}

/* ---- By groups ----------------------------------------------------------------------------- */

static void cut_groups(reduce_pass *pass, int64_t kept) {
  pass->columns = pass->group / pass->lanes;
  pass->tiles = divide_up(kept, pass->columns);
  pass->groups = emit_clamp(pass->tiles, 1, MOST_GROUPS);
}

/* Items that share a result. There are few classes, so that few sources serve all sizes. If there
 * are results for all units, two results to a group overlap their final phases better. */
static uint32_t choose_lanes(const generation *g, const reduce_pass *pass, int64_t kept) {
  const bool fixed = emit_is_reproducible(g);
  const bool many = !fixed && kept >= 2 * GROUPS_PER_UNIT * emit_units(g);
  const uint32_t few = pass->count <= 8              ? 1
                       : pass->count <= 64           ? 8
                       : pass->count <= 1024         ? 32
                       : pass->count <= 4096 && many ? GROUP / 2
                                                     : GROUP;
  const uint32_t columns =
      pass->across && !fixed ? (uint32_t)emit_power_of_two(emit_clamp(kept, 1, MOST_COLUMNS)) : 1;
  const uint32_t most = pass->group / columns > 0 ? pass->group / columns : 1;
  return few < most ? few : most;
}

static bool plan_group(generation *g, const reduce_problem *p, reduce_pass *pass) {
  const compute_tuning *t = &g->tuning;
  uint32_t limit = g->target->group_limit ? g->target->group_limit : GROUP;
  if (g->target->group_limit_of[0] && g->target->group_limit_of[0] < limit)
    limit = g->target->group_limit_of[0];
  pass->group = t->group_x ? t->group_x : GROUP;
  while (!t->group_x && pass->group > limit) pass->group /= 2;
  pass->unroll = t->items ? t->items : UNROLLED;
  pass->lanes = t->tile_k ? t->tile_k : choose_lanes(g, pass, p->kept);
  if (pass->group > limit || pass->group > 1024 || pass->group & (pass->group - 1) ||
      pass->lanes > pass->group || pass->lanes & (pass->lanes - 1) || pass->unroll > 16) {
    emit_refuse(g, "reduce: %u items in groups of %u with %u for a result", pass->unroll,
                pass->group, pass->lanes);
    return false;
  }
  if ((uint64_t)pass->group * p->bytes > g->target->local_bytes && pass->lanes > 1) {
    emit_refuse(g, "reduce: a group of %u needs more local memory than the device has",
                pass->group);
    return false;
  }
  cut_groups(pass, p->kept);
  return true;
}

static void split_groups(const generation *g, reduce_pass *pass) {
  const int64_t wanted = emit_units(g) * (g->tuning.groups ? g->tuning.groups : GROUPS_PER_UNIT);
  const int64_t round = (int64_t)pass->lanes * pass->unroll;
  const int64_t most = emit_clamp(pass->count / (round * ROUNDS), 1, MOST_SPLITS);
  int64_t splits = pass->tiles < wanted ? divide_up(wanted, pass->tiles) : 1;
  if (emit_is_reproducible(g)) splits = pass->count / FIXED_SHARE;
  set_share(pass, emit_clamp(splits, 1, most), round);
}

/* ---- By items ------------------------------------------------------------------------------ */

static void cut_items(reduce_pass *pass, int64_t kept) {
  pass->pieces = pass->across ? divide_up(pass->inner, pass->lanes) : 1;
  pass->tiles = pass->across ? kept / pass->inner * pass->pieces : kept;
}

static bool plan_item(generation *g, const reduce_problem *p, reduce_pass *pass) {
  const int64_t inner = pass->inner, wanted = emit_units(g) * ITEMS_PER_UNIT;
  pass->group = 1;
  pass->columns = pass->unroll = 1;
  if (pass->across)
    pass->lanes = inner >= 256 && p->kept >= wanted * 256 ? 256 : inner >= 64 ? 64 : 16;
  else
    pass->lanes = inner >= 64 ? 32 : 8;
  if (g->tuning.vector) pass->lanes = g->tuning.vector;
  if (pass->lanes > 1024 || pass->lanes & (pass->lanes - 1)) {
    emit_refuse(g, "reduce: vectors of %u elements", pass->lanes);
    return false;
  }
  cut_items(pass, p->kept);
  return true;
}

static int64_t multiply(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static void split_items(const generation *g, const reduce_problem *p, reduce_pass *pass) {
  const int64_t wanted = emit_units(g) * ITEMS_PER_UNIT, total = multiply(p->kept, pass->count);
  const int64_t multiple = pass->across ? 1 : pass->lanes;
  int64_t splits = 1;
  if (pass->tiles < wanted && !emit_is_reproducible(g)) {
    const int64_t most =
        total / ITEM_WORK < pass->count / multiple ? total / ITEM_WORK : pass->count / multiple;
    splits = emit_clamp(divide_up(wanted, pass->tiles), 1, emit_clamp(most, 1, MOST_SPLITS));
  }
  set_share(pass, splits, multiple);
}

static void share_items(const generation *g, const reduce_problem *p, reduce_pass *pass) {
  const int64_t total = multiply(p->kept, pass->count / pass->splits);
  const int64_t most = emit_clamp(emit_units(g) * ITEMS_PER_UNIT * 4, 1, pass->tiles);
  pass->groups = emit_clamp(total / ITEM_LEAST, 1, most);
  pass->run = divide_up(pass->tiles, pass->groups);
  pass->groups = divide_up(pass->tiles, pass->run);
}

/* ---- Passes -------------------------------------------------------------------------------- */

/* The second pass folds the parts of each result. Parts of neighbouring results are contiguous. */
static bool plan_second(generation *g, const reduce_problem *p, const reduce_pass *first,
                        reduce_pass *pass) {
  const compute_tuning asked = g->tuning;
  *pass = (reduce_pass){.items = first->items, .across = true, .count = first->splits};
  pass->inner = p->kept;
  g->tuning = (compute_tuning){.group_x = asked.group_x};
  const bool fits = pass->items ? plan_item(g, p, pass) : plan_group(g, p, pass);
  g->tuning = asked;
  set_share(pass, 1, 1);
  if (pass->items) share_items(g, p, pass);
  return fits;
}

uint32_t reduce_plan(generation *g, const reduce_problem *p, reduce_pass passes[2]) {
  const int32_t fence = p->space->fence, rank = p->space->rank;
  reduce_pass *first = &passes[0];
  if (g->tuning.variant > 2) {
    emit_refuse(g, "reduce: there is no variant %u", g->tuning.variant);
    return 0;
  }
  *first = (reduce_pass){.items = emit_for_cpu(g), .count = p->count};
  first->across = choose_across(g, p, first->items);
  first->inner = first->across ? innermost(p, 0, fence) : innermost(p, fence, rank);
  if (first->items) {
    if (!plan_item(g, p, first)) return 0;
    split_items(g, p, first);
    share_items(g, p, first);
  } else {
    if (!plan_group(g, p, first)) return 0;
    split_groups(g, first);
  }
  const bool two = first->splits > 1;
  if (two && !plan_second(g, p, first, &passes[1])) return 0;
  g->tuning.variant = first->across ? 2 : 1;
  g->tuning.group_x = first->group;
  if (first->items) {
    g->tuning.vector = first->lanes;
  } else {
    g->tuning.items = first->unroll;
    g->tuning.tile_k = first->lanes;
    if (!g->tuning.groups) g->tuning.groups = GROUPS_PER_UNIT;
  }
  return two ? 2 : 1;
}

/* ---- Text ---------------------------------------------------------------------------------- */

typedef struct reduction {
  generation *g;
  bool search; /* ARGMAX, ARGMIN */
  emit_function prologue, epilogue;
  space_order order;
  emit_space space, result;
  reduce_problem problem;
  uint32_t value_bytes, place_bytes;
  int64_t splits;
} reduction;

/* ---- Spaces -------------------------------------------------------------------------------- */

static int64_t row_major_count(const compute_kernel_descriptor *d, int32_t first, int32_t end) {
  int64_t count = 1;
  for (int32_t i = first; i < end; i++) count *= d->size[i];
  return count;
}

static void make_spaces(reduction *r) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  const int32_t kept = compute_reduce_of(d)->kept_rank;
  reduce_problem *p = &r->problem;
  p->kept = row_major_count(d, 0, kept);
  p->count = row_major_count(d, kept, d->rank);
  r->order = space_sort(d, kept, d->prologue_inputs, &p->main_input);

  space_begin_in_order(&r->space, "space", d, &r->order, d->rank);
  r->space.fence = kept;
  /* Without elements, no load ever runs. */
  for (int32_t i = kept; i < d->rank && p->count == 0; i++) r->space.size[i] = 1;
  space_add_function(&r->space, d, &r->prologue, &r->order, d->rank);
  if (r->search) space_add_position(&r->space, "place", d, &r->order, kept, d->rank);
  space_canonicalise(g, &r->space);

  space_begin_in_order(&r->result, "result", d, &r->order, kept);
  space_add_function(&r->result, d, &r->epilogue, &r->order, kept);
  space_add_outputs_in_order(&r->result, d, &r->order);
  space_canonicalise(g, &r->result);

  /* Loops step past the end by up to one step of a group. */
  if (p->kept > INT32_MAX / 2 || p->count > INT32_MAX / 2) g->wide = true;
  p->space = &r->space;
  r->value_bytes = emit_value_bytes(d->accumulate);
  r->place_bytes = r->search ? (g->wide ? 8 : 4) : 0;
  p->bytes = r->value_bytes + r->place_bytes;
}

/* ---- Definitions --------------------------------------------------------------------------- */

static void define_fold(reduction *r) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  text_buffer *text = &g->definitions;
  if (emit_define_fold(text, compute_reduce_of(d)->combine, d->accumulate))
    emit_template(g, text, "fold_compensated");
  if (r->search) {
    emit_define(text, "FOLD_NAN(x)", dtype_is_float(d->accumulate) ? "((x) != (x))" : "0");
    emit_define(text, "FOLD_NOWHERE", emit_highest(g->wide ? COMPUTE_I64 : COMPUTE_I32));
  }
  emit_template(g, text, "fold");
}

/* Defines the input of a pass: elements through the prologue, or the partial results of the first
 * pass. */
static void define_source(reduction *r, const reduce_pass *pass, text_buffer *body, bool elements) {
  generation *g = r->g;
  const char *element = pass->items ? "ELEMENT(at_step)" : "ELEMENT";
  const char *place = pass->items ? "PLACE(at_step)" : "PLACE";
  if (!elements) {
    emit_define(body, "KEPT_OFFSETS(at_kept)", "const INDEX kept_partial = at_kept;");
    emit_define(body, "REDUCED_OFFSETS(at_element)",
                "const INDEX reduced_partial = (at_element)*shape.kept;");
    emit_define(body, element,
                pass->items ? "partials[kept_partial + reduced_partial + (at_step)]"
                            : "partials[kept_partial + reduced_partial]");
    emit_define(body, place,
                pass->items ? "places[kept_partial + reduced_partial + (at_step)]"
                            : "places[kept_partial + reduced_partial]");
    return;
  }
  const emit_space *space = &r->space;
  const char *index =
      pass->items ? "kept_$ + reduced_$ + (at_step) * step_$" : "kept_$ + reduced_$";
  text_buffer call = {0};
  emit_define_offsets(g, body, "KEPT_OFFSETS", "at_kept", space, 0, space->fence, "kept");
  emit_define_offsets(g, body, "REDUCED_OFFSETS", "at_element", space, space->fence, space->rank,
                      "reduced");
  emit_function_call(g, &call, &r->prologue, NULL, index);
  emit_define_text(body, element, &call);
  emit_define(body, place,
              pass->items ? "(kept_place + reduced_place + (at_step) * step_place)"
                          : "(kept_place + reduced_place)");
  if (pass->items) {
    const int32_t end = pass->across ? space->fence : space->rank;
    const int32_t first = pass->across ? 0 : space->fence;
    emit_steps(body, "step", space, end > first ? end - 1 : COMPUTE_MAX_RANK);
  }
}

/* Defines the output of a folded value: the epilogue, or the workspace. */
static void define_sink(reduction *r, text_buffer *body, bool results) {
  static const char parameters[] = "at_result, folded_value, folded_place";
  generation *g = r->g;
  if (results) {
    emit_define_offsets(g, body, "RESULT_OFFSETS", "at_kept", &r->result, 0, r->result.rank,
                        "result");
    emit_define_finish(g, body, &r->epilogue, parameters, "RESULT_OFFSETS(at_result)",
                       r->search ? "(folded_place == FOLD_NOWHERE ? (i64)0 : (i64)folded_place)"
                                 : "folded_value",
                       "result_$");
    return;
  }
  char head[64];
  snprintf(head, sizeof head, "FINISH(%s)", parameters);
  emit_define(body, head,
              r->search ? "{ const INDEX slot = (INDEX)GROUP_ID_Y * shape.kept + at_result;"
                          " partials[slot] = folded_value; places[slot] = folded_place; }"
                        : "partials[(INDEX)GROUP_ID_Y * shape.kept + at_result] = folded_value;");
}

/* ---- Launches ------------------------------------------------------------------------------ */

static void add_buffers(reduction *r, emit_launch *launch, bool elements, bool results) {
  generation *g = r->g;
  const compute_kernel_descriptor *d = g->descriptor;
  if (elements) emit_inputs(g, launch, 0, d->prologue_inputs);
  if (results) {
    emit_inputs(g, launch, d->prologue_inputs, d->input_count);
    emit_outputs(g, launch);
  }
  if (elements && results) return;
  const uint64_t partials = (uint64_t)r->problem.kept * (uint64_t)r->splits;
  const uint64_t places_start = (partials * r->value_bytes + 63) / 64 * 64;
  emit_workspace(g, launch, "partials", emit_type(d->accumulate), r->value_bytes, 0, elements);
  if (r->search)
    emit_workspace(g, launch, "places", "INDEX", r->place_bytes, places_start, elements);
  g->workspace_bytes = places_start + partials * r->place_bytes;
}

static void add_fields(reduction *r, emit_launch *launch, const reduce_pass *pass, bool elements,
                       bool results) {
  generation *g = r->g;
  emit_field_index(g, launch, "kept", r->problem.kept);
  emit_field_index(g, launch, "count", pass->count);
  emit_field_index(g, launch, "share", pass->share);
  emit_field_index(g, launch, "tiles", pass->tiles);
  if (pass->items) {
    emit_field_index(g, launch, "run", pass->run);
    emit_field_index(g, launch, "inner", pass->inner);
    emit_field_index(g, launch, "pieces", pass->pieces);
  }
  if (elements) emit_space_fields(g, launch, &r->space, 0, r->space.rank);
  if (results) emit_space_fields(g, launch, &r->result, 0, r->result.rank);
}

/* Elements of one load, for groups that run along contiguous elements. Vectors change the order of
 * the fold, which affects only rounding. A single operand of 4 bytes or more in one dimension is as
 * fast without vectors. */
static uint32_t choose_vector(const reduction *r, const reduce_pass *pass, bool elements) {
  const emit_space *space = &r->space;
  if (!elements || pass->items || pass->across || r->search || space->rank == space->fence)
    return 1;
  const compute_operand *in = r->g->descriptor->inputs;
  if (r->g->descriptor->prologue_inputs == 1 && space->rank - space->fence == 1 &&
      compute_dtype_size(in[0].dtype) >= 4)
    return 1;
  /* Vectors and elements order sums differently, and unaligned items need elements. */
  if (emit_is_reproducible(r->g)) return 1;
  const uint32_t vector = vector_choose(r->g, space);
  return pass->share % vector == 0 || pass->splits == 1 ? vector : 1;
}

static void define_vector(reduction *r, emit_launch *launch, uint32_t vector) {
  generation *g = r->g;
  text_buffer *body = &launch->body, aligned = {0};
  emit_define_number(body, "REDUCE_VECTOR", vector);
  if (vector == 1) return;
  emit_field_u32(g, launch, "whole", vector_fits(g, &r->space, vector));
  text_add(&aligned, "shape.whole");
  vector_aligned(g, &aligned, &r->space, g->descriptor->prologue_inputs, false, vector);
  emit_define_text(body, "REDUCE_ALIGNED", &aligned);
  vector_define_elements(g, body, &r->space, &r->prologue, vector, "kept_$ + reduced_$");
}

static void add_pass(reduction *r, const reduce_pass *pass, bool elements, bool results) {
  generation *g = r->g;
  const uint32_t group[3] = {pass->group, 1, 1};
  const uint32_t groups[3] = {(uint32_t)pass->groups, (uint32_t)pass->splits, 1};
  emit_launch *launch = emit_launch_begin(g, results ? "reduce" : "reduce_parts", group, groups);
  if (!launch) return;
  add_buffers(r, launch, elements, results);
  add_fields(r, launch, pass, elements, results);
  text_buffer *body = &launch->body;
  define_source(r, pass, body, elements);
  define_sink(r, body, results);
  define_vector(r, launch, choose_vector(r, pass, elements));
  emit_define_number(body, "REDUCE_GROUP", pass->group);
  emit_define_number(body, "REDUCE_LANES", pass->lanes);
  emit_define_number(body, "REDUCE_COLUMNS", pass->columns);
  emit_define_number(body, "REDUCE_UNROLL", pass->unroll);
  emit_define_number(body, "REDUCE_ACROSS", pass->across);
  emit_define_number(body, "REDUCE_BLOCK", BLOCK);
  emit_define_number(body, "REDUCE_LINES", elements && r->space.rank - r->space.fence > 1);
  emit_template(g, body, pass->items ? "reduce_item" : "reduce_group");
}

static void describe(const reduction *r, const reduce_pass *pass) {
  static const char *const names[] = {
      [COMPUTE_COMBINE_SUM] = "sum",       [COMPUTE_COMBINE_PROD] = "prod",
      [COMPUTE_COMBINE_MAX] = "max",       [COMPUTE_COMBINE_MIN] = "min",
      [COMPUTE_COMBINE_ARGMAX] = "argmax", [COMPUTE_COMBINE_ARGMIN] = "argmin"};
  generation *g = r->g;
  char parts[40] = "";
  if (pass->splits > 1) snprintf(parts, sizeof parts, ", in %" PRId64 " parts", pass->splits);
  snprintf(g->text, sizeof g->text, "reduce %s by %s, %" PRIu32 " %s%s",
           names[compute_reduce_of(g->descriptor)->combine], pass->across ? "columns" : "rows",
           pass->lanes, pass->items ? "lanes" : "items for a result", parts);
}

static compute_status emit(generation *g) {
  const compute_kernel_descriptor *d = g->descriptor;
  reduction r = {.g = g};
  reduce_pass passes[2];
  r.search = compute_reduce_of(d)->combine == COMPUTE_COMBINE_ARGMAX ||
             compute_reduce_of(d)->combine == COMPUTE_COMBINE_ARGMIN;
  if (row_major_count(d, 0, compute_reduce_of(d)->kept_rank) == 0) return COMPUTE_OK;
  emit_program(g, &r.prologue, "prologue", &d->prologue, COMPUTE_DTYPE_NONE, 0, d->prologue_inputs);
  emit_program(g, &r.epilogue, "epilogue", &d->epilogue, r.search ? COMPUTE_I64 : d->accumulate,
               d->prologue_inputs, d->input_count);
  make_spaces(&r);
  const uint32_t count = reduce_plan(g, &r.problem, passes);
  if (count == 0) return COMPUTE_ERROR_UNSUPPORTED;
  r.splits = passes[0].splits;
  define_fold(&r);
  add_pass(&r, &passes[0], true, count == 1);
  if (count == 2) add_pass(&r, &passes[1], false, true);
  describe(&r, &passes[0]);
  return COMPUTE_OK;
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS,
     {TUNE(group_x, 64, 128, 256, 512), TUNE(tile_k, 8, 32, 128, 256), TUNE(items, 2, 4, 8),
      TUNE(groups, 4, 16)}},
    {TUNE_CPU, {TUNE(variant, 1, 2), TUNE(vector, 8, 16, 32, 64, 128, 256)}},
    {.target = TUNE_END},
};

const emit_kind emit_reduce = {.name = "REDUCE", .accumulates = true, .emit = emit, .grids = grids};
