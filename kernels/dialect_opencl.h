/* SPDX-License-Identifier: MIT */
/* The dialect in OpenCL C 1.2. README.md defines its words. */
#pragma OPENCL FP_CONTRACT OFF
#ifdef __clang__ // loops are marked for vectors that not every pass of the compiler may make
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define HALF_TO_F32(bits) convert_float(as_half((ushort)(bits)))
#define F32_TO_HALF(x)    as_ushort(convert_half_rte(x))
#endif

typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float f32;
typedef int boolean;

#define KERNEL                         __kernel
#define DEVICE                         static inline
#define GLOBAL                         __global
#define LOCAL                          __local
#define CONSTANT_TABLE                 __constant
#define RESTRICT                       restrict
#define REQUIRE_GROUP(x, y, z)         __attribute__((reqd_work_group_size(x, y, z)))
#define REQUIRE_ROOM(x, y, z, groups)  REQUIRE_GROUP(x, y, z)
#define LOCAL_ARRAY(type, name, count) __local type name[count]

#define LOCAL_ID_X    ((u32)get_local_id(0))
#define LOCAL_ID_Y    ((u32)get_local_id(1))
#define LOCAL_ID_Z    ((u32)get_local_id(2))
#define GROUP_ID_X    ((u32)get_group_id(0))
#define GROUP_ID_Y    ((u32)get_group_id(1))
#define GROUP_ID_Z    ((u32)get_group_id(2))
#define GROUP_SIZE_X  ((u32)get_local_size(0))
#define GROUP_SIZE_Y  ((u32)get_local_size(1))
#define GROUP_SIZE_Z  ((u32)get_local_size(2))
#define GROUP_COUNT_X ((u32)get_num_groups(0))
#define GROUP_COUNT_Y ((u32)get_num_groups(1))
#define GROUP_COUNT_Z ((u32)get_num_groups(2))
#define GLOBAL_ID_X   ((u32)get_global_id(0))
#define GLOBAL_ID_Y   ((u32)get_global_id(1))
#define GLOBAL_ID_Z   ((u32)get_global_id(2))

#define BARRIER()        barrier(CLK_LOCAL_MEM_FENCE)
#define BARRIER_GLOBAL() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)

#define ATOMIC_ADD(pointer, value)           atomic_add(pointer, value)
#define ATOMIC_MIN(pointer, value)           atomic_min(pointer, value)
#define ATOMIC_MAX(pointer, value)           atomic_max(pointer, value)
#define ATOMIC_CAS(pointer, expected, value) atomic_cmpxchg(pointer, expected, value)

#define as_u32(x) as_uint(x)
#define as_i32(x) as_int(x)
#define as_f32(x) as_float(x)
#define as_u64(x) as_ulong(x)
#define as_i64(x) as_long(x)
#define as_f64(x) as_double(x)

#define BUILTIN_f32(name) name
#define BUILTIN_f64(name) name
#define INFINITY_f32      INFINITY
#define NAN_f32           NAN
#define INFINITY_f64      ((f64)INFINITY)
#define NAN_f64           ((f64)NAN)

/* Devices without a fast fma compute it in software. */
#if defined(FP_FAST_FMAF) || defined(__FMA__)
#define MAD_f32(a, b, c) fma(a, b, c)
#define FUSED_MAD
#else
#define MAD_f32(a, b, c) ((a) * (b) + (c))
#endif
#define MAD_f64(a, b, c) fma(a, b, c)

#define QUOTIENT_f32(a, b) ((a) / (b))
#define FAST_RECIPROCAL(x) (1.0f / (x))
#define FAST_RSQRT(x)      rsqrt(x)
#define FAST_EXP2(x)       exp2(x)

#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT
#endif
#define UNROLL    _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

#define VECTOR_TYPES(type, base)                                                                   \
  typedef base##2 type##x2;                                                                        \
  typedef base##4 type##x4;                                                                        \
  typedef base##8 type##x8;                                                                        \
  typedef base##16 type##x16;
VECTOR_TYPES(i8, char)
VECTOR_TYPES(u8, uchar)
VECTOR_TYPES(i16, short)
VECTOR_TYPES(u16, ushort)
VECTOR_TYPES(i32, int)
VECTOR_TYPES(u32, uint)
VECTOR_TYPES(i64, long)
VECTOR_TYPES(u64, ulong)
VECTOR_TYPES(f32, float)

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double f64;
VECTOR_TYPES(f64, double)
#endif

#define ALIGNED(pointer, bytes)         ((size_t)(pointer) % (bytes) == 0)
#define VLOAD(n, type, array, pointer)  VECTOR_PASTE(VLOAD_, n)(type, array, pointer)
#define VSTORE(n, type, pointer, array) VECTOR_PASTE(VSTORE_, n)(type, pointer, array)
#define VECTOR_PASTE(a, b)              VECTOR_PASTE_(a, b)
#define VECTOR_PASTE_(a, b)             a##b
#define VLOAD_1(type, array, pointer)   ((array)[0] = *(pointer))
#define VLOAD_2(type, array, pointer)   vstore2(*(GLOBAL const type##x2 *)(pointer), 0, array)
#define VLOAD_4(type, array, pointer)   vstore4(*(GLOBAL const type##x4 *)(pointer), 0, array)
#define VLOAD_8(type, array, pointer)   vstore8(*(GLOBAL const type##x8 *)(pointer), 0, array)
#define VLOAD_16(type, array, pointer)  vstore16(*(GLOBAL const type##x16 *)(pointer), 0, array)
#define VSTORE_1(type, pointer, array)  (*(pointer) = (array)[0])
#define VSTORE_2(type, pointer, array)  (*(GLOBAL type##x2 *)(pointer) = vload2(0, array))
#define VSTORE_4(type, pointer, array)  (*(GLOBAL type##x4 *)(pointer) = vload4(0, array))
#define VSTORE_8(type, pointer, array)  (*(GLOBAL type##x8 *)(pointer) = vload8(0, array))
#define VSTORE_16(type, pointer, array) (*(GLOBAL type##x16 *)(pointer) = vload16(0, array))
