/* SPDX-License-Identifier: MIT */
/* Elementwise operations without a single ONNX operator, and casts. */
#include <math.h>

#include "core/type/dtype.h"
#include "model/export/export.h"

static bool is_unsigned(compute_dtype dtype) {
  return dtype == COMPUTE_U8 || dtype == COMPUTE_U16 || dtype == COMPUTE_U32 ||
         dtype == COMPUTE_U64;
}

static bool is_float(compute_dtype dtype) {
  return EXPORT_FLOATS >> dtype & 1;
}

static export_value number(exporter *to, const export_call *call, double value) {
  return export_number(to, call->dtype, value);
}

/* ONNX's Neg accepts only signed numbers. */
export_value export_neg(exporter *to, const export_call *call) {
  if (!is_unsigned(call->dtype)) return EMIT(to, "Neg", call->inputs[0]);
  return EMIT(to, "Sub", number(to, call, 0), call->inputs[0]);
}

export_value export_square(exporter *to, const export_call *call) {
  return EMIT(to, "Mul", call->inputs[0], call->inputs[0]);
}

export_value export_rsqrt(exporter *to, const export_call *call) {
  return EMIT(to, "Reciprocal", EMIT(to, "Sqrt", call->inputs[0]));
}

/* e^x − 1 = tanh(x / 2) · (e^x + 1), without cancellation. */
static export_value expm1_of(exporter *to, const export_call *call, export_value x) {
  const export_value half = EMIT(to, "Mul", x, number(to, call, 0.5));
  const export_value sum = EMIT(to, "Add", EMIT(to, "Exp", x), number(to, call, 1));
  return EMIT(to, "Mul", EMIT(to, "Tanh", half), sum);
}

export_value export_expm1(exporter *to, const export_call *call) {
  return expm1_of(to, call, call->inputs[0]);
}

/* For |x| < 1, with u = 1 + x after rounding: log(u) · x / (u − 1), which cancels the rounding
 * error; x if u is 1. */
export_value export_log1p(exporter *to, const export_call *call) {
  const export_value x = call->inputs[0], one = number(to, call, 1);
  const export_value u = EMIT(to, "Add", x, one), log = EMIT(to, "Log", u);
  const export_value is_one = EMIT(to, "Equal", u, one);
  const export_value left = EMIT(to, "Where", is_one, one, EMIT(to, "Sub", u, one));
  const export_value near = EMIT(to, "Mul", log, EMIT(to, "Div", x, left));
  const export_value is_near = EMIT(to, "Less", EMIT(to, "Abs", x), one);
  return EMIT(to, "Where", is_one, x, EMIT(to, "Where", is_near, near, log));
}

export_value export_trunc(exporter *to, const export_call *call) {
  const export_value x = call->inputs[0];
  const export_value whole = EMIT(to, "Floor", EMIT(to, "Abs", x));
  return EMIT(to, "Mul", EMIT(to, "Sign", x), whole);
}

export_value export_relu(exporter *to, const export_call *call) {
  return EMIT(to, is_unsigned(call->dtype) ? "Identity" : "Relu", call->inputs[0]);
}

/* x · (1 + y) / 2 */
static export_value half_of(exporter *to, const export_call *call, export_value y) {
  const export_value half = EMIT(to, "Mul", call->inputs[0], number(to, call, 0.5));
  return EMIT(to, "Mul", half, EMIT(to, "Add", y, number(to, call, 1)));
}

/* ONNX defines Gelu with f32 constants. */
export_value export_gelu(exporter *to, const export_call *call) {
  const export_value x = call->inputs[0];
  if (call->dtype != COMPUTE_F64) return EMIT(to, "Gelu", x);
  const export_value scaled = EMIT(to, "Mul", x, number(to, call, 0.70710678118654752440));
  return half_of(to, call, EMIT(to, "Erf", scaled));
}

export_value export_gelu_tanh(exporter *to, const export_call *call) {
  const export_value x = call->inputs[0];
  if (call->dtype != COMPUTE_F64) {
    export_set_text(to, "approximate", "tanh");
    return EMIT(to, "Gelu", x);
  }
  const export_value cube = EMIT(to, "Mul", x, EMIT(to, "Mul", x, x));
  const export_value sum = EMIT(to, "Add", x, EMIT(to, "Mul", cube, number(to, call, 0.044715)));
  const double root = 0.79788456080286535588; /* sqrt(2 / pi) */
  return half_of(to, call, EMIT(to, "Tanh", EMIT(to, "Mul", sum, number(to, call, root))));
}

export_value export_silu(exporter *to, const export_call *call) {
  return EMIT(to, "Mul", call->inputs[0], EMIT(to, "Sigmoid", call->inputs[0]));
}

export_value export_is_finite(exporter *to, const export_call *call) {
  const export_value x = call->inputs[0];
  return EMIT(to, "Not", EMIT(to, "Or", EMIT(to, "IsInf", x), EMIT(to, "IsNaN", x)));
}

/* ---- Quotients ------------------------------------------------------------------------------- */

/* ONNX leaves integer division by 0 undefined, and by −1 for the smallest number. Both divisors
 * are replaced by 1. */
typedef struct safe_divisor {
  export_value value, zero, minus_one; /* masks of divisors 0 and −1 (0 for unsigned integers) */
} safe_divisor;

static safe_divisor make_safe(exporter *to, const export_call *call) {
  const export_value b = call->inputs[1], one = number(to, call, 1);
  safe_divisor safe = {.zero = EMIT(to, "Equal", b, number(to, call, 0))};
  export_value unsafe = safe.zero;
  if (!is_unsigned(call->dtype)) {
    safe.minus_one = EMIT(to, "Equal", b, number(to, call, -1));
    unsafe = EMIT(to, "Or", safe.zero, safe.minus_one);
  }
  safe.value = EMIT(to, "Where", unsafe, one, b);
  return safe;
}

export_value export_div(exporter *to, const export_call *call) {
  if (is_float(call->dtype)) return EMIT(to, "Div", call->inputs[0], call->inputs[1]);
  const safe_divisor safe = make_safe(to, call);
  export_value result = EMIT(to, "Div", call->inputs[0], safe.value);
  if (safe.minus_one) result = EMIT(to, "Where", safe.minus_one, EMIT(to, "Neg", result), result);
  return EMIT(to, "Where", safe.zero, number(to, call, 0), result);
}

/* A remainder by 1 is 0, the required result for 0 and −1. */
export_value export_mod(exporter *to, const export_call *call) {
  const export_value b = is_float(call->dtype) ? call->inputs[1] : make_safe(to, call).value;
  export_set_integer(to, "fmod", 1);
  return EMIT(to, "Mod", call->inputs[0], b);
}

export_value export_not_equal(exporter *to, const export_call *call) {
  return EMIT(to, "Not", EMIT(to, "Equal", call->inputs[0], call->inputs[1]));
}

/* ---- Shifts ---------------------------------------------------------------------------------- */

/* x shifted as u64, returned as i64. 0 if the shift count is negative or not below the type's
 * width. */
static export_value shifted(exporter *to, const export_call *call, export_value x,
                            const char *direction) {
  const int width = compute_dtype_size(dtype_compute_type(call->dtype)) > 4 ? 64 : 32;
  const export_value zero = export_number(to, COMPUTE_I64, 0);
  const export_value bits = export_cast(to, call->inputs[1], COMPUTE_I64);
  const export_value inside = EMIT(to, "And", EMIT(to, "GreaterOrEqual", bits, zero),
                                   EMIT(to, "Less", bits, export_number(to, COMPUTE_I64, width)));
  const export_value safe = EMIT(to, "Where", inside, bits, zero);
  const export_value from = export_cast(to, x, COMPUTE_U64);
  const export_value by = export_cast(to, safe, COMPUTE_U64);
  export_set_text(to, "direction", direction);
  const export_value result = export_cast(to, EMIT(to, "BitShift", from, by), COMPUTE_I64);
  return EMIT(to, "Where", inside, result, zero);
}

export_value export_shift_left(exporter *to, const export_call *call) {
  return export_cast(to, shifted(to, call, call->inputs[0], "LEFT"), call->dtype);
}

/* Inverts the bits of a negative number before and after the shift, so that its sign is shifted
 * in. */
export_value export_shift_right(exporter *to, const export_call *call) {
  const export_value x = export_cast(to, call->inputs[0], COMPUTE_I64);
  const export_value negative = EMIT(to, "Less", x, export_number(to, COMPUTE_I64, 0));
  const export_value bits = EMIT(to, "Where", negative, EMIT(to, "BitwiseNot", x), x);
  const export_value moved = shifted(to, call, bits, "RIGHT");
  return export_cast(to, EMIT(to, "Where", negative, EMIT(to, "BitwiseNot", moved), moved),
                     call->dtype);
}

/* ---- Operations with a scalar ---------------------------------------------------------------- */

/* Attributes are f32, so f64 needs a constant. */
export_value export_leaky_relu(exporter *to, const export_call *call) {
  const double slope = call->node->attributes.scalar;
  const export_value x = call->inputs[0];
  if (call->dtype != COMPUTE_F64) {
    export_set_number(to, "alpha", slope);
    return EMIT(to, "LeakyRelu", x);
  }
  return EMIT(to, "Where", EMIT(to, "Greater", x, number(to, call, 0)), x,
              EMIT(to, "Mul", x, number(to, call, slope)));
}

export_value export_elu(exporter *to, const export_call *call) {
  const double alpha = call->node->attributes.scalar;
  const export_value x = call->inputs[0];
  if (call->dtype != COMPUTE_F64) {
    export_set_number(to, "alpha", alpha);
    return EMIT(to, "Elu", x);
  }
  const export_value below = EMIT(to, "Mul", expm1_of(to, call, x), number(to, call, alpha));
  return EMIT(to, "Where", EMIT(to, "Greater", x, number(to, call, 0)), x, below);
}

/* ---- Casts ----------------------------------------------------------------------------------- */

/* Conversions from floats saturate; ONNX leaves out-of-range values undefined. Clamps in f64,
 * which represents the limits of all integers up to 32 bits. */
static export_value saturate_narrow(exporter *to, export_value x, compute_dtype dtype) {
  const int bits = 8 * (int)compute_dtype_size(dtype);
  const double low = is_unsigned(dtype) ? 0 : -ldexp(1, bits - 1);
  const double high = ldexp(1, is_unsigned(dtype) ? bits : bits - 1) - 1;
  const export_value above = EMIT(to, "Max", x, export_number(to, COMPUTE_F64, low));
  return export_cast(to, EMIT(to, "Min", above, export_number(to, COMPUTE_F64, high)), dtype);
}

/* f64 cannot represent the largest 64-bit integers. */
static export_value saturate_long(exporter *to, export_value x, compute_dtype dtype) {
  const bool natural = dtype == COMPUTE_U64;
  const export_value end = export_number(to, COMPUTE_F64, ldexp(1, natural ? 64 : 63));
  const export_value low = export_number(to, COMPUTE_F64, natural ? 0 : -ldexp(1, 63));
  const export_value outside = EMIT(to, "GreaterOrEqual", x, end);
  const export_value inside = EMIT(to, "Where", outside, low, EMIT(to, "Max", x, low));
  const uint64_t largest = natural ? UINT64_MAX : INT64_MAX;
  return EMIT(to, "Where", outside, export_fill(to, dtype, COMPUTE_SCALAR, &largest),
              export_cast(to, inside, dtype));
}

export_value export_conversion(exporter *to, const export_call *call) {
  const compute_dtype dtype = call->node->dtype;
  if (!is_float(call->dtype) || is_float(dtype) || dtype == COMPUTE_BOOL)
    return export_cast(to, call->inputs[0], dtype);
  const export_value wide = export_cast(to, call->inputs[0], COMPUTE_F64);
  const export_value number =
      EMIT(to, "Where", EMIT(to, "IsNaN", wide), export_number(to, COMPUTE_F64, 0), wide);
  return compute_dtype_size(dtype) < 8 ? saturate_narrow(to, number, dtype)
                                       : saturate_long(to, number, dtype);
}
