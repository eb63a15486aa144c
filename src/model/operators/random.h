/* SPDX-License-Identifier: MIT */
/* Rules of random operators. They use the node's `seed` attribute, or the run's seed. Each node
 * draws different numbers. */
#ifndef MODEL_OPERATORS_RANDOM_H
#define MODEL_OPERATORS_RANDOM_H

#include "model/record.h"

compute_status bernoulli_rule(model_call *call);
compute_status dropout_rule(model_call *call);
compute_status multinomial_rule(model_call *call);
compute_status random_normal_rule(model_call *call);
compute_status random_uniform_rule(model_call *call);

#endif
