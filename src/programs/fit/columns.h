/* SPDX-License-Identifier: MIT */
/* The columns of a results file, and their values. */
#ifndef TOOLS_FIT_COLUMNS_H
#define TOOLS_FIT_COLUMNS_H

#include "programs/fit/results_file.h"

#define MAX_COLUMNS 40
#define MAX_ROWS    128 /* rows written at a time: few enough for the cache */

typedef enum column_source {
  COLUMN_ROI,   /* number of the ROI, from 0 */
  COLUMN_FRAME, /* from 0; without corners the ROI's number */
  COLUMN_ROW,   /* of the ROI's first pixel in its frame */
  COLUMN_COLUMN,
  COLUMN_X, /* in the frame, or without corners in the ROI; pixel centres are whole numbers */
  COLUMN_Y,
  COLUMN_PARAMETER, /* parameter number `index` */
  COLUMN_STD,
  COLUMN_WIDTH_X, /* for a model that does not fit sigma */
  COLUMN_WIDTH_Y,
  COLUMN_STD_XY,         /* root of the mean of both variances */
  COLUMN_BACKGROUND_STD, /* noise of one pixel far from the spot */
  COLUMN_COVARIANCE,     /* the whole matrix */
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
  double offset, scale; /* the file contains (value + offset) · scale */
  int decimals;         /* in text; unused for integers */
  int32_t side;         /* 0, or P for a matrix [P, P] */
} column;

typedef struct column_set {
  compute_fit_problem problem; /* outputs are never 0 */
  int32_t parameters;
  bool corners, stack;
  int64_t origin[3]; /* added to frame, row and column */
  const saturation *saturation;
  bool inside; /* moves fits at the bound −1/2 inside the image */
  size_t record_bytes;
  int32_t count;
  column columns[MAX_COLUMNS];
} column_set;

/* Some rows of the result arrays: entries index[0 … count − 1]. */
typedef struct column_rows {
  const compute_fit_results *results;
  const int32_t *corners; /* NULL: no corners */
  int64_t roi, frame;     /* numbers of the arrays' first ROI, and of frame 0 of the corners */
  int32_t count;
  int64_t index[MAX_ROWS];
} column_rows;

/* Makes the columns of a file from the fields of *options that describe results. */
void columns_make(const results_options *options, column_set *set);

/* Returns NumPy's name of the type without the byte order: "i8", "f4". */
const char *column_type_code(column_type type);
size_t column_type_bytes(column_type type);

/* The header of a .npy of records, in the first bytes of `text`: npy_begin, npy_put_column for each
 * column (a matrix unless `rows` is 0), npy_end. Each returns the bytes so far. Blanks replace the
 * missing digits of the number of rows, so that a header has one length for all numbers. */
enum { NPY_START = 10 };
size_t npy_begin(char *text, size_t room);
size_t npy_put_column(char *text, size_t used, size_t room, const char *name, column_type type,
                      int32_t rows, int32_t columns);
size_t npy_end(char *text, size_t used, size_t room, int64_t rows, int digits);

/* Reads the values of a column that is not a matrix. Integers are exact. `values` has MAX_ROWS
 * entries. */
void column_values(const column_set *set, const column *column, const column_rows *rows,
                   double *values);

/* Writes rows as packed records of set->record_bytes each. */
void columns_put_records(const column_set *set, const column_rows *rows, unsigned char *records);

/* Writes rows as lines of text and returns their end. The buffer must have columns_line_bytes for
 * each row. */
char *columns_put_lines(const column_set *set, const column_rows *rows, char *text);
size_t columns_line_bytes(const column_set *set);

/* Writes ThunderSTORM's heading, with the names in quotes. `text` has 2048 bytes. */
char *columns_put_heading(const column_set *set, char *text);

#endif
