/* SPDX-License-Identifier: MIT */
/* Builders of neural networks: the resulting shapes, and errors that name the operation, the shapes
 * and the allowed values. */
#include <math.h>
#include <string.h>

#include "graph/builders/build.h"
#include "support/harness/test.h"

static compute_graph *graph;
static const compute_node none = {0, 0};

static int create_graph(void **state) {
  (void)state;
  graph = compute_graph_create(test_context);
  return graph ? 0 : -1;
}

static int release_graph(void **state) {
  (void)state;
  compute_graph_release(graph);
  return 0;
}

#define INPUT(...) compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(__VA_ARGS__))

static void check_shape(compute_node node, compute_shape expected) {
  char got[96], wanted[96];
  assert_ok(compute_graph_status(graph));
  assert_string_equal(compute_shape_text(compute_node_shape(graph, node), got, sizeof got),
                      compute_shape_text(expected, wanted, sizeof wanted));
}

/* The call must fail with this status and these words in its message. The next call gets a new
 * graph. */
#define REFUSED(status, call, ...)                                                                 \
  do {                                                                                             \
    assert_false(compute_node_is_valid(call));                                                     \
    assert_fails(compute_graph_status(graph), status);                                             \
    const char *const words_[] = {__VA_ARGS__};                                                    \
    for (size_t i_ = 0; i_ < sizeof words_ / sizeof *words_; i_++)                                 \
      test_check_message(test_context, words_[i_]);                                                \
    compute_graph_release(graph);                                                                  \
    graph = compute_graph_create(test_context);                                                    \
  } while (0)

#define CONV(...) (&(compute_conv2d_options){__VA_ARGS__})
#define POOL(...) (&(compute_pool2d_options){__VA_ARGS__})

static void convolutions_have_the_shape_of_their_formula(void **state) {
  (void)state;
  const compute_node x = INPUT(2, 6, 9, 11);
  check_shape(compute_conv2d(graph, x, INPUT(4, 6, 3, 2), none, NULL), COMPUTE_SHAPE(2, 4, 7, 10));
  check_shape(compute_conv2d(graph, x, INPUT(4, 3, 3, 2), INPUT(4),
                             CONV(.stride = {2}, .padding = {1, -1}, .groups = 2)),
              COMPUTE_SHAPE(2, 4, 5, 6));
  check_shape(compute_conv2d(graph, x, INPUT(6, 1, 3, 3), none,
                             CONV(.dilation = {2, 3}, .padding = {0, 2}, .groups = 6)),
              COMPUTE_SHAPE(2, 6, 5, 9));
  check_shape(compute_conv2d(graph, x, INPUT(4, 6, 3, 3), none,
                             CONV(.stride = {2}, .padding = {1, 2}, .padding_more = {1, -2})),
              COMPUTE_SHAPE(2, 4, 5, 6));
  check_shape(
      compute_conv2d_transpose(graph, x, INPUT(6, 4, 3, 3), none,
                               CONV(.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2})),
      COMPUTE_SHAPE(2, 4, 18, 35));
  check_shape(compute_conv2d_transpose(graph, x, INPUT(6, 4, 2, 2), INPUT(12), CONV(.groups = 3)),
              COMPUTE_SHAPE(2, 12, 10, 12));
}

static void wrong_convolutions_are_refused(void **state) {
  (void)state;
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_conv2d(graph, INPUT(2, 3, 4, 4), INPUT(5, 3, 5, 1), none, NULL), "conv2d",
          "[2,3,4,4]", "[5,3,5,1]", "spans 5 rows");
  REFUSED(
      COMPUTE_ERROR_SHAPE,
      compute_conv2d(graph, INPUT(2, 3, 4, 4), INPUT(5, 3, 2, 3), none, CONV(.dilation = {1, 2})),
      "spans 5 columns");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_conv2d(graph, INPUT(2, 3, 4, 4), INPUT(4, 3, 1, 1), none, CONV(.groups = 2)),
          "groups = 2 does not divide", "3 channels");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_conv2d(graph, INPUT(2, 4, 4, 4), INPUT(4, 4, 1, 1), none, CONV(.groups = 2)),
          "has 4 channels", "needs 2");
  REFUSED(COMPUTE_ERROR_SHAPE, compute_conv2d(graph, INPUT(2, 3, 4), INPUT(4, 3, 1, 1), none, NULL),
          "[batch,channels,height,width]", "[2,3,4]");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_conv2d(graph, INPUT(2, 3, 4, 4), INPUT(4, 3, 0, 1), none, NULL), "no elements");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_conv2d(graph, INPUT(2, 3, 4, 4), INPUT(4, 3, 1, 1), INPUT(3), NULL), "bias",
          "[4]");
  REFUSED(COMPUTE_ERROR_DTYPE,
          compute_conv2d(graph, INPUT(2, 3, 4, 4),
                         compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(4, 3, 1, 1)), none, NULL),
          "dtypes differ");
  REFUSED(COMPUTE_ERROR_DTYPE,
          compute_conv2d(graph, compute_input(graph, COMPUTE_I32, COMPUTE_SHAPE(1, 1, 1, 1)),
                         compute_input(graph, COMPUTE_I32, COMPUTE_SHAPE(1, 1, 1, 1)), none, NULL),
          "float");
#define OPTION(words, ...)                                                                         \
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT,                                                          \
          compute_conv2d(graph, INPUT(2, 3, 4, 4), INPUT(3, 3, 1, 1), none, CONV(__VA_ARGS__)),    \
          words)
  OPTION("stride is -1", .stride = {-1});
  OPTION("dilation is -2", .dilation = {1, -2});
  OPTION("padding is -2", .padding = {0, -2});
  OPTION("output_padding is 1", .output_padding = {1});
  OPTION("groups is -1", .groups = -1);
  OPTION("padding_more is -2", .padding = {0, 1}, .padding_more = {0, -2});
  OPTION("reserved[1]", .reserved = {0, 1});
#undef OPTION
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT,
          compute_conv2d_transpose(graph, INPUT(2, 3, 4, 4), INPUT(3, 3, 1, 1), none,
                                   CONV(.stride = {2}, .output_padding = {2, 0})),
          "output_padding is 2", "less than stride");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_conv2d_transpose(graph, INPUT(2, 3, 1, 4), INPUT(3, 3, 2, 1), none,
                                   CONV(.padding = {1, 0})),
          "conv2d_transpose", "0 rows");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_conv2d_transpose(graph, INPUT(2, 3, 1, 4), INPUT(4, 3, 2, 1), none, NULL),
          "has 4 channels at axis 0", "needs 3");
  REFUSED(COMPUTE_ERROR_OVERFLOW,
          compute_conv2d(graph, INPUT(2, 3, 4, 4), INPUT(3, 3, 3, 3), none,
                         CONV(.dilation = {INT64_MAX / 2})),
          "63 bits");
  REFUSED(COMPUTE_ERROR_OVERFLOW,
          compute_conv2d(graph, INPUT(1, 1, 1, (int64_t)1 << 51), INPUT(1, 1, 1, 1), none,
                         CONV(.stride = {7, 1})),
          "stride 7 × 1", "too large to address");
}

static void pooling_has_the_shape_of_its_formula(void **state) {
  (void)state;
  const compute_node x = INPUT(2, 3, 8, 11);
  check_shape(compute_max_pool2d(graph, x, POOL(.size = {2})), COMPUTE_SHAPE(2, 3, 4, 5));
  check_shape(compute_max_pool2d(graph, x, POOL(.size = {2}, .ceil = true)),
              COMPUTE_SHAPE(2, 3, 4, 6));
  check_shape(
      compute_max_pool2d(
          graph, x, POOL(.size = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2})),
      COMPUTE_SHAPE(2, 3, 4, 9));
  /* A window that would begin in the padding after the data does not count. */
  check_shape(
      compute_average_pool2d(graph, INPUT(1, 1, 7, 7),
                             POOL(.size = {2}, .stride = {3}, .padding = {1, 1}, .ceil = true)),
      COMPUTE_SHAPE(1, 1, 3, 3));
  check_shape(compute_max_pool2d(
                  graph, x,
                  POOL(.size = {3, 2}, .stride = {1}, .padding = {2, 0}, .padding_more = {-1, 1})),
              COMPUTE_SHAPE(2, 3, 9, 11));
  const compute_node places = compute_argmax_pool2d(graph, x, POOL(.size = {2}));
  check_shape(places, COMPUTE_SHAPE(2, 3, 4, 5));
  assert_int_equal(compute_node_dtype(graph, places), COMPUTE_I64);
  check_shape(compute_max_unpool(graph, compute_cast(graph, places, COMPUTE_F32), places,
                                 COMPUTE_SHAPE(2, 3, 8, 11)),
              COMPUTE_SHAPE(2, 3, 8, 11));
  check_shape(compute_global_average_pool2d(graph, x), COMPUTE_SHAPE(2, 3));
}

static void wrong_pooling_is_refused(void **state) {
  (void)state;
#define OPTION(words, ...)                                                                         \
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT,                                                          \
          compute_max_pool2d(graph, INPUT(1, 1, 9, 9), POOL(__VA_ARGS__)), "max_pool2d", words)
  OPTION("size is 0", .stride = {1});
  OPTION("stride is -1", .size = {2}, .stride = {-1});
  OPTION("dilation is -1", .size = {2}, .dilation = {-1});
  OPTION("padding is 3", .size = {3}, .padding = {3, 0});
  OPTION("padding is 5", .size = {1, 3}, .padding = {0, 5}, .dilation = {1, 2});
  OPTION("padding_more is 2", .size = {3}, .padding = {1, 1}, .padding_more = {2});
  OPTION("padding_more is -1", .size = {3}, .padding_more = {0, -1});
  OPTION("exclude_padding", .size = {3}, .exclude_padding = true);
  OPTION("reserved", .size = {3}, .reserved = {1});
#undef OPTION
  REFUSED(COMPUTE_ERROR_DTYPE,
          compute_average_pool2d(graph,
                                 compute_input(graph, COMPUTE_I32, COMPUTE_SHAPE(1, 1, 9, 9)),
                                 POOL(.size = {3})),
          "average_pool2d", "float");
  REFUSED(COMPUTE_ERROR_DTYPE,
          compute_argmax_pool2d(graph, compute_input(graph, COMPUTE_U64, COMPUTE_SHAPE(1, 1, 9, 9)),
                                POOL(.size = {3})),
          "argmax_pool2d", "u64");
  REFUSED(COMPUTE_ERROR_NULL_POINTER, compute_max_pool2d(graph, INPUT(1, 1, 9, 9), NULL), "size");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_max_unpool(graph, INPUT(2, 3),
                             compute_input(graph, COMPUTE_I64, COMPUTE_SHAPE(2, 4)),
                             COMPUTE_SHAPE(9)),
          "max_unpool", "[2,3]", "[2,4]");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_max_unpool(graph, INPUT(2, 3),
                             compute_input(graph, COMPUTE_I64, COMPUTE_SHAPE(2, 3)),
                             COMPUTE_SHAPE(-9)),
          "max_unpool", "[-9]");
  REFUSED(COMPUTE_ERROR_SHAPE, compute_max_pool2d(graph, INPUT(1, 9, 9), POOL(.size = {3})),
          "[1,9,9]");
  REFUSED(COMPUTE_ERROR_SHAPE, compute_max_pool2d(graph, INPUT(1, 1, 4, 9), POOL(.size = {5, 2})),
          "spans 5 rows", "[1,1,4,9]");
  REFUSED(COMPUTE_ERROR_SHAPE, compute_global_max_pool2d(graph, INPUT(1, 2, 0, 3)), "[1,2,0,3]");
}

static void other_wrong_arguments_are_refused(void **state) {
  (void)state;
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_batch_norm(graph, INPUT(2, 3, 4), INPUT(3), INPUT(4), none, none, 0), "variance",
          "[4]", "[2,3,4]");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT,
          compute_batch_norm(graph, INPUT(2, 3), INPUT(3), INPUT(3), none, none, -1), "epsilon");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_batch_norm_training(graph, INPUT(3), none, none, 0, NULL, NULL), "[3]");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT,
          compute_dropout(graph, INPUT(3), 1, compute_input(graph, COMPUTE_I64, COMPUTE_SCALAR), 0),
          "probability is 1");
  for (int mode = COMPUTE_PAD_EDGE; mode <= COMPUTE_PAD_WRAP; mode++)
    REFUSED(COMPUTE_ERROR_SHAPE,
            compute_pad(graph, INPUT(3, 0), 1, 1, 0, (compute_pad_mode)mode, 0), "[3,0]",
            "no elements to repeat along axis 1");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT,
          compute_pad(graph, INPUT(3, 4), 1, -1, 0, COMPUTE_PAD_EDGE, 0), "before is -1");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT,
          compute_pad(graph, INPUT(3, 4), 1, 1, 0, (compute_pad_mode)9, 0), "invalid mode 9");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_upsample2d(graph, INPUT(1, 2, 3, 4), 0, 4, COMPUTE_UPSAMPLE_NEAREST), "0 × 4");
  REFUSED(COMPUTE_ERROR_SHAPE, compute_cumulative_product(graph, INPUT(3, 4), -3, false, false),
          "axis -3");
  REFUSED(COMPUTE_ERROR_SHAPE, compute_cumulative_sum(graph, INPUT(3, 4), 2, false, false),
          "axis 2");
  compute_node positions;
  REFUSED(COMPUTE_ERROR_SHAPE, compute_top_k(graph, INPUT(3, 4), 5, 1, false, &positions), "k is 5",
          "axis 1", "[3,4]");
  REFUSED(COMPUTE_ERROR_SHAPE, compute_sort(graph, INPUT(3, 4), 2, false), "sort", "axis 2");
  REFUSED(COMPUTE_ERROR_SHAPE, compute_argsort(graph, INPUT(3, 4), -3, true), "argsort", "axis -3");
  REFUSED(COMPUTE_ERROR_DTYPE,
          compute_sort(graph, compute_input(graph, COMPUTE_BOOL, COMPUTE_SHAPE(3)), 0, false),
          "sort", "bool");
  REFUSED(COMPUTE_ERROR_DTYPE, compute_one_hot(graph, INPUT(3), 4, COMPUTE_F32), "labels are f32");
  REFUSED(
      COMPUTE_ERROR_INVALID_ARGUMENT,
      compute_one_hot(graph, compute_input(graph, COMPUTE_I32, COMPUTE_SHAPE(3)), 0, COMPUTE_F32),
      "0 classes");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_scaled_attention(graph, INPUT(3, 4), INPUT(5, 3), INPUT(5, 2), NULL), "widths",
          "[3,4]", "[5,3]");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_scaled_attention(graph, INPUT(3, 4), INPUT(5, 4), INPUT(6, 2), NULL), "keys");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_scaled_attention(graph, INPUT(2, 3, 4), INPUT(3, 5, 4), INPUT(5, 2), NULL),
          "broadcast");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_scaled_attention(graph, INPUT(3, 4), INPUT(5, 4), INPUT(5, 2),
                                   &(compute_attention_options){.bias = INPUT(2, 3, 5)}),
          "bias", "[3,5]");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT,
          compute_scaled_attention(graph, INPUT(3, 4), INPUT(5, 4), INPUT(5, 2),
                                   &(compute_attention_options){.scale = (double)NAN}),
          "scale");
  const compute_node labels = compute_input(graph, COMPUTE_I32, COMPUTE_SHAPE(3));
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT,
          compute_cross_entropy_smoothed(graph, INPUT(3, 4), labels, 1.5), "smoothing is 1.5");
  REFUSED(COMPUTE_ERROR_SHAPE, compute_binary_cross_entropy(graph, INPUT(3, 4), INPUT(4)),
          "binary_cross_entropy", "[3,4]");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, compute_huber(graph, INPUT(3), INPUT(3), 0), "delta");
}

/* Options in a node's block distinguish nodes in the same way as attributes. */
static void convolutions_that_differ_in_geometry_only_are_not_one(void **state) {
  (void)state;
  const compute_node x = INPUT(1, 1, 5, 5), w = INPUT(1, 1, 3, 3);
  const compute_node one = compute_conv2d(graph, x, w, none, CONV(.padding = {1, 0}));
  const compute_node same = compute_conv2d(graph, x, w, none, CONV(.padding = {1, 0}));
  const compute_node other =
      compute_conv2d(graph, x, w, none, CONV(.padding = {1, 0}, .groups = 1, .dilation = {1, 1}));
  const compute_node turned =
      compute_conv2d(graph, x, w, none, CONV(.padding = {2, 0}, .dilation = {2, 1}));
  const compute_node sum =
      compute_add(graph, compute_add(graph, one, same), compute_add(graph, other, turned));
  compute_plan *plan = test_compile(graph, &sum, 1, 0);
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  assert_int_equal(info.steps, 2); /* the sum is fused into one of the convolutions */
  compute_plan_release(plan);
}

#define GRAPH_TEST(test) cmocka_unit_test_setup_teardown(test, create_graph, release_graph)

/* ---- Recurrent layers ------------------------------------------------------------------------ */

#define RECURRENT(...) (&(compute_recurrent_options){__VA_ARGS__})

static void recurrent_layers_have_their_shapes(void **state) {
  (void)state;
  const compute_node x = INPUT(7, 2, 3);
  compute_recurrent_state last;
  check_shape(compute_lstm(graph, x, INPUT(3, 20), INPUT(5, 20), NULL, &last),
              COMPUTE_SHAPE(7, 2, 5));
  check_shape(last.h, COMPUTE_SHAPE(2, 5));
  check_shape(last.c, COMPUTE_SHAPE(2, 5));
  check_shape(compute_gru(graph, x, INPUT(3, 15), INPUT(5, 15), NULL, &last),
              COMPUTE_SHAPE(7, 2, 5));
  check_shape(last.h, COMPUTE_SHAPE(2, 5));
  assert_false(compute_node_is_valid(last.c));
  check_shape(compute_rnn(graph, x, INPUT(3, 5), INPUT(5, 5), NULL, NULL), COMPUTE_SHAPE(7, 2, 5));
}

static compute_node lstm(const compute_recurrent_options *options) {
  return compute_lstm(graph, INPUT(7, 2, 3), INPUT(3, 20), INPUT(5, 20), options, NULL);
}

static compute_node gru(const compute_recurrent_options *options) {
  return compute_gru(graph, INPUT(7, 2, 3), INPUT(3, 15), INPUT(5, 15), options, NULL);
}

static void wrong_recurrent_layers_are_refused(void **state) {
  (void)state;
  const compute_dtype half = COMPUTE_F16, integer = COMPUTE_I32;
  compute_recurrent_state last = {{1, 1}, {1, 1}};
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_lstm(graph, INPUT(2, 3), INPUT(3, 20), INPUT(5, 20), NULL, &last), "lstm",
          "[2,3]", "[steps,batch,inputs]");
  assert_false(compute_node_is_valid(last.h) || compute_node_is_valid(last.c));
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_lstm(graph, INPUT(7, 2, 3), INPUT(3, 20), INPUT(5, 15), NULL, NULL), "[5,15]",
          "4 hidden");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_gru(graph, INPUT(7, 2, 3), INPUT(4, 15), INPUT(5, 15), NULL, NULL),
          "gru: w is [4,15] instead of [3,15]");
  REFUSED(COMPUTE_ERROR_DTYPE,
          compute_rnn(graph, INPUT(7, 2, 3), compute_input(graph, half, COMPUTE_SHAPE(3, 5)),
                      INPUT(5, 5), NULL, NULL),
          "rnn: w is f16; it must be f32");
  REFUSED(COMPUTE_ERROR_DTYPE,
          compute_rnn(graph, compute_input(graph, integer, COMPUTE_SHAPE(7, 2, 3)),
                      compute_input(graph, integer, COMPUTE_SHAPE(3, 5)),
                      compute_input(graph, integer, COMPUTE_SHAPE(5, 5)), NULL, NULL),
          "rnn", "i32");
  REFUSED(COMPUTE_ERROR_SHAPE, lstm(RECURRENT(.bias = INPUT(21))), "bias is [21] instead of [20]");
  REFUSED(COMPUTE_ERROR_SHAPE, lstm(RECURRENT(.initial_h = INPUT(1, 5))), "initial_h", "[2,5]");
  REFUSED(COMPUTE_ERROR_SHAPE, lstm(RECURRENT(.initial_c = INPUT(2))), "initial_c", "[2,5]");
  REFUSED(COMPUTE_ERROR_SHAPE, lstm(RECURRENT(.peepholes = INPUT(20))), "peepholes", "[15]");
  REFUSED(COMPUTE_ERROR_DTYPE, lstm(RECURRENT(.lengths = INPUT(2))), "lengths is f32", "i32");
  REFUSED(COMPUTE_ERROR_SHAPE,
          lstm(RECURRENT(.lengths = compute_input(graph, integer, COMPUTE_SHAPE(7)))), "lengths",
          "[2]");
  REFUSED(COMPUTE_ERROR_SHAPE, gru(RECURRENT(.reset_after = true, .state_bias = INPUT(15))),
          "state_bias", "[5]");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, gru(RECURRENT(.state_bias = INPUT(5))), "state_bias",
          "does not have");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, gru(RECURRENT(.initial_c = INPUT(2, 5))), "initial_c");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, gru(RECURRENT(.peepholes = INPUT(15))), "peepholes");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, lstm(RECURRENT(.reset_after = true)), "reset_after");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, lstm(RECURRENT(.clip = -1)), "clip is -1");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, lstm(RECURRENT(.clip = (double)INFINITY)), "clip is inf");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, lstm(RECURRENT(.reserved = {0, 1})), "reserved[1]");
}

/* ---- Quantized weights ----------------------------------------------------------------------- */

static compute_node packed_input(int64_t rows, int64_t bytes) {
  return compute_input(graph, COMPUTE_U8, COMPUTE_SHAPE(rows, bytes));
}

#define QUANTIZED(...) (&(compute_quantized_options){__VA_ARGS__})

static void quantized_products_have_their_shapes(void **state) {
  (void)state;
  const compute_node packed = packed_input(6, 32), scale = INPUT(6, 2);
  const compute_quantized_options *options = QUANTIZED(.bits = 4, .block = 32);
  check_shape(compute_quantized_matmul(graph, INPUT(2, 5, 60), packed, scale, none, options),
              COMPUTE_SHAPE(2, 5, 6));
  check_shape(compute_quantized_matmul(graph, INPUT(64), packed, scale, scale, options),
              COMPUTE_SHAPE(6));
  check_shape(compute_dequantize(graph, packed, scale, packed_input(6, 2), 33, options),
              COMPUTE_SHAPE(6, 33));
}

static compute_node quantized(compute_node packed, compute_node scale, compute_node zero,
                              const compute_quantized_options *options) {
  return compute_quantized_matmul(graph, INPUT(3, 60), packed, scale, zero, options);
}

static void wrong_quantized_products_are_refused(void **state) {
  (void)state;
  const compute_dtype integer = COMPUTE_I32, half = COMPUTE_F16;
  const compute_quantized_options *usual = QUANTIZED(.bits = 4, .block = 32);
#define P packed_input(6, 32)
#define S INPUT(6, 2)
  REFUSED(COMPUTE_ERROR_NULL_POINTER, quantized(P, S, none, NULL), "quantized_matmul", "options");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, quantized(P, S, none, QUANTIZED(.bits = 3, .block = 8)),
          "bits is 3");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, quantized(P, S, none, QUANTIZED(.bits = 4, .block = 7)),
          "blocks of 7", "whole bytes");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, quantized(P, S, none, QUANTIZED(.bits = 4)),
          "blocks of 0");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT,
          quantized(P, S, none, QUANTIZED(.bits = 8, .block = INT64_MAX)), "blocks of");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT,
          quantized(P, S, none, QUANTIZED(.bits = 4, .block = 32, .reserved = {1})), "reserved[0]");
  REFUSED(COMPUTE_ERROR_SHAPE, quantized(packed_input(6, 31), S, none, usual), "[6,31]",
          "2 blocks of 16 bytes");
  REFUSED(COMPUTE_ERROR_SHAPE,
          quantized(compute_input(graph, COMPUTE_U8, COMPUTE_SHAPE(32)), S, none, usual), "[32]");
  REFUSED(COMPUTE_ERROR_DTYPE,
          quantized(compute_input(graph, integer, COMPUTE_SHAPE(6, 32)), S, none, usual),
          "packed is i32 instead of u8");
  REFUSED(COMPUTE_ERROR_SHAPE, quantized(P, INPUT(6, 3), none, usual), "scale is [6,3]", "[6,2]");
  REFUSED(COMPUTE_ERROR_SHAPE, quantized(P, S, INPUT(2, 6), usual), "zero is [2,6]");
  REFUSED(COMPUTE_ERROR_DTYPE,
          quantized(P, S, compute_input(graph, half, COMPUTE_SHAPE(6, 2)), usual), "f16", "f32");
  REFUSED(COMPUTE_ERROR_DTYPE,
          quantized(P, compute_input(graph, integer, COMPUTE_SHAPE(6, 2)), none, usual), "i32");
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_quantized_matmul(graph, compute_input(graph, COMPUTE_F32, COMPUTE_SCALAR), P, S,
                                   none, usual),
          "scalar");
  REFUSED(COMPUTE_ERROR_DTYPE,
          compute_quantized_matmul(graph, compute_input(graph, integer, COMPUTE_SHAPE(3, 60)), P, S,
                                   none, usual),
          "i32");
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, compute_dequantize(graph, P, S, none, -1, usual),
          "dequantize: k is -1");
  REFUSED(COMPUTE_ERROR_SHAPE, compute_dequantize(graph, P, S, none, 65, usual), "3 blocks");
#undef P
#undef S
}

int main(void) {
  const struct CMUnitTest tests[] = {
      GRAPH_TEST(convolutions_have_the_shape_of_their_formula),
      GRAPH_TEST(wrong_convolutions_are_refused),
      GRAPH_TEST(pooling_has_the_shape_of_its_formula),
      GRAPH_TEST(wrong_pooling_is_refused),
      GRAPH_TEST(other_wrong_arguments_are_refused),
      GRAPH_TEST(recurrent_layers_have_their_shapes),
      GRAPH_TEST(wrong_recurrent_layers_are_refused),
      GRAPH_TEST(quantized_products_have_their_shapes),
      GRAPH_TEST(wrong_quantized_products_are_refused),
      GRAPH_TEST(convolutions_that_differ_in_geometry_only_are_not_one),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
