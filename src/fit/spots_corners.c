/* From marked pixels to corners of ROIs, on the host: a pass over bytes that are nearly all zero,
 * which memchr does at the speed of memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "fit/spots.h"

static const char operation[] = "compute_spot_corners";

typedef struct spot {
  float response;
  int64_t pixel;
} spot;

typedef struct corner_list {
  int64_t height, width;
  int32_t rows, columns;
  int32_t *corners;
  int64_t capacity, count;
  spot *kept; /* a heap, the dimmest first; NULL without a limit */
  int64_t limit;
} corner_list;

/* The first pixel of an ROI with the spot in its middle, or as near to that as the frame allows. */
static int32_t corner(int64_t spot_at, int32_t side, int64_t size) {
  int64_t first = spot_at - side / 2;
  if (first > size - side) first = size - side;
  return (int32_t)(first > 0 ? first : 0);
}

static void add_corner(corner_list *list, int64_t frame, int64_t pixel) {
  if (list->count < list->capacity) {
    int32_t *to = list->corners + 3 * list->count;
    to[0] = (int32_t)frame;
    to[1] = corner(pixel / list->width, list->rows, list->height);
    to[2] = corner(pixel % list->width, list->columns, list->width);
  }
  list->count++;
}

/* The next marked pixel at or after `from`, or `pixels`. */
static int64_t next_spot(const bool *spots, int64_t from, int64_t pixels) {
  const bool *found = from < pixels ? memchr(spots + from, 1, (size_t)(pixels - from)) : NULL;
  return found ? found - spots : pixels;
}

/* ---- The brightest of a frame -------------------------------------------------------------- */

/* Of equally bright ones the first counts as brighter, so that the choice is always the same. */
static bool is_dimmer(const spot *a, const spot *b) {
  if (a->response != b->response) return a->response < b->response;
  return a->pixel > b->pixel;
}

static void sift_down(spot *heap, int64_t count, int64_t at) {
  for (int64_t child = 2 * at + 1; child < count; at = child, child = 2 * at + 1) {
    if (child + 1 < count && is_dimmer(&heap[child + 1], &heap[child])) child++;
    if (!is_dimmer(&heap[child], &heap[at])) return;
    const spot other = heap[at];
    heap[at] = heap[child];
    heap[child] = other;
  }
}

static int by_pixel(const void *a, const void *b) {
  const int64_t p = ((const spot *)a)->pixel, q = ((const spot *)b)->pixel;
  return p < q ? -1 : p > q;
}

static void add_brightest(corner_list *list, int64_t frame, const bool *spots,
                          const float *response) {
  const int64_t pixels = list->height * list->width;
  int64_t kept = 0;
  for (int64_t p = next_spot(spots, 0, pixels); p < pixels; p = next_spot(spots, p + 1, pixels)) {
    const spot found = {isnan(response[p]) ? -INFINITY : response[p], p};
    if (kept < list->limit) {
      list->kept[kept++] = found;
      if (kept == list->limit)
        for (int64_t i = kept / 2; i-- > 0;) sift_down(list->kept, kept, i);
    } else if (is_dimmer(&list->kept[0], &found)) {
      list->kept[0] = found;
      sift_down(list->kept, kept, 0);
    }
  }
  qsort(list->kept, (size_t)kept, sizeof *list->kept, by_pixel);
  for (int64_t i = 0; i < kept; i++) add_corner(list, frame, list->kept[i].pixel);
}

/* ---- The whole ----------------------------------------------------------------------------- */

static compute_status check(compute_context *context, const compute_spot_options *options,
                            const bool *spots, const float *response, int64_t frames,
                            int64_t height, int64_t width, int32_t rows, int32_t columns,
                            int64_t first_frame, const int32_t *corners, int64_t capacity) {
  const char *refusal = spot_options_refusal(options);
  if (refusal)
    return error_set(context, options ? COMPUTE_ERROR_INVALID_ARGUMENT : COMPUTE_ERROR_NULL_POINTER,
                     operation, "%s", refusal);
  if (!spots || (!corners && capacity > 0))
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                     spots ? "corners" : "spots");
  if (options->limit > 0 && !response)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation,
                     "response is NULL, but the limit of %lld spots needs it to find the brightest",
                     (long long)options->limit);
  int64_t pixels;
  const compute_status status = compute_shape_count(COMPUTE_SHAPE(frames, height, width), &pixels);
  if (status) return status;
  if (rows < 1 || columns < 1 || rows > height || columns > width)
    return error_set(context, COMPUTE_ERROR_SHAPE, operation,
                     "ROIs of %d × %d pixels do not fit frames of %lld × %lld", (int)rows,
                     (int)columns, (long long)height, (long long)width);
  if (capacity < 0)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "the capacity is %lld",
                     (long long)capacity);
  if (height > INT32_MAX || width > INT32_MAX || first_frame < 0 ||
      first_frame > INT32_MAX - frames)
    return error_set(context, COMPUTE_ERROR_OVERFLOW, operation,
                     "frame %lld + %lld of %lld × %lld pixels: corners are i32",
                     (long long)first_frame, (long long)frames, (long long)height,
                     (long long)width);
  return COMPUTE_OK;
}

compute_status compute_spot_corners(compute_context *context, const compute_spot_options *options,
                                    const bool *spots, const float *response, int64_t frames,
                                    int64_t height, int64_t width, int32_t rows, int32_t columns,
                                    int64_t first_frame, int32_t *corners, int64_t capacity,
                                    int64_t *count) {
  if (!count) return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "count is NULL");
  *count = 0;
  const compute_status status = check(context, options, spots, response, frames, height, width,
                                      rows, columns, first_frame, corners, capacity);
  if (status) return status;
  const int64_t pixels = height * width;
  corner_list list = {.height = height,
                      .width = width,
                      .rows = rows,
                      .columns = columns,
                      .corners = corners,
                      .capacity = capacity,
                      .limit = options->limit < pixels ? options->limit : pixels};
  if (list.limit > 0) {
    list.kept = base_allocate((size_t)list.limit, sizeof *list.kept);
    if (!list.kept)
      return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                       "no memory to choose %lld spots of a frame", (long long)list.limit);
  }
  for (int64_t i = 0; i < frames; i++) {
    const bool *marks = spots + i * pixels;
    if (list.limit > 0) {
      add_brightest(&list, first_frame + i, marks, response + i * pixels);
      continue;
    }
    for (int64_t p = next_spot(marks, 0, pixels); p < pixels; p = next_spot(marks, p + 1, pixels))
      add_corner(&list, first_frame + i, p);
  }
  base_release(list.kept);
  *count = list.count;
  if (list.count > capacity)
    return error_set(context, COMPUTE_ERROR_OVERFLOW, operation,
                     "%lld spots, but there is room for %lld", (long long)list.count,
                     (long long)capacity);
  return COMPUTE_OK;
}
