/* SPDX-License-Identifier: MIT */
/* Samples of FOURIER. */
#include "support/samples/sample_kernels.h"

typedef enum form { COMPLEX, INVERSE, REAL, HALVED } form;

typedef enum lie { DENSE, TURNED, GAPS } lie;

typedef struct fourier_sample {
  int64_t lines, length, points, results;
  form form;
  compute_dtype dtype;
  lie how;
} fourier_sample;

static void lay_out(const fourier_sample *c, int64_t points, int64_t parts,
                    compute_operand *operand) {
  const int64_t gap = c->how == GAPS ? 3 : 1;
  operand->stride[0] = c->how == TURNED ? parts : points * parts * gap + 5;
  operand->stride[1] = c->how == TURNED ? parts * c->lines : parts * gap;
  operand->stride[2] = parts == 2 ? 1 : 0;
}

static void sample_one(const fourier_sample *c, sample_visitor visit, void *user) {
  static const char *const forms[] = {"fft", "ifft", "rfft", "irfft"};
  static const char *const lies[] = {"dense", "turned", "gaps"};
  static const compute_tuning cuts[] = {{.group_x = 16}, {.group_x = 64}};
  sample_kernel s;
  const int64_t parts = c->form == HALVED ? 1 : 2;
  sample_begin(&s, COMPUTE_KERNEL_FOURIER, COMPUTE_SHAPE(c->lines, c->results, parts),
               "%s %lldx%lld of %lld to %lld %s %s", forms[c->form], (long long)c->lines,
               (long long)c->length, (long long)c->points, (long long)c->results,
               compute_dtype_name(c->dtype), lies[c->how]);
  s.attributes.fourier =
      (compute_fourier_attributes){.length = c->length,
                                   .points = c->points,
                                   .scale = 0.5,
                                   .inverse = c->form == INVERSE || c->form == HALVED,
                                   .real = c->form == REAL,
                                   .halved = c->form == HALVED};
  s.descriptor.accumulate = c->dtype;
  s.large = c->lines * c->length > 1000000;
  s.low = -1;
  s.high = 1;
  s.tolerance = (test_tolerance){0,
                                 (c->dtype == COMPUTE_F64 ? 1e-15 : 5e-7) *
                                     (double)(c->length < 4096 ? c->length + 8 : 4096),
                                 0};
  lay_out(c, c->points, c->form == REAL ? 1 : 2, sample_input(&s, c->dtype, 7));
  lay_out(c, c->results, parts, sample_output(&s, c->dtype, 7));
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts && c->how == DENSE && !s.large; i++)
    *sample_tuning(&s) = cuts[i];
  sample_end(&s, visit, user);
}

void sample_fourier_kernels(sample_visitor visit, void *user) {
  static const fourier_sample cases[] = {
      {3, 1, 1, 1, COMPLEX, COMPUTE_F32, DENSE},
      {0, 8, 8, 8, COMPLEX, COMPUTE_F32, DENSE},
      {3, 8, 0, 8, COMPLEX, COMPUTE_F32, DENSE},
      {3, 8, 8, 0, COMPLEX, COMPUTE_F32, DENSE},
      {5, 64, 64, 64, COMPLEX, COMPUTE_F32, DENSE},
      {5, 64, 64, 64, INVERSE, COMPUTE_F64, TURNED},
      {9, 30, 30, 30, COMPLEX, COMPUTE_F32, GAPS},
      {9, 49, 40, 33, INVERSE, COMPUTE_F32, DENSE},
      {4, 37, 37, 37, COMPLEX, COMPUTE_F32, TURNED},
      {4, 37, 37, 37, COMPLEX, COMPUTE_F64, DENSE},
      {17, 100, 100, 51, REAL, COMPUTE_F32, DENSE},
      {17, 100, 90, 51, REAL, COMPUTE_F32, TURNED},
      {3, 25, 25, 13, REAL, COMPUTE_F64, GAPS},
      {17, 100, 51, 100, HALVED, COMPUTE_F32, DENSE},
      {17, 100, 40, 100, HALVED, COMPUTE_F32, TURNED},
      {3, 25, 13, 25, HALVED, COMPUTE_F64, GAPS},
      {1, 1500, 1500, 1500, COMPLEX, COMPUTE_F32, DENSE},
      {2, 1500, 1000, 40, COMPLEX, COMPUTE_F32, TURNED},
      {1, 1500, 1500, 751, REAL, COMPUTE_F64, DENSE},
      {1, 1500, 751, 1500, HALVED, COMPUTE_F32, DENSE},
      {1, INT64_C(1) << 22, INT64_C(1) << 22, INT64_C(1) << 22, COMPLEX, COMPUTE_F32, DENSE},
      {INT64_C(1) << 21, 1024, 1024, 1024, COMPLEX, COMPUTE_F32, DENSE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) sample_one(&cases[i], visit, user);
}
