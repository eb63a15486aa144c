/* SPDX-License-Identifier: MIT */
#include "support/reference/spots_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/backend/fit_kinds.h"

#include "support/reference/program_reference.h"

/* A frame, or an image computed from it. */
typedef struct plane {
  int64_t height, width;
  double *value;
} plane;

static int64_t clamp(int64_t at, int64_t size) {
  return at < 0 ? 0 : at >= size ? size - 1 : at;
}

/* ---- Filters ------------------------------------------------------------------------------- */

/* Computes the weights of the centre and of each pair around it; equal ones for a box. */
static void fill_weights(double *weight, int32_t radius, double sigma, bool box) {
  double total = 0;
  for (int32_t i = 0; i <= radius; i++) {
    weight[i] = box ? 1 : exp(-0.5 * i * i / (sigma * sigma));
    total += i == 0 ? weight[i] : 2 * weight[i];
  }
  for (int32_t i = 0; i <= radius; i++) weight[i] /= total;
}

/* Filters along one axis; the frame is extended by its edges. */
static void filter_axis(const plane *from, plane *to, bool down, const double *weight,
                        int32_t radius) {
  for (int64_t y = 0; y < from->height; y++)
    for (int64_t x = 0; x < from->width; x++) {
      double sum = 0;
      for (int32_t i = -radius; i <= radius; i++) {
        const int64_t row = down ? clamp(y + i, from->height) : y;
        const int64_t column = down ? x : clamp(x + i, from->width);
        sum += weight[abs(i)] * from->value[row * from->width + column];
      }
      to->value[y * to->width + x] = sum;
    }
}

static void filter(const plane *from, plane *scratch, plane *to, const double *weight,
                   int32_t radius) {
  filter_axis(from, scratch, true, weight, radius);
  filter_axis(scratch, to, false, weight, radius);
}

/* For Gaussians, the outside of the blurred frame is the blur of the extended frame. So the frame
 * is extended before the first blur, and the second blur runs over the whole extended frame. */
static plane extended(const plane *frame, int32_t margin, double *memory) {
  plane made = {frame->height + 2 * (int64_t)margin, frame->width + 2 * (int64_t)margin, memory};
  for (int64_t y = 0; y < made.height; y++)
    for (int64_t x = 0; x < made.width; x++)
      made.value[y * made.width + x] =
          frame->value[clamp(y - margin, frame->height) * frame->width +
                       clamp(x - margin, frame->width)];
  return made;
}

static void find_filtered(const compute_spots_attributes *s, const plane *frame, double *memory,
                          plane *result) {
  const int32_t margin = s->radius + s->wide_radius;
  const int64_t most = (frame->height + 2 * (int64_t)margin) * (frame->width + 2 * (int64_t)margin);
  double weight[COMPUTE_SPOT_MOST_RADIUS + 1], wide[COMPUTE_SPOT_MOST_RADIUS + 1];
  const bool boxes = s->filter == 1;
  plane x = extended(frame, margin, memory), a = x, b = x, scratch = x;
  a.value = memory + most;
  b.value = memory + 2 * most;
  scratch.value = memory + 3 * most;
  fill_weights(weight, s->radius, s->sigma, boxes);
  fill_weights(wide, s->wide_radius, s->wide_sigma, boxes);
  filter(&x, &scratch, &a, weight, s->radius);
  filter(boxes ? &x : &a, &scratch, &b, wide, s->wide_radius);
  for (int64_t y = 0; y < frame->height; y++)
    for (int64_t c = 0; c < frame->width; c++) {
      const int64_t at = (y + margin) * x.width + c + margin;
      result->value[y * frame->width + c] = a.value[at] - b.value[at];
    }
}

/* ---- Noise --------------------------------------------------------------------------------- */

static double roughness(const plane *frame, int64_t y, int64_t x) {
  double sum = 0;
  for (int i = -1; i <= 1; i++)
    for (int k = -1; k <= 1; k++)
      sum += (i ? 1 : -2) * (k ? 1 : -2) * frame->value[(y + i) * frame->width + x + k];
  return fabs(sum);
}

/* One axis of the tiles: `count` tiles of `size` samples each, `step` pixels apart. */
typedef struct axis {
  int64_t count, size, samples, step;
} axis;

static axis make_axis(int64_t pixels, int64_t step, int64_t tile) {
  axis a = {.samples = (pixels - 3) / step + 1, .step = step};
  a.size = tile / step < 1 ? 1 : tile / step;
  if (tile == 0 || a.size > a.samples) a.size = a.samples;
  a.count = (a.samples + a.size - 1) / a.size;
  return a;
}

static int64_t first_sample(const axis *a, int64_t tile) {
  return a->count == 1 ? 0 : tile * (a->samples - a->size) / (a->count - 1);
}

/* Position of a pixel among the tiles, from 0 (the first tile's centre) to count − 1. */
static double place_of(const axis *a, int64_t pixel) {
  if (a->count == 1) return 0;
  const double apart = (double)(a->step * (a->samples - a->size)) / (double)(a->count - 1);
  const double at = ((double)(pixel - 1) - 0.5 * (double)(a->step * (a->size - 1))) / apart;
  return fmin(fmax(at, 0), (double)(a->count - 1));
}

static double find_variance(const compute_spots_attributes *s, const plane *frame, const axis *down,
                            int64_t i, const axis *along, int64_t k) {
  const int64_t top = first_sample(down, i), left = first_sample(along, k);
  double noise = 0, least = 0;
  for (int64_t round = 0; round <= s->rounds; round++) {
    double sum = 0;
    int64_t taken = 0;
    for (int64_t y = top; y < top + down->size; y++)
      for (int64_t x = left; x < left + along->size; x++) {
        const double rough = roughness(frame, 1 + y * s->step, 1 + x);
        if (round == 0 ? !isfinite(rough) : !(rough <= s->clip * noise)) continue;
        sum += round == 0 ? rough : rough * rough;
        taken++;
      }
    if (round == 0) {
      noise = s->first * sum / (double)(down->size * along->size);
      least = s->least * noise;
    } else {
      noise = taken > 0 ? sqrt(sum / (double)taken) * s->scale : 0;
      if (noise < least) noise = least;
    }
  }
  noise *= s->gain;
  return fmin(noise * noise, 1e30);
}

/* Noise gain of a pixel along one axis: the sums of a², ab and b² over the weights a and b of the
 * filter's two parts. The weights of pixels beyond an end are added to the end's weight. */
typedef struct edge_sums {
  double aa, ab, bb;
} edge_sums;

static edge_sums sums_at(const compute_spots_attributes *s, int64_t at, int64_t size) {
  static double a[8 * COMPUTE_SPOT_MOST_RADIUS], b[8 * COMPUTE_SPOT_MOST_RADIUS];
  double weight[COMPUTE_SPOT_MOST_RADIUS + 1], wide[COMPUTE_SPOT_MOST_RADIUS + 1];
  const bool boxes = s->filter == 1;
  edge_sums sums = {0};
  memset(a, 0, (size_t)size * sizeof *a);
  memset(b, 0, (size_t)size * sizeof *b);
  fill_weights(weight, s->radius, s->sigma, boxes);
  fill_weights(wide, s->wide_radius, s->wide_sigma, boxes);
  for (int32_t i = -s->radius; i <= s->radius; i++) a[clamp(at + i, size)] += weight[abs(i)];
  for (int32_t k = -s->wide_radius; k <= s->wide_radius; k++) {
    if (boxes) b[clamp(at + k, size)] += wide[abs(k)];
    for (int32_t i = -s->radius; !boxes && i <= s->radius; i++)
      b[clamp(at + i + k, size)] += weight[abs(i)] * wide[abs(k)];
  }
  for (int64_t i = 0; i < size; i++) {
    sums.aa += a[i] * a[i];
    sums.ab += a[i] * b[i];
    sums.bb += b[i] * b[i];
  }
  return sums;
}

static double noise_by(edge_sums down, edge_sums along) {
  return down.aa * along.aa - 2 * down.ab * along.ab + down.bb * along.bb;
}

/* The variance of noise at a pixel, relative to a pixel far from all edges. */
static double edge_share(const compute_spots_attributes *s, const plane *frame, int64_t y,
                         int64_t x) {
  const int64_t far = 2 * ((int64_t)s->radius + s->wide_radius) + 1;
  const edge_sums inner = sums_at(s, far / 2, far);
  const double unit = noise_by(inner, inner);
  return noise_by(sums_at(s, y, frame->height), sums_at(s, x, frame->width)) /
         (unit > 0 ? unit : 1);
}

/* Computes the variance at every pixel. `memory` has room for the tiles. */
static void find_variances(const compute_spots_attributes *s, const plane *frame, double *tiles,
                           plane *variance) {
  const axis down = make_axis(frame->height, s->step, s->tile),
             along = make_axis(frame->width, 1, s->tile);
  for (int64_t i = 0; i < down.count; i++)
    for (int64_t k = 0; k < along.count; k++)
      tiles[i * along.count + k] = find_variance(s, frame, &down, i, &along, k);
  for (int64_t y = 0; y < frame->height; y++)
    for (int64_t x = 0; x < frame->width; x++) {
      const double v = place_of(&down, y), h = place_of(&along, x);
      double sum = 0;
      for (int64_t i = 0; i < down.count; i++)
        for (int64_t k = 0; k < along.count; k++)
          sum += fmax(0, 1 - fabs(v - (double)i)) * fmax(0, 1 - fabs(h - (double)k)) *
                 tiles[i * along.count + k];
      variance->value[y * frame->width + x] = sum * edge_share(s, frame, y, x);
    }
}

/* ---- Spots --------------------------------------------------------------------------------- */

static double response(const plane *filtered, const plane *variance, int64_t at) {
  return variance->value[at] > 0 ? filtered->value[at] / sqrt(variance->value[at]) : 0;
}

static bool is_spot(const compute_spots_attributes *s, const plane *filtered, const plane *variance,
                    int64_t y, int64_t x) {
  const double middle = filtered->value[y * filtered->width + x];
  if (!(response(filtered, variance, y * filtered->width + x) >= s->threshold)) return false;
  for (int64_t i = y - s->distance; i <= y + s->distance; i++)
    for (int64_t k = x - s->distance; k <= x + s->distance; k++) {
      const bool inside = i >= 0 && i < filtered->height && k >= 0 && k < filtered->width;
      const double other = inside ? filtered->value[i * filtered->width + k] : 0;
      const bool before = i < y || (i == y && k < x);
      if (i == y && k == x) continue;
      if (!(before ? middle > other : middle >= other)) return false;
    }
  return true;
}

static void search_frame(const compute_kernel_descriptor *d, void *const *operands, int64_t n,
                         double *memory) {
  const compute_spots_attributes *s = compute_spots_of(d);
  const int64_t pixels = d->size[1] * d->size[2];
  const compute_operand *in = &d->inputs[0], *out = &d->outputs[0];
  plane frame = {d->size[1], d->size[2], memory}, filtered = frame, variance = frame;
  filtered.value = memory + pixels;
  variance.value = memory + 2 * pixels;
  for (int64_t i = 0; i < pixels; i++) {
    const int64_t at =
        n * in->stride[0] + i / frame.width * in->stride[1] + i % frame.width * in->stride[2];
    const reference_value value = reference_load(
        in->dtype, (const char *)operands[0] + at * (int64_t)compute_dtype_size(in->dtype));
    frame.value[i] = reference_is_float(in->dtype) ? value.real : (double)value.whole;
  }
  find_filtered(s, &frame, memory + 4 * pixels, &filtered);
  find_variances(s, &frame, memory + 3 * pixels, &variance);
  for (int64_t i = 0; i < pixels; i++) {
    const int64_t at =
        n * out->stride[0] + i / frame.width * out->stride[1] + i % frame.width * out->stride[2];
    const reference_value value = {
        .real = response(&filtered, &variance, i),
        .whole = is_spot(s, &filtered, &variance, i / frame.width, i % frame.width)};
    reference_store(out->dtype, (char *)operands[1] + at * (int64_t)compute_dtype_size(out->dtype),
                    out->dtype, value);
  }
}

bool spots_reference(const compute_kernel_descriptor *d, void *const *operands) {
  const int64_t margin =
      2 * ((int64_t)compute_spots_of(d)->radius + compute_spots_of(d)->wide_radius);
  const int64_t most = (d->size[1] + margin) * (d->size[2] + margin);
  double *memory = malloc((size_t)(4 * d->size[1] * d->size[2] + 4 * most) * sizeof *memory);
  if (!memory) return false;
  for (int64_t n = 0; n < d->size[0]; n++) search_frame(d, operands, n, memory);
  free(memory);
  return true;
}
