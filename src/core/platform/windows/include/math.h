/* SPDX-License-Identifier: MIT */
/* Functions that math.c computes more exactly than mingw does. */
#ifndef PLATFORM_MATH_H
#define PLATFORM_MATH_H

#include_next <math.h>

double asinh(double x) __asm__("platform_asinh");
double acosh(double x) __asm__("platform_acosh");
double atanh(double x) __asm__("platform_atanh");
double expm1(double x) __asm__("platform_expm1");
double log1p(double x) __asm__("platform_log1p");
double sin(double x) __asm__("platform_sin");
double cos(double x) __asm__("platform_cos");
double tan(double x) __asm__("platform_tan");
float sinf(float x) __asm__("platform_sinf");
float cosf(float x) __asm__("platform_cosf");
float tanf(float x) __asm__("platform_tanf");

#endif
