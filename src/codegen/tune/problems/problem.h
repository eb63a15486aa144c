/* SPDX-License-Identifier: MIT */
/* The problems that the tuner measures: one kernel each. Their classes are within reach of most
 * classes that occur in programs (KERNEL_CLASS_REACH).
 *
 * The problems of a kind are a constant struct in problems/. COMPUTE_KERNEL_KINDS generates the
 * table of these structs (suite.c). A suite is the problems of one kind, and has its name. */
#ifndef TUNE_PROBLEM_H
#define TUNE_PROBLEM_H

#include "core/kernel/common/program.h"
#include "core/kernel/kernel.h"

enum { PROBLEM_INPUTS = 3, PROBLEM_NAME_BYTES = 64 };

/* Built in place. Do not move it: the descriptor points into it. */
typedef struct tune_problem {
  const struct problem_kind *kind;
  char name[PROBLEM_NAME_BYTES]; /* "gemm f32 1024x1024x1024" */
  compute_kernel_descriptor descriptor;
  kernel_attributes attributes;
  compute_operand inputs[PROBLEM_INPUTS], output;           /* one output */
  uint64_t input_elements[PROBLEM_INPUTS], output_elements; /* elements that the strides span */
  program_builder program;
} tune_problem;

/* ---- The suite (suite.c) --------------------------------------------------------------------- */

size_t problem_count(void);

/* Builds row `index` of the suite in `problem`. Returns false past the end. */
bool problem_build(size_t index, tune_problem *problem);

/* True if the row belongs to a suite in `names` ("map", "map,gemm", "all"). If `quick`, it must
 * also belong to a quick run. */
bool problem_chosen(size_t index, const char *names, bool quick);

/* True if every name of the list is a suite. */
bool problem_suite_valid(const char *names);

/* Writes the names of all suites, "map, reduce, …", into `text`, and returns it. */
char *problem_suites(char *text, size_t bytes);

const struct problem_kind *problem_kind_of(compute_kernel_kind kind);

/* ---- Data (problem.c) ------------------------------------------------------------------------ */

/* Bytes of all buffers of the problem. */
uint64_t problem_bytes(const tune_problem *problem);

/* Fills input `input` with numbers that expose mistakes. Their sums are exact in any order, so that
 * a single missing or extra element shows. */
void problem_fill(const tune_problem *problem, uint32_t input, void *data);

/* The initial value of every byte of the output. All bits are set, which is a NaN, unless the
 * kernel adds to the output. */
int problem_blank(const tune_problem *problem);

/* True if the results `got` match the CPU's. If not, `reason` gives the first wrong element. */
bool problem_check(const tune_problem *problem, const void *got, const void *expected, char *reason,
                   size_t reason_bytes);

/* ---- For the kinds --------------------------------------------------------------------------- */

typedef struct problem_row {
  const char *what; /* in the problem's name; may be "" */
  int form;         /* of this kind */
  compute_dtype dtype;
  int64_t a, b, c; /* sizes as in the name; c may be 0: none */
  int64_t batch;   /* 0: none */
  bool quick;
} problem_row;

typedef struct problem_tolerance {
  double absolute, relative;
} problem_tolerance;

/* A kind without rows has nothing to tune. The comments give the meaning of other NULL or false
 * fields. */
typedef struct problem_kind {
  const problem_row *rows; /* ends with a row with a = 0 */
  /* Fills a zeroed problem. Element counts that stay 0 follow from the strides. */
  void (*build)(tune_problem *problem, const problem_row *row);
  void (*fill)(const tune_problem *problem, uint32_t input, void *data); /* NULL: −1 … 1 */
  /* The tolerance, given the epsilon of the computing type. The rounding of the stored result is
   * added to it. NULL: none. */
  problem_tolerance (*tolerance)(const compute_kernel_descriptor *d, double epsilon);
  /* Replaces the comparison element by element. */
  bool (*check)(const tune_problem *problem, const void *got, const void *expected, char *reason,
                size_t reason_bytes);
  bool adds; /* adds to the output, which begins with zeros */
} problem_kind;

void problem_space(tune_problem *problem, compute_kernel_kind kind, int64_t rows, int64_t columns);
/* Strides for every dimension of the space, whose rank is already set. */
void problem_add_input(tune_problem *problem, compute_dtype dtype, const int64_t *strides);
void problem_set_output(tune_problem *problem, compute_dtype dtype, const int64_t *strides);
/* Dense, with four dimensions. */
void problem_add_image(tune_problem *problem, compute_dtype dtype, const int64_t size[4]);
void problem_set_image(tune_problem *problem, compute_dtype dtype, const int64_t size[4]);

/* A number in −1 … 1. */
double problem_number(uint64_t counter);

void problem_fill_range(const tune_problem *problem, uint32_t input, double range, void *data);
/* Multiples of 1/4 between −1 and 1. The sum of up to millions of them has the same bits in any
 * order, so that no tolerance can hide a missing or repeated element. */
void problem_fill_quarters(const tune_problem *problem, uint32_t input, void *data);
void problem_fill_indices(const tune_problem *problem, uint32_t input, int64_t axis, void *data);

#endif
