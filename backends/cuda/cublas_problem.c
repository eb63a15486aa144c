/* SPDX-License-Identifier: MIT */
/* Translates a descriptor to cuBLASLt's form.
 *
 * cuBLASLt is column-major, and its bias runs along the rows of the result. Row-major Y = A·B is
 * the same memory as column-major Yᵀ = Bᵀ·Aᵀ; in this form, a bias along n of Y runs along the rows
 * of Yᵀ. A factor may have either layout, because it can be passed as a transpose. The stride
 * between batches must be constant.
 *
 * The library computes these epilogues: none, a bias, gelu (tanh), or bias and gelu (tanh). Gelu by
 * erf is another function, and the library does not document that its relu passes NaN on, as ours
 * does: both stay with the generated kernels. */
#include <string.h>

#include "cublas.h"

/* ---- Dtypes -------------------------------------------------------------------------------- */

static bool types_fit(const compute_kernel_descriptor *d, cublas_problem *p) {
  const compute_dtype dtype = d->inputs[0].dtype, result = d->outputs[0].dtype;
  const compute_dtype sum = dtype == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  if (d->inputs[1].dtype != dtype || d->accumulate != sum ||
      !cuda_vendor_type(dtype, CUBLAS_TYPE_BF16, &p->type) ||
      !cuda_vendor_type(result, CUBLAS_TYPE_BF16, &p->result_type) ||
      (result != dtype && result != sum))
    return false;
  p->scale_type = sum == COMPUTE_F64 ? CUBLAS_TYPE_F64 : CUBLAS_TYPE_F32;
  p->compute_type = sum == COMPUTE_F64 ? CUBLAS_BY_F64
                    : dtype == COMPUTE_F32 && compute_gemm_of(d)->precision & COMPUTE_PRECISION_TF32
                        ? CUBLAS_BY_TF32
                        : CUBLAS_BY_F32;
  p->element_bytes[0] = (int64_t)cuda_element_bytes(dtype);
  p->element_bytes[1] = (int64_t)cuda_element_bytes(result);
  return true;
}

/* ---- The epilogue -------------------------------------------------------------------------- */

/* `true` if the value is the load of input `number`, in the type of the sums. */
static bool loads(const compute_kernel_descriptor *d, uint32_t value, int64_t number) {
  const compute_instruction *i = &d->epilogue.instructions[value];
  return i->code == COMPUTE_I_LOAD && i->immediate.i64 == number &&
         i->type == (uint8_t)d->accumulate;
}

/* A row of n elements, the same for every m and every batch. */
static bool is_bias(const compute_kernel_descriptor *d, const compute_operand *o) {
  for (int dim = 0; dim < d->rank - 1; dim++)
    if (d->size[dim] > 1 && o->stride[dim] != 0) return false;
  const int32_t last = d->rank - 1;
  return (d->size[last] == 1 || o->stride[last] == 1) && o->dtype == d->outputs[0].dtype;
}

/* Matches the program from its result down; false if cuBLASLt has no such epilogue. */
static bool epilogue_fits(const compute_kernel_descriptor *d, cublas_problem *p) {
  const compute_program *program = &d->epilogue;
  p->epilogue = CUBLAS_EPILOGUE_NONE;
  if (program->count == 0) return d->input_count == 2;
  if (program->output_count != 1) return false;
  uint32_t value = program->outputs[0];
  const compute_instruction *i = &program->instructions[value];
  int32_t bits = 0;
  if (i->type != (uint8_t)d->accumulate) return false;
  if (i->code == COMPUTE_I_GELU_TANH) {
    bits |= CUBLAS_EPILOGUE_GELU;
    value = i->a;
    i = &program->instructions[value];
  }
  if (i->code == COMPUTE_I_ADD && i->type == (uint8_t)d->accumulate) {
    const bool as_said = loads(d, i->a, 0) && loads(d, i->b, 1);
    if (!as_said && !(loads(d, i->a, 1) && loads(d, i->b, 0))) return false;
    if (d->input_count != 3 || !is_bias(d, &d->inputs[2])) return false;
    bits |= CUBLAS_EPILOGUE_BIAS;
    p->bias_length = d->size[d->rank - 1];
  } else if (!loads(d, value, 0)) {
    return false;
  }
  if (bits) p->epilogue = bits;
  return true;
}

/* ---- The whole problem --------------------------------------------------------------------- */

/* Index of an operand in cuBLASLt's order: the factors swap places if the transpose is computed. */
static int place_of(const cublas_problem *p, int operand) {
  return operand < 2 && p->swapped ? 1 - operand : operand;
}

static bool matrices_fit(const compute_kernel_descriptor *d, const compute_operand *const of[3],
                         cublas_problem *p) {
  const int64_t m = d->size[d->rank - 2], n = d->size[d->rank - 1], k = compute_gemm_of(d)->k;
  const int64_t rows[3] = {m, k, m}, columns[3] = {k, n, n};
  bool by_columns[3];
  for (int i = 2; i >= 0; i--) {
    int64_t leading;
    if (!builder_matrix_lies(rows[i], columns[i], &of[i]->stride[d->rank - 2],
                             i < 2 && by_columns[2], &by_columns[i], &leading))
      return false;
    if (i == 2) p->swapped = !by_columns[2];
    const int place = place_of(p, i);
    p->rows[place] = by_columns[i] ? rows[i] : columns[i];
    p->columns[place] = by_columns[i] ? columns[i] : rows[i];
    p->leading[place] = leading;
    if (i < 2 && by_columns[i] != by_columns[2]) p->transpose[place] = CUBLAS_TRANSPOSED;
  }
  return true;
}

/* Merges all batch dimensions into one. */
static bool batches_fit(const compute_kernel_descriptor *d, const compute_operand *const of[3],
                        cublas_problem *p) {
  int64_t distance[3] = {0, 0, 0};
  p->batches = 1;
  for (int dim = d->rank - 3; dim >= 0; dim--) {
    if (d->size[dim] == 1) continue;
    for (int i = 0; i < 3; i++) {
      const int64_t stride = of[i]->stride[dim];
      if (stride < 0) return false;
      if (p->batches == 1)
        distance[i] = stride;
      else if (stride != distance[i] * p->batches)
        return false;
    }
    p->batches *= d->size[dim];
  }
  for (int i = 0; i < 3; i++) p->distance[place_of(p, i)] = distance[i];
  return p->batches <= INT32_MAX;
}

static const char *refusal(const compute_kernel_descriptor *d, cublas_problem *p) {
  if (d->kind != COMPUTE_KERNEL_GEMM) return "it is not a matrix product";
  for (int dim = 0; dim < d->rank; dim++)
    if (d->size[dim] == 0) return "the product is empty";
  if (compute_gemm_of(d)->k == 0) return "the product is empty";
  if (d->output_count != 1) return "there are several results";
  const compute_operand *const of[3] = {&d->inputs[0], &d->inputs[1], &d->outputs[0]};
  if (!types_fit(d, p)) return "it does not support this combination of dtypes";
  if (!matrices_fit(d, of, p)) return "a matrix is not contiguous";
  if (!batches_fit(d, of, p)) return "the batches are not evenly spaced";
  if (!epilogue_fits(d, p)) return "something else is fused to the product";
  if (p->bias_length && !p->swapped) return "its bias runs along the columns of the result";
  return NULL;
}

bool cublas_translate(const compute_kernel_descriptor *d, cublas_problem *p, const char **reason) {
  memset(p, 0, sizeof *p); /* padding as well: the whole struct is a key */
  *reason = refusal(d, p);
  return *reason == NULL;
}
