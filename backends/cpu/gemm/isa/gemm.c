/* The table of matrix multiplication for one instruction set. */
#include "gemm_table.h"
#include "conv/isa/winograd_table.h"

extern const cpu_gemm_type CPU_SYMBOL(cpu_gemm_f64), CPU_SYMBOL(cpu_gemm_f32),
    CPU_SYMBOL(cpu_gemm_i64), CPU_SYMBOL(cpu_gemm_i32);
extern const cpu_winograd CPU_SYMBOL(cpu_winograd);

const cpu_gemm_table CPU_SYMBOL(cpu_gemm_table) = {
    .f64 = &CPU_SYMBOL(cpu_gemm_f64),
    .f32 = &CPU_SYMBOL(cpu_gemm_f32),
    .i64 = &CPU_SYMBOL(cpu_gemm_i64),
    .i32 = &CPU_SYMBOL(cpu_gemm_i32),
    .winograd = &CPU_SYMBOL(cpu_winograd),
};
