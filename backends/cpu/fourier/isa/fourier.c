/* SPDX-License-Identifier: MIT */
/* Loops for FOURIER, once per instruction set (core/isa.h) and element type; fourier_table.h
 * defines each loop.
 *
 * Passes are Stockham's: pass after pass they sort themselves, so no pass permutes. */
#include "fourier_table.h"

#include "butterflies.h"

#include "moves.h"

/* ---- Passes ---------------------------------------------------------------------------------- */

ALWAYS_INLINE complex_pack factor(const ELEMENT *w) {
  return (complex_pack){pack_all(w[0]), pack_all(w[1])};
}

#define AT(k)      (p * s + (k)*m * s + q)
#define FETCH(k)   complex_pack a##k = get(x, AT(k));
#define PUT(k)     put(y, (radix * p + k) * s + q, a##k);
#define PUT_BY(k)  put(y, (radix * p + k) * s + q, times(a##k, w##k));
#define FACTOR(k)  const complex_pack w##k = factor(w + 2 * (k - 1));
#define FACTORS(n) w += 2 * ((n)-1)

/* A pass over single transforms has simpler addresses. */
#define BY_STRIDE(name)                                                                            \
  static void name(const pack *restrict x, pack *restrict y, int64_t s, int64_t m,                 \
                   const ELEMENT *w) {                                                             \
    if (s == 1)                                                                                    \
      name##_by(x, y, 1, m, w);                                                                    \
    else                                                                                           \
      name##_by(x, y, s, m, w);                                                                    \
  }

/* y[q + s (r p + k)] = w^(p k) · sum over j of x[q + s (p + m j)] · exp(−2πi j k / r). The factors
 * of p = 0 are 1. */
#define PASS(name, count, all, others, transform)                                                  \
  ALWAYS_INLINE void name##_by(const pack *restrict x, pack *restrict y, int64_t s, int64_t m,     \
                               const ELEMENT *w) {                                                 \
    enum { radix = count };                                                                        \
    int64_t p = 0;                                                                                 \
    for (int64_t q = 0; q < s; q++) {                                                              \
      all(FETCH) transform;                                                                        \
      all(PUT)                                                                                     \
    }                                                                                              \
    for (p = 1; p < m; p++) {                                                                      \
      FACTORS(radix);                                                                              \
      others(FACTOR) for (int64_t q = 0; q < s; q++) {                                             \
        all(FETCH) transform;                                                                      \
        PUT(0) others(PUT_BY)                                                                      \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  BY_STRIDE(name)

#define OTHERS2(f) f(1)
#define OTHERS3(f) f(1) f(2)
#define OTHERS4(f) f(1) f(2) f(3)
#define OTHERS5(f) f(1) f(2) f(3) f(4)
#define ALL2(f)    f(0) OTHERS2(f)
#define ALL3(f)    f(0) OTHERS3(f)
#define ALL4(f)    f(0) OTHERS4(f)
#define ALL5(f)    f(0) OTHERS5(f)
PASS(pass2, 2, ALL2, OTHERS2, dft2(&a0, &a1))
PASS(pass3, 3, ALL3, OTHERS3, dft3(&a0, &a1, &a2))
PASS(pass4, 4, ALL4, OTHERS4, dft4(&a0, &a1, &a2, &a3))
PASS(pass5, 5, ALL5, OTHERS5, dft5(&a0, &a1, &a2, &a3, &a4))
#undef FETCH
#undef PUT
#undef PUT_BY
#undef FACTOR

/* Radix 8 and 16 in one array: its indices are constants, so it stays in registers. */
#define FETCH(k)  a[k] = get(x, AT(k));
#define PUT(k)    put(y, (radix * p + k) * s + q, a[k]);
#define PUT_BY(k) put(y, (radix * p + k) * s + q, times(a[k], factor(w + 2 * (k - 1))));

ALWAYS_INLINE void pass8_by(const pack *restrict x, pack *restrict y, int64_t s, int64_t m,
                            const ELEMENT *w) {
  enum { radix = 8 };
  complex_pack a[8];
  int64_t p = 0;
  for (int64_t q = 0; q < s; q++) {
    EIGHT(FETCH)
    dft8(a);
    EIGHT(PUT)
  }
  for (p = 1; p < m; p++) {
    FACTORS(radix);
    for (int64_t q = 0; q < s; q++) {
      EIGHT(FETCH)
      dft8(a);
      PUT(0)
      PUT_BY(1) PUT_BY(2) PUT_BY(3) PUT_BY(4) PUT_BY(5) PUT_BY(6) PUT_BY(7)
    }
  }
}

BY_STRIDE(pass8)

/* An odd prime: sums and differences of opposite points, times cosines and sines. */
static void pass_prime(const pack *restrict x, pack *restrict y, int64_t s, int64_t m, int radix,
                       const ELEMENT *w) {
  const ELEMENT *roots = w;
  const int half = radix / 2;
  complex_pack sum[CPU_FOURIER_MOST_RADIX / 2 + 1], difference[CPU_FOURIER_MOST_RADIX / 2 + 1];
  w += 2 * radix;
  for (int64_t p = 0; p < m; p++, w += 2 * (radix - 1)) {
    for (int64_t q = 0; q < s; q++) {
      const complex_pack first = get(x, AT(0));
      complex_pack total = first;
      for (int j = 1; j <= half; j++) {
        const complex_pack a = get(x, AT(j)), b = get(x, AT(radix - j));
        sum[j] = plus(a, b);
        difference[j] = minus(a, b);
        total = plus(total, sum[j]);
      }
      put(y, radix * p * s + q, total);
      for (int k = 1; k <= half; k++) {
        complex_pack even = first, odd = {pack_all(0), pack_all(0)};
        for (int j = 1, at = k; j <= half; j++, at = at + k >= radix ? at + k - radix : at + k) {
          even = moved(even, pack_all(roots[2 * at]), sum[j]);
          odd = moved(odd, pack_all(-roots[2 * at + 1]), difference[j]);
        }
        put(y, (radix * p + k) * s + q, times(minus_i(even, odd), factor(w + 2 * (k - 1))));
        put(y, (radix * p + radix - k) * s + q,
            times(plus_i(even, odd), factor(w + 2 * (radix - k - 1))));
      }
    }
  }
}

/* The first pass of one transform whose parts are the lanes: it reads contiguous numbers. */
#define TAKE(k) a[k] = deinterleave(x + 2 * pack_lanes * AT(k), swapped);
static void first8(const ELEMENT *x, bool swapped, pack *restrict y, int64_t m, const ELEMENT *w) {
  enum { radix = 8 };
  const int64_t s = 1, q = 0;
  complex_pack a[8];
  int64_t p = 0;
  EIGHT(TAKE)
  dft8(a);
  EIGHT(PUT)
  for (p = 1; p < m; p++) {
    FACTORS(radix);
    EIGHT(TAKE)
    dft8(a);
    PUT(0)
    PUT_BY(1) PUT_BY(2) PUT_BY(3) PUT_BY(4) PUT_BY(5) PUT_BY(6) PUT_BY(7)
  }
}

static void first4(const ELEMENT *x, bool swapped, pack *restrict y, int64_t m, const ELEMENT *w) {
  enum { radix = 4 };
  const int64_t s = 1, q = 0;
  complex_pack a[4];
  int64_t p = 0;
  TAKE(0) TAKE(1) TAKE(2) TAKE(3) dft4(&a[0], &a[1], &a[2], &a[3]);
  PUT(0) PUT(1) PUT(2) PUT(3) for (p = 1; p < m; p++) {
    FACTORS(radix);
    TAKE(0) TAKE(1) TAKE(2) TAKE(3) dft4(&a[0], &a[1], &a[2], &a[3]);
    PUT(0) PUT_BY(1) PUT_BY(2) PUT_BY(3)
  }
}

/* The passes from number `begin` on. */
static void *passes_from(const cpu_fourier_steps *steps, int32_t begin, int64_t s, pack *x,
                         pack *y) {
  const ELEMENT *w = steps->factors;
  int64_t m = steps->length;
  for (int32_t i = 0; i < steps->passes; i++) {
    const int radix = steps->radix[i];
    m /= radix;
    if (i >= begin) {
      switch (radix) {
      case 2: pass2(x, y, s, m, w); break;
      case 3: pass3(x, y, s, m, w); break;
      case 4: pass4(x, y, s, m, w); break;
      case 5: pass5(x, y, s, m, w); break;
      case 8: pass8(x, y, s, m, w); break;
      default: pass_prime(x, y, s, m, radix, w); w += 2 * radix;
      }
      pack *const kept = x;
      x = y;
      y = kept;
    }
    w += 2 * (radix - 1) * m;
    s *= radix;
  }
  return x;
}

/* The same passes of short transforms with constant bounds. */
static void *pass_16(const ELEMENT *w, pack *x, pack *y) {
  pass4_by(x, y, 1, 4, w);
  pass4_by(y, x, 4, 1, w);
  return x;
}

static void *pass_32(const ELEMENT *w, pack *x, pack *y) {
  pass8_by(x, y, 1, 4, w);
  pass4_by(y, x, 8, 1, w);
  return x;
}

static void *passes(const cpu_fourier_steps *steps, int64_t stride, void *x, void *y) {
  if (stride == 1 && steps->length == 16) return pass_16(steps->factors, x, y);
  if (stride == 1 && steps->length == 32) return pass_32(steps->factors, x, y);
  return passes_from(steps, 0, stride, x, y);
}

static void *lead(const cpu_fourier_steps *steps, const void *line, bool swapped, void *x,
                  void *y) {
  const int radix = steps->passes > 0 ? steps->radix[0] : 1;
  const int64_t m = steps->length / radix;
  if (radix == 8)
    first8(line, swapped, x, m, steps->factors);
  else if (radix == 4)
    first4(line, swapped, x, m, steps->factors);
  else
    for (int64_t k = 0; k < steps->length; k++)
      put(x, k, deinterleave((const ELEMENT *)line + 2 * pack_lanes * k, swapped));
  return passes_from(steps, radix == 8 || radix == 4, 1, x, y);
}

/* ---- The last pass of interleaved transforms ------------------------------------------------- */

static void join(int64_t length, const void *factors, const void *from, void *to) {
  const pack *x = from;
  const ELEMENT *w = factors;
  pack *y = to;
  int64_t done = 0;
  for (int64_t begin = 0; begin < length;
       begin += pack_lanes, w += 2 * pack_lanes * (pack_lanes - 1)) {
    const int64_t first = begin <= length - pack_lanes ? begin : length - pack_lanes;
    for (int j = 0; j < pack_lanes; j++) {
      const int64_t k = first + PLACE(j);
      const ELEMENT *own = w + j;
      if (k < done) continue;
      complex_pack a[pack_lanes];
#define READ(l)                                                                                    \
  a[l] = get(x, k * pack_lanes + l);                                                               \
  if (l > 0) {                                                                                     \
    const ELEMENT *f = own + 2 * pack_lanes * (l - 1);                                             \
    a[l] = times(a[l], (complex_pack){pack_all(f[0]), pack_all(f[pack_lanes])});                   \
  }
      LANES(READ)
#undef READ
      dft_lanes(a);
#define WRITE(r) put(y, k + length * r, a[r]);
      LANES(WRITE)
#undef WRITE
    }
    done = first + pack_lanes;
  }
}

static void finish(int64_t length, const void *factors, const void *from, void *result,
                   bool swapped, double scale) {
  const pack *x = from, by_scale = pack_all((ELEMENT)scale);
  const pack *w = factors;
  ELEMENT *to = result;
  for (int64_t begin = 0; begin < length; begin += pack_lanes, w += 2 * (pack_lanes - 1)) {
    const int64_t k = begin <= length - pack_lanes ? begin : length - pack_lanes;
    const ELEMENT *row[pack_lanes];
    pack r[pack_lanes], i[pack_lanes];
    complex_pack a[pack_lanes];
    for (int j = 0; j < pack_lanes; j++) row[j] = (const ELEMENT *)(x + 2 * (k + PLACE(j)));
    transpose_load(row, 0, r);
    transpose_load(row, pack_lanes, i);
#define MEET(j)                                                                                    \
  {                                                                                                \
    enum { l = PLACE(j) };                                                                         \
    a[l] = (complex_pack){r[j], i[j]};                                                             \
    if (l > 0) a[l] = times(a[l], get(w, l - 1));                                                  \
  }
    LANES(MEET)
#undef MEET
    dft_lanes(a);
#define WRITE(l) interleave(scaled(a[l], by_scale), swapped, to + 2 * (k + length * l));
    LANES(WRITE)
#undef WRITE
  }
}

/* ---- Products -------------------------------------------------------------------------------- */

static void turn(int64_t length, const void *row, const void *column, void *block) {
  pack *x = block;
  const pack *r = row;
  const ELEMENT *c = column;
  for (int64_t k = 0; k < length; k++)
    put(x, k, times(get(x, k), times(get(r, k), factor(c + 2 * k))));
}

static void multiply(int64_t count, const void *a, bool swapped_a, const void *b, void *result,
                     bool swapped, double scale) {
  const ELEMENT *x = a, *w = b;
  const pack by_scale = pack_all((ELEMENT)scale);
  ELEMENT *to = result;
  int64_t k = 0;
  for (; k + pack_lanes <= count; k += pack_lanes) {
    const complex_pack p =
        times(deinterleave(x + 2 * k, swapped_a), deinterleave(w + 2 * k, false));
    interleave(scaled(p, by_scale), swapped, to + 2 * k);
  }
  if (k == count) return;
  ELEMENT room[3][2 * pack_lanes] = {{0}};
  const size_t bytes = (size_t)(count - k) * 2 * sizeof *to;
  __builtin_memcpy(room[0], x + 2 * k, bytes);
  __builtin_memcpy(room[1], w + 2 * k, bytes);
  const complex_pack p = times(deinterleave(room[0], swapped_a), deinterleave(room[1], false));
  interleave(scaled(p, by_scale), swapped, room[2]);
  __builtin_memcpy(to + 2 * k, room[2], bytes);
}

/* ---- Real numbers ---------------------------------------------------------------------------- */

/* From points k and half − k of the transform of pairs to points k and half − k of the spectrum:
 * half the even part, plus or minus i w times half the odd part. */
ALWAYS_INLINE void spread(complex_pack z, complex_pack other, complex_pack w, complex_pack *x,
                          complex_pack *mirrored) {
  const pack half = pack_all((ELEMENT)0.5);
  const complex_pack even = {(z.r + other.r) * half, (z.i - other.i) * half};
  const complex_pack odd = {(z.r - other.r) * half, (z.i + other.i) * half};
  const complex_pack t = times(odd, w);
  *x = minus_i(even, t);
  mirrored->r = even.r - t.i;
  mirrored->i = -even.i - t.r;
}

/* Back, without the halves; w is the conjugate's factor. Real and imaginary parts are swapped. */
ALWAYS_INLINE void gather(complex_pack x, complex_pack other, complex_pack w, complex_pack *z,
                          complex_pack *mirrored) {
  const complex_pack even = {x.r + other.r, x.i - other.i};
  const complex_pack odd = {x.r - other.r, x.i + other.i};
  const complex_pack t = times(odd, (complex_pack){w.r, -w.i});
  z->i = even.r - t.i;
  z->r = even.i + t.r;
  mirrored->i = even.r + t.i;
  mirrored->r = t.r - even.i;
}

static void untangle(int64_t half, const void *factors, const void *block, void *result) {
  const pack *z = block;
  const ELEMENT *w = factors;
  pack *x = result;
  const complex_pack first = get(z, 0);
  complex_pack low, high;
  put(x, 0, (complex_pack){first.r + first.i, pack_all(0)});
  put(x, half, (complex_pack){first.r - first.i, pack_all(0)});
  for (int64_t k = 1; 2 * k <= half; k++) {
    spread(get(z, k), get(z, half - k), factor(w + 2 * k), &low, &high);
    put(x, half - k, high);
    put(x, k, low);
  }
}

static void entangle(int64_t half, const void *factors, const void *block, void *result) {
  const pack *x = block;
  const ELEMENT *w = factors;
  pack *z = result;
  const complex_pack first = get(x, 0), last = get(x, half);
  complex_pack low, high;
  put(z, 0, (complex_pack){first.r - last.r, first.r + last.r});
  for (int64_t k = 1; 2 * k <= half; k++) {
    gather(get(x, k), get(x, half - k), factor(w + 2 * k), &low, &high);
    put(z, half - k, high);
    put(z, k, low);
  }
}

/* `lanes` numbers from k on, and those from half − k down. Near the middle both overlap: results
 * that two steps make are equal. */
#define LINE_STEPS(body)                                                                           \
  for (int64_t next = 1; 2 * next <= half; next += pack_lanes) {                                   \
    const int64_t k = next;                                                                        \
    ELEMENT room[5][2 * pack_lanes];                                                               \
    const int64_t left = half / 2 - k + 1, count = left < pack_lanes ? left : pack_lanes;          \
    const int64_t mirror = half - k - count + 1;                                                   \
    const ELEMENT *a = from + 2 * k, *b = from + 2 * mirror, *c = w + 2 * k;                       \
    const size_t bytes = (size_t)count * 2 * sizeof *to;                                           \
    if (count < pack_lanes) {                                                                      \
      __builtin_memset(room, 0, sizeof room);                                                      \
      __builtin_memcpy(room[0], a, bytes);                                                         \
      __builtin_memcpy(room[1] + 2 * (pack_lanes - count), b, bytes);                              \
      __builtin_memcpy(room[2], c, bytes);                                                         \
      a = room[0];                                                                                 \
      b = room[1];                                                                                 \
      c = room[2];                                                                                 \
    }                                                                                              \
    complex_pack low, high;                                                                        \
    const complex_pack p = deinterleave(a, false), m = reversed(deinterleave(b, false));           \
    const complex_pack f = deinterleave(c, false);                                                 \
    body;                                                                                          \
    if (count < pack_lanes) {                                                                      \
      interleave(reversed(high), false, room[4]);                                                  \
      interleave(low, false, room[3]);                                                             \
      __builtin_memcpy(to + 2 * mirror, room[4] + 2 * (pack_lanes - count), bytes);                \
      __builtin_memcpy(to + 2 * k, room[3], bytes);                                                \
    } else {                                                                                       \
      interleave(reversed(high), false, to + 2 * mirror);                                          \
      interleave(low, false, to + 2 * k);                                                          \
    }                                                                                              \
  }

static void untangle_line(int64_t half, const void *factors, const void *line, void *result,
                          double scale) {
  const ELEMENT *from = line, *w = factors, by_scale = (ELEMENT)scale;
  ELEMENT *to = result;
  const ELEMENT r = from[0], i = from[1];
  const pack all = pack_all(by_scale);
  LINE_STEPS({
    spread(p, m, f, &low, &high);
    low = scaled(low, all);
    high = scaled(high, all);
  })
  to[0] = (r + i) * by_scale;
  to[2 * half] = (r - i) * by_scale;
  to[1] = to[2 * half + 1] = 0;
}

static void entangle_line(int64_t half, const void *factors, const void *line, void *result) {
  const ELEMENT *from = line, *w = factors;
  ELEMENT *to = result;
  const ELEMENT first = from[0], last = from[2 * half];
  LINE_STEPS(gather(p, m, f, &low, &high))
  to[0] = first - last;
  to[1] = first + last;
}

#define ORDER(j) PLACE(j),
const cpu_fourier_loops CPU_VARIANT_SYMBOL(cpu_fourier) = {.lanes = pack_lanes,
                                                           .order = {LANES(ORDER)},
                                                           .load = load,
                                                           .store = store,
                                                           .passes = passes,
                                                           .lead = lead,
                                                           .join = join,
                                                           .finish = finish,
                                                           .turn = turn,
                                                           .untangle = untangle,
                                                           .entangle = entangle,
                                                           .untangle_line = untangle_line,
                                                           .entangle_line = entangle_line,
                                                           .multiply = multiply};
