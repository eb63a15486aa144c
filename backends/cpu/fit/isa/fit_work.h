/* What the fit of a group holds: FIT_LANES ROIs side by side. */
#ifndef CPU_FIT_WORK_H
#define CPU_FIT_WORK_H

#ifndef FIT_MODEL /* a compute_fit_model: each has a source file of its own */
#define FIT_MODEL COMPUTE_FIT_XYNB
#endif

#include "fit_axis.h"
#include "fit_table.h"

/* Parameters are numbered here so that the models share the first four: x, y, N, bg, then the
 * widths or z. The sums over pixels always speak of the two widths ("wide" parameters). */
enum { FIT_X, FIT_Y, FIT_N, FIT_BG, FIT_SX, FIT_SY, FIT_WIDE };
enum { FIT_S = FIT_SX, FIT_Z = FIT_SX };
#define FIT_MOST  COMPUTE_FIT_MAX_PARAMETERS
#define FIT_PAIRS (FIT_MOST * (FIT_MOST + 1) / 2)

/* Element (a, b), b ≤ a, of a symmetric matrix. */
#define FIT_AT(a, b) ((a) * ((a) + 1) / 2 + (b))

#define FIT_COUNT (FIT_MODEL == COMPUTE_FIT_XYNB ? 4 : FIT_MODEL == COMPUTE_FIT_XYNBSXSY ? 6 : 5)

/* Where parameter i of the public order stands here, and the other way round. */
FIT_INLINE int fit_inner(int i) {
  static const int8_t xyznb[] = {FIT_X, FIT_Y, FIT_Z, FIT_N, FIT_BG};
  return FIT_MODEL == COMPUTE_FIT_XYZNB ? xyznb[i] : i;
}
FIT_INLINE int fit_outer(int i) {
  static const int8_t xyznb[] = {0, 1, 3, 4, 2};
  return FIT_MODEL == COMPUTE_FIT_XYZNB ? xyznb[i] : i;
}
/* First and second moments of the residuals, for one parameter each, and half a symmetric matrix.
 */
typedef struct fit_sums {
  vf gradient[FIT_MOST];
  vf information[FIT_PAIRS];
} fit_sums;

/* Where the group's fits are and how they got there: all that the next step depends on. */
typedef struct fit_path {
  vf theta[FIT_MOST];
  vf move[FIT_MOST],
      gradient[FIT_MOST]; /* the last step as it was taken, and the score before it */
  vf stretch;             /* by how much it was longer than computed */
  vf steps;
} fit_path;

/* An ROI that takes longer than its neighbours did, put aside to go on with others like it: one
 * lane of the path. */
#define FIT_PATH_LENGTH (sizeof(fit_path) / sizeof(vf))
typedef struct fit_waiting {
  int64_t roi;
  float path[FIT_PATH_LENGTH];
} fit_waiting;

/* As few lanes as this that still move may wait. */
#define FIT_PATIENCE ((FIT_LANES + 7) / 8)

typedef struct fit_work {
  const cpu_fit_job *job;
  const compute_fit_problem *problem;
  int32_t rows, columns, free_count;
  bool sampled;
  bool plain;                 /* ideal camera without a mask: data are pixels */
  bool has_extra, has_weight; /* what sums over pixels must mind */
  bool maps_move;             /* maps differ from ROI to ROI */
  vm held[FIT_MOST];          /* parameters that stay at their start */

  /* The group's ROIs. Lanes that have none (or one whose data are bad) compute on what is there. */
  int64_t roi[FIT_LANES];
  vm alive;                     /* lanes with an ROI that can be fitted */
  vm bad;                       /* lanes with an ROI that cannot */
  vf *data, *extra, *weight;    /* [pixel]: electrons; variance added to them; 1 or 0 */
  vf *offset, *gain, *variance; /* maps */
  vf used;                      /* pixels that count */
  vf light;                     /* sum of their electrons without the extra ones */
  vf border[4];                 /* sums of the first and last row and column, where `plain` */
  vf sigma[2];
  vf start[FIT_MOST]; /* NaN: to be estimated */
  vf low[FIT_MOST], high[FIT_MOST];

  const unsigned char *ahead; /* pixels that will be wanted next */
  int64_t ahead_bytes;

  fit_path path;
  vm active;              /* lanes that still move */
  vm converged, singular; /* how the others ended */
  bool any_held;          /* a parameter is fixed */

  int32_t patience; /* FIT_PATIENCE, or 0 where nobody may wait */
  int32_t waiting_count;
  fit_waiting waiting[FIT_LANES + FIT_PATIENCE];

  fit_sums sums;
  fit_pixel column[COMPUTE_FIT_MAX_SIDE], row[COMPUTE_FIT_MAX_SIDE];
} fit_work;

/* The planes behind it: data, extra, weight, and three maps. */
enum { FIT_PLANES = 6 };

static inline uint64_t fit_workspace_bytes(const compute_fit_problem *problem) {
  return sizeof(fit_work) +
         (uint64_t)FIT_PLANES * (uint64_t)problem->rows * (uint64_t)problem->columns * sizeof(vf);
}

#endif
