/* SPDX-License-Identifier: MIT */
#ifndef MODEL_HOST_H
#define MODEL_HOST_H

#include "model/record.h"

/* Context for host functions, which make their outputs through it. */
struct host_call {
  const compute_context *context;
  const model_call *call;
  const char *operation;
};

#endif
