/* SPDX-License-Identifier: MIT */
/* NDTiff: a folder of TIFFs with the file NDTiff.index. The index has an entry for each page, in
 * the order of writing. An entry has the axes as JSON ({"time": 3, "channel": "GFP", "z": 0}), the
 * file, and the offset and format of the pixels. */
#include "programs/fit/movie_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "programs/fit/name_table.h"

enum { STORED_BYTES = 32, MOST_BYTES = 1 << 30, NAME_ROOM = 256 };

static const char *const axes[] = {"position", "channel", "z", "time"};
enum { POSITION, CHANNEL, Z, TIME, AXES };

typedef struct index_entry {
  int64_t at[AXES];
  int64_t page; /* within its file */
  int32_t file; /* its index in `files` */
} index_entry;

typedef struct ndtiff {
  index_entry *entries;
  size_t count, room;
  name_table words[AXES]; /* words as places on an axis, in the order of their appearance */
  name_table files;
  json_t *others;   /* other axes, with their first value */
  char varying[64]; /* one of these with several values */
} ndtiff;

/* ---- The index ----------------------------------------------------------------------------- */

/* Reads a word of the index, which is little-endian. */
static bool take_word(const unsigned char **at, const unsigned char *end, uint32_t *word) {
  if (end - *at < 4) return false;
  *word = 0;
  for (int i = 0; i < 4; i++) *word |= (uint32_t)(*at)[i] << (8 * i);
  *at += 4;
  return true;
}

static int64_t take_axis(name_table *words, const json_t *value) {
  if (json_is_integer(value)) return json_integer_value(value);
  return json_is_string(value) ? name_table_number(words, json_string_value(value)) : 0;
}

/* Checks axes that a movie does not have. They are allowed with a single value. */
static void take_others(ndtiff *index, json_t *place) {
  const char *name;
  json_t *value;
  json_object_foreach(place, name, value) {
    bool known = false;
    for (int i = 0; i < AXES; i++) known |= !strcmp(name, axes[i]);
    const json_t *first = known ? NULL : json_object_get(index->others, name);
    if (first && !json_equal(first, value))
      snprintf(index->varying, sizeof index->varying, "%s", name);
    else if (!known && !first)
      json_object_set(index->others, name, value);
  }
}

static bool take_entry(ndtiff *index, const unsigned char **at, const unsigned char *end,
                       index_entry *entry) {
  uint32_t length;
  char name[NAME_ROOM];
  if (!take_word(at, end, &length) || length > (size_t)(end - *at)) return false;
  json_t *place = json_loadb((const char *)*at, length, 0, NULL);
  *at += length;
  for (int i = 0; i < AXES; i++)
    entry->at[i] = take_axis(&index->words[i], json_object_get(place, axes[i]));
  take_others(index, place);
  const bool good = json_is_object(place);
  json_decref(place);
  if (!good || !take_word(at, end, &length) || length > (size_t)(end - *at) ||
      (size_t)(end - *at) - length < STORED_BYTES || length >= NAME_ROOM)
    return false;
  memcpy(name, *at, length);
  name[length] = 0;
  entry->file = name_table_number(&index->files, name);
  *at += length + STORED_BYTES;
  return true;
}

static bool append(ndtiff *index, const index_entry *entry) {
  if (index->count == index->room) {
    const size_t room = 2 * index->room + 64;
    index_entry *entries = realloc(index->entries, room * sizeof *entries);
    if (!entries) return false;
    index->entries = entries;
    index->room = room;
  }
  index->entries[index->count++] = *entry;
  return entry->file >= 0;
}

/* Numbers the pages of each file in the order of their entries. Returns false when out of
 * memory. */
static bool number_pages(ndtiff *index) {
  int64_t *pages = calloc(index->files.count + 1, sizeof *pages);
  for (size_t i = 0; pages && i < index->count; i++)
    index->entries[i].page = pages[index->entries[i].file]++;
  free(pages);
  return pages != NULL;
}

static compute_status read_index(ndtiff *index, const movie_layout *layout,
                                 const unsigned char *data, size_t bytes, failure *why) {
  const unsigned char *at = data, *end = data + bytes;
  while (at < end) {
    index_entry entry;
    if (!take_entry(index, &at, end, &entry))
      return failure_set(why, COMPUTE_ERROR_FORMAT, "--all-pages disregards it",
                         "%s: the NDTiff.index beside it is damaged at entry %zu",
                         layout->files[0]->path, index->count + 1);
    if (!append(index, &entry)) return layout_fail_memory(layout, why);
  }
  return number_pages(index) ? COMPUTE_OK : layout_fail_memory(layout, why);
}

/* ---- Planes -------------------------------------------------------------------------------- */

/* Adds the pages of the chosen position. */
static compute_status add_entries(movie_layout *layout, const ndtiff *index, failure *why) {
  enum { UNKNOWN = -2 };
  const int64_t position = layout->choice.position > 0 ? layout->choice.position : 0;
  int32_t *files = malloc((index->files.count + 1) * sizeof *files);
  compute_status status = files ? COMPUTE_OK : layout_fail_memory(layout, why);
  for (size_t i = 0; files && i < index->files.count; i++) files[i] = UNKNOWN;
  for (size_t i = 0; i < index->count && !status; i++) {
    const index_entry *entry = &index->entries[i];
    if (entry->at[POSITION] != position) continue;
    int32_t *file = &files[entry->file];
    if (*file == UNKNOWN) status = layout_file(layout, index->files.names[entry->file], file, why);
    if (status || *file < 0 || entry->page >= layout->files[*file]->info.count) continue;
    const movie_plane plane = {entry->at[TIME], entry->at[CHANNEL], entry->at[Z], *file,
                               (int32_t)entry->page};
    status = layout_add(layout, &plane, why);
  }
  free(files);
  return status;
}

static compute_status add_planes(movie_layout *layout, const ndtiff *index, failure *why) {
  int64_t size[AXES] = {1, 1, 1, 1};
  for (size_t i = 0; i < index->count; i++)
    for (int a = 0; a < AXES; a++) {
      const int64_t at = index->entries[i].at[a];
      if (at < 0 || at >= INT32_MAX) size[a] = 0;
      if (size[a] > 0 && at >= size[a]) size[a] = at + 1;
    }
  layout->source = "NDTiff.index";
  layout->positions = size[POSITION];
  layout->channels = size[CHANNEL];
  layout->slices = size[Z];
  layout->times = size[TIME];
  compute_status status = layout_check_sizes(layout, why);
  if (index->varying[0])
    status = failure_set(why, COMPUTE_ERROR_UNSUPPORTED,
                         "--all-pages takes each page of the file as a frame",
                         "%s: the NDTiff.index beside it has an axis '%s', which is neither "
                         "position, channel, z nor time",
                         layout->files[0]->path, index->varying);
  if (!status) status = layout_check_position(layout, why);
  if (!status) status = add_entries(layout, index, why);
  layout->given = !status;
  return status;
}

/* ---- The file ------------------------------------------------------------------------------ */

/* Reads the index in the folder of the first file. Returns NULL without one. The caller frees
 * it. */
static unsigned char *load_index(const movie *first, size_t *bytes) {
  char *path;
  unsigned char *data = NULL;
  struct stat about;
  if (asprintf(&path, "%.*sNDTiff.index", (int)(layout_name(first->path) - first->path),
               first->path) < 0)
    return NULL;
  FILE *file = fopen(path, "re");
  if (file && !fstat(fileno(file), &about) && S_ISREG(about.st_mode) && about.st_size > 0 &&
      about.st_size < MOST_BYTES)
    data = malloc((size_t)about.st_size);
  *bytes = data ? fread(data, 1, (size_t)about.st_size, file) : 0;
  if (file) fclose(file);
  free(path);
  return data;
}

compute_status layout_from_ndtiff(movie_layout *layout, failure *why) {
  const movie *first = layout->files[0];
  size_t bytes;
  if (!first->info.format || strcmp(first->info.format, "TIFF")) return COMPUTE_OK;
  unsigned char *data = load_index(first, &bytes);
  if (!data) return COMPUTE_OK;
  ndtiff index = {.others = json_object()};
  compute_status status = read_index(&index, layout, data, bytes, why);
  if (!status && name_table_find(&index.files, layout_name(first->path)) >= 0)
    status = add_planes(layout, &index, why);
  for (int i = 0; i < AXES; i++) name_table_release(&index.words[i]);
  name_table_release(&index.files);
  json_decref(index.others);
  free(index.entries);
  free(data);
  return status;
}
