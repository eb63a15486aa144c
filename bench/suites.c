/* SPDX-License-Identifier: MIT */
/* The cases that are rows of the table of operations: elementwise, matmul and reduce.
 *
 * Sizes are the project's goals. A quick run omits long cases, and uses smaller sizes for the rest
 * where there are any. */
#include <stddef.h>

#include "bench.h"

#define CASE(name_, operation_, dtype_, when_, ...)                                                \
  CASE_WITH(name_, operation_, dtype_, when_, 0, __VA_ARGS__)
#define CASE_WITH(name_, operation_, dtype_, when_, flags_, ...)                                   \
  {                                                                                                \
    .name = name_, .operation = operation_, .dtype = COMPUTE_##dtype_, .when = BENCH_##when_,      \
    .flags = flags_, .run = bench_run_operation, .size = {                                         \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }
#define TF32 COMPUTE_PLAN_ALLOW_TF32
#define MI   *1000000

/* clang-format off */
static const bench_case elementwise[] = {
    CASE("add_1M",        "add",       F32,  ALWAYS, 1 MI),
    CASE("add_10M",       "add",       F32,  ALWAYS, 10 MI),
    CASE("add_100M",      "add",       F32,  FULL,   100 MI),
    CASE("add_10M_f64",   "add",       F64,  FULL,   10 MI),
    CASE("add_10M_bf16",  "add",       BF16, FULL,   10 MI),
    CASE("add_10M_i32",   "add",       I32,  FULL,   10 MI),
    CASE("add_100M_bf16", "add",       BF16, GPU,    100 MI),
    CASE("add_row_4096",  "add_row",   F32,  FULL,   4096, 4096),
    CASE("chain_1M",      "chain",     F32,  ALWAYS, 1 MI),
    CASE("chain_10M",     "chain",     F32,  ALWAYS, 10 MI),
    CASE("chain_100M",    "chain",     F32,  GPU,    100 MI),
    CASE("relu_1M",       "relu",      F32,  ALWAYS, 1 MI),
    CASE("exp_1M",        "exp",       F32,  ALWAYS, 1 MI),
    CASE("log_1M",        "log",       F32,  ALWAYS, 1 MI),
    CASE("tanh_1M",       "tanh",      F32,  ALWAYS, 1 MI),
    CASE("erf_1M",        "erf",       F32,  FULL,   1 MI),
    CASE("sigmoid_1M",    "sigmoid",   F32,  ALWAYS, 1 MI),
    CASE("silu_1M",       "silu",      F32,  FULL,   1 MI),
    CASE("gelu_1M",       "gelu",      F32,  ALWAYS, 1 MI),
    CASE("gelu_tanh_1M",  "gelu_tanh", F32,  ALWAYS, 1 MI),
    CASE("gelu_100M",     "gelu",      F32,  GPU,    100 MI),
    CASE("exp_1M_f64",    "exp",       F64,  FULL,   1 MI),
    CASE("gelu_1M_bf16",  "gelu",      BF16, FULL,   1 MI),
};

static const bench_case matmul[] = {
    CASE("matmul_64",              "matmul",           F32,  ALWAYS, 64, 64, 64),
    CASE("matmul_128",             "matmul",           F32,  ALWAYS, 128, 128, 128),
    CASE("matmul_256",             "matmul",           F32,  ALWAYS, 256, 256, 256),
    CASE("matmul_512",             "matmul",           F32,  ALWAYS, 512, 512, 512),
    CASE("matmul_1024",            "matmul",           F32,  ALWAYS, 1024, 1024, 1024),
    CASE("matmul_2048",            "matmul",           F32,  ALWAYS, 2048, 2048, 2048),
    CASE("matmul_4096",            "matmul",           F32,  FULL,   4096, 4096, 4096),
    CASE("matmul_8192",            "matmul",           F32,  GPU,    8192, 8192, 8192),
    CASE_WITH("matmul_2048_tf32",  "matmul",           F32,  GPU,    TF32, 2048, 2048, 2048),
    CASE_WITH("matmul_8192_tf32",  "matmul",           F32,  GPU,    TF32, 8192, 8192, 8192),
    CASE("matmul_256_f64",         "matmul",           F64,  FULL,   256, 256, 256),
    CASE("matmul_1024_f64",        "matmul",           F64,  ALWAYS, 1024, 1024, 1024),
    CASE("matmul_2048_f64",        "matmul",           F64,  FULL,   2048, 2048, 2048),
    CASE("matmul_1024_bf16",       "matmul",           BF16, ALWAYS, 1024, 1024, 1024),
    CASE("matmul_2048_bf16",       "matmul",           BF16, GPU,    2048, 2048, 2048),
    CASE("matmul_4096_bf16",       "matmul",           BF16, GPU,    4096, 4096, 4096),
    CASE("matmul_8192_bf16",       "matmul",           BF16, GPU,    8192, 8192, 8192),
    CASE("matmul_nt_1024",         "matmul_nt",        F32,  FULL,   1024, 1024, 1024),
    CASE("matmul_32x128",          "matmul",           F32,  FULL,   128, 128, 128, 32),
    CASE("matmul_128x512x784",     "matmul",           F32,  ALWAYS, 128, 512, 784),
    CASE("matmul_1x4096x4096",     "matmul",           F32,  FULL,   1, 4096, 4096),
    CASE("matmul_nt_1x4096x4096",  "matmul_nt",        F32,  GPU,    1, 4096, 4096),
    CASE("matmul_4x4096x4096",     "matmul",           F32,  GPU,    4, 4096, 4096),
    CASE("matmul_nt_4x4096x4096",  "matmul_nt",        F32,  GPU,    4, 4096, 4096),
    CASE("matmul_16x4096x4096",    "matmul",           F32,  GPU,    16, 4096, 4096),
    CASE("matmul_nt_16x4096x4096", "matmul_nt",        F32,  GPU,    16, 4096, 4096),
    CASE("matmul_1x8192_bf16",     "matmul",           BF16, GPU,    1, 8192, 8192),
    CASE("matmul_nt_1x8192_bf16",  "matmul_nt",        BF16, GPU,    1, 8192, 8192),
    CASE("matmul_8x8192_bf16",     "matmul",           BF16, GPU,    8, 8192, 8192),
    CASE("matmul_nt_8x8192_bf16",  "matmul_nt",        BF16, GPU,    8, 8192, 8192),
    CASE("matmul_bias_gelu_1024",  "matmul_bias_gelu", F32,  ALWAYS, 1024, 1024, 1024),
    CASE("matmul_bias_gelu_2048",  "matmul_bias_gelu", F32,  ALWAYS, 2048, 2048, 2048),
    CASE("matmul_bias_gelu_4096",  "matmul_bias_gelu", F32,  FULL,   4096, 4096, 4096),
    CASE("bias_gelu_4096_bf16",    "matmul_bias_gelu", BF16, GPU,    4096, 4096, 4096),
};

static const bench_case reduce[] = {
    CASE("sum_all_1024",           "sum_all",     F32, QUICK,  1024, 1024),
    CASE("sum_all_4096",           "sum_all",     F32, FULL,   4096, 4096),
    CASE("sum_rows_4096",          "sum_rows",    F32, ALWAYS, 4096, 4096),
    CASE("sum_columns_4096",       "sum_columns", F32, ALWAYS, 4096, 4096),
    CASE("max_rows_4096",          "max_rows",    F32, FULL,   4096, 4096),
    CASE("argmax_rows_4096",       "argmax_rows", F32, FULL,   4096, 4096),
    CASE("sum_all_4096_f64",       "sum_all",     F64, FULL,   4096, 4096),
    CASE("softmax_1000x1000",      "softmax",     F32, ALWAYS, 1000, 1000),
    CASE("softmax_1x1M",           "softmax",     F32, ALWAYS, 1, 1 MI),
    CASE("log_softmax_1000x1000",  "log_softmax", F32, FULL,   1000, 1000),
    CASE("layer_norm_1024",        "layer_norm",  F32, QUICK,  1024, 1024),
    CASE("layer_norm_4096",        "layer_norm",  F32, ALWAYS, 4096, 4096),
    CASE("sum_all_16384",          "sum_all",     F32, GPU,    16384, 16384),
    CASE("sum_rows_16384",         "sum_rows",    F32, GPU,    16384, 16384),
    CASE("sum_columns_16384",      "sum_columns", F32, GPU,    16384, 16384),
    CASE("softmax_64Kx1024",       "softmax",     F32, GPU,    65536, 1024),
    CASE("softmax_1x64M",          "softmax",     F32, GPU,    1, 64 MI),
    CASE("layer_norm_64Kx1024",    "layer_norm",  F32, GPU,    65536, 1024),
    CASE("softmax_64Kx1021",       "softmax",     F32, GPU,    65536, 1021),
    CASE("softmax_8Kx8192",        "softmax",     F32, GPU,    8192, 8192),
    CASE("softmax_64Kx1024_bf16",  "softmax",     BF16, GPU,   65536, 1024),
    CASE("layer_norm_64Kx1024_bf16", "layer_norm", BF16, GPU,  65536, 1024),
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof *(array))

const bench_suite bench_suite_elementwise = {
    "elementwise", "additions, chains, functions of one operand", elementwise, COUNT(elementwise)};
const bench_suite bench_suite_matmul = {"matmul", "matrix products, alone and with bias and gelu",
                                        matmul, COUNT(matmul)};
const bench_suite bench_suite_reduce = {"reduce", "sums, maxima, softmax, layer norm", reduce,
                                        COUNT(reduce)};
