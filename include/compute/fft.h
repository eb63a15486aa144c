/* SPDX-License-Identifier: MIT */
/** @file
 * Fourier transforms, and the operations that they make fast.
 *
 * A complex tensor has one more axis, the last, of size 2: the real and the imaginary part. `axis`
 * and `axes` count without it: of a complex tensor [8, 100, 2], axis 1, or −1, has 100 points. Any
 * length up to 2^22 is allowed. x may have any float dtype; f16 and bf16 are transformed in f32.
 *
 * Functions named compute_tensor_… run at once (compute/eager.h). Builders follow the rules of
 * compute/graph.h, and all have gradients: for the real and the imaginary parts as separate real
 * numbers. */
#ifndef COMPUTE_FFT_H
#define COMPUTE_FFT_H

#include "compute/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The factor of a transform of n points. A transform and its inverse with the same name give the
 * original numbers. */
typedef enum compute_fft_norm {
  COMPUTE_FFT_BACKWARD = 0, /**< inverse transforms are divided by n */
  COMPUTE_FFT_ORTHO = 1,    /**< both are divided by √n */
  COMPUTE_FFT_FORWARD = 2   /**< forward transforms are divided by n */
} compute_fft_norm;

/* ---- Along one axis ------------------------------------------------------------------------ */

/** The transform of x [..., 2] along `axis`:
 * @code
 *   y[k] = sum over j of x[j] · exp(−2πi j k / n)      inverse: exp(+2πi j k / n)
 * @endcode
 * n is `length`, or the size of the axis if that is 0. A longer axis is cut, and zeros follow a
 * shorter one. COMPUTE_ERROR_SHAPE unless x is complex and 1 ≤ n ≤ 2^27, or 2^22 if n has a
 * prime factor above 31. */
COMPUTE_API compute_node compute_fft(compute_graph *graph, compute_node x, int64_t length,
                                     int32_t axis, compute_fft_norm norm);
COMPUTE_API compute_node compute_ifft(compute_graph *graph, compute_node x, int64_t length,
                                      int32_t axis, compute_fft_norm norm);

/** The transform of real x. The result has the first n / 2 + 1 points along `axis`, and one more
 * axis, for parts; the other points are their conjugates. */
COMPUTE_API compute_node compute_rfft(compute_graph *graph, compute_node x, int64_t length,
                                      int32_t axis, compute_fft_norm norm);

/** The inverse of compute_rfft: x [..., 2] has the first points of a spectrum whose other points
 * are their conjugates. The result is real, with n = `length` points along `axis`; 0: 2 (m − 1)
 * for an axis of m points. Imaginary parts of point 0, and of point n / 2 of an even n, count as
 * 0. */
COMPUTE_API compute_node compute_irfft(compute_graph *graph, compute_node x, int64_t length,
                                       int32_t axis, compute_fft_norm norm);

COMPUTE_API compute_status compute_tensor_fft(const compute_tensor *x, int64_t length, int32_t axis,
                                              compute_fft_norm norm, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_ifft(const compute_tensor *x, int64_t length,
                                               int32_t axis, compute_fft_norm norm,
                                               compute_tensor **result);
COMPUTE_API compute_status compute_tensor_rfft(const compute_tensor *x, int64_t length,
                                               int32_t axis, compute_fft_norm norm,
                                               compute_tensor **result);
COMPUTE_API compute_status compute_tensor_irfft(const compute_tensor *x, int64_t length,
                                                int32_t axis, compute_fft_norm norm,
                                                compute_tensor **result);

/* ---- Along several axes -------------------------------------------------------------------- */

/** The same along 1 to 3 different axes, or along all of up to three (COMPUTE_ALL_AXES). Real
 * transforms halve the last axis of the list; `length` of irfftn is its length. */
COMPUTE_API compute_node compute_fftn(compute_graph *graph, compute_node x, compute_axes axes,
                                      compute_fft_norm norm);
COMPUTE_API compute_node compute_ifftn(compute_graph *graph, compute_node x, compute_axes axes,
                                       compute_fft_norm norm);
COMPUTE_API compute_node compute_rfftn(compute_graph *graph, compute_node x, compute_axes axes,
                                       compute_fft_norm norm);
COMPUTE_API compute_node compute_irfftn(compute_graph *graph, compute_node x, int64_t length,
                                        compute_axes axes, compute_fft_norm norm);

COMPUTE_API compute_status compute_tensor_fftn(const compute_tensor *x, compute_axes axes,
                                               compute_fft_norm norm, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_ifftn(const compute_tensor *x, compute_axes axes,
                                                compute_fft_norm norm, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_rfftn(const compute_tensor *x, compute_axes axes,
                                                compute_fft_norm norm, compute_tensor **result);
COMPUTE_API compute_status compute_tensor_irfftn(const compute_tensor *x, int64_t length,
                                                 compute_axes axes, compute_fft_norm norm,
                                                 compute_tensor **result);

/* ---- What transforms make fast ------------------------------------------------------------- */

/** The products of two complex tensors [..., 2], broadcast against each other. */
COMPUTE_API compute_node compute_complex_mul(compute_graph *graph, compute_node a, compute_node b);

/** Moves point 0 of each axis to its middle, number n / 2; and back. x has any dtype. Here `axes`
 * count every axis of the tensor: leave out the last one if it has the parts of complex numbers. */
COMPUTE_API compute_node compute_fftshift(compute_graph *graph, compute_node x, compute_axes axes);
COMPUTE_API compute_node compute_ifftshift(compute_graph *graph, compute_node x, compute_axes axes);

/** The convolution of real a and b along `axis`, with n + m − 1 points for n and m:
 * y[k] = sum over j of a[j] · b[k − j]. The other axes broadcast. The correlation is
 * y[k] = sum over j of a[j + k − m + 1] · b[j]. Errors are relative to the largest results of a
 * line, not to each. COMPUTE_ERROR_SHAPE if n or m is 0. */
COMPUTE_API compute_node compute_fft_convolve(compute_graph *graph, compute_node a, compute_node b,
                                              int32_t axis);
COMPUTE_API compute_node compute_fft_correlate(compute_graph *graph, compute_node a, compute_node b,
                                               int32_t axis);

typedef enum compute_fft_window_shape {
  COMPUTE_FFT_WINDOW_HANN = 0,     /**< 0.5 − 0.5 cos t */
  COMPUTE_FFT_WINDOW_HAMMING = 1,  /**< 0.54 − 0.46 cos t */
  COMPUTE_FFT_WINDOW_BLACKMAN = 2, /**< 0.42 − 0.5 cos t + 0.08 cos 2t */
  COMPUTE_FFT_WINDOW_BOX = 3       /**< 1 */
} compute_fft_window_shape;

/** A window of `length` ≥ 1 elements: t = 2π i / length. This is the periodic form, for spectra. */
COMPUTE_API compute_node compute_fft_window(compute_graph *graph, compute_dtype dtype,
                                            compute_fft_window_shape window, int64_t length);

/** The spectra of overlapping frames of real x [..., samples]: result [..., frames, length / 2 + 1,
 * 2], where `length` is the size of `window`, and frames is (samples − length) / hop + 1. Frame i
 * has the samples i · hop …, times the window. The caller pads x. COMPUTE_ERROR_SHAPE if x is
 * shorter than a frame; COMPUTE_ERROR_INVALID_ARGUMENT for a hop below 1. */
COMPUTE_API compute_node compute_stft(compute_graph *graph, compute_node x, compute_node window,
                                      int64_t hop);

/** The inverse: adds the frames up and divides by the sum of the squares of the windows; where that
 * is 0, the result is 0. Result [..., (frames − 1) · hop + length], for frames of the window's
 * length. */
COMPUTE_API compute_node compute_istft(compute_graph *graph, compute_node spectra,
                                       compute_node window, int64_t hop);

/** The discrete cosine transform along `axis` of real x, `type` 2 or 3:
 * @code
 *   type 2   y[k] = 2 · sum over j of x[j] · cos(π k (2j + 1) / (2n))
 *   type 3   y[k] = x[0] + 2 · sum over j ≥ 1 of x[j] · cos(π j (2k + 1) / (2n))
 * @endcode
 * COMPUTE_FFT_FORWARD divides by 2n, which makes one type the inverse of the other.
 * COMPUTE_FFT_ORTHO makes both orthogonal. COMPUTE_ERROR_INVALID_ARGUMENT for other types. */
COMPUTE_API compute_node compute_dct(compute_graph *graph, compute_node x, int32_t type,
                                     int32_t axis, compute_fft_norm norm);

#ifdef __cplusplus
}
#endif

#endif
