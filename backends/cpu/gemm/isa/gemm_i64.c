/* Matrix multiplication in i64, in the unsigned type so that overflow wraps; gemm_tile.h explains.
 */
#include <stdint.h>

#define GEMM_ELEMENT       uint64_t
#define GEMM_ELEMENT_BYTES 8
#define GEMM_NATIVE        COMPUTE_I64
#define GEMM_INTEGER

#include "gemm_tile.h"

extern const cpu_gemm_type CPU_SYMBOL(cpu_gemm_i64);
const cpu_gemm_type CPU_SYMBOL(cpu_gemm_i64) = GEMM_TYPE;
