/* SPDX-License-Identifier: MIT */
/* libtorch's networks: its own modules and optimizer, as a program in C++ would use them. */
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/types.h>

#include <cstring>
#include <memory>
#include <string>

#include "networks.h"
#include "torch_operations.h"

namespace {

namespace F = torch::nn::functional;

struct Part {
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear dense{nullptr};
};

struct Net : torch::nn::Module {
  const bench_network &network;
  std::vector<Part> parts;
  std::vector<Tensor> results;

  explicit Net(const bench_network &n)
      : network(n), parts(static_cast<size_t>(n.count)), results(static_cast<size_t>(n.count)) {
    for (int i = 0; i < n.count; i++) {
      const bench_part &p = n.parts[i];
      Part &part = parts[static_cast<size_t>(i)];
      std::string name = std::to_string(i);
      if (p.kind == BENCH_PART_CONV)
        part.conv = register_module(
            name, torch::nn::Conv2d(torch::nn::Conv2dOptions(p.inputs, p.outputs, p.kernel)
                                        .stride(p.stride)
                                        .padding(p.kernel / 2)));
      if (p.kind == BENCH_PART_NORM)
        part.norm = register_module(name, torch::nn::BatchNorm2d(p.outputs));
      if (p.kind == BENCH_PART_DENSE)
        part.dense = register_module(name, torch::nn::Linear(p.inputs, p.outputs));
    }
  }

  Tensor apply(const bench_part &p, Part &part, const Tensor &x) {
    switch (p.kind) {
    case BENCH_PART_CONV: return part.conv(x);
    case BENCH_PART_NORM: return part.norm(x);
    case BENCH_PART_RELU: return torch::relu(x);
    case BENCH_PART_POOL: return torch::max_pool2d(x, 2);
    case BENCH_PART_AVERAGE: return x.mean({2, 3});
    case BENCH_PART_DENSE: return part.dense(x.flatten(1));
    default: return x + results[static_cast<size_t>(p.other)];
    }
  }

  Tensor forward(const Tensor &x) {
    results[0] = x;
    for (int i = 1; i < network.count; i++)
      results[static_cast<size_t>(i)] =
          apply(network.parts[i], parts[static_cast<size_t>(i)],
                results[static_cast<size_t>(bench_part_from(&network, i))]);
    Tensor last = results.back();
    for (Tensor &t : results) t.reset();
    return last;
  }
};

struct Run {
  std::shared_ptr<Net> net;
  std::unique_ptr<torch::optim::Adam> adam;
  Tensor x, labels, result;
  float *output = nullptr;
};

void *setup(const bench_peer_problem *problem, bool training) {
  const bench_peer_buffers &b = problem->sets[0];
  const bench_network &n = bench_networks[problem->size[0]];
  int64_t batch = problem->size[1];
  torch_use_threads(problem->threads);
  auto run = std::make_unique<Run>();
  run->net = std::make_shared<Net>(n);
  run->x = torch::from_blob(const_cast<void *>(b.input[0]), {batch, n.channels, n.side, n.side});
  run->labels = torch::from_blob(const_cast<void *>(b.input[1]), {batch}, torch::kLong);
  run->output = static_cast<float *>(b.output);
  const float *weights = static_cast<const float *>(b.input[2]);
  torch::NoGradGuard guard;
  for (Tensor &p : run->net->parameters()) {
    p.copy_(torch::from_blob(const_cast<float *>(weights), p.sizes()));
    weights += p.numel();
  }
  run->net->train(training);
  if (training)
    run->adam = std::make_unique<torch::optim::Adam>(run->net->parameters(),
                                                     torch::optim::AdamOptions(1e-3));
  return run.release();
}

template <bool training> void *setup_or_null(const bench_peer_problem *problem) {
  try {
    return setup(problem, training);
  } catch (...) {
    return nullptr;
  }
}

void step(void *state, uint32_t) {
  Run &run = *static_cast<Run *>(state);
  run.adam->zero_grad();
  Tensor loss = F::cross_entropy(run.net->forward(run.x), run.labels);
  loss.backward();
  run.adam->step();
  run.result = loss.detach();
}

void infer(void *state, uint32_t) {
  Run &run = *static_cast<Run *>(state);
  c10::InferenceMode guard;
  run.result = run.net->forward(run.x);
}

void collect(void *state, uint32_t) {
  Run &run = *static_cast<Run *>(state);
  Tensor result = run.result.contiguous();
  memcpy(run.output, result.data_ptr<float>(), static_cast<size_t>(result.numel()) * sizeof(float));
}

void teardown(void *state) {
  delete static_cast<Run *>(state);
}

} // namespace

const bench_peer_operation train_operations[train_count] = {
    {"network_infer", "", setup_or_null<false>, infer, collect, teardown},
    {"network_step", "", setup_or_null<true>, step, collect, teardown},
};
