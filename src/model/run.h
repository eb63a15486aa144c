/* SPDX-License-Identifier: MIT */
/* A run of a model: its tensors, and the values of ports that are not one tensor. */
#ifndef MODEL_RUN_H
#define MODEL_RUN_H

#include "model/loop.h"
#include "model/stage.h"

typedef struct model_run {
  compute_model *model;
  const compute_tensor **inputs; /* per input of the main graph, or NULL */
  uint32_t *kinds;               /* per input, as in stage_arguments */
  size_t *counts;                /* per input, as in stage_arguments */
  compute_tensor **items;        /* of sequences and optionals, in the order of the inputs */
  size_t item_count, item_capacity;
  compute_tensor **texts; /* numbers of texts at the inputs, which the run made */
  size_t text_count, text_capacity;
  text_list list; /* of texts at inputs and of functions of the host */
  compute_model_binding *outputs;
  compute_model_argument *arguments; /* the outputs of compute_model_run_items, or NULL */
  size_t output_count;
  size_t *places;         /* indices of the main graph's outputs in `outputs`; SIZE_MAX: not
                           * wanted */
  bool *wanted;           /* per output, like places */
  compute_tensor **made;  /* outputs that the run allocates */
  compute_tensor **table; /* by id */
  size_t table_count, table_capacity;
  run_ask *ask;   /* or NULL */
  bool all_found; /* no plan was compiled */
} model_run;

compute_status run_no_memory(const model_run *run);

/* Finds the input that an argument names, which no other may name. */
compute_status run_find_input(const model_run *run, const char *name, size_t *at);

/* Compares a tensor, or texts of a shape (dtype COMPUTE_DTYPE_NONE), with a port. */
compute_status run_check_input(const model_run *run, const onnx_value_info *port,
                               compute_dtype dtype, compute_shape shape);

/* COMPUTE_ERROR_BINDING if a required input is not bound. Other optionals become empty ones. */
compute_status run_check_bound(model_run *run);

/* ---- run_items.c --------------------------------------------------------------------------- */

compute_status run_bind_items(model_run *run, const compute_model_argument *inputs, size_t count);

/* COMPUTE_ERROR_UNSUPPORTED if an output of the ending stage needs compute_model_run_items. */
compute_status run_check_results(const model_run *run, const model_stage *stage);

/* Makes the items of the outputs after the last stage. */
compute_status run_take_items(model_run *run, const model_stage *stage);

#endif
