/* SPDX-License-Identifier: MIT */
/* docs/reference/errors.md has one complete row for every status, and no other rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"
#include "core/base/text.h"
#include "support/harness/test.h"

static const char page_path[] = TEST_SOURCE_DIR "/docs/reference/errors.md";

enum { COLUMNS = 4, MOST_STATUSES = 100 };

/* The name in a row of a status table, or NULL if the line is no such row. Checks that the row has
 * all cells. */
static char *row_name(char *line) {
  char *cell[COLUMNS + 1] = {0};
  int cells = 0;
  if (strncmp(line, "| `COMPUTE_", strlen("| `COMPUTE_")) != 0) return NULL;
  for (char *c = strtok(line, "|\n"); c && cells <= COLUMNS; c = strtok(NULL, "|\n"))
    cell[cells++] = c;
  if (cells != COLUMNS) fail_msg("the row of %s has %d cells", cell[0], cells);
  for (int i = 0; i < COLUMNS; i++)
    if (strlen(cell[i]) < 3) fail_msg("the row of %s lacks words", cell[0]);
  char *end = strchr(cell[0] + 2, '`');
  assert_non_null(end);
  *end = '\0';
  return cell[0] + 2;
}

/* The index of a status in the library's list, or −1. */
static int index_of(const char *name) {
  compute_status status;
  const size_t count = compute_status_list(0, NULL);
  for (size_t i = 0; i < count; i++) {
    compute_status_list(i, &status);
    if (strcmp(compute_status_name(status), name) == 0) return (int)i;
  }
  return -1;
}

static void every_status_has_one_row(void **state) {
  (void)state;
  char line[2048];
  int seen[MOST_STATUSES] = {0};
  const size_t count = compute_status_list(0, NULL);
  assert_true(count > 20 && count <= MOST_STATUSES);
  FILE *file = fopen(page_path, "rb");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    const char *name = row_name(line);
    if (!name) continue;
    const int index = index_of(name);
    if (index < 0)
      fail_msg("docs/reference/errors.md has a row for %s, which is not a status", name);
    if (seen[index]++) fail_msg("docs/reference/errors.md has two rows for %s", name);
  }
  fclose(file);
  for (size_t i = 0; i < count; i++) {
    compute_status status;
    compute_status_list(i, &status);
    if (!seen[i])
      fail_msg("docs/reference/errors.md has no row for %s", compute_status_name(status));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_status_has_one_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
