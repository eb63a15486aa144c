/* SPDX-License-Identifier: MIT */
/* Documents that repeat a table of the library agree with it.
 *
 * docs/reference/operations.md and docs/reference/numpy.md are generated from the table of
 * operations. To update them, run this test with COMPUTE_UPDATE_DOCS=1. docs/reference/environment.md is written by hand and must name
 * every variable that the library reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"
#include "core/base/text.h"
#include "support/harness/test.h"

static const char operations_path[] = TEST_SOURCE_DIR "/docs/reference/operations.md";
static const char numpy_path[] = TEST_SOURCE_DIR "/docs/reference/numpy.md";
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

static void print_composed(text_buffer *t, const char *name, const char *domain,
                           const char *gradient, const char *words) {
  char lower[24] = "";
  for (size_t i = 0; domain[i] && i + 1 < sizeof lower; i++) lower[i] = (char)(domain[i] | 0x20);
  text_add(t, "| `%s` | composed | %s | %s | ", name, lower,
           strcmp(gradient, "NONE") ? "yes" : "–");
  add_cell(t, words);
  text_add(t, " |\n");
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
      "A *composed* operation is made of others, and has no kernel. Neural networks and "
      "fits of\n"
      "`graph_nn.h` and `fit.h` have no eager call. `unique`, `unique_slices` and `nonzero` have "
      "no "
      "builder,\n"
      "because the size of their result depends on values. [NumPy's calls](numpy.md) lists "
      "operations "
      "by\n"
      "NumPy's names.\n\n"
      "| operation | kind | dtypes | gradient | result |\n"
      "|---|---|---|---|---|\n");
  compute_operation_info info;
  for (size_t i = 0; compute_operation_at(i, &info) == COMPUTE_OK; i++) {
    text_add(t, "| `%s` | %s | %s | %s | ", info.name, info.category, info.domain,
             info.differentiable ? "yes" : "–");
    add_cell(t, info.text);
    text_add(t, " |\n");
  }
#define COMPOSED(name, form, domain, gradient, text)                                               \
  print_composed(t, #name, #domain, #gradient, text);
#include "graph/ops.def"
}

/* Writes the page, if asked to, and compares it. */
static void check_page(const char *path, text_buffer *expected) {
  assert_false(expected->failed);
  if (getenv("COMPUTE_UPDATE_DOCS")) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(expected->data, file);
    assert_int_equal(fclose(file), 0);
  }
  char *found = read_file(path);
  assert_non_null(found);
  assert_string_equal(found, expected->data);
  compute_text_free(found);
  text_release(expected);
}

static void the_table_of_operations_is_current(void **state) {
  (void)state;
  text_buffer expected = {0};
  print_operations(&expected);
  check_page(operations_path, &expected);
}

/* ---- NumPy's calls --------------------------------------------------------------------------- */

/* Rows of ops.def: the gradient is a rule, FLOWS or NONE. */
static const struct {
  const char *name, *gradient, *form;
} table[] = {
#define ELEMENTWISE(name, arity, instruction, domain, result, gradient, ...) {#name, #gradient, ""},
#define STRUCTURAL(name, category, domain, gradient, ...)                    {#name, #gradient, ""},
#define COMPOSED(name, form, domain, gradient, text)                         {#name, #gradient, #form},
#include "graph/ops.def"
};

static const struct {
  const char *call, *name, *note;
} numpy[] = {
#define NUMPY(call, name, note) {call, #name, note},
#include "graph/ops.def"
};

/* True if a header declares the function. */
static bool is_declared(const char *headers, const char *prefix, const char *name) {
  char text[80];
  snprintf(text, sizeof text, " %s%s(", prefix, name);
  return strstr(headers, text) != NULL;
}

static void print_numpy(text_buffer *t, const char *builders, const char *eager) {
  text_add(
      t,
      "# NumPy's calls\n\n"
      "Generated from the library's table of operations (`src/graph/ops.def`), as the [table of "
      "all\n"
      "operations](operations.md). Builders are in `graph.h`, `graph_array.h` and "
      "`graph_nn.h`, eager calls in\n"
      "`eager.h` and `eager_array.h`. Gradients have gradients. *All*: the CPU and every device; "
      "a device\n"
      "without a kernel for a part falls back to the CPU for it. *CPU*: the CPU searches a copy "
      "of the\n"
      "elements, because the size of the result depends on values; graphs have no such "
      "operation.\n\n"
      "| NumPy | builder | eager call | gradient | backends | |\n"
      "|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < sizeof numpy / sizeof *numpy; i++) {
    size_t row = 0;
    while (row < sizeof table / sizeof *table && strcmp(table[row].name, numpy[i].name) != 0) row++;
    if (row == sizeof table / sizeof *table) fail_msg("%s is no operation", numpy[i].name);
    const bool valued = strcmp(table[row].form, "VALUED") == 0;
    const bool built = is_declared(builders, "compute_", numpy[i].name);
    const bool run = is_declared(eager, "compute_tensor_", numpy[i].name);
    if (built == valued || !run) fail_msg("%s has a wrong form", numpy[i].name);
    text_add(t, "| `%s` | ", numpy[i].call);
    text_add(t, built ? "`compute_%s` | " : "– | ", numpy[i].name);
    text_add(t, "`compute_tensor_%s` | %s | %s | %s |\n", numpy[i].name,
             strcmp(table[row].gradient, "NONE") ? "yes" : "–", valued ? "CPU" : "all",
             numpy[i].note);
  }
}

static char *read_headers(const char *const *names) {
  text_buffer all = {0};
  for (; *names; names++) {
    char path[1024];
    snprintf(path, sizeof path, "%s/include/compute/%s", TEST_SOURCE_DIR, *names);
    char *text = read_file(path);
    assert_non_null(text);
    text_add(&all, "%s", text);
    compute_text_free(text);
  }
  assert_false(all.failed);
  return all.data;
}

static void the_table_of_numpy_is_current(void **state) {
  (void)state;
  char *builders =
      read_headers((const char *const[]){"graph.h", "graph_array.h", "graph_nn.h", NULL});
  char *eager = read_headers((const char *const[]){"eager.h", "eager_array.h", NULL});
  text_buffer expected = {0};
  print_numpy(&expected, builders, eager);
  check_page(numpy_path, &expected);
  compute_text_free(builders);
  compute_text_free(eager);
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
      cmocka_unit_test(the_table_of_numpy_is_current),
      cmocka_unit_test(every_variable_is_documented),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
