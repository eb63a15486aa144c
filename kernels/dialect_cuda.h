/* SPDX-License-Identifier: MIT */
/* The dialect in CUDA C++ for NVRTC, without any header. README.md defines its words. The compiler
 * option -fmad=false turns contraction off. */
/* "Declared but never used": no source uses all of these definitions. */
#pragma nv_diag_suppress 177
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
typedef int boolean;
typedef unsigned int uint;

#define KERNEL extern "C" __global__
#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define LOCAL
#define CONSTANT_TABLE                       __device__ const
#define RESTRICT                             __restrict__
#define REQUIRE_GROUP(x, y, z)               __launch_bounds__((x) * (y) * (z))
#define REQUIRE_ROOM(x, y, z, groups)        __launch_bounds__((x) * (y) * (z), groups)
#define LOCAL_ARRAY(type, name, count)       __shared__ type name[count]
#define LOCAL_ARRAY_ASKED(type, name, count) extern __shared__ type name[]

#define LOCAL_ID_X    threadIdx.x
#define LOCAL_ID_Y    threadIdx.y
#define LOCAL_ID_Z    threadIdx.z
#define GROUP_ID_X    blockIdx.x
#define GROUP_ID_Y    blockIdx.y
#define GROUP_ID_Z    blockIdx.z
#define GROUP_SIZE_X  blockDim.x
#define GROUP_SIZE_Y  blockDim.y
#define GROUP_SIZE_Z  blockDim.z
#define GROUP_COUNT_X gridDim.x
#define GROUP_COUNT_Y gridDim.y
#define GROUP_COUNT_Z gridDim.z
#define GLOBAL_ID_X   (blockIdx.x * blockDim.x + threadIdx.x)
#define GLOBAL_ID_Y   (blockIdx.y * blockDim.y + threadIdx.y)
#define GLOBAL_ID_Z   (blockIdx.z * blockDim.z + threadIdx.z)

#define BARRIER()        __syncthreads()
#define BARRIER_GLOBAL() __syncthreads()

#define ATOMIC_ADD(pointer, value)           atomicAdd(pointer, value)
#define ATOMIC_MIN(pointer, value)           atomicMin(pointer, value)
#define ATOMIC_MAX(pointer, value)           atomicMax(pointer, value)
#define ATOMIC_CAS(pointer, expected, value) atomicCAS(pointer, expected, value)

#define as_u32(x) __float_as_uint(x)
#define as_i32(x) __float_as_int(x)
#define as_f32(x) __uint_as_float((u32)(x))
#define as_u64(x) ((u64)__double_as_longlong(x))
#define as_i64(x) __double_as_longlong(x)
#define as_f64(x) __longlong_as_double((i64)(x))

#define BUILTIN_f32(name) name##f
#define BUILTIN_f64(name) name
#define INFINITY_f32      __int_as_float(0x7f800000)
#define NAN_f32           __int_as_float(0x7fc00000)
#define INFINITY_f64      __longlong_as_double(0x7ff0000000000000ll)
#define NAN_f64           __longlong_as_double(0x7ff8000000000000ll)
#define MAD_f32(a, b, c)  __fmaf_rn(a, b, c)
#define FUSED_MAD
#define FAST_SUBNORMALS
#define MAD_f64(a, b, c) __fma_rn(a, b, c)

DEVICE f32 FAST_RECIPROCAL(f32 x) {
  f32 y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/* The remainder is exact, so that only the last operation rounds noticeably. */
DEVICE f32 QUOTIENT_f32(f32 a, f32 b) {
  const f32 reciprocal = FAST_RECIPROCAL(b), q = a * reciprocal;
  return __fmaf_rn(__fmaf_rn(-b, q, a), reciprocal, q);
}
DEVICE f32 FAST_RSQRT(f32 x) {
  f32 y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE f32 FAST_EXP2(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#define INDEPENDENT
#define UNROLL    _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

DEVICE f32 HALF_TO_F32(u16 bits) {
  f32 x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
DEVICE u16 F32_TO_HALF(f32 x) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
#define HALF_TO_F32 HALF_TO_F32
#define F32_TO_HALF F32_TO_HALF
#if __CUDA_ARCH__ >= 800
DEVICE u16 F32_TO_BF16(f32 x) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
#define F32_TO_BF16 F32_TO_BF16
#endif

#define ALIGNED(pointer, bytes) ((u64)(pointer) % (bytes < 16 ? bytes : 16) == 0)
#define VECTOR_LIMIT(bytes)     ((bytes) < 16 ? (bytes) : 16)
template <typename type, int n> struct __align__(VECTOR_LIMIT(n * sizeof(type))) vector_of {
  type element[n];
};
#define VLOAD(n, type, array, pointer)                                                             \
  do {                                                                                             \
    const vector_of<type, n> vector_ = *(const vector_of<type, n> *)(pointer);                     \
    UNROLL for (int lane_ = 0; lane_ < n; lane_++)(array)[lane_] = vector_.element[lane_];         \
  } while (0)
#define VSTORE(n, type, pointer, array)                                                            \
  do {                                                                                             \
    vector_of<type, n> vector_;                                                                    \
    UNROLL for (int lane_ = 0; lane_ < n; lane_++) vector_.element[lane_] = (array)[lane_];        \
    *(vector_of<type, n> *)(pointer) = vector_;                                                    \
  } while (0)

#define SHUFFLE_XOR_f32(x, step) __shfl_xor_sync(0xffffffffu, x, step)
#define SHUFFLE_XOR_f64(x, step) __shfl_xor_sync(0xffffffffu, x, step)

/* Matrix units (sm_80 and later); README.md describes them. */
DEVICE u32 F32_TO_TF32(f32 x) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}
#define LOADER(name, instruction)                                                                  \
  DEVICE void name(u32 *to, const void *row) {                                                     \
    asm volatile(instruction " {%0, %1, %2, %3}, [%4];"                                            \
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                              \
                 : "r"((u32)__cvta_generic_to_shared(row))                                         \
                 : "memory");                                                                      \
  }
DEVICE void COPY_PIECE(void *to, const void *from) {
  asm volatile(
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)),
      "l"(__cvta_generic_to_global(from))
      : "memory");
}
DEVICE void COPY_PART(void *to, const void *from, int bytes) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes)
      : "memory");
}
DEVICE void COPY_WORD(void *to, const void *from, boolean inside) {
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((u32)__cvta_generic_to_shared(to)),
      "l"(__cvta_generic_to_global(from)), "r"(inside ? 4 : 0)
      : "memory");
}
#define COPIES_END()      asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_WAIT(ends) asm volatile("cp.async.wait_group %0;" ::"n"(ends) : "memory")
LOADER(LOAD_BLOCKS, "ldmatrix.sync.aligned.m8n8.x4.shared.b16")
LOADER(LOAD_BLOCKS_ACROSS, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16")
#define MATRIX_UNIT(name, instruction)                                                             \
  DEVICE void name(f32 *sum, const u32 *a, const u32 *b) {                                         \
    asm(instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                                   \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                       \
  }
MATRIX_UNIT(MATRIX_MULTIPLY_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
MATRIX_UNIT(MATRIX_MULTIPLY_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
MATRIX_UNIT(MATRIX_MULTIPLY_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
/* For f64, the units before sm_90 process an 8 × 4 part of A at a time. */
DEVICE void MATRIX_MULTIPLY_f64(f64 *sum, const f64 *a, const f64 *b) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
  UNROLL for (int part = 0; part < 4; part++) {
    const int rows = part % 2, of_k = part / 2;
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(sum[2 * rows]), "+d"(sum[2 * rows + 1])
        : "d"(a[part]), "d"(b[of_k]));
  }
#endif
}
#define MATRIX_PACKING(name, instruction)                                                          \
  DEVICE u32 name(f32 low, f32 high) {                                                             \
    u32 word;                                                                                      \
    asm(instruction " %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));                            \
    return word;                                                                                   \
  }
MATRIX_PACKING(MATRIX_PACK_f16, "cvt.rn.f16x2.f32")
MATRIX_PACKING(MATRIX_PACK_bf16, "cvt.rn.bf16x2.f32")

/* Warpgroups (sm_90a); README.md describes them. A descriptor's fields are the address, the
 * distance between blocks of lines (for operands across), 1024 bytes between groups of eight lines,
 * and a swizzle of 128 bytes. */
#define WARP_UNIFORM(x)     __shfl_sync(0xffffffffu, x, 0)
#define SLABS_SHOW()        asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define PRODUCTS_BEGIN()    asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define PRODUCTS_END()      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define PRODUCTS_WAIT(ends) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(ends) : "memory")
#define PRODUCTS_KEEP(array, count)                                                                \
  UNROLL for (int sum_ = 0; sum_ < (count); sum_++) asm volatile("" : "+f"((array)[sum_]))
DEVICE u64 SLAB_AT(const void *place, u32 apart) {
  const u32 address = (u32)__cvta_generic_to_shared(place) & 0x3ffff;
  return (u64)(address >> 4) | (u64)(apart >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
DEVICE u32 LOCAL_ADDRESS(const void *place) {
  return (u32)__cvta_generic_to_shared(place);
}
DEVICE void ARRIVAL_BEGIN(u64 *arrival) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(LOCAL_ADDRESS(arrival)) : "memory");
}
DEVICE void ARRIVAL_EXPECT(u64 *arrival, u32 bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(LOCAL_ADDRESS(arrival)),
      "r"(bytes)
      : "memory");
}
DEVICE void ARRIVAL_WAIT(u64 *arrival, u32 phase) {
  u32 arrived;
  do {
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                 "selp.u32 %0, 1, 0, p;}"
                 : "=r"(arrived)
                 : "r"(LOCAL_ADDRESS(arrival)), "r"(phase)
                 : "memory");
  } while (!arrived);
}
DEVICE void COPY_BULK(void *to, const void *from, u32 bytes, u64 *arrival) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
               "[%3];" ::"r"(LOCAL_ADDRESS(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(LOCAL_ADDRESS(arrival))
               : "memory");
}
#define SLAB_FORTH(slab, bytes) ((slab) + (u64)((bytes) >> 4))
#define UNIT_TEXT_16            "%0, %1, %2, %3, %4, %5, %6, %7"
#define UNIT_TEXT_32            UNIT_TEXT_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define UNIT_TEXT_64                                                                               \
  UNIT_TEXT_32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define UNIT_TEXT_128                                                                              \
  UNIT_TEXT_64                                                                                     \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, "        \
  "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define UNIT_TEXT_256                                                                              \
  UNIT_TEXT_128                                                                                    \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, "        \
  "%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, "     \
  "%99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, "      \
  "%114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define UNIT_SUM(s)       "+f"(*(s))
#define UNIT_SUMS_4(s)    UNIT_SUM(s), UNIT_SUM((s) + 1), UNIT_SUM((s) + 2), UNIT_SUM((s) + 3)
#define UNIT_SUMS_16(s)   UNIT_SUMS_4(s), UNIT_SUMS_4((s) + 4)
#define UNIT_SUMS_32(s)   UNIT_SUMS_16(s), UNIT_SUMS_16((s) + 8)
#define UNIT_SUMS_64(s)   UNIT_SUMS_32(s), UNIT_SUMS_32((s) + 16)
#define UNIT_SUMS_128(s)  UNIT_SUMS_64(s), UNIT_SUMS_64((s) + 32)
#define UNIT_SUMS_256(s)  UNIT_SUMS_128(s), UNIT_SUMS_128((s) + 64)
#define UNIT_A_32         "%16"
#define UNIT_B_32         "%17"
#define UNIT_ADD_32       "%18"
#define UNIT_HELD_32      "{%16, %17, %18, %19}"
#define UNIT_HELD_B_32    "%20"
#define UNIT_HELD_ADD_32  "%21"
#define UNIT_A_64         "%32"
#define UNIT_B_64         "%33"
#define UNIT_ADD_64       "%34"
#define UNIT_HELD_64      "{%32, %33, %34, %35}"
#define UNIT_HELD_B_64    "%36"
#define UNIT_HELD_ADD_64  "%37"
#define UNIT_A_128        "%64"
#define UNIT_B_128        "%65"
#define UNIT_ADD_128      "%66"
#define UNIT_HELD_128     "{%64, %65, %66, %67}"
#define UNIT_HELD_B_128   "%68"
#define UNIT_HELD_ADD_128 "%69"
#define UNIT_A_256        "%128"
#define UNIT_B_256        "%129"
#define UNIT_ADD_256      "%130"
#define UNIT_f16(n)       "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16"
#define UNIT_bf16(n)      "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16"
#define UNIT_tf32(n)      "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32"
#define UNIT_WAYS_f16(w)  w
#define UNIT_WAYS_bf16(w) w
#define UNIT_WAYS_tf32(w)
#define UNIT_BEGIN(add) "{.reg .pred p; setp.ne.b32 p, " add ", 0; "
#define WARPGROUP_UNIT(name, n, type, a_across, b_across)                                          \
  DIALECT_UNIT(name, n, type, a_across, b_across)
#define WARPGROUP_UNIT_HELD(name, n, type, b_across) DIALECT_UNIT_HELD(name, n, type, b_across)
#define DIALECT_UNIT(name, n, type, a_across, b_across)                                            \
  DEVICE void name(f32 *sum, u64 a, u64 b, boolean add) {                                          \
    asm volatile(UNIT_BEGIN(UNIT_ADD_##n) UNIT_##type(n) " {" UNIT_TEXT_##n "}, " UNIT_A_##n       \
                 ", " UNIT_B_##n ", p, 1, 1" UNIT_WAYS_##type(", " #a_across ", " #b_across) ";}"  \
                 : UNIT_SUMS_##n(sum)                                                              \
                 : "l"(a), "l"(b), "r"(add)                                                        \
                 : "memory");                                                                      \
  }
#define DIALECT_UNIT_HELD(name, n, type, b_across)                                                 \
  DEVICE void name(f32 *sum, const u32 *a, u64 b, boolean add) {                                   \
    asm volatile(UNIT_BEGIN(UNIT_HELD_ADD_##n) UNIT_##type(n) " {" UNIT_TEXT_##n                   \
                 "}, " UNIT_HELD_##n ", " UNIT_HELD_B_##n                                          \
                 ", p, 1, 1" UNIT_WAYS_##type(", " #b_across) ";}"                                 \
                 : UNIT_SUMS_##n(sum)                                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add)                    \
                 : "memory");                                                                      \
  }
