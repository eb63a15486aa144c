/* SPDX-License-Identifier: MIT */
/* Constants for pixels of COMPUTE_FIT_READOUT. k of a pixel's d electrons come from light, Poisson
 * with mean m; the rest is Gaussian with variance v. Plain macros, for C and for kernels in the
 * dialect.
 *
 * The Fisher information of a pixel about m is the integral of (dp/dm)² / p over d. It is 1 / ((m +
 * v) EXCESS). EXCESS tends to 1 if m or v is large, and is less if single electrons can be
 * distinguished. It is a polynomial in x and z, fitted by weighted least squares for the smallest
 * largest relative error against integrals in double precision: 0.51 % for v from FIT_READOUT_LEAST
 * to 4000 and m from 0.001.
 *
 *   x = 2 sqrt(m / (m + v)) − 1,  z = FIT_READOUT_SCALE / (v + FIT_READOUT_HALF) − 1
 *
 * FMA(a, b, c) is a · b + c, rounded once or twice; NUMBER(c) converts a literal for FMA. */
//@ fit_readout
#ifndef KERNELS_FIT_READOUT_H
#define KERNELS_FIT_READOUT_H

/* Smaller variances count as this one: the readout then distinguishes the electrons in any case. */
#define FIT_READOUT_LEAST 0.05f
/* Below, sums over k replace the saddle-point approximation. */
#define FIT_READOUT_SMOOTH 6.0f
/* The reach of these sums, in standard deviations of the readout noise. */
#define FIT_READOUT_REACH 5.0f

#define FIT_READOUT_HALF  0.3f
#define FIT_READOUT_SCALE 0.7f

/* c0 + c1 z + … */
#define FIT_READOUT_ROW(FMA, NUMBER, z, c0, c1, c2, c3, c4, c5)                                    \
  FMA(FMA(FMA(FMA(FMA(NUMBER(c5), z, NUMBER(c4)), z, NUMBER(c3)), z, NUMBER(c2)), z, NUMBER(c1)),  \
      z, NUMBER(c0))
#define FIT_READOUT_ROW_0(FMA, NUMBER, z)                                                          \
  FIT_READOUT_ROW(FMA, NUMBER, z, 0.6760055f, -0.359596f, -0.07246426f, -0.04757503f, 0.03716867f, \
                  0.04751633f)
#define FIT_READOUT_ROW_1(FMA, NUMBER, z)                                                          \
  FIT_READOUT_ROW(FMA, NUMBER, z, 0.5037925f, 0.4285834f, -0.2122882f, -0.3892701f, -0.03531184f,  \
                  0.2400802f)
#define FIT_READOUT_ROW_2(FMA, NUMBER, z)                                                          \
  FIT_READOUT_ROW(FMA, NUMBER, z, -0.04561239f, 0.1922006f, 0.3186014f, -0.06329421f, -0.1540174f, \
                  -0.005532954f)
#define FIT_READOUT_ROW_3(FMA, NUMBER, z)                                                          \
  FIT_READOUT_ROW(FMA, NUMBER, z, -0.05100529f, -0.2337783f, -0.1128228f, 0.9434065f, 0.1823907f,  \
                  -0.7662914f)
#define FIT_READOUT_ROW_4(FMA, NUMBER, z)                                                          \
  FIT_READOUT_ROW(FMA, NUMBER, z, -0.02461009f, -0.165119f, -0.01138042f, 0.2614011f, 0.0234333f,  \
                  -0.109523f)
#define FIT_READOUT_ROW_5(FMA, NUMBER, z)                                                          \
  FIT_READOUT_ROW(FMA, NUMBER, z, -0.06244418f, 0.1512022f, 0.1212819f, -0.749079f, -0.08079115f,  \
                  0.62979f)
#define FIT_READOUT_EXCESS(FMA, NUMBER, x, z)                                                      \
  FMA(FMA(FMA(FMA(FMA(FIT_READOUT_ROW_5(FMA, NUMBER, z), x, FIT_READOUT_ROW_4(FMA, NUMBER, z)), x, \
                  FIT_READOUT_ROW_3(FMA, NUMBER, z)),                                              \
              x, FIT_READOUT_ROW_2(FMA, NUMBER, z)),                                               \
          x, FIT_READOUT_ROW_1(FMA, NUMBER, z)),                                                   \
      x, FIT_READOUT_ROW_0(FMA, NUMBER, z))

#endif
