/* SPDX-License-Identifier: MIT */
/* Tables of localisations, and conditions. The first byte selects one: a .npy of records, a .csv
 * (fuzz_csv tests its numbers), or a condition, which is evaluated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"
#include "fuzz.h"
#include "programs/fit/expression.h"
#include "programs/fit/table.h"

enum { ROWS = 7 };

/* The reader opens and closes contexts. This context keeps the module loaded: unloading it would
 * remove the counters that libFuzzer reads after each run. */
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  static compute_context *keep;
  (void)argc;
  (void)argv;
  setenv("COMPUTE_THREADS", "1", 1);
  setenv("COMPUTE_BACKENDS", "cpu", 1);
  FUZZ_CHECK(!compute_open(&keep, NULL));
  return 0;
}

static int32_t find_column(const void *table, const char *name, size_t length) {
  (void)table;
  return length == 1 && (name[0] == 'x' || name[0] == 'y') ? name[0] - 'x' : -1;
}

static const char *name_of(const void *table, int32_t column) {
  (void)table;
  return column < 2 ? &"x\0y"[2 * column] : NULL;
}

static void take_values(const void *rows, int32_t column, double *values) {
  (void)rows;
  for (int i = 0; i < ROWS; i++) values[i] = column ? 1.5 - i : i;
}

static void try_condition(const uint8_t *data, size_t size) {
  char *text = calloc(1, size + 1); /* exact size: the sanitizer detects one byte more */
  FUZZ_CHECK(text);
  memcpy(text, data, size);
  const expression_names names = {NULL, find_column, name_of};
  failure why = {.status = COMPUTE_OK};
  expression *e = NULL;
  const compute_status status = expression_parse(text, &names, &e, &why);
  FUZZ_CHECK((status == COMPUTE_OK) == (e != NULL) && status == why.status);
  FUZZ_CHECK(status != COMPUTE_ERROR_INTERNAL);
  double result[ROWS];
  if (e) expression_evaluate(e, ROWS, take_values, NULL, result);
  free(e);
  free(text);
}

static void try_table(compute_status (*read)(const char *, table *, failure *),
                      results_format format, const uint8_t *data, size_t size) {
  table t = {.format = format};
  spots s = {0};
  failure why = {.status = COMPUTE_OK};
  const compute_status status = read(fuzz_file(data, size), &t, &why);
  FUZZ_CHECK(status == why.status && status != COMPUTE_ERROR_INTERNAL);
  if (!status && !spots_take(&t, 100, &s, &why)) {
    double *moves = calloc((size_t)s.count * 3 + 1, sizeof *moves);
    FUZZ_CHECK(moves);
    spots_move(&s, moves, &t);
    free(moves);
  }
  if (!status) {
    FILE *nowhere = fopen("/dev/null", "w");
    FUZZ_CHECK(nowhere);
    (format == RESULTS_CSV ? table_write_csv : table_write_npy)(&t, nowhere);
    fclose(nowhere);
  }
  spots_release(&s);
  table_release(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  if (data[0] % 3 == 0)
    try_table(table_read_npy, RESULTS_NPY, data + 1, size - 1);
  else if (data[0] % 3 == 1)
    try_table(table_read_csv, RESULTS_CSV, data + 1, size - 1);
  else
    try_condition(data + 1, size - 1);
  return 0;
}
