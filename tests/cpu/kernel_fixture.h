/* SPDX-License-Identifier: MIT */
/* Runs one kernel of the CPU backend directly: a device with this file's services, operands with
 * guard bytes, and descriptors assembled from parts. For the tests of reductions, row operations,
 * gather and scatter.
 *
 * The services allocate from the C library, so that valgrind and the sanitizers see each block.
 * They can fail the n-th allocation, keep the last error, and run loops on a thread pool of the
 * core. */
#ifndef CPU_KERNEL_FIXTURE_H
#define CPU_KERNEL_FIXTURE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/thread_pool.h"
#include "core/cpu.h"
#include "core/kernel/common/program.h"
#include "core/platform/aligned.h"
#include "core/type/dtype.h"
#include "support/harness/test.h"
#include "support/harness/values.h"
#include "support/reference/kernel_reference.h"

#define FIXTURE_INLINE static inline __attribute__((unused))

typedef struct fixture {
  compute_services services;
  cpu_device *device;
  thread_pool *pool;
  const char *isa;
  int64_t fail_at;             /* counts down to the failing allocation; 0: none */
  _Atomic int64_t live_blocks; /* allocated and not yet released, by any thread */
  compute_status status;
  char message[256];
} fixture;

FIXTURE_INLINE void *fixture_allocate(void *host, size_t bytes, size_t alignment) {
  fixture *f = host;
  if (f->fail_at > 0 && --f->fail_at == 0) return NULL;
  void *memory = aligned_take(alignment, (bytes / alignment + 1) * alignment);
  if (!memory) return NULL;
  memset(memory, 0, bytes);
  f->live_blocks++;
  return memory;
}

FIXTURE_INLINE void fixture_release_block(void *host, void *pointer) {
  if (!pointer) return;
  ((fixture *)host)->live_blocks--;
  aligned_give(pointer);
}

FIXTURE_INLINE void fixture_log(void *host, compute_log_level level, const char *module,
                                const char *format, ...) {
  (void)host, (void)level, (void)module, (void)format;
}

FIXTURE_INLINE compute_status fixture_fail(void *host, compute_status status, int64_t native,
                                           const char *remedy, const char *format, ...) {
  fixture *f = host;
  va_list list;
  (void)native, (void)remedy;
  va_start(list, format);
  vsnprintf(f->message, sizeof f->message, format, list);
  va_end(list);
  f->status = status;
  return status;
}

FIXTURE_INLINE int32_t fixture_threads(void *host) {
  return thread_pool_count(((fixture *)host)->pool);
}

FIXTURE_INLINE void fixture_parallel(void *host, int64_t tasks, compute_task task, void *argument) {
  thread_pool_run(((fixture *)host)->pool, tasks, task, argument);
}

FIXTURE_INLINE const char *fixture_variable(void *host, const char *name) {
  return strcmp(name, "COMPUTE_CPU_ISA") == 0 ? ((fixture *)host)->isa : NULL;
}

/* Returns false if this machine lacks the instruction set. */
FIXTURE_INLINE bool fixture_open(fixture *f, int32_t threads, const char *isa) {
  const char *problem = NULL;
  cpu_isa_select(isa, &problem);
  if (problem) return false;
  *f = (fixture){.isa = isa, .pool = thread_pool_create(threads)};
  f->services = (compute_services){
      .struct_size = sizeof f->services,
      .abi_major = COMPUTE_BACKEND_ABI_MAJOR,
      .abi_minor = COMPUTE_BACKEND_ABI_MINOR,
      .host = f,
      .allocate = fixture_allocate,
      .release = fixture_release_block,
      .log = fixture_log,
      .fail = fixture_fail,
      .thread_count = fixture_threads,
      .parallel = fixture_parallel,
      .variable = fixture_variable,
  };
  assert_non_null(f->pool);
  assert_int_equal(cpu_device_open(&f->services, &f->device), COMPUTE_OK);
  return true;
}

FIXTURE_INLINE void fixture_close(fixture *f) {
  cpu_device_close(f->device);
  assert_int_equal(f->live_blocks, 0);
  thread_pool_release(f->pool);
}

/* The instruction sets under test, NULL-terminated. */
static const char *const fixture_sets[] = {"scalar", "avx2", "avx512", "rvv", NULL};

/* ---- Operands ------------------------------------------------------------------------------ */

enum { FIXTURE_GUARD = 64 }; /* elements before and after */

/* A strided operand in separate memory. Elements outside the view hold a pattern. */
typedef struct block {
  compute_dtype dtype;
  int32_t rank;
  int64_t size[COMPUTE_MAX_RANK], stride[COMPUTE_MAX_RANK];
  int64_t elements; /* from the first to the last element */
  unsigned char *memory, *copy;
} block;

FIXTURE_INLINE unsigned char *block_data(const block *b) {
  return b->memory + FIXTURE_GUARD * cpu_dtype_size(b->dtype);
}

FIXTURE_INLINE block block_create(compute_dtype dtype, int32_t rank, const int64_t *size,
                                  const int64_t *stride) {
  block b = {.dtype = dtype, .rank = rank, .elements = 1};
  for (int32_t d = 0; d < rank; d++) {
    b.size[d] = size[d];
    b.stride[d] = stride[d];
    if (size[d] > 0) b.elements += (size[d] - 1) * stride[d];
  }
  const size_t bytes = (size_t)(b.elements + 2 * FIXTURE_GUARD) * cpu_dtype_size(dtype);
  b.memory = malloc(bytes);
  b.copy = malloc(bytes);
  assert_non_null(b.memory);
  assert_non_null(b.copy);
  for (size_t i = 0; i < bytes; i++) b.memory[i] = (unsigned char)(0xa5 + 7 * i);
  memcpy(b.copy, b.memory, bytes);
  return b;
}

FIXTURE_INLINE void block_release(block *b) {
  free(b->memory);
  free(b->copy);
}

/* The index of the element at a point of the block's dimensions. */
FIXTURE_INLINE int64_t block_at(const block *b, const int64_t *point) {
  int64_t at = 0;
  for (int32_t d = 0; d < b->rank; d++) at += point[d] * b->stride[d];
  return at;
}

FIXTURE_INLINE double block_get(const block *b, int64_t at) {
  return dtype_load(b->dtype, block_data(b) + at * (int64_t)cpu_dtype_size(b->dtype));
}

FIXTURE_INLINE void block_set(block *b, int64_t at, double value) {
  dtype_store(b->dtype, block_data(b) + at * (int64_t)cpu_dtype_size(b->dtype), value);
}

/* Moves to the next point in row-major order; returns false after the last. */
FIXTURE_INLINE bool next_point(int32_t rank, const int64_t *size, int64_t *point) {
  for (int32_t d = rank - 1; d >= 0; d--) {
    if (++point[d] < size[d]) return true;
    point[d] = 0;
  }
  return false;
}

FIXTURE_INLINE int64_t count_points(int32_t rank, const int64_t *size) {
  int64_t count = 1;
  for (int32_t d = 0; d < rank; d++) count *= size[d];
  return count;
}

/* Fills the block's whole range with random numbers in low … high. */
FIXTURE_INLINE void block_fill(block *b, double low, double high, test_random *random) {
  const bool whole = dtype_is_integer(b->dtype) || b->dtype == COMPUTE_BOOL;
  for (int64_t i = 0; i < b->elements; i++) {
    const double value = test_random_uniform(random, low, high);
    block_set(b, i, whole ? floor(value) : value);
  }
}

/* Remembers the block's contents for block_check_guards. */
FIXTURE_INLINE void block_remember(block *b) {
  memcpy(b->copy, b->memory, (size_t)(b->elements + 2 * FIXTURE_GUARD) * cpu_dtype_size(b->dtype));
}

/* Checks that the elements outside the block's points are unchanged. */
FIXTURE_INLINE void block_check_guards(const block *b) {
  const size_t bytes = cpu_dtype_size(b->dtype);
  const int64_t all = b->elements + 2 * FIXTURE_GUARD;
  unsigned char *own = calloc((size_t)all, 1);
  assert_non_null(own);
  int64_t point[COMPUTE_MAX_RANK] = {0};
  if (count_points(b->rank, b->size) > 0) {
    do own[FIXTURE_GUARD + block_at(b, point)] = 1;
    while (next_point(b->rank, b->size, point));
  }
  for (int64_t i = 0; i < all; i++)
    if (!own[i] && memcmp(b->memory + (size_t)i * bytes, b->copy + (size_t)i * bytes, bytes) != 0)
      fail_msg("element %lld beside the output was written", (long long)(i - FIXTURE_GUARD));
  free(own);
}

/* Random strides of `size`: a random order of dimensions with random gaps. A set bit of `repeat`
 * makes the stride 0. */
FIXTURE_INLINE void random_strides(int32_t rank, const int64_t *size, uint32_t repeat,
                                   test_random *random, int64_t *stride) {
  int32_t order[COMPUTE_MAX_RANK];
  for (int32_t d = 0; d < rank; d++) order[d] = d;
  if (test_random_integer(random, 0, 2) == 0)
    for (int32_t d = rank - 1; d > 0; d--) {
      const int32_t other = (int32_t)test_random_integer(random, 0, d);
      const int32_t swapped = order[d];
      order[d] = order[other];
      order[other] = swapped;
    }
  const bool gaps = test_random_integer(random, 0, 3) == 0;
  int64_t step = gaps ? test_random_integer(random, 1, 2) : 1;
  for (int32_t i = rank - 1; i >= 0; i--) {
    const int32_t d = order[i];
    stride[d] = 0;
    if (repeat >> d & 1) continue;
    stride[d] = step;
    step *= (size[d] > 0 ? size[d] : 1) + (gaps ? test_random_integer(random, 0, 1) : 0);
  }
}

/* ---- Kernels ------------------------------------------------------------------------------- */

FIXTURE_INLINE compute_operand operand_of(const block *b, int32_t rank) {
  compute_operand operand = {.dtype = b->dtype};
  for (int32_t d = 0; d < rank && d < b->rank; d++) operand.stride[d] = b->stride[d];
  return operand;
}

/* Prepares a kernel, runs it on these blocks (inputs, then outputs) and destroys it. */
FIXTURE_INLINE compute_status run_kernel(fixture *f, const cpu_kind *kind,
                                         const compute_kernel_descriptor *descriptor,
                                         block *const *blocks) {
  cpu_kernel *kernel = NULL;
  void *pointers[COMPUTE_MAX_OPERANDS];
  for (uint32_t i = 0; i < descriptor->input_count + descriptor->output_count; i++)
    pointers[i] = block_data(blocks[i]);
  compute_status status = cpu_kind_prepare(kind, f->device, descriptor, &kernel);
  if (status) return status;
  assert_non_null(kernel);
  assert_true(strlen(kernel->description) > 0);
  status = kernel->run(kernel, pointers);
  cpu_kernel_destroy(kernel);
  return status;
}

/* Fails every allocation of one prepare and run, on fresh devices. Each time the status reports it,
 * or the launch works without that memory, and nothing leaks. At last the launch succeeds. */
FIXTURE_INLINE void check_allocation_failures(const cpu_kind *kind,
                                              const compute_kernel_descriptor *descriptor,
                                              block *const *blocks) {
  int64_t reported = 0;
  for (int64_t n = 1;; n++) {
    fixture f;
    assert_true(fixture_open(&f, 2, "scalar"));
    f.fail_at = n;
    const compute_status status = run_kernel(&f, kind, descriptor, blocks);
    const bool failed = f.fail_at == 0;
    f.fail_at = 0;
    if (failed) {
      if (status != COMPUTE_OK) {
        assert_int_equal(status, COMPUTE_ERROR_OUT_OF_MEMORY);
        assert_int_equal(f.status, COMPUTE_ERROR_OUT_OF_MEMORY);
        reported++;
      }
      assert_int_equal(run_kernel(&f, kind, descriptor, blocks), COMPUTE_OK);
    }
    fixture_close(&f);
    if (!failed) {
      assert_int_equal(status, COMPUTE_OK);
      assert_true(reported > 0);
      return;
    }
  }
}

/* ---- Results ------------------------------------------------------------------------------- */

/* The allowed error in roundings of the accumulate type, besides the rounding of the stored number:
 * relative · |result| + absolute + terms · the scale of its error, with `by_count` times the square
 * root of the number of its terms. All 0: the stored number is exact, with `signs` also the sign
 * of a zero. */
typedef struct allowed_error {
  double relative, absolute, terms;
  bool by_count, signs;
} allowed_error;

typedef struct launch_check {
  const fixture *f;
  const compute_kernel_descriptor *d;
  block *const *blocks;
  allowed_error allowed;
} launch_check;

FIXTURE_INLINE double rounding_of(compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_F64: return 0x1p-53;
  case COMPUTE_F32: return 0x1p-24;
  case COMPUTE_F16: return 0x1p-11;
  case COMPUTE_BF16: return 0x1p-8;
  default: return 0;
  }
}

FIXTURE_INLINE bool is_close(const launch_check *c, compute_dtype stored, double actual,
                             double expected, const reference_value *e) {
  const allowed_error *a = &c->allowed;
  if (isnan(expected)) return isnan(actual);
  if (actual == expected) return !a->signs || !signbit(actual) == !signbit(expected);
  if (!isfinite(expected)) return false;
  const double roots = a->by_count && e->count > 1 ? sqrt((double)e->count) : 1;
  const double error = a->relative * fabs(expected) + a->absolute + a->terms * roots * e->terms;
  const double rounding = (stored == c->d->accumulate ? 0 : rounding_of(stored) * fabs(expected)) +
                          (stored == COMPUTE_F16 ? 0x1p-25 : 0);
  return error > 0 && fabs(actual - expected) <= rounding_of(c->d->accumulate) * error + rounding;
}

FIXTURE_INLINE void check_result_element(void *user, uint32_t output, const int64_t *point,
                                         compute_dtype type, const reference_value *e) {
  const launch_check *c = user;
  const compute_kernel_descriptor *d = c->d;
  const compute_operand *o = &d->outputs[output];
  int64_t at = 0;
  for (int32_t i = 0; i < d->rank; i++) at += point[i] * o->stride[i];
  const reference_value actual =
      reference_load(o->dtype, block_data(c->blocks[d->input_count + output]) +
                                   at * (int64_t)cpu_dtype_size(o->dtype));
  const bool exact = c->allowed.relative + c->allowed.absolute + c->allowed.terms == 0;
  const reference_value stored = reference_cast(type, *e, o->dtype);
  const double real = reference_is_float(type) ? e->real : (double)e->whole;
  const double expected = exact ? stored.real : real;
  if (reference_is_float(o->dtype) ? is_close(c, o->dtype, actual.real, expected, e)
                                   : actual.whole == stored.whole)
    return;
  fail_msg("%s: kind %d of %s, sizes %lld %lld %lld %lld, output %u at %lld %lld %lld %lld: %.9g "
           "(%lld) instead of %.9g (%lld)",
           c->f->device->isa->name, (int)d->kind, compute_dtype_name(d->inputs[0].dtype),
           (long long)d->size[0], (long long)d->size[1], (long long)d->size[2],
           (long long)d->size[3], output, (long long)point[0], (long long)point[1],
           (long long)point[2], (long long)point[3], actual.real, (long long)actual.whole, expected,
           (long long)e->whole);
}

/* Compares the outputs of a launch with the double reference, and checks the bytes around them. */
FIXTURE_INLINE void check_results(const fixture *f, const compute_kernel_descriptor *d,
                                  block *const *blocks, allowed_error allowed) {
  const void *inputs[COMPUTE_MAX_OPERANDS];
  launch_check c = {f, d, blocks, allowed};
  for (uint32_t i = 0; i < d->input_count; i++) inputs[i] = block_data(blocks[i]);
  for (uint32_t k = 0; k < d->output_count; k++) block_check_guards(blocks[d->input_count + k]);
  assert_true(kernel_reference_visit(d, inputs, check_result_element, &c));
}

/* Runs a kernel and checks its results. */
FIXTURE_INLINE void run_and_check(fixture *f, const cpu_kind *kind,
                                  const compute_kernel_descriptor *d, block *const *blocks,
                                  allowed_error allowed) {
  const compute_status status = run_kernel(f, kind, d, blocks);
  if (status) fail_msg("status %d: %s", (int)status, f->message);
  check_results(f, d, blocks, allowed);
}

/* Passes input 0 where input 1, a result of relu, is above 0. */
FIXTURE_INLINE compute_program fixture_relu_gradient(void) {
  static const compute_instruction instructions[] = {
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32, .immediate.i64 = 0},
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32, .immediate.i64 = 1},
      {.code = COMPUTE_I_CONSTANT, .type = COMPUTE_F32},
      {.code = COMPUTE_I_LE, .type = COMPUTE_BOOL, .a = 1, .b = 2},
      {.code = COMPUTE_I_SELECT, .type = COMPUTE_F32, .a = 3, .b = 2, .c = 0},
  };
  static const uint16_t result = 4;
  return (compute_program){5, 1, instructions, &result};
}

#endif
