/* SPDX-License-Identifier: MIT */
/* Graphs with very many nodes compile, run and are explained in linear time on a small stack. The
 * only time limit ends a hang: work that grows with the square of the nodes would take minutes. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "support/harness/test.h"

enum {
  NODES = 100000,
  STACK_BYTES = 256 * 1024,
  HANG_SECONDS = 60 /* processor time of one thread, for all graphs together; normally six */
};

typedef struct large_graph {
  compute_graph *graph;
  compute_node *inputs, *outputs;
  compute_tensor **parameters;
  size_t input_count, output_count, parameter_count, room;
} large_graph;

static double seconds_used(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Graphs of about `nodes` nodes ----------------------------------------------------------- */

static compute_node add_input(large_graph *g, compute_shape shape) {
  return g->inputs[g->input_count++] = compute_input(g->graph, COMPUTE_F32, shape);
}

static compute_node add_parameter(large_graph *g, compute_shape shape) {
  compute_tensor *t = NULL;
  assert_ok(compute_tensor_full(compute_default_device(test_context), COMPUTE_F32, shape, 0.5, &t));
  g->parameters[g->parameter_count++] = t;
  return compute_parameter(g->graph, t);
}

static void add_output(large_graph *g, compute_node y) {
  g->outputs[g->output_count++] = y;
}

static compute_node total(large_graph *g, compute_node y) {
  return compute_mean(g->graph, y, (compute_axes){0}, false);
}

static compute_node sum_of_rows(large_graph *g, compute_node y) {
  return compute_sum(g->graph, y, COMPUTE_AXES(1), true);
}

static void alternating(large_graph *g, int nodes) {
  const compute_node x = add_input(g, COMPUTE_SHAPE(4, 4));
  compute_node y = x;
  for (int i = 0; i < nodes / 2; i++) y = compute_add(g->graph, sum_of_rows(g, y), x);
  add_output(g, y);
}

static void elementwise_chain(large_graph *g, int nodes) {
  const compute_node x = add_input(g, COMPUTE_SHAPE(4, 4));
  compute_node y = x;
  for (int i = 0; i < nodes; i++)
    y = i % 2 ? compute_tanh(g->graph, y) : compute_mul(g->graph, y, x);
  add_output(g, y);
}

static void chain_with_gradient(large_graph *g, int nodes) {
  const compute_node x = add_input(g, COMPUTE_SHAPE(4, 4));
  compute_node y = x, gradient;
  for (int i = 0; i < nodes / 8; i++)
    y = compute_tanh(g->graph, compute_add(g->graph, sum_of_rows(g, y), x));
  assert_ok(compute_gradients(g->graph, total(g, y), &x, 1, &gradient));
  add_output(g, gradient);
}

static void residual_net_with_gradient(large_graph *g, int nodes) {
  const compute_node x = add_input(g, COMPUTE_SHAPE(2, 4));
  const compute_node w = add_parameter(g, COMPUTE_SHAPE(4, 4));
  compute_node y = x, gradient;
  for (int i = 0; i < nodes / 10; i++)
    y = compute_add(g->graph, y, compute_tanh(g->graph, compute_matmul(g->graph, y, w)));
  assert_ok(compute_gradients(g->graph, total(g, y), &w, 1, &gradient));
  add_output(g, gradient);
}

static void wide_fan(large_graph *g, int nodes) {
  const compute_node x = add_input(g, COMPUTE_SHAPE(4, 4));
  compute_node *leaf = calloc((size_t)nodes, sizeof *leaf), y = x;
  assert_non_null(leaf);
  const int count = nodes / 4;
  for (int i = 0; i < count; i++)
    leaf[i] = compute_softmax(
        g->graph, compute_mul(g->graph, x, compute_scalar(g->graph, COMPUTE_F32, i % 7)), 1);
  for (int i = 0; i < count; i++)
    y = compute_add(g->graph, sum_of_rows(g, y), leaf[(int)((int64_t)i * 7919 % count)]);
  free(leaf);
  add_output(g, y);
}

static void diamonds(large_graph *g, int nodes) {
  const compute_node x = add_input(g, COMPUTE_SHAPE(4, 4));
  compute_node y = x;
  for (int i = 0; i < nodes / 4; i++)
    y = compute_mul(g->graph,
                    compute_add(g->graph, compute_softmax(g->graph, y, 1), sum_of_rows(g, y)), x);
  add_output(g, y);
}

static void many_parameters(large_graph *g, int nodes) {
  const int count = nodes / 8;
  compute_node *p = calloc((size_t)count, sizeof *p);
  compute_node y = add_input(g, COMPUTE_SHAPE(4));
  assert_non_null(p);
  for (int i = 0; i < count; i++) {
    p[i] = add_parameter(g, COMPUTE_SHAPE(4));
    y = compute_tanh(g->graph, compute_add(g->graph, y, p[i]));
  }
  const compute_node loss = total(g, y);
  add_output(g, loss);
  add_output(g, compute_sgd_step(g->graph, loss, p, (size_t)count, NULL));
  free(p);
}

static void lookups_and_updates(large_graph *g, int nodes) {
  const int count = nodes / 6;
  compute_node *update = calloc((size_t)count, sizeof *update);
  const int64_t where[2] = {1, 0};
  const compute_node at = compute_constant(g->graph, COMPUTE_I64, COMPUTE_SHAPE(2), where);
  assert_non_null(update);
  for (int i = 0; i < count; i++) {
    const compute_node p = add_parameter(g, COMPUTE_SHAPE(3, 2));
    const compute_node row =
        compute_mean(g->graph, compute_gather(g->graph, p, at, 0), COMPUTE_AXES(0), true);
    update[i] = compute_assign(g->graph, p, compute_sub(g->graph, p, row));
  }
  add_output(g, compute_group(g->graph, update, (size_t)count));
  free(update);
}

static void many_inputs(large_graph *g, int nodes) {
  compute_node y = add_input(g, COMPUTE_SHAPE(4));
  for (int i = 0; i < nodes / 2; i++) y = compute_add(g->graph, y, add_input(g, COMPUTE_SHAPE(4)));
  add_output(g, y);
}

static void many_outputs(large_graph *g, int nodes) {
  const compute_node x = add_input(g, COMPUTE_SHAPE(4, 4));
  compute_node y = x;
  for (int i = 0; i < nodes / 2; i++) {
    y = compute_add(g->graph, sum_of_rows(g, y), x);
    if (i % (nodes / 2000 + 1) == 0) add_output(g, y);
  }
}

static void one_concat(large_graph *g, int nodes) {
  const compute_node x = add_input(g, COMPUTE_SHAPE(1, 2));
  compute_node *part = calloc((size_t)nodes, sizeof *part);
  assert_non_null(part);
  for (int i = 0; i < nodes / 2; i++)
    part[i] = compute_mul(g->graph, x, compute_scalar(g->graph, COMPUTE_F32, i % 100));
  add_output(g, compute_concat(g->graph, part, (size_t)(nodes / 2), 0));
  free(part);
}

typedef struct graph_kind {
  const char *name;
  void (*build)(large_graph *g, int nodes);
} graph_kind;

static const graph_kind kinds[] = {
    {"reductions and maps", alternating},
    {"elementwise chain", elementwise_chain},
    {"chain with gradient", chain_with_gradient},
    {"residual net with gradient", residual_net_with_gradient},
    {"wide fan", wide_fan},
    {"diamonds", diamonds},
    {"many parameters, their updates", many_parameters},
    {"lookups and updates", lookups_and_updates},
    {"many inputs", many_inputs},
    {"many outputs", many_outputs},
    {"one concat", one_concat},
};

enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

/* ---- One graph ------------------------------------------------------------------------------- */

static large_graph create(const graph_kind *kind, int nodes) {
  large_graph g = {.graph = compute_graph_create(test_context), .room = (size_t)nodes + 8};
  g.inputs = calloc(g.room, sizeof *g.inputs);
  g.outputs = calloc(g.room, sizeof *g.outputs);
  g.parameters = calloc(g.room, sizeof *g.parameters);
  assert_true(g.graph && g.inputs && g.outputs && g.parameters);
  kind->build(&g, nodes);
  assert_ok(compute_graph_status(g.graph));
  return g;
}

static void release(large_graph *g) {
  compute_graph_release(g->graph);
  for (size_t i = 0; i < g->parameter_count; i++) compute_tensor_release(g->parameters[i]);
  free(g->inputs);
  free(g->outputs);
  free(g->parameters);
}

static void run(const large_graph *g, const compute_plan *plan) {
  const size_t most = g->input_count + g->output_count;
  compute_binding *b = calloc(most, sizeof *b);
  size_t count = 0;
  assert_non_null(b);
  for (size_t i = 0; i < most; i++) {
    const bool input = i < g->input_count;
    b[count].node = input ? g->inputs[i] : g->outputs[i - g->input_count];
    if (compute_node_dtype(g->graph, b[count].node) == COMPUTE_DTYPE_NONE) continue; /* a group */
    if (input)
      assert_ok(compute_tensor_full(compute_default_device(test_context), COMPUTE_F32,
                                    compute_node_shape(g->graph, b[count].node), 0.25,
                                    &b[count].tensor));
    else
      assert_ok(compute_plan_create_tensor(plan, b[count].node, &b[count].tensor));
    count++;
  }
  for (int i = 0; i < 2; i++) assert_ok(compute_run(plan, b, count, NULL));
  for (size_t i = 0; i < count; i++) compute_tensor_release(b[i].tensor);
  free(b);
}

static double measure(const graph_kind *kind, int nodes, uint32_t flags) {
  const double begin = seconds_used();
  large_graph g = create(kind, nodes);
  compute_plan *plan = test_compile(g.graph, g.outputs, g.output_count, flags);
  char *text = NULL;
  run(&g, plan);
  assert_ok(compute_explain(plan, &text));
  compute_text_free(text);
  compute_plan_release(plan);
  release(&g);
  return seconds_used() - begin;
}

/* ---- The tests ------------------------------------------------------------------------------- */

static void measure_all(uint32_t flags) {
  const int nodes = test_samples() > 1 ? NODES / 10 : NODES; /* fewer under sanitizers */
  double used = 0;
  for (int i = 0; i < KIND_COUNT; i++) {
    const double tenth = measure(&kinds[i], nodes / 10, flags);
    const double whole = measure(&kinds[i], nodes, flags);
    print_message("%-32s %6d nodes %6.0f ms, %4.1f times that of a tenth\n", kinds[i].name, nodes,
                  whole * 1e3, whole / tenth);
    used += tenth + whole;
    if (used > HANG_SECONDS)
      fail_msg("graphs of %d nodes took %.0f s of processor time so far: as good as a hang", nodes,
               used);
  }
}

static void *measure_fused(void *unused) {
  measure_all(0);
  return unused;
}

static void *measure_as_written(void *unused) {
  measure_all(COMPUTE_PLAN_NO_FUSION | COMPUTE_PLAN_NO_SIMPLIFICATION);
  return unused;
}

static void on_a_small_stack(void *(*body)(void *)) {
  pthread_attr_t attributes;
  pthread_t thread;
  assert_int_equal(pthread_attr_init(&attributes), 0);
  assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
  assert_int_equal(pthread_create(&thread, &attributes, body, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  pthread_attr_destroy(&attributes);
}

static void large_graphs_take_their_time_and_no_more(void **state) {
  (void)state;
  on_a_small_stack(measure_fused);
}

static void so_do_they_as_written(void **state) {
  (void)state;
  on_a_small_stack(measure_as_written);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_graphs_take_their_time_and_no_more),
      cmocka_unit_test(so_do_they_as_written),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
