/* SPDX-License-Identifier: MIT */
/* Pooling folds windows to the bit in one order: down each column, then along these results, of equal
 * maxima the last. So neither padding, nor strides, nor planes that share a unit, nor threads change
 * a bit. */
#include "kernel_fixture.h"
#include "core/nest.h"

typedef struct sample {
  compute_window_attributes window;
  compute_dtype dtype;
  int64_t images, channels;
  bool channels_last, gaps, special;
} sample;

static block make(const sample *s, const int64_t size[4], bool gaps) {
  const int64_t gap = gaps ? 5 : 0;
  int64_t stride[4] = {0, 0, 0, 1};
  stride[2] = size[3] + gap;
  stride[1] = size[2] * stride[2] + gap;
  stride[0] = size[1] * stride[1] + gap;
  if (s->channels_last) {
    stride[1] = 1;
    stride[3] = size[1];
    stride[2] = size[3] * stride[3] + gap;
    stride[0] = size[2] * stride[2] + gap;
  }
  return block_create(s->dtype, 4, size, stride);
}

/* ---- The order ------------------------------------------------------------------------------ */

static double rounded(const sample *s, double x) {
  return s->dtype == COMPUTE_F64 ? x : (double)(float)x;
}

static double combined(const sample *s, double a, double b) {
  if (s->window.operation == COMPUTE_WINDOW_AVERAGE) return rounded(s, a + b);
  return isnan(a) || a > b ? a : b;
}

/* The place of a tap in the data of dimension d, or −1. */
static int64_t inside(const compute_window_attributes *w, int d, int64_t i, int64_t tap) {
  const int64_t at = i * w->stride[d] - w->padding[d] + tap * w->dilation[d];
  return at < w->data_size[d] ? at : -1;
}

/* Elements of a window along dimension d, with the padding that counts. */
static int64_t counted(const compute_window_attributes *w, int d, int64_t i) {
  int64_t count = 0;
  for (int64_t tap = 0; tap < w->size[d]; tap++) {
    const int64_t at = i * w->stride[d] - w->padding[d] + tap * w->dilation[d];
    const int64_t end =
        w->data_size[d] + (w->count_padding ? w->padding[d] + w->padding_more[d] : 0);
    count += (at >= 0 || w->count_padding) && at < end;
  }
  return count > 1 ? count : 1;
}

static double folded(const sample *s, const block *data, const int64_t point[4]) {
  const compute_window_attributes *w = &s->window;
  const bool averages = w->operation == COMPUTE_WINDOW_AVERAGE;
  bool any = false;
  double all = averages ? 0 : -INFINITY;
  for (int64_t c = 0; c < w->size[1]; c++) {
    const int64_t column = inside(w, 1, point[3], c);
    double fold = 0;
    bool some = false;
    for (int64_t r = 0; r < w->size[0] && column >= 0; r++) {
      const int64_t row = inside(w, 0, point[2], r);
      if (row < 0) continue;
      const double x =
          block_get(data, block_at(data, (int64_t[]){point[0], point[1], row, column}));
      fold = some ? combined(s, fold, x) : x;
      some = true;
    }
    if (!some) continue;
    all = any ? combined(s, all, fold) : fold;
    any = true;
  }
  if (!averages) return all;
  const double count = (double)(counted(w, 0, point[2]) * counted(w, 1, point[3]));
  return s->dtype == COMPUTE_F64 ? all / count : (double)((float)all / (float)count);
}

/* ---- Running -------------------------------------------------------------------------------- */

static void fill(const sample *s, block *data, test_random *random) {
  static const double values[] = {-INFINITY, -1, -0.0, 0.0, 2, NAN};
  const bool whole = dtype_is_integer(s->dtype);
  for (int64_t i = 0; i < data->elements; i++) {
    const double x = ldexp((double)test_random_integer(random, -1000000, 1000000),
                           (int)test_random_integer(random, -20, 4));
    const bool equal = !whole && s->special && test_random_integer(random, 0, 2);
    const bool nans = s->window.operation == COMPUTE_WINDOW_MAX && s->channels % 2;
    block_set(data, i,
              whole   ? floor(x / 1000)
              : equal ? values[test_random_integer(random, nans ? 0 : 2, 4 + nans)]
                      : x);
  }
}

static void visit(fixture *f, const sample *s, uint64_t seed) {
  const compute_window_attributes *w = &s->window;
  const int64_t size[4] = {s->images, s->channels, w->data_size[0], w->data_size[1]};
  const int64_t result[4] = {s->images, s->channels, w->result_size[0], w->result_size[1]};
  test_random random = {.state = seed};
  block data = make(s, size, s->gaps), output = make(s, result, s->gaps && seed % 2);
  block *blocks[2] = {&data, &output};
  fill(s, &data, &random);
  block_remember(&output);
  const compute_operand input = operand_of(&data, 4), to = operand_of(&output, 4);
  compute_kernel_descriptor k = {.struct_size = sizeof k,
                                 .kind = COMPUTE_KERNEL_WINDOW,
                                 .rank = 4,
                                 .input_count = 1,
                                 .output_count = 1,
                                 .inputs = &input,
                                 .outputs = &to,
                                 .accumulate = s->dtype,
                                 .attributes = w,
                                 .attribute_bytes = sizeof *w};
  memcpy(k.size, result, sizeof result);
  assert_int_equal(run_kernel(f, &cpu_window_kind, &k, blocks), COMPUTE_OK);
  block_check_guards(&output);
  int64_t point[4] = {0};
  if (count_points(4, result) > 0) do {
      const double actual = block_get(&output, block_at(&output, point));
      const double expected = folded(s, &data, point);
      const bool same = actual == expected && !signbit(actual) == !signbit(expected);
      if (!same && !(isnan(actual) && isnan(expected)))
        fail_msg("%s, %d threads, sample %llu at %lld %lld %lld %lld: %.17g instead of %.17g",
                 f->device->isa->name, (int)f->device->threads, (unsigned long long)seed,
                 (long long)point[0], (long long)point[1], (long long)point[2], (long long)point[3],
                 actual, expected);
    } while (next_point(4, result, point));
  block_release(&data);
  block_release(&output);
}

/* ---- Samples -------------------------------------------------------------------------------- */

static sample random_sample(test_random *random, int64_t i) {
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F32, COMPUTE_F64, COMPUTE_I32,
                                         COMPUTE_I64};
  sample s = {.dtype = dtypes[test_random_integer(random, 0, 4)],
              .images = test_random_integer(random, 1, 3),
              .channels = test_random_integer(random, 1, i % 3 ? 3 : 20),
              .channels_last = i % 7 == 3,
              .gaps = i % 5 == 4,
              .special = i % 2};
  compute_window_attributes *w = &s.window;
  const bool averages = s.dtype == COMPUTE_F32 || s.dtype == COMPUTE_F64;
  w->operation =
      averages && test_random_integer(random, 0, 1) ? COMPUTE_WINDOW_AVERAGE : COMPUTE_WINDOW_MAX;
  w->count_padding = test_random_integer(random, 0, 1);
  for (int d = 0; d < 2; d++) {
    w->size[d] = test_random_integer(random, 1, i % 4 ? 5 : 13);
    w->dilation[d] = test_random_integer(random, 0, 4) ? 1 : 2;
    const int64_t span = (w->size[d] - 1) * w->dilation[d] + 1;
    w->data_size[d] = test_random_integer(random, 1, d && i % 6 == 0 ? 150 : 14);
    w->stride[d] = test_random_integer(random, 1, i % 8 ? 3 : 7);
    w->padding[d] = test_random_integer(random, 0, w->size[d] / 2);
    const int64_t room = w->data_size[d] + 2 * w->padding[d] - span;
    w->result_size[d] = room >= 0 ? room / w->stride[d] + 1 : 0;
    if (i % 9 == 0 && room >= 0) { /* ceil: the last window may pass the padding */
      w->padding_more[d] = test_random_integer(random, 0, 1);
      w->result_size[d] = (room + w->stride[d] - 1) / w->stride[d] + 1;
      if ((w->result_size[d] - 1) * w->stride[d] >= w->data_size[d] + w->padding[d])
        w->result_size[d]--;
    }
  }
  return s;
}

static void windows_are_folded_in_order(void **state) {
  static const int32_t threads[] = {1, 3};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++)
    for (int t = 0; t < 2; t++) {
      fixture f;
      if (!fixture_open(&f, threads[t], *isa)) continue;
      if (t) f.device->l2_bytes = 4096;
      test_random random = {.state = 77};
      for (int64_t i = 0; i < 200; i++) {
        const sample s = random_sample(&random, i);
        visit(&f, &s, (uint64_t)i);
      }
      fixture_close(&f);
    }
}

/* Windows as large as the planes, and planes of every width up to several vectors. */
static void windows_of_small_planes_are_folded_in_order(void **state) {
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 2, *isa)) continue;
    for (int64_t width = 1; width <= 40; width++)
      for (int64_t kind = 0; kind < 8; kind++) {
        sample s = {.dtype = width % 4 ? COMPUTE_F32 : COMPUTE_F64,
                    .images = 2,
                    .channels = width < 10 ? 67 : 5,
                    .special = kind & 1};
        compute_window_attributes *w = &s.window;
        w->operation = kind & 2 ? COMPUTE_WINDOW_AVERAGE : COMPUTE_WINDOW_MAX;
        for (int d = 0; d < 2; d++) {
          w->data_size[d] = d ? width : 1 + width % 9;
          w->size[d] = kind & 4 ? 2 * (w->data_size[d] / 2) + 1 : 3;
          w->padding[d] = w->size[d] / 2;
          w->stride[d] = 1 + (width + kind) % 2;
          w->dilation[d] = 1;
          w->result_size[d] = (w->data_size[d] + 2 * w->padding[d] - w->size[d]) / w->stride[d] + 1;
        }
        visit(&f, &s, (uint64_t)(8 * width + kind));
      }
    fixture_close(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_are_folded_in_order),
      cmocka_unit_test(windows_of_small_planes_are_folded_in_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
