/* The problems that the tuner measures: one kernel each, chosen so that together their classes lie
 * within reach of most that programs have (KERNEL_CLASS_REACH). */
#ifndef TUNE_PROBLEM_H
#define TUNE_PROBLEM_H

#include "kernel/kernel.h"
#include "kernel/program.h"

enum { PROBLEM_INPUTS = 3, PROBLEM_NAME_BYTES = 64 };

/* Built in place: the descriptor points into it, so it must not be moved. */
typedef struct tune_problem {
  char name[PROBLEM_NAME_BYTES]; /* "gemm f32 1024x1024x1024" */
  compute_kernel_descriptor descriptor;
  kernel_attributes attributes;
  compute_operand inputs[PROBLEM_INPUTS], output;           /* one output */
  uint64_t input_elements[PROBLEM_INPUTS], output_elements; /* that the strides span */
  program_builder program;
} tune_problem;

size_t problem_count(void);

/* Row `index` of the suite into `problem`; false past the end. */
bool problem_build(size_t index, tune_problem *problem);

/* Whether the row is of the suite `names` ("map", "map,gemm", "all"), and, if `quick`, of the few
 * that a quick run has. */
bool problem_chosen(size_t index, const char *names, bool quick);

/* Whether every name of the list is one of a suite. */
bool problem_suite_valid(const char *names);

/* Of all its buffers. */
uint64_t problem_bytes(const tune_problem *problem);

/* Fills input `input` with numbers that expose mistakes: sums of them are exact where their order
 * may differ, so that a single element too many or too few shows. */
void problem_fill(const tune_problem *problem, uint32_t input, void *data);

/* Whether `got` are the right results, given those of the CPU. If not, `reason` says where. */
bool problem_check(const tune_problem *problem, const void *got, const void *expected, char *reason,
                   size_t reason_bytes);

#endif
