/* How the rows of a row operation are cut up.
 *
 * Of the parameters it reads variant (1: along rows, 2: across them) and, for groups, group_x,
 * items (elements that an item holds), tile_k (items for one row) and groups (for each compute
 * unit, before rows are split); for CPUs vector (lanes). */
#include <stdio.h>

#include "generate/kinds/row.h"

enum {
  GROUP = 256,
  MOST_COLUMNS = 32, /* rows of a group that runs across them: a cache line of f32 */
  LEAST_ACROSS = 16, /* neighbouring rows that are worth a vector */
  SHORT_ROW = 32,    /* does not fill vectors */
  LONG_ITEMS = 4,
  MOST_ITEMS = 16,
  GROUPS_PER_UNIT = 4,
  MOST_SPLITS = 1024,
  MOST_GROUPS = 1 << 20, /* then they stride */
  HELD_BYTES = 1 << 13,
  ITEMS_PER_UNIT = 4,
  ITEM_WORK = 1 << 14, /* elements that are worth an item of a CPU */
  ITEM_LEAST = 1 << 11
};

static int64_t multiply(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t units(const generation *g) {
  return g->target->compute_units > 0 ? g->target->compute_units : 1;
}

/* How badly the main input and the first output lie along a dimension. */
static int64_t cost(const row_problem *p, int32_t dimension) {
  char names[2][16] = {"out0", ""};
  int64_t sum = 0;
  if (p->main_input >= 0) snprintf(names[1], sizeof names[1], "in%d", (int)p->main_input);
  for (int i = 0; i < 2; i++) {
    const emit_walk *walk = names[i][0] ? space_walk(p->space, names[i]) : NULL;
    const int64_t stride = walk ? walk->stride[dimension] : 0;
    sum += fold_clamp(stride < 0 ? -stride : stride, 0, 16);
  }
  return sum;
}

static bool choose_across(const generation *g, const row_problem *p, bool items) {
  const int32_t fence = p->space->fence, rank = p->space->rank;
  const int64_t neighbours = fence > 0 ? p->space->size[fence - 1] : 1;
  if (g->tuning.variant > 0) return g->tuning.variant == 2;
  if (rank == fence || neighbours < (items ? LEAST_ACROSS : 2)) return false;
  if (items && p->length < SHORT_ROW && neighbours > p->length) return true;
  return cost(p, fence - 1) < cost(p, rank - 1);
}

static void set_share(row_cut *cut, const row_problem *p, int64_t splits, int64_t multiple) {
  cut->share = fold_divide_up(fold_divide_up(p->length, splits), multiple) * multiple;
  cut->splits = fold_divide_up(p->length, cut->share);
}

/* ---- By groups ----------------------------------------------------------------------------- */

/* Few classes, so that few sources serve all lengths. */
static void choose_lanes(const row_problem *p, row_cut *cut) {
  uint32_t most = cut->group;
  if (cut->across) most = cut->group / fold_power_of_two(fold_clamp(p->rows, 1, MOST_COLUMNS));
  cut->lanes = p->length <= 32 ? 8 : p->length <= 128 ? 32 : GROUP;
  if (cut->lanes > most) cut->lanes = most > 0 ? most : 1;
}

static void choose_items(const row_problem *p, row_cut *cut) {
  const int64_t items = fold_divide_up(p->length, cut->lanes);
  cut->items = items <= LONG_ITEMS ? LONG_ITEMS : items <= MOST_ITEMS ? MOST_ITEMS : LONG_ITEMS;
}

static void split_groups(const generation *g, const row_problem *p, row_cut *cut) {
  const int64_t wanted = units(g) * (g->tuning.groups ? g->tuning.groups : GROUPS_PER_UNIT);
  const int64_t round = (int64_t)cut->lanes * cut->items;
  const int64_t most = fold_clamp(p->length / (2 * round), 1, MOST_SPLITS);
  const int64_t splits = cut->tiles < wanted ? fold_divide_up(wanted, cut->tiles) : 1;
  set_share(cut, p, fold_clamp(splits, 1, most), round);
}

static bool plan_groups(generation *g, const row_problem *p, row_cut *cut) {
  compute_tuning *t = &g->tuning;
  uint32_t limit = g->target->group_limit ? g->target->group_limit : GROUP;
  if (g->target->group_limit_of[0] && g->target->group_limit_of[0] < limit)
    limit = g->target->group_limit_of[0];
  cut->group = t->group_x ? t->group_x : GROUP;
  while (!t->group_x && cut->group > limit) cut->group /= 2;
  choose_lanes(p, cut);
  if (t->tile_k) cut->lanes = t->tile_k;
  choose_items(p, cut);
  if (t->items) cut->items = t->items;
  if (cut->group > limit || cut->group > 1024 || cut->group & (cut->group - 1) ||
      cut->lanes > cut->group || cut->lanes & (cut->lanes - 1) || cut->items > 64) {
    emit_refuse(g, "row: %u elements for each item, %u items for a row, in groups of %u",
                cut->items, cut->lanes, cut->group);
    return false;
  }
  if ((uint64_t)cut->group * p->bytes > g->target->local_bytes) {
    emit_refuse(g, "row: a group of %u needs more local memory than there is", cut->group);
    return false;
  }
  cut->rows = cut->group / cut->lanes;
  cut->tiles = fold_divide_up(p->rows, cut->rows);
  cut->groups = fold_clamp(cut->tiles, 1, MOST_GROUPS);
  cut->form = p->length <= (int64_t)cut->lanes * cut->items ? ROW_HELD : ROW_LONG;
  if (cut->form == ROW_LONG)
    split_groups(g, p, cut);
  else
    set_share(cut, p, 1, 1);
  t->group_x = cut->group;
  t->items = cut->items;
  t->tile_k = cut->lanes;
  if (!t->groups) t->groups = GROUPS_PER_UNIT;
  return true;
}

/* ---- By items ------------------------------------------------------------------------------ */

static bool plan_items(generation *g, const row_problem *p, row_cut *cut) {
  const int32_t fence = p->space->fence;
  const int64_t wanted = units(g) * ITEMS_PER_UNIT, total = multiply(p->rows, p->length);
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
  cut->pieces = fold_divide_up(cut->inner, cut->across ? cut->width : 1);
  cut->tiles = p->rows / cut->inner * cut->pieces;
  if (!cut->across && p->rows < wanted) {
    const int64_t most = fold_clamp(total / ITEM_WORK, 1, MOST_SPLITS);
    splits = fold_clamp(fold_divide_up(wanted, p->rows), 1,
                        fold_clamp(most, 1, fold_divide_up(p->length, cut->width)));
  }
  set_share(cut, p, splits, cut->width);
  const int64_t most = fold_clamp(wanted * 4, 1, cut->tiles);
  cut->run = fold_divide_up(cut->tiles, fold_clamp(total / ITEM_LEAST, 1, most));
  cut->groups = fold_divide_up(cut->tiles, cut->run);
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
