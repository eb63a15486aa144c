/* SPDX-License-Identifier: MIT */
/* Inputs, first weights and parts of networks that values.cpp has as well, and the file of
 * PyTorch's values. */
#ifndef TORCH_PATTERN_H
#define TORCH_PATTERN_H

#include "support/harness/test.h"

double torch_pattern(int64_t index, int64_t salt);

/* Tensors of the pattern (f64, times scale plus shift) and of labels (i64). */
compute_tensor *torch_numbers(compute_shape shape, int64_t salt, double scale, double shift);
compute_tensor *torch_labels(compute_shape shape, int64_t salt, int64_t classes);

/* Gives every parameter the pattern that values.cpp gives it. */
void torch_fill(const compute_layer *layer, double scale);

/* Opens the file: COMPUTE_TORCH_VALUES, or that of the tree. */
int torch_open(void **state);
int torch_close(void **state);

/* Elements of the file's tensor of this name (printf format), which counts as seen then. */
const double *torch_expected(compute_shape shape, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Fails unless all elements are those of the file up to `tolerance` times the largest of them. */
void torch_compare(const compute_tensor *actual, double tolerance, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fails if a tensor of the file has not been looked at, of those of training or of the others. */
void torch_fail_unseen(bool training);

/* A convolution of f64 unless the options say otherwise, and the residual parts of networks. */
compute_layer *torch_conv(int64_t inputs, int64_t outputs, int64_t kernel,
                          compute_conv2d_layer_options options);
compute_layer *torch_residual(compute_dtype dtype, bool shortcut);

#endif
