/* SPDX-License-Identifier: MIT */
/* Functions that collect the files and planes of a set, for all sources of layouts. */
#include "programs/fit/movie_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MOST_PLANES ((int64_t)1 << 31)

/* ---- Files of a set ------------------------------------------------------------------------ */

const char *layout_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

compute_status layout_fail_memory(const movie_layout *layout, failure *why) {
  return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory for the pages of %s",
                     layout->files[0]->path);
}

static compute_status check_alike(const movie *first, const movie *file, failure *why) {
  if (file->info.rows == first->info.rows && file->info.columns == first->info.columns &&
      file->stored == first->stored && file->inverted == first->inverted)
    return COMPUTE_OK;
  return failure_set(why, COMPUTE_ERROR_FORMAT, "all files of a set must be alike",
                     "%s has %" PRId64 " x %" PRId64 " pixels of %s, %s of the same set %" PRId64
                     " x %" PRId64 " of %s",
                     file->path, file->info.rows, file->info.columns,
                     compute_dtype_name(file->stored), first->path, first->info.rows,
                     first->info.columns, compute_dtype_name(first->stored));
}

static compute_status open_path(movie_layout *layout, const char *path, failure *why) {
  movie **files = realloc(layout->files, (layout->file_count + 1) * sizeof *files);
  if (!files) return layout_fail_memory(layout, why);
  layout->files = files;
  compute_status status = movie_open_file(path, &files[layout->file_count], why);
  if (status) return status;
  layout->pages += files[layout->file_count++]->info.count;
  return check_alike(files[0], files[layout->file_count - 1], why);
}

compute_status layout_file(movie_layout *layout, const char *name, int32_t *number, failure *why) {
  const char *first = layout->files[0]->path;
  name = layout_name(name); /* a set is in one folder, whatever path a file contains */
  *number = -1;
  for (size_t i = 0; i < layout->file_count; i++)
    if (!strcmp(layout_name(layout->files[i]->path), name)) *number = (int32_t)i;
  if (*number >= 0) return COMPUTE_OK;
  char *path;
  if (asprintf(&path, "%.*s%s", (int)(layout_name(first) - first), first, name) < 0)
    return layout_fail_memory(layout, why);
  compute_status status = COMPUTE_OK;
  if (access(path, F_OK) != 0) {
    snprintf(layout->absent, sizeof layout->absent, "%s", name);
  } else {
    *number = (int32_t)layout->file_count;
    status = open_path(layout, path, why);
  }
  free(path);
  return status;
}

/* Returns the length of a TIFF's name without its extension. */
static size_t stem_length(const char *path) {
  static const char *const endings[] = {".ome.tif", ".ome.tiff", ".tif", ".tiff"};
  const size_t length = strlen(path);
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    const size_t tail = strlen(endings[i]);
    if (length > tail && !strcasecmp(path + length - tail, endings[i])) return length - tail;
  }
  return length;
}

compute_status layout_follow_names(movie_layout *layout, int64_t wanted, failure *why) {
  const char *name = layout_name(layout->files[0]->path);
  const size_t stem = stem_length(name);
  for (int number = 1; layout->pages < wanted; number++) {
    char *next;
    int32_t file;
    if (asprintf(&next, "%.*s_%d%s", (int)stem, name, number, name + stem) < 0)
      return layout_fail_memory(layout, why);
    compute_status status = layout_file(layout, next, &file, why);
    free(next);
    if (status || file < 0) return status;
  }
  return COMPUTE_OK;
}

/* ---- Planes -------------------------------------------------------------------------------- */

compute_status layout_check_sizes(const movie_layout *layout, failure *why) {
  int64_t all;
  if (layout->positions >= 1 && layout->channels >= 1 && layout->slices >= 1 &&
      layout->times >= 1 && !__builtin_mul_overflow(layout->channels, layout->slices, &all) &&
      !__builtin_mul_overflow(all, layout->times, &all) && all <= MOST_PLANES)
    return COMPUTE_OK;
  return failure_set(why, COMPUTE_ERROR_FORMAT, "--all-pages disregards it",
                     "%s: its %s announces %" PRId64 " channels, %" PRId64 " planes and %" PRId64
                     " times, which is not possible",
                     layout->files[0]->path, layout->source, layout->channels, layout->slices,
                     layout->times);
}

compute_status layout_add(movie_layout *layout, const movie_plane *plane, failure *why) {
  if ((int64_t)layout->plane_count >= layout->pages)
    return failure_set(why, COMPUTE_ERROR_FORMAT, "--all-pages disregards it",
                       "%s: its %s names pages more than once", layout->files[0]->path,
                       layout->source);
  if (layout->plane_count == layout->plane_room) {
    const size_t room = 2 * layout->plane_room + 64;
    movie_plane *planes = realloc(layout->planes, room * sizeof *planes);
    if (!planes) return layout_fail_memory(layout, why);
    layout->planes = planes;
    layout->plane_room = room;
  }
  layout->planes[layout->plane_count++] = *plane;
  return COMPUTE_OK;
}

/* Adds page `page` of `file` as image number `image`. */
static compute_status add_counted(movie_layout *layout, int64_t image, int32_t file, int64_t page,
                                  failure *why) {
  const movie_plane plane = {.channel = image % layout->channels,
                             .z = image / layout->channels % layout->slices,
                             .time = image / layout->channels / layout->slices,
                             .file = file,
                             .page = (int32_t)page};
  return layout_add(layout, &plane, why);
}

compute_status layout_add_sequence(movie_layout *layout, failure *why) {
  const int64_t all = layout->channels * layout->slices * layout->times;
  compute_status status = COMPUTE_OK;
  int64_t image = 0;
  for (size_t file = 0; file < layout->file_count && !status; file++)
    for (int64_t i = 0; i < layout->files[file]->info.count && image < all && !status; i++)
      status = add_counted(layout, image++, (int32_t)file, i, why);
  return status;
}

/* ---- Choices ------------------------------------------------------------------------------ */

compute_status layout_check_choice(const movie_layout *layout, const char *option, int64_t chosen,
                                   int64_t count, const char *things, failure *why) {
  if (chosen < 0 && count <= 1) return COMPUTE_OK;
  if (chosen >= 0 && chosen < count) return COMPUTE_OK;
  char remedy[128];
  snprintf(remedy, sizeof remedy,
           chosen < 0 ? "choose with %s 0 … %" PRId64 ", or give --all-pages"
                      : "%s is a number from 0 to %" PRId64,
           option, count - 1);
  if (chosen < 0)
    return failure_set(why, COMPUTE_ERROR_INVALID_ARGUMENT, remedy, "%s has %" PRId64 " %s",
                       layout->files[0]->path, count, things);
  return failure_set(why, COMPUTE_ERROR_INVALID_ARGUMENT, remedy,
                     "%s: number %" PRId64 " was requested of %" PRId64 " %s",
                     layout->files[0]->path, chosen, count, things);
}

compute_status layout_check_position(const movie_layout *layout, failure *why) {
  return layout_check_choice(layout, "--stage", layout->choice.position, layout->positions,
                             "positions", why);
}
