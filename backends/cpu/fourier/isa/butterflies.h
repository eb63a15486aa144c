/* SPDX-License-Identifier: MIT */
/* Transforms of 2, 3, 4, 5, 8 and 16 complex vectors in registers, in place and in order. */
#ifndef CPU_FOURIER_BUTTERFLIES_H
#define CPU_FOURIER_BUTTERFLIES_H

#include "program/isa/madd.h"

typedef struct complex_pack {
  pack r, i;
} complex_pack;

ALWAYS_INLINE complex_pack plus(complex_pack a, complex_pack b) {
  return (complex_pack){a.r + b.r, a.i + b.i};
}
ALWAYS_INLINE complex_pack minus(complex_pack a, complex_pack b) {
  return (complex_pack){a.r - b.r, a.i - b.i};
}
/* a − i b, and a + i b. */
ALWAYS_INLINE complex_pack minus_i(complex_pack a, complex_pack b) {
  return (complex_pack){a.r + b.i, a.i - b.r};
}
ALWAYS_INLINE complex_pack plus_i(complex_pack a, complex_pack b) {
  return (complex_pack){a.r - b.i, a.i + b.r};
}
ALWAYS_INLINE complex_pack times(complex_pack a, complex_pack b) {
  const pack r = a.i * b.i, i = a.i * b.r;
  return (complex_pack){MADD(a.r, b.r, -r), MADD(a.r, b.i, i)};
}
ALWAYS_INLINE complex_pack scaled(complex_pack a, pack s) {
  return (complex_pack){a.r * s, a.i * s};
}
ALWAYS_INLINE complex_pack moved(complex_pack a, pack s, complex_pack b) { /* a + s b */
  return (complex_pack){MADD(s, b.r, a.r), MADD(s, b.i, a.i)};
}

ALWAYS_INLINE void dft2(complex_pack *a, complex_pack *b) {
  const complex_pack x = *a, y = *b;
  *a = plus(x, y);
  *b = minus(x, y);
}

ALWAYS_INLINE void dft3(complex_pack *a, complex_pack *b, complex_pack *c) {
  const complex_pack t = plus(*b, *c), m = moved(*a, pack_all((ELEMENT)-0.5), t);
  const complex_pack s = scaled(minus(*b, *c), pack_all((ELEMENT)0.86602540378443864676));
  *a = plus(*a, t);
  *b = minus_i(m, s);
  *c = plus_i(m, s);
}

ALWAYS_INLINE void dft4(complex_pack *a, complex_pack *b, complex_pack *c, complex_pack *d) {
  const complex_pack p = plus(*a, *c), m = minus(*a, *c), q = plus(*b, *d), n = minus(*b, *d);
  *a = plus(p, q);
  *b = minus_i(m, n);
  *c = minus(p, q);
  *d = plus_i(m, n);
}

ALWAYS_INLINE void dft5(complex_pack *a, complex_pack *b, complex_pack *c, complex_pack *d,
                        complex_pack *e) {
  const pack c1 = pack_all((ELEMENT)0.30901699437494742410);
  const pack c2 = pack_all((ELEMENT)-0.80901699437494742410);
  const pack s1 = pack_all((ELEMENT)0.95105651629515357212);
  const pack s2 = pack_all((ELEMENT)0.58778525229247312917);
  const complex_pack p = plus(*b, *e), m = minus(*b, *e), q = plus(*c, *d), n = minus(*c, *d);
  const complex_pack x = moved(moved(*a, c1, p), c2, q), y = moved(moved(*a, c2, p), c1, q);
  const complex_pack u = moved(scaled(m, s1), s2, n), v = moved(scaled(m, s2), -s1, n);
  *a = plus(plus(*a, p), q);
  *b = minus_i(x, u);
  *e = plus_i(x, u);
  *c = minus_i(y, v);
  *d = plus_i(y, v);
}

/* a times exp(−i π/4), and times exp(−3i π/4). */
ALWAYS_INLINE complex_pack eighth(complex_pack a, pack root) {
  return (complex_pack){(a.r + a.i) * root, (a.i - a.r) * root};
}
ALWAYS_INLINE complex_pack three_eighths(complex_pack a, pack root) {
  return (complex_pack){(a.i - a.r) * root, (a.r + a.i) * -root};
}

ALWAYS_INLINE void dft8(complex_pack *a) {
  const pack root = pack_all((ELEMENT)0.70710678118654752440);
  dft4(&a[0], &a[2], &a[4], &a[6]);
  dft4(&a[1], &a[3], &a[5], &a[7]);
  const complex_pack e1 = a[2], e2 = a[4], e3 = a[6], o0 = a[1];
  const complex_pack o1 = eighth(a[3], root), o2 = a[5], o3 = three_eighths(a[7], root);
  const complex_pack e0 = a[0];
  a[0] = plus(e0, o0);
  a[4] = minus(e0, o0);
  a[1] = plus(e1, o1);
  a[5] = minus(e1, o1);
  a[2] = minus_i(e2, o2);
  a[6] = plus_i(e2, o2);
  a[3] = plus(e3, o3);
  a[7] = minus(e3, o3);
}

ALWAYS_INLINE complex_pack by(complex_pack a, double r, double i) {
  const complex_pack w = {pack_all((ELEMENT)r), pack_all((ELEMENT)i)};
  return times(a, w);
}

ALWAYS_INLINE void dft16(complex_pack *a) {
  const pack root = pack_all((ELEMENT)0.70710678118654752440);
  const double c = 0.92387953251128675613, s = 0.38268343236508977173;
  dft4(&a[0], &a[4], &a[8], &a[12]);
  dft4(&a[1], &a[5], &a[9], &a[13]);
  dft4(&a[2], &a[6], &a[10], &a[14]);
  dft4(&a[3], &a[7], &a[11], &a[15]);
  a[5] = by(a[5], c, -s);
  a[9] = eighth(a[9], root);
  a[13] = by(a[13], s, -c);
  a[6] = eighth(a[6], root);
  a[10] = (complex_pack){a[10].i, -a[10].r};
  a[14] = three_eighths(a[14], root);
  a[7] = by(a[7], s, -c);
  a[11] = three_eighths(a[11], root);
  a[15] = by(a[15], -c, s);
  dft4(&a[0], &a[1], &a[2], &a[3]);
  dft4(&a[4], &a[5], &a[6], &a[7]);
  dft4(&a[8], &a[9], &a[10], &a[11]);
  dft4(&a[12], &a[13], &a[14], &a[15]);
#define EXCHANGE(x, y)                                                                             \
  {                                                                                                \
    const complex_pack kept = a[x];                                                                \
    a[x] = a[y];                                                                                   \
    a[y] = kept;                                                                                   \
  }
  EXCHANGE(1, 4)
  EXCHANGE(2, 8)
  EXCHANGE(3, 12)
  EXCHANGE(6, 9)
  EXCHANGE(7, 13)
  EXCHANGE(11, 14)
#undef EXCHANGE
}

#endif
