/* SPDX-License-Identifier: MIT */
/* Pad with repeated elements: along one axis and along several at once, for few and many rows. */
#include "compute/compute.h"
#include "model/message_writer.h"

enum { RANK = 4, MOST = 20000 };

typedef struct pad_case {
  int64_t size[RANK], pads[2 * RANK];
} pad_case;

static const char *const modes[] = {"edge", "reflect", "wrap"};

static void put_text_attribute(proto *node, const char *name, const char *value) {
  proto attribute = {0};
  put_text(&attribute, 1, name);
  put_text(&attribute, 4, value);
  put_integer(&attribute, 20, 3);
  put_message(node, NODE_ATTRIBUTE, attribute);
}

static proto make_file(const pad_case *c, const char *mode) {
  proto graph = graph_message("x", "y");
  proto node = node_message("pad", "Pad", "x,pads", "y");
  put_text_attribute(&node, "mode", mode);
  put_message(&graph, GRAPH_INITIALIZER, integers_message("pads", c->pads, 2 * RANK));
  put_message(&graph, GRAPH_NODE, node);
  return model_message(graph);
}

/* Walks one step at a time from the first element to the position. */
static int64_t source_of(int mode, int64_t position, int64_t size) {
  int64_t at = 0, step = 1;
  const int64_t toward = position < 0 ? -1 : 1;
  for (int64_t i = 0; i != position; i += toward) {
    if (mode == 0) {
      at = at + toward < 0 || at + toward >= size ? at : at + toward;
    } else if (mode == 1) {
      if (at + step * toward < 0 || at + step * toward >= size) step = -step;
      at = size == 1 ? 0 : at + step * toward;
    } else {
      at = (at + toward + size) % size;
    }
  }
  return at;
}

static double expected(const pad_case *c, int mode, const int64_t *index) {
  int64_t at = 0;
  for (int d = 0; d < RANK; d++) {
    const int64_t position = index[d] - c->pads[d];
    at = at * c->size[d] + source_of(mode, position, c->size[d]);
  }
  return (double)at;
}

static void check_values(const pad_case *c, int mode, const float *y) {
  int64_t index[RANK] = {0};
  for (int d = 0; d >= 0; y++) {
    if ((double)*y != expected(c, mode, index))
      fail_msg("%s: element %d, %d, %d, %d is %g, expected %g", modes[mode], (int)index[0],
               (int)index[1], (int)index[2], (int)index[3], (double)*y, expected(c, mode, index));
    for (d = RANK - 1; d >= 0; index[d--] = 0)
      if (++index[d] < c->size[d] + c->pads[d] + c->pads[d + RANK]) break;
  }
}

static void check_case(const pad_case *c, int mode) {
  static float values[MOST], y[MOST];
  const proto message = make_file(c, modes[mode]);
  compute_shape shape = {.rank = RANK};
  compute_model *model = NULL;
  compute_tensor *x = NULL;
  for (int i = 0; i < MOST; i++) values[i] = (float)i;
  for (int d = 0; d < RANK; d++) shape.size[d] = c->size[d];
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
  assert_ok(compute_tensor_from_host(compute_default_device(test_context), COMPUTE_F32, shape,
                                     values, &x));
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  assert_ok(compute_model_run(model, &in, 1, &out, 1));
  assert_true(compute_tensor_count(out.tensor) <= MOST);
  assert_ok(
      compute_tensor_read(out.tensor, y, (size_t)compute_tensor_count(out.tensor) * sizeof *y));
  check_values(c, mode, y);
  compute_tensor_release(out.tensor);
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

static void every_mode_repeats_the_right_elements(void **state) {
  (void)state;
  static const pad_case cases[] = {
      {{3, 4, 6, 20}, {0, 0, 2, 3, 0, 0, 1, 4}},  {{3, 4, 6, 20}, {0, 0, 0, 3, 0, 0, 0, 9}},
      {{1, 2, 6, 20}, {0, 0, 2, 3, 0, 0, 1, 4}},  {{16, 4, 1, 3}, {0, 1, 4, 2, 0, 0, 3, 7}},
      {{16, 4, 5, 3}, {0, 3, 0, 2, 0, 2, 0, 1}},  {{9, 2, 5, 33}, {0, 1, 0, 0, 0, 1, 3, 0}},
      {{2, 4, 5, 40}, {1, 0, 0, 12, 0, 0, 0, 5}}, {{8, 1, 12, 1}, {0, 0, 11, 3, 0, 0, 4, 2}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int mode = 0; mode < 3; mode++) check_case(&cases[i], mode);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_mode_repeats_the_right_elements),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
