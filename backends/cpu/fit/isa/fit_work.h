/* SPDX-License-Identifier: MIT */
/* The Gaussian along one axis: its share in every pixel of a row or column, and the derivatives by
 * position and width.
 *
 * With a = k − 1/2 − x at a pixel's lower edge and b = a + 1 at its upper one, σ the width, ea =
 * exp(−a²/2σ²) and c = 1/(√(2π) σ):
 *
 *   E = ½ [erf(b/√2σ) − erf(a/√2σ)]     X = ∂E/∂x = c (ea − eb)
 *   S = ∂E/∂σ = (c/σ) (a ea − b eb)     ∂X/∂x = S/σ
 *   ∂S/∂σ = (c/σ⁴) (a³ ea − b³ eb) − 2 S/σ
 *
 * Neighbours share an edge. Each edge stores the tail on the side away from the centre, so that
 * subtractions far out use small numbers; 1 is added for the pixel that contains the centre. */
#ifndef CPU_FIT_FIT_WORK_H
#define CPU_FIT_FIT_WORK_H

#include "fit_table.h"
#include "fit_vector.h"

/* One row or column. */
typedef struct fit_pixel {
  vf e, x, s;    /* E, X, S */
  vf ee, ex, xx; /* products, for columns only */
  vf es, xs, ss;
  vf x_by_x, s_by_s; /* second derivatives, for Newton's method only */
} fit_pixel;

typedef struct fit_edge {
  vf a, a2;      /* distance from the centre, and its square */
  vf e, ae, a3e; /* exp, times distance, times its cube */
  vf tail;       /* beyond the edge: positive left of the centre, negative right of it */
  vf side;       /* 1 right of the centre, else 0 */
} fit_edge;

/* Constants for all edges of a vector of ROIs. */
typedef struct fit_width {
  vf inverse; /* 1/σ */
  vf scale;   /* √(log2(e)/2)/σ: exp(−a²/2σ²) = 2^−(a scale)² */
  vf density; /* c */
} fit_width;

FIT_INLINE fit_width fit_width_of(vf sigma) {
  const vf inverse = v_reciprocal(sigma);
  return (fit_width){inverse, inverse * v_set(0.84932180f), inverse * v_set(0.39894228f)};
}

FIT_INLINE fit_edge fit_edge_at(vf a, const fit_width *w, const int widths, const int second) {
  fit_edge edge = {.a = a};
  const vf v = a * w->scale;
  edge.e = fit_power(v * v);
  const vf tail = edge.e * fit_tail_ratio(v_abs(v));
  const vm right = v_less(v_set(0), a);
  edge.tail = v_select(right, v_set(0) - tail, tail);
  edge.side = v_keep(right, v_set(1));
  if (widths || second) edge.ae = a * edge.e;
  if (second) edge.a3e = a * a * edge.ae;
  return edge;
}

/* Computes a pixel between two edges. */
FIT_INLINE void fit_between(const fit_edge *low, const fit_edge *high, const fit_width *w,
                            const int widths, const int second, fit_pixel *pixel) {
  pixel->e = (high->tail - low->tail) + (high->side - low->side);
  pixel->x = w->density * (low->e - high->e);
  if (!widths && !second) return;
  pixel->s = w->density * w->inverse * (low->ae - high->ae);
  if (!second) return;
  pixel->x_by_x = pixel->s * w->inverse;
  const vf inverse2 = w->inverse * w->inverse;
  pixel->s_by_s = w->density * inverse2 * inverse2 * (low->a3e - high->a3e) - 2 * pixel->x_by_x;
}

/* Computes the density at the pixel's centre instead of the integral: E = c exp(−a²/2σ²). */
FIT_INLINE void fit_sampled(vf a, const fit_width *w, const int second, fit_pixel *pixel) {
  const vf u = a * w->inverse, u2 = u * u, v = a * w->scale;
  pixel->e = w->density * fit_power(v * v);
  pixel->x = pixel->e * u * w->inverse;
  pixel->s = pixel->e * w->inverse * (u2 - 1);
  if (!second) return;
  const vf inverse2 = w->inverse * w->inverse;
  pixel->x_by_x = pixel->e * inverse2 * (u2 - 1);
  pixel->s_by_s = pixel->e * inverse2 * v_fma(u2 - 5, u2, v_set(2));
}

FIT_INLINE void fit_axis(vf position, vf sigma, int32_t count, const int widths, const int second,
                         bool sampled, fit_pixel *pixels) {
  const fit_width w = fit_width_of(sigma);
  if (sampled) {
    for (int32_t k = 0; k < count; k++)
      fit_sampled(v_set((float)k) - position, &w, second, &pixels[k]);
    return;
  }
  vf at = v_set(-0.5f);
  fit_edge low = fit_edge_at(at - position, &w, widths, second);
  for (int32_t k = 0; k < count; k++) {
    at += 1;
    const fit_edge high = fit_edge_at(at - position, &w, widths, second);
    fit_between(&low, &high, &w, widths, second, &pixels[k]);
    low = high;
  }
}

/* Computes the products for sums over a row. */
FIT_INLINE void fit_products(int32_t count, const int widths, fit_pixel *pixels) {
  for (int32_t k = 0; k < count; k++) {
    fit_pixel *p = &pixels[k];
    p->ee = p->e * p->e;
    p->ex = p->e * p->x;
    p->xx = p->x * p->x;
    if (!widths) continue;
    p->es = p->e * p->s;
    p->xs = p->x * p->s;
    p->ss = p->s * p->s;
  }
}

/* The objective of a step: the likelihood; minus the sum of squares; or the likelihood of
 * COMPUTE_FIT_READOUT. The last is only for sums over pixels, which choose it by the camera. */
typedef enum fit_mode { FIT_LIKELIHOOD, FIT_SQUARES, FIT_CONVOLVED } fit_mode;

/* ---- The state of a group -------------------------------------------------------------------- */

/* The state of a group's fit: FIT_LANES ROIs in parallel. */

/* Parameters have internal numbers, so that the models share the first four: x, y, N, bg, then the
 * widths or z. The sums over pixels always use the two widths ("wide" parameters). */
enum { FIT_X, FIT_Y, FIT_N, FIT_BG, FIT_SX, FIT_SY, FIT_WIDE };
enum { FIT_S = FIT_SX, FIT_Z = FIT_SX };
#define FIT_MOST  COMPUTE_FIT_MAX_PARAMETERS
#define FIT_PAIRS (FIT_MOST * (FIT_MOST + 1) / 2)

/* Element (a, b), b ≤ a, of a symmetric matrix. */
#define FIT_AT(a, b) ((a) * ((a) + 1) / 2 + (b))

#define FIT_COUNT (FIT_MODEL == COMPUTE_FIT_XYNB ? 4 : FIT_MODEL == COMPUTE_FIT_XYNBSXSY ? 6 : 5)

#define FIT_HAS_Z (FIT_MODEL == COMPUTE_FIT_XYZNB || FIT_MODEL == COMPUTE_FIT_SPLINE)

/* The internal index of parameter i in the public order. */
FIT_INLINE int fit_inner(int i) {
  static const int8_t xyznb[] = {FIT_X, FIT_Y, FIT_Z, FIT_N, FIT_BG};
  return FIT_HAS_Z ? xyznb[i] : i;
}

/* A measured spot in one pixel, and its derivatives by position. */
typedef struct fit_voxel {
  vf e, x, y, z;
} fit_voxel;

/* First moments of the residuals per parameter, and second moments as half a symmetric matrix. */
typedef struct fit_sums {
  vf gradient[FIT_MOST];
  vf information[FIT_PAIRS];
} fit_sums;

/* The path of the group's fits: everything that the next step depends on. */
typedef struct fit_path {
  vf theta[FIT_MOST];
  vf move[FIT_MOST], gradient[FIT_MOST]; /* the last step as taken, and the score before it */
  vf stretch;                            /* the last step's factor on the computed step */
  vf steps;
} fit_path;

/* An ROI that takes longer than its neighbours, set aside to continue with others like it: one lane
 * of the path. */
#define FIT_PATH_LENGTH (sizeof(fit_path) / sizeof(vf))
typedef struct fit_waiting {
  int64_t roi;
  float path[FIT_PATH_LENGTH];
} fit_waiting;

/* The most unconverged lanes to set aside. */
#define FIT_PATIENCE ((FIT_LANES + 7) / 8)

typedef struct fit_work {
  const cpu_fit_job *job;
  const compute_fit_problem *problem;
  int32_t rows, columns, free_count;
  bool sampled;
  bool plain;                 /* ideal camera without a mask: data are pixels */
  bool has_extra, has_weight; /* options of the sums over pixels */
  bool convolved;             /* COMPUTE_FIT_READOUT */
  bool maps_move;             /* maps differ between ROIs */
  vm held[FIT_MOST];          /* fixed parameters: they keep their start */

  /* The group's ROIs. Lanes without one (or with bad data) compute on arbitrary data. */
  int64_t roi[FIT_LANES];
  vm alive;                     /* lanes with an ROI that can be fitted */
  vm bad;                       /* lanes with an ROI that cannot */
  vf *data, *extra, *weight;    /* [pixel]: electrons; variance added to them; 1 or 0 */
  vf *readout;                  /* [pixel]: variance of COMPUTE_FIT_READOUT */
  vf *offset, *gain, *variance; /* maps */
  vf used;                      /* number of pixels that count */
  vf light;                     /* sum of their electrons without the extra variance */
  vf border[4];                 /* sums of the first and last row and column, if `plain` */
  vf sigma[2];
  vf start[FIT_MOST]; /* NaN: to be estimated */
  vf low[FIT_MOST], high[FIT_MOST];

  const unsigned char *ahead; /* pixels needed next */
  int64_t ahead_bytes;

  fit_path path;
  vm active;              /* lanes that have not converged */
  vm converged, singular; /* the status of the others */
  bool any_held;          /* any parameter is fixed */

  int32_t patience; /* FIT_PATIENCE, or 0 to set no lane aside */
  int32_t waiting_count;
  fit_waiting waiting[FIT_LANES + FIT_PATIENCE];

  fit_sums sums;
  fit_pixel column[COMPUTE_FIT_MAX_SIDE], row[COMPUTE_FIT_MAX_SIDE];
  fit_voxel *voxel; /* [pixel], for SPLINE, instead of columns and rows */
  vf *parts;        /* [column][4][lane], for the image of SPLINE */
} fit_work;

/* The planes after fit_work: data, extra, weight, readout, and three maps; then voxels and their
 * parts. */
enum { FIT_PLANES = 7 };

static inline uint64_t fit_workspace_bytes(const compute_fit_problem *problem) {
  const uint64_t pixels = (uint64_t)problem->rows * (uint64_t)problem->columns;
  const uint64_t parts = 4 * FIT_LANES * (uint64_t)problem->columns;
  const uint64_t spline = FIT_MODEL == COMPUTE_FIT_SPLINE ? 4 * pixels + parts : 0;
  return sizeof(fit_work) + (FIT_PLANES * pixels + spline) * sizeof(vf);
}

/* The factor of a row of the current image, for fit_mean_at. */
FIT_INLINE vf fit_row_factor(const fit_work *work, vf n, int32_t i) {
  return FIT_MODEL == COMPUTE_FIT_SPLINE ? n : n * work->row[i].e;
}

FIT_INLINE vf fit_mean_at(const fit_work *work, vf factor, vf bg, int32_t i, int32_t j) {
  if (FIT_MODEL != COMPUTE_FIT_SPLINE) return v_fma(factor, work->column[j].e, bg);
  const vf m = v_fma(factor, work->voxel[i * work->columns + j].e, bg);
  return v_max(m, v_set((float)COMPUTE_FIT_LEAST_PHOTONS));
}

#endif
