/* SPDX-License-Identifier: MIT */
/* Times of linear algebra beside LAPACK of OpenBLAS and of MKL, each in a loop over the matrices,
 * alternating in one run, with one thread.
 *
 *   compute-linalg [ROUNDS [CASE]]
 *
 * Prints one JSON object for each case: microseconds for the batch, the least of all rounds. The
 * peers are opened at run time. A missing one is left out, with a reason on the error stream. LAPACK
 * works in place on a copy of the batch, whose time counts, since its matrices are lost. */
#include <compute/linalg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alternate.h"

typedef enum linalg_function {
  CHOLESKY,
  SOLVE,
  INVERSE,
  DETERMINANT,
  QR,
  EIGH,
  SVD,
  FUNCTIONS
} linalg_function;

static const char *const names[FUNCTIONS] = {"cholesky", "solve", "inverse", "determinant",
                                             "qr",       "eigh",  "svd"};

static const int sizes[] = {2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64};
enum { SIZES = sizeof sizes / sizeof *sizes, DTYPES = 2, CASES = FUNCTIONS * SIZES * DTYPES };

typedef struct linalg_case {
  linalg_function function;
  int64_t batch;
  int n, type; /* type: of `dtypes` */
} linalg_case;

/* Functions that iterate have smaller batches. */
static linalg_case case_of(size_t number) {
  linalg_case c = {.function = (linalg_function)(number / DTYPES / SIZES),
                   .n = sizes[number / DTYPES % SIZES],
                   .type = (int)(number % DTYPES)};
  const bool iterates = c.function >= EIGH;
  c.batch = c.n > 64 ? 1 : c.n > (iterates ? 8 : 16) ? 10000 : 100000;
  if (iterates && c.n == 64) c.batch = 1000;
  return c;
}

/* ---- Peers ----------------------------------------------------------------------------------- */

typedef struct lapack {
  void (*potrf)(const char *, const int *, void *, const int *, int *, size_t);
  void (*gesv)(const int *, const int *, void *, const int *, int *, void *, const int *, int *);
  void (*getrf)(const int *, const int *, void *, const int *, int *, int *);
  void (*getri)(const int *, void *, const int *, const int *, void *, const int *, int *);
  void (*geqrf)(const int *, const int *, void *, const int *, void *, void *, const int *, int *);
  void (*orgqr)(const int *, const int *, const int *, void *, const int *, const void *, void *,
                const int *, int *);
  void (*syevd)(const char *, const char *, const int *, void *, const int *, void *, void *,
                const int *, int *, const int *, int *, size_t, size_t);
  void (*gesdd)(const char *, const int *, const int *, void *, const int *, void *, void *,
                const int *, void *, const int *, void *, const int *, int *, int *, size_t);
} lapack;

enum { OPENBLAS, MKL, PEERS };

static const char *const peer_names[PEERS] = {"openblas", "mkl"};
static lapack peers[PEERS][DTYPES];
static bool opened[PEERS];

static void open_peer(int peer, const char *const *files, const char *package, const char *threads,
                      void *set_threads) {
  static const char *const prefix[DTYPES] = {"s", "d"};
  bool all = true;
  for (int type = 0; type < DTYPES && all; type++) {
    lapack *l = &peers[peer][type];
    struct {
      const char *name;
      void *pointer;
    } wanted[] = {{"potrf_", &l->potrf}, {"gesv_", &l->gesv},   {"getrf_", &l->getrf},
                  {"getri_", &l->getri}, {"geqrf_", &l->geqrf}, {"orgqr_", &l->orgqr},
                  {"syevd_", &l->syevd}, {"gesdd_", &l->gesdd}};
    enum { COUNT = sizeof wanted / sizeof *wanted };
    char texts[COUNT][16];
    alternate_symbol symbols[COUNT + 1];
    for (int i = 0; i < COUNT; i++) {
      snprintf(texts[i], sizeof texts[i], "%s%s", prefix[type], wanted[i].name);
      symbols[i] = (alternate_symbol){texts[i], wanted[i].pointer};
    }
    symbols[COUNT] = (alternate_symbol){threads, set_threads};
    all = alternate_open(files, package, symbols, COUNT + 1);
  }
  opened[peer] = all;
}

static void open_peers(void) {
  static const char *const open_blas[] = {"libopenblas.so.0", NULL};
  static const char *const mkl[] = {"libmkl_rt.so.3", "libmkl_rt.so.2", NULL};
  void (*set_threads)(int) = NULL;
  int (*set_layer)(int) = NULL;
  open_peer(OPENBLAS, open_blas, "OpenBLAS: Debian package libopenblas0",
            "openblas_set_num_threads", &set_threads);
  if (opened[OPENBLAS]) set_threads(1);
  open_peer(MKL, mkl, "MKL: PyPI package mkl", "MKL_Set_Threading_Layer", &set_layer);
  if (opened[MKL]) set_layer(1); /* sequential */
}

/* ---- A case ---------------------------------------------------------------------------------- */

typedef struct bench {
  linalg_case c;
  compute_plan *plan;
  compute_binding bindings[5];
  size_t binding_count, element;
  const unsigned char *data;
  unsigned char *results; /* of LAPACK: for each matrix */
  size_t result_bytes;
  unsigned char *work;
  int *order;
} bench;

typedef struct side {
  const bench *b;
  const lapack *l;
} side;

static compute_status run_ours(void *state) {
  const bench *b = state;
  return compute_run(b->plan, b->bindings, b->binding_count, NULL);
}

/* One matrix, in place of a copy `a`, which further results follow. */
static int call_peer(const side *s, unsigned char *a) {
  const bench *b = s->b;
  const lapack *l = s->l;
  const int n = b->c.n, one = 1, room = 8 * n * n + 64 * n + 64, orders = 8 * n + 8;
  const size_t line = (size_t)n * b->element, square = (size_t)n * line;
  unsigned char *more = a + square, *rest = more + line, *work = b->work;
  int info = 0;
  switch (b->c.function) {
  case CHOLESKY: l->potrf("U", &n, a, &n, &info, 1); break;
  case SOLVE: l->gesv(&n, &one, a, &n, b->order, more, &n, &info); break;
  case INVERSE:
    l->getrf(&n, &n, a, &n, b->order, &info);
    l->getri(&n, a, &n, b->order, work, &room, &info);
    break;
  case DETERMINANT: l->getrf(&n, &n, a, &n, b->order, &info); break;
  case QR:
    l->geqrf(&n, &n, a, &n, more, work, &room, &info);
    memcpy(rest, a, square); /* with R */
    l->orgqr(&n, &n, &n, a, &n, more, work, &room, &info);
    break;
  case EIGH:
    l->syevd("V", "U", &n, a, &n, more, work, &room, b->order, &orders, &info, 1, 1);
    break;
  default:
    l->gesdd("A", &n, &n, a, &n, more, rest, &n, rest + square, &n, work, &room, b->order, &info,
             1);
  }
  return info;
}

static compute_status run_peer(void *state) {
  const side *s = state;
  const bench *b = s->b;
  const size_t line = (size_t)b->c.n * b->element, square = (size_t)b->c.n * line;
  for (int64_t i = 0; i < b->c.batch; i++) {
    unsigned char *a = b->results + (size_t)i * b->result_bytes;
    memcpy(a, b->data + (size_t)i * square, square);
    if (b->c.function == SOLVE) memcpy(a + square, b->data, line);
    if (call_peer(s, a)) return COMPUTE_ERROR_LAUNCH;
  }
  return COMPUTE_OK;
}

static void report(bench *b, int rounds) {
  alternate_side sides[1 + PEERS] = {{.run = run_ours, .state = b}};
  side states[PEERS];
  for (int i = 0; i < PEERS; i++) {
    states[i] = (side){b, &peers[i][b->c.type]};
    sides[1 + i] = (alternate_side){.run = opened[i] ? run_peer : NULL, .state = &states[i]};
  }
  alternate_measure(sides, 1 + PEERS, rounds);
  printf("{\"function\": \"%s\", \"batch\": %lld, \"n\": %d, \"dtype\": \"%s\", \"us\": %.2f",
         names[b->c.function], (long long)b->c.batch, b->c.n, compute_dtype_name(dtypes[b->c.type]),
         sides[0].seconds * 1e6);
  for (int i = 0; i < PEERS; i++)
    if (sides[1 + i].seconds > 0)
      printf(", \"%s_us\": %.2f", peer_names[i], sides[1 + i].seconds * 1e6);
  printf("}\n");
  fflush(stdout);
}

/* Random numbers from -1 to 1; symmetric for EIGH, and with a large diagonal for CHOLESKY. */
static void fill(const bench *b, void *to) {
  const int64_t n = b->c.n;
  uint32_t state = 1;
  for (int64_t m = 0; m < b->c.batch; m++)
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) {
        state = state * 1664525 + 1013904223;
        const int64_t at = (m * n + i) * n + j, other = (m * n + j) * n + i;
        const double large = i == j && b->c.function == CHOLESKY ? (double)n : 0;
        const double x = (double)(state >> 8) / (1 << 23) - 1 + large;
        const bool copies = j < i && (b->c.function == CHOLESKY || b->c.function == EIGH);
        if (b->c.type == 0)
          ((float *)to)[at] = copies ? ((float *)to)[other] : (float)x;
        else
          ((double *)to)[at] = copies ? ((double *)to)[other] : x;
      }
}

static size_t record(compute_graph *g, const linalg_case *c, compute_node a, compute_node *y) {
  const compute_dtype dtype = dtypes[c->type];
  switch (c->function) {
  case CHOLESKY: y[0] = compute_cholesky(g, a, NULL); return 1;
  case SOLVE:
    y[0] = compute_solve(g, a, compute_full(g, dtype, COMPUTE_SHAPE(c->n, 1), 1), NULL);
    return 1;
  case INVERSE: y[0] = compute_inverse(g, a, NULL); return 1;
  case DETERMINANT: y[0] = compute_determinant(g, a); return 1;
  case QR: y[0] = compute_qr(g, a, false, &y[1], NULL); return 2;
  case EIGH: y[0] = compute_eigh(g, a, &y[1], NULL); return 2;
  default: y[0] = compute_svd(g, a, true, &y[1], &y[2], NULL); return 3;
  }
}

static compute_status run_case(compute_context *context, size_t number, int rounds) {
  bench b = {.c = case_of(number)};
  const linalg_case *c = &b.c;
  const compute_dtype dtype = dtypes[c->type];
  b.element = compute_dtype_size(dtype);
  const size_t n = (size_t)c->n;
  unsigned char *data = malloc((size_t)c->batch * n * n * b.element);
  b.data = data;
  const size_t squares = c->function == SVD ? 3 : c->function == QR ? 2 : 1;
  b.result_bytes = (squares * n * n + n) * b.element;
  b.results = malloc((size_t)c->batch * b.result_bytes);
  b.work = malloc((8 * n * n + 64 * n + 64) * b.element);
  b.order = malloc((8 * n + 8) * sizeof *b.order);
  compute_status s =
      data && b.results && b.work && b.order ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
  if (!s) fill(&b, data);
  const compute_shape shape = COMPUTE_SHAPE(c->batch, c->n, c->n);
  compute_graph *g = compute_graph_create(context);
  compute_node y[3];
  const compute_node a = compute_input(g, dtype, shape);
  const size_t outputs = record(g, c, a, y);
  if (!s) s = compute_compile(g, y, outputs, NULL, &b.plan);
  b.binding_count = outputs + 1;
  b.bindings[0].node = a;
  if (!s)
    s = compute_tensor_from_host(compute_default_device(context), dtype, shape, data,
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
  free(b.results);
  free(data);
  return s;
}

int main(int argc, char **argv) {
  open_peers();
  return alternate_main(argc, argv, CASES, run_case);
}
