/* SPDX-License-Identifier: MIT */
/* The layer object: create, name, list and free. */
#include "ml/nn/layer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "core/type/dtype.h"
#include "core/tensor/tensor.h"

static compute_status no_memory(const compute_context *context, const char *operation) {
  return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                   "not enough memory for a layer");
}

/* ---- Making -------------------------------------------------------------------------------- */

compute_layer *layer_create(const layer_kind *kind, const char *operation,
                            compute_context *context) {
  compute_layer *layer = base_allocate(1, sizeof *layer);
  if (!layer) {
    no_memory(context, operation);
    return NULL;
  }
  layer->kind = kind;
  layer->context = context;
  return layer;
}

/* Makes room for one more parameter and returns its address in *place. */
static compute_status grow(compute_layer *layer, const char *operation, const char *name,
                           layer_parameter **place) {
  void *own = layer->own;
  if (base_grow(&own, &layer->own_capacity, layer->own_count + 1, sizeof *layer->own))
    return no_memory(layer->context, operation);
  layer->own = own;
  char *copy = base_duplicate(name);
  if (!copy) return no_memory(layer->context, operation);
  *place = &layer->own[layer->own_count++];
  **place = (layer_parameter){.name = copy, .trainable = true};
  return COMPUTE_OK;
}

compute_status layer_add(compute_layer *layer, const char *operation, compute_device *device,
                         const layer_wish *wish) {
  layer_parameter *place = NULL;
  compute_status status = grow(layer, operation, wish->name, &place);
  if (status) return status;
  place->role = wish->role;
  place->fan_in = wish->fan_in;
  place->fan_out = wish->fan_out;
  place->trainable = !wish->fixed;
  /* The tensor is private: a memory scope of the caller must not release a layer's weights. */
  return tensor_create_private(device, wish->dtype, wish->shape, &place->tensor);
}

compute_status layer_adopt(compute_layer *layer, const char *operation, const char *name,
                           compute_tensor *tensor) {
  layer_parameter *place = NULL;
  compute_status status = grow(layer, operation, name, &place);
  if (status) return status;
  place->role = ROLE_KEPT;
  place->tensor = compute_tensor_retain(tensor);
  return COMPUTE_OK;
}

static bool is_listed(const compute_layer *layer, const compute_tensor *tensor) {
  for (size_t i = 0; i < layer->all_count; i++)
    if (layer->all[i].tensor == tensor) return true;
  return false;
}

/* "part.weight", or "weight" for a parameter of the layer itself. */
static bool add_entry(compute_layer *layer, const char *part, const compute_layer_parameter *from) {
  text_buffer text = {0};
  text_add(&text, "%s%s%s", part ? part : "", part ? "." : "", from->name);
  if (text.failed) {
    text_release(&text);
    return false;
  }
  compute_layer_parameter *entry = is_listed(layer, from->tensor)
                                       ? &layer->aliases[layer->alias_count++]
                                       : &layer->all[layer->all_count++];
  *entry = *from;
  entry->name = text.data;
  return true;
}

static bool add_part(compute_layer *layer, const char *name, const compute_layer *part) {
  bool added = true;
  for (size_t i = 0; added && i < part->all_count; i++)
    added = add_entry(layer, name, &part->all[i]);
  for (size_t i = 0; added && i < part->alias_count; i++)
    added = add_entry(layer, name, &part->aliases[i]);
  return added;
}

compute_status layer_list(compute_layer *layer, const char *operation) {
  size_t count = layer->own_count;
  for (size_t i = 0; i < layer->part_count; i++)
    count += layer->parts[i]->all_count + layer->parts[i]->alias_count;
  if (count == 0) return COMPUTE_OK;
  layer->all = base_allocate(count, sizeof *layer->all);
  layer->aliases = base_allocate(count, sizeof *layer->aliases);
  bool added = layer->all && layer->aliases;
  for (size_t i = 0; added && i < layer->own_count; i++) {
    const layer_parameter *own = &layer->own[i];
    const compute_layer_parameter entry = {own->name, own->tensor, own->trainable};
    added = add_entry(layer, NULL, &entry);
  }
  for (size_t i = 0; added && i < layer->part_count; i++)
    added = add_part(layer, layer->part_names[i], layer->parts[i]);
  return added ? COMPUTE_OK : no_memory(layer->context, operation);
}

compute_layer *layer_finish(compute_layer *layer, const char *operation, compute_status status,
                            compute_initializer initializer, uint64_t seed) {
  uint32_t stream = 0;
  if (!status) status = layer_list(layer, operation);
  if (!status) status = layer_draw(layer, operation, initializer, seed, &stream);
  if (!status) return layer;
  compute_layer_release(layer);
  return NULL;
}

/* ---- Checks -------------------------------------------------------------------------------- */

compute_status layer_check_device(compute_device *device, const char *operation) {
  if (device) return COMPUTE_OK;
  return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "device is NULL");
}

compute_status layer_check_size(compute_context *context, const char *operation, const char *name,
                                int64_t value) {
  if (value >= 1) return COMPUTE_OK;
  return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                   "%s is %" PRId64 "; it must be at least 1", name, value);
}

compute_status layer_check_float(compute_context *context, const char *operation,
                                 compute_dtype *dtype) {
  if (*dtype == COMPUTE_DTYPE_NONE) *dtype = COMPUTE_F32;
  if (dtype_is_float(*dtype)) return COMPUTE_OK;
  return error_set(context, COMPUTE_ERROR_DTYPE, operation,
                   "weights cannot be %s; they must be f64, f32, f16 or bf16",
                   compute_dtype_name(*dtype));
}

compute_status layer_check_weights(compute_context *context, const char *operation,
                                   const char *what, const compute_weights_options *given,
                                   compute_weights_options *options) {
  *options = given ? *given : (compute_weights_options){0};
  const compute_status reserved = error_if_reserved(context, operation, what, options->reserved);
  if (reserved) return reserved;
  if (!layer_initializer_is_valid(options->initializer))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "invalid initializer %d",
                     (int)options->initializer);
  return layer_check_float(context, operation, &options->dtype);
}

/* ---- Names --------------------------------------------------------------------------------- */

compute_layer *compute_layer_name(compute_layer *layer, const char *name) {
  if (IS_INHERITED(layer, context)) return NULL;
  static const char operation[] = "compute_layer_name";
  if (!layer) return NULL; /* the constructor's error is kept */
  if (layer->owner) {
    error_set_native(layer->context, COMPUTE_ERROR_INVALID_STATE, 0, operation,
                     "name a part before adding it to a composition",
                     "the %s layer already belongs to a composition", layer->kind->name);
    return NULL;
  }
  compute_status status = COMPUTE_OK;
  char *copy = NULL;
  if (!name) {
    status = error_set(layer->context, COMPUTE_ERROR_NULL_POINTER, operation, "name is NULL");
  } else if (*name == '\0' || strchr(name, '.')) {
    status =
        error_set(layer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                  "\"%s\" is not a valid name; names have at least one character and no dot", name);
  } else if ((copy = base_duplicate(name)) == NULL) {
    status = no_memory(layer->context, operation);
  }
  if (status) { /* like any other constructor that fails while owning parts */
    compute_layer_release(layer);
    return NULL;
  }
  base_release(layer->name);
  layer->name = copy;
  return layer;
}

/* ---- Freeing ------------------------------------------------------------------------------- */

static void destroy(compute_layer *layer) {
  for (size_t i = 0; i < layer->part_count; i++) {
    if (layer->parts[i] && layer->parts[i]->owner == layer) destroy(layer->parts[i]);
  }
  layer_forget_plan(layer);
  for (size_t i = 0; i < layer->all_count; i++) base_release((void *)layer->all[i].name);
  for (size_t i = 0; i < layer->alias_count; i++) base_release((void *)layer->aliases[i].name);
  for (size_t i = 0; i < layer->own_count; i++) {
    base_release(layer->own[i].name);
    compute_tensor_release(layer->own[i].tensor);
  }
  base_release(layer->own_kind);
  base_release(layer->all);
  base_release(layer->aliases);
  base_release(layer->own);
  base_release(layer->parts);
  base_release(layer->part_names);
  base_release(layer->part_numbers);
  base_release(layer->name);
  base_release(layer);
}

void compute_layer_release(compute_layer *layer) {
  if (IS_INHERITED(layer, context)) return;
  static const char operation[] = "compute_layer_release";
  if (!layer) return;
  if (layer->owner) { /* its composition would be left with a dangling part */
    error_set(layer->context, COMPUTE_ERROR_INVALID_STATE, operation,
              "the %s layer is part of a composition, which frees it", layer->kind->name);
    return;
  }
  destroy(layer);
}
