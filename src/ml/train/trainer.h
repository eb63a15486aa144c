/* SPDX-License-Identifier: MIT */
/* Internals of a trainer.
 *
 * On one device, a batch is one plan: forward pass, loss, gradients and update. On several devices,
 * each replica has a plan that computes a flat vector of gradients from its share of the batch. The
 * first device has a plan that sums these vectors in the order of the replicas and updates the
 * weights. In a group of processes, the sum over this process's replicas is reduced over the ranks
 * before the update. step.c and update.c record the plans; step_run.c runs them. The ranks may
 * divide the optimizer's state: see shards.c.
 *
 * Plans change only tensors: the model's and the optimizer's tensors, sums of gradients, and the
 * loss scale. All of them are listed by name for checkpoints. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "compute/call.h"
#include "compute/train.h"

#define TRAIN_MOST_DEVICES 16
#define TRAIN_SLOTS        4 /* batches in progress on an asynchronous device */

/* A plan and the nodes that its runs bind. A node is {0} if the plan does not have it. */
typedef struct train_plan {
  compute_plan *plan;
  compute_node x, target, seed, rate, loss, correct, result;
  compute_node clip_factor, overflows; /* inputs of a plan in shards.c */
  compute_node *shares;                /* inputs of a sum: one per vector of gradients */
  int64_t items;
} train_plan;

/* The tensors of one batch of a replica. */
typedef struct train_slot {
  compute_tensor *x, *target; /* created on first use */
  compute_tensor *seed, *rate, *loss, *correct;
  double rate_written;
  compute_event *event; /* the event of the current run; or NULL */
  bool pending;         /* submitted and not yet waited for */
  bool updates;         /* ends in an update */
} train_slot;

typedef struct train_replica {
  compute_device *device;
  compute_queue *queue;
  bool host;                /* computes on the calling thread, synchronously */
  int64_t first, items;     /* its part of this process's share of each batch */
  compute_tensor **tensors; /* the model's parameters and statistics, or copies of them */
  compute_tensor *scale;    /* the loss scale, for f16 */
  compute_tensor *flat;     /* gradients, if several replicas or ranks work together */
  train_plan gradients;     /* likewise */
  compute_tensor *share[2]; /* views of the current batch */
  train_slot slots[TRAIN_SLOTS];
} train_replica;

typedef struct train_state {
  char *name; /* owned */
  compute_tensor *tensor;
} train_state;

#define TRAIN_INFERENCES 4

/* A part of the gradients that the ranks of a group reduce together: buckets.c. */
typedef struct train_bucket train_bucket;

/* The piece of a weight that this rank updates: shards.c. */
typedef struct train_piece train_piece;

/* The location of a weight's elements in a flat vector of gradients. */
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
  compute_trainer_options options;   /* defaults filled in; no pointers into the caller's memory */
  size_t tensor_count, weight_count; /* the model's tensors; the trained ones */
  int64_t weight_elements, flat_elements; /* elements of all weights; of a flat gradient vector */
  train_place *places;                    /* weight_count places, if `together` */
  int64_t classes;                        /* number of classes of the labels; 0: no classes */
  compute_dtype dtype; /* of the loss, of gradients between devices, and of the learning rate */
  train_replica *replicas;
  size_t replica_count;
  compute_process_group *group; /* NULL: this process alone */
  int32_t rank, ranks;
  int64_t first, items;  /* this process's share of each batch */
  bool together;         /* gradients are summed over several replicas or ranks */
  train_plan local;      /* group only: the sum over several replicas, in `sum` */
  compute_tensor *sum;   /* group only: the gradients of this process, then of all */
  train_bucket *buckets; /* group only */
  bool overlaps;         /* buckets are reduced while the backward pass continues */
  bool divides;          /* each rank has a part of the optimizer's state */
  bool reduces;          /* the current batch ends in an update, so its gradients are reduced */
  size_t bucket_count, buckets_begun;
  train_piece *pieces; /* the pieces of this rank, if it divides the optimizer's state */
  size_t piece_count;
  train_plan measure, pack, unpack;        /* likewise */
  compute_tensor *clip_factor, *overflows; /* over the gradients of all ranks, for the update */
  bool synchronizes;                       /* batch norm uses the statistics of the group's batch */
  compute_status pending; /* group only: an unreported error, for the next batch to report */
  train_plan add, update; /* plans for a batch that only accumulates, and for one with an update */
  /* weight_count sums of gradients over the batches before an update; NULL without accumulation.
   * They are local to this process: the reduction of the last batch includes them. */
  compute_tensor **sums;
  train_state *states;
  size_t state_count, state_capacity;
  size_t divided_states; /* number of states of pieces, at the end of the list */
  train_plan inferences[TRAIN_INFERENCES];
  size_t inference_next;
  compute_tensor *steady, *skipped; /* f16 only: updates since the scale changed; skipped updates */
  int64_t updates;                  /* attempted updates; the schedule counts them */
  int64_t batches;                  /* total */
  int64_t epochs;                   /* total begun; the shuffle uses it */
  int64_t schedule_end;  /* for a cosine without period: updates at the end of the last run; or 0 */
  train_outcome outcome; /* outcome of the last batch, if `together` */
  void *rank_outcomes;   /* group only: room for an outcome of each rank */
};

/* ---- trainer.c: checks --------------------------------------------------------------------- */

/* Checks the options and fills in defaults. */
compute_status train_check_options(compute_context *context, compute_trainer_options *options);

/* ---- trainer.c: schedules ------------------------------------------------------------------ */

/* Returns the learning rate of update number `update`, from 0. `period` replaces a schedule's
 * period of 0. */
double train_rate(const compute_schedule *schedule, double rate, int64_t update, int64_t period);

/* ---- tensors.c ----------------------------------------------------------------------------- */

/* Returns the model's tensor at the index of a replica's tensor. */
compute_tensor *train_model_tensor(const compute_trainer *trainer, size_t index);

/* Creates a tensor of zeros (or `value`) outside all memory scopes. */
compute_status train_tensor(compute_device *device, compute_dtype dtype, compute_shape shape,
                            double value, compute_tensor **tensor);

/* Creates a view of a dense tensor's elements from number `first` on, in their order, outside all
 * memory scopes. */
compute_status train_view(compute_tensor *tensor, int64_t first, int64_t count,
                          compute_tensor **view);

/* Lists a tensor for checkpoints and retains it. */
compute_status train_keep(compute_trainer *trainer, const char *prefix, const char *name,
                          compute_tensor *tensor);

compute_status train_read_number(const compute_tensor *tensor, double *value);
compute_status train_read_integer(const compute_tensor *tensor, int64_t *value);

/* ---- replicas.c ---------------------------------------------------------------------------- */

compute_status train_replicas_create(compute_trainer *trainer, compute_device *const *devices);
void train_replicas_release(compute_trainer *trainer);

/* train_spread copies the model's tensors to the replicas that have copies. train_collect copies
 * the first replica's copies back. */
compute_status train_spread(const compute_trainer *trainer);
compute_status train_collect(const compute_trainer *trainer);

/* ---- record.c ------------------------------------------------------------------------------ */

/* A graph under construction. */
typedef struct train_record {
  compute_trainer *trainer;
  const train_replica *replica;
  compute_graph *graph;
  train_plan nodes;                  /* no plan until the record is compiled */
  compute_node *weights, *gradients; /* room for weight_count each */
  size_t count;                      /* length of both arrays */
  compute_node statistics;           /* a group, or {0} */
  compute_node scale;
  compute_node labelled; /* bool: all labels are classes. {0} if the loss has no labels, or if
                            * the device itself reports a bad label before it continues */
  size_t forward_end;    /* number of nodes of the forward pass and loss */
  bool apart;            /* local to this process, even in a group */
} train_record;

/* Starts and releases a record. Builder errors stay in the graph. */
compute_status train_record_start(train_record *record, compute_trainer *trainer,
                                  const train_replica *replica);
void train_record_release(train_record *record);

/* Creates inputs for this many flat vectors, and returns their sum in this order. */
compute_node train_record_shares(train_record *record, size_t count);

/* Sets all weights, and their gradients as parts of the sum over all replicas or ranks. */
void train_record_parts(train_record *record);

/* Sets the loss scale, if there is one. */
void train_record_scale(train_record *record);

/* Replaces the model's tensors by the replica's tensors. */
void train_record_localise(train_record *record);

/* Compiles `outputs` and stores the plan with the record's nodes in *plan. */
compute_status train_record_compile(train_record *record, const compute_node *outputs, size_t count,
                                    const char *name, train_plan *plan);
void train_plan_release(train_plan *plan);

/* ---- step.c -------------------------------------------------------------------------------- */

/* Records the forward pass for `items` items: the result; with `targets` also loss and correct. */
void train_record_forward(train_record *record, int64_t items, bool training, bool targets);

/* Creates all plans of training. */
compute_status train_plans_create(compute_trainer *trainer);

/* Returns a plan for inference with `items` items. The trainer owns it. */
compute_status train_inference(compute_trainer *trainer, int64_t items, bool targets,
                               const train_plan **plan);

/* ---- recompute.c --------------------------------------------------------------------------- */

/* Applies the model. With COMPUTE_TRAIN_RECOMPUTE it is divided into segments. */
compute_node train_record_model(train_record *record, compute_node x, compute_forward *forward);

/* ---- best.c: the best epoch by a validation set ---------------------------------------------- */

typedef struct train_best {
  int64_t epoch; /* −1: none yet */
  double loss;
  void **weights; /* per parameter of the model, for keep_best; or NULL */
} train_best;

/* Starts a run: no epoch is the best yet, also in the caller's score. */
void train_best_open(train_best *best, const compute_trainer_run_options *o);

compute_status train_best_check(const compute_trainer *trainer, const char *operation,
                                const compute_trainer_run_options *o);

/* Scores the model, whose weights train_collect has collected. *improves is false if the run's
 * patience has ended. Collective. */
compute_status train_best_score(train_best *best, compute_trainer *trainer,
                                const compute_trainer_run_options *o, int64_t epoch,
                                bool *improves);

/* Gives the model the weights of the best epoch, if the options ask for it. */
compute_status train_best_restore(const train_best *best, compute_trainer *trainer,
                                  const compute_trainer_run_options *o);
void train_best_release(train_best *best, const compute_trainer *trainer);

/* ---- update.c: from gradients to new weights ----------------------------------------------- */

/* Adds the sums of earlier batches to the record's gradients. */
void train_record_earlier(train_record *record);

/* Divides the record's gradients by the loss scale, if there is one. */
void train_record_unscale(train_record *record);

/* Records the use of the record's gradients: accumulation, or the update if `update` is set. The
 * result is a group. `ok` is {0}, or a bool: if it is false at run time, nothing changes. */
compute_node train_record_tail(train_record *record, bool update, compute_node ok);

/* Returns a and b. Either may be {0}, which means true. */
compute_node train_both(compute_graph *graph, compute_node a, compute_node b);

/* Makes the assignments of a group (which may be {0}) conditional: if `ok` is false, nothing
 * changes. */
compute_node train_guard(compute_graph *graph, compute_node group, compute_node ok);

/* ---- step_run.c ---------------------------------------------------------------------------- */

/* Submits one batch, [batch, …] each, to the free slot number `slot`. With several replicas it is
 * finished on return. */
compute_status train_submit(compute_trainer *trainer, size_t slot, compute_tensor *inputs,
                            compute_tensor *targets);
/* Waits for the batch in the slot. If nothing is in progress, the outcome is zero. `inputs` and
 * `targets` are the submitted tensors, for error messages. */
compute_status train_finish(compute_trainer *trainer, size_t slot, compute_tensor *inputs,
                            compute_tensor *targets, train_outcome *outcome);
/* Waits for everything in progress. */
compute_status train_drain(compute_trainer *trainer);

/* Returns the number of gradient vectors that the update adds. */
static inline size_t train_shares(const compute_trainer *trainer) {
  return trainer->group ? 1 : trainer->replica_count;
}

/* Returns the maximum number of batches in progress: 1 if more would not help. */
size_t train_depth(const compute_trainer *trainer);
/* Returns true if the first replica has copies that must go back to the model. */
bool train_has_copies(const compute_trainer *trainer);

/* Creates a slot's own tensors for a whole batch: on the device, or on the host for several
 * devices. */
compute_status train_slot_tensors(compute_trainer *trainer, size_t slot);

/* ---- evaluate.c, checkpoint.c -------------------------------------------------------------- */

/* Returns the fraction of correct answers; NaN for losses without answers. */
double train_accuracy(const compute_trainer *trainer, int64_t correct, double items);

/* Checks that a checkpoint can have this name. */
compute_status train_check_path(const compute_trainer *trainer, const char *operation,
                                const char *path);

/* ---- group.c: training in a group of processes ----------------------------------------------- */

/* Sets the trainer's share of each batch. */
compute_status train_group_open(compute_trainer *trainer);

/* Returns an error if any rank has failed. Without a group it returns `status`. */
compute_status train_group_check(const compute_trainer *trainer, const char *operation,
                                 compute_status status);

/* Checks that all ranks have the same model and options; for a run also the same data. */
compute_status train_group_agree(const compute_trainer *trainer);
compute_status train_group_agree_run(const compute_trainer *trainer, const compute_dataset *dataset,
                                     const compute_trainer_run_options *options);

/* Copies rank 0's model tensors to all ranks: all tensors, or only the statistics. */
compute_status train_group_spread(const compute_trainer *trainer, bool statistics);

/* Sums of gradients before an update, for checkpoints. A checkpoint has one sum, so rank 0 collects
 * the sums of all ranks. When rank 0 has read a checkpoint, the other ranks clear their sums. */
compute_status train_group_collect_sums(compute_trainer *trainer);
compute_status train_group_clear_sums(compute_trainer *trainer);

/* Adds up the outcomes of the ranks, if no rank has failed. */
compute_status train_group_outcome(const compute_trainer *trainer, const char *operation,
                                   compute_status status, train_outcome *outcome);

/* ---- buckets.c: gradients that are reduced while the backward pass continues ----------------- */

/* Finds the places of the weights in a flat gradient vector. */
compute_status train_buckets_divide(compute_trainer *trainer);

/* Creates the views; needs trainer->sum. train_buckets_divide comes first. */
compute_status train_buckets_create(compute_trainer *trainer);
void train_buckets_release(compute_trainer *trainer);

/* Records the calls that begin to reduce the record's gradients; returns a group. */
compute_node train_record_buckets(train_record *record);

/* train_buckets_begin_rest begins the buckets that a step has not begun. train_buckets_wait waits
 * for all. */
void train_buckets_begin_rest(compute_trainer *trainer);
compute_status train_buckets_wait(compute_trainer *trainer);

/* Returns the block of a bucket that belongs to a rank, as a range of trainer->sum. */
void train_bucket_block(const compute_trainer *trainer, size_t bucket, int32_t rank, int64_t *first,
                        int64_t *count);

/* Gathers every block of trainer->sum on all ranks. */
compute_status train_buckets_gather(compute_trainer *trainer);

/* ---- shards.c: the optimizer's state divided over the ranks; nothing if it is not ------------ */

compute_status train_shards_create(compute_trainer *trainer);
compute_status train_shards_compile(compute_trainer *trainer);
void train_shards_release(compute_trainer *trainer);

/* Records this rank's pieces of the weights and of the gradients' sum. */
void train_record_pieces(train_record *record);

/* Collective calls around an update. train_shards_measure computes the values that the update needs
 * from the gradients of all ranks. train_shards_gather sends all weights to all ranks if the update
 * has succeeded everywhere. */
compute_status train_shards_measure(compute_trainer *trainer);
compute_status train_shards_gather(compute_trainer *trainer, compute_status status);

/* Divided state as whole tensors, for checkpoints. The caller owns the names and tensors. */
size_t train_shards_count(const compute_trainer *trainer);
compute_status train_shards_whole(const compute_trainer *trainer, size_t index, char **name,
                                  compute_tensor **whole);

/* Collective: copies the ranks' parts to rank 0's whole tensor, or back if `spread` is set. `whole`
 * is NULL on the other ranks. */
compute_status train_shards_move(const compute_trainer *trainer, size_t index,
                                 compute_tensor *whole, bool spread);

/* ---- find_nan.c ---------------------------------------------------------------------------- */

/* Finds the operation that made the loss of this share non-finite. Always returns an error. */
compute_status train_find_nan(compute_trainer *trainer, const train_replica *replica,
                              const train_slot *slot, compute_tensor *inputs,
                              compute_tensor *targets, double loss);

#endif
