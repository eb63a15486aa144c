/* Peer: OpenBLAS called as any program calls it, with its own threads. libcompute opens the same
 * library; it sets one thread for its own calls only. */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

typedef struct gemm {
  const bench_peer_problem *problem;
  int m, n, k;
  CBLAS_TRANSPOSE transpose_b;
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
              .transpose_b = strcmp(problem->operation, "matmul_nt") ? CblasNoTrans : CblasTrans};
  return g;
}

static void use_threads(const gemm *g) {
  if (openblas_get_num_threads() != g->problem->threads)
    openblas_set_num_threads(g->problem->threads);
}

static void gemm_run(void *state, uint32_t set) {
  const gemm *g = state;
  const bench_peer_buffers *b = &g->problem->sets[set];
  int stride_b = g->transpose_b == CblasTrans ? g->k : g->n;
  use_threads(g);
  if (g->problem->dtype[1] == '3')
    cblas_sgemm(CblasRowMajor, CblasNoTrans, g->transpose_b, g->m, g->n, g->k, 1, b->input[0], g->k,
                b->input[1], stride_b, 0, b->output, g->n);
  else
    cblas_dgemm(CblasRowMajor, CblasNoTrans, g->transpose_b, g->m, g->n, g->k, 1, b->input[0], g->k,
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
  peer.version = openblas_get_config();
  return &peer;
}
