/* Matrix multiplication in f64; gemm_tile.h explains. */
#define GEMM_ELEMENT       double
#define GEMM_ELEMENT_BYTES 8
#define GEMM_NATIVE        COMPUTE_F64

#if defined(GEMM_VECTOR_BYTES) /* a width of the test's choice: no instruction for it */
#elif defined(__AVX512F__)
#include <immintrin.h>
#define GEMM_MULTIPLY_ADD(a, b, c) _mm512_fmadd_pd(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define GEMM_MULTIPLY_ADD(a, b, c) _mm256_fmadd_pd(a, b, c)
#endif

#include "gemm_tile.h"

extern const cpu_gemm_type CPU_SYMBOL(cpu_gemm_f64);
const cpu_gemm_type CPU_SYMBOL(cpu_gemm_f64) = GEMM_TYPE;
