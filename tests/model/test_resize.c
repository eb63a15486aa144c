/* SPDX-License-Identifier: MIT */
/* Source positions of a resized axis: corners of the result and ties that f32 cannot represent, as
 * in PyTorch and ONNX Runtime. The data is 0, 1, 2, … */
#include <math.h>

#include "compute/compute.h"
#include "model/message_writer.h"

enum { MOST = 64 };

typedef struct resize_case {
  const char *coordinates, *mode, *nearest;
  int64_t from, to; /* the length of the result, which is checked */
  float scale;      /* 0: `to` is the requested size */
  float begin, end; /* of the region */
} resize_case;

static void put_text_attribute(proto *node, const char *name, const char *value) {
  proto attribute = {0};
  put_text(&attribute, 1, name);
  put_text(&attribute, 4, value);
  put_integer(&attribute, 20, 3);
  put_message(node, NODE_ATTRIBUTE, attribute);
}

static proto make_file(const resize_case *c) {
  proto graph = graph_message("x", "y");
  proto node = node_message("resize", "Resize", c->scale > 0 ? "x,roi,by" : "x,roi,,by", "y");
  const float region[2] = {c->begin, c->end};
  put_text_attribute(&node, "mode", c->mode);
  put_text_attribute(&node, "coordinate_transformation_mode", c->coordinates);
  if (c->nearest) put_text_attribute(&node, "nearest_mode", c->nearest);
  put_message(&graph, GRAPH_INITIALIZER, vector_message("roi", region, 2));
  put_message(&graph, GRAPH_INITIALIZER,
              c->scale > 0 ? vector_message("by", &c->scale, 1)
                           : integers_message("by", &c->to, 1));
  put_message(&graph, GRAPH_NODE, node);
  return model_message(graph);
}

static void resize(const resize_case *c, float y[MOST]) {
  const proto message = make_file(c);
  compute_model *model = NULL;
  compute_tensor *x = NULL;
  float values[MOST];
  for (int i = 0; i < MOST; i++) values[i] = (float)i;
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
  assert_ok(compute_tensor_from_host(compute_default_device(test_context), COMPUTE_F32,
                                     COMPUTE_SHAPE(c->from), values, &x));
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  assert_ok(compute_model_run(model, &in, 1, &out, 1));
  assert_int_equal(compute_tensor_count(out.tensor), c->to);
  assert_ok(compute_tensor_read(out.tensor, y, (size_t)c->to * sizeof *y));
  compute_tensor_release(out.tensor);
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

/* Linear interpolation of 0, 1, 2, … gives the source position. */
static void corners_are_those_of_the_result(void **state) {
  (void)state;
  static const resize_case cases[] = {
      {"align_corners", "linear", NULL, 7, 16, 2.3f, 0, 0},
      {"align_corners", "linear", NULL, 5, 11, 2.3f, 0, 0},
      {"align_corners", "linear", NULL, 9, 4, 0.5f, 0, 0},
      {"align_corners", "linear", NULL, 9, 1, 0.2f, 0, 0},
      {"align_corners", "linear", NULL, 7, 16, 0, 0, 0},
      {"tf_crop_and_resize", "linear", NULL, 9, 20, 2.3f, 0.25f, 0.75f},
      {"tf_crop_and_resize", "linear", NULL, 9, 1, 0.2f, 0.25f, 0.75f}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const resize_case *c = &cases[i];
    const bool crop = c->end > 0;
    const double last = (double)c->from - 1, first = crop ? (double)c->begin * last : 0;
    const double span = crop ? (double)(c->end - c->begin) * last : last;
    float y[MOST];
    resize(c, y);
    for (int64_t k = 0; k < c->to; k++) {
      const double alone = crop ? first + span / 2 : 0;
      const double place = c->to > 1 ? first + (double)k * span / (double)(c->to - 1) : alone;
      assert_float_equal((double)y[k], place, 1e-5);
    }
  }
}

/* Cubic interpolation also meets the corners; nearest takes them. */
static void every_mode_meets_the_corners(void **state) {
  (void)state;
  static const char *const modes[] = {"nearest", "linear", "cubic"};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    const resize_case c = {"align_corners", modes[i], NULL, 7, 16, 2.3f, 0, 0};
    float y[MOST];
    resize(&c, y);
    assert_float_equal((double)y[0], 0, 1e-6);
    assert_float_equal((double)y[15], 6, 1e-5);
  }
}

static void ties_are_ties_in_spite_of_rounding(void **state) {
  (void)state;
  static const struct {
    resize_case c;
    float y[4];
  } cases[] = {
      {{"half_pixel_symmetric", "nearest", "round_prefer_floor", 7, 2, 1.0f / 3, 0, 0}, {1, 4}},
      {{"half_pixel_symmetric", "nearest", "round_prefer_ceil", 7, 2, 1.0f / 3, 0, 0}, {2, 5}},
      {{"asymmetric", "nearest", "round_prefer_ceil", 7, 2, 0, 0, 0}, {0, 4}},
      {{"asymmetric", "nearest", "round_prefer_floor", 7, 2, 0, 0, 0}, {0, 3}},
      {{"half_pixel", "nearest", "round_prefer_floor", 4, 2, 0.5f, 0, 0}, {0, 2}},
      {{"half_pixel", "nearest", "round_prefer_ceil", 4, 2, 0.5f, 0, 0}, {1, 3}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float y[MOST];
    resize(&cases[i].c, y);
    for (int64_t k = 0; k < cases[i].c.to; k++)
      if (y[k] != cases[i].y[k])
        fail_msg("%s, %s: element %d is %g, expected %g", cases[i].c.coordinates,
                 cases[i].c.nearest, (int)k, (double)y[k], (double)cases[i].y[k]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(corners_are_those_of_the_result),
      cmocka_unit_test(every_mode_meets_the_corners),
      cmocka_unit_test(ties_are_ties_in_spite_of_rounding),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
