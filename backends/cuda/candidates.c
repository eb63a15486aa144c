/* SPDX-License-Identifier: MIT */
/* Autotunes a library's kernel against a generated one, and against the library's kernel for the
 * other direction of a convolution (flip.c). The fastest is seldom clear in advance: the library
 * has more ways to compute a product, while generated kernels need no separate pass for the
 * epilogue. So all candidates are built and timed once, and the disk cache stores the winner. */
#include <stdio.h>
#include <string.h>

#include "cuda.h"

enum { LIBRARY, GENERATED, FLIPPED, CANDIDATES };

static const float lead = 0.03F; /* a smaller difference is noise */

typedef struct candidates {
  const cuda_kernel *kernels[CANDIDATES]; /* candidates; the third may be NULL */
  int32_t count;
  compute_precision precision; /* of a convolution */
  cuda_queue *queue;
} candidates;

static bool submit(void *argument, uint32_t which, const cuda_pointer *operands,
                   cuda_pointer workspace, cuda_stream stream) {
  const candidates *c = argument;
  const cuda_scratch scratch = {workspace, 0};
  (void)stream; /* the queue has it already */
  return c->kernels[which] &&
         cuda_kernel_submit(c->queue, c->kernels[which], operands, &scratch) == COMPUTE_OK;
}

static void name(void *argument, uint32_t which, char *text, size_t text_bytes) {
  const candidates *c = argument;
  if (c->kernels[which])
    cuda_kernel_describe(NULL, (void *)c->kernels[which], text, text_bytes);
  else
    snprintf(text, text_bytes, "the library with its filter turned");
}

/* The operands' sizes; false if an operand does not start at its lowest address. */
static bool measure_operands(const compute_kernel_descriptor *d, const cuda_kernel *library,
                             uint64_t *bytes) {
  const uint64_t *known = library->product->operand_bytes;
  for (uint32_t i = 0; i < d->input_count + d->output_count; i++) {
    const compute_operand *o = i < d->input_count ? &d->inputs[i] : &d->outputs[i - d->input_count];
    for (int32_t dim = 0; dim < d->rank; dim++)
      if (o->stride[dim] < 0) return false;
    bytes[i] = i < 2 ? known[i] : cuda_extent_bytes(d->size, o->stride, d->rank, o->dtype);
  }
  return true;
}

static int32_t autotune(cuda_device *device, const compute_kernel_descriptor *descriptor,
                        candidates *c, bool *timed) {
  void *queue = NULL;
  *timed = false;
  cuda_autotune a = {.count = (uint32_t)c->count,
                     .lead = lead,
                     .submit = submit,
                     .name = name,
                     .what = "kernel",
                     .argument = c};
  if (c->kernels[GENERATED]->shared.faults ||
      !measure_operands(descriptor, c->kernels[LIBRARY], a.operand_bytes) ||
      cuda_queue_create(device, &queue) != COMPUTE_OK)
    return -1;
  c->queue = queue;
  a.stream = c->queue->stream;
  for (int i = 0; i < c->count; i++)
    if (c->kernels[i] && c->kernels[i]->shared.workspace_bytes > a.workspace_bytes)
      a.workspace_bytes = c->kernels[i]->shared.workspace_bytes;
  const int32_t winner = cuda_autotune_run(device, &a, timed);
  cuda_queue_destroy(queue);
  return winner;
}

/* The key: everything that defines the generated kernel, and the library. */
static uint32_t key_make(const candidates *c, compute_cache_part *key) {
  static const char what[] = "rivals 3";
  const builder_kernel *generated = &c->kernels[GENERATED]->shared;
  const cuda_product *product = c->kernels[LIBRARY]->product;
  uint32_t count = 0;
  key[count++] = (compute_cache_part){what, sizeof what};
  key[count++] = (compute_cache_part){product->text, strlen(product->text)};
  key[count++] = (compute_cache_part){&c->precision, sizeof c->precision};
  key[count++] = (compute_cache_part){generated->program->source, generated->program->source_bytes};
  for (uint32_t i = 0; i < generated->launch_count; i++)
    key[count++] =
        (compute_cache_part){generated->launches[i].shape, generated->launches[i].shape_bytes};
  return count;
}

_Static_assert(CUDA_AUTOTUNE_KEY >= 4 + COMPUTE_GENERATED_LAUNCHES, "room for the key");

/* The winner, measured now or earlier. The third candidate (with a flipped filter) is built in
 * `flipped` when needed. */
static int32_t choose(cuda_device *device, const compute_kernel_descriptor *descriptor,
                      candidates *c, cuda_kernel *flipped) {
  compute_cache_part key[CUDA_AUTOTUNE_KEY];
  const uint32_t parts = key_make(c, key);
  int32_t winner = cuda_autotune_recall(device, key, parts, c->count);
  const bool needed = winner < 0 ? c->count > FLIPPED : winner == FLIPPED;
  if (needed && cuda_flip_prepare(device, descriptor, flipped) == COMPUTE_OK)
    c->kernels[FLIPPED] = flipped;
  if (winner >= 0) return winner == FLIPPED && !c->kernels[FLIPPED] ? LIBRARY : winner;
  bool timed = false;
  winner = autotune(device, descriptor, c, &timed);
  if (timed) cuda_autotune_remember(device, key, parts, c->count, winner);
  return winner;
}

static void release(cuda_device *device, cuda_kernel *kernel) {
  cuda_vendor_destroy(device, kernel);
  builder_kernel_clear(&device->builder, &kernel->shared);
}

/* `true` if the library leaves the epilogue to another launch, and a generated kernel multiplies
 * nearly as fast without one. */
static bool has_pass(const cuda_device *device, const compute_kernel_descriptor *descriptor,
                     const cuda_kernel *library) {
  return (device->target.flags & COMPUTE_TARGET_WARPGROUP_MATRIX) &&
         descriptor->kind == COMPUTE_KERNEL_GEMM && library->shared.launch_count > 0;
}

void cuda_candidates_choose(cuda_device *device, const compute_kernel_descriptor *descriptor,
                            const compute_tuning *tuning, cuda_kernel *kernel) {
  cuda_kernel others[CANDIDATES] = {{.references = 1}, {.references = 1}, {.references = 1}};
  candidates c = {.kernels = {kernel, &others[GENERATED]}};
  if (!kernel->product || (!kernel->product->autotuned && !has_pass(device, descriptor, kernel)) ||
      builder_kernel_build(&device->builder, descriptor, tuning, &others[GENERATED].shared) !=
          COMPUTE_OK)
    return;
  c.count = cuda_flip_may_pay(descriptor) ? CANDIDATES : FLIPPED;
  if (descriptor->kind == COMPUTE_KERNEL_CONV) c.precision = compute_conv_of(descriptor)->precision;
  int32_t winner = LIBRARY;
  if (others[GENERATED].shared.program) winner = choose(device, descriptor, &c, &others[FLIPPED]);
  if (winner > LIBRARY) {
    const cuda_kernel best = others[winner];
    others[winner] = *kernel;
    *kernel = best;
  }
  for (int i = GENERATED; i < CANDIDATES; i++) release(device, &others[i]);
}
