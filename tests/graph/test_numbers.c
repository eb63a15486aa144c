/* SPDX-License-Identifier: MIT */
/* Numbers among the arguments of builders. The builder either accepts the number, and the graph and
 * its gradient compile and run, or it refuses the number by operation and argument. No later stage
 * finds the error, and none reports a defect of the library. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "support/harness/test.h"
#include "support/samples/operation_options.h"

/* Operands of a row: x has 3 axes or is a stack of images; w is a parameter of x's shape. */
typedef struct operands {
  compute_graph *g;
  compute_node x;       /* [3, 4, 5] */
  compute_node images;  /* [1, 2, 6, 6] */
  compute_node filter;  /* [4, 2, 3, 3] */
  compute_node across;  /* [2, 4, 3, 3]: for transposed convolution */
  compute_node vector;  /* [5] */
  compute_node channel; /* [4] */
  compute_node w;       /* parameter [4] */
  compute_node labels;  /* i64 [3] */
  compute_node places;  /* i64 [3, 4, 5] */
  compute_node seed;    /* i64 scalar */
  compute_dtype dtype;
} operands;

static compute_node ones(compute_graph *g, compute_dtype dtype, compute_shape shape) {
  return compute_full(g, dtype, shape, 1);
}

static operands create(compute_dtype dtype) {
  operands o = {.g = compute_graph_create(test_context), .dtype = dtype};
  compute_tensor *weights;
  assert_non_null(o.g);
  assert_ok(compute_tensor_full(compute_default_device(test_context), dtype, COMPUTE_SHAPE(4), 1,
                                &weights));
  /* Inputs prevent constant folding. */
  o.x = compute_input(o.g, dtype, COMPUTE_SHAPE(3, 4, 5));
  o.images = compute_input(o.g, dtype, COMPUTE_SHAPE(1, 2, 6, 6));
  o.filter = ones(o.g, dtype, COMPUTE_SHAPE(4, 2, 3, 3));
  o.across = ones(o.g, dtype, COMPUTE_SHAPE(2, 4, 3, 3));
  o.vector = ones(o.g, dtype, COMPUTE_SHAPE(5));
  o.channel = ones(o.g, dtype, COMPUTE_SHAPE(4));
  o.w = compute_parameter(o.g, weights);
  o.labels = ones(o.g, COMPUTE_I64, COMPUTE_SHAPE(3));
  o.places = ones(o.g, COMPUTE_I64, COMPUTE_SHAPE(3, 4, 5));
  o.seed = compute_scalar(o.g, COMPUTE_I64, 7);
  compute_tensor_release(weights);
  return o;
}

/* ---- Outcomes of a number ------------------------------------------------------------------ */

enum { SMALL = 1 << 16 /* elements of a result that is run */ };

/* A tensor of ones for one input of the plan. */
static compute_tensor *bound(const operands *o, compute_node node) {
  compute_tensor *tensor;
  assert_ok(compute_tensor_full(compute_default_device(test_context),
                                compute_node_dtype(o->g, node), compute_node_shape(o->g, node), 1,
                                &tensor));
  return tensor;
}

static bool acceptable(compute_status status) {
  return status == COMPUTE_OK || status == COMPUTE_ERROR_OUT_OF_MEMORY ||
         status == COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY || status == COMPUTE_ERROR_INDEX ||
         status == COMPUTE_ERROR_OVERFLOW || status == COMPUTE_ERROR_UNSUPPORTED;
}

static int64_t count_of(const operands *o, compute_node node) {
  int64_t count = 0;
  assert_ok(compute_shape_count(compute_node_shape(o->g, node), &count));
  return count;
}

/* Graphs that need long or much memory are only compiled. */
static void run(const operands *o, compute_node output, bool small, const char *what) {
  compute_plan *plan;
  compute_status status = compute_compile(o->g, &output, 1, NULL, &plan);
  if (!acceptable(status)) fail_msg("%s: compile: %s", what, compute_error_message(test_context));
  if (status) return;
  const bool own_input = !strcmp(what, "input"); /* nothing is bound to it */
  if (small && count_of(o, output) <= SMALL && !own_input) {
    const compute_node inputs[] = {o->x, o->images};
    compute_binding bindings[3];
    size_t used = 0;
    for (size_t i = 0; i < 2; i++)
      bindings[used++] = (compute_binding){inputs[i], bound(o, inputs[i])};
    if (compute_node_dtype(o->g, output) != COMPUTE_DTYPE_NONE) {
      compute_tensor *result;
      assert_ok(compute_plan_create_tensor(plan, output, &result));
      bindings[used++] = (compute_binding){output, result};
    }
    /* Binds the inputs that the output reads. Other inputs are not inputs of the plan. */
    for (size_t skip = 0; skip < 4; skip++) {
      compute_binding some[3];
      size_t taken = 0;
      for (size_t i = 0; i < used; i++)
        if (i >= 2 || !(skip >> i & 1)) some[taken++] = bindings[i];
      status = compute_run(plan, some, taken, NULL);
      if (status != COMPUTE_ERROR_BINDING) break;
    }
    if (!acceptable(status)) fail_msg("%s: run: %s", what, compute_error_message(test_context));
    for (size_t i = 0; i < used; i++) compute_tensor_release(bindings[i].tensor);
  }
  compute_plan_release(plan);
}

/* A builder that accepts a number must have a gradient that accepts it. */
static void run_gradient(const operands *o, compute_node output, const char *what) {
  const compute_dtype dtype = compute_node_dtype(o->g, output);
  if (dtype != o->dtype) return;
  const compute_node of[] = {o->x, o->images};
  compute_node gradients[2];
  const compute_node loss =
      compute_mean(o->g, compute_square(o->g, output), COMPUTE_ALL_AXES, false);
  const compute_status status = compute_gradients(o->g, loss, of, 2, gradients);
  if (!acceptable(status) && status != COMPUTE_ERROR_NOT_DIFFERENTIABLE)
    fail_msg("%s: gradients: %s", what, compute_error_message(test_context));
  if (status) return;
  for (size_t i = 0; i < 2; i++) run(o, gradients[i], count_of(o, output) <= SMALL, what);
}

static void check_refusal(const operands *o, const char *operation, const char *argument,
                          const char *what) {
  char start[64];
  const compute_status status = compute_graph_status(o->g);
  const char *message = compute_error_message(test_context);
  snprintf(start, sizeof start, "%s: ", operation);
  if (status != COMPUTE_ERROR_INVALID_ARGUMENT && status != COMPUTE_ERROR_SHAPE &&
      status != COMPUTE_ERROR_OVERFLOW)
    fail_msg("%s: refused with %s: %s", what, compute_status_name(status), message);
  if (strncmp(message, start, strlen(start)) || !strstr(message, argument))
    fail_msg("%s: refused with \"%s\"", what, message);
}

static void check_outcome(const operands *o, compute_node output, const char *operation,
                          const char *argument, const char *what) {
  if (compute_graph_status(o->g)) {
    check_refusal(o, operation, argument, what);
  } else {
    run(o, output, true, what);
    if (!compute_graph_status(o->g)) run_gradient(o, output, what);
  }
  compute_graph_release(o->g);
}

/* ---- Doubles ------------------------------------------------------------------------------- */

typedef compute_node with_double(const operands *o, double value);

typedef struct double_row {
  const char *operation, *argument;
  with_double *build;
} double_row;

static compute_node clipped_rnn(const operands *o, double v) {
  return compute_rnn(o->g, o->x, ones(o->g, o->dtype, COMPUTE_SHAPE(5, 1)),
                     ones(o->g, o->dtype, COMPUTE_SHAPE(1, 1)),
                     &(compute_recurrent_options){.clip = v}, NULL);
}

static compute_node clip(const operands *o, double v) {
  compute_node gradient = o->x;
  compute_clip_gradients(o->g, &gradient, 1, v, NULL);
  return gradient;
}

#define REAL_ARGUMENT(name, operation, argument, ...)                                              \
  static compute_node real_##name(const operands *o, double v) {                                   \
    compute_graph *g = o->g;                                                                       \
    (void)g;                                                                                       \
    return __VA_ARGS__;                                                                            \
  }
#include "operations.def"

#define STEP(name, loss, apply, type, field)                                                       \
  static compute_node name(const operands *o, double v) {                                          \
    const type options = {.field = v};                                                             \
    const compute_node gradient = compute_mul(o->g, o->w, o->channel);                             \
    return apply(o->g, &o->w, &gradient, 1, &options);                                             \
  }

STEP(sgd_rate, loss, compute_sgd_apply, compute_sgd_options, learning_rate)
STEP(sgd_momentum, loss, compute_sgd_apply, compute_sgd_options, momentum)
STEP(sgd_decay, loss, compute_sgd_apply, compute_sgd_options, weight_decay)
STEP(adam_rate, loss, compute_adam_apply, compute_adam_options, learning_rate)
STEP(adam_beta1, loss, compute_adam_apply, compute_adam_options, beta1)
STEP(adam_beta2, loss, compute_adam_apply, compute_adam_options, beta2)
STEP(adam_epsilon, loss, compute_adam_apply, compute_adam_options, epsilon)
STEP(adam_decay, loss, compute_adam_apply, compute_adam_options, weight_decay)
STEP(rmsprop_rate, loss, compute_rmsprop_apply, compute_rmsprop_options, learning_rate)
STEP(rmsprop_alpha, loss, compute_rmsprop_apply, compute_rmsprop_options, alpha)
STEP(rmsprop_epsilon, loss, compute_rmsprop_apply, compute_rmsprop_options, epsilon)
STEP(rmsprop_momentum, loss, compute_rmsprop_apply, compute_rmsprop_options, momentum)
STEP(rmsprop_decay, loss, compute_rmsprop_apply, compute_rmsprop_options, weight_decay)

static const double_row double_rows[] = {
#define REAL_ARGUMENT(name, operation, argument, ...) {#operation, argument, real_##name},
#include "operations.def"
    {"clip_gradients", "limit", clip},
    {"sgd_apply", "learning_rate", sgd_rate},
    {"sgd_apply", "momentum", sgd_momentum},
    {"sgd_apply", "weight_decay", sgd_decay},
    {"adam_apply", "learning_rate", adam_rate},
    {"adam_apply", "beta1", adam_beta1},
    {"adam_apply", "beta2", adam_beta2},
    {"adam_apply", "epsilon", adam_epsilon},
    {"adam_apply", "weight_decay", adam_decay},
    {"rmsprop_apply", "learning_rate", rmsprop_rate},
    {"rmsprop_apply", "alpha", rmsprop_alpha},
    {"rmsprop_apply", "epsilon", rmsprop_epsilon},
    {"rmsprop_apply", "momentum", rmsprop_momentum},
    {"rmsprop_apply", "weight_decay", rmsprop_decay},
};

static void doubles_are_taken_or_refused_by_the_builder(void **state) {
  (void)state;
  static const double values[] = {(double)NAN, INFINITY, -INFINITY,
                                  -1,          0,        -0.0,
                                  5e-324,      -5e-324,  1e-310,
                                  1e-45,       0.25,     0x1.fffffffffffffp-1,
                                  1,           65520,    -65520,
                                  1e39,        -1e39,    (double)INT32_MIN,
                                  INT32_MAX,   0x1p53,   (double)INT64_MIN,
                                  0x1p63,      DBL_MAX,  -DBL_MAX};
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16, COMPUTE_BF16};
  for (size_t r = 0; r < sizeof double_rows / sizeof *double_rows; r++) {
    const double_row *row = &double_rows[r];
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
      for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        char what[128];
        snprintf(what, sizeof what, "%s(%s = %g) in %s", row->operation, row->argument, values[v],
                 compute_dtype_name(dtypes[d]));
        const operands o = create(dtypes[d]);
        assert_ok(compute_graph_status(o.g));
        check_outcome(&o, row->build(&o, values[v]), row->operation, row->argument, what);
      }
    }
  }
}

/* ---- The fit ------------------------------------------------------------------------------- */

/* Writes the number into one field of a problem. Returns the field's name. */
static const char *set_field(compute_fit_problem *p, int field, double v) {
  switch (field) {
  case 0: p->epsilon = v; return "epsilon";
  case 1: p->sigma[0] = v; return "sigma[0]";
  case 2: p->sigma[1] = v; return "sigma[1]";
  case 3: p->camera = COMPUTE_FIT_SCMOS, p->offset = v; return "offset";
  case 4: p->camera = COMPUTE_FIT_SCMOS, p->gain = v; return "gain";
  case 5: p->camera = COMPUTE_FIT_EMCCD, p->em_gain = v; return "em_gain";
  case 6: p->camera = COMPUTE_FIT_SCMOS, p->variance = v; return "variance";
  case 7: p->start_set = 4, p->start[2] = v; return "start[2]";
  case 8: p->lower_set = 1, p->lower[0] = v; return "lower[0]";
  case 9: p->upper_set = 8, p->upper[3] = v; return "upper[3]";
  default: break;
  }
  p->model = COMPUTE_FIT_XYZNB;
  p->depth = field == 10 ? v : 0.5;
  p->gamma = field == 11 ? v : 0.2;
  p->a[1] = field == 12 ? v : 0;
  p->b[0] = field == 13 ? v : 0;
  p->z_start_count = 1;
  p->z_start[0] = field == 14 ? v : 0;
  static const char *const names[] = {"depth", "gamma", "a[1]", "b[0]", "z_start[0]"};
  return field < 15 ? names[field - 10] : NULL;
}

static void numbers_of_a_fit_are_taken_or_refused_by_the_builder(void **state) {
  (void)state;
  static const double values[] = {(double)NAN, INFINITY, -INFINITY, -1,    0,      5e-324,
                                  1e-45,       1,        1e39,      -1e39, 0x1p63, DBL_MAX};
  for (int field = 0; field < 15; field++) {
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
      char what[128];
      compute_fit_problem p = {
          .model = COMPUTE_FIT_XYNB, .rows = 4, .columns = 5, .sigma = {1.3, 1.2}};
      const char *name = set_field(&p, field, values[v]);
      snprintf(what, sizeof what, "gaussian_fit(%s = %g)", name, values[v]);
      const operands o = create(COMPUTE_F32);
      check_outcome(&o, compute_gaussian_fit(o.g, o.x, &p, NULL), "gaussian_fit", name, what);
    }
  }
}

/* ---- Integers ------------------------------------------------------------------------------ */

typedef compute_node with_integer(const operands *o, int64_t value);

typedef struct integer_row {
  const char *operation;
  with_integer *build;
  bool narrow; /* the argument is an int32_t */
} integer_row;

#define AT(v) ((int32_t)(v))

/* [1, 2, 6, 6] as 6 slices of 1 row, and filters of this form. */
static compute_node volume(const operands *o) {
  return compute_reshape(o->g, o->images, COMPUTE_SHAPE(1, 2, 6, 1, 6));
}

static compute_node block(const operands *o) {
  return compute_full(o->g, COMPUTE_F32, COMPUTE_SHAPE(2, 2, 3, 1, 2), 1);
}

static compute_node conv3d(const operands *o, const compute_conv3d_options *options) {
  return compute_conv3d(o->g, volume(o), block(o), none, options);
}

static compute_node across3d(const operands *o, const compute_conv3d_options *options) {
  return compute_conv3d_transpose(o->g, volume(o), block(o), none, options);
}

static compute_node pool3d(const operands *o, const compute_pool3d_options *options) {
  return compute_argmax_pool3d(o->g, volume(o), options);
}

#define INTEGER_ARGUMENT(name, operation, bits, ...)                                               \
  static compute_node integer_##name(const operands *o, int64_t v) {                               \
    compute_graph *g = o->g;                                                                       \
    (void)g;                                                                                       \
    return __VA_ARGS__;                                                                            \
  }
#include "operations.def"

static const integer_row integer_rows[] = {
#define INTEGER_ARGUMENT(name, operation, bits, ...) {#operation, integer_##name, (bits) == 32},
#include "operations.def"
};

static void integers_are_taken_or_refused_by_the_builder(void **state) {
  (void)state;
  static const int64_t values[] = {INT64_MIN,
                                   INT64_MIN + 1,
                                   -((INT64_C(1) << 53) + 1),
                                   (int64_t)INT32_MIN - 1,
                                   INT32_MIN,
                                   INT32_MIN + 1,
                                   -9,
                                   -4,
                                   -3,
                                   -1,
                                   0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   5,
                                   9,
                                   (1 << 24) + 1,
                                   INT32_MAX - 1,
                                   INT32_MAX,
                                   UINT32_MAX,
                                   INT64_C(1) << 32,
                                   (INT64_C(1) << 53) + 1,
                                   INT64_MAX / 8,
                                   INT64_MAX / 4 + 1,
                                   INT64_MAX - 1,
                                   INT64_MAX};
  for (size_t r = 0; r < sizeof integer_rows / sizeof *integer_rows; r++) {
    const integer_row *row = &integer_rows[r];
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
      char what[128];
      if (row->narrow && (values[v] < INT32_MIN || values[v] > INT32_MAX)) continue;
      snprintf(what, sizeof what, "row %zu, %s(%" PRId64 ")", r, row->operation, values[v]);
      if (row->build == integer_input_size) strcpy(what, "input");
      const operands o = create(COMPUTE_F32);
      check_outcome(&o, row->build(&o, values[v]), row->operation, "", what);
    }
  }
}

/* Each of these shapes is valid, but the operation's intermediate shape is not. */
static void products_of_sizes_are_counted_by_the_builder(void **state) {
  (void)state;
  const int64_t many = INT64_C(1) << 40;
  compute_node y[4];
  for (int i = 0; i < 4; i++) {
    const operands o = create(COMPUTE_F32);
    const compute_node tall = compute_input(o.g, COMPUTE_F32, COMPUTE_SHAPE(many, 1));
    const compute_node wide = compute_input(o.g, COMPUTE_F32, COMPUTE_SHAPE(1, many));
    const compute_node row = compute_input(o.g, COMPUTE_F32, COMPUTE_SHAPE(1, 1, 1, many));
    const compute_node taps = compute_input(o.g, COMPUTE_F32, COMPUTE_SHAPE(many / 64, 1, 1, 1));
    y[0] = i ? tall : compute_matmul(o.g, tall, wide);
    y[1] = i != 1 ? tall : compute_scaled_attention(o.g, tall, tall, tall, NULL);
    y[2] = i != 2 ? tall : compute_conv2d(o.g, row, taps, none, CONV(.stride = {1, many}));
    y[3] = i != 3 ? tall : compute_add(o.g, tall, wide);
    assert_false(compute_node_is_valid(y[i]));
    assert_fails(compute_graph_status(o.g), COMPUTE_ERROR_OVERFLOW);
    compute_graph_release(o.g);
  }
}

/* These builders check their epsilon themselves: the kernels would find the error too late. */
static void an_infinite_epsilon_is_refused_where_it_is_given(void **state) {
  (void)state;
  static const double values[] = {(double)NAN, INFINITY, 1e39};
  for (size_t i = 0; i < 3; i++) {
    compute_tensor *x, *y;
    assert_ok(compute_tensor_full(compute_default_device(test_context), COMPUTE_F32,
                                  COMPUTE_SHAPE(2, 3), 1, &x));
    assert_fails(compute_tensor_normalize(x, values[i], &y), COMPUTE_ERROR_INVALID_ARGUMENT);
    test_check_message(test_context, "normalize: epsilon is ");
    assert_fails(compute_tensor_layer_norm(x, NULL, NULL, values[i], &y),
                 COMPUTE_ERROR_INVALID_ARGUMENT);
    test_check_message(test_context, "layer_norm: epsilon is ");
    assert_fails(compute_tensor_elu(x, values[i], &y), COMPUTE_ERROR_INVALID_ARGUMENT);
    test_check_message(test_context, "elu: alpha is ");
    compute_tensor_release(x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(doubles_are_taken_or_refused_by_the_builder),
      cmocka_unit_test(numbers_of_a_fit_are_taken_or_refused_by_the_builder),
      cmocka_unit_test(integers_are_taken_or_refused_by_the_builder),
      cmocka_unit_test(products_of_sizes_are_counted_by_the_builder),
      cmocka_unit_test(an_infinite_epsilon_is_refused_where_it_is_given),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
