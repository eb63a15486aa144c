/* SPDX-License-Identifier: MIT */
/* Overlaps the reduction of gradients with the backward pass, in batches that end in an update.
 *
 * The weights are divided into buckets. The last weights come first, because the backward pass
 * computes their gradients first. If the plan's device computes on this thread, each bucket ends in
 * a call. The call copies the gradients to their places in trainer->sum and begins to reduce them.
 * Calls run in the order of their recording, so all ranks reduce the buckets in the same order.
 * Ranks with a GPU or several devices reduce their buckets when the step has ended. Ranks whose
 * step fails also reduce them, since the others wait for them before they learn of the failure. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "graph/node/graph.h"
#include "ml/train/trainer.h"

static const char operation[] = "compute_trainer_create";
#define BUCKET_BYTES (1 << 20) /* a bucket with this many bytes is closed */

struct train_bucket {
  compute_trainer *trainer;
  size_t first_weight, weight_count;
  int64_t first, count; /* elements of trainer->sum; padded to a multiple of the ranks if they
                         * divide the state */
  compute_tensor *part; /* a view of these elements */
  compute_tensor *own;  /* a view of this rank's block, if the ranks divide the state */
  compute_group_request *request;
};

/* ---- Division -------------------------------------------------------------------------------- */

static void count_elements(compute_trainer *trainer) {
  size_t count = 0;
  for (size_t i = 0; i < trainer->tensor_count; i++) {
    compute_layer_parameter p;
    if (compute_layer_parameter_at(trainer->options.model, i, &p) || !p.trainable) continue;
    trainer->places[count++] = (train_place){.tensor = i, .count = compute_tensor_count(p.tensor)};
  }
}

/* Fills the buckets from the last weight to the first. */
static void fill_buckets(compute_trainer *trainer) {
  const int64_t most = BUCKET_BYTES / (int64_t)compute_dtype_size(trainer->dtype);
  const int64_t blocks = trainer->divides ? trainer->ranks : 1;
  for (size_t w = trainer->weight_count; w > 0;) {
    const size_t index = trainer->bucket_count++;
    train_bucket *bucket = &trainer->buckets[index];
    int64_t count = 0;
    bucket->trainer = trainer;
    while (w > 0 && count < most && bucket->weight_count < COMPUTE_CALL_MAX_INPUTS) {
      trainer->places[--w].bucket = index;
      count += trainer->places[w].count;
      bucket->weight_count++;
    }
    bucket->first_weight = w;
    bucket->count = (count + blocks - 1) / blocks * blocks;
    trainer->flat_elements += bucket->count;
  }
}

/* Gives each bucket its range: the flat vector has the weights in their order. */
static void place(compute_trainer *trainer) {
  int64_t end = trainer->flat_elements;
  for (size_t b = 0; b < trainer->bucket_count; b++) {
    train_bucket *bucket = &trainer->buckets[b];
    int64_t at = bucket->first = end -= bucket->count;
    for (size_t i = 0; i < bucket->weight_count; i++) {
      train_place *p = &trainer->places[bucket->first_weight + i];
      p->first = at;
      at += p->count;
    }
  }
}

compute_status train_buckets_divide(compute_trainer *trainer) {
  if (!trainer->together) return COMPUTE_OK;
  trainer->divides = trainer->group && trainer->options.flags & COMPUTE_TRAIN_DIVIDE_STATE;
  trainer->places = base_allocate(trainer->weight_count, sizeof *trainer->places);
  trainer->buckets = base_allocate(trainer->weight_count, sizeof *trainer->buckets);
  if (!trainer->places || !trainer->buckets)
    return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for buckets of %zu gradients", trainer->weight_count);
  count_elements(trainer);
  fill_buckets(trainer);
  place(trainer);
  return COMPUTE_OK;
}

void train_bucket_block(const compute_trainer *trainer, size_t index, int32_t rank, int64_t *first,
                        int64_t *count) {
  const train_bucket *bucket = &trainer->buckets[index];
  *count = bucket->count / trainer->ranks;
  *first = bucket->first + rank * *count;
}

compute_status train_buckets_create(compute_trainer *trainer) {
  if (!trainer->group) return COMPUTE_OK;
  trainer->overlaps = trainer->replica_count == 1 && trainer->replicas[0].host &&
                      !(trainer->options.flags & COMPUTE_TRAIN_NO_OVERLAP);
  compute_status status = COMPUTE_OK;
  for (size_t b = 0; !status && b < trainer->bucket_count; b++) {
    train_bucket *bucket = &trainer->buckets[b];
    int64_t first, count;
    train_bucket_block(trainer, b, trainer->rank, &first, &count);
    status = train_view(trainer->sum, bucket->first, bucket->count, &bucket->part);
    if (!status && trainer->divides) status = train_view(trainer->sum, first, count, &bucket->own);
  }
  return status;
}

void train_buckets_release(compute_trainer *trainer) {
  for (size_t i = 0; i < trainer->bucket_count; i++) {
    compute_group_request_release(trainer->buckets[i].request);
    compute_tensor_release(trainer->buckets[i].part);
    compute_tensor_release(trainer->buckets[i].own);
  }
  base_release(trainer->buckets);
  base_release(trainer->places);
}

/* ---- On their way ---------------------------------------------------------------------------- */

static compute_status begin(compute_trainer *trainer) {
  train_bucket *bucket = &trainer->buckets[trainer->buckets_begun++];
  if (trainer->divides)
    return compute_group_reduce_scatter(trainer->group, COMPUTE_GROUP_SUM, bucket->part,
                                        bucket->own, NULL, &bucket->request);
  return compute_group_all_reduce(trainer->group, COMPUTE_GROUP_SUM, bucket->part, bucket->part,
                                  NULL, &bucket->request);
}

/* The call in the plan. Its inputs are the gradients of a bucket, in the order of the weights. */
static compute_status take_bucket(void *user, const compute_call_arguments *arguments, int32_t part,
                                  int32_t parts) {
  const train_bucket *bucket = user;
  const size_t size = compute_dtype_size(bucket->trainer->dtype);
  char *to = compute_tensor_data(bucket->part);
  (void)part;
  (void)parts;
  for (uint32_t i = 0; i < arguments->input_count; i++) {
    const size_t bytes = (size_t)arguments->inputs[i].count * size;
    memcpy(to, arguments->inputs[i].data, bytes);
    to += bytes;
  }
  memset(arguments->outputs[0].data, 0, 1);
  if (!bucket->trainer->reduces || begin(bucket->trainer) == COMPUTE_OK) return COMPUTE_OK;
  return compute_call_fail(arguments, COMPUTE_ERROR_TRANSFER, "%s",
                           compute_error_message(bucket->trainer->context));
}

compute_node train_record_buckets(train_record *record) {
  compute_trainer *trainer = record->trainer;
  compute_graph *graph = record->graph;
  compute_node *calls = base_allocate(trainer->bucket_count, sizeof *calls);
  if (!calls)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for %zu buckets", trainer->bucket_count);
  const compute_call_output done = {COMPUTE_U8, COMPUTE_SHAPE(1)};
  const compute_call_options options = {.name = "gradients for the group"};
  for (size_t b = 0; b < trainer->bucket_count && graph->status == COMPUTE_OK; b++) {
    train_bucket *bucket = &trainer->buckets[b];
    calls[b] = compute_call(graph, take_bucket, bucket, record->gradients + bucket->first_weight,
                            bucket->weight_count, &done, 1, &options, NULL);
  }
  const compute_node group =
      graph->status ? (compute_node){0} : compute_group(graph, calls, trainer->bucket_count);
  base_release(calls);
  return group;
}

void train_buckets_begin_rest(compute_trainer *trainer) {
  compute_error error;
  compute_error_get(trainer->context, &error);
  while (trainer->buckets_begun < trainer->bucket_count) (void)begin(trainer);
  if (error.status) error_restore(trainer->context, &error);
}

compute_status train_buckets_wait(compute_trainer *trainer) {
  compute_status first = COMPUTE_OK;
  trainer->buckets_begun = 0;
  for (size_t b = 0; b < trainer->bucket_count; b++) {
    train_bucket *bucket = &trainer->buckets[b];
    if (!bucket->request) continue; /* the group is broken */
    const compute_status status = compute_group_request_wait(bucket->request);
    if (!first) first = status;
    compute_group_request_release(bucket->request);
    bucket->request = NULL;
  }
  return first;
}

compute_status train_buckets_gather(compute_trainer *trainer) {
  compute_status status = COMPUTE_OK;
  for (size_t b = 0; !status && b < trainer->bucket_count; b++) {
    train_bucket *bucket = &trainer->buckets[b];
    status =
        compute_group_all_gather(trainer->group, bucket->own, bucket->part, NULL, &bucket->request);
  }
  const compute_status gathered = train_buckets_wait(trainer);
  return status ? status : gathered;
}
