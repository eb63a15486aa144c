/* SPDX-License-Identifier: MIT */
/* Maps the images of a movie to pages of files, from the metadata in the files. */
#ifndef TOOLS_FIT_MOVIE_LAYOUT_H
#define TOOLS_FIT_MOVIE_LAYOUT_H

#include "programs/fit/movie_private.h"

/* A page in a file's metadata. */
typedef struct movie_plane {
  int64_t time, channel, z;
  int32_t file, page;
} movie_plane;

/* The declared sizes, and the existing pages. */
typedef struct movie_layout {
  movie_choice choice;
  const char *source; /* "OME-XML", for messages */
  int64_t positions, channels, slices, times;
  bool given; /* the files contain this metadata */

  movie **files; /* the opened file first */
  size_t file_count;
  int64_t pages;       /* number of pages of all files */
  movie_plane *planes; /* of the chosen position */
  size_t plane_count, plane_room;
  const char *as_frames; /* "channels", if it is the only axis and taken for time; NULL: no */
  char absent[128];      /* name of a missing file of the set, without its folder */
} movie_layout;

/* ---- For the sources of layouts -------------------------------------------------------------- */

/* Each function sets `given`, sizes and planes if the first file is of its kind. Otherwise it
 * changes nothing. */
compute_status layout_from_ome(movie_layout *layout, failure *why);
compute_status layout_from_ndtiff(movie_layout *layout, failure *why);

compute_status layout_fail_memory(const movie_layout *layout, failure *why);

/* Refuses sizes below 1, or with an implausibly large product. */
compute_status layout_check_sizes(const movie_layout *layout, failure *why);

/* Refuses a choice beyond `count` things, and no choice (−1) if there are several. */
compute_status layout_check_choice(const movie_layout *layout, const char *option, int64_t chosen,
                                   int64_t count, const char *things, failure *why);

/* The same for stage positions. */
compute_status layout_check_position(const movie_layout *layout, failure *why);

/* Returns the number of the file with this name beside the first one, and opens it if necessary. If
 * it does not exist, the number is −1, and `absent` gets its name. */
compute_status layout_file(movie_layout *layout, const char *name, int32_t *number, failure *why);

/* Adds a plane of an open file. There are never more planes than pages, so no metadata can request
 * more memory. */
compute_status layout_add(movie_layout *layout, const movie_plane *plane, failure *why);

/* Adds <name>_1, <name>_2 … as files of the set while all files have fewer than `wanted` pages.
 * Files with such a name are ignored after a complete file. */
compute_status layout_follow_names(movie_layout *layout, int64_t wanted, failure *why);

/* Adds all pages of all files in sequence. The channel changes first, z next. */
compute_status layout_add_sequence(movie_layout *layout, failure *why);

/* Returns the part of a path after its folder. */
const char *layout_name(const char *path);

#endif
