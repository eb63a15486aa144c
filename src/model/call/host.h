/* SPDX-License-Identifier: MIT */
#ifndef MODEL_HOST_H
#define MODEL_HOST_H

#include "model/call/text.h"
#include "model/record.h"

/* Context for host functions, which make their outputs through it. */
struct host_call {
  const compute_context *context;
  const model_call *call;
  const char *operation;
  compute_device *device; /* its memory takes the outputs if the CPU reaches it; or NULL */
  compute_model *model;
  text_list *texts;    /* of the run; NULL: the function has none */
  struct run_ask *ask; /* or NULL */
};

/* Gives the output's memory back, unless a tensor was taken from it. */
void host_release(host_tensor *output);

#endif
