/* SPDX-License-Identifier: MIT */
/* The tree of a model's stages (model.h). These functions take the locks that they need. While
 * one thread makes a stage, other threads can find existing ones. */
#ifndef MODEL_STAGE_H
#define MODEL_STAGE_H

#include "model/model.h"

/* The inputs of a run, in the order of the main graph's inputs. */
typedef struct stage_arguments {
  const compute_tensor *const *tensors; /* one or NULL for each; NULL for the next two kinds */
  const uint32_t *kinds;        /* COMPUTE_MODEL_…; _TEXT: the tensors have texts' numbers */
  const size_t *counts;         /* of a sequence or optional: its tensors in `items` … */
  compute_tensor *const *items; /* … one input behind the other */
  size_t item_count;
} stage_arguments;

/* Returns a run's first stage. `wanted` has a flag for each output. The stage is in use until stage_release. *found becomes
 * false if the stage was made now. */
compute_status stage_first(compute_model *model, const char *operation,
                           const stage_arguments *inputs, const bool *wanted, model_stage **result,
                           bool *found);

/* Returns the child of `parent` for the values that `parent` asks for, or for the outputs of its
 * host function. `parent` must be in use and stays in use. */
compute_status stage_next(compute_model *model, const char *operation, model_stage *parent,
                          const void *const *values, const host_tensor *made, const bool *wanted,
                          model_stage **result, bool *found);

void stage_release(compute_model *model, model_stage *stage);

/* Call before the model is recorded into a caller's graph. Evicts unused stages, because they
 * treat weights as constants that may be trained from now on. The caller holds model->recording. */
void stage_expose(compute_model *model);

/* Writes the tables of compute_explain for all stages into *text, which the caller owns. */
compute_status stage_explain(compute_model *model, const char *operation, char **text);

/* Frees all stages when the model is released. */
void stage_release_all(compute_model *model);

#endif
