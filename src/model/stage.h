/* SPDX-License-Identifier: MIT */
/* The tree of a model's stages (model.h). The model's lock is held during all calls. */
#ifndef MODEL_STAGE_H
#define MODEL_STAGE_H

#include "model/model.h"

/* The stage with which a run begins: `inputs` has a tensor or NULL for each input of the main
 * graph, `wanted` is about its outputs. It is in use until stage_leave. */
compute_status stage_first(compute_model *model, const char *operation,
                           const compute_tensor *const *inputs, const bool *wanted,
                           model_stage **result);

/* The one that follows `parent`, which is in use and stays so: for the values that it asks for, or
 * for what its function of the host has made. */
compute_status stage_next(compute_model *model, const char *operation, model_stage *parent,
                          const void *const *values, const host_tensor *made, const bool *wanted,
                          model_stage **result);

void stage_leave(model_stage *stage);

/* Gives up all stages that are not in use. */
void stage_forget(compute_model *model);

/* The tables of compute_explain for all stages, in *text, which becomes the caller's. Takes the
 * lock itself. */
compute_status stage_explain(compute_model *model, const char *operation, char **text);

/* Gives up all stages, when the model is released. */
void stage_release_all(compute_model *model);

#endif
