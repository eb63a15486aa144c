/* SPDX-License-Identifier: MIT */
/** @file
 * Training: data in shuffled mini-batches, a loss, an optimizer, on one device or on several.
 * @code
 *   compute_trainer *trainer;
 *   compute_trainer_create(context, &(compute_trainer_options){
 *       .model = net, .loss = COMPUTE_LOSS_CROSS_ENTROPY,
 *       .optimizer = {.kind = COMPUTE_ADAM, .learning_rate = 1e-3},
 *       .input = {COMPUTE_F32, COMPUTE_SHAPE(1, 8, 8)}, .target = {COMPUTE_I64, COMPUTE_SCALAR},
 *       .batch = 64}, &trainer);
 *   compute_trainer_run(trainer, data, &(compute_trainer_run_options){.epochs = 30}, NULL);
 *   compute_trainer_evaluate(trainer, held_out, &score);
 * @endcode
 * A step (forward, loss, gradients, update) is one plan. With several devices each has a replica of
 * the model and a share of the batch. Gradients are summed in a fixed order, so a step equals the
 * step of one device on the whole batch up to rounding. Two layers depend on the share: batch norm
 * uses its statistics (the model keeps the first device's), and dropout draws different elements on
 * each device.
 *
 * With a group of processes (`group` of the options) each rank takes a share of the batch in the
 * same way, and its devices divide that share. There, batch norm can use the statistics of the
 * whole batch (COMPUTE_TRAIN_SYNCHRONIZE). Creating, stepping, running, evaluating, saving and
 * loading are then collective calls, which all ranks make alike. A failure on one rank fails all,
 * with its rank in the message. If a device fails in the update itself, the others fail at the next
 * step or at the end of the run's epoch. */
#ifndef COMPUTE_TRAIN_H
#define COMPUTE_TRAIN_H

#include "compute/batch.h"
#include "compute/distributed.h"
#include "compute/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Data ---------------------------------------------------------------------------------- */

/** Pairs of an input and a target, in host memory. */
typedef struct compute_dataset compute_dataset;

/** From tensors [items, ...] on any device, which are copied. Ownership of *dataset passes to the
 * caller. COMPUTE_ERROR_SHAPE if the numbers of items differ. */
COMPUTE_API compute_status compute_dataset_from_tensors(compute_context *context,
                                                        const compute_tensor *inputs,
                                                        const compute_tensor *targets,
                                                        compute_dataset **dataset);
/** From files: .npy, IDX (MNIST's, plain or .gz), by content. u8 images stay u8. */
COMPUTE_API compute_status compute_dataset_from_files(compute_context *context, const char *inputs,
                                                      const char *targets,
                                                      compute_dataset **dataset);
/** From a table (CSV, plain or gzip-compressed): column `target_column` (negative: from the end) is
 * the label, as i64; the others are the input, f32, reshaped to `item`. */
COMPUTE_API compute_status compute_dataset_from_csv(compute_context *context, const char *path,
                                                    int32_t target_column, compute_shape item,
                                                    compute_dataset **dataset);
/** The same for numbers as targets: the columns target_columns[i] (negative: from the end), in this
 * order, are the target, f32 [target_count]; the others are the input, in the file's order.
 * COMPUTE_ERROR_INVALID_ARGUMENT for a column that is outside or named twice. */
COMPUTE_API compute_status compute_dataset_from_csv_numbers(compute_context *context,
                                                            const char *path,
                                                            const int32_t *target_columns,
                                                            size_t target_count, compute_shape item,
                                                            compute_dataset **dataset);
/** Splits off a part: `fraction` of the items, drawn by `seed`, becomes *second, the rest remains.
 * Both share the memory. */
COMPUTE_API compute_status compute_dataset_split(compute_dataset *dataset, double fraction,
                                                 uint64_t seed, compute_dataset **second);
COMPUTE_API void compute_dataset_release(compute_dataset *dataset); /**< NULL is allowed */
COMPUTE_API int64_t compute_dataset_count(const compute_dataset *dataset);

/* ---- Trainer ------------------------------------------------------------------------------- */

typedef struct compute_trainer compute_trainer;

typedef enum compute_loss_kind {
  COMPUTE_LOSS_CROSS_ENTROPY = 0, /**< labels of an integer dtype, one for each item or, of results
                                   * [batch, …, classes], [batch, …]; also gives an accuracy */
  COMPUTE_LOSS_MEAN_SQUARED_ERROR = 1,
  COMPUTE_LOSS_BINARY_CROSS_ENTROPY = 2, /**< logits; also gives an accuracy */
  COMPUTE_LOSS_HUBER = 3
} compute_loss_kind;

typedef enum compute_optimizer_kind {
  COMPUTE_SGD = 0,
  COMPUTE_ADAM = 1,
  COMPUTE_ADAMW = 2,
  COMPUTE_RMSPROP = 3
} compute_optimizer_kind;

/** Numbers must be finite and not negative, also as f32 unless all weights are f64; betas and alpha
 * below 1. */
typedef struct compute_optimizer_options {
  compute_optimizer_kind kind;
  double learning_rate;                /**< 0: 0.01 for SGD and RMSprop, 0.001 for Adam and AdamW */
  double momentum;                     /**< SGD, RMSprop */
  bool nesterov;                       /**< SGD */
  double beta1, beta2, alpha, epsilon; /**< 0: the kind's default */
  double weight_decay;
  uint64_t reserved[4]; /**< must be zero */
} compute_optimizer_options;

typedef enum compute_schedule_kind {
  COMPUTE_SCHEDULE_CONSTANT = 0,
  COMPUTE_SCHEDULE_STEP = 1,  /**< · factor every `period` steps */
  COMPUTE_SCHEDULE_COSINE = 2 /**< down to factor · learning rate over `period` steps */
} compute_schedule_kind;

typedef struct compute_schedule {
  compute_schedule_kind kind;
  int64_t period;  /**< optimizer steps, including warm-up; cosine, 0: until the end of the run */
  double factor;   /**< step: 0: 0.1; cosine: 0 */
  int64_t warm_up; /**< optimizer steps over which the rate grows linearly from 0: the first of them
                    * has 1 / warm_up of it. A cosine schedule starts after them */
  uint64_t reserved[4]; /**< must be zero */
} compute_schedule;

enum {
  COMPUTE_TRAIN_CHECK_NAN = 1 << 0, /**< a loss that is not finite fails the step, naming the first
                                     * operation with such a result; slower */
  /** Gradient checkpointing: a sequential model with n parts keeps about √n results, and computes
   * the others again for the backward pass. Other models ignore it. */
  COMPUTE_TRAIN_RECOMPUTE = 1 << 1,
  /** In a group: batch norm uses the statistics of the whole batch, not of this rank's share. Each
   * rank has one device. Without a group there is nothing to do. */
  COMPUTE_TRAIN_SYNCHRONIZE = 1 << 5,
  /** In a group: gradients leave after the backward pass, also where they could leave during it.
   * For comparisons; it is slower. */
  COMPUTE_TRAIN_NO_OVERLAP = 1 << 8,
  /** In a group: each rank keeps the optimizer's state of a part of the weights and updates them;
   * then all ranks gather the weights (ZeRO stage 1). Where sums are in the order of the ranks (not
   * by NCCL), the result has the same bits as without the flag, except that the norm for clipping
   * gradients is summed in another order. Checkpoints are the same. */
  COMPUTE_TRAIN_DIVIDE_STATE = 1 << 9
};

typedef struct compute_trainer_options {
  compute_layer *model;             /**< must outlive the trainer; its weights are trained */
  compute_batch_port input, target; /**< of one item */
  int64_t batch;                    /**< items of one step over all devices and ranks; ≥ 1 */
  compute_loss_kind loss;
  double label_smoothing, huber_delta; /**< delta 0: 1 */
  compute_optimizer_options optimizer;
  compute_schedule schedule;
  double clip_norm;   /**< maximum global norm of the gradients; 0: no limit */
  int32_t accumulate; /**< batches whose gradients make one optimizer step; 0: 1 */
  /** COMPUTE_F16 or COMPUTE_BF16: activations in this dtype, weights and optimizer in f32. With f16
   * the loss is scaled, and steps whose gradients overflow are skipped (but count for the
   * schedule). 0: the weights' dtype. */
  compute_dtype precision;
  uint64_t seed;                  /**< of dropout and shuffling */
  compute_device *const *devices; /**< NULL and 0: the default device, in a group the one that it
                                   * chose for this rank; one may be listed twice */
  size_t device_count;            /**< at most 16, and no more than items of a batch */
  uint32_t flags;                 /**< COMPUTE_TRAIN_…, COMPUTE_PLAN_ALLOW_… */
  /** Applied to the input before the model: scaling, augmentation. May be NULL. It must return
   * (compute.h). */
  compute_node (*prepare)(void *user, compute_graph *graph, compute_node x, bool training,
                          compute_node seed);
  void *user;
  /** Or NULL. Closed after the trainer is released. All ranks have the same model and options,
   * apart from devices; all take rank 0's weights. */
  compute_process_group *group;
  uint64_t reserved[7]; /**< must be zero */
} compute_trainer_options;

COMPUTE_API compute_status compute_trainer_create(compute_context *context,
                                                  const compute_trainer_options *options,
                                                  compute_trainer **trainer);
COMPUTE_API void compute_trainer_release(compute_trainer *trainer); /**< NULL is allowed */

/** One batch: inputs [batch, ...], targets [batch, ...] on any device; in a group, this rank's
 * share of it (compute_trainer_query). *loss, of the whole batch, may be NULL, which saves a wait.
 * COMPUTE_ERROR_INDEX for a label out of range, _VALIDATION with CHECK_NAN; the weights are then
 * unchanged. */
COMPUTE_API compute_status compute_trainer_step(compute_trainer *trainer,
                                                const compute_tensor *inputs,
                                                const compute_tensor *targets, double *loss);

typedef struct compute_training_score {
  int64_t items;
  double loss;     /**< mean */
  double accuracy; /**< NaN where the loss has none */
  double seconds;
  uint64_t reserved[4];
} compute_training_score;

typedef struct compute_training_progress {
  int64_t epoch, epochs; /**< from 0 */
  int64_t step, steps;   /**< of this epoch */
  double loss;           /**< mean of the epoch so far */
  double learning_rate, items_per_second, seconds_left;
  uint64_t reserved[4];
} compute_training_progress;

typedef struct compute_trainer_run_options {
  int64_t epochs; /**< ≥ 1; after compute_trainer_load, further ones */
  bool in_order;  /**< not shuffled */
  /** false ends the run with COMPUTE_ERROR_CANCELLED; the weights are as the last step left them.
   * It must return (compute.h). */
  bool (*progress)(void *user, const compute_training_progress *progress);
  void *user;
  /** .safetensors or .npz, written after each epoch, by rename; or NULL. It has the weights of the
   * last epoch, also with `keep_best`: compute_trainer_save writes the best ones after the run. */
  const char *checkpoint;
  /** Scored in inference mode after each epoch, or NULL. The epoch with the smallest loss is the
   * best; the first of equal ones. A loss that is NaN is never the best. In a group all ranks have
   * the same set and the same options. */
  const compute_dataset *validation;
  /** With `validation`: ends the run after this many epochs without a smaller loss; 0: never. */
  int64_t patience;
  /** With `validation`: the model gets the weights and statistics of the best epoch at the end, also
   * of a run that is cancelled. The optimizer's state is from the last step. */
  bool keep_best;
  /** The validation score of the best epoch; 0 items and a loss of NaN if there is none. May be
   * NULL. */
  compute_training_score *best;
  uint64_t reserved[4]; /**< must be zero */
} compute_trainer_run_options;

/** Trains for epochs of shuffled batches; an incomplete last batch is dropped. In a group every
 * rank has the whole dataset, and uses its share of each batch. `score` (may be NULL) covers the
 * last epoch, as seen while training. */
COMPUTE_API compute_status compute_trainer_run(compute_trainer *trainer,
                                               const compute_dataset *dataset,
                                               const compute_trainer_run_options *options,
                                               compute_training_score *score);

/** The score in inference mode, over all items. The ranks of a group divide them. */
COMPUTE_API compute_status compute_trainer_evaluate(compute_trainer *trainer,
                                                    const compute_dataset *dataset,
                                                    compute_training_score *score);

/** The model's results for inputs [n, ...] in a new tensor [n, ...] on the first device. */
COMPUTE_API compute_status compute_trainer_predict(compute_trainer *trainer,
                                                   const compute_tensor *inputs,
                                                   compute_tensor **results);

/** A checkpoint: weights, statistics, optimizer state, step and seed, as .safetensors or .npz.
 * Training continues from it bit for bit. The trainer that loads it must have the same model,
 * optimizer, accumulation and precision; otherwise COMPUTE_ERROR_INVALID_ARGUMENT, _SHAPE or _DTYPE
 * names a tensor, and nothing has changed. In a group rank 0 writes, and reads for all; the number
 * of ranks may differ. */
COMPUTE_API compute_status compute_trainer_save(compute_trainer *trainer, const char *path);
COMPUTE_API compute_status compute_trainer_load(compute_trainer *trainer, const char *path);

typedef struct compute_trainer_info {
  int64_t steps; /**< optimizer steps taken */
  double learning_rate, loss_scale;
  uint64_t peak_bytes; /**< planned for a step on the first device: weights, gradients, state,
                        * activations, temporaries */
  uint64_t activation_bytes;
  int64_t share_first, share_items; /**< of each batch, for this process: all without a group */
  uint64_t reserved[6];
} compute_trainer_info;

COMPUTE_API compute_status compute_trainer_query(const compute_trainer *trainer,
                                                 compute_trainer_info *info);

#ifdef __cplusplus
}
#endif
#endif
