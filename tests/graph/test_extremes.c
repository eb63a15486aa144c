/* SPDX-License-Identifier: MIT */
/* Builder calls with all arguments drawn at random, from small and extreme numbers. Combinations
 * may fail where one number alone does not (test_numbers.c). Either the builder refuses the call by
 * its name, or the graph and its gradient compile, and run if they are small.
 * COMPUTE_ERROR_INTERNAL is never the answer.
 *
 * COMPUTE_TEST_CALLS=1000000 makes that many calls instead of the default few; COMPUTE_TEST_SEED=N
 * changes them. A failure prints the number of its call. COMPUTE_TEST_CALL=N repeats this call in a
 * program of the same compiler. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "support/harness/test.h"
#include "support/harness/values.h"
#include "support/samples/operation_options.h"

enum {
  CALLS = 6000,
  SECONDS = 20,         /* of processor time for one call; more counts as a hang */
  MOST_INPUTS = 6,      /* operands that are made for one call */
  MOST_BYTES = 1 << 24, /* limit of operands and temporaries of a plan that is run … */
  MOST_FLOPS = 1 << 24  /* … and its work */
};

typedef struct draw {
  compute_graph *g;
  test_random random;
  compute_dtype dtype; /* of operands */
  compute_node inputs[MOST_INPUTS];
  int input_count;
} draw;

/* ---- Numbers --------------------------------------------------------------------------------- */

static int choose(draw *d, int options) {
  return (int)test_random_integer(&d->random, 0, options - 1);
}

/* Half of the numbers are small: otherwise one extreme number would make almost every call fail. */
static int64_t number(draw *d) {
  static const int64_t extremes[] = {INT64_MIN,
                                     INT64_MIN + 1,
                                     -(INT64_C(1) << 62),
                                     INT32_MIN - INT64_C(1),
                                     INT32_MIN,
                                     -7,
                                     -2,
                                     -1,
                                     5,
                                     1 << 16,
                                     INT32_MAX - 1,
                                     INT32_MAX,
                                     INT64_C(1) << 31,
                                     UINT32_MAX,
                                     INT64_C(1) << 32,
                                     INT64_C(1) << 40,
                                     INT64_C(1) << 54,
                                     INT64_C(1) << 60,
                                     INT64_C(1) << 61,
                                     (INT64_C(1) << 61) - 1,
                                     INT64_C(1) << 62,
                                     INT64_MAX / 2,
                                     INT64_MAX - 1,
                                     INT64_MAX};
  if (choose(d, 5) < 3) return choose(d, 4);
  return extremes[choose(d, (int)(sizeof extremes / sizeof *extremes))];
}

static int32_t axis(draw *d) {
  static const int32_t extremes[] = {INT32_MIN, INT32_MIN + 1, INT32_MIN + 2, -9, 9, INT32_MAX};
  return choose(d, 6) ? (int32_t)choose(d, 10) - 5 : extremes[choose(d, 6)];
}

static double real(draw *d) {
  static const double some[] = {0, 1e-5, 0.5, 1, -1, 2, 1e30, 1e300, 1e-300, -0.0};
  return some[choose(d, 10)];
}

/* The size of an operand. In one of 30 calls it can be compiled, but not run. */
static int64_t size(draw *d) {
  if (choose(d, 60) == 0) return INT64_C(1) << choose(d, 55);
  static const int64_t some[] = {1, 1, 1, 2, 2, 3, 4, 6, 8, 0};
  return some[choose(d, 10)];
}

static compute_shape shape(draw *d, int32_t rank) {
  compute_shape made = {.rank = rank};
  for (int32_t i = 0; i < rank; i++) made.size[i] = size(d);
  return made;
}

static compute_axes axes(draw *d) {
  compute_axes made = {.count = choose(d, 12) ? choose(d, 4) : axis(d)};
  for (int i = 0; i < COMPUTE_MAX_RANK; i++) made.axis[i] = axis(d);
  return made;
}

/* ---- Operands -------------------------------------------------------------------------------- */

static compute_node typed(draw *d, compute_dtype dtype, compute_shape s) {
  const compute_node x = compute_input(d->g, dtype, s);
  if (d->input_count < MOST_INPUTS) d->inputs[d->input_count++] = x;
  return x;
}

static compute_node operand(draw *d, int32_t rank) {
  return typed(d, d->dtype, shape(d, rank));
}

static compute_node any(draw *d) {
  return operand(d, choose(d, 5));
}

/* Indices that are valid for many axes, since their values are 0. */
static compute_node indices(draw *d, int32_t rank) {
  return typed(d, choose(d, 2) ? COMPUTE_I64 : COMPUTE_I32, shape(d, rank));
}

static compute_node seed_of(draw *d) {
  return typed(d, COMPUTE_I64, COMPUTE_SCALAR);
}

static compute_node or_none(draw *d, compute_node x) {
  return choose(d, 2) ? x : none;
}

/* A shape of arbitrary numbers. */
static compute_shape numbers(draw *d, int32_t rank) {
  compute_shape made = {.rank = choose(d, 20) ? rank : axis(d)};
  for (int32_t i = 0; i < COMPUTE_MAX_RANK; i++) made.size[i] = number(d);
  return made;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void fill(draw *d, int64_t *to, int count) {
  const bool alike = choose(d, 3) == 0;
  for (int i = 0; i < count; i++) to[i] = alike && i ? 0 : choose(d, 2) ? number(d) : 0;
}

static compute_conv2d_options conv_options(draw *d) {
  compute_conv2d_options o = {.groups = choose(d, 3) ? 0 : number(d)};
  fill(d, o.stride, 2);
  fill(d, o.dilation, 2);
  fill(d, o.padding, 2);
  if (choose(d, 3) == 0) fill(d, o.output_padding, 2);
  if (choose(d, 3) == 0) fill(d, o.padding_more, 2);
  return o;
}

static compute_conv3d_options volume_options(draw *d) {
  compute_conv3d_options o = {.groups = choose(d, 3) ? 0 : number(d)};
  fill(d, o.stride, 3);
  fill(d, o.dilation, 3);
  fill(d, o.padding, 3);
  if (choose(d, 3) == 0) fill(d, o.output_padding, 3);
  if (choose(d, 3) == 0) fill(d, o.padding_more, 3);
  return o;
}

static compute_pool2d_options pool_options(draw *d) {
  compute_pool2d_options o = {.ceil = choose(d, 2), .exclude_padding = choose(d, 3) == 0};
  o.size[0] = choose(d, 8) ? 1 + choose(d, 3) : number(d);
  o.size[1] = choose(d, 8) ? choose(d, 3) : number(d);
  fill(d, o.stride, 2);
  fill(d, o.dilation, 2);
  fill(d, o.padding, 2);
  if (choose(d, 3) == 0) fill(d, o.padding_more, 2);
  return o;
}

static compute_pool3d_options pool3_options(draw *d) {
  compute_pool3d_options o = {.ceil = choose(d, 2), .exclude_padding = choose(d, 3) == 0};
  for (int i = 0; i < 3; i++) o.size[i] = choose(d, 8) ? !i + choose(d, 3) : number(d);
  fill(d, o.stride, 3);
  fill(d, o.dilation, 3);
  fill(d, o.padding, 3);
  if (choose(d, 3) == 0) fill(d, o.padding_more, 3);
  return o;
}

/* Filters that fit an image of `channels`, in most calls. */
static compute_node filter(draw *d, int64_t channels, int32_t rank) {
  compute_shape s = shape(d, rank);
  if (choose(d, 8)) s.size[choose(d, 4) == 0] = channels;
  return typed(d, d->dtype, s);
}

static int64_t channels_of(const draw *d, compute_node x) {
  const compute_shape s = compute_node_shape(d->g, x);
  return s.rank > 1 ? s.size[1] : 1;
}

static compute_node draw_concat(draw *d) {
  const int32_t rank = choose(d, 4);
  const compute_node parts[2] = {operand(d, rank), operand(d, rank)};
  return compute_concat(d->g, parts, 1 + (size_t)choose(d, 2), axis(d));
}

static compute_node draw_conv2d(draw *d) {
  const compute_conv2d_options o = conv_options(d);
  const compute_node x = operand(d, 4), w = filter(d, channels_of(d, x), 4);
  return compute_conv2d(d->g, x, w, none, &o);
}

static compute_node draw_conv2d_transpose(draw *d) {
  const compute_conv2d_options o = conv_options(d);
  const compute_node x = operand(d, 4), w = filter(d, channels_of(d, x), 4);
  return compute_conv2d_transpose(d->g, x, w, none, &o);
}

static compute_node draw_conv2d_integer(draw *d) {
  const compute_conv2d_options o = conv_options(d);
  d->dtype = choose(d, 2) ? COMPUTE_I8 : COMPUTE_U8;
  const compute_node x = operand(d, 4), w = filter(d, channels_of(d, x), 4);
  return compute_conv2d_integer(d->g, x, w, none, none, &o);
}

static compute_node draw_conv3d(draw *d) {
  const compute_conv3d_options o = volume_options(d);
  const compute_node x = operand(d, 5), w = filter(d, channels_of(d, x), 5);
  return compute_conv3d(d->g, x, w, none, &o);
}

static compute_node draw_conv3d_transpose(draw *d) {
  const compute_conv3d_options o = volume_options(d);
  const compute_node x = operand(d, 5), w = filter(d, channels_of(d, x), 5);
  return compute_conv3d_transpose(d->g, x, w, none, &o);
}

static compute_node draw_pool2d(draw *d) {
  const compute_pool2d_options o = pool_options(d);
  const compute_node x = operand(d, 4);
  switch (choose(d, 3)) {
  case 0: return compute_max_pool2d(d->g, x, &o);
  case 1: return compute_argmax_pool2d(d->g, x, &o);
  default: return compute_average_pool2d(d->g, x, &o);
  }
}

static compute_node draw_pool3d(draw *d) {
  const compute_pool3d_options o = pool3_options(d);
  const compute_node x = operand(d, 5);
  switch (choose(d, 3)) {
  case 0: return compute_max_pool3d(d->g, x, &o);
  case 1: return compute_argmax_pool3d(d->g, x, &o);
  default: return compute_average_pool3d(d->g, x, &o);
  }
}

static compute_node draw_scaled_attention(draw *d) {
  const int32_t rank = 2 + choose(d, 3);
  const compute_attention_options o = {.scale = real(d), .causal = choose(d, 2)};
  const compute_node q = operand(d, rank), k = operand(d, rank);
  return compute_scaled_attention(d->g, q, k, choose(d, 2) ? k : operand(d, rank), &o);
}

static compute_node draw_recurrent(draw *d) {
  const int kind = choose(d, 3);
  const int64_t gates = kind == 0 ? 1 : kind == 1 ? 3 : 4, hidden = size(d), inputs = size(d);
  const compute_recurrent_options o = {
      .clip = real(d), .reverse = choose(d, 2), .reset_after = kind == 1 && choose(d, 2)};
  /* Some steps, or more than a gradient accepts: tens of thousands would only take long. */
  const int64_t steps = size(d), known = steps < 1000 || steps > 100000 ? steps : 1000;
  const compute_node x = typed(d, d->dtype, COMPUTE_SHAPE(known, size(d), inputs));
  if (hidden > INT32_MAX) return none;
  const compute_node w = typed(d, d->dtype, COMPUTE_SHAPE(inputs, gates * hidden));
  const compute_node r = typed(d, d->dtype, COMPUTE_SHAPE(hidden, gates * hidden));
  return kind == 0   ? compute_rnn(d->g, x, w, r, &o, NULL)
         : kind == 1 ? compute_gru(d->g, x, w, r, &o, NULL)
                     : compute_lstm(d->g, x, w, r, &o, NULL);
}

static compute_node draw_dequantize(draw *d) {
  const compute_quantized_options o = {.bits = choose(d, 4) ? 4 : axis(d), .block = number(d)};
  const compute_node packed = typed(d, COMPUTE_U8, shape(d, 2));
  return compute_dequantize(d->g, packed, operand(d, 2), none, number(d), &o);
}

static compute_node draw_quantized_matmul(draw *d) {
  const compute_quantized_options o = {.bits = choose(d, 4) ? 4 : axis(d), .block = number(d)};
  const compute_node packed = typed(d, COMPUTE_U8, shape(d, 2));
  return compute_quantized_matmul(d->g, any(d), packed, operand(d, 2), none, &o);
}

static compute_node draw_batch_norm(draw *d) {
  const compute_node x = any(d);
  const compute_node c = typed(d, d->dtype, COMPUTE_SHAPE(channels_of(d, x)));
  return compute_batch_norm(d->g, x, c, c, or_none(d, c), or_none(d, c), real(d));
}

static compute_node draw_find_spots(draw *d) {
  const compute_spot_options o = {.filter = (compute_spot_filter)choose(d, 4),
                                  .sigma = real(d),
                                  .threshold = real(d),
                                  .distance = axis(d),
                                  .limit = number(d)};
  return compute_find_spots(d->g, typed(d, COMPUTE_F32, shape(d, 3)), &o, NULL);
}

/* ---- Rows of operations.def ------------------------------------------------------------------ */

#define EXTREME(name, ...)                                                                         \
  static compute_node call_##name(draw *d) {                                                       \
    compute_graph *g = d->g;                                                                       \
    (void)g;                                                                                       \
    return __VA_ARGS__;                                                                            \
  }
#include "operations.def"

static const struct {
  const char *name;
  compute_node (*call)(draw *d);
} calls[] = {
#define EXTREME(name, ...) {#name, call_##name},
#include "operations.def"
};

enum { CALL_COUNT = sizeof calls / sizeof *calls };

/* ---- Outcomes of a call ---------------------------------------------------------------------- */

/* The numbers of calls that were refused, compiled, and run. */
typedef struct tally {
  long refused, compiled, run;
} tally;

static void complain(const draw *d, const char *what, const char *name, uint64_t seed) {
  char text[128];
  for (int i = 0; i < d->input_count; i++)
    print_error("operand %d: %s%s\n", i, compute_dtype_name(compute_node_dtype(d->g, d->inputs[i])),
                compute_shape_text(compute_node_shape(d->g, d->inputs[i]), text, sizeof text));
  fail_msg("call %" PRIu64 " (%s), %s: %s", seed, name, what, compute_error_message(test_context));
}

static char watched[96];

static void report_hang(int signal) {
  (void)signal;
  if (write(STDERR_FILENO, watched, strlen(watched)) < 0) _exit(2);
  _exit(1);
}

/* Ends the program with the call's name if it takes longer. 0 stops the watch. */
static void watch(const char *name, uint64_t seed, int seconds) {
  snprintf(watched, sizeof watched, "call %" PRIu64 " (%s) does not end\n", seed, name);
  signal(SIGPROF, report_hang);
  setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {.tv_sec = seconds}}, NULL);
}

static bool is_acceptable(compute_status status) {
  return status == COMPUTE_OK || status == COMPUTE_ERROR_OUT_OF_MEMORY ||
         status == COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY || status == COMPUTE_ERROR_INDEX ||
         status == COMPUTE_ERROR_OVERFLOW || status == COMPUTE_ERROR_UNSUPPORTED;
}

static uint64_t bytes_of(const draw *d, compute_node x) {
  int64_t count = 0;
  if (compute_shape_count(compute_node_shape(d->g, x), &count)) return UINT64_MAX;
  return (uint64_t)count * compute_dtype_size(compute_node_dtype(d->g, x));
}

static bool is_small(const draw *d, const compute_plan *plan, compute_node y) {
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  bool small = info.arena_bytes <= MOST_BYTES && info.flops <= MOST_FLOPS &&
               info.constant_bytes <= MOST_BYTES && bytes_of(d, y) <= MOST_BYTES &&
               info.bytes_read <= 8 * MOST_BYTES && info.bytes_written <= 8 * MOST_BYTES;
  for (int i = 0; i < d->input_count; i++) small = small && bytes_of(d, d->inputs[i]) <= MOST_BYTES;
  return small;
}

/* Operands are zeros. Operands that the plan does not read are omitted. */
static compute_status run(const draw *d, const compute_plan *plan, compute_node y) {
  compute_binding bindings[MOST_INPUTS + 1];
  compute_tensor *zeros = NULL;
  size_t count = 0;
  compute_status status = COMPUTE_OK;
  for (int i = 0; i <= d->input_count && !status; i++) {
    const compute_node node = i < d->input_count ? d->inputs[i] : y;
    compute_tensor *made;
    if (compute_plan_create_tensor(plan, node, &made)) continue;
    bindings[count++] = (compute_binding){node, made};
    status = compute_tensor_full(compute_tensor_device(made), compute_tensor_dtype(made),
                                 compute_tensor_shape(made), 0, &zeros);
    if (!status) status = compute_tensor_copy(made, zeros);
    compute_tensor_release(zeros);
  }
  if (!status) status = compute_run(plan, bindings, count, NULL);
  for (size_t i = 0; i < count; i++) compute_tensor_release(bindings[i].tensor);
  return status;
}

static void compile(const draw *d, compute_node y, const char *name, uint64_t seed, tally *t) {
  static const uint32_t flags[] = {0, 0, COMPUTE_PLAN_NO_SIMPLIFICATION, COMPUTE_PLAN_NO_FUSION};
  compute_plan *plan;
  const compute_plan_options options = {.flags = flags[seed % 4]};
  const compute_status status = compute_compile(d->g, &y, 1, &options, &plan);
  if (!is_acceptable(status)) complain(d, "compile", name, seed);
  if (status) return;
  t->compiled++;
  if (is_small(d, plan, y)) {
    const compute_status ran = run(d, plan, y);
    if (!is_acceptable(ran)) complain(d, "run", name, seed);
    t->run += !ran;
  }
  compute_plan_release(plan);
}

static void differentiate(const draw *d, compute_node y, const char *name, uint64_t seed,
                          tally *t) {
  const compute_node loss = compute_mean(d->g, compute_square(d->g, y), COMPUTE_ALL_AXES, false);
  compute_node gradients[MOST_INPUTS];
  const compute_status status =
      compute_graph_status(d->g)
          ? compute_graph_status(d->g)
          : compute_gradients(d->g, loss, d->inputs, (size_t)d->input_count, gradients);
  if (status == COMPUTE_ERROR_INTERNAL) complain(d, "gradient", name, seed);
  for (int i = 0; i < d->input_count && !status; i++) compile(d, gradients[i], name, seed, t);
}

static void check_call(uint64_t seed, tally *t) {
  static const compute_dtype dtypes[] = {COMPUTE_F32,  COMPUTE_F32, COMPUTE_F32, COMPUTE_F64,
                                         COMPUTE_F16,  COMPUTE_I32, COMPUTE_I64, COMPUTE_U8,
                                         COMPUTE_BF16, COMPUTE_BOOL};
  draw d = {.g = compute_graph_create(test_context), .random = {seed}};
  d.dtype = dtypes[choose(&d, 10)];
  const size_t which = (size_t)choose(&d, CALL_COUNT);
  assert_non_null(d.g);
  watch(calls[which].name, seed, SECONDS);
  const compute_node y = calls[which].call(&d);
  const compute_status status = compute_graph_status(d.g);
  if (status == COMPUTE_ERROR_INTERNAL) complain(&d, "builder", calls[which].name, seed);
  if (status || !compute_node_is_valid(y)) {
    t->refused++;
  } else {
    compile(&d, y, calls[which].name, seed, t);
    if (compute_node_dtype(d.g, y) == d.dtype) differentiate(&d, y, calls[which].name, seed, t);
  }
  watch("", 0, 0);
  compute_graph_release(d.g);
}

static uint64_t setting(const char *variable, uint64_t otherwise) {
  const char *text = getenv(variable);
  return text ? strtoull(text, NULL, 10) : otherwise;
}

static void senseless_calls_are_refused_or_work(void **state) {
  (void)state;
  const uint64_t day = test_seed() ? test_seed() : (uint64_t)time(NULL) / 86400;
  const uint64_t share = test_spread() == 1 ? CALLS : CALLS / (20 * test_spread());
  const uint64_t count = setting("COMPUTE_TEST_CALLS", share);
  const uint64_t only = setting("COMPUTE_TEST_CALL", 0);
  tally t = {0};
  if (only) check_call(only, &t);
  for (uint64_t i = 0; !only && i < count; i++) check_call(day * 1000003 + i, &t);
  print_message("%" PRIu64 " calls from seed %" PRIu64
                ": %ld refused, %ld plans compiled, %ld of them run\n",
                count, day * 1000003, t.refused, t.compiled, t.run);
  assert_true(only || (t.compiled > 0 && t.refused > 0 && t.run > 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(senseless_calls_are_refused_or_work),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
