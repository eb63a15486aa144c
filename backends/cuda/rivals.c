/* SPDX-License-Identifier: MIT */
/* A library's kernel against a generated one. Which of the two is faster is seldom clear
 * beforehand: the library has more ways to compute a product, ours have no pass for the epilogue.
 * So both are made, once they are timed, and the disk cache keeps which one won. */
#include <string.h>

#include "cuda.h"

enum { LIBRARY, GENERATED, RIVALS };

static const float lead = 0.03F; /* less is noise, which should not choose */

typedef struct match {
  const cuda_kernel *kernels[RIVALS];
  cuda_queue *queue;
} match;

static bool submit(void *argument, uint32_t which, const cuda_pointer *operands,
                   cuda_pointer workspace, cuda_stream stream) {
  const match *m = argument;
  const cuda_scratch scratch = {workspace, 0};
  (void)stream; /* the queue's */
  return cuda_kernel_submit(m->queue, m->kernels[which], operands, &scratch) == COMPUTE_OK;
}

static void name(void *argument, uint32_t which, char *text, size_t text_bytes) {
  const match *m = argument;
  cuda_kernel_describe(NULL, (void *)m->kernels[which], text, text_bytes);
}

/* The operands' sizes; false where one does not begin at its first address. */
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
  cuda_contest c = {.count = RIVALS,
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
  for (int i = 0; i < RIVALS; i++)
    if (m->kernels[i]->shared.workspace_bytes > c.workspace_bytes)
      c.workspace_bytes = m->kernels[i]->shared.workspace_bytes;
  const int32_t winner = cuda_contest_hold(device, &c, timed);
  cuda_queue_destroy(queue);
  return winner;
}

/* All that the generated kernel is, and the library. */
static uint32_t key_make(const match *m, compute_cache_part *key) {
  static const char what[] = "rivals 2";
  const builder_kernel *generated = &m->kernels[GENERATED]->shared;
  const cuda_product *product = m->kernels[LIBRARY]->product;
  uint32_t count = 0;
  key[count++] = (compute_cache_part){what, sizeof what};
  key[count++] = (compute_cache_part){product->text, strlen(product->text)};
  key[count++] = (compute_cache_part){generated->program->source, generated->program->source_bytes};
  for (uint32_t i = 0; i < generated->launch_count; i++)
    key[count++] =
        (compute_cache_part){generated->launches[i].shape, generated->launches[i].shape_bytes};
  return count;
}

_Static_assert(CUDA_CONTEST_KEY >= 3 + COMPUTE_GENERATED_LAUNCHES, "room for the key");

void cuda_rivals_meet(cuda_device *device, const compute_kernel_descriptor *descriptor,
                      const compute_tuning *tuning, cuda_kernel *kernel) {
  compute_cache_part key[CUDA_CONTEST_KEY];
  cuda_kernel generated = {.references = 1};
  match m = {.kernels = {kernel, &generated}};
  if (!kernel->product || !kernel->product->contested ||
      builder_kernel_build(&device->builder, descriptor, tuning, &generated.shared) != COMPUTE_OK)
    return;
  int32_t winner = LIBRARY;
  if (generated.shared.program) {
    const uint32_t parts = key_make(&m, key);
    winner = cuda_contest_recall(device, key, parts, RIVALS);
    bool timed = false;
    if (winner < 0) winner = contest(device, descriptor, &m, &timed);
    if (timed) cuda_contest_remember(device, key, parts, RIVALS, winner);
  }
  if (winner != GENERATED) {
    builder_kernel_clear(&device->builder, &generated.shared);
    return;
  }
  cuda_vendor_destroy(device, kernel);
  builder_kernel_clear(&device->builder, &kernel->shared);
  *kernel = generated;
}
