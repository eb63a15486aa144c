/* Code compiled once per instruction set, and the table that picks it at run time.
 *
 * Every file in isa/ is compiled three times, as its own translation unit each time: scalar
 * (baseline x86-64 or any other machine), avx2 (with FMA and F16C) and avx512 (x86-64-v4). Each
 * defines one constant table whose name ends in the instruction set: CPU_SYMBOL(cpu_tile_table) is
 * cpu_tile_table_avx2, say. All else in those files is static, so that no AVX-512 copy of an inline
 * function can be picked by the linker for other machines. */
#ifndef CPU_ISA_H
#define CPU_ISA_H

#include <stdint.h>

#define CPU_PASTE_(a, b) a##_##b
#define CPU_PASTE(a, b)  CPU_PASTE_(a, b)
#define CPU_SYMBOL(name) CPU_PASTE(name, CPU_ISA) /* CPU_ISA is scalar, avx2 or avx512 */

typedef struct cpu_tile_table cpu_tile_table; /* isa/tile_*.c: loops of one program instruction */
typedef struct cpu_reduce_table cpu_reduce_table; /* isa/reduce.c, isa/row.c */
typedef struct cpu_gemm_table cpu_gemm_table;     /* isa/gemm.c: micro-kernels and packing */
typedef struct cpu_fit_table cpu_fit_table;       /* isa/fit.c: Gaussian fits, an ROI per lane */
typedef struct cpu_window_table cpu_window_table; /* isa/window.c: pooling */
typedef struct cpu_scan_table cpu_scan_table;     /* isa/scan.c: running sums */
typedef struct cpu_select_table cpu_select_table; /* isa/select.c: keys of TOP_K */
typedef struct cpu_attention_table cpu_attention_table; /* isa/attention.c: its softmax */
typedef struct cpu_direct_table cpu_direct_table;       /* isa/direct.c: convolution by planes */
typedef struct cpu_spots_table cpu_spots_table;         /* isa/spots.c: finding spots */

typedef struct cpu_isa {
  const char *name;      /* "scalar", "avx2", "avx512" */
  uint32_t vector_bytes; /* 16, 32, 64 */
  const cpu_tile_table *tile;
  const cpu_reduce_table *reduce;
  const cpu_gemm_table *gemm;
  const cpu_fit_table *fit;
  const cpu_window_table *window;
  const cpu_scan_table *scan;
  const cpu_select_table *select;
  const cpu_attention_table *attention;
  const cpu_direct_table *direct;
  const cpu_spots_table *spots;
} cpu_isa;

/* The best set that the machine has, or the one that COMPUTE_CPU_ISA names (`forced`, may be NULL)
 * if the machine has it. `problem` gets words when `forced` cannot be honoured. */
const cpu_isa *cpu_isa_select(const char *forced, const char **problem);

#endif
