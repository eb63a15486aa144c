/* SPDX-License-Identifier: MIT */
/* Finds beads, which do not move. Their localisations in all frames are therefore clusters a pixel
 * wide. */
#include "programs/fit/bead_stack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAME_PLACE 2.0 /* pixels */

/* ---- Finding ------------------------------------------------------------------------------- */

/* Returns the bead nearest to a position, or NULL if none is near enough. */
static bead *bead_at(const bead_stack *stack, double x, double y) {
  bead *found = NULL;
  double least = SAME_PLACE * SAME_PLACE;
  for (int64_t i = 0; i < stack->count; i++) {
    bead *b = &stack->beads[i];
    const double square = (x - b->x) * (x - b->x) + (y - b->y) * (y - b->y);
    if (square > least) continue;
    least = square;
    found = b;
  }
  return found;
}

static bool add_position(bead_stack *stack, int64_t *room, double x, double y) {
  bead *b = bead_at(stack, x, y);
  if (b) {
    b->rows++;
    b->x += (x - b->x) / (double)b->rows;
    b->y += (y - b->y) / (double)b->rows;
    return true;
  }
  if (stack->count == *room) {
    const int64_t more = 2 * *room + 64;
    bead *grown = realloc(stack->beads, (size_t)more * sizeof *grown);
    if (!grown) return false;
    stack->beads = grown;
    *room = more;
  }
  stack->beads[stack->count++] = (bead){.x = x, .y = y, .rows = 1};
  return true;
}

static bool is_apart(const bead_stack *stack, int64_t i) {
  const bead *b = &stack->beads[i];
  for (int64_t k = 0; k < stack->count; k++) {
    const bead *other = &stack->beads[k];
    if (k != i && fabs(other->x - b->x) < stack->side && fabs(other->y - b->y) < stack->side)
      return false;
  }
  return true;
}

static bool is_inside(const bead_stack *stack, const bead *b, int64_t rows, int64_t columns) {
  const double half = stack->window / 2;
  return floor(b->x + 0.5) >= half && floor(b->y + 0.5) >= half &&
         floor(b->x + 0.5) + half < (double)columns && floor(b->y + 0.5) + half < (double)rows;
}

/* Removes the beads whose `keep` is not set. They own no memory yet. */
static void keep_only(bead_stack *stack, const bool *keep) {
  int64_t kept = 0;
  for (int64_t i = 0; i < stack->count; i++)
    if (keep[i]) stack->beads[kept++] = stack->beads[i];
  stack->count = kept;
}

compute_status bead_stack_find(const spots *s, int64_t frames, int64_t rows, int64_t columns,
                               int32_t side, bead_stack *stack, failure *why) {
  int64_t room = 0;
  bool *keep = NULL;
  *stack = (bead_stack){.side = side, .window = side + 2 * BEAD_MARGIN, .frames = frames};
  for (int64_t i = 0; i < s->count; i++)
    if (!add_position(stack, &room, s->x[i], s->y[i])) goto short_of_memory;
  keep = malloc((size_t)stack->count + 1);
  if (!keep) goto short_of_memory;
  for (int64_t i = 0; i < stack->count; i++) keep[i] = stack->beads[i].rows * 3 >= frames;
  keep_only(stack, keep);
  stack->found = stack->count;
  for (int64_t i = 0; i < stack->count; i++)
    keep[i] = is_apart(stack, i) && is_inside(stack, &stack->beads[i], rows, columns);
  keep_only(stack, keep);
  free(keep);
  return COMPUTE_OK;

short_of_memory:
  free(stack->beads);
  *stack = (bead_stack){0};
  return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory for the beads");
}

void bead_stack_release(bead_stack *stack) {
  for (int64_t i = 0; i < stack->count; i++) free(stack->beads[i].pixels);
  free(stack->beads);
  *stack = (bead_stack){0};
}

void bead_stack_drop(bead_stack *stack, int64_t i) {
  free(stack->beads[i].pixels);
  stack->count--;
  memmove(&stack->beads[i], &stack->beads[i + 1],
          (size_t)(stack->count - i) * sizeof *stack->beads);
}

/* ---- Pixels -------------------------------------------------------------------------------- */

static void cut(const bead_stack *stack, const movie_info *info, int64_t frame,
                const void *pixels) {
  const int64_t window = stack->window;
  for (int64_t i = 0; i < stack->count; i++) {
    bead *b = &stack->beads[i];
    const int64_t top = (int64_t)floor(b->y + 0.5) - window / 2,
                  left = (int64_t)floor(b->x + 0.5) - window / 2;
    float *to = b->pixels + frame * window * window;
    for (int64_t p = 0; p < window * window; p++) {
      const int64_t at = (top + p / window) * info->columns + left + p % window;
      to[p] = info->dtype == COMPUTE_U16 ? (float)((const uint16_t *)pixels)[at]
                                         : ((const float *)pixels)[at];
    }
  }
}

static bool on_border(int64_t pixel, int64_t window) {
  const int64_t i = pixel / window, j = pixel % window;
  return i == 0 || j == 0 || i == window - 1 || j == window - 1;
}

/* Estimates photons and background from the middle third of the frames, where spots are small. */
static void estimate_light(const bead_stack *stack, bead *b) {
  const int64_t window = stack->window, all = window * window;
  const int64_t first = stack->frames / 3, end = stack->frames - first;
  double border = 0, light = 0, count = 0;
  for (int64_t k = first; k < end; k++)
    for (int64_t p = 0; p < all; p++) {
      const double value = (double)b->pixels[k * all + p];
      light += value;
      if (!on_border(p, window)) continue;
      border += value;
      count++;
    }
  b->background = border / count;
  b->photons = light / (double)(end - first) - b->background * (double)all;
  b->shift[0] = b->x - floor(b->x + 0.5);
  b->shift[1] = b->y - floor(b->y + 0.5);
  b->shift[2] = 0;
}

compute_status bead_stack_read(bead_stack *stack, movie *images, failure *why) {
  const movie_info *info = movie_information(images);
  const size_t each = (size_t)stack->window * (size_t)stack->window * sizeof(float);
  void *pixels = malloc((size_t)(info->rows * info->columns) * compute_dtype_size(info->dtype));
  compute_status status = COMPUTE_OK;
  bool room = pixels != NULL;
  for (int64_t i = 0; room && i < stack->count; i++) {
    stack->beads[i].pixels = malloc((size_t)stack->frames * each);
    room = stack->beads[i].pixels != NULL;
  }
  if (!room)
    status = failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory for the beads");
  for (int64_t frame = 0; !status && frame < stack->frames; frame++) {
    status = movie_read(images, frame, 1, pixels, why);
    if (!status) cut(stack, info, frame, pixels);
  }
  for (int64_t i = 0; !status && i < stack->count; i++) estimate_light(stack, &stack->beads[i]);
  free(pixels);
  return status;
}

/* ---- Moving -------------------------------------------------------------------------------- */

/* A line of values and the natural cubic spline through them. */
typedef struct line {
  int64_t count;
  double *value, *slope, *work;
} line;

static void find_slopes(line *l) {
  const int64_t n = l->count;
  double before = 0, share = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t low = i > 0 ? i - 1 : 0, high = i < n - 1 ? i + 1 : n - 1;
    const double pivot = (i > 0 && i < n - 1 ? 4 : 2) - share;
    before = (3 * (l->value[high] - l->value[low]) - before) / pivot;
    share = 1 / pivot;
    l->work[i] = share;
    l->slope[i] = before;
  }
  for (int64_t i = n - 1; i-- > 0;) l->slope[i] -= l->work[i] * l->slope[i + 1];
}

/* Evaluates the spline. Beyond the ends, the line keeps its last value. */
static double value_at(const line *l, double at) {
  at = fmin(fmax(at, 0), (double)(l->count - 1));
  const int64_t i = at < (double)(l->count - 1) ? (int64_t)at : l->count - 2;
  const double t = at - (double)i, s = 1 - t;
  return s * s * ((1 + 2 * t) * l->value[i] + t * l->slope[i]) +
         t * t * ((1 + 2 * s) * l->value[i + 1] - s * l->slope[i + 1]);
}

/* Moves a block of numbers, [outer, along, inner], along its middle axis: wanted[i] = given[first +
 * i]. */
static void move_axis(const double *given, int64_t outer, int64_t along, int64_t inner,
                      double first, int64_t wanted, line *l, double *result) {
  l->count = along;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < inner; k++) {
      for (int64_t i = 0; i < along; i++) l->value[i] = given[(o * along + i) * inner + k];
      find_slopes(l);
      for (int64_t i = 0; i < wanted; i++)
        result[(o * wanted + i) * inner + k] = value_at(l, first + (double)i);
    }
}

bool bead_add_moved(const bead_stack *stack, const bead *b, double *sum) {
  const int64_t window = stack->window, side = stack->side, frames = stack->frames;
  const int64_t all = frames * window * window, longest = frames > window ? frames : window;
  double *memory = malloc((size_t)(2 * all + 3 * longest) * sizeof *memory);
  if (!memory) return false;
  double *one = memory, *other = memory + all;
  line l = {
      .value = other + all, .slope = other + all + longest, .work = other + all + 2 * longest};
  for (int64_t i = 0; i < all; i++) one[i] = (double)b->pixels[i] - b->background;
  move_axis(one, 1, frames, window * window, -b->shift[2], frames, &l, other);
  move_axis(other, frames, window, window, BEAD_MARGIN + b->shift[1], side, &l, one);
  move_axis(one, frames * side, window, 1, BEAD_MARGIN + b->shift[0], side, &l, other);
  for (int64_t i = 0; i < frames * side * side; i++) sum[i] += other[i];
  free(memory);
  return true;
}
