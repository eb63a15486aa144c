/* SPDX-License-Identifier: MIT */
/* Times of linear algebra beside LAPACK in a loop over the matrices, alternating in one run, with
 * one thread.
 *
 *   compute-linalg [ROUNDS]
 *
 * Prints one JSON object for each case: microseconds for the batch, the least of all rounds. LAPACK
 * is the one of the OpenBLAS that is opened at run time. Without it only our own times are printed,
 * with a reason on the error stream. A call of LAPACK works on a copy, whose time counts. */
#include <compute/linalg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alternate.h"

typedef enum linalg_function { CHOLESKY, SOLVE, QR, EIGH, SVD, FUNCTIONS } linalg_function;

static const char *const names[FUNCTIONS] = {"cholesky", "solve", "qr", "eigh", "svd"};

typedef struct linalg_case {
  linalg_function function;
  int64_t batch;
  int n;
} linalg_case;

static const linalg_case cases[] = {
    {CHOLESKY, 100000, 4}, {CHOLESKY, 100000, 8}, {CHOLESKY, 20000, 16}, {CHOLESKY, 4000, 32},
    {CHOLESKY, 500, 64},   {CHOLESKY, 1, 512},    {SOLVE, 100000, 4},    {SOLVE, 100000, 8},
    {SOLVE, 20000, 16},    {SOLVE, 4000, 32},     {SOLVE, 500, 64},      {SOLVE, 1, 512},
    {QR, 20000, 8},        {QR, 2000, 32},        {QR, 1, 256},          {EIGH, 20000, 4},
    {EIGH, 10000, 8},      {EIGH, 1000, 32},      {EIGH, 100, 64},       {EIGH, 1, 256},
    {SVD, 10000, 8},       {SVD, 500, 32},        {SVD, 1, 128},
};

/* LAPACK's functions in f64. */
typedef struct lapack {
  void (*potrf)(const char *, const int *, double *, const int *, int *, size_t);
  void (*gesv)(const int *, const int *, double *, const int *, int *, double *, const int *,
               int *);
  void (*geqrf)(const int *, const int *, double *, const int *, double *, double *, const int *,
                int *);
  void (*orgqr)(const int *, const int *, const int *, double *, const int *, const double *,
                double *, const int *, int *);
  void (*syevd)(const char *, const char *, const int *, double *, const int *, double *, double *,
                const int *, int *, const int *, int *, size_t, size_t);
  void (*gesdd)(const char *, const int *, const int *, double *, const int *, double *, double *,
                const int *, double *, const int *, double *, const int *, int *, int *, size_t);
} lapack;

static lapack peer;

static bool open_lapack(void) {
  static const char *const files[] = {"libopenblas.so.0", NULL};
  void (*set_threads)(int) = NULL;
  const alternate_symbol symbols[] = {{"dpotrf_", &peer.potrf},
                                      {"dgesv_", &peer.gesv},
                                      {"dgeqrf_", &peer.geqrf},
                                      {"dorgqr_", &peer.orgqr},
                                      {"dsyevd_", &peer.syevd},
                                      {"dgesdd_", &peer.gesdd},
                                      {"openblas_set_num_threads", &set_threads}};
  if (!alternate_open(files, "OpenBLAS: Debian package libopenblas0", symbols,
                      sizeof symbols / sizeof *symbols))
    return false;
  set_threads(1);
  return true;
}

typedef struct bench {
  const linalg_case *c;
  compute_plan *plan;
  compute_binding bindings[5];
  size_t binding_count;
  const double *data; /* the batch, then right sides */
  double *work;       /* of LAPACK */
  int *order;
} bench;

static compute_status run_ours(void *state) {
  const bench *b = state;
  return compute_run(b->plan, b->bindings, b->binding_count, NULL);
}

/* One matrix, in place of a copy; b->work has room for all of LAPACK's. */
static int call_peer(const bench *b, double *a) {
  const int n = b->c->n, one = 1, room = 8 * n * n + 64 * n + 64, orders = 8 * n + 8;
  double *more = a + n * n, *rest = more + n;
  int info = 0;
  switch (b->c->function) {
  case CHOLESKY: peer.potrf("U", &n, a, &n, &info, 1); break;
  case SOLVE: peer.gesv(&n, &one, a, &n, b->order, more, &n, &info); break;
  case QR:
    peer.geqrf(&n, &n, a, &n, more, rest, &room, &info);
    peer.orgqr(&n, &n, &n, a, &n, more, rest, &room, &info);
    break;
  case EIGH:
    peer.syevd("V", "U", &n, a, &n, more, rest, &room, b->order, &orders, &info, 1, 1);
    break;
  default:
    peer.gesdd("A", &n, &n, a, &n, more, rest, &n, rest + n * n, &n, rest + 2 * n * n, &room,
               b->order, &info, 1);
  }
  return info;
}

static compute_status run_peer(void *state) {
  const bench *b = state;
  const size_t n = (size_t)b->c->n;
  for (int64_t i = 0; i < b->c->batch; i++) {
    memcpy(b->work, b->data + (size_t)i * n * n, n * n * sizeof *b->work);
    memcpy(b->work + n * n, b->data + (size_t)i * n, n * sizeof *b->work);
    if (call_peer(b, b->work)) return COMPUTE_ERROR_LAUNCH;
  }
  return COMPUTE_OK;
}

static void report(bench *b, int rounds) {
  alternate_side sides[] = {{.run = run_ours, .state = b},
                            {.run = peer.potrf ? run_peer : NULL, .state = b}};
  alternate_measure(sides, 2, rounds);
  const double ours = sides[0].seconds, other = sides[1].seconds;
  printf("{\"function\": \"%s\", \"batch\": %lld, \"n\": %d, \"dtype\": \"f64\", \"us\": %.2f",
         names[b->c->function], (long long)b->c->batch, b->c->n, ours * 1e6);
  if (other > 0) printf(", \"lapack_us\": %.2f, \"ratio\": %.3f", other * 1e6, ours / other);
  printf("}\n");
  fflush(stdout);
}

/* Symmetric matrices with a large diagonal suit all functions. */
static void fill(double *x, int64_t batch, int64_t n) {
  for (int64_t b = 0; b < batch; b++)
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) {
        const int64_t low = i < j ? i : j, high = i < j ? j : i;
        const double noise = (double)((b * 131 + low * 7919 + high * 104729) % 1009) / 1009;
        x[(b * n + i) * n + j] = noise + (i == j ? (double)n : 0);
      }
}

static size_t record(compute_graph *g, const linalg_case *c, compute_node a, compute_node *y) {
  const compute_dtype dtype = COMPUTE_F64;
  switch (c->function) {
  case CHOLESKY: y[0] = compute_cholesky(g, a, NULL); return 1;
  case SOLVE:
    y[0] = compute_solve(g, a, compute_full(g, dtype, COMPUTE_SHAPE(c->n, 1), 1), NULL);
    return 1;
  case QR: y[0] = compute_qr(g, a, false, &y[1], NULL); return 2;
  case EIGH: y[0] = compute_eigh(g, a, &y[1], NULL); return 2;
  default: y[0] = compute_svd(g, a, true, &y[1], &y[2], NULL); return 3;
  }
}

static compute_status run_case(compute_context *context, size_t number, int rounds) {
  const linalg_case *c = &cases[number];
  const size_t n = (size_t)c->n, count = (size_t)c->batch * n * n;
  double *data = malloc(count * sizeof *data);
  bench b = {.c = c, .data = data};
  b.work = malloc((16 * n * n + 256 * n + 256) * sizeof *b.work);
  b.order = malloc((8 * n + 8) * sizeof *b.order);
  compute_status s = data && b.work && b.order ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
  if (!s) fill(data, c->batch, c->n);
  const compute_shape shape = COMPUTE_SHAPE(c->batch, c->n, c->n);
  compute_graph *g = compute_graph_create(context);
  compute_node y[3];
  const compute_node a = compute_input(g, COMPUTE_F64, shape);
  const size_t outputs = record(g, c, a, y);
  if (!s) s = compute_compile(g, y, outputs, NULL, &b.plan);
  b.binding_count = outputs + 1;
  b.bindings[0].node = a;
  if (!s)
    s = compute_tensor_from_host(compute_default_device(context), COMPUTE_F64, shape, data,
                                 &b.bindings[0].tensor);
  for (size_t i = 0; i < outputs && !s; i++) {
    b.bindings[i + 1].node = y[i];
    s = compute_plan_create_tensor(b.plan, y[i], &b.bindings[i + 1].tensor);
  }
  if (!s) s = run_ours(&b);
  if (!s) report(&b, rounds);
  for (size_t i = 0; i < b.binding_count; i++) compute_tensor_release(b.bindings[i].tensor);
  compute_plan_release(b.plan);
  compute_graph_release(g);
  free(b.order);
  free(b.work);
  free(data);
  return s;
}

int main(int argc, char **argv) {
  if (!open_lapack()) peer.potrf = NULL;
  return alternate_main(argc, argv, sizeof cases / sizeof *cases, run_case);
}
