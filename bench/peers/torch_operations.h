/* SPDX-License-Identifier: MIT */
/* The common parts of the libtorch peer: an operation is a list of shapes and a call. */
#ifndef BENCH_PEERS_TORCH_OPERATIONS_H
#define BENCH_PEERS_TORCH_OPERATIONS_H

#include <ATen/ATen.h>

#include <vector>

#include "peer.h"

using at::Tensor;

struct Set {
  Tensor input[BENCH_PEER_INPUTS];
  Tensor output, kept; /* kept: the result of a plain call */
  Tensor saved[3];     /* results of the forward pass for the gradient, or an output */
};

struct State {
  void (*function)(const State &, Set &) = nullptr;
  const char *operation = nullptr;
  int64_t size[BENCH_SIZES] = {};
  std::vector<Set> sets;
};

using Shape = std::vector<int64_t>;
using Shapes = std::vector<Shape>; /* of the inputs, then of the output */

struct Operation {
  const char *name, *variant;
  Shapes (*shapes)(const int64_t *);
  void (*function)(const State &, Set &);
  void (*prepare)(const State &, Set &); /* once, or NULL */
};

/* Convolution, pooling, normalisation, attention (torch_network.cpp). */
constexpr size_t network_count = 19;
extern const Operation network_table[network_count];

/* Networks and their training, with gradients recorded (torch_train.cpp). */
constexpr size_t train_count = 2;
extern const bench_peer_operation train_operations[train_count];

void torch_use_threads(int threads);

#endif
