/* What the source of a fit says before its kernel, and the arguments that the kernel takes. */
#include <stdio.h>

#include "generate/kinds/fit.h"
#include "kernel/fit_problem.h"

static void define(generation *g, const char *name, int64_t value) {
  text_add(&g->definitions, "#define %s %lld\n", name, (long long)value);
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
  } inputs[FIT_INPUTS] = {
      {"WITH_CORNERS", "CORNERS"},   {"OFFSET_MAP", "OFFSETS"}, {"GAIN_MAP", "GAINS"},
      {"VARIANCE_MAP", "VARIANCES"}, {"MASKED", "MASK"},        {"WITH_SIGMA", "SIGMA"},
      {"WITH_START", "START"},       {"WITH_LOWER", "LOWER"},   {"WITH_UPPER", "UPPER"}};
  for (int32_t i = 0; i < FIT_INPUTS; i++) {
    const int32_t at = fit_input_index(task->problem->inputs, UINT32_C(1) << i);
    define(g, inputs[i].flag, at >= 0);
    if (at >= 0) text_add(&g->definitions, "#define %s in%d\n", inputs[i].name, (int)at);
  }
}

static void define_outputs(generation *g, const fit_task *task) {
  static const char *const columns[] = {"PARAMETERS", "STD",     "COVARIANCE", "RATIO",
                                        "P_RAW",      "P_VALUE", "ITERATIONS", "STATUS"};
  const compute_fit_problem *p = task->problem;
  char name[32];
  for (int32_t i = 0; i < 8; i++) {
    snprintf(name, sizeof name, "COLUMN_%s", columns[i]);
    define(g, name, compute_fit_column(p->model, p->outputs, UINT32_C(1) << i));
  }
  const uint32_t tests = COMPUTE_FIT_P_RAW | COMPUTE_FIT_P_VALUE;
  define(g, "WANT_MOMENTS", (p->outputs & COMPUTE_FIT_P_VALUE) != 0);
  define(g, "WANT_SURVIVAL", (p->outputs & tests) != 0);
  define(g, "WANT_RATIO",
         task->astigmatic || (p->outputs & (tests | (uint32_t)COMPUTE_FIT_RATIO)) != 0);
}

static void define_cut(generation *g, const fit_task *task, const fit_cut *cut) {
  const bool whole = g->descriptor->inputs[0].dtype == COMPUTE_U16;
  define(g, "HELD", cut->holding);
  define(g, "HELD_STEP", cut->step);
  define(g, "SHARED", cut->variant == FIT_GROUP);
  define(g, "GROUP_ITEMS", cut->group);
  define(g, "TILE", cut->tile);
  define(g, "SEGMENT", cut->segment);
  define(g, "SEGMENTS", cut->segments);
  define(g, "PARTIAL", cut->partial);
  define(g, "UNROLL_COLUMNS",
         cut->variant != FIT_GROUP && !emit_for_cpu(g) && task->problem->columns <= 16);
  define(g, "PIXELS_WHOLE", whole);
  define(g, "PIXELS_ADJACENT", g->descriptor->inputs[0].stride[2] == 1);
  text_add(&g->definitions, "#define PIXEL_TYPE %s\n#define HELD_TYPE %s\n", whole ? "u16" : "f32",
           cut->holding == FIT_HELD_AS_IT_IS ? "u16" : "f32");
}

void fit_define(generation *g, const fit_task *task, const fit_cut *cut) {
  const compute_fit_problem *p = task->problem;
  define(g, "PARAMETERS", task->parameters);
  define(g, "WIDTHS", task->widths);
  define(g, "ASTIGMATIC", task->astigmatic);
  define(g, "SLOPES", task->slopes);
  define(g, "CURVED", task->curved);
  define(g, "SAMPLED", p->profile == COMPUTE_FIT_SAMPLED);
  define(g, "SOLVER", p->solver);
  define(g, "CAMERA", p->camera);
  define(g, "ROWS", p->rows);
  define(g, "COLUMNS", p->columns);
  define(g, "FRAMES", task->frames);
  define(g, "Z_STARTS", COMPUTE_FIT_MAX_Z_STARTS);
  text_add(&g->definitions, "#define VARIANCE_FACTOR %s\n#define OUTER(a) %s\n",
           p->camera == COMPUTE_FIT_EMCCD ? "2.0f" : "1.0f",
           task->astigmatic ? "((a) < 2 ? (a) : (a) == 4 ? 2 : (a) + 1)" : "(a)");
  define_list(g, "LIST_LOWER", "lower_", task->parameters);
  define_list(g, "LIST_UPPER", "upper_", task->parameters);
  define_list(g, "LIST_START", "start_", task->parameters);
  define_list(g, "LIST_Z_STARTS", "z_start_", COMPUTE_FIT_MAX_Z_STARTS);
  define_inputs(g, task);
  define_outputs(g, task);
  define_cut(g, task, cut);
  if ((p->outputs & COMPUTE_FIT_P_VALUE) != 0) emit_template(g, &g->definitions, "fit_moments.h");
  static const char *const templates[] = {"fit_profile.h", "fit_pixels.h",  "fit_matrix.h",
                                          "fit_sums.h",    "fit_quality.h", "fit_start.h",
                                          "fit_solve.h",   "fit_kernel.h"};
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
  static const char *const names[FIT_INPUTS] = {"corners", "offsets", "gains", "variances", "mask",
                                                "sigma",   "start",   "lower", "upper"};
  const uint32_t maps = COMPUTE_FIT_WITH_OFFSET | COMPUTE_FIT_WITH_GAIN |
                        COMPUTE_FIT_WITH_VARIANCE | COMPUTE_FIT_WITH_MASK;
  const compute_operand *inputs = g->descriptor->inputs;
  take_strides(g, launch, "pixels", &inputs[0], pixels, 3);
  for (int32_t i = 0; i < FIT_INPUTS; i++) {
    const uint32_t bit = UINT32_C(1) << i;
    const int32_t at = fit_input_index(task->problem->inputs, bit);
    if (at < 0) continue;
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

void fit_take(generation *g, emit_launch *launch, const fit_task *task) {
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
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"epsilon", p->epsilon},
                 {"sigma_x", p->sigma[0]},
                 {"sigma_y", p->sigma[1]},
                 {"depth", p->depth},
                 {"gamma", p->gamma},
                 {"a_x", p->a[0]},
                 {"a_y", p->a[1]},
                 {"b_x", p->b[0]},
                 {"b_y", p->b[1]},
                 {"offset", task->offset},
                 {"gain", task->gain},
                 {"variance", task->variance},
                 {"multiplied", task->multiplied}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    emit_field_f32(g, launch, numbers[i].name, (float)numbers[i].value);
  if (!task->astigmatic) return;
  emit_field_u32(g, launch, "z_start_count", task->z_start_count);
  take_list(g, launch, "z_start", task->z_start, COMPUTE_FIT_MAX_Z_STARTS);
}
