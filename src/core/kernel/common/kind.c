/* SPDX-License-Identifier: MIT */
/* Shared code of the kinds: sizes, costs, classes. */
#include "core/kernel/common/kind.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/base/arithmetic.h"

/* ---- Prices -------------------------------------------------------------------------------- */

int64_t kernel_elements(const compute_kernel_descriptor *d, int32_t first, int32_t end) {
  int64_t count = 1;
  for (int32_t i = first; i < end; i++) count *= d->size[i];
  return count;
}

uint64_t kernel_epilogue_flops(const compute_kernel_descriptor *d) {
  return (uint64_t)kernel_elements(d, 0, d->rank) * program_flops(&d->epilogue);
}

/* 64-bit types take twice the vector registers. */
void work_add_program(const compute_program *program, double elements, kernel_work *work) {
  for (uint32_t i = 0; i < program->count; i++) {
    const compute_instruction *in = &program->instructions[i];
    const program_price price = program_code_price((compute_instruction_code)in->code);
    const double lanes = in->type == COMPUTE_F64 || in->type == COMPUTE_I64 ? 2 : 1;
    work->simple += price.simple * lanes * elements;
    work->functions += price.functions * lanes * elements;
  }
}

work_class work_product(compute_dtype factors) {
  return factors == COMPUTE_F64    ? WORK_GEMM_F64
         : factors == COMPUTE_F16  ? WORK_GEMM_F16
         : factors == COMPUTE_BF16 ? WORK_GEMM_BF16
                                   : WORK_GEMM_F32;
}

/* Products too narrow to fill tiles and vectors waste part of them. */
double work_narrowness(int64_t m, int64_t n, int64_t k) {
  const int64_t least = min_i64(min_i64(m, n), k);
  return least >= 32 ? 1 : 1 + 8.0 / (double)(least > 0 ? least : 1);
}

/* `true` if neighbours in the last dimension larger than 1 are neighbours in memory. */
static bool in_memory_order(const compute_kernel_descriptor *d, const compute_operand *o) {
  for (int32_t i = d->rank - 1; i >= 0; i--)
    if (d->size[i] > 1) return o->stride[i] == 1 || o->stride[i] == 0;
  return true;
}

bool work_streams(const compute_kernel_descriptor *d) {
  for (uint32_t i = 0; i < d->input_count; i++)
    if (!in_memory_order(d, &d->inputs[i])) return false;
  for (uint32_t i = 0; i < d->output_count; i++)
    if (!in_memory_order(d, &d->outputs[i])) return false;
  return true;
}

/* The operands that go on with equal steps from dimension `inner` to dimension `i`, and those that
 * repeat there. */
static void count_steps(const compute_kernel_descriptor *d, int32_t inner, int32_t i,
                        uint32_t *equal, uint32_t *repeated) {
  *equal = *repeated = 0;
  for (uint32_t k = 0; k < d->input_count + d->output_count; k++) {
    const compute_operand *o = k < d->input_count ? &d->inputs[k] : &d->outputs[k - d->input_count];
    if (o->stride[i] == o->stride[inner] * d->size[inner])
      ++*equal;
    else if (o->stride[i] == 0 || o->stride[inner] == 0)
      ++*repeated;
  }
}

int64_t work_run(const compute_kernel_descriptor *d) {
  enum { SHORT = 16 };
  int64_t run = 1;
  int32_t inner = -1;
  bool joined = false;
  for (int32_t i = d->rank - 1; i >= 0; i--) {
    uint32_t equal, repeated;
    if (d->size[i] == 1) continue;
    if (inner >= 0) {
      const uint32_t all = d->input_count + d->output_count;
      count_steps(d, inner, i, &equal, &repeated);
      const bool joins = !joined && run < SHORT && equal + repeated == all;
      if (equal < all && !joins) return run;
      joined |= equal < all;
    }
    run *= d->size[i];
    inner = i;
  }
  return run;
}

/* ---- Text ---------------------------------------------------------------------------------- */

void text_add_pair(text_buffer *text, const char *name, const int64_t *pair, int64_t usual) {
  if (pair[0] == usual && pair[1] == usual) return;
  if (pair[0] == pair[1])
    text_add(text, ", %s %lld", name, (long long)pair[0]);
  else
    text_add(text, ", %s %lldx%lld", name, (long long)pair[0], (long long)pair[1]);
}

/* ---- Classes ------------------------------------------------------------------------------- */

void class_add(class_text *t, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const int n = vsnprintf(t->text + t->used, KERNEL_CLASS_BYTES - t->used, format, list);
  va_end(list);
  if (n > 0 && (size_t)n < KERNEL_CLASS_BYTES - t->used) t->used += (size_t)n;
}

static void add_dtypes(class_text *t, const compute_operand *operands, uint32_t count) {
  bool any = false;
  for (int dtype = 1; dtype < COMPUTE_DTYPE_COUNT; dtype++) {
    bool occurs = false;
    for (uint32_t i = 0; i < count; i++) occurs |= operands[i].dtype == (compute_dtype)dtype;
    if (!occurs) continue;
    class_add(t, "%s%s", any ? "+" : "", compute_dtype_name((compute_dtype)dtype));
    any = true;
  }
  if (!any) class_add(t, "none");
}

void class_add_types(class_text *t, const compute_kernel_descriptor *d, uint32_t inputs) {
  add_dtypes(t, d->inputs, inputs);
  class_add(t, ">");
  add_dtypes(t, d->outputs, d->output_count);
  class_add(t, "/");
}

void class_add_sum_types(class_text *t, const compute_kernel_descriptor *d, uint32_t inputs) {
  add_dtypes(t, d->inputs, inputs);
  class_add(t, ">%s>", compute_dtype_name(d->accumulate));
  add_dtypes(t, d->outputs, d->output_count);
  class_add(t, "/");
}

/* Uses integers, so that the result is the same everywhere: x is above the midpoint 2^(b + 1/2) if
 * x² is above 2^(2b + 1). Rounding puts 1000 and 1024, or 784 and 768, into one bucket; boundaries
 * at powers of two would separate them. */
int class_bucket(int64_t count) {
  uint64_t x = count > 0 ? (uint64_t)count : 1;
  int shift = 0;
  while (x >> shift > UINT32_MAX) shift++;
  x >>= shift;
  int b = 0;
  while (x >> (b + 1)) b++; /* at most 31 */
  if (x * x >= UINT64_C(1) << (2 * b + 1)) b++;
  return b + shift;
}

int32_t class_fastest(const compute_kernel_descriptor *d, const compute_operand *operand) {
  int32_t found = -1;
  int64_t least = 0;
  for (int32_t i = d->rank - 1; i >= 0; i--) {
    if (d->size[i] <= 1 || operand->stride[i] == 0) continue;
    const int64_t stride = operand->stride[i] < 0 ? -operand->stride[i] : operand->stride[i];
    if (found >= 0 && stride >= least) continue;
    found = i;
    least = stride;
  }
  return found;
}

typedef enum walk { WALK_DENSE, WALK_BROADCAST, WALK_STRIDED } walk;

static walk walk_of(const compute_kernel_descriptor *d, const compute_operand *operand) {
  int64_t expected = 1;
  walk found = WALK_DENSE;
  for (int32_t i = d->rank - 1; i >= 0; i--) {
    if (d->size[i] <= 1) continue;
    if (operand->stride[i] == 0) return WALK_BROADCAST;
    if (operand->stride[i] != expected) found = WALK_STRIDED;
    expected *= d->size[i];
  }
  return found;
}

const char *class_walk(const compute_kernel_descriptor *d) {
  static const char *const names[] = {"dense", "broadcast", "strided"};
  walk worst = WALK_DENSE;
  for (uint32_t i = 0; i < d->input_count + d->output_count; i++) {
    const walk w = walk_of(d, i < d->input_count ? &d->inputs[i] : &d->outputs[i - d->input_count]);
    if (w > worst) worst = w;
  }
  return names[worst];
}

/* ---- Rows ----------------------------------------------------------------------------------- */

kernel_rows kernel_rows_read(const kernel_window *reads, kernel_rows results) {
  const int64_t first = results.first * reads->step - reads->before;
  const int64_t end = (results.end - 1) * reads->step - reads->before + reads->reach;
  return (kernel_rows){first > 0 ? first : 0, end < reads->rows ? end : reads->rows};
}
