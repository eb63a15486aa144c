/* SPDX-License-Identifier: MIT */
/* Mean and variance of a pixel's deviance 2 [d ln(d / mu) − d + mu] for a correct fit, as functions
 * of the pixel's mean mu. The corrected p-value compares a fit's deviance with them. Plain macros,
 * for C and for kernels in the dialect.
 *
 * POISSON: d is Poisson with mean mu. GAMMA: d is the output of an electron multiplier, the sum of
 * a Poisson(mu) number of exponential values of mean 1 (so it is 0 with probability exp(−mu)). As
 * mu grows, mean and variance tend to 1 and 2, and to 2 and 8.
 *
 * Mean and variance are rational functions with a common denominator. Linear programming minimised
 * the largest relative error against sums in 60 digits. The relative errors of mean and variance,
 * including all rounding to f32, are
 *
 *   for mu ≥ 0.03           POISSON 2.8e-4 and 4.8e-4, GAMMA 1.5e-4 and 2.9e-4
 *   for mu from 0.001       below 1.4e-3 and 2.9e-3, 5.4e-4 and 1.8e-3
 *
 * Below 0.001 the functions stay positive. Limit mu to FIT_MOMENTS_LARGEST: beyond it nothing
 * changes, but powers overflow.
 *
 *   x = min(mu, FIT_MOMENTS_LARGEST)
 *   r = 1 / FIT_POISSON_BELOW(FMA, NUMBER, x)
 *   mean = FIT_POISSON_MEAN(FMA, NUMBER, x) * r,  variance = FIT_POISSON_VARIANCE(…) * r
 *
 * FMA(a, b, c) is a · b + c, rounded once or twice; NUMBER(c) converts a literal for FMA.
 *
 * A fit with K free parameters reduces the sum of the means by K · FIT_POISSON_PER_PARAMETER, and
 * the sum of the variances by 2 K times the square of FIT_POISSON_PER_PARAMETER. For GAMMA the
 * squared residuals are twice as large, so the factor is 2.
 *
 * With little light the mean depends strongly on mu, and mu is itself fitted, above all its
 * background. Let slope and curvature be the sums over all pixels of the first and second
 * derivative of the mean by mu, and s² the variance of the fitted background (0 if it is fixed). At
 * the fitted mu, the sum of the means is then on average curvature · s² / 2 larger than at the true
 * mu. It also moves together with the deviance, so only variance − slope² · s² of the variance
 * remains between them:
 *
 *   r = 1 / FIT_POISSON_SLOPE_BELOW(FMA, NUMBER, x)
 *   slope = FIT_POISSON_SLOPE(FMA, NUMBER, x) * r,  curvature = FIT_POISSON_CURVATURE(…) * r
 *   mean -= curvature * s² / 2,  variance -= slope² * s²
 *
 * From a background of FIT_MOMENTS_FAINT on these terms are negligible. For mu from 0.01 to 40 the
 * error of the slope is 0.007 / mu^0.5 for mu < 1 and 0.007 / mu^1.5 above. The error of the
 * curvature is 0.01 / mu and 0.01 / mu^2.5. Each has a further 0.7 %. Beyond, both are below
 * 2e-4. */
//@ fit_moments
#ifndef KERNELS_FIT_MOMENTS_H
#define KERNELS_FIT_MOMENTS_H

#define FIT_MOMENTS_LARGEST       3000.0f
#define FIT_POISSON_PER_PARAMETER 1.0f
#define FIT_GAMMA_PER_PARAMETER   2.0f
#define FIT_MOMENTS_FAINT         8.0f

/* c0 + c1 x + … */
#define FIT_MOMENTS_THREE(FMA, NUMBER, x, c0, c1, c2, c3)                                          \
  FMA(FMA(FMA(NUMBER(c3), x, NUMBER(c2)), x, NUMBER(c1)), x, NUMBER(c0))
#define FIT_MOMENTS_FOUR(FMA, NUMBER, x, c0, c1, c2, c3, c4)                                       \
  FMA(FIT_MOMENTS_THREE(FMA, NUMBER, x, c1, c2, c3, c4), x, NUMBER(c0))
#define FIT_MOMENTS_SIX(FMA, NUMBER, x, c0, c1, c2, c3, c4, c5, c6)                                \
  FMA(FMA(FIT_MOMENTS_FOUR(FMA, NUMBER, x, c2, c3, c4, c5, c6), x, NUMBER(c1)), x, NUMBER(c0))
#define FIT_MOMENTS_SEVEN(FMA, NUMBER, x, c0, c1, c2, c3, c4, c5, c6, c7)                          \
  FMA(FMA(FMA(FMA(FMA(FMA(FMA(NUMBER(c7), x, NUMBER(c6)), x, NUMBER(c5)), x, NUMBER(c4)), x,       \
                  NUMBER(c3)),                                                                     \
              x, NUMBER(c2)),                                                                      \
          x, NUMBER(c1)),                                                                          \
      x, NUMBER(c0))
#define FIT_MOMENTS_EIGHT(FMA, NUMBER, x, c0, c1, c2, c3, c4, c5, c6, c7, c8)                      \
  FMA(FIT_MOMENTS_SEVEN(FMA, NUMBER, x, c1, c2, c3, c4, c5, c6, c7, c8), x, NUMBER(c0))

#define FIT_POISSON_MEAN(FMA, NUMBER, x)                                                           \
  FIT_MOMENTS_EIGHT(FMA, NUMBER, x, 1.806377e-07f, 0.0022632551f, 0.49825283f, 10.953517f,         \
                    37.067013f, 9.5803564f, 11.449833f, -2.0334596f, 1.0002296f)
#define FIT_POISSON_VARIANCE(FMA, NUMBER, x)                                                       \
  FIT_MOMENTS_EIGHT(FMA, NUMBER, x, 5.0947506e-06f, 0.022400688f, 2.3571863f, 12.510223f,          \
                    -29.090207f, 80.142185f, 17.141114f, -3.5264404f, 1.9990582f)
#define FIT_POISSON_BELOW(FMA, NUMBER, x)                                                          \
  FIT_MOMENTS_EIGHT(FMA, NUMBER, x, 0.00015797071f, 0.053579908f, 2.0253351f, 13.775301f,          \
                    24.922993f, 8.5807362f, 11.569491f, -2.1903465f, 1.0f)

#define FIT_POISSON_SLOPE(FMA, NUMBER, x)                                                          \
  FIT_MOMENTS_FOUR(FMA, NUMBER, x, 0.030735398f, 5.7555577f, -3.6860871f, -0.27290801f,            \
                   -0.11671308f)
#define FIT_POISSON_CURVATURE(FMA, NUMBER, x)                                                      \
  FIT_MOMENTS_FOUR(FMA, NUMBER, x, -2.208397f, -12.194175f, 6.4096423f, -0.17555265f, 0.0095375083f)
#define FIT_POISSON_SLOPE_BELOW(FMA, NUMBER, x)                                                    \
  FIT_MOMENTS_SIX(FMA, NUMBER, x, 0.00078756538f, 1.0268248f, 8.9698282f, 1.1768184f, 9.4616516f,  \
                  -3.1528633f, 1.0f)

#define FIT_GAMMA_MEAN(FMA, NUMBER, x)                                                             \
  FIT_MOMENTS_SEVEN(FMA, NUMBER, x, 8.2736353e-08f, 0.0013417361f, 0.32218516f, 7.5817891f,        \
                    21.774583f, 12.061943f, 1.0721186f, 1.9997143f)
#define FIT_GAMMA_VARIANCE(FMA, NUMBER, x)                                                         \
  FIT_MOMENTS_SEVEN(FMA, NUMBER, x, 5.9154724e-06f, 0.03420805f, 4.8979842f, 53.600547f,           \
                    19.424589f, 53.334709f, 1.2343038f, 8.0023027f)
#define FIT_GAMMA_BELOW(FMA, NUMBER, x)                                                            \
  FIT_MOMENTS_SEVEN(FMA, NUMBER, x, 8.6847869e-05f, 0.031601208f, 1.2146766f, 7.4005012f,          \
                    10.018624f, 6.1237769f, 0.52876458f, 1.0f)

#define FIT_GAMMA_SLOPE(FMA, NUMBER, x)                                                            \
  FIT_MOMENTS_THREE(FMA, NUMBER, x, 0.024554448f, 5.2914201f, 1.5330544f, -0.34713415f)
#define FIT_GAMMA_CURVATURE(FMA, NUMBER, x)                                                        \
  FIT_MOMENTS_THREE(FMA, NUMBER, x, -1.7544319f, -10.17319f, 0.73369624f, 0.024172743f)
#define FIT_GAMMA_SLOPE_BELOW(FMA, NUMBER, x)                                                      \
  FIT_MOMENTS_SIX(FMA, NUMBER, x, 0.00059412418f, 0.81791388f, 7.0448505f, 0.49780238f,            \
                  8.8900454f, -3.147265f, 1.0f)

#endif
