/* SPDX-License-Identifier: MIT */
/* Derivatives of the operations of neural networks against central differences; those of
 * convolutions are in test_convolution.c. */
#include "support/harness/gradient.h"
#include "support/harness/test.h"

typedef compute_node (*expression)(compute_graph *, const compute_node *);

typedef struct expression_case {
  const char *name;
  expression build;
  size_t count;
  compute_shape shapes[4];
} expression_case;

static const compute_node none = {0, 0};

#define EXPRESSION(name, value)                                                                    \
  static compute_node name(compute_graph *g, const compute_node *x) {                              \
    return (value);                                                                                \
  }
#define POOL(...)                                                                                  \
  &(compute_pool2d_options) {                                                                      \
    __VA_ARGS__                                                                                    \
  }
#define ATTENTION(...)                                                                             \
  &(compute_attention_options) {                                                                   \
    __VA_ARGS__                                                                                    \
  }

EXPRESSION(max_pool, compute_max_pool2d(g, x[0], POOL(.size = {2})))
EXPRESSION(max_pool_overlap,
           compute_max_pool2d(g, x[0],
                              POOL(.size = {3}, .stride = {2}, .padding = {1, 1}, .ceil = true)))
EXPRESSION(average_pool,
           compute_average_pool2d(g, x[0], POOL(.size = {3, 2}, .stride = {2}, .padding = {1, 1})))
EXPRESSION(average_inside,
           compute_average_pool2d(g, x[0],
                                  POOL(.size = {3}, .stride = {2}, .padding = {1, 1},
                                       .exclude_padding = true, .ceil = true)))
EXPRESSION(max_pool_sides,
           compute_max_pool2d(g, x[0],
                              POOL(.size = {3, 2}, .stride = {1, 2}, .padding = {4, 1},
                                   .padding_more = {-3, 0}, .dilation = {2, 1})))
EXPRESSION(average_sides,
           compute_average_pool2d(g, x[0],
                                  POOL(.size = {3, 2}, .stride = {2, 1}, .padding = {0, 2},
                                       .padding_more = {2, -1}, .dilation = {1, 3})))
EXPRESSION(unpooled,
           compute_max_unpool(g,
                              compute_mul(g, compute_max_pool2d(g, x[0], POOL(.size = {2})), x[1]),
                              compute_argmax_pool2d(g, x[0], POOL(.size = {2})),
                              COMPUTE_SHAPE(2, 2, 4, 2)))
EXPRESSION(global_average, compute_global_average_pool2d(g, x[0]))
EXPRESSION(global_max, compute_global_max_pool2d(g, x[0]))
EXPRESSION(norm_given, compute_batch_norm(g, x[0], x[1], compute_square(g, x[2]), x[1], x[2], 0.5))
EXPRESSION(norm_own, compute_batch_norm_training(g, x[0], x[1], x[2], 1e-2, NULL, NULL))
EXPRESSION(dropped,
           compute_dropout(g, x[0], 0.4,
                           compute_constant(g, COMPUTE_I64, COMPUTE_SCALAR, &(const int64_t){3}),
                           1))
EXPRESSION(padded, compute_pad(g, x[0], 1, 1, 2, COMPUTE_PAD_CONSTANT, 0))
EXPRESSION(padded_number, compute_pad(g, x[0], 0, 1, 2, COMPUTE_PAD_CONSTANT, 3))
EXPRESSION(padded_edge, compute_pad(g, x[0], 1, 1, 2, COMPUTE_PAD_EDGE, 0))
EXPRESSION(padded_reflect, compute_pad(g, x[0], 1, 2, 1, COMPUTE_PAD_REFLECT, 0))
EXPRESSION(nearest, compute_upsample2d(g, x[0], 4, 5, COMPUTE_UPSAMPLE_NEAREST))
EXPRESSION(bilinear, compute_upsample2d(g, x[0], 5, 4, COMPUTE_UPSAMPLE_BILINEAR))
EXPRESSION(running, compute_cumulative_sum(g, x[0], 0, false, false))
EXPRESSION(running_back, compute_cumulative_sum(g, x[0], 1, true, true))
EXPRESSION(largest, compute_top_k(g, x[0], 2, 1, false, NULL))
EXPRESSION(smallest, compute_top_k(g, x[0], 2, 0, true, NULL))
EXPRESSION(sorted, compute_sort(g, x[0], 1, false))
EXPRESSION(sorted_down, compute_sort(g, compute_transpose(g, x[0], COMPUTE_AXES(1, 0)), 1, true))
EXPRESSION(attention, compute_scaled_attention(g, x[0], x[1], x[2], NULL))
EXPRESSION(attention_causal,
           compute_scaled_attention(g, x[0], x[1], x[2], ATTENTION(.causal = true, .scale = 0.5)))
EXPRESSION(attention_biased, compute_scaled_attention(g, x[0], x[1], x[2], ATTENTION(.bias = x[3])))
EXPRESSION(binary, compute_binary_cross_entropy(g, x[0], compute_sigmoid(g, x[1])))
EXPRESSION(huber_loss, compute_huber(g, x[0], x[1], 0.8))

static const expression_case cases[] = {
    {"max_pool2d", max_pool, 1, {SHAPE(1, 2, 4, 4)}},
    {"max_pool2d, windows that overlap", max_pool_overlap, 1, {SHAPE(2, 1, 6, 5)}},
    {"average_pool2d", average_pool, 1, {SHAPE(1, 2, 5, 4)}},
    {"average_pool2d without padding", average_inside, 1, {SHAPE(1, 2, 4, 6)}},
    {"max_pool2d, padding of each side, dilated", max_pool_sides, 1, {SHAPE(1, 2, 5, 4)}},
    {"average_pool2d, padding of each side, dilated", average_sides, 1, {SHAPE(1, 2, 4, 5)}},
    {"max_unpool", unpooled, 2, {SHAPE(2, 1, 4, 4), SHAPE(2, 1, 2, 2)}},
    {"global_average_pool2d", global_average, 1, {SHAPE(2, 2, 2, 3)}},
    {"global_max_pool2d", global_max, 1, {SHAPE(2, 2, 2, 3)}},
    {"batch_norm", norm_given, 3, {SHAPE(2, 2, 2, 3), SHAPE(2), SHAPE(2)}},
    {"batch_norm_training", norm_own, 3, {SHAPE(3, 2, 2, 2), SHAPE(2), SHAPE(2)}},
    {"dropout", dropped, 1, {SHAPE(4, 5)}},
    {"pad", padded, 1, {SHAPE(3, 2)}},
    {"pad with a number", padded_number, 1, {SHAPE(3, 2)}},
    {"pad with the edge", padded_edge, 1, {SHAPE(2, 3)}},
    {"pad reflected", padded_reflect, 1, {SHAPE(2, 4)}},
    {"upsample2d to the nearest", nearest, 1, {SHAPE(1, 2, 2, 3)}},
    {"upsample2d bilinear", bilinear, 1, {SHAPE(1, 2, 2, 3)}},
    {"cumulative_sum", running, 1, {SHAPE(4, 3)}},
    {"cumulative_sum from the end", running_back, 1, {SHAPE(4, 3)}},
    {"top_k", largest, 1, {SHAPE(2, 5)}},
    {"top_k smallest", smallest, 1, {SHAPE(4, 2)}},
    {"sort", sorted, 1, {SHAPE(3, 5)}},
    {"sort descending", sorted_down, 1, {SHAPE(5, 3)}},
    {"attention", attention, 3, {SHAPE(2, 3, 4), SHAPE(1, 5, 4), SHAPE(2, 5, 2)}},
    {"attention, causal", attention_causal, 3, {SHAPE(5, 3), SHAPE(3, 3), SHAPE(3, 2)}},
    {"attention, biased",
     attention_biased,
     4,
     {SHAPE(2, 3, 2), SHAPE(2, 4, 2), SHAPE(2, 4, 2), SHAPE(3, 4)}},
    {"binary_cross_entropy", binary, 2, {SHAPE(2, 3), SHAPE(2, 3)}},
    {"huber", huber_loss, 2, {SHAPE(3, 4), SHAPE(4)}},
};

/* With operands that differ and lie away from where a derivative jumps. */
static operation_case make_case(const expression_case *c,
                                compute_node (*build)(compute_graph *, const compute_node *,
                                                      const void *)) {
  operation_case sample = {.name = c->name, .build = build, .user = c, .operand_count = c->count};
  for (size_t i = 0; i < c->count; i++)
    sample.operand[i] = (operation_operand){
        COMPUTE_F64, c->shapes[i], FILL_DISTINCT, -1.5 + 0.037 * (double)i, 2, LAYOUT_DENSE};
  return sample;
}

static compute_node build_expression(compute_graph *graph, const compute_node *operands,
                                     const void *user) {
  const expression_case *c = user;
  return c->build(graph, operands);
}

static void every_operation_has_its_derivative(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (test_samples() > 1 && i % 4 != 0) continue; /* a spread run's device compiles each */
    const operation_case sample = make_case(&cases[i], build_expression);
    gradient_check(test_context, &sample);
  }
}

EXPRESSION(entropy, compute_cross_entropy_smoothed(g, x[0], x[1], 0.3))

static void smoothed_entropy_has_its_derivative(void **state) {
  (void)state;
  static const expression_case c = {"cross_entropy_smoothed", entropy, 2, {SHAPE(4, 3), SHAPE(4)}};
  operation_case sample = make_case(&c, build_expression);
  sample.operand[1] = (operation_operand){COMPUTE_I32, SHAPE(4), FILL_RANGE, 0, 2, LAYOUT_DENSE};
  gradient_check(test_context, &sample);
}

/* The gradient of Σ y² by the first operand. */
static compute_node build_second(compute_graph *graph, const compute_node *operands,
                                 const void *user) {
  const compute_node y = build_expression(graph, operands, user);
  const compute_node loss = compute_sum(graph, compute_square(graph, y), COMPUTE_ALL_AXES, false);
  compute_node gradient = none;
  compute_gradients(graph, loss, operands, 1, &gradient);
  return gradient;
}

static void gradients_can_be_differentiated_again(void **state) {
  (void)state;
  static const expression_case again[] = {
      {"max_pool2d again", max_pool_overlap, 1, {SHAPE(1, 1, 5, 4)}},
      {"average_pool2d again", average_pool, 1, {SHAPE(1, 1, 5, 4)}},
      {"max_pool2d of each side again", max_pool_sides, 1, {SHAPE(1, 1, 5, 4)}},
      {"average_pool2d of each side again", average_sides, 1, {SHAPE(1, 1, 4, 5)}},
      {"cumulative_sum again", running_back, 1, {SHAPE(4, 3)}},
      {"attention again", attention_causal, 3, {SHAPE(3, 2), SHAPE(3, 2), SHAPE(3, 2)}},
  };
  for (size_t i = 0; i < sizeof again / sizeof *again; i++) {
    if (test_samples() > 1 && i > 0) continue;
    const operation_case sample = make_case(&again[i], build_second);
    gradient_check(test_context, &sample);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_operation_has_its_derivative),
      cmocka_unit_test(smoothed_entropy_has_its_derivative),
      cmocka_unit_test(gradients_can_be_differentiated_again),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
