/* OpenBLAS, opened at run time.
 *
 * One library serves the whole process. It is opened when it is first asked for: the one that
 * COMPUTE_BLAS names, else libopenblas.so.0; "none" means never. That it is missing is no error,
 * the backend's own kernels serve then. Nor is it opened where the environment is not to be trusted
 * (compute_services). All functions are thread-safe.
 *
 * Between cpu_blas_enter and cpu_blas_leave OpenBLAS is set to one thread, because several threads
 * inside its multi-threaded GEMM corrupt each other's results (0.3.21), while several
 * single-threaded calls at once are safe. The first to enter saves the thread count, the last to
 * leave restores it. A program that calls OpenBLAS itself at such a moment gets one thread, too; a
 * count that it sets at such a moment is lost. */
#ifndef CPU_BLAS_H
#define CPU_BLAS_H

#include "core/cpu.h"

enum { CPU_BLAS_ROW_MAJOR = 101, CPU_BLAS_PLAIN = 111, CPU_BLAS_TRANSPOSED = 112 };

/* The functions as CBLAS declares them; its enums are ints. */
typedef struct cpu_blas_functions {
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
  void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                const double *a, int lda, const double *b, int ldb, double beta, double *c,
                int ldc);
} cpu_blas_functions;

/* The library's functions, or NULL if there is none; cpu_blas_describe says why. They stay valid
 * until the device is closed. */
const cpu_blas_functions *cpu_blas_open(cpu_device *device);

/* Brackets around calls of the functions; a task's calls need none of their own. */
void cpu_blas_enter(void);
void cpu_blas_leave(void);

/* "OpenBLAS 0.3.21 Zen", or "none: " and the reason. Opens the library. The text lives until the
 * device is closed. */
const char *cpu_blas_describe(cpu_device *device);

/* What cripples the library, in words, or NULL. Opens the library. */
const char *cpu_blas_warning(cpu_device *device);

/* The name of the kernels in use ("Zen"); "" if the library does not say. */
const char *cpu_blas_core(cpu_device *device);

/* Gives the device's reference back, if it has one. */
void cpu_blas_close(cpu_device *device);

#endif
