/* SPDX-License-Identifier: MIT */
/* Numbers among a trainer's options: compute_trainer_create refuses them by name, or the trainer
 * takes a step without reporting a defect of the library. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "support/samples/training.h"

enum { ITEMS = 12 };

static void step(compute_trainer *trainer, const char *what) {
  const int64_t batch = ITEMS;
  compute_tensor *x, *t;
  compute_device *device = compute_default_device(test_context);
  assert_ok(compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(batch, 4), 0.5, &x));
  assert_ok(compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(batch, 2), 0.25, &t));
  for (int i = 0; i < 2; i++) {
    double loss;
    const compute_status status = compute_trainer_step(trainer, x, t, &loss);
    if (status == COMPUTE_ERROR_INTERNAL)
      fail_msg("%s: %s", what, compute_error_message(test_context));
  }
  compute_tensor_release(x);
  compute_tensor_release(t);
}

/* Each attempt gets a new network, because steps change it. */
static void attempt(compute_trainer_options *o, const char *name, const char *what) {
  compute_layer *net = training_network(compute_default_device(test_context), 2, 5);
  compute_trainer *trainer = NULL;
  o->model = net;
  const compute_status status = compute_trainer_create(test_context, o, &trainer);
  if (!status) {
    step(trainer, what);
  } else {
    const char *message = compute_error_message(test_context);
    if (status != COMPUTE_ERROR_INVALID_ARGUMENT || !strstr(message, name) ||
        strncmp(message, "compute_trainer_create: ", 24))
      fail_msg("%s: %s: %s", what, compute_status_name(status), message);
  }
  compute_trainer_release(trainer);
  compute_layer_release(net);
}

static const char *set_double(compute_trainer_options *o, int field, double v) {
  compute_optimizer_options *p = &o->optimizer;
  switch (field) {
  case 0: p->learning_rate = v; return "optimizer.learning_rate";
  case 1: p->momentum = v; return "optimizer.momentum";
  case 2: p->kind = COMPUTE_ADAM, p->beta1 = v; return "optimizer.beta1";
  case 3: p->kind = COMPUTE_ADAMW, p->beta2 = v; return "optimizer.beta2";
  case 4: p->kind = COMPUTE_RMSPROP, p->alpha = v; return "optimizer.alpha";
  case 5: p->kind = COMPUTE_ADAM, p->epsilon = v; return "optimizer.epsilon";
  case 6: p->weight_decay = v; return "optimizer.weight_decay";
  case 7: o->schedule.kind = COMPUTE_SCHEDULE_STEP, o->schedule.period = 1; break;
  case 8: o->schedule.kind = COMPUTE_SCHEDULE_COSINE, o->schedule.period = 9; break;
  case 9: o->loss = COMPUTE_LOSS_HUBER, o->huber_delta = v; return "huber_delta";
  case 10: o->label_smoothing = v; return "label_smoothing";
  case 11: o->clip_norm = v; return "clip_norm";
  default: return NULL;
  }
  o->schedule.factor = v;
  return "schedule.factor";
}

static void doubles_are_taken_or_refused(void **state) {
  (void)state;
  static const double values[] = {(double)NAN, INFINITY, -INFINITY, -1,      0,       5e-324,
                                  1e-310,      1e-45,    0.5,       1,       65520,   1e39,
                                  -1e39,       0x1p53,   0x1p63,    DBL_MAX, -DBL_MAX};
  for (int field = 0; field < 12; field++) {
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
      char what[128];
      compute_trainer_options o = training_options(NULL, false);
      const char *name = set_double(&o, field, values[i]);
      snprintf(what, sizeof what, "%s = %g", name, values[i]);
      attempt(&o, name, what);
    }
  }
}

static const char *set_integer(compute_trainer_options *o, int field, int64_t v) {
  switch (field) {
  case 0: o->schedule.warm_up = v; return "schedule.warm_up";
  case 1: o->schedule.kind = COMPUTE_SCHEDULE_COSINE, o->schedule.warm_up = v; return "schedule";
  case 2:
    o->schedule.kind = COMPUTE_SCHEDULE_STEP, o->schedule.period = v;
    return "schedule.period";
  case 3: o->schedule.kind = COMPUTE_SCHEDULE_COSINE, o->schedule.period = v; return "schedule";
  case 4: o->accumulate = (int32_t)v; return "accumulate";
  default: return NULL;
  }
}

static void integers_are_taken_or_refused(void **state) {
  (void)state;
  static const int64_t values[] = {INT64_MIN, INT32_MIN,     -1,       0, 1, 2,
                                   INT32_MAX, INT64_MAX - 1, INT64_MAX};
  for (int field = 0; field < 5; field++) {
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
      char what[128];
      if (field == 4 && (values[i] < INT32_MIN || values[i] > INT32_MAX)) continue;
      compute_trainer_options o = training_options(NULL, false);
      const char *name = set_integer(&o, field, values[i]);
      snprintf(what, sizeof what, "%s = %" PRId64, name, values[i]);
      attempt(&o, name, what);
    }
  }
}

/* Impossible batches are refused when the step's graph is built. */
static void batches_that_cannot_be_are_refused(void **state) {
  (void)state;
  static const int64_t values[] = {INT64_MIN, -1, 0, INT64_MAX / 4, INT64_MAX};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    compute_layer *net = training_network(compute_default_device(test_context), 2, 5);
    compute_trainer *trainer = NULL;
    compute_trainer_options o = training_options(net, false);
    o.batch = values[i];
    const compute_status status = compute_trainer_create(test_context, &o, &trainer);
    if (status != COMPUTE_ERROR_INVALID_ARGUMENT && status != COMPUTE_ERROR_OVERFLOW)
      fail_msg("batch %" PRId64 ": %s: %s", values[i], compute_status_name(status),
               compute_error_message(test_context));
    assert_null(trainer);
    compute_layer_release(net);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(doubles_are_taken_or_refused),
      cmocka_unit_test(integers_are_taken_or_refused),
      cmocka_unit_test(batches_that_cannot_be_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
