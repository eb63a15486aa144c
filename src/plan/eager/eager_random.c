/* SPDX-License-Identifier: MIT */
/* Random numbers of distributions at once. The seed is the first operand. */
#include "compute/random.h"
#include "plan/eager/eager.h"

#define STANDARD(name)                                                                             \
  EAGER_BUILD(name, compute_##name(graph, call->dtype, call->shape, x[0], call->stream))           \
  compute_status compute_tensor_##name(const compute_tensor *seed, compute_dtype dtype,            \
                                       compute_shape shape, uint32_t stream,                       \
                                       compute_tensor **result) {                                  \
    return EAGER_CALL(name, EAGER_OPERANDS(seed), .dtype = dtype, .shape = shape,                  \
                      .stream = stream);                                                           \
  }
STANDARD(random_normal)
STANDARD(random_exponential)
STANDARD(random_gumbel)

#define OF_ONE(name)                                                                               \
  EAGER_BUILD(name, compute_##name(graph, x[1], call->dtype, call->shape, x[0], call->stream))     \
  compute_status compute_tensor_##name(const compute_tensor *seed, const compute_tensor *a,        \
                                       compute_dtype dtype, compute_shape shape, uint32_t stream,  \
                                       compute_tensor **result) {                                  \
    return EAGER_CALL(name, EAGER_OPERANDS(seed, a), .dtype = dtype, .shape = shape,               \
                      .stream = stream);                                                           \
  }
OF_ONE(random_gamma)
OF_ONE(random_poisson)

#define OF_TWO(name)                                                                               \
  EAGER_BUILD(name,                                                                                \
              compute_##name(graph, x[1], x[2], call->dtype, call->shape, x[0], call->stream))     \
  compute_status compute_tensor_##name(                                                            \
      const compute_tensor *seed, const compute_tensor *a, const compute_tensor *b,                \
      compute_dtype dtype, compute_shape shape, uint32_t stream, compute_tensor **result) {        \
    return EAGER_CALL(name, EAGER_OPERANDS(seed, a, b), .dtype = dtype, .shape = shape,            \
                      .stream = stream);                                                           \
  }
OF_TWO(random_beta)
OF_TWO(random_binomial)
OF_TWO(random_truncated_normal)

EAGER_BUILD(random_integers, compute_random_integers(graph, call->integer[0], call->integer[1],
                                                     call->dtype, call->shape, x[0], call->stream))

compute_status compute_tensor_random_integers(const compute_tensor *seed, int64_t low, int64_t high,
                                              compute_dtype dtype, compute_shape shape,
                                              uint32_t stream, compute_tensor **result) {
  return EAGER_CALL(random_integers, EAGER_OPERANDS(seed), .integer = {low, high}, .dtype = dtype,
                    .shape = shape, .stream = stream);
}

#define OF_SHAPE(name)                                                                             \
  EAGER_BUILD(name, compute_##name(graph, x[1], call->shape, x[0], call->stream))                  \
  compute_status compute_tensor_##name(const compute_tensor *seed, const compute_tensor *of,       \
                                       compute_shape shape, uint32_t stream,                       \
                                       compute_tensor **result) {                                  \
    return EAGER_CALL(name, EAGER_OPERANDS(seed, of), .shape = shape, .stream = stream);           \
  }
OF_SHAPE(random_bernoulli)
OF_SHAPE(random_categorical)

EAGER_BUILD(random_permutation,
            compute_random_permutation(graph, call->integer[0], x[0], call->stream))

compute_status compute_tensor_random_permutation(const compute_tensor *seed, int64_t count,
                                                 uint32_t stream, compute_tensor **result) {
  return EAGER_CALL(random_permutation, EAGER_OPERANDS(seed), .integer = {count}, .stream = stream);
}

EAGER_BUILD(random_choice,
            compute_random_choice(graph, call->integer[0], call->integer[1], x[0], call->stream))

compute_status compute_tensor_random_choice(const compute_tensor *seed, int64_t count,
                                            int64_t chosen, uint32_t stream,
                                            compute_tensor **result) {
  return EAGER_CALL(random_choice, EAGER_OPERANDS(seed), .integer = {count, chosen},
                    .stream = stream);
}
