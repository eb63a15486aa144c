/* SPDX-License-Identifier: MIT */
/* Small symmetric matrices of PARAMETERS rows, stored as the lower triangle: AT(a, b) for b <= a.
 * Every loop unrolls, so that the matrices stay in registers. */
//@ fit_matrix
#define PACKED   (PARAMETERS * (PARAMETERS + 1) / 2)
#define AT(a, b) ((a) * ((a) + 1) / 2 + (b))

/* Inverts the Cholesky factor of `matrix`, after multiplying the diagonal by 1 + damping.
 * Parameters with a bit in `still` are left out: their rows and columns become rows and columns of
 * the identity. Returns false if there is no such factor. */
DEVICE boolean fit_factor(const f32 *matrix, u32 still, f32 damping, f32 *factor) {
  boolean sound = 1;
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    UNROLL for (int b = 0; b <= a; b++) {
      const boolean out = (still >> a & 1u) | (still >> b & 1u);
      const f32 entry = a == b ? matrix[AT(a, a)] * (1.0f + damping) : matrix[AT(a, b)];
      f32 sum = out ? (a == b ? 1.0f : 0.0f) : entry;
      const f32 least = 1e-6f * sum;
      UNROLL for (int k = 0; k < b; k++) {
        sum = MAD_f32(-factor[AT(a, k)], factor[AT(b, k)], sum);
      }
      if (a == b) {
        const boolean good = sum > least && sum < INFINITY_f32;
        sound &= good;
        factor[AT(a, a)] = FAST_RSQRT(good ? sum : 1.0f);
      } else {
        factor[AT(a, b)] = sum * factor[AT(b, b)];
      }
    }
  }
  UNROLL for (int a = 1; a < PARAMETERS; a++) {
    UNROLL for (int b = 0; b < a; b++) {
      f32 sum = 0.0f;
      UNROLL for (int k = b; k < a; k++) {
        sum = MAD_f32(factor[AT(a, k)], factor[AT(k, b)], sum);
      }
      factor[AT(a, b)] = -sum * factor[AT(a, a)];
    }
  }
  return sound;
}

/* Multiplies the inverse matrix by `vector`. */
DEVICE void fit_apply(const f32 *factor, u32 still, const f32 *vector, f32 *product) {
  f32 partial[PARAMETERS];
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    partial[a] = 0.0f;
    UNROLL for (int b = 0; b <= a; b++) {
      partial[a] = MAD_f32(factor[AT(a, b)], still >> b & 1u ? 0.0f : vector[b], partial[a]);
    }
  }
  UNROLL for (int b = 0; b < PARAMETERS; b++) {
    product[b] = 0.0f;
    UNROLL for (int a = b; a < PARAMETERS; a++) {
      product[b] = MAD_f32(factor[AT(a, b)], partial[a], product[b]);
    }
  }
}

/* An entry of the inverse matrix, b <= a. */
DEVICE f32 fit_inverse(const f32 *factor, int a, int b) {
  f32 sum = 0.0f;
  UNROLL for (int k = 0; k < PARAMETERS; k++) {
    if (k >= a) sum = MAD_f32(factor[AT(k, a)], factor[AT(k, b)], sum);
  }
  return sum;
}

/* The steps from a start to the best fit.
 *
 * SOLVER: 0 Fisher scoring, 1 Newton in each parameter, 2 Levenberg–Marquardt, 3 the same for least
 * squares. If a parameter is at a bound and its step points outward, it is left out of that step's
 * equations, so that the other parameters get better steps. If the matrix of Fisher scoring has no
 * inverse, it tries again with the diagonal raised by 1/1000, then by 1/10. */
//@ fit_solve
#define CLIMBS            (SOLVER == 0 || SOLVER == 2)
#define HEIGHT            (HAS_Z ? 4 : -1) /* the parameter z, if there is one */
#define SCORING           12 /* steps before the climb */
#define STATUS_CONVERGED  1
#define STATUS_ITERATIONS 2
#define STATUS_AT_BOUND   3
#define STATUS_SINGULAR   4
#define STATUS_BAD        5

typedef struct fit_result {
  f32 p[PARAMETERS];
  f32 factor[PACKED];   /* inverse Cholesky factor of the information */
  u32 still;            /* bits of the parameters that are left out of it */
  f32 totals[COMPARED]; /* from fit_compare */
  int steps, status;
} fit_result;

/* The largest change of a parameter in one step. For photons it includes the background, so that a
 * spot that was lost in the background can return. */
DEVICE f32 fit_reach(const fit_setup *setup, const f32 *p, int a) {
  if (a < 2) return 1.0f;
  if (a < 4) return a == 2 ? p[2] + p[3] : p[3];
#if ASTIGMATIC
  return 0.5f * setup->depth;
#elif SPLINE
  return (1.0f / 6.0f) * (f32)setup->cell_planes / setup->per_step;
#else
  return 0.5f * p[a];
#endif
}

DEVICE f32 fit_stepped(const fit_setup *setup, const f32 *p, const f32 *step, int a) {
  const f32 reach = fit_reach(setup, p, a);
  const f32 moved = p[a] + fit_between(step[a], -reach, reach);
  return setup->fixed >> a & 1u ? p[a] : fit_between(moved, setup->lower[a], setup->upper[a]);
}

/* Bits of the parameters at a bound; with `step`, only of those that the step would take past
 * it. */
DEVICE u32 fit_bounded(const fit_setup *setup, const f32 *p, const f32 *step) {
  u32 bits = 0;
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    const boolean low = p[a] <= setup->lower[a] && (!step || step[a] < 0.0f);
    const boolean high = p[a] >= setup->upper[a] && (!step || step[a] > 0.0f);
    bits |= low || high ? 1u << a : 0u;
  }
  return bits & ~setup->fixed;
}

/* True if every parameter's step is small compared with its standard deviation. Where both widths
 * hardly depend on z, likelihood fits approach z in ever smaller steps, so z needs a tenth of
 * epsilon. */
DEVICE boolean fit_small(const f32 *factor, const f32 *step, u32 still, f32 epsilon) {
  boolean small = 1;
#if HAS_Z && SOLVER != 3
  epsilon *= 0.1f;
#endif
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    const f32 variance = fit_inverse(factor, a, a);
    small &= (boolean)(still >> a & 1u) || step[a] * step[a] < epsilon * epsilon * variance;
  }
  return small;
}

#if SOLVER != 1
/* Solves for a step; returns false if that is not possible. Parameters at a bound that the step
 * would cross are left out, with a bit in `still`. First these are the parameters whose gradient
 * also points outward. If there are none, others are left out and `pulled` is set: their gradient
 * points back inside. */
DEVICE boolean fit_solve(const fit_setup *setup, const f32 *p, const f32 *values, f32 damping,
                         f32 *factor, f32 *step, u32 *still, boolean *pulled) {
  *still = setup->fixed;
  *pulled = 0;
  for (int attempt = 0; attempt <= PARAMETERS; attempt++) {
    const boolean sound = fit_factor(values + PARAMETERS, *still, damping, factor);
    fit_apply(factor, *still, values, step);
    boolean finite = 1;
    UNROLL for (int a = 0; a < PARAMETERS; a++) {
      finite &= BUILTIN_f32(fabs)(step[a]) < INFINITY_f32;
    }
    if (!sound || !finite) return 0;
    const u32 outward = fit_bounded(setup, p, step) & ~*still;
    const u32 kept = outward & fit_bounded(setup, p, values);
    if (outward == 0) return 1;
    *pulled |= kept == 0;
    *still |= kept == 0 ? outward : kept;
  }
  return 0;
}
#endif

#if SOLVER == 0
/* The factor by which a step should be longer than computed. The information is the expected
 * curvature of the likelihood. With little light the actual curvature can be a fraction of it.
 * Steps that are always too short by the same factor look small long before they arrive; steps that
 * are too long oscillate. The factor follows from the effect of the last step, `move`, on the
 * gradient: the secant rule of J. Barzilai and J. M. Borwein (1988), with the information as the
 * metric. Steps longer than a standard deviation get a factor of at most 1.5. `stretch` is the last
 * step's factor, 0 if that step was cut short. */
DEVICE f32 fit_stretch(const f32 *move, const f32 *gradient_before, const f32 *gradient,
                       const f32 *step, f32 stretch, f32 *length) {
  f32 before = 0.0f, gained = 0.0f, square = 0.0f;
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    before = MAD_f32(move[a], gradient_before[a], before);
    gained = MAD_f32(move[a], gradient_before[a] - gradient[a], gained);
    square = MAD_f32(step[a], gradient[a], square);
  }
  *length = square;
  before *= stretch;
  if (!(before > 0.0f)) return 1.0f;
  f32 factor = gained > before * 0.05f ? before * FAST_RECIPROCAL(gained) : 20.0f;
  factor = factor > 0.5f ? factor : 0.5f;
  return factor > 1.5f && factor * factor * square > 1.0f ? 1.5f : factor;
}
#endif

#if CLIMBS
/* SMALL_SHIFT and LONGEST are in standard deviations. A step is shortened to a quarter, for up to
 * TRIALS lengths, until the likelihood rises by LEAST_RISE of the rise that its slope predicts. */
#define SMALL_SHIFT 0.05f
#define LONGEST     2.0f
#define TRIALS      5
#define LEAST_RISE  0.1f
#define MULTIPLES   7

/* ---- The climb ------------------------------------------------------------------------------- */

/* With few photons the likelihood's curvature differs widely from the information. In some
 * directions it is a tenth of it, and steps are too short; in others it is several times as much,
 * and steps oscillate. Fits that hesitate therefore get steps from the actual curvature, and none
 * of these makes the likelihood smaller.
 *
 * The climb uses axes in which the information is the identity: axis k is row k of the inverse
 * Cholesky factor, and parameter a's component of it is axes[AT(k, a)]. For lost spots the
 * information is almost zero. The limits of a step are added to it, as if they were standard
 * deviations known in advance. */

DEVICE boolean fit_axes_of(const fit_setup *setup, const f32 *p, const f32 *values, u32 still,
                           f32 *axes) {
  f32 metric[PACKED];
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    const f32 reach = fit_reach(setup, p, a);
    UNROLL for (int b = 0; b <= a; b++) metric[AT(a, b)] = INFORMATION(a, b);
    if (a != 2 && a != 3) metric[AT(a, a)] += FAST_RECIPROCAL(reach * reach);
  }
  return fit_factor(metric, still, 0.0f, axes);
}

/* A gradient's component along an axis. */
DEVICE f32 fit_along(const f32 *axes, const f32 *gradient, int k) {
  f32 sum = 0.0f;
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    if (a <= k) sum = MAD_f32(axes[AT(k, a)], gradient[a], sum);
  }
  return sum;
}

/* The curvature: the change of the gradient over a small distance along each axis. */
DEVICE void fit_curvature(const fit_source *source, const fit_setup *setup, const f32 *p,
                          const f32 *values, const f32 *axes, u32 still, f32 *curvature) {
  f32 columns[PARAMETERS * PARAMETERS], shifted[VALUES], place[PARAMETERS];
  for (int k = 0; k < PARAMETERS; k++) {
    f32 shift = SMALL_SHIFT;
    UNROLL for (int a = 0; a < PARAMETERS; a++) {
      const f32 part = a <= k ? axes[AT(k, a)] : 0.0f;
      const f32 away = a < 2 || a == HEIGHT ? BUILTIN_f32(fabs)(part) : -part;
      const f32 most = 0.2f * fit_reach(setup, p, a);
      shift = away * shift > most ? most / away : shift;
    }
    shift = still >> k & 1u ? 0.0f : shift;
    UNROLL for (int a = 0; a < PARAMETERS; a++) {
      place[a] = a <= k ? MAD_f32(axes[AT(k, a)], shift, p[a]) : p[a];
    }
    const fit_widths widths = fit_widths_of(setup, place);
    fit_evaluate(source, place, &widths, 0, shifted);
    const f32 inverse = shift > 0.0f ? 1.0f / shift : 0.0f;
    UNROLL for (int a = 0; a < PARAMETERS; a++) place[a] = (values[a] - shifted[a]) * inverse;
    UNROLL for (int j = 0; j < PARAMETERS; j++) {
      columns[k * PARAMETERS + j] = fit_along(axes, place, j);
    }
  }
  UNROLL for (int k = 0; k < PARAMETERS; k++) {
    UNROLL for (int j = 0; j <= k; j++) {
      curvature[AT(k, j)] =
          0.5f * (columns[k * PARAMETERS + j] + columns[j * PARAMETERS + k]);
    }
  }
}

/* Newton's step. If the curvature is not positive definite, multiples of the information are added
 * to it; no maximum is near then, and the step gets the greatest allowed length. `rise` is the rise
 * that the slope predicts. Returns true if the fit has arrived. Then it is at a maximum, or the
 * gradient is almost zero, and the step gains no more than a distance of epsilon does. */
DEVICE boolean fit_newton(const fit_setup *setup, const f32 *values, const f32 *axes, u32 still,
                          const f32 *curvature, f32 *step, f32 *rise) {
  const f32 multiples[MULTIPLES] = {0.0f, 0.01f, 0.05f, 0.25f, 1.0f, 5.0f, 25.0f};
  const f32 enough = setup->epsilon * setup->epsilon;
  f32 score[PARAMETERS], along[PARAMETERS], matrix[PACKED], inverse[PACKED];
  f32 rest = 0.0f, gain = 0.0f, square = 0.0f;
  boolean sound = 0, near = 0;
  UNROLL for (int k = 0; k < PARAMETERS; k++) {
    score[k] = still >> k & 1u ? 0.0f : fit_along(axes, values, k);
    along[k] = score[k];
    rest = MAD_f32(score[k], score[k], rest);
  }
  for (int attempt = 0; attempt < MULTIPLES && !sound; attempt++) {
    UNROLL for (int i = 0; i < PACKED; i++) matrix[i] = curvature[i];
    UNROLL for (int k = 0; k < PARAMETERS; k++) matrix[AT(k, k)] += multiples[attempt];
    sound = fit_factor(matrix, still, 0.0f, inverse);
    near |= sound && attempt == 0;
    if (sound) fit_apply(inverse, still, score, along);
  }
  UNROLL for (int k = 0; k < PARAMETERS; k++) {
    gain = MAD_f32(along[k], score[k], gain);
    square = MAD_f32(along[k], along[k], square);
  }
  const boolean settled = rest < 0.01f * enough, close = near || settled;
  const boolean far = square > LONGEST * LONGEST || (!close && square > 0.0f);
  const f32 factor = far ? LONGEST / sqrt_f32(square) : 1.0f;
  *rise = gain * factor;
  UNROLL for (int a = 0; a < PARAMETERS; a++) {
    step[a] = 0.0f;
    UNROLL for (int k = a; k < PARAMETERS; k++) {
      const f32 part = still >> k & 1u ? 0.0f : axes[AT(k, a)];
      step[a] = MAD_f32(part, along[k] * factor, step[a]);
    }
  }
  return close && gain < enough;
}

DEVICE f32 fit_merit(const fit_source *source, const fit_setup *setup, const f32 *p) {
  f32 totals[COMPARED];
  const fit_widths widths = fit_widths_of(setup, p);
  fit_compare(source, p, &widths, 0, totals);
  return totals[3];
}

/* One step from p, with its `values`. Returns a status: STATUS_ITERATIONS if more steps are
 * needed. */
DEVICE int fit_climb(const fit_source *source, const fit_setup *setup, const f32 *values, f32 *p) {
  f32 axes[PACKED], curvature[PACKED], step[PARAMETERS], tried[PARAMETERS];
  const u32 still = setup->fixed | fit_bounded(setup, p, values);
  if (!fit_axes_of(setup, p, values, still, axes)) return STATUS_SINGULAR;
  fit_curvature(source, setup, p, values, axes, still, curvature);
  f32 rise, share = 1.0f;
  const boolean done = fit_newton(setup, values, axes, still, curvature, step, &rise);
  const f32 before = fit_merit(source, setup, p), light = setup->typical * setup->used;
  const f32 noise = 1e-6f * (1.0f + BUILTIN_f32(fabs)(before)) + 3e-8f * light;
  boolean taken = 0;
  for (int trial = 0; trial < TRIALS && !taken; trial++) {
    UNROLL for (int a = 0; a < PARAMETERS; a++) {
      tried[a] = fit_between(MAD_f32(step[a], share, p[a]), setup->lower[a], setup->upper[a]);
      tried[a] = setup->fixed >> a & 1u ? p[a] : tried[a];
    }
    taken = fit_merit(source, setup, tried) > MAD_f32(LEAST_RISE * share, rise, before - noise);
    share *= 0.25f;
  }
  UNROLL for (int a = 0; a < PARAMETERS; a++) p[a] = taken ? tried[a] : p[a];
  return done ? STATUS_CONVERGED : STATUS_ITERATIONS;
}

/* Resets the parameters to the fit's start before the climb, if the start is better than the result
 * of the steps so far. */
DEVICE void fit_return(const fit_source *source, const fit_setup *setup, const f32 *start,
                       f32 *p) {
  const boolean lost = fit_merit(source, setup, p) < fit_merit(source, setup, start);
  UNROLL for (int a = 0; a < PARAMETERS; a++) p[a] = lost ? start[a] : p[a];
}
#endif

/* One complete fit from result->p. */
DEVICE void fit_run(const fit_source *source, const fit_setup *setup, fit_result *result) {
  f32 values[VALUES], step[PARAMETERS], *p = result->p, *factor = result->factor;
  fit_widths widths;
  boolean last = 0;
  int steps = 0, status = STATUS_ITERATIONS;
#if SOLVER >= 2
  const int damped = CLIMBS && setup->iterations > SCORING ? SCORING : setup->iterations;
  f32 damping = 0.01f;
  widths = fit_widths_of(setup, p);
  fit_compare(source, p, &widths, 0, result->totals);
#endif
#if SOLVER == 0
  f32 move[PARAMETERS], gradient[PARAMETERS], stretch = 1.0f;
  UNROLL for (int a = 0; a < PARAMETERS; a++) move[a] = gradient[a] = 0.0f;
#endif
#if CLIMBS
  f32 start[PARAMETERS];
  UNROLL for (int a = 0; a < PARAMETERS; a++) start[a] = p[a];
#endif
  UNROLL for (int a = 0; a < PARAMETERS; a++) step[a] = 0.0f;
  for (;;) {
#if CLIMBS
    if (steps == SCORING && !last) {
#if HAS_Z
      start[4] = p[4];
#endif
      fit_return(source, setup, start, p);
    }
#endif
    widths = fit_widths_of(setup, p);
    fit_evaluate(source, p, &widths, last, values);
    if (last) break;
#if CLIMBS
    if (steps >= SCORING) {
      status = fit_climb(source, setup, values, p);
      if (status == STATUS_SINGULAR) break;
      steps++;
      last = status == STATUS_CONVERGED || steps >= setup->iterations;
      continue;
    }
#endif
#if SOLVER == 0
    u32 still;
    f32 damping = 0.0f;
    boolean solved = 0, pulled = 0;
    for (int attempt = 0; attempt < 3 && !solved; attempt++) {
      damping = attempt == 0 ? 0.0f : attempt == 1 ? 0.001f : 0.1f;
      solved = fit_solve(setup, p, values, damping, factor, step, &still, &pulled);
    }
    if (!solved) {
      status = STATUS_SINGULAR;
      break;
    }
    f32 square;
    stretch = fit_stretch(move, gradient, values, step, stretch, &square);
    UNROLL for (int a = 0; a < PARAMETERS; a++) {
      step[a] *= stretch;
      gradient[a] = values[a];
    }
    /* If the gradient changes in an unexpected way, more than the last step may remain. */
    const f32 strictness = BUILTIN_f32(fabs)(stretch - 1.0f) > 0.3f ? 0.31622777f : 1.0f;
    const boolean done = damping == 0.0f && !pulled &&
                         square < 16.0f * setup->epsilon * setup->epsilon &&
                         fit_small(factor, step, still, setup->epsilon * strictness);
#elif SOLVER == 1
    UNROLL for (int a = 0; a < PARAMETERS; a++) {
      const f32 first = INFORMATION(a, a), curvature = first - SECOND(a);
      const f32 below = curvature > 0.0f ? curvature : first;
      step[a] = below > 0.0f ? values[a] / below : 0.0f;
    }
    const boolean done = 0;
#else
    /* Until the merit grows: the equations stay the same, and the damping rises. */
    u32 still;
    boolean done = 0, better = 0, solved = 0, pulled = 0;
    f32 tried[PARAMETERS], totals[COMPARED];
    while (!better && !done && steps < damped && damping < 1e9f) {
      solved = fit_solve(setup, p, values, damping, factor, step, &still, &pulled);
      if (!solved) {
        damping *= 10.0f;
        continue;
      }
      steps++;
      const f32 scale = SOLVER == 3 ? setup->typical : 1.0f;
      done = damping <= 0.1f && !pulled &&
             fit_small(factor, step, still, setup->epsilon * sqrt_f32(scale));
      UNROLL for (int a = 0; a < PARAMETERS; a++) tried[a] = fit_stepped(setup, p, step, a);
      if (done) break;
      widths = fit_widths_of(setup, tried);
      fit_compare(source, tried, &widths, 0, totals);
      const f32 old = result->totals[3], noise = 1e-6f * (1.0f + BUILTIN_f32(fabs)(old));
      better = totals[3] > old - noise;
      damping *= better ? 0.1f : 10.0f;
    }
    if (!solved) {
      status = STATUS_SINGULAR;
      break;
    }
    if (done || better) {
      UNROLL for (int a = 0; a < PARAMETERS; a++) p[a] = tried[a];
      UNROLL for (int i = 0; i < COMPARED; i++) result->totals[i] = totals[i];
    }
    damping = damping > 1e-7f ? damping : 1e-7f;
    status = done ? STATUS_CONVERGED : status;
    steps = better || done ? steps : damped;
    last = done || steps >= setup->iterations;
#endif
#if SOLVER < 2
    UNROLL for (int a = 0; a < PARAMETERS; a++) {
      const f32 next = fit_stepped(setup, p, step, a), moved = next - p[a];
#if SOLVER == 0
      /* By more than rounding errors: a step that was cut short teaches nothing about the
       * curvature. */
      const f32 slack = MAD_f32(BUILTIN_f32(fabs)(p[a]), 1e-6f, BUILTIN_f32(fabs)(0.1f * step[a]));
      if (BUILTIN_f32(fabs)(moved - step[a]) > slack) stretch = 0.0f;
      move[a] = moved;
#else
      step[a] = moved;
#endif
      p[a] = next;
    }
    steps++;
    status = done ? STATUS_CONVERGED : status;
    last = done || steps >= setup->iterations;
#endif
  }
  /* Only the parameters at a bound may be undetermined: for example the width of a spot of one
   * pixel, while its position is known to better than the ROI's size. */
  u32 still = setup->fixed;
  boolean sound = fit_factor(values + PARAMETERS, still, 0.0f, factor);
  if (!sound) {
    still |= fit_bounded(setup, p, 0);
    sound = still != setup->fixed && fit_factor(values + PARAMETERS, still, 0.0f, factor) &&
            fit_inverse(factor, 0, 0) <= (f32)COLUMNS * (f32)COLUMNS &&
            fit_inverse(factor, 1, 1) <= (f32)ROWS * (f32)ROWS;
  }
  result->still = still;
#if SOLVER == 1
  /* The last steps as taken, compared with the precision that the data allow. */
  if (sound && fit_small(factor, step, still, setup->epsilon)) status = STATUS_CONVERGED;
#endif
  if (!sound) status = STATUS_SINGULAR;
  if (status == STATUS_CONVERGED && fit_bounded(setup, p, 0)) status = STATUS_AT_BOUND;
  result->steps = steps;
  result->status = status;
#if WANT_RATIO
  widths = fit_widths_of(setup, p);
  fit_compare(source, p, &widths, 1, result->totals);
#if CAMERA != 3
  result->totals[0] = result->totals[0] < 0.0f ? result->totals[0] : 0.0f;
#endif
#endif
}

#if HAS_Z
/* True if the fit from another start is better. */
DEVICE boolean fit_preferred(const fit_result *now, const fit_result *best) {
  const boolean sure = now->status == STATUS_CONVERGED || now->status == STATUS_AT_BOUND;
  const boolean was = best->status == STATUS_CONVERGED || best->status == STATUS_AT_BOUND;
  return sure == was ? now->totals[0] > best->totals[0] : sure;
}
#endif
