/* SPDX-License-Identifier: MIT */
/* Elements in memory. LOAD_<dtype>(pointer, index) returns the dtype's computing type;
 * STORE_<dtype>(pointer, index, value) takes it. Pointers may be to any memory, with the dtype as
 * element type, except u16 for f16 and bf16, and u8 for bool. Narrow integers are in
 * functions_narrow.h. */

//@ LOAD_f64
#define LOAD_f64(pointer, index) ((pointer)[index])
//@ LOAD_f32
#define LOAD_f32(pointer, index) ((pointer)[index])
//@ LOAD_f16
#define LOAD_f16(pointer, index) widen_f16((pointer)[index])
//@ LOAD_bf16
#define LOAD_bf16(pointer, index) widen_bf16((pointer)[index])
//@ LOAD_i64
#define LOAD_i64(pointer, index) ((pointer)[index])
//@ LOAD_i32
#define LOAD_i32(pointer, index) ((pointer)[index])
//@ LOAD_u64
#define LOAD_u64(pointer, index) ((i64)(pointer)[index])
//@ LOAD_bool
#define LOAD_bool(pointer, index) ((boolean)((pointer)[index] != 0))
//@ STORE_f64
#define STORE_f64(pointer, index, value) ((pointer)[index] = (value))
//@ STORE_f32
#define STORE_f32(pointer, index, value) ((pointer)[index] = (value))
//@ STORE_f16
#define STORE_f16(pointer, index, value) ((pointer)[index] = convert_f32_f16(value))
//@ STORE_bf16
#define STORE_bf16(pointer, index, value) ((pointer)[index] = convert_f32_bf16(value))
//@ STORE_i64
#define STORE_i64(pointer, index, value) ((pointer)[index] = (value))
//@ STORE_i32
#define STORE_i32(pointer, index, value) ((pointer)[index] = (value))
//@ STORE_u64
#define STORE_u64(pointer, index, value) ((pointer)[index] = (u64)(value))
//@ STORE_bool
#define STORE_bool(pointer, index, value) ((pointer)[index] = (u8)((value) != 0))

/* True if rows may be read in vectors: the address of the first element and the step between rows
 * are multiples of a vector. */
//@ IS_ALIGNED
#define IS_ALIGNED(from, step, vector, type)                                                       \
  ((size_t)(from) % ((vector) * sizeof(type)) == 0 && (step) % (vector) == 0)
