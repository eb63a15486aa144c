/* SPDX-License-Identifier: MIT */
/* Code compiled once per instruction set, and the selection of the right copy at run time.
 *
 * Every source in an isa/ folder is compiled for each instruction set, as its own translation unit
 * each time: scalar (the baseline: on x86-64 with SSE2, on aarch64 with NEON), avx2 (with FMA and
 * F16C) and avx512 (x86-64-v4), which also serves machines with AMX. Some are also compiled once
 * for each of several variants, mostly element types (CMakeLists.txt lists them). Each unit exports
 * one constant table whose name ends in both: cpu_scan_f32_avx2, say. All else in those sources is
 * static, so that no AVX-512 copy of an inline function can be picked by the linker for other
 * machines. */
#ifndef CPU_ISA_H
#define CPU_ISA_H

#include <stddef.h>
#include <stdint.h>

/* CPU_ISA is scalar, avx2 or avx512; CPU_VARIANT, where a source has variants, is one of them. */
#define CPU_PASTE_(a, b)         a##_##b
#define CPU_PASTE(a, b)          CPU_PASTE_(a, b)
#define CPU_SYMBOL(name)         CPU_PASTE(name, CPU_ISA)
#define CPU_VARIANT_SYMBOL(name) CPU_SYMBOL(CPU_PASTE(name, CPU_VARIANT))

/* Declares a table for all sets; CPU_PICK is the address of an instruction set's. */
#define CPU_DECLARE(type, name) extern const type name##_scalar, name##_avx2, name##_avx512
#define CPU_DECLARE_FLOATS(type, name)                                                             \
  CPU_DECLARE(type, name##_f64);                                                                   \
  CPU_DECLARE(type, name##_f32)
#define CPU_DECLARE_NUMBERS(type, name)                                                            \
  CPU_DECLARE_FLOATS(type, name);                                                                  \
  CPU_DECLARE(type, name##_i64);                                                                   \
  CPU_DECLARE(type, name##_i32)

/* CPU_HAS_AVX2 and CPU_HAS_AVX512 are defined where the module is compiled for them. */
#ifdef CPU_HAS_AVX2
#define CPU_PICK_AVX2(isa, name) ((isa)->vector_bytes == 32 ? &name##_avx2 : &name##_scalar)
#else
#define CPU_PICK_AVX2(isa, name) ((void)(isa), &name##_scalar)
#endif
#ifdef CPU_HAS_AVX512
#define CPU_PICK(isa, name) ((isa)->vector_bytes == 64 ? &name##_avx512 : CPU_PICK_AVX2(isa, name))
#else
#define CPU_PICK(isa, name) CPU_PICK_AVX2(isa, name)
#endif

/* By dtype, too; NULL where there is none. */
#define CPU_PICK_FLOAT(isa, name, dtype)                                                           \
  ((dtype) == COMPUTE_F64   ? CPU_PICK(isa, name##_f64)                                            \
   : (dtype) == COMPUTE_F32 ? CPU_PICK(isa, name##_f32)                                            \
                            : NULL)
#define CPU_PICK_NUMBER(isa, name, dtype)                                                          \
  ((dtype) == COMPUTE_I64   ? CPU_PICK(isa, name##_i64)                                            \
   : (dtype) == COMPUTE_I32 ? CPU_PICK(isa, name##_i32)                                            \
                            : CPU_PICK_FLOAT(isa, name, dtype))

typedef struct cpu_tile_table cpu_tile_table; /* program/isa/tile*.c: loops of instructions */
typedef struct cpu_gemm_table cpu_gemm_table; /* gemm/isa/gemm_tile.c: micro-kernels, packing */

/* Loops shared by most kinds are here; the loops of a kind are picked where the kind is
 * prepared. */
typedef struct cpu_isa {
  const char *name;      /* "scalar" or, on aarch64, "neon"; "avx2", "avx512", "amx" */
  uint32_t vector_bytes; /* 16, 32, 64 */
  const cpu_tile_table *tile;
  const cpu_gemm_table *gemm;
} cpu_isa;

/* The best set that the machine has, or the one that COMPUTE_CPU_ISA names (`forced`, may be NULL;
 * "scalar" is the baseline everywhere) if the machine has it. `problem` gets a message if `forced`
 * is not possible. Only NULL and "amx" look for AMX, for which the process asks the kernel. */
const cpu_isa *cpu_isa_select(const char *forced, const char **problem);

#endif
