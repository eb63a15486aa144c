/* SPDX-License-Identifier: MIT */
/* The tree of a model's stages (model.h). The calls take the locks that they need: while one thread
 * makes a stage, others find those that are there. */
#ifndef MODEL_STAGE_H
#define MODEL_STAGE_H

#include "model/model.h"

/* The stage with which a run begins: `inputs` has a tensor or NULL for each input of the main
 * graph, `wanted` is about its outputs. It is in use until stage_leave. *found becomes false if it
 * had to be made. */
compute_status stage_first(compute_model *model, const char *operation,
                           const compute_tensor *const *inputs, const bool *wanted,
                           model_stage **result, bool *found);

/* The one that follows `parent`, which is in use and stays so: for the values that it asks for, or
 * for what its function of the host has made. */
compute_status stage_next(compute_model *model, const char *operation, model_stage *parent,
                          const void *const *values, const host_tensor *made, const bool *wanted,
                          model_stage **result, bool *found);

void stage_leave(compute_model *model, model_stage *stage);

/* Before the model is recorded into a graph of the caller's: gives up the stages that are not in
 * use, which took for constants what may be trained from now on. model->recording is held. */
void stage_expose(compute_model *model);

/* The tables of compute_explain for all stages, in *text, which becomes the caller's. */
compute_status stage_explain(compute_model *model, const char *operation, char **text);

/* Gives up all stages, when the model is released. */
void stage_release_all(compute_model *model);

#endif
