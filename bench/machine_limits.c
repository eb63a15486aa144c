/* SPDX-License-Identifier: MIT */
/* The machine's limits: multiply-adds per second on registers, and memory speed.
 *
 * Small loops measure the limit of any code. One has twelve independent chains of multiply-adds,
 * enough to hide the latency on every current processor. The others copy and add arrays larger than
 * any cache, with non-temporal stores. */
#include "machine_limits.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "host.h"
#include "measure.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { CHAINS = 12, MAX_THREADS = 256, REPETITIONS = 8, FMA_STEPS = 1 << 22 };
static const int64_t stream_elements = INT64_C(1) << 26; /* 256 MiB in each array */

/* Elements i … end − 1 of out = a, or of out = a + b if there is a b. */
typedef void (*stream_function)(float *out, const float *a, const float *b, int64_t i, int64_t end);

typedef struct limits_worker {
  struct limits_job *job;
  int index;
  double sink; /* keeps the compiler from removing the loops */
} limits_worker;

typedef struct limits_job {
  int threads;
  void (*work)(limits_worker *worker);
  double (*fma)(int64_t steps); /* of fma_work */
  stream_function stream;       /* of stream_work */
  float *out;
  const float *a, *b;
} limits_job;

/* ---- Multiply-adds. Each returns something that depends on all of its chains. --------------- */

static double fma_generic_f32(int64_t steps) {
  float x[4 * CHAINS], sum = 0;
  for (int i = 0; i < 4 * CHAINS; i++) x[i] = (float)(i + 1);
  for (int64_t s = 0; s < steps; s++)
    for (int i = 0; i < 4 * CHAINS; i++) x[i] = x[i] * 0.999f + 0.001f;
  for (int i = 0; i < 4 * CHAINS; i++) sum += x[i];
  return (double)sum;
}

static double fma_generic_f64(int64_t steps) {
  double x[2 * CHAINS], sum = 0;
  for (int i = 0; i < 2 * CHAINS; i++) x[i] = i + 1;
  for (int64_t s = 0; s < steps; s++)
    for (int i = 0; i < 2 * CHAINS; i++) x[i] = x[i] * 0.999 + 0.001;
  for (int i = 0; i < 2 * CHAINS; i++) sum += x[i];
  return sum;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static double fma_avx2_f32(int64_t steps) {
  __m256 x[CHAINS], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int i = 0; i < CHAINS; i++) x[i] = _mm256_set1_ps((float)(i + 1));
  for (int64_t s = 0; s < steps; s++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) x[i] = _mm256_fmadd_ps(x[i], a, b);
  for (int i = 1; i < CHAINS; i++) x[0] = _mm256_add_ps(x[0], x[i]);
  return (double)_mm256_cvtss_f32(x[0]);
}

__attribute__((target("avx2,fma"))) static double fma_avx2_f64(int64_t steps) {
  __m256d x[CHAINS], a = _mm256_set1_pd(0.999), b = _mm256_set1_pd(0.001);
  for (int i = 0; i < CHAINS; i++) x[i] = _mm256_set1_pd(i + 1);
  for (int64_t s = 0; s < steps; s++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) x[i] = _mm256_fmadd_pd(x[i], a, b);
  for (int i = 1; i < CHAINS; i++) x[0] = _mm256_add_pd(x[0], x[i]);
  return _mm256_cvtsd_f64(x[0]);
}

__attribute__((target("avx512f"))) static double fma_avx512_f32(int64_t steps) {
  __m512 x[CHAINS], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (int i = 0; i < CHAINS; i++) x[i] = _mm512_set1_ps((float)(i + 1));
  for (int64_t s = 0; s < steps; s++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) x[i] = _mm512_fmadd_ps(x[i], a, b);
  for (int i = 1; i < CHAINS; i++) x[0] = _mm512_add_ps(x[0], x[i]);
  return (double)_mm512_cvtss_f32(x[0]);
}

__attribute__((target("avx512f"))) static double fma_avx512_f64(int64_t steps) {
  __m512d x[CHAINS], a = _mm512_set1_pd(0.999), b = _mm512_set1_pd(0.001);
  for (int i = 0; i < CHAINS; i++) x[i] = _mm512_set1_pd(i + 1);
  for (int64_t s = 0; s < steps; s++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) x[i] = _mm512_fmadd_pd(x[i], a, b);
  for (int i = 1; i < CHAINS; i++) x[0] = _mm512_add_pd(x[0], x[i]);
  return _mm512_cvtsd_f64(x[0]);
}
#endif

static void fma_work(limits_worker *worker) {
  worker->sink += worker->job->fma(FMA_STEPS);
}

/* ---- Streams ------------------------------------------------------------------------------- */

/* A worker's share, in whole cache lines. */
static void share(const limits_worker *worker, int64_t *first, int64_t *end) {
  int64_t lines = stream_elements / 16, threads = worker->job->threads;
  *first = lines * worker->index / threads * 16;
  *end = lines * (worker->index + 1) / threads * 16;
}

#if defined(__x86_64__)
enum {
  AHEAD = 512
}; /* elements; prefetching this far ahead is a third faster on some
    * processors */

__attribute__((target("avx2"))) static void stream_avx2(float *out, const float *a, const float *b,
                                                        int64_t i, int64_t end) {
  for (; i < end; i += 16) {
    _mm_prefetch((const char *)(a + i + AHEAD), _MM_HINT_T0);
    __m256 low = _mm256_load_ps(a + i), high = _mm256_load_ps(a + i + 8);
    if (b) {
      _mm_prefetch((const char *)(b + i + AHEAD), _MM_HINT_T0);
      low = _mm256_add_ps(low, _mm256_load_ps(b + i));
      high = _mm256_add_ps(high, _mm256_load_ps(b + i + 8));
    }
    _mm256_stream_ps(out + i, low);
    _mm256_stream_ps(out + i + 8, high);
  }
  _mm_sfence();
}

static void stream_generic(float *out, const float *a, const float *b, int64_t i, int64_t end) {
  for (; i < end; i += 4) {
    __m128 x = _mm_load_ps(a + i);
    if (b) x = _mm_add_ps(x, _mm_load_ps(b + i));
    _mm_stream_ps(out + i, x);
  }
  _mm_sfence();
}
#else
static void stream_generic(float *out, const float *a, const float *b, int64_t i, int64_t end) {
  for (; i < end; i++) out[i] = b ? a[i] + b[i] : a[i];
}
#endif

static void stream_work(limits_worker *worker) {
  int64_t first, end;
  share(worker, &first, &end);
  worker->job->stream(worker->job->out, worker->job->a, worker->job->b, first, end);
}

/* ---- The loops for this processor ----------------------------------------------------------- */

typedef struct limits_isa {
  const char *name;
  double (*f32)(int64_t), (*f64)(int64_t);
  int lanes_f32, lanes_f64; /* elements of one chain */
  stream_function stream;
} limits_isa;

static limits_isa select_isa(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f"))
    return (limits_isa){"avx512", fma_avx512_f32, fma_avx512_f64, 16, 8, stream_avx2};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return (limits_isa){"avx2", fma_avx2_f32, fma_avx2_f64, 8, 4, stream_avx2};
#endif
  return (limits_isa){"generic", fma_generic_f32, fma_generic_f64, 4, 2, stream_generic};
}

/* ---- Running them on all threads ----------------------------------------------------------- */

static void *worker_main(void *argument) {
  limits_worker *worker = argument;
  worker->job->work(worker);
  return NULL;
}

/* Seconds of the fastest repetition of `work` on all threads at once. Threads are started for each
 * repetition, which takes some thousandths of its time. */
static double best_time(limits_job *job, void (*work)(limits_worker *)) {
  pthread_t thread[MAX_THREADS];
  bool started[MAX_THREADS];
  limits_worker worker[MAX_THREADS];
  double best = 0, sum = 0;
  job->work = work;
  for (int i = 0; i < job->threads; i++) worker[i] = (limits_worker){.job = job, .index = i};
  for (int r = 0; r < REPETITIONS; r++) {
    double start = clock_seconds();
    for (int i = 1; i < job->threads; i++)
      started[i] = !pthread_create(&thread[i], NULL, worker_main, &worker[i]);
    work(&worker[0]);
    for (int i = 1; i < job->threads; i++) {
      if (started[i])
        pthread_join(thread[i], NULL);
      else
        work(&worker[i]);
    }
    double seconds = clock_seconds() - start;
    if (!r || seconds < best) best = seconds;
  }
  for (int i = 0; i < job->threads; i++) sum += worker[i].sink;
  volatile double sink = sum;
  (void)sink;
  return best;
}

static double fma_speed(limits_job *job, double (*fma)(int64_t), int lanes) {
  job->fma = fma;
  double seconds = best_time(job, fma_work);
  return seconds > 0 ? 2e-9 * CHAINS * lanes * FMA_STEPS * job->threads / seconds : 0;
}

bench_limits bench_limits_measure(int threads) {
  limits_isa isa = select_isa();
  limits_job job = {.threads = threads < MAX_THREADS ? threads : MAX_THREADS};
  bench_limits limits = {.threads = job.threads, .isa = isa.name};
  limits.fma_f32 = fma_speed(&job, isa.f32, isa.lanes_f32);
  limits.fma_f64 = fma_speed(&job, isa.f64, isa.lanes_f64);

  size_t bytes = (size_t)stream_elements * sizeof(float);
  float *a = host_allocate(bytes), *b = host_allocate(bytes), *out = host_allocate(bytes);
  if (a && b && out) {
    host_fill(COMPUTE_F32, a, stream_elements, -1, 1, 1);
    host_fill(COMPUTE_F32, b, stream_elements, -1, 1, 2);
    memset(out, 1, bytes);
    job.stream = isa.stream;
    job.a = a, job.out = out;
    double copy = best_time(&job, stream_work);
    job.b = b;
    double add = best_time(&job, stream_work);
    if (copy > 0) limits.stream_copy = 2e-9 * (double)bytes / copy;
    if (add > 0) limits.stream_add = 3e-9 * (double)bytes / add;
  }
  host_release(a, bytes);
  host_release(b, bytes);
  host_release(out, bytes);
  return limits;
}

static void raise(double *best, double value) {
  if (value > *best) *best = value;
}

void bench_limits_raise(bench_limits *limits) {
  bench_limits again = bench_limits_measure(limits->threads);
  raise(&limits->fma_f32, again.fma_f32);
  raise(&limits->fma_f64, again.fma_f64);
  raise(&limits->stream_copy, again.stream_copy);
  raise(&limits->stream_add, again.stream_add);
}
