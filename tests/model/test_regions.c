/* SPDX-License-Identifier: MIT */
/* RoiAlign with more points and channels than it reads at a time. In planes with a constant slope,
 * the average of a bin is the value at its centre. MaxRoiPool: the rows of its bins. */
#include <math.h>
#include <stdlib.h>

#include "compute/compute.h"
#include "model/message_writer.h"

enum { CHANNELS = 130, SIZE = 24, BINS = 3, RATIO = 9, REGIONS = 2 };

static const float corners[REGIONS][4] = {{2, 3, 20, 18}, {0.5f, 1, 5, 2.5f}};

static compute_model *load(const char *mode, void **data) {
  proto node = node_message("node", "RoiAlign", "x,regions,images", "y"), attribute = {0};
  put_integer_attribute(&node, "output_height", BINS);
  put_integer_attribute(&node, "output_width", BINS);
  put_integer_attribute(&node, "sampling_ratio", RATIO);
  put_text(&attribute, 1, "mode");
  put_text(&attribute, 4, mode);
  put_integer(&attribute, 20, 3);
  put_message(&node, NODE_ATTRIBUTE, attribute);
  proto graph = graph_message("x,regions,images", "y");
  put_message(&graph, GRAPH_NODE, node);
  proto model = model_message(graph);
  compute_model *loaded = NULL;
  assert_ok(compute_model_load_memory(test_context, model.data, model.bytes, NULL, &loaded));
  *data = model.data;
  return loaded;
}

static double plane(int64_t channel, double y, double x) {
  return 0.25 * (double)channel + (channel % 2 ? 1 : -1) * y + 0.5 * x;
}

static compute_tensor *run(compute_model *model, bool blank) {
  static float data[CHANNELS * SIZE * SIZE];
  for (int64_t i = 0; i < CHANNELS * SIZE * SIZE; i++)
    data[i] = blank
                  ? NAN
                  : (float)plane(i / (SIZE * SIZE), (double)(i / SIZE % SIZE), (double)(i % SIZE));
  compute_model_binding out = {"y", NULL};
  compute_model_binding in[] = {
      {"x", test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1, CHANNELS, SIZE, SIZE), data)},
      {"regions", test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(REGIONS, 4), corners)},
      {"images", test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(REGIONS), (int64_t[2]){0})}};
  assert_ok(compute_model_run(model, in, 3, &out, 1));
  for (int i = 0; i < 3; i++) compute_tensor_release(in[i].tensor);
  return out.tensor;
}

static void averages_are_those_of_all_points(void **state) {
  (void)state;
  void *data;
  compute_model *model = load("avg", &data);
  compute_tensor *y = run(model, false);
  for (int64_t i = 0; i < REGIONS * CHANNELS * BINS * BINS; i++) {
    const int64_t r = i / (CHANNELS * BINS * BINS), c = i / (BINS * BINS) % CHANNELS;
    const double row = (double)(i / BINS % BINS) + 0.5, column = (double)(i % BINS) + 0.5;
    const double left = (double)corners[r][0] - 0.5, top = (double)corners[r][1] - 0.5;
    const double width = (double)(corners[r][2] - corners[r][0]) / BINS;
    const double height = (double)(corners[r][3] - corners[r][1]) / BINS;
    assert_true(fabs(test_element(y, i) - plane(c, top + row * height, left + column * width)) <
                1e-4);
  }
  compute_tensor_release(y);
  compute_model_release(model);
  free(data);
}

/* The maximum of NaN and a number is the number. A bin of nothing but NaN has no number. */
static void a_maximum_of_nothing_but_nan_is_nan(void **state) {
  (void)state;
  void *data;
  compute_model *model = load("max", &data);
  compute_tensor *y = run(model, true);
  for (int64_t i = 0; i < REGIONS * CHANNELS * BINS * BINS; i++)
    assert_true(isnan(test_element(y, i)));
  compute_tensor_release(y);
  compute_model_release(model);
  free(data);
}

/* Bins are compared with integer arithmetic. Row i of the plane has the number i, so that a maximum is
 * the last row of a bin. */
static void bins_of_every_length_end_at_whole_rows(void **state) {
  (void)state;
  enum { ROWS = 60, MOST_BINS = 11 };
  float data[ROWS], regions[ROWS][5] = {{0}};
  for (int i = 0; i < ROWS; i++) {
    data[i] = (float)i;
    regions[i][4] = (float)i;
  }
  for (int64_t bins = 1; bins <= MOST_BINS; bins++) {
    proto node = node_message("node", "MaxRoiPool", "x,regions", "y");
    put_list_attribute(&node, "pooled_shape", (int64_t[2]){bins, 1}, 2);
    proto graph = graph_message("x,regions", "y");
    put_message(&graph, GRAPH_NODE, node);
    proto message = model_message(graph);
    compute_model *model = NULL;
    assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
    compute_model_binding out = {"y", NULL};
    compute_model_binding in[] = {
        {"x", test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1, 1, ROWS, 1), data)},
        {"regions", test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ROWS, 5), regions)}};
    assert_ok(compute_model_run(model, in, 2, &out, 1));
    for (int64_t i = 0; i < ROWS * bins; i++) {
      const int64_t length = i / bins + 1, bin = i % bins;
      const int64_t end = ((bin + 1) * length + bins - 1) / bins;
      assert_float_equal(test_element(out.tensor, i), (double)(end - 1), 0);
    }
    for (int k = 0; k < 2; k++) compute_tensor_release(in[k].tensor);
    compute_tensor_release(out.tensor);
    compute_model_release(model);
    free(message.data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(averages_are_those_of_all_points),
      cmocka_unit_test(a_maximum_of_nothing_but_nan_is_nan),
      cmocka_unit_test(bins_of_every_length_end_at_whole_rows),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
