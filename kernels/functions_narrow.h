/* SPDX-License-Identifier: MIT */
/* Integer dtypes with fewer bits than their computing type: `narrow` is the dtype, `value` the
 * computing type. */

//@ LOAD_narrow
#define LOAD_narrow(pointer, index) ((value)(pointer)[index])
//@ STORE_narrow
#define STORE_narrow(pointer, index, x) ((pointer)[index] = (narrow)(x))

//@ saturate_narrow
DEVICE narrow saturate_narrow(value x) {
  const value bits = 8 * (value)sizeof(narrow), is_signed = (value)(narrow)-1 < 0;
  const value most = ((value)1 << (bits - is_signed)) - 1, least = is_signed ? -most - 1 : 0;
  const value low = x > least ? x : least;
  return (narrow)(low < most ? low : most);
}

//@ convert_f32_narrow
#define convert_f32_narrow(x) saturate_narrow(convert_f32_value(x))
//@ convert_f64_narrow
#define convert_f64_narrow(x) saturate_narrow(convert_f64_value(x))
