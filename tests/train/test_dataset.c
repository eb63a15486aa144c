/* SPDX-License-Identifier: MIT */
/* Datasets: items equal those in tensors and files, orders are reproducible and uniform, the parts
 * of a split share only memory, and invalid files are refused with a message. */
#include "support/harness/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "ml/train/dataset.h"
#include "support/harness/failing_allocator.h"

#define PATH(name) TEST_SCRATCH_DIR "/" name

static const compute_batch_port f32_pair = {COMPUTE_F32, {1, {2}}},
                                f32_scalar = {COMPUTE_F32, {0, {0}}},
                                i64_scalar = {COMPUTE_I64, {0, {0}}},
                                i32_scalar = {COMPUTE_I32, {0, {0}}};

/* `count` items: inputs {i, −i} in f32, targets 10 i in i64. */
static compute_dataset *numbers(int64_t count) {
  float *inputs = malloc((size_t)count * 8);
  int64_t *targets = malloc((size_t)count * 8);
  for (int64_t i = 0; i < count; i++) {
    inputs[2 * i] = (float)i;
    inputs[2 * i + 1] = -(float)i;
    targets[i] = 10 * i;
  }
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(count, 2), inputs);
  compute_tensor *y = test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(count), targets);
  compute_dataset *dataset;
  assert_ok(compute_dataset_from_tensors(test_context, x, y, &dataset));
  compute_tensor_release(x);
  compute_tensor_release(y);
  free(inputs);
  free(targets);
  assert_int_equal(compute_dataset_count(dataset), count);
  return dataset;
}

static void write_bytes(const char *path, const void *bytes, size_t count, bool compressed) {
  gzFile file = gzopen(path, compressed ? "wb" : "wbT");
  assert_non_null(file);
  assert_int_equal(gzwrite(file, bytes, (unsigned)count), count);
  assert_int_equal(gzclose(file), Z_OK);
}

/* ---- Items --------------------------------------------------------------------------------- */

static void items_arrive_in_the_order_asked_for(void **state) {
  (void)state;
  compute_dataset *dataset = numbers(5);
  static const int64_t order[] = {3, 0, 3, 4};
  float inputs[8];
  int64_t targets[4];
  int32_t narrow[4];
  assert_ok(dataset_check(dataset, &f32_pair, &i64_scalar, "test"));
  assert_ok(dataset_gather(dataset, order, 4, &f32_pair, &i64_scalar, inputs, targets));
  assert_ok(dataset_check(dataset, &f32_pair, &i32_scalar, "test"));
  assert_ok(dataset_gather(dataset, order, 4, &f32_pair, &i32_scalar, inputs, narrow));
  for (int i = 0; i < 4; i++) {
    assert_true(inputs[2 * i] == (float)order[i] && inputs[2 * i + 1] == -(float)order[i]);
    assert_int_equal(targets[i], 10 * order[i]);
    assert_int_equal(narrow[i], 10 * order[i]);
  }
  compute_dataset_release(dataset);
}

static void many_bytes_are_gathered_alike(void **state) {
  (void)state;
  enum { ITEMS = 300, ELEMENTS = 3000 };
  float *values = malloc(sizeof(float[ITEMS][ELEMENTS])),
        *batch = malloc(sizeof(float[ITEMS][ELEMENTS]));
  for (int64_t i = 0; i < ITEMS * ELEMENTS; i++) values[i] = (float)i;
  compute_tensor *x =
      test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ITEMS, 3, ELEMENTS / 3), values);
  compute_dataset *dataset;
  int64_t order[ITEMS];
  assert_ok(compute_dataset_from_tensors(test_context, x, x, &dataset));
  dataset_order(dataset, 1, 2, order);
  const compute_batch_port port = dataset_port(dataset, DATASET_INPUT);
  assert_ok(dataset_gather(dataset, order, ITEMS, &port, &port, batch, batch));
  for (int64_t i = 0; i < ITEMS; i++) {
    assert_memory_equal(batch + i * ELEMENTS, values + order[i] * ELEMENTS, 4 * ELEMENTS);
  }
  compute_dataset_release(dataset);
  compute_tensor_release(x);
  free(values);
  free(batch);
}

static void ports_that_do_not_fit_are_refused(void **state) {
  (void)state;
  compute_dataset *dataset = numbers(3);
  const compute_batch_port image = {COMPUTE_F32, {3, {1, 2, 1}}},
                           long_one = {COMPUTE_F32, {1, {3}}}, whole = {COMPUTE_I64, {1, {2}}},
                           bytes = {COMPUTE_U8, {0, {0}}};
  assert_ok(dataset_check(dataset, &image, &f32_scalar, "test"));
  assert_fails(dataset_check(dataset, &long_one, &i64_scalar, "test"), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "input items of the data are [2]; the trainer expects [3]");
  assert_fails(dataset_check(dataset, &whole, &i64_scalar, "test"), COMPUTE_ERROR_DTYPE);
  assert_fails(dataset_check(dataset, &f32_pair, &bytes, "test"), COMPUTE_ERROR_DTYPE);
  test_check_message(test_context, "target items of the data are i64; the trainer expects u8");
  compute_dataset_release(dataset);
  static const int64_t large[] = {1, INT64_C(1) << 32};
  compute_tensor *x = test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(2), large);
  assert_ok(compute_dataset_from_tensors(test_context, x, x, &dataset));
  assert_fails(dataset_check(dataset, &i64_scalar, &i32_scalar, "test"), COMPUTE_ERROR_OVERFLOW);
  test_check_message(test_context, "4294967296");
  compute_dataset_release(dataset);
  compute_tensor_release(x);
}

static void tensors_that_do_not_belong_together_are_refused(void **state) {
  (void)state;
  compute_dataset *dataset = (compute_dataset *)test_context;
  compute_tensor *three = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3, 2), NULL);
  compute_tensor *four = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(4), NULL);
  compute_tensor *none = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(0, 4), NULL);
  compute_tensor *scalar = test_tensor(test_context, COMPUTE_F32, COMPUTE_SCALAR, NULL);
  assert_fails(compute_dataset_from_tensors(test_context, three, four, &dataset),
               COMPUTE_ERROR_SHAPE);
  assert_null(dataset);
  test_check_message(test_context, "inputs [3,2] and targets [4]");
  assert_fails(compute_dataset_from_tensors(test_context, none, none, &dataset),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_dataset_from_tensors(test_context, scalar, scalar, &dataset),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_dataset_from_tensors(test_context, NULL, four, &dataset),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_dataset_from_tensors(test_context, four, four, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_int_equal(compute_dataset_count(NULL), 0);
  compute_dataset_release(NULL);
  compute_tensor_release(three);
  compute_tensor_release(four);
  compute_tensor_release(none);
  compute_tensor_release(scalar);
}

/* ---- Order --------------------------------------------------------------------------------- */

static void an_order_is_the_same_everywhere_and_holds_each_item_once(void **state) {
  (void)state;
  /* From an independent implementation with Python's integers. */
  static const int64_t expected[] = {7, 4, 1, 2, 6, 8, 3, 0, 9, 5};
  compute_dataset *dataset = numbers(10);
  int64_t order[10], other[10];
  dataset_order(dataset, 42, 3, order);
  for (int i = 0; i < 10; i++) assert_int_equal(order[i], expected[i]);
  dataset_order(dataset, 42, 4, other);
  assert_memory_not_equal(order, other, sizeof order);
  dataset_order(dataset, 43, 3, other);
  assert_memory_not_equal(order, other, sizeof order);
  compute_dataset_release(dataset);
  for (int64_t count = 1; count < 200; count += 13) {
    int64_t many[200];
    bool seen[200] = {false};
    dataset_shuffle(many, count, 7, 0, 0);
    for (int64_t i = 0; i < count; i++) {
      assert_in_range(many[i], 0, count - 1);
      assert_false(seen[many[i]]);
      seen[many[i]] = true;
    }
  }
}

/* χ² of all 24 orders of 4 items over 24000 epochs: 23 degrees of freedom, 0.9999 quantile 59. */
static void every_order_is_equally_likely(void **state) {
  (void)state;
  int counts[256] = {0};
  double sum = 0;
  for (uint32_t epoch = 0; epoch < 24000; epoch++) {
    int64_t o[4];
    dataset_shuffle(o, 4, 5, epoch, 1);
    counts[o[0] * 64 + o[1] * 16 + o[2] * 4 + o[3]]++;
  }
  for (int i = 0; i < 256; i++) sum += counts[i] ? (counts[i] - 1000.0) * (counts[i] - 1000.0) : 0;
  assert_true(sum / 1000 < 59);
}

/* ---- Splitting ----------------------------------------------------------------------------- */

static void parts_hold_each_item_once_and_may_be_split_again(void **state) {
  (void)state;
  compute_dataset *first = numbers(100), *second, *third, *again, *rest;
  assert_ok(compute_dataset_split(first, 0.2, 9, &second));
  assert_ok(compute_dataset_split(first, 0.25, 1, &third));
  assert_int_equal(compute_dataset_count(first), 60);
  assert_int_equal(compute_dataset_count(second), 20);
  assert_int_equal(compute_dataset_count(third), 20);
  bool seen[100] = {false};
  compute_dataset *const parts[] = {first, second, third};
  int64_t all[100], targets[100];
  for (int64_t i = 0; i < 100; i++) all[i] = i;
  float inputs[200];
  for (int p = 0; p < 3; p++) {
    int64_t count = compute_dataset_count(parts[p]);
    assert_ok(dataset_gather(parts[p], all, count, &f32_pair, &i64_scalar, inputs, targets));
    for (int64_t i = 0; i < count; i++) {
      int64_t item = targets[i] / 10;
      assert_true(inputs[2 * i] == (float)item);
      assert_false(seen[item]);
      seen[item] = true;
    }
  }
  rest = numbers(100);
  assert_ok(compute_dataset_split(rest, 0.2, 9, &again));
  for (int64_t i = 0; i < 20; i++) assert_int_equal(again->items[i], second->items[i]);
  compute_dataset_release(first); /* the others remain valid */
  assert_ok(dataset_gather(second, all, 20, &f32_pair, &i64_scalar, inputs, targets));
  compute_dataset_release(second);
  compute_dataset_release(third);
  compute_dataset_release(again);
  compute_dataset_release(rest);
}

static void a_part_without_items_is_refused(void **state) {
  (void)state;
  static const double fractions[] = {0, 1, -0.5, 2, 0.01, 0.99, (double)NAN, (double)INFINITY};
  compute_dataset *dataset = numbers(10), *second;
  for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++) {
    assert_fails(compute_dataset_split(dataset, fractions[i], 1, &second),
                 COMPUTE_ERROR_INVALID_ARGUMENT);
    assert_null(second);
  }
  assert_fails(compute_dataset_split(NULL, 0.5, 1, &second), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_dataset_split(dataset, 0.5, 1, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_int_equal(compute_dataset_count(dataset), 10);
  compute_dataset_release(dataset);
}

/* ---- Files --------------------------------------------------------------------------------- */

static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0,   0, 2,
                                       0, 0, 0, 2, 1, 2, 3, 4, 5, 255, 7, 8};
static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 3, 9};

static compute_status read_files(const char *inputs, const char *targets) {
  compute_dataset *dataset = NULL;
  compute_status status = compute_dataset_from_files(test_context, inputs, targets, &dataset);
  assert_int_equal(status == COMPUTE_OK, dataset != NULL);
  compute_dataset_release(dataset);
  return status;
}

static void idx_files_arrive_plain_and_compressed(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    write_bytes(PATH("images"), images, sizeof images, i & 1);
    write_bytes(PATH("labels"), labels, sizeof labels, i & 2);
    compute_dataset *dataset;
    assert_ok(compute_dataset_from_files(test_context, PATH("images"), PATH("labels"), &dataset));
    assert_int_equal(compute_dataset_count(dataset), 2);
    compute_batch_port port = dataset_port(dataset, DATASET_INPUT);
    assert_int_equal(port.dtype, COMPUTE_U8);
    assert_true(compute_shape_equal(port.item, COMPUTE_SHAPE(2, 2)));
    const compute_batch_port wanted = {COMPUTE_F32, COMPUTE_SHAPE(1, 2, 2)};
    static const int64_t order[] = {1, 0};
    float pixels[8];
    int64_t targets[2];
    assert_ok(dataset_check(dataset, &wanted, &i64_scalar, "test"));
    assert_ok(dataset_gather(dataset, order, 2, &wanted, &i64_scalar, pixels, targets));
    for (int j = 0; j < 8; j++) assert_true(pixels[j] == images[16 + (j + 4) % 8]);
    assert_true(targets[0] == 9 && targets[1] == 3);
    compute_dataset_release(dataset);
  }
}

static void every_type_of_idx_arrives(void **state) {
  (void)state;
  static const struct {
    unsigned char code, bytes[8];
    size_t size;
    double expected;
  } cases[] = {{0x08, {200}, 1, 200},
               {0x09, {0xfe}, 1, -2},
               {0x0B, {0xff, 0x00}, 2, -256},
               {0x0C, {0xff, 0xff, 0xff, 0xfe}, 4, -2},
               {0x0D, {0x3f, 0xc0, 0, 0}, 4, 1.5},
               {0x0E, {0x3f, 0xf8, 0, 0, 0, 0, 0, 0}, 8, 1.5}};
  const compute_batch_port f64 = {COMPUTE_F64, COMPUTE_SCALAR};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    unsigned char file[16] = {0, 0, cases[i].code, 1, 0, 0, 0, 1};
    memcpy(file + 8, cases[i].bytes, 8);
    write_bytes(PATH("any"), file, 8 + cases[i].size, false);
    compute_dataset *dataset;
    static const int64_t zero = 0;
    double input, target;
    assert_ok(compute_dataset_from_files(test_context, PATH("any"), PATH("any"), &dataset));
    assert_ok(dataset_gather(dataset, &zero, 1, &f64, &f64, &input, &target));
    assert_true(input == cases[i].expected && target == cases[i].expected);
    compute_dataset_release(dataset);
  }
}

static void npy_files_arrive(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3, 4};
  static const int64_t order[] = {1};
  float input[2];
  int64_t target;
  compute_dataset *dataset;
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 2), values);
  assert_ok(compute_npy_write(x, PATH("x.npy")));
  write_bytes(PATH("labels"), labels, sizeof labels, true);
  assert_ok(compute_dataset_from_files(test_context, PATH("x.npy"), PATH("labels"), &dataset));
  assert_ok(dataset_gather(dataset, order, 1, &f32_pair, &i64_scalar, input, &target));
  assert_true(input[0] == 3 && input[1] == 4 && target == 9);
  compute_dataset_release(dataset);
  compute_tensor_release(x);
}

static void files_that_lie_are_refused(void **state) {
  (void)state;
  static const struct {
    unsigned char bytes[32];
    size_t count;
    compute_status status;
    const char *part;
  } cases[] = {
      {{0}, 0, COMPUTE_ERROR_FORMAT, "neither an .npy nor an IDX file"},
      {{'a', 'b', 'c', 'd', 'e', 'f'}, 6, COMPUTE_ERROR_FORMAT, "neither an .npy nor an IDX file"},
      {{0, 0, 7, 1, 0, 0, 0, 1, 1}, 9, COMPUTE_ERROR_FORMAT, "like an IDX file"},
      {{0, 0, 8, 0, 0, 0, 0, 1, 1}, 9, COMPUTE_ERROR_FORMAT, "like an IDX file"},
      {{0, 0, 8, 9, 0, 0, 0, 1, 1}, 9, COMPUTE_ERROR_UNSUPPORTED, "more than 8"},
      {{0, 0, 8, 1, 0, 0, 0, 3, 1}, 9, COMPUTE_ERROR_FORMAT, "is truncated"},
      {{0, 0, 8, 1, 0, 0, 0, 1, 1, 1}, 10, COMPUTE_ERROR_FORMAT, "extra data follows"},
      {{0, 0, 8, 2, 0, 0, 0, 1, 0}, 9, COMPUTE_ERROR_FORMAT, "is truncated"},
      {{0, 0, 8, 1, 255, 255, 255, 255, 1}, 9, COMPUTE_ERROR_FORMAT, "cannot hold"},
      {{0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
       16,
       COMPUTE_ERROR_FORMAT,
       "cannot hold"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int compressed = 0; compressed < 2; compressed++) {
      if (i < 2 && compressed) continue;
      write_bytes(PATH("lies"), cases[i].bytes, cases[i].count, compressed);
      assert_fails(read_files(PATH("lies"), PATH("labels")), cases[i].status);
      test_check_message(test_context, cases[i].part);
      test_check_message(test_context, "lies");
    }
  }
  assert_fails(read_files(PATH("none"), PATH("labels")), COMPUTE_ERROR_FILE);
  assert_fails(read_files(PATH("labels"), TEST_SCRATCH_DIR), COMPUTE_ERROR_FILE);
  assert_fails(read_files(NULL, PATH("labels")), COMPUTE_ERROR_NULL_POINTER);
  /* gzip with a wrong checksum, and truncated gzip. */
  write_bytes(PATH("images"), images, sizeof images, true);
  unsigned char gzip[128];
  FILE *file = fopen(PATH("images"), "rb");
  size_t count = fread(gzip, 1, sizeof gzip, file);
  fclose(file);
  gzip[count - 8] ^= 1;
  write_bytes(PATH("lies"), gzip, count, false);
  assert_fails(read_files(PATH("lies"), PATH("labels")), COMPUTE_ERROR_FORMAT);
  for (size_t length = 0; length < count; length++) {
    write_bytes(PATH("lies"), gzip, length, false);
    assert_fails(read_files(PATH("lies"), PATH("labels")), COMPUTE_ERROR_FORMAT);
  }
}

static void tables_have_their_label_in_any_column(void **state) {
  (void)state;
  static const char text[] = "0.5,1,7\n-2,3,8\n";
  static const int64_t order[] = {0, 1};
  write_bytes(PATH("table.csv"), text, sizeof text - 1, true);
  static const struct {
    int32_t column;
    float inputs[4];
    int64_t targets[2];
  } cases[] = {{2, {0.5f, 1, -2, 3}, {7, 8}},
               {-1, {0.5f, 1, -2, 3}, {7, 8}},
               {1, {0.5f, 7, -2, 8}, {1, 3}},
               {-2, {0.5f, 7, -2, 8}, {1, 3}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    compute_dataset *dataset;
    float inputs[4];
    int64_t targets[2];
    assert_ok(compute_dataset_from_csv(test_context, PATH("table.csv"), cases[i].column,
                                       COMPUTE_SHAPE(1, 2), &dataset));
    assert_true(
        compute_shape_equal(dataset_port(dataset, DATASET_INPUT).item, COMPUTE_SHAPE(1, 2)));
    assert_ok(dataset_gather(dataset, order, 2, &f32_pair, &i64_scalar, inputs, targets));
    assert_memory_equal(inputs, cases[i].inputs, sizeof inputs);
    assert_memory_equal(targets, cases[i].targets, sizeof targets);
    compute_dataset_release(dataset);
  }
}

static void tables_have_numbers_as_targets(void **state) {
  (void)state;
  static const char text[] = "0.5,1,7.25\n-2,3,8.5\n";
  static const int64_t order[] = {1, 0};
  static const int32_t columns[] = {-1, 0}, twice[] = {0, -3}, outside[] = {3};
  static const float wanted_inputs[] = {3, 1}, wanted_targets[] = {8.5f, -2, 7.25f, 0.5f};
  const compute_batch_port one = {COMPUTE_F32, COMPUTE_SHAPE(1)},
                           two = {COMPUTE_F32, COMPUTE_SHAPE(2)};
  compute_dataset *dataset;
  float inputs[2], targets[4];
  write_bytes(PATH("table.csv"), text, sizeof text - 1, true);
  assert_ok(compute_dataset_from_csv_numbers(test_context, PATH("table.csv"), columns, 2,
                                             COMPUTE_SHAPE(1), &dataset));
  assert_ok(dataset_gather(dataset, order, 2, &one, &two, inputs, targets));
  assert_memory_equal(inputs, wanted_inputs, sizeof inputs);
  assert_memory_equal(targets, wanted_targets, sizeof targets);
  compute_dataset_release(dataset);
  assert_fails(compute_dataset_from_csv_numbers(test_context, PATH("table.csv"), twice, 2,
                                                COMPUTE_SHAPE(1), &dataset),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "column -3 is named twice");
  assert_fails(compute_dataset_from_csv_numbers(test_context, PATH("table.csv"), outside, 1,
                                                COMPUTE_SHAPE(2), &dataset),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_dataset_from_csv_numbers(test_context, PATH("table.csv"), columns, 0,
                                                COMPUTE_SHAPE(3), &dataset),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_dataset_from_csv_numbers(test_context, PATH("table.csv"), NULL, 1,
                                                COMPUTE_SHAPE(2), &dataset),
               COMPUTE_ERROR_NULL_POINTER);
}

static void tables_that_do_not_fit_are_refused(void **state) {
  (void)state;
  static const char text[] = "0.5,1,7\n-2,3,8\n";
  compute_dataset *dataset;
  write_bytes(PATH("table.csv"), text, sizeof text - 1, false);
#define REFUSED(column, item, status, part)                                                        \
  do {                                                                                             \
    assert_fails(                                                                                  \
        compute_dataset_from_csv(test_context, PATH("table.csv"), column, item, &dataset),         \
        status);                                                                                   \
    assert_null(dataset);                                                                          \
    test_check_message(test_context, part);                                                        \
  } while (0)
  REFUSED(3, COMPUTE_SHAPE(2), COMPUTE_ERROR_INVALID_ARGUMENT, "column 3 is outside the 3");
  REFUSED(-4, COMPUTE_SHAPE(2), COMPUTE_ERROR_INVALID_ARGUMENT, "column -4");
  REFUSED(-1, COMPUTE_SHAPE(3), COMPUTE_ERROR_SHAPE, "shape [3]");
  REFUSED(-1, COMPUTE_SHAPE(-1, -2), COMPUTE_ERROR_SHAPE, "shape [-1,-2]");
  REFUSED(-1, COMPUTE_SHAPE(1, 1, 1, 1, 1, 1, 1, 2), COMPUTE_ERROR_SHAPE, "shape [1,1");
  REFUSED(0, COMPUTE_SHAPE(2), COMPUTE_ERROR_FORMAT, "line 1, column 1: 0.5 is not a label");
  assert_fails(compute_dataset_from_csv(test_context, PATH("no"), 0, COMPUTE_SHAPE(2), &dataset),
               COMPUTE_ERROR_FILE);
  assert_fails(compute_dataset_from_csv(test_context, NULL, 0, COMPUTE_SHAPE(2), &dataset),
               COMPUTE_ERROR_NULL_POINTER);
}

/* ---- Lack of memory ------------------------------------------------------------------------ */

static compute_status make_and_split(compute_context *context) {
  compute_dataset *first = NULL, *second = NULL, *table = NULL;
  compute_status status =
      compute_dataset_from_files(context, PATH("images"), PATH("labels"), &first);
  if (!status) status = compute_dataset_split(first, 0.5, 1, &second);
  if (!status)
    status = compute_dataset_from_csv(context, PATH("table.csv"), -1, COMPUTE_SHAPE(2), &table);
  compute_dataset_release(first);
  compute_dataset_release(second);
  compute_dataset_release(table);
  return status;
}

static void short_memory_is_an_error_and_nothing_is_lost(void **state) {
  (void)state;
  write_bytes(PATH("images"), images, sizeof images, true);
  write_bytes(PATH("labels"), labels, sizeof labels, false);
  write_bytes(PATH("table.csv"), "1,2,3\n4,5,6\n", 12, false);
  failing_allocator_install();
  compute_context *context = test_open();
  bool failed = true;
  for (int64_t nth = 1; failed && nth < 300; nth++) {
    failing_allocator_arm(nth, false);
    compute_status status = make_and_split(context);
    failed = failing_allocator_failures() > 0;
    if (!failed) assert_int_equal(status, COMPUTE_OK);
  }
  failing_allocator_arm(0, false);
  assert_false(failed);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest alone[] = {
      cmocka_unit_test(short_memory_is_an_error_and_nothing_is_lost)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(items_arrive_in_the_order_asked_for),
      cmocka_unit_test(many_bytes_are_gathered_alike),
      cmocka_unit_test(ports_that_do_not_fit_are_refused),
      cmocka_unit_test(tensors_that_do_not_belong_together_are_refused),
      cmocka_unit_test(an_order_is_the_same_everywhere_and_holds_each_item_once),
      cmocka_unit_test(every_order_is_equally_likely),
      cmocka_unit_test(parts_hold_each_item_once_and_may_be_split_again),
      cmocka_unit_test(a_part_without_items_is_refused),
      cmocka_unit_test(idx_files_arrive_plain_and_compressed),
      cmocka_unit_test(every_type_of_idx_arrives),
      cmocka_unit_test(npy_files_arrive),
      cmocka_unit_test(files_that_lie_are_refused),
      cmocka_unit_test(tables_have_their_label_in_any_column),
      cmocka_unit_test(tables_have_numbers_as_targets),
      cmocka_unit_test(tables_that_do_not_fit_are_refused),
  };
  int failures = cmocka_run_group_tests(alone, NULL, NULL);
  return failures + cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
