/* How a reduction is cut up: along which dimensions, over how many items, in how many passes.
 *
 * Of the parameters it reads variant (1: along reduced dimensions, 2: across kept ones) and, for
 * groups, group_x, items (loads of an item under way), tile_k (items for one result) and groups
 * (for each compute unit, before results are split); for CPUs vector (lanes). */
#include "generate/kinds/reduce.h"

enum {
  GROUP = 256,
  UNROLLED = 4,
  MOST_COLUMNS = 32, /* of a group that runs across: a cache line of f32 */
  GROUPS_PER_UNIT = 8,
  ROUNDS = 4, /* of an item at least, before another group pays */
  MOST_SPLITS = 1024,
  MOST_GROUPS = 1 << 20, /* then they stride */
  ITEM_WORK = 1 << 15,   /* elements that are worth an item of a CPU */
  ITEM_LEAST = 1 << 12,
  ITEMS_PER_UNIT = 4,
  SHORT_COUNT = 16, /* of elements that do not fill vectors */
  LEAST_ACROSS = 8  /* results that begin to */
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

/* Whether kept dimensions lie better in memory than reduced ones. */
static bool choose_across(const generation *g, const reduce_problem *p, bool items) {
  const int32_t fence = p->space->fence, rank = p->space->rank;
  const int64_t neighbours = innermost(p, 0, fence);
  if (g->tuning.variant > 0) return g->tuning.variant == 2;
  if (neighbours < (items ? LEAST_ACROSS : 2)) return false;
  if (items && p->count <= SHORT_COUNT && neighbours > p->count) return true;
  return distance(p, 0, fence) < distance(p, fence, rank);
}

static int64_t units(const generation *g) {
  return g->target->compute_units > 0 ? g->target->compute_units : 1;
}

static void set_share(reduce_pass *pass, int64_t splits, int64_t multiple) {
  const int64_t pieces = fold_divide_up(fold_divide_up(pass->count, splits), multiple);
  pass->share = pieces * multiple;
  pass->splits = pass->count > 0 ? fold_divide_up(pass->count, pass->share) : 1;
}

/* ---- By groups ----------------------------------------------------------------------------- */

static void cut_groups(reduce_pass *pass, int64_t kept) {
  pass->columns = pass->group / pass->lanes;
  pass->tiles = fold_divide_up(kept, pass->columns);
  pass->groups = fold_clamp(pass->tiles, 1, MOST_GROUPS);
}

/* Items that share a result: few classes, so that few sources serve all sizes. */
static uint32_t choose_lanes(const reduce_pass *pass, int64_t kept) {
  const uint32_t few = pass->count <= 8      ? 1
                       : pass->count <= 64   ? 8
                       : pass->count <= 1024 ? 32
                                             : GROUP;
  const uint32_t columns = pass->across ? fold_power_of_two(fold_clamp(kept, 1, MOST_COLUMNS)) : 1;
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
  pass->lanes = t->tile_k ? t->tile_k : choose_lanes(pass, p->kept);
  if (pass->group > limit || pass->group > 1024 || pass->group & (pass->group - 1) ||
      pass->lanes > pass->group || pass->lanes & (pass->lanes - 1) || pass->unroll > 16) {
    emit_refuse(g, "reduce: %u items in groups of %u with %u for a result", pass->unroll,
                pass->group, pass->lanes);
    return false;
  }
  if ((uint64_t)pass->group * p->bytes > g->target->local_bytes && pass->lanes > 1) {
    emit_refuse(g, "reduce: a group of %u needs more local memory than there is", pass->group);
    return false;
  }
  cut_groups(pass, p->kept);
  return true;
}

static void split_groups(const generation *g, reduce_pass *pass) {
  const int64_t wanted = units(g) * (g->tuning.groups ? g->tuning.groups : GROUPS_PER_UNIT);
  const int64_t round = (int64_t)pass->lanes * pass->unroll;
  const int64_t most = fold_clamp(pass->count / (round * ROUNDS), 1, MOST_SPLITS);
  const int64_t splits = pass->tiles < wanted ? fold_divide_up(wanted, pass->tiles) : 1;
  set_share(pass, fold_clamp(splits, 1, most), round);
}

/* ---- By items ------------------------------------------------------------------------------ */

static void cut_items(reduce_pass *pass, int64_t kept) {
  pass->pieces = pass->across ? fold_divide_up(pass->inner, pass->lanes) : 1;
  pass->tiles = pass->across ? kept / pass->inner * pass->pieces : kept;
}

static bool plan_item(generation *g, const reduce_problem *p, reduce_pass *pass) {
  const int64_t inner = pass->inner, wanted = units(g) * ITEMS_PER_UNIT;
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
  const int64_t wanted = units(g) * ITEMS_PER_UNIT, total = multiply(p->kept, pass->count);
  const int64_t multiple = pass->across ? 1 : pass->lanes;
  int64_t splits = 1;
  if (pass->tiles < wanted) {
    const int64_t most =
        total / ITEM_WORK < pass->count / multiple ? total / ITEM_WORK : pass->count / multiple;
    splits = fold_clamp(fold_divide_up(wanted, pass->tiles), 1, fold_clamp(most, 1, MOST_SPLITS));
  }
  set_share(pass, splits, multiple);
}

static void share_items(const generation *g, const reduce_problem *p, reduce_pass *pass) {
  const int64_t total = multiply(p->kept, pass->count / pass->splits);
  const int64_t most = fold_clamp(units(g) * ITEMS_PER_UNIT * 4, 1, pass->tiles);
  pass->groups = fold_clamp(total / ITEM_LEAST, 1, most);
  pass->run = fold_divide_up(pass->tiles, pass->groups);
  pass->groups = fold_divide_up(pass->tiles, pass->run);
}

/* ---- Both ---------------------------------------------------------------------------------- */

/* The second pass folds the parts of each result, which lie side by side for neighbouring results.
 */
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
