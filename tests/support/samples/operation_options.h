/* SPDX-License-Identifier: MIT */
/* Words of tests/operations.def for the options of builders. */
#ifndef SUPPORT_OPERATION_OPTIONS_H
#define SUPPORT_OPERATION_OPTIONS_H

#include "compute/fit.h"
#include "compute/graph_nn.h"
#include "compute/spots.h"

#define CONV(...)      (&(compute_conv2d_options){__VA_ARGS__})
#define CONV3(...)     (&(compute_conv3d_options){__VA_ARGS__})
#define POOL(...)      (&(compute_pool2d_options){__VA_ARGS__})
#define POOL3(...)     (&(compute_pool3d_options){__VA_ARGS__})
#define ATTENTION(...) (&(compute_attention_options){__VA_ARGS__})
#define RECURRENT(...) (&(compute_recurrent_options){__VA_ARGS__})
#define QUANTIZED(...) (&(compute_quantized_options){__VA_ARGS__})
#define SPOTS(...)     (&(compute_spot_options){__VA_ARGS__})
#define FIT(...)       (&(compute_fit_problem){.model = COMPUTE_FIT_XYNB, __VA_ARGS__})

/* An operand that is left out. */
static const compute_node none;

#endif
