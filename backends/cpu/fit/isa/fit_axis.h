/* The Gaussian along one axis: what it gives to every pixel of a row or column, and how that
 * changes with position and width.
 *
 * With a = k − 1/2 − x at a pixel's lower edge and b = a + 1 at its upper one, σ the width,
 * ea = exp(−a²/2σ²) and c = 1/(√(2π) σ):
 *
 *   E = ½ [erf(b/√2σ) − erf(a/√2σ)]     X = ∂E/∂x = c (ea − eb)
 *   S = ∂E/∂σ = (c/σ) (a ea − b eb)     ∂X/∂x = S/σ
 *   ∂S/∂σ = (c/σ⁴) (a³ ea − b³ eb) − 2 S/σ
 *
 * Neighbours share an edge. Of each edge the tail beyond it is kept, on the side away from the
 * centre, so that differences far out are those of small numbers; the one pixel that the centre
 * lies in has 1 added. */
#ifndef CPU_FIT_AXIS_H
#define CPU_FIT_AXIS_H

#include "fit_math.h"

/* Of one row or column. */
typedef struct fit_pixel {
  vf e, x, s;    /* E, X, S */
  vf ee, ex, xx; /* products, of columns only */
  vf es, xs, ss;
  vf x_by_x, s_by_s; /* second derivatives, for Newton's method only */
} fit_pixel;

typedef struct fit_edge {
  vf a, a2;      /* distance from the centre, and its square */
  vf e, ae, a3e; /* exp, times distance, times its cube */
  vf tail;       /* beyond the edge: positive left of the centre, negative right of it */
  vf side;       /* 1 right of the centre, else 0 */
} fit_edge;

/* What is the same for all edges of a vector of ROIs. */
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

/* A pixel between two edges. */
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

/* The density at the pixel's centre in place of the integral: E = c exp(−a²/2σ²). */
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

/* Products that sums over a row are made with. */
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

#endif
