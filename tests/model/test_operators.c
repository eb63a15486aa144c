/* SPDX-License-Identifier: MIT */
/* The operator list in docs/reference/onnx.md matches the library. To update it, run this test with
 * COMPUTE_UPDATE_DOCS=1. The test also checks that each operator resolves to the right version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "model/record.h"
#include "support/harness/test.h"

static const char path[] = TEST_SOURCE_DIR "/docs/reference/onnx.md";
static const char begin[] = "<!-- operators -->\n", end[] = "<!-- end of operators -->\n";

static int by_name(const void *a, const void *b) {
  const operator_row *x = *(const operator_row *const *)a, *y = *(const operator_row *const *)b;
  const int domain = strcmp(x->domain, y->domain), name = strcmp(x->name, y->name);
  return domain ? domain : name ? name : x->first - y->first;
}

static size_t sorted_rows(const operator_row **rows, size_t room) {
  size_t count = 0;
  for (; operator_at(count); count++) {
    assert_true(count < room);
    rows[count] = operator_at(count);
  }
  qsort(rows, count, sizeof *rows, by_name);
  return count;
}

static void print_rows(text_buffer *text, const operator_row *const *rows, size_t count) {
  const char *domain = NULL;
  size_t column = 0;
  for (size_t i = 0; i < count; i++) {
    char word[96];
    if (!domain || strcmp(domain, rows[i]->domain) != 0) {
      text_add(text, "%s**%s**\n\n", domain ? "\n\n" : "\n",
               rows[i]->domain[0] ? rows[i]->domain : "ai.onnx");
      column = 0;
    }
    domain = rows[i]->domain;
    const bool last = i + 1 == count || strcmp(rows[i + 1]->domain, domain) != 0;
    snprintf(word, sizeof word, "`%s` %d%s", rows[i]->name, rows[i]->first, last ? "" : ",");
    const bool first = column == 0, wraps = !first && column + 1 + strlen(word) > 100;
    text_add(text, "%s%s", first ? "" : wraps ? "\n" : " ", word);
    column = first || wraps ? strlen(word) : column + 1 + strlen(word);
  }
  text_add(text, "\n\n");
}

static char *read_page(void) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  text_buffer text = {0};
  char line[4096];
  while (fgets(line, sizeof line, file)) text_add(&text, "%s", line);
  fclose(file);
  return text.data;
}

static void the_list_of_operators_is_current(void **state) {
  (void)state;
  const operator_row *rows[1024];
  text_buffer list = {0}, whole = {0};
  print_rows(&list, rows, sorted_rows(rows, sizeof rows / sizeof *rows));
  char *page = read_page(), *from = strstr(page, begin), *to = strstr(page, end);
  assert_true(from && to && from < to);
  from += strlen(begin);
  text_add(&whole, "%.*s%s%s", (int)(from - page), page, list.data, to);
  assert_false(whole.failed);
  if (getenv("COMPUTE_UPDATE_DOCS")) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(whole.data, file);
    assert_int_equal(fclose(file), 0);
  } else {
    assert_string_equal(page, whole.data);
  }
  compute_text_free(page);
  text_release(&list);
  text_release(&whole);
}

static void no_operator_is_there_twice(void **state) {
  (void)state;
  const operator_row *rows[1024];
  const size_t count = sorted_rows(rows, sizeof rows / sizeof *rows);
  for (size_t i = 1; i < count; i++)
    if (by_name(&rows[i - 1], &rows[i]) == 0)
      fail_msg("%s %d appears twice", rows[i]->name, rows[i]->first);
}

static void the_version_that_holds_is_found(void **state) {
  (void)state;
  for (size_t i = 0; operator_at(i); i++) {
    const operator_row *row = operator_at(i);
    assert_true(operator_find(row->domain, row->name, row->first) == row->rule);
    assert_non_null(operator_find(row->domain, row->name, 1000));
  }
  assert_null(operator_find("", "NoSuchOperator", 20));
  assert_null(operator_find("elsewhere", "Relu", 20));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_list_of_operators_is_current),
      cmocka_unit_test(no_operator_is_there_twice),
      cmocka_unit_test(the_version_that_holds_is_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
