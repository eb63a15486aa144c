/* SPDX-License-Identifier: MIT */
/* docs/reference/support-matrix.md gives the largest error for every operation, dtype and backend.
 * The operation tests measure it (support/harness/measure.h).
 *
 * They write their results to this test's scratch folder. With COMPUTE_UPDATE_DOCS=1 the page is
 * written again from them, and keeps its entries for backends without results. Otherwise the page
 * is checked: it must be complete and agree with the new results. Numbers may differ between
 * machines. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "compute/compute.h"
#include "support/samples/elementwise.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"

static const char page_path[] = TEST_SOURCE_DIR "/docs/reference/support-matrix.md";
static const char *const backends[] = {"cpu", "opencl", "cuda"};

enum { BACKENDS = 3, OPERATIONS = 128, CELL = 24 };

typedef struct finding {
  bool known, elsewhere, wrong;
  double ulp, relative;
} finding;

static finding found[BACKENDS][OPERATIONS][COMPUTE_DTYPE_COUNT];
static char found_on[BACKENDS][300];

static char written[BACKENDS][OPERATIONS][COMPUTE_DTYPE_COUNT][CELL];
static char written_on[BACKENDS][300];

/* ---- Operations and backends --------------------------------------------------------------- */

static int operation_index(const char *name, compute_operation_info *info) {
  for (int i = 0; compute_operation_at((size_t)i, info) == COMPUTE_OK; i++) {
    assert_true(i < OPERATIONS);
    if (strcmp(info->name, name) == 0) return i;
  }
  return -1;
}

static int dtype_index(const char *name) {
  for (int i = 1; i < COMPUTE_DTYPE_COUNT; i++)
    if (strcmp(compute_dtype_name((compute_dtype)i), name) == 0) return i;
  return -1;
}

/* Draws compute in f64; builders convert their numbers. */
static bool takes(const compute_operation_info *info, compute_dtype dtype) {
  if (strcmp(info->category, "draw") == 0) return dtype == COMPUTE_F64;
  const compute_dtype *list = operation_all_dtypes(info->domain);
  while (*list != COMPUTE_DTYPE_NONE && *list != dtype) list++;
  return *list == dtype;
}

/* Fits have other promises: docs/guide/fitting.md. The errors of a caller's function are
 * unknown. */
static bool belongs_here(const compute_operation_info *info) {
  return strcmp(info->category, "fit") != 0 && strcmp(info->category, "call") != 0;
}

/* Single roundings count in units of the last place. If many roundings add up, the error of an
 * element near zero is meaningless, so errors are relative to the largest element. */
static bool in_last_places(const compute_operation_info *info) {
  static const char *const summing[] = {"reduction",   "row",     "matmul",         "indexed",
                                        "convolution", "window",  "attention",      "recurrent",
                                        "scan",        "fourier", "linear algebra", "trees"};
  for (size_t i = 0; i < sizeof summing / sizeof *summing; i++)
    if (strcmp(info->category, summing[i]) == 0) return false;
  return true;
}

/* ---- The findings of the operation tests ----------------------------------------------------- */

static void take_line(int backend, const char *line) {
  char operation[40], dtype[8];
  int elsewhere, wrong;
  double ulp, relative;
  compute_operation_info info;
  if (sscanf(line, "%39s %7s %lf %lf %d %d", operation, dtype, &ulp, &relative, &elsewhere,
             &wrong) != 6)
    fail_msg("not a finding: %s", line);
  const int row = operation_index(operation, &info), column = dtype_index(dtype);
  if (row < 0 || column < 0) fail_msg("not in the table of operations: %s", line);
  finding *f = &found[backend][row][column];
  f->known = true;
  f->elsewhere = f->elsewhere || elsewhere;
  f->wrong = f->wrong || wrong;
  f->ulp = fmax(f->ulp, ulp);
  f->relative = fmax(f->relative, relative);
}

static void take_file(const char *path) {
  char line[512], device[64];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_non_null(fgets(line, sizeof line, file));
  line[strcspn(line, "\n")] = '\0';
  int model = 0, backend = 0;
  if (sscanf(line, "device %63s %n", device, &model) != 1) fail_msg("no device: %s", line);
  const size_t length = strcspn(device, ":");
  while (backend < BACKENDS &&
         (strlen(backends[backend]) != length || strncmp(backends[backend], device, length) != 0))
    backend++;
  if (backend < BACKENDS) {
    snprintf(found_on[backend], sizeof found_on[backend], "Measured on `%s`: %.200s.", device,
             line + model);
    while (fgets(line, sizeof line, file)) take_line(backend, line);
  }
  fclose(file);
}

static void take_findings(void) {
  DIR *folder = opendir(TEST_SCRATCH_DIR);
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    char path[1024];
    const size_t length = strlen(entry->d_name);
    if (length < 4 || strcmp(entry->d_name + length - 4, ".txt") != 0) continue;
    snprintf(path, sizeof path, "%s/%s", TEST_SCRATCH_DIR, entry->d_name);
    take_file(path);
  }
  closedir(folder);
}

/* ---- The page ------------------------------------------------------------------------------ */

/* The next cell of a table row, without blanks and backquotes around it. */
static char *next_cell(char **rest) {
  char *cell = *rest, *end = cell ? strchr(cell, '|') : NULL;
  if (!end) return NULL;
  *end = '\0';
  *rest = end + 1;
  cell += strspn(cell, " `");
  for (end = cell + strlen(cell); end > cell && strchr(" `", end[-1]);) *--end = '\0';
  return cell;
}

static void take_row(int backend, char *line) {
  char *rest = line + 1, *name = next_cell(&rest);
  compute_operation_info info;
  const int row = name ? operation_index(name, &info) : -1;
  if (row < 0 || !next_cell(&rest)) return;
  for (int column = 1; column < COMPUTE_DTYPE_COUNT; column++) {
    const char *cell = next_cell(&rest);
    if (!cell) return;
    snprintf(written[backend][row][column], CELL, "%s", cell);
  }
}

/* Returns false if there is no page yet. */
static bool take_page(void) {
  char line[1024];
  int backend = -1;
  FILE *file = fopen(page_path, "r");
  if (!file) return false;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    for (int i = 0; i < BACKENDS; i++)
      if (strncmp(line, "## ", 3) == 0 && strcmp(line + 3, backends[i]) == 0) backend = i;
    if (backend >= 0 && strncmp(line, "Measured on ", 12) == 0)
      snprintf(written_on[backend], sizeof written_on[backend], "%.299s", line);
    if (backend >= 0 && line[0] == '|') take_row(backend, line);
  }
  fclose(file);
  return true;
}

static void describe_finding(const compute_operation_info *info, const finding *f, char *cell) {
  const double error = in_last_places(info) ? f->ulp : f->relative;
  if (f->wrong)
    snprintf(cell, CELL, "wrong");
  else if (f->elsewhere)
    snprintf(cell, CELL, "CPU");
  else if (error == 0)
    snprintf(cell, CELL, "exact");
  else if (in_last_places(info))
    snprintf(cell, CELL, "%.2g", error);
  else
    snprintf(cell, CELL, "%.1e", error);
}

static void print_backend(text_buffer *t, int backend) {
  compute_operation_info info;
  const bool measured = found_on[backend][0] != '\0';
  const char *place = measured ? found_on[backend] : written_on[backend];
  text_add(t, "\n## %s\n\n%s\n\n| operation | kind |", backends[backend],
           place[0] ? place : "Not measured yet.");
  for (int d = 1; d < COMPUTE_DTYPE_COUNT; d++)
    text_add(t, " %s |", compute_dtype_name((compute_dtype)d));
  text_add(t, "\n|---|---|");
  for (int d = 1; d < COMPUTE_DTYPE_COUNT; d++) text_add(t, "---|");
  text_add(t, "\n");
  for (int i = 0; compute_operation_at((size_t)i, &info) == COMPUTE_OK; i++) {
    if (!belongs_here(&info)) continue;
    text_add(t, "| `%s` | %s |", info.name, info.category);
    for (int d = 1; d < COMPUTE_DTYPE_COUNT; d++) {
      const finding *f = &found[backend][i][d];
      char *cell = written[backend][i][d];
      if (!takes(&info, (compute_dtype)d))
        snprintf(cell, CELL, "–");
      else if (f->known)
        describe_finding(&info, f, cell);
      else if (cell[0] == '\0')
        snprintf(cell, CELL, "not measured");
      text_add(t, " %s |", cell);
    }
    text_add(t, "\n");
  }
}

static void write_page(void) {
  text_buffer t = {0};
  text_add(
      &t,
      "# Support matrix\n\n"
      "The matrix lists the operations, backends and dtypes that work together. Each cell is the "
      "largest\n"
      "error of the operation tests against a double-precision reference, over all their samples, "
      "with\n"
      "fusion and without. `tests/run.sh --full` measures it, and\n"
      "`COMPUTE_UPDATE_DOCS=1 build/tests/bin/docs_support_matrix` writes this page.\n\n"
      "* A number such as 0.5 is in units of the last place of the result's dtype; 0.5 is the "
      "best that\n"
      "  rounding allows. In f64 the reference itself is accurate to a few units.\n"
      "* A number such as 2.1e-07 is the error relative to the largest element of the result. It "
      "is used\n"
      "  for reductions, rows, matrix products and indexed operations, where many roundings add "
      "up.\n"
      "* *exact*: no error at all. *CPU*: the device leaves it to the CPU backend. –: the "
      "operation does\n"
      "  not take this dtype.\n"
      "* `cast` is listed under its source dtype; its error is in units of its target dtype.\n"
      "* *Simulated GPU*: not a GPU. The fake driver of the tests ran the CUDA kernels as C on "
      "the CPU\n"
      "  (`tests/cuda_driver/`), with the C library's functions where a GPU has its own.\n");
  for (int backend = 0; backend < BACKENDS; backend++) print_backend(&t, backend);
  assert_false(t.failed);
  FILE *file = fopen(page_path, "wb");
  assert_non_null(file);
  fputs(t.data, file);
  assert_int_equal(fclose(file), 0);
  text_release(&t);
}

/* ---- Promises ------------------------------------------------------------------------------ */

static int read_all(void **state) {
  (void)state;
  take_findings();
  const bool there = take_page();
  if (!getenv("COMPUTE_UPDATE_DOCS")) return there ? 0 : -1;
  write_page();
  memset(written, 0, sizeof written); /* the check uses values that were read back */
  return take_page() ? 0 : -1;
}

static bool is_number(const char *cell) {
  char *end;
  return cell[0] != '\0' && (strtod(cell, &end), *end == '\0');
}

static void every_operation_has_a_cell_for_every_dtype_and_backend(void **state) {
  (void)state;
  compute_operation_info info;
  for (int i = 0; compute_operation_at((size_t)i, &info) == COMPUTE_OK; i++) {
    for (int d = 1; d < COMPUTE_DTYPE_COUNT && belongs_here(&info); d++) {
      for (int b = 0; b < BACKENDS; b++) {
        const char *cell = written[b][i][d];
        const bool outside = strcmp(cell, "–") == 0;
        const bool answer = is_number(cell) || strcmp(cell, "exact") == 0 ||
                            strcmp(cell, "CPU") == 0 ||
                            (b == 2 && strcmp(cell, "not measured") == 0);
        if (takes(&info, (compute_dtype)d) ? !answer : !outside)
          fail_msg("docs/reference/support-matrix.md says \"%s\" of %s in %s on %s; see "
                   "COMPUTE_UPDATE_DOCS",
                   cell, info.name, compute_dtype_name((compute_dtype)d), backends[b]);
      }
    }
  }
}

/* ops.def gives the bound for f32. Special values have twice the bound, and rounding adds half a
 * unit. */
static void errors_are_within_what_the_table_of_operations_allows(void **state) {
  (void)state;
  compute_operation_info info;
  const elementwise_row *row;
  for (size_t i = 0; (row = elementwise_at(i)) != NULL; i++) {
    const int index = operation_index(row->name, &info);
    for (int b = 0; b < BACKENDS; b++) {
      const char *cell = written[b][index][COMPUTE_F32];
      const double limit = fmax(0.5, 2 * row->ulp);
      if (is_number(cell) && strtod(cell, NULL) > limit)
        fail_msg("%s in f32 on %s: %s units, allowed %g", row->name, backends[b], cell, limit);
      const finding *f = &found[b][index][COMPUTE_F32];
      if (f->known && !f->elsewhere && f->ulp > limit)
        fail_msg("%s in f32 on %s: %g units measured, allowed %g", row->name, backends[b], f->ulp,
                 limit);
    }
  }
}

/* Excludes f64: a device without f64 may fall back to the CPU. */
static void what_is_said_to_run_on_a_device_does(void **state) {
  (void)state;
  compute_operation_info info;
  int known = 0;
  for (int i = 0; compute_operation_at((size_t)i, &info) == COMPUTE_OK; i++) {
    for (int d = COMPUTE_F32; d < COMPUTE_DTYPE_COUNT; d++) {
      for (int b = 0; b < BACKENDS; b++) {
        const finding *f = &found[b][i][d];
        const char *cell = written[b][i][d];
        if (!f->known || strcmp(cell, "not measured") == 0) continue;
        known++;
        const char *now = f->wrong ? "is wrong" : f->elsewhere ? "went to the CPU" : "runs";
        if (f->wrong || f->elsewhere != (strcmp(cell, "CPU") == 0))
          fail_msg("%s in %s on %s %s; docs/reference/support-matrix.md says \"%s\"", info.name,
                   compute_dtype_name((compute_dtype)d), backends[b], now, cell);
      }
    }
  }
  if (known == 0) print_message("No operation test has run in this build yet.\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_operation_has_a_cell_for_every_dtype_and_backend),
      cmocka_unit_test(errors_are_within_what_the_table_of_operations_allows),
      cmocka_unit_test(what_is_said_to_run_on_a_device_does),
  };
  return cmocka_run_group_tests(tests, read_all, NULL);
}
