/* SPDX-License-Identifier: MIT */
/* Trainer objects: creation, queries and release. Also the checks of their options, and the
 * learning rate. */
#include "ml/train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

static const char operation_create[] = "compute_trainer_create";

static object_kind trainer_object = {.name = "trainer", .plural = "trainers"};

/* ---- Making -------------------------------------------------------------------------------- */

static void count_weights(compute_trainer *trainer) {
  trainer->tensor_count = compute_layer_parameter_count(trainer->options.model);
  trainer->weight_elements = compute_layer_element_count(trainer->options.model, true);
  trainer->dtype = COMPUTE_F32;
  for (size_t i = 0; i < trainer->tensor_count; i++) {
    compute_layer_parameter p;
    if (compute_layer_parameter_at(trainer->options.model, i, &p) || !p.trainable) continue;
    trainer->weight_count++;
    if (compute_tensor_dtype(p.tensor) == COMPUTE_F64) trainer->dtype = COMPUTE_F64;
  }
}

/* Creates the sums that accumulate gradients until an update. They are on the first device, in a
 * dtype that is wide enough for sums. */
static compute_status create_sums(compute_trainer *trainer) {
  trainer->sums = base_allocate(trainer->weight_count, sizeof *trainer->sums);
  if (!trainer->sums)
    return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_create,
                     "not enough memory for sums of %zu gradients", trainer->weight_count);
  compute_status status = COMPUTE_OK;
  size_t count = 0;
  for (size_t i = 0; !status && i < trainer->tensor_count; i++) {
    compute_layer_parameter p;
    status = compute_layer_parameter_at(trainer->options.model, i, &p);
    if (status || !p.trainable) continue;
    const compute_dtype dtype = dtype_compute_type(compute_tensor_dtype(p.tensor));
    status = train_tensor(trainer->replicas[0].device, dtype, compute_tensor_shape(p.tensor), 0,
                          &trainer->sums[count]);
    if (!status) status = train_keep(trainer, "gradients.", p.name, trainer->sums[count++]);
  }
  return status;
}

static compute_status create_scale_counters(compute_trainer *trainer) {
  compute_device *device = trainer->replicas[0].device;
  compute_status status = train_tensor(device, COMPUTE_I64, COMPUTE_SCALAR, 0, &trainer->steady);
  if (!status) status = train_tensor(device, COMPUTE_I64, COMPUTE_SCALAR, 0, &trainer->skipped);
  if (!status) status = train_keep(trainer, "loss_scale.", "value", trainer->replicas[0].scale);
  if (!status) status = train_keep(trainer, "loss_scale.", "steady", trainer->steady);
  if (!status) status = train_keep(trainer, "loss_scale.", "skipped", trainer->skipped);
  return status;
}

static compute_status build(compute_trainer *trainer, compute_device *const *devices) {
  compute_status status = train_buckets_divide(trainer);
  if (!status) status = train_replicas_create(trainer, devices);
  if (!status) status = train_buckets_create(trainer);
  if (!status) status = train_shards_create(trainer);
  if (!status && trainer->options.accumulate > 1) status = create_sums(trainer);
  if (!status && trainer->options.precision == COMPUTE_F16) status = create_scale_counters(trainer);
  return status ? status : train_plans_create(trainer);
}

/* Creates the local part of a trainer, before the group exchanges anything. */
static compute_status create(compute_context *context, const compute_trainer_options *options,
                             compute_trainer **trainer) {
  compute_trainer_options o = *options;
  compute_status status = train_check_options(context, &o);
  if (status) return status;
  compute_trainer *made = base_allocate(1, sizeof *made);
  if (!made)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_create,
                     "not enough memory for a trainer");
  compute_device *usual = compute_default_device(context);
  compute_group_info info;
  if (o.group && compute_group_query(o.group, &info) == COMPUTE_OK) usual = info.device;
  compute_device *const *devices = o.device_count > 0 ? o.devices : &usual;
  made->context = context;
  context_object_created(context, &trainer_object, made);
  made->options = o;
  made->options.devices = NULL;
  made->replica_count = o.device_count > 0 ? o.device_count : 1;
  count_weights(made);
  *trainer = made;
  status = train_group_open(made);
  return status ? status : build(made, devices);
}

/* In a group, reports a failure of this process to the others, and gives all ranks the same
 * weights. */
static compute_status join_ranks(compute_process_group *group, compute_trainer *trainer,
                                 compute_status status) {
  status = compute_group_check(group, operation_create, status);
  if (!status) status = train_group_agree(trainer);
  return status ? status : train_group_spread(trainer, false);
}

compute_status compute_trainer_create(compute_context *context,
                                      const compute_trainer_options *options,
                                      compute_trainer **trainer) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  if (trainer) *trainer = NULL;
  if (!context || !options || !trainer)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation_create, "%s is NULL",
                     !context   ? "context"
                     : !options ? "options"
                                : "trainer");
  compute_trainer *made = NULL;
  compute_status status = create(context, options, &made);
  if (options->group) status = join_ranks(options->group, made, status);
  if (status) {
    compute_error error;
    compute_error_get(context, &error);
    compute_trainer_release(made);
    error_restore(context, &error);
    return status;
  }
  *trainer = made;
  return COMPUTE_OK;
}

void compute_trainer_release(compute_trainer *trainer) {
  if (IS_INHERITED(trainer, context)) return;
  if (!trainer) return;
  train_shards_release(trainer);
  train_buckets_release(trainer);
  train_replicas_release(trainer);
  train_plan_release(&trainer->local);
  train_plan_release(&trainer->add);
  train_plan_release(&trainer->update);
  for (size_t i = 0; i < TRAIN_INFERENCES; i++) train_plan_release(&trainer->inferences[i]);
  for (size_t i = 0; trainer->sums && i < trainer->weight_count; i++)
    compute_tensor_release(trainer->sums[i]);
  base_release(trainer->sums);
  base_release(trainer->rank_outcomes);
  for (size_t i = 0; i < trainer->state_count; i++) {
    base_release(trainer->states[i].name);
    compute_tensor_release(trainer->states[i].tensor);
  }
  base_release(trainer->states);
  compute_tensor_release(trainer->steady);
  compute_tensor_release(trainer->skipped);
  context_object_released(trainer->context, &trainer_object);
  base_release(trainer);
}

/* ---- Queries ------------------------------------------------------------------------------- */

/* Adds up the memory of a step on the first device: all persistent tensors, a batch's tensors, and
 * the temporaries of the larger plan. */
static compute_status measure_memory(const compute_trainer *trainer, compute_trainer_info *info) {
  const train_replica *replica = &trainer->replicas[0];
  const bool alone = !trainer->together;
  const train_plan *plan = alone ? &trainer->update : &replica->gradients;
  compute_plan_info p;
  compute_status status = compute_plan_describe(plan->plan, &p);
  if (status) return status;
  info->activation_bytes = p.arena_bytes;
  info->peak_bytes = p.arena_bytes + p.constant_bytes;
  for (size_t i = 0; i < trainer->tensor_count; i++)
    info->peak_bytes += tensor_dense_bytes(replica->tensors[i]);
  for (size_t i = 0; i < trainer->state_count; i++)
    info->peak_bytes += tensor_dense_bytes(trainer->states[i].tensor);
  if (replica->flat) info->peak_bytes += tensor_dense_bytes(replica->flat);
  const compute_batch_port *ports[2] = {&trainer->options.input, &trainer->options.target};
  for (int i = 0; i < 2; i++) {
    int64_t count = 1;
    status = compute_shape_count(ports[i]->item, &count);
    info->peak_bytes +=
        (uint64_t)count * (uint64_t)replica->items * compute_dtype_size(ports[i]->dtype);
  }
  return status;
}

compute_status compute_trainer_query(const compute_trainer *trainer, compute_trainer_info *info) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(trainer, context);
  static const char operation[] = "compute_trainer_query";
  if (!trainer || !info)
    return error_set(trainer ? trainer->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                     "%s is NULL", trainer ? "info" : "trainer");
  *info = (compute_trainer_info){.steps = trainer->updates,
                                 .loss_scale = 1,
                                 .share_first = trainer->first,
                                 .share_items = trainer->items};
  info->learning_rate =
      train_rate(&trainer->options.schedule, trainer->options.optimizer.learning_rate,
                 trainer->updates, trainer->schedule_end);
  compute_status status = COMPUTE_OK;
  if (trainer->skipped) {
    int64_t skipped = 0;
    status = compute_queue_wait(trainer->replicas[0].queue);
    if (!status) status = train_read_integer(trainer->skipped, &skipped);
    if (!status) status = train_read_number(trainer->replicas[0].scale, &info->loss_scale);
    info->steps -= skipped;
  }
  return status ? status : measure_memory(trainer, info);
}

/* ---- The learning rate over time ----------------------------------------------------------- */

/* The learning rate over time. It grows linearly at the beginning (warm-up). Then it is constant,
 * falls in steps, or falls along half a cosine (Loshchilov and Hutter 2017, arXiv 1608.03983,
 * without restarts). */

/* Falls from 1 at the end of the warm-up to `factor` at the end of the period, then stays
 * constant. */
static double cosine(const compute_schedule *schedule, int64_t update, int64_t period) {
  if (period <= 0) return 1;
  const int64_t length = period - schedule->warm_up;
  const int64_t place = update - schedule->warm_up;
  if (place <= 0) return 1;
  if (place >= length) return schedule->factor;
  const double pi = 3.14159265358979323846;
  const double share = (1 + cos(pi * (double)place / (double)length)) / 2;
  return schedule->factor + (1 - schedule->factor) * share;
}

double train_rate(const compute_schedule *schedule, double rate, int64_t update, int64_t period) {
  if (schedule->period > 0) period = schedule->period;
  /* The first update already has a nonzero rate; a rate of 0 would waste it. */
  if (update < schedule->warm_up) rate *= (double)(update + 1) / (double)schedule->warm_up;
  switch (schedule->kind) {
  case COMPUTE_SCHEDULE_CONSTANT: return rate;
  case COMPUTE_SCHEDULE_STEP: return rate * pow(schedule->factor, (double)(update / period));
  case COMPUTE_SCHEDULE_COSINE: return rate * cosine(schedule, update, period);
  }
  return rate;
}

/* ---- Checks -------------------------------------------------------------------------------- */

#define refuse(context, status, ...)                                                               \
  error_set((context), (status), operation_create, "" __VA_ARGS__)

/* The range of an option. The option must also be representable in the dtype of the weights. */
typedef enum allowed { NOT_NEGATIVE, BELOW_ONE, UP_TO_ONE } allowed;

static compute_status check_number(compute_context *context, compute_dtype dtype, const char *name,
                                   double value, allowed range) {
  static const char *const text[] = {[NOT_NEGATIVE] = "finite and not negative",
                                     [BELOW_ONE] = "at least 0 and less than 1",
                                     [UP_TO_ONE] = "in 0 … 1"};
  const bool fits = range == NOT_NEGATIVE ? isfinite(value)
                    : range == BELOW_ONE  ? value < 1
                                          : value <= 1;
  char why[DTYPE_REFUSAL];
  if (!fits || !(value >= 0))
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "%s is %g; it must be %s", name, value,
                  text[range]);
  if (dtype_holds(dtype, value)) return COMPUTE_OK;
  return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "%s is %s", name,
                dtype_refusal(dtype, value, why, sizeof why));
}

/* Returns the narrowest dtype of the updates: f64 if all weights are f64, otherwise f32. */
static compute_dtype narrowest(const compute_layer *model) {
  const size_t count = compute_layer_parameter_count(model);
  for (size_t i = 0; i < count; i++) {
    compute_layer_parameter p;
    if (compute_layer_parameter_at(model, i, &p)) return COMPUTE_F32;
    if (p.trainable && compute_tensor_dtype(p.tensor) != COMPUTE_F64) return COMPUTE_F32;
  }
  return COMPUTE_F64;
}

static compute_status check_optimizer(compute_context *context, compute_dtype dtype,
                                      compute_optimizer_options *o) {
  static const double usual_rate[] = {0.01, 0.001, 0.001, 0.01};
  if (o->kind < COMPUTE_SGD || o->kind > COMPUTE_RMSPROP)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "invalid optimizer %d", (int)o->kind);
  compute_status status =
      check_number(context, dtype, "optimizer.learning_rate", o->learning_rate, NOT_NEGATIVE);
  if (!status)
    status = check_number(context, dtype, "optimizer.momentum", o->momentum, NOT_NEGATIVE);
  if (!status) status = check_number(context, dtype, "optimizer.beta1", o->beta1, BELOW_ONE);
  if (!status) status = check_number(context, dtype, "optimizer.beta2", o->beta2, BELOW_ONE);
  if (!status) status = check_number(context, dtype, "optimizer.alpha", o->alpha, BELOW_ONE);
  if (!status) status = check_number(context, dtype, "optimizer.epsilon", o->epsilon, NOT_NEGATIVE);
  if (!status)
    status = check_number(context, dtype, "optimizer.weight_decay", o->weight_decay, NOT_NEGATIVE);
  if (status) return status;
  if (o->nesterov && (o->kind != COMPUTE_SGD || o->momentum == 0))
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "optimizer.nesterov needs SGD with a momentum");
  if (o->learning_rate == 0) o->learning_rate = usual_rate[o->kind];
  return COMPUTE_OK;
}

static compute_status check_schedule(compute_context *context, compute_dtype dtype,
                                     compute_schedule *p) {
  if (p->kind < COMPUTE_SCHEDULE_CONSTANT || p->kind > COMPUTE_SCHEDULE_COSINE)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "invalid schedule %d", (int)p->kind);
  if (p->period < 0 || p->warm_up < 0)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "schedule.period is %" PRId64 " and schedule.warm_up %" PRId64
                  "; neither may be negative",
                  p->period, p->warm_up);
  if (p->kind == COMPUTE_SCHEDULE_STEP && p->period == 0)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "schedule.period is 0; a step schedule needs one");
  if (p->kind == COMPUTE_SCHEDULE_COSINE && p->period > 0 && p->warm_up >= p->period)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "schedule.warm_up, %" PRId64 ", must be less than schedule.period, %" PRId64,
                  p->warm_up, p->period);
  if (p->kind == COMPUTE_SCHEDULE_STEP && p->factor == 0) p->factor = 0.1;
  return check_number(context, dtype, "schedule.factor", p->factor, NOT_NEGATIVE);
}

static compute_status check_port(compute_context *context, const char *name,
                                 const compute_batch_port *port) {
  if (compute_dtype_size(port->dtype) == 0)
    return refuse(context, COMPUTE_ERROR_DTYPE, "%s has invalid dtype %d", name, (int)port->dtype);
  int64_t count;
  if (port->item.rank >= COMPUTE_MAX_RANK || compute_shape_count(port->item, &count) != COMPUTE_OK)
    return refuse(context, COMPUTE_ERROR_SHAPE, "%s.item is not a valid item shape (rank 0 to %d)",
                  name, COMPUTE_MAX_RANK - 1);
  if (count > 0) return COMPUTE_OK;
  return refuse(context, COMPUTE_ERROR_SHAPE, "%s.item has no elements", name);
}

static compute_status check_loss(compute_context *context, compute_dtype dtype,
                                 compute_trainer_options *o) {
  if (o->loss < COMPUTE_LOSS_CROSS_ENTROPY || o->loss > COMPUTE_LOSS_HUBER)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "invalid loss %d", (int)o->loss);
  compute_status status =
      check_number(context, dtype, "label_smoothing", o->label_smoothing, UP_TO_ONE);
  if (!status) status = check_number(context, dtype, "huber_delta", o->huber_delta, NOT_NEGATIVE);
  if (status) return status;
  if (o->huber_delta == 0) o->huber_delta = 1;
  if (o->label_smoothing != 0 && o->loss != COMPUTE_LOSS_CROSS_ENTROPY)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "label_smoothing applies to cross-entropy only");
  return COMPUTE_OK;
}

/* Checks the model's weights against the options. */
static compute_status check_model(compute_context *context, const compute_trainer_options *o) {
  const size_t count = compute_layer_parameter_count(o->model);
  bool trainable = false;
  for (size_t i = 0; i < count; i++) {
    compute_layer_parameter p;
    compute_status status = compute_layer_parameter_at(o->model, i, &p);
    if (status) return status;
    if (compute_device_context(compute_tensor_device(p.tensor)) != context)
      return refuse(context, COMPUTE_ERROR_WRONG_CONTEXT, "parameter %s belongs to another context",
                    p.name);
    if (!p.trainable) continue;
    trainable = true;
    const compute_dtype dtype = compute_tensor_dtype(p.tensor);
    if (o->precision != COMPUTE_DTYPE_NONE && dtype != COMPUTE_F32)
      return refuse(context, COMPUTE_ERROR_DTYPE, "precision %s needs weights in f32; %s is %s",
                    compute_dtype_name(o->precision), p.name, compute_dtype_name(dtype));
  }
  if (trainable) return COMPUTE_OK;
  return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "the model has no weights to train");
}

static compute_status check_devices(compute_context *context, const compute_trainer_options *o) {
  if ((o->devices == NULL) != (o->device_count == 0))
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "devices is %sNULL and device_count %zu",
                  o->devices ? "not " : "", o->device_count);
  if (o->device_count > TRAIN_MOST_DEVICES)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "%zu devices; at most %d are allowed",
                  o->device_count, TRAIN_MOST_DEVICES);
  for (size_t i = 0; i < o->device_count; i++) {
    if (!o->devices[i])
      return refuse(context, COMPUTE_ERROR_NULL_POINTER, "devices[%zu] is NULL", i);
    if (compute_device_context(o->devices[i]) != context)
      return refuse(context, COMPUTE_ERROR_WRONG_CONTEXT, "devices[%zu] belongs to another context",
                    i);
  }
  if (o->device_count <= 1 || (int64_t)o->device_count <= o->batch) return COMPUTE_OK;
  return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                "a batch of %" PRId64 " is too small for %zu devices", o->batch, o->device_count);
}

/* Usually the caller did not check a failed layer constructor. The error of the constructor is more
 * useful. */
static compute_status refuse_no_model(compute_context *context) {
  compute_error before;
  compute_error_get(context, &before);
  const bool told = before.status != COMPUTE_OK;
  return refuse(context, COMPUTE_ERROR_NULL_POINTER, "options.model is NULL%s%.300s",
                told ? "; the previous error was: " : "", told ? before.message : "");
}

compute_status train_check_options(compute_context *context, compute_trainer_options *o) {
  const uint32_t known = COMPUTE_TRAIN_CHECK_NAN | COMPUTE_TRAIN_RECOMPUTE |
                         COMPUTE_TRAIN_NO_OVERLAP | COMPUTE_TRAIN_DIVIDE_STATE |
                         COMPUTE_TRAIN_SYNCHRONIZE | COMPUTE_PLAN_ALLOW_TF32 |
                         COMPUTE_PLAN_ALLOW_WINOGRAD;
  compute_status status = error_if_reserved(context, operation_create, "options", o->reserved);
  if (!status)
    status =
        error_if_reserved(context, operation_create, "options.optimizer", o->optimizer.reserved);
  if (!status)
    status = error_if_reserved(context, operation_create, "options.schedule", o->schedule.reserved);
  if (status) return status;
  if (!o->model) return refuse_no_model(context);
  if (o->batch < 1)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "a batch of %" PRId64 " items; it must have at least 1", o->batch);
  if (o->accumulate < 0)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "accumulate is %d; it must not be negative", (int)o->accumulate);
  if (o->accumulate == 0) o->accumulate = 1;
  if (o->flags & ~known)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "unknown flags 0x%x",
                  (unsigned)(o->flags & ~known));
  if (o->precision != COMPUTE_DTYPE_NONE && o->precision != COMPUTE_F16 &&
      o->precision != COMPUTE_BF16)
    return refuse(context, COMPUTE_ERROR_DTYPE, "precision is %s; it must be f16 or bf16",
                  compute_dtype_name(o->precision));
  const compute_dtype dtype = narrowest(o->model);
  status = check_number(context, dtype, "clip_norm", o->clip_norm, NOT_NEGATIVE);
  if (!status) status = check_port(context, "input", &o->input);
  if (!status) status = check_port(context, "target", &o->target);
  if (!status) status = check_loss(context, dtype, o);
  if (!status) status = check_optimizer(context, dtype, &o->optimizer);
  if (!status) status = check_schedule(context, dtype, &o->schedule);
  if (!status) status = check_model(context, o);
  return status ? status : check_devices(context, o);
}
