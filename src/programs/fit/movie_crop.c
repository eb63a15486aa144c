/* SPDX-License-Identifier: MIT */
/* A movie that reads another movie frame by frame and copies the rectangle. */
#include "programs/fit/movie_crop.h"

#include <stdlib.h>
#include <string.h>

#include "programs/fit/movie_private.h"

typedef struct crop_state {
  movie *whole;
  movie_part part;
  unsigned char *frame; /* NULL: whole frames */
} crop_state;

static compute_status read_part(movie *file, int64_t first, int64_t count, void *pixels,
                                failure *why) {
  const crop_state *state = file->state;
  const movie_part *part = &state->part;
  const movie_info *whole = movie_information(state->whole);
  if (!state->frame) return movie_read(state->whole, part->frame + first, count, pixels, why);
  const size_t size = compute_dtype_size(file->info.dtype), line = (size_t)part->columns * size;
  unsigned char *to = pixels;
  for (int64_t i = first; i < first + count; i++) {
    const compute_status status = movie_read(state->whole, part->frame + i, 1, state->frame, why);
    if (status) return status;
    for (int64_t row = part->row; row < part->row + part->rows; row++, to += line)
      memcpy(to, state->frame + (size_t)(row * whole->columns + part->column) * size, line);
  }
  return COMPUTE_OK;
}

static void close_state(void *pointer) {
  crop_state *state = pointer;
  movie_close(state->whole);
  free(state->frame);
  free(state);
}

compute_status movie_crop(movie **file, const movie_part *part, failure *why) {
  const movie_info *info = movie_information(*file);
  const bool whole = part->rows == info->rows && part->columns == info->columns;
  const size_t bytes = (size_t)info->rows * (size_t)info->columns * compute_dtype_size(info->dtype);
  movie *made = calloc(1, sizeof *made);
  crop_state *state = calloc(1, sizeof *state);
  char *path = strdup((*file)->path);
  unsigned char *frame = whole ? NULL : malloc(bytes);
  if (!made || !state || !path || (!whole && !frame)) {
    free(made);
    free(state);
    free(path);
    free(frame);
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory for a frame of %s",
                       (*file)->path);
  }
  *state = (crop_state){*file, *part, frame};
  *made = (movie){.info = *info,
                  .path = path,
                  .descriptor = -1,
                  .stored = (*file)->stored,
                  .read = read_part,
                  .close_state = close_state,
                  .state = state};
  made->info.count = part->frames;
  made->info.rows = part->rows;
  made->info.columns = part->columns;
  *file = made;
  return COMPUTE_OK;
}
