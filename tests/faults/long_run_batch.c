/* SPDX-License-Identifier: MIT */
/* A batch run on two devices, one of them the CPU, with a smaller last batch and a callback as its
 * source. */
#include <string.h>

#include "faults/long_run.h"

enum { WIDTH = 3 };

typedef struct stream {
  float data[RUN_BATCH_ITEMS * WIDTH], out[RUN_BATCH_ITEMS];
  compute_batch *batch;
  bool cancel;
} stream;

static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  static const float weights[WIDTH] = {1, 2, 4};
  (void)user;
  (void)items;
  const compute_node w = compute_constant(graph, COMPUTE_F32, COMPUTE_SHAPE(WIDTH), weights);
  outputs[0] = compute_sum(graph, compute_mul(graph, inputs[0], w), COMPUTE_AXES(1), false);
}

static compute_status read_items(void *user, int64_t first, int64_t items, void *to,
                                 int64_t *count) {
  stream *s = user;
  *count = items < RUN_BATCH_ITEMS - first ? items : RUN_BATCH_ITEMS - first;
  memcpy(to, s->data + first * WIDTH, (size_t)*count * WIDTH * sizeof *s->data);
  if (s->cancel && first > 0) compute_batch_cancel(s->batch);
  return COMPUTE_OK;
}

compute_status run_batch(const run_round *round, compute_fallback fallback, bool cancel,
                         int64_t *items, bool *right) {
  stream s = {.cancel = cancel};
  for (int i = 0; i < RUN_BATCH_ITEMS * WIDTH; i++) s.data[i] = (float)(i % 11);
  compute_device *const devices[] = {round->device, round->cpu};
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SHAPE(WIDTH)};
  const compute_batch_options options = {.build = build,
                                         .inputs = &port,
                                         .input_count = 1,
                                         .output_count = 1,
                                         .devices = devices,
                                         .device_count = 2,
                                         .batch = 16,
                                         .slots = 2,
                                         .fallback = fallback};
  compute_batch_result result = {0};
  compute_status status = compute_batch_create(round->context, &options, &s.batch);
  const compute_batch_source source = {.read = read_items, .user = &s};
  const compute_batch_sink sink = {.array = s.out};
  if (status == COMPUTE_OK)
    status =
        compute_batch_run(s.batch,
                          &(compute_batch_run_options){
                              .items = COMPUTE_BATCH_UNTIL_END, .sources = &source, .sinks = &sink},
                          &result);
  compute_batch_release(s.batch);
  *items = result.items;
  *right = true;
  for (int64_t i = 0; i < result.items; i++) {
    const float *x = s.data + i * WIDTH;
    *right = *right && s.out[i] == x[0] + 2 * x[1] + 4 * x[2];
  }
  return status;
}
