/* SPDX-License-Identifier: MIT */
/* Internals of a trainer.
 *
 * On one device a batch is one plan: forward, loss, gradients and update. On several, each replica
 * has a plan from its share of the batch to a flat vector of gradients, and the first device one
 * that sums these in the replicas' order and updates. In a group of processes the sum over this
 * process's replicas is reduced over the ranks before the update. Plans are recorded by step.c and
 * update.c, run by step_run.c. The ranks may divide the optimizer's state: shards.c.
 *
 * The state that plans change is in tensors: the model's, the optimizer's, sums of gradients, the
 * loss scale. All of them are listed, by name, for checkpoints. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "compute/call.h"
#include "compute/train.h"

#define TRAIN_MOST_DEVICES 16
#define TRAIN_SLOTS        4 /* batches in progress on an asynchronous device */

/* A plan with the nodes that its runs bind; {0} where it has none. */
typedef struct train_plan {
  compute_plan *plan;
  compute_node x, target, seed, rate, loss, correct, result;
  compute_node clip_factor, overflows; /* of shards.c */
  compute_node *shares; /* of a sum of several vectors of gradients: one input each */
  int64_t items;
} train_plan;

/* The tensors of one batch of a replica. */
typedef struct train_slot {
  compute_tensor *x, *target; /* made when first needed */
  compute_tensor *seed, *rate, *loss, *correct;
  double rate_written;
  compute_event *event; /* of the current run; or NULL */
  bool pending;         /* submitted, and not waited for */
  bool updates;         /* ends in an update */
} train_slot;

typedef struct train_replica {
  compute_device *device;
  compute_queue *queue;
  bool host;                /* computes on the calling thread, synchronously */
  int64_t first, items;     /* its part of this process's share of each batch */
  compute_tensor **tensors; /* the model's parameters and statistics, or copies of them */
  compute_tensor *scale;    /* of the loss, for f16 */
  compute_tensor *flat;     /* gradients, if they work together */
  train_plan gradients;     /* likewise */
  compute_tensor *share[2]; /* of the batch under way: views */
  train_slot slots[TRAIN_SLOTS];
} train_replica;

typedef struct train_state {
  char *name; /* owned */
  compute_tensor *tensor;
} train_state;

#define TRAIN_INFERENCES 4

/* A part of the gradients that the ranks of a group reduce together: buckets.c. */
typedef struct train_bucket train_bucket;

/* What of a weight this rank updates: shards.c. */
typedef struct train_piece train_piece;

/* Where a weight's elements are in a flat vector of gradients. */
typedef struct train_place {
  size_t tensor; /* the weight's number among the model's tensors */
  size_t bucket;
  int64_t first, count;
} train_place;

/* The outcome of a batch. */
typedef struct train_outcome {
  double loss;
  int64_t correct;
} train_outcome;

struct compute_trainer {
  compute_context *context;
  compute_trainer_options options;   /* completed; the pointers into the caller's memory are gone */
  size_t tensor_count, weight_count; /* of the model; those that are trained */
  int64_t weight_elements, flat_elements; /* of all weights; of a flat vector of gradients */
  train_place *places;                    /* of weight_count, of those that work together */
  int64_t classes;                        /* that labels are of; 0: of any number */
  compute_dtype dtype; /* of the loss, of gradients between devices, of the learning rate */
  train_replica *replicas;
  size_t replica_count;
  compute_process_group *group; /* NULL: this process alone */
  int32_t rank, ranks;
  int64_t first, items;  /* this process's share of each batch */
  bool together;         /* gradients are summed over several replicas or ranks */
  train_plan local;      /* of a group: the sum over several replicas, in `sum` */
  compute_tensor *sum;   /* of a group: the gradients, of this process and then of all */
  train_bucket *buckets; /* of a group */
  bool overlaps;         /* buckets are reduced while the backward pass continues */
  bool divides;          /* each rank has a part of the optimizer's state */
  bool reduces;          /* the batch under way ends in an update: its gradients are reduced */
  size_t bucket_count, buckets_begun;
  train_piece *pieces; /* those of this rank, if the ranks divide the optimizer's state */
  size_t piece_count;
  train_plan measure, pack, unpack;        /* likewise */
  compute_tensor *clip_factor, *overflows; /* of all ranks' gradients, for the update */
  bool synchronizes;                       /* batch norm uses the statistics of the group's batch */
  compute_status pending; /* of a group: what failed here since the last batch; for all to know */
  train_plan add, update; /* a batch whose gradients are kept, and one with an update */
  /* Of gradients, of weight_count, for batches before an update; of this process alone, as they
   * are reduced with those of the update's batch. NULL without accumulation. */
  compute_tensor **sums;
  train_state *states;
  size_t state_count, state_capacity;
  size_t divided_states; /* how many at the end of the list are of pieces */
  train_plan inferences[TRAIN_INFERENCES];
  size_t inference_next;
  compute_tensor *steady, *skipped; /* for f16: updates since the scale changed; left out */
  int64_t updates;                  /* tried: what the schedule counts */
  int64_t batches;                  /* in all */
  int64_t epochs;                   /* begun in all; what shuffling counts */
  int64_t schedule_end; /* of a cosine without period: updates at the end of the latest run; or 0 */
  train_outcome outcome; /* of the last batch of several replicas */
};

/* ---- trainer.c: checks --------------------------------------------------------------------- */

/* Checks the options and fills in defaults. */
compute_status train_check_options(compute_context *context, compute_trainer_options *options);

/* ---- trainer.c: schedules ------------------------------------------------------------------ */

/* The learning rate of update number `update`, from 0. `period` stands for a period of 0. */
double train_rate(const compute_schedule *schedule, double rate, int64_t update, int64_t period);

/* ---- tensors.c ----------------------------------------------------------------------------- */

/* The model's tensor at an index of a replica's. */
compute_tensor *train_model_tensor(const compute_trainer *trainer, size_t index);

/* A tensor of zeros (or `value`) outside all memory scopes. */
compute_status train_tensor(compute_device *device, compute_dtype dtype, compute_shape shape,
                            double value, compute_tensor **tensor);

/* A dense tensor's elements from number `first` on, in their order, outside all memory scopes. */
compute_status train_view(compute_tensor *tensor, int64_t first, int64_t count,
                          compute_tensor **view);

/* Lists a tensor for checkpoints; it is retained. */
compute_status train_keep(compute_trainer *trainer, const char *prefix, const char *name,
                          compute_tensor *tensor);

compute_status train_read_number(const compute_tensor *tensor, double *value);
compute_status train_read_integer(const compute_tensor *tensor, int64_t *value);

/* ---- replicas.c ---------------------------------------------------------------------------- */

compute_status train_replicas_create(compute_trainer *trainer, compute_device *const *devices);
void train_replicas_release(compute_trainer *trainer);

/* Copies the model's tensors to the replicas that have copies, and the first one's copies back. */
compute_status train_spread(const compute_trainer *trainer);
compute_status train_collect(const compute_trainer *trainer);

/* ---- record.c ------------------------------------------------------------------------------ */

/* Nodes of the forward pass, except `result`, that are not kept for the backward pass. */
typedef struct train_segment {
  uint32_t begin, end, result;
} train_segment;

/* A graph under construction. */
typedef struct train_record {
  compute_trainer *trainer;
  const train_replica *replica;
  compute_graph *graph;
  train_plan nodes;                  /* without a plan as yet */
  compute_node *weights, *gradients; /* room for weight_count each */
  size_t count;                      /* of both */
  compute_node statistics;           /* a group, or {0} */
  compute_node scale;
  compute_node labelled;   /* whether all labels are classes; {0} where the loss has none, or the
                              device says so before it goes on */
  size_t forward_end;      /* nodes that the loss is made of */
  train_segment *segments; /* or NULL */
  size_t segment_count;
  bool apart; /* this process alone, whatever the trainer's group */
} train_record;

/* Builder errors stay in the graph. */
compute_status train_record_start(train_record *record, compute_trainer *trainer,
                                  const train_replica *replica);
void train_record_release(train_record *record);

/* Inputs for so many flat vectors; their sum, in this order. */
compute_node train_record_shares(train_record *record, size_t count);

/* All weights, and their gradients as parts of the sum over all that work together. */
void train_record_parts(train_record *record);

/* The loss scale, if there is one. */
void train_record_scale(train_record *record);

/* Replaces the model's tensors by the replica's. */
void train_record_localise(train_record *record);

/* Compiles `outputs` and stores the plan with the record's nodes in *plan. */
compute_status train_record_compile(train_record *record, const compute_node *outputs, size_t count,
                                    const char *name, train_plan *plan);
void train_plan_release(train_plan *plan);

/* ---- step.c -------------------------------------------------------------------------------- */

/* The forward pass for `items` items: result, and with `targets` loss and correct. */
void train_record_forward(train_record *record, int64_t items, bool training, bool targets);

/* All plans of training. */
compute_status train_plans_create(compute_trainer *trainer);

/* A plan for inference of `items` items; it belongs to the trainer. */
compute_status train_inference(compute_trainer *trainer, int64_t items, bool targets,
                               const train_plan **plan);

/* ---- recompute.c --------------------------------------------------------------------------- */

/* Applies the model, with COMPUTE_TRAIN_RECOMPUTE in segments. */
compute_node train_record_model(train_record *record, compute_node x, compute_forward *forward);

/* After gradients have been recorded: makes them use duplicates of the segments' nodes. */
void train_record_recompute(train_record *record);

/* ---- update.c: from gradients to new weights ----------------------------------------------- */

/* Adds the sums of earlier batches to the record's gradients. */
void train_record_earlier(train_record *record);

/* Divides the record's gradients by the loss scale, if there is one. */
void train_record_unscale(train_record *record);

/* Records the use of the record's gradients: accumulation, or with `update` the update. The result
 * is a group. `ok`: {0}, or a bool without which nothing changes. */
compute_node train_record_tail(train_record *record, bool update, compute_node ok);

/* a and b, either of which may be {0}: true. */
compute_node train_both(compute_graph *graph, compute_node a, compute_node b);

/* Replaces the assignments of a group (which may be {0}) by ones that change nothing unless `ok`.
 */
compute_node train_guard(compute_graph *graph, compute_node group, compute_node ok);

/* ---- step_run.c ---------------------------------------------------------------------------- */

/* Submits one batch, [batch, …] each, as number `slot`, which must be free. With several replicas
 * it is done on return. */
compute_status train_submit(compute_trainer *trainer, size_t slot, compute_tensor *inputs,
                            compute_tensor *targets);
/* Waits for it. With nothing in progress the outcome is zeros. `inputs` and `targets` are those of
 * the submission, for error messages. */
compute_status train_finish(compute_trainer *trainer, size_t slot, compute_tensor *inputs,
                            compute_tensor *targets, train_outcome *outcome);
/* Waits for everything in progress. */
compute_status train_drain(compute_trainer *trainer);

/* The number of vectors of gradients that the update adds. */
static inline size_t train_shares(const compute_trainer *trainer) {
  return trainer->group ? 1 : trainer->replica_count;
}

/* The number of batches that may be in progress: 1 if more would not help. */
size_t train_depth(const compute_trainer *trainer);
/* Whether the first replica has copies that must go back to the model. */
bool train_has_copies(const compute_trainer *trainer);

/* A slot's own tensors for a whole batch: on the device that works, or on the host for several. */
compute_status train_slot_tensors(compute_trainer *trainer, size_t slot);

/* ---- evaluate.c, checkpoint.c -------------------------------------------------------------- */

/* The fraction of correct answers; NaN for losses without any. */
double train_accuracy(const compute_trainer *trainer, int64_t correct, double items);

/* Whether a checkpoint can have this name. */
compute_status train_check_path(const compute_trainer *trainer, const char *operation,
                                const char *path);

/* ---- group.c: what is different in a group of processes -------------------------------------- */

/* Sets the trainer's share of each batch. */
compute_status train_group_open(compute_trainer *trainer);

/* Whether all ranks have succeeded; without a group the status itself. */
compute_status train_group_check(const compute_trainer *trainer, const char *operation,
                                 compute_status status);

/* Whether all ranks have the same model and options, and the same data and run. */
compute_status train_group_agree(const compute_trainer *trainer);
compute_status train_group_agree_run(const compute_trainer *trainer, const compute_dataset *dataset,
                                     const compute_trainer_run_options *options);

/* Rank 0's tensors of the model become everyone's: all of them, or only the statistics. */
compute_status train_group_spread(const compute_trainer *trainer, bool statistics);

/* Of batches before an update: rank 0 takes the sums of all ranks, as a checkpoint has one sum. And
 * the others give up theirs, when it has read one. */
compute_status train_group_collect_sums(compute_trainer *trainer);
compute_status train_group_clear_sums(compute_trainer *trainer);

/* The ranks' outcomes become their sum, if no rank has failed. */
compute_status train_group_outcome(const compute_trainer *trainer, const char *operation,
                                   compute_status status, train_outcome *outcome);

/* ---- buckets.c: gradients that are reduced while the backward pass continues -------------------
 */

/* Finds the places of the weights in a flat vector. */
compute_status train_buckets_divide(compute_trainer *trainer);

/* Afterwards, with trainer->sum. */
compute_status train_buckets_create(compute_trainer *trainer);
void train_buckets_release(compute_trainer *trainer);

/* Calls that begin to reduce the record's gradients; a group. */
compute_node train_record_buckets(train_record *record);

/* Begins the buckets that a step has not come to, and waits for all. */
void train_buckets_begin_rest(compute_trainer *trainer);
compute_status train_buckets_wait(compute_trainer *trainer);

/* The block of a bucket that belongs to a rank, as elements of trainer->sum. */
void train_bucket_block(const compute_trainer *trainer, size_t bucket, int32_t rank, int64_t *first,
                        int64_t *count);

/* Gives all ranks every block of trainer->sum. */
compute_status train_buckets_gather(compute_trainer *trainer);

/* ---- shards.c: the optimizer's state divided over the ranks; nothing if it is not -------------
 */

compute_status train_shards_create(compute_trainer *trainer);
compute_status train_shards_compile(compute_trainer *trainer);
void train_shards_release(compute_trainer *trainer);

/* This rank's pieces of the weights and of their gradients' sum. */
void train_record_pieces(train_record *record);

/* Collective, around an update. First, what it must know of all ranks' gradients; then, if it has
 * succeeded everywhere, all weights for all. */
compute_status train_shards_measure(compute_trainer *trainer);
compute_status train_shards_gather(compute_trainer *trainer, compute_status status);

/* Divided state as whole tensors, for checkpoints. The names and tensors belong to the caller. */
size_t train_shards_count(const compute_trainer *trainer);
compute_status train_shards_whole(const compute_trainer *trainer, size_t index, char **name,
                                  compute_tensor **whole);

/* Collective: the ranks' parts to rank 0's whole tensor, or with `spread` from it. NULL on the
 * others. */
compute_status train_shards_move(const compute_trainer *trainer, size_t index,
                                 compute_tensor *whole, bool spread);

/* ---- find_nan.c ---------------------------------------------------------------------------- */

/* Finds the operation that made the loss of this share of a batch non-finite. Always returns an
 * error. */
compute_status train_find_nan(compute_trainer *trainer, const train_replica *replica,
                              const train_slot *slot, compute_tensor *inputs,
                              compute_tensor *targets, double loss);

#endif
