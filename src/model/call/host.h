/* SPDX-License-Identifier: MIT */
#ifndef MODEL_HOST_H
#define MODEL_HOST_H

#include "model/record.h"

/* What a function of the host makes its outputs with. */
struct host_call {
  const compute_context *context;
  const model_call *call;
  const char *operation;
};

#endif
