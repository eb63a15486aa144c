/* SPDX-License-Identifier: MIT */
/* Matrix products of i64 and i32 (gemm_tile.h). They wrap on overflow. */
#if defined(CPU_VARIANT_I64)
#define GEMM_ELEMENT       uint64_t
#define GEMM_ELEMENT_BYTES 8
#define GEMM_NATIVE        COMPUTE_I64
#if defined(__aarch64__) /* has no vector multiplication */
#define GEMM_ROWS 6
#endif
#else
#define GEMM_ELEMENT       uint32_t
#define GEMM_ELEMENT_BYTES 4
#define GEMM_NATIVE        COMPUTE_I32
#endif
#define GEMM_INTEGER
#include "gemm_vector.h"

/* A product of 64 bits is eight instructions: there the loop's own ones cost nothing. */
#if defined(CPU_VARIANT_I64)
#undef GEMM_STEPS
#define GEMM_STEPS
#endif

#define GEMM_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))

#include "gemm_plain.h"

#include "gemm_tile.h"

#include "gemm_strip.h"

#include "gemm_elements.h"

extern const cpu_gemm_type CPU_VARIANT_SYMBOL(cpu_gemm);
const cpu_gemm_type CPU_VARIANT_SYMBOL(cpu_gemm) = {GEMM_ELEMENTS_TYPE};
