/* Matrix multiplication in f32; gemm_tile.h explains. */
#define GEMM_ELEMENT       float
#define GEMM_ELEMENT_BYTES 4
#define GEMM_NATIVE        COMPUTE_F32

#if defined(GEMM_VECTOR_BYTES) /* a width of the test's choice: no instruction for it */
#elif defined(__AVX512F__)
#include <immintrin.h>
#define GEMM_MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define GEMM_MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#endif

#include "gemm_tile.h"

extern const cpu_gemm_type CPU_SYMBOL(cpu_gemm_f32);
const cpu_gemm_type CPU_SYMBOL(cpu_gemm_f32) = GEMM_TYPE;
