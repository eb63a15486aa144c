/* SPDX-License-Identifier: MIT */
/* SPOTS: frames are filtered and searched in one pass, row by row, while the rows are in the cache.
 *
 * The pipeline consists of ring buffers of rows: pixels as f32; their first blur; and the filtered
 * rows, with the search in the middle one. So a pixel is read and converted once, and only the
 * result is as large as a frame. Sums cover a few rows of results at a time, because the rows of
 * the wide filter together are larger than the level-1 cache. The order of sums is the one that
 * compute/backend.h specifies, without contraction: all instruction sets, and all divisions of a
 * frame into row tiles, give the same bits. Only the sums for the noise estimate may differ, and
 * depend only on the instruction set.
 *
 * The noise comes first, from rows of tiles. Each row of the frame then has a row of variances, so
 * that a pixel is compared without a root or a division. */
#include "fit_table.h"

#include "compute/backend/fit_kinds.h"

#include "fit_vector.h"

#define L             FIT_LANES
#define TOGETHER      8  /* vectors: enough independent sums to hide their latency */
#define FEW           2  /* vectors at the end of a row */
#define GROUP         4  /* rows of results per pass */
#define FRONT         16 /* floats before a filtered row; the last is its left neighbour */
#define TILES         4  /* tiles per noise measurement */
#define EXTRA         (TOGETHER * L + FRONT) /* at a row's end, for its last block of vectors */
#define MOST_VARIANCE 1e30f

/* The last `size` rows of one kind. The table lists each of them twice, so that consecutive rows
 * are consecutive pointers from any start. */
typedef struct ring {
  int64_t size;
  const float **table;
} ring;

/* Sums of rows, for a group; along[g] has pointers into row g, at elements 0, 1, 2 … */
typedef struct row_sums {
  float *row[GROUP];
  const float **along[GROUP];
} row_sums;

typedef struct search {
  const cpu_spots_job *job;
  const unsigned char *frame;
  int64_t pitch;  /* floats between rows */
  int64_t margin; /* padding of rows on both sides */
  int32_t reach;  /* of the first filter */
  ring pixels, blurred, filtered;
  row_sums column, wide;
  const float **rows;        /* scratch for the rows of a group */
  const float *tiles;        /* variances of the frame */
  float *between, *variance; /* of a row: at its tiles, and at its pixels */
  float *part;               /* of a row's pixels: fraction of the way between two tile centres */
  int64_t *tile_end;         /* a row's pixels up to the centre of each tile except the first */
  int64_t next_pixels, next_blurred; /* first row that is not available yet */
} search;

FIT_INLINE vf load(const float *from) {
  vf v;
  memcpy(&v, from, sizeof v);
  return v;
}

FIT_INLINE void store(float *to, vf v) {
  memcpy(to, &v, sizeof v);
}

static int64_t within(int64_t at, int64_t size) {
  return at < 0 ? 0 : at < size ? at : size - 1;
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* Allocates `bytes` of the workspace; NULL when only counting. */
static void *take(unsigned char *memory, int64_t *used, int64_t bytes) {
  unsigned char *taken = memory ? memory + *used : NULL;
  *used += (bytes + 63) / 64 * 64;
  return taken;
}

static void take_ring(unsigned char *memory, int64_t *used, int64_t pitch, int64_t size, ring *g) {
  const float *rows = take(memory, used, size * pitch * (int64_t)sizeof *rows);
  *g = (ring){size, take(memory, used, 2 * size * (int64_t)sizeof rows)};
  for (int64_t i = 0; memory && i < 2 * size; i++) g->table[i] = rows + i % size * pitch;
}

static void take_sums(unsigned char *memory, int64_t *used, int64_t pitch, int64_t terms,
                      row_sums *sums) {
  for (int g = 0; g < GROUP; g++) {
    float *const row = take(memory, used, pitch * (int64_t)sizeof *row);
    const float **const along = take(memory, used, terms * (int64_t)sizeof *along);
    for (int64_t i = 0; memory && i < terms; i++) along[i] = row + i;
    sums->row[g] = row;
    sums->along[g] = along;
  }
}

/* Lays out a search in memory; returns its bytes. */
static int64_t lay_out(const cpu_spots_job *job, unsigned char *memory, search *s) {
  const compute_spots_attributes *o = &job->search;
  const bool boxes = o->filter == 1;
  const int64_t terms = 2 * (int64_t)o->wide_radius + 1;
  int64_t used = 0;
  *s = (search){.job = job,
                .margin = boxes ? o->wide_radius : (int64_t)o->radius + o->wide_radius,
                .reach = boxes ? o->wide_radius : o->radius};
  s->pitch = (job->width + 2 * s->margin + EXTRA + 15) / 16 * 16;
  take_ring(memory, &used, s->pitch, 2 * (int64_t)s->reach + GROUP, &s->pixels);
  take_ring(memory, &used, s->pitch, boxes ? 1 : terms - 1 + GROUP, &s->blurred);
  take_ring(memory, &used, s->pitch, 2 * (int64_t)o->distance + GROUP, &s->filtered);
  take_sums(memory, &used, s->pitch, terms, &s->column);
  take_sums(memory, &used, s->pitch, terms, &s->wide);
  s->rows = take(memory, &used, (terms - 1 + GROUP) * (int64_t)sizeof *s->rows);
  s->between = take(memory, &used, job->along.count * (int64_t)sizeof *s->between);
  s->tile_end = take(memory, &used, job->along.count * (int64_t)sizeof *s->tile_end);
  s->part = take(memory, &used, s->pitch * (int64_t)sizeof *s->part);
  s->variance = take(memory, &used, s->pitch * (int64_t)sizeof *s->variance);
  return used;
}

static int64_t workspace_bytes(const cpu_spots_job *job) {
  const compute_spots_attributes *o = &job->search;
  const int64_t rows =
      4 * (int64_t)o->wide_radius + 4 * (int64_t)o->radius + 2 * o->distance + 18 + 7 * GROUP;
  int64_t most, sample;
  search s;
  if (__builtin_mul_overflow(job->width + 4 * (int64_t)o->wide_radius + 2 * EXTRA,
                             rows * (int64_t)sizeof(float), &most) ||
      __builtin_mul_overflow((job->down.size + 4) * (int64_t)sizeof(float), job->width + EXTRA,
                             &sample))
    return INT64_MAX;
  most = lay_out(job, NULL, &s);
  return (most > sample ? most : sample) + 64;
}

/* ---- Rows ---------------------------------------------------------------------------------- */

static void convert(const uint16_t *restrict from, int64_t count, float *restrict to) {
  for (int64_t i = 0; i < count; i++) to[i] = (float)from[i];
}

static void read_row(const cpu_spots_job *job, const unsigned char *frame, int64_t y, float *to) {
  const unsigned char *from = frame + y * job->stride[1];
  const int64_t step = job->stride[2], width = job->width;
  if (job->whole && step == sizeof(uint16_t)) {
    convert((const uint16_t *)(const void *)from, width, to);
  } else if (job->whole) {
    for (int64_t i = 0; i < width; i++)
      to[i] = (float)*(const uint16_t *)(const void *)(from + i * step);
  } else if (step == sizeof(float)) {
    memcpy(to, from, (size_t)width * sizeof *to);
  } else {
    for (int64_t i = 0; i < width; i++) to[i] = *(const float *)(const void *)(from + i * step);
  }
}

/* Computes `count` vectors at `x` of a sum of weighted rows, symmetric about rows[radius]. */
FIT_INLINE void weigh_block(const float *const *rows, int32_t radius, const float *weight,
                            int64_t x, const int count, float *to) {
  vf sum[TOGETHER], w = v_set(weight[0]);
  FIT_UNROLL
  for (int i = 0; i < count; i++) sum[i] = load(rows[radius] + x + i * L) * w;
  for (int32_t k = 1; k <= radius; k++) {
    const float *before = rows[radius - k] + x, *after = rows[radius + k] + x;
    w = v_set(weight[k]);
    FIT_UNROLL
    for (int i = 0; i < count; i++) sum[i] += (load(before + i * L) + load(after + i * L)) * w;
  }
  FIT_UNROLL
  for (int i = 0; i < count; i++) store(to + x + i * L, sum[i]);
}

/* Computes `results` sums; each uses rows one further down than the preceding one. */
static void weigh(const float *const *rows, int32_t radius, const float *weight, int64_t count,
                  float *const *to, int results) {
  int64_t x = 0;
  for (; count - x > FEW * L; x += TOGETHER * L)
    for (int g = 0; g < results; g++) weigh_block(rows + g, radius, weight, x, TOGETHER, to[g]);
  for (int g = 0; x < count && g < results; g++)
    weigh_block(rows + g, radius, weight, x, FEW, to[g]);
}

/* Pointers to row y and its successors; y may be up to size − 1 rows before the frame. */
static const float *const *rows_from(const ring *g, int64_t y) {
  return g->table + (y + g->size) % g->size;
}

static float *row_at(const ring *g, int64_t y) {
  return (float *)(uintptr_t)*rows_from(g, y);
}

/* Extends a row of the frame's width by its end values; the row begins at element `margin`. */
static void continue_row(const search *s, float *row) {
  float *const begin = row + s->margin, *const end = begin + s->job->width;
  const float first = begin[0], last = end[-1];
  for (int64_t i = 0; i < s->margin; i++) row[i] = first;
  for (int64_t i = 0; i < s->margin; i++) end[i] = last;
  memset(end + s->margin, 0, (size_t)(row + s->pitch - end - s->margin) * sizeof *row);
}

/* Sums the pixels of 2 radius + 1 rows about row y and about its successors, `results` sums in
 * total. The rows may be outside the frame. */
static void weigh_pixels(search *s, int64_t y, int results, int32_t radius, const float *weight,
                         row_sums *sums) {
  const cpu_spots_job *job = s->job;
  const int64_t last = within(y + results - 1 + s->reach, job->height);
  if (s->next_pixels < y - s->reach) s->next_pixels = y - s->reach;
  for (; s->next_pixels <= last; s->next_pixels++) {
    float *row = row_at(&s->pixels, s->next_pixels);
    read_row(job, s->frame, s->next_pixels, row);
    memset(row + job->width, 0, (size_t)(s->pitch - job->width) * sizeof *row);
  }
  for (int64_t k = 0; k < 2 * radius + results; k++)
    s->rows[k] = row_at(&s->pixels, within(y - radius + k, job->height));
  float *to[GROUP];
  for (int g = 0; g < GROUP; g++) to[g] = sums->row[g] + s->margin;
  weigh(s->rows, radius, weight, job->width, to, results);
  for (int g = 0; g < results; g++) continue_row(s, sums->row[g]);
}

/* ---- Filters ------------------------------------------------------------------------------- */

/* Continues the first blur up to row `last`. */
static void blur(search *s, int64_t last) {
  const cpu_spots_job *job = s->job;
  const int32_t radius = job->search.radius;
  const int64_t widened = job->width + 2 * (int64_t)job->search.wide_radius;
  while (s->next_blurred <= last) {
    const int64_t left = last + 1 - s->next_blurred;
    const int results = left < GROUP ? (int)left : GROUP;
    weigh_pixels(s, s->next_blurred, results, radius, job->weight, &s->column);
    for (int g = 0; g < results; g++)
      weigh(s->column.along[g], radius, job->weight, widened,
            &(float *){row_at(&s->blurred, s->next_blurred + g)}, 1);
    s->next_blurred += results;
  }
}

/* Computes rows y, y + 1 … of the result. */
static void filter_gaussians(search *s, int64_t y, int results, float *const *to) {
  const cpu_spots_job *job = s->job;
  const int32_t wide = job->search.wide_radius;
  const int64_t width = job->width, widened = width + 2 * (int64_t)wide;
  if (s->next_blurred < y - wide) s->next_blurred = y - wide;
  blur(s, y + results - 1 + wide);
  const float *const *rows = rows_from(&s->blurred, y - wide);
  weigh(rows, wide, job->wide_weight, widened, s->wide.row, results);
  for (int g = 0; g < results; g++) {
    const float *blurred = rows[g + wide] + wide;
    weigh(s->wide.along[g], wide, job->wide_weight, width, &to[g], 1);
    for (int64_t i = 0; i < width; i += L) store(to[g] + i, load(blurred + i) - load(to[g] + i));
  }
}

static void filter_boxes(search *s, int64_t y, int results, float *const *to) {
  const cpu_spots_job *job = s->job;
  const int32_t radius = job->search.radius, wide = job->search.wide_radius;
  const double side = 2.0 * radius + 1, wide_side = 2.0 * wide + 1;
  const float share = (float)(1 / (side * side)), wide_share = (float)(1 / (wide_side * wide_side));
  weigh_pixels(s, y, results, wide, job->wide_weight, &s->wide);
  weigh_pixels(s, y, results, radius, job->weight, &s->column);
  for (int g = 0; g < results; g++) {
    float *const narrow = s->wide.row[g];
    weigh(s->wide.along[g], wide, job->wide_weight, job->width, &to[g], 1);
    weigh(s->column.along[g] + wide - radius, radius, job->weight, job->width, &narrow, 1);
    for (int64_t i = 0; i < job->width; i += L)
      store(to[g] + i, load(narrow + i) * v_set(share) - load(to[g] + i) * v_set(wide_share));
  }
}

static float *filtered_row(const search *s, int64_t y) {
  return row_at(&s->filtered, y) + FRONT;
}

/* Clears the element on each side of a row: outside the frame, filtered values are 0. */
static void filter_rows(search *s, int64_t y, int results) {
  float *rows[GROUP];
  for (int g = 0; g < results; g++) rows[g] = filtered_row(s, y + g);
  if (s->job->search.filter == 1)
    filter_boxes(s, y, results, rows);
  else
    filter_gaussians(s, y, results, rows);
  for (int g = 0; g < results; g++) rows[g][-1] = rows[g][s->job->width] = 0;
}

/* ---- Variances ----------------------------------------------------------------------------- */

/* The position of a pixel relative to the tiles' centres, from 0 to count − 1. */
static float place_of(const compute_spots_tiles *t, int64_t pixel) {
  const float at = ((float)pixel - (float)t->origin) / (float)t->apart;
  const float most = (float)(t->count - 1);
  return at < 0 ? 0 : at < most ? at : most;
}

/* The first pixel at or past the centre of a tile. */
static int64_t middle_of(const compute_spots_tiles *t, int64_t tile) {
  return (int64_t)__builtin_ceil(t->origin + (double)tile * t->apart);
}

/* Multiplies the variances of some pixels of row y by the factors of the frame's edges. */
static void vary_near_edges(const search *s, int64_t y, int64_t first, int64_t end) {
  const cpu_spots_job *job = s->job;
  const float *down = job->edge_down + y, *along = job->edge_along;
  const float aa = down[0], ab = 2 * down[job->height], bb = down[2 * job->height];
  const float *const a = along, *const b = a + job->width, *const c = b + job->width;
  for (int64_t x = first; x < end; x++) s->variance[x] *= aa * a[x] - ab * b[x] + bb * c[x];
}

static void vary_edges(const search *s, int64_t y) {
  const int64_t reach = s->job->reach, width = s->job->width;
  if (y < reach || y >= s->job->height - reach || width <= 2 * reach) {
    vary_near_edges(s, y, 0, width);
    return;
  }
  vary_near_edges(s, y, 0, reach);
  vary_near_edges(s, y, width - reach, width);
}

/* The positions of a row's pixels between the tiles' centres. */
static void place_row(search *s) {
  const compute_spots_tiles *along = &s->job->along;
  const int64_t width = s->job->width;
  const float origin = (float)along->origin, share = (float)(1 / along->apart);
  int64_t x = 0;
  for (int64_t i = 0; i + 1 < along->count; i++) {
    const int64_t middle = middle_of(along, i + 1), end = middle < width ? middle : width;
    for (; x < end; x++) {
      const float at = ((float)(int32_t)x - origin) * share - (float)i;
      s->part[x] = at < 0 ? 0 : at < 1 ? at : 1;
    }
    s->tile_end[i] = x;
  }
}

/* Computes s->variance for row y. Whole vectors are stored; the next tile overwrites their
 * excess. */
static void vary_row(const search *s, int64_t y) {
  const compute_spots_tiles *down = &s->job->down, *along = &s->job->along;
  const int64_t width = s->job->width, count = along->count;
  const float row = place_of(down, y);
  const int64_t upper = row < (float)(down->count - 1) ? (int64_t)row : down->count - 1;
  const float part = row - (float)upper;
  const float *const above = s->tiles + upper * count;
  const float *const below = upper + 1 < down->count ? above + count : above;
  float *const between = s->between, *const variance = s->variance;
  for (int64_t i = 0; i < count; i++) between[i] = above[i] + (below[i] - above[i]) * part;
  const float last = between[count - 1];
  int64_t x = 0;
  for (int64_t i = 0; i + 1 < count; x = s->tile_end[i++]) {
    const vf left = v_set(between[i]), step = v_set(between[i + 1]) - left;
    for (; x < s->tile_end[i]; x += L) store(variance + x, left + step * load(s->part + x));
  }
  for (; x < width; x += L) store(variance + x, v_set(last));
  vary_edges(s, y);
}

/* ---- Maxima -------------------------------------------------------------------------------- */

static uint32_t first_lanes(int64_t count) {
  return count <= 0 ? 0 : count >= L ? FIT_ALL_LANES : (1u << count) - 1;
}

/* `true` if a pixel is larger than all pixels before it in its square, in row-major order, and no
 * smaller than those after it. A NaN fails both. */
static bool is_maximum(const search *s, int64_t y, int64_t x) {
  const int64_t d = s->job->search.distance, width = s->job->width;
  const int64_t left = x - d > 0 ? x - d : 0, right = within(x + d, width);
  const int64_t top = y - d > 0 ? y - d : 0, bottom = within(y + d, s->job->height);
  const float *const *rows = rows_from(&s->filtered, top);
  const vf here = v_set(rows[y - top][FRONT + x]);
  for (int64_t i = top; i <= bottom; i++) {
    const float *row = rows[i - top] + FRONT;
    const int64_t middle = i < y ? right + 1 : i > y ? left : x; /* from here on: no smaller */
    for (int64_t j = left; j <= right; j += L) {
      const vf there = load(row + j);
      const uint32_t lanes = first_lanes(right + 1 - j), before = first_lanes(middle - j);
      const uint32_t good =
          (v_bits(v_less(there, here)) & before) | (v_bits(v_at_least(here, there)) & ~before);
      if ((good & lanes) != lanes) return false;
    }
  }
  return true;
}

/* The lanes of pixels that reach the threshold and are maxima among their four neighbours. All
 * comparisons precede the branch: with many spots, branches are often mispredicted. */
FIT_INLINE uint32_t candidates(const float *row, const float *above, const float *below,
                               const float *variance, float square) {
  const vf here = load(row), least = load(variance) * v_set(square);
  vm good = v_and(v_at_least(here * here, least), v_less(v_set(0), least));
  good = v_and(good, v_less(v_set(0), here));
  good = v_and(good, v_less(load(row - 1), here));
  good = v_and(good, v_at_least(here, load(row + 1)));
  if (above) good = v_and(good, v_less(load(above), here));
  if (below) good = v_and(good, v_at_least(here, load(below)));
  return v_bits(good);
}

static void mark_row(const search *s, int64_t y, unsigned char *result) {
  const cpu_spots_job *job = s->job;
  const int64_t width = job->width, step = job->result_stride[2];
  const float threshold = (float)job->search.threshold;
  const float *row = filtered_row(s, y), *variance = s->variance;
  const float *above = y > 0 ? filtered_row(s, y - 1) : NULL;
  const float *below = y + 1 < job->height ? filtered_row(s, y + 1) : NULL;
  if (step == 1)
    memset(result, 0, (size_t)width);
  else
    for (int64_t i = 0; i < width; i++) result[i * step] = 0;
  for (int64_t x = 0; x < width; x += L) {
    uint32_t bits = candidates(row + x, above ? above + x : NULL, below ? below + x : NULL,
                               variance + x, threshold * threshold) &
                    first_lanes(width - x);
    for (; bits; bits &= bits - 1) {
      const int64_t at = x + __builtin_ctz(bits);
      if (is_maximum(s, y, at)) result[at * step] = 1;
    }
  }
}

static void write_response(const search *s, int64_t y, unsigned char *result) {
  const int64_t width = s->job->width, step = s->job->result_stride[2];
  const float *variance = s->variance;
  float *row = filtered_row(s, y);
  for (int64_t i = 0; i < width; i++)
    row[i] *= variance[i] > 0 ? 1 / __builtin_sqrtf(variance[i]) : 0;
  if (step == sizeof *row)
    memcpy(result, row, (size_t)width * sizeof *row);
  else
    for (int64_t i = 0; i < width; i++) memcpy(result + i * step, &row[i], sizeof *row);
}

static void find(const cpu_spots_job *job, int64_t frame, const float *variance, int64_t first,
                 int64_t end, void *workspace) {
  search s;
  lay_out(job, workspace, &s);
  s.tiles = variance;
  s.frame = job->frames + frame * job->stride[0];
  s.next_blurred = -(int64_t)job->search.wide_radius;
  unsigned char *result = job->result + frame * job->result_stride[0];
  const int64_t d = job->response ? 0 : job->search.distance, height = job->height;
  const int64_t last = end + d < height ? end + d : height; /* rows to be filtered */
  place_row(&s);
  int64_t ready = first;
  for (int64_t y = first - d > 0 ? first - d : 0; y < last;) {
    const int results = last - y < GROUP ? (int)(last - y) : GROUP;
    filter_rows(&s, y, results);
    y += results;
    for (; ready < end && (ready + d < y || y == height); ready++) {
      unsigned char *to = result + ready * job->result_stride[1];
      vary_row(&s, ready);
      if (job->response)
        write_response(&s, ready, to);
      else
        mark_row(&s, ready, to);
    }
  }
}

/* ---- Noise --------------------------------------------------------------------------------- */

/* before − 2 · here + after. */
FIT_INLINE vf curvature(vf before, vf here, vf after) {
  return (before + after) - (here + here);
}

/* The absolute second difference, along columns, of the second difference along rows: for `rows`
 * samples from sample `first` on. Exact for counts. Rows of `rough` need memory for an extra
 * vector. */
static void roughness(const cpu_spots_job *job, int64_t frame, int64_t first, int64_t rows,
                      float *pixels, float *rough) {
  const int64_t width = job->width, pitch = width + EXTRA, step = job->search.step;
  const unsigned char *from = job->frames + frame * job->stride[0];
  float *const curved = pixels + 3 * pitch;
  memset(pixels, 0, (size_t)(4 * pitch) * sizeof *pixels);
  int64_t next = first * step; /* the next unread row of the frame */
  for (int64_t i = 0; i < rows; i++, rough += pitch) {
    const int64_t top = (first + i) * step;
    for (next = next > top ? next : top; next < top + 3; next++)
      read_row(job, from, next, pixels + next % 3 * pitch);
    const float *const above = pixels + top % 3 * pitch;
    const float *const here = pixels + (top + 1) % 3 * pitch;
    const float *const below = pixels + (top + 2) % 3 * pitch;
    for (int64_t x = 0; x < width; x += L)
      store(curved + x, curvature(load(above + x), load(here + x), load(below + x)));
    for (int64_t x = 0; x < width - 2; x += L)
      store(rough + x,
            v_abs(curvature(load(curved + x), load(curved + x + 1), load(curved + x + 2))));
  }
}

/* The sums of the finite values of some tiles; with `square`, the sums of the squares of values up
 * to a tile's limit, and their counts. Each sum depends on its last addition, so several tiles take
 * hardly longer than one. */
FIT_INLINE void sum_tiles(const cpu_spots_job *job, const float *const *values, const float *limits,
                          const bool square, float *totals, float *numbers) {
  const int64_t pitch = job->width + EXTRA, columns = job->along.size;
  vf sum[TILES], taken[TILES], most[TILES];
  FIT_UNROLL
  for (int t = 0; t < TILES; t++) {
    sum[t] = taken[t] = v_set(0);
    most[t] = v_set(square ? limits[t] : __builtin_inff());
  }
  for (int64_t i = 0; i < job->down.size; i++)
    for (int64_t x = 0; x < columns; x += L) {
      const vm inside = v_mask(first_lanes(columns - x));
      FIT_UNROLL
      for (int t = 0; t < TILES; t++) {
        const vf here = load(values[t] + i * pitch + x);
        const vm in = v_and(square ? v_at_least(most[t], here) : v_less(here, most[t]), inside);
        sum[t] += v_keep(in, square ? here * here : here);
        taken[t] += v_keep(in, v_set(1));
      }
    }
  for (int t = 0; t < TILES; t++) {
    totals[t] = numbers[t] = 0;
    for (int lane = 0; lane < L; lane++) {
      totals[t] += sum[t][lane];
      numbers[t] += taken[t][lane];
    }
  }
}

static void tile_variances(const cpu_spots_job *job, const float *const *rough, float *variances) {
  const compute_spots_attributes *o = &job->search;
  const float all = (float)(job->down.size * job->along.size);
  float noise[TILES], least[TILES], limits[TILES] = {0}, totals[TILES], numbers[TILES];
  sum_tiles(job, rough, limits, false, totals, numbers);
  for (int t = 0; t < TILES; t++) {
    noise[t] = totals[t] / all * (float)o->first;
    least[t] = noise[t] * (float)o->least;
  }
  for (int64_t i = 0; i < o->rounds; i++) {
    for (int t = 0; t < TILES; t++) limits[t] = noise[t] * (float)o->clip;
    sum_tiles(job, rough, limits, true, totals, numbers);
    for (int t = 0; t < TILES; t++) {
      const float mean = totals[t] / (numbers[t] > 1 ? numbers[t] : 1);
      const float next = __builtin_sqrtf(mean) * (float)o->scale;
      noise[t] = next > least[t] ? next : least[t];
    }
  }
  for (int t = 0; t < TILES; t++) {
    const float square = noise[t] * (float)o->gain * (noise[t] * (float)o->gain);
    variances[t] = square < MOST_VARIANCE ? square : MOST_VARIANCE;
  }
}

static void measure(const cpu_spots_job *job, int64_t frame, int64_t tile, float *variance,
                    void *workspace) {
  float *const pixels = workspace, *const rough = pixels + 4 * (job->width + EXTRA);
  roughness(job, frame, compute_spots_tile_start(&job->down, tile), job->down.size, pixels, rough);
  const int64_t count = job->along.count;
  for (int64_t i = 0; i < count; i += TILES) {
    const float *tiles[TILES];
    float variances[TILES];
    for (int t = 0; t < TILES; t++)
      tiles[t] = rough + compute_spots_tile_start(&job->along, i + t < count ? i + t : count - 1);
    tile_variances(job, tiles, variances);
    for (int t = 0; t < TILES && i + t < count; t++) variance[i + t] = variances[t];
  }
}

const cpu_spots_loops CPU_SYMBOL(cpu_spots) = {
    .workspace_bytes = workspace_bytes, .measure = measure, .find = find};
