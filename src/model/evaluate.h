/* SPDX-License-Identifier: MIT */
/* Constant folding on the host: computes a node at once if all its inputs are known, such as
 * shapes and values derived from them. */
#ifndef MODEL_EVALUATE_H
#define MODEL_EVALUATE_H

#include "model/record.h"

/* Returns true if a call can be evaluated: its inputs are known and small, none is a weight, and
 * its result is not random. */
bool evaluate_can(const model_call *call);

/* Lets `rule` record the call in a separate graph, runs that graph on the CPU, and sets the
 * outputs to the results. *done is false if this is impossible: the rule needs another frame or
 * a host function, or the result is large. */
compute_status evaluate_now(model_call *call, model_rule rule, bool *done);

#endif
