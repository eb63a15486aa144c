/* SPDX-License-Identifier: MIT */
/* Graphs whose values all have one square shape. Products meet views of products, reductions and
 * elementwise operations of both, in every order, as in covariances, Gram matrices and second
 * derivatives. Each graph is compared with the reference: planned, without fusion, and unoptimised.
 * Each compilation pass runs twice (tests/plan/passes_twice.c). COMPUTE_TEST_GRAPHS=20000 takes
 * that many random graphs instead of the default few; COMPUTE_TEST_SEED=N changes them. */
#include <stdlib.h>
#include <time.h>

#include "support/harness/operation.h"
#include "support/harness/test.h"
#include "support/samples/random_graph.h"

enum { GRAPHS = 500, STEPS = 24 };

/* ---- Joins of a product and a view of a product ---------------------------------------------- */

typedef compute_node binary(compute_graph *g, compute_node a, compute_node b);

typedef enum join_form {
  TURNED,       /* f(p, pT) */
  TURNED_FIRST, /* f(pT, p) */
  OTHER,        /* f(p, qT) */
  BOTH,         /* f(pT, q with its elements in another order) */
  BEHIND,       /* f(exp(p), exp(p)T) */
  FLAT,         /* f(p, p flattened, transposed, and restored) */
  SCALED,       /* f(2 pT, a row of q) */
  FORM_COUNT
} join_form;

typedef struct join {
  binary *f;
  join_form form;
} join;

static compute_node turned(compute_graph *g, compute_node x) {
  return compute_transpose(g, x, COMPUTE_ALL_AXES);
}

static compute_node flat(compute_graph *g, compute_node x) {
  const compute_shape shape = compute_node_shape(g, x);
  const compute_node wide = compute_reshape(g, x, COMPUTE_SHAPE(2, -1));
  return compute_reshape(g, turned(g, wide), shape);
}

static compute_node exp_of(compute_graph *g, compute_node x) {
  const bool is_float = compute_node_dtype(g, x) == COMPUTE_F64;
  return is_float ? compute_exp(g, x) : compute_square(g, x);
}

static compute_node build_join(compute_graph *g, const compute_node *o, const void *user) {
  const join *j = user;
  const compute_node p = compute_matmul(g, o[0], o[1]), q = compute_matmul(g, o[1], o[0]);
  const compute_dtype dtype = compute_node_dtype(g, p);
  switch (j->form) {
  case TURNED: return j->f(g, p, turned(g, p));
  case TURNED_FIRST: return j->f(g, turned(g, p), p);
  case OTHER: return j->f(g, p, turned(g, q));
  case BOTH: return j->f(g, turned(g, p), flat(g, q));
  case BEHIND: return j->f(g, exp_of(g, p), turned(g, exp_of(g, p)));
  case FLAT: return j->f(g, p, flat(g, p));
  default:
    return j->f(g, compute_mul(g, turned(g, p), compute_scalar(g, dtype, 2)),
                compute_slice(g, q, 0, 1, 1, 1));
  }
}

static void a_product_meets_views_of_products(void **state) {
  (void)state;
  static binary *const functions[] = {compute_add,     compute_sub,     compute_mul,
                                      compute_maximum, compute_minimum, compute_less};
  static const compute_dtype dtypes[] = {COMPUTE_F64, COMPUTE_F32, COMPUTE_I32, COMPUTE_I64,
                                         COMPUTE_U8};
  for (size_t d = 0; d < 5; d++)
    for (size_t f = 0; f < 6; f++)
      for (int form = 0; form < FORM_COUNT; form++) {
        const join request = {functions[f], (join_form)form};
        const bool exact = d >= 2;
        const operation_operand x = {dtypes[d], COMPUTE_SHAPE(4, 4), FILL_RANGE, exact ? 0 : -1,
                                     2,         LAYOUT_DENSE};
        const operation_case sample = {.name = "a join of products",
                                       .build = build_join,
                                       .user = &request,
                                       .operand = {x, x},
                                       .operand_count = 2,
                                       .tolerance = {.atol = exact ? 0
                                                             : d   ? 1e-4
                                                                   : 1e-12,
                                                     .rtol = exact ? 0
                                                             : d   ? 1e-4
                                                                   : 1e-12}};
        operation_check(test_context, &sample);
      }
  operation_finish();
}

/* ---- Random graphs --------------------------------------------------------------------------- */

static compute_node build_random(compute_graph *graph, const compute_node *operands,
                                 const void *user) {
  return random_graph_build(graph, operands, user);
}

/* The seed determines a graph: its dtype, its size, and the order of its derivative. */
static void draw(uint64_t seed, random_graph *request, compute_dtype *dtype) {
  static const compute_dtype dtypes[] = {COMPUTE_F64, COMPUTE_F64, COMPUTE_F64, COMPUTE_I32,
                                         COMPUTE_F64, COMPUTE_I64, COMPUTE_F32, COMPUTE_U8};
  test_random random = {seed};
  const int64_t size = test_random_integer(&random, 2, 4);
  *dtype = dtypes[test_random_integer(&random, 0, 7)];
  *request = (random_graph){.seed = seed, .steps = STEPS, .square = true};
  request->size[0] = test_random_integer(&random, 0, 1) ? 1 : size;
  request->size[1] = request->size[2] = size;
  request->derivatives = (int)test_random_integer(&random, 0, 2);
  if (request->derivatives == 2) request->steps = STEPS / 3;
  if (request->derivatives == 1) request->steps = STEPS / 2;
  if (*dtype == COMPUTE_F32) request->derivatives = 0; /* too inexact for a comparison */
}

static void check_seed(uint64_t seed) {
  random_graph request;
  compute_dtype dtype;
  char name[64];
  draw(seed, &request, &dtype);
  snprintf(name, sizeof name, "square graph %llu", (unsigned long long)seed);
  operation_case sample = {.name = name,
                           .build = build_random,
                           .user = &request,
                           .operand_count = RANDOM_GRAPH_OPERANDS};
  if (dtype == COMPUTE_F64) sample.tolerance = (test_tolerance){.atol = 1e-7, .rtol = 1e-7};
  if (dtype == COMPUTE_F32) sample.tolerance = (test_tolerance){.atol = 5e-2, .rtol = 1e-2};
  for (int i = 0; i < RANDOM_GRAPH_OPERANDS; i++)
    sample.operand[i] = (operation_operand){i == 3 ? COMPUTE_BOOL : dtype,
                                            random_graph_operand(request.size, i),
                                            FILL_RANGE,
                                            -3,
                                            3,
                                            (guarded_layout)((seed + (uint64_t)i) % LAYOUT_COUNT)};
  operation_check(test_context, &sample);
}

static uint64_t number(const char *variable, uint64_t otherwise) {
  const char *text = getenv(variable);
  return text ? strtoull(text, NULL, 10) : otherwise;
}

static void random_square_graphs_are_right(void **state) {
  (void)state;
  const uint64_t day = test_seed() ? test_seed() : (uint64_t)time(NULL) / 86400;
  /* A device that compiles takes only few graphs. */
  const uint64_t share = test_spread() == 1 ? GRAPHS : 1 + GRAPHS / (60 * test_spread());
  const uint64_t count = number("COMPUTE_TEST_GRAPHS", share);
  print_message("%llu graphs from seed %llu\n", (unsigned long long)count,
                (unsigned long long)day * 100003);
  for (uint64_t i = 0; i < count; i++) check_seed(day * 100003 + i);
  operation_finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_product_meets_views_of_products),
      cmocka_unit_test(random_square_graphs_are_right),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
