/* SPDX-License-Identifier: MIT */
/* One sample of one operation (or a small expression), judged by the double-precision reference:
 * builds the graph, compiles it as usual, without fusion, and as written, runs each plan on guarded
 * tensors, and compares every element. With the variable COMPUTE_TEST_STRICT set, a step that the
 * device under test leaves to the CPU is a failure.
 *
 * The operands are inputs. Then the sample is repeated with operands of other kinds: parameters,
 * constants, or some of each. A sample with an operand that has no elements is repeated for all of
 * these, since such operands have no memory, and others for one, each for another one. */
#ifndef SUPPORT_OPERATION_H
#define SUPPORT_OPERATION_H

#include "support/harness/guarded.h"

/* Shapes and axes as initialisers of tables: what COMPUTE_SHAPE is in an expression. */
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
  const void *user; /* handed to build */
  operation_operand operand[OPERATION_MAX_OPERANDS];
  size_t operand_count;
  guarded_layout result_layout;
  test_tolerance tolerance;
  const char *operation; /* whose errors these are, by its name in ops.def; NULL: of several */
  compute_dtype dtype;   /* that it is called with; NONE: the first operand's */
} operation_case;

/* Runs a sample; what is wrong is printed and counted, and the test goes on. Of those of one name
 * and dtype it runs what test_takes says. Where samples are spread or sampled (test_spread,
 * test_samples), only the first of one name and dtype is repeated with operands of other kinds. */
void operation_check(compute_context *context, const operation_case *sample);

/* The same with operands of every kind, whatever else has been run. */
void operation_check_kinds(compute_context *context, const operation_case *sample);

/* Ends a test that used operation_check: writes down the errors seen, and fails the test
 * if any sample failed, or if none was run. */
void operation_finish(void);

/* The tolerance that suits a result of `dtype` whose f32 error is at most `ulp`. */
test_tolerance operation_tolerance(compute_dtype dtype, double ulp);

/* The dtypes of a domain of ops.def, as compute_operation_at calls them, ended by
 * COMPUTE_DTYPE_NONE: those that this run takes, and all of them. */
const compute_dtype *operation_dtypes(const char *domain);
const compute_dtype *operation_all_dtypes(const char *domain);

#endif
