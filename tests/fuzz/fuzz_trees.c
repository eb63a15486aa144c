/* SPDX-License-Identifier: MIT */
/* Trees of XGBoost and LightGBM: a model that is loaded is recorded or refused. */
#include "compute/compute.h"
#include "fuzz.h"

static compute_context *context;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  FUZZ_CHECK(compute_open(&context, &(compute_open_options){
                                        .backends = "null", .device = "null", .threads = 1}) == 0);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  compute_tree_model *model;
  compute_tree_model_info info;
  const compute_status status = compute_tree_model_load_memory(context, data, size, &model);
  FUZZ_CHECK((status == COMPUTE_OK) == (model != NULL));
  if (!model) return 0;
  FUZZ_CHECK(compute_tree_model_describe(model, &info) == COMPUTE_OK);
  compute_graph *graph = compute_graph_create(context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(1, info.features));
  compute_tree_model_record(graph, x, model, size % 2 == 0);
  compute_graph_release(graph);
  compute_tree_model_release(model);
  return 0;
}
