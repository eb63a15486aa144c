/* SPDX-License-Identifier: MIT */
/* Peer: OpenBLAS called as any program calls it, with its own threads. libcompute opens the same
 * library; it sets one thread for its own calls only.
 *
 * It is opened by name at run time, not linked: libblas.so.3 would be whatever the machine's
 * alternatives select, and its headers would have to be installed. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

/* From the standard of CBLAS. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };

static struct {
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                const float *a, int stride_a, const float *b, int stride_b, float beta, float *c,
                int stride_c);
  void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                const double *a, int stride_a, const double *b, int stride_b, double beta,
                double *c, int stride_c);
  int (*get_threads)(void);
  void (*set_threads)(int count);
  char *(*get_config)(void);
} blas;

/* dlsym returns functions as object pointers; POSIX guarantees that this works. */
static bool find(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

/* The same library that libcompute opens (COMPUTE_BLAS in docs/reference/environment.md). */
static bool open_library(void) {
  const char *name = getenv("COMPUTE_BLAS");
  if (!name || !strcmp(name, "none")) name = "libopenblas.so.0";
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  return library && find(library, "cblas_sgemm", &blas.sgemm) &&
         find(library, "cblas_dgemm", &blas.dgemm) &&
         find(library, "openblas_get_num_threads", &blas.get_threads) &&
         find(library, "openblas_set_num_threads", &blas.set_threads) &&
         find(library, "openblas_get_config", &blas.get_config);
}

typedef struct gemm {
  const bench_peer_problem *problem;
  int m, n, k, transpose_b;
} gemm;

static void *gemm_setup(const bench_peer_problem *problem) {
  if (problem->size[3] || (strcmp(problem->dtype, "f32") && strcmp(problem->dtype, "f64")))
    return NULL;
  gemm *g = malloc(sizeof *g);
  if (!g) return NULL;
  *g = (gemm){.problem = problem,
              .m = (int)problem->size[0],
              .n = (int)problem->size[1],
              .k = (int)problem->size[2],
              .transpose_b = strcmp(problem->operation, "matmul_nt") ? NO_TRANSPOSE : TRANSPOSE};
  return g;
}

static void use_threads(const gemm *g) {
  if (blas.get_threads() != g->problem->threads) blas.set_threads(g->problem->threads);
}

static void gemm_run(void *state, uint32_t set) {
  const gemm *g = state;
  const bench_peer_buffers *b = &g->problem->sets[set];
  int stride_b = g->transpose_b == TRANSPOSE ? g->k : g->n;
  use_threads(g);
  if (g->problem->dtype[1] == '3')
    blas.sgemm(ROW_MAJOR, NO_TRANSPOSE, g->transpose_b, g->m, g->n, g->k, 1, b->input[0], g->k,
               b->input[1], stride_b, 0, b->output, g->n);
  else
    blas.dgemm(ROW_MAJOR, NO_TRANSPOSE, g->transpose_b, g->m, g->n, g->k, 1, b->input[0], g->k,
               b->input[1], stride_b, 0, b->output, g->n);
}

static const bench_peer_operation operations[] = {
    {.name = "matmul", .variant = "", .setup = gemm_setup, .run = gemm_run, .teardown = free},
    {.name = "matmul_nt", .variant = "", .setup = gemm_setup, .run = gemm_run, .teardown = free},
};

const bench_peer *compute_bench_peer(void) {
  static bench_peer peer = {.abi = BENCH_PEER_ABI,
                            .name = "openblas",
                            .operations = operations,
                            .operation_count = sizeof operations / sizeof *operations};
  if (!open_library()) return NULL;
  peer.version = blas.get_config();
  return &peer;
}
