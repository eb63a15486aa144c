/* SPDX-License-Identifier: MIT */
/* Inputs, initial weights and parts of networks in common with values.cpp, and the file of
 * PyTorch's values. */
#ifndef TORCH_PATTERN_H
#define TORCH_PATTERN_H

#include "support/harness/test.h"

double torch_pattern(int64_t index, int64_t salt);

/* Tensors of the pattern (f64, times scale plus shift) and of labels (i64). */
compute_tensor *torch_numbers(compute_shape shape, int64_t salt, double scale, double shift);
compute_tensor *torch_labels(compute_shape shape, int64_t salt, int64_t classes);

/* Fills every parameter with the pattern of values.cpp. */
void torch_fill(const compute_layer *layer, double scale);

/* Opens the file: COMPUTE_TORCH_VALUES, or the file in the tree. */
int torch_open(void **state);
int torch_close(void **state);

/* Elements of the file's tensor with this name (printf format). Marks the tensor as seen. */
const double *torch_expected(compute_shape shape, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Fails unless all elements equal the file's, up to `tolerance` times the largest element. */
void torch_compare(const compute_tensor *actual, double tolerance, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fails if a tensor of the file has not been seen, among the tensors of training or
 * among the others. */
void torch_fail_unseen(bool training);

/* A convolution in f64 unless the options override it, and the residual parts of networks. */
compute_layer *torch_conv(int64_t inputs, int64_t outputs, int64_t kernel,
                          compute_conv2d_layer_options options);
compute_layer *torch_residual(compute_dtype dtype, bool shortcut);

#endif
