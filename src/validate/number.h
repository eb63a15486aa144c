/* Numbers that know how wrong they may be.
 *
 * A device computes with rounding; the plain evaluation computes the same thing in double precision
 * and carries a bound of the difference along with each value. Where no bound can be given (a
 * comparison of two values that rounding may have exchanged, a division by what may be zero), the
 * number is vague: its error is infinite, and anything will pass for it. Integers are exact, or
 * vague. */
#ifndef VALIDATE_NUMBER_H
#define VALIDATE_NUMBER_H

#include <stdbool.h>

#include "compute/backend.h"

typedef struct number {
  double real;     /* of F64 and F32 */
  int64_t integer; /* of I64, I32 and BOOL */
  double error;    /* ≥ 0; infinite: vague */
} number;

bool number_is_vague(const number *n);

/* The distance of 1 to the next number of a type or storage dtype; 0 for integers. */
double number_epsilon(compute_dtype dtype);

/* Adds what rounding to `type` (F64 or F32) does to a result that is exact to `ulps` units. A value
 * that is out of the type's range becomes infinite. `exact`: all that it was made of had error 0.
 */
number number_round(compute_dtype type, double value, double error, double ulps, bool exact);

/* One element of memory, in its dtype's computing type. */
number number_load(compute_dtype dtype, const void *element);

/* n, of type `from`, as type `to` (both computing types). */
number number_cast(const number *n, compute_dtype from, compute_dtype to);

/* One instruction on up to three operands of type `type_a` (of b and c in SELECT, of the result).
 * Not LOAD, COORDINATE and POSITION. */
number number_apply(const compute_instruction *instruction, compute_dtype type_a, const number *a,
                    const number *b, const number *c);

/* Runs a program on its inputs; a program without instructions hands input 0 on. `values` has room
 * for one number for each instruction. */
void number_run(const compute_program *program, const number *inputs, const int64_t *coordinate,
                int64_t position, number *values, number *outputs);

#endif
