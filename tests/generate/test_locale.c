/* SPDX-License-Identifier: MIT */
/* The host's locale never affects machine-readable text: kernel sources, JSON, tables, keys, names
 * in models. */
#include "support/harness/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/generate/generate.h"
#include "core/base/json.h"
#include "core/base/real.h"
#include "support/harness/locale.h"
#include "support/samples/sample_kernels.h"

enum { LOCALES = sizeof test_locales / sizeof *test_locales };

static locale_t locales[LOCALES];

static int make_locales(void **state) {
  (void)state;
  for (int i = 0; i < LOCALES; i++) {
    if (!test_locale_make(test_locales[i], TEST_SCRATCH_DIR)) exit(77);
    locales[i] = newlocale(LC_ALL_MASK, test_locales[i], (locale_t)0);
    assert_true(locales[i] != (locale_t)0);
  }
  return 0;
}

static int release_locales(void **state) {
  (void)state;
  for (int i = 0; i < LOCALES; i++) freelocale(locales[i]);
  return 0;
}

static void the_locales_are_those_that_differ(void **state) {
  (void)state;
  char german[32], pashto[32];
  const locale_t own = uselocale(locales[0]);
  snprintf(german, sizeof german, "%.1f", 1.5);
  uselocale(locales[1]);
  snprintf(pashto, sizeof pashto, "%.1f", 1.5);
  uselocale(own);
  assert_string_equal(german, "1,5");
  assert_string_equal(pashto, "1\xd9\xab"
                              "5");
}

/* ---- Sources --------------------------------------------------------------------------------- */

/* The source of a sample in one locale; NULL if there is none. */
static char *source_of(const sample_kernel *s, const compute_target *target, uint32_t way,
                       locale_t locale) {
  const compute_generated *generated = NULL;
  char reason[200], *text = NULL;
  const locale_t own = uselocale(locale);
  const compute_status status = generate_kernel(
      target, &s->descriptor, way ? &s->tuning[way - 1] : NULL, &generated, reason, sizeof reason);
  uselocale(own);
  if (status) return NULL;
  if (generated->source) text = strdup(generated->source);
  generate_release(generated);
  return text;
}

typedef struct seen {
  size_t count, real;
  bool kind[COMPUTE_KERNEL_KIND_COUNT];
} seen;

static void compare_sources(const sample_kernel *s, void *user) {
  static const compute_dialect dialects[] = {COMPUTE_DIALECT_OPENCL, COMPUTE_DIALECT_CUDA};
  seen *all = user;
  for (size_t d = 0; d < sizeof dialects / sizeof *dialects; d++)
    for (uint32_t way = 0; way <= s->tuning_count && way <= 2; way++) {
      const compute_target target = sample_target_create(TARGET_GPU, dialects[d]);
      char *plain = source_of(s, &target, way, LC_GLOBAL_LOCALE);
      const int first = (int)(all->count++ % LOCALES),
                last = way == 0 ? first + LOCALES : first + 1;
      for (int i = first; plain && i < last; i++) {
        char *text = source_of(s, &target, way, locales[i % LOCALES]);
        if (!text || strcmp(text, plain) != 0)
          fail_msg("%s, way %u: another source in %s", s->name, way, test_locales[i % LOCALES]);
        free(text);
      }
      if (plain) all->kind[s->descriptor.kind] = true;
      if (plain && strstr(plain, "0x1.")) all->real++;
      free(plain);
    }
}

static void every_kind_of_kernel_has_the_same_source(void **state) {
  (void)state;
  seen all = {0};
  sample_kernels_visit(compare_sources, &all);
  int kinds = 0;
  for (int kind = 0; kind < COMPUTE_KERNEL_KIND_COUNT; kind++) kinds += all.kind[kind];
  assert_true(kinds >= 14); /* four kinds are not generated */
  assert_true(all.real > 20);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static double bits_number(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void check_number(double value) {
  char expected[64], text[REAL_TEXT_BYTES];
  snprintf(expected, sizeof expected, "%a", value);
  if (isfinite(value)) assert_string_equal(real_hex(value, text), expected);
  for (int digits = 1; digits <= 17; digits += 8) {
    snprintf(expected, sizeof expected, "%.*g", digits, value);
    for (int i = 0; i < LOCALES; i++) {
      const locale_t own = uselocale(locales[i]);
      real_decimal(value, digits, text);
      uselocale(own);
      assert_string_equal(text, expected);
    }
  }
  for (int decimals = 0; decimals <= 3 && fabs(value) < 1e20; decimals++) {
    snprintf(expected, sizeof expected, "%.*f", decimals, value);
    for (int i = 0; i < LOCALES; i++) {
      const locale_t own = uselocale(locales[i]);
      real_fixed(value, decimals, text);
      uselocale(own);
      assert_string_equal(text, expected);
    }
  }
}

static void numbers_are_those_of_the_locale_c(void **state) {
  (void)state;
  static const double values[] = {0,         -0.0,    1,        -1.5,      0.1,      1e-3,
                                  1234567.5, DBL_MAX, DBL_MIN,  5e-324,    1.7e-310, 1e22,
                                  3,         FLT_MAX, INFINITY, -INFINITY, NAN};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) check_number(values[i]);
  uint64_t bits = 1;
  for (int i = 0; i < 20000; i++) {
    bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    check_number(bits_number(bits));
    check_number((double)(float)bits_number((bits >> 2) | UINT64_C(0x3000000000000000)));
  }
}

static void json_has_points(void **state) {
  (void)state;
  for (int i = 0; i < LOCALES; i++) {
    text_buffer text = {0};
    const locale_t own = uselocale(locales[i]);
    json_put_number(&text, "x", -2.25e-7);
    uselocale(own);
    assert_string_equal(text.data, ", \"x\": -2.25e-07");
    text_release(&text);
  }
}

/* ---- Letters --------------------------------------------------------------------------------- */

static void letters_are_those_of_ascii(void **state) {
  (void)state;
  for (int i = 0; i < LOCALES; i++) {
    const locale_t own = uselocale(locales[i]);
    assert_true(ascii_equal("INFinity", "infINITY"));
    assert_false(ascii_equal("inf", "infinity"));
    assert_false(ascii_equal("infinity", "inf"));
    assert_true(ascii_begins("Intel(R)", "INTEL"));
    assert_false(ascii_begins("In", "INTEL"));
    assert_true(ascii_is_alphanumeric('z') && ascii_is_alphanumeric('Z'));
    assert_false(ascii_is_alphanumeric((char)0xe4) || ascii_is_alphanumeric('_'));
    uselocale(own);
  }
}

static void tables_are_read_alike(void **state) {
  (void)state;
  static const float expected[] = {1.5f, -INFINITY, INFINITY, 0.30000001f};
  const char *path = TEST_SCRATCH_DIR "/table.csv";
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("1.5,-INF,Infinity,0.30000000000000004\n", file);
  fclose(file);
  compute_context *context = test_open();
  for (int i = 0; i < LOCALES; i++) {
    compute_tensor *tensor = NULL;
    float values[4];
    const locale_t own = uselocale(locales[i]);
    const compute_status status =
        compute_csv_read(compute_default_device(context), path, COMPUTE_F32, NULL, &tensor);
    uselocale(own);
    assert_ok(status);
    assert_ok(compute_tensor_read(tensor, values, sizeof values));
    assert_memory_equal(values, expected, sizeof values);
    compute_tensor_release(tensor);
  }
  test_close(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_locales_are_those_that_differ),
      cmocka_unit_test(every_kind_of_kernel_has_the_same_source),
      cmocka_unit_test(numbers_are_those_of_the_locale_c),
      cmocka_unit_test(json_has_points),
      cmocka_unit_test(letters_are_those_of_ascii),
      cmocka_unit_test(tables_are_read_alike),
  };
  return cmocka_run_group_tests(tests, make_locales, release_locales);
}
