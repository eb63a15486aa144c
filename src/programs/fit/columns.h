/* SPDX-License-Identifier: MIT */
/* The columns of a results file, and their values. */
#ifndef TOOLS_FIT_COLUMNS_H
#define TOOLS_FIT_COLUMNS_H

#include "programs/fit/results_file.h"

#define MAX_COLUMNS 40
#define MAX_ROWS    128 /* that are written at a time: few enough for the cache */

typedef enum column_source {
  COLUMN_ROI,   /* number of the ROI, from 0 */
  COLUMN_FRAME, /* from 0; without corners the ROI's number */
  COLUMN_ROW,   /* of the ROI's first pixel in its frame */
  COLUMN_COLUMN,
  COLUMN_X, /* in the frame, or without corners in the ROI; centres of pixels are whole */
  COLUMN_Y,
  COLUMN_PARAMETER, /* number `index` */
  COLUMN_STD,
  COLUMN_WIDTH_X, /* of a model that does not fit sigma */
  COLUMN_WIDTH_Y,
  COLUMN_STD_XY,         /* root of the mean of both variances */
  COLUMN_BACKGROUND_STD, /* of one pixel's noise far from the spot */
  COLUMN_COVARIANCE,     /* all of it */
  COLUMN_RATIO,
  COLUMN_P_RAW,
  COLUMN_P_VALUE,
  COLUMN_ITERATIONS,
  COLUMN_STATUS,
  COLUMN_SIGNIFICANCE,
  COLUMN_SATURATED /* saturated pixels of the ROI */
} column_source;

typedef enum column_type { TYPE_I64, TYPE_I32, TYPE_U32, TYPE_U8, TYPE_F32, TYPE_F64 } column_type;

#define COLUMN_SHORT (-1) /* `decimals` of columns with 7 significant digits */

typedef struct column {
  const char *name;
  column_source source;
  int32_t index;
  column_type type;
  double offset, scale; /* the file has (value + offset) · scale */
  int decimals;         /* in text; integers have none */
  int32_t side;         /* 0, or P for a matrix [P, P] */
} column;

typedef struct column_set {
  compute_fit_problem problem; /* outputs are never 0 */
  int32_t parameters;
  bool corners, stack;
  int64_t origin[3]; /* added to frame, row and column */
  const saturation *saturation;
  bool inside; /* fits at the bound −1/2 are written inside the image */
  size_t record_bytes;
  int32_t count;
  column columns[MAX_COLUMNS];
} column_set;

/* Some rows of the result arrays: entries index[0 … count − 1]. */
typedef struct column_rows {
  const compute_fit_results *results;
  const int32_t *corners; /* NULL without */
  int64_t roi, frame;     /* numbers of the arrays' first ROI, and of the corners' frame 0 */
  int32_t count;
  int64_t index[MAX_ROWS];
} column_rows;

/* The columns of a file; the fields of *options that describe results matter. */
void columns_make(const results_options *options, column_set *set);

/* NumPy's name of the type without the byte order: "i8", "f4". */
const char *column_type_code(column_type type);
size_t column_type_bytes(column_type type);

/* The values of a column that is not a matrix; integers are exact. `values` has MAX_ROWS
 * entries. */
void column_values(const column_set *set, const column *column, const column_rows *rows,
                   double *values);

/* Writes rows as packed records of set->record_bytes each. */
void columns_put_records(const column_set *set, const column_rows *rows, unsigned char *records);

/* Writes rows as lines of text, with columns_line_bytes of room for each; returns their end. */
char *columns_put_lines(const column_set *set, const column_rows *rows, char *text);
size_t columns_line_bytes(const column_set *set);

/* Writes the heading, as ThunderSTORM does: names in quotes. `text` has 2048 bytes. */
char *columns_put_heading(const column_set *set, char *text);

#endif
