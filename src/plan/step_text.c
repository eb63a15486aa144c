/* Names and costs. The cost of an operand is its distinct elements: those that stride 0 does not
 * repeat. */
#include "plan/step_text.h"

#include <stdio.h>
#include <string.h>

#include "tensor/dtype.h"

static const char *anchor_name(const compute_kernel_descriptor *k) {
  static const char *const combine[] = {"sum", "prod", "max", "min", "argmax", "argmin"};
  static const char *const row[] = {"softmax", "log_softmax", "normalize"};
  switch (k->kind) {
  case COMPUTE_KERNEL_REDUCE: return combine[k->combine];
  case COMPUTE_KERNEL_ROW: return row[k->row];
  case COMPUTE_KERNEL_GEMM: return "matmul";
  case COMPUTE_KERNEL_GATHER: return "gather";
  case COMPUTE_KERNEL_SCATTER: return "scatter_add";
  case COMPUTE_KERNEL_COPY: return "copy";
  default: return "";
  }
}

static const char *kind_name(compute_kernel_kind kind) {
  static const char *const name[] = {"map", "reduce", "row", "gemm", "gather", "scatter", "copy"};
  return name[kind];
}

static uint64_t operand_bytes(const compute_kernel_descriptor *k, const compute_operand *o,
                              bool matrix_a, bool matrix_b) {
  uint64_t count = 1;
  for (int32_t i = 0; i < k->rank; i++) {
    int64_t size = k->size[i];
    if (matrix_a && i == k->rank - 1) size = k->k;
    if (matrix_b && i == k->rank - 2) size = k->k;
    if (o->stride[i] != 0) count *= (uint64_t)size;
  }
  return count * compute_dtype_size(o->dtype);
}

static uint64_t space(const compute_kernel_descriptor *k, int32_t rank) {
  uint64_t count = 1;
  for (int32_t i = 0; i < rank; i++) count *= (uint64_t)k->size[i];
  return count;
}

static uint64_t count_flops(const compute_kernel_descriptor *k) {
  uint64_t all = space(k, k->rank);
  uint64_t prologue = program_flops(&k->prologue), epilogue = program_flops(&k->epilogue);
  switch (k->kind) {
  case COMPUTE_KERNEL_MAP: return all * epilogue;
  case COMPUTE_KERNEL_REDUCE: return all * (prologue + 1) + space(k, k->kept_rank) * epilogue;
  case COMPUTE_KERNEL_ROW:
    return all * (prologue + epilogue + (k->row == COMPUTE_ROW_NORMALIZE ? 6 : 12));
  case COMPUTE_KERNEL_GEMM: return all * (2 * (uint64_t)k->k + epilogue);
  case COMPUTE_KERNEL_SCATTER: return all;
  default: return 0;
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

bool step_describe(lowering *l, const kernel_draft *draft, build_step *s) {
  const compute_kernel_descriptor *k = &draft->descriptor;
  text_buffer text = {0};
  text_add(&text, "%s", kind_name(k->kind));
  if (k->kind != COMPUTE_KERNEL_MAP && strcmp(kind_name(k->kind), anchor_name(k)) != 0)
    text_add(&text, " %s", anchor_name(k));
  if (k->prologue.count > 0) {
    text_add(&text, " of ");
    program_print(&k->prologue, &text);
  }
  if (k->epilogue.count > 0) {
    text_add(&text, k->kind == COMPUTE_KERNEL_MAP ? " " : ", then ");
    program_print(&k->epilogue, &text);
  }
  char shape[160];
  print_shape(k, shape, sizeof shape);
  bool ok = !text.failed;
  s->text = ok ? keep(l, text.data) : NULL;
  s->shape = keep(l, shape);
  text_release(&text);
  for (uint32_t i = 0; i < k->input_count; i++) {
    bool gemm = k->kind == COMPUTE_KERNEL_GEMM;
    s->bytes_read += operand_bytes(k, &k->inputs[i], gemm && i == 0, gemm && i == 1);
  }
  for (uint32_t i = 0; i < k->output_count; i++)
    s->bytes_written += operand_bytes(k, &k->outputs[i], false, false);
  s->flops = count_flops(k);
  return s->text != NULL && s->shape != NULL;
}
