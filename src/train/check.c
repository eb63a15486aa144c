/* What a trainer's options may be. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "type/dtype.h"
#include "type/shape.h"
#include "train/trainer.h"

#define HERE "compute_trainer_create"

#define refuse(context, status, ...) error_set((context), (status), HERE, HERE ": " __VA_ARGS__)

/* What an option must be beside a number of the dtype of the weights. */
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

/* The dtype of the updates that holds least: f64 if all weights are, else f32. */
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
  compute_status s =
      check_number(context, dtype, "optimizer.learning_rate", o->learning_rate, NOT_NEGATIVE);
  if (!s) s = check_number(context, dtype, "optimizer.momentum", o->momentum, NOT_NEGATIVE);
  if (!s) s = check_number(context, dtype, "optimizer.beta1", o->beta1, BELOW_ONE);
  if (!s) s = check_number(context, dtype, "optimizer.beta2", o->beta2, BELOW_ONE);
  if (!s) s = check_number(context, dtype, "optimizer.alpha", o->alpha, BELOW_ONE);
  if (!s) s = check_number(context, dtype, "optimizer.epsilon", o->epsilon, NOT_NEGATIVE);
  if (!s) s = check_number(context, dtype, "optimizer.weight_decay", o->weight_decay, NOT_NEGATIVE);
  if (s) return s;
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
                  "schedule.period is %" PRId64 " and schedule.warm_up %" PRId64, p->period,
                  p->warm_up);
  if (p->kind == COMPUTE_SCHEDULE_STEP && p->period == 0)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "schedule.period is 0; a schedule of steps needs one");
  if (p->kind == COMPUTE_SCHEDULE_COSINE && p->period > 0 && p->warm_up >= p->period)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "schedule.warm_up, %" PRId64 ", leaves nothing of schedule.period, %" PRId64,
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
  compute_status s = check_number(context, dtype, "label_smoothing", o->label_smoothing, UP_TO_ONE);
  if (!s) s = check_number(context, dtype, "huber_delta", o->huber_delta, NOT_NEGATIVE);
  if (s) return s;
  if (o->huber_delta == 0) o->huber_delta = 1;
  if (o->label_smoothing != 0 && o->loss != COMPUTE_LOSS_CROSS_ENTROPY)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "label_smoothing goes with cross-entropy only");
  return COMPUTE_OK;
}

/* The model's weights, against what is asked of them. */
static compute_status check_model(compute_context *context, const compute_trainer_options *o) {
  const size_t count = compute_layer_parameter_count(o->model);
  bool trainable = false;
  for (size_t i = 0; i < count; i++) {
    compute_layer_parameter p;
    compute_status s = compute_layer_parameter_at(o->model, i, &p);
    if (s) return s;
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
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "%zu devices; at most %d can share",
                  o->device_count, TRAIN_MOST_DEVICES);
  for (size_t i = 0; i < o->device_count; i++) {
    if (o->devices[i] == NULL)
      return refuse(context, COMPUTE_ERROR_NULL_POINTER, "devices[%zu] is NULL", i);
    if (compute_device_context(o->devices[i]) != context)
      return refuse(context, COMPUTE_ERROR_WRONG_CONTEXT, "devices[%zu] belongs to another context",
                    i);
  }
  if (o->device_count <= 1 || (int64_t)o->device_count <= o->batch) return COMPUTE_OK;
  return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                "a batch of %" PRId64 " has nothing for some of %zu devices", o->batch,
                o->device_count);
}

/* As a rule a layer could not be made, and nobody has looked: what was said then is worth more. */
static compute_status refuse_no_model(compute_context *context) {
  compute_error before;
  compute_error_get(context, &before);
  const bool told = before.status != COMPUTE_OK;
  return refuse(context, COMPUTE_ERROR_NULL_POINTER, "options.model is NULL%s%.300s",
                told ? "; the error before was: " : "", told ? before.message : "");
}

compute_status train_check_options(compute_context *context, compute_trainer_options *o) {
  const uint32_t known = COMPUTE_TRAIN_CHECK_NAN | COMPUTE_TRAIN_RECOMPUTE |
                         COMPUTE_PLAN_ALLOW_TF32 | COMPUTE_PLAN_ALLOW_WINOGRAD;
  for (size_t i = 0; i < sizeof o->reserved / sizeof *o->reserved; i++) {
    if (o->reserved[i] != 0)
      return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "options.reserved[%zu] is not zero",
                    i);
  }
  if (o->model == NULL) return refuse_no_model(context);
  if (o->batch < 1)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "a batch of %" PRId64 " items; it must have at least 1", o->batch);
  if (o->accumulate < 0)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "accumulate is %d", (int)o->accumulate);
  if (o->accumulate == 0) o->accumulate = 1;
  if (o->flags & ~known)
    return refuse(context, COMPUTE_ERROR_INVALID_ARGUMENT, "unknown flags 0x%x",
                  (unsigned)(o->flags & ~known));
  if (o->precision != COMPUTE_DTYPE_NONE && o->precision != COMPUTE_F16 &&
      o->precision != COMPUTE_BF16)
    return refuse(context, COMPUTE_ERROR_DTYPE, "precision is %s; it can be f16 or bf16",
                  compute_dtype_name(o->precision));
  const compute_dtype dtype = narrowest(o->model);
  compute_status s = check_number(context, dtype, "clip_norm", o->clip_norm, NOT_NEGATIVE);
  if (!s) s = check_port(context, "input", &o->input);
  if (!s) s = check_port(context, "target", &o->target);
  if (!s) s = check_loss(context, dtype, o);
  if (!s) s = check_optimizer(context, dtype, &o->optimizer);
  if (!s) s = check_schedule(context, dtype, &o->schedule);
  if (!s) s = check_model(context, o);
  return s ? s : check_devices(context, o);
}
