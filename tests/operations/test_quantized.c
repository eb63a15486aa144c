/* SPDX-License-Identifier: MIT */
/* Products with weights of a few bits: shapes down to empty ones, bits, blocks, zero points of
 * every form, layouts, epilogues and derivatives. Also the weights alone. */
#include "support/harness/gradient.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"

typedef enum zeros { ZERO_NONE, ZERO_BYTES, ZERO_FLOATS } zeros;

typedef struct product_case {
  compute_shape a; /* [..., k] */
  int64_t n;
  int32_t bits;
  int64_t block;
  zeros zeros;
  bool gelu;  /* an epilogue */
  bool alone; /* only the weights; k is the last axis of a */
} product_case;

static int64_t last_size(compute_shape shape) {
  return shape.size[shape.rank - 1];
}

static compute_node build(compute_graph *graph, const compute_node *x, const void *user) {
  const product_case *c = user;
  const compute_quantized_options options = {.bits = c->bits, .block = c->block};
  const compute_node zero = c->zeros == ZERO_NONE ? (compute_node){0} : x[3];
  if (c->alone) return compute_dequantize(graph, x[1], x[2], zero, last_size(c->a), &options);
  const compute_node y = compute_quantized_matmul(graph, x[0], x[1], x[2], zero, &options);
  return c->gelu ? compute_gelu(graph, y) : y;
}

static operation_case make_sample(const product_case *c, compute_dtype dtype, compute_dtype scale,
                                  guarded_layout layout) {
  const int64_t k = last_size(c->a), blocks = (k + c->block - 1) / c->block;
  const compute_shape of_blocks = COMPUTE_SHAPE(c->n, blocks);
  const compute_shape packed = COMPUTE_SHAPE(c->n, blocks * (c->block * c->bits / 8));
  operation_case sample = {.name = c->alone ? "dequantize" : "quantized_matmul",
                           .build = build,
                           .user = c,
                           .operand_count = c->zeros == ZERO_NONE ? 3 : 4,
                           .result_layout = layout};
  sample.operand[0] = (operation_operand){dtype, c->a, FILL_RANGE, -2, 2, layout};
  sample.operand[1] = (operation_operand){COMPUTE_U8, packed, FILL_RANGE, 0, 255, layout};
  sample.operand[2] = (operation_operand){scale, of_blocks, FILL_RANGE, 0.01, 0.2, layout};
  sample.operand[3] = (operation_operand){c->zeros == ZERO_BYTES ? COMPUTE_U8 : scale,
                                          of_blocks,
                                          FILL_RANGE,
                                          0,
                                          (1 << c->bits) - 1,
                                          layout};
  return sample;
}

static const product_case products[] = {
    {SHAPE(1, 64), 33, 4, 32, ZERO_BYTES, false, false},
    {SHAPE(1, 75), 33, 4, 32, ZERO_NONE, false, false},
    {SHAPE(64), 9, 4, 16, ZERO_FLOATS, false, false},
    {SHAPE(5, 96), 21, 4, 32, ZERO_BYTES, true, false},
    {SHAPE(40, 130), 35, 4, 64, ZERO_BYTES, true, false},
    {SHAPE(3, 1, 70), 20, 4, 16, ZERO_NONE, true, false},
    {SHAPE(2, 3, 20, 33), 17, 4, 8, ZERO_FLOATS, false, false},
    {SHAPE(6, 50), 19, 2, 12, ZERO_BYTES, false, false},
    {SHAPE(9, 50), 19, 8, 7, ZERO_NONE, false, false},
    {SHAPE(7, 0), 5, 4, 32, ZERO_BYTES, false, false}, /* an empty inner axis: zeros */
    {SHAPE(0, 32), 5, 4, 32, ZERO_BYTES, false, false},
    {SHAPE(3, 32), 0, 4, 32, ZERO_NONE, false, false},
};

static double half_unit(compute_dtype dtype) {
  return dtype == COMPUTE_F16 ? 0x1p-11 : dtype == COMPUTE_BF16 ? 0x1p-8 : 0;
}

static void check_product(const product_case *c, compute_dtype dtype, compute_dtype scale,
                          guarded_layout layout) {
  const double k = (double)last_size(c->a), most = 2 * 0.2 * (double)(1 << c->bits);
  const double unit = dtype == COMPUTE_F64 ? 0x1p-52 : 0x1p-23;
  operation_case sample = make_sample(c, dtype, scale, layout);
  sample.tolerance = (test_tolerance){.ulp = 2, .atol = unit * most * (k + 8)};
  if (c->gelu) {
    sample.tolerance.rtol = 4 * half_unit(dtype) + 16 * unit;
    sample.tolerance.atol += 4 * half_unit(dtype) * most * (k + 1);
  } else {
    sample.operation = "quantized_matmul";
  }
  operation_check(test_context, &sample);
}

static void products_match(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof products / sizeof *products; i++)
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++)
      check_product(&products[i], *dtype, i % 3 == 2 ? COMPUTE_F32 : *dtype, LAYOUT_DENSE);
  operation_finish();
}

static void operands_of_any_layout_match(void **state) {
  (void)state;
  for (size_t i = 0; i < 9; i++)
    for (int layout = LAYOUT_STEPPED; layout < LAYOUT_COUNT; layout++)
      if (products[i].a.rank > 1)
        check_product(&products[i], COMPUTE_F32, COMPUTE_F32, (guarded_layout)layout);
  operation_finish();
}

static void weights_match(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof products / sizeof *products; i++)
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++) {
      product_case c = products[i];
      c.alone = true;
      operation_case sample = make_sample(&c, *dtype, *dtype, LAYOUT_DENSE);
      sample.tolerance = (test_tolerance){.ulp = 2, .atol = 1e-6};
      sample.dtype = *dtype;
      operation_check(test_context, &sample);
    }
  operation_finish();
}

/* ---- Derivatives ---------------------------------------------------------------------------- */

static compute_node build_constant(compute_graph *graph, const compute_node *x, const void *user) {
  const product_case *c = user;
  const compute_shape scale = compute_node_shape(graph, x[1]);
  unsigned char bytes[256];
  for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)(i * 37 + 11);
  const compute_node packed = compute_constant(
      graph, COMPUTE_U8, COMPUTE_SHAPE(c->n, scale.size[1] * (c->block * c->bits / 8)), bytes);
  return build(graph, (const compute_node[]){x[0], packed, x[1], x[2]}, user);
}

static void products_have_their_derivatives(void **state) {
  (void)state;
  static const product_case cases[] = {
      {SHAPE(2, 7), 3, 4, 4, ZERO_FLOATS, false, false},
      {SHAPE(6), 3, 2, 4, ZERO_FLOATS, true, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    operation_case sample = make_sample(&cases[i], COMPUTE_F64, COMPUTE_F64, LAYOUT_DENSE);
    sample.build = build_constant;
    sample.operand_count = 3;
    sample.operand[1] = sample.operand[2];
    sample.operand[2] = sample.operand[3];
    gradient_check(test_context, &sample);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_match),
      cmocka_unit_test(operands_of_any_layout_match),
      cmocka_unit_test(weights_match),
      cmocka_unit_test(products_have_their_derivatives),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
