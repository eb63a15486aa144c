/* SPDX-License-Identifier: MIT */
/* Code compiled once per instruction set, and the selection of a copy at run time.
 *
 * Every source in an isa/ folder is compiled as a separate translation unit for each instruction
 * set: scalar (the baseline: SSE2 on x86-64, NEON on aarch64), avx2 (with FMA and F16C), avx512
 * (x86-64-v4), which also serves machines with AMX, and rvv (RISC-V's vectors, 1.0).
 *
 * The portable set has vectors of 16 bytes and no fused multiply-adds: C on all processors, so that
 * all compute the same bits. The scalar set serves, except on aarch64, where a separate set is
 * compiled without NEON intrinsics.
 *
 * Some sources are also compiled once per variant, mostly an element type (listed in
 * CMakeLists.txt). Each unit exports one constant table whose name ends in both, for example
 * cpu_scan_f32_avx2. Everything else in these sources is static, so the linker can never pick an
 * AVX-512 copy of an inline function for another machine. */
#ifndef CPU_ISA_H
#define CPU_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CPU_ISA is scalar, avx2, avx512 or rvv. CPU_VARIANT is one variant of a source that has variants. */
#define CPU_PASTE_(a, b)         a##_##b
#define CPU_PASTE(a, b)          CPU_PASTE_(a, b)
#define CPU_SYMBOL(name)         CPU_PASTE(name, CPU_ISA)
#define CPU_VARIANT_SYMBOL(name) CPU_SYMBOL(CPU_PASTE(name, CPU_VARIANT))

/* Declares a table for all sets; CPU_PICK returns the table's address for an instruction set. */
#define CPU_DECLARE(type, name)                                                                    \
  extern const type name##_scalar, name##_avx2, name##_avx512, name##_rvv, name##_portable
#define CPU_DECLARE_FLOATS(type, name)                                                             \
  CPU_DECLARE(type, name##_f64);                                                                   \
  CPU_DECLARE(type, name##_f32)
#define CPU_DECLARE_NUMBERS(type, name)                                                            \
  CPU_DECLARE_FLOATS(type, name);                                                                  \
  CPU_DECLARE(type, name##_i64);                                                                   \
  CPU_DECLARE(type, name##_i32)

/* CPU_HAS_AVX2, CPU_HAS_AVX512, CPU_HAS_RVV and CPU_HAS_PORTABLE are defined if the module is
 * compiled for these sets. */
#if defined(CPU_HAS_RVV)
#define CPU_PICK_32(isa, name) ((isa)->vector_bytes == 32 ? &name##_rvv : &name##_scalar)
#elif defined(CPU_HAS_AVX2)
#define CPU_PICK_32(isa, name) ((isa)->vector_bytes == 32 ? &name##_avx2 : &name##_scalar)
#elif defined(CPU_HAS_PORTABLE)
#define CPU_PICK_32(isa, name) ((isa)->portable ? &name##_portable : &name##_scalar)
#else
#define CPU_PICK_32(isa, name) ((void)(isa), &name##_scalar)
#endif
#ifdef CPU_HAS_AVX512
#define CPU_PICK(isa, name) ((isa)->vector_bytes == 64 ? &name##_avx512 : CPU_PICK_32(isa, name))
#else
#define CPU_PICK(isa, name) CPU_PICK_32(isa, name)
#endif

/* Also by dtype; NULL if there is no table for it. */
#define CPU_PICK_FLOAT(isa, name, dtype)                                                           \
  ((dtype) == COMPUTE_F64   ? CPU_PICK(isa, name##_f64)                                            \
   : (dtype) == COMPUTE_F32 ? CPU_PICK(isa, name##_f32)                                            \
                            : NULL)
#define CPU_PICK_NUMBER(isa, name, dtype)                                                          \
  ((dtype) == COMPUTE_I64   ? CPU_PICK(isa, name##_i64)                                            \
   : (dtype) == COMPUTE_I32 ? CPU_PICK(isa, name##_i32)                                            \
                            : CPU_PICK_FLOAT(isa, name, dtype))

typedef struct cpu_tile_table cpu_tile_table; /* program/isa/tile*.c: loops of instructions */
typedef struct cpu_gemm_table cpu_gemm_table; /* gemm/isa/gemm_tile.h: micro-kernels, packing */

/* The loops shared by most kinds. The loops of a single kind are picked where that kind is
 * prepared. */
typedef struct cpu_isa {
  const char *name;      /* "scalar"; "avx2", "avx512", "amx"; "neon", "dotprod", "i8mm", "bf16";
                          * "rvv"; "simd128" */
  uint32_t vector_bytes; /* 16, 32, 64 */
  const cpu_tile_table *tile;
  const cpu_gemm_table *gemm;
  bool portable; /* the same bits on every processor */
} cpu_isa;

/* Returns the machine's best instruction set, or the one named by COMPUTE_CPU_ISA (`forced`, may be
 * NULL; "scalar" is the baseline everywhere) if the machine has it. Sets *problem to a message if
 * `forced` is impossible. Only NULL and "amx" look for AMX, because that makes a request to the
 * kernel. */
const cpu_isa *cpu_isa_select(const char *forced, const char **problem);

/* Returns the portable set, or NULL if the build has none. */
const cpu_isa *cpu_isa_portable(void);

#endif
