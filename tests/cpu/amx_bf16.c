/* SPDX-License-Identifier: MIT */
/* The emulated AMX micro-kernel of bf16; compiled for AVX512-BF16. */
#include "amx_emulated.h"

#define AMX_MULTIPLY(sums, a, b) amx_multiply_bf16(sums, a, b)

#define CPU_ISA              emulated
#define CPU_VARIANT          amx_bf16
#define CPU_VARIANT_AMX_BF16 1
#include "gemm/isa/gemm_tile.c"
