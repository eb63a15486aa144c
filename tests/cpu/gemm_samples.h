/* SPDX-License-Identifier: MIT */
/* Shared by the tests of GEMM on the CPU. */
#ifndef TESTS_CPU_GEMM_SAMPLES_H
#define TESTS_CPU_GEMM_SAMPLES_H

#include "kernel_fixture.h"

#include "gemm/gemm.h"

typedef enum epilogue {
  PLAIN,       /* stores the sums, converted */
  BIAS_GELU,   /* gelu(sum + row vector) */
  BIAS_COLUMN, /* sum + column vector */
  RESIDUAL,    /* sum + matrix, stored over that matrix */
  TWO_OUTPUTS, /* sum + row vector, and relu(sum) with columns side by side */
  PLACES,      /* sum + a function of position and coordinates */
  SCALED,      /* sum * -3 */
  EPILOGUE_COUNT,
  BYTES,      /* round((sum + column vector) / 512) + 100 as bytes; for sums of bytes */
  BYTES_TERMS /* the same with sum - 3 * (vector - 11) + 5 * other vector */
} epilogue;

enum { BYTES_DIVISOR = 512, BYTES_ZERO = 100, BYTES_OFFSET = 30000 };
enum { TERM_FACTOR = 3, TERM_SHIFT = 11, OTHER_FACTOR = 5 };

typedef enum layout { DENSE, TRANSPOSED, PADDED, TRANSPOSED_PADDED, GAPS, LAYOUT_COUNT } layout;

typedef struct sample {
  compute_dtype a, b, accumulate, output;
  int32_t batch_rank;
  int64_t batch[3], m, n, k;
  layout layout_a, layout_b, layout_c;
  uint32_t repeat_a, repeat_b; /* bit d: batch dimension d has stride 0 */
  epilogue epilogue;
  bool constant_b; /* also runs with packed B */
  bool extreme;    /* bytes of the largest magnitude */
  bool small;      /* B in −64 … 64, and COMPUTE_PRECISION_SATURATE */
} sample;

/* The operands of one sample: blocks over (batch…, rows, columns). */
typedef struct operands {
  block a, b, extra, other, c, second;
  bool has_extra, has_other, has_second;
} operands;

operands make_operands(const sample *s, test_random *random);
void release_operands(operands *o);

typedef struct description {
  compute_operand inputs[4], outputs[2];
  program_builder program;
  compute_kernel_descriptor descriptor;
  compute_gemm_attributes attributes;
  block *blocks[6];
} description;

void describe(const sample *s, operands *o, description *d);

/* Compares the outputs with the double reference. */
void check_product(const fixture *f, const sample *s, const operands *o, const description *d);

/* The kinds of device for every sample. */
typedef struct device_kind {
  const char *isa, *blas;
  bool high;
  const cpu_gemm_type *bytes; /* replaces the set's kernel, with bf16 converted */
  const cpu_gemm_type *bf16;  /* replaces the set's kernel, if it has one */
} device_kind;
extern const device_kind device_kinds[];
extern const size_t device_kind_count;

/* `blas` is the value of COMPUTE_BLAS. Returns false if the machine lacks the instruction set. */
bool open_device(fixture *f, int32_t threads, const char *isa, const char *blas);

/* Runs one sample and compares it with the reference. */
void check_sample(fixture *f, const sample *s, test_random *random);

/* Runs `count` samples of a kind on every kind of device. `make` returns false for no sample. */
typedef bool (*sample_maker)(sample *s, test_random *random);
void check_samples(sample_maker make, int count, int32_t threads);

#endif
