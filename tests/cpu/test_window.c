/* SPDX-License-Identifier: MIT */
/* WINDOW (pooling) on the CPU matches the double reference: forward and the gradient of the
 * data, planes and channels last, every dtype, with epilogues. */
#include "kernel_fixture.h"
#include "core/nest.h"

typedef struct sample {
  compute_window_attributes window;
  compute_dtype input, accumulate, output;
  int64_t images, channels;
  bool channels_last, gaps; /* for the inputs */
  bool output_last;
  bool ending;  /* 2·fold + bias of the channel, and a second output with the fold */
  bool special; /* some elements are NaN and −infinity */
  bool exact;   /* sums must have the order: by row of windows, then tap by tap */
} sample;

enum { DATA = 0, GRADIENT = 1, BIAS = 2, OUTPUT = 3, SECOND = 4, BLOCKS = 5 };

static void set_result_size(compute_window_attributes *w) {
  for (int d = 0; d < 2; d++) {
    const int64_t span = (w->size[d] - 1) * w->dilation[d] + 1;
    const int64_t room = w->data_size[d] + 2 * w->padding[d] + w->padding_more[d] - span;
    w->result_size[d] = room >= 0 ? room / w->stride[d] + 1 : 0;
  }
}

static block make(compute_dtype dtype, const int64_t size[4], bool last, bool gaps) {
  const int64_t gap = gaps ? 3 : 0;
  int64_t stride[4] = {0, 0, 0, 1};
  stride[2] = size[3] + gap;
  stride[1] = size[2] * stride[2] + gap;
  stride[0] = size[1] * stride[1];
  if (last) {
    stride[1] = 1;
    stride[3] = size[1] + gap;
    stride[2] = size[3] * stride[3];
    stride[0] = size[2] * stride[2] + gap;
  }
  return block_create(dtype, 4, size, stride);
}

/* ---- The reference ------------------------------------------------------------------------- */

static int64_t place(const compute_window_attributes *w, int d, int64_t i, int64_t tap) {
  return i * w->stride[d] - w->padding[d] + tap * w->dilation[d];
}

static bool inside(const compute_window_attributes *w, int d, int64_t at) {
  return at >= 0 && at < w->data_size[d];
}

/* Sum, largest element and its index, and number of elements of window (p, q). */
typedef struct window_fold {
  double sum, largest;
  int64_t row, column, count;
} window_fold;

static window_fold fold(const compute_window_attributes *w, const block *data, int64_t n, int64_t c,
                        int64_t p, int64_t q) {
  window_fold f = {0, -INFINITY, -1, -1, 0};
  for (int64_t r = 0; r < w->size[0]; r++)
    for (int64_t s = 0; s < w->size[1]; s++) {
      const int64_t h = place(w, 0, p, r), v = place(w, 1, q, s);
      const bool is_inside = inside(w, 0, h) && inside(w, 1, v);
      const bool padded = h < w->data_size[0] + w->padding[0] + w->padding_more[0] &&
                          v < w->data_size[1] + w->padding[1] + w->padding_more[1];
      f.count += w->count_padding ? padded : is_inside;
      if (!is_inside || !data) continue;
      const double x = block_get(data, block_at(data, (int64_t[]){n, c, h, v}));
      f.sum += x;
      if (f.row < 0 || x > f.largest || (isnan(x) && !isnan(f.largest))) {
        f.largest = x;
        f.row = h;
        f.column = v;
      }
    }
  return f;
}

static double add_as(compute_dtype type, double a, double b) {
  return type == COMPUTE_F32 ? (double)((float)a + (float)b) : a + b;
}

/* Adds the gradients of a row of maximum windows to a plane, tap by tap. */
static void add_in_order(const sample *s, const block *b, int64_t n, int64_t c, int64_t p,
                         double *plane) {
  const compute_window_attributes *w = &s->window;
  for (int64_t tap = 0; tap < w->size[1]; tap++)
    for (int64_t q = 0; q < w->result_size[1]; q++) {
      const window_fold f = fold(w, &b[DATA], n, c, p, q);
      if (f.row < 0 || f.column != place(w, 1, q, tap)) continue;
      double *to = plane + f.row * w->data_size[1] + f.column;
      *to = add_as(s->accumulate, *to,
                   block_get(&b[GRADIENT], block_at(&b[GRADIENT], (int64_t[]){n, c, p, q})));
    }
}

/* The same for averages: each element's sum along its line comes first. */
static void add_averages_in_order(const sample *s, const block *b, int64_t n, int64_t c, int64_t p,
                                  double *plane) {
  const compute_window_attributes *w = &s->window;
  double *line = calloc((size_t)w->data_size[1], sizeof *line);
  assert_non_null(line);
  for (int64_t tap = 0; tap < w->size[1]; tap++)
    for (int64_t q = 0; q < w->result_size[1]; q++) {
      const window_fold f = fold(w, NULL, n, c, p, q);
      const int64_t column = place(w, 1, q, tap);
      const double g = block_get(&b[GRADIENT], block_at(&b[GRADIENT], (int64_t[]){n, c, p, q}));
      const double share =
          s->accumulate == COMPUTE_F32 ? (double)((float)g / (float)f.count) : g / (double)f.count;
      if (inside(w, 1, column)) line[column] = add_as(s->accumulate, line[column], share);
    }
  for (int64_t tap = 0; tap < w->size[0]; tap++) {
    const int64_t row = place(w, 0, p, tap);
    for (int64_t v = 0; v < w->data_size[1] && inside(w, 0, row); v++) {
      double *to = plane + row * w->data_size[1] + v;
      *to = add_as(s->accumulate, *to, line[v]);
    }
  }
  free(line);
}

/* The gradients of every element of the space, with sums in the kernel's order. */
static double *sum_in_order(const sample *s, const block *b, const int64_t size[4]) {
  const compute_window_attributes *w = &s->window;
  const bool maximum = w->operation == COMPUTE_WINDOW_MAX;
  double *y = calloc((size_t)count_points(4, size) + 1, sizeof *y);
  assert_non_null(y);
  for (int64_t n = 0; n < size[0]; n++)
    for (int64_t c = 0; c < size[1]; c++)
      for (int64_t p = 0; p < w->result_size[0]; p++)
        (maximum ? add_in_order : add_averages_in_order)(s, b, n, c, p,
                                                         y + (n * size[1] + c) * size[2] * size[3]);
  return y;
}

/* ---- Running ------------------------------------------------------------------------------- */

typedef void (*with_kernel)(fixture *f, const compute_kernel_descriptor *k, block *const *blocks);

static void run(fixture *f, const compute_kernel_descriptor *k, block *const *blocks) {
  const compute_status status = run_kernel(f, &cpu_window_kind, k, blocks);
  if (status) fail_msg("status %d: %s", (int)status, f->message);
}

static void fail_each_allocation(fixture *f, const compute_kernel_descriptor *k,
                                 block *const *blocks) {
  (void)f;
  check_allocation_failures(&cpu_window_kind, k, blocks);
}

static void fill_special(block *b, test_random *random) {
  for (int64_t i = 0; i < b->elements; i++) {
    const int64_t kind = test_random_integer(random, 0, 19);
    if (kind < 2) block_set(b, i, kind ? NAN : -INFINITY);
  }
}

/* Data with few values, so that many are equal, and gradients whose sums depend on their order. */
static void fill_exact(const sample *s, block *b, test_random *random) {
  static const double values[] = {-INFINITY, -1, -0.0, 0.0, 2, INFINITY, NAN};
  const int64_t last = s->special ? 6 : 4;
  for (int64_t i = 0; i < b[DATA].elements; i++)
    block_set(&b[DATA], i, values[test_random_integer(random, !s->special, last)]);
  for (int64_t i = 0; i < b[GRADIENT].elements; i++) {
    const double g = (double)test_random_integer(random, -1000000, 1000000);
    block_set(&b[GRADIENT], i, i % 7 ? ldexp(g, (int)test_random_integer(random, -30, 10)) : -0.0);
  }
}

static void check_exact(const fixture *f, const sample *s, const block *b, const int64_t size[4]) {
  int64_t point[4] = {0};
  double *y = sum_in_order(s, b, size), *next = y;
  block_check_guards(&b[OUTPUT]);
  if (count_points(4, size) > 0) do {
      const double actual = block_get(&b[OUTPUT], block_at(&b[OUTPUT], point)), expected = *next++;
      const bool same = actual == expected && !signbit(actual) == !signbit(expected);
      if (!same && !(isnan(actual) && isnan(expected)))
        fail_msg("%s %s at %lld %lld %lld %lld: %.9g instead of %.9g", f->device->isa->name,
                 s->window.operation ? "average" : "max", (long long)point[0], (long long)point[1],
                 (long long)point[2], (long long)point[3], actual, expected);
    } while (next_point(4, size, point));
  free(y);
}

/* Runs one sample and checks it; `bits` (may be NULL) gets a copy of the output's memory. */
static void visit(fixture *f, const sample *s, uint64_t seed, with_kernel with,
                  unsigned char *bits) {
  const compute_window_attributes *w = &s->window;
  const bool maximum = w->operation == COMPUTE_WINDOW_MAX;
  const int64_t data[4] = {s->images, s->channels, w->data_size[0], w->data_size[1]};
  const int64_t result[4] = {s->images, s->channels, w->result_size[0], w->result_size[1]};
  const int64_t *space = w->by_data ? data : result;
  const int64_t bias[4] = {1, s->channels, 1, 1}, bias_stride[4] = {0, 1, 0, 0};
  test_random random = {.state = seed};
  block b[BLOCKS] = {
      make(s->input, data, s->channels_last, s->gaps),
      make(s->input, result, s->channels_last, s->gaps),
      block_create(s->accumulate, 4, bias, bias_stride),
      make(s->output, space, s->output_last, s->exact && s->gaps),
      make(s->accumulate, space, s->output_last, true),
  };
  for (int i = 0; i <= BIAS; i++) block_fill(&b[i], -9, 9, &random);
  if (s->exact)
    fill_exact(s, b, &random);
  else if (s->special)
    fill_special(&b[DATA], &random);
  compute_operand inputs[3], outputs[2] = {operand_of(&b[OUTPUT], 4), operand_of(&b[SECOND], 4)};
  block *blocks[BLOCKS];
  uint32_t count = 0;
  if (!w->by_data || maximum) blocks[count++] = &b[DATA];
  if (w->by_data) blocks[count++] = &b[GRADIENT];
  const uint32_t own = count;
  if (s->ending) blocks[count++] = &b[BIAS];
  for (uint32_t i = 0; i < count; i++) inputs[i] = operand_of(blocks[i], 4);
  blocks[count] = &b[OUTPUT];
  blocks[count + 1] = &b[SECOND];
  const uint8_t type = (uint8_t)s->accumulate;
  const compute_instruction code[] = {
      {.code = COMPUTE_I_LOAD, .type = type, .immediate.i64 = 0},
      {.code = COMPUTE_I_ADD, .type = type, .a = 0, .b = 0},
      {.code = COMPUTE_I_LOAD, .type = type, .immediate.i64 = 1},
      {.code = COMPUTE_I_ADD, .type = type, .a = 1, .b = 2},
  };
  const uint16_t values[] = {3, 0};
  compute_kernel_descriptor k = {.struct_size = sizeof k,
                                 .kind = COMPUTE_KERNEL_WINDOW,
                                 .rank = 4,
                                 .input_count = count,
                                 .output_count = s->ending ? 2 : 1,
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .accumulate = s->accumulate,
                                 .attributes = w,
                                 .attribute_bytes = sizeof *w};
  if (s->ending) k.epilogue = (compute_program){4, 2, code, values};
  memcpy(k.size, space, 4 * sizeof *space);
  assert_true(own >= 1);
  with(f, &k, blocks);
  if (s->exact)
    check_exact(f, s, b, space);
  else
    check_results(f, &k, blocks, (allowed_error){.relative = 90, .absolute = 90});
  if (bits) memcpy(bits, b[OUTPUT].memory, (size_t)b[OUTPUT].elements * cpu_dtype_size(s->output));
  for (int i = 0; i < BLOCKS; i++) block_release(&b[i]);
}

/* ---- Samples ------------------------------------------------------------------------------- */

static sample random_sample(test_random *random) {
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F32, COMPUTE_F64, COMPUTE_F16,
                                         COMPUTE_BF16};
  sample s = {.input = dtypes[test_random_integer(random, 0, 4)]};
  compute_window_attributes *w = &s.window;
  s.accumulate = s.input == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  s.output = test_random_integer(random, 0, 1) ? s.input : s.accumulate;
  s.images = test_random_integer(random, 1, 2);
  s.channels = test_random_integer(random, 1, test_random_integer(random, 0, 2) ? 5 : 37);
  s.channels_last = test_random_integer(random, 0, 1);
  s.output_last = test_random_integer(random, 0, 3) ? s.channels_last : !s.channels_last;
  s.gaps = test_random_integer(random, 0, 2) == 0;
  s.ending = test_random_integer(random, 0, 2) == 0;
  w->operation = (compute_window_operation)test_random_integer(random, 0, 1);
  w->by_data = test_random_integer(random, 0, 1);
  w->count_padding = test_random_integer(random, 0, 1);
  s.special = w->operation == COMPUTE_WINDOW_MAX && test_random_integer(random, 0, 1);
  for (int d = 0; d < 2; d++) {
    w->data_size[d] = test_random_integer(random, 1, test_random_integer(random, 0, 2) ? 12 : 45);
    w->size[d] = test_random_integer(random, 1, test_random_integer(random, 0, 2) ? 3 : 7);
    w->stride[d] = test_random_integer(random, 1, 3);
    w->dilation[d] = test_random_integer(random, 0, 2) ? 1 : test_random_integer(random, 2, 3);
    w->padding[d] = test_random_integer(random, 0, 1) ? 0 : test_random_integer(random, 1, 4);
    w->padding_more[d] = test_random_integer(random, -w->padding[d], 2);
  }
  set_result_size(w);
  for (int d = 0; d < 2; d++) /* rounded-up sizes, and sizes below the maximum */
    w->result_size[d] = test_random_integer(random, 0, 3)
                            ? w->result_size[d]
                            : cpu_max(0, w->result_size[d] + test_random_integer(random, -2, 2));
  return s;
}

static void run_random(int32_t threads, uint64_t cache_bytes, int count) {
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, threads, *isa)) continue;
    if (cache_bytes) f.device->l2_bytes = cache_bytes;
    test_random random = {.state = 5 + cache_bytes};
    for (int i = 0; i < count; i++) {
      const sample s = random_sample(&random);
      visit(&f, &s, (uint64_t)i, run, NULL);
    }
    fixture_close(&f);
  }
}

static void random_windows_are_right(void **state) {
  (void)state;
  run_random(2, 0, 400);
}

static void random_windows_are_right_in_small_bands(void **state) {
  (void)state;
  run_random(3, 4096, 300);
}

static void windows_of_networks_are_right(void **state) {
  static const compute_window_attributes shapes[] = {
      {.data_size = {56, 56}, .size = {2, 2}, .stride = {2, 2}},
      {.data_size = {57, 112}, .size = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
      {.data_size = {28, 28}, .size = {3, 3}, .stride = {1, 1}, .padding = {1, 1}},
      {.data_size = {7, 7}, .size = {7, 7}, .stride = {1, 1}},
      {.data_size = {1, 9000}, .size = {1, 5}, .stride = {3, 3}, .padding = {0, 2}},
      {.data_size = {300, 3}, .size = {9, 1}, .stride = {1, 4}, .padding = {4, 0}},
  };
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 2, *isa)) continue;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
      for (int kind = 0; kind < 8; kind++) {
        sample s = {.window = shapes[i],
                    .input = COMPUTE_F32,
                    .accumulate = COMPUTE_F32,
                    .output = COMPUTE_F32,
                    .images = 2,
                    .channels = 19,
                    .channels_last = kind & 1,
                    .output_last = kind & 1};
        s.window.dilation[0] = s.window.dilation[1] = 1;
        s.window.operation = kind & 2 ? COMPUTE_WINDOW_AVERAGE : COMPUTE_WINDOW_MAX;
        s.window.by_data = kind & 4;
        set_result_size(&s.window);
        visit(&f, &s, 3, run, NULL);
      }
    fixture_close(&f);
  }
}

/* Halved images have specialised loops for gradients. These loops could fail for rows shared by two
 * row tiles, odd edges, windows past the end and equal elements. */
static void gradients_of_halved_images_are_right(void **state) {
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 3, *isa)) continue;
    f.device->l2_bytes = 4096;
    test_random random = {.state = 21};
    for (int i = 0; i < 60; i++) {
      sample s = {.input = dtypes[i % 3], .output = dtypes[i % 3], .special = i % 2};
      compute_window_attributes *w = &s.window;
      s.accumulate = s.input == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
      s.images = 1;
      s.channels = test_random_integer(&random, 1, 3);
      s.gaps = i % 5 == 0;
      s.ending = i % 7 == 0;
      w->by_data = true;
      for (int d = 0; d < 2; d++) {
        w->data_size[d] = test_random_integer(&random, 1, i % 4 ? 70 : 600);
        w->size[d] = i % 6 == 5 ? 3 : 2;
        w->stride[d] = 2;
        w->dilation[d] = 1;
        w->padding[d] = i % 6 == 5;
      }
      set_result_size(w);
      for (int d = 0; d < 2; d++) w->result_size[d] += i % 9 == 8; /* past the end */
      visit(&f, &s, (uint64_t)i, run, NULL);
    }
    fixture_close(&f);
  }
}

/* Windows of 3 × 3 with stride 2, and averages of 2 × 2, have specialised loops for gradients.
 * These use whole vectors and read and write past a line. Sums must equal the plain order bit for
 * bit: in row tiles that cut planes anywhere, with lines that have gaps or an epilogue, and with
 * few results or windows past the end. */
static void gradients_with_stride_2_are_right_to_the_bit(void **state) {
  static const uint64_t cache_bytes[] = {0, 2048, 8192};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++)
    for (int32_t threads = 1; threads <= 3; threads++) {
      fixture f;
      if (!fixture_open(&f, threads, *isa)) continue;
      if (threads > 1) f.device->l2_bytes = cache_bytes[threads - 1];
      test_random random = {.state = 40 + (uint64_t)threads};
      for (int i = 0; i < 300; i++) {
        sample s = {.exact = i % 8 != 7, .special = i % 3 == 1};
        compute_window_attributes *w = &s.window;
        w->operation = i % 2 ? COMPUTE_WINDOW_AVERAGE : COMPUTE_WINDOW_MAX;
        w->count_padding = i % 5 == 2;
        s.input = s.output = s.accumulate = i / 2 % 4 == 2 ? COMPUTE_F64 : COMPUTE_F32;
        if (!s.exact) s.input = s.output = COMPUTE_F16;
        s.images = 1 + i % 2;
        s.channels = test_random_integer(&random, 1, 3);
        s.gaps = i % 5 == 0;
        s.ending = !s.exact && i % 16 == 7;
        w->by_data = true;
        for (int d = 0; d < 2; d++) {
          w->data_size[d] = test_random_integer(&random, 2, i % 4 ? 40 : d ? 150 : 70);
          w->size[d] = i % 6 == 5 ? 2 : 3;
          w->stride[d] = 2;
          w->dilation[d] = 1;
          w->padding[d] = i % 6 == 5 ? 0 : test_random_integer(&random, 0, 1);
        }
        set_result_size(w);
        for (int d = 0; d < 2; d++) w->result_size[d] += i % 9 == 8 ? 1 : i % 9 == 7 ? -1 : 0;
        if (w->result_size[0] > 0 && w->result_size[1] > 0) visit(&f, &s, (uint64_t)i, run, NULL);
      }
      fixture_close(&f);
    }
}

/* As many pairs of columns as fill vectors, and one more, with fewer windows. */
static void gradients_of_cut_results_are_right(void **state) {
  static const int64_t widths[] = {33, 34, 65, 66, 97, 98, 129, 130, 200};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 1, *isa)) continue;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
      for (int size = 2; size <= 3; size++) {
        sample s = {.exact = true, .images = 1, .channels = 2};
        compute_window_attributes *w = &s.window;
        s.input = s.output = s.accumulate = COMPUTE_F32;
        w->operation = COMPUTE_WINDOW_AVERAGE;
        w->by_data = true;
        for (int d = 0; d < 2; d++) {
          w->data_size[d] = d ? widths[i] : 6;
          w->size[d] = size;
          w->stride[d] = 2;
          w->dilation[d] = 1;
        }
        set_result_size(w);
        w->result_size[1] = widths[i] == 200 ? 1 : w->result_size[1] - 1;
        visit(&f, &s, i, run, NULL);
      }
    fixture_close(&f);
  }
}

/* Many small planes below each other are processed as one plane. Lines shorter than vectors have
 * specialised loops that write past the line. This test covers every width, planes that may not be
 * joined (odd heights, gaps, windows past the end), row tiles that cut planes anywhere, equal
 * elements and NaN. */
static void small_planes_are_right(void **state) {
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16, COMPUTE_BF16};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++)
    for (int kind = 0; kind < 3; kind++) {
      fixture f;
      if (!fixture_open(&f, 3, *isa)) continue;
      if (kind) f.device->l2_bytes = 4096;
      for (int width = 1; width <= 70; width++) {
        const compute_dtype dtype = width % 5 > 2 ? dtypes[width % 4] : COMPUTE_F32;
        sample s = {.input = dtype, .output = dtype, .special = (width + kind) % 2};
        compute_window_attributes *w = &s.window;
        s.accumulate = dtype == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
        s.images = 1 + width % 3;
        s.channels = kind == 2 ? 1 : 5;
        s.gaps = width % 11 == 0;
        s.ending = width % 3 == kind;
        w->by_data = kind != 1;
        w->operation = kind == 1 && width % 4 == 1 ? COMPUTE_WINDOW_AVERAGE : COMPUTE_WINDOW_MAX;
        for (int d = 0; d < 2; d++) {
          w->data_size[d] = d ? width : 8 + width % 3;
          w->size[d] = width % 7 == 6 ? 3 : 2;
          w->stride[d] = 2;
          w->dilation[d] = 1;
        }
        if (width % 13 == 5) w->size[0] = w->data_size[0]; /* one result, whatever the stride */
        set_result_size(w);
        if (width % 7 == 6) { /* as many windows, but the last extends past the plane */
          w->data_size[0] = 8;
          w->result_size[0] = 4;
        }
        if (w->result_size[1] > 0) visit(&f, &s, (uint64_t)width, run, NULL);
      }
      fixture_close(&f);
    }
}

static void the_maximum_of_whole_numbers_is_right(void **state) {
  static const compute_dtype dtypes[] = {COMPUTE_I32, COMPUTE_I64, COMPUTE_U8, COMPUTE_U16};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 2, *isa)) continue;
    test_random random = {.state = 11};
    for (int i = 0; i < 60; i++) {
      sample s = random_sample(&random);
      s.window.operation = COMPUTE_WINDOW_MAX;
      s.window.by_data = s.special = s.ending = false;
      for (int d = 0; d < 2; d++) { /* no empty windows: their result is not a double */
        s.window.padding[d] = 0;
        s.window.dilation[d] = 1;
        if (i % 3) continue;
        s.window.size[d] = s.window.stride[d] = 2;
        s.window.data_size[d] += s.window.data_size[d] % 2;
        s.channels_last = s.output_last = s.gaps = false;
      }
      set_result_size(&s.window);
      s.input = s.output = dtypes[i % 4];
      s.accumulate = s.input == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_I32;
      visit(&f, &s, (uint64_t)i, run, NULL);
    }
    fixture_close(&f);
  }
}

/* As bytes with channels last, with and without gaps between pixels. */
static void the_maximum_of_bytes_across_channels_is_right(void **state) {
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 2, *isa)) continue;
    test_random random = {.state = 12};
    for (int i = 0; i < 60; i++) {
      sample s = random_sample(&random);
      s.window.operation = COMPUTE_WINDOW_MAX;
      s.window.by_data = s.special = s.ending = false;
      for (int d = 0; d < 2; d++) { /* no empty windows */
        s.window.size[d] = test_random_integer(&random, 2, 5);
        s.window.padding[d] = test_random_integer(&random, 0, 1);
        s.window.dilation[d] = 1;
        s.window.data_size[d] += 8;
      }
      s.channels = test_random_integer(&random, 2, 80);
      s.channels_last = true;
      s.output_last = i % 5 > 0;
      s.gaps = i % 7 == 0;
      set_result_size(&s.window);
      s.input = s.output = i % 2 ? COMPUTE_U8 : COMPUTE_I8;
      s.accumulate = COMPUTE_I32;
      visit(&f, &s, (uint64_t)i, run, NULL);
    }
    fixture_close(&f);
  }
}

static void no_elements_store_nothing(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  for (int kind = 0; kind < 16; kind++) {
    sample s = {.window = {.data_size = {kind & 1 ? 0 : 4, 5},
                           .result_size = {kind & 8 ? 0 : 2, 3},
                           .size = {2, 2},
                           .stride = {2, 2},
                           .dilation = {1, 1}},
                .input = COMPUTE_F32,
                .accumulate = COMPUTE_F32,
                .output = COMPUTE_F32,
                .images = 2,
                .channels = 3};
    s.window.operation = kind & 2 ? COMPUTE_WINDOW_AVERAGE : COMPUTE_WINDOW_MAX;
    s.window.by_data = kind & 4;
    visit(&f, &s, 1, run, NULL);
    s.images = 0;
    visit(&f, &s, 1, run, NULL);
  }
  fixture_close(&f);
}

static void threads_change_no_bit(void **state) {
  enum { BYTES = 1 << 20 };
  static const int32_t threads[3] = {1, 2, 5};
  unsigned char *bits[3] = {calloc(BYTES, 1), calloc(BYTES, 1), calloc(BYTES, 1)};
  (void)state;
  for (int kind = 0; kind < 16; kind++) {
    sample s = {.window = {.data_size = {61, 47},
                           .size = {3, 3},
                           .stride = {2, 2},
                           .dilation = {1, 1},
                           .padding = {1, 1}},
                .input = COMPUTE_F32,
                .accumulate = COMPUTE_F32,
                .output = COMPUTE_F32,
                .images = 3,
                .channels = 7,
                .channels_last = kind & 1,
                .output_last = kind & 1};
    if (kind >= 12) { /* small planes; some tasks write past their end */
      for (int d = 0; d < 2; d++) s.window.data_size[d] = kind & 1 ? 14 : 7;
      s.channels = kind & 1 ? 90 : 360;
      s.channels_last = s.output_last = false;
    } else if (kind >= 8) { /* small halved planes */
      for (int d = 0; d < 2; d++) {
        s.window.data_size[d] = 14;
        s.window.size[d] = 2;
        s.window.padding[d] = 0;
      }
      s.channels = 40;
      s.channels_last = s.output_last = false;
    }
    s.window.operation = kind & 2 ? COMPUTE_WINDOW_AVERAGE : COMPUTE_WINDOW_MAX;
    s.window.by_data = kind >= 12 || kind & (kind < 8 ? 4 : 1);
    set_result_size(&s.window);
    for (int t = 0; t < 3; t++) {
      fixture f;
      assert_true(fixture_open(&f, threads[t], NULL));
      visit(&f, &s, 9, run, bits[t]);
      fixture_close(&f);
    }
    assert_memory_equal(bits[0], bits[1], BYTES);
    assert_memory_equal(bits[0], bits[2], BYTES);
  }
  for (int t = 0; t < 3; t++) free(bits[t]);
}

static void a_failing_allocation_is_reported(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 1, NULL));
  test_random random = {.state = 21};
  for (int i = 0; i < 12; i++) {
    const sample s = random_sample(&random);
    if (count_points(2, s.window.result_size) > 0) visit(&f, &s, 2, fail_each_allocation, NULL);
  }
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_windows_are_right),
      cmocka_unit_test(random_windows_are_right_in_small_bands),
      cmocka_unit_test(windows_of_networks_are_right),
      cmocka_unit_test(gradients_of_halved_images_are_right),
      cmocka_unit_test(gradients_with_stride_2_are_right_to_the_bit),
      cmocka_unit_test(gradients_of_cut_results_are_right),
      cmocka_unit_test(small_planes_are_right),
      cmocka_unit_test(the_maximum_of_whole_numbers_is_right),
      cmocka_unit_test(the_maximum_of_bytes_across_channels_is_right),
      cmocka_unit_test(no_elements_store_nothing),
      cmocka_unit_test(threads_change_no_bit),
      cmocka_unit_test(a_failing_allocation_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
