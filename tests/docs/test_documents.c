/* SPDX-License-Identifier: MIT */
/* Documents that repeat a table of the library agree with it.
 *
 * docs/reference/operations.md is generated from the table of operations. To update it, run this
 * test with COMPUTE_UPDATE_DOCS=1. docs/reference/environment.md is written by hand and must name
 * every variable that the library reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"
#include "core/base/text.h"
#include "support/harness/test.h"

static const char operations_path[] = TEST_SOURCE_DIR "/docs/reference/operations.md";
static const char environment_path[] = TEST_SOURCE_DIR "/docs/reference/environment.md";

static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  text_buffer text = {0};
  char line[4096];
  while (fgets(line, sizeof line, file)) text_add(&text, "%s", line);
  fclose(file);
  return text.data;
}

/* '|' ends a cell of a table. */
static void add_cell(text_buffer *t, const char *words) {
  for (; *words; words++) text_add(t, *words == '|' ? "\\|" : "%c", *words);
}

static void print_operations(text_buffer *t) {
  text_add(
      t,
      "# Operations\n\n"
      "Generated from the library's own table (`src/graph/ops.def`). `compute_<name>` appends a "
      "node to a\n"
      "graph; `compute_tensor_<name>` runs the operation at once. Operands broadcast as in NumPy "
      "and must\n"
      "have equal dtypes.\n\n"
      "Domains:\n\n"
      "* *float* is f64, f32, f16, bf16.\n"
      "* *integer* is i64, i32, i16, i8, u64, u32, u16, u8.\n"
      "* *number* is both.\n"
      "* *ordered* and *ordered integer* are these without u64.\n"
      "* *logic* is bool; *byte* is i8 and u8; *any* is all of them.\n\n"
      "`compute_gradients` and `compute_conv2d_transpose` append the operations ending in "
      "`_by_data` or\n"
      "`_by_filter`. `compute_lstm`, `compute_gru` and `compute_rnn` append `recurrent`.\n\n"
      "The operations of `graph_nn.h` have no eager call: neural networks and fits, and `sort`, "
      "`argsort`,\n"
      "`top_k`, `cumulative_sum`, `pad`, `one_hot` and `upsample2d`.\n\n"
      "| operation | kind | dtypes | gradient | result |\n"
      "|---|---|---|---|---|\n");
  compute_operation_info info;
  for (size_t i = 0; compute_operation_at(i, &info) == COMPUTE_OK; i++) {
    text_add(t, "| `%s` | %s | %s | %s | ", info.name, info.category, info.domain,
             info.differentiable ? "yes" : "–");
    add_cell(t, info.text);
    text_add(t, " |\n");
  }
}

static void the_table_of_operations_is_current(void **state) {
  (void)state;
  text_buffer expected = {0};
  print_operations(&expected);
  assert_false(expected.failed);
  if (getenv("COMPUTE_UPDATE_DOCS")) {
    FILE *file = fopen(operations_path, "wb");
    assert_non_null(file);
    fputs(expected.data, file);
    assert_int_equal(fclose(file), 0);
  }
  char *found = read_file(operations_path);
  assert_non_null(found);
  assert_string_equal(found, expected.data);
  compute_text_free(found);
  text_release(&expected);
}

static void every_variable_is_documented(void **state) {
  (void)state;
  char *page = read_file(environment_path);
  assert_non_null(page);
  for (size_t i = 0; compute_variable_at(i); i++) {
    char name[80];
    snprintf(name, sizeof name, "`%s`", compute_variable_at(i)->name);
    if (!strstr(page, name)) fail_msg("%s is not in docs/reference/environment.md", name);
  }
  compute_text_free(page);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_table_of_operations_is_current),
      cmocka_unit_test(every_variable_is_documented),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
