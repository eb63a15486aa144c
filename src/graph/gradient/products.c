/* SPDX-License-Identifier: MIT */
/* Products with Jacobians and Hessians. Each is one or two backward walks.
 *
 * compute_jvp differentiates twice instead of having forward rules beside the backward ones. A
 * backward pass is linear in its weights v, so the value of v does not matter, and the derivative
 * by v is the product in the other direction. The nodes of the first walk that the result does not
 * read are not compiled. tests/plan/test_derivatives.c compares the cost with a forward pass
 * written by hand. */
#include "compute/derivatives.h"

#include "core/base/alloc.h"
#include "core/base/float_environment.h"
#include "core/type/shape.h"
#include "graph/gradient/products.h"

compute_status products_end(compute_graph *graph, compute_node *results, size_t count) {
  const compute_status status = compute_graph_status(graph);
  for (size_t i = 0; status && results && i < count; i++) results[i] = BUILD_NONE;
  return status;
}

bool products_check_lists(compute_graph *graph, const char *operation, const products_list *lists,
                          size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!lists[i].nodes && lists[i].count > 0)
      return graph_refuse(graph, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                          lists[i].name);
  return true;
}

bool products_check_loss(compute_graph *graph, const char *operation, compute_node loss,
                         uint32_t *index) {
  char text[BUILD_TEXT];
  if (!build_operands(graph, operation, &loss, 1, index)) return false;
  const graph_node *node = build_at(graph, *index);
  if (shape_count(node->shape) != 1)
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "the loss has shape %s; it must be one element",
                        compute_shape_text(node->shape, text, sizeof text));
  return gradient_check_nodes(graph, operation, "loss", &loss, 1, index);
}

/* True if factor i has the shape and dtype of node i. */
static bool check_factors(compute_graph *graph, const char *operation, const products_list *factors,
                          const char *of, const uint32_t *nodes) {
  char want[BUILD_TEXT], have[BUILD_TEXT];
  for (size_t i = 0; i < factors->count; i++) {
    uint32_t index;
    if (!build_operands(graph, operation, &factors->nodes[i], 1, &index)) return false;
    const graph_node *factor = build_at(graph, index), *node = build_at(graph, nodes[i]);
    if (factor->dtype == node->dtype && compute_shape_equal(factor->shape, node->shape)) continue;
    return graph_refuse(
        graph, factor->dtype == node->dtype ? COMPUTE_ERROR_SHAPE : COMPUTE_ERROR_DTYPE, operation,
        "%s[%zu] is %s %s; it must be %s %s, as %s[%zu]", factors->name, i,
        compute_dtype_name(factor->dtype), compute_shape_text(factor->shape, have, sizeof have),
        compute_dtype_name(node->dtype), compute_shape_text(node->shape, want, sizeof want), of, i);
  }
  return true;
}

/* Arrays of a call. */
typedef struct product {
  compute_graph *graph;
  const char *operation;
  size_t output_count, count;
  gradient_seed *seeds;    /* of the outputs; later of the derivatives of `of` */
  uint32_t *outputs, *of;  /* indices */
  compute_node *gradients; /* of `of` */
} product;

static bool product_start(product *p, compute_graph *graph, const char *operation,
                          size_t output_count, size_t count) {
  const size_t most = output_count > count ? output_count : count;
  *p = (product){
      .graph = graph, .operation = operation, .output_count = output_count, .count = count};
  p->seeds = base_allocate(most, sizeof *p->seeds);
  p->outputs = base_allocate(most, sizeof *p->outputs);
  p->of = base_allocate(count, sizeof *p->of);
  p->gradients = base_allocate(count, sizeof *p->gradients);
  if (p->seeds && p->outputs && p->of && p->gradients) return true;
  return graph_refuse(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for %zu nodes", most);
}

static void product_end(const product *p) {
  base_release(p->seeds);
  base_release(p->outputs);
  base_release(p->of);
  base_release(p->gradients);
}

bool products_free_weights(compute_graph *graph, const char *operation, gradient_seed *seeds,
                           size_t output_count, const uint32_t *of, size_t count,
                           compute_node *gradients) {
  for (size_t k = 0; k < output_count; k++) {
    const graph_node *output = build_at(graph, seeds[k].output);
    seeds[k].upstream = compute_full(graph, output->dtype, output->shape, 0);
  }
  if (graph->status) return false;
  gradient_record(graph, operation, seeds, output_count, of, count, gradients);
  return graph->status == COMPUTE_OK;
}

/* ---- Vector–Jacobian ------------------------------------------------------------------------- */

compute_status compute_vjp(compute_graph *graph, const compute_node *outputs,
                           const compute_node *weights, size_t output_count, const compute_node *of,
                           size_t count, compute_node *products) {
  static const char operation[] = "vjp";
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(graph, context);
  BUILD_ALL_OR_NOTHING(graph);
  const products_list lists[] = {{"outputs", outputs, output_count},
                                 {"weights", weights, output_count},
                                 {"of", of, count},
                                 {"products", products, count}};
  product p = {0};
  if (build_start(graph, operation) &&
      products_check_lists(graph, operation, lists, sizeof lists / sizeof *lists) &&
      product_start(&p, graph, operation, output_count, count)) {
    if (output_count == 0)
      graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "there are no outputs");
    else if (gradient_check_nodes(graph, operation, "outputs", outputs, output_count, p.outputs) &&
             gradient_check_nodes(graph, operation, "of", of, count, p.of) &&
             check_factors(graph, operation, &lists[1], "outputs", p.outputs)) {
      for (size_t k = 0; k < output_count; k++)
        p.seeds[k] = (gradient_seed){p.outputs[k], weights[k]};
      gradient_record(graph, operation, p.seeds, output_count, p.of, count, products);
    }
  }
  product_end(&p);
  return products_end(graph, products, count);
}

/* ---- Jacobian–vector ------------------------------------------------------------------------- */

/* The second walk: from the gradients of `of`, times the directions, to the weights. */
static void record_jvp(product *p, const compute_node *directions, compute_node *products) {
  for (size_t k = 0; k < p->output_count; k++)
    p->seeds[k] = (gradient_seed){.output = p->outputs[k]};
  if (!products_free_weights(p->graph, p->operation, p->seeds, p->output_count, p->of, p->count,
                             p->gradients))
    return;
  for (size_t k = 0; k < p->output_count; k++) p->outputs[k] = p->seeds[k].upstream.id - 1;
  for (size_t i = 0; i < p->count; i++)
    p->seeds[i] = (gradient_seed){p->gradients[i].id - 1, directions[i]};
  gradient_record(p->graph, p->operation, p->seeds, p->count, p->outputs, p->output_count,
                  products);
}

compute_status compute_jvp(compute_graph *graph, const compute_node *outputs, size_t output_count,
                           const compute_node *of, const compute_node *directions, size_t count,
                           compute_node *products) {
  static const char operation[] = "jvp";
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(graph, context);
  BUILD_ALL_OR_NOTHING(graph);
  const products_list lists[] = {{"outputs", outputs, output_count},
                                 {"of", of, count},
                                 {"directions", directions, count},
                                 {"products", products, output_count}};
  product p = {0};
  if (build_start(graph, operation) &&
      products_check_lists(graph, operation, lists, sizeof lists / sizeof *lists) &&
      product_start(&p, graph, operation, output_count, count)) {
    if (output_count == 0 || count == 0)
      graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "there are no %s",
                 count == 0 ? "nodes in `of`" : "outputs");
    else if (gradient_check_nodes(graph, operation, "outputs", outputs, output_count, p.outputs) &&
             gradient_check_nodes(graph, operation, "of", of, count, p.of) &&
             check_factors(graph, operation, &lists[2], "of", p.of))
      record_jvp(&p, directions, products);
  }
  product_end(&p);
  return products_end(graph, products, output_count);
}

/* ---- Hessian–vector -------------------------------------------------------------------------- */

compute_status compute_hvp(compute_graph *graph, compute_node loss, const compute_node *of,
                           const compute_node *directions, size_t count, compute_node *products) {
  static const char operation[] = "hvp";
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(graph, context);
  BUILD_ALL_OR_NOTHING(graph);
  const products_list lists[] = {
      {"of", of, count}, {"directions", directions, count}, {"products", products, count}};
  product p = {0};
  if (build_start(graph, operation) &&
      products_check_lists(graph, operation, lists, sizeof lists / sizeof *lists) &&
      product_start(&p, graph, operation, 1, count) &&
      products_check_loss(graph, operation, loss, p.outputs) &&
      gradient_check_nodes(graph, operation, "of", of, count, p.of) &&
      check_factors(graph, operation, &lists[1], "of", p.of)) {
    p.seeds[0] = (gradient_seed){.output = p.outputs[0]};
    gradient_record(graph, operation, p.seeds, 1, p.of, count, p.gradients);
    if (!graph->status) {
      for (size_t i = 0; i < count; i++)
        p.seeds[i] = (gradient_seed){p.gradients[i].id - 1, directions[i]};
      gradient_record(graph, operation, p.seeds, count, p.of, count, products);
    }
  }
  product_end(&p);
  return products_end(graph, products, count);
}
