/* SPDX-License-Identifier: MIT */
/* A sample of each operation except the elementwise ones, including its rarer options. */
#include "model/export_samples.h"

#include <stdlib.h>
#include <string.h>

#include "compute/fft.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"

#define BUILD(name)                                                                                \
  static size_t name(compute_graph *graph, const compute_node *x, const void *user,                \
                     compute_node *y) {                                                            \
    (void)user;                                                                                    \
    (void)x;

BUILD(move)
y[0] = compute_transpose(graph, x[0], COMPUTE_AXES(2, 0, 1));
y[1] = compute_reshape(graph, compute_slice(graph, y[0], 2, 1, 2, 2), COMPUTE_SHAPE(2, -1));
y[2] = compute_broadcast(graph, compute_slice(graph, x[0], 0, -1, 1, 1), COMPUTE_SHAPE(2, 3, 5, 4));
return 3;
}

BUILD(join)
y[0] = compute_concat(graph, (const compute_node[]){x[0], x[1], x[0]}, 3, 1);
y[1] = compute_embed(graph, x[0], 1, 9, 2, 1);
y[2] = compute_embed(graph, x[0], -2, 14, 1, 3);
return 3;
}

BUILD(empty)
const compute_node none = compute_slice(graph, x[0], 0, 0, 0, 1);
y[0] = compute_reshape(graph, none, COMPUTE_SHAPE(5, 0));
y[1] = compute_sum(graph, compute_cast(graph, none, COMPUTE_F32), COMPUTE_AXES(0), true);
y[2] = compute_embed(graph, none, 0, 3, 0, 2);
return 3;
}

BUILD(positions)
const compute_dtype dtype = compute_node_dtype(graph, x[0]);
y[0] = compute_add(graph, compute_index(graph, dtype, COMPUTE_SHAPE(3, 7, 2), 1),
                   compute_full(graph, dtype, COMPUTE_SHAPE(7, 2), 3));
y[1] = compute_mul(graph, x[0], compute_scalar(graph, dtype, 2));
return 2;
}

BUILD(products)
y[0] = compute_matmul(graph, x[0], x[1]);
y[1] = compute_matmul(graph, compute_transpose(graph, x[1], (compute_axes){.count = 0}), x[2]);
return 2;
}

BUILD(byte_products)
y[0] = compute_matmul_integer(graph, x[0], x[1], (compute_node){0}, (compute_node){0});
y[1] = compute_matmul_integer(graph, x[0], x[2], x[3], (compute_node){0});
return 2;
}

BUILD(byte_convolutions)
y[0] = compute_conv2d_integer(graph, x[0], x[1], (compute_node){0}, (compute_node){0},
                              &(compute_conv2d_options){.stride = {2}, .padding = {1, 0}});
y[1] = compute_conv2d_integer(graph, x[0], x[1], x[2], (compute_node){0},
                              &(compute_conv2d_options){.padding = {1}});
return 2;
}

BUILD(sums)
y[0] = compute_sum(graph, x[0], COMPUTE_AXES(0, 2), false);
y[1] = compute_sum(graph, x[0], (compute_axes){.count = 0}, true);
y[2] = compute_prod(graph, x[0], COMPUTE_AXES(1), true);
return 3;
}

BUILD(means)
y[0] = compute_mean(graph, x[0], COMPUTE_AXES(1), false);
return 1;
}

BUILD(extremes)
y[0] = compute_max(graph, x[0], COMPUTE_AXES(1), true);
y[1] = compute_min(graph, x[0], COMPUTE_AXES(0, 2), false);
return 2;
}

BUILD(places)
y[0] = compute_argmax(graph, x[0], 1, false);
y[1] = compute_argmin(graph, x[0], -1, true);
return 2;
}

BUILD(rows)
y[0] = compute_softmax(graph, x[0], 1);
y[1] = compute_log_softmax(graph, x[0], -1);
y[2] = compute_normalize(graph, x[0], 1e-5);
return 3;
}

BUILD(layer)
y[0] = compute_layer_norm(graph, x[0], x[1], x[2], 1e-5);
return 1;
}

BUILD(gather)
y[0] = compute_gather(graph, x[0], x[1], 1);
y[1] = compute_gather_elements(graph, x[0], x[2], 1);
return 2;
}

BUILD(scatter)
y[0] = compute_scatter_add(graph, x[0], x[1], 1, 5);
y[1] = compute_scatter_add_elements(graph, x[0], x[2], 1, COMPUTE_SHAPE(3, 5, 7));
y[2] = compute_scatter_add(graph, compute_slice(graph, x[0], 2, 0, 2, 1), x[3], -1, 4);
return 3;
}

/* One update per element: ONNX does not define the result of several updates. */
BUILD(scatter_into)
const compute_node one = compute_slice(graph, x[0], 1, 1, 1, 1);
y[0] = compute_scatter(graph, x[0], one, x[1], 1, COMPUTE_SCATTER_SET);
y[1] = compute_scatter_elements(graph, x[0], one, x[2], 1, COMPUTE_SCATTER_SET);
y[2] = compute_scatter(graph, x[0], one, x[1], 1, COMPUTE_SCATTER_MAX);
y[3] = compute_scatter_elements(graph, x[0], one, x[2], 1, COMPUTE_SCATTER_MIN);
y[4] = compute_scatter(graph, x[0], one, x[1], -2, COMPUTE_SCATTER_MUL);
y[5] = compute_scatter_elements(graph, x[0], one, x[2], 1, COMPUTE_SCATTER_ADD);
return 6;
}

BUILD(order)
y[0] = compute_top_k(graph, x[0], 3, 1, false, &y[1]);
y[2] = compute_top_k(graph, x[0], 2, 2, true, NULL);
return 3;
}

BUILD(sorts)
y[0] = compute_sort(graph, x[0], 1, false);
y[1] = compute_argsort(graph, x[0], 1, true);
y[2] = compute_argsort(graph, x[0], 2, false);
return 3;
}

BUILD(running)
y[0] = compute_cumulative_sum(graph, x[0], 1, false, false);
y[1] = compute_cumulative_sum(graph, x[0], -1, true, true);
return 2;
}

BUILD(transforms)
y[0] = compute_fft(graph, x[0], 0, 1, COMPUTE_FFT_BACKWARD);
y[1] = compute_ifft(graph, x[0], 7, 0, COMPUTE_FFT_ORTHO);
y[2] = compute_fft(graph, x[0], 4, 1, COMPUTE_FFT_FORWARD);
return 3;
}

BUILD(real_transforms)
y[0] = compute_rfft(graph, x[0], 0, 1, COMPUTE_FFT_BACKWARD);
y[1] = compute_irfft(graph, y[0], 5, 1, COMPUTE_FFT_BACKWARD);
y[2] = compute_irfft(graph, y[0], 8, 1, COMPUTE_FFT_ORTHO);
return 3;
}

BUILD(frames)
y[0] = compute_stft(graph, x[0], x[1], 3);
y[1] = compute_dct(graph, x[0], 2, 1, COMPUTE_FFT_ORTHO);
return 2;
}

BUILD(conv)
const compute_conv2d_options o = {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}};
y[0] = compute_conv2d(graph, x[0], x[1], x[2], &o);
y[1] = compute_relu(graph, compute_conv2d(graph, x[0], x[3], (compute_node){0},
                                          &(compute_conv2d_options){.groups = 2}));
y[2] = compute_batch_norm(graph, compute_conv2d(graph, x[0], x[1], (compute_node){0}, NULL), x[2],
                          compute_square(graph, x[2]), x[2], x[2], 1e-3);
return 3;
}

BUILD(transposed)
const compute_conv2d_options o = {
    .stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}, .groups = 2};
y[0] = compute_conv2d_transpose(graph, x[0], x[1], x[2], &o);
y[1] = compute_conv2d_transpose(graph, x[0], x[1], (compute_node){0},
                                &(compute_conv2d_options){.dilation = {2, 1}, .groups = 2});
return 2;
}

BUILD(transposed_whole)
y[0] = compute_conv2d_transpose(graph, x[0], x[1], x[2],
                                &(compute_conv2d_options){.stride = {2, 3}, .padding = {1, 0}});
return 1;
}

/* Input gradients with a geometry that no builder requests: no window reaches some rows and
 * columns. */
BUILD(by_data)
const compute_conv2d_options back = {.dilation = {3, 3}, .output_padding = {2, 1}};
const compute_node stretched = compute_conv2d_transpose(graph, x[0], x[1], x[2], &back);
const compute_node shrunk = compute_conv2d(graph, x[3], x[1], (compute_node){0},
                                           &(compute_conv2d_options){.stride = {2, 4}});
const compute_node loss = compute_add(
    graph, compute_sum(graph, compute_square(graph, stretched), (compute_axes){0}, false),
    compute_sum(graph, compute_square(graph, shrunk), (compute_axes){0}, false));
const compute_node of[] = {x[0], x[3]};
compute_gradients(graph, loss, of, 2, y);
return 2;
}

static const compute_pool2d_options pools[] = {
    {.size = {2}},
    {.size = {3}, .stride = {2}, .padding = {1, -1}},
    {.size = {3, 2}, .stride = {2, 3}, .padding = {1, 0}, .ceil = true},
    {.size = {2}, .stride = {3}, .padding = {1, 1}, .ceil = true},
    {.size = {3}, .stride = {2}, .padding = {2, 0}, .padding_more = {-1, 2}},
    {.size = {2}, .stride = {3}, .padding = {1, 0}, .padding_more = {-1, 1}, .ceil = true},
};

static size_t build_pools(compute_graph *graph, const compute_node *x, const void *user,
                          compute_node *y) {
  compute_pool2d_options o = *(const compute_pool2d_options *)user;
  y[0] = compute_max_pool2d(graph, x[0], &o);
  y[1] = compute_average_pool2d(graph, x[0], &o);
  o.exclude_padding = true;
  y[2] = compute_average_pool2d(graph, x[0], &o);
  o.exclude_padding = false;
  y[3] = compute_argmax_pool2d(graph, x[0], &o);
  return 4;
}

static size_t build_integer_pools(compute_graph *graph, const compute_node *x, const void *user,
                                  compute_node *y) {
  y[0] = compute_max_pool2d(graph, x[0], user);
  y[1] = compute_argmax_pool2d(graph, x[0], user);
  return 2;
}

BUILD(attention)
y[0] = compute_scaled_attention(graph, x[0], x[1], x[2], NULL);
y[1] = compute_scaled_attention(graph, x[0], x[1], x[2],
                                &(compute_attention_options){.causal = true, .scale = 0.3});
y[2] =
    compute_scaled_attention(graph, x[0], x[1], x[2], &(compute_attention_options){.bias = x[3]});
return 3;
}

/* Inputs: x, w, r and a bias. Uses the rarer options if `user` is not NULL. */
static const bool rarer = true;

BUILD(lstm)
const compute_node of_state = compute_slice(graph, x[3], 0, 0, 6, 1);
compute_recurrent_options options = {.bias = x[3]};
compute_recurrent_state last;
if (user) {
  options.initial_c =
      compute_broadcast(graph, compute_slice(graph, x[3], 0, 0, 2, 1), COMPUTE_SHAPE(3, 2));
  options.peepholes = of_state;
  options.lengths = compute_constant(graph, COMPUTE_I32, COMPUTE_SHAPE(3), (int32_t[]){2, 4, 1});
  options.reverse = true;
  options.clip = 0.5;
}
y[0] = compute_lstm(graph, x[0], x[1], x[2], &options, &last);
y[1] = last.h;
y[2] = last.c;
return 3;
}

BUILD(gru)
const compute_node row = compute_slice(graph, x[3], 0, 1, 2, 1);
compute_recurrent_options options = {.initial_h =
                                         compute_broadcast(graph, row, COMPUTE_SHAPE(3, 2))};
compute_recurrent_state last;
if (user) {
  options.bias = x[3];
  options.state_bias = row;
  options.reset_after = true;
}
y[0] = compute_gru(graph, x[0], x[1], x[2], &options, &last);
y[1] = last.h;
return 2;
}

BUILD(rnn)
y[0] = compute_rnn(graph, x[0], x[1], x[2], &(compute_recurrent_options){.bias = x[3]}, NULL);
return 1;
}

BUILD(quantized)
const compute_quantized_options options = {.bits = 4, .block = 4};
const compute_node zero = compute_cast(graph, compute_relu(graph, x[2]), COMPUTE_U8);
y[0] = compute_quantized_matmul(graph, x[0], x[1], x[2], (compute_node){0}, &options);
y[1] = compute_dequantize(graph, x[1], x[2], zero, 9, &options);
return 2;
}

#define NUMBERS(...)                                                                               \
  { .shape = SHAPE(__VA_ARGS__), .low = -3, .high = 3 }
#define INDICES(type, ...)                                                                         \
  { .dtype = COMPUTE_##type, .shape = SHAPE(__VA_ARGS__), .low = -5, .high = 4 }

const export_sample export_samples[] = {
    {"move", move, NULL, "any", {NUMBERS(3, 5, 4)}, 0},
    {"join", join, NULL, "any", {NUMBERS(3, 5, 4), NUMBERS(3, 1, 4)}, 0},
    {"empty", empty, NULL, "any", {NUMBERS(3, 5)}, 0},
    {"positions", positions, NULL, "number", {NUMBERS(3)}, 0},
    {"products", products, NULL, "number", {NUMBERS(2, 3, 4), NUMBERS(4, 5), NUMBERS(4)}, 8},
    {"quantized",
     quantized,
     NULL,
     "float",
     {NUMBERS(2, 10),
      {.dtype = COMPUTE_U8, .shape = SHAPE(5, 6), .low = 0, .high = 255},
      NUMBERS(5, 3)},
     64},
    {"byte_products",
     byte_products,
     NULL,
     "byte",
     {NUMBERS(2, 3, 4), NUMBERS(4, 5), NUMBERS(4), NUMBERS(3, 1)},
     0},
    {"byte_convolutions",
     byte_convolutions,
     NULL,
     "byte",
     {NUMBERS(2, 3, 7, 6), NUMBERS(4, 3, 3, 2), NUMBERS(1)},
     0},
    {"sums", sums, NULL, "number", {NUMBERS(3, 5, 4)}, 8},
    {"means", means, NULL, "float", {NUMBERS(3, 5, 4)}, 8},
    {"extremes", extremes, NULL, "ordered", {NUMBERS(3, 5, 4)}, 0},
    {"places", places, NULL, "ordered", {NUMBERS(3, 5, 4)}, 0},
    {"rows", rows, NULL, "float", {NUMBERS(3, 5, 4)}, 32},
    {"layer", layer, NULL, "float", {NUMBERS(3, 5, 16), NUMBERS(16), NUMBERS(16)}, 32},
    {"gather",
     gather,
     NULL,
     "any",
     {NUMBERS(3, 5, 7), INDICES(I32, 2, 3), INDICES(I64, 3, 4, 7)},
     0},
    {"scatter",
     scatter,
     NULL,
     "number",
     {NUMBERS(3, 4, 7),
      INDICES(I32, 4),
      INDICES(I64, 3, 4, 7),
      {.dtype = COMPUTE_I64, .shape = SHAPE(2), .low = -4, .high = 3}},
     8},
    {"scatter_into",
     scatter_into,
     NULL,
     "ordered",
     {NUMBERS(3, 4, 7),
      {.dtype = COMPUTE_I32, .shape = SHAPE(1), .low = -4, .high = 3},
      {.dtype = COMPUTE_I64, .shape = SHAPE(3, 1, 7), .low = -4, .high = 3}},
     8},
    {"order", order, NULL, "ordered", {NUMBERS(3, 5, 4)}, 0},
    {"sorts", sorts, NULL, "ordered", {NUMBERS(3, 5, 4)}, 0},
    {"running", running, NULL, "number", {NUMBERS(3, 5, 4)}, 8},
    {"transforms", transforms, NULL, "float", {NUMBERS(3, 5, 2)}, 64},
    {"real_transforms", real_transforms, NULL, "float", {NUMBERS(3, 5, 4)}, 64},
    {"frames", frames, NULL, "float", {NUMBERS(2, 17), NUMBERS(8)}, 64},
    {"conv",
     conv,
     NULL,
     "float",
     {NUMBERS(2, 4, 9, 8), NUMBERS(3, 4, 3, 3), NUMBERS(3), NUMBERS(6, 2, 2, 3)},
     64},
    {"transposed",
     transposed,
     NULL,
     "float",
     {NUMBERS(2, 4, 5, 3), NUMBERS(4, 3, 3, 2), NUMBERS(6)},
     64},
    {"transposed_whole",
     transposed_whole,
     NULL,
     "float",
     {NUMBERS(2, 4, 5, 3), NUMBERS(4, 3, 3, 2), NUMBERS(3)},
     64},
    {"by_data",
     by_data,
     NULL,
     "float",
     {NUMBERS(2, 4, 5, 3), NUMBERS(4, 3, 3, 2), NUMBERS(3), NUMBERS(2, 3, 8, 9)},
     256},
    {"pools", build_pools, &pools[0], "float", {NUMBERS(2, 3, 8, 7)}, 16},
    {"pools_padded", build_pools, &pools[1], "float", {NUMBERS(2, 3, 8, 7)}, 16},
    {"pools_ceil", build_pools, &pools[2], "float", {NUMBERS(2, 3, 8, 7)}, 16},
    {"pools_ceil_padded", build_pools, &pools[3], "float", {NUMBERS(2, 3, 7, 7)}, 16},
    {"pools_uneven", build_pools, &pools[4], "float", {NUMBERS(2, 3, 8, 7)}, 16},
    {"pools_ceil_uneven", build_pools, &pools[5], "float", {NUMBERS(2, 3, 7, 7)}, 16},
    {"pools_of_integers", build_integer_pools, &pools[4], "ordered", {NUMBERS(2, 3, 8, 7)}, 16},
    {"attention",
     attention,
     NULL,
     "float",
     {NUMBERS(2, 3, 6, 4), NUMBERS(3, 5, 4), NUMBERS(2, 1, 5, 3), NUMBERS(6, 5)},
     64},
    {"lstm", lstm, NULL, "float", {NUMBERS(4, 3, 5), NUMBERS(5, 8), NUMBERS(2, 8), NUMBERS(8)}, 64},
    {"lstm_options",
     lstm,
     &rarer,
     "float",
     {NUMBERS(4, 3, 5), NUMBERS(5, 8), NUMBERS(2, 8), NUMBERS(8)},
     64},
    {"gru", gru, NULL, "float", {NUMBERS(4, 3, 5), NUMBERS(5, 6), NUMBERS(2, 6), NUMBERS(6)}, 64},
    {"gru_options",
     gru,
     &rarer,
     "float",
     {NUMBERS(4, 3, 5), NUMBERS(5, 6), NUMBERS(2, 6), NUMBERS(6)},
     64},
    {"rnn", rnn, NULL, "float", {NUMBERS(4, 3, 5), NUMBERS(5, 2), NUMBERS(2, 2), NUMBERS(2)}, 64},
};
const size_t export_sample_count = sizeof export_samples / sizeof *export_samples;
