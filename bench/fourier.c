/* SPDX-License-Identifier: MIT */
/* Times of Fourier transforms beside FFTW's and MKL's, alternating in one run, with one thread.
 *
 *   compute-fourier [ROUNDS [CASE]]
 *
 * Prints one JSON object for each case: microseconds, the least of all rounds. The peers are opened
 * at run time. A missing one is left out, with a reason on the error stream. FFTW measures its
 * plans, for 5 seconds at most. */
#include <compute/fft.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alternate.h"

enum { FFTW_FORWARD = -1, FFTW_MEASURE = 0, FFTW_SECONDS = 5 };
enum {
  DFTI_NUMBER_OF_TRANSFORMS = 7,
  DFTI_CONJUGATE_EVEN_STORAGE = 10,
  DFTI_PLACEMENT = 11,
  DFTI_OUTPUT_STRIDES = 13,
  DFTI_INPUT_DISTANCE = 14,
  DFTI_OUTPUT_DISTANCE = 15,
  DFTI_COMPLEX = 32,
  DFTI_REAL = 33,
  DFTI_SINGLE = 35,
  DFTI_DOUBLE = 36,
  DFTI_COMPLEX_COMPLEX = 39,
  DFTI_NOT_INPLACE = 44,
  MKL_SEQUENTIAL = 1
};

typedef struct fourier_case {
  int64_t lines, height, length; /* height 0: transforms in one dimension */
  bool real;
} fourier_case;

#define COMPLEX_LINE(n)                                                                            \
  { 1, 0, n, false }
#define REAL_LINE(n)                                                                               \
  { 1, 0, n, true }
static const fourier_case cases[] = {
    COMPLEX_LINE(16),      COMPLEX_LINE(32),      COMPLEX_LINE(64),      COMPLEX_LINE(128),
    COMPLEX_LINE(256),     COMPLEX_LINE(512),     COMPLEX_LINE(1000),    COMPLEX_LINE(1009),
    COMPLEX_LINE(1024),    COMPLEX_LINE(2048),    COMPLEX_LINE(4096),    COMPLEX_LINE(16384),
    COMPLEX_LINE(65536),   COMPLEX_LINE(1 << 18), COMPLEX_LINE(1 << 20), COMPLEX_LINE(1 << 22),
    COMPLEX_LINE(1 << 24), REAL_LINE(256),        REAL_LINE(1000),       REAL_LINE(1024),
    REAL_LINE(4096),       REAL_LINE(1 << 18),    REAL_LINE(1 << 22),    {4096, 0, 16, false},
    {2048, 0, 32, false},  {1024, 0, 64, false},  {256, 0, 256, false},  {64, 0, 1024, false},
    {1024, 0, 64, true},   {64, 0, 1024, true},   {1080, 0, 1920, true}, {1, 1080, 1920, true},
};
static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64};
enum { CASES = sizeof cases / sizeof *cases, DTYPES = 2 };

/* ---- Peers ----------------------------------------------------------------------------------- */

typedef struct fftw {
  void *(*plan_complex)(int rank, const int *n, int many, void *in, const int *in_embed,
                        int in_stride, int in_apart, void *out, const int *out_embed,
                        int out_stride, int out_apart, int sign, unsigned flags);
  void *(*plan_real)(int rank, const int *n, int many, void *in, const int *in_embed, int in_stride,
                     int in_apart, void *out, const int *out_embed, int out_stride, int out_apart,
                     unsigned flags);
  void (*set_time_limit)(double seconds);
  void (*execute)(void *plan);
  void (*destroy)(void *plan);
  bool opened;
} fftw;

typedef struct mkl {
  long (*create)(void **plan, int precision, int domain, long dimensions, ...);
  long (*set)(void *plan, int key, ...);
  long (*commit)(void *plan);
  long (*compute)(void *plan, void *in, ...);
  long (*release)(void **plan);
  int (*set_threads)(int layer);
  bool opened;
} mkl;

static fftw fftw_of[DTYPES];
static mkl mkl_library;

static void open_fftw(fftw *peer, bool wide) {
  static const char *const files[][2] = {{"libfftw3f.so.3", NULL}, {"libfftw3.so.3", NULL}};
  static const char *const names[][5] = {
      {"fftwf_plan_many_dft", "fftwf_plan_many_dft_r2c", "fftwf_set_timelimit", "fftwf_execute",
       "fftwf_destroy_plan"},
      {"fftw_plan_many_dft", "fftw_plan_many_dft_r2c", "fftw_set_timelimit", "fftw_execute",
       "fftw_destroy_plan"}};
  const alternate_symbol symbols[] = {{names[wide][0], &peer->plan_complex},
                                      {names[wide][1], &peer->plan_real},
                                      {names[wide][2], &peer->set_time_limit},
                                      {names[wide][3], &peer->execute},
                                      {names[wide][4], &peer->destroy}};
  peer->opened = alternate_open(files[wide], "FFTW: Debian package libfftw3-dev", symbols, 5);
  if (peer->opened) peer->set_time_limit(FFTW_SECONDS);
}

static void open_mkl(mkl *peer) {
  static const char *const files[] = {"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so", NULL};
  const alternate_symbol symbols[] = {
      {"DftiCreateDescriptor", &peer->create}, {"DftiSetValue", &peer->set},
      {"DftiCommitDescriptor", &peer->commit}, {"DftiComputeForward", &peer->compute},
      {"DftiFreeDescriptor", &peer->release},  {"MKL_Set_Threading_Layer", &peer->set_threads}};
  peer->opened = alternate_open(files, "MKL: PyPI package mkl", symbols, 6);
  if (peer->opened) peer->set_threads(MKL_SEQUENTIAL);
}

/* ---- One case -------------------------------------------------------------------------------- */

typedef struct bench {
  const fourier_case *c;
  compute_dtype dtype;
  size_t element;
  int64_t in_count, out_count; /* real numbers */
  compute_plan *plan;
  compute_binding bindings[2];
  const fftw *fftw;
  void *fftw_plan, *mkl_plan;
  void *in, *out; /* of the peers */
} bench;

static compute_status run_ours(void *state) {
  const bench *b = state;
  return compute_run(b->plan, b->bindings, 2, NULL);
}

static compute_status run_fftw(void *state) {
  const bench *b = state;
  b->fftw->execute(b->fftw_plan);
  return COMPUTE_OK;
}

static compute_status run_mkl(void *state) {
  const bench *b = state;
  return mkl_library.compute(b->mkl_plan, b->in, b->out) ? COMPUTE_ERROR_LAUNCH : COMPUTE_OK;
}

static double number_at(const bench *b, const void *data, int64_t i) {
  return b->dtype == COMPUTE_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* Between our result and the peers', relative to the largest number. */
static double largest_difference(const bench *b) {
  void *got = malloc((size_t)b->out_count * b->element);
  double most = 0, size = 0;
  if (!got || compute_tensor_read(b->bindings[1].tensor, got, (size_t)b->out_count * b->element))
    most = -1;
  for (int64_t i = 0; most >= 0 && i < b->out_count; i++) {
    const double other = number_at(b, b->out, i), off = number_at(b, got, i) - other;
    if (off > most || -off > most) most = off > 0 ? off : -off;
    if (other > size || -other > size) size = other > 0 ? other : -other;
  }
  free(got);
  return size > 0 ? most / size : most;
}

static void report(bench *b, int rounds) {
  const fourier_case *c = b->c;
  double off[3] = {0};
  alternate_side sides[] = {{.run = run_ours, .state = b},
                            {.run = b->fftw_plan ? run_fftw : NULL, .state = b},
                            {.run = b->mkl_plan ? run_mkl : NULL, .state = b}};
  for (int i = 1; i < 3; i++) {
    if (!sides[i].run) continue;
    memset(b->out, 0, (size_t)b->out_count * b->element);
    if (!sides[i].run(b)) off[i] = largest_difference(b);
  }
  alternate_measure(sides, 3, rounds);
  printf("{\"lines\": %lld, ", (long long)c->lines);
  if (c->height) printf("\"height\": %lld, ", (long long)c->height);
  printf("\"length\": %lld, \"form\": \"%s\", \"dtype\": \"%s\", \"us\": %.3f",
         (long long)c->length, c->real ? "rfft" : "fft", compute_dtype_name(b->dtype),
         sides[0].seconds * 1e6);
  static const char *const names[] = {"", "fftw", "mkl"};
  for (int i = 1; i < 3; i++)
    if (sides[i].seconds > 0)
      printf(", \"%s_us\": %.3f, \"%s_ratio\": %.3f, \"%s_difference\": %.2g", names[i],
             sides[i].seconds * 1e6, names[i], sides[0].seconds / sides[i].seconds, names[i],
             off[i]);
  printf("}\n");
  fflush(stdout);
}

static void plan_fftw(bench *b, const fftw *peer) {
  const fourier_case *c = b->c;
  const int n[] = {(int)(c->height ? c->height : c->length), (int)c->length};
  const int rank = c->height ? 2 : 1, many = (int)c->lines;
  const int in = (int)(b->in_count / c->lines / (c->real ? 1 : 2));
  const int out = (int)(b->out_count / c->lines / 2);
  b->fftw = peer;
  b->fftw_plan = c->real ? peer->plan_real(rank, n, many, b->in, NULL, 1, in, b->out, NULL, 1, out,
                                           FFTW_MEASURE)
                         : peer->plan_complex(rank, n, many, b->in, NULL, 1, in, b->out, NULL, 1,
                                              out, FFTW_FORWARD, FFTW_MEASURE);
}

static void plan_mkl(bench *b) {
  const mkl *peer = &mkl_library;
  const fourier_case *c = b->c;
  const long n[] = {(long)c->height, (long)c->length};
  const long strides[] = {0, (long)c->length / 2 + 1, 1};
  const int precision = b->dtype == COMPUTE_F64 ? DFTI_DOUBLE : DFTI_SINGLE;
  const int domain = c->real ? DFTI_REAL : DFTI_COMPLEX;
  void *plan = NULL;
  long bad = c->height ? peer->create(&plan, precision, domain, 2L, n)
                       : peer->create(&plan, precision, domain, 1L, n[1]);
  bad = bad || peer->set(plan, DFTI_PLACEMENT, DFTI_NOT_INPLACE);
  if (c->real) bad = bad || peer->set(plan, DFTI_CONJUGATE_EVEN_STORAGE, DFTI_COMPLEX_COMPLEX);
  if (c->real && c->height) bad = bad || peer->set(plan, DFTI_OUTPUT_STRIDES, strides);
  if (c->lines > 1)
    bad = bad || peer->set(plan, DFTI_NUMBER_OF_TRANSFORMS, (long)c->lines) ||
          peer->set(plan, DFTI_INPUT_DISTANCE, (long)c->length) ||
          peer->set(plan, DFTI_OUTPUT_DISTANCE, (long)(c->real ? c->length / 2 + 1 : c->length));
  bad = bad || peer->commit(plan);
  if (!bad)
    b->mkl_plan = plan;
  else if (plan)
    peer->release(&plan);
}

static void *aligned_numbers(const bench *b, int64_t count) {
  return aligned_alloc(64, ((size_t)count * b->element + 127) / 64 * 64);
}

static compute_status make_ours(compute_context *context, bench *b, const void *data) {
  const fourier_case *c = b->c;
  const int64_t parts = c->real ? 1 : 2;
  const compute_shape shape = c->height ? COMPUTE_SHAPE(c->height, c->length)
                              : c->real ? COMPUTE_SHAPE(c->lines, c->length)
                                        : COMPUTE_SHAPE(c->lines, c->length, parts);
  compute_graph *g = compute_graph_create(context);
  const compute_node in = compute_input(g, b->dtype, shape);
  const compute_node out = c->height
                               ? compute_rfftn(g, in, COMPUTE_AXES(0, 1), COMPUTE_FFT_BACKWARD)
                           : c->real ? compute_rfft(g, in, 0, 1, COMPUTE_FFT_BACKWARD)
                                     : compute_fft(g, in, 0, 1, COMPUTE_FFT_BACKWARD);
  b->bindings[0].node = in;
  b->bindings[1].node = out;
  compute_status s = compute_compile(g, &out, 1, NULL, &b->plan);
  if (!s)
    s = compute_tensor_from_host(compute_default_device(context), b->dtype, shape, data,
                                 &b->bindings[0].tensor);
  if (!s) s = compute_plan_create_tensor(b->plan, out, &b->bindings[1].tensor);
  compute_graph_release(g);
  return s;
}

static void fill(const bench *b, void *data) {
  for (int64_t i = 0; i < b->in_count; i++) {
    const double value = (double)(i * 7919 % 1009) / 1009 - 0.5;
    if (b->dtype == COMPUTE_F64)
      ((double *)data)[i] = value;
    else
      ((float *)data)[i] = (float)value;
  }
}

static compute_status run_case(compute_context *context, size_t number, int rounds) {
  const fourier_case *c = &cases[number % CASES];
  const size_t wide = number / CASES;
  const int64_t points = c->lines * (c->height ? c->height : 1);
  bench b = {.c = c, .dtype = dtypes[wide], .element = wide ? sizeof(double) : sizeof(float)};
  b.in_count = points * c->length * (c->real ? 1 : 2);
  b.out_count = points * (c->real ? c->length / 2 + 1 : c->length) * 2;
  b.in = aligned_numbers(&b, b.in_count);
  b.out = aligned_numbers(&b, b.out_count);
  compute_status s = b.in && b.out ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
  if (!s && fftw_of[wide].opened) plan_fftw(&b, &fftw_of[wide]);
  if (!s && mkl_library.opened) plan_mkl(&b);
  if (!s) fill(&b, b.in); /* FFTW's planner writes */
  if (!s) s = make_ours(context, &b, b.in);
  if (!s) s = run_ours(&b);
  if (!s) report(&b, rounds);
  if (b.fftw_plan) b.fftw->destroy(b.fftw_plan);
  if (b.mkl_plan) mkl_library.release(&b.mkl_plan);
  free(b.in);
  free(b.out);
  compute_tensor_release(b.bindings[0].tensor);
  compute_tensor_release(b.bindings[1].tensor);
  compute_plan_release(b.plan);
  return s;
}

int main(int argc, char **argv) {
  open_fftw(&fftw_of[0], false);
  open_fftw(&fftw_of[1], true);
  open_mkl(&mkl_library);
  return alternate_main(argc, argv, (size_t)CASES * DTYPES, run_case);
}
