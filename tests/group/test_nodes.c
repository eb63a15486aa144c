/* SPDX-License-Identifier: MIT */
/* Collectives in graphs, with threads as ranks: values, gradients of the joint function of all
 * ranks, overlap with other steps, and runs that fail on one rank. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/loopback.h"
#include "support/harness/test.h"

#define MOST_VALUES 64

/* Runs a plan for one output; it must succeed. */
static void run_for(loopback_rank *self, const compute_plan *plan, compute_node in,
                    compute_tensor *x, compute_node out, double *values) {
  compute_tensor *y = NULL;
  RANK_CHECK(self, compute_plan_create_tensor(plan, out, &y) == COMPUTE_OK);
  RANK_CHECK(self,
             compute_run(plan, (compute_binding[]){{in, x}, {out, y}}, 2, NULL) == COMPUTE_OK);
  if (y) memcpy(values, compute_tensor_data(y), (size_t)compute_tensor_count(y) * sizeof *values);
  compute_tensor_release(y);
}

static compute_plan *compile(loopback_rank *self, compute_graph *graph, const compute_node *outputs,
                             size_t count) {
  compute_plan *plan = NULL;
  RANK_CHECK(self, compute_compile(graph, outputs, count, NULL, &plan) == COMPUTE_OK);
  return plan;
}

/* ---- Values -------------------------------------------------------------------------------- */

/* Element i of rank r's x. */
static double element(int32_t rank, int64_t i) {
  return (double)((i * 7 + rank * 5) % 11) - 4;
}

static double reduced(compute_group_reduction reduction, int32_t size, int64_t i) {
  double sum = 0, least = INFINITY, most = -INFINITY;
  for (int32_t r = 0; r < size; r++) {
    sum += element(r, i);
    least = fmin(least, element(r, i));
    most = fmax(most, element(r, i));
  }
  return reduction == COMPUTE_GROUP_SUM    ? sum
         : reduction == COMPUTE_GROUP_MEAN ? sum / size
         : reduction == COMPUTE_GROUP_MAX  ? most
                                           : least;
}

static void check_reductions(loopback_rank *self) {
  for (int reduction = COMPUTE_GROUP_SUM; reduction <= COMPUTE_GROUP_MIN; reduction++) {
    const int64_t n = 2 * self->size;
    double values[MOST_VALUES], seen[MOST_VALUES];
    for (int64_t i = 0; i < 3 * n; i++) values[i] = element(self->rank, i);
    compute_graph *graph = compute_graph_create(self->context);
    const compute_node in = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(3, n));
    const compute_node all =
        compute_all_reduce(graph, self->group, (compute_group_reduction)reduction, in);
    const compute_node part =
        compute_reduce_scatter(graph, self->group, (compute_group_reduction)reduction, in, 1);
    const compute_shape shape = compute_node_shape(graph, part);
    RANK_CHECK(self, shape.rank == 2 && shape.size[0] == 3 && shape.size[1] == 2);
    compute_plan *plan = compile(self, graph, (compute_node[]){all, part}, 2);
    compute_tensor *x = NULL, *y = NULL, *z = NULL;
    RANK_CHECK(self, compute_tensor_from_host(compute_default_device(self->context), COMPUTE_F64,
                                              COMPUTE_SHAPE(3, n), values, &x) == COMPUTE_OK);
    RANK_CHECK(self, compute_plan_create_tensor(plan, all, &y) == COMPUTE_OK);
    RANK_CHECK(self, compute_plan_create_tensor(plan, part, &z) == COMPUTE_OK);
    RANK_CHECK(self, compute_run(plan, (compute_binding[]){{in, x}, {all, y}, {part, z}}, 3,
                                 NULL) == COMPUTE_OK);
    RANK_CHECK(self, compute_tensor_read(y, seen, (size_t)(3 * n) * sizeof *seen) == COMPUTE_OK);
    for (int64_t i = 0; i < 3 * n; i++)
      RANK_CHECK(self, seen[i] == reduced((compute_group_reduction)reduction, self->size, i));
    RANK_CHECK(self, compute_tensor_read(z, seen, 6 * sizeof *seen) == COMPUTE_OK);
    for (int64_t i = 0; i < 6; i++)
      RANK_CHECK(self, seen[i] == reduced((compute_group_reduction)reduction, self->size,
                                          i / 2 * n + self->rank * 2 + i % 2));
    compute_tensor_release(x);
    compute_tensor_release(y);
    compute_tensor_release(z);
    compute_plan_release(plan);
    compute_graph_release(graph);
  }
}

static void check_gathering(loopback_rank *self) {
  for (int32_t axis = 0; axis < 3; axis++) {
    double values[12], seen[12 * LOOPBACK_MOST];
    for (int64_t i = 0; i < 12; i++) values[i] = element(self->rank, i);
    compute_graph *graph = compute_graph_create(self->context);
    const compute_node in = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(2, 3, 2));
    const compute_node all = compute_all_gather(graph, self->group, in, axis - 3);
    const compute_shape shape = compute_node_shape(graph, all);
    RANK_CHECK(self, shape.rank == 3 && shape.size[axis] == (axis == 1 ? 3 : 2) * self->size);
    compute_plan *plan = compile(self, graph, &all, 1);
    compute_tensor *x = NULL;
    RANK_CHECK(self, compute_tensor_from_host(compute_default_device(self->context), COMPUTE_F64,
                                              COMPUTE_SHAPE(2, 3, 2), values, &x) == COMPUTE_OK);
    run_for(self, plan, in, x, all, seen);
    int64_t at[3];
    for (int64_t i = 0; i < 12 * self->size; i++) {
      at[0] = i / (shape.size[1] * shape.size[2]);
      at[1] = i / shape.size[2] % shape.size[1];
      at[2] = i % shape.size[2];
      const int64_t own = axis == 1 ? 3 : 2;
      const int32_t rank = (int32_t)(at[axis] / own);
      at[axis] %= own;
      RANK_CHECK(self, seen[i] == element(rank, (at[0] * 3 + at[1]) * 2 + at[2]));
    }
    compute_tensor_release(x);
    compute_plan_release(plan);
    compute_graph_release(graph);
  }
}

static void check_values(loopback_rank *self) {
  check_reductions(self);
  check_gathering(self);
}

static void on_ranks(int32_t first, int32_t last, loopback_function function) {
  for (int32_t size = first; size <= last; size++)
    loopback_run(size, function, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

static void values_are_those_of_the_group(void **state) {
  (void)state;
  on_ranks(1, 4, check_values);
}

/* ---- Gradients ----------------------------------------------------------------------------- */

/* A loss of x [4, 12] with one collective. Weights make every element and rank count
 * differently. */
typedef compute_node loss_function(loopback_rank *self, compute_graph *graph, compute_node x);

static compute_node weighted(loopback_rank *self, compute_graph *graph, compute_node y) {
  const compute_shape shape = compute_node_shape(graph, y);
  const compute_node place = compute_add(graph, compute_index(graph, COMPUTE_F64, shape, 0),
                                         compute_index(graph, COMPUTE_F64, shape, 1));
  const compute_node weight =
      compute_cos(graph, compute_add(graph, place, compute_scalar(graph, COMPUTE_F64, self->rank)));
  const compute_node all = compute_mul(graph, compute_square(graph, y), weight);
  return compute_sum(graph, all, COMPUTE_ALL_AXES, false);
}

static compute_node loss_of_sum(loopback_rank *self, compute_graph *graph, compute_node x) {
  return weighted(self, graph, compute_all_reduce(graph, self->group, COMPUTE_GROUP_SUM, x));
}

static compute_node loss_of_mean(loopback_rank *self, compute_graph *graph, compute_node x) {
  const compute_node y = compute_sin(graph, x);
  return weighted(self, graph, compute_all_reduce(graph, self->group, COMPUTE_GROUP_MEAN, y));
}

static compute_node loss_of_max(loopback_rank *self, compute_graph *graph, compute_node x) {
  return weighted(self, graph, compute_all_reduce(graph, self->group, COMPUTE_GROUP_MAX, x));
}

static compute_node loss_of_gather(loopback_rank *self, compute_graph *graph, compute_node x) {
  return weighted(self, graph, compute_all_gather(graph, self->group, compute_sin(graph, x), 1));
}

static compute_node loss_of_scatter(loopback_rank *self, compute_graph *graph, compute_node x) {
  const compute_node y = compute_exp(graph, x);
  return weighted(self, graph,
                  compute_reduce_scatter(graph, self->group, COMPUTE_GROUP_MEAN, y, 1));
}

static compute_node loss_of_least(loopback_rank *self, compute_graph *graph, compute_node x) {
  return weighted(self, graph, compute_reduce_scatter(graph, self->group, COMPUTE_GROUP_MIN, x, 1));
}

/* Two collectives in sequence and one beside them, whose result is needed last. */
static compute_node loss_of_several(loopback_rank *self, compute_graph *graph, compute_node x) {
  const compute_node beside =
      compute_all_reduce(graph, self->group, COMPUTE_GROUP_SUM, compute_cos(graph, x));
  const compute_node one = compute_all_reduce(graph, self->group, COMPUTE_GROUP_SUM, x);
  const compute_node two =
      compute_all_reduce(graph, self->group, COMPUTE_GROUP_MEAN, compute_sin(graph, one));
  return weighted(self, graph, compute_mul(graph, two, beside));
}

static compute_node loss_of_batch_norm(loopback_rank *self, compute_graph *graph, compute_node x) {
  const compute_node gain = compute_slice(graph, x, 0, 0, 1, 1);
  const compute_node y = compute_batch_norm_synchronized(
      graph, self->group, x, compute_reshape(graph, gain, COMPUTE_SHAPE(-1)), (compute_node){0},
      1e-5, NULL, NULL, NULL);
  return weighted(self, graph, y);
}

/* The sum of all ranks' losses. */
static double whole_loss(loopback_rank *self, const compute_plan *plan, compute_node in,
                         compute_tensor *x, compute_node loss) {
  double own = 0, all = 0;
  run_for(self, plan, in, x, loss, &own);
  compute_tensor *sum = NULL;
  RANK_CHECK(self, compute_tensor_full(compute_default_device(self->context), COMPUTE_F64,
                                       COMPUTE_SCALAR, own, &sum) == COMPUTE_OK);
  RANK_CHECK(self, compute_group_all_reduce(self->group, COMPUTE_GROUP_SUM, sum, sum, NULL, NULL) ==
                       COMPUTE_OK);
  RANK_CHECK(self, compute_tensor_read(sum, &all, sizeof all) == COMPUTE_OK);
  compute_tensor_release(sum);
  return all;
}

static void check_gradient(loopback_rank *self) {
  enum { COUNT = 48 };
  const double step = 1e-5;
  double values[COUNT], found[COUNT];
  for (int i = 0; i < COUNT; i++)
    values[i] = 0.3 * sin(1.7 * i + 2.3 * self->rank) + 0.01 * i - 0.1 * self->rank;
  compute_graph *graph = compute_graph_create(self->context);
  const compute_node in = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(4, 12));
  loss_function *record = *(loss_function **)self->user;
  const compute_node loss = record(self, graph, in);
  compute_node gradient = {0};
  RANK_CHECK(self, compute_gradients(graph, loss, &in, 1, &gradient) == COMPUTE_OK);
  compute_plan *forward = compile(self, graph, &loss, 1);
  compute_plan *backward = compile(self, graph, &gradient, 1);
  compute_tensor *x = NULL;
  RANK_CHECK(self, compute_tensor_from_host(compute_default_device(self->context), COMPUTE_F64,
                                            COMPUTE_SHAPE(4, 12), values, &x) == COMPUTE_OK);
  run_for(self, backward, in, x, gradient, found);
  double *at = compute_tensor_data(x);
  for (int32_t r = 0; r < self->size; r++) {
    for (int i = 0; i < COUNT; i += 5) {
      if (r == self->rank) at[i] = values[i] + step;
      const double more = whole_loss(self, forward, in, x, loss);
      if (r == self->rank) at[i] = values[i] - step;
      const double less = whole_loss(self, forward, in, x, loss);
      at[i] = values[i];
      const double wanted = (more - less) / (2 * step);
      RANK_CHECK(self, r != self->rank || fabs(found[i] - wanted) < 1e-7 * (1 + fabs(wanted)));
    }
  }
  compute_tensor_release(x);
  compute_plan_release(forward);
  compute_plan_release(backward);
  compute_graph_release(graph);
}

static void gradients_are_those_of_all_losses_together(void **state) {
  (void)state;
  loss_function *losses[] = {loss_of_sum,     loss_of_mean,  loss_of_max,     loss_of_gather,
                             loss_of_scatter, loss_of_least, loss_of_several, loss_of_batch_norm};
  for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
    for (int32_t size = 1; size <= 4; size++)
      loopback_run(size, check_gradient, &losses[i], (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* Ranks with equal extremes share the gradient. */
static void share_an_extreme(loopback_rank *self) {
  double values[2] = {self->rank == 2 ? 1 : 3, self->rank}, found[2];
  compute_graph *graph = compute_graph_create(self->context);
  const compute_node in = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(2));
  const compute_node most = compute_all_reduce(graph, self->group, COMPUTE_GROUP_MAX, in);
  compute_node gradient = {0};
  RANK_CHECK(self, compute_gradients(graph, compute_sum(graph, most, COMPUTE_ALL_AXES, false), &in,
                                     1, &gradient) == COMPUTE_OK);
  compute_plan *plan = compile(self, graph, &gradient, 1);
  compute_tensor *x = NULL;
  RANK_CHECK(self, compute_tensor_from_host(compute_default_device(self->context), COMPUTE_F64,
                                            COMPUTE_SHAPE(2), values, &x) == COMPUTE_OK);
  run_for(self, plan, in, x, gradient, found);
  RANK_CHECK(self,
             found[0] == (self->rank == 2 ? 0 : 1.5) && found[1] == (self->rank == 2 ? 3 : 0));
  compute_tensor_release(x);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void equal_extremes_share_the_gradient(void **state) {
  (void)state;
  loopback_run(3, share_an_extreme, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* ---- Order --------------------------------------------------------------------------------- */

/* The position of a text in a plan's description; −1 if it is missing. */
static long place_of(const char *text, const char *part) {
  const char *at = strstr(text, part);
  return at ? (long)(at - text) : -1;
}

/* Two products overlap with a collective recorded between them, because they do not need its
 * result. */
static void overlap(loopback_rank *self) {
  compute_graph *graph = compute_graph_create(self->context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(64, 64));
  const compute_node a = compute_matmul(graph, x, x);
  const compute_node sum = compute_all_reduce(graph, self->group, COMPUTE_GROUP_SUM, a);
  const compute_node b = compute_matmul(graph, x, compute_exp(graph, x));
  const compute_node c = compute_softmax(graph, b, 1);
  const compute_node y = compute_matmul(graph, sum, c);
  compute_plan *plan = compile(self, graph, &y, 1);
  char *text = NULL;
  RANK_CHECK(self, compute_explain(plan, &text) == COMPUTE_OK);
  if (text && self->size > 1) {
    const long begins = place_of(text, "begin all_reduce"), between = place_of(text, "softmax");
    const char *after = begins >= 0 ? strstr(text + begins + 16, "all_reduce") : NULL;
    RANK_CHECK(self, begins >= 0 && after && begins < between && between < after - text);
  }
  if (text && self->size == 1) RANK_CHECK(self, !strstr(text, "all_reduce"));
  compute_text_free(text);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void independent_steps_run_before_the_wait(void **state) {
  (void)state;
  on_ranks(1, 2, overlap);
}

/* Many collectives in progress at once, in the order of recording, on ranks that are late. */
static void keep_order(loopback_rank *self) {
  enum { MANY = 20 };
  compute_graph *graph = compute_graph_create(self->context);
  const compute_node in = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(3));
  compute_node sum = {0};
  for (int i = 0; i < MANY; i++) {
    const compute_node part =
        compute_all_reduce(graph, self->group, COMPUTE_GROUP_SUM,
                           compute_mul(graph, in, compute_scalar(graph, COMPUTE_F64, i)));
    sum = i == 0 ? part : compute_add(graph, part, sum);
  }
  compute_plan *plan = compile(self, graph, &sum, 1);
  compute_tensor *x = NULL;
  RANK_CHECK(self, compute_tensor_full(compute_default_device(self->context), COMPUTE_F64,
                                       COMPUTE_SHAPE(3), self->rank + 1, &x) == COMPUTE_OK);
  for (int again = 0; again < 3; again++) {
    double seen[3];
    run_for(self, plan, in, x, sum, seen);
    RANK_CHECK(self, seen[1] == MANY * (MANY - 1) / 2 * (self->size * (self->size + 1) / 2));
  }
  compute_tensor_release(x);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void ranks_that_are_late_meet_in_the_same_order(void **state) {
  (void)state;
  loopback_rank ranks[LOOPBACK_MOST] = {{0}};
  for (int32_t r = 0; r < 3; r++) ranks[r].delays = 17 + (uint64_t)r;
  loopback_run(3, keep_order, NULL, ranks);
}

/* ---- Failures ------------------------------------------------------------------------------ */

/* On rank 1, a table is read at a wrong index between two collectives. */
static void fail_between(loopback_rank *self) {
  compute_device *cpu = compute_default_device(self->context);
  compute_graph *graph = compute_graph_create(self->context);
  const compute_node in = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(4));
  const compute_node at = compute_input(graph, COMPUTE_I64, COMPUTE_SHAPE(2));
  const compute_node first = compute_all_reduce(graph, self->group, COMPUTE_GROUP_SUM, in);
  const compute_node chosen = compute_gather(graph, first, at, 0);
  const compute_node second = compute_all_reduce(graph, self->group, COMPUTE_GROUP_SUM, chosen);
  const compute_node third = compute_all_reduce(graph, self->group, COMPUTE_GROUP_MAX, second);
  compute_plan *plan = compile(self, graph, &third, 1);
  compute_tensor *x = NULL, *index = NULL, *y = NULL;
  RANK_CHECK(self, compute_tensor_full(cpu, COMPUTE_F64, COMPUTE_SHAPE(4), 1, &x) == COMPUTE_OK);
  RANK_CHECK(self,
             compute_tensor_full(cpu, COMPUTE_I64, COMPUTE_SHAPE(2), 3, &index) == COMPUTE_OK);
  RANK_CHECK(self, compute_plan_create_tensor(plan, third, &y) == COMPUTE_OK);
  int64_t *wrong = compute_tensor_data(index);
  const compute_binding bindings[] = {{in, x}, {at, index}, {third, y}};
  for (int again = 0; again < 3; again++) {
    wrong[1] = self->rank == 1 ? 17 : 3;
    RANK_CHECK(self, compute_run(plan, bindings, 3, NULL) == COMPUTE_ERROR_INDEX);
    RANK_CHECK(self, loopback_says(self, self->rank == 1 ? "index 17" : "rank 1: "));
    wrong[1] = 3;
    RANK_CHECK(self, compute_run(plan, bindings, 3, NULL) == COMPUTE_OK);
    double seen[2] = {0};
    RANK_CHECK(self, compute_tensor_read(y, seen, sizeof seen) == COMPUTE_OK);
    RANK_CHECK(self, seen[1] == self->size * self->size);
    /* A run that does not start: an input is missing on the last rank. */
    const bool last = self->rank == self->size - 1;
    RANK_CHECK(self, compute_run(plan, bindings + (last ? 1 : 0), last ? 2 : 3, NULL) ==
                         COMPUTE_ERROR_BINDING);
  }
  RANK_CHECK(self, compute_group_barrier(self->group) == COMPUTE_OK);
  compute_tensor_release(x);
  compute_tensor_release(y);
  compute_tensor_release(index);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void what_fails_on_one_rank_fails_on_all(void **state) {
  (void)state;
  on_ranks(2, 4, fail_between);
}

/* The transport fails, or a rank falls silent: every run ends with the group's error. */
static void lose_the_group(loopback_rank *self) {
  if (!self->group) return;
  compute_graph *graph = compute_graph_create(self->context);
  const compute_node in = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(4));
  compute_node y = in;
  for (int i = 0; i < 4; i++) y = compute_all_reduce(graph, self->group, COMPUTE_GROUP_MEAN, y);
  compute_plan *plan = compile(self, graph, &y, 1);
  compute_tensor *x = NULL, *out = NULL;
  RANK_CHECK(self, compute_tensor_full(compute_default_device(self->context), COMPUTE_F64,
                                       COMPUTE_SHAPE(4), 1, &x) == COMPUTE_OK);
  RANK_CHECK(self, compute_plan_create_tensor(plan, y, &out) == COMPUTE_OK);
  compute_status status = COMPUTE_OK;
  for (int i = 0; i < 20 && !status; i++)
    status = compute_run(plan, (compute_binding[]){{in, x}, {y, out}}, 2, NULL);
  RANK_CHECK(self, status == COMPUTE_ERROR_TRANSFER || status == COMPUTE_ERROR_TIMEOUT);
  RANK_CHECK(self, compute_run(plan, (compute_binding[]){{in, x}, {y, out}}, 2, NULL) == status);
  compute_tensor_release(x);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void a_lost_group_fails_the_runs(void **state) {
  (void)state;
  for (int64_t at = 6; at < 26; at += 3) {
    loopback_rank ranks[LOOPBACK_MOST] = {{0}};
    for (int32_t r = 0; r < 3; r++) ranks[r].timeout = 0.3;
    if (at % 2)
      ranks[1].fail_at = at;
    else
      ranks[1].silent_at = at;
    loopback_run(3, lose_the_group, NULL, ranks);
  }
}

/* A graph outlives its group, but does not run without it. */
static void close_too_early(loopback_rank *self) {
  compute_graph *graph = compute_graph_create(self->context);
  const compute_node in = compute_input(graph, COMPUTE_F64, COMPUTE_SHAPE(4));
  const compute_node y = compute_all_reduce(graph, self->group, COMPUTE_GROUP_SUM, in);
  compute_plan *plan = compile(self, graph, &y, 1);
  compute_tensor *x = NULL, *out = NULL;
  RANK_CHECK(self, compute_tensor_full(compute_default_device(self->context), COMPUTE_F64,
                                       COMPUTE_SHAPE(4), 1, &x) == COMPUTE_OK);
  RANK_CHECK(self, compute_plan_create_tensor(plan, y, &out) == COMPUTE_OK);
  compute_group_close(self->group);
  self->group = NULL;
  RANK_CHECK(self, compute_run(plan, (compute_binding[]){{in, x}, {y, out}}, 2, NULL) ==
                       COMPUTE_ERROR_INVALID_STATE);
  RANK_CHECK(self, loopback_says(self, "the group is closed"));
  compute_tensor_release(x);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void a_closed_group_is_refused(void **state) {
  (void)state;
  loopback_run(2, close_too_early, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* ---- Arguments ----------------------------------------------------------------------------- */

static void refused(loopback_rank *self, compute_graph *graph, compute_node made,
                    compute_status status, const char *text) {
  RANK_CHECK(self, made.id == 0 && compute_graph_status(graph) == status);
  RANK_CHECK(self, loopback_says(self, text));
  compute_graph_clear_error(graph);
}

static void refuse(loopback_rank *self) {
  compute_process_group *group = self->group;
  compute_graph *graph = compute_graph_create(self->context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 4));
  const compute_node bits = compute_input(graph, COMPUTE_BOOL, COMPUTE_SHAPE(4));
  const compute_node whole = compute_input(graph, COMPUTE_I32, COMPUTE_SHAPE(4));
  refused(self, graph, compute_reduce_scatter(graph, group, COMPUTE_GROUP_SUM, x, 0),
          COMPUTE_ERROR_SHAPE, "axis 0 has 3 elements, which a group of 2 does not divide");
  refused(self, graph, compute_all_reduce(graph, group, COMPUTE_GROUP_SUM, bits),
          COMPUTE_ERROR_DTYPE, "all_reduce: a sum of bool");
  refused(self, graph, compute_all_reduce(graph, group, COMPUTE_GROUP_MEAN, whole),
          COMPUTE_ERROR_DTYPE, "a mean needs floats; the input is i32");
  refused(self, graph, compute_all_gather(graph, group, x, 2), COMPUTE_ERROR_SHAPE, "all_gather");
  refused(self, graph, compute_copy_to_group(graph, NULL, x), COMPUTE_ERROR_NULL_POINTER,
          "group is NULL");
  RANK_CHECK(self, compute_group_barrier(group) == COMPUTE_OK); /* nothing was sent */
  compute_graph_release(graph);
}

static void wrong_arguments_are_refused_while_building(void **state) {
  (void)state;
  loopback_run(2, refuse, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_those_of_the_group),
      cmocka_unit_test(gradients_are_those_of_all_losses_together),
      cmocka_unit_test(equal_extremes_share_the_gradient),
      cmocka_unit_test(independent_steps_run_before_the_wait),
      cmocka_unit_test(ranks_that_are_late_meet_in_the_same_order),
      cmocka_unit_test(what_fails_on_one_rank_fails_on_all),
      cmocka_unit_test(a_lost_group_fails_the_runs),
      cmocka_unit_test(a_closed_group_is_refused),
      cmocka_unit_test(wrong_arguments_are_refused_while_building),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
