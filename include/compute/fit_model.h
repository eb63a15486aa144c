/* SPDX-License-Identifier: MIT */
/** @file
 * The definition of a batched Gaussian fit: models, cameras, solvers, outputs, and their layout.
 * Used by compute/fit.h, by the graph's gaussian_fit and by backends (kernel kind FIT).
 *
 * Conventions. The pixel in row i and column j has its centre at y = i, x = j, counted from 0, and
 * extends half a pixel to each side. Lengths are in pixels, z in micrometres, N (photons of the
 * whole spot) and bg (photons per pixel) in photo-electrons. A fitted position is relative to the
 * centre of the ROI's first pixel; add the ROI's corner for the position in the frame.
 *
 * The expected image is mu = bg + N · Ex · Ey, where Ex and Ey are the Gaussian integrated over the
 * pixel's width and height (or its density at the pixel's centre: COMPUTE_FIT_SAMPLED); or mu = bg
 * + N · f for a measured spot f (COMPUTE_FIT_SPLINE). */
#ifndef COMPUTE_FIT_MODEL_H
#define COMPUTE_FIT_MODEL_H

#include "compute/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Parameters in their order in every array. */
typedef enum compute_fit_model {
  COMPUTE_FIT_XYNB = 0,     /**< x, y, N, bg; the widths are given */
  COMPUTE_FIT_XYNBS = 1,    /**< x, y, N, bg, sigma */
  COMPUTE_FIT_XYNBSXSY = 2, /**< x, y, N, bg, sigma_x, sigma_y */
  /** x, y, z, N, bg. Widths are sigma · sqrt(1 + t² + A t³ + B t⁴) with t = (z − gamma)/depth for x
   * and (z + gamma)/depth for y, with A, B and sigma of each axis. */
  COMPUTE_FIT_XYZNB = 3,
  /** x, y, z, N, bg, with a measured spot as a cubic spline in three dimensions instead of a
   * Gaussian (below: "Splines"). For every camera; not for COMPUTE_FIT_SAMPLED and
   * COMPUTE_FIT_NEWTON, which need a Gaussian. */
  COMPUTE_FIT_SPLINE = 4
} compute_fit_model;

#define COMPUTE_FIT_MODEL_COUNT    5
#define COMPUTE_FIT_MAX_PARAMETERS 6
#define COMPUTE_FIT_MAX_SIDE       64 /**< rows and columns of an ROI */
#define COMPUTE_FIT_MAX_Z_STARTS   8

/** Number of parameters of a model; 0 for an unknown model. */
static inline int32_t compute_fit_parameter_count(compute_fit_model model) {
  switch (model) {
  case COMPUTE_FIT_XYNB: return 4;
  case COMPUTE_FIT_XYNBS: return 5;
  case COMPUTE_FIT_XYNBSXSY: return 6;
  case COMPUTE_FIT_XYZNB:
  case COMPUTE_FIT_SPLINE: return 5;
  }
  return 0;
}

/** Whether a model has z, which is then parameter 2. */
static inline bool compute_fit_has_z(compute_fit_model model) {
  return model == COMPUTE_FIT_XYZNB || model == COMPUTE_FIT_SPLINE;
}

typedef enum compute_fit_profile {
  COMPUTE_FIT_INTEGRATED = 0, /**< over each pixel, as a camera does */
  COMPUTE_FIT_SAMPLED = 1     /**< at pixel centres: for comparison with programs that do this */
} compute_fit_profile;

typedef enum compute_fit_solver {
  /** Maximum likelihood by Fisher scoring with the full information matrix. */
  COMPUTE_FIT_FISHER = 0,
  /** Maximum likelihood by Newton's method in each parameter separately (Smith et al. 2010): always
   * `iterations` steps. */
  COMPUTE_FIT_NEWTON = 1,
  /** Maximum likelihood by Levenberg–Marquardt (Laurence and Chromy 2010). */
  COMPUTE_FIT_LEVENBERG_MARQUARDT = 2,
  /** Unweighted least squares by Levenberg–Marquardt. Uncertainties are the Cramér–Rao bound at the
   * result, which this solver does not attain. */
  COMPUTE_FIT_LEAST_SQUARES = 3
} compute_fit_solver;

/** How pixel values become photo-electrons d, and their noise. gain is in electrons per count
 * (ADU). Offset and gain, and for sCMOS and readout the variance, may be maps. */
typedef enum compute_fit_camera {
  COMPUTE_FIT_IDEAL = 0, /**< d = value; Poisson */
  /** d = (value − offset) · gain / em_gain. The excess noise factor 2 multiplies variances (so
   * standard deviations grow by sqrt 2), and the goodness-of-fit test accounts for it. */
  COMPUTE_FIT_EMCCD = 1,
  /** d = (value − offset) · gain, and readout noise of `variance` electrons²: d + variance is
   * treated as Poisson with mean mu + variance. */
  COMPUTE_FIT_SCMOS = 2,
  /** The same camera, with the exact likelihood: the sum of a Poisson number of mean mu and of
   * Gaussian noise. For readout variances near the light or above it (qCMOS), where the
   * approximation is biased; several times as slow. Variances below 0.05 count as 0.05. Not for
   * COMPUTE_FIT_NEWTON.
   *
   * There is no log-likelihood ratio and no p-value, because its distribution is not known: name
   * the outputs without COMPUTE_FIT_RATIO, _P_RAW and _P_VALUE. The default outputs omit them for
   * this camera; compute_fit_column assumes the other cameras' default. */
  COMPUTE_FIT_READOUT = 3
} compute_fit_camera;

/** The outcome for one ROI. */
typedef enum compute_fit_status {
  COMPUTE_FIT_NOT_RUN = 0, /**< no fit: the initial value of outputs */
  COMPUTE_FIT_CONVERGED = 1,
  COMPUTE_FIT_MAX_ITERATIONS = 2, /**< the last step was still larger than required */
  /** Converged with a parameter at its bound. If that parameter alone makes the information
   * singular, its std is 0, and the others' std is given the bound (also after MAX_ITERATIONS). */
  COMPUTE_FIT_AT_BOUND = 3,
  COMPUTE_FIT_SINGULAR = 4, /**< the information matrix is singular; no uncertainties */
  COMPUTE_FIT_BAD_DATA = 5  /**< NaN, infinite, no light, corner outside, too few pixels */
} compute_fit_status;

#define COMPUTE_FIT_STATUS_COUNT 6

/* ---- Outputs -------------------------------------------------------------------------------
 *
 * One record of f32 for each ROI. Its columns are the requested outputs, in the order of the bits;
 * P is the model's number of parameters. Failed fits have NaN in every column but iterations and
 * status. */
enum {
  COMPUTE_FIT_PARAMETERS = 1 << 0, /**< P columns */
  COMPUTE_FIT_STD = 1 << 1,        /**< P: square roots of the Cramér–Rao bound; 0 if fixed */
  COMPUTE_FIT_COVARIANCE = 1 << 2, /**< P · P, row-major: inverse of the Fisher information */
  COMPUTE_FIT_RATIO = 1 << 3, /**< 1: log-likelihood ratio against the saturated model, ≤ 0 */
  /** 1: probability of a fit as bad as this one or worse, by chi-squared with as many degrees of
   * freedom as pixels less free parameters */
  COMPUTE_FIT_P_RAW = 1 << 4,
  /** 1: the same with the actual mean and variance of the ratio at these counts; uniform in [0, 1]
   * for good fits at any light level */
  COMPUTE_FIT_P_VALUE = 1 << 5,
  COMPUTE_FIT_ITERATIONS = 1 << 6, /**< 1: steps taken, as a number */
  COMPUTE_FIT_STATUS = 1 << 7,     /**< 1: compute_fit_status, as a number */
  /** 1: the significance of the spot over the background, in standard deviations, ≥ 0: the root of
   * twice the log-likelihood ratio (EMCCD: of the ratio itself) between the fit and an image with
   * only the background. That background is the most likely one within the background's bounds. */
  COMPUTE_FIT_SIGNIFICANCE = 1 << 8,
  COMPUTE_FIT_ALL_OUTPUTS = (1 << 9) - 1,
  /** The default outputs: all but the covariance, the raw p-value and the significance. */
  COMPUTE_FIT_USUAL_OUTPUTS = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STD | COMPUTE_FIT_RATIO |
                              COMPUTE_FIT_P_VALUE | COMPUTE_FIT_ITERATIONS | COMPUTE_FIT_STATUS
};

/* ---- Inputs that a fit may have besides the pixels ----------------------------------------- */
enum {
  /** i32 [n, 3]: frame, row and column of the ROI's first pixel. Without COMPUTE_FIT_STACK the
   * pixels are whole frames [frames, height, width]; with it they are still an ROI stack, and
   * corners give each ROI's position in the maps. */
  COMPUTE_FIT_WITH_CORNERS = 1 << 0,
  /** f32 maps, of the ROI's size, or of the frame's where there are corners. */
  COMPUTE_FIT_WITH_OFFSET = 1 << 1,
  COMPUTE_FIT_WITH_GAIN = 1 << 2,
  COMPUTE_FIT_WITH_VARIANCE = 1 << 3,
  COMPUTE_FIT_WITH_MASK = 1 << 4,  /**< u8, of a map's size: pixels where it is 0 are ignored */
  COMPUTE_FIT_WITH_SIGMA = 1 << 5, /**< f32 [n, 2]: sigma of each ROI, x and y */
  COMPUTE_FIT_WITH_START = 1 << 6, /**< f32 [n, P]: starting values; NaN: estimate this one */
  COMPUTE_FIT_WITH_LOWER = 1 << 7, /**< f32 [n, P]: bounds; NaN: the default */
  COMPUTE_FIT_WITH_UPPER = 1 << 8,
  /** f32 [planes · rows · columns, 64]: the coefficients of COMPUTE_FIT_SPLINE, which always has
   * this input and alone has it. */
  COMPUTE_FIT_WITH_SPLINE = 1 << 9,
  COMPUTE_FIT_WITH_ALL = (1 << 10) - 1
};

/* ---- Splines -------------------------------------------------------------------------------
 *
 * The spot of COMPUTE_FIT_SPLINE is given on a grid of nodes, a pixel apart in x and y and z_step
 * apart in z. f at a node is the share of N in a pixel whose centre is there. Between nodes f is a
 * cubic polynomial in each direction.
 *
 * Cells (the volumes between neighbouring nodes) are numbered [plane][row][column]. Each has 64
 * coefficients: number 16 k + 4 j + i belongs to z^k y^j x^i, where x, y and z run from 0 to 1
 * within the cell. compute_fit_spline_make computes coefficients from values.
 *
 * The spot's position is `spot` pixels right of and below the first node. An ROI has to stay inside
 * the spline wherever the spot is in it, so the spline needs some more rows and columns than the
 * ROI: x is limited from columns − 1 + spot[0] − (the spline's columns) to spot[0], y likewise.
 * Where f is negative, mu is still at least COMPUTE_FIT_LEAST_PHOTONS. */
#define COMPUTE_FIT_SPLINE_COEFFICIENTS 64
#define COMPUTE_FIT_MAX_PLANES          4096 /**< cells in z */
#define COMPUTE_FIT_MAX_CELLS           256  /**< cells in x, and in y */

/* ---- The problem ---------------------------------------------------------------------------
 *
 * Zero means the default for every field but model, rows, columns and sigma, XYZNB's depth, and the
 * fields of a spline. */
typedef struct compute_fit_problem {
  compute_fit_model model;
  compute_fit_profile profile;
  compute_fit_solver solver;
  compute_fit_camera camera;
  int32_t rows, columns; /**< of an ROI; 1 … COMPUTE_FIT_MAX_SIDE */
  int32_t iterations;    /**< largest number of steps; 0: 40, and 20 for COMPUTE_FIT_NEWTON */
  uint32_t outputs;      /**< COMPUTE_FIT_PARAMETERS …; 0: COMPUTE_FIT_USUAL_OUTPUTS */
  uint32_t inputs;       /**< COMPUTE_FIT_WITH_… */
  uint32_t flags;        /**< COMPUTE_FIT_STACK */
  /** A fit has converged when every parameter's next step is smaller than this times its standard
   * deviation. 0: 0.01 */
  double epsilon;

  /* Bit i refers to parameter i. */
  uint32_t fixed;     /**< stays at its starting value */
  uint32_t start_set; /**< start[i] is used; otherwise it is estimated from the pixels */
  uint32_t lower_set; /**< lower[i] applies, within the default bounds (below) */
  uint32_t upper_set; /**< upper[i] applies, likewise */
  double start[COMPUTE_FIT_MAX_PARAMETERS];
  double lower[COMPUTE_FIT_MAX_PARAMETERS];
  double upper[COMPUTE_FIT_MAX_PARAMETERS];

  /** Widths for x and y, > 0 (sigma[1] = 0: as sigma[0]): fixed in XYNB, at focus in XYZNB,
   * starting values in the others. */
  union {
    double sigma[2];
    /** SPLINE: the coefficients of all cells, in host memory of the caller, read during each call
     * that takes the problem; a fitter copies them. Not read for graphs: there they are an
     * input. */
    const float *spline;
  };
  union {
    double depth;  /**< XYZNB, µm; > 0 */
    double z_step; /**< SPLINE: between planes of nodes, µm; > 0 */
  };
  union {
    double gamma;   /**< XYZNB, µm */
    double z_first; /**< SPLINE: z of the first plane of nodes, µm */
  };
  union {
    double a[2];    /**< XYZNB: for x and y */
    double spot[2]; /**< SPLINE: the spot's position x, y, pixels from the first node */
  };
  union {
    double b[2];      /**< XYZNB: for x and y */
    int32_t cells[4]; /**< SPLINE: planes, rows and columns of cells, then zero */
  };
  /** XYZNB, SPLINE: 0 … 8; the start with the best likelihood wins */
  int32_t z_start_count;
  uint32_t unused; /**< zero */
  /** µm; without any: start[2], or 0 for XYZNB and three for SPLINE, at 1/6, 1/2 and 5/6 of its
   * range. */
  double z_start[COMPUTE_FIT_MAX_Z_STARTS];

  double offset;   /**< counts */
  double gain;     /**< electrons per count; 0: 1 */
  double em_gain;  /**< 0: 1 */
  double variance; /**< electrons² */
} compute_fit_problem;

enum { COMPUTE_FIT_STACK = 1 << 0 };

/** The default bounds, which always apply: x from −1/2 to columns − 1/2, y likewise with rows; N
 * and bg from COMPUTE_FIT_LEAST_PHOTONS; widths from COMPUTE_FIT_LEAST_SIGMA to the ROI's longer
 * side; z within 2 depth + |gamma| of 0. SPLINE: x and y also as far as the spline covers the ROI,
 * z from its first plane of nodes to its last. */
#define COMPUTE_FIT_LEAST_PHOTONS 1e-3
#define COMPUTE_FIT_LEAST_SIGMA   0.1

/** The number of columns of an output in the record. */
static inline int32_t compute_fit_output_columns(compute_fit_model model, uint32_t output) {
  int32_t p = compute_fit_parameter_count(model);
  switch (output) {
  case COMPUTE_FIT_PARAMETERS:
  case COMPUTE_FIT_STD: return p;
  case COMPUTE_FIT_COVARIANCE: return p * p;
  default: return 1;
  }
}

/** Where an output (one bit) begins in the record, or −1 if it is not among `outputs`. With
 * `output` 0 the length of the record. `outputs` as in compute_fit_problem, 0 for the default of
 * the other cameras than COMPUTE_FIT_READOUT. */
static inline int32_t compute_fit_column(compute_fit_model model, uint32_t outputs,
                                         uint32_t output) {
  int32_t column = 0;
  if (outputs == 0) outputs = COMPUTE_FIT_USUAL_OUTPUTS;
  for (uint32_t bit = 1; bit < COMPUTE_FIT_ALL_OUTPUTS + 1u; bit <<= 1) {
    if (bit == output) return (outputs & bit) != 0 ? column : -1;
    if ((outputs & bit) != 0) column += compute_fit_output_columns(model, bit);
  }
  return output == 0 ? column : -1;
}

#ifdef __cplusplus
}
#endif
#endif
