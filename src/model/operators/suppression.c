/* SPDX-License-Identifier: MIT */
/* NonMaxSuppression: of boxes that overlap, the one with the highest score. A host function, with a
 * task for each class of each batch item. */
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/type/shape.h"
#include "model/operators/operators.h"
#include "model/operators/select.h"

/* ---- Boxes ---------------------------------------------------------------------------------- */

typedef struct box {
  float y1, x1, y2, x2, area;
} box;

/* Four boxes. */
enum { LANES = 4 };
typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t mask __attribute__((vector_size(4 * LANES)));
typedef struct box_lanes {
  lanes y1, x1, y2, x2, area;
} box_lanes;

static inline lanes choose(mask m, lanes a, lanes b) {
  return (lanes)((m & (mask)a) | (~m & (mask)b));
}

static inline lanes all(float value) {
  return (lanes){value, value, value, value};
}

static inline mask is_nan(lanes x) {
  return ((mask)x & INT32_MAX) > 0x7f800000;
}

/* As fminf and fmaxf: of a NaN and a number, the number. */
static inline lanes least(lanes a, lanes b) {
  return choose((a < b) | is_nan(b), a, b);
}

static inline lanes most(lanes a, lanes b) {
  return choose((a > b) | is_nan(b), a, b);
}

static box box_at(const float *four, bool center) {
  box b;
  if (center)
    b = (box){four[1] - four[3] / 2, four[0] - four[2] / 2, four[1] + four[3] / 2,
              four[0] + four[2] / 2, 0};
  else
    b = (box){fminf(four[0], four[2]), fminf(four[1], four[3]), fmaxf(four[0], four[2]),
              fmaxf(four[1], four[3]), 0};
  b.area = (b.y2 - b.y1) * (b.x2 - b.x1);
  return b;
}

static box_lanes repeat(box b) {
  return (box_lanes){all(b.y1), all(b.x1), all(b.y2), all(b.x2), all(b.area)};
}

/* Appends b to `count` boxes. The rest of its group are boxes that overlap none. */
static void append(box_lanes *boxes, int64_t count, box b) {
  static const float far = 0x1p127f;
  box_lanes *group = &boxes[count / LANES];
  const int64_t lane = count % LANES;
  if (lane == 0) *group = repeat((box){far, far, -far, -far, 0});
  group->y1[lane] = b.y1;
  group->x1[lane] = b.x1;
  group->y2[lane] = b.y2;
  group->x2[lane] = b.x2;
  group->area[lane] = b.area;
}

/* Returns true if b overlaps one of `count` boxes too much. */
static bool overlaps(const box_lanes *boxes, int64_t count, box b, float limit) {
  const box_lanes own = repeat(b);
  for (const box_lanes *x = boxes, *end = x + (count + LANES - 1) / LANES; x < end; x++) {
    const lanes height = least(own.y2, x->y2) - most(own.y1, x->y1);
    const lanes width = least(own.x2, x->x2) - most(own.x1, x->x1);
    const lanes both = height * width, share = both / (own.area + x->area - both);
    const mask apart = (height <= 0) | (width <= 0);
    const mask over = ~(choose(apart, all(0), share) <= all(limit));
    if (over[0] | over[1] | over[2] | over[3]) return true;
  }
  return false;
}

/* ---- Candidates ------------------------------------------------------------------------------- */

/* The candidates are a heap of integers: the highest score first, of equal scores the first box.
 * So few selected boxes do not sort all. NaN is the lowest score. */
static uint64_t candidate(float score, int64_t place) {
  uint32_t bits;
  const float positive_zero = score + 0.0f; /* −0 equals 0 */
  memcpy(&bits, &positive_zero, sizeof bits);
  const uint32_t ascending = bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
  const uint32_t key = score != score ? 0 : ascending;
  return (uint64_t)(UINT32_MAX - key) << 32 | (uint64_t)place;
}

/* Moves the entry `moved` down from `at`, to below its smaller ones. */
static void sift(uint64_t *heap, int64_t count, int64_t at, uint64_t moved) {
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count) child += heap[child + 1] < heap[child];
    if (moved <= heap[child]) break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
}

/* ---- Suppression ------------------------------------------------------------------------------ */

typedef struct suppression {
  const float *scores;
  int64_t boxes, classes, most;
  float overlap_limit, score_limit;
  bool center, has_score_limit;
  box *placed;         /* per batch item: its boxes */
  uint64_t *heaps;     /* per worker */
  box_lanes *kept;     /* per worker: the selected boxes */
  int64_t kept_groups; /* per worker */
  uint32_t *places;    /* per row of scores: the selected boxes, at most `most` */
  int64_t *counts;     /* per row: their number */
} suppression;

static int64_t gather_candidates(const suppression *s, const float *scores, uint64_t *heap) {
  int64_t count = 0;
  for (int64_t i = 0; i < s->boxes; i++) {
    heap[count] = candidate(scores[i], i);
    count += !s->has_score_limit || scores[i] > s->score_limit;
  }
  for (int64_t i = count / 2 - 1; i >= 0; i--) sift(heap, count, i, heap[i]);
  return count;
}

/* Selects boxes of one class of one batch item. */
static void suppress_row(void *argument, int64_t row, int32_t worker) {
  const suppression *s = argument;
  const box *boxes = s->placed + row / s->classes * s->boxes;
  uint64_t *heap = s->heaps + worker * s->boxes;
  box_lanes *kept = s->kept + worker * s->kept_groups;
  int64_t found = 0;
  for (int64_t count = gather_candidates(s, s->scores + row * s->boxes, heap);
       count > 0 && found < s->most; sift(heap, count, 0, heap[count])) {
    const int64_t i = (int64_t)(heap[0] & UINT32_MAX);
    count--;
    if (overlaps(kept, found, boxes[i], s->overlap_limit)) continue;
    append(kept, found, boxes[i]);
    s->places[row * s->most + found++] = (uint32_t)i;
  }
  s->counts[row] = found;
}

/* Makes rows of [batch, class, box]. */
static compute_status give_selected(host_call *call, const suppression *s, int64_t rows,
                                    host_tensor *output) {
  int64_t found = 0;
  for (int64_t row = 0; row < rows; row++) found += s->counts[row];
  const compute_status status = host_make(call, output, COMPUTE_I64, COMPUTE_SHAPE(found, 3));
  if (status) return status;
  int64_t *to = output->data;
  for (int64_t row = 0; row < rows; row++)
    for (int64_t i = 0; i < s->counts[row]; i++, to += 3) {
      to[0] = row / s->classes;
      to[1] = row % s->classes;
      to[2] = s->places[row * s->most + i];
    }
  return COMPUTE_OK;
}

static compute_status suppress_all(host_call *call, suppression *s, const float *boxes,
                                   int64_t batches, host_tensor *output) {
  const int64_t rows = batches * s->classes, workers = host_workers(call);
  int64_t numbers;
  s->kept_groups = (s->most + LANES - 1) / LANES;
  if (s->boxes > UINT32_MAX || __builtin_mul_overflow(rows, s->most, &numbers))
    return host_fail(call, COMPUTE_ERROR_OVERFLOW, "its result is too large");
  s->placed = base_allocate((uint64_t)(batches * s->boxes), sizeof *s->placed);
  s->heaps = base_allocate((uint64_t)(workers * s->boxes), sizeof *s->heaps);
  s->kept = base_allocate_aligned((uint64_t)(workers * s->kept_groups) * sizeof *s->kept, 16);
  s->places = base_allocate((uint64_t)numbers, sizeof *s->places);
  s->counts = base_allocate((uint64_t)rows, sizeof *s->counts);
  compute_status status;
  if (s->placed && s->heaps && s->kept && s->places && s->counts) {
    for (int64_t i = 0; i < batches * s->boxes; i++)
      s->placed[i] = box_at(boxes + 4 * i, s->center);
    host_parallel(call, rows, suppress_row, s);
    status = give_selected(call, s, rows, output);
  } else {
    status = host_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory");
  }
  base_release(s->placed);
  base_release(s->heaps);
  base_release(s->kept);
  base_release(s->places);
  base_release(s->counts);
  return status;
}

/* The number in an optional input; 0 if it is omitted. */
static float number_in(const host_tensor *tensor) {
  return tensor->data ? *(const float *)tensor->data : 0;
}

static compute_status suppression_host(host_call *call, const host_tensor *inputs,
                                       host_tensor *outputs) {
  const model_call *node = host_node(call);
  const host_tensor *boxes = &inputs[0], *scores = &inputs[1];
  if (boxes->shape.rank != 3 || scores->shape.rank != 3 || shape_at(boxes->shape, 2) != 4 ||
      shape_at(boxes->shape, 0) != shape_at(scores->shape, 0) ||
      shape_at(boxes->shape, 1) != shape_at(scores->shape, 2) || boxes->dtype != COMPUTE_F32 ||
      scores->dtype != COMPUTE_F32)
    return host_fail(call, COMPUTE_ERROR_SHAPE, "boxes and scores do not fit each other");
  suppression s = {
      .scores = scores->data,
      .boxes = shape_at(boxes->shape, 1),
      .classes = shape_at(scores->shape, 1),
      .most = node->input_count > 2 && inputs[2].data ? *(const int64_t *)inputs[2].data : 0,
      .overlap_limit = node->input_count > 3 ? number_in(&inputs[3]) : 0,
      .has_score_limit = node->input_count > 4 && inputs[4].data,
      .score_limit = node->input_count > 4 ? number_in(&inputs[4]) : 0,
      .center = call_attribute_i(node, "center_point_box", 0) != 0};
  s.most = max_i64(min_i64(s.most, s.boxes), 0);
  return suppress_all(call, &s, boxes->data, shape_at(boxes->shape, 0), &outputs[0]);
}

static compute_status non_max_suppression(model_call *call) {
  static const compute_dtype dtypes[] = {COMPUTE_I64, COMPUTE_F32, COMPUTE_F32};
  call_attribute_i(call, "center_point_box", 0);
  for (size_t i = 2; i < 5; i++) {
    int64_t count;
    if (!call_has(call, i)) continue;
    if (compute_shape_count(call_shape(call, i), &count) || count != 1 ||
        call_dtype(call, i) != dtypes[i - 2])
      return call_fail(call, COMPUTE_ERROR_DTYPE, "input %zu is not a single %s", i,
                       compute_dtype_name(dtypes[i - 2]));
  }
  return select_on_host(call, 2, suppression_host, 1, 0.5);
}

static const operator_row rows[] = {
    {"", "NonMaxSuppression", 10, non_max_suppression},
};

const operator_family operators_suppression = OPERATOR_FAMILY(rows);
