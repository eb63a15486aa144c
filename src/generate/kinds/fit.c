/* The kind FIT: settles on a variant with its parameters, and has it written.
 *
 * An item for each ROI keeps all sums in registers and needs no one else, so that is the way for
 * ROIs whose pixels fit into local memory for enough items; larger ones, and those of a device
 * with little local memory, are shared by a group. A CPU, and whoever has no fast local memory,
 * reads the pixels where they are. */
#include "generate/kinds/fit.h"

#include <inttypes.h>
#include <stdio.h>

#include "kernel/fit_problem.h"

enum {
  ITEM_PIXELS = 13 * 13, /* up to here an item takes an ROI by itself */
  ITEM_GROUP = 64,
  LEAST_ITEM_GROUP = 32,
  DIRECT_GROUP = 64,
  LEAST_GROUP = 8, /* that shares an ROI */
  SUMMED = 11,     /* in kernels/fit_start.h */
  CPU_RUN = 64,    /* ROIs that a CPU's item takes in a row */
  CPU_SHARES = 8,  /* items for each of its units */
  MOST_GROUPS = 1 << 22
};

static uint32_t group_limit(const generation *g) {
  const uint32_t all = g->target->group_limit, first = g->target->group_limit_of[0];
  const uint32_t limit = all && (all < first || first == 0) ? all : first;
  return limit ? limit : DIRECT_GROUP;
}

static int64_t divide_up(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

/* ---- Cutting ------------------------------------------------------------------------------- */

static fit_holding holding_of(const generation *g, const fit_task *task, fit_variant variant) {
  const uint32_t changes = COMPUTE_FIT_WITH_OFFSET | COMPUTE_FIT_WITH_GAIN |
                           COMPUTE_FIT_WITH_VARIANCE | COMPUTE_FIT_WITH_MASK;
  if (variant == FIT_DIRECT) return FIT_NOT_HELD;
  const bool as_it_is =
      g->descriptor->inputs[0].dtype == COMPUTE_U16 && (task->problem->inputs & changes) == 0;
  return as_it_is ? FIT_HELD_AS_IT_IS : FIT_HELD_AS_F32;
}

fit_cut fit_cut_of(const generation *g, const fit_task *task, fit_variant variant, uint32_t group) {
  const compute_fit_problem *p = task->problem;
  const bool shared = variant == FIT_GROUP;
  fit_cut cut = {.variant = variant,
                 .holding = holding_of(g, task, variant),
                 .group = group,
                 .tile = shared ? 1 : group,
                 .segment = p->columns,
                 .segments = 1};
  /* Neighbouring pixels of an ROI are written at once, to different banks of local memory. */
  const uint32_t gap = cut.holding == FIT_HELD_AS_IT_IS ? 2 : 1;
  cut.step = shared ? 1 : group + gap;
  const uint64_t pixel = cut.holding == FIT_HELD_AS_IT_IS ? 2 : 4;
  const uint64_t planes = (p->inputs & COMPUTE_FIT_WITH_VARIANCE) != 0 ? 2 : 1;
  if (cut.holding != FIT_NOT_HELD)
    cut.local_bytes = (uint64_t)(p->rows * p->columns) * cut.step * pixel * planes;
  if (!shared) return cut;
  int32_t pieces = (int32_t)group / p->rows;
  if (pieces > p->columns) pieces = p->columns;
  if (pieces > 1) cut.segment = (p->columns + pieces - 1) / pieces;
  cut.segments = (p->columns + cut.segment - 1) / cut.segment;
  const int32_t n = task->parameters, values = n + n * (n + 1) / 2 + (task->curved ? n : 0);
  const int32_t arrays = 2 + task->slopes + task->curved;
  cut.partial = values > SUMMED ? values : SUMMED;
  cut.local_bytes += (uint64_t)cut.partial * (group + 1) * 4;
  cut.local_bytes += (uint64_t)(arrays * p->columns + 4 * p->rows) * 4 + 16;
  return cut;
}

/* ---- Judgement ----------------------------------------------------------------------------- */

static bool fits(const generation *g, const fit_cut *cut) {
  return cut->local_bytes <= g->target->local_bytes;
}

static uint32_t limited(const generation *g, uint32_t group) {
  const uint32_t limit = group_limit(g);
  return group < limit ? group : limit;
}

static fit_cut judge(const generation *g, const fit_task *task) {
  const int32_t pixels = task->problem->rows * task->problem->columns;
  const uint32_t asked = g->tuning.group_x;
  const bool local = !emit_for_cpu(g) && emit_has(g, COMPUTE_TARGET_FAST_LOCAL);
  if (local && pixels <= ITEM_PIXELS) {
    for (uint32_t group = asked ? asked : ITEM_GROUP; group >= LEAST_ITEM_GROUP; group /= 2) {
      const fit_cut cut = fit_cut_of(g, task, FIT_ITEM, limited(g, group));
      if (fits(g, &cut)) return cut;
    }
  }
  const uint32_t share = pixels <= 512 ? 32 : pixels <= 2048 ? 64 : 128;
  const uint32_t lanes = g->target->lanes <= 64 ? g->target->lanes : 64;
  const uint32_t group = limited(g, asked ? asked : share > lanes ? share : lanes);
  if (local && group >= LEAST_GROUP) {
    const fit_cut cut = fit_cut_of(g, task, FIT_GROUP, group);
    if (fits(g, &cut)) return cut;
  }
  return fit_cut_of(g, task, FIT_DIRECT,
                    emit_for_cpu(g) ? 1 : limited(g, asked ? asked : DIRECT_GROUP));
}

static compute_status choose(generation *g, const fit_task *task, fit_cut *cut) {
  const compute_tuning *t = &g->tuning;
  if (t->variant == 0) {
    *cut = judge(g, task);
    if (cut->group <= group_limit(g)) return COMPUTE_OK;
    return emit_refuse(g, "groups of %u items are too large", (unsigned)cut->group);
  }
  if (t->variant > FIT_DIRECT) return emit_refuse(g, "FIT has no variant %u", (unsigned)t->variant);
  const fit_variant variant = (fit_variant)t->variant;
  const uint32_t usual = emit_for_cpu(g) && variant == FIT_DIRECT ? 1 : ITEM_GROUP;
  const uint32_t group = t->group_x ? t->group_x : limited(g, usual);
  if (group > group_limit(g) || group > 1024)
    return emit_refuse(g, "groups of %u items are too large", (unsigned)group);
  if (variant == FIT_GROUP && group < LEAST_GROUP)
    return emit_refuse(g, "%u items are too few to share an ROI", (unsigned)group);
  *cut = fit_cut_of(g, task, variant, group);
  if (fits(g, cut)) return COMPUTE_OK;
  return emit_refuse(g, "%" PRIu64 " bytes of local memory, of which the device has %" PRIu64,
                     cut->local_bytes, g->target->local_bytes);
}

/* Registers for the sums and shares of an item, without room for so many at once that they go to
 * memory: 65536 on a unit. */
static uint32_t room_of(const generation *g, const fit_task *task, const fit_cut *cut) {
  if (cut->variant != FIT_ITEM) return 0;
  if (g->tuning.groups > 0) return g->tuning.groups < 24 ? g->tuning.groups : 24;
  const int32_t columns = task->problem->columns;
  const bool many = task->astigmatic || columns > 9 || task->widths == 2;
  const uint32_t room = (many ? 384 : 512) / cut->group;
  return room ? room : 1;
}

/* ---- The launch ---------------------------------------------------------------------------- */

static int64_t run_of(const generation *g, const fit_cut *cut) {
  if (cut->variant != FIT_DIRECT) return 1;
  if (g->tuning.items > 0) return g->tuning.items < 4096 ? g->tuning.items : 4096;
  if (!emit_for_cpu(g)) return 1;
  const int64_t units = g->target->compute_units ? g->target->compute_units : 1;
  const int64_t share = divide_up(g->descriptor->size[0], units * CPU_SHARES);
  return share < CPU_RUN ? share : CPU_RUN;
}

static void describe(generation *g, const fit_task *task, const fit_cut *cut) {
  static const char *const ways[] = {
      [FIT_ITEM] = "an ROI per item", [FIT_GROUP] = "an ROI per group", [FIT_DIRECT] = "in place"};
  const compute_fit_problem *p = task->problem;
  snprintf(g->text, sizeof g->text, "fit %s %dx%d by %s, %s, groups of %u",
           fit_model_name(p->model), (int)p->rows, (int)p->columns, fit_solver_name(p->solver),
           ways[cut->variant], (unsigned)cut->group);
}

compute_status emit_fit(generation *g) {
  const int64_t count = g->descriptor->size[0];
  if (count == 0) return COMPUTE_OK;
  const fit_task task = fit_task_of(g->descriptor);
  fit_cut cut;
  const compute_status status = choose(g, &task, &cut);
  if (status) return status;
  g->wide = true; /* frames and stacks may be larger than 2^31 pixels */
  const int64_t run = run_of(g, &cut);
  const int64_t tiles = divide_up(count, (int64_t)cut.tile * run);
  const uint32_t groups = tiles < MOST_GROUPS ? (uint32_t)tiles : MOST_GROUPS;
  fit_define(g, &task, &cut);
  emit_launch *launch =
      emit_launch_begin(g, "fit", (uint32_t[3]){cut.group, 1, 1}, (uint32_t[3]){groups, 1, 1});
  if (!launch) return COMPUTE_OK;
  launch->room = room_of(g, &task, &cut);
  fit_take(g, launch, &task);
  emit_field_i64(g, launch, "tiles", tiles);
  emit_field_i64(g, launch, "run", run);
  emit_template(g, &launch->body, "fit_tile.h");
  emit_template(g, &launch->body, "fit_roi.h");
  text_add(&launch->body, "}\n}\n");
  g->tuning.variant = cut.variant;
  g->tuning.group_x = cut.group;
  g->tuning.groups = launch->room;
  g->tuning.items = cut.variant == FIT_DIRECT ? (uint32_t)run : 0;
  describe(g, &task, &cut);
  return COMPUTE_OK;
}
