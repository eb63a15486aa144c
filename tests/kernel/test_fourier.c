/* SPDX-License-Identifier: MIT */
/* Descriptors of FOURIER: their checks, cost, key and class. */
#include <string.h>

#include "kernel/descriptor_sample.h"

/* Three lines of twelve points. */
static sample fourier(bool real, bool halved) {
  const int64_t points = halved ? 7 : 12, results = real ? 7 : 12;
  const int64_t from = real ? 1 : 2, to = halved ? 1 : 2;
  sample s = {.d = {.struct_size = sizeof s.d,
                    .kind = COMPUTE_KERNEL_FOURIER,
                    .rank = 3,
                    .size = {3, results, to},
                    .input_count = 1,
                    .output_count = 1,
                    .accumulate = COMPUTE_F32},
              .input = {{COMPUTE_F32, {points * from, from, real ? 0 : 1}}},
              .output = {{COMPUTE_F32, {results * to, to, halved ? 0 : 1}}}};
  s.a.fourier = (compute_fourier_attributes){.length = 12,
                                             .points = points,
                                             .scale = 1,
                                             .inverse = halved,
                                             .real = real,
                                             .halved = halved};
  return s;
}

static void descriptors_are_checked(void **state) {
  (void)state;
  SPOILED(fourier(false, false), s.a.fourier.length = 0);
  SPOILED(fourier(false, false), s.a.fourier.length = INT64_C(1) << 32);
  SPOILED(fourier(false, false), s.a.fourier.points = 13);
  SPOILED(fourier(false, false), s.a.fourier.points = -1);
  SPOILED(fourier(false, false), s.d.size[1] = 13);
  SPOILED(fourier(false, false), s.d.size[2] = 1);
  SPOILED(fourier(false, false), s.d.accumulate = COMPUTE_F64);
  SPOILED(fourier(false, false), s.input[0].dtype = COMPUTE_F16);
  SPOILED(fourier(false, false), s.output[0].dtype = COMPUTE_I32);
  SPOILED(fourier(false, false), s.output[0].stride[1] = 0);
  SPOILED(fourier(false, false), s.d.rank = 1);
  SPOILED(fourier(false, false), s.d.input_count = 2);
  SPOILED(fourier(false, false), s.d.output_count = 0);
  SPOILED(fourier(true, false), s.a.fourier.inverse = true);
  SPOILED(fourier(true, false), s.d.size[1] = 8);
  SPOILED(fourier(false, true), s.a.fourier.inverse = false);
  SPOILED(fourier(false, true), s.a.fourier.points = 8);
  SPOILED(fourier(false, true), s.d.size[2] = 2);
}

static void elements_and_operations_are_counted(void **state) {
  (void)state;
  sample s = fourier(false, false), r = fourier(true, false);
  bind(&s);
  bind(&r);
  const kernel_cost c = kernel_cost_of(&s.d), half = kernel_cost_of(&r.d);
  assert_int_equal(c.bytes_read, 3 * 24 * 4);
  assert_int_equal(c.bytes_written, 3 * 24 * 4);
  assert_int_equal(half.bytes_read, 3 * 12 * 4);
  assert_int_equal(half.bytes_written, 3 * 14 * 4);
  assert_true(c.flops >= 5 * 3 * 12 * 3 && c.flops <= 5 * 3 * 12 * 4);
  assert_true(half.flops < c.flops);
}

static bool same_key(sample a, sample b) {
  static kernel_key first, second;
  bind(&a);
  bind(&b);
  kernel_key_write(&first, &a.d);
  kernel_key_write(&second, &b.d);
  return first.length == second.length && memcmp(first.bytes, second.bytes, first.length) == 0;
}

static void the_key_has_the_length_the_form_and_the_scale(void **state) {
  (void)state;
  sample other = fourier(false, false), scaled = other, inverse = other;
  other.a.fourier.length = 13;
  scaled.a.fourier.scale = 2;
  inverse.a.fourier.inverse = true;
  assert_true(same_key(fourier(false, false), fourier(false, false)));
  assert_false(same_key(fourier(false, false), other));
  assert_false(same_key(fourier(false, false), scaled));
  assert_false(same_key(fourier(false, false), inverse));
}

static void the_class_has_lines_length_and_prime(void **state) {
  (void)state;
  char text[KERNEL_CLASS_BYTES];
  sample s = fourier(false, false);
  bind(&s);
  assert_string_equal(kernel_class_print(&s.d, text), "fourier/f32>f32/fft/r2n4p2");
  s = fourier(true, false);
  bind(&s);
  assert_string_equal(kernel_class_print(&s.d, text), "fourier/f32>f32/rfft/r2n4p2");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(descriptors_are_checked),
      cmocka_unit_test(elements_and_operations_are_counted),
      cmocka_unit_test(the_key_has_the_length_the_form_and_the_scale),
      cmocka_unit_test(the_class_has_lines_length_and_prime),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
