/* SPDX-License-Identifier: MIT */
/* FIT: fits of Gaussians, by the templates fit_* of kernels/.
 *
 * An item that fits an ROI alone keeps all sums in registers and waits for no other item. This is
 * best if the pixels of enough items fit into local memory. A group shares a larger ROI, or any ROI
 * on a device with little local memory. A CPU, or any device without fast local memory, reads the
 * pixels in place.
 *
 * The text depends on the model, profile, solver, camera, the ROI's size, and the set of inputs and
 * outputs. All other values are launch arguments. So one program serves any number of ROIs, any
 * widths, bounds, starts and camera. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "compute/backend/fit_kinds.h"

#include "codegen/generate/kinds/plan.h"
#include "core/base/real.h"
#include "core/kernel/common/fit_problem.h"

enum {
  ITEM_PIXELS = 13 * 13, /* up to here one item fits an ROI alone */
  ITEM_GROUP = 64,
  LEAST_ITEM_GROUP = 32,
  DIRECT_GROUP = 64,
  LEAST_GROUP = 8, /* to share an ROI */
  SUMMED = 11,     /* in kernels/fit_start.h */
  CPU_RUN = 64,    /* ROIs in a row for a CPU item */
  CPU_SHARES = 8,  /* items for each CPU unit */
  MOST_GROUPS = 1 << 22
};

static uint32_t group_limit(const generation *g) {
  const uint32_t all = g->target->group_limit, first = g->target->group_limit_of[0];
  const uint32_t limit = all && (all < first || first == 0) ? all : first;
  return limit ? limit : DIRECT_GROUP;
}

/* The storage of pixels (HELD in kernels/fit_pixels.h). */
typedef enum fit_holding {
  FIT_NOT_HELD = 0,
  FIT_HELD_AS_F32 = 1,
  FIT_HELD_AS_IT_IS = 2
} fit_holding;

/* A problem in the kernels' form. Parameters are in the order x, y, N, bg, then widths or z. */
typedef struct fit_task {
  const compute_kernel_descriptor *descriptor;
  const compute_fit_problem *problem;
  int32_t parameters, widths; /* `widths`: parameters of a Gaussian after the fourth */
  bool astigmatic, spline, curved, slopes;
  bool corners, frames;                      /* frames: the pixels are frames, not a stack */
  int32_t outer[COMPUTE_FIT_MAX_PARAMETERS]; /* the place of each in the problem's order */
  uint32_t fixed, start_set;                 /* bits in the kernel's order */
  float start[COMPUTE_FIT_MAX_PARAMETERS];
  float lower[COMPUTE_FIT_MAX_PARAMETERS], upper[COMPUTE_FIT_MAX_PARAMETERS];
  float z_start[COMPUTE_FIT_MAX_Z_STARTS];
  uint32_t z_start_count; /* ≥ 1 */
  int32_t free_parameters;
  float offset, gain, variance, multiplied; /* as in kernels/fit_pixels.h */
} fit_task;

/* The division of a task into groups and items. */
typedef struct fit_cut {
  fit_variant variant;
  fit_holding holding;
  uint32_t group;       /* items */
  uint32_t tile;        /* ROIs that a group reads together */
  uint32_t step;        /* HELD_STEP */
  int32_t segment;      /* columns of a row that an item of a sharing group takes at once */
  int32_t segments;     /* number of segments of a row */
  int32_t partial;      /* values that are summed over a group */
  uint64_t local_bytes; /* of a group */
} fit_cut;

/* ---- The task ------------------------------------------------------------------------------ */

/* Rounds to f32. Numbers beyond its range become its largest; infinities stay. */
static float rounded(double x) {
  if (isinf(x)) return x > 0 ? INFINITY : -INFINITY;
  return x > (double)FLT_MAX ? FLT_MAX : x < -(double)FLT_MAX ? -FLT_MAX : (float)x;
}

static int32_t outer_place(compute_fit_model model, int32_t a) {
  if (!compute_fit_has_z(model) || a < 2) return a;
  return a == 4 ? 2 : a + 1;
}

/* Without a list of starts for z, the single start of z becomes the list. */
static void list_z_starts(fit_task *task) {
  const compute_fit_problem *p = task->problem;
  task->z_start_count = p->z_start_count > 0 ? (uint32_t)p->z_start_count : 1;
  for (int32_t i = 0; i < p->z_start_count; i++) task->z_start[i] = rounded(p->z_start[i]);
  if (p->z_start_count == 0 && (task->start_set >> 4 & 1) != 0) task->z_start[0] = task->start[4];
  task->start_set &= ~(UINT32_C(1) << 4);
}

static void read_camera(fit_task *task) {
  const compute_fit_problem *p = task->problem;
  const bool map = (p->inputs & COMPUTE_FIT_WITH_GAIN) != 0;
  task->offset = rounded(p->offset);
  task->gain = rounded(p->gain / p->em_gain);
  task->variance = rounded(p->variance); /* 0 for cameras without it */
  task->multiplied = map ? rounded(1 / p->em_gain) : 1;
}

static fit_task task_of(const compute_kernel_descriptor *d) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  fit_task task = {.descriptor = d, .problem = p};
  task.parameters = compute_fit_parameter_count(p->model);
  task.astigmatic = p->model == COMPUTE_FIT_XYZNB;
  task.spline = p->model == COMPUTE_FIT_SPLINE;
  task.widths = task.spline ? 0 : task.parameters - 4;
  task.curved = p->solver == COMPUTE_FIT_NEWTON;
  task.slopes = task.widths > 0 || task.curved;
  task.corners = (p->inputs & COMPUTE_FIT_WITH_CORNERS) != 0;
  task.frames = task.corners && (p->flags & COMPUTE_FIT_STACK) == 0;
  task.free_parameters = fit_problem_free_count(p);
  for (int32_t a = 0; a < task.parameters; a++) {
    const int32_t outer = outer_place(p->model, a);
    double lower, upper;
    fit_problem_bounds(p, outer, &lower, &upper);
    task.outer[a] = outer;
    task.lower[a] = rounded(lower);
    task.upper[a] = rounded(upper);
    task.start[a] = rounded(p->start[outer]);
    task.fixed |= (p->fixed >> outer & 1) << a;
    task.start_set |= (p->start_set >> outer & 1) << a;
  }
  if (compute_fit_has_z(p->model)) list_z_starts(&task);
  read_camera(&task);
  return task;
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

static fit_cut cut_of(const generation *g, const fit_task *task, fit_variant variant,
                      uint32_t group) {
  const compute_fit_problem *p = task->problem;
  const bool shared = variant == FIT_GROUP;
  fit_cut cut = {.variant = variant,
                 .holding = holding_of(g, task, variant),
                 .group = group,
                 .tile = shared ? 1 : group,
                 .segment = p->columns,
                 .segments = 1};
  /* Items write neighbouring pixels of an ROI at once; the gap puts them in different banks of
   * local memory. */
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

/* ---- Choice -------------------------------------------------------------------------------- */

static bool fits(const generation *g, const fit_cut *cut) {
  return cut->local_bytes <= g->target->local_bytes;
}

static uint32_t limited(const generation *g, uint32_t group) {
  const uint32_t limit = group_limit(g);
  return group < limit ? group : limit;
}

static fit_cut default_cut(const generation *g, const fit_task *task) {
  const int32_t pixels = task->problem->rows * task->problem->columns;
  const uint32_t asked = g->tuning.group_x;
  const bool local = !emit_for_cpu(g) && emit_has(g, COMPUTE_TARGET_FAST_LOCAL);
  if (local && pixels <= ITEM_PIXELS) {
    for (uint32_t group = asked ? asked : ITEM_GROUP; group >= LEAST_ITEM_GROUP; group /= 2) {
      const fit_cut cut = cut_of(g, task, FIT_ITEM, limited(g, group));
      if (fits(g, &cut)) return cut;
    }
  }
  const uint32_t share = pixels <= 512 ? 32 : pixels <= 2048 ? 64 : 128;
  const uint32_t lanes = g->target->lanes <= 64 ? g->target->lanes : 64;
  const uint32_t group = limited(g, asked ? asked : share > lanes ? share : lanes);
  if (local && group >= LEAST_GROUP) {
    const fit_cut cut = cut_of(g, task, FIT_GROUP, group);
    if (fits(g, &cut)) return cut;
  }
  return cut_of(g, task, FIT_DIRECT,
                emit_for_cpu(g) ? 1 : limited(g, asked ? asked : DIRECT_GROUP));
}

static compute_status choose(generation *g, const fit_task *task, fit_cut *cut) {
  const compute_tuning *t = &g->tuning;
  if (t->variant == 0) {
    *cut = default_cut(g, task);
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
  *cut = cut_of(g, task, variant, group);
  if (fits(g, cut)) return COMPUTE_OK;
  return emit_refuse(g, "%" PRIu64 " bytes of local memory, of which the device has %" PRIu64,
                     cut->local_bytes, g->target->local_bytes);
}

/* The number of groups on a unit. Each item needs registers for its sums and shares, out of the
 * 65536 of a unit: too many groups would spill them to memory. */
static uint32_t room_of(const generation *g, const fit_task *task, const fit_cut *cut) {
  if (cut->variant != FIT_ITEM) return 0;
  if (g->tuning.groups > 0) return g->tuning.groups < 24 ? g->tuning.groups : 24;
  const int32_t columns = task->problem->columns;
  const bool many = compute_fit_has_z(task->problem->model) || columns > 9 || task->widths == 2;
  const uint32_t room = (many ? 384 : 512) / cut->group;
  return room ? room : 1;
}

/* ---- Definitions --------------------------------------------------------------------------- */

static void define_list(generation *g, const char *name, const char *field, int32_t count) {
  text_add(&g->definitions, "#define %s {", name);
  for (int32_t i = 0; i < count; i++)
    text_add(&g->definitions, "%sshape.%s%d", i ? ", " : "", field, (int)i);
  text_add(&g->definitions, "}\n");
}

/* Inputs are in1, in2, … in the order of their bits. */
static void define_inputs(generation *g, const fit_task *task) {
  static const struct {
    const char *flag, *name;
  } inputs[FIT_INPUTS] = {{"WITH_CORNERS", "CORNERS"}, {"OFFSET_MAP", "OFFSETS"},
                          {"GAIN_MAP", "GAINS"},       {"VARIANCE_MAP", "VARIANCES"},
                          {"MASKED", "MASK"},          {"WITH_SIGMA", "SIGMA"},
                          {"WITH_START", "START"},     {"WITH_LOWER", "LOWER"},
                          {"WITH_UPPER", "UPPER"},     {"SPLINE", "COEFFICIENTS"}};
  for (int32_t i = 0; i < FIT_INPUTS; i++) {
    const int32_t at = fit_input_index(task->problem->inputs, UINT32_C(1) << i);
    emit_constant(g, inputs[i].flag, at >= 0);
    if (at >= 0) text_add(&g->definitions, "#define %s in%d\n", inputs[i].name, (int)at);
  }
}

static void define_outputs(generation *g, const fit_task *task) {
  static const struct {
    const char *name;
    uint32_t output;
  } columns[] = {{"COLUMN_PARAMETERS", COMPUTE_FIT_PARAMETERS},
                 {"COLUMN_STD", COMPUTE_FIT_STD},
                 {"COLUMN_COVARIANCE", COMPUTE_FIT_COVARIANCE},
                 {"COLUMN_RATIO", COMPUTE_FIT_RATIO},
                 {"COLUMN_P_RAW", COMPUTE_FIT_P_RAW},
                 {"COLUMN_P_VALUE", COMPUTE_FIT_P_VALUE},
                 {"COLUMN_ITERATIONS", COMPUTE_FIT_ITERATIONS},
                 {"COLUMN_STATUS", COMPUTE_FIT_STATUS},
                 {"COLUMN_SIGNIFICANCE", COMPUTE_FIT_SIGNIFICANCE}};
  const compute_fit_problem *p = task->problem;
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    emit_constant(g, columns[i].name, compute_fit_column(p->model, p->outputs, columns[i].output));
  const uint32_t tests = COMPUTE_FIT_P_RAW | COMPUTE_FIT_P_VALUE;
  emit_constant(g, "WANT_SIGNIFICANCE", (p->outputs & COMPUTE_FIT_SIGNIFICANCE) != 0);
  emit_constant(g, "WANT_MOMENTS", (p->outputs & COMPUTE_FIT_P_VALUE) != 0);
  emit_constant(g, "WANT_SURVIVAL", (p->outputs & tests) != 0);
  emit_constant(g, "WANT_RATIO",
                compute_fit_has_z(p->model) ||
                    (p->outputs & (tests | (uint32_t)COMPUTE_FIT_RATIO)) != 0);
}

static void define_cut(generation *g, const fit_task *task, const fit_cut *cut) {
  const bool whole = g->descriptor->inputs[0].dtype == COMPUTE_U16;
  emit_constant(g, "HELD", cut->holding);
  emit_constant(g, "HELD_STEP", cut->step);
  emit_constant(g, "SHARED", cut->variant == FIT_GROUP);
  emit_constant(g, "GROUP_ITEMS", cut->group);
  emit_constant(g, "TILE", cut->tile);
  emit_constant(g, "SEGMENT", cut->segment);
  emit_constant(g, "SEGMENTS", cut->segments);
  emit_constant(g, "PARTIAL", cut->partial);
  emit_constant(g, "UNROLL_COLUMNS",
                cut->variant != FIT_GROUP && !task->spline && !emit_for_cpu(g) &&
                    task->problem->columns <= 16);
  emit_constant(g, "PIXELS_WHOLE", whole);
  emit_constant(g, "PIXELS_ADJACENT", g->descriptor->inputs[0].stride[2] == 1);
  text_add(&g->definitions, "#define PIXEL_TYPE %s\n#define HELD_TYPE %s\n", whole ? "u16" : "f32",
           cut->holding == FIT_HELD_AS_IT_IS ? "u16" : "f32");
}

static void define(generation *g, const fit_task *task, const fit_cut *cut) {
  const compute_fit_problem *p = task->problem;
  emit_constant(g, "PARAMETERS", task->parameters);
  emit_constant(g, "WIDTHS", task->widths);
  emit_constant(g, "ASTIGMATIC", task->astigmatic);
  emit_constant(g, "HAS_Z", compute_fit_has_z(p->model));
  emit_constant(g, "SLOPES", task->slopes);
  emit_constant(g, "CURVED", task->curved);
  emit_constant(g, "SAMPLED", p->profile == COMPUTE_FIT_SAMPLED);
  emit_constant(g, "SOLVER", p->solver);
  emit_constant(g, "CAMERA", p->camera);
  emit_constant(g, "ROWS", p->rows);
  emit_constant(g, "COLUMNS", p->columns);
  emit_constant(g, "FRAMES", task->frames);
  emit_constant(g, "Z_STARTS", COMPUTE_FIT_MAX_Z_STARTS);
  char least[REAL_TEXT_BYTES];
  text_add(&g->definitions, "#define LEAST_PHOTONS %sf\n",
           real_hex((double)(float)COMPUTE_FIT_LEAST_PHOTONS, least));
  text_add(&g->definitions, "#define VARIANCE_FACTOR %s\n#define OUTER(a) %s\n",
           p->camera == COMPUTE_FIT_EMCCD ? "2.0f" : "1.0f",
           compute_fit_has_z(p->model) ? "((a) < 2 ? (a) : (a) == 4 ? 2 : (a) + 1)" : "(a)");
  define_list(g, "LIST_LOWER", "lower_", task->parameters);
  define_list(g, "LIST_UPPER", "upper_", task->parameters);
  define_list(g, "LIST_START", "start_", task->parameters);
  define_list(g, "LIST_Z_STARTS", "z_start_", COMPUTE_FIT_MAX_Z_STARTS);
  define_inputs(g, task);
  define_outputs(g, task);
  define_cut(g, task, cut);
  if (p->camera == COMPUTE_FIT_READOUT) emit_template(g, &g->definitions, "fit_readout");
  if ((p->outputs & COMPUTE_FIT_P_VALUE) != 0) emit_template(g, &g->definitions, "fit_moments");
  const char *const templates[] = {"fit_profile",
                                   "fit_pixels",
                                   "fit_matrix",
                                   "fit_setup",
                                   task->spline ? "fit_spline" : "fit_shares",
                                   "fit_total",
                                   "fit_posterior",
                                   task->spline ? "fit_spline_sums" : "fit_sums",
                                   "fit_start",
                                   "fit_quality",
                                   "fit_solve",
                                   "fit_kernel"};
  for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
    emit_template(g, &g->definitions, templates[i]);
}

/* ---- Arguments ----------------------------------------------------------------------------- */

static void take_strides(generation *g, emit_launch *launch, const char *name,
                         const compute_operand *operand, const char *const *dimensions,
                         int32_t count) {
  char field[EMIT_NAME_BYTES];
  for (int32_t i = 0; i < count; i++) {
    snprintf(field, sizeof field, "%s_%s", name, dimensions[i]);
    emit_field_i64(g, launch, field, operand->stride[i]);
  }
}

static void take_inputs(generation *g, emit_launch *launch, const fit_task *task) {
  static const char *const pixels[] = {"roi", "row", "column"}, *const values[] = {"roi", "column"};
  static const char *const names[FIT_INPUTS] = {"corners", "offsets", "gains", "variances",
                                                "mask",    "sigma",   "start", "lower",
                                                "upper",   "spline"};
  const uint32_t maps = COMPUTE_FIT_WITH_OFFSET | COMPUTE_FIT_WITH_GAIN |
                        COMPUTE_FIT_WITH_VARIANCE | COMPUTE_FIT_WITH_MASK;
  const compute_operand *inputs = g->descriptor->inputs;
  take_strides(g, launch, "pixels", &inputs[0], pixels, 3);
  for (int32_t i = 0; i < FIT_INPUTS; i++) {
    const uint32_t bit = UINT32_C(1) << i;
    const int32_t at = fit_input_index(task->problem->inputs, bit);
    if (at < 0 || bit == COMPUTE_FIT_WITH_SPLINE) continue; /* dense, needs no strides */
    const bool map = (maps & bit) != 0;
    take_strides(g, launch, names[i], &inputs[at], map ? pixels : values, map ? 3 : 2);
  }
  take_strides(g, launch, "out", &g->descriptor->outputs[0], values, 2);
}

static void take_list(generation *g, emit_launch *launch, const char *name, const float *values,
                      int32_t count) {
  char field[EMIT_NAME_BYTES];
  for (int32_t i = 0; i < count; i++) {
    snprintf(field, sizeof field, "%s_%d", name, (int)i);
    emit_field_f32(g, launch, field, values[i]);
  }
}

typedef struct launch_number {
  const char *name;
  double value;
} launch_number;

static void take_numbers(generation *g, emit_launch *launch, const launch_number *numbers,
                         size_t count) {
  for (size_t i = 0; i < count; i++)
    emit_field_f32(g, launch, numbers[i].name, (float)numbers[i].value);
}

/* The parameters of the spot's shape. */
static void take_shape(generation *g, emit_launch *launch, const compute_fit_problem *p) {
  if (p->model == COMPUTE_FIT_SPLINE) {
    const launch_number numbers[] = {{"spot_x", p->spot[0]},
                                     {"spot_y", p->spot[1]},
                                     {"z_first", p->z_first},
                                     {"per_step", 1 / p->z_step}};
    emit_field_u32(g, launch, "cell_planes", (uint32_t)p->cells[0]);
    emit_field_u32(g, launch, "cell_rows", (uint32_t)p->cells[1]);
    emit_field_u32(g, launch, "cell_columns", (uint32_t)p->cells[2]);
    take_numbers(g, launch, numbers, sizeof numbers / sizeof *numbers);
    return;
  }
  const launch_number numbers[] = {
      {"sigma_x", p->sigma[0]}, {"sigma_y", p->sigma[1]}, {"depth", p->depth}, {"gamma", p->gamma},
      {"a_x", p->a[0]},         {"a_y", p->a[1]},         {"b_x", p->b[0]},    {"b_y", p->b[1]}};
  take_numbers(g, launch, numbers, sizeof numbers / sizeof *numbers);
}

static void take(generation *g, emit_launch *launch, const fit_task *task) {
  const compute_fit_problem *p = task->problem;
  emit_inputs(g, launch, 0, g->descriptor->input_count);
  emit_outputs(g, launch);
  emit_field_i64(g, launch, "count", g->descriptor->size[0]);
  take_inputs(g, launch, task);
  if (task->corners) {
    emit_field_i64(g, launch, "frames", compute_fit_of(g->descriptor)->frames);
    emit_field_i64(g, launch, "frame_rows", compute_fit_of(g->descriptor)->rows);
    emit_field_i64(g, launch, "frame_columns", compute_fit_of(g->descriptor)->columns);
  }
  emit_field_u32(g, launch, "iterations", (uint32_t)p->iterations);
  emit_field_u32(g, launch, "fixed", task->fixed);
  emit_field_u32(g, launch, "start_set", task->start_set);
  emit_field_u32(g, launch, "free_parameters", (uint32_t)task->free_parameters);
  take_list(g, launch, "lower", task->lower, task->parameters);
  take_list(g, launch, "upper", task->upper, task->parameters);
  take_list(g, launch, "start", task->start, task->parameters);
  const launch_number camera[] = {{"epsilon", p->epsilon},
                                  {"offset", (double)task->offset},
                                  {"gain", (double)task->gain},
                                  {"variance", (double)task->variance},
                                  {"multiplied", (double)task->multiplied}};
  take_numbers(g, launch, camera, sizeof camera / sizeof *camera);
  take_shape(g, launch, p);
  if (!compute_fit_has_z(p->model)) return;
  emit_field_u32(g, launch, "z_start_count", task->z_start_count);
  take_list(g, launch, "z_start", task->z_start, COMPUTE_FIT_MAX_Z_STARTS);
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

static compute_status emit(generation *g) {
  const int64_t count = g->descriptor->size[0];
  if (count == 0) return COMPUTE_OK;
  const fit_task task = task_of(g->descriptor);
  fit_cut cut = {0};
  const compute_status status = choose(g, &task, &cut);
  if (status) return status;
  g->wide = true; /* frames and stacks may exceed 2^31 pixels */
  const int64_t run = run_of(g, &cut);
  const int64_t tiles = divide_up(count, (int64_t)cut.tile * run);
  const uint32_t groups = tiles < MOST_GROUPS ? (uint32_t)tiles : MOST_GROUPS;
  define(g, &task, &cut);
  emit_launch *launch =
      emit_launch_begin(g, "fit", (uint32_t[3]){cut.group, 1, 1}, (uint32_t[3]){groups, 1, 1});
  if (!launch) return COMPUTE_OK;
  launch->room = room_of(g, &task, &cut);
  take(g, launch, &task);
  emit_field_i64(g, launch, "tiles", tiles);
  emit_field_i64(g, launch, "run", run);
  emit_template(g, &launch->body, "fit_tile");
  emit_template(g, &launch->body, "fit_roi");
  text_add(&launch->body, "}\n}\n");
  g->tuning.variant = cut.variant;
  g->tuning.group_x = cut.group;
  g->tuning.groups = launch->room;
  g->tuning.items = cut.variant == FIT_DIRECT ? (uint32_t)run : 0;
  describe(g, &task, &cut);
  return COMPUTE_OK;
}

static const tuning_grid grids[] = {
    {TUNE_OTHERS, {TUNE(variant, 1), TUNE(group_x, 32, 64, 128), TUNE(groups, 2, 4, 6, 8, 10, 12)}},
    {TUNE_OTHERS, {TUNE(variant, 2), TUNE(group_x, 32, 64, 128, 256)}},
    {TUNE_OTHERS, {TUNE(variant, 3), TUNE(group_x, 64, 128, 256)}},
    {TUNE_CPU, {TUNE(items, 4, 16, 64, 256, 1024)}},
    {.target = TUNE_END},
};

const emit_kind emit_fit = {.name = "FIT", .emit = emit, .grids = grids};
