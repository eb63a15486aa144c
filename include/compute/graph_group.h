/* SPDX-License-Identifier: MIT */
/** @file
 * Collectives as operations of a graph: computations that the ranks of a group share.
 * docs/guide/cluster.md is the guide.
 * @code
 *   compute_node sum = compute_all_reduce(graph, group, COMPUTE_GROUP_SUM, x);
 * @endcode
 * **Order.** All ranks record the same collectives in the same order, compile plans for the same
 * outputs, and run them in the same order, one at a time. In a run, a collective begins as soon as
 * its input exists, and is waited for where its result is needed; independent steps run in between.
 * Collectives of a plan begin in the order of recording, on every device. On devices other than the
 * CPU elements pass through host memory.
 *
 * **Gradients.** They are the gradients of the sum of all ranks' losses. compute_gradients is
 * called on every rank, and gives the gradient with respect to this rank's nodes. Where all ranks
 * compute the same loss from values that are the same on all of them, as in tensor parallelism,
 * that sum would count the loss once for each rank; compute_copy_to_group and
 * compute_reduce_from_group are for that case.
 *
 * **Failures.** If a run fails on one rank, its remaining collectives fail on the others with its
 * status and message, "rank 1: …"; the group stays usable. A failure after a rank's last collective
 * concerns that rank alone (compute_group_check). If a job is refused, or cancelled before it
 * begins, the others wait until their limit. Errors of the group itself fail the run. A run whose
 * collectives have begun is not repeated on the CPU.
 *
 * **Group.** In a group of one, every operation here but batch norm gives its input, and nothing is
 * sent. The group must be of the graph's context. The graph and its plans keep references to it,
 * but runs after compute_group_close are COMPUTE_ERROR_INVALID_STATE.
 *
 * **Errors** of all: COMPUTE_ERROR_NULL_POINTER, _WRONG_CONTEXT, _WRONG_GRAPH, _DTYPE, _SHAPE,
 * _OVERFLOW and _INVALID_ARGUMENT while the graph is built; nothing is sent then. Each run checks
 * whether ranks agree in kind, dtype and sizes. */
#ifndef COMPUTE_GRAPH_GROUP_H
#define COMPUTE_GRAPH_GROUP_H

#include "compute/distributed.h"
#include "compute/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The reduction of all ranks' x, on every rank; same shape everywhere. Sums are in the order of
 * the ranks. Gradients: sum and mean of sums and means; of an extreme, shared evenly by the ranks
 * that have it. */
COMPUTE_API compute_node compute_all_reduce(compute_graph *graph, compute_process_group *group,
                                            compute_group_reduction reduction, compute_node x);

/** All ranks' x, of the same shape, joined along `axis` in the order of the ranks. Gradient: each
 * rank's part of the sum over ranks. */
COMPUTE_API compute_node compute_all_gather(compute_graph *graph, compute_process_group *group,
                                            compute_node x, int32_t axis);

/** This rank's part, along `axis`, of the reduction of all ranks' x; the axis has a multiple of the
 * group's size. */
COMPUTE_API compute_node compute_reduce_scatter(compute_graph *graph, compute_process_group *group,
                                                compute_group_reduction reduction, compute_node x,
                                                int32_t axis);

/** x, which is the same on all ranks, for computations that they divide: the gradient with respect
 * to x is the sum of all ranks' gradients. Nothing is sent forward. */
COMPUTE_API compute_node compute_copy_to_group(compute_graph *graph, compute_process_group *group,
                                               compute_node x);

/** The sum of all ranks' x at the end of such a computation: a value, and a gradient, that is the
 * same on all ranks. The gradient passes unchanged; nothing is sent backward. */
COMPUTE_API compute_node compute_reduce_from_group(compute_graph *graph,
                                                   compute_process_group *group, compute_node x);

/** compute_batch_norm_training over the batch of all ranks, whose shares may have different sizes:
 * synchronised batch norm. x [n, channels, …]; gain and bias [channels], the same on all ranks, or
 * {0}. *mean and *variance (biased) are of the whole batch, *count [1] is the number of values of a
 * channel in it; all may be NULL. The gradients of gain and bias are this rank's parts, as for
 * other weights that all ranks have; their sum over the ranks is the gradient for the whole
 * batch. */
COMPUTE_API compute_node compute_batch_norm_synchronized(compute_graph *graph,
                                                         compute_process_group *group,
                                                         compute_node x, compute_node gain,
                                                         compute_node bias, double epsilon,
                                                         compute_node *mean, compute_node *variance,
                                                         compute_node *count);

#ifdef __cplusplus
}
#endif
#endif
