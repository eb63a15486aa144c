/* SPDX-License-Identifier: MIT */
/* sin, cos and tan of floats and of doubles below 2^128. Not every C library computes them right for
 * large arguments: mingw's reduces them by a π of 66 bits. */
#ifndef ANGLES_H
#define ANGLES_H

long double angle_sin(long double x);
long double angle_cos(long double x);
long double angle_tan(long double x);

#endif
