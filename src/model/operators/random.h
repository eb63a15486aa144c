/* SPDX-License-Identifier: MIT */
/* Rules of operators that draw random numbers: with a seed of the model's, or one that is always
 * the same, so that each run of a model gives the same. Nodes draw different numbers. */
#ifndef MODEL_OPERATORS_RANDOM_H
#define MODEL_OPERATORS_RANDOM_H

#include "model/record.h"

compute_status bernoulli_rule(model_call *call);
compute_status dropout_rule(model_call *call);
compute_status multinomial_rule(model_call *call);
compute_status random_normal_rule(model_call *call);
compute_status random_uniform_rule(model_call *call);

#endif
