/* SPDX-License-Identifier: MIT */
/* Tables of localisations, read whole: the files of compute-fit fit (.csv, .hdf5, .npy), and tables
 * of other programs with the same columns. Unknown columns are kept unchanged. */
#ifndef TOOLS_FIT_TABLE_H
#define TOOLS_FIT_TABLE_H

#include <stdio.h>

#include "programs/fit/columns.h"
#include "programs/fit/options.h"

#define TABLE_MOST_COLUMNS 96
#define TABLE_NAME_BYTES   64

typedef struct table_column {
  char name[TABLE_NAME_BYTES]; /* as in the file: "x", "x [nm]" */
  column_type type;            /* in the file; values are doubles here */
  int32_t rows, columns;       /* size of a matrix in each row; 0, 0: a number */
  int32_t first;               /* index among the values of a row */
  int decimals;                /* digits in text, as in struct column */
} table_column;

typedef struct table {
  results_format format;
  int64_t rows;
  int32_t count, stride; /* number of columns; values per row */
  table_column columns[TABLE_MOST_COLUMNS];
  double *values; /* [rows, stride] */
  char *history;  /* the text of HDF5's side-car; NULL: none */
} table;

/* Reads the file at `path`, whose extension gives the format. Release with table_release. */
compute_status table_read(const char *path, table *t, failure *why);

/* Checks that a table can be written to `path`: the extension must be a known format, and, without
 * `overwrite`, neither the file nor HDF5's side-car may exist. */
compute_status table_check_output(const char *path, bool overwrite, failure *why);

/* Makes the same check and writes the table in its format. The file gets its name when it is
 * complete. `command` ("link") is added to HDF5's side-car. */
compute_status table_write(const table *t, const char *path, bool overwrite, const char *command,
                           failure *why);

void table_release(table *t);

/* The column `name` with any unit: "x" also finds "x [nm]". NULL: there is none. */
const table_column *table_find(const table *t, const char *name);

/* Returns true if the table's lengths are in nm. */
bool table_in_nm(const table *t);

/* Changes a column's type from integers to real numbers. */
void table_make_real(table_column *c);

/* A number in HDF5's side-car, such as Pixelsize, Width or Height; 0: it is missing. */
double table_number_of_history(const table *t, const char *key);

/* ---- Formats ------------------------------------------------------------------------------- */

compute_status table_read_npy(const char *path, table *t, failure *why);
compute_status table_read_csv(const char *path, table *t, failure *why);
compute_status table_read_hdf5(const char *path, table *t, failure *why);
compute_status table_write_npy(const table *t, FILE *file);
compute_status table_write_csv(const table *t, FILE *file);
compute_status table_write_hdf5(const table *t, const char *path, failure *why);

/* Adds a column to a table that is being read; COMPUTE_ERROR_UNSUPPORTED if there are too many. */
compute_status table_describe(table *t, const char *path, const char *name, size_t length,
                              column_type type, failure *why);

/* Allocates the values for `rows` rows. */
compute_status table_allocate(table *t, const char *path, int64_t rows, failure *why);

/* ---- Localisations ------------------------------------------------------------------------- */

/* Positions in pixels from the centre of the first pixel, heights in nm, frames from 0. */
typedef struct spots {
  int64_t count, frames; /* frames: the largest + 1 */
  int64_t *frame;
  double *x, *y;
  double *std_x, *std_y; /* NULL: the table has none */
  double *z, *std_z;     /* NULL: the table has none */
  double pixel_size;     /* nm; 0: unknown */
} spots;

/* Takes the spots from a table. If its lengths are in nm, `pixel_size` (nm; 0: not given) is
 * needed. */
compute_status spots_take(const table *t, double pixel_size, spots *s, failure *why);
void spots_release(spots *s);

/* Moves the rows of the table that the spots come from. `moves` has three numbers per row: x, y
 * (pixels) and z (nm). */
void spots_move(const spots *s, const double *moves, table *t);

/* The median uncertainty of x and y together, in pixels, and of z, in nm; 0 without
 * uncertainties. */
double spots_median_std(const spots *s);
double spots_median_std_z(const spots *s);

/* Reads the table of a command, and keeps the rows that --where, --region and --frames select.
 * Prints errors and returns an exit status. Release `t` and `s` in any case. */
int spots_open(const fit_arguments *a, table *t, spots *s);

#endif
