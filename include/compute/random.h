/* SPDX-License-Identifier: MIT */
/** @file
 * Random numbers of distributions, beside compute_random_uniform (compute/graph.h).
 *
 * An element depends on only the seed, the stream, its row-major position and its parameters: not
 * on the device, the number of threads, or earlier calls. Results have the same bits on every
 * device. Devices without f64 leave them to the CPU. Only logits and parameters that other
 * operations have computed may differ between devices.
 *
 * `seed` is an i64 scalar. Each use of a seed needs its own `stream`: functions with the same seed
 * and stream use the same uniform numbers. Parameters have a float dtype and broadcast to `shape`;
 * they are used in f64. Where a parameter is NaN or out of range, the element is NaN. An integer
 * dtype has −1 there, or 0 if it is unsigned.
 *
 * Functions named compute_tensor_… run at once, on the device of `seed` (compute/eager.h). Builders
 * follow the rules of compute/graph.h. COMPUTE_ERROR_DTYPE for a dtype or parameter of the wrong
 * kind, COMPUTE_ERROR_SHAPE for a parameter that does not broadcast to `shape`. Not for secrets. */
#ifndef COMPUTE_RANDOM_H
#define COMPUTE_RANDOM_H

#include "compute/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Continuous distributions: any float dtype ------------------------------------------------- */

/** Normal with mean 0 and deviation 1. Other numbers are mean + deviation · x, with gradients. */
COMPUTE_API compute_node compute_random_normal(compute_graph *graph, compute_dtype dtype,
                                               compute_shape shape, compute_node seed,
                                               uint32_t stream);

/** Normal with mean 0 and deviation 1, given that it is in low … high. Limits may be infinite.
 * Gradients reach both limits (the number's quantile is fixed). NaN unless low ≤ high. */
COMPUTE_API compute_node compute_random_truncated_normal(compute_graph *graph, compute_node low,
                                                         compute_node high, compute_dtype dtype,
                                                         compute_shape shape, compute_node seed,
                                                         uint32_t stream);

/** Exponential with mean 1, greater than 0 in f64. Divide by a rate for others. */
COMPUTE_API compute_node compute_random_exponential(compute_graph *graph, compute_dtype dtype,
                                                    compute_shape shape, compute_node seed,
                                                    uint32_t stream);

/** Gumbel with location 0 and scale 1: −log of an exponential number. */
COMPUTE_API compute_node compute_random_gumbel(compute_graph *graph, compute_dtype dtype,
                                               compute_shape shape, compute_node seed,
                                               uint32_t stream);

/** Gamma with shape parameter `concentration` ≥ 0 and scale 1 (Marsaglia and Tsang, 2000). With a
 * concentration of 0.001, half of the numbers are 0, because they are below the smallest f64.
 * The gradient for the concentration keeps the number's quantile (Figurnov, Mohamed and Mnih,
 * "Implicit reparameterization gradients", 2018). Its relative error is below 1e-9. A second
 * derivative for it fails with COMPUTE_ERROR_NOT_DIFFERENTIABLE. */
COMPUTE_API compute_node compute_random_gamma(compute_graph *graph, compute_node concentration,
                                              compute_dtype dtype, compute_shape shape,
                                              compute_node seed, uint32_t stream);

/** Beta with parameters a > 0 and b > 0, finite: x / (x + y) of two gamma numbers. Gradients for a
 * and b are the gradients of x and y, so they keep the quantiles of x and y. */
COMPUTE_API compute_node compute_random_beta(compute_graph *graph, compute_node a, compute_node b,
                                             compute_dtype dtype, compute_shape shape,
                                             compute_node seed, uint32_t stream);

/* ---- Discrete distributions: any number dtype -------------------------------------------------- */

/** Whole numbers low, low + 1, …, high − 1 in an integer dtype. Their probabilities differ by less
 * than 2^-40 of their value. COMPUTE_ERROR_INVALID_ARGUMENT unless low < high, high − low ≤ 2^53, and `dtype` holds them. */
COMPUTE_API compute_node compute_random_integers(compute_graph *graph, int64_t low, int64_t high,
                                                 compute_dtype dtype, compute_shape shape,
                                                 compute_node seed, uint32_t stream);

/** True with this probability, as bool. Never for a probability ≤ 0 or NaN, always from 1 on. */
COMPUTE_API compute_node compute_random_bernoulli(compute_graph *graph, compute_node probability,
                                                  compute_shape shape, compute_node seed,
                                                  uint32_t stream);

/** Poisson with a mean in 0 … 2^52. Gradients do not pass through discrete numbers. */
COMPUTE_API compute_node compute_random_poisson(compute_graph *graph, compute_node mean,
                                                compute_dtype dtype, compute_shape shape,
                                                compute_node seed, uint32_t stream);

/** The number of successes in `trials`, a whole number in 0 … 2^52, with `probability` each. */
COMPUTE_API compute_node compute_random_binomial(compute_graph *graph, compute_node trials,
                                                 compute_node probability, compute_dtype dtype,
                                                 compute_shape shape, compute_node seed,
                                                 uint32_t stream);

/** Classes 0 … n − 1 as i64, with probabilities softmax(logits): logits [..., n], whose leading
 * axes broadcast to `shape`. The class has the largest sum of logit and Gumbel number. −∞ excludes
 * a class. −1 where a logit is NaN or ∞, or all are −∞. Needs memory for n numbers of each element.
 * COMPUTE_ERROR_SHAPE for n = 0. */
COMPUTE_API compute_node compute_random_categorical(compute_graph *graph, compute_node logits,
                                                    compute_shape shape, compute_node seed,
                                                    uint32_t stream);

/** 0 … count − 1 in random order, i64 [count]. Needs memory of 8 · count bytes beside the result. */
COMPUTE_API compute_node compute_random_permutation(compute_graph *graph, int64_t count,
                                                    compute_node seed, uint32_t stream);

/** `chosen` different numbers of 0 … count − 1 in random order, i64 [chosen]: the first ones of
 * compute_random_permutation. Needs memory of 8 · count bytes for up to 64 numbers, of 16 · count
 * bytes for more. COMPUTE_ERROR_INVALID_ARGUMENT unless 0 ≤ chosen ≤ count. */
COMPUTE_API compute_node compute_random_choice(compute_graph *graph, int64_t count, int64_t chosen,
                                               compute_node seed, uint32_t stream);

/* ---- At once ----------------------------------------------------------------------------------- */

COMPUTE_API compute_status compute_tensor_random_normal(const compute_tensor *seed,
                                                        compute_dtype dtype, compute_shape shape,
                                                        uint32_t stream, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_random_truncated_normal(
    const compute_tensor *seed, const compute_tensor *low, const compute_tensor *high,
    compute_dtype dtype, compute_shape shape, uint32_t stream, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_random_exponential(const compute_tensor *seed,
                                                             compute_dtype dtype,
                                                             compute_shape shape, uint32_t stream,
                                                             compute_tensor **result);
COMPUTE_API compute_status compute_tensor_random_gumbel(const compute_tensor *seed,
                                                        compute_dtype dtype, compute_shape shape,
                                                        uint32_t stream, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_random_gamma(const compute_tensor *seed,
                                                       const compute_tensor *concentration,
                                                       compute_dtype dtype, compute_shape shape,
                                                       uint32_t stream, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_random_beta(const compute_tensor *seed,
                                                      const compute_tensor *a,
                                                      const compute_tensor *b, compute_dtype dtype,
                                                      compute_shape shape, uint32_t stream,
                                                      compute_tensor **result);
COMPUTE_API compute_status compute_tensor_random_integers(const compute_tensor *seed, int64_t low,
                                                          int64_t high, compute_dtype dtype,
                                                          compute_shape shape, uint32_t stream,
                                                          compute_tensor **result);
COMPUTE_API compute_status compute_tensor_random_bernoulli(const compute_tensor *seed,
                                                           const compute_tensor *probability,
                                                           compute_shape shape, uint32_t stream,
                                                           compute_tensor **result);
COMPUTE_API compute_status compute_tensor_random_poisson(const compute_tensor *seed,
                                                         const compute_tensor *mean,
                                                         compute_dtype dtype, compute_shape shape,
                                                         uint32_t stream, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_random_binomial(const compute_tensor *seed,
                                                          const compute_tensor *trials,
                                                          const compute_tensor *probability,
                                                          compute_dtype dtype, compute_shape shape,
                                                          uint32_t stream, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_random_categorical(const compute_tensor *seed,
                                                             const compute_tensor *logits,
                                                             compute_shape shape, uint32_t stream,
                                                             compute_tensor **result);
COMPUTE_API compute_status compute_tensor_random_permutation(const compute_tensor *seed,
                                                             int64_t count, uint32_t stream,
                                                             compute_tensor **result);
COMPUTE_API compute_status compute_tensor_random_choice(const compute_tensor *seed, int64_t count,
                                                        int64_t chosen, uint32_t stream,
                                                        compute_tensor **result);

#ifdef __cplusplus
}
#endif

#endif
