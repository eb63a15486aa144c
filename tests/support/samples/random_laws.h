/* SPDX-License-Identifier: MIT */
/* Distributions with parameters: their random numbers, and their distribution functions. */
#ifndef SUPPORT_SAMPLES_RANDOM_LAWS_H
#define SUPPORT_SAMPLES_RANDOM_LAWS_H

#include "compute/random.h"

typedef enum family {
  UNIFORM,
  NORMAL,
  TRUNCATED,
  EXPONENTIAL,
  GUMBEL,
  GAMMA,
  BETA,
  POISSON,
  BINOMIAL,
  INTEGERS,
  BERNOULLI,
  CATEGORICAL,
  PERMUTATION,
  CHOICE,
  FAMILIES
} family;

typedef struct law {
  family kind;
  double a, b;
} law;

enum { LAW_CLASSES = 5 };

/* Of CATEGORICAL. */
extern const double law_logit[LAW_CLASSES];

const char *law_name(const law *w);
bool law_is_discrete(const law *w);

/* `count` numbers; of PERMUTATION and CHOICE, one order. */
compute_node law_build(compute_graph *g, const law *w, int64_t count, compute_node seed,
                       uint32_t stream);

/* The distribution function at x; of discrete numbers the probability of at most x. Of orders, the
 * distribution of order_of in operations/test_random_laws.c. */
double law_below(const law *w, double x);

#endif
