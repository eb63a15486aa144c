/* SPDX-License-Identifier: MIT */
/* Selects one of the instruction sets that the isa/ folders are compiled for. */
#include "isa.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#if defined(CPU_HAS_AVX2) || defined(CPU_HAS_AVX512)
#include <cpuid.h>
#endif

#include "core/platform/features.h"
#include "gemm/isa/gemm_table.h"
#include "program/isa/tile_table.h"

#define GEMM_TYPES(set, words)                                                                     \
  .f64 = &cpu_gemm_f64_##set, .f32 = &cpu_gemm_f32_##set, .i64 = &cpu_gemm_i64_##set,              \
  .i32 = &cpu_gemm_i32_##set, .bytes = &cpu_gemm_##words##_##set
#define GEMM_TABLE(set, words)                                                                     \
  { GEMM_TYPES(set, words) }

static bool has_scalar(void) {
  return true;
}

#if defined(CPU_HAS_AVX2) || defined(CPU_HAS_AVX512)
/* __builtin_cpu_supports also checks that the operating system saves the registers, but not every
 * compiler version supports F16C there. */
static bool has_avx2(void) {
  unsigned a, b, c, d;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

#ifdef CPU_HAS_AVX512
static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

/* Dot products of four bytes: only some AVX2 machines have them. */
#ifdef CPU_DOTS_AVX2
static bool has_avx2_dots(void) {
  unsigned a, b, c, d;
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif

#ifdef CPU_DOTS_AVX512
static bool has_avx512_dots(void) {
  return has_avx512() && __builtin_cpu_supports("avx512vnni");
}
#endif

/* The same, and dot products of bf16 pairs. */
#ifdef CPU_BF16_AVX512
static bool has_avx512_bf16(void) {
  unsigned a, b, c, d;
  return has_avx512_dots() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}
#endif

/* The same, and tile registers. */
#ifdef CPU_AMX
static bool has_amx(void) {
  return has_avx512_bf16() && cpu_gemm_has_amx();
}
#endif

/* Dot products of bytes, products of bytes by USMMLA, and products of bf16; each with the ones
 * before it. */
#ifdef CPU_DOTS_SCALAR
static bool has_dotprod(void) {
  return platform_has(PLATFORM_DOTPROD);
}
static const cpu_gemm_table gemm_dotprod = GEMM_TABLE(scalar, dots);
#endif
#ifdef CPU_I8MM_SCALAR
static bool has_i8mm(void) {
  return has_dotprod() && platform_has(PLATFORM_I8MM);
}
static const cpu_gemm_table gemm_i8mm = GEMM_TABLE(scalar, dots_i8mm);
#endif
#ifdef CPU_BF16_SCALAR
static bool has_bf16(void) {
  return has_i8mm() && platform_has(PLATFORM_BF16);
}
static const cpu_gemm_table gemm_bf16 = {GEMM_TYPES(scalar, dots_i8mm),
                                         .bf16 = &cpu_gemm_bf16_scalar};
#endif

#ifdef CPU_HAS_RVV
static bool has_rvv(void) {
  return platform_has(PLATFORM_RVV);
}
static const cpu_gemm_table gemm_rvv = GEMM_TABLE(rvv, pairs);
#endif

#ifdef CPU_HAS_AVX512
static const cpu_gemm_table gemm_avx512 = GEMM_TABLE(avx512, pairs);
#endif
#ifdef CPU_HAS_AVX2
static const cpu_gemm_table gemm_avx2 = {GEMM_TYPES(avx2, pairs),
                                         .saturating = &cpu_gemm_quads_avx2,
                                         .symmetric = &cpu_gemm_quads_signs_avx2};
#endif
#ifdef CPU_DOTS_AVX512
static const cpu_gemm_table gemm_avx512_dots = GEMM_TABLE(avx512, dots);
#endif
#ifdef CPU_BF16_AVX512
static const cpu_gemm_table gemm_avx512_bf16 = {GEMM_TYPES(avx512, dots),
                                                .bf16 = &cpu_gemm_bf16_avx512};
#endif
#ifdef CPU_AMX
static const cpu_gemm_table gemm_amx = {GEMM_TYPES(avx512, amx_bytes),
                                        .bf16 = &cpu_gemm_amx_bf16_avx512};
#endif
#ifdef CPU_DOTS_AVX2
static const cpu_gemm_table gemm_avx2_dots = GEMM_TABLE(avx2, dots);
#endif
static const cpu_gemm_table gemm_scalar = GEMM_TABLE(scalar, pairs);

#if defined(CPU_HAS_PORTABLE)
static const cpu_gemm_table gemm_portable = GEMM_TABLE(portable, pairs);
static const cpu_isa portable = {"portable", 16, &cpu_tile_table_portable, &gemm_portable, true};
#elif !defined(__aarch64__) && !defined(__wasm__)
static const cpu_isa portable = {"portable", 16, &cpu_tile_table_scalar, &gemm_scalar, true};
#endif

const cpu_isa *cpu_isa_portable(void) {
#if defined(CPU_HAS_PORTABLE) || (!defined(__aarch64__) && !defined(__wasm__))
  return &portable;
#else
  return NULL;
#endif
}

#ifdef __aarch64__
#define BASELINE_NAME "neon"
#elif defined(__wasm_simd128__)
#define BASELINE_NAME "simd128"
#else
#define BASELINE_NAME "scalar"
#endif

/* Best first; a name selects the first entry that the machine supports. */
static const struct {
  bool (*present)(void);
  cpu_isa isa;
} sets[] = {
#ifdef CPU_AMX
    {has_amx, {"amx", 64, &cpu_tile_table_avx512, &gemm_amx, false}},
#endif
#ifdef CPU_BF16_AVX512
    {has_avx512_bf16, {"avx512", 64, &cpu_tile_table_avx512, &gemm_avx512_bf16, false}},
#endif
#ifdef CPU_DOTS_AVX512
    {has_avx512_dots, {"avx512", 64, &cpu_tile_table_avx512, &gemm_avx512_dots, false}},
#endif
#ifdef CPU_HAS_AVX512
    {has_avx512, {"avx512", 64, &cpu_tile_table_avx512, &gemm_avx512, false}},
#endif
#ifdef CPU_DOTS_AVX2
    {has_avx2_dots, {"avx2", 32, &cpu_tile_table_avx2, &gemm_avx2_dots, false}},
#endif
#ifdef CPU_HAS_AVX2
    {has_avx2, {"avx2", 32, &cpu_tile_table_avx2, &gemm_avx2, false}},
#endif
#ifdef CPU_HAS_RVV
    {has_rvv, {"rvv", 32, &cpu_tile_table_rvv, &gemm_rvv, false}},
#endif
#ifdef CPU_BF16_SCALAR
    {has_bf16, {"bf16", 16, &cpu_tile_table_scalar, &gemm_bf16, false}},
#endif
#ifdef CPU_I8MM_SCALAR
    {has_i8mm, {"i8mm", 16, &cpu_tile_table_scalar, &gemm_i8mm, false}},
#endif
#ifdef CPU_DOTS_SCALAR
    {has_dotprod, {"dotprod", 16, &cpu_tile_table_scalar, &gemm_dotprod, false}},
#endif
    {has_scalar, {BASELINE_NAME, 16, &cpu_tile_table_scalar, &gemm_scalar, false}},
};

const cpu_isa *cpu_isa_select(const char *forced, const char **problem) {
  if (problem) *problem = NULL;
  const cpu_isa *best = NULL;
  if (forced && strcmp(forced, "scalar") == 0) forced = BASELINE_NAME;
  static const char *const names[] = {BASELINE_NAME, "neon",    "dotprod", "i8mm",   "bf16",
                                      "rvv",         "simd128", "avx2",    "avx512", "amx"};
  bool known = false;
  for (size_t i = 0; forced && i < sizeof names / sizeof *names; i++)
    known = known || strcmp(forced, names[i]) == 0;
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
    const bool named = forced && strcmp(forced, sets[i].isa.name) == 0;
    if (forced && !named && strcmp(sets[i].isa.name, "amx") == 0) continue; /* needs a request */
    if (!sets[i].present()) continue;
    if (named) return &sets[i].isa;
    if (!best) best = &sets[i].isa;
  }
  if (forced && problem)
    *problem =
        known ? "this machine or build does not have the instruction set named by COMPUTE_CPU_ISA"
              : "COMPUTE_CPU_ISA must be scalar, neon, dotprod, i8mm, bf16, rvv, simd128, avx2, "
                "avx512 or amx";
  return best;
}
