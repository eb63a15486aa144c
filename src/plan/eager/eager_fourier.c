/* SPDX-License-Identifier: MIT */
/* Eager calls of Fourier transforms. */
#include "compute/fft.h"
#include "plan/eager/eager.h"

/* One axis: length, axis, norm. */
#define ALONG_AXIS(name)                                                                           \
  EAGER_BUILD(name, compute_##name(graph, x[0], call->integer[0], call->axis,                      \
                                   (compute_fft_norm)call->integer[1]))                            \
  compute_status compute_tensor_##name(const compute_tensor *x, int64_t length, int32_t axis,      \
                                       compute_fft_norm norm, compute_tensor **result) {           \
    return EAGER_CALL(name, EAGER_OPERANDS(x), .axis = axis, .integer = {length, (int64_t)norm});  \
  }
ALONG_AXIS(fft)
ALONG_AXIS(ifft)
ALONG_AXIS(rfft)
ALONG_AXIS(irfft)

#define ALONG_AXES(name)                                                                           \
  EAGER_BUILD(name, compute_##name(graph, x[0], call->axes, (compute_fft_norm)call->integer[0]))   \
  compute_status compute_tensor_##name(const compute_tensor *x, compute_axes axes,                 \
                                       compute_fft_norm norm, compute_tensor **result) {           \
    return EAGER_CALL(name, EAGER_OPERANDS(x), .axes = axes, .integer = {(int64_t)norm});          \
  }
ALONG_AXES(fftn)
ALONG_AXES(ifftn)
ALONG_AXES(rfftn)

EAGER_BUILD(irfftn, compute_irfftn(graph, x[0], call->integer[0], call->axes,
                                   (compute_fft_norm)call->integer[1]))

compute_status compute_tensor_irfftn(const compute_tensor *x, int64_t length, compute_axes axes,
                                     compute_fft_norm norm, compute_tensor **result) {
  return EAGER_CALL(irfftn, EAGER_OPERANDS(x), .axes = axes, .integer = {length, (int64_t)norm});
}
