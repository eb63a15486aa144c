/* SPDX-License-Identifier: MIT */
/* The problems that the tuner measures: one kernel each, chosen so that their classes are within
 * reach of most that occur in programs (KERNEL_CLASS_REACH).
 *
 * Those of a kind are a constant struct in problems/, and the table of them (suite.c) is made from
 * COMPUTE_KERNEL_KINDS. A suite is the problems of one kind and has its name. */
#ifndef TUNE_PROBLEM_H
#define TUNE_PROBLEM_H

#include "core/kernel/common/program.h"
#include "core/kernel/kernel.h"

enum { PROBLEM_INPUTS = 3, PROBLEM_NAME_BYTES = 64 };

/* Built in place: the descriptor points into it, so it must not be moved. */
typedef struct tune_problem {
  const struct problem_kind *kind;
  char name[PROBLEM_NAME_BYTES]; /* "gemm f32 1024x1024x1024" */
  compute_kernel_descriptor descriptor;
  kernel_attributes attributes;
  compute_operand inputs[PROBLEM_INPUTS], output;           /* one output */
  uint64_t input_elements[PROBLEM_INPUTS], output_elements; /* that the strides span */
  program_builder program;
} tune_problem;

/* ---- The suite (suite.c) --------------------------------------------------------------------- */

size_t problem_count(void);

/* Row `index` of the suite into `problem`; false past the end. */
bool problem_build(size_t index, tune_problem *problem);

/* Whether the row is of the suite `names` ("map", "map,gemm", "all"), and, if `quick`, of the few
 * that a quick run has. */
bool problem_chosen(size_t index, const char *names, bool quick);

/* Whether every name of the list is one of a suite. */
bool problem_suite_valid(const char *names);

/* "map, reduce, …": the names of all suites, into `text`, which is returned. */
char *problem_suites(char *text, size_t bytes);

const struct problem_kind *problem_kind_of(compute_kernel_kind kind);

/* ---- Data (problem.c) ------------------------------------------------------------------------ */

/* Of all its buffers. */
uint64_t problem_bytes(const tune_problem *problem);

/* Fills input `input` with numbers that expose mistakes: sums of them are exact in any order, so
 * that a single missing or extra element shows. */
void problem_fill(const tune_problem *problem, uint32_t input, void *data);

/* The initial value of every byte of the output: all bits set, a NaN, unless the kernel adds to
 * it. */
int problem_blank(const tune_problem *problem);

/* Whether the results `got` match the CPU's. If not, `reason` says where. */
bool problem_check(const tune_problem *problem, const void *got, const void *expected, char *reason,
                   size_t reason_bytes);

/* ---- For the kinds --------------------------------------------------------------------------- */

typedef struct problem_row {
  const char *what; /* in the problem's name; may be "" */
  int form;         /* the kind's own */
  compute_dtype dtype;
  int64_t a, b, c; /* sizes as they are in the name; c may be 0: none */
  int64_t batch;   /* 0: none */
  bool quick;
} problem_row;

typedef struct problem_tolerance {
  double absolute, relative;
} problem_tolerance;

/* Without rows, a kind has nothing to tune. Other NULL or false fields have the meaning stated for
 * them. */
typedef struct problem_kind {
  const problem_row *rows; /* ends with one of no size `a` */
  /* Fills a zeroed problem. Element counts left 0 follow from the strides. */
  void (*build)(tune_problem *problem, const problem_row *row);
  void (*fill)(const tune_problem *problem, uint32_t input, void *data); /* NULL: −1 … 1 */
  /* The tolerance, given the epsilon of the computing type; the rounding of the stored result is
   * added. NULL: none. */
  problem_tolerance (*tolerance)(const compute_kernel_descriptor *d, double epsilon);
  /* Replaces the comparison element by element. */
  bool (*check)(const tune_problem *problem, const void *got, const void *expected, char *reason,
                size_t reason_bytes);
  bool adds; /* to the output, which begins with zeros */
} problem_kind;

void problem_space(tune_problem *problem, compute_kernel_kind kind, int64_t rows, int64_t columns);
/* Strides for every dimension of the space, whose rank is known. */
void problem_add_input(tune_problem *problem, compute_dtype dtype, const int64_t *strides);
void problem_set_output(tune_problem *problem, compute_dtype dtype, const int64_t *strides);
/* Dense, of four dimensions. */
void problem_add_image(tune_problem *problem, compute_dtype dtype, const int64_t size[4]);
void problem_set_image(tune_problem *problem, compute_dtype dtype, const int64_t size[4]);

/* −1 … 1 */
double problem_number(uint64_t counter);

void problem_fill_range(const tune_problem *problem, uint32_t input, double range, void *data);
/* Multiples of 1/4 between −1 and 1: adding up to millions of them in any order gives the same
 * bits, so that a sum that omits or repeats an element cannot hide in a tolerance. */
void problem_fill_quarters(const tune_problem *problem, uint32_t input, void *data);
void problem_fill_indices(const tune_problem *problem, uint32_t input, int64_t axis, void *data);

#endif
