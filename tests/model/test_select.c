/* SPDX-License-Identifier: MIT */
/* Host functions that choose elements: against plain code, with 1 and 3 threads, for sizes beyond a
 * block of elements, and for NaN, −0 and equal values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"
#include "model/message_writer.h"

enum { MOST = 40000 };

typedef struct result {
  compute_model_binding out[4];
} result;

/* Runs a model of one node with the inputs a, b, … */
static result run(compute_context *context, proto node, const char *in_names,
                  compute_tensor *const *inputs, size_t count, const char *out_names,
                  size_t wanted) {
  static const char *const names[] = {"a", "b", "c", "d", "e"};
  static const char *const results[] = {"w", "x", "y", "z"};
  proto graph = graph_message(in_names, out_names);
  put_message(&graph, GRAPH_NODE, node);
  proto bytes = model_message(graph);
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(context, bytes.data, bytes.bytes, NULL, &model));
  compute_model_binding in[5] = {{0}};
  result r = {{{0}}};
  for (size_t i = 0; i < count; i++) in[i] = (compute_model_binding){names[i], inputs[i]};
  for (size_t i = 0; i < wanted; i++) r.out[i].name = results[i];
  assert_ok(compute_model_run(model, in, count, r.out, wanted));
  compute_model_release(model);
  free(bytes.data);
  return r;
}

static void release(result r) {
  for (int i = 0; i < 4; i++) compute_tensor_release(r.out[i].tensor);
}

/* The elements as numbers. `values` has room for MOST. */
static const double *read_all(const compute_tensor *tensor, double *values) {
  const size_t count = (size_t)compute_tensor_count(tensor);
  compute_tensor *numbers;
  assert_true(count <= 4 * MOST);
  assert_ok(compute_tensor_create(compute_tensor_device(tensor), COMPUTE_F64,
                                  compute_tensor_shape(tensor), &numbers));
  assert_ok(compute_tensor_copy(numbers, tensor));
  assert_ok(compute_tensor_read(numbers, values, count * sizeof *values));
  compute_tensor_release(numbers);
  return values;
}

static double values[4][4 * MOST];

static compute_context *open_with(int32_t threads) {
  compute_context *context = NULL;
  assert_ok(compute_open(&context, &(compute_open_options){.device = "cpu", .threads = threads}));
  return context;
}

/* ---- NonZero -------------------------------------------------------------------------------- */

static void check_non_zero(compute_context *context, compute_dtype dtype, const void *data,
                           compute_shape shape) {
  compute_tensor *x = test_tensor(context, dtype, shape, data);
  result r = run(context, node_message("n", "NonZero", "a", "w"), "a", &x, 1, "w", 1);
  const double *in = read_all(x, values[0]), *places = read_all(r.out[0].tensor, values[1]);
  const int64_t count = compute_tensor_count(x);
  const int64_t found = compute_tensor_shape(r.out[0].tensor).size[1];
  int64_t column = 0;
  for (int64_t i = 0; i < count; i++) {
    if (in[i] == 0) continue;
    int64_t rest = i;
    for (int32_t axis = shape.rank - 1; axis >= 0; axis--) {
      assert_int_equal(places[axis * found + column], rest % shape.size[axis]);
      rest /= shape.size[axis];
    }
    column++;
  }
  assert_int_equal(column, found);
  release(r);
  compute_tensor_release(x);
}

static void non_zero_finds_all(void **state) {
  (void)state;
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16, COMPUTE_BF16,
                                         COMPUTE_I64, COMPUTE_I32, COMPUTE_I16, COMPUTE_U8};
  static uint64_t data[MOST];
  for (int t = 0; t < 2; t++) {
    compute_context *context = open_with(t ? 3 : 1);
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
      const size_t size = compute_dtype_size(dtypes[k]);
      uint8_t *bytes = (uint8_t *)data;
      memset(data, 0, sizeof data);
      for (size_t i = 0; i < MOST; i++) {
        if (rand() % 3 == 0) bytes[i * size + (size_t)rand() % size] = 1; /* also subnormals */
        if (i % 7 == 0 && k < 4) bytes[i * size + size - 1] |= 0x80;      /* also −0 */
      }
      if (k < 4) memset(bytes + 5 * size, 0xff, size); /* NaN */
      check_non_zero(context, dtypes[k], data, COMPUTE_SHAPE(MOST));
      check_non_zero(context, dtypes[k], data, COMPUTE_SHAPE(7, 1, 2857));
      check_non_zero(context, dtypes[k], data, COMPUTE_SHAPE(7000, 5));
      check_non_zero(context, dtypes[k], data, COMPUTE_SHAPE(9, 0, 4));
      check_non_zero(context, dtypes[k], data, COMPUTE_SHAPE(1000, 3, 2, 3));
    }
    compute_close(context);
  }
}

/* ---- Compress ------------------------------------------------------------------------------- */

static void check_compress(compute_context *context, compute_dtype dtype, compute_shape shape,
                           int32_t axis, int32_t modulus) {
  static double data[MOST];
  static uint8_t chosen[MOST];
  for (int i = 0; i < MOST; i++) data[i] = rand() % 100;
  compute_tensor *inputs[2] = {NULL};
  compute_tensor *numbers = test_tensor(context, COMPUTE_F64, shape, data);
  assert_ok(compute_tensor_create(compute_tensor_device(numbers), dtype, shape, &inputs[0]));
  assert_ok(compute_tensor_copy(inputs[0], numbers));
  int64_t outer = 1, along = compute_tensor_count(numbers), inner = 1, kept = 0;
  if (axis >= 0) {
    along = shape.size[axis];
    for (int32_t i = 0; i < shape.rank; i++)
      *(i < axis ? &outer : &inner) *= i == axis ? 1 : shape.size[i];
  }
  for (int64_t i = 0; i < along; i++) chosen[i] = rand() % modulus != 0;
  inputs[1] = test_tensor(context, COMPUTE_BOOL, COMPUTE_SHAPE(along), chosen);
  proto node = node_message("n", "Compress", "a,b", "w");
  if (axis >= 0) put_integer_attribute(&node, "axis", axis);
  result r = run(context, node, "a,b", inputs, 2, "w", 1);
  const double *x = read_all(inputs[0], values[0]), *y = read_all(r.out[0].tensor, values[1]);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t a = 0; a < along; a++)
      for (int64_t i = 0; chosen[a] && i < inner; i++)
        assert_true(y[kept++] == x[(o * along + a) * inner + i]);
  assert_int_equal(kept, compute_tensor_count(r.out[0].tensor));
  release(r);
  compute_tensor_release(numbers);
  for (int i = 0; i < 2; i++) compute_tensor_release(inputs[i]);
}

static void compress_takes_the_chosen(void **state) {
  (void)state;
  static const compute_dtype dtypes[] = {COMPUTE_F64, COMPUTE_F32, COMPUTE_F16, COMPUTE_U8};
  for (int t = 0; t < 2; t++) {
    compute_context *context = open_with(t ? 3 : 1);
    for (int k = 0; k < 4; k++)
      for (int32_t modulus = 1; modulus < 9; modulus += 3) {
        check_compress(context, dtypes[k], COMPUTE_SHAPE(MOST), -1, modulus);
        check_compress(context, dtypes[k], COMPUTE_SHAPE(40, 1000), -1, modulus);
        check_compress(context, dtypes[k], COMPUTE_SHAPE(40, 1000), 1, modulus);
        check_compress(context, dtypes[k], COMPUTE_SHAPE(13, 1000, 3), 1, modulus);
        check_compress(context, dtypes[k], COMPUTE_SHAPE(13, 3000), 0, modulus);
        check_compress(context, dtypes[k], COMPUTE_SHAPE(13, 7, 0), 1, modulus);
      }
    compute_close(context);
  }
}

/* ---- Unique --------------------------------------------------------------------------------- */

typedef struct rows {
  double *data; /* as outer × along × inner */
  int64_t outer, along, inner;
} rows;

static int order(double a, double b) {
  if (isnan(a) || isnan(b)) return (isnan(a) != 0) - (isnan(b) != 0);
  return (a > b) - (a < b);
}

static int order_rows(const rows *x, int64_t a, int64_t b) {
  for (int64_t o = 0; o < x->outer; o++)
    for (int64_t i = 0; i < x->inner; i++) {
      const double *base = x->data + o * x->along * x->inner + i;
      const int before = order(base[a * x->inner], base[b * x->inner]);
      if (before) return before;
    }
  return 0;
}

/* Quadratic. first[g], counts[g], inverse[place] → the number of groups. */
static int64_t find_unique(const rows *x, bool sorted, int64_t *first, int64_t *counts,
                           int64_t *inverse) {
  int64_t count = 0;
  for (int64_t i = 0; i < x->along; i++) {
    int64_t g = 0;
    while (g < count && order_rows(x, first[g], i) != 0) g++;
    if (g < count) continue;
    int64_t at = count++;
    for (; sorted && at > 0 && order_rows(x, first[at - 1], i) > 0; at--) first[at] = first[at - 1];
    first[at] = i;
  }
  for (int64_t g = 0; g < count; g++) counts[g] = 0;
  for (int64_t i = 0; i < x->along; i++) {
    int64_t g = 0;
    while (order_rows(x, first[g], i) != 0) g++;
    inverse[i] = g;
    counts[g]++;
  }
  return count;
}

static void check_unique(compute_context *context, compute_dtype dtype, compute_shape shape,
                         int32_t axis, bool sorted, double step, int range) {
  enum { PLACES = 1200 };
  static double data[MOST];
  static int64_t first[PLACES], counts[PLACES], inverse[PLACES];
  const bool is_float = dtype == COMPUTE_F32 || dtype == COMPUTE_F64 || dtype == COMPUTE_F16;
  for (int i = 0; i < MOST; i++) {
    data[i] = (rand() % range - (dtype == COMPUTE_U8 ? 0 : range / 2)) * step;
    if (is_float && i % 11 == 3) data[i] = i % 2 ? (double)NAN : -0.0;
  }
  compute_tensor *numbers = test_tensor(context, COMPUTE_F64, shape, data), *x;
  assert_ok(compute_tensor_create(compute_tensor_device(numbers), dtype, shape, &x));
  assert_ok(compute_tensor_copy(x, numbers));
  rows all = {data, 1, compute_tensor_count(x), 1};
  if (axis >= 0) {
    all.along = shape.size[axis];
    for (int32_t i = 0; i < shape.rank; i++)
      *(i < axis ? &all.outer : &all.inner) *= i == axis ? 1 : shape.size[i];
  }
  proto node = node_message("n", "Unique", "a", "w,x,y,z");
  if (axis >= 0) put_integer_attribute(&node, "axis", axis);
  put_integer_attribute(&node, "sorted", sorted);
  result r = run(context, node, "a", &x, 1, "w,x,y,z", 4);
  const int64_t count = find_unique(&all, sorted, first, counts, inverse);
  const double *y = read_all(r.out[0].tensor, values[0]), *from = read_all(x, values[3]);
  const double *firsts = read_all(r.out[1].tensor, values[1]);
  const double *groups = read_all(r.out[2].tensor, values[2]);
  assert_int_equal(compute_tensor_count(r.out[1].tensor), count);
  for (int64_t g = 0; g < count; g++) {
    assert_int_equal(firsts[g], first[g]);
    assert_int_equal(test_element(r.out[3].tensor, g), counts[g]);
    for (int64_t o = 0; o < all.outer; o++)
      for (int64_t i = 0; i < all.inner; i++)
        assert_int_equal(order(y[(o * count + g) * all.inner + i],
                               from[(o * all.along + first[g]) * all.inner + i]),
                         0);
  }
  for (int64_t i = 0; i < all.along; i++) assert_int_equal(groups[i], inverse[i]);
  release(r);
  compute_tensor_release(numbers);
  compute_tensor_release(x);
}

static void unique_finds_the_groups(void **state) {
  (void)state;
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16, COMPUTE_I64,
                                         COMPUTE_I32, COMPUTE_I16, COMPUTE_I8,  COMPUTE_U8};
  for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
    for (int sorted = 0; sorted < 2; sorted++) {
      const compute_dtype type = dtypes[k];
      const double far = type == COMPUTE_I64 || type == COMPUTE_F64 ? 0x1p33 : 1;
      check_unique(test_context, type, COMPUTE_SHAPE(1200), -1, sorted, 1, 90);
      check_unique(test_context, type, COMPUTE_SHAPE(30, 40), -1, sorted, far, 100);
      check_unique(test_context, type, COMPUTE_SHAPE(4, 300), -1, sorted, far, 120);
      check_unique(test_context, type, COMPUTE_SHAPE(500, 3), 0, sorted, 1, 4);
      check_unique(test_context, type, COMPUTE_SHAPE(2, 500, 2), 1, sorted, far, 3);
      check_unique(test_context, type, COMPUTE_SHAPE(5, 1, 7), 1, sorted, 1, 3);
      check_unique(test_context, type, COMPUTE_SHAPE(0), -1, sorted, 1, 3);
      check_unique(test_context, type, COMPUTE_SHAPE(3, 0), 0, sorted, 1, 3);
    }
}

/* ---- NonMaxSuppression ---------------------------------------------------------------------- */

enum { BATCHES = 2, CLASSES = 3, BOXES = 157 };

static double share_of(const float *a, const float *b) {
  const float height = fminf(a[2], b[2]) - fmaxf(a[0], b[0]);
  const float width = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
  const float both = height * width;
  const float area_a = (a[2] - a[0]) * (a[3] - a[1]), area_b = (b[2] - b[0]) * (b[3] - b[1]);
  return height <= 0 || width <= 0 ? 0 : (double)(both / (area_a + area_b - both));
}

/* Takes the best box again and again. Returns the number of selected boxes. */
static int64_t suppress(const float *boxes, const float *scores, int64_t most, float limit,
                        float least, int64_t *selected) {
  bool gone[BOXES] = {false};
  int64_t found = 0;
  while (found < most) {
    int64_t best = -1;
    for (int64_t i = 0; i < BOXES; i++)
      if (!gone[i] && scores[i] > least && (best < 0 || scores[i] > scores[best])) best = i;
    if (best < 0) break;
    gone[best] = true;
    bool fine = true;
    for (int64_t k = 0; k < found; k++)
      fine = fine && share_of(boxes + 4 * best, boxes + 4 * selected[k]) <= (double)limit;
    if (fine) selected[found++] = best;
  }
  return found;
}

static void suppression_keeps_the_best(void **state) {
  (void)state;
  static float boxes[BATCHES][BOXES][4], placed[BATCHES][BOXES][4],
      scores[BATCHES * CLASSES][BOXES];
  for (int i = 0; i < BATCHES * BOXES; i++) {
    float *p = placed[i / BOXES][i % BOXES], *b = boxes[i / BOXES][i % BOXES];
    for (int k = 0; k < 2; k++) {
      p[k] = (float)(rand() % 64);
      p[2 + k] = p[k] + (float)(rand() % 32);
    }
    for (int k = 0; k < 4; k++) b[k] = p[i % 2 ? k : (k + 2) % 4]; /* corners in either order */
  }
  for (int i = 0; i < BATCHES * CLASSES * BOXES; i++)
    scores[i / BOXES][i % BOXES] = (float)(rand() % 50 - 25) / 8; /* equal scores, and ±0 */
  const int64_t counts[] = {0, 1, 10, 1 << 20};
  for (int t = 0; t < 2 * 4 * 3; t++) {
    compute_context *context = open_with(t % 2 ? 3 : 1);
    const int64_t most = counts[t / 2 % 4];
    const float limit = (float)(t / 8) * 0.4f, least = -1;
    compute_tensor *inputs[] = {
        test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(BATCHES, BOXES, 4), boxes),
        test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(BATCHES, CLASSES, BOXES), scores),
        test_tensor(context, COMPUTE_I64, COMPUTE_SHAPE(1), &most),
        test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(1), &limit),
        test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(1), &least)};
    result r = run(context, node_message("n", "NonMaxSuppression", "a,b,c,d,e", "w"), "a,b,c,d,e",
                   inputs, 5, "w", 1);
    const double *rows_found = read_all(r.out[0].tensor, values[0]);
    int64_t at = 0, selected[BOXES];
    for (int row = 0; row < BATCHES * CLASSES; row++) {
      const int64_t found = suppress(placed[row / CLASSES][0], scores[row],
                                     most < BOXES ? most : BOXES, limit, least, selected);
      for (int64_t i = 0; i < found; i++, at += 3) {
        assert_int_equal(rows_found[at], row / CLASSES);
        assert_int_equal(rows_found[at + 1], row % CLASSES);
        assert_int_equal(rows_found[at + 2], selected[i]);
      }
    }
    assert_int_equal(at, compute_tensor_count(r.out[0].tensor));
    release(r);
    for (int i = 0; i < 5; i++) compute_tensor_release(inputs[i]);
    compute_close(context);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(non_zero_finds_all),
      cmocka_unit_test(compress_takes_the_chosen),
      cmocka_unit_test(unique_finds_the_groups),
      cmocka_unit_test(suppression_keeps_the_best),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
