/* SPDX-License-Identifier: MIT */
/* See saturation.h. Saturated pixels are a list in the order of their images. */
#include "programs/fit/saturation.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct bright_pixel {
  int64_t image;
  int32_t row, column;
} bright_pixel;

typedef struct bright_list {
  pthread_mutex_t mutex;
  bright_pixel *pixels;
  int64_t first, end, room; /* pixels before `first` are forgotten; room: capacity */
  int64_t next;             /* the first image that is not scanned yet */
} bright_list;

struct saturation {
  double level;
  int64_t rows, columns;
  bright_list *list;
};

saturation *saturation_create(double level, int64_t rows, int64_t columns) {
  saturation *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  *s = (saturation){level, rows, columns, calloc(1, sizeof *s->list)};
  if (!s->list) {
    free(s);
    return NULL;
  }
  pthread_mutex_init(&s->list->mutex, NULL);
  return s;
}

void saturation_release(saturation *s) {
  if (!s) return;
  pthread_mutex_destroy(&s->list->mutex);
  free(s->list->pixels);
  free(s->list);
  free(s);
}

/* Appends a pixel. Reuses the space of forgotten pixels if it is more than half of the list. */
static bool add(bright_list *list, bright_pixel pixel) {
  if (list->end == list->room && list->first > list->room / 2) {
    memmove(list->pixels, list->pixels + list->first,
            (size_t)(list->end - list->first) * sizeof *list->pixels);
    list->end -= list->first;
    list->first = 0;
  }
  if (list->end == list->room) {
    const int64_t room = list->room ? 2 * list->room : 1024;
    bright_pixel *pixels = realloc(list->pixels, (size_t)room * sizeof *pixels);
    if (!pixels) return false;
    list->pixels = pixels;
    list->room = room;
  }
  list->pixels[list->end++] = pixel;
  return true;
}

static bool add_pixel(saturation *s, int64_t first, int64_t place) {
  const int64_t size = s->rows * s->columns;
  return add(s->list, (bright_pixel){first + place / size, (int32_t)(place % size / s->columns),
                                     (int32_t)(place % s->columns)});
}

static bool scan_u16(saturation *s, int64_t first, int64_t count, const uint16_t *pixels) {
  bool good = true;
  for (int64_t i = 0; i < count && good; i++)
    if ((double)pixels[i] >= s->level) good = add_pixel(s, first, i);
  return good;
}

static bool scan_f32(saturation *s, int64_t first, int64_t count, const float *pixels) {
  bool good = true;
  for (int64_t i = 0; i < count && good; i++)
    if ((double)pixels[i] >= s->level) good = add_pixel(s, first, i);
  return good;
}

compute_status saturation_scan(saturation *s, compute_dtype dtype, int64_t first, int64_t count,
                               const void *pixels) {
  const int64_t size = s->rows * s->columns;
  pthread_mutex_lock(&s->list->mutex);
  if (s->list->next > first) { /* images are read again for a smaller batch */
    const int64_t known = s->list->next - first < count ? s->list->next - first : count;
    pixels = (const char *)pixels + (size_t)(known * size) * compute_dtype_size(dtype);
    first += known;
    count -= known;
  }
  s->list->next = first + count > s->list->next ? first + count : s->list->next;
  const bool good = dtype == COMPUTE_U16 ? scan_u16(s, first, count * size, pixels)
                                         : scan_f32(s, first, count * size, pixels);
  pthread_mutex_unlock(&s->list->mutex);
  return good ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
}

/* The index of the first pixel in `image` or a later image. */
static int64_t find(const bright_list *list, int64_t image) {
  int64_t low = list->first, high = list->end;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (list->pixels[middle].image < image)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

int32_t saturation_count(const saturation *s, int64_t image, int64_t row, int64_t column,
                         int32_t rows, int32_t columns) {
  bright_list *list = s->list;
  int32_t count = 0;
  pthread_mutex_lock(&list->mutex);
  for (int64_t i = find(list, image); i < list->end && list->pixels[i].image == image; i++) {
    const int64_t down = list->pixels[i].row - row, across = list->pixels[i].column - column;
    if (down >= 0 && down < rows && across >= 0 && across < columns) count++;
  }
  pthread_mutex_unlock(&list->mutex);
  return count;
}

void saturation_forget(saturation *s, int64_t image) {
  pthread_mutex_lock(&s->list->mutex);
  s->list->first = find(s->list, image);
  pthread_mutex_unlock(&s->list->mutex);
}
