/* Matrix multiplication in i32, in the unsigned type so that overflow wraps; gemm_tile.h explains.
 */
#include <stdint.h>

#define GEMM_ELEMENT       uint32_t
#define GEMM_ELEMENT_BYTES 4
#define GEMM_NATIVE        COMPUTE_I32
#define GEMM_INTEGER

#include "gemm_tile.h"

extern const cpu_gemm_type CPU_SYMBOL(cpu_gemm_i32);
const cpu_gemm_type CPU_SYMBOL(cpu_gemm_i32) = GEMM_TYPE;
