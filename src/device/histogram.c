/* Bucket b < 16 holds the value b; above, each octave is cut into 16 equal parts. */
#include "device/histogram.h"

static uint32_t bucket_of(uint64_t value) {
  if (value < 16) return (uint32_t)value;
  const uint32_t octave = 63 - (uint32_t)__builtin_clzll(value);
  const uint32_t bucket = (octave - 3) * 16 + (uint32_t)(value >> (octave - 4) & 15);
  return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static double low_end(uint32_t bucket) {
  if (bucket < 16) return bucket;
  const uint32_t octave = bucket / 16 + 3;
  return (double)((uint64_t)(16 + bucket % 16) << (octave - 4));
}

void histogram_add(histogram *h, uint64_t nanoseconds) {
  uint32_t *bucket = &h->bucket[bucket_of(nanoseconds)];
  if (h->count == 0 || nanoseconds < h->least) h->least = nanoseconds;
  if (nanoseconds > h->most) h->most = nanoseconds;
  h->count++;
  h->sum = h->sum + nanoseconds < h->sum ? UINT64_MAX : h->sum + nanoseconds;
  *bucket += *bucket < UINT32_MAX;
}

double histogram_quantile(const histogram *h, double q) {
  if (h->count == 0) return 0;
  const double rank = q * (double)(h->count - 1);
  double before = 0, value = (double)h->most;
  for (uint32_t b = 0; b < HISTOGRAM_BUCKETS; b++) {
    const double here = h->bucket[b];
    if (here > 0 && rank < before + here) {
      const double low = low_end(b), high = b < 16 ? low : low_end(b + 1);
      value = low + (high - low) * (rank - before + 0.5) / here;
      break;
    }
    before += here;
  }
  if (value < (double)h->least) value = (double)h->least;
  return value > (double)h->most ? (double)h->most : value;
}
