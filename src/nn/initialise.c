/* SPDX-License-Identifier: MIT */
/* First values of weights.
 *
 * Element i of parameter number s is a function of only the seed, s and i: block (i, s, 0) of
 * Philox with the seed as key. All four words are used for one element, so that uniform numbers
 * have 53 bits before they round to the weight's dtype. The host computes them in double and
 * uploads them, so that every device starts from the same bits. */
#include <math.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/float_environment.h"
#include "nn/layer.h"
#include "type/dtype.h"
#include "base/random.h"

/* The distribution of elements: constant, normal or uniform. */
typedef enum draw_form { DRAW_CONSTANT, DRAW_UNIFORM, DRAW_NORMAL } draw_form;

typedef struct draw {
  draw_form form;
  double scale; /* the constant, half of the range, the standard deviation */
} draw;

bool layer_initializer_is_valid(compute_initializer initializer) {
  return (int)initializer >= COMPUTE_INIT_DEFAULT &&
         (int)initializer <= COMPUTE_INIT_KAIMING_NORMAL;
}

static draw draw_weight(const layer_parameter *p, compute_initializer initializer) {
  const double in = (double)p->fan_in, both = in + (double)p->fan_out;
  switch (initializer) {
  case COMPUTE_INIT_ZERO: return (draw){DRAW_CONSTANT, 0};
  case COMPUTE_INIT_XAVIER_UNIFORM: return (draw){DRAW_UNIFORM, sqrt(6 / both)};
  case COMPUTE_INIT_XAVIER_NORMAL: return (draw){DRAW_NORMAL, sqrt(2 / both)};
  case COMPUTE_INIT_KAIMING_UNIFORM: return (draw){DRAW_UNIFORM, sqrt(6 / in)};
  case COMPUTE_INIT_KAIMING_NORMAL: return (draw){DRAW_NORMAL, sqrt(2 / in)};
  default: break;
  }
  if (p->role == ROLE_EMBEDDING) return (draw){DRAW_NORMAL, 1};
  return (draw){DRAW_UNIFORM, 1 / sqrt(in)};
}

static draw choose(const layer_parameter *p, compute_initializer initializer) {
  switch (p->role) {
  case ROLE_ONE: return (draw){DRAW_CONSTANT, 1};
  case ROLE_BIAS:
    if (initializer == COMPUTE_INIT_DEFAULT) return draw_weight(p, initializer);
    return (draw){DRAW_CONSTANT, 0};
  case ROLE_WEIGHT:
  case ROLE_EMBEDDING: return draw_weight(p, initializer);
  default: return (draw){DRAW_CONSTANT, 0};
  }
}

/* In [0, 1), with 53 bits. */
static double unit(uint32_t low, uint32_t high) {
  return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

static double element(const draw *d, uint64_t seed, uint64_t index, uint32_t stream) {
  const uint32_t place[4] = {(uint32_t)index, (uint32_t)(index >> 32), stream, 0};
  uint32_t words[4];
  if (d->form == DRAW_CONSTANT) return d->scale;
  random_block(seed, place, words);
  const double u = unit(words[0], words[1]);
  if (d->form == DRAW_UNIFORM) return d->scale * (2 * u - 1);
  /* Box and Muller 1958; 1 − u is never 0. */
  return d->scale * sqrt(-2 * log(1 - u)) * cos(2 * M_PI * unit(words[2], words[3]));
}

static compute_status fill(const layer_parameter *p, const char *operation, const draw *d,
                           uint64_t seed, uint32_t stream) {
  const compute_dtype dtype = compute_tensor_dtype(p->tensor);
  const size_t size = compute_dtype_size(dtype);
  const size_t count = (size_t)compute_tensor_count(p->tensor);
  unsigned char *values = base_allocate(count, size);
  if (!values)
    return error_set(compute_device_context(compute_tensor_device(p->tensor)),
                     COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for %zu elements of \"%s\"", count, p->name);
  for (size_t i = 0; i < count; i++)
    dtype_store(dtype, values + i * size, element(d, seed, i, stream));
  const compute_status status = compute_tensor_write(p->tensor, values, count * size);
  base_release(values);
  return status;
}

compute_status layer_draw(const compute_layer *layer, const char *operation,
                          compute_initializer initializer, uint64_t seed, uint32_t *stream) {
  FLOAT_ENVIRONMENT_DEFAULT;
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < layer->own_count; i++, ++*stream) {
    const layer_parameter *p = &layer->own[i];
    if (p->role == ROLE_KEPT) continue;
    const draw d = choose(p, initializer);
    status = fill(p, operation, &d, seed, *stream);
  }
  for (size_t i = 0; !status && i < layer->part_count; i++)
    status = layer_draw(layer->parts[i], operation, initializer, seed, stream);
  return status;
}

compute_status compute_layer_initialize(compute_layer *layer, compute_initializer initializer,
                                        uint64_t seed) {
  REFUSE_INHERITED(layer, context);
  static const char operation[] = "compute_layer_initialize";
  uint32_t stream = 0;
  if (!layer) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "layer is NULL");
  if (!layer_initializer_is_valid(initializer))
    return error_set(layer->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "invalid initializer %d", (int)initializer);
  return layer_draw(layer, operation, initializer, seed, &stream);
}
