/* SPDX-License-Identifier: MIT */
/* Which image of a movie is which page of which file, from what the files say about themselves. */
#ifndef TOOLS_FIT_MOVIE_LAYOUT_H
#define TOOLS_FIT_MOVIE_LAYOUT_H

#include "programs/fit/movie_private.h"

/* A page that a file's metadata names. */
typedef struct movie_plane {
  int64_t time, channel, z;
  int32_t file, page;
} movie_plane;

/* Sizes announced, and the pages that exist. */
typedef struct movie_layout {
  movie_choice choice;
  const char *source; /* "OME-XML", for messages */
  int64_t positions, channels, slices, times;
  bool given; /* whether the files say all this */

  movie **files; /* the opened file first */
  size_t file_count;
  int64_t pages;       /* of all files */
  movie_plane *planes; /* of the chosen position */
  size_t plane_count, plane_room;
  const char *as_frames; /* "channels", if that is the only axis and taken for time; NULL: no */
  char absent[128];      /* a file of the set that could not be opened, without its folder */
} movie_layout;

/* ---- For the sources of layouts -------------------------------------------------------------- */

/* Each sets `given`, sizes and planes if the first file is of its kind, and leaves all alone if
 * not. */
compute_status layout_from_ome(movie_layout *layout, failure *why);
compute_status layout_from_ndtiff(movie_layout *layout, failure *why);

compute_status layout_fail_memory(const movie_layout *layout, failure *why);

/* Refuses positions below 1 or a product of sizes beyond what is plausible. */
compute_status layout_check_sizes(const movie_layout *layout, failure *why);

/* Refuses a choice beyond `count` things, and none (−1) where there are several. */
compute_status layout_check_choice(const movie_layout *layout, const char *option, int64_t chosen,
                                   int64_t count, const char *things, failure *why);

/* The same for positions of the stage. */
compute_status layout_check_position(const movie_layout *layout, failure *why);

/* The number of the file of this name beside the first, opened if it has not been; −1 if it is not
 * there, which `absent` then says. */
compute_status layout_file(movie_layout *layout, const char *name, int32_t *number, failure *why);

/* A plane of an open file. There are no more planes than pages: no text takes more memory. */
compute_status layout_add(movie_layout *layout, const movie_plane *plane, failure *why);

/* Adds <name>_1, <name>_2 … as files of the set while the pages of all are fewer than `wanted`: a
 * complete file is followed by none, whatever else has such a name. */
compute_status layout_follow_names(movie_layout *layout, int64_t wanted, failure *why);

/* Adds all pages of all files in sequence; the channel changes first, z next. */
compute_status layout_add_sequence(movie_layout *layout, failure *why);

/* The part of a path behind its folder. */
const char *layout_name(const char *path);

#endif
