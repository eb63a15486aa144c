/* SPDX-License-Identifier: MIT */
/* Computing a node at once, on the host, because all its inputs are known: shapes and what is
 * worked out from them. */
#ifndef MODEL_EVALUATE_H
#define MODEL_EVALUATE_H

#include "model/record.h"

/* Whether a call is of that kind: its inputs are known and small, none is a weight, and its result
 * is not random. */
bool evaluate_can(const model_call *call);

/* Has `rule` record the call in a graph of its own, runs that on the CPU, and sets the outputs to
 * what came out. *done is false if that cannot be: the rule wants another frame or a function of
 * the host, or the result is large. */
compute_status evaluate_now(model_call *call, model_rule rule, bool *done);

#endif
