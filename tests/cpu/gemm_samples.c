/* SPDX-License-Identifier: MIT */
/* Samples of GEMM on the CPU: operands, descriptors, comparison with the double reference, and the
 * kinds of device for the samples. */
#include "gemm_samples.h"

#include "amx_emulated.h"
#include "core/platform/aligned.h"

extern const cpu_gemm_type cpu_gemm_f32_high; /* gemm_high.c */
static const cpu_gemm_table high_table = {.f32 = &cpu_gemm_f32_high};

static block make_matrix(const sample *s, compute_dtype dtype, int64_t rows, int64_t columns,
                         layout how, uint32_t repeat) {
  int64_t size[COMPUTE_MAX_RANK], stride[COMPUTE_MAX_RANK];
  const int32_t r = s->batch_rank;
  const int64_t pad = how == PADDED || how == TRANSPOSED_PADDED ? 3 : 0;
  const bool transposed = how == TRANSPOSED || how == TRANSPOSED_PADDED;
  size[r] = rows;
  size[r + 1] = columns;
  stride[r] = transposed ? 1 : how == GAPS ? 2 * columns + 1 : columns + pad;
  stride[r + 1] = transposed ? rows + pad : how == GAPS ? 2 : 1;
  int64_t step =
      (transposed ? columns * stride[r + 1] : rows * stride[r]) + (how == PADDED ? 5 : 0);
  for (int32_t d = r - 1; d >= 0; d--) {
    size[d] = s->batch[d];
    stride[d] = repeat >> d & 1 ? 0 : step;
    if (stride[d]) step *= s->batch[d] > 0 ? s->batch[d] : 1;
  }
  return block_create(dtype, r + 2, size, stride);
}

/* A vector along rows or columns, shared by all batch entries. */
static block make_vector(const sample *s, compute_dtype dtype, bool along_columns) {
  int64_t size[COMPUTE_MAX_RANK], stride[COMPUTE_MAX_RANK] = {0};
  for (int32_t d = 0; d < s->batch_rank; d++) size[d] = s->batch[d];
  size[s->batch_rank] = s->m;
  size[s->batch_rank + 1] = s->n;
  stride[s->batch_rank + (along_columns ? 1 : 0)] = 1;
  return block_create(dtype, s->batch_rank + 2, size, stride);
}

static void fill_extremes(block *b) {
  memset(block_data(b), b->dtype == COMPUTE_I8 ? 0x80 : 0xff, (size_t)b->elements);
}

static void fill(block *b, test_random *random) {
  if (b->dtype == COMPUTE_I64)
    block_fill(b, -0x1p52, 0x1p52, random);
  else if (b->dtype == COMPUTE_I32)
    block_fill(b, -0x1p31, 0x1p31, random);
  else if (b->dtype == COMPUTE_U8)
    block_fill(b, 0, 256, random);
  else if (b->dtype == COMPUTE_I8)
    block_fill(b, -128, 128, random);
  else if (b->dtype == COMPUTE_U16)
    block_fill(b, 0, 65536, random);
  else
    block_fill(b, -1, 1, random);
}

operands make_operands(const sample *s, test_random *random) {
  operands o = {.a = make_matrix(s, s->a, s->m, s->k, s->layout_a, s->repeat_a),
                .b = make_matrix(s, s->b, s->k, s->n, s->layout_b, s->repeat_b),
                .c = make_matrix(s, s->output, s->m, s->n, s->layout_c, 0)};
  fill(&o.a, random);
  fill(&o.b, random);
  if (s->extreme) fill_extremes(&o.a), fill_extremes(&o.b);
  if (s->small && s->extreme)
    memset(block_data(&o.b), test_random_integer(random, 0, 1) ? 64 : -64, (size_t)o.b.elements);
  else if (s->small)
    block_fill(&o.b, -64, 65, random);
  if (s->epilogue == BYTES || s->epilogue == BYTES_TERMS) {
    const bool along = test_random_integer(random, 0, 1);
    o.has_extra = true;
    o.extra = make_vector(s, s->accumulate, along);
    block_fill(&o.extra, -BYTES_OFFSET, BYTES_OFFSET, random);
    o.has_other = s->epilogue == BYTES_TERMS;
    if (o.has_other) {
      const bool other_along = test_random_integer(random, 0, 3) ? !along : along;
      o.other = make_vector(s, s->accumulate, other_along);
      block_fill(&o.other, -BYTES_OFFSET, BYTES_OFFSET, random);
    }
  } else if (s->epilogue == BIAS_GELU || s->epilogue == BIAS_COLUMN || s->epilogue == TWO_OUTPUTS) {
    o.has_extra = true;
    o.extra = make_vector(s, s->accumulate, s->epilogue != BIAS_COLUMN);
    fill(&o.extra, random);
  } else if (s->epilogue == RESIDUAL) {
    o.has_extra = true;
    fill(&o.c, random);
    block_remember(&o.c);
    o.extra = make_matrix(s, s->output, s->m, s->n, s->layout_c, 0);
    memcpy(block_data(&o.extra), block_data(&o.c),
           (size_t)o.c.elements * cpu_dtype_size(s->output));
  }
  if (s->epilogue == TWO_OUTPUTS) {
    o.has_second = true;
    o.second = make_matrix(s, s->accumulate, s->m, s->n, TRANSPOSED, 0);
  }
  return o;
}

void release_operands(operands *o) {
  block_release(&o->a);
  block_release(&o->b);
  block_release(&o->c);
  if (o->has_extra) block_release(&o->extra);
  if (o->has_other) block_release(&o->other);
  if (o->has_second) block_release(&o->second);
}

static uint16_t add_terms(program_builder *p, uint16_t sum, uint16_t extra) {
  const compute_dtype type = COMPUTE_I32;
  const uint16_t other = program_load(p, type, 2);
  const uint16_t shifted = program_apply(p, COMPUTE_I_SUB, type, extra,
                                         program_constant_integer(p, type, TERM_SHIFT), 0);
  const uint16_t term = program_apply(p, COMPUTE_I_MUL, type,
                                      program_constant_integer(p, type, TERM_FACTOR), shifted, 0);
  const uint16_t less = program_apply(p, COMPUTE_I_SUB, type, sum, term, 0);
  return program_apply(p, COMPUTE_I_ADD, type,
                       program_apply(p, COMPUTE_I_MUL, type, other,
                                     program_constant_integer(p, type, OTHER_FACTOR), 0),
                       less, 0);
}

static void build_epilogue(const sample *s, program_builder *p) {
  const compute_dtype type = s->accumulate;
  memset(p, 0, sizeof *p);
  if (s->epilogue == PLAIN) return;
  const uint16_t sum = program_load(p, type, 0);
  if (s->epilogue == PLACES) {
    uint16_t place = program_instruction(
        p, (compute_instruction){.code = COMPUTE_I_POSITION, .type = COMPUTE_I64});
    for (int32_t d = 0; d < s->batch_rank + 2; d++) {
      const uint16_t coordinate = program_instruction(
          p, (compute_instruction){
                 .code = COMPUTE_I_COORDINATE, .type = COMPUTE_I64, .immediate.i64 = d});
      const uint16_t weight = program_constant_integer(p, COMPUTE_I64, 1 << (2 + 3 * d));
      place = program_apply(p, COMPUTE_I_ADD, COMPUTE_I64, place,
                            program_apply(p, COMPUTE_I_MUL, COMPUTE_I64, coordinate, weight, 0), 0);
    }
    program_store(p, program_apply(p, COMPUTE_I_ADD, type, sum,
                                   program_apply(p, COMPUTE_I_CAST, type, place, 0, 0), 0));
    return;
  }
  if (s->epilogue == SCALED) {
    program_store(p, program_apply(p, COMPUTE_I_MUL, type, sum, program_constant(p, type, -3), 0));
    return;
  }
  const uint16_t extra = program_load(p, type, 1);
  const uint16_t added = s->epilogue == BYTES_TERMS
                             ? add_terms(p, sum, extra)
                             : program_apply(p, COMPUTE_I_ADD, type, sum, extra, 0);
  if (s->epilogue == BYTES || s->epilogue == BYTES_TERMS) {
    const uint16_t number = program_apply(p, COMPUTE_I_CAST, COMPUTE_F32, added, 0, 0);
    const uint16_t quotient = program_apply(p, COMPUTE_I_DIV, COMPUTE_F32, number,
                                            program_constant(p, COMPUTE_F32, BYTES_DIVISOR), 0);
    program_store(p, program_apply(p, COMPUTE_I_ADD, COMPUTE_F32,
                                   program_apply(p, COMPUTE_I_ROUND, COMPUTE_F32, quotient, 0, 0),
                                   program_constant(p, COMPUTE_F32, BYTES_ZERO), 0));
    return;
  }
  program_store(p, s->epilogue == BIAS_GELU ? program_apply(p, COMPUTE_I_GELU, type, added, 0, 0)
                                            : added);
  if (s->epilogue == TWO_OUTPUTS)
    program_store(p, program_apply(p, COMPUTE_I_RELU, type, sum, 0, 0));
}

/* A descriptor with its arrays. */

void describe(const sample *s, operands *o, description *d) {
  const int32_t rank = s->batch_rank + 2;
  uint32_t blocks = 0;
  build_epilogue(s, &d->program);
  d->descriptor = (compute_kernel_descriptor){.struct_size = sizeof d->descriptor,
                                              .kind = COMPUTE_KERNEL_GEMM,
                                              .rank = rank,
                                              .input_count = 2u + o->has_extra + o->has_other,
                                              .output_count = o->has_second ? 2 : 1,
                                              .inputs = d->inputs,
                                              .outputs = d->outputs,
                                              .epilogue = program_finish(&d->program),
                                              .accumulate = s->accumulate,
                                              .attributes = &d->attributes,
                                              .attribute_bytes = sizeof d->attributes};
  d->attributes = (compute_gemm_attributes){
      .k = s->k, .precision = s->small ? COMPUTE_PRECISION_SATURATE : COMPUTE_PRECISION_STRICT};
  for (int32_t i = 0; i < s->batch_rank; i++) d->descriptor.size[i] = s->batch[i];
  d->descriptor.size[rank - 2] = s->m;
  d->descriptor.size[rank - 1] = s->n;
  d->blocks[blocks++] = &o->a;
  d->blocks[blocks++] = &o->b;
  d->inputs[0] = operand_of(&o->a, rank);
  d->inputs[1] = operand_of(&o->b, rank);
  if (o->has_extra) {
    d->inputs[2] = operand_of(s->epilogue == RESIDUAL ? &o->c : &o->extra, rank);
    d->blocks[blocks++] = s->epilogue == RESIDUAL ? &o->c : &o->extra;
  }
  if (o->has_other) {
    d->inputs[3] = operand_of(&o->other, rank);
    d->blocks[blocks++] = &o->other;
  }
  d->outputs[0] = operand_of(&o->c, rank);
  d->blocks[blocks++] = &o->c;
  if (o->has_second) {
    d->outputs[1] = operand_of(&o->second, rank);
    d->blocks[blocks++] = &o->second;
  }
}

/* ---- Checking ------------------------------------------------------------------------------ */

void check_product(const fixture *f, const sample *s, const operands *o, const description *d) {
  const allowed_error allowed = {
      .relative = 4, .absolute = s->epilogue == PLAIN ? 0 : 4, .terms = 4.8, .by_count = true};
  block *blocks[COMPUTE_MAX_OPERANDS];
  memcpy(blocks, d->blocks, sizeof d->blocks);
  if (blocks[2] == &o->c && s->epilogue == RESIDUAL) blocks[2] = (block *)&o->extra;
  check_results(f, &d->descriptor, blocks, allowed);
}

/* Runs with packed B if the kernel supports it; otherwise returns false. */
static bool run_packed(fixture *f, description *d) {
  d->descriptor.constant_inputs = 2;
  cpu_kernel *kernel;
  assert_int_equal(cpu_kind_prepare(&cpu_gemm_kind, f->device, &d->descriptor, &kernel),
                   COMPUTE_OK);
  uint64_t form;
  const uint64_t bytes = cpu_gemm_kind.packed_bytes(kernel, 1, &form);
  if (bytes > 0) {
    void *packed = aligned_take(64, (size_t)(bytes + 63) / 64 * 64);
    void *pointers[COMPUTE_MAX_OPERANDS];
    assert_non_null(packed);
    for (uint32_t i = 0; i < d->descriptor.input_count + d->descriptor.output_count; i++)
      pointers[i] = block_data(d->blocks[i]);
    assert_int_equal(cpu_gemm_kind.pack(kernel, 1, pointers[1], packed), COMPUTE_OK);
    pointers[1] = packed;
    assert_int_equal(kernel->run(kernel, pointers), COMPUTE_OK);
    aligned_give(packed);
  }
  cpu_kernel_destroy(kernel);
  return bytes > 0;
}

void check_sample(fixture *f, const sample *s, test_random *random) {
  operands o = make_operands(s, random);
  description d;
  describe(s, &o, &d);
  assert_int_equal(run_kernel(f, &cpu_gemm_kind, &d.descriptor, d.blocks), COMPUTE_OK);
  check_product(f, s, &o, &d);
  if (s->constant_b && s->epilogue == RESIDUAL)
    memcpy(block_data(&o.c), block_data(&o.extra),
           (size_t)o.c.elements * cpu_dtype_size(s->output));
  if (s->constant_b && run_packed(f, &d)) check_product(f, s, &o, &d);
  release_operands(&o);
}

/* ---- Devices ------------------------------------------------------------------------------- */

/* The value of COMPUTE_BLAS in the running test. */
static const char *blas_choice;

static const char *variable(void *host, const char *name) {
  if (strcmp(name, "COMPUTE_BLAS") == 0) return blas_choice;
  return fixture_variable(host, name);
}

bool open_device(fixture *f, int32_t threads, const char *isa, const char *blas) {
  if (!fixture_open(f, threads, isa)) return false;
  blas_choice = blas;
  f->services.variable = variable;
  return true;
}

/* The kinds of device for every sample. */
const device_kind device_kinds[] = {{.isa = "scalar", .blas = "none"},
                                    {.isa = "avx2"},
                                    {.isa = "avx512"},
                                    {.isa = "dotprod"},
                                    {.isa = "i8mm"},
                                    {.isa = "bf16"},
                                    {.isa = "rvv"},
#ifdef CPU_HAS_AVX2
                                    {.isa = "avx2", .bytes = &cpu_gemm_pairs_avx2},
#endif
#ifdef CPU_HAS_AVX512
                                    {.isa = "avx512", .bytes = &cpu_gemm_pairs_avx512},
#endif
                                    {.isa = "scalar", .bytes = &cpu_gemm_amx_bytes_emulated},
#ifdef CPU_AMX
                                    {.isa = "avx512", .bf16 = &cpu_gemm_amx_bf16_emulated},
#endif
                                    {.isa = "scalar", .high = true},
                                    {.isa = "scalar", .blas = "libopenblas.so.0"}};
const size_t device_kind_count = sizeof device_kinds / sizeof device_kinds[0];

static bool is_byte(compute_dtype dtype) {
  return dtype == COMPUTE_I8 || dtype == COMPUTE_U8;
}

/* Returns true if the kind of device tests more of this sample than the other kinds do. */
static bool is_worth(size_t kind, const sample *s) {
  const bool words = (is_byte(s->a) && is_byte(s->b)) || s->a == COMPUTE_BF16;
  if (device_kinds[kind].bytes && !words) return false;
  if (device_kinds[kind].bf16 && s->a != COMPUTE_BF16) return false;
  return !device_kinds[kind].high || s->accumulate == COMPUTE_F32;
}

/* Runs `count` samples of a kind on every kind of device. */
void check_samples(sample_maker make, int count, int32_t threads) {
  for (size_t i = 0; i < device_kind_count; i++) {
    fixture f;
    if (!open_device(&f, threads, device_kinds[i].isa, device_kinds[i].blas)) continue;
    const cpu_isa *isa = f.device->isa;
    const bool replaces = device_kinds[i].bytes || (device_kinds[i].bf16 && isa->gemm->bf16);
    cpu_isa high = *isa;
    high.name = "high";
    high.gemm = &high_table;
    cpu_gemm_table table = *isa->gemm;
    cpu_isa other = *isa;
    if (device_kinds[i].bytes) table.bytes = device_kinds[i].bytes;
    table.bf16 = device_kinds[i].bf16;
    other.gemm = &table;
    if (device_kinds[i].high) f.device->isa = &high;
    if (replaces) f.device->isa = &other;
    test_random random = {.state = 17};
    const int taken = (count + (int)test_samples() - 1) / (int)test_samples();
    for (int j = 0; j < taken; j++) {
      sample s = {
          .a = COMPUTE_F32, .b = COMPUTE_F32, .accumulate = COMPUTE_F32, .output = COMPUTE_F32};
      if (make(&s, &random) && is_worth(i, &s)) check_sample(&f, &s, &random);
    }
    f.device->isa = isa;
    fixture_close(&f);
  }
}
