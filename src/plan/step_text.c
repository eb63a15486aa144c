/* Names of steps. */
#include "plan/step_text.h"

#include <stdio.h>
#include <string.h>

#include "kernel/cost.h"
#include "kernel/fit_problem.h"

static const char *anchor_name(const compute_kernel_descriptor *k) {
  static const char *const combine[] = {"sum", "prod", "max", "min", "argmax", "argmin"};
  static const char *const row[] = {"softmax", "log_softmax", "normalize"};
  static const char *const direction[] = {"convolution", "by data", "by filter"};
  switch (k->kind) {
  case COMPUTE_KERNEL_REDUCE: return combine[k->combine];
  case COMPUTE_KERNEL_ROW: return row[k->row];
  case COMPUTE_KERNEL_GEMM: return "matmul";
  case COMPUTE_KERNEL_GATHER: return "gather";
  case COMPUTE_KERNEL_SCATTER: return "scatter_add";
  case COMPUTE_KERNEL_COPY: return "copy";
  case COMPUTE_KERNEL_CONV: return direction[k->convolution.direction];
  case COMPUTE_KERNEL_FIT: return fit_model_name(k->fit->model);
  default: return "";
  }
}

static const char *keep(lowering *l, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = scratch_take(l->memory, bytes, 1);
  if (copy != NULL) memcpy(copy, text, bytes);
  return copy;
}

static void print_shape(const compute_kernel_descriptor *k, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = 0;
  for (int32_t i = 0; i < k->rank && used < bytes; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%lld",
                             i == 0                                                  ? ""
                             : k->kind == COMPUTE_KERNEL_REDUCE && i == k->kept_rank ? " | "
                                                                                     : "x",
                             (long long)k->size[i]);
  if (k->kind == COMPUTE_KERNEL_GEMM && used < bytes)
    snprintf(text + used, bytes - used, " k %lld", (long long)k->k);
  if (k->rank == 0) snprintf(text, bytes, "scalar");
}

/* "fit XYNB in ROIs of 7x7 by Fisher scoring, sCMOS camera; corners, gain" */
static void print_fit(const compute_kernel_descriptor *k, text_buffer *text) {
  const compute_fit_problem *p = k->fit;
  const char *before = "; ";
  text_add(text, " in ROIs of %dx%d by %s, %s camera", (int)p->rows, (int)p->columns,
           fit_solver_name(p->solver), fit_camera_name(p->camera));
  if (p->profile == COMPUTE_FIT_SAMPLED) text_add(text, ", sampled");
  for (int32_t i = 0; i < FIT_INPUTS; i++) {
    if ((p->inputs >> i & 1) == 0) continue;
    text_add(text, "%s%s", before, fit_input_name(i));
    before = ", ";
  }
}

bool step_describe(lowering *l, const kernel_draft *draft, build_step *s) {
  const compute_kernel_descriptor *k = &draft->descriptor;
  text_buffer text = {0};
  text_add(&text, "%s", kernel_kind_name(k->kind));
  if (k->kind != COMPUTE_KERNEL_MAP && strcmp(kernel_kind_name(k->kind), anchor_name(k)) != 0)
    text_add(&text, " %s", anchor_name(k));
  if (k->prologue.count > 0) {
    text_add(&text, " of ");
    program_print(&k->prologue, &text);
  }
  if (k->epilogue.count > 0) {
    text_add(&text, k->kind == COMPUTE_KERNEL_MAP ? " " : ", then ");
    program_print(&k->epilogue, &text);
  }
  if (k->kind == COMPUTE_KERNEL_FIT) print_fit(k, &text);
  char shape[160];
  print_shape(k, shape, sizeof shape);
  bool ok = !text.failed;
  s->text = ok ? keep(l, text.data) : NULL;
  s->shape = keep(l, shape);
  text_release(&text);
  kernel_cost cost = kernel_cost_of(k);
  s->flops = cost.flops;
  s->bytes_read += cost.bytes_read;
  s->bytes_written += cost.bytes_written;
  s->work = route_work_of(k);
  return s->text != NULL && s->shape != NULL;
}
