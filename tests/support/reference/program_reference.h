/* SPDX-License-Identifier: MIT */
/* Runs programs of compute/backend.h, instruction by instruction. Floats are doubles, rounded to
 * the instruction's type; integers are exact. It uses none of the library's arithmetic. */
#ifndef SUPPORT_PROGRAM_REFERENCE_H
#define SUPPORT_PROGRAM_REFERENCE_H

#include "compute/backend.h"

/* One number: `real` for a float, `whole` for an integer or bool. */
typedef struct reference_value {
  double real;
  int64_t whole;
  double terms;  /* the scale of its error: of a sum, its terms' magnitudes; of ATTENTION, the
                  * largest magnitude of a score */
  int64_t count; /* of a sum: its terms */
} reference_value;

bool reference_is_float(compute_dtype dtype);

/* The type in which programs compute a dtype's elements. */
compute_dtype reference_type(compute_dtype dtype);

/* Loads an element from memory as a value of its compute type, and stores one. `type` is the
 * value's. */
reference_value reference_load(compute_dtype dtype, const void *element);
void reference_store(compute_dtype dtype, void *element, compute_dtype type, reference_value value);

/* Converts a value to another type by the rules of compute/dtype.h; rounds or wraps it to its own
 * type. */
reference_value reference_cast(compute_dtype from, reference_value value, compute_dtype to);
reference_value reference_fit(compute_dtype type, reference_value value);

/* The point of a space at which a program runs. */
typedef struct reference_point {
  int32_t rank;
  const int64_t *size;
  int64_t at[COMPUTE_MAX_RANK];
} reference_point;

/* The row-major position of a point; reference_next moves to the next point and returns false after
 * the last. */
int64_t reference_position(const reference_point *point);
bool reference_next(reference_point *point);

/* Returns input number `input` of a program, in the type of its load. */
typedef reference_value (*reference_input)(const void *user, uint32_t input);

/* Computes one instruction for operands of type `from`. */
reference_value reference_instruction(const compute_instruction *instruction, compute_dtype from,
                                      const reference_value operand[3],
                                      const reference_point *point);

/* Runs a program with instructions at a point. `values` has room for one value per instruction. */
void program_reference(const compute_program *program, const reference_point *point,
                       reference_input input, const void *user, reference_value *values);

#endif
