/* SPDX-License-Identifier: MIT */
/* Checks one sample of one operation (or a small expression) against the double-precision
 * reference. It builds the graph and compiles it as usual, without fusion, and as written. It runs
 * each plan on guarded tensors and compares every element. With the variable COMPUTE_TEST_STRICT
 * set, a step that falls back to the CPU is a failure.
 *
 * The operands are inputs. Then the sample is repeated with operands of other kinds: parameters,
 * constants, or a mixture. A sample with an empty operand is repeated for all of these, because
 * such operands have no memory. Other samples are repeated for one of them, a different one each
 * time. */
#ifndef SUPPORT_OPERATION_H
#define SUPPORT_OPERATION_H

#include "support/harness/guarded.h"

/* Shapes and axes as table initialisers: COMPUTE_SHAPE for constant tables. */
#define SHAPE(...)                                                                                 \
  {                                                                                                \
    .rank = (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .size = { __VA_ARGS__ } \
  }
#define SCALAR                                                                                     \
  { .rank = 0 }
#define AXES(...)                                                                                  \
  {                                                                                                \
    .count = (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), .axis = {              \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }

enum { OPERATION_MAX_OPERANDS = 4 };

typedef struct operation_operand {
  compute_dtype dtype;
  compute_shape shape;
  test_fill fill;
  double low, high;
  guarded_layout layout;
} operation_operand;

typedef struct operation_case {
  const char *name;
  compute_node (*build)(compute_graph *graph, const compute_node *operands, const void *user);
  const void *user; /* passed to build */
  operation_operand operand[OPERATION_MAX_OPERANDS];
  size_t operand_count;
  guarded_layout result_layout;
  test_tolerance tolerance;
  const char *operation; /* operation in ops.def that gets the errors; NULL: several */
  compute_dtype dtype;   /* dtype of the call; NONE: the first operand's */
} operation_case;

/* Runs a sample. Errors are printed and counted, and the test goes on. test_takes selects among the
 * samples of one name and dtype. If samples are spread or sampled (test_spread, test_samples), only
 * the first of one name and dtype is repeated with operands of other kinds. */
void operation_check(compute_context *context, const operation_case *sample);

/* The same with operands of every kind, independent of earlier samples. */
void operation_check_kinds(compute_context *context, const operation_case *sample);

/* Ends a test that used operation_check: writes the errors seen. Fails the test if a sample failed
 * or if none was run. */
void operation_finish(void);

/* The tolerance for a result of `dtype` whose f32 error is at most `ulp`. */
test_tolerance operation_tolerance(compute_dtype dtype, double ulp);

/* The dtypes of a domain of ops.def, named as by compute_operation_at, ended by COMPUTE_DTYPE_NONE:
 * the dtypes that this run takes, and all of them. */
const compute_dtype *operation_dtypes(const char *domain);
const compute_dtype *operation_all_dtypes(const char *domain);

#endif
