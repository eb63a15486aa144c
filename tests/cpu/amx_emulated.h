/* SPDX-License-Identifier: MIT */
/* Emulated AMX instructions, and the library's micro-kernels that use them. */
#ifndef TEST_AMX_EMULATED_H
#define TEST_AMX_EMULATED_H

#include <stdint.h>

#include "gemm/isa/gemm_table.h"

extern const cpu_gemm_type cpu_gemm_amx_bytes_emulated;
extern const cpu_gemm_type cpu_gemm_amx_bf16_emulated; /* if CPU_AMX; needs AVX512-BF16 */

void amx_configure(const void *shapes);
void amx_release(void);
void amx_zero(int tile);
void amx_load(int tile, const void *from, int64_t step);
void amx_store(int tile, void *to, int64_t step);
void amx_multiply_bytes(int sums, int a, int b);
void amx_multiply_bf16(int sums, int a, int b);

/* Adds four products of unsigned and signed bytes to `sum`. */
uint32_t amx_add_dot(uint32_t sum, uint32_t a, uint32_t b);

#define GEMM_AMX_EMULATED
#define AMX_CONFIGURE(shapes)      amx_configure(shapes)
#define AMX_RELEASE()              amx_release()
#define AMX_ZERO(tile)             amx_zero(tile)
#define AMX_LOAD(tile, from, step) amx_load(tile, from, (int64_t)(step))
#define AMX_STORE(tile, to, step)  amx_store(tile, to, (int64_t)(step))

#endif
