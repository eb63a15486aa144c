/* SPDX-License-Identifier: MIT */
/* Tables of localisations, read whole: what compute-fit fit writes (.csv, .hdf5, .npy), and tables
 * of other programs with the same columns. A column that nothing here knows is kept as it is. */
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
  int32_t rows, columns;       /* of a matrix in each row, 0, 0: a number */
  int32_t first;               /* its place among the values of a row */
  int decimals;                /* of text, as in struct column */
} table_column;

typedef struct table {
  results_format format;
  int64_t rows;
  int32_t count, stride; /* columns, and values of a row */
  table_column columns[TABLE_MOST_COLUMNS];
  double *values; /* [rows, stride] */
  char *history;  /* the text of HDF5's side-car; NULL: none */
} table;

/* Reads the file at `path` of the format that its name says. Release with table_release. */
compute_status table_read(const char *path, table *t, failure *why);

/* Whether a table can be written there: the format by the name, and, without `overwrite`, that
 * neither the file nor HDF5's side-car exists. */
compute_status table_check_output(const char *path, bool overwrite, failure *why);

/* Checks that and writes it in the format of the table, under a temporary name first. `command`
 * ("link") is added to HDF5's side-car. */
compute_status table_write(const table *t, const char *path, bool overwrite, const char *command,
                           failure *why);

void table_release(table *t);

/* The column called `name`, whatever its unit: "x" also finds "x [nm]". NULL: there is none. */
const table_column *table_find(const table *t, const char *name);

/* Whether its lengths are in nm. */
bool table_in_nm(const table *t);

/* Makes a column of integers one of real numbers. */
void table_make_real(table_column *c);

/* A number such as Pixelsize, Width or Height in HDF5's side-car; 0: it is not there. */
double table_number_of_history(const table *t, const char *key);

/* ---- Formats ------------------------------------------------------------------------------- */

compute_status table_read_npy(const char *path, table *t, failure *why);
compute_status table_read_csv(const char *path, table *t, failure *why);
compute_status table_read_hdf5(const char *path, table *t, failure *why);
compute_status table_write_npy(const table *t, FILE *file);
compute_status table_write_csv(const table *t, FILE *file);
compute_status table_write_hdf5(const table *t, const char *path, failure *why);

/* Adds a column to one that is being read; COMPUTE_ERROR_UNSUPPORTED if there are too many. */
compute_status table_describe(table *t, const char *path, const char *name, size_t length,
                              column_type type, failure *why);

/* Allocates the values of `rows` rows. */
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

/* Takes them from a table. `pixel_size` (nm, 0: not given) is needed where lengths are in nm. */
compute_status spots_take(const table *t, double pixel_size, spots *s, failure *why);
void spots_release(spots *s);

/* Moves the rows of the table they were taken from by x, y (pixels) and z (nm), three a row. */
void spots_move(const spots *s, const double *moves, table *t);

/* The median of all uncertainties of x and y, in pixels, and of those of z, in nm; 0: there are
 * none. */
double spots_median_std(const spots *s);
double spots_median_std_z(const spots *s);

/* Reads the operand of a command and keeps what --where, --region and --frames select. Prints
 * errors, and returns an exit status. Release both in any case. */
int spots_open(const fit_arguments *a, table *t, spots *s);

#endif
