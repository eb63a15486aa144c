/* SPDX-License-Identifier: MIT */
/* Runs samples of CONV (support/samples/sample_convolutions.h) on the CPU. It compares every output
 * element, and all bytes around them, with the plain double-precision convolution. */
#ifndef CPU_CONV_FIXTURE_H
#define CPU_CONV_FIXTURE_H

#include "core/kernel/kernel.h"
#include "amx_emulated.h"
#include "kernel_fixture.h"
#include "support/samples/sample_convolutions.h"

/* ---- Operands ------------------------------------------------------------------------------ */

enum { OPERANDS = COMPUTE_MAX_OPERANDS };

typedef struct memory {
  unsigned char *data[OPERANDS], *before[OPERANDS]; /* with guards; initial contents */
  int64_t elements[OPERANDS], first[OPERANDS];
  size_t bytes[OPERANDS];
  void *pointers[OPERANDS];
  uint32_t count;
} memory;

FIXTURE_INLINE void fill(unsigned char *data, compute_dtype dtype, int64_t count,
                         const sample_kernel *s, test_random *random) {
  for (int64_t i = 0; i < count; i++) {
    unsigned char *at = data + (size_t)i * cpu_dtype_size(dtype);
    if (dtype == COMPUTE_I64)
      dtype_store_integer(dtype, at, (int64_t)test_random_bits(random));
    else if (dtype == COMPUTE_I32)
      dtype_store_integer(dtype, at, (int32_t)test_random_bits(random));
    else if (dtype == COMPUTE_U8)
      dtype_store_integer(dtype, at, (uint8_t)test_random_bits(random));
    else if (dtype == COMPUTE_I8)
      dtype_store_integer(dtype, at, (int8_t)test_random_bits(random));
    else if (dtype == COMPUTE_U16)
      dtype_store_integer(dtype, at, (uint16_t)test_random_bits(random));
    else
      dtype_store(dtype, at, test_random_uniform(random, s->low, s->high));
  }
}

FIXTURE_INLINE memory create_memory(const sample_kernel *s, test_random *random) {
  const compute_kernel_descriptor *d = &s->descriptor;
  memory m = {.count = d->input_count + d->output_count};
  for (uint32_t i = 0; i < m.count; i++) {
    const compute_dtype dtype = sample_kernel_operand(s, i)->dtype;
    int64_t low = 0, high = 0;
    if (!sample_kernel_extent(s, i, &low, &high)) low = high = 0;
    m.elements[i] = high - low + 1 + 2 * FIXTURE_GUARD;
    m.first[i] = FIXTURE_GUARD - low;
    m.bytes[i] = (size_t)m.elements[i] * cpu_dtype_size(dtype);
    m.data[i] = malloc(m.bytes[i]);
    m.before[i] = malloc(m.bytes[i]);
    assert_non_null(m.data[i]);
    assert_non_null(m.before[i]);
    if (i < d->input_count)
      fill(m.data[i], dtype, m.elements[i], s, random);
    else
      for (size_t b = 0; b < m.bytes[i]; b++) m.data[i][b] = (unsigned char)(0xa5 + 7 * b);
    memcpy(m.before[i], m.data[i], m.bytes[i]);
    m.pointers[i] = m.data[i] + (size_t)m.first[i] * cpu_dtype_size(dtype);
  }
  return m;
}

FIXTURE_INLINE void release_memory(memory *m) {
  for (uint32_t i = 0; i < m->count; i++) {
    free(m->data[i]);
    free(m->before[i]);
  }
}

/* ---- Checking ------------------------------------------------------------------------------ */

/* Winograd's sums involve a whole patch. So their rounding error depends on the largest possible
 * terms, not on the terms of one element: 9 per channel, each at most `high`². */
FIXTURE_INLINE double winograd_bound(const sample_kernel *s) {
  const compute_conv_attributes *c = compute_conv_of(&s->descriptor);
  const bool forward = c->direction == COMPUTE_CONVOLUTION_FORWARD;
  const int64_t channels = (forward ? c->data_channels : c->result_channels) / c->groups;
  const double high = fmax(fabs(s->low), fabs(s->high));
  return compute_conv_of(&s->descriptor)->precision & COMPUTE_PRECISION_WINOGRAD
             ? 48 * sqrt(9 * (double)channels) * high * high * 0x1p-24
             : 0;
}

/* The allowed rounding error: as for matrix products, plus the rounding of the stored result. */
FIXTURE_INLINE double bound_of(const sample_kernel *s, compute_dtype output,
                               const reference_value *e) {
  const double epsilon = rounding_of(s->descriptor.accumulate);
  const double count = e->count > 1 ? (double)e->count : 1;
  return winograd_bound(s) + 4.8 * sqrt(count) * epsilon * e->terms +
         4 * (fabs(e->real) + 1) * epsilon +
         (output == s->descriptor.accumulate ? 0 : fabs(e->real) * rounding_of(output)) +
         (output == COMPUTE_F16 ? 0x1p-24 : 0);
}

FIXTURE_INLINE bool is_right(const sample_kernel *s, compute_dtype dtype,
                             const unsigned char *actual, compute_dtype type,
                             const reference_value *e) {
  if (dtype_is_float(dtype) && dtype_is_float(s->descriptor.accumulate))
    return fabs(dtype_load(dtype, actual) - e->real) <= bound_of(s, dtype, e);
  const reference_value stored = reference_cast(type, *e, dtype);
  const reference_value loaded = reference_load(dtype, actual);
  return loaded.whole == stored.whole && loaded.real == stored.real;
}

/* The outputs of one run and the bytes of them that belong to it. */
typedef struct outputs {
  const sample_kernel *s;
  const memory *m;
  const cpu_isa *isa;
  unsigned char *own[OPERANDS];
} outputs;

FIXTURE_INLINE void check_element(void *user, uint32_t output, const int64_t *point,
                                  compute_dtype type, const reference_value *e) {
  const outputs *all = user;
  const sample_kernel *s = all->s;
  const compute_operand *o = &s->outputs[output];
  const uint32_t operand = s->descriptor.input_count + output;
  int64_t at = all->m->first[operand];
  for (int i = 0; i < 4; i++) at += point[i] * o->stride[i];
  const unsigned char *actual = all->m->data[operand] + (size_t)at * cpu_dtype_size(o->dtype);
  all->own[output][at] = 1;
  if (!is_right(s, o->dtype, actual, type, e))
    fail_msg("%s on %s, output %u at %lld,%lld,%lld,%lld: %.9g instead of %.9g (%lld)", s->name,
             all->isa->name, output, (long long)point[0], (long long)point[1], (long long)point[2],
             (long long)point[3], dtype_load(o->dtype, actual), e->real, (long long)e->whole);
}

/* Checks all elements of all outputs, and the bytes around them. */
FIXTURE_INLINE void check_outputs(const sample_kernel *s, const memory *m, const cpu_isa *isa) {
  const compute_kernel_descriptor *d = &s->descriptor;
  outputs all = {.s = s, .m = m, .isa = isa};
  for (uint32_t k = 0; k < d->output_count; k++) {
    all.own[k] = calloc((size_t)m->elements[d->input_count + k], 1);
    assert_non_null(all.own[k]);
  }
  assert_true(kernel_reference_visit(d, (const void *const *)m->pointers, check_element, &all));
  for (uint32_t k = 0; k < d->output_count; k++) {
    const uint32_t operand = d->input_count + k;
    const size_t bytes = cpu_dtype_size(s->outputs[k].dtype);
    for (int64_t i = 0; i < m->elements[operand]; i++)
      if (!all.own[k][i] && memcmp(m->data[operand] + (size_t)i * bytes,
                                   m->before[operand] + (size_t)i * bytes, bytes) != 0)
        fail_msg("%s on %s: element %lld beside output %u was written", s->name, isa->name,
                 (long long)(i - m->first[operand]), k);
    free(all.own[k]);
  }
}

FIXTURE_INLINE compute_status run_sample(fixture *f, const sample_kernel *s,
                                         void *const *pointers) {
  cpu_kernel *kernel = NULL;
  compute_status status = cpu_kind_prepare(&cpu_conv_kind, f->device, &s->descriptor, &kernel);
  if (status) return status;
  assert_non_null(kernel);
  assert_true(strlen(kernel->description) > 0);
  status = kernel->run(kernel, pointers);
  cpu_kernel_destroy(kernel);
  return status;
}

typedef struct checker {
  fixture *f;
  test_random random;
  int64_t count;
} checker;

FIXTURE_INLINE void check_sample(const sample_kernel *s, void *user) {
  checker *c = user;
  const compute_kernel_descriptor *d = &s->descriptor;
  char reason[200];
  if (s->large) return;
  if (!descriptor_check(d, reason, sizeof reason)) fail_msg("%s: %s", s->name, reason);
  memory m = create_memory(s, &c->random);
  const compute_status status = run_sample(c->f, s, m.pointers);
  if (status) fail_msg("%s: status %d, %s", s->name, (int)status, c->f->message);
  for (uint32_t i = 0; i < d->input_count; i++)
    assert_memory_equal(m.data[i], m.before[i], m.bytes[i]);
  check_outputs(s, &m, c->f->device->isa);
  release_memory(&m);
  c->count++;
}

/* ---- Devices ------------------------------------------------------------------------------- */

typedef void (*test_body)(fixture *f, uint64_t seed);

/* Runs a body on every kind of device; a small cache causes many small blocks. */
FIXTURE_INLINE void on_every_device(test_body body, int32_t threads, uint64_t cache_bytes) {
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, threads, *isa)) continue;
    if (cache_bytes) f.device->l2_bytes = cache_bytes;
    body(&f, 17);
    fixture_close(&f);
  }
}

/* Runs a body on a device with AMX's products of bytes, and AMX's products of bf16 if the machine
 * has instructions for bf16. */
FIXTURE_INLINE void on_emulated_amx(test_body body, int32_t threads, uint64_t cache_bytes) {
  fixture f;
  if (!fixture_open(&f, threads, "avx512")) assert_true(fixture_open(&f, threads, "scalar"));
  const cpu_isa *isa = f.device->isa;
  cpu_isa emulated = *isa;
  cpu_gemm_table table = *isa->gemm;
  table.bytes = &cpu_gemm_amx_bytes_emulated;
#ifdef CPU_AMX
  if (table.bf16) table.bf16 = &cpu_gemm_amx_bf16_emulated;
#endif
  emulated.gemm = &table;
  f.device->isa = &emulated;
  if (cache_bytes) f.device->l2_bytes = cache_bytes;
  body(&f, 17);
  f.device->isa = isa;
  fixture_close(&f);
}

#endif
