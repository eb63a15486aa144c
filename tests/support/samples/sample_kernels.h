/* SPDX-License-Identifier: MIT */
/* Descriptors for the tests of the kernel generator: every kind, dtype, instruction, pattern of
 * strides and tuning, in sizes that run in moments. A few never run: they test the 64-bit form. */
#ifndef SUPPORT_SAMPLE_KERNELS_H
#define SUPPORT_SAMPLE_KERNELS_H

#include "core/kernel/common/program.h"
#include "support/harness/values.h"
#include "support/samples/attributes.h"

enum { SAMPLE_TUNINGS = 16 };

typedef struct sample_kernel {
  char name[96];
  compute_kernel_descriptor descriptor; /* points into this struct */
  compute_operand inputs[COMPUTE_MAX_OPERANDS], outputs[COMPUTE_MAX_OPERANDS];
  program_builder prologue, epilogue;
  any_attributes attributes;
  bool large;       /* too large to run */
  double low, high; /* range of the inputs' elements */
  bool whole;       /* inputs are whole numbers, so that many are equal */
  /* The first input contains NaN, infinities and zeros of both signs (for integers, the smallest
   * and the largest). For ATTENTION, the bias contains minus infinity. */
  bool special;
  int64_t index_limit; /* if not 0: inputs[1] are indices in [−index_limit, index_limit) */
  test_tolerance tolerance;
  compute_tuning tuning[SAMPLE_TUNINGS]; /* besides the generator's default */
  uint32_t tuning_count;
} sample_kernel;

typedef void (*sample_visitor)(const sample_kernel *sample, void *user);

/* Calls `visit` with every sample for the generator: all kinds except SPOTS, QUANTIZED_GEMM,
 * LINALG and TREES. */
void sample_kernels_visit(sample_visitor visit, void *user);

/* The same with all kinds: for backends. */
void sample_kernels_visit_all(sample_visitor visit, void *user);

/* The range of elements that an operand (inputs, then outputs) touches, relative to its first one:
 * low ≤ 0 ≤ high. Returns false if it touches none. */
bool sample_kernel_extent(const sample_kernel *sample, uint32_t operand, int64_t *low,
                          int64_t *high);

const compute_operand *sample_kernel_operand(const sample_kernel *sample, uint32_t operand);

/* Returns true if the sample computes or stores f64. */
bool sample_kernel_uses_f64(const sample_kernel *sample);

/* Targets of a dialect: a processor, an NVIDIA GPU, and a device with minimal resources. */
typedef enum sample_target { TARGET_CPU, TARGET_GPU, TARGET_SMALL, TARGET_COUNT } sample_target;

compute_target sample_target_create(sample_target target, compute_dialect dialect);
const char *sample_target_name(sample_target target);

/* ---- For the files that make samples ------------------------------------------------------- */

void sample_begin(sample_kernel *s, compute_kernel_kind kind, compute_shape space,
                  const char *format, ...) COMPUTE_PRINTF(4, 5);

/* Row-major strides over the dimensions whose bit is set; 0 elsewhere. */
void sample_dense(const compute_kernel_descriptor *d, uint32_t dimensions,
                  int64_t stride[COMPUTE_MAX_RANK]);

/* Add a dense operand over these dimensions and return it for changes. */
compute_operand *sample_input(sample_kernel *s, compute_dtype dtype, uint32_t dimensions);
compute_operand *sample_output(sample_kernel *s, compute_dtype dtype, uint32_t dimensions);
compute_tuning *sample_tuning(sample_kernel *s);

/* Sets pointers and programs, and calls the visitor. */
void sample_end(sample_kernel *s, sample_visitor visit, void *user);

/* The samples of each kind. A new kind needs a file with its function. */
#define SAMPLE_KIND(code, number, name)                                                            \
  void sample_##name##_kernels(sample_visitor visit, void *user);
COMPUTE_KERNEL_KINDS(SAMPLE_KIND)
#undef SAMPLE_KIND

/* MAP with every instruction and type, one by one. */
void sample_every_instruction(sample_visitor visit, void *user);

#endif
