/* SPDX-License-Identifier: MIT */
/* Times of Fourier transforms beside FFTW's, alternating in one run, with one thread.
 *
 *   compute-fourier [ROUNDS]
 *
 * Prints one JSON object for each case: microseconds, the least of all rounds. FFTW is opened at
 * run time. Without it only our own times are printed, with a reason on the error stream. FFTW
 * measures its plans up to 2^18 points, and estimates them beyond, where measuring takes minutes. */
#include <compute/compute.h>
#include <compute/fft.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FFTW_FORWARD = -1, FFTW_MEASURE = 0, FFTW_ESTIMATE = 64, MEASURED = 1 << 18 };

typedef struct fourier_case {
  int64_t lines, length;
  bool real;
} fourier_case;

static const fourier_case cases[] = {
    {4096, 16, false},   {1024, 64, false},  {256, 256, false},   {1, 256, false},
    {1, 1024, false},    {1, 1024, true},    {64, 1024, false},   {1, 1000, false},
    {1, 1009, false},    {1, 4096, false},   {1, 16384, false},   {1, 65536, false},
    {1, 1 << 18, false}, {1, 1 << 18, true}, {1, 1 << 20, false}, {1, 1 << 22, false},
    {1080, 1920, true},
};

/* The parts of FFTW's interface that are called, for f32. */
typedef struct fftw {
  void *(*plan_complex)(int rank, const int *n, int many, void *in, const int *in_embed,
                        int in_stride, int in_apart, void *out, const int *out_embed,
                        int out_stride, int out_apart, int sign, unsigned flags);
  void *(*plan_real)(int rank, const int *n, int many, void *in, const int *in_embed, int in_stride,
                     int in_apart, void *out, const int *out_embed, int out_stride, int out_apart,
                     unsigned flags);
  void (*execute)(void *plan);
  void (*destroy)(void *plan);
} fftw;

static void *find(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  if (!symbol) fprintf(stderr, "no peer: FFTW has no %s\n", name);
  return symbol;
}

static bool open_fftw(fftw *peer) {
  void *library = dlopen("libfftw3f.so.3", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "no peer: %s (Debian package libfftw3-single3)\n", dlerror());
    return false;
  }
  void *const symbols[] = {find(library, "fftwf_plan_many_dft"),
                           find(library, "fftwf_plan_many_dft_r2c"), find(library, "fftwf_execute"),
                           find(library, "fftwf_destroy_plan")};
  memcpy(&peer->plan_complex, &symbols[0], sizeof symbols[0]);
  memcpy(&peer->plan_real, &symbols[1], sizeof symbols[1]);
  memcpy(&peer->execute, &symbols[2], sizeof symbols[2]);
  memcpy(&peer->destroy, &symbols[3], sizeof symbols[3]);
  return symbols[0] && symbols[1] && symbols[2] && symbols[3];
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A case that is ready to run with both. */
typedef struct bench {
  compute_plan *plan;
  compute_binding bindings[2];
  const fftw *peer; /* or NULL */
  void *peer_plan, *in, *out;
} bench;

static compute_status run_ours(const bench *b) {
  return compute_run(b->plan, b->bindings, 2, NULL);
}

static compute_status run_peer(const bench *b) {
  b->peer->execute(b->peer_plan);
  return COMPUTE_OK;
}

/* The time of one run, as the mean of `times`. */
static double time_of(const bench *b, compute_status (*run)(const bench *), int64_t times) {
  const double start = seconds();
  for (int64_t i = 0; i < times; i++)
    if (run(b)) return -1;
  return (seconds() - start) / (double)times;
}

static double largest_difference(const bench *b, int64_t count) {
  float *got = malloc((size_t)count * sizeof *got);
  double most = 0, size = 0;
  if (!got || compute_tensor_read(b->bindings[1].tensor, got, (size_t)count * sizeof *got))
    most = -1;
  for (int64_t i = 0; most >= 0 && i < count; i++) {
    const double other = ((const float *)b->out)[i], off = (double)got[i] - other;
    if (off > most || -off > most) most = off > 0 ? off : -off;
    if (other > size || -other > size) size = other > 0 ? other : -other;
  }
  free(got);
  return size > 0 ? most / size : most;
}

static void report(const fourier_case *c, bench *b, int64_t count, int rounds) {
  double ours = 1e9, peer = 1e9;
  const double once = time_of(b, run_ours, 1);
  const int64_t times = (int64_t)(5e-3 / (once > 1e-7 ? once : 1e-7)) + 1;
  for (int i = 0; i < rounds; i++) {
    const double own = time_of(b, run_ours, times);
    if (own < ours) ours = own;
    if (!b->peer) continue;
    const double other = time_of(b, run_peer, times);
    if (other < peer) peer = other;
  }
  printf("{\"lines\": %lld, \"length\": %lld, \"form\": \"%s\", \"dtype\": \"f32\", \"us\": %.3f",
         (long long)c->lines, (long long)c->length, c->real ? "rfft" : "fft", ours * 1e6);
  if (b->peer)
    printf(", \"fftw_us\": %.3f, \"ratio\": %.3f, \"fftw_planner\": \"%s\", \"difference\": %.2g",
           peer * 1e6, ours / peer, c->length > MEASURED ? "estimate" : "measure",
           largest_difference(b, count));
  printf("}\n");
  fflush(stdout);
}

static void make_peer(const fourier_case *c, const fftw *peer, bench *b, const float *data,
                      int64_t in_count, int64_t out_count) {
  const int n = (int)c->length, many = (int)c->lines;
  const unsigned flags = c->length > MEASURED ? FFTW_ESTIMATE : FFTW_MEASURE;
  b->in = aligned_alloc(64, ((size_t)in_count * sizeof(float) + 127) / 64 * 64);
  b->out = aligned_alloc(64, ((size_t)out_count * sizeof(float) + 127) / 64 * 64);
  if (!b->in || !b->out) return;
  b->peer_plan =
      c->real ? peer->plan_real(1, &n, many, b->in, NULL, 1, n, b->out, NULL, 1, n / 2 + 1, flags)
              : peer->plan_complex(1, &n, many, b->in, NULL, 1, n, b->out, NULL, 1, n, FFTW_FORWARD,
                                   flags);
  if (!b->peer_plan) return;
  memcpy(b->in, data, (size_t)in_count * sizeof(float));
  b->peer = peer;
}

static compute_status run_case(compute_context *context, const fourier_case *c, const fftw *peer,
                               int rounds) {
  const int64_t in_count = c->lines * c->length * (c->real ? 1 : 2);
  const int64_t out_count = c->lines * (c->real ? c->length / 2 + 1 : c->length) * 2;
  float *data = malloc((size_t)in_count * sizeof *data);
  bench b = {NULL};
  compute_tensor *x = NULL, *y = NULL;
  if (!data) return COMPUTE_ERROR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < in_count; i++) data[i] = (float)(i * 7919 % 1009) / 1009 - 0.5F;
  compute_graph *g = compute_graph_create(context);
  const compute_shape shape =
      c->real ? COMPUTE_SHAPE(c->lines, c->length) : COMPUTE_SHAPE(c->lines, c->length, 2);
  const compute_node in = compute_input(g, COMPUTE_F32, shape);
  const compute_node out = c->real ? compute_rfft(g, in, 0, 1, COMPUTE_FFT_BACKWARD)
                                   : compute_fft(g, in, 0, 1, COMPUTE_FFT_BACKWARD);
  compute_status s = compute_compile(g, &out, 1, NULL, &b.plan);
  if (!s)
    s = compute_tensor_from_host(compute_default_device(context), COMPUTE_F32, shape, data, &x);
  if (!s) s = compute_plan_create_tensor(b.plan, out, &y);
  b.bindings[0] = (compute_binding){in, x};
  b.bindings[1] = (compute_binding){out, y};
  if (!s && peer) make_peer(c, peer, &b, data, in_count, out_count);
  if (!s) s = run_ours(&b);
  if (!s) report(c, &b, out_count, rounds);
  if (b.peer_plan) peer->destroy(b.peer_plan);
  free(b.in);
  free(b.out);
  free(data);
  compute_tensor_release(x);
  compute_tensor_release(y);
  compute_plan_release(b.plan);
  compute_graph_release(g);
  return s;
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 15;
  compute_context *context = NULL;
  fftw peer;
  const bool has_peer = open_fftw(&peer);
  const compute_open_options options = {.threads = 1, .device = "cpu"};
  compute_status s = compute_open(&context, &options);
  for (size_t i = 0; i < sizeof cases / sizeof *cases && !s; i++)
    s = run_case(context, &cases[i], has_peer ? &peer : NULL, rounds);
  if (s) fprintf(stderr, "%s\n", compute_error_message(NULL));
  const compute_status closed = compute_close(context);
  return s || closed;
}
