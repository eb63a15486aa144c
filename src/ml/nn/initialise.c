/* SPDX-License-Identifier: MIT */
/* Initial values of weights.
 *
 * Element i of parameter number s has the numbers of compute_random_uniform and
 * compute_random_normal at place i, for this seed and the stream s. The host computes the values in
 * double and uploads them, so a device without f64 starts from the same bits. */
#include <math.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/random.h"
#include "core/base/thread_pool.h"
#include "core/device/device.h"
#include "core/kernel/common/draw.h"
#include "core/type/dtype.h"
#include "ml/nn/layer.h"

/* The distribution of elements: constant, normal or uniform. */
typedef enum draw_form { DRAW_CONSTANT, DRAW_UNIFORM, DRAW_NORMAL } draw_form;

typedef struct draw {
  draw_form form;
  double scale; /* the constant, half the range, or the standard deviation */
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

/* A part of a piece stays in the cache. */
enum { PART = 512 };

static void draw_part(const draw *d, uint64_t seed, uint32_t stream, uint64_t first, size_t count,
                      double *values) {
  for (size_t i = 0; i < count; i++) {
    const double u = random_f64(seed, first + i, stream);
    values[i] = d->scale *
                (d->form == DRAW_UNIFORM ? 2 * u - 1 : draw_number(COMPUTE_I_DRAW_NORMAL, u, 0, 0));
  }
}

static void store(compute_dtype dtype, const double *values, size_t count, unsigned char *to) {
  const size_t size = compute_dtype_size(dtype);
  if (dtype == COMPUTE_F32) {
    float *numbers = (float *)(void *)to;
    for (size_t i = 0; i < count; i++) numbers[i] = (float)values[i];
  } else {
    for (size_t i = 0; i < count; i++) dtype_store(dtype, to + i * size, values[i]);
  }
}

/* Threads share a tensor in pieces. A piece is drawn in small parts that stay in a cache. */
enum { PIECE = 1 << 16 };

typedef struct drawing {
  const draw *d;
  uint64_t seed;
  uint32_t stream;
  compute_dtype dtype;
  size_t count;
  unsigned char *values;
} drawing;

static void draw_piece(void *argument, int64_t piece, int32_t worker) {
  (void)worker;
  const drawing *w = argument;
  const size_t first = (size_t)piece * PIECE,
               end = first + (size_t)min_u64(PIECE, w->count - first);
  double values[PART];
  for (size_t i = first; i < end; i += PART) {
    const size_t count = (size_t)min_u64(PART, end - i);
    if (w->d->form == DRAW_CONSTANT)
      for (size_t k = 0; k < count; k++) values[k] = w->d->scale;
    else
      draw_part(w->d, w->seed, w->stream, i, count, values);
    store(w->dtype, values, count, w->values + i * compute_dtype_size(w->dtype));
  }
}

static compute_status fill(const layer_parameter *p, const char *operation, const draw *d,
                           uint64_t seed, uint32_t stream) {
  compute_context *context = compute_device_context(compute_tensor_device(p->tensor));
  const compute_dtype dtype = compute_tensor_dtype(p->tensor);
  const size_t size = compute_dtype_size(dtype);
  const size_t count = (size_t)compute_tensor_count(p->tensor);
  drawing w = {d, seed, stream, dtype, count, base_allocate(count, size)};
  if (!w.values)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for %zu elements of \"%s\"", count, p->name);
  thread_pool_run(context->threads, (int64_t)((count + PIECE - 1) / PIECE), draw_piece, &w);
  const compute_status status = compute_tensor_write(p->tensor, w.values, count * size);
  base_release(w.values);
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
