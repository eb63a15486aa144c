/* SPDX-License-Identifier: MIT */
/* The inner loops of Fourier transforms, by type and instruction set.
 *
 * A block is an array of complex vectors: the real parts of `lanes` numbers, then their imaginary
 * parts. The loops on blocks transform `lanes` signals at once, one in each lane. All loops
 * transform forward. A caller that exchanges real and imaginary parts of both sides transforms
 * backward. */
#ifndef CPU_FOURIER_TABLE_H
#define CPU_FOURIER_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/backend.h"
#include "core/isa.h"

enum {
  CPU_FOURIER_PASSES = 48,
  CPU_FOURIER_MOST_RADIX = 31, /* larger primes are transformed as convolutions */
  CPU_FOURIER_MOST_LANES = 16
};

/* A transform of `length` points as passes over a block. */
typedef struct cpu_fourier_steps {
  int64_t length;
  int32_t passes;
  int32_t radix[CPU_FOURIER_PASSES];
  /* For each pass: the roots of a generic radix (`radix` complex numbers), then `radix` − 1 factors
   * for each of its positions. */
  const void *factors;
} cpu_fourier_steps;

/* Places of complex numbers in memory, in elements: of points, lanes and parts. */
typedef struct cpu_fourier_lines {
  void *data;
  int64_t point, lane, part; /* part 0: there are no imaginary parts */
  int32_t count;             /* lanes that exist, at most `lanes` of the table */
} cpu_fourier_lines;

typedef struct cpu_fourier_loops {
  int32_t lanes;

  /* Lane j of a block has line, part or neighbouring number order[j]. */
  uint8_t order[CPU_FOURIER_MOST_LANES];

  /* Reads `points` points; zeros follow up to `padded`. */
  void (*load)(const cpu_fourier_lines *lines, int64_t points, int64_t padded, void *block);

  /* Writes `points` points times `scale`. */
  void (*store)(const cpu_fourier_lines *lines, int64_t points, double scale, const void *block);

  /* Makes all passes on `stride` interleaved transforms, between x and y. Returns the one with the
   * result. */
  void *(*passes)(const cpu_fourier_steps *steps, int64_t stride, void *x, void *y);

  /* All passes of one transform whose parts l = 0 … lanes − 1 are the lanes: it reads contiguous
   * numbers k · lanes + l into x, and goes on as `passes`. */
  void *(*lead)(const cpu_fourier_steps *steps, const void *line, bool swapped, void *x, void *y);

  /* The last pass of a transform of lanes · length points: y[k + length · r] from x[k · lanes + l].
   * `factors` has blocks of `lanes` positions k, and for each l = 1 … lanes − 1 a complex vector. The
   * last block may overlap its neighbour. */
  void (*join)(int64_t length, const void *factors, const void *x, void *y);

  /* The same for one transform, whose parts l are the lanes of x. The result is contiguous. */
  void (*finish)(int64_t length, const void *factors, const void *x, void *result, bool swapped,
                 double scale);

  /* Multiplies point k of a block by row[k] (vectors) and by column[k] (numbers). */
  void (*turn)(int64_t length, const void *row, const void *column, void *block);

  /* The spectrum of 2 · half real numbers from the transform of their pairs, with half + 1 points,
   * and back. `factors`: half + 1 complex numbers. Back swaps real and imaginary parts. */
  void (*untangle)(int64_t half, const void *factors, const void *block, void *result);
  void (*entangle)(int64_t half, const void *factors, const void *block, void *result);

  /* The same for contiguous numbers. */
  void (*untangle_line)(int64_t half, const void *factors, const void *line, void *result,
                        double scale);
  void (*entangle_line)(int64_t half, const void *factors, const void *line, void *result);

  /* result = a · b of contiguous complex numbers, times `scale`. swapped_a, swapped: a's and the
   * result's parts are exchanged. */
  void (*multiply)(int64_t count, const void *a, bool swapped_a, const void *b, void *result,
                   bool swapped, double scale);
} cpu_fourier_loops;

CPU_DECLARE_FLOATS(cpu_fourier_loops, cpu_fourier);

#endif
