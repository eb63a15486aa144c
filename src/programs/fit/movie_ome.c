/* SPDX-License-Identifier: MIT */
/* OME-XML: the location of each plane of an image (a stage position), in this file and others.
 *
 * <Pixels> has the sizes. Each <TiffData> in it describes PlaneCount planes, from FirstC, FirstZ
 * and FirstT on in the DimensionOrder. They are the pages from IFD on of the file in its <UUID>.
 * Only tags and attributes matter here, so a simple scanner is sufficient. */
#include "programs/fit/movie_layout.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs/fit/name_table.h"

/* ---- Tags ---------------------------------------------------------------------------------- */

typedef struct xml_tag {
  const char *name, *end; /* "TiffData IFD='0'" */
  bool closes, empty;     /* </X>, <X/> */
} xml_tag;

/* Finds the next tag at or after *at. Skips comments, declarations and text. Returns false at the
 * end. */
static bool next_tag(const char **at, xml_tag *tag) {
  for (const char *s = strchr(*at, '<'); s; s = strchr(s, '<')) {
    const char *skipped = !strncmp(s, "<!--", 4)        ? strstr(s, "-->")
                          : !strncmp(s, "<![CDATA[", 9) ? strstr(s, "]]>")
                          : s[1] == '?' || s[1] == '!'  ? strchr(s, '>')
                                                        : s;
    if (!skipped) return false;
    if (skipped != s) {
      s = skipped;
      continue;
    }
    const char *end = s + 1;
    for (char quote = 0; *end && (quote || *end != '>'); end++) {
      if (quote)
        quote = *end == quote ? 0 : quote;
      else if (*end == '"' || *end == '\'')
        quote = *end;
    }
    if (!*end) return false;
    *tag = (xml_tag){s + 1, end, s[1] == '/', end[-1] == '/'};
    tag->name += tag->closes;
    const char *colon = memchr(tag->name, ':', strcspn(tag->name, " \t\r\n/>"));
    if (colon) tag->name = colon + 1;
    *at = end + 1;
    return true;
  }
  return false;
}

static bool is_named(const xml_tag *tag, const char *name) {
  const size_t length = strlen(name);
  return !strncmp(tag->name, name, length) && strchr(" \t\r\n/>", tag->name[length]);
}

/* Copies text with the five entities of XML resolved. */
static void copy_text(const char *from, const char *end, char *to, size_t room) {
  static const char *const entity[][2] = {
      {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}};
  size_t used = 0;
  while (from < end && used + 1 < room) {
    size_t step = 1;
    char c = *from;
    for (size_t i = 0; c == '&' && i < sizeof entity / sizeof *entity; i++) {
      if (strncmp(from, entity[i][0], strlen(entity[i][0])) != 0) continue;
      step = strlen(entity[i][0]);
      c = entity[i][1][0];
      break;
    }
    to[used++] = c;
    from += step;
  }
  to[used] = 0;
}

/* Reads the value of an attribute. Returns false if it does not exist. */
static bool attribute(const xml_tag *tag, const char *name, char *text, size_t room) {
  const size_t length = strlen(name);
  const char *s = tag->name;
  text[0] = 0;
  while (s < tag->end) {
    const char *quote = s + strcspn(s, "\"'");
    if (quote >= tag->end) return false;
    const char *close = strchr(quote + 1, *quote), *before = quote;
    while (before > s && strchr("= \t\r\n", before[-1])) before--;
    const bool found = before - s >= (ptrdiff_t)length + 1 &&
                       !strncmp(before - length, name, length) &&
                       strchr(" \t\r\n", before[-(ptrdiff_t)length - 1]);
    if (found) copy_text(quote + 1, close, text, room);
    if (found) return true;
    s = close + 1;
  }
  return false;
}

static int64_t number(const xml_tag *tag, const char *name, int64_t otherwise) {
  char text[32];
  return attribute(tag, name, text, sizeof text) ? strtoll(text, NULL, 10) : otherwise;
}

/* ---- The XML ------------------------------------------------------------------------------- */

enum { NAME_ROOM = 512, OWN_FILE = -1 };

typedef struct ome_run {
  int64_t page, count; /* −1: to the end of the file */
  int64_t channel, z, time;
  size_t image;
  int32_t name; /* index of its file in names */
} ome_run;

typedef struct ome_image {
  int64_t channels, slices, times;
  char order[8]; /* "XYCZT" */
} ome_image;

typedef struct ome {
  char own[NAME_ROOM]; /* UUID of the file */
  char metadata[NAME_ROOM];
  ome_image *images;
  ome_run *runs;
  name_table names;
  size_t image_count, run_count;
  bool failed; /* out of memory */
} ome;

/* Returns space for one more element of an array, or NULL. The capacity doubles. */
static void *grow(void *array, size_t count, size_t size) {
  if (count & (count - 1)) return array;
  return realloc(array, (count ? 2 * count : 1) * size);
}

#define APPEND(ome, array, count, value)                                                           \
  do {                                                                                             \
    void *grown_ = grow((ome)->array, (ome)->count, sizeof *(ome)->array);                         \
    (ome)->failed |= !grown_;                                                                      \
    if (grown_) (ome)->array = grown_, (ome)->array[(ome)->count++] = (value);                     \
  } while (0)

static void take_run(ome *o, const xml_tag *tag) {
  ome_run run = {.page = number(tag, "IFD", 0),
                 .channel = number(tag, "FirstC", 0),
                 .z = number(tag, "FirstZ", 0),
                 .time = number(tag, "FirstT", 0),
                 .image = o->image_count - 1,
                 .name = OWN_FILE};
  char text[4];
  run.count = number(tag, "PlaneCount", attribute(tag, "IFD", text, sizeof text) ? 1 : -1);
  APPEND(o, runs, run_count, run);
}

/* <UUID FileName="b.ome.tif">urn:uuid:…</UUID>: its text identifies this file even if it was
 * renamed. */
static void take_file(ome *o, const xml_tag *tag) {
  char name[NAME_ROOM], uuid[NAME_ROOM];
  const char *close = strchr(tag->end, '<');
  copy_text(tag->end + 1, close && !tag->empty ? close : tag->end + 1, uuid, sizeof uuid);
  if (o->own[0] && !strcmp(uuid, o->own)) return;
  if (!attribute(tag, "FileName", name, sizeof name) || !name[0]) return;
  const int32_t number = name_table_number(&o->names, name);
  o->failed |= number < 0;
  o->runs[o->run_count - 1].name = number;
}

static void read_xml(ome *o, const char *text) {
  xml_tag tag;
  bool in_pixels = false, in_run = false;
  while (next_tag(&text, &tag) && !o->failed) {
    if (is_named(&tag, "OME") && !tag.closes) attribute(&tag, "UUID", o->own, sizeof o->own);
    if (is_named(&tag, "BinaryOnly")) attribute(&tag, "MetadataFile", o->metadata, NAME_ROOM);
    if (is_named(&tag, "Pixels")) {
      in_pixels = !tag.closes && !tag.empty;
      ome_image image = {number(&tag, "SizeC", 1), number(&tag, "SizeZ", 1),
                         number(&tag, "SizeT", 1), ""};
      attribute(&tag, "DimensionOrder", image.order, sizeof image.order);
      if (!tag.closes) APPEND(o, images, image_count, image);
    }
    if (in_pixels && is_named(&tag, "TiffData")) {
      in_run = !tag.closes && !tag.empty;
      if (!tag.closes) take_run(o, &tag);
    }
    if (in_run && is_named(&tag, "UUID") && !tag.closes) take_file(o, &tag);
  }
}

/* ---- Planes -------------------------------------------------------------------------------- */

/* Finds the distance of neighbours in channel, z and time among the planes, in the image's
 * order. */
static void find_steps(const movie_layout *layout, const ome_image *image, int64_t step[3]) {
  static const char usual[] = "CZT";
  const int64_t size[] = {layout->channels, layout->slices, layout->times};
  const char *order = image->order + 2; /* after XY */
  const bool known = strlen(image->order) == 5 && strspn(order, usual) == 3 &&
                     order[0] != order[1] && order[1] != order[2] && order[0] != order[2];
  int64_t all = 1;
  for (int i = 0; i < 3; i++) {
    const ptrdiff_t axis = strchr(usual, known ? order[i] : usual[i]) - usual;
    step[axis] = all;
    all *= size[axis];
  }
}

/* Adds pages page … end − 1 of a file as planes from number `first` on. */
static compute_status add_pages(movie_layout *layout, const int64_t step[3], int64_t first,
                                int32_t file, int64_t page, int64_t end, failure *why) {
  const int64_t all = layout->channels * layout->slices * layout->times;
  compute_status status = COMPUTE_OK;
  for (int64_t image = first; page < end && image < all && !status; image++, page++) {
    const movie_plane plane = {.channel = image / step[0] % layout->channels,
                               .z = image / step[1] % layout->slices,
                               .time = image / step[2] % layout->times,
                               .file = file,
                               .page = (int32_t)page};
    status = layout_add(layout, &plane, why);
  }
  return status;
}

static compute_status add_run(movie_layout *layout, const ome *o, const ome_run *run,
                              failure *why) {
  int64_t step[3];
  find_steps(layout, &o->images[run->image], step);
  if (run->channel < 0 || run->channel >= layout->channels || run->z < 0 ||
      run->z >= layout->slices || run->time < 0 || run->time >= layout->times)
    return COMPUTE_OK; /* beyond the declared sizes */
  int32_t file = 0;
  compute_status status = COMPUTE_OK;
  if (run->name != OWN_FILE) status = layout_file(layout, o->names.names[run->name], &file, why);
  if (status || file < 0) return status;
  const int64_t pages = layout->files[file]->info.count;
  if (run->page < 0 || run->page >= pages) return COMPUTE_OK;
  const bool part = run->count >= 0 && run->count < pages - run->page;
  return add_pages(layout, step, run->channel * step[0] + run->z * step[1] + run->time * step[2],
                   file, run->page, part ? run->page + run->count : pages, why);
}

/* Without file names in the metadata, the missing planes of this file may be in <name>_1, <name>_2
 * … */
static compute_status add_followers(movie_layout *layout, const ome *o, failure *why) {
  const int64_t all = layout->channels * layout->slices * layout->times;
  int64_t first = layout->files[0]->info.count, step[3];
  if (o->names.count > 0 || (int64_t)layout->plane_count != first || first >= all ||
      layout->positions > 1)
    return COMPUTE_OK;
  compute_status status = layout_follow_names(layout, all, why);
  find_steps(layout, &o->images[0], step);
  for (size_t i = 1; i < layout->file_count && !status; i++) {
    status = add_pages(layout, step, first, (int32_t)i, 0, layout->files[i]->info.count, why);
    first += layout->files[i]->info.count;
  }
  return status;
}

/* Returns the chosen position, or the only one with planes in this file. */
static size_t choose_position(const movie_layout *layout, const ome *o) {
  if (layout->choice.position >= 0) return (size_t)layout->choice.position;
  const char *own = layout_name(layout->files[0]->path);
  size_t chosen = SIZE_MAX;
  for (size_t i = 0; i < o->run_count; i++) {
    const ome_run *run = &o->runs[i];
    if (run->name != OWN_FILE && strcmp(layout_name(o->names.names[run->name]), own) != 0) continue;
    if (chosen != SIZE_MAX && chosen != run->image) return SIZE_MAX;
    chosen = run->image;
  }
  return chosen;
}

/* If all planes are in one file with another name, and no file has that name, it is this file,
 * renamed. */
static compute_status adopt_only_name(movie_layout *layout, ome *o, failure *why) {
  int32_t file;
  if (o->names.count != 1) return COMPUTE_OK;
  for (size_t i = 0; i < o->run_count; i++)
    if (o->runs[i].name == OWN_FILE) return COMPUTE_OK;
  compute_status status = layout_file(layout, o->names.names[0], &file, why);
  if (status || file >= 0) return status;
  for (size_t i = 0; i < o->run_count; i++) o->runs[i].name = OWN_FILE;
  layout->absent[0] = 0;
  return COMPUTE_OK;
}

/* Refuses pages beyond the only image, because they would be lost. */
static compute_status check_pages(const movie_layout *layout, failure *why) {
  const int64_t all = layout->channels * layout->slices * layout->times;
  if (layout->positions > 1 || layout->pages <= all) return COMPUTE_OK;
  return failure_set(
      why, COMPUTE_ERROR_FORMAT, "--all-pages takes each page of the file as a frame",
      "%s%s has %" PRId64 " pages, its OME-XML announces %" PRId64,
      layout->file_count > 1 ? "the set of " : "", layout->files[0]->path, layout->pages, all);
}

static compute_status add_planes(movie_layout *layout, ome *o, failure *why) {
  layout->source = "OME-XML";
  layout->positions = (int64_t)o->image_count;
  const size_t chosen = o->image_count == 1 ? 0 : choose_position(layout, o);
  if (chosen == SIZE_MAX || layout->choice.position >= layout->positions)
    return layout_check_position(layout, why);
  layout->choice.position = (int64_t)chosen;
  const ome_image *image = &o->images[chosen];
  layout->channels = image->channels;
  layout->slices = image->slices;
  layout->times = image->times;
  compute_status status = layout_check_sizes(layout, why);
  if (status) return status;
  size_t own_runs = 0;
  for (size_t i = 0; i < o->run_count && !status; i++) {
    if (o->runs[i].image != chosen) continue;
    status = add_run(layout, o, &o->runs[i], why);
    own_runs++;
  }
  if (!status && own_runs == 0) {
    const ome_run whole = {.count = -1, .image = chosen, .name = OWN_FILE};
    status = add_run(layout, o, &whole, why);
  }
  if (!status) status = add_followers(layout, o, why);
  return status ? status : check_pages(layout, why);
}

/* ---- The text ------------------------------------------------------------------------------ */

/* Returns the text of a metadata file of a set, from the folder of the first file. Returns NULL if
 * it does not exist. The caller frees it. */
static char *read_companion(const movie *first, const char *name) {
  enum { MOST = 1 << 28 };
  char *path, *text = NULL;
  struct stat about;
  const char *folder = first->path;
  if (asprintf(&path, "%.*s%s", (int)(layout_name(folder) - folder), folder, layout_name(name)) < 0)
    return NULL;
  FILE *file = fopen(path, "re");
  if (file && !fstat(fileno(file), &about) && S_ISREG(about.st_mode) && about.st_size < MOST)
    text = calloc(1, (size_t)about.st_size + 1);
  if (text && fread(text, 1, (size_t)about.st_size, file) != (size_t)about.st_size) {
    free(text);
    text = NULL;
  }
  if (file) fclose(file);
  free(path);
  return text;
}

static compute_status read_metadata_file(const movie_layout *layout, ome *o, failure *why) {
  char *text = read_companion(layout->files[0], o->metadata);
  if (!text)
    return failure_set(why, COMPUTE_ERROR_FILE,
                       "copy it to the same folder, or give --all-pages to take each page as a "
                       "frame",
                       "%s: its metadata is in '%s', which cannot be read", layout->files[0]->path,
                       layout_name(o->metadata));
  char own[NAME_ROOM];
  memcpy(own, o->own, sizeof own);
  read_xml(o, text);
  memcpy(o->own, own, sizeof own);
  free(text);
  return COMPUTE_OK;
}

compute_status layout_from_ome(movie_layout *layout, failure *why) {
  const char *text = layout->files[0]->description;
  if (!text || !strstr(text, "<OME") || !strstr(text, "openmicroscopy.org/")) return COMPUTE_OK;
  ome *o = calloc(1, sizeof *o);
  if (!o) return layout_fail_memory(layout, why);
  read_xml(o, text);
  compute_status status = COMPUTE_OK;
  if (o->metadata[0] && o->image_count == 0) status = read_metadata_file(layout, o, why);
  if (!status && o->failed) status = layout_fail_memory(layout, why);
  if (!status && o->image_count > 0) {
    status = adopt_only_name(layout, o, why);
    if (!status) status = add_planes(layout, o, why);
    layout->given = !status;
  }
  free(o->images);
  free(o->runs);
  name_table_release(&o->names);
  free(o);
  return status;
}
