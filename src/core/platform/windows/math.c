/* SPDX-License-Identifier: MIT */
/* Functions that mingw computes with errors of up to three units in the last place. Those of long
 * double have 11 more bits. */
#include <float.h>
#include <math.h>
#include <stdint.h>

/* The names that include/math.h gives to these functions. */
double platform_asinh(double x);
double platform_acosh(double x);
double platform_atanh(double x);
double platform_expm1(double x);
double platform_log1p(double x);
double platform_sin(double x);
double platform_cos(double x);
double platform_tan(double x);
float platform_sinf(float x);
float platform_cosf(float x);
float platform_tanf(float x);

double platform_asinh(double x) {
  return (double)asinhl(x);
}

double platform_acosh(double x) {
  return (double)acoshl(x);
}

double platform_atanh(double x) {
  return (double)atanhl(x);
}

double platform_expm1(double x) {
  return (double)expm1l(x);
}

double platform_log1p(double x) {
  return (double)log1pl(x);
}

/* The processor's sine takes 66 bits of π. Here 2 / π has enough bits for every double. */
static const uint32_t two_over_pi[] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
    0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
    0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab};

/* What x leaves after whole quarters of a turn, at most π / 4 in absolute value. Their number
 * has 126 bits behind the point; multiples of 4 leave it at the top. */
static long double quarter_remainder(double x, int *quarters) {
  __extension__ typedef unsigned __int128 wide;
  __extension__ typedef __int128 wide_signed;
  int exponent;
  *quarters = 0;
  if (!(fabs(x) > 0.75 && fabs(x) <= DBL_MAX)) return x;
  const uint64_t mantissa = (uint64_t)ldexp(frexp(fabs(x), &exponent), 53);
  wide turns = 0;
  for (int i = 0; i < (int)(sizeof two_over_pi / sizeof *two_over_pi); i++) {
    const int shift = 126 + exponent - 53 - 32 * (i + 1);
    const wide product = (wide)mantissa * two_over_pi[i];
    if (shift >= 0 && shift < 128) turns += product << shift;
    if (shift < 0 && shift > -128) turns += product >> -shift;
  }
  turns += (wide)1 << 125; /* the nearest number of quarters */
  *quarters = (int)(turns >> 126);
  const wide_signed part = (wide_signed)(turns << 2 >> 2) - ((wide_signed)1 << 125);
  const long double rest = ldexpl((long double)part, -126) * 1.57079632679489661923132169L;
  if (x > 0) return rest;
  *quarters = -*quarters;
  return -rest;
}

/* The sine of x and `more` quarters of a turn. */
static long double turned_sine(double x, int more) {
  int quarters;
  const long double rest = quarter_remainder(x, &quarters);
  const long double value = (quarters + more) & 1 ? cosl(rest) : sinl(rest);
  return (quarters + more) & 2 ? -value : value;
}

double platform_sin(double x) {
  return (double)turned_sine(x, 0);
}

double platform_cos(double x) {
  return (double)turned_sine(x, 1);
}

double platform_tan(double x) {
  int quarters;
  const long double rest = quarter_remainder(x, &quarters);
  return (double)(quarters & 1 ? -1 / tanl(rest) : tanl(rest));
}

float platform_sinf(float x) {
  return (float)platform_sin((double)x);
}

float platform_cosf(float x) {
  return (float)platform_cos((double)x);
}

float platform_tanf(float x) {
  return (float)platform_tan((double)x);
}
