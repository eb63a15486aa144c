/* SPDX-License-Identifier: MIT */
/* libcompute's side of the suite "train": a network as layers, with a plan or a trainer. */
#ifndef BENCH_NETWORK_OWN_H
#define BENCH_NETWORK_OWN_H

#include "bench.h"
#include "networks.h"

/* A batch and the weights to start from, in host memory. */
typedef struct network_data {
  const bench_network *network;
  int64_t batch;
  float *x, *weights;
  int64_t *labels;
} network_data;

typedef struct network_own {
  compute_layer *model;
  compute_trainer *trainer; /* training */
  compute_graph *graph;     /* inference */
  compute_plan *plan;
  compute_binding binding[2];
  compute_tensor *x, *labels;
  compute_queue *queue;
  compute_status status; /* of network_own_run */
} network_own;

/* The network as one layer; NULL on failure. */
compute_layer *network_own_layers(compute_device *device, const bench_network *network);

/* Release both at the end, also after a failure. */
compute_status network_own_create(compute_context *context, compute_device *device,
                                  compute_queue *queue, const bench_network *network, int64_t batch,
                                  bool training, network_own *own, network_data *data);
void network_own_release(network_own *own);
void network_data_release(network_data *data);

/* Inference: all results; training: the losses of `count` steps. */
compute_status network_own_results(network_own *own, float *results, int64_t count);

/* For bench_runner: the state is a network_own. */
void network_own_run(void *state, int64_t times);

#endif
