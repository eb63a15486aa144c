/* SPDX-License-Identifier: MIT */
/* See network_own.h. */
#include "network_own.h"

#include <stdlib.h>
#include <string.h>

#include "host.h"

/* ---- Networks as layers -------------------------------------------------------------------- */

static compute_layer *layer_of(compute_device *device, const bench_part *p, int64_t seed) {
  const compute_weights_options weights = {.seed = (uint64_t)seed + 1};
  switch (p->kind) {
  case BENCH_PART_CONV:
    return compute_conv2d_layer(device, p->inputs, p->outputs, p->kernel,
                                &(compute_conv2d_layer_options){.weights = weights,
                                                                .stride = {p->stride},
                                                                .padding = {p->kernel / 2}});
  case BENCH_PART_NORM: return compute_batch_norm_layer(device, p->outputs, NULL);
  case BENCH_PART_RELU: return compute_activation(COMPUTE_RELU);
  case BENCH_PART_POOL: return compute_max_pool(2, NULL);
  case BENCH_PART_AVERAGE: return compute_global_average_pool();
  case BENCH_PART_DENSE: return compute_dense(device, p->inputs, p->outputs, &weights);
  default: return NULL;
  }
}

/* The parts first … end − 1 in sequence, with a flatten where features begin. */
static compute_layer *chain(compute_device *device, const bench_network *n, int first, int end) {
  compute_layer *layers[BENCH_MOST_PARTS + 1];
  size_t count = 0;
  for (int i = first; i < end; i++) {
    const bench_part_kind before = n->parts[i - 1].kind;
    if (n->parts[i].kind == BENCH_PART_DENSE &&
        (before == BENCH_PART_INPUT || before == BENCH_PART_POOL))
      layers[count++] = compute_flatten();
    layers[count++] = layer_of(device, &n->parts[i], i);
  }
  return compute_sequential(layers, count);
}

/* The sum at part `add`: both operands start from the output of part `start`. The parts of the
 * shortcut, if any, come after the body's. */
static compute_layer *residual(compute_device *device, const bench_network *n, int start, int add) {
  const int body_end = n->parts[add].from + 1;
  compute_layer *shortcut =
      n->parts[add].other > start ? chain(device, n, body_end, add) : compute_identity();
  return compute_residual(chain(device, n, start + 1, body_end), shortcut);
}

compute_layer *network_own_layers(compute_device *device, const bench_network *n) {
  compute_layer *layers[BENCH_MOST_PARTS];
  size_t count = 0;
  int first = 1;
  for (int i = 1; i < n->count; i++) {
    if (n->parts[i].kind != BENCH_PART_ADD) continue;
    /* The part where the branches fork: the other operand, or the input of the shortcut. */
    const int behind = n->parts[i].from + 1;
    const int start = behind == i ? n->parts[i].other : bench_part_from(n, behind);
    if (start + 1 > first) layers[count++] = chain(device, n, first, start + 1);
    layers[count++] = residual(device, n, start, i);
    first = i + 1;
  }
  layers[count++] = chain(device, n, first, n->count);
  return compute_sequential(layers, count);
}

/* ---- Data ---------------------------------------------------------------------------------- */

static compute_status read_weights(const compute_layer *model, float *to, int64_t total) {
  compute_layer_parameter p;
  for (size_t i = 0; i < compute_layer_parameter_count(model); i++) {
    int64_t count = 0;
    compute_status s = compute_layer_parameter_at(model, i, &p);
    if (s) return s;
    if (!p.trainable) continue;
    compute_shape_count(compute_tensor_shape(p.tensor), &count);
    if (count > total) return COMPUTE_ERROR_INTERNAL;
    s = compute_tensor_read(p.tensor, to, (size_t)count * sizeof *to);
    if (s) return s;
    to += count;
    total -= count;
  }
  return total ? COMPUTE_ERROR_INTERNAL : COMPUTE_OK;
}

static compute_status make_data(const compute_layer *model, network_data *d) {
  const bench_network *n = d->network;
  const int64_t elements = d->batch * n->channels * n->side * n->side;
  const int64_t weights = bench_network_weights(n);
  d->x = malloc((size_t)elements * sizeof *d->x);
  d->labels = malloc((size_t)d->batch * sizeof *d->labels);
  d->weights = malloc((size_t)weights * sizeof *d->weights);
  if (!d->x || !d->labels || !d->weights) return COMPUTE_ERROR_OUT_OF_MEMORY;
  host_fill(COMPUTE_F32, d->x, elements, -1, 1, 1);
  host_fill(COMPUTE_I64, d->labels, d->batch, 0, BENCH_CLASSES, 2);
  return read_weights(model, d->weights, weights);
}

void network_data_release(network_data *data) {
  free(data->x);
  free(data->labels);
  free(data->weights);
  *data = (network_data){0};
}

/* ---- Plan or trainer ----------------------------------------------------------------------- */

static compute_status make_plan(compute_context *context, compute_device *device,
                                compute_shape shape, network_own *own) {
  own->graph = compute_graph_create(context);
  own->binding[0].node = compute_input(own->graph, COMPUTE_F32, shape);
  own->binding[1].node = compute_layer_apply(own->model, own->graph, own->binding[0].node, NULL);
  const compute_plan_options options = {.device = device, .fallback = COMPUTE_FALLBACK_STRICT};
  compute_status s = compute_compile(own->graph, &own->binding[1].node, 1, &options, &own->plan);
  own->binding[0].tensor = own->x;
  if (!s) s = compute_plan_create_tensor(own->plan, own->binding[1].node, &own->binding[1].tensor);
  return s;
}

static compute_status make_trainer(compute_context *context, compute_device *device,
                                   const network_data *d, network_own *own) {
  return compute_trainer_create(
      context,
      &(compute_trainer_options){
          .model = own->model,
          .input = {COMPUTE_F32,
                    COMPUTE_SHAPE(d->network->channels, d->network->side, d->network->side)},
          .target = {COMPUTE_I64, COMPUTE_SCALAR},
          .batch = d->batch,
          .optimizer = {.kind = COMPUTE_ADAM, .learning_rate = 1e-3},
          .devices = &device,
          .device_count = 1},
      &own->trainer);
}

compute_status network_own_create(compute_context *context, compute_device *device,
                                  compute_queue *queue, const bench_network *network, int64_t batch,
                                  bool training, network_own *own, network_data *data) {
  const compute_shape shape = COMPUTE_SHAPE(batch, network->channels, network->side, network->side);
  *own = (network_own){.queue = queue, .model = network_own_layers(device, network)};
  *data = (network_data){.network = network, .batch = batch};
  if (!own->model) return COMPUTE_ERROR_INTERNAL;
  compute_status s = make_data(own->model, data);
  if (!s) s = compute_tensor_from_host(device, COMPUTE_F32, shape, data->x, &own->x);
  if (!s)
    s = compute_tensor_from_host(device, COMPUTE_I64, COMPUTE_SHAPE(batch), data->labels,
                                 &own->labels);
  if (s) return s;
  return training ? make_trainer(context, device, data, own)
                  : make_plan(context, device, shape, own);
}

void network_own_release(network_own *own) {
  compute_trainer_release(own->trainer);
  compute_tensor_release(own->binding[1].tensor);
  compute_plan_release(own->plan);
  compute_graph_release(own->graph);
  compute_tensor_release(own->x);
  compute_tensor_release(own->labels);
  compute_layer_release(own->model);
  *own = (network_own){0};
}

compute_status network_own_results(network_own *own, float *results, int64_t count) {
  compute_status s = COMPUTE_OK;
  for (int64_t i = 0; own->trainer && i < count && !s; i++) {
    double loss = 0;
    s = compute_trainer_step(own->trainer, own->x, own->labels, &loss);
    results[i] = (float)loss;
  }
  if (own->trainer) return s;
  network_own_run(own, 1);
  if (own->status) return own->status;
  return compute_tensor_read(own->binding[1].tensor, results, (size_t)count * sizeof *results);
}

/* Reading only the last step's loss waits for all steps. */
void network_own_run(void *state, int64_t times) {
  network_own *own = state;
  double loss;
  for (int64_t i = 0; i < times && !own->status; i++) {
    if (own->trainer)
      own->status =
          compute_trainer_step(own->trainer, own->x, own->labels, i + 1 < times ? NULL : &loss);
    else
      own->status = compute_run(own->plan, own->binding, 2, own->queue);
  }
  if (!own->status && !own->trainer) own->status = compute_queue_wait(own->queue);
}
