/* How long something took, of any number of times, in constant memory: exact count, sum and
 * extremes, and quantiles from buckets that are a sixteenth of an octave wide. */
#ifndef DEVICE_HISTOGRAM_H
#define DEVICE_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_OCTAVES = 40, HISTOGRAM_BUCKETS = (HISTOGRAM_OCTAVES + 1) * 16 };

/* Nanoseconds. All zero is empty. */
typedef struct histogram {
  uint64_t count, sum, least, most;
  uint32_t bucket[HISTOGRAM_BUCKETS];
} histogram;

void histogram_add(histogram *h, uint64_t nanoseconds);

/* The value below which a fraction `q` (0 … 1) of them lie; 0 if there are none. */
double histogram_quantile(const histogram *h, double q);

#endif
