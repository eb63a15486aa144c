/* SPDX-License-Identifier: MIT */
/** @file
 * Derivatives beyond the gradient of a loss (compute_gradients in graph.h): products with Jacobians
 * and Hessians, whole Jacobians, gradients of single samples, checkpoints.
 *
 * All functions are builders: they append nodes to a graph, which compile to a plan with the rest.
 * The results have derivatives themselves, to any order.
 *
 * - `of` are `count` float nodes, in any order, possibly repeated, of any float dtypes. Constants
 *   and outputs are allowed. With a count of 0 there is nothing to do.
 * - A result is zero where the outputs do not depend on of[i], or only through step functions.
 * - A scatter with COMPUTE_SCATTER_MUL has right first and second derivatives. Third ones leave out
 *   terms where several updates of one element are 0.
 * - On failure all results are {0}, and the graph keeps the error. Every function returns the
 *   graph's status. Beside the errors named below: COMPUTE_ERROR_NULL_POINTER, _WRONG_GRAPH,
 *   _DTYPE for integers and bool, _SHAPE, _NOT_DIFFERENTIABLE as compute_gradients, and
 *   _OUT_OF_MEMORY.
 * - As all builders: only for the thread that builds the graph. */
#ifndef COMPUTE_DERIVATIVES_H
#define COMPUTE_DERIVATIVES_H

#include "compute/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The most rows or columns of a Jacobian, and the most samples of compute_sample_gradients. */
#define COMPUTE_DERIVATIVES_MAX_PASSES 4096

/* ---- Products ------------------------------------------------------------------------------ */

/** Vector–Jacobian products: products[i] = Σ over k of weights[k]ᵀ · d outputs[k] / d of[i], with
 * of[i]'s shape and dtype. weights[k] has outputs[k]'s shape and dtype, and is constant for the
 * derivative. One backward pass for all outputs. compute_gradients is this with one output and the
 * weight 1. COMPUTE_ERROR_INVALID_ARGUMENT if `output_count` is 0. */
COMPUTE_API compute_status compute_vjp(compute_graph *graph, const compute_node *outputs,
                                       const compute_node *weights, size_t output_count,
                                       const compute_node *of, size_t count,
                                       compute_node *products);

/** Jacobian–vector products: products[k] = Σ over i of d outputs[k] / d of[i] · directions[i], with
 * outputs[k]'s shape and dtype. These are the derivatives of the outputs as `of` moves along the
 * directions (forward mode). directions[i] has of[i]'s shape and dtype.
 *
 * The vector–Jacobian product is linear in its weights, so its own derivative by the weights is the
 * Jacobian–vector product. A plan computes no part of the backward pass that this does not need.
 * COMPUTE_ERROR_INVALID_ARGUMENT if `output_count` or `count` is 0. */
COMPUTE_API compute_status compute_jvp(compute_graph *graph, const compute_node *outputs,
                                       size_t output_count, const compute_node *of,
                                       const compute_node *directions, size_t count,
                                       compute_node *products);

/** Hessian–vector products: products[i] = Σ over j of d² loss / (d of[i] d of[j]) · directions[j],
 * with of[i]'s shape and dtype. `loss` is a float of one element, directions[j] has of[j]'s shape
 * and dtype. The cost equals a few gradients, whatever the number of elements. */
COMPUTE_API compute_status compute_hvp(compute_graph *graph, compute_node loss,
                                       const compute_node *of, const compute_node *directions,
                                       size_t count, compute_node *products);

/* ---- Matrices ------------------------------------------------------------------------------ */

/** Jacobians: jacobians[i] = d output / d of[i], with output's axes followed by of[i]'s axes, at
 * most COMPUTE_MAX_RANK in all, and of[i]'s dtype.
 *
 * For each of[i] there is one pass for each element of `output`, or one for each element of of[i]
 * if there are fewer; COMPUTE_ERROR_UNSUPPORTED for more than COMPUTE_DERIVATIVES_MAX_PASSES. The
 * graph grows with each pass, so this is for small outputs or few variables. */
COMPUTE_API compute_status compute_jacobian(compute_graph *graph, compute_node output,
                                            const compute_node *of, size_t count,
                                            compute_node *jacobians);

/** The Hessian d² loss / (d of d of), with the axes of `of` twice. `loss` is a float of one
 * element. Limits as compute_jacobian. */
COMPUTE_API compute_status compute_hessian(compute_graph *graph, compute_node loss, compute_node of,
                                           compute_node *hessian);

/* ---- Samples ------------------------------------------------------------------------------- */

/** Records the loss of one sample, a float of one element. items[k] is the sample's part of
 * inputs[k], with the same axes and 1 as the first size. Called once for each sample, during
 * compute_sample_gradients. It must return (compute.h). */
typedef compute_node (*compute_sample_loss)(void *user, compute_graph *graph,
                                            const compute_node *items);

/** The gradient of every sample's own loss: gradients[i] has the axes [samples, of[i]'s axes…],
 * and *losses (may be NULL) is [samples].
 *
 * inputs[k] is [samples, …] with the same number of samples for all, 1 …
 * COMPUTE_DERIVATIVES_MAX_PASSES. All samples are in one plan, which has the network and its
 * backward pass once for each: its nodes and its time grow with the samples. COMPUTE_ERROR_INVALID_ARGUMENT if
 * there are no inputs; COMPUTE_ERROR_UNSUPPORTED for more samples; any error of `loss`.
 *
 * Where the network has batched forms only (matmul, elementwise operations, reductions), another
 * way gives larger kernels: broadcast each weight to [samples, …], use that in the network, and
 * pass the broadcast node to compute_gradients with the sum of the losses. */
COMPUTE_API compute_status compute_sample_gradients(compute_graph *graph, compute_sample_loss loss,
                                                    void *user, const compute_node *inputs,
                                                    size_t input_count, const compute_node *of,
                                                    size_t count, compute_node *losses,
                                                    compute_node *gradients);

/* ---- Memory -------------------------------------------------------------------------------- */

/** Makes x a checkpoint and returns x. Its value is kept for the backward pass; the values that x
 * is computed from are not. Derivatives that are recorded later compute that stretch again, back to
 * earlier checkpoints, inputs, parameters, constants and nodes that are given as `of`.
 *
 * - With n checkpoints in a network of n² layers, the memory for activations grows with n instead
 *   of n², for one more forward pass (Chen et al. 2016, arXiv 1604.06174).
 * - Do not mark the end of the network: the backward pass begins there.
 * - The results are the same bits, unless a plan fuses the repetition in another way.
 * - Random numbers are the same. Functions of the caller with side effects, or with several
 *   results, are not called again: their results are kept.
 *
 * {0} and the graph's error for an invalid node. */
COMPUTE_API compute_node compute_checkpoint(compute_graph *graph, compute_node x);

#ifdef __cplusplus
}
#endif
#endif
