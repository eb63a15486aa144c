/* SPDX-License-Identifier: MIT */
/* FOURIER on the CPU: the error against the definition in long double, for every instruction set,
 * form, length and layout, and the same bits for any number of threads and of lines. */
#include "kernel_fixture.h"

typedef enum fourier_form { COMPLEX, INVERSE, REAL, HALVED, FORMS } fourier_form;

typedef struct sample {
  int64_t lines, length;
  fourier_form form;
  compute_dtype dtype;
  bool across; /* lines are neighbours in memory */
  bool cut;    /* fewer points and results than the length */
} sample;

typedef struct operands {
  block in, out;
  int64_t points, results;
  compute_operand input, output;
  compute_fourier_attributes attributes;
  compute_kernel_descriptor d;
} operands;

static void create(operands *o, const sample *s, test_random *random) {
  const bool real = s->form == REAL, halved = s->form == HALVED;
  const int64_t half = s->length / 2 + 1, from = real ? 1 : 2, to = halved ? 1 : 2;
  *o = (operands){.points = halved ? half : s->length, .results = real ? half : s->length};
  if (s->cut) {
    o->points = o->points * 2 / 3;
    o->results = (o->results + 1) / 2;
  }
  o->attributes = (compute_fourier_attributes){.length = s->length,
                                               .points = o->points,
                                               .scale = 0.75,
                                               .inverse = s->form == INVERSE || halved,
                                               .real = real,
                                               .halved = halved};
  const int64_t in[] = {s->lines, o->points, from}, out[] = {s->lines, o->results, to};
  const int64_t in_along[] = {o->points * from + 1, from, 1},
                in_across[] = {from, s->lines * from, 1};
  const int64_t out_along[] = {o->results * to + 3, to, 1}, out_across[] = {to, s->lines * to, 1};
  o->in = block_create(s->dtype, 3, in, s->across ? in_across : in_along);
  o->out = block_create(s->dtype, 3, out, s->across ? out_across : out_along);
  block_fill(&o->in, -1, 1, random);
  o->input = operand_of(&o->in, 3);
  o->output = operand_of(&o->out, 3);
  o->d = (compute_kernel_descriptor){.struct_size = sizeof o->d,
                                     .kind = COMPUTE_KERNEL_FOURIER,
                                     .rank = 3,
                                     .size = {s->lines, o->results, to},
                                     .input_count = 1,
                                     .output_count = 1,
                                     .inputs = &o->input,
                                     .outputs = &o->output,
                                     .accumulate = s->dtype,
                                     .attributes = &o->attributes,
                                     .attribute_bytes = sizeof o->attributes};
}

static void release(operands *o) {
  block_release(&o->in);
  block_release(&o->out);
}

/* Result k of a line by the definition: real and imaginary part. */
static void define(const operands *o, const long double *roots, int64_t line, int64_t k,
                   long double sum[2]) {
  const compute_fourier_attributes *a = &o->attributes;
  sum[0] = sum[1] = 0;
  for (int64_t j = 0; j < o->points; j++) {
    const int64_t w = j * k % a->length;
    const bool alone = j == 0 || 2 * j == a->length;
    const long double weight = a->scale * (a->halved && !alone ? 2 : 1);
    const long double c = roots[2 * w], s = (a->inverse ? 1 : -1) * roots[2 * w + 1];
    const int64_t at = block_at(&o->in, (const int64_t[]){line, j, 0});
    const long double r = block_get(&o->in, at);
    const bool has_other = !a->real && !(a->halved && alone);
    const long double i = has_other ? block_get(&o->in, at + 1) : 0;
    sum[0] += weight * (r * c - i * s);
    sum[1] += weight * (r * s + i * c);
  }
}

/* The root mean square of the errors divided by the root mean square of the results, in units of
 * rounding. Of long transforms, some results are compared. */
static double error_of(const operands *o, const sample *s, test_random *random) {
  long double *roots = malloc((size_t)s->length * 2 * sizeof *roots);
  assert_non_null(roots);
  for (int64_t k = 0; k < s->length; k++) {
    const long double angle = 6.283185307179586476925286766559L * k / s->length;
    roots[2 * k] = cosl(angle);
    roots[2 * k + 1] = sinl(angle);
  }
  long double wrong = 0, whole = 0;
  const bool some = s->length * o->results > 40000;
  for (int64_t line = 0; line < s->lines; line++)
    for (int64_t n = 0; n < (some ? 12 : o->results); n++) {
      const int64_t k = some ? test_random_integer(random, 0, o->results - 1) : n;
      const int64_t at = block_at(&o->out, (const int64_t[]){line, k, 0});
      long double sum[2];
      define(o, roots, line, k, sum);
      for (int part = 0; part < (s->form == HALVED ? 1 : 2); part++) {
        const long double off = block_get(&o->out, at + part) - sum[part];
        wrong += off * off;
        whole += sum[part] * sum[part];
      }
    }
  free(roots);
  return whole > 0 ? (double)sqrtl(wrong / whole) / rounding_of(s->dtype) : (double)wrong;
}

static bool is_smooth(int64_t n) {
  for (int64_t p = 2; p < 32; p++)
    while (n % p == 0) n /= p;
  return n == 1;
}

static void check(fixture *f, const sample *s) {
  test_random random = {.state = (uint64_t)(s->length * 8 + s->form)};
  operands o;
  create(&o, s, &random);
  assert_int_equal(run_kernel(f, &cpu_fourier_kind, &o.d, (block *[]){&o.in, &o.out}), COMPUTE_OK);
  block_check_guards(&o.out);
  const double error = o.results > 0 ? error_of(&o, s, &random) : 0;
  if (!(error < (is_smooth(s->length) ? 8 : 16))) /* a convolution rounds twice as often */
    fail_msg("%s: %lld lines of %lld, form %d, %s%s%s: error %g", f->device->isa->name,
             (long long)s->lines, (long long)s->length, (int)s->form, compute_dtype_name(s->dtype),
             s->across ? ", across" : "", s->cut ? ", cut" : "", error);
  release(&o);
}

static void every_short_length_has_a_small_error(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 2, fixture_sets[set])) continue;
    for (int64_t n = 1; n <= 128; n++)
      for (int form = 0; form < FORMS; form++) {
        const compute_dtype dtype = (n + form) % 2 ? COMPUTE_F64 : COMPUTE_F32;
        const bool across = n % 3 == 0;
        check(&f, &(const sample){1 + n % 3, n, (fourier_form)form, dtype, across, false});
        check(&f, &(const sample){17, n, (fourier_form)form, dtype, !across, n % 4 == 1});
      }
    fixture_close(&f);
  }
}

static void every_length_up_to_600_has_a_small_error(void **state) {
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 2, fixture_sets[set])) continue;
    for (int64_t n = 129; n <= 600; n++)
      for (int form = 0; form < FORMS; form++) {
        const compute_dtype dtype = (n + form) % 2 ? COMPUTE_F64 : COMPUTE_F32;
        const int64_t lines = n % 7 == 0 ? 9 : 1;
        check(&f, &(const sample){lines, n, (fourier_form)form, dtype, n % 3 == 0, n % 5 == 0});
      }
    fixture_close(&f);
  }
}

static void long_lengths_have_a_small_error(void **state) {
  (void)state;
  static const int64_t lengths[] = {256,  500,  512,  1000,  1001,    1009,    1024,
                                    1155, 2310, 3039, 32768, 1 << 17, 1 << 20, 20011};
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 2, fixture_sets[set])) continue;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
      for (int form = 0; form < FORMS; form++) {
        const compute_dtype dtype = (i + (size_t)form) % 2 ? COMPUTE_F64 : COMPUTE_F32;
        const int64_t lines = lengths[i] < 4000 ? 9 : 1;
        check(&f, &(const sample){lines, lengths[i], (fourier_form)form, dtype, i % 2 == 0, false});
        if (lengths[i] < 4000)
          check(&f, &(const sample){1, lengths[i], (fourier_form)form, dtype, false, i % 3 == 0});
      }
    fixture_close(&f);
  }
}

static void nothing_is_made_of_nothing(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  check(&f, &(const sample){0, 8, COMPLEX, COMPUTE_F32, false, false});
  check(&f, &(const sample){3, 1, COMPLEX, COMPUTE_F32, false, true});
  fixture_close(&f);
}

/* The first line, transformed alone and among others, by one thread and by several. */
static void the_bits_depend_on_the_line_only(void **state) {
  (void)state;
  static const int64_t lengths[] = {12,  16,  32,  64,   96,   100,  128,
                                    256, 480, 512, 1000, 1009, 1024, 1 << 17};
  for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++)
    for (int form = 0; form < FORMS; form++) {
      const int64_t length = lengths[i / 2];
      const compute_dtype dtype = i % 2 ? COMPUTE_F64 : COMPUTE_F32;
      unsigned char *first = NULL;
      size_t bytes = 0;
      for (int32_t threads = 1; threads < 4; threads += 2)
        for (int64_t lines = 1; lines < 20; lines += 18) {
          const sample s = {lines, length, (fourier_form)form, dtype, false, false};
          test_random random = {.state = 7};
          operands o;
          fixture f;
          create(&o, &s, &random);
          assert_true(fixture_open(&f, threads, NULL));
          assert_int_equal(run_kernel(&f, &cpu_fourier_kind, &o.d, (block *[]){&o.in, &o.out}),
                           COMPUTE_OK);
          fixture_close(&f);
          bytes = (size_t)(o.results * (form == HALVED ? 1 : 2)) *
                  (i % 2 ? sizeof(double) : sizeof(float));
          if (!first) {
            first = malloc(bytes);
            assert_non_null(first);
            memcpy(first, block_data(&o.out), bytes);
          }
          if (memcmp(first, block_data(&o.out), bytes) != 0)
            fail_msg("%lld points, form %d: %lld lines and %d threads change the bits",
                     (long long)length, form, (long long)lines, threads);
          release(&o);
        }
      free(first);
    }
}

static void failures_are_reported_and_leave_nothing(void **state) {
  (void)state;
  static const sample samples[] = {{3, 37, COMPLEX, COMPUTE_F32, false, false},
                                   {3, 100, REAL, COMPUTE_F32, false, false},
                                   {1, 1 << 17, HALVED, COMPUTE_F64, false, false}};
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    test_random random = {.state = 3};
    operands o;
    create(&o, &samples[i], &random);
    check_allocation_failures(&cpu_fourier_kind, &o.d, (block *[]){&o.in, &o.out});
    release(&o);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_short_length_has_a_small_error),
      cmocka_unit_test(every_length_up_to_600_has_a_small_error),
      cmocka_unit_test(long_lengths_have_a_small_error),
      cmocka_unit_test(nothing_is_made_of_nothing),
      cmocka_unit_test(the_bits_depend_on_the_line_only),
      cmocka_unit_test(failures_are_reported_and_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
