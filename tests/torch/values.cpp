/* SPDX-License-Identifier: MIT */
/* PyTorch's results for the cases of test_values.c and test_training.c, as a file of named tensors.
 *
 *   torch_reference values FILE            writes the values
 *   torch_reference check WEIGHTS RESULT   loads weights that libcompute saved into the network of
 *                                          the training run, and compares results ("y" of RESULT)
 *
 * This program made values.safetensors with libtorch 1.13; a build that finds libtorch makes a new
 * file. Inputs and initial weights are a pattern common to both sides. Everything is f64, so that
 * the libraries differ only by rounding. */
#include <torch/nn.h>
#include <torch/optim.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;
using Two = torch::ExpandingArray<2>;
using Sizes = std::vector<int64_t>;

/* ---- The pattern, as in test_values.c ------------------------------------------------------- */

double pattern(int64_t index, int64_t salt) {
  return static_cast<double>((index * 7919 + salt * 104729) % 509) / 254.5 - 1;
}

Tensor numbers(const Sizes &shape, int64_t salt, double scale = 1, double shift = 0) {
  Tensor made = torch::empty(shape, torch::kFloat64);
  for (int64_t i = 0; i < made.numel(); i++)
    made.data_ptr<double>()[i] = pattern(i, salt) * scale + shift;
  return made;
}

Tensor labels(const Sizes &shape, int64_t salt, int64_t classes) {
  Tensor made = torch::empty(shape, torch::kInt64);
  for (int64_t i = 0; i < made.numel(); i++)
    made.data_ptr<int64_t>()[i] = (i * 5 + i * i + salt) % classes;
  return made;
}

/* ---- Files of named tensors ---------------------------------------------------------------- */

std::vector<std::pair<std::string, Tensor>> results;

void keep(const std::string &name, const Tensor &value) {
  results.emplace_back(name, value.detach().to(torch::kFloat64).contiguous().clone());
}

bool write_file(const char *path) {
  std::string header = "{";
  int64_t offset = 0;
  for (const auto &[name, value] : results) {
    std::string shape;
    for (int64_t size : value.sizes()) shape += (shape.empty() ? "" : ",") + std::to_string(size);
    const int64_t end = offset + value.numel() * 8;
    header += (offset ? ",\"" : "\"") + name + "\":{\"dtype\":\"F64\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  header += "}";
  while (header.size() % 8) header += ' ';
  std::ofstream file(path, std::ios::binary);
  const uint64_t length = header.size();
  file.write(reinterpret_cast<const char *>(&length), 8);
  file.write(header.data(), static_cast<std::streamsize>(length));
  for (const auto &[name, value] : results)
    file.write(static_cast<const char *>(value.data_ptr()), value.numel() * 8);
  return static_cast<bool>(file.flush());
}

/* Bytes by name; empty if the file is no such file. */
std::map<std::string, std::vector<char>> read_file(const char *path) {
  std::ifstream file(path, std::ios::binary);
  uint64_t length = 0;
  file.read(reinterpret_cast<char *>(&length), 8);
  std::string header(length, ' ');
  file.read(header.data(), static_cast<std::streamsize>(length));
  const std::string data((std::istreambuf_iterator<char>(file)), {});
  std::map<std::string, std::vector<char>> found;
  const std::string mark = "\":{\"dtype\":", places = "\"data_offsets\":[";
  for (size_t at = 0; (at = header.find(mark, at)) != std::string::npos; at += mark.size()) {
    const size_t begin = header.rfind('"', at - 1) + 1;
    size_t from, to;
    if (std::sscanf(header.c_str() + header.find(places, at) + places.size(), "%zu,%zu", &from,
                    &to) != 2 ||
        to > data.size())
      return {};
    found[header.substr(begin, at - begin)] = {data.begin() + static_cast<std::ptrdiff_t>(from),
                                               data.begin() + static_cast<std::ptrdiff_t>(to)};
  }
  return found;
}

/* ---- Networks ------------------------------------------------------------------------------ */

struct ResidualImpl : nn::Module {
  nn::Sequential body, shortcut;
  ResidualImpl(nn::Sequential b, nn::Sequential s)
      : body(register_module("body", std::move(b))),
        shortcut(register_module("shortcut", std::move(s))) {}
  Tensor forward(const Tensor &x) { return body->forward(x) + shortcut->forward(x); }
};
TORCH_MODULE(Residual);

struct Parameter {
  std::string name;
  Tensor tensor;
  bool trainable;
};

/* In the order of Python's state_dict. */
void list(const nn::Module &module, const std::string &prefix, std::vector<Parameter> &all) {
  for (const auto &item : module.named_parameters(false))
    all.push_back({prefix + item.key(), item.value(), true});
  for (const auto &item : module.named_buffers(false))
    all.push_back({prefix + item.key(), item.value(), false});
  for (const auto &item : module.named_children())
    list(*item.value(), prefix + item.key() + ".", all);
}

bool ends_in(const std::string &text, const char *end) {
  const size_t length = std::strlen(end);
  return text.size() >= length && text.compare(text.size() - length, length, end) == 0;
}

std::vector<Parameter> fill(nn::Sequential &net, double scale) {
  std::vector<Parameter> all;
  net->to(torch::kFloat64);
  list(*net, "", all);
  torch::NoGradGuard guard;
  for (size_t i = 0; i < all.size(); i++) {
    const bool variance = ends_in(all[i].name, "running_var");
    if (ends_in(all[i].name, "num_batches_tracked")) continue;
    all[i].tensor.copy_(numbers(all[i].tensor.sizes().vec(), 10 + static_cast<int64_t>(i),
                                variance ? 0.5 : scale, variance ? 1.5 : 0));
  }
  return all;
}

/* Writes the result, gradients and updated statistics. */
void layer(const std::string &name, const Sizes &shape, bool training, nn::Sequential net,
           int64_t count = 0) {
  const std::vector<Parameter> all = fill(net, 1);
  net->train(training);
  Tensor x = count ? labels(shape, 1, count) : numbers(shape, 1, 3).requires_grad_();
  const Tensor y = net->forward(x);
  keep(name + ".y", y);
  if (y.requires_grad()) (y * numbers(y.sizes().vec(), 2)).sum().backward();
  if (!count) keep(name + ".dx", x.grad());
  for (const Parameter &p : all) {
    if (p.trainable) keep(name + ".d." + p.name, p.tensor.grad());
    if (!p.trainable && training) keep(name + "." + p.name, p.tensor);
  }
}

Residual residual(bool shortcut) {
  nn::Sequential body(nn::Conv2d(nn::Conv2dOptions(4, 4, 3).padding(1).bias(false)),
                      nn::BatchNorm2d(4), nn::ReLU(),
                      nn::Conv2d(nn::Conv2dOptions(4, 4, 3).padding(1).groups(2)));
  if (!shortcut) return Residual(body, nn::Sequential(nn::Identity()));
  return Residual(
      body, nn::Sequential(nn::Conv2d(nn::Conv2dOptions(4, 4, 1).bias(false)), nn::BatchNorm2d(4)));
}

/* A small network for pictures of 8 × 8 with every kind of layer. */
nn::Sequential network() {
  return nn::Sequential(torch::OrderedDict<std::string, nn::AnyModule>(
      {{"stem", nn::AnyModule(nn::Conv2d(nn::Conv2dOptions(1, 4, 3).padding(1)))},
       {"1", nn::AnyModule(nn::BatchNorm2d(4))},
       {"2", nn::AnyModule(nn::ReLU())},
       {"3", nn::AnyModule(residual(false))},
       {"4", nn::AnyModule(nn::MaxPool2d(2))},
       {"5", nn::AnyModule(residual(true))},
       {"6", nn::AnyModule(nn::GELU())},
       {"7", nn::AnyModule(nn::AvgPool2d(2))},
       {"8", nn::AnyModule(nn::Flatten())},
       {"head", nn::AnyModule(nn::Linear(16, 3))}}));
}

void layers() {
  layer("dense", {4, 5}, true, nn::Sequential(nn::Linear(5, 3)));
  layer("dense_no_bias", {2, 3, 5}, true,
        nn::Sequential(nn::Linear(nn::LinearOptions(5, 3).bias(false))));
  layer("conv", {2, 3, 7, 6}, true,
        nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 4, 3).stride(2).padding(1))));
  layer("conv_groups", {2, 4, 6, 7}, true,
        nn::Sequential(nn::Conv2d(nn::Conv2dOptions(4, 6, Two({3, 2}))
                                      .stride(Two({1, 2}))
                                      .padding(Two({2, 1}))
                                      .dilation(Two({2, 1}))
                                      .groups(2))));
  layer("conv_depthwise", {1, 4, 5, 5}, true,
        nn::Sequential(nn::Conv2d(nn::Conv2dOptions(4, 8, 3).padding(1).groups(4))));
  layer("conv_1x1", {2, 5, 3, 3}, true,
        nn::Sequential(nn::Conv2d(nn::Conv2dOptions(5, 3, 1).bias(false))));
  layer("transpose", {2, 3, 4, 3}, true,
        nn::Sequential(nn::ConvTranspose2d(
            nn::ConvTranspose2dOptions(3, 4, 3).stride(2).padding(1).output_padding(1))));
  layer("transpose_groups", {1, 4, 3, 4}, true,
        nn::Sequential(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 6, Two({2, 3}))
                                               .stride(Two({2, 3}))
                                               .padding(Two({1, 0}))
                                               .dilation(Two({2, 1}))
                                               .output_padding(Two({1, 2}))
                                               .groups(2))));
  const auto norm = [] {
    return nn::Sequential(nn::BatchNorm2d(nn::BatchNorm2dOptions(3).eps(1e-3).momentum(0.3)));
  };
  layer("batch_norm", {2, 3, 3, 4}, true, norm());
  layer("batch_norm_inference", {2, 3, 3, 4}, false, norm());
  layer("batch_norm_plain", {2, 3, 3, 2}, true,
        nn::Sequential(nn::BatchNorm2d(nn::BatchNorm2dOptions(3).affine(false))));
  layer("batch_norm_vectors", {6, 4}, true, nn::Sequential(nn::BatchNorm1d(4)));
  layer("layer_norm", {3, 2, 6}, true, nn::Sequential(nn::LayerNorm(nn::LayerNormOptions({6}))));
  layer(
      "max_pool", {2, 2, 6, 7}, true,
      nn::Sequential(nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1).ceil_mode(true))));
  layer("max_pool_dilated", {1, 2, 6, 5}, true,
        nn::Sequential(nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(1).dilation(2))));
  layer("average_pool", {2, 2, 6, 7}, true,
        nn::Sequential(nn::AvgPool2d(nn::AvgPool2dOptions(3).stride(2).padding(1))));
  layer("average_pool_exclude", {2, 2, 6, 8}, true,
        nn::Sequential(nn::AvgPool2d(nn::AvgPool2dOptions(Two({3, 2}))
                                         .stride(2)
                                         .padding(1)
                                         .ceil_mode(true)
                                         .count_include_pad(false))));
  layer(
      "average_pool_ceil", {1, 2, 6, 8}, true,
      nn::Sequential(nn::AvgPool2d(nn::AvgPool2dOptions(3).stride(2).padding(1).ceil_mode(true))));
  layer("global_average", {2, 3, 4, 5}, true,
        nn::Sequential(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({1, 1})), nn::Flatten()));
  layer("embedding", {2, 4}, true, nn::Sequential(nn::Embedding(7, 3)), 7);
  layer("relu", {3, 5}, true, nn::Sequential(nn::ReLU()));
  layer("gelu", {3, 5}, true, nn::Sequential(nn::GELU()));
  layer("gelu_tanh", {3, 5}, true, nn::Sequential(nn::GELU(nn::GELUOptions().approximate("tanh"))));
  layer("silu", {3, 5}, true, nn::Sequential(nn::SiLU()));
  layer("sigmoid", {3, 5}, true, nn::Sequential(nn::Sigmoid()));
  layer("tanh", {3, 5}, true, nn::Sequential(nn::Tanh()));
  layer("softplus", {3, 5}, true, nn::Sequential(nn::Softplus()));
  layer("leaky_relu", {3, 5}, true, nn::Sequential(nn::LeakyReLU()));
  layer("elu", {3, 5}, true, nn::Sequential(nn::ELU()));
  layer("softmax", {3, 5}, true, nn::Sequential(nn::Softmax(-1)));
  layer("flatten", {2, 3, 2}, true, nn::Sequential(nn::Flatten()));
  layer("dropout_inference", {3, 5}, false, nn::Sequential(nn::Dropout(0.5)));
  layer("residual", {2, 4, 4, 4}, true, nn::Sequential(residual(true)));
  layer("residual_identity", {2, 4, 4, 4}, false, nn::Sequential(residual(false)));
}

/* ---- Functions ----------------------------------------------------------------------------- */

using Function = std::function<Tensor(const std::vector<Tensor> &)>;

void function(const std::string &name, std::vector<Tensor> in, const Function &call) {
  for (Tensor &x : in)
    if (x.is_floating_point()) x.requires_grad_();
  const Tensor y = call(in);
  keep(name + ".y", y);
  (y * numbers(y.sizes().vec(), 2)).sum().backward();
  for (size_t i = 0; i < in.size(); i++)
    if (in[i].is_floating_point()) keep(name + ".d" + std::to_string(i), in[i].grad());
}

Tensor attention(const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &bias) {
  const Tensor scores = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  return torch::softmax(scores + bias, -1).matmul(v);
}

void functions() {
  const std::vector<Tensor> image = {numbers({1, 2, 4, 5}, 1)};
  const auto copy = [&] { return std::vector<Tensor>{image[0].clone()}; };
  function("upsample_nearest", copy(), [](auto &in) {
    return F::interpolate(in[0],
                          F::InterpolateFuncOptions().size(Sizes{7, 9}).mode(torch::kNearest));
  });
  function("upsample_bilinear", copy(), [](auto &in) {
    return F::interpolate(
        in[0],
        F::InterpolateFuncOptions().size(Sizes{7, 9}).mode(torch::kBilinear).align_corners(false));
  });
  function("upsample_smaller", copy(), [](auto &in) {
    return F::interpolate(
        in[0],
        F::InterpolateFuncOptions().size(Sizes{3, 2}).mode(torch::kBilinear).align_corners(false));
  });
  function("pad_constant", copy(), [](auto &in) {
    return torch::constant_pad_nd(in[0], {1, 2, 3, 0}, 0.5);
  });
  function("pad_edge", copy(), [](auto &in) {
    return torch::replication_pad2d(in[0], {1, 2, 3, 0});
  });
  function("pad_reflect", copy(), [](auto &in) {
    return torch::reflection_pad2d(in[0], {1, 2, 3, 0});
  });
  function("cumulative_sum", copy(), [](auto &in) { return torch::cumsum(in[0], 2); });
  function("cumulative_sum_reverse", copy(),
           [](auto &in) { return torch::flip(torch::cumsum(torch::flip(in[0], {3}), 3), {3}); });
  function("top_k", copy(), [](auto &in) { return std::get<0>(torch::topk(in[0], 3, 3)); });
  function("global_max", copy(), [](auto &in) { return torch::amax(in[0], {2, 3}); });
  function("log_softmax", copy(), [](auto &in) { return torch::log_softmax(in[0], 1); });
  function("gather", {numbers({3, 4}, 1), labels({5}, 2, 4)},
           [](auto &in) { return torch::index_select(in[0], 1, in[1]); });
  const auto qkv = [](int64_t queries) {
    return std::vector<Tensor>{numbers({2, 3, queries, 4}, 1, 2), numbers({2, 3, 6, 4}, 2, 2),
                               numbers({2, 3, 6, 5}, 3)};
  };
  function("attention", qkv(5), [](auto &in) {
    return attention(in[0], in[1], in[2], torch::zeros({1}, torch::kFloat64));
  });
  function("attention_causal", qkv(4), [](auto &in) {
    const Tensor hidden = torch::ones({4, 6}, torch::kBool).triu(3);
    return attention(in[0], in[1], in[2],
                     torch::zeros({4, 6}, torch::kFloat64)
                         .masked_fill(hidden, -std::numeric_limits<double>::infinity()));
  });
  std::vector<Tensor> biased = qkv(5);
  biased.push_back(numbers({5, 6}, 4));
  function("attention_bias", biased,
           [](auto &in) { return attention(in[0], in[1], in[2], in[3]); });
  const auto classes = [] { return std::vector<Tensor>{numbers({6, 4}, 1, 3), labels({6}, 2, 4)}; };
  function("cross_entropy", classes(), [](auto &in) { return F::cross_entropy(in[0], in[1]); });
  function("cross_entropy_smoothed", classes(), [](auto &in) {
    return F::cross_entropy(in[0], in[1], F::CrossEntropyFuncOptions().label_smoothing(0.2));
  });
  function("binary_cross_entropy", {numbers({4, 3}, 1, 5), numbers({4, 3}, 2, 0.5, 0.5)},
           [](auto &in) { return torch::binary_cross_entropy_with_logits(in[0], in[1]); });
  const auto pair = [] { return std::vector<Tensor>{numbers({4, 3}, 1, 2), numbers({4, 3}, 2)}; };
  function("huber", pair(),
           [](auto &in) { return torch::huber_loss(in[0], in[1], at::Reduction::Mean, 0.7); });
  function("mean_squared_error", pair(), [](auto &in) { return torch::mse_loss(in[0], in[1]); });
}

/* ---- Training ------------------------------------------------------------------------------ */

struct Run {
  nn::Sequential net;
  Sizes item;
  int64_t outputs, batch, steps, accumulate;
  double scale, rate, clip;
  std::function<Tensor(const Tensor &, const Tensor &)> loss;
  bool classes;
  std::function<double(int64_t)> factor; /* of the rate, by optimizer step */
};

Sizes with_batch(const Run &run, Sizes item) {
  item.insert(item.begin(), run.batch);
  return item;
}

template <class Optimizer, class Options>
void train(const std::string &name, Run run, Options options) {
  const std::vector<Parameter> all = fill(run.net, run.scale);
  Optimizer optimizer(run.net->parameters(), options);
  Tensor losses = torch::empty({run.steps}, torch::kFloat64);
  run.net->train();
  for (int64_t step = 0; step < run.steps; step++) {
    const Tensor x = numbers(with_batch(run, run.item), 100 + step);
    const Tensor t = run.classes ? labels({run.batch}, step, run.outputs)
                                 : numbers(with_batch(run, {run.outputs}), 300 + step, 0.5, 0.5);
    const Tensor loss = run.loss(run.net->forward(x), t);
    losses[step] = loss.detach();
    (loss / static_cast<double>(run.accumulate)).backward();
    if ((step + 1) % run.accumulate) continue;
    if (run.clip > 0) nn::utils::clip_grad_norm_(run.net->parameters(), run.clip);
    const double rate = run.rate * (run.factor ? run.factor(step / run.accumulate) : 1);
    for (auto &group : optimizer.param_groups()) group.options().set_lr(rate);
    optimizer.step();
    optimizer.zero_grad();
  }
  keep("train." + name + ".loss", losses);
  for (const Parameter &p : all) keep("train." + name + "." + p.name, p.tensor);
}

Run small(double rate) {
  return {.net = nn::Sequential(nn::Linear(4, 5), nn::Tanh(), nn::Linear(5, 3)),
          .item = {4},
          .outputs = 3,
          .batch = 6,
          .steps = 8,
          .accumulate = 1,
          .scale = 1,
          .rate = rate,
          .clip = 0,
          .loss = [](const Tensor &y, const Tensor &t) { return torch::mse_loss(y, t); },
          .classes = false,
          .factor = nullptr};
}

void optimizers() {
  using torch::optim::AdamOptions;
  using torch::optim::AdamWOptions;
  using torch::optim::RMSpropOptions;
  using torch::optim::SGDOptions;
  train<torch::optim::SGD>("sgd", small(0.1), SGDOptions(0.1));
  train<torch::optim::SGD>("sgd_momentum", small(0.1), SGDOptions(0.1).momentum(0.9));
  train<torch::optim::SGD>("sgd_nesterov", small(0.1),
                           SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.02));
  train<torch::optim::Adam>("adam", small(0.02), AdamOptions(0.02));
  train<torch::optim::Adam>(
      "adam_options", small(0.02),
      AdamOptions(0.02).betas(std::make_tuple(0.8, 0.9)).eps(1e-3).weight_decay(0.05));
  train<torch::optim::AdamW>("adamw", small(0.02), AdamWOptions(0.02).weight_decay(0.3));
  train<torch::optim::RMSprop>("rmsprop", small(0.01), RMSpropOptions(0.01));
  train<torch::optim::RMSprop>(
      "rmsprop_options", small(0.01),
      RMSpropOptions(0.01).alpha(0.9).eps(1e-4).momentum(0.5).weight_decay(0.05));
  Run run = small(0.1);
  run.factor = [](int64_t step) { return std::pow(0.5, static_cast<double>(step / 3)); };
  train<torch::optim::SGD>("schedule_step", run, SGDOptions(0.1).momentum(0.5));
  run = small(0.1);
  run.factor =
      [](int64_t step) { /* LinearLR, then CosineAnnealingLR of 10 steps down to 0.1 */
                         if (step < 2) return static_cast<double>(step + 1) / 2;
                         return 0.1 +
                                0.9 * (1 + std::cos(M_PI * static_cast<double>(step - 2) / 10)) / 2;
      };
  train<torch::optim::SGD>("schedule_cosine", run, SGDOptions(0.1));
  run = small(0.5);
  run.accumulate = 2;
  run.loss = [](const Tensor &y, const Tensor &t) {
    return torch::binary_cross_entropy_with_logits(y, t);
  };
  train<torch::optim::SGD>("accumulate", run, SGDOptions(0.5));
  run = small(0.5);
  run.clip = 0.05;
  run.loss = [](const Tensor &y, const Tensor &t) {
    return torch::huber_loss(y, t, at::Reduction::Mean, 0.3);
  };
  train<torch::optim::SGD>("clip", run, SGDOptions(0.5));
}

void training_run() {
  Run run = small(0.05);
  run.net = network();
  run.item = {1, 8, 8};
  run.batch = 8;
  run.steps = 40;
  run.scale = 0.5;
  run.classes = true;
  run.loss = [](const Tensor &y, const Tensor &t) {
    return F::cross_entropy(y, t, F::CrossEntropyFuncOptions().label_smoothing(0.1));
  };
  train<torch::optim::SGD>(
      "network", run,
      torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(1e-3));
  int64_t index = 0;
  const auto name = [&](const char *kind, const std::string &key) {
    char number[8];
    std::snprintf(number, sizeof number, "%02d", static_cast<int>(index++));
    return std::string("train.names.") + kind + "." + number + "." + key;
  };
  for (const auto &item : run.net->named_parameters())
    keep(name("parameter", item.key()), torch::tensor(item.value().sizes().vec()));
  index = 0;
  for (const auto &item : run.net->named_buffers())
    keep(name("buffer", item.key()), torch::tensor(item.value().sizes().vec()));
  run.net->eval();
  keep("train.network.y", run.net->forward(numbers({5, 1, 8, 8}, 7)));
}

int check(const char *weights, const char *result) {
  auto stored = read_file(weights), expected = read_file(result);
  nn::Sequential net = network();
  std::vector<Parameter> all;
  net->to(torch::kFloat64);
  list(*net, "", all);
  torch::NoGradGuard guard;
  for (const Parameter &p : all) {
    const std::vector<char> &bytes = stored[p.name];
    const bool count = ends_in(p.name, "num_batches_tracked");
    if (bytes.size() != static_cast<size_t>(p.tensor.numel()) * 8) {
      std::printf("%s has no %s of the right size\n", weights, p.name.c_str());
      return 1;
    }
    p.tensor.copy_(torch::from_blob(const_cast<char *>(bytes.data()), p.tensor.sizes(),
                                    count ? torch::kInt64 : torch::kFloat64));
  }
  if (stored.size() != all.size()) return std::printf("%s has more tensors\n", weights), 1;
  net->eval();
  const Tensor y = net->forward(numbers({5, 1, 8, 8}, 7));
  const std::vector<char> &bytes = expected["y"];
  if (bytes.size() != static_cast<size_t>(y.numel()) * 8) return std::printf("no result\n"), 1;
  const Tensor other =
      torch::from_blob(const_cast<char *>(bytes.data()), y.sizes(), torch::kFloat64);
  const double difference = (y - other).abs().max().item<double>();
  std::printf("loaded by PyTorch, results differ by %g\n", difference);
  return !(difference < 1e-12 * y.abs().max().item<double>());
}

} // namespace

int main(int count, char **arguments) {
  at::set_num_threads(1);
  if (count == 4 && !std::strcmp(arguments[1], "check")) return check(arguments[2], arguments[3]);
  if (count != 3 || std::strcmp(arguments[1], "values")) return 2;
  layers();
  functions();
  optimizers();
  training_run();
  return write_file(arguments[2]) ? 0 : 1;
}
