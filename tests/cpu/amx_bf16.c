/* SPDX-License-Identifier: MIT */
/* The emulated AMX micro-kernel of bf16; compiled for AVX512-BF16. */
#include "amx_emulated.h"

#define AMX_MULTIPLY(sums, a, b) amx_multiply_bf16(sums, a, b)

#define CPU_ISA emulated
#include "gemm/isa/gemm_amx_bf16.c"
