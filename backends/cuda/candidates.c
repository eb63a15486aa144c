/* SPDX-License-Identifier: MIT */
/* Autotunes a library's kernel against a generated one, and against the library's kernel for the
 * other direction of a convolution (flip.c). The fastest is seldom clear in advance: the library
 * has more ways to compute a product, while generated kernels need no separate pass for the
 * epilogue. So all candidates are built and timed once, and the disk cache stores the winner. */
#include <stdio.h>
#include <string.h>

#include "cuda.h"

enum { LIBRARY, GENERATED, TURNED, RIVALS };

static const float lead = 0.03F; /* a smaller difference is noise */

typedef struct match {
  const cuda_kernel *kernels[RIVALS]; /* candidates; the third may be NULL */
  int32_t count;
  compute_precision precision; /* of a convolution */
  cuda_queue *queue;
} match;

static bool submit(void *argument, uint32_t which, const cuda_pointer *operands,
                   cuda_pointer workspace, cuda_stream stream) {
  const match *m = argument;
  const cuda_scratch scratch = {workspace, 0};
  (void)stream; /* the queue has it already */
  return m->kernels[which] &&
         cuda_kernel_submit(m->queue, m->kernels[which], operands, &scratch) == COMPUTE_OK;
}

static void name(void *argument, uint32_t which, char *text, size_t text_bytes) {
  const match *m = argument;
  if (m->kernels[which])
    cuda_kernel_describe(NULL, (void *)m->kernels[which], text, text_bytes);
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

static int32_t contest(cuda_device *device, const compute_kernel_descriptor *descriptor, match *m,
                       bool *timed) {
  void *queue = NULL;
  *timed = false;
  cuda_contest c = {.count = (uint32_t)m->count,
                    .lead = lead,
                    .submit = submit,
                    .name = name,
                    .what = "kernel",
                    .argument = m};
  if (m->kernels[GENERATED]->shared.faults ||
      !measure_operands(descriptor, m->kernels[LIBRARY], c.operand_bytes) ||
      cuda_queue_create(device, &queue) != COMPUTE_OK)
    return -1;
  m->queue = queue;
  c.stream = m->queue->stream;
  for (int i = 0; i < m->count; i++)
    if (m->kernels[i] && m->kernels[i]->shared.workspace_bytes > c.workspace_bytes)
      c.workspace_bytes = m->kernels[i]->shared.workspace_bytes;
  const int32_t winner = cuda_contest_hold(device, &c, timed);
  cuda_queue_destroy(queue);
  return winner;
}

/* The key: everything that defines the generated kernel, and the library. */
static uint32_t key_make(const match *m, compute_cache_part *key) {
  static const char what[] = "rivals 3";
  const builder_kernel *generated = &m->kernels[GENERATED]->shared;
  const cuda_product *product = m->kernels[LIBRARY]->product;
  uint32_t count = 0;
  key[count++] = (compute_cache_part){what, sizeof what};
  key[count++] = (compute_cache_part){product->text, strlen(product->text)};
  key[count++] = (compute_cache_part){&m->precision, sizeof m->precision};
  key[count++] = (compute_cache_part){generated->program->source, generated->program->source_bytes};
  for (uint32_t i = 0; i < generated->launch_count; i++)
    key[count++] =
        (compute_cache_part){generated->launches[i].shape, generated->launches[i].shape_bytes};
  return count;
}

_Static_assert(CUDA_CONTEST_KEY >= 4 + COMPUTE_GENERATED_LAUNCHES, "room for the key");

/* The winner, measured now or earlier. The third candidate (with a flipped filter) is built in
 * `turned` when needed. */
static int32_t choose(cuda_device *device, const compute_kernel_descriptor *descriptor, match *m,
                      cuda_kernel *turned) {
  compute_cache_part key[CUDA_CONTEST_KEY];
  const uint32_t parts = key_make(m, key);
  int32_t winner = cuda_contest_recall(device, key, parts, m->count);
  const bool needed = winner < 0 ? m->count > TURNED : winner == TURNED;
  if (needed && cuda_turn_prepare(device, descriptor, turned) == COMPUTE_OK)
    m->kernels[TURNED] = turned;
  if (winner >= 0) return winner == TURNED && !m->kernels[TURNED] ? LIBRARY : winner;
  bool timed = false;
  winner = contest(device, descriptor, m, &timed);
  if (timed) cuda_contest_remember(device, key, parts, m->count, winner);
  return winner;
}

static void leave(cuda_device *device, cuda_kernel *kernel) {
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

void cuda_rivals_meet(cuda_device *device, const compute_kernel_descriptor *descriptor,
                      const compute_tuning *tuning, cuda_kernel *kernel) {
  cuda_kernel others[RIVALS] = {{.references = 1}, {.references = 1}, {.references = 1}};
  match m = {.kernels = {kernel, &others[GENERATED]}};
  if (!kernel->product || (!kernel->product->contested && !has_pass(device, descriptor, kernel)) ||
      builder_kernel_build(&device->builder, descriptor, tuning, &others[GENERATED].shared) !=
          COMPUTE_OK)
    return;
  m.count = cuda_turn_may_pay(descriptor) ? RIVALS : TURNED;
  if (descriptor->kind == COMPUTE_KERNEL_CONV) m.precision = compute_conv_of(descriptor)->precision;
  int32_t winner = LIBRARY;
  if (others[GENERATED].shared.program) winner = choose(device, descriptor, &m, &others[TURNED]);
  if (winner > LIBRARY) {
    const cuda_kernel best = others[winner];
    others[winner] = *kernel;
    *kernel = best;
  }
  for (int i = GENERATED; i < RIVALS; i++) leave(device, &others[i]);
}
