/* SPDX-License-Identifier: MIT */
/* The cases of networks' operations: suites conv, pool and norm.
 *
 * A convolution is measured alone, with bias, batch norm and relu, and with Winograd allowed; the
 * peers are the same in all three. */
#include <stddef.h>

#include "bench.h"

#define CASE(name_, operation_, when_, flags_, ...)                                                \
  CASE_OF(F32, name_, operation_, when_, flags_, __VA_ARGS__)
#define CASE_OF(dtype_, name_, operation_, when_, flags_, ...)                                     \
  {                                                                                                \
    .name = name_, .operation = operation_, .dtype = COMPUTE_##dtype_, .when = BENCH_##when_,      \
    .run = bench_run_operation, .flags = flags_, .size = {                                         \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }
#define WINOGRAD COMPUTE_PLAN_ALLOW_WINOGRAD

/* n, c, h, w, o, kernel, stride, padding */
#define CONV_128  32, 64, 128, 128, 128, 3, 1, 1
#define CONV_56   8, 64, 56, 56, 64, 3, 1, 1
#define CONV_64   1, 32, 64, 64, 64, 3, 1, 1
#define POINT_56  8, 64, 56, 56, 256, 1, 1, 0
#define FIRST_224 8, 3, 224, 224, 64, 7, 2, 3
#define DEPTH_1   8, 128, 56, 56, 128, 3, 1, 1, 1, 128
#define DEPTH_2   8, 128, 56, 56, 128, 3, 2, 1, 1, 128

#define CAUSAL 1 /* after batch, heads, queries and width of attention */

/* clang-format off */
static const bench_case conv[] = {
    CASE("conv3x3_128",            "conv",           FULL,   0, CONV_128),
    CASE("conv3x3_128_wino",       "conv",           FULL,   WINOGRAD, CONV_128),
    CASE("conv3x3_128_bn_relu",    "conv_bn_relu",   FULL,   0, CONV_128),
    CASE("conv3x3_128_bn_wino",    "conv_bn_relu",   FULL,   WINOGRAD, CONV_128),
    CASE("conv3x3_128_by_data",    "conv_by_data",   FULL,   0, CONV_128),
    CASE("conv3x3_128_by_data_wino", "conv_by_data", FULL,   WINOGRAD, CONV_128),
    CASE("conv3x3_128_by_filter",  "conv_by_filter", FULL,   0, CONV_128),
    CASE("conv3x3_128_by_filter_wino", "conv_by_filter", FULL, WINOGRAD, CONV_128),
    CASE("conv3x3_128_tf32",       "conv",           GPU,    COMPUTE_PLAN_ALLOW_TF32, CONV_128),
    CASE_OF(BF16, "conv3x3_128_bf16", "conv",        GPU,    0, CONV_128),
    CASE_OF(BF16, "conv1x1_56_bf16", "conv",         GPU,    0, POINT_56),
    CASE("conv3x3_56",             "conv",           ALWAYS, 0, CONV_56),
    CASE("conv3x3_56_wino",        "conv",           FULL, WINOGRAD, CONV_56),
    CASE("conv3x3_56_bn_relu",     "conv_bn_relu",   FULL, 0, CONV_56),
    CASE("conv3x3_56_bn_wino",     "conv_bn_relu",   FULL,   WINOGRAD, CONV_56),
    CASE("conv3x3_56_by_data",     "conv_by_data",   FULL,   0, CONV_56),
    CASE("conv3x3_56_by_data_wino", "conv_by_data",  FULL,   WINOGRAD, CONV_56),
    CASE("conv3x3_56_by_filter",   "conv_by_filter", FULL,   0, CONV_56),
    CASE("conv3x3_56_by_filter_wino", "conv_by_filter", FULL, WINOGRAD, CONV_56),
    CASE("conv3x3_64",             "conv",           ALWAYS, 0, CONV_64),
    CASE("conv3x3_64_wino",        "conv",           ALWAYS,   WINOGRAD, CONV_64),
    CASE("conv3x3_64_bn_relu",     "conv_bn_relu",   ALWAYS,   0, CONV_64),
    CASE("conv3x3_64_bn_wino",     "conv_bn_relu",   FULL,   WINOGRAD, CONV_64),
    CASE("conv3x3_64_by_data",     "conv_by_data",   ALWAYS, 0, CONV_64),
    CASE("conv3x3_64_by_data_wino", "conv_by_data",  FULL,   WINOGRAD, CONV_64),
    CASE("conv3x3_64_by_filter",   "conv_by_filter", ALWAYS, 0, CONV_64),
    CASE("conv3x3_64_by_filter_wino", "conv_by_filter", FULL, WINOGRAD, CONV_64),
    CASE("conv1x1_56",             "conv",           ALWAYS, 0, POINT_56),
    CASE("conv1x1_56_bn_relu",     "conv_bn_relu",   FULL,   0, POINT_56),
    CASE("conv7x7_224",            "conv",           FULL, 0, FIRST_224),
    CASE("conv7x7_224_bn_relu",    "conv_bn_relu",   FULL,   0, FIRST_224),
    CASE("depthwise_56",           "conv",           ALWAYS, 0, DEPTH_1),
    CASE("depthwise_56_bn_relu",   "conv_bn_relu",   FULL,   0, DEPTH_1),
    CASE("depthwise_56_by_data",   "conv_by_data",   FULL,   0, DEPTH_1),
    CASE("depthwise_56_by_filter", "conv_by_filter", FULL,   0, DEPTH_1),
    CASE("depthwise_56_stride2",   "conv",           FULL,   0, DEPTH_2),
    CASE("depthwise_s2_by_data",   "conv_by_data",   FULL,   0, DEPTH_2),
    CASE("depthwise_s2_by_filter", "conv_by_filter", FULL,   0, DEPTH_2),
    CASE("dilated_56",             "conv",           FULL,   0, 8, 64, 56, 56, 64, 3, 1, 2, 2),
    CASE("grouped_56",             "conv",           FULL,   0, 8, 64, 56, 56, 64, 3, 1, 1, 1, 4),
    CASE("transposed_56",          "conv_transpose", FULL,   0, 8, 64, 56, 56, 64, 4, 2, 1),
    CASE("transposed_28",          "conv_transpose", QUICK,  0, 1, 32, 28, 28, 32, 4, 2, 1),
};
/* n, c, h, w, -, size, stride, padding */
#define LARGE 32, 128, 128, 128, 0
#define SMALL 8, 64, 56, 56, 0
#define STEM  8, 64, 112, 112, 0
#define TINY  32, 512, 14, 14, 0

static const bench_case pool[] = {
    CASE("max_pool_2x2",            "max_pool",              FULL,   0, LARGE, 2, 2, 0),
    CASE("average_pool_2x2",        "average_pool",          FULL,   0, LARGE, 2, 2, 0),
    CASE("max_pool_2x2_small",      "max_pool",              QUICK,  0, SMALL, 2, 2, 0),
    CASE("average_pool_2x2_small",  "average_pool",          QUICK,  0, SMALL, 2, 2, 0),
    CASE("max_pool_small_back",     "max_pool_backward",     QUICK,  0, SMALL, 3, 2, 1),
    CASE("average_pool_small_back", "average_pool_backward", QUICK,  0, SMALL, 3, 2, 1),
    CASE("max_pool_3x3",            "max_pool",              ALWAYS, 0, STEM, 3, 2, 1),
    CASE("average_pool_3x3",        "average_pool",          FULL,   0, STEM, 3, 2, 1),
    CASE("max_pool_2x2_back",       "max_pool_backward",     FULL,   0, LARGE, 2, 2, 0),
    CASE("average_pool_2x2_back",   "average_pool_backward", FULL,   0, LARGE, 2, 2, 0),
    CASE("max_pool_3x3_back",       "max_pool_backward",     FULL, 0, STEM, 3, 2, 1),
    CASE("average_pool_3x3_back",   "average_pool_backward", FULL, 0, STEM, 3, 2, 1),
    CASE("max_pool_14_back",        "max_pool_backward",     FULL, 0, TINY, 3, 2, 1),
    CASE("average_pool_14_back",    "average_pool_backward", FULL, 0, TINY, 3, 2, 1),
    CASE("global_average",          "global_average_pool",   FULL,   0, LARGE),
    CASE("global_average_small",    "global_average_pool",   ALWAYS, 0, 32, 512, 7, 7),
    CASE("global_max",              "global_max_pool",       FULL,   0, LARGE),
};

static const bench_case norm[] = {
    CASE("batch_norm_32",           "batch_norm",       ALWAYS, 0, 32, 64, 32, 32),
    CASE("batch_norm_train_32",     "batch_norm_train", ALWAYS, 0, 32, 64, 32, 32),
    CASE("batch_norm_train_14",     "batch_norm_train", FULL,   0, 128, 64, 14, 14),
    CASE("layer_norm_rows",         "layer_norm",       FULL,   0, 4096, 4096),
    CASE("layer_norm_train_1024",   "layer_norm_train", ALWAYS, 0, 1024, 1024),
    CASE("layer_norm_train_4096",   "layer_norm_train", FULL,   0, 4096, 4096),
    CASE("softmax_1000",            "softmax",          FULL, 0, 1000, 1000),
    CASE("cross_entropy_128x10",    "cross_entropy",    ALWAYS, 0, 128, 10),
    CASE("cross_entropy_4096x1000", "cross_entropy",    FULL,   0, 4096, 1000),
    CASE("attention_8x8x128x64",    "attention",        ALWAYS, 0, 8, 8, 128, 64),
    CASE("attention_8x8x512x64",    "attention",        FULL,   0, 8, 8, 512, 64),
    CASE("attention_causal_1x12x1024x64", "attention", GPU, 0, 1, 12, 1024, 64, CAUSAL),
    CASE_OF(BF16, "attention_8x8x512x64_bf16", "attention", GPU, 0, 8, 8, 512, 64),
    CASE_OF(BF16, "attention_causal_1x12x1024x64_bf16", "attention", GPU, 0, 1, 12, 1024, 64, CAUSAL),
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof *(array))

const bench_suite bench_suite_conv = {"conv", "convolutions and their gradients", conv,
                                      COUNT(conv)};
const bench_suite bench_suite_pool = {"pool", "pooling and its gradients", pool, COUNT(pool)};
const bench_suite bench_suite_norm = {
    "norm", "batch norm, layer norm, softmax, cross-entropy, attention", norm, COUNT(norm)};
