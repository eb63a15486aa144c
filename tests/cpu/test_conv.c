/* Convolution on the CPU against the plain double-precision one: every sample and random ones, on
 * every instruction set, with different numbers of threads and small caches (so that little work is
 * cut into many blocks). */
#include "kernel_fixture.h"
#include "support/sample_convolutions.h"

/* ---- Operands ------------------------------------------------------------------------------ */

enum { OPERANDS = COMPUTE_MAX_OPERANDS };

typedef struct memory {
  unsigned char *data[OPERANDS], *before[OPERANDS]; /* with guards, and as it was */
  int64_t elements[OPERANDS], first[OPERANDS];
  size_t bytes[OPERANDS];
  void *pointers[OPERANDS];
  uint32_t count;
} memory;

static void fill(unsigned char *data, compute_dtype dtype, int64_t count, const sample_kernel *s,
                 test_random *random) {
  for (int64_t i = 0; i < count; i++) {
    unsigned char *at = data + (size_t)i * cpu_dtype_size(dtype);
    if (dtype == COMPUTE_I64)
      dtype_store_integer(dtype, at, (int64_t)test_random_bits(random));
    else if (dtype == COMPUTE_I32)
      dtype_store_integer(dtype, at, (int32_t)test_random_bits(random));
    else if (dtype == COMPUTE_U8)
      dtype_store_integer(dtype, at, (uint8_t)test_random_bits(random));
    else if (dtype == COMPUTE_U16)
      dtype_store_integer(dtype, at, (uint16_t)test_random_bits(random));
    else
      dtype_store(dtype, at, test_random_uniform(random, s->low, s->high));
  }
}

static memory create_memory(const sample_kernel *s, test_random *random) {
  const compute_kernel_descriptor *d = &s->descriptor;
  memory m = {.count = d->input_count + d->output_count};
  for (uint32_t i = 0; i < m.count; i++) {
    const compute_dtype dtype = sample_kernel_operand(s, i)->dtype;
    int64_t low = 0, high = 0;
    if (!sample_kernel_extent(s, i, &low, &high)) low = high = 0;
    m.elements[i] = high - low + 1 + 2 * FIXTURE_GUARD;
    m.first[i] = FIXTURE_GUARD - low;
    m.bytes[i] = (size_t)m.elements[i] * cpu_dtype_size(dtype);
    m.data[i] = malloc(m.bytes[i]);
    m.before[i] = malloc(m.bytes[i]);
    assert_non_null(m.data[i]);
    assert_non_null(m.before[i]);
    if (i < d->input_count)
      fill(m.data[i], dtype, m.elements[i], s, random);
    else
      for (size_t b = 0; b < m.bytes[i]; b++) m.data[i][b] = (unsigned char)(0xa5 + 7 * b);
    memcpy(m.before[i], m.data[i], m.bytes[i]);
    m.pointers[i] = m.data[i] + (size_t)m.first[i] * cpu_dtype_size(dtype);
  }
  return m;
}

static void release_memory(memory *m) {
  for (uint32_t i = 0; i < m->count; i++) {
    free(m->data[i]);
    free(m->before[i]);
  }
}

/* ---- Checking ------------------------------------------------------------------------------ */

static double epsilon_of(compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_F64: return 0x1p-53;
  case COMPUTE_F32: return 0x1p-24;
  case COMPUTE_F16: return 0x1p-11;
  case COMPUTE_BF16: return 0x1p-8;
  default: return 0;
  }
}

/* What rounding may do: as for matrix products, and that of storing. */
static double bound_of(const sample_kernel *s, compute_dtype output, const sample_element *e) {
  const double epsilon = epsilon_of(s->descriptor.accumulate);
  const double count = e->count > 1 ? (double)e->count : 1;
  return 4.8 * sqrt(count) * epsilon * e->terms + 4 * (fabs(e->real) + 1) * epsilon +
         (output == s->descriptor.accumulate ? 0 : fabs(e->real) * epsilon_of(output)) +
         (output == COMPUTE_F16 ? 0x1p-24 : 0);
}

static bool is_right(const sample_kernel *s, compute_dtype dtype, const unsigned char *actual,
                     const sample_element *e) {
  if (dtype_is_float(dtype) && dtype_is_float(s->descriptor.accumulate))
    return fabs(dtype_load(dtype, actual) - e->real) <= bound_of(s, dtype, e);
  const uint32_t unused = 64 - 8 * cpu_dtype_size(dtype);
  return (uint64_t)dtype_load_integer(dtype, actual) << unused == (uint64_t)e->whole << unused;
}

static void check_output(const sample_kernel *s, const memory *m, uint32_t output,
                         const cpu_isa *isa, const void *const *inputs) {
  const compute_kernel_descriptor *d = &s->descriptor;
  const uint32_t operand = d->input_count + output;
  const compute_operand *o = &s->outputs[output];
  const size_t bytes = cpu_dtype_size(o->dtype);
  unsigned char *own = calloc((size_t)m->elements[operand], 1);
  assert_non_null(own);
  int64_t point[COMPUTE_MAX_RANK] = {0};
  if (count_points(4, d->size) > 0) do {
      int64_t at = m->first[operand];
      for (int i = 0; i < 4; i++) at += point[i] * o->stride[i];
      own[at] = 1;
      const unsigned char *actual = m->data[operand] + (size_t)at * bytes;
      const sample_element e = sample_convolution_element(d, inputs, output, point);
      if (!is_right(s, o->dtype, actual, &e))
        fail_msg("%s on %s, output %u at %lld,%lld,%lld,%lld: %.9g instead of %.9g (%lld)", s->name,
                 isa->name, output, (long long)point[0], (long long)point[1], (long long)point[2],
                 (long long)point[3], dtype_load(o->dtype, actual), e.real, (long long)e.whole);
    } while (next_point(4, d->size, point));
  for (int64_t i = 0; i < m->elements[operand]; i++)
    if (!own[i] && memcmp(m->data[operand] + (size_t)i * bytes,
                          m->before[operand] + (size_t)i * bytes, bytes) != 0)
      fail_msg("%s on %s: element %lld beside output %u was written", s->name, isa->name,
               (long long)(i - m->first[operand]), output);
  free(own);
}

static compute_status run_sample(fixture *f, const sample_kernel *s, void *const *pointers) {
  cpu_kernel *kernel = NULL;
  compute_status status = cpu_conv_prepare(f->device, &s->descriptor, &kernel);
  if (status) return status;
  assert_non_null(kernel);
  assert_true(strlen(kernel->description) > 0);
  status = kernel->run(kernel, pointers);
  kernel->destroy(kernel);
  return status;
}

typedef struct checker {
  fixture *f;
  test_random random;
  int64_t count;
} checker;

static void check_sample(const sample_kernel *s, void *user) {
  checker *c = user;
  const compute_kernel_descriptor *d = &s->descriptor;
  char reason[200];
  if (s->large) return;
  if (!descriptor_check(d, reason, sizeof reason)) fail_msg("%s: %s", s->name, reason);
  memory m = create_memory(s, &c->random);
  const compute_status status = run_sample(c->f, s, m.pointers);
  if (status) fail_msg("%s: status %d, %s", s->name, (int)status, c->f->message);
  for (uint32_t i = 0; i < d->input_count; i++)
    assert_memory_equal(m.data[i], m.before[i], m.bytes[i]);
  for (uint32_t i = 0; i < d->output_count; i++)
    check_output(s, &m, i, c->f->device->isa, (const void *const *)m.pointers);
  release_memory(&m);
  c->count++;
}

/* ---- Devices ------------------------------------------------------------------------------- */

typedef void (*test_body)(fixture *f, uint64_t seed);

/* Runs a body on every kind of device; a small cache makes many small blocks. */
static void on_every_device(test_body body, int32_t threads, uint64_t cache_bytes) {
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, threads, *isa)) continue;
    if (cache_bytes) f.device->l2_bytes = cache_bytes;
    body(&f, 17);
    fixture_close(&f);
  }
}

static void run_samples(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  sample_convolutions(check_sample, &c);
  assert_true(c.count > 100);
}

static void every_sample_is_right(void **state) {
  (void)state;
  on_every_device(run_samples, 2, 0);
}

static void every_sample_is_right_in_small_blocks(void **state) {
  (void)state;
  on_every_device(run_samples, 3, 2048);
}

/* ---- Random ones --------------------------------------------------------------------------- */

static int64_t pick(test_random *random, int64_t low, int64_t high) {
  return test_random_integer(random, low, high);
}

static sample_convolution random_convolution(test_random *random) {
  static const int32_t groups[] = {1, 1, 1, 1, 2, 3, 8};
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F32,  COMPUTE_F32,
                                         COMPUTE_F64, COMPUTE_BF16, COMPUTE_F16};
  sample_convolution s = {.direction = (compute_convolution_direction)pick(random, 0, 2),
                          .layout = (sample_layout)pick(random, 0, LAYOUT_COUNT - 1),
                          .ending = (sample_ending)pick(random, 0, ENDING_COUNT - 1)};
  sample_convolution_shape *c = &s.shape;
  s.dtype = dtypes[pick(random, 0, 5)];
  s.result = s.dtype == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  c->n = pick(random, 1, 2);
  c->groups = groups[pick(random, 0, 6)];
  c->c = c->groups * pick(random, 1, pick(random, 0, 3) ? 4 : 19);
  c->k = c->groups * pick(random, 1, pick(random, 0, 3) ? 5 : 37);
  for (int i = 0; i < 2; i++) {
    c->data[i] = pick(random, 1, pick(random, 0, 3) ? 12 : 30);
    c->filter[i] = pick(random, 1, pick(random, 0, 3) ? 4 : 8);
    c->stride[i] = pick(random, 0, 1) ? 1 : pick(random, 1, 4);
    c->dilation[i] = pick(random, 0, 2) ? 1 : pick(random, 1, 4);
    c->padding[i] = pick(random, 0, 1) ? c->filter[i] / 2 : pick(random, 0, 9);
    c->more[i] = pick(random, 0, 4) ? 0 : pick(random, -2, 3);
  }
  return s;
}

static void run_random(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (int i = 0; i < 100 / (int)test_samples(); i++) {
    const sample_convolution s = random_convolution(&c.random);
    sample_convolution_visit(&s, check_sample, &c);
  }
}

static void random_shapes_are_right(void **state) {
  (void)state;
  on_every_device(run_random, 2, 0);
}

static void random_shapes_are_right_in_small_blocks(void **state) {
  (void)state;
  on_every_device(run_random, 4, 4096);
}

/* Sums must wrap as the output's type does, whatever the order in which they were built. */
static void run_integers(fixture *f, uint64_t seed) {
  static const compute_dtype dtypes[] = {COMPUTE_I32, COMPUTE_I64, COMPUTE_U8, COMPUTE_U16};
  checker c = {.f = f, .random = {.state = seed}};
  for (int i = 0; i < 60 / (int)test_samples(); i++) {
    sample_convolution s = random_convolution(&c.random);
    s.dtype = dtypes[i % 4];
    s.result = s.dtype == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_I32;
    sample_convolution_visit(&s, check_sample, &c);
  }
}

static void integers_wrap(void **state) {
  (void)state;
  on_every_device(run_integers, 2, 0);
}

/* ---- Shapes of networks -------------------------------------------------------------------- */

/* Large enough for whole register tiles, several blocks of k, of channels and of bands. */
static const sample_convolution_shape wide_shapes[] = {
    {1, 40, 35, 1, {11, 17}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 130, 17, 1, {5, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 3, 30, 1, {25, 27}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {0, 0}},
    {1, 30, 130, 1, {8, 8}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {1, 40, 40, 40, {9, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 12, 20, 1, {17, 12}, {3, 3}, {1, 1}, {5, 4}, {5, 4}, {0, 0}},
    {1, 3, 17, 1, {1, 700}, {1, 9}, {1, 1}, {1, 1}, {0, 4}, {0, 0}},
};

static void run_wide(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < sizeof wide_shapes / sizeof *wide_shapes; i++)
    for (int d = 0; d < 3; d++) {
      const sample_convolution s = {.shape = wide_shapes[i],
                                    .direction = (compute_convolution_direction)d,
                                    .layout = (i + (size_t)d) % 2 ? LAYOUT_NHWC : LAYOUT_NCHW,
                                    .dtype = COMPUTE_F32,
                                    .result = COMPUTE_F32,
                                    .ending = d == 0 ? ENDING_BIAS : ENDING_PLAIN};
      sample_convolution_visit(&s, check_sample, &c);
    }
}

static void shapes_of_networks_are_right(void **state) {
  (void)state;
  on_every_device(run_wide, 2, 0);
}

/* ---- Promises of a kernel ------------------------------------------------------------------ */

static void run_serially(void *host, int64_t tasks, compute_task task, void *argument) {
  (void)host;
  for (int64_t i = 0; i < tasks; i++) task(argument, i, 0);
}

static void check_busy(const sample_kernel *s, void *user) {
  fixture *f = user;
  test_random random = {.state = 3};
  memory m = create_memory(s, &random);
  const uint32_t output = s->descriptor.input_count;
  assert_int_equal(run_sample(f, s, m.pointers), COMPUTE_OK);
  unsigned char *first = malloc(m.bytes[output]);
  assert_non_null(first);
  memcpy(first, m.data[output], m.bytes[output]);
  f->services.parallel = run_serially;
  assert_int_equal(run_sample(f, s, m.pointers), COMPUTE_OK);
  f->services.parallel = fixture_parallel;
  assert_memory_equal(first, m.data[output], m.bytes[output]);
  free(first);
  release_memory(&m);
}

static void a_busy_pool_changes_no_bit(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 3, NULL));
  for (size_t i = 0; i < sizeof wide_shapes / sizeof *wide_shapes; i++)
    for (int d = 0; d < 3; d++) {
      const sample_convolution s = {.shape = wide_shapes[i],
                                    .direction = (compute_convolution_direction)d,
                                    .dtype = COMPUTE_F32,
                                    .result = COMPUTE_F32};
      sample_convolution_visit(&s, check_busy, &f);
    }
  fixture_close(&f);
}

/* As check_allocation_failures of the fixture, with samples. */
static void fail_allocations(const sample_kernel *s, void *user) {
  (void)user;
  test_random random = {.state = 5};
  memory m = create_memory(s, &random);
  bool failed = true;
  for (int64_t n = 1; failed; n++) {
    fixture f;
    assert_true(fixture_open(&f, 2, "scalar"));
    f.fail_at = n;
    const compute_status status = run_sample(&f, s, m.pointers);
    failed = f.fail_at == 0;
    f.fail_at = 0;
    assert_int_equal(status, failed ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_OK);
    if (failed) assert_int_equal(f.status, COMPUTE_ERROR_OUT_OF_MEMORY);
    assert_true(failed || n > 3);
    fixture_close(&f);
  }
  release_memory(&m);
}

static void a_failing_allocation_is_reported(void **state) {
  (void)state;
  for (int d = 0; d < 3; d++) {
    const sample_convolution s = {
        .shape = {2, 4, 6, 2, {9, 8}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {0, 0}},
        .direction = (compute_convolution_direction)d,
        .dtype = COMPUTE_F32,
        .result = COMPUTE_F32,
        .ending = ENDING_BIAS};
    sample_convolution_visit(&s, fail_allocations, NULL);
  }
}

/* The residual is the output itself. */
static void check_in_place(const sample_kernel *s, void *user) {
  fixture *f = user;
  test_random random = {.state = 7};
  memory apart = create_memory(s, &random);
  memory m = create_memory(s, &random);
  assert_int_equal(apart.bytes[2], apart.bytes[3]);
  for (uint32_t i = 0; i < 3; i++) memcpy(m.data[i], apart.data[i], m.bytes[i]);
  memcpy(m.data[3], m.data[2], m.bytes[2]);
  m.pointers[2] = m.pointers[3];
  assert_int_equal(run_sample(f, s, apart.pointers), COMPUTE_OK);
  assert_int_equal(run_sample(f, s, m.pointers), COMPUTE_OK);
  const size_t guard = FIXTURE_GUARD * sizeof(float);
  assert_memory_equal(apart.data[3] + guard, m.data[3] + guard, m.bytes[3] - 2 * guard);
  release_memory(&apart);
  release_memory(&m);
}

static void an_output_may_be_the_residual(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  for (size_t i = 0; i < sizeof wide_shapes / sizeof *wide_shapes; i++)
    for (int d = 0; d < 3; d++) {
      const sample_convolution s = {.shape = wide_shapes[i],
                                    .direction = (compute_convolution_direction)d,
                                    .layout = i % 2 ? LAYOUT_NHWC : LAYOUT_NCHW,
                                    .dtype = COMPUTE_F32,
                                    .result = COMPUTE_F32,
                                    .ending = ENDING_RESIDUAL};
      sample_convolution_visit(&s, check_in_place, &f);
    }
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_sample_is_right),
      cmocka_unit_test(every_sample_is_right_in_small_blocks),
      cmocka_unit_test(random_shapes_are_right),
      cmocka_unit_test(random_shapes_are_right_in_small_blocks),
      cmocka_unit_test(integers_wrap),
      cmocka_unit_test(shapes_of_networks_are_right),
      cmocka_unit_test(a_busy_pool_changes_no_bit),
      cmocka_unit_test(a_failing_allocation_is_reported),
      cmocka_unit_test(an_output_may_be_the_residual),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
