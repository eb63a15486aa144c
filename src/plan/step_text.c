/* Names of steps. */
#include "plan/step_text.h"

#include <stdio.h>
#include <string.h>

#include "kernel/cost.h"
#include "kernel/fit_problem.h"

static const char *anchor_name(const compute_kernel_descriptor *k) {
  static const char *const combine[] = {"sum", "prod", "max", "min", "argmax", "argmin"};
  static const char *const row[] = {"softmax", "log_softmax", "normalize"};
  static const char *const scan[] = {"sum", "product", "maximum", "minimum"};
  static const char *const direction[] = {"convolution", "by data", "by filter"};
  switch (k->kind) {
  case COMPUTE_KERNEL_REDUCE: return combine[compute_reduce_of(k)->combine];
  case COMPUTE_KERNEL_ROW: return row[compute_row_of(k)->operation];
  case COMPUTE_KERNEL_GEMM: return "matmul";
  case COMPUTE_KERNEL_GATHER: return "gather";
  case COMPUTE_KERNEL_SCATTER: return "scatter_add";
  case COMPUTE_KERNEL_COPY: return "copy";
  case COMPUTE_KERNEL_CONV: return direction[compute_conv_of(k)->direction];
  case COMPUTE_KERNEL_WINDOW:
    return compute_window_of(k)->operation == COMPUTE_WINDOW_MAX
               ? compute_window_of(k)->by_data ? "maximum by data" : "maximum"
           : compute_window_of(k)->by_data ? "average by data"
                                           : "average";
  case COMPUTE_KERNEL_SCAN: return scan[compute_scan_of(k)->combine];
  case COMPUTE_KERNEL_TOP_K: return compute_top_k_of(k)->smallest ? "smallest" : "largest";
  case COMPUTE_KERNEL_ATTENTION: return compute_attention_of(k)->causal ? "causal" : "attention";
  case COMPUTE_KERNEL_FIT: return fit_model_name(compute_fit_of(k)->problem.model);
  case COMPUTE_KERNEL_SPOTS: return compute_spots_of(k)->filter == 0 ? "by gaussians" : "by boxes";
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
    used += (size_t)snprintf(
        text + used, bytes - used, "%s%lld",
        i == 0                                                                     ? ""
        : k->kind == COMPUTE_KERNEL_REDUCE && i == compute_reduce_of(k)->kept_rank ? " | "
                                                                                   : "x",
        (long long)k->size[i]);
  if (k->kind == COMPUTE_KERNEL_GEMM && used < bytes)
    snprintf(text + used, bytes - used, " k %lld", (long long)compute_gemm_of(k)->k);
  if (k->kind == COMPUTE_KERNEL_ATTENTION && used < bytes)
    snprintf(text + used, bytes - used, " keys %lld", (long long)compute_attention_of(k)->keys);
  if (k->kind == COMPUTE_KERNEL_TOP_K && used < bytes)
    snprintf(text + used, bytes - used, " of %lld", (long long)compute_top_k_of(k)->axis_size);
  if (k->rank == 0) snprintf(text, bytes, "scalar");
}

/* ", stride 2", only what is not usual. */
static void print_pair(text_buffer *text, const char *name, const int64_t *pair, int64_t usual) {
  if (pair[0] == usual && pair[1] == usual) return;
  if (pair[0] == pair[1])
    text_add(text, ", %s %lld", name, (long long)pair[0]);
  else
    text_add(text, ", %s %lldx%lld", name, (long long)pair[0], (long long)pair[1]);
}

static void print_convolution(const compute_conv_attributes *c, text_buffer *text) {
  text_add(text, " %lldx%lld", (long long)c->filter_size[0], (long long)c->filter_size[1]);
  print_pair(text, "stride", c->stride, 1);
  print_pair(text, "dilation", c->dilation, 1);
  print_pair(text, "padding", c->padding, 0);
  if (c->groups > 1) text_add(text, ", %d groups", (int)c->groups);
}

static void print_window(const compute_window_attributes *w, text_buffer *text) {
  text_add(text, " %lldx%lld", (long long)w->size[0], (long long)w->size[1]);
  print_pair(text, "stride", w->stride, 1);
  print_pair(text, "dilation", w->dilation, 1);
  print_pair(text, "padding", w->padding, 0);
}

/* "fit XYNB in ROIs of 7x7 by Fisher scoring, sCMOS camera; corners, gain" */
static void print_fit(const compute_kernel_descriptor *k, text_buffer *text) {
  const compute_fit_problem *p = &compute_fit_of(k)->problem;
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
  if (k->kind == COMPUTE_KERNEL_CONV) print_convolution(compute_conv_of(k), &text);
  if (k->kind == COMPUTE_KERNEL_WINDOW) print_window(compute_window_of(k), &text);
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
