/* SPDX-License-Identifier: MIT */
/* The columns of the three formats.
 *
 * .npy: every output is unchanged. Positions are in pixels from the centre of the frame's first
 * pixel, z is in micrometres. `roi` numbers all ROIs from 0, including omitted ones.
 *
 * CSV: ThunderSTORM's names with units in brackets. Lengths are in nm, or in px if the pixel size
 * is unknown; frames and ids start at 1. ThunderSTORM measures from the outer corner of the first
 * pixel, so half a pixel is added to positions. Columns without a ThunderSTORM name come last.
 *
 * HDF5: Picasso's names and units. Positions are in pixels from the centre of the first pixel,
 * frames start at 0, z is in nm. Picasso ignores unknown columns. */
#include "programs/fit/columns.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "programs/fit/number_text.h"

/* ---- Adding columns ------------------------------------------------------------------------ */

static size_t bytes_of(const column *c) {
  return column_type_bytes(c->type) * (c->side ? (size_t)(c->side * c->side) : 1);
}

static void add(column_set *set, column added) {
  if (added.scale == 0) added.scale = 1;
  set->columns[set->count++] = added;
  set->record_bytes += bytes_of(&added);
}

static bool has(const column_set *set, uint32_t output) {
  return (set->problem.outputs & output) != 0;
}

/* The index of each parameter in a model; −1: the model does not have it. */
typedef struct model_places {
  int32_t z, photons, background, sigma_x, sigma_y;
} model_places;

static model_places places_of(compute_fit_model model) {
  switch (model) {
  case COMPUTE_FIT_XYNB: return (model_places){-1, 2, 3, -1, -1};
  case COMPUTE_FIT_XYNBS: return (model_places){-1, 2, 3, 4, 4};
  case COMPUTE_FIT_XYNBSXSY: return (model_places){-1, 2, 3, 4, 5};
  case COMPUTE_FIT_XYZNB:
  case COMPUTE_FIT_SPLINE: return (model_places){2, 3, 4, -1, -1};
  }
  return (model_places){-1, 2, 3, -1, -1};
}

/* Returns true if all spots at one height have the same width. */
static bool has_width(const column_set *set, const results_options *options) {
  return !options->sigma_differs && set->problem.model != COMPUTE_FIT_SPLINE;
}

/* Adds the columns with the same name in all formats. */
static void add_fit_quality(column_set *set, const results_options *options, const char *ratio) {
  if (has(set, COMPUTE_FIT_RATIO)) {
    add(set, (column){.name = ratio, .source = COLUMN_RATIO, .type = TYPE_F32, .decimals = 4});
  }
  if (has(set, COMPUTE_FIT_P_RAW)) {
    add(set,
        (column){
            .name = "p_raw", .source = COLUMN_P_RAW, .type = TYPE_F32, .decimals = COLUMN_SHORT});
  }
  if (has(set, COMPUTE_FIT_P_VALUE)) {
    add(set, (column){.name = "p_value",
                      .source = COLUMN_P_VALUE,
                      .type = TYPE_F32,
                      .decimals = COLUMN_SHORT});
  }
  if (has(set, COMPUTE_FIT_ITERATIONS)) {
    add(set, (column){.name = "iterations", .source = COLUMN_ITERATIONS, .type = TYPE_I32});
  }
  if (has(set, COMPUTE_FIT_STATUS)) {
    add(set, (column){.name = "status", .source = COLUMN_STATUS, .type = TYPE_U8});
  }
  if (options->significance && has(set, COMPUTE_FIT_SIGNIFICANCE)) {
    add(set, (column){.name = "significance",
                      .source = COLUMN_SIGNIFICANCE,
                      .type = TYPE_F32,
                      .decimals = 3});
  }
  if (options->saturation)
    add(set, (column){.name = "saturated", .source = COLUMN_SATURATED, .type = TYPE_I32});
}

/* ---- .npy ---------------------------------------------------------------------------------- */

static void make_npy(column_set *set, const results_options *options) {
  static const char *const names[][COMPUTE_FIT_MAX_PARAMETERS] = {
      {"x", "y", "photons", "background"},
      {"x", "y", "photons", "background", "sigma"},
      {"x", "y", "photons", "background", "sigma_x", "sigma_y"},
      {"x", "y", "z", "photons", "background"},
      {"x", "y", "z", "photons", "background"}};
  static const char *const std_names[][COMPUTE_FIT_MAX_PARAMETERS] = {
      {"x_std", "y_std", "photons_std", "background_std"},
      {"x_std", "y_std", "photons_std", "background_std", "sigma_std"},
      {"x_std", "y_std", "photons_std", "background_std", "sigma_x_std", "sigma_y_std"},
      {"x_std", "y_std", "z_std", "photons_std", "background_std"},
      {"x_std", "y_std", "z_std", "photons_std", "background_std"}};
  compute_fit_model model = set->problem.model;
  add(set, (column){.name = "roi", .source = COLUMN_ROI, .type = TYPE_I64});
  if (set->corners) {
    add(set, (column){.name = "frame", .source = COLUMN_FRAME, .type = TYPE_I64});
    add(set, (column){.name = "roi_row", .source = COLUMN_ROW, .type = TYPE_I32});
    add(set, (column){.name = "roi_column", .source = COLUMN_COLUMN, .type = TYPE_I32});
  }
  add(set, (column){.name = "x", .source = COLUMN_X, .type = TYPE_F64});
  add(set, (column){.name = "y", .source = COLUMN_Y, .type = TYPE_F64});
  for (int32_t i = 2; i < set->parameters; i++) {
    add(set,
        (column){
            .name = names[model][i], .source = COLUMN_PARAMETER, .index = i, .type = TYPE_F32});
  }
  for (int32_t i = 0; has(set, COMPUTE_FIT_STD) && i < set->parameters; i++) {
    add(set,
        (column){.name = std_names[model][i], .source = COLUMN_STD, .index = i, .type = TYPE_F32});
  }
  if (has(set, COMPUTE_FIT_COVARIANCE)) {
    add(set, (column){.name = "covariance",
                      .source = COLUMN_COVARIANCE,
                      .type = TYPE_F32,
                      .side = set->parameters});
  }
  add_fit_quality(set, options, "log_likelihood_ratio");
}

/* ---- CSV ----------------------------------------------------------------------------------- */

typedef struct csv_units {
  bool nm;
  double length; /* nm per pixel, or 1 */
  int decimals;
} csv_units;

/* Returns the name in nm or in px. */
static const char *in_unit(const csv_units *units, const char *nm, const char *px) {
  return units->nm ? nm : px;
}

static void add_length(column_set *set, const csv_units *units, const char *nm, const char *px,
                       column_source source, int32_t index) {
  add(set, (column){.name = in_unit(units, nm, px),
                    .source = source,
                    .index = index,
                    .type = TYPE_F64,
                    .offset = source == COLUMN_X || source == COLUMN_Y ? 0.5 : 0,
                    .scale = units->length,
                    .decimals = units->decimals});
}

static void add_csv_widths(column_set *set, const csv_units *units, bool without) {
  const model_places at = places_of(set->problem.model);
  bool z = at.z >= 0, fitted = at.sigma_x >= 0;
  if (!fitted && without) return;
  bool two =
      z || at.sigma_x != at.sigma_y || (!fitted && set->problem.sigma[1] != set->problem.sigma[0]);
  column_source x = fitted ? COLUMN_PARAMETER : COLUMN_WIDTH_X;
  column_source y = fitted ? COLUMN_PARAMETER : COLUMN_WIDTH_Y;
  if (two) {
    add_length(set, units, "sigma1 [nm]", "sigma1 [px]", x, at.sigma_x);
    add_length(set, units, "sigma2 [nm]", "sigma2 [px]", y, at.sigma_y);
  } else {
    add_length(set, units, "sigma [nm]", "sigma [px]", x, at.sigma_x);
  }
}

/* Adds columns without a ThunderSTORM name. */
static void add_csv_std(column_set *set, const csv_units *units) {
  const model_places at = places_of(set->problem.model);
  add_length(set, units, "uncertainty_x [nm]", "uncertainty_x [px]", COLUMN_STD, 0);
  add_length(set, units, "uncertainty_y [nm]", "uncertainty_y [px]", COLUMN_STD, 1);
  if (at.sigma_x >= 0 && at.sigma_x == at.sigma_y) {
    add_length(set, units, "uncertainty_sigma [nm]", "uncertainty_sigma [px]", COLUMN_STD,
               at.sigma_x);
  } else if (at.sigma_x >= 0) {
    add_length(set, units, "uncertainty_sigma1 [nm]", "uncertainty_sigma1 [px]", COLUMN_STD,
               at.sigma_x);
    add_length(set, units, "uncertainty_sigma2 [nm]", "uncertainty_sigma2 [px]", COLUMN_STD,
               at.sigma_y);
  }
  add(set, (column){.name = "uncertainty_intensity [photon]",
                    .source = COLUMN_STD,
                    .index = at.photons,
                    .type = TYPE_F64,
                    .decimals = 3});
  add(set, (column){.name = "uncertainty_offset [photon]",
                    .source = COLUMN_STD,
                    .index = at.background,
                    .type = TYPE_F64,
                    .decimals = 4});
}

static void make_csv(column_set *set, const results_options *options) {
  const model_places at = places_of(set->problem.model);
  const bool nm = options->pixel_size > 0 && !options->in_pixels;
  csv_units units = {nm, nm ? options->pixel_size : 1, nm ? 4 : 6};
  add(set, (column){.name = "id", .source = COLUMN_ROI, .type = TYPE_I64, .offset = 1});
  add(set, (column){.name = "frame", .source = COLUMN_FRAME, .type = TYPE_I64, .offset = 1});
  add_length(set, &units, "x [nm]", "x [px]", COLUMN_X, 0);
  add_length(set, &units, "y [nm]", "y [px]", COLUMN_Y, 0);
  csv_units depth = {true, 1000, 4}; /* z is always in µm */
  if (at.z >= 0) add_length(set, &depth, "z [nm]", "z [nm]", COLUMN_PARAMETER, at.z);
  add_csv_widths(set, &units, !has_width(set, options));
  add(set, (column){.name = "intensity [photon]",
                    .source = COLUMN_PARAMETER,
                    .index = at.photons,
                    .type = TYPE_F64,
                    .decimals = 3});
  add(set, (column){.name = "offset [photon]",
                    .source = COLUMN_PARAMETER,
                    .index = at.background,
                    .type = TYPE_F64,
                    .decimals = 4});
  add(set, (column){.name = "bkgstd [photon]",
                    .source = COLUMN_BACKGROUND_STD,
                    .type = TYPE_F64,
                    .decimals = 4});
  if (has(set, COMPUTE_FIT_STD)) {
    add_length(set, &units, "uncertainty_xy [nm]", "uncertainty_xy [px]", COLUMN_STD_XY, 0);
    if (at.z >= 0)
      add_length(set, &depth, "uncertainty_z [nm]", "uncertainty_z [nm]", COLUMN_STD, at.z);
    add_csv_std(set, &units);
  }
  add_fit_quality(set, options, "log_likelihood_ratio");
}

/* ---- HDF5 ---------------------------------------------------------------------------------- */

static void add_f32(column_set *set, const char *name, column_source source, int32_t index,
                    double scale) {
  add(set,
      (column){.name = name, .source = source, .index = index, .type = TYPE_F32, .scale = scale});
}

static void make_hdf5(column_set *set, const results_options *options) {
  const model_places at = places_of(set->problem.model);
  bool fitted = at.sigma_x >= 0, std = has(set, COMPUTE_FIT_STD);
  add(set, (column){.name = "frame", .source = COLUMN_FRAME, .type = TYPE_U32});
  add_f32(set, "x", COLUMN_X, 0, 1);
  add_f32(set, "y", COLUMN_Y, 0, 1);
  if (at.z >= 0) add_f32(set, "z", COLUMN_PARAMETER, at.z, 1000);
  add_f32(set, "photons", COLUMN_PARAMETER, at.photons, 1);
  if (fitted || has_width(set, options)) {
    add_f32(set, "sx", fitted ? COLUMN_PARAMETER : COLUMN_WIDTH_X, at.sigma_x, 1);
    add_f32(set, "sy", fitted ? COLUMN_PARAMETER : COLUMN_WIDTH_Y, at.sigma_y, 1);
  }
  add_f32(set, "bg", COLUMN_PARAMETER, at.background, 1);
  if (std) {
    add_f32(set, "lpx", COLUMN_STD, 0, 1);
    add_f32(set, "lpy", COLUMN_STD, 1, 1);
    if (at.z >= 0) add_f32(set, "lpz", COLUMN_STD, at.z, 1000);
    add_f32(set, "photons_std", COLUMN_STD, at.photons, 1);
    add_f32(set, "bg_std", COLUMN_STD, at.background, 1);
    if (fitted) add_f32(set, "sx_std", COLUMN_STD, at.sigma_x, 1);
    if (fitted) add_f32(set, "sy_std", COLUMN_STD, at.sigma_y, 1);
  }
  add_fit_quality(set, options, "log_likelihood");
}

/* ---- Sets ---------------------------------------------------------------------------------- */

void columns_make(const results_options *options, column_set *set) {
  *set = (column_set){.problem = *options->problem,
                      .corners = options->corners,
                      .stack = options->stack,
                      .saturation = options->saturation};
  memcpy(set->origin, options->origin, sizeof set->origin);
  if (set->problem.outputs == 0) set->problem.outputs = COMPUTE_FIT_USUAL_OUTPUTS;
  if (set->problem.sigma[1] == 0) set->problem.sigma[1] = set->problem.sigma[0];
  set->parameters = compute_fit_parameter_count(set->problem.model);
  switch (options->format) {
  case RESULTS_NPY: make_npy(set, options); break;
  case RESULTS_CSV: make_csv(set, options); break;
  case RESULTS_HDF5:
    make_hdf5(set, options);
    set->inside = true;
    break;
  }
}

static const struct {
  const char *code;
  size_t bytes;
} types[] = {[TYPE_I64] = {"i8", 8}, [TYPE_I32] = {"i4", 4}, [TYPE_U32] = {"u4", 4},
             [TYPE_U8] = {"u1", 1},  [TYPE_F32] = {"f4", 4}, [TYPE_F64] = {"f8", 8}};

const char *column_type_code(column_type type) {
  return types[type].code;
}

size_t column_type_bytes(column_type type) {
  return types[type].bytes;
}

/* ---- Headers of .npy ------------------------------------------------------------------------- */

size_t npy_begin(char *text, size_t room) {
  return NPY_START + (size_t)snprintf(text + NPY_START, room - NPY_START, "{'descr': [");
}

size_t npy_put_column(char *text, size_t used, size_t room, const char *name, column_type type,
                      int32_t rows, int32_t columns) {
  const uint16_t one = 1;
  const char order = *(const unsigned char *)&one == 1 ? '<' : '>';
  char matrix[32] = "";
  if (rows) snprintf(matrix, sizeof matrix, ", (%d, %d)", (int)rows, (int)columns);
  return used + (size_t)snprintf(text + used, room - used, "%s('%s', '%c%s'%s)",
                                 text[used - 1] == '[' ? "" : ", ", name,
                                 column_type_bytes(type) == 1 ? '|' : order, column_type_code(type),
                                 matrix);
}

size_t npy_end(char *text, size_t used, size_t room, int64_t rows, int digits) {
  const int length = snprintf(NULL, 0, "%" PRId64, rows);
  used += (size_t)snprintf(text + used, room - used,
                           "], 'fortran_order': False, 'shape': (%" PRId64 ",), }%*s", rows,
                           digits > length ? digits - length : 0, "");
  while ((used + 1) % 64 != 0) text[used++] = ' ';
  text[used++] = '\n';
  memcpy(text, "\x93NUMPY\x01", 7);
  text[7] = 0;
  text[8] = (char)((used - NPY_START) & 255);
  text[9] = (char)((used - NPY_START) >> 8);
  return used;
}

/* ---- Values -------------------------------------------------------------------------------- */

/* Reads entry `at` of the `width` entries of each row. */
static void take_f32(const column_rows *rows, const float *from, int32_t width, int32_t at,
                     double *values) {
  for (int32_t i = 0; i < rows->count; i++) values[i] = (double)from[rows->index[i] * width + at];
}

static void take_parameter(const column_set *set, const column_rows *rows, int32_t index,
                           double *values) {
  take_f32(rows, rows->results->parameters, set->parameters, index, values);
}

static void take_std(const column_set *set, const column_rows *rows, int32_t index,
                     double *values) {
  take_f32(rows, rows->results->std, set->parameters, index, values);
}

/* Reads one of the three numbers of a corner. Without corners it is `base`, plus the ROI's index
 * for the frame. */
static void take_corner(const column_set *set, const column_rows *rows, int32_t which,
                        double *values) {
  for (int32_t i = 0; i < rows->count; i++) {
    int64_t at = rows->index[i], base = set->origin[which] + (which == 0 ? rows->frame : 0);
    if (rows->corners)
      values[i] = (double)(base + rows->corners[3 * at + which]);
    else
      values[i] = which == 0 ? (double)(rows->roi + at) : 0;
  }
}

/* Reads x or y (axis 0, 1) in the frame. A spot at the edge of the first pixel, −1/2, is outside
 * Picasso's image, and Picasso drops such rows. */
#define INSIDE 1e-3
static void take_position(const column_set *set, const column_rows *rows, int32_t axis,
                          double *values) {
  double corners[MAX_ROWS];
  take_corner(set, rows, axis == 0 ? 2 : 1, corners);
  take_parameter(set, rows, axis, values);
  for (int32_t i = 0; i < rows->count; i++) values[i] += corners[i];
  const uint8_t *status = rows->results->status;
  for (int32_t i = 0; set->inside && status && i < rows->count; i++)
    if (status[rows->index[i]] == COMPUTE_FIT_AT_BOUND) values[i] = fmax(values[i], INSIDE);
}

/* Reads the width along x (axis 0) or y (1), in pixels: the given one, or the width at z. */
static void take_width(const column_set *set, const column_rows *rows, int axis, double *values) {
  const compute_fit_problem *p = &set->problem;
  bool by_z = p->model == COMPUTE_FIT_XYZNB;
  if (by_z) take_parameter(set, rows, 2, values);
  for (int32_t i = 0; i < rows->count; i++) {
    double t = by_z ? (axis == 0 ? values[i] - p->gamma : values[i] + p->gamma) / p->depth : 0;
    values[i] = p->sigma[axis] * sqrt(1 + t * t * (1 + t * (p->a[axis] + t * p->b[axis])));
  }
}

static void take_std_xy(const column_set *set, const column_rows *rows, double *values) {
  double y[MAX_ROWS];
  take_std(set, rows, 0, values);
  take_std(set, rows, 1, y);
  for (int32_t i = 0; i < rows->count; i++)
    values[i] = sqrt((values[i] * values[i] + y[i] * y[i]) / 2);
}

static void take_background_std(const column_set *set, const column_rows *rows, double *values) {
  const compute_fit_problem *p = &set->problem;
  double factor = p->camera == COMPUTE_FIT_EMCCD ? 2 : 1; /* the excess noise factor */
  double readout = p->variance;
  take_parameter(set, rows, compute_fit_has_z(p->model) ? 4 : 3, values);
  for (int32_t i = 0; i < rows->count; i++) values[i] = sqrt(factor * values[i] + readout);
}

static void take_saturated(const column_set *set, const column_rows *rows, double *values) {
  for (int32_t i = 0; i < rows->count; i++) {
    const int64_t at = rows->index[i];
    const int32_t *corner = !set->stack && rows->corners ? rows->corners + 3 * at : NULL;
    values[i] = saturation_count(set->saturation, corner ? rows->frame + corner[0] : rows->roi + at,
                                 corner ? corner[1] : 0, corner ? corner[2] : 0, set->problem.rows,
                                 set->problem.columns);
  }
}

static void take_raw(const column_set *set, const column *c, const column_rows *rows,
                     double *values) {
  const compute_fit_results *results = rows->results;
  switch (c->source) {
  case COLUMN_ROI:
    for (int32_t i = 0; i < rows->count; i++) values[i] = (double)(rows->roi + rows->index[i]);
    break;
  case COLUMN_FRAME: take_corner(set, rows, 0, values); break;
  case COLUMN_ROW: take_corner(set, rows, 1, values); break;
  case COLUMN_COLUMN: take_corner(set, rows, 2, values); break;
  case COLUMN_X: take_position(set, rows, 0, values); break;
  case COLUMN_Y: take_position(set, rows, 1, values); break;
  case COLUMN_PARAMETER: take_parameter(set, rows, c->index, values); break;
  case COLUMN_STD: take_std(set, rows, c->index, values); break;
  case COLUMN_WIDTH_X: take_width(set, rows, 0, values); break;
  case COLUMN_WIDTH_Y: take_width(set, rows, 1, values); break;
  case COLUMN_STD_XY: take_std_xy(set, rows, values); break;
  case COLUMN_BACKGROUND_STD: take_background_std(set, rows, values); break;
  case COLUMN_RATIO: take_f32(rows, results->ratio, 1, 0, values); break;
  case COLUMN_P_RAW: take_f32(rows, results->p_raw, 1, 0, values); break;
  case COLUMN_P_VALUE: take_f32(rows, results->p_value, 1, 0, values); break;
  case COLUMN_ITERATIONS:
    for (int32_t i = 0; i < rows->count; i++) values[i] = results->iterations[rows->index[i]];
    break;
  case COLUMN_STATUS:
    for (int32_t i = 0; i < rows->count; i++) values[i] = results->status[rows->index[i]];
    break;
  case COLUMN_SIGNIFICANCE: take_f32(rows, results->significance, 1, 0, values); break;
  case COLUMN_SATURATED: take_saturated(set, rows, values); break;
  case COLUMN_COVARIANCE: break;
  }
}

void column_values(const column_set *set, const column *c, const column_rows *rows,
                   double *values) {
  take_raw(set, c, rows, values);
  if (c->offset == 0 && c->scale == 1) return;
  for (int32_t i = 0; i < rows->count; i++) values[i] = (values[i] + c->offset) * c->scale;
}

/* ---- Records ------------------------------------------------------------------------------- */

#define PUT_ALL(type)                                                                              \
  for (int32_t i = 0; i < count; i++, at += stride) {                                              \
    type value = (type)values[i];                                                                  \
    memcpy(at, &value, sizeof value);                                                              \
  }                                                                                                \
  break

static void put_values(column_type type, const double *values, int32_t count, unsigned char *at,
                       size_t stride) {
  switch (type) {
  case TYPE_I64: PUT_ALL(int64_t);
  case TYPE_I32: PUT_ALL(int32_t);
  case TYPE_U32: PUT_ALL(uint32_t);
  case TYPE_U8: PUT_ALL(uint8_t);
  case TYPE_F32: PUT_ALL(float);
  case TYPE_F64: PUT_ALL(double);
  }
}

static void put_matrices(const column_set *set, const column *c, const column_rows *rows,
                         unsigned char *at) {
  size_t elements = (size_t)(c->side * c->side);
  for (int32_t i = 0; i < rows->count; i++, at += set->record_bytes)
    memcpy(at, rows->results->covariance + (size_t)rows->index[i] * elements, elements * 4);
}

void columns_put_records(const column_set *set, const column_rows *rows, unsigned char *records) {
  double values[MAX_ROWS];
  for (int32_t i = 0; i < set->count; i++) {
    const column *c = &set->columns[i];
    if (c->side) {
      put_matrices(set, c, rows, records);
      records += 4 * (size_t)(c->side * c->side);
    } else {
      column_values(set, c, rows, values);
      put_values(c->type, values, rows->count, records, set->record_bytes);
      records += column_type_bytes(c->type);
    }
  }
}

/* ---- Lines --------------------------------------------------------------------------------- */

size_t columns_line_bytes(const column_set *set) {
  return (size_t)set->count * (NUMBER_TEXT_MOST + 1);
}

/* Returns the number format of a column. */
static int decimals_of(const column *c) {
  if (c->type != TYPE_F32 && c->type != TYPE_F64) return NUMBER_INTEGER;
  return c->decimals == COLUMN_SHORT ? NUMBER_SHORT : c->decimals;
}

/* Writes each row as numbers and separators. Nearly all cells have at most 16 characters, so they
 * are copied with two moves for any length. */
static char *join_cells(number_cell cells[][NUMBER_CELLS], int32_t columns, int32_t rows,
                        char *text) {
  for (int32_t i = 0; i < rows; i++) {
    for (int32_t j = 0; j < columns; j++) {
      const number_cell *cell = &cells[j][i];
      memcpy(text, cell->text, 16);
      if (cell->length > 16) memcpy(text + 16, cell->text + 16, cell->length - 16u);
      text += cell->length;
      *text++ = ',';
    }
    text[-1] = '\n';
  }
  return text;
}

char *columns_put_lines(const column_set *set, const column_rows *rows, char *text) {
  number_cell cells[MAX_COLUMNS][NUMBER_CELLS];
  double values[MAX_ROWS];
  for (int32_t first = 0; first < rows->count; first += NUMBER_CELLS) {
    column_rows some = {rows->results, rows->corners, rows->roi, rows->frame, 0, {0}};
    some.count = rows->count - first < NUMBER_CELLS ? rows->count - first : NUMBER_CELLS;
    memcpy(some.index, rows->index + first, (size_t)some.count * sizeof *some.index);
    for (int32_t j = 0; j < set->count; j++) {
      column_values(set, &set->columns[j], &some, values);
      number_cells(values, some.count, decimals_of(&set->columns[j]), cells[j]);
    }
    text = join_cells(cells, set->count, some.count, text);
  }
  return text;
}

char *columns_put_heading(const column_set *set, char *text) {
  for (int32_t i = 0; i < set->count; i++) {
    size_t length = strlen(set->columns[i].name);
    if (i > 0) *text++ = ',';
    *text++ = '"';
    memcpy(text, set->columns[i].name, length);
    text += length;
    *text++ = '"';
  }
  *text++ = '\n';
  return text;
}
