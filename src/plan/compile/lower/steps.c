/* SPDX-License-Identifier: MIT */
/* The description of a step: text and costs. */
#include <string.h>

#include "core/kernel/kernel.h"
#include "graph/node/graph.h"
#include "plan/compile/lower/lower.h"

static const char *keep(lowering *l, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = scratch_take(l->memory, bytes, 1);
  if (copy) memcpy(copy, text, bytes);
  return copy;
}

kernel_work step_work(const compute_kernel_descriptor *k) {
  kernel_work work = kernel_work_of(k);
  if (k->kind == COMPUTE_KERNEL_CALL && compute_call_of(k)->run == graph_call_run)
    work.rows = ((const graph_host_call *)compute_call_of(k)->call)->rows;
  return work;
}

bool step_describe(lowering *l, const compute_kernel_descriptor *k, build_step *s) {
  text_buffer text = {0};
  kernel_describe(k, &text);
  char shape[160];
  kernel_describe_size(k, shape, sizeof shape);
  bool ok = !text.failed;
  s->text = ok ? keep(l, text.data) : NULL;
  s->shape = keep(l, shape);
  text_release(&text);
  kernel_cost cost = kernel_cost_of(k);
  s->flops = cost.flops;
  s->bytes_read = cost.bytes_read;
  s->bytes_written = cost.bytes_written;
  s->work = step_work(k);
  return s->text && s->shape;
}
