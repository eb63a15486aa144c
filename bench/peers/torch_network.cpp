/* SPDX-License-Identifier: MIT */
/* libtorch's convolutions, pooling, normalisation and attention.
 *
 * Gradients are called as the library's own backward pass calls them, with everything that the
 * forward pass saves for them. */
#include "torch_operations.h"

#include <array>
#include <cmath>

namespace {

struct Geometry {
  int64_t kernel, stride, padding, dilation, groups;
  Shape x, y, filter;
};

int64_t or_one(int64_t value) {
  return value ? value : 1;
}

Geometry geometry(const int64_t *s) {
  Geometry g{s[BENCH_KERNEL],
             or_one(s[BENCH_STRIDE]),
             s[BENCH_PADDING],
             or_one(s[BENCH_DILATION]),
             or_one(s[BENCH_GROUPS]),
             {},
             {},
             {}};
  auto places = [&](int64_t size) {
    return (size + 2 * g.padding - g.dilation * (g.kernel - 1) - 1) / g.stride + 1;
  };
  const int64_t outputs = s[BENCH_O] ? s[BENCH_O] : s[BENCH_C];
  g.x = {s[BENCH_N], s[BENCH_C], s[BENCH_H], s[BENCH_W]};
  g.y = {s[BENCH_N], outputs, places(s[BENCH_H]), places(s[BENCH_W])};
  g.filter = {outputs, s[BENCH_C] / g.groups, g.kernel, g.kernel};
  return g;
}

Shapes shapes_conv(const int64_t *s) {
  Geometry g = geometry(s);
  return {g.x, g.filter, g.y};
}
Shapes shapes_conv_bn(const int64_t *s) {
  Geometry g = geometry(s);
  Shape o{g.filter[0]};
  return {g.x, g.filter, o, o, o, o, o, g.y};
}
Shapes shapes_by_data(const int64_t *s) {
  Geometry g = geometry(s);
  return {g.filter, g.y, g.x};
}
Shapes shapes_by_filter(const int64_t *s) {
  Geometry g = geometry(s);
  return {g.x, g.y, g.filter};
}
Shapes shapes_transposed(const int64_t *s) {
  Geometry g = geometry(s);
  auto size = [&](int64_t n) { return (n - 1) * g.stride - 2 * g.padding + g.kernel; };
  return {g.x,
          {s[BENCH_C], s[BENCH_O], g.kernel, g.kernel},
          {s[BENCH_N], s[BENCH_O], size(s[BENCH_H]), size(s[BENCH_W])}};
}
Shapes shapes_pool(const int64_t *s) {
  Geometry g = geometry(s);
  return {g.x, g.y};
}
Shapes shapes_max_backward(const int64_t *s) {
  Geometry g = geometry(s);
  return {g.x, g.y, g.x};
}
Shapes shapes_average_backward(const int64_t *s) {
  Geometry g = geometry(s);
  return {g.y, g.x};
}
Shapes shapes_global(const int64_t *s) {
  return {{s[0], s[1], s[2], s[3]}, {s[0], s[1]}};
}
Shapes shapes_batch_norm(const int64_t *s) {
  Shape x{s[0], s[1], s[2], s[3]}, c{s[1]};
  return {x, c, c, c, c, x};
}
Shapes shapes_batch_norm_train(const int64_t *s) {
  Shape x{s[0], s[1], s[2], s[3]}, c{s[1]};
  return {x, c, c, x, x};
}
Shapes shapes_layer_norm_train(const int64_t *s) {
  Shape x{s[0], s[1]}, c{s[1]};
  return {x, c, c, x, x};
}
Shapes shapes_cross_entropy(const int64_t *s) {
  return {{s[0], s[1]}, {s[0]}, {s[0], s[1]}};
}
Shapes shapes_attention(const int64_t *s) {
  Shape x{s[0], s[1], s[2], s[3]};
  return {x, x, x, x};
}

/* ---- Convolution --------------------------------------------------------------------------- */

Tensor convolution(const State &state, const Tensor &x, const Tensor &filter,
                   const c10::optional<Tensor> &bias) {
  Geometry g = geometry(state.size);
  return at::conv2d(x, filter, bias, g.stride, g.padding, g.dilation, g.groups);
}

void run_conv(const State &state, Set &s) {
  s.kept = convolution(state, s.input[0], s.input[1], {});
}

void run_conv_bn_relu(const State &state, Set &s) {
  Tensor y = convolution(state, s.input[0], s.input[1], s.input[2]);
  y = at::batch_norm(y, s.input[5], s.input[6], s.input[3], s.input[4], false, 0.1, 1e-5, false);
  s.kept = at::relu_(y);
}

/* The batch norm folded into filter and bias beforehand. */
void prepare_folded(const State &, Set &s) {
  Tensor factor = s.input[5] / at::sqrt(s.input[4] + 1e-5);
  s.saved[0] = s.input[1] * factor.view({-1, 1, 1, 1});
  s.saved[1] = (s.input[2] - s.input[3]) * factor + s.input[6];
}
void run_conv_folded(const State &state, Set &s) {
  Tensor y = convolution(state, s.input[0], s.saved[0], s.saved[1]);
  s.kept = at::relu_(y);
}

/* An operand that the gradient requires but does not read. */
void prepare_by_data(const State &state, Set &s) {
  s.saved[0] = at::empty(geometry(state.size).x);
}
void prepare_by_filter(const State &state, Set &s) {
  s.saved[0] = at::empty(geometry(state.size).filter);
}

Tensor gradient(const State &state, const Tensor &dy, const Tensor &x, const Tensor &filter,
                bool by_filter) {
  Geometry g = geometry(state.size);
  Shape stride{g.stride, g.stride}, padding{g.padding, g.padding}, dilation{g.dilation, g.dilation};
  auto all =
      at::convolution_backward(dy, x, filter, at::OptionalIntArrayRef(), stride, padding, dilation,
                               false, Shape{0, 0}, g.groups, {!by_filter, by_filter, false});
  return by_filter ? std::get<1>(all) : std::get<0>(all);
}

void run_by_data(const State &state, Set &s) {
  s.kept = gradient(state, s.input[1], s.saved[0], s.input[0], false);
}
void run_by_filter(const State &state, Set &s) {
  s.kept = gradient(state, s.input[1], s.input[0], s.saved[0], true);
}
void run_transposed(const State &state, Set &s) {
  Geometry g = geometry(state.size);
  s.kept = at::conv_transpose2d(s.input[0], s.input[1], {}, g.stride, g.padding, 0, g.groups);
}

/* ---- Pooling ------------------------------------------------------------------------------- */

void prepare_max(const State &state, Set &s) {
  s.saved[0] = at::empty(geometry(state.size).y, at::kLong);
}
void run_max(const State &state, Set &s) {
  Geometry g = geometry(state.size);
  at::max_pool2d_with_indices_out(s.output, s.saved[0], s.input[0], g.kernel, g.stride, g.padding);
}
void run_max_plain(const State &state, Set &s) {
  Geometry g = geometry(state.size);
  s.kept = at::max_pool2d(s.input[0], g.kernel, g.stride, g.padding);
}
void run_average(const State &state, Set &s) {
  Geometry g = geometry(state.size);
  at::avg_pool2d_out(s.output, s.input[0], g.kernel, g.stride, g.padding);
}
void run_average_plain(const State &state, Set &s) {
  Geometry g = geometry(state.size);
  s.kept = at::avg_pool2d(s.input[0], g.kernel, g.stride, g.padding);
}

void prepare_max_backward(const State &state, Set &s) {
  Geometry g = geometry(state.size);
  s.saved[0] = std::get<1>(at::max_pool2d_with_indices(s.input[0], g.kernel, g.stride, g.padding));
}
void run_max_backward(const State &state, Set &s) {
  Geometry g = geometry(state.size);
  at::max_pool2d_with_indices_backward_out(s.output, s.input[1], s.input[0], g.kernel, g.stride,
                                           g.padding, 1, false, s.saved[0]);
}
void prepare_average_backward(const State &state, Set &s) {
  s.saved[0] = at::empty(geometry(state.size).x);
}
void run_average_backward(const State &state, Set &s) {
  Geometry g = geometry(state.size);
  at::avg_pool2d_backward_out(s.output, s.input[0], s.saved[0], g.kernel, g.stride, g.padding,
                              false, true, c10::nullopt);
}

void run_global_average(const State &, Set &s) {
  at::mean_out(s.output, s.input[0], {2, 3});
}
void run_global_max(const State &, Set &s) {
  at::amax_out(s.output, s.input[0], {2, 3});
}

/* ---- Normalisation, loss, attention -------------------------------------------------------- */

void run_batch_norm(const State &, Set &s) {
  s.kept = at::batch_norm(s.input[0], s.input[3], s.input[4], s.input[1], s.input[2], false, 0.1,
                          1e-5, false);
}

/* Forward and backward; the result that is compared is the gradient of the data. */
void run_batch_norm_train(const State &, Set &s) {
  auto y = at::native_batch_norm(s.input[0], s.input[1], s.input[2], {}, {}, true, 0.1, 1e-5);
  auto d =
      at::native_batch_norm_backward(s.input[3], s.input[0], s.input[1], {}, {}, std::get<1>(y),
                                     std::get<2>(y), true, 1e-5, {true, true, true});
  s.kept = std::get<0>(d);
}

void run_layer_norm_train(const State &, Set &s) {
  Shape row{s.input[0].size(1)};
  auto y = at::native_layer_norm(s.input[0], row, s.input[1], s.input[2], 1e-5);
  auto d =
      at::native_layer_norm_backward(s.input[3], s.input[0], row, std::get<1>(y), std::get<2>(y),
                                     s.input[1], s.input[2], {true, true, true});
  s.kept = std::get<0>(d);
}

void run_cross_entropy(const State &, Set &s) {
  Tensor log = at::log_softmax(s.input[0], 1);
  auto loss = at::nll_loss_forward(log, s.input[1], {}, at::Reduction::Mean, -100);
  Tensor one = at::ones({}, log.options());
  Tensor d =
      at::nll_loss_backward(one, log, s.input[1], {}, at::Reduction::Mean, -100, std::get<1>(loss));
  s.kept = at::_log_softmax_backward_data(d, log, 1, at::kFloat);
}

void run_attention(const State &, Set &s) {
  double scale = 1 / std::sqrt(static_cast<double>(s.input[0].size(3)));
  Tensor scores = at::matmul(s.input[0] * scale, s.input[1].transpose(2, 3));
  s.kept = at::matmul(at::softmax(scores, -1), s.input[2]);
}

} // namespace

const Operation network_table[network_count] = {
    {"conv", "", shapes_conv, run_conv, nullptr},
    {"conv_bn_relu", "", shapes_conv_bn, run_conv_bn_relu, nullptr},
    {"conv_bn_relu", "folded", shapes_conv_bn, run_conv_folded, prepare_folded},
    {"conv_by_data", "", shapes_by_data, run_by_data, prepare_by_data},
    {"conv_by_filter", "", shapes_by_filter, run_by_filter, prepare_by_filter},
    {"conv_transpose", "", shapes_transposed, run_transposed, nullptr},
    {"max_pool", "", shapes_pool, run_max, prepare_max},
    {"max_pool", "plain", shapes_pool, run_max_plain, nullptr},
    {"average_pool", "", shapes_pool, run_average, nullptr},
    {"average_pool", "plain", shapes_pool, run_average_plain, nullptr},
    {"max_pool_backward", "", shapes_max_backward, run_max_backward, prepare_max_backward},
    {"average_pool_backward", "", shapes_average_backward, run_average_backward,
     prepare_average_backward},
    {"global_average_pool", "", shapes_global, run_global_average, nullptr},
    {"global_max_pool", "", shapes_global, run_global_max, nullptr},
    {"batch_norm", "", shapes_batch_norm, run_batch_norm, nullptr},
    {"batch_norm_train", "", shapes_batch_norm_train, run_batch_norm_train, nullptr},
    {"layer_norm_train", "", shapes_layer_norm_train, run_layer_norm_train, nullptr},
    {"cross_entropy", "", shapes_cross_entropy, run_cross_entropy, nullptr},
    {"attention", "", shapes_attention, run_attention, nullptr},
};
