/* SPDX-License-Identifier: MIT */
/* The file has "key: number" lines, then "values:" with a list of numbers for each row of nodes,
 * plane after plane. The numbers are few enough for text, which any program can read. */
#include "programs/fit/spline_file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/fit/command.h"
#include "programs/fit/whole_file.h"

#define MOST_NODES 4097

/* ---- Reading ------------------------------------------------------------------------------- */

typedef struct reader {
  const char *path;
  FILE *file;
  char *line; /* buffer of getline */
  size_t room;
  int number; /* line number */
  failure *why;
} reader;

/* The next line that is not blank, a comment or "---", without indentation and comment; NULL at the
 * end. */
static char *next_line(reader *r) {
  while (getline(&r->line, &r->room, r->file) >= 0) {
    char *text = r->line + strspn(r->line, " \t");
    r->number++;
    text[strcspn(text, "#\r\n")] = '\0';
    if (text[0] && strcmp(text, "---") != 0) return text;
  }
  return NULL;
}

static compute_status bad_line(const reader *r, const char *what) {
  return failure_set(r->why, COMPUTE_ERROR_FORMAT, NULL, "%s, line %d: %s", r->path, r->number,
                     what);
}

/* The value of "key: value", or NULL. */
static const char *value_of(const char *line, const char *key) {
  const size_t length = strlen(key);
  if (strncmp(line, key, length) != 0 || line[length] != ':') return NULL;
  return line + length + 1 + strspn(line + length + 1, " \t");
}

static compute_status read_head(reader *r, spline_values *s) {
  double number[7];
  static const char *const key[7] = {"planes", "rows",    "columns", "spot_x",
                                     "spot_y", "z_first", "z_step"};
  uint32_t found = 0;
  const char *line;
  while ((line = next_line(r)) != NULL && !value_of(line, "values")) {
    const char *value = value_of(line, "model");
    if (value) continue; /* calibration_take has read it */
    int i = 0;
    while (i < 7 && !(value = value_of(line, key[i]))) i++;
    char *end = NULL;
    if (i < 7) number[i] = strtod(value, &end);
    if (i == 7 || end == value || !isfinite(number[i]))
      return bad_line(r, "not 'KEY: NUMBER' with one of the keys planes, rows, columns, spot_x, "
                         "spot_y, z_first and z_step");
    found |= 1u << i;
  }
  if (!line || found != (1u << 7) - 1)
    return bad_line(r, "a key or the values are missing: is the file whole?");
  for (int i = 0; i < 3; i++)
    if (!(number[i] >= 2 && number[i] <= MOST_NODES && number[i] == floor(number[i])))
      return bad_line(r, "invalid number of nodes");
  if (!(number[6] > 0)) return bad_line(r, "z_step must be positive");
  *s = (spline_values){(int32_t)number[0],
                       (int32_t)number[1],
                       (int32_t)number[2],
                       {number[3], number[4]},
                       number[5],
                       number[6],
                       NULL};
  return COMPUTE_OK;
}

static compute_status read_row(reader *r, int32_t count, float *values) {
  char *text = next_line(r), *end;
  if (!text || strncmp(text, "- [", 3) != 0)
    return bad_line(r, "a row of values is missing: is the file whole?");
  text += 3;
  for (int32_t i = 0; i < count; i++, text = end) {
    text += i > 0 && *text == ',';
    values[i] = strtof(text, &end);
    if (end == text || !isfinite(values[i])) return bad_line(r, "too few numbers in a row");
  }
  return text[strspn(text, " ")] == ']' ? COMPUTE_OK : bad_line(r, "too many numbers in a row");
}

static compute_status read_values(reader *r, spline_values *s) {
  const int64_t rows = (int64_t)s->planes * s->rows;
  compute_status status = COMPUTE_OK;
  s->values = malloc((size_t)rows * (size_t)s->columns * sizeof *s->values);
  if (!s->values)
    return failure_set(r->why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory for %s", r->path);
  for (int64_t i = 0; !status && i < rows; i++)
    status = read_row(r, s->columns, s->values + i * s->columns);
  return status;
}

compute_status spline_file_read(const char *path, spline_values *s, failure *why) {
  reader r = {.path = path, .file = fopen(path, "r"), .why = why};
  *s = (spline_values){0};
  if (!r.file) return failure_set_system(why, errno, NULL, "cannot read '%s'", path);
  compute_status status = read_head(&r, s);
  if (!status) status = read_values(&r, s);
  if (status) free(s->values);
  if (status) s->values = NULL;
  free(r.line);
  fclose(r.file);
  return status;
}

/* ---- Writing ------------------------------------------------------------------------------- */

compute_status spline_file_write(const char *path, const spline_values *s, const char *comment,
                                 failure *why) {
  whole_file file;
  const compute_status status = whole_file_open(&file, path, why);
  if (status) return status;
  fprintf(file.stream,
          "# %s\n"
          "# a cubic spline through these nodes, a pixel apart in x and y; z in micrometres\n"
          "model: SPLINE\n"
          "planes: %d\nrows: %d\ncolumns: %d\n"
          "spot_x: %.6f\nspot_y: %.6f\nz_first: %.6f\nz_step: %.6f\nvalues:\n",
          comment, (int)s->planes, (int)s->rows, (int)s->columns, s->spot[0], s->spot[1],
          s->z_first, s->z_step);
  for (int64_t i = 0; i < (int64_t)s->planes * s->rows; i++)
    for (int32_t j = 0; j < s->columns; j++)
      fprintf(file.stream, "%s%.7g%s", j ? ", " : "- [", (double)s->values[i * s->columns + j],
              j + 1 < s->columns ? "" : "]\n");
  return whole_file_close(&file, COMPUTE_OK, why);
}

/* ---- Using --------------------------------------------------------------------------------- */

compute_status spline_values_use(const spline_values *s, compute_fit_problem *problem,
                                 failure *why) {
  static float *kept;
  const size_t cells = (size_t)(s->planes - 1) * (size_t)(s->rows - 1) * (size_t)(s->columns - 1);
  free(kept);
  kept = malloc(cells * COMPUTE_FIT_SPLINE_COEFFICIENTS * sizeof *kept);
  if (!kept)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory for the spline");
  const compute_status status =
      compute_fit_spline_make(NULL, s->values, s->planes, s->rows, s->columns, kept);
  if (status) return failure_set(why, status, NULL, "%s", compute_error_message(NULL));
  problem->model = COMPUTE_FIT_SPLINE;
  problem->spline = kept;
  problem->z_step = s->z_step;
  problem->z_first = s->z_first;
  memcpy(problem->spot, s->spot, sizeof problem->spot);
  problem->cells[0] = s->planes - 1;
  problem->cells[1] = s->rows - 1;
  problem->cells[2] = s->columns - 1;
  problem->cells[3] = 0;
  return COMPUTE_OK;
}

int calibration_take(fit_arguments *a) {
  reader r = {.path = a->calibration};
  if (!a->calibration) return EXIT_GOOD;
  if (a->astigmatism) {
    fit_say("--calibration and --astigmatism name the same thing; give only one of them");
    return EXIT_USAGE;
  }
  r.file = fopen(r.path, "r");
  if (!r.file) {
    fit_say("--calibration: cannot read '%s': %s", r.path, strerror(errno));
    return EXIT_FAILED;
  }
  const char *line = next_line(&r), *model = line ? value_of(line, "model") : NULL;
  const bool spline = model && !strncmp(model, "SPLINE", 6);
  const int32_t found = spline ? COMPUTE_FIT_SPLINE : COMPUTE_FIT_XYZNB;
  free(r.line);
  fclose(r.file);
  if (option_given(&a->line, "--model") && a->model != found) {
    fit_say("--model: '%s' is a calibration for %s", a->calibration,
            compute_fit_model_name((compute_fit_model)found));
    return EXIT_USAGE;
  }
  a->model = found;
  if (!spline) a->astigmatism = a->calibration;
  return EXIT_GOOD;
}
