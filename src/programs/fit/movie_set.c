/* SPDX-License-Identifier: MIT */
/* Chooses images among positions, channels and planes, and reads them from the files of a set.
 *
 * A TIFF is a list of pages; other programs describe the pages in or beside the file. OME-XML names
 * the page and file of each plane, NDTiff has an index, and ImageJ and Micro-Manager store their
 * number. If the description has more images than pages are found, frames are missing: an error. */
#include "programs/fit/movie_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

/* ---- A movie of planes --------------------------------------------------------------------- */

typedef struct place {
  int32_t file, page;
} place;

typedef struct movie_set {
  movie **files;
  const char **paths;
  size_t file_count;
  place *places; /* one for each image */
} movie_set;

static compute_status read_set(movie *file, int64_t first, int64_t count, void *pixels,
                               failure *why) {
  const movie_set *set = file->state;
  const size_t bytes =
      (size_t)(file->info.rows * file->info.columns) * compute_dtype_size(file->info.dtype);
  compute_status status = COMPUTE_OK;
  for (int64_t i = first, run; i < first + count && !status; i += run) {
    const place *at = &set->places[i];
    for (run = 1;
         i + run < first + count && at[run].file == at->file && at[run].page == at->page + run;)
      run++;
    status = movie_read(set->files[at->file], at->page, run,
                        (char *)pixels + (size_t)(i - first) * bytes, why);
  }
  return status;
}

static void close_set(void *state) {
  movie_set *set = state;
  for (size_t i = 0; i < set->file_count; i++) movie_close(set->files[i]);
  free(set->files);
  free(set->paths);
  free(set->places);
  free(set);
}

/* ---- ImageJ and Micro-Manager -------------------------------------------------------------- */

static int64_t number_after(const char *text, const char *key, int64_t otherwise) {
  const char *line = strstr(text, key);
  return line ? strtoll(line + strlen(key), NULL, 10) : otherwise;
}

/* "channels=2\nslices=3\nframes=5": the channel varies fastest. */
static compute_status layout_from_imagej(movie_layout *layout, failure *why) {
  const movie *file = layout->files[0];
  const char *text = file->description;
  if (!text || strncmp(text, "ImageJ=", 7) != 0) return COMPUTE_OK;
  const int64_t images = number_after(text, "\nimages=", 1);
  layout->source = "ImageJ description";
  layout->channels = number_after(text, "\nchannels=", 1);
  layout->slices = number_after(text, "\nslices=", 1);
  layout->times = number_after(text, "\nframes=", 1);
  compute_status status = layout_check_sizes(layout, why);
  if (status) return status;
  /* A program that ignores the description has appended pages: all pages are frames. */
  const bool whole = layout->channels * layout->slices * layout->times == images;
  if (images < file->info.count || (!whole && images == file->info.count)) {
    layout->channels = layout->slices = 1;
    layout->times = file->info.count;
  } else if (!whole) {
    layout->channels = layout->slices = 1;
    layout->times = images;
  }
  layout->given = true;
  return layout_add_sequence(layout, why);
}

/* Micro-Manager's files begin with a private header, followed by a summary in JSON. */
enum { MM_INDEX_MAP = 54773648, MM_SUMMARY = 2355492, MM_HEAD = 40, MM_MOST = 1 << 26 };

static uint32_t word_at(const unsigned char *head, size_t at) {
  const int shift = head[0] == 'I' ? 0 : 24, step = head[0] == 'I' ? 8 : -8;
  uint32_t value = 0;
  for (int i = 0; i < 4; i++) value |= (uint32_t)head[at + (size_t)i] << (shift + i * step);
  return value;
}

static compute_status read_summary(const movie *file, const unsigned char *head, json_t **summary,
                                   failure *why) {
  const uint32_t length = word_at(head, 36);
  *summary = NULL;
  if (word_at(head, 32) != MM_SUMMARY || length > MM_MOST ||
      length > file->info.file_bytes - MM_HEAD)
    return COMPUTE_OK;
  char *text = malloc(length + 1);
  if (!text)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to open %s",
                       file->path);
  compute_status status = movie_read_at(file, text, length, MM_HEAD, why);
  if (!status) *summary = json_loadb(text, strnlen(text, length), 0, NULL);
  free(text);
  return status;
}

static int64_t summary_number(const json_t *summary, const char *key) {
  const json_t *value = json_object_get(summary, key);
  return json_is_integer(value) ? json_integer_value(value) : 1;
}

static compute_status layout_from_micro_manager(movie_layout *layout, failure *why) {
  const movie *file = layout->files[0];
  unsigned char head[MM_HEAD];
  json_t *summary = NULL;
  if (!file->info.format || strcmp(file->info.format, "TIFF") || file->info.file_bytes < MM_HEAD)
    return COMPUTE_OK;
  compute_status status = movie_read_at(file, head, sizeof head, 0, why);
  if (status || word_at(head, 8) != MM_INDEX_MAP) return status;
  status = read_summary(file, head, &summary, why);
  const bool summarised = summary != NULL;
  layout->source = "Micro-Manager summary";
  layout->channels = summary_number(summary, "Channels");
  layout->slices = summary_number(summary, "Slices");
  layout->times = summary_number(summary, "Frames");
  json_decref(summary);
  if (!status) status = layout_check_sizes(layout, why);
  if (status) return status;
  if (layout->channels > 1 || (layout->slices > 1 && layout->times > 1))
    return failure_set(why, COMPUTE_ERROR_UNSUPPORTED,
                       "save it with OME-XML, or give --all-pages to take each page as a frame",
                       "%s has %" PRId64 " channels, %" PRId64 " planes in z and %" PRId64
                       " times, but does not say in which order",
                       file->path, layout->channels, layout->slices, layout->times);
  const int64_t announced = summarised ? layout->times * layout->slices : INT64_MAX;
  status = layout_follow_names(layout, announced, why);
  if (status) return status;
  if (!summarised || layout->pages > announced) layout->times = layout->pages, layout->slices = 1;
  layout->given = true;
  return layout_add_sequence(layout, why);
}

/* ---- Choosing ------------------------------------------------------------------------------ */

/* Images along a single axis are a movie, whatever their program called the axis. `as_frames`
 * records the axis for the description of the movie. */
static void take_only_axis_for_time(movie_layout *layout) {
  const bool z = layout->channels == 1 && layout->choice.z < 0;
  const bool channel = layout->slices == 1 && layout->choice.channel < 0;
  if (layout->times > 1 || !(z || channel)) return;
  for (size_t i = 0; i < layout->plane_count; i++) {
    movie_plane *plane = &layout->planes[i];
    plane->time = z ? plane->z : plane->channel;
    plane->z = plane->channel = 0;
  }
  layout->times = layout->slices * layout->channels;
  if (layout->times > 1) layout->as_frames = z ? "planes in z" : "channels";
  layout->slices = layout->channels = 1;
}

static compute_status fail_missing(const movie_layout *layout, int64_t found, failure *why) {
  return failure_set(why, COMPUTE_ERROR_FORMAT,
                     "copy the other files of the set beside it, or give --all-pages to take what "
                     "this file has",
                     "%s: its %s announces %" PRId64 " frames, of which %" PRId64
                     " are missing%s%s",
                     layout->files[0]->path, layout->source, layout->times, layout->times - found,
                     layout->absent[0] ? "; there is no " : "", layout->absent);
}

static compute_status fail_twice(const movie_layout *layout, int64_t time, failure *why) {
  return failure_set(
      why, COMPUTE_ERROR_FORMAT, "--all-pages takes each page of the file as a frame",
      "%s: its %s has two pages for frame %" PRId64, layout->files[0]->path, layout->source, time);
}

static bool is_chosen(const movie_layout *layout, const movie_plane *p) {
  return p->channel == (layout->choice.channel > 0 ? layout->choice.channel : 0) &&
         p->z == (layout->choice.z > 0 ? layout->choice.z : 0);
}

/* Stores the chosen planes in their places. *found is the number of filled places. */
static compute_status fill_places(const movie_layout *layout, place *places, int64_t *found,
                                  failure *why) {
  *found = 0;
  for (size_t i = 0; i < layout->plane_count; i++) {
    const movie_plane *p = &layout->planes[i];
    if (!is_chosen(layout, p)) continue;
    place *at = &places[p->time];
    if (at->file >= 0 && (at->file != p->file || at->page != p->page))
      return fail_twice(layout, p->time, why);
    *found += at->file < 0;
    *at = (place){p->file, p->page};
  }
  return COMPUTE_OK;
}

static compute_status make_places(const movie_layout *layout, place **result, failure *why) {
  int64_t found = 0;
  *result = NULL;
  for (size_t i = 0; i < layout->plane_count; i++) found += is_chosen(layout, &layout->planes[i]);
  /* Checked first: a file's claim alone must not allocate memory. */
  if (found < layout->times) return fail_missing(layout, found, why);
  place *places = malloc((size_t)layout->times * sizeof *places);
  if (!places) return layout_fail_memory(layout, why);
  for (int64_t i = 0; i < layout->times; i++) places[i] = (place){-1, -1};
  compute_status status = fill_places(layout, places, &found, why);
  if (!status && found < layout->times) status = fail_missing(layout, found, why);
  *result = places;
  return status;
}

/* ---- The movie ----------------------------------------------------------------------------- */

/* Returns true if the images are the pages of the only file, in order. */
static bool is_plain(const movie_layout *layout, const place *places) {
  if (layout->times != layout->files[0]->info.count) return false;
  for (int64_t i = 0; i < layout->times; i++)
    if (places[i].file != 0 || places[i].page != i) return false;
  return true;
}

static void say_axis(movie_info *info, const movie_layout *layout) {
  const size_t used = strlen(info->stored);
  if (layout->as_frames)
    snprintf(info->stored + used, sizeof info->stored - used, ", %s as frames", layout->as_frames);
}

static void describe(movie *file, const movie_layout *layout) {
  const movie *first = layout->files[0];
  const struct {
    const char *name;
    int64_t chosen, count;
  } axis[] = {{"position", layout->choice.position, layout->positions},
              {"channel", layout->choice.channel, layout->channels},
              {"z", layout->choice.z, layout->slices}};
  size_t used =
      (size_t)snprintf(file->info.stored, sizeof file->info.stored, "%.40s", first->info.stored);
  if (layout->file_count > 1)
    used += (size_t)snprintf(file->info.stored + used, sizeof file->info.stored - used,
                             ", %zu files", layout->file_count);
  for (size_t i = 0; i < sizeof axis / sizeof *axis && used < sizeof file->info.stored; i++)
    if (axis[i].count > 1)
      used += (size_t)snprintf(file->info.stored + used, sizeof file->info.stored - used,
                               ", %s %" PRId64, axis[i].name, axis[i].chosen);
  say_axis(&file->info, layout);
}

/* Moves files and places into a new movie. */
static compute_status make_set(movie_layout *layout, place **places, movie **opened, failure *why) {
  const movie *first = layout->files[0];
  movie *file = calloc(1, sizeof *file);
  movie_set *set = calloc(1, sizeof *set);
  const char **paths = calloc(layout->file_count, sizeof *paths);
  char *path = strdup(first->path);
  if (!file || !set || !paths || !path) {
    free(file);
    free(set);
    free(paths);
    free(path);
    return layout_fail_memory(layout, why);
  }
  *set = (movie_set){layout->files, paths, layout->file_count, *places};
  *file = (movie){.info = first->info,
                  .path = path,
                  .descriptor = -1,
                  .stored = first->stored,
                  .read = read_set,
                  .close_state = close_set,
                  .state = set};
  file->info.count = layout->times;
  file->info.paths = paths;
  file->info.path_count = layout->file_count;
  describe(file, layout);
  for (size_t i = 0; i < layout->file_count; i++) {
    const movie *part = layout->files[i];
    paths[i] = part->path;
    if (i > 0) file->info.file_bytes += part->info.file_bytes;
    if (part->info.file_time > file->info.file_time) file->info.file_time = part->info.file_time;
  }
  *layout = (movie_layout){.planes = layout->planes};
  *places = NULL;
  *opened = file;
  return COMPUTE_OK;
}

static compute_status find_layout(movie_layout *layout, failure *why) {
  compute_status (*const sources[])(movie_layout *, failure *) = {
      layout_from_ome, layout_from_ndtiff, layout_from_micro_manager, layout_from_imagej};
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; i < sizeof sources / sizeof *sources && !layout->given && !status; i++) {
    if (layout->choice.all_pages) break;
    status = sources[i](layout, why);
  }
  if (!status && layout->given) take_only_axis_for_time(layout);
  if (!status) status = layout_check_position(layout, why);
  if (!status)
    status = layout_check_choice(layout, "--channel", layout->choice.channel, layout->channels,
                                 "channels", why);
  if (!status)
    status = layout_check_choice(layout, "--z-plane", layout->choice.z, layout->slices,
                                 "planes in z", why);
  return status;
}

/* Makes the movie of the chosen images from an open file, which it owns from now on. The result is
 * the file itself if the images are its pages in order. */
static compute_status arrange(movie *file, const movie_choice *choice, movie **opened,
                              failure *why) {
  movie_layout layout = {.choice = *choice,
                         .positions = 1,
                         .channels = 1,
                         .slices = 1,
                         .times = file->info.count,
                         .pages = file->info.count,
                         .files = malloc(sizeof *layout.files)};
  place *places = NULL;
  compute_status status = COMPUTE_OK;
  if (layout.files)
    layout.files[layout.file_count++] = file;
  else
    status =
        failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to open %s", file->path);
  if (!status) status = find_layout(&layout, why);
  if (!status && layout.given) status = make_places(&layout, &places, why);
  if (!status && (!layout.given || is_plain(&layout, places))) {
    *opened = layout.files[0];
    say_axis(&(*opened)->info, &layout);
    layout.files[0] = NULL;
  } else if (!status) {
    status = make_set(&layout, &places, opened, why);
  }
  for (size_t i = 0; i < layout.file_count; i++) movie_close(layout.files[i]);
  if (!layout.files && status) movie_close(file);
  free(layout.files);
  free(layout.planes);
  free(places);
  return status;
}

compute_status movie_open_choice(const char *path, const movie_choice *choice, movie **opened,
                                 failure *why) {
  *opened = NULL;
  movie *file;
  compute_status status = movie_open_file(path, &file, why);
  return status ? status : arrange(file, choice, opened, why);
}

compute_status movie_open(const char *path, movie **opened, failure *why) {
  const movie_choice none = {.position = -1, .channel = -1, .z = -1};
  return movie_open_choice(path, &none, opened, why);
}
