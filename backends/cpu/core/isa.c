/* Chooses among the instruction sets that isa/ was compiled for. */
#include "isa.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#define CPU_HAS_X86_SETS 1
#else
#define CPU_HAS_X86_SETS 0
#endif

extern const cpu_tile_table cpu_tile_table_scalar;
extern const cpu_reduce_table cpu_reduce_table_scalar;
extern const cpu_gemm_table cpu_gemm_table_scalar;
extern const cpu_fit_table cpu_fit_table_scalar;
extern const cpu_window_table cpu_window_table_scalar;
extern const cpu_scan_table cpu_scan_table_scalar;
extern const cpu_select_table cpu_select_table_scalar;
extern const cpu_attention_table cpu_attention_table_scalar;
extern const cpu_direct_table cpu_direct_table_scalar;
extern const cpu_spots_table cpu_spots_table_scalar;

static bool has_scalar(void) {
  return true;
}

#if CPU_HAS_X86_SETS
extern const cpu_tile_table cpu_tile_table_avx2, cpu_tile_table_avx512;
extern const cpu_reduce_table cpu_reduce_table_avx2, cpu_reduce_table_avx512;
extern const cpu_gemm_table cpu_gemm_table_avx2, cpu_gemm_table_avx512;
extern const cpu_fit_table cpu_fit_table_avx2, cpu_fit_table_avx512;
extern const cpu_window_table cpu_window_table_avx2, cpu_window_table_avx512;
extern const cpu_scan_table cpu_scan_table_avx2, cpu_scan_table_avx512;
extern const cpu_select_table cpu_select_table_avx2, cpu_select_table_avx512;
extern const cpu_attention_table cpu_attention_table_avx2, cpu_attention_table_avx512;
extern const cpu_direct_table cpu_direct_table_avx2, cpu_direct_table_avx512;
extern const cpu_spots_table cpu_spots_table_avx2, cpu_spots_table_avx512;

/* __builtin_cpu_supports also asks whether the operating system saves the registers, but not every
 * compiler's knows F16C. */
static bool has_avx2(void) {
  unsigned a, b, c, d;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

/* Best first. */
static const struct {
  bool (*present)(void);
  cpu_isa isa;
} sets[] = {
#if CPU_HAS_X86_SETS
    {has_avx512,
     {"avx512", 64, &cpu_tile_table_avx512, &cpu_reduce_table_avx512, &cpu_gemm_table_avx512,
      &cpu_fit_table_avx512, &cpu_window_table_avx512, &cpu_scan_table_avx512,
      &cpu_select_table_avx512, &cpu_attention_table_avx512, &cpu_direct_table_avx512,
      &cpu_spots_table_avx512}},
    {has_avx2,
     {"avx2", 32, &cpu_tile_table_avx2, &cpu_reduce_table_avx2, &cpu_gemm_table_avx2,
      &cpu_fit_table_avx2, &cpu_window_table_avx2, &cpu_scan_table_avx2, &cpu_select_table_avx2,
      &cpu_attention_table_avx2, &cpu_direct_table_avx2, &cpu_spots_table_avx2}},
#endif
    {has_scalar,
     {"scalar", 16, &cpu_tile_table_scalar, &cpu_reduce_table_scalar, &cpu_gemm_table_scalar,
      &cpu_fit_table_scalar, &cpu_window_table_scalar, &cpu_scan_table_scalar,
      &cpu_select_table_scalar, &cpu_attention_table_scalar, &cpu_direct_table_scalar,
      &cpu_spots_table_scalar}},
};

const cpu_isa *cpu_isa_select(const char *forced, const char **problem) {
  if (problem) *problem = NULL;
  const cpu_isa *best = NULL;
  bool known = false;
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
    const bool named = forced && strcmp(forced, sets[i].isa.name) == 0;
    known |= named;
    if (!sets[i].present()) continue;
    if (named) return &sets[i].isa;
    if (!best) best = &sets[i].isa;
  }
  if (forced && problem)
    *problem = known ? "this machine lacks the instruction set that COMPUTE_CPU_ISA names"
                     : "COMPUTE_CPU_ISA must be scalar, avx2 or avx512";
  return best;
}
