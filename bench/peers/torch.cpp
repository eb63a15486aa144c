/* SPDX-License-Identifier: MIT */
/* Peer: libtorch, called from C++ without gradients.
 *
 * Most operations are measured in the form that writes into a given tensor, the library's fastest.
 * Where programs hardly ever use it, and the difference is large because each call allocates a
 * result of many megabytes, the plain call is measured as a separate variant. */
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "torch_operations.h"

namespace {

at::ScalarType scalar_type(const char *dtype) {
  if (!strcmp(dtype, "f32")) return at::kFloat;
  if (!strcmp(dtype, "f64")) return at::kDouble;
  if (!strcmp(dtype, "bf16")) return at::kBFloat16;
  if (!strcmp(dtype, "i32")) return at::kInt;
  return at::ScalarType::Undefined;
}

Shapes shapes_elementwise(const int64_t *s, int inputs) {
  return Shapes(static_cast<size_t>(inputs) + 1, Shape{s[0]});
}
Shapes shapes_unary(const int64_t *s) {
  return shapes_elementwise(s, 1);
}
Shapes shapes_add(const int64_t *s) {
  return shapes_elementwise(s, 2);
}
Shapes shapes_chain(const int64_t *s) {
  return shapes_elementwise(s, 3);
}
Shapes shapes_add_row(const int64_t *s) {
  return {{s[0], s[1]}, {s[1]}, {s[0], s[1]}};
}
Shapes shapes_matmul(const int64_t *s) {
  if (s[3]) return {{s[3], s[0], s[2]}, {s[3], s[2], s[1]}, {s[3], s[0], s[1]}};
  return {{s[0], s[2]}, {s[2], s[1]}, {s[0], s[1]}};
}
Shapes shapes_matmul_nt(const int64_t *s) {
  return {{s[0], s[2]}, {s[1], s[2]}, {s[0], s[1]}};
}
Shapes shapes_linear(const int64_t *s) {
  return {{s[0], s[2]}, {s[2], s[1]}, {s[1]}, {s[0], s[1]}};
}
Shapes shapes_all(const int64_t *s) {
  return {{s[0], s[1]}, {}};
}
Shapes shapes_rows(const int64_t *s) {
  return {{s[0], s[1]}, {s[0]}};
}
Shapes shapes_columns(const int64_t *s) {
  return {{s[0], s[1]}, {s[1]}};
}
Shapes shapes_same(const int64_t *s) {
  return {{s[0], s[1]}, {s[0], s[1]}};
}
Shapes shapes_layer_norm(const int64_t *s) {
  return {{s[0], s[1]}, {s[1]}, {s[1]}, {s[0], s[1]}};
}
Shapes shapes_transpose(const int64_t *s) {
  return {{s[0], s[1]}, {s[1], s[0]}};
}

void run_unary(const State &state, Set &s) {
  static const struct {
    const char *name;
    Tensor &(*out)(Tensor &, const Tensor &);
  } functions[] = {{"exp", at::exp_out}, {"log", at::log_out},         {"tanh", at::tanh_out},
                   {"erf", at::erf_out}, {"sigmoid", at::sigmoid_out}, {"silu", at::silu_out}};
  for (const auto &f : functions)
    if (!strcmp(f.name, state.operation)) f.out(s.output, s.input[0]);
}

void run_relu(const State &, Set &s) {
  at::clamp_min_out(s.output, s.input[0], 0);
}
void run_gelu(const State &, Set &s) {
  at::gelu_out(s.output, s.input[0], "none");
}
void run_gelu_tanh(const State &, Set &s) {
  at::gelu_out(s.output, s.input[0], "tanh");
}
void run_add(const State &, Set &s) {
  at::add_out(s.output, s.input[0], s.input[1]);
}
void run_chain(const State &, Set &s) {
  s.kept = at::relu(s.input[0] * s.input[1] + s.input[2]) * 0.5 + s.input[0];
}
void run_matmul(const State &, Set &s) {
  at::matmul_out(s.output, s.input[0], s.input[1]);
}
void run_matmul_nt(const State &, Set &s) {
  at::matmul_out(s.output, s.input[0], s.input[1].t());
}
void run_linear_gelu(const State &, Set &s) {
  at::addmm_out(s.output, s.input[2], s.input[0], s.input[1]);
  at::gelu_out(s.output, s.output, "none");
}
void run_linear_gelu_plain(const State &, Set &s) {
  s.kept = at::gelu(at::addmm(s.input[2], s.input[0], s.input[1]), "none");
}
void run_sum_all(const State &, Set &s) {
  s.kept = at::sum(s.input[0]);
}
void run_sum_rows(const State &, Set &s) {
  at::sum_out(s.output, s.input[0], 1);
}
void run_sum_columns(const State &, Set &s) {
  at::sum_out(s.output, s.input[0], 0);
}
void run_max_rows(const State &, Set &s) {
  at::amax_out(s.output, s.input[0], 1);
}
void run_argmax_rows(const State &, Set &s) {
  s.kept = at::argmax(s.input[0], 1);
}
void run_softmax(const State &, Set &s) {
  at::_softmax_out(s.output, s.input[0], 1, false);
}
void run_softmax_plain(const State &, Set &s) {
  s.kept = at::softmax(s.input[0], 1);
}
void run_log_softmax(const State &, Set &s) {
  at::_log_softmax_out(s.output, s.input[0], 1, false);
}
void run_layer_norm_plain(const State &, Set &s) {
  s.kept = at::layer_norm(s.input[0], {s.input[0].size(1)}, s.input[1], s.input[2], 1e-5);
}
void run_transpose(const State &, Set &s) {
  s.output.copy_(s.input[0].t());
}
void run_transpose_plain(const State &, Set &s) {
  s.kept = s.input[0].t().contiguous();
}

const Operation table[] = {
    {"relu", "", shapes_unary, run_relu, nullptr},
    {"exp", "", shapes_unary, run_unary, nullptr},
    {"log", "", shapes_unary, run_unary, nullptr},
    {"tanh", "", shapes_unary, run_unary, nullptr},
    {"erf", "", shapes_unary, run_unary, nullptr},
    {"sigmoid", "", shapes_unary, run_unary, nullptr},
    {"silu", "", shapes_unary, run_unary, nullptr},
    {"gelu", "", shapes_unary, run_gelu, nullptr},
    {"gelu_tanh", "", shapes_unary, run_gelu_tanh, nullptr},
    {"add", "", shapes_add, run_add, nullptr},
    {"add_row", "", shapes_add_row, run_add, nullptr},
    {"chain", "", shapes_chain, run_chain, nullptr},
    {"matmul", "", shapes_matmul, run_matmul, nullptr},
    {"matmul_nt", "", shapes_matmul_nt, run_matmul_nt, nullptr},
    {"matmul_bias_gelu", "", shapes_linear, run_linear_gelu, nullptr},
    {"matmul_bias_gelu", "plain", shapes_linear, run_linear_gelu_plain, nullptr},
    {"sum_all", "", shapes_all, run_sum_all, nullptr},
    {"sum_rows", "", shapes_rows, run_sum_rows, nullptr},
    {"sum_columns", "", shapes_columns, run_sum_columns, nullptr},
    {"max_rows", "", shapes_rows, run_max_rows, nullptr},
    {"argmax_rows", "", shapes_rows, run_argmax_rows, nullptr},
    {"softmax", "", shapes_same, run_softmax, nullptr},
    {"softmax", "plain", shapes_same, run_softmax_plain, nullptr},
    {"log_softmax", "", shapes_same, run_log_softmax, nullptr},
    {"layer_norm", "plain", shapes_layer_norm, run_layer_norm_plain, nullptr},
    {"transpose", "", shapes_transpose, run_transpose, nullptr},
    {"transpose", "plain", shapes_transpose, run_transpose_plain, nullptr},
};
constexpr size_t plain_count = sizeof table / sizeof *table;
constexpr size_t table_count = plain_count + network_count;

const Operation &operation_at(size_t row) {
  return row < plain_count ? table[row] : network_table[row - plain_count];
}

} // namespace

/* libtorch calls BLAS, which has its own thread count. */
void torch_use_threads(int threads) {
  at::set_num_threads(threads);
  void *library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return;
  if (auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads")))
    set(threads);
}

namespace {

bool is_label(const char *operation, size_t input) {
  return !strcmp(operation, "cross_entropy") && input == 1;
}

void *setup(const bench_peer_problem *problem, const Operation &operation) {
  at::ScalarType type = scalar_type(problem->dtype);
  if (type == at::ScalarType::Undefined) return nullptr;
  torch_use_threads(problem->threads);
  auto state = std::make_unique<State>();
  state->function = operation.function;
  state->operation = operation.name;
  std::copy(problem->size, problem->size + BENCH_SIZES, state->size);
  Shapes shapes = operation.shapes(problem->size);
  bool position = !strncmp(operation.name, "arg", 3);
  for (uint32_t i = 0; i < problem->set_count; i++) {
    const bench_peer_buffers &b = problem->sets[i];
    Set set;
    for (size_t j = 0; j + 1 < shapes.size(); j++)
      set.input[j] = at::from_blob(const_cast<void *>(b.input[j]), shapes[j],
                                   is_label(operation.name, j) ? at::kLong : type);
    set.output = at::from_blob(b.output, shapes.back(), position ? at::kLong : type);
    if (operation.prepare) operation.prepare(*state, set);
    state->sets.push_back(set);
  }
  return state.release();
}

/* The table's rows as the plain C functions that the interface requires, one instance of each. */
template <size_t row> void *setup_row(const bench_peer_problem *problem) {
  try {
    c10::InferenceMode guard;
    return setup(problem, operation_at(row));
  } catch (...) {
    return nullptr;
  }
}

void run(void *state, uint32_t set) {
  auto *s = static_cast<State *>(state);
  c10::InferenceMode guard;
  s->function(*s, s->sets[set]);
}

void collect(void *state, uint32_t set) {
  auto &s = static_cast<State *>(state)->sets[set];
  c10::InferenceMode guard;
  if (s.kept.defined()) s.output.copy_(s.kept);
}

void teardown(void *state) {
  delete static_cast<State *>(state);
}

template <size_t... rows>
std::vector<bench_peer_operation> make_operations(std::index_sequence<rows...>) {
  return {bench_peer_operation{operation_at(rows).name, operation_at(rows).variant, setup_row<rows>,
                               run, collect, teardown}...};
}

} // namespace

extern "C" const bench_peer *compute_bench_peer(void) {
  static const auto operations = [] {
    auto all = make_operations(std::make_index_sequence<table_count>());
    all.insert(all.end(), train_operations, train_operations + train_count);
    return all;
  }();
  static const bench_peer peer = {BENCH_PEER_ABI, "torch", TORCH_VERSION, operations.data(),
                                  operations.size()};
  return &peer;
}
