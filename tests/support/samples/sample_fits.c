/* SPDX-License-Identifier: MIT */
/* Samples of FIT: the problems, the layout of their operands, and the data. */
#include "support/samples/sample_fits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compute/backend/fit_kinds.h"

#include "core/kernel/common/fit_problem.h"
#include "core/type/dtype.h"
#include "support/reference/fit_reference.h"
#include "support/samples/sample_spline.h"

enum { N = 11, MODELS = COMPUTE_FIT_MODEL_COUNT, P = COMPUTE_FIT_MAX_PARAMETERS };

#define CORNERS COMPUTE_FIT_WITH_CORNERS
#define MASK    COMPUTE_FIT_WITH_MASK
#define MAPS    (COMPUTE_FIT_WITH_OFFSET | COMPUTE_FIT_WITH_GAIN | COMPUTE_FIT_WITH_VARIANCE)
#define BOUNDS  (COMPUTE_FIT_WITH_LOWER | COMPUTE_FIT_WITH_UPPER)

/* ---- Operands ------------------------------------------------------------------------------ */

static bool has_frames(const compute_fit_problem *p) {
  return (p->inputs & CORNERS) != 0 && (p->flags & COMPUTE_FIT_STACK) == 0;
}

/* The input's role; −1: pixels, FIT_INPUTS: records. */
static int32_t role_of(const compute_kernel_descriptor *d, uint32_t operand) {
  if (operand == 0) return -1;
  for (int32_t i = 0; i < FIT_INPUTS; i++)
    if (fit_input_index(compute_fit_of(d)->problem.inputs, UINT32_C(1) << i) == (int32_t)operand)
      return i;
  return FIT_INPUTS;
}

void sample_fit_sizes(const compute_kernel_descriptor *d, uint32_t operand, int64_t size[3]) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  const int32_t role = role_of(d, operand);
  const bool framed = role < 0 ? has_frames(p) : (p->inputs & CORNERS) != 0;
  const int64_t parameters = compute_fit_parameter_count(p->model);
  size[0] = role < 0 && framed ? compute_fit_of(d)->frames : d->size[0];
  size[1] = size[2] = 1;
  if (role < 0 || (role >= 1 && role <= 4)) {
    size[1] = framed ? compute_fit_of(d)->rows : p->rows;
    size[2] = framed ? compute_fit_of(d)->columns : p->columns;
  } else if (role == FIT_SPLINE_INPUT) {
    size[0] = sample_spline_size(p) / 64;
    size[1] = 64;
  } else if (role == FIT_INPUTS) {
    size[1] = compute_fit_column(p->model, p->outputs, 0);
  } else {
    size[1] = role == 0 ? 3 : role == 5 ? 2 : parameters;
  }
}

/* Lays out an operand densely or with gaps: elements two apart, rows and ROIs further apart than
 * necessary. Maps repeat. */
static void lay_out(const compute_kernel_descriptor *d, uint32_t operand, bool gaps,
                    int64_t stride[COMPUTE_MAX_RANK]) {
  const int32_t role = role_of(d, operand);
  if (role == FIT_SPLINE_INPUT) gaps = false; /* always dense */
  int64_t size[3], step = gaps ? 2 : 1;
  sample_fit_sizes(d, operand, size);
  const int last = size[2] > 1 || (role >= 1 && role <= 4) || role < 0 ? 2 : 1;
  for (int i = last; i >= 0; i--) {
    stride[i] = step;
    step = step * size[i] + (gaps && i > 0 ? 1 : 0);
  }
  if (role >= 1 && role <= 4) stride[0] = 0;
}

static void visit_sample(const char *name, const compute_fit_problem *problem, compute_dtype pixels,
                         int64_t n, bool gaps, const compute_tuning *tunings, uint32_t count,
                         sample_visitor visit, void *user) {
  sample_kernel s;
  sample_begin(&s, COMPUTE_KERNEL_FIT, (compute_shape){.rank = 1, .size = {n}}, "fit %s", name);
  compute_kernel_descriptor *d = &s.descriptor;
  compute_fit_attributes *fit = &s.attributes.fit;
  fit->problem = fit_problem_normalize(problem);
  if ((fit->problem.inputs & CORNERS) != 0) {
    fit->rows = 2 * fit->problem.rows + 3;
    fit->columns = 3 * fit->problem.columns + 2;
    fit->frames = has_frames(&fit->problem) ? (n + 5) / 6 : 0;
  }
  sample_input(&s, pixels, 0);
  for (int32_t i = 0; i < FIT_INPUTS; i++)
    if ((fit->problem.inputs >> i & 1) != 0) sample_input(&s, fit_input_dtype(i), 0);
  sample_output(&s, COMPUTE_F32, 0);
  for (uint32_t i = 0; i < d->input_count; i++) lay_out(d, i, gaps, s.inputs[i].stride);
  lay_out(d, d->input_count, gaps, s.outputs[0].stride);
  for (uint32_t i = 0; i < count; i++) *sample_tuning(&s) = tunings[i];
  sample_end(&s, visit, user);
}

/* ---- Problems ------------------------------------------------------------------------------ */

void sample_fit_visit(const compute_fit_problem *problem, compute_dtype pixels, int64_t n,
                      sample_visitor visit, void *user) {
  visit_sample("of one's own", problem, pixels, n, false, NULL, 0, visit, user);
}

static const compute_tuning cuts[] = {{.variant = 2}, {.variant = 3, .group_x = 7, .items = 2}};

void sample_fit_kernels(sample_visitor visit, void *user) {
  static const struct {
    const char *name;
    compute_dtype pixels;
    bool gaps, cut;
    compute_fit_problem problem;
  } cases[] = {
      {"xynb 7x7", COMPUTE_U16, false, true, {.model = COMPUTE_FIT_XYNB, .rows = 7, .columns = 7}},
      {"xynbs 5x9 by marquardt, scmos maps, mask",
       COMPUTE_F32,
       false,
       false,
       {.model = COMPUTE_FIT_XYNBS,
        .solver = COMPUTE_FIT_LEVENBERG_MARQUARDT,
        .camera = COMPUTE_FIT_SCMOS,
        .rows = 5,
        .columns = 9,
        .inputs = MAPS | MASK,
        .outputs = COMPUTE_FIT_ALL_OUTPUTS}},
      {"xynbsxsy 9x8 by newton, emccd, frames with gaps, bounds",
       COMPUTE_U16,
       true,
       false,
       {.model = COMPUTE_FIT_XYNBSXSY,
        .solver = COMPUTE_FIT_NEWTON,
        .camera = COMPUTE_FIT_EMCCD,
        .rows = 9,
        .columns = 8,
        .offset = 100,
        .gain = 12,
        .em_gain = 300,
        .iterations = 60,
        .inputs = CORNERS | BOUNDS | COMPUTE_FIT_WITH_START,
        .outputs = COMPUTE_FIT_ALL_OUTPUTS}},
      {"xyznb 10x9 from three starts, scmos stack with corners",
       COMPUTE_U16,
       false,
       false,
       {.model = COMPUTE_FIT_XYZNB,
        .camera = COMPUTE_FIT_SCMOS,
        .rows = 10,
        .columns = 9,
        .z_start_count = 3,
        .z_start = {-0.4, 0, 0.4},
        .inputs = CORNERS | MAPS,
        .flags = COMPUTE_FIT_STACK}},
      {"xynb 16x14 sampled by least squares, widths given",
       COMPUTE_F32,
       true,
       false,
       {.model = COMPUTE_FIT_XYNB,
        .solver = COMPUTE_FIT_LEAST_SQUARES,
        .profile = COMPUTE_FIT_SAMPLED,
        .rows = 16,
        .columns = 14,
        .inputs = COMPUTE_FIT_WITH_SIGMA,
        .outputs = COMPUTE_FIT_ALL_OUTPUTS}},
      {"spline 9x8, frames with gaps",
       COMPUTE_U16,
       true,
       true,
       {.model = COMPUTE_FIT_SPLINE,
        .rows = 9,
        .columns = 8,
        .inputs = CORNERS,
        .outputs = COMPUTE_FIT_ALL_OUTPUTS}},
      {"spline 11x10 by marquardt, scmos maps, mask",
       COMPUTE_F32,
       false,
       false,
       {.model = COMPUTE_FIT_SPLINE,
        .solver = COMPUTE_FIT_LEVENBERG_MARQUARDT,
        .camera = COMPUTE_FIT_SCMOS,
        .rows = 11,
        .columns = 10,
        .z_start_count = 2,
        .z_start = {-0.3, 0.3},
        .inputs = MAPS | MASK,
        .outputs = COMPUTE_FIT_ALL_OUTPUTS}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    compute_fit_problem p = cases[i].problem;
    if (p.camera == COMPUTE_FIT_SCMOS) p.gain = 0.5;
    if (p.model == COMPUTE_FIT_SPLINE) {
      sample_spline_describe(&p);
      visit_sample(cases[i].name, &p, cases[i].pixels, N, cases[i].gaps, cuts, cases[i].cut ? 2 : 0,
                   visit, user);
      continue;
    }
    p.sigma[0] = p.model == COMPUTE_FIT_XYNBSXSY ? 1.5 : 1.2;
    p.sigma[1] = p.model == COMPUTE_FIT_XYZNB ? 1.3 : 0;
    p.depth = 0.5;
    p.gamma = 0.25;
    p.a[0] = 0.1;
    p.b[1] = 0.05;
    visit_sample(cases[i].name, &p, cases[i].pixels, N, cases[i].gaps, cuts, cases[i].cut ? 2 : 0,
                 visit, user);
  }
}

void sample_fits_in_full(sample_visitor visit, void *user) {
  char name[64];
  for (int model = 0; model < MODELS; model++)
    for (int solver = 0; solver <= COMPUTE_FIT_LEAST_SQUARES; solver++) {
      const bool spline = model == COMPUTE_FIT_SPLINE;
      const int camera = (model + solver) % 3, profile = spline ? 0 : (model + solver) / 3 % 2;
      if (spline && solver == COMPUTE_FIT_NEWTON) continue;
      const bool fixes = model == COMPUTE_FIT_XYNBS && solver == COMPUTE_FIT_FISHER;
      compute_fit_problem p = {.model = (compute_fit_model)model,
                               .solver = (compute_fit_solver)solver,
                               .camera = (compute_fit_camera)camera,
                               .profile = (compute_fit_profile)profile,
                               .rows = 9,
                               .columns = 8 + solver % 2,
                               .sigma = {1.3, model == COMPUTE_FIT_XYZNB ? 1.2 : 0},
                               .depth = 0.5,
                               .gamma = 0.3,
                               .start_set = model == COMPUTE_FIT_XYZNB ? 4 : 0,
                               .start[2] = 0.1,
                               .fixed = fixes ? 16 : 0,
                               .iterations = 80,
                               .outputs = COMPUTE_FIT_ALL_OUTPUTS};
      if (spline) {
        p.start_set = 0;
        sample_spline_describe(&p);
      }
      if (camera != COMPUTE_FIT_IDEAL) {
        p.offset = 100;
        p.gain = camera == COMPUTE_FIT_EMCCD ? 10 : 0.5;
        p.em_gain = camera == COMPUTE_FIT_EMCCD ? 200 : 0;
        p.variance = camera == COMPUTE_FIT_SCMOS ? 4 : 0;
      }
      snprintf(name, sizeof name, "%s by %s, %s camera", fit_model_name(p.model),
               fit_solver_name(p.solver), fit_camera_name(p.camera));
      visit_sample(name, &p, solver % 2 ? COMPUTE_U16 : COMPUTE_F32, N, false, NULL, 0, visit,
                   user);
    }
}

/* ---- Elements ------------------------------------------------------------------------------ */

static int64_t place(const compute_operand *o, int64_t roi, int64_t row, int64_t column) {
  return roi * o->stride[0] + row * o->stride[1] + column * o->stride[2];
}

static void put(const compute_kernel_descriptor *d, void *const *operands, uint32_t i, int64_t at,
                double value) {
  const compute_dtype dtype = d->inputs[i].dtype;
  dtype_store(dtype, (unsigned char *)operands[i] + at * (int64_t)compute_dtype_size(dtype), value);
}

static double get(const compute_kernel_descriptor *d, const void *const *operands, uint32_t i,
                  int64_t at) {
  const compute_dtype dtype = d->inputs[i].dtype;
  return dtype_load(dtype,
                    (const unsigned char *)operands[i] + at * (int64_t)compute_dtype_size(dtype));
}

/* The reference's inputs for one ROI. */
typedef struct roi_inputs {
  double pixels[FIT_REFERENCE_PIXELS];
  double map[3][FIT_REFERENCE_PIXELS];
  uint8_t mask[FIT_REFERENCE_PIXELS];
  double vectors[4][P]; /* sigma, start, lower, upper */
  fit_reference_inputs given;
  int64_t frame, top, left;
  bool inside;
} roi_inputs;

static bool has(const compute_fit_problem *p, uint32_t bit) {
  return (p->inputs & bit) != 0;
}

static void find_corner(const compute_kernel_descriptor *d, const void *const *operands,
                        int64_t roi, roi_inputs *r) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  r->inside = true;
  r->frame = roi;
  if (!has(p, CORNERS)) return;
  int64_t corner[3];
  for (int i = 0; i < 3; i++)
    corner[i] = (int64_t)get(d, operands, 1, place(&d->inputs[1], roi, i, 0));
  if (has_frames(p)) r->frame = corner[0];
  r->top = corner[1];
  r->left = corner[2];
  r->inside = r->top >= 0 && r->left >= 0 && r->top + p->rows <= compute_fit_of(d)->rows &&
              r->left + p->columns <= compute_fit_of(d)->columns &&
              (!has_frames(p) || (r->frame >= 0 && r->frame < compute_fit_of(d)->frames));
}

static void read_roi(const compute_kernel_descriptor *d, const void *const *operands, int64_t roi,
                     roi_inputs *r) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  memset(r, 0, sizeof *r);
  find_corner(d, operands, roi, r);
  if (!r->inside) return;
  const bool frames = has_frames(p);
  for (int64_t i = 0; i < p->rows * p->columns; i++) {
    const int64_t row = i / p->columns, column = i % p->columns;
    r->pixels[i] = get(d, operands, 0,
                       place(&d->inputs[0], r->frame, row + (frames ? r->top : 0),
                             column + (frames ? r->left : 0)));
    for (int32_t bit = 1; bit <= 4; bit++) {
      const int32_t at = fit_input_index(p->inputs, UINT32_C(1) << bit);
      if (at < 0) continue;
      const double value = get(d, operands, (uint32_t)at,
                               place(&d->inputs[at], roi, row + r->top, column + r->left));
      if (bit == 4) r->mask[i] = (uint8_t)value;
      if (bit < 4) r->map[bit - 1][i] = value;
    }
  }
  for (int32_t bit = FIT_SINGLE_FIRST; bit < FIT_SPLINE_INPUT; bit++) {
    const int32_t at = fit_input_index(p->inputs, UINT32_C(1) << bit);
    const int32_t count = bit == 5 ? 2 : compute_fit_parameter_count(p->model);
    for (int32_t i = 0; i < count && at >= 0; i++)
      r->vectors[bit - 5][i] = get(d, operands, (uint32_t)at, place(&d->inputs[at], roi, i, 0));
  }
  const fit_reference_inputs all = {r->map[0],     r->map[1],     r->map[2],     r->mask,
                                    r->vectors[0], r->vectors[1], r->vectors[2], r->vectors[3]};
  if (has(p, COMPUTE_FIT_WITH_OFFSET)) r->given.offset = all.offset;
  if (has(p, COMPUTE_FIT_WITH_GAIN)) r->given.gain = all.gain;
  if (has(p, COMPUTE_FIT_WITH_VARIANCE)) r->given.variance = all.variance;
  if (has(p, MASK)) r->given.mask = all.mask;
  if (has(p, COMPUTE_FIT_WITH_SIGMA)) r->given.sigma = all.sigma;
  if (has(p, COMPUTE_FIT_WITH_START)) r->given.start = all.start;
  if (has(p, COMPUTE_FIT_WITH_LOWER)) r->given.lower = all.lower;
  if (has(p, COMPUTE_FIT_WITH_UPPER)) r->given.upper = all.upper;
}

/* ---- Data ---------------------------------------------------------------------------------- */

static double poisson(test_random *random, double mean) {
  double count = 0;
  while (mean > 0) { /* sums Poisson numbers of small means */
    const double part = mean > 15 ? 15 : mean, least = exp(-part);
    double product = test_random_uniform(random, 0, 1);
    for (; product > least; count++) product *= test_random_uniform(random, 0, 1);
    mean -= part;
  }
  return count;
}

static double normal(test_random *random) {
  double sum = -6;
  for (int i = 0; i < 12; i++) sum += test_random_uniform(random, 0, 1);
  return sum;
}

static double detect(test_random *random, const compute_fit_problem *p, double mean) {
  const double electrons = poisson(random, mean);
  double sum = 0;
  if (p->camera != COMPUTE_FIT_EMCCD) return electrons;
  for (int64_t i = 0; i < (int64_t)electrons; i++)
    sum -= log(1 - test_random_uniform(random, 0, 1));
  return sum;
}

/* Draws spots of different widths and brightness, up to 1.5 pixels off the centre. */
static void draw_truth(test_random *random, const compute_fit_problem *p, double truth[P]) {
  const bool z = compute_fit_has_z(p->model);
  truth[0] = (p->columns - 1) / 2.0 + test_random_uniform(random, -1, 1);
  truth[1] = (p->rows - 1) / 2.0 + test_random_uniform(random, -1.2, 1.2);
  truth[z ? 3 : 2] = test_random_uniform(random, 600, 3000);
  truth[z ? 4 : 3] = test_random_uniform(random, 2, 12);
  if (z) truth[2] = test_random_uniform(random, -0.35, 0.35);
  for (int i = 4; i < compute_fit_parameter_count(p->model) && !z; i++)
    truth[i] = p->sigma[i - 4] * test_random_uniform(random, 0.9, 1.15);
}

static void fill_maps(const compute_kernel_descriptor *d, void *const *operands,
                      test_random *random) {
  static const double range[5][2] = {{0, 0}, {90, 110}, {0.4, 0.6}, {1, 12}, {0, 0}};
  for (int32_t bit = 1; bit <= 4; bit++) {
    const int32_t at = fit_input_index(compute_fit_of(d)->problem.inputs, UINT32_C(1) << bit);
    int64_t size[3];
    if (at < 0) continue;
    sample_fit_sizes(d, (uint32_t)at, size);
    for (int64_t i = 0; i < size[1] * size[2]; i++) {
      const double value = bit == 4 ? (double)(i % 11 != 3)
                                    : test_random_uniform(random, range[bit][0], range[bit][1]);
      put(d, operands, (uint32_t)at, place(&d->inputs[at], 0, i / size[2], i % size[2]), value);
    }
  }
}

/* A frame has room for six ROIs side by side; in a stack, corners may be anywhere. The third ROI is
 * outside. */
static void fill_corner(const compute_kernel_descriptor *d, void *const *operands, int64_t roi,
                        test_random *random) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  int64_t corner[3] = {roi / 6, roi % 6 / 3 * (p->rows + 1), roi % 3 * p->columns + 1};
  if (!has(p, CORNERS)) return;
  if (!has_frames(p)) {
    corner[0] = -5;
    corner[1] = test_random_integer(random, 0, compute_fit_of(d)->rows - p->rows);
    corner[2] = test_random_integer(random, 0, compute_fit_of(d)->columns - p->columns);
  }
  if (roi == 2) corner[2] = compute_fit_of(d)->columns - p->columns + 1;
  if (roi == 3) corner[1] = -1;
  for (int i = 0; i < 3; i++)
    put(d, operands, 1, place(&d->inputs[1], roi, i, 0), (double)corner[i]);
}

static void fill_vectors(const compute_kernel_descriptor *d, void *const *operands, int64_t roi,
                         const double truth[P], const double sigma[2]) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  for (int32_t bit = FIT_SINGLE_FIRST; bit < FIT_SPLINE_INPUT; bit++) {
    const int32_t at = fit_input_index(p->inputs, UINT32_C(1) << bit);
    const int32_t count = bit == 5 ? 2 : compute_fit_parameter_count(p->model);
    for (int32_t i = 0; i < count && at >= 0; i++) {
      const bool given = (roi + i) % 3 != 0;
      double value = bit == 5 ? sigma[i] : truth[i] * 1.02;
      if (bit == 7) value = i < 2 ? truth[i] - 1 : truth[i] * (roi == 5 && i == 2 ? 1.3 : 0.3);
      if (bit == 8) value = i < 2 ? truth[i] + (roi == 6 && i == 0 ? -0.3 : 1) : truth[i] * 3;
      if (bit == 7 && roi == 8 && i == 3) value = truth[i] * 4; /* above the upper bound */
      if (bit == 5 && roi == 7 && i == 1) value = -1;
      put(d, operands, (uint32_t)at, place(&d->inputs[at], roi, i, 0),
          given || bit == 5 || bit >= 7 ? value : (double)NAN);
    }
  }
}

static void fill_pixels(const compute_kernel_descriptor *d, void *const *operands, int64_t roi,
                        const double *image, test_random *random) {
  static roi_inputs r;
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  const bool frames = has_frames(p), whole = d->inputs[0].dtype == COMPUTE_U16;
  read_roi(d, (const void *const *)operands, roi, &r);
  if (!r.inside && frames) return;
  for (int64_t i = 0; i < p->rows * p->columns; i++) {
    const double offset = r.given.offset ? r.map[0][i] : p->offset;
    const double gain = (r.given.gain ? r.map[1][i] : p->gain) / p->em_gain;
    const double variance = r.given.variance ? r.map[2][i] : p->variance;
    const double electrons = detect(random, p, image[i]) + sqrt(variance) * normal(random);
    double value = roi == 4 ? 0 : electrons / (r.inside ? gain : 1) + offset;
    if (whole) value = value < 0 ? 0 : value > 65535 ? 65535 : floor(value + 0.5);
    if (roi == 9 && i == 5 && !whole) value = (double)NAN;
    put(d, operands, 0,
        place(&d->inputs[0], r.frame, i / p->columns + (frames ? r.top : 0),
              i % p->columns + (frames ? r.left : 0)),
        value);
  }
}

/* The problem with the spline's address, which a kernel's problem lacks. */
static compute_fit_problem whole_problem(const compute_kernel_descriptor *d,
                                         const void *const *operands) {
  compute_fit_problem p = compute_fit_of(d)->problem;
  const int32_t at = fit_input_index(p.inputs, COMPUTE_FIT_WITH_SPLINE);
  if (at >= 0) p.spline = operands[at];
  return p;
}

void sample_fit_fill(const sample_kernel *s, void *const *operands) {
  static double image[FIT_REFERENCE_PIXELS];
  const compute_kernel_descriptor *d = &s->descriptor;
  const int32_t spline =
      fit_input_index(compute_fit_of(d)->problem.inputs, COMPUTE_FIT_WITH_SPLINE);
  const compute_fit_problem whole = whole_problem(d, (const void *const *)operands), *p = &whole;
  if (spline >= 0) sample_spline_fill(p, operands[spline]);
  test_random random = {.state = 5};
  fill_maps(d, operands, &random);
  for (int64_t roi = 0; roi < d->size[0]; roi++) {
    const double factor = test_random_uniform(&random, 0.9, 1.1);
    const double *usual = compute_fit_of(d)->problem.sigma;
    const double sigma[2] = {usual[0] * factor, usual[1] / factor};
    double truth[P];
    draw_truth(&random, p, truth);
    fit_reference_image(p, has(p, COMPUTE_FIT_WITH_SIGMA) ? sigma : NULL, truth, image, NULL);
    fill_corner(d, operands, roi, &random);
    fill_vectors(d, operands, roi, truth, sigma);
    fill_pixels(d, operands, roi, image, &random);
  }
}

/* ---- Checking ------------------------------------------------------------------------------ */

/* The inputs of a check, and its message's buffer. */
typedef struct inspection {
  const compute_kernel_descriptor *d;
  compute_fit_problem whole; /* with the spline's address */
  const float *record;
  int64_t roi;
  char *problem;
  size_t problem_bytes;
} inspection;

static double column(const inspection *c, uint32_t output, int32_t i) {
  const compute_fit_problem *p = &compute_fit_of(c->d)->problem;
  const int32_t at = compute_fit_column(p->model, p->outputs, output) + i;
  return (double)c->record[at * c->d->outputs[0].stride[1]];
}

static bool asks(const inspection *c, uint32_t output) {
  return (compute_fit_of(c->d)->problem.outputs & output) != 0;
}

COMPUTE_PRINTF(2, 3) static bool wrong(const inspection *c, const char *format, ...) {
  va_list list;
  const int used = snprintf(c->problem, c->problem_bytes, "ROI %lld: ", (long long)c->roi);
  va_start(list, format);
  vsnprintf(c->problem + used, c->problem_bytes - (size_t)used, format, list);
  va_end(list);
  return false;
}

static bool near(const inspection *c, const char *what, int32_t i, double actual, double expected,
                 double allowed) {
  if (isnan(expected) && isnan(actual)) return true;
  if (fabs(actual - expected) <= allowed) return true;
  return wrong(c, "%s %d is %.8g instead of %.8g, more than %.3g apart", what, (int)i, actual,
               expected, allowed);
}

static bool check_bad(const inspection *c) {
  const compute_fit_problem *p = &compute_fit_of(c->d)->problem;
  for (uint32_t output = 1; output < COMPUTE_FIT_ITERATIONS; output <<= 1)
    for (int32_t i = 0; asks(c, output) && i < compute_fit_output_columns(p->model, output); i++)
      if (!isnan(column(c, output, i)))
        return wrong(c, "column %d of output %u is a number", (int)i, (unsigned)output);
  if (asks(c, COMPUTE_FIT_SIGNIFICANCE) && !isnan(column(c, COMPUTE_FIT_SIGNIFICANCE, 0)))
    return wrong(c, "the significance is a number");
  if (asks(c, COMPUTE_FIT_ITERATIONS) && column(c, COMPUTE_FIT_ITERATIONS, 0) != 0)
    return wrong(c, "steps were taken");
  return true;
}

/* All other results belong to the fit's own parameters. */
static bool check_rest(const inspection *c, const roi_inputs *r, const double *own) {
  const compute_fit_problem *p = &c->whole;
  const int32_t n = compute_fit_parameter_count(p->model);
  fit_reference_result e;
  fit_reference_at(p, r->pixels, &r->given, own, &e);
  for (int32_t i = 0; asks(c, COMPUTE_FIT_STD) && i < n; i++)
    if (!near(c, "std", i, column(c, COMPUTE_FIT_STD, i), e.std[i], 1e-4 * e.std[i])) return false;
  for (int32_t i = 0; asks(c, COMPUTE_FIT_COVARIANCE) && i < n * n; i++)
    if (!near(c, "covariance", i, column(c, COMPUTE_FIT_COVARIANCE, i), e.covariance[i],
              2e-4 * e.std[i / n] * e.std[i % n]))
      return false;
  return (!asks(c, COMPUTE_FIT_RATIO) || near(c, "ratio", 0, column(c, COMPUTE_FIT_RATIO, 0),
                                              e.ratio, 1e-4 * fabs(e.ratio) + 1e-4)) &&
         (!asks(c, COMPUTE_FIT_P_RAW) ||
          near(c, "p_raw", 0, column(c, COMPUTE_FIT_P_RAW, 0), e.p_raw, 2e-4)) &&
         (!asks(c, COMPUTE_FIT_P_VALUE) ||
          near(c, "p_value", 0, column(c, COMPUTE_FIT_P_VALUE, 0), e.p_value, 3e-3)) &&
         (!asks(c, COMPUTE_FIT_SIGNIFICANCE) ||
          near(c, "significance", 0, column(c, COMPUTE_FIT_SIGNIFICANCE, 0), e.significance,
               2e-3 + 1e-4 * e.significance));
}

static bool check_roi(const inspection *c, const roi_inputs *r) {
  const compute_fit_problem *p = &c->whole;
  const int status = (int)column(c, COMPUTE_FIT_STATUS, 0);
  fit_reference_result e = {.status = COMPUTE_FIT_BAD_DATA};
  double own[P];
  if (r->inside) fit_reference(p, r->pixels, &r->given, &e);
  if (p->solver == COMPUTE_FIT_NEWTON && status == COMPUTE_FIT_MAX_ITERATIONS) return true;
  if (status != (int)e.status) return wrong(c, "status %d instead of %d", status, (int)e.status);
  if (e.status == COMPUTE_FIT_BAD_DATA) return check_bad(c);
  for (int32_t i = 0; i < compute_fit_parameter_count(p->model); i++) {
    own[i] = column(c, COMPUTE_FIT_PARAMETERS, i);
    if (!near(c, "parameter", i, own[i], e.parameters[i],
              0.01 * e.std[i] + 1e-6 * fabs(e.parameters[i])))
      return false;
  }
  const double steps = column(c, COMPUTE_FIT_ITERATIONS, 0);
  if (!(steps >= 1 && steps <= p->iterations * (p->z_start_count > 1 ? p->z_start_count : 1)))
    return wrong(c, "%g steps", steps);
  return check_rest(c, r, own);
}

bool sample_fit_check(const sample_kernel *s, const void *const *operands, const float *records,
                      char *problem, size_t problem_bytes) {
  static roi_inputs r;
  const compute_kernel_descriptor *d = &s->descriptor;
  inspection c = {.d = d,
                  .whole = whole_problem(d, operands),
                  .problem = problem,
                  .problem_bytes = problem_bytes};
  for (c.roi = 0; c.roi < d->size[0]; c.roi++) {
    c.record = records + c.roi * d->outputs[0].stride[0];
    read_roi(d, operands, c.roi, &r);
    if (!check_roi(&c, &r)) return false;
  }
  return true;
}
