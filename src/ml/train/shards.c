/* SPDX-License-Identifier: MIT */
/* An optimizer's state divided over the ranks of a group (ZeRO stage 1; Rajbhandari et al. 2020,
 * arXiv 1910.02054).
 *
 * Each bucket of gradients is cut into one block per rank. The blocks have equal size; zeros pad
 * the bucket if necessary. A rank updates only the weight elements in its own block: one piece of a
 * weight, or none. So the gradients are reduce-scattered instead of all-reduced, and the weights
 * are gathered afterwards. Both use the same flat vector. The optimizer gets the pieces as
 * parameters that are views of the weights, so its state has the size of the pieces. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/tensor/tensor.h"
#include "core/type/dtype.h"
#include "graph/node/graph.h"
#include "ml/train/dataset.h"
#include "ml/train/trainer.h"

static const char operation[] = "compute_trainer_create";

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* The part of a weight that a rank owns. */
typedef struct piece_range {
  int64_t first, count;
} piece_range;

struct train_piece {
  size_t weight;
  piece_range range;     /* elements of the weight */
  compute_tensor *own;   /* a view of these elements of the weight */
  compute_tensor *place; /* a view of the same elements of trainer->sum */
};

static piece_range range_of(const compute_trainer *trainer, size_t weight, int32_t rank) {
  const train_place *p = &trainer->places[weight];
  int64_t first, count;
  train_bucket_block(trainer, p->bucket, rank, &first, &count);
  const int64_t begin = first > p->first ? first : p->first;
  const int64_t block_end = first + count, end = p->first + p->count;
  const int64_t last = block_end < end ? block_end : end;
  return (piece_range){begin - p->first, last > begin ? last - begin : 0};
}

static compute_status check_ranks(const compute_trainer *trainer) {
  for (int32_t r = 0; r < trainer->ranks; r++) {
    size_t w = 0;
    while (w < trainer->weight_count && range_of(trainer, w, r).count == 0) w++;
    if (w < trainer->weight_count) continue;
    return error_set(trainer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "%" PRId64 " weights are too few to divide their state over %d ranks",
                     trainer->weight_elements, (int)trainer->ranks);
  }
  return COMPUTE_OK;
}

static compute_status add_piece(compute_trainer *trainer, size_t weight, compute_tensor *tensor) {
  const piece_range range = range_of(trainer, weight, trainer->rank);
  if (range.count == 0) return COMPUTE_OK;
  train_piece *piece = &trainer->pieces[trainer->piece_count++];
  *piece = (train_piece){.weight = weight, .range = range};
  const compute_status status = train_view(tensor, range.first, range.count, &piece->own);
  return status ? status
                : train_view(trainer->sum, trainer->places[weight].first + range.first, range.count,
                             &piece->place);
}

compute_status train_shards_create(compute_trainer *trainer) {
  if (!trainer->divides) return COMPUTE_OK;
  const train_replica *replica = &trainer->replicas[0];
  trainer->pieces = base_allocate(trainer->weight_count, sizeof *trainer->pieces);
  if (!trainer->pieces)
    return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for pieces of %zu weights", trainer->weight_count);
  compute_status status = check_ranks(trainer);
  for (size_t w = 0; !status && w < trainer->weight_count; w++)
    status = add_piece(trainer, w, replica->tensors[trainer->places[w].tensor]);
  if (!status)
    status =
        train_tensor(replica->device, trainer->dtype, COMPUTE_SCALAR, 0, &trainer->clip_factor);
  if (!status)
    status = train_tensor(replica->device, COMPUTE_I64, COMPUTE_SCALAR, 0, &trainer->overflows);
  return status;
}

void train_shards_release(compute_trainer *trainer) {
  for (size_t i = 0; i < trainer->piece_count; i++) {
    compute_tensor_release(trainer->pieces[i].own);
    compute_tensor_release(trainer->pieces[i].place);
  }
  base_release(trainer->pieces);
  compute_tensor_release(trainer->clip_factor);
  compute_tensor_release(trainer->overflows);
  train_plan_release(&trainer->measure);
  train_plan_release(&trainer->pack);
  train_plan_release(&trainer->unpack);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

void train_record_pieces(train_record *record) {
  const compute_trainer *trainer = record->trainer;
  compute_graph *graph = record->graph;
  const compute_node sum = train_record_shares(record, 1);
  record->count = trainer->piece_count;
  for (size_t i = 0; i < record->count && graph->status == COMPUTE_OK; i++) {
    const train_piece *piece = &trainer->pieces[i];
    const train_place *place = &trainer->places[piece->weight];
    compute_layer_parameter p;
    if (compute_layer_parameter_at(trainer->options.model, place->tensor, &p)) return;
    record->weights[i] = compute_name(graph, compute_parameter(graph, piece->own), p.name);
    record->gradients[i] =
        compute_slice(graph, sum, 0, place->first + piece->range.first, piece->range.count, 1);
  }
  train_record_scale(record);
}

/* Computes the sum of squares and the number of non-finite elements of this rank's gradients. The
 * update's clip factor and overflow count are computed from them, and stored in the same two
 * tensors. */
static size_t record_measures(train_record *record, compute_node *outputs) {
  compute_graph *graph = record->graph;
  train_record_pieces(record);
  train_record_unscale(record);
  for (size_t i = 0; i < record->count && graph->status == COMPUTE_OK; i++) {
    const compute_node g = record->gradients[i];
    const compute_node wrong =
        compute_cast(graph, compute_logical_not(graph, compute_is_finite(graph, g)), COMPUTE_I64);
    const compute_node sums[] = {
        compute_sum(graph, compute_square(graph, g), COMPUTE_ALL_AXES, false),
        compute_sum(graph, wrong, COMPUTE_ALL_AXES, false)};
    for (int k = 0; k < 2; k++)
      outputs[k] = i == 0 ? sums[k] : compute_add(graph, outputs[k], sums[k]);
  }
  record->nodes.clip_factor = outputs[0];
  record->nodes.overflows = outputs[1];
  return 2;
}

/* Copies the weights of the pieces to their places in the flat vector. */
static size_t record_packing(train_record *record, compute_node *outputs) {
  const compute_trainer *trainer = record->trainer;
  compute_graph *graph = record->graph;
  for (size_t i = 0; i < trainer->piece_count && graph->status == COMPUTE_OK; i++) {
    const train_piece *piece = &trainer->pieces[i];
    const compute_node own = compute_parameter(graph, piece->own);
    record->weights[i] = compute_assign(graph, compute_parameter(graph, piece->place),
                                        compute_cast(graph, own, trainer->dtype));
  }
  outputs[0] = compute_group(graph, record->weights, trainer->piece_count);
  return 1;
}

/* Copies all weights from the flat vector. */
static size_t record_unpacking(train_record *record, compute_node *outputs) {
  const compute_trainer *trainer = record->trainer;
  compute_graph *graph = record->graph;
  train_record_parts(record);
  train_record_localise(record);
  for (size_t i = 0; i < trainer->weight_count && graph->status == COMPUTE_OK; i++) {
    const compute_node w = record->weights[i];
    const compute_node value =
        compute_cast(graph, record->gradients[i], compute_node_dtype(graph, w));
    record->weights[i] = compute_assign(graph, w, value);
  }
  outputs[0] = compute_group(graph, record->weights, trainer->weight_count);
  return 1;
}

/* Records a plan and returns the number of its outputs. */
typedef size_t (*record_function)(train_record *record, compute_node *outputs);

static compute_status create_plan(compute_trainer *trainer, record_function function,
                                  const char *name, train_plan *plan) {
  train_record record;
  compute_node outputs[2] = {{0}};
  compute_status status = train_record_start(&record, trainer, &trainer->replicas[0]);
  if (status) return status;
  const size_t count = function(&record, outputs);
  status = compute_graph_status(record.graph);
  if (!status) status = train_record_compile(&record, outputs, count, name, plan);
  train_record_release(&record);
  return status;
}

/* Returns true if the update depends on the gradients of all ranks. */
static bool measures(const compute_trainer *trainer) {
  return trainer->options.clip_norm > 0 || trainer->replicas[0].scale;
}

compute_status train_shards_compile(compute_trainer *trainer) {
  compute_status status = COMPUTE_OK;
  if (!trainer->divides) return COMPUTE_OK;
  if (measures(trainer))
    status =
        create_plan(trainer, record_measures, "training, gradients measured", &trainer->measure);
  if (!status)
    status = create_plan(trainer, record_packing, "training, weights sent", &trainer->pack);
  if (!status)
    status = create_plan(trainer, record_unpacking, "training, weights received", &trainer->unpack);
  return status;
}

/* ---- The update ------------------------------------------------------------------------------ */

static compute_status run_measure(compute_trainer *trainer, train_outcome *measured) {
  const train_plan *plan = &trainer->measure;
  const compute_binding bindings[] = {{plan->shares[0], trainer->sum},
                                      {plan->clip_factor, trainer->clip_factor},
                                      {plan->overflows, trainer->overflows}};
  compute_status status = compute_run(plan->plan, bindings, 3, NULL);
  if (!status) status = train_read_number(trainer->clip_factor, &measured->loss);
  if (!status) status = train_read_integer(trainer->overflows, &measured->correct);
  return status;
}

compute_status train_shards_measure(compute_trainer *trainer) {
  train_outcome measured = {0};
  double element = 0;
  if (!measures(trainer)) return COMPUTE_OK;
  compute_status status = run_measure(trainer, &measured);
  status = train_group_outcome(trainer, "compute_trainer_step", status, &measured);
  if (status) return status;
  const double share = trainer->options.clip_norm / sqrt(measured.loss); /* infinite for norm 0 */
  dtype_store(trainer->dtype, &element, share > 1 ? 1 : share);
  status = compute_tensor_write(trainer->clip_factor, &element, compute_dtype_size(trainer->dtype));
  if (!status)
    status = compute_tensor_write(trainer->overflows, &measured.correct, sizeof(int64_t));
  return status;
}

compute_status train_shards_gather(compute_trainer *trainer, compute_status status) {
  if (!status) status = compute_run(trainer->pack.plan, NULL, 0, NULL);
  status = train_group_check(trainer, "compute_trainer_step", status);
  if (!status) status = train_buckets_gather(trainer);
  const compute_binding sum = {trainer->unpack.shares[0], trainer->sum};
  return status ? status : compute_run(trainer->unpack.plan, &sum, 1, NULL);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* Returns the number of state tensors of a weight. */
static size_t states_of_weight(const compute_trainer *trainer) {
  return trainer->piece_count > 0 ? trainer->divided_states / trainer->piece_count : 0;
}

size_t train_shards_count(const compute_trainer *trainer) {
  return trainer->weight_count * states_of_weight(trainer);
}

/* Returns state tensor `index` of a piece. */
static const train_state *state_of(const compute_trainer *trainer, size_t piece, size_t index) {
  const size_t first = trainer->state_count - trainer->divided_states;
  return &trainer->states[first + piece * states_of_weight(trainer) + index];
}

/* Writes the prefix of the names of a weight's state tensors. */
static compute_status name_state(const compute_trainer *trainer, size_t weight, char *text,
                                 size_t bytes) {
  compute_layer_parameter p;
  const compute_status status =
      compute_layer_parameter_at(trainer->options.model, trainer->places[weight].tensor, &p);
  if (!status) snprintf(text, bytes, "optimizer.%.200s.", p.name);
  return status;
}

compute_status train_shards_whole(const compute_trainer *trainer, size_t index, char **name,
                                  compute_tensor **whole) {
  const size_t each = states_of_weight(trainer), weight = index / each;
  const train_state *like = state_of(trainer, 0, index % each); /* from the first piece */
  char own[256], prefix[256];
  compute_device *host;
  compute_layer_parameter p;
  text_buffer text = {0};
  compute_status status = name_state(trainer, trainer->pieces[0].weight, prefix, sizeof prefix);
  if (!status) status = name_state(trainer, weight, own, sizeof own);
  if (!status)
    status = compute_layer_parameter_at(trainer->options.model, trainer->places[weight].tensor, &p);
  if (status) return status;
  text_add(&text, "%s%s", own, like->name + strlen(prefix));
  *name = text.data;
  if (text.failed)
    return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for the name of a tensor");
  status = dataset_host(trainer->context, operation, &host);
  return status ? status
                : tensor_create_zero(host, dtype_compute_type(compute_tensor_dtype(p.tensor)),
                                     compute_tensor_shape(p.tensor), whole);
}

/* Returns this rank's state tensor for a weight, or NULL. */
static compute_tensor *find_state(const compute_trainer *trainer, size_t weight, size_t index) {
  for (size_t k = 0; k < trainer->piece_count; k++)
    if (trainer->pieces[k].weight == weight) return state_of(trainer, k, index)->tensor;
  return NULL;
}

/* Copies a part between rank 0 and the rank that owns it. */
static compute_status move_part(const compute_trainer *trainer, int32_t rank, compute_tensor *part,
                                compute_tensor *own, bool spread) {
  compute_process_group *group = trainer->group;
  if (rank == 0 && trainer->rank == 0)
    return spread ? compute_tensor_copy(own, part) : compute_tensor_copy(part, own);
  if (trainer->rank == 0)
    return spread ? compute_group_send(group, part, rank, NULL, NULL)
                  : compute_group_receive(group, part, rank, NULL, NULL);
  return spread ? compute_group_receive(group, own, 0, NULL, NULL)
                : compute_group_send(group, own, 0, NULL, NULL);
}

compute_status train_shards_move(const compute_trainer *trainer, size_t index,
                                 compute_tensor *whole, bool spread) {
  const size_t each = states_of_weight(trainer), weight = index / each;
  compute_tensor *own = find_state(trainer, weight, index % each);
  compute_status status = COMPUTE_OK;
  for (int32_t r = 0; !status && r < trainer->ranks; r++) {
    const piece_range range = range_of(trainer, weight, r);
    compute_tensor *part = NULL;
    if (range.count == 0 || (trainer->rank != 0 && trainer->rank != r)) continue;
    if (trainer->rank == 0) status = train_view(whole, range.first, range.count, &part);
    if (!status) status = move_part(trainer, r, part, own, spread);
    compute_tensor_release(part);
  }
  return status;
}
