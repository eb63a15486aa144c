/* SPDX-License-Identifier: MIT */
/* Integer operations, each for i32 and i64. Arithmetic wraps, so it is done unsigned. */

//@ neg_integer
#define neg_integer(x) ((integer)(0 - (natural)(x)))
//@ add_integer
#define add_integer(a, b) ((integer)((natural)(a) + (natural)(b)))
//@ sub_integer
#define sub_integer(a, b) ((integer)((natural)(a) - (natural)(b)))
//@ mul_integer
#define mul_integer(a, b) ((integer)((natural)(a) * (natural)(b)))
//@ square_integer
#define square_integer(x) ((integer)((natural)(x) * (natural)(x)))
//@ abs_integer
#define abs_integer(x) ((x) < 0 ? (integer)(0 - (natural)(x)) : (x))
//@ sign_integer
#define sign_integer(x) ((integer)(((x) > 0) - ((x) < 0)))
//@ relu_integer
#define relu_integer(x) ((x) > 0 ? (x) : (integer)0)
//@ min_integer
#define min_integer(a, b) ((a) < (b) ? (a) : (b))
//@ max_integer
#define max_integer(a, b) ((a) > (b) ? (a) : (b))

//@ div_integer
/* Division by 0 gives 0. The processor never divides by -1, because it may trap on the lowest
 * number. */
DEVICE integer div_integer(integer a, integer b) {
  const integer quotient = a / (b == 0 || b == -1 ? 1 : b);
  return b == -1 ? (integer)(0 - (natural)a) : b == 0 ? 0 : quotient;
}

//@ mod_integer
DEVICE integer mod_integer(integer a, integer b) {
  const integer remainder_ = a % (b == 0 || b == -1 ? 1 : b);
  return b == 0 || b == -1 ? 0 : remainder_;
}

//@ pow_integer
/* Squares repeatedly. A negative exponent gives the truncated quotient 1 / a^|b|: 0 unless a is 1
 * or -1. */
DEVICE integer pow_integer(integer a, integer b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) ? -1 : 1) : 0;
  natural result = 1, power = (natural)a;
  for (; b; b >>= 1) {
    if (b & 1) result *= power;
    power *= power;
  }
  return (integer)result;
}

//@ bit_not_integer
#define bit_not_integer(x) (~(x))
//@ bit_and_integer
#define bit_and_integer(a, b) ((a) & (b))
//@ bit_or_integer
#define bit_or_integer(a, b) ((a) | (b))
//@ bit_xor_integer
#define bit_xor_integer(a, b) ((a) ^ (b))

//@ shift_left_integer
/* As an unsigned number, a negative bit count is large. Languages disagree on shifts by the width
 * or more. */
DEVICE integer shift_left_integer(integer a, integer b) {
  const natural last = 8 * sizeof(integer) - 1;
  return (natural)b > last ? 0 : (integer)((natural)a << ((natural)b & last));
}

//@ shift_right_integer
DEVICE integer shift_right_integer(integer a, integer b) {
  const natural last = 8 * sizeof(integer) - 1;
  return a >> ((natural)b > last ? last : (natural)b);
}
