/* SPDX-License-Identifier: MIT */
/* Random draws.
 *
 * - Poisson with a small mean: inversion. One uniform number is searched for among the cumulative
 *   probabilities.
 * - Poisson with a mean from INVERSION_BELOW on: Hörmann's transformed rejection ("The transformed
 *   rejection method for generating Poisson random variables", Insurance: Mathematics and Economics
 *   12, 1993). Its cost does not grow with the mean.
 * - Gamma: products of uniform numbers for few terms, otherwise Marsaglia and Tsang ("A simple
 *   method for generating gamma variables", ACM Transactions on Mathematical Software 26, 2000).
 * - Normal: Marsaglia's polar method. */
#include "fit/noise.h"

#include <math.h>
#include <stdbool.h>

#include "fit/noise_math.h"
#include "core/base/random.h"

#define INVERSION_BELOW 16.0
#define INVERSION_MOST  120 /* at such means, larger numbers have a probability below 2^−53 */
#define PRODUCT_TERMS   8

/* ---- Words ----------------------------------------------------------------------------------- */

/* Draws block `attempt` of a place. */
static inline void draw(const noise_source *source, noise_purpose purpose, uint32_t place,
                        uint32_t attempt, uint32_t words[4]) {
  const uint32_t counter[4] = {(uint32_t)source->item, (uint32_t)(source->item >> 32), place,
                               (uint32_t)purpose << 24 | attempt};
  random_block(source->seed, counter, words);
}

static inline double uniform_53(const uint32_t words[2]) {
  return (double)(((uint64_t)words[1] << 32 | words[0]) >> 11) * 0x1p-53;
}

/* Returns the middle of one of 2^32 equal parts, so neither 0 nor 1. */
static inline double uniform_32(uint32_t word) {
  return ((double)word + 0.5) * 0x1p-32;
}

double noise_uniform(const noise_source *source, noise_purpose purpose, uint32_t place) {
  uint32_t words[4];
  draw(source, purpose, place, 0, words);
  return uniform_53(words);
}

/* ---- Poisson --------------------------------------------------------------------------------- */

/* Returns ln n! minus the first term of Stirling's series, (n + 1/2) ln n − n + ln(2 pi) / 2. */
static double stirling_rest(double n) {
  const double r = 1 / n, square = r * r;
  return r * (1.0 / 12 - square * (1.0 / 360 - square * (1.0 / 1260 - square / 1680)));
}

static const double reciprocals[INVERSION_MOST + 1] = {
    0,         1.0,       1.0 / 2,   1.0 / 3,   1.0 / 4,   1.0 / 5,   1.0 / 6,   1.0 / 7,
    1.0 / 8,   1.0 / 9,   1.0 / 10,  1.0 / 11,  1.0 / 12,  1.0 / 13,  1.0 / 14,  1.0 / 15,
    1.0 / 16,  1.0 / 17,  1.0 / 18,  1.0 / 19,  1.0 / 20,  1.0 / 21,  1.0 / 22,  1.0 / 23,
    1.0 / 24,  1.0 / 25,  1.0 / 26,  1.0 / 27,  1.0 / 28,  1.0 / 29,  1.0 / 30,  1.0 / 31,
    1.0 / 32,  1.0 / 33,  1.0 / 34,  1.0 / 35,  1.0 / 36,  1.0 / 37,  1.0 / 38,  1.0 / 39,
    1.0 / 40,  1.0 / 41,  1.0 / 42,  1.0 / 43,  1.0 / 44,  1.0 / 45,  1.0 / 46,  1.0 / 47,
    1.0 / 48,  1.0 / 49,  1.0 / 50,  1.0 / 51,  1.0 / 52,  1.0 / 53,  1.0 / 54,  1.0 / 55,
    1.0 / 56,  1.0 / 57,  1.0 / 58,  1.0 / 59,  1.0 / 60,  1.0 / 61,  1.0 / 62,  1.0 / 63,
    1.0 / 64,  1.0 / 65,  1.0 / 66,  1.0 / 67,  1.0 / 68,  1.0 / 69,  1.0 / 70,  1.0 / 71,
    1.0 / 72,  1.0 / 73,  1.0 / 74,  1.0 / 75,  1.0 / 76,  1.0 / 77,  1.0 / 78,  1.0 / 79,
    1.0 / 80,  1.0 / 81,  1.0 / 82,  1.0 / 83,  1.0 / 84,  1.0 / 85,  1.0 / 86,  1.0 / 87,
    1.0 / 88,  1.0 / 89,  1.0 / 90,  1.0 / 91,  1.0 / 92,  1.0 / 93,  1.0 / 94,  1.0 / 95,
    1.0 / 96,  1.0 / 97,  1.0 / 98,  1.0 / 99,  1.0 / 100, 1.0 / 101, 1.0 / 102, 1.0 / 103,
    1.0 / 104, 1.0 / 105, 1.0 / 106, 1.0 / 107, 1.0 / 108, 1.0 / 109, 1.0 / 110, 1.0 / 111,
    1.0 / 112, 1.0 / 113, 1.0 / 114, 1.0 / 115, 1.0 / 116, 1.0 / 117, 1.0 / 118, 1.0 / 119,
    1.0 / 120};

/* Inverts a uniform number. `zero` is exp(−mean). */
static inline double poisson_inverted(double uniform, double mean, double zero) {
  double probability = zero;
  int number = 0;
  while (uniform >= probability && number < INVERSION_MOST) {
    uniform -= probability;
    number++;
    probability *= mean * reciprocals[number];
  }
  return number;
}

/* Returns the logarithm of the probability of n at this mean, plus ln sqrt(2 pi n) (0 for n = 0).
 * The formula uses ln(mean / n), so that large numbers do not cancel. */
static double poisson_exponent(double n, double mean) {
  if (n == 0) return -mean;
  if (n < 10) { /* Stirling's series is not exact here */
    static const double log_factorials[10] = {0.0,
                                              0.0,
                                              0.69314718055994529,
                                              1.791759469228055,
                                              3.1780538303479458,
                                              4.7874917427820458,
                                              6.5792512120101012,
                                              8.5251613610654147,
                                              10.604602902745251,
                                              12.801827480081469};
    return n * noise_log(mean) - mean - log_factorials[(int)n] +
           0.5 * noise_log(6.283185307179586 * n);
  }
  return n * noise_log(mean / n) + n - mean - stirling_rest(n);
}

/* Avoids a call, and an instruction that some x86 do not have. */
static inline double round_down(double x) {
  const double cut = (double)(int64_t)x;
  return cut > x ? cut - 1 : cut;
}

/* Draws a number by rejection. `first`: the first two words of the place. */
static double poisson_rejected(const noise_source *source, noise_purpose purpose, uint32_t place,
                               double mean, const uint32_t first[2]) {
  const double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b;
  const double sure = 0.9277 - 3.6224 / (b - 2);
  uint32_t words[4] = {first[0], first[1]};
  for (uint32_t attempt = 0, next = 0;; attempt++) {
    if (attempt % 2 == 1) draw(source, purpose, place, attempt / 2 + 1, words);
    const double u = uniform_32(words[next]) - 0.5, v = uniform_32(words[next + 1]);
    next = attempt % 2 == 1 ? 2 : 0;
    const double side = 0.5 - fabs(u);
    const double n = round_down((2 * a / side + b) * u + mean + 0.43);
    if (side >= 0.07 && v <= sure) return n;
    if (n < 0 || (side < 0.013 && v > side)) continue;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    const double hat = v * inverse_alpha / (a / (side * side) + b);
    const double root = n > 0 ? sqrt(6.283185307179586 * n) : 1;
    if (noise_log(hat * root) <= poisson_exponent(n, mean)) return n;
  }
}

/* The first attempt uses two words, so an even place and the next one share a block: number 0 of
 * half the place. Further attempts of a place use its own blocks from number 1 on. */
double noise_poisson(const noise_source *source, noise_purpose purpose, uint32_t place,
                     double mean) {
  double number;
  noise_poisson_run(source, purpose, place, 1, &mean, &number);
  return number;
}

/* The branch-free work is done first for all places: compilers vectorise it, and it avoids
 * mispredictions. */
void noise_poisson_run(const noise_source *source, noise_purpose purpose, uint32_t place,
                       int32_t count, const double *means, double *numbers) {
  uint32_t words[NOISE_RUN / 2 + 1][4];
  double zeros[NOISE_RUN];
  const uint32_t odd = place & 1, half = place / 2;
  for (uint32_t i = 0; i < (odd + (uint32_t)count + 1) / 2; i++)
    draw(source, purpose, half + i, 0, words[i]);
  for (int32_t i = 0; i < count; i++)
    zeros[i] = noise_exp(-(means[i] < INVERSION_BELOW ? means[i] : INVERSION_BELOW));
  for (int32_t i = 0; i < count; i++) {
    const uint32_t at = odd + (uint32_t)i, *own = &words[at / 2][at % 2 * 2];
    numbers[i] = means[i] < INVERSION_BELOW
                     ? poisson_inverted(uniform_53(own), means[i], zeros[i])
                     : poisson_rejected(source, purpose, place + (uint32_t)i, means[i], own);
  }
}

/* ---- Normal and gamma ------------------------------------------------------------------------ */

/* Returns a normal number from a point of the square. Returns false if the point is outside the
 * circle. */
static bool polar(uint32_t across, uint32_t down, double *normal) {
  const double x = 2 * uniform_32(across) - 1, y = 2 * uniform_32(down) - 1;
  const double square = x * x + y * y;
  if (square >= 1) return false;
  *normal = x * sqrt(-2 * noise_log(square) / square);
  return true;
}

double noise_normal(const noise_source *source, noise_purpose purpose, uint32_t place) {
  for (uint32_t attempt = 0;; attempt++) {
    uint32_t words[4];
    double normal;
    draw(source, purpose, place, attempt, words);
    if (polar(words[0], words[1], &normal) || polar(words[2], words[3], &normal)) return normal;
  }
}

/* Returns −ln of the product of uniform numbers. */
static double gamma_of_few(const noise_source *source, noise_purpose purpose, uint32_t place,
                           int terms) {
  double product = 1;
  uint32_t words[4];
  for (int i = 0; i < terms; i++) {
    if (i % 4 == 0) draw(source, purpose, place, (uint32_t)i / 4, words);
    product *= uniform_32(words[i % 4]);
  }
  return -noise_log(product);
}

double noise_gamma(const noise_source *source, noise_purpose purpose, uint32_t place,
                   double terms) {
  if (terms <= 0) return 0;
  if (terms <= PRODUCT_TERMS) return gamma_of_few(source, purpose, place, (int)terms);
  const double d = terms - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (uint32_t attempt = 0;; attempt++) {
    uint32_t words[4];
    double x;
    draw(source, purpose, place, attempt, words);
    if (!polar(words[0], words[1], &x)) continue;
    const double root = 1 + c * x, v = root * root * root, u = uniform_32(words[2]);
    if (root <= 0) continue;
    if (u < 1 - 0.0331 * (x * x) * (x * x)) return d * v;
    if (noise_log(u) < 0.5 * x * x + d * (1 - v + noise_log(v))) return d * v;
  }
}
