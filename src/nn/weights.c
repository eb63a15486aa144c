/* The parameters of a network as a file of named tensors. A tensor that two layers share stands
 * there under both names, as in PyTorch's state_dict, and one of them is enough for reading. */
#include "base/alloc.h"
#include "base/error.h"
#include "compute/io.h"
#include "io/tensor_file.h"
#include "nn/layer.h"

static compute_status check_call(const compute_layer *layer, const char *path,
                                 const char *operation) {
  if (layer && path) return COMPUTE_OK;
  return error_set(layer ? layer->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                   "%s is NULL", layer ? "path" : "layer");
}

static compute_status no_memory(const compute_layer *layer, const char *operation) {
  return error_set(layer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                   "no memory for the list of parameters");
}

compute_status compute_layer_save(const compute_layer *layer, const char *path) {
  static const char operation[] = "compute_layer_save";
  compute_status status = check_call(layer, path, operation);
  if (status) return status;
  const size_t count = layer->all_count + layer->alias_count;
  compute_named_tensor *tensors = base_allocate(count, sizeof *tensors);
  if (!tensors) return no_memory(layer, operation);
  for (size_t i = 0; i < layer->all_count; i++)
    tensors[i] = (compute_named_tensor){layer->all[i].name, layer->all[i].tensor};
  for (size_t i = 0; i < layer->alias_count; i++)
    tensors[layer->all_count + i] =
        (compute_named_tensor){layer->aliases[i].name, layer->aliases[i].tensor};
  status = compute_tensor_file_write(layer->context, path, tensors, count);
  base_release(tensors);
  return status;
}

static compute_status load(const compute_layer *layer, restore *restoring) {
  restoring->count = layer->all_count + layer->alias_count;
  restoring->entries = base_allocate(restoring->count, sizeof *restoring->entries);
  if (!restoring->entries) return no_memory(layer, restoring->operation);
  for (size_t i = 0; i < restoring->count; i++) {
    const bool alias = i >= layer->all_count;
    const compute_layer_parameter *p =
        alias ? &layer->aliases[i - layer->all_count] : &layer->all[i];
    restoring->entries[i] = (restore_entry){.name = p->name, .tensor = p->tensor};
  }
  const compute_status status = restore_read(restoring);
  return status ? status : restore_put(restoring);
}

compute_status compute_layer_load(compute_layer *layer, const char *path, uint32_t flags) {
  static const char operation[] = "compute_layer_load";
  compute_status status = check_call(layer, path, operation);
  if (status) return status;
  if (flags & ~(uint32_t)(COMPUTE_WEIGHTS_ALLOW_MISSING | COMPUTE_WEIGHTS_ALLOW_EXTRA)) {
    return error_set(layer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "0x%x has flags that are not known", (unsigned)flags);
  }
  restore restoring = {
      .context = layer->context,
      .operation = operation,
      .path = path,
      .owner = "the layer",
      .missing_remedy = "COMPUTE_WEIGHTS_ALLOW_MISSING keeps what the file lacks",
      .extra_remedy = "COMPUTE_WEIGHTS_ALLOW_EXTRA ignores what the layer lacks",
      .allow_missing = (flags & COMPUTE_WEIGHTS_ALLOW_MISSING) != 0,
      .allow_extra = (flags & COMPUTE_WEIGHTS_ALLOW_EXTRA) != 0,
  };
  status = load(layer, &restoring);
  restore_close(&restoring);
  base_release(restoring.entries);
  return status;
}
