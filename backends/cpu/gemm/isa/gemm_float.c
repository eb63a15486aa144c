/* SPDX-License-Identifier: MIT */
/* Matrix products of f64 and f32 (gemm_tile.h). */
#include "gemm_float.h"

#if defined(CPU_VARIANT_F64)
#include "gemm_plain.h"
#else
#include "gemm_stored_f32.h"

#include "gemm_finish.h"
#endif

#include "gemm_tile.h"

#include "gemm_strip.h"

#include "gemm_elements.h"

extern const cpu_gemm_type CPU_VARIANT_SYMBOL(cpu_gemm);
const cpu_gemm_type CPU_VARIANT_SYMBOL(cpu_gemm) = {
    GEMM_ELEMENTS_TYPE,
#if defined(CPU_VARIANT_F32)
    .finishes = COMPUTE_F32,
#endif
};
