/* SPDX-License-Identifier: MIT */
/* GEMM on the CPU against a plain double-precision product: shapes, layouts, types, epilogues,
 * instruction sets, both implementations, numbers of threads.
 *
 * The high register tiles of AVX-512, whose A is packed in slivers, are also tested where there is
 * no AVX-512: the same source is compiled here with their number of rows. */
#define CPU_ISA         high
#define CPU_VARIANT     f32
#define CPU_VARIANT_F32 1
#define GEMM_ROWS       14
#include "gemm/isa/gemm_tile.c"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel_fixture.h"

#include "gemm/gemm.h"

static const cpu_gemm_table high_table = {.f32 = &cpu_gemm_f32_high};

typedef enum epilogue {
  PLAIN,       /* stores the sums, converted */
  BIAS_GELU,   /* gelu(sum + row vector) */
  BIAS_COLUMN, /* sum + column vector */
  RESIDUAL,    /* sum + matrix, stored over that matrix */
  TWO_OUTPUTS, /* sum + row vector, and relu(sum) with columns side by side */
  PLACES,      /* sum + what position and coordinates say */
  EPILOGUE_COUNT,
  BYTES /* round((sum + column vector) / 512) + 100 as bytes, of sums of bytes */
} epilogue;

enum { BYTES_DIVISOR = 512, BYTES_ZERO = 100, BYTES_OFFSET = 30000 };

typedef enum layout { DENSE, TRANSPOSED, PADDED, TRANSPOSED_PADDED, GAPS, LAYOUT_COUNT } layout;

typedef struct sample {
  compute_dtype a, b, accumulate, output;
  int32_t batch_rank;
  int64_t batch[3], m, n, k;
  layout layout_a, layout_b, layout_c;
  uint32_t repeat_a, repeat_b; /* bit d: batch dimension d repeats */
  epilogue epilogue;
  bool constant_b; /* packed before the run, too */
  bool extreme;    /* bytes of the largest size */
} sample;

/* The operands of one sample: blocks over (batch…, rows, columns). */
typedef struct operands {
  block a, b, extra, c, second;
  bool has_extra, has_second;
} operands;

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

/* A vector along rows or columns, the same for all batch entries. */
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

static operands make_operands(const sample *s, test_random *random) {
  operands o = {.a = make_matrix(s, s->a, s->m, s->k, s->layout_a, s->repeat_a),
                .b = make_matrix(s, s->b, s->k, s->n, s->layout_b, s->repeat_b),
                .c = make_matrix(s, s->output, s->m, s->n, s->layout_c, 0)};
  fill(&o.a, random);
  fill(&o.b, random);
  if (s->extreme) fill_extremes(&o.a), fill_extremes(&o.b);
  if (s->epilogue == BYTES) {
    o.has_extra = true;
    o.extra = make_vector(s, s->accumulate, test_random_integer(random, 0, 1));
    block_fill(&o.extra, -BYTES_OFFSET, BYTES_OFFSET, random);
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

static void release_operands(operands *o) {
  block_release(&o->a);
  block_release(&o->b);
  block_release(&o->c);
  if (o->has_extra) block_release(&o->extra);
  if (o->has_second) block_release(&o->second);
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
  const uint16_t extra = program_load(p, type, 1);
  const uint16_t added = program_apply(p, COMPUTE_I_ADD, type, sum, extra, 0);
  if (s->epilogue == BYTES) {
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

/* A descriptor with the arrays that it points to. */
typedef struct description {
  compute_operand inputs[3], outputs[2];
  program_builder program;
  compute_kernel_descriptor descriptor;
  compute_gemm_attributes attributes;
  block *blocks[5];
} description;

static void describe(const sample *s, operands *o, description *d) {
  const int32_t rank = s->batch_rank + 2;
  uint32_t blocks = 0;
  build_epilogue(s, &d->program);
  d->descriptor = (compute_kernel_descriptor){.struct_size = sizeof d->descriptor,
                                              .kind = COMPUTE_KERNEL_GEMM,
                                              .rank = rank,
                                              .input_count = o->has_extra ? 3 : 2,
                                              .output_count = o->has_second ? 2 : 1,
                                              .inputs = d->inputs,
                                              .outputs = d->outputs,
                                              .epilogue = program_finish(&d->program),
                                              .accumulate = s->accumulate,
                                              .attributes = &d->attributes,
                                              .attribute_bytes = sizeof d->attributes};
  d->attributes = (compute_gemm_attributes){.k = s->k};
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
  d->outputs[0] = operand_of(&o->c, rank);
  d->blocks[blocks++] = &o->c;
  if (o->has_second) {
    d->outputs[1] = operand_of(&o->second, rank);
    d->blocks[blocks++] = &o->second;
  }
}

/* ---- The reference ------------------------------------------------------------------------- */

/* The sum of products of one element of C, and that of their sizes. */
static double reference_sum(const sample *s, const operands *o, const int64_t *point,
                            double *size) {
  const int32_t r = s->batch_rank;
  int64_t left[COMPUTE_MAX_RANK], right[COMPUTE_MAX_RANK];
  memcpy(left, point, sizeof left);
  memcpy(right, point, sizeof right);
  double sum = 0;
  *size = 0;
  for (int64_t p = 0; p < s->k; p++) {
    left[r + 1] = right[r] = p;
    const double product =
        block_get(&o->a, block_at(&o->a, left)) * block_get(&o->b, block_at(&o->b, right));
    sum += product;
    *size += fabs(product);
  }
  return sum;
}

static double epsilon_of(compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_F64: return 0x1p-53;
  case COMPUTE_F32: return 0x1p-24;
  case COMPUTE_F16: return 0x1p-11;
  case COMPUTE_BF16: return 0x1p-8;
  default: return 0;
  }
}

static double apply_epilogue(const sample *s, const operands *o, const int64_t *point, double sum) {
  const double extra = o->has_extra ? block_get(&o->extra, block_at(&o->extra, point)) : 0;
  switch (s->epilogue) {
  case BIAS_GELU: return 0.5 * (sum + extra) * (1 + erf((sum + extra) * sqrt(0.5)));
  case PLACES: {
    int64_t position = 0, place = 0;
    for (int32_t d = 0; d < s->batch_rank + 2; d++) {
      position = position * o->c.size[d] + point[d];
      place += point[d] << (2 + 3 * d);
    }
    return sum + (double)(position + place);
  }
  default: return sum + extra;
  }
}

static void check_element(const sample *s, const char *what, double actual, double expected,
                          double bound, const int64_t *point) {
  if (fabs(actual - expected) <= bound) return;
  const int32_t r = s->batch_rank;
  fail_msg("%s of %lldx%lldx%lld, dtypes %d %d %d %d, layouts %d %d %d, epilogue %d, batch rank "
           "%d, at %lld,%lld: %.9g instead of %.9g, off by %.3g of %.3g",
           what, (long long)s->m, (long long)s->n, (long long)s->k, (int)s->a, (int)s->b,
           (int)s->accumulate, (int)s->output, (int)s->layout_a, (int)s->layout_b, (int)s->layout_c,
           (int)s->epilogue, (int)r, (long long)point[r], (long long)point[r + 1], actual, expected,
           fabs(actual - expected), bound);
}

static void check_floats(const sample *s, operands *o) {
  const double k = s->k > 1 ? (double)s->k : 1, epsilon = epsilon_of(s->accumulate);
  int64_t point[COMPUTE_MAX_RANK] = {0};
  do {
    double size;
    const double sum = reference_sum(s, o, point, &size);
    const double expected = apply_epilogue(s, o, point, sum);
    const double bound = 4 * sqrt(k) * epsilon * size;
    const double stored =
        4 * (fabs(expected) + (s->epilogue == PLAIN ? 0 : 1)) * epsilon +
        (s->output == s->accumulate ? 0 : fabs(expected) * epsilon_of(s->output)) +
        (s->output == COMPUTE_F16 ? 0x1p-24 : 0);
    const double actual = block_get(&o->c, block_at(&o->c, point));
    check_element(s, "the product", actual, expected, 1.2 * bound + stored, point);
    if (o->has_second) {
      const double second = block_get(&o->second, block_at(&o->second, point));
      check_element(s, "the second output", second, sum > 0 ? sum : 0, bound, point);
    }
  } while (next_point(s->batch_rank + 2, o->c.size, point));
}

static uint64_t integer_at(const block *b, int64_t at) {
  const unsigned char *address = block_data(b) + at * (int64_t)cpu_dtype_size(b->dtype);
  if (b->dtype == COMPUTE_I64) return (uint64_t) * (const int64_t *)(const void *)address;
  if (b->dtype == COMPUTE_I32) return (uint64_t)(int64_t) * (const int32_t *)(const void *)address;
  if (b->dtype == COMPUTE_U16) return *(const uint16_t *)(const void *)address;
  if (b->dtype == COMPUTE_I8) return (uint64_t)(int64_t) * (const int8_t *)(const void *)address;
  return *address;
}

/* The sums are exact in f32 where they do not saturate. */
static uint64_t byte_of(const sample *s, int32_t sum) {
  const double low = s->output == COMPUTE_I8 ? -128 : 0;
  const double value = rint((double)sum / BYTES_DIVISOR) + BYTES_ZERO;
  return (uint64_t)(int64_t)fmin(fmax(value, low), low + 255);
}

static void check_integers(const sample *s, operands *o) {
  int64_t point[COMPUTE_MAX_RANK] = {0};
  const int32_t r = s->batch_rank;
  const uint32_t unused = 64 - 8 * cpu_dtype_size(s->output);
  do {
    int64_t left[COMPUTE_MAX_RANK], right[COMPUTE_MAX_RANK];
    memcpy(left, point, sizeof left);
    memcpy(right, point, sizeof right);
    uint64_t sum = 0;
    for (int64_t p = 0; p < s->k; p++) {
      left[r + 1] = right[r] = p;
      sum += integer_at(&o->a, block_at(&o->a, left)) * integer_at(&o->b, block_at(&o->b, right));
    }
    if (o->has_extra) sum += integer_at(&o->extra, block_at(&o->extra, point));
    if (s->epilogue == BYTES) sum = byte_of(s, (int32_t)sum);
    const uint64_t actual = integer_at(&o->c, block_at(&o->c, point));
    if (actual << unused != sum << unused)
      check_element(s, "the integer product", (double)actual, (double)sum, 0, point);
  } while (next_point(r + 2, o->c.size, point));
}

static void check_result(const sample *s, operands *o) {
  if (count_points(s->batch_rank + 2, o->c.size) == 0) return;
  if (epsilon_of(s->accumulate) > 0)
    check_floats(s, o);
  else
    check_integers(s, o);
}

/* Runs with B packed, where the kernel wants that; false if not. */
static bool run_packed(fixture *f, description *d) {
  d->descriptor.constant_inputs = 2;
  cpu_kernel *kernel;
  assert_int_equal(cpu_kind_prepare(&cpu_gemm_kind, f->device, &d->descriptor, &kernel),
                   COMPUTE_OK);
  uint64_t form;
  const uint64_t bytes = cpu_gemm_kind.packed_bytes(kernel, 1, &form);
  if (bytes > 0) {
    void *packed = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    void *pointers[COMPUTE_MAX_OPERANDS];
    assert_non_null(packed);
    for (uint32_t i = 0; i < d->descriptor.input_count + d->descriptor.output_count; i++)
      pointers[i] = block_data(d->blocks[i]);
    assert_int_equal(cpu_gemm_kind.pack(kernel, 1, pointers[1], packed), COMPUTE_OK);
    pointers[1] = packed;
    assert_int_equal(kernel->run(kernel, pointers), COMPUTE_OK);
    free(packed);
  }
  cpu_kernel_destroy(kernel);
  return bytes > 0;
}

static void check_sample(fixture *f, const sample *s, test_random *random) {
  operands o = make_operands(s, random);
  description d;
  describe(s, &o, &d);
  assert_int_equal(run_kernel(f, &cpu_gemm_kind, &d.descriptor, d.blocks), COMPUTE_OK);
  check_result(s, &o);
  if (s->constant_b && s->epilogue == RESIDUAL)
    memcpy(block_data(&o.c), block_data(&o.extra),
           (size_t)o.c.elements * cpu_dtype_size(s->output));
  if (s->constant_b && run_packed(f, &d)) check_result(s, &o);
  block_check_guards(&o.c);
  if (o.has_second) block_check_guards(&o.second);
  release_operands(&o);
}

/* ---- Devices ------------------------------------------------------------------------------- */

/* The value of COMPUTE_BLAS in the running test. */
static const char *blas_choice;

static const char *variable(void *host, const char *name) {
  if (strcmp(name, "COMPUTE_BLAS") == 0) return blas_choice;
  return fixture_variable(host, name);
}

static bool open_device(fixture *f, int32_t threads, const char *isa, const char *blas) {
  if (!fixture_open(f, threads, isa)) return false;
  blas_choice = blas;
  f->services.variable = variable;
  return true;
}

/* The kinds of device that every sample runs on. */
static const struct {
  const char *isa, *blas;
  bool high;
  const cpu_gemm_type *bytes; /* in place of the set's own, with bf16 converted */
} kinds[] = {{"scalar", "none", false, NULL},
             {"avx2", NULL, false, NULL},
             {"avx512", NULL, false, NULL},
#if CPU_HAS_X86_SETS
             {"avx2", NULL, false, &cpu_gemm_pairs_avx2},
             {"avx512", NULL, false, &cpu_gemm_pairs_avx512},
#endif
             {"scalar", NULL, true, NULL},
             {"scalar", "libopenblas.so.0", false, NULL}};

static bool is_byte(compute_dtype dtype) {
  return dtype == COMPUTE_I8 || dtype == COMPUTE_U8;
}

/* Whether a kind of device adds to what others test. */
static bool is_worth(size_t kind, const sample *s) {
  const bool words = (is_byte(s->a) && is_byte(s->b)) || s->a == COMPUTE_BF16;
  if (kinds[kind].bytes && !words) return false;
  return !kinds[kind].high || s->accumulate == COMPUTE_F32;
}

typedef bool (*sample_maker)(sample *s, test_random *random);

/* Runs `count` samples of a kind on every kind of device. */
static void check_samples(sample_maker make, int count, int32_t threads) {
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    fixture f;
    if (!open_device(&f, threads, kinds[i].isa, kinds[i].blas)) continue;
    const cpu_isa *isa = f.device->isa;
    cpu_isa high = *isa;
    high.name = "high";
    high.gemm = &high_table;
    cpu_gemm_table table = *isa->gemm;
    cpu_isa other = *isa;
    table.bytes = kinds[i].bytes;
    table.bf16 = NULL;
    other.gemm = &table;
    if (kinds[i].high) f.device->isa = &high;
    if (kinds[i].bytes) f.device->isa = &other;
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

static int64_t pick(test_random *random, const int64_t *values, int64_t count) {
  return values[test_random_integer(random, 0, count - 1)];
}

static void random_shape(sample *s, test_random *random) {
  static const int64_t sizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  12, 13, 15,
                                  16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 97, 130};
  static const int64_t depths[] = {1, 2, 3, 7, 8, 16, 31, 64, 65, 129, 300, 513};
  s->m = pick(random, sizes, 24);
  s->n = pick(random, sizes, 24);
  s->k = pick(random, depths, 12);
  s->layout_a = (layout)test_random_integer(random, 0, LAYOUT_COUNT - 1);
  s->layout_b = (layout)test_random_integer(random, 0, LAYOUT_COUNT - 1);
  s->layout_c = (layout)test_random_integer(random, 0, LAYOUT_COUNT - 1);
}

static bool make_shape(sample *s, test_random *random) {
  random_shape(s, random);
  if (test_random_integer(random, 0, 2) == 0) s->a = s->b = s->accumulate = s->output = COMPUTE_F64;
  return true;
}

static void every_shape_and_layout_is_right(void **state) {
  (void)state;
  check_samples(make_shape, 400, 2);
}

static bool make_large(sample *s, test_random *random) {
  static const int64_t sizes[] = {190, 257, 400, 515};
  random_shape(s, random);
  s->m = pick(random, sizes, 4);
  s->n = pick(random, sizes, 4);
  s->k = pick(random, sizes, 4);
  s->epilogue = test_random_integer(random, 0, 1) ? BIAS_GELU : PLAIN;
  return true;
}

static void sizes_beyond_the_cache_blocks_are_right(void **state) {
  (void)state;
  check_samples(make_large, 4, 2);
}

/* Of A also rows that lie too far apart, or just right, to be read in place. */
static bool make_long(sample *s, test_random *random) {
  static const int64_t depths[] = {384, 385, 769, 1024, 1152, 1153, 1536, 2500};
  s->m = test_random_integer(random, 13, 45);
  s->n = test_random_integer(random, 30, 140);
  s->k = pick(random, depths, 8);
  s->layout_a = (layout)test_random_integer(random, 0, LAYOUT_COUNT - 1);
  s->layout_b = (layout)test_random_integer(random, 0, LAYOUT_COUNT - 1);
  s->epilogue = (epilogue)test_random_integer(random, 0, EPILOGUE_COUNT - 1);
  s->constant_b = test_random_integer(random, 0, 1);
  if (test_random_integer(random, 0, 3) == 0) s->a = s->b = s->accumulate = s->output = COMPUTE_F64;
  return true;
}

static void parts_of_k_add_up(void **state) {
  (void)state;
  check_samples(make_long, 24, 2);
}

static bool make_floats(sample *s, test_random *random) {
  static const int64_t floats[] = {COMPUTE_F32, COMPUTE_F16, COMPUTE_BF16, COMPUTE_F64};
  random_shape(s, random);
  s->a = (compute_dtype)pick(random, floats, 4);
  s->b = (compute_dtype)pick(random, floats, 4);
  s->accumulate = test_random_integer(random, 0, 3) ? COMPUTE_F32 : COMPUTE_F64;
  if (s->accumulate == COMPUTE_F32) {
    if (s->a == COMPUTE_F64) s->a = COMPUTE_F16;
    if (s->b == COMPUTE_F64) s->b = COMPUTE_BF16;
  }
  s->output = (compute_dtype)pick(random, floats, 3);
  return true;
}

static void half_precision_is_summed_in_the_accumulate_type(void **state) {
  (void)state;
  check_samples(make_floats, 300, 2);
}

static bool make_integers(sample *s, test_random *random) {
  static const int64_t integers[] = {COMPUTE_I32, COMPUTE_I64, COMPUTE_U8, COMPUTE_U16};
  random_shape(s, random);
  s->a = (compute_dtype)pick(random, integers, 4);
  s->b = (compute_dtype)pick(random, integers, 4);
  s->output = s->accumulate = test_random_integer(random, 0, 1) ? COMPUTE_I32 : COMPUTE_I64;
  if (test_random_integer(random, 0, 1)) s->epilogue = BIAS_COLUMN;
  return true;
}

static void integers_wrap(void **state) {
  (void)state;
  check_samples(make_integers, 300, 2);
}

static bool make_bytes(sample *s, test_random *random) {
  static const int64_t bytes[] = {COMPUTE_I8, COMPUTE_U8};
  static const int64_t wide[] = {150, 257, 400}, deep[] = {770, 1550, 5003};
  random_shape(s, random);
  s->a = (compute_dtype)pick(random, bytes, 2);
  s->b = (compute_dtype)pick(random, bytes, 2);
  s->accumulate = COMPUTE_I32;
  s->output = test_random_integer(random, 0, 2) ? COMPUTE_I32 : s->a;
  s->extreme = test_random_integer(random, 0, 2) == 0;
  s->constant_b = true;
  if (test_random_integer(random, 0, 2) == 0) s->epilogue = BIAS_COLUMN;
  if (test_random_integer(random, 0, 2) == 0) {
    s->epilogue = BYTES;
    s->output = (compute_dtype)pick(random, bytes, 2);
  }
  if (test_random_integer(random, 0, 3) == 0) s->n = pick(random, wide, 3);
  if (s->m * s->n < 5000 && test_random_integer(random, 0, 3) == 0) s->k = pick(random, deep, 3);
  return true;
}

static void sums_of_byte_products_are_exact(void **state) {
  (void)state;
  check_samples(make_bytes, 300, 2);
}

static bool make_bf16(sample *s, test_random *random) {
  static const int64_t wide[] = {150, 257, 400}, deep[] = {770, 1551, 5003};
  random_shape(s, random);
  s->a = s->b = COMPUTE_BF16;
  s->constant_b = test_random_integer(random, 0, 1) != 0;
  s->epilogue = (epilogue)test_random_integer(random, 0, EPILOGUE_COUNT - 1);
  if (test_random_integer(random, 0, 1) && s->epilogue != PLACES) s->output = COMPUTE_BF16;
  if (test_random_integer(random, 0, 3) == 0) s->n = pick(random, wide, 3);
  if (s->m * s->n < 5000 && test_random_integer(random, 0, 3) == 0) s->k = pick(random, deep, 3);
  if (test_random_integer(random, 0, 3) == 0) {
    s->batch_rank = 1;
    s->batch[0] = 3;
    s->repeat_a = (uint32_t)test_random_integer(random, 0, 1);
    s->repeat_b = (uint32_t)test_random_integer(random, 0, 1);
    if (s->m * s->n * s->k > 100000) s->m = s->n = 18;
  }
  return true;
}

static void products_of_bf16_are_summed_in_f32(void **state) {
  (void)state;
  check_samples(make_bf16, 300, 2);
}

/* NaN comes from NaN, and from infinity times 0 or minus infinity; infinity stays. Fillings at the
 * end of k make neither. */
static void bf16_that_are_not_numbers_stay_so(void **state) {
  (void)state;
  const sample s = {.a = COMPUTE_BF16,
                    .b = COMPUTE_BF16,
                    .accumulate = COMPUTE_F32,
                    .output = COMPUTE_F32,
                    .m = 30,
                    .n = 70,
                    .k = 9};
  test_random random = {.state = 4};
  operands o = make_operands(&s, &random);
  uint16_t *a = (void *)block_data(&o.a), *b = (void *)block_data(&o.b);
  a[3 * s.k + 8] = 0x7fc0;                          /* NaN in row 3 */
  a[5 * s.k + 8] = 0x7f80, a[6 * s.k + 2] = 0xff80; /* infinities in rows 5 and 6 */
  b[8 * s.n + 40] = 0, b[2 * s.n + 69] = 0x7f80;    /* 0 and infinity in columns 40 and 69 */
  a[7 * s.k + 1] = b[1 * s.n + 9] = 0x7f00;         /* 2^127, whose square is infinite */
  description d;
  describe(&s, &o, &d);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    fixture f;
    if (!open_device(&f, 1, kinds[i].isa, kinds[i].blas)) continue;
    assert_int_equal(run_kernel(&f, &cpu_gemm_kind, &d.descriptor, d.blocks), COMPUTE_OK);
    int64_t point[COMPUTE_MAX_RANK] = {0};
    do {
      double size;
      const float wanted = (float)reference_sum(&s, &o, point, &size);
      const float actual = (float)block_get(&o.c, block_at(&o.c, point));
      assert_int_equal(isnan(actual), isnan(wanted));
      if (isinf(wanted)) assert_true(actual == wanted);
      if (!isfinite(wanted)) continue;
      check_element(&s, "the product", actual, wanted, 0x1p-20 * size, point);
    } while (next_point(2, o.c.size, point));
    fixture_close(&f);
  }
  release_operands(&o);
}

static bool make_constant(sample *s, test_random *random) {
  random_shape(s, random);
  s->n = test_random_integer(random, 100, 400);
  if (test_random_integer(random, 0, 1)) s->m = test_random_integer(random, 1, 2);
  s->epilogue = (epilogue)test_random_integer(random, 0, EPILOGUE_COUNT - 1);
  s->constant_b = true;
  return true;
}

static void a_packed_constant_multiplies_as_any(void **state) {
  (void)state;
  check_samples(make_constant, 120, 2);
}

static bool make_batch(sample *s, test_random *random) {
  random_shape(s, random);
  s->m = s->m > 33 ? 9 : s->m;
  s->k = s->k > 65 ? 20 : s->k;
  s->batch_rank = (int32_t)test_random_integer(random, 1, 3);
  for (int32_t d = 0; d < s->batch_rank; d++) s->batch[d] = test_random_integer(random, 1, 4);
  s->repeat_a = (uint32_t)test_random_integer(random, 0, 7);
  s->repeat_b = (uint32_t)test_random_integer(random, 0, 7);
  s->epilogue = (epilogue)test_random_integer(random, 0, EPILOGUE_COUNT - 1);
  return true;
}

static void batches_and_broadcast_operands_are_right(void **state) {
  (void)state;
  check_samples(make_batch, 300, 3);
}

static bool make_epilogue(sample *s, test_random *random) {
  random_shape(s, random);
  s->epilogue = (epilogue)test_random_integer(random, 0, EPILOGUE_COUNT - 1);
  if (test_random_integer(random, 0, 3) == 0) {
    s->a = s->b = s->accumulate = s->output = COMPUTE_F64;
  } else if (test_random_integer(random, 0, 3) == 0 && s->epilogue != PLACES) {
    s->output = COMPUTE_F16;
  }
  if (test_random_integer(random, 0, 9) == 0) s->k = 0;
  return true;
}

static void epilogues_are_applied_to_finished_sums(void **state) {
  (void)state;
  check_samples(make_epilogue, 400, 2);
}

static bool make_empty(sample *s, test_random *random) {
  random_shape(s, random);
  s->batch_rank = 1;
  s->batch[0] = 2;
  int64_t *const sizes[] = {&s->batch[0], &s->m, &s->n};
  *sizes[test_random_integer(random, 0, 2)] = 0;
  if (test_random_integer(random, 0, 1)) s->k = 0;
  return true;
}

static void nothing_is_stored_where_a_size_is_zero(void **state) {
  (void)state;
  check_samples(make_empty, 40, 2);
}

static bool make_deep(sample *s, test_random *random) {
  random_shape(s, random);
  s->m = test_random_integer(random, 1, 20);
  s->n = test_random_integer(random, 1, 20);
  s->k = test_random_integer(random, 20000, 30000);
  s->epilogue = (epilogue)test_random_integer(random, 0, RESIDUAL);
  return true;
}

static void long_sums_in_parts_are_right(void **state) {
  (void)state;
  check_samples(make_deep, 12, 4);
}

/* ---- Threads ------------------------------------------------------------------------------- */

static void run_serially(void *host, int64_t tasks, compute_task task, void *argument) {
  (void)host;
  for (int64_t i = 0; i < tasks; i++) task(argument, i, 0);
}

static void neither_threads_nor_a_busy_pool_change_a_bit(void **state) {
  (void)state;
  static const struct {
    int64_t m, n, k;
    bool transposed;
    epilogue epilogue;
  } cases[] = {{200, 300, 700, false, BIAS_GELU}, {7, 7, 50000, false, BIAS_GELU},
               {3, 2000, 700, true, BIAS_GELU},   {20, 24, 9000, false, PLAIN},
               {1, 2100, 4096, false, PLAIN},     {9, 1000, 3000, false, BIAS_GELU},
               {100, 130, 5000, false, PLAIN}};
  enum { CASES = sizeof cases / sizeof cases[0] };
  test_random random = {.state = 3};
  for (size_t number = 0; number < 2 * CASES; number++) {
    const size_t i = number % CASES;
    const compute_dtype dtype = number < CASES ? COMPUTE_F32 : COMPUTE_BF16;
    const sample s = {.a = dtype,
                      .b = dtype,
                      .accumulate = COMPUTE_F32,
                      .output = COMPUTE_F32,
                      .m = cases[i].m,
                      .n = cases[i].n,
                      .k = cases[i].k,
                      .layout_b = cases[i].transposed ? TRANSPOSED : DENSE,
                      .epilogue = cases[i].epilogue};
    operands o = make_operands(&s, &random);
    description d;
    describe(&s, &o, &d);
    const size_t bytes = (size_t)o.c.elements * sizeof(float);
    unsigned char *first = malloc(bytes);
    assert_non_null(first);
    for (int32_t threads = 1; threads <= 5; threads++) {
      fixture f;
      assert_true(open_device(&f, threads, NULL, NULL));
      if (threads == 5) f.services.parallel = run_serially;
      assert_int_equal(run_kernel(&f, &cpu_gemm_kind, &d.descriptor, d.blocks), COMPUTE_OK);
      if (threads == 1) memcpy(first, block_data(&o.c), bytes);
      assert_memory_equal(first, block_data(&o.c), bytes);
      fixture_close(&f);
    }
    free(first);
    release_operands(&o);
  }
}

typedef struct user {
  pthread_t thread;
  const cpu_kernel *kernel;
  void *pointers[3];
  compute_status status;
} user;

static void *use_kernel(void *argument) {
  user *u = argument;
  for (int i = 0; i < 20 && u->status == COMPUTE_OK; i++)
    u->status = u->kernel->run(u->kernel, u->pointers);
  return NULL;
}

/* One kernel, several threads of the user's, of which all but one find the pool busy. */
static void check_users(const char *isa, const char *blas) {
  enum { USERS = 3 };
  const sample s = {.a = COMPUTE_F32,
                    .b = COMPUTE_F32,
                    .accumulate = COMPUTE_F32,
                    .output = COMPUTE_F16,
                    .m = 150,
                    .n = 140,
                    .k = 90};
  fixture f;
  if (!open_device(&f, 2, isa, blas)) return;
  test_random random = {.state = 5};
  operands o[USERS];
  user users[USERS] = {0};
  cpu_kernel *kernel = NULL;
  for (int i = 0; i < USERS; i++) {
    o[i] = make_operands(&s, &random);
    description d;
    describe(&s, &o[i], &d);
    if (!kernel)
      assert_int_equal(cpu_kind_prepare(&cpu_gemm_kind, f.device, &d.descriptor, &kernel),
                       COMPUTE_OK);
    users[i].kernel = kernel;
    for (int p = 0; p < 3; p++) users[i].pointers[p] = block_data(d.blocks[p]);
  }
  for (int i = 0; i < USERS; i++)
    assert_int_equal(pthread_create(&users[i].thread, NULL, use_kernel, &users[i]), 0);
  for (int i = 0; i < USERS; i++) {
    pthread_join(users[i].thread, NULL);
    assert_int_equal(users[i].status, COMPUTE_OK);
    check_floats(&s, &o[i]);
    release_operands(&o[i]);
  }
  cpu_kernel_destroy(kernel);
  fixture_close(&f);
}

static void several_threads_may_run_one_kernel(void **state) {
  (void)state;
  check_users(NULL, NULL);
  check_users("scalar", "libopenblas.so.0");
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* Memory whose last byte lies right before a page that must not be touched. */
static void *fenced(size_t count, size_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t bytes = (count * size + page - 1) / page * page;
  unsigned char *memory =
      mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  assert_int_equal(mprotect(memory + bytes, page, PROT_NONE), 0);
  return memory + bytes - count * size;
}

static void release_fenced(void *data, size_t count, size_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t bytes = (count * size + page - 1) / page * page;
  munmap((unsigned char *)data + count * size - bytes, bytes + page);
}

static void *fenced_ones(size_t count, compute_dtype dtype) {
  void *data = fenced(count, cpu_dtype_size(dtype));
  for (size_t i = 0; i < count; i++) {
    if (dtype == COMPUTE_F32)
      ((float *)data)[i] = 1;
    else
      ((uint16_t *)data)[i] = 0x3f80;
  }
  return data;
}

/* All sizes around the register tiles, both orders of storage, no byte read behind an operand. */
static void touch_no_more(compute_dtype dtype) {
  enum { LARGEST = 37 };
  const size_t bytes = cpu_dtype_size(dtype);
  fixture f;
  assert_true(open_device(&f, 1, NULL, NULL));
  for (int64_t size = 1; size <= LARGEST; size++) {
    for (int transposed = 0; transposed < 4; transposed++) {
      const int64_t m = size, n = LARGEST + 1 - size, k = 1 + size % 11;
      void *a = fenced_ones((size_t)(m * k), dtype), *b = fenced_ones((size_t)(k * n), dtype);
      float *c = fenced((size_t)(m * n), sizeof *c);
      const compute_operand inputs[] = {{dtype, {transposed & 1 ? 1 : k, transposed & 1 ? m : 1}},
                                        {dtype, {transposed & 2 ? 1 : n, transposed & 2 ? k : 1}}};
      const compute_operand output = {COMPUTE_F32, {n, 1}};
      const compute_kernel_descriptor descriptor = {
          .struct_size = sizeof descriptor,
          .kind = COMPUTE_KERNEL_GEMM,
          .rank = 2,
          .size = {m, n},
          .input_count = 2,
          .output_count = 1,
          .inputs = inputs,
          .outputs = &output,
          .accumulate = COMPUTE_F32,
          .attributes = &(compute_gemm_attributes){.k = k},
          .attribute_bytes = sizeof(compute_gemm_attributes)};
      cpu_kernel *kernel;
      assert_int_equal(cpu_kind_prepare(&cpu_gemm_kind, f.device, &descriptor, &kernel),
                       COMPUTE_OK);
      assert_int_equal(kernel->run(kernel, (void *[]){a, b, c}), COMPUTE_OK);
      cpu_kernel_destroy(kernel);
      for (int64_t i = 0; i < m * n; i++) assert_true(c[i] == (float)k);
      release_fenced(a, (size_t)(m * k), bytes);
      release_fenced(b, (size_t)(k * n), bytes);
      release_fenced(c, (size_t)(m * n), sizeof *c);
    }
  }
  fixture_close(&f);
}

static void nothing_outside_the_operands_is_touched(void **state) {
  (void)state;
  touch_no_more(COMPUTE_F32);
  touch_no_more(COMPUTE_BF16);
}

static void a_failing_allocation_is_reported(void **state) {
  (void)state;
  sample s = {.a = COMPUTE_F16,
              .b = COMPUTE_F32,
              .accumulate = COMPUTE_F32,
              .output = COMPUTE_F16,
              .m = 40,
              .n = 50,
              .k = 60,
              .epilogue = BIAS_GELU};
  for (int i = 0; i < 2; i++) {
    test_random random = {.state = 9};
    operands o = make_operands(&s, &random);
    description d;
    describe(&s, &o, &d);
    check_allocation_failures(&cpu_gemm_kind, &d.descriptor, d.blocks);
    release_operands(&o);
    s.a = s.output = COMPUTE_F32;
    s.m = s.n = 5, s.k = 40000;
  }
}

/* ---- Refusals and OpenBLAS ----------------------------------------------------------------- */

static void float_operands_are_not_summed_as_integers(void **state) {
  (void)state;
  const sample s = {.a = COMPUTE_F32,
                    .b = COMPUTE_F32,
                    .accumulate = COMPUTE_I32,
                    .output = COMPUTE_I32,
                    .m = 2,
                    .n = 2,
                    .k = 2};
  test_random random = {.state = 1};
  operands o = make_operands(&s, &random);
  description d;
  describe(&s, &o, &d);
  fixture f;
  assert_true(open_device(&f, 1, NULL, NULL));
  assert_int_equal(run_kernel(&f, &cpu_gemm_kind, &d.descriptor, d.blocks),
                   COMPUTE_ERROR_UNSUPPORTED);
  assert_true(strlen(f.message) > 0);
  fixture_close(&f);
  release_operands(&o);
}

static void a_missing_blas_is_described_and_no_error(void **state) {
  (void)state;
  static const char *const names[] = {"none", "libcompute-no-such-blas.so.7", "libm.so.6"};
  for (size_t i = 0; i < 3; i++) {
    fixture f;
    assert_true(open_device(&f, 1, "scalar", names[i]));
    assert_null(cpu_blas_open(f.device));
    assert_memory_equal(cpu_blas_describe(f.device), "none: ", 6);
    assert_null(cpu_blas_warning(f.device));
    sample s = {.a = COMPUTE_F32,
                .b = COMPUTE_F32,
                .accumulate = COMPUTE_F32,
                .output = COMPUTE_F32,
                .m = 70,
                .n = 70,
                .k = 70};
    test_random random = {.state = 2};
    check_sample(&f, &s, &random);
    fixture_close(&f);
  }
}

static void a_named_blas_is_used_and_described(void **state) {
  (void)state;
  fixture f, other;
  assert_true(open_device(&f, 2, NULL, "libopenblas.so.0"));
  assert_true(open_device(&other, 2, NULL, "libopenblas.so.0"));
  if (!cpu_blas_open(f.device)) {
    fixture_close(&f);
    fixture_close(&other);
    skip(); /* OpenBLAS is not installed */
  }
  assert_memory_equal(cpu_blas_describe(other.device), "OpenBLAS ", 9);
  test_random random = {.state = 2};
  const sample s = {.a = COMPUTE_F32,
                    .b = COMPUTE_F32,
                    .accumulate = COMPUTE_F32,
                    .output = COMPUTE_F32,
                    .m = 170,
                    .n = 70,
                    .k = 70};
  operands o = make_operands(&s, &random);
  description d;
  describe(&s, &o, &d);
  cpu_kernel *kernel;
  assert_int_equal(cpu_kind_prepare(&cpu_gemm_kind, f.device, &d.descriptor, &kernel), COMPUTE_OK);
  assert_non_null(strstr(kernel->description, "OpenBLAS"));
  cpu_kernel_destroy(kernel);
  assert_int_equal(cpu_kind_prepare(&cpu_even_gemm_kind, f.device, &d.descriptor, &kernel),
                   COMPUTE_OK);
  assert_null(strstr(kernel->description, "OpenBLAS"));
  cpu_kernel_destroy(kernel);
  release_operands(&o);
  fixture_close(&f);
  check_sample(&other, &s, &random); /* the first device's close left the library open */
  fixture_close(&other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_shape_and_layout_is_right),
      cmocka_unit_test(sizes_beyond_the_cache_blocks_are_right),
      cmocka_unit_test(parts_of_k_add_up),
      cmocka_unit_test(half_precision_is_summed_in_the_accumulate_type),
      cmocka_unit_test(integers_wrap),
      cmocka_unit_test(sums_of_byte_products_are_exact),
      cmocka_unit_test(products_of_bf16_are_summed_in_f32),
      cmocka_unit_test(bf16_that_are_not_numbers_stay_so),
      cmocka_unit_test(a_packed_constant_multiplies_as_any),
      cmocka_unit_test(batches_and_broadcast_operands_are_right),
      cmocka_unit_test(epilogues_are_applied_to_finished_sums),
      cmocka_unit_test(nothing_is_stored_where_a_size_is_zero),
      cmocka_unit_test(long_sums_in_parts_are_right),
      cmocka_unit_test(neither_threads_nor_a_busy_pool_change_a_bit),
      cmocka_unit_test(several_threads_may_run_one_kernel),
      cmocka_unit_test(nothing_outside_the_operands_is_touched),
      cmocka_unit_test(a_failing_allocation_is_reported),
      cmocka_unit_test(float_operands_are_not_summed_as_integers),
      cmocka_unit_test(a_missing_blas_is_described_and_no_error),
      cmocka_unit_test(a_named_blas_is_used_and_described),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
