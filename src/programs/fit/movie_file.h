/* SPDX-License-Identifier: MIT */
/* The input of compute-fit: a stack of images (frames, or ROIs that are already cut out) in a file.
 *
 * - Multi-page TIFF (.tif, .tiff): classic and BigTIFF, in strips or tiles, with any compression of
 *   libtiff. One sample per pixel: 8 or 16 bits unsigned, or 32 or 64 bits float. Inverted if 0 is
 *   white. Also ImageJ's stacks with a single page, and sets of files: OME-TIFF, Micro-Manager and
 *   NDTiff.
 * - NumPy (.npy): rank 3, [n, rows, columns], u1, u2, f4 or f8 of either byte order.
 * - Raw + YAML (.raw): pixels without a header. The side-car <name>.yaml has the keys Width,
 *   Height, Frames, Data Type and Byte Order, as Picasso's side-cars do.
 *
 * Values are u16 (from u8 and u16) or f32 (from f32 and f64), with rows from the top. Memory does
 * not grow with the number of images, except for eight bytes per image in a file with a layout. */
#ifndef TOOLS_FIT_MOVIE_FILE_H
#define TOOLS_FIT_MOVIE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "programs/fit/failure.h"
#include "compute/dtype.h"

typedef struct movie movie;

typedef struct movie_info {
  const char *format;       /* "TIFF", "NumPy" or "raw" */
  compute_dtype dtype;      /* COMPUTE_U16 or COMPUTE_F32: the dtype of movie_read */
  int64_t count;            /* images; ≥ 0 */
  int64_t rows, columns;    /* of each */
  uint64_t file_bytes;      /* size and time of last change (ns), to detect whether */
  int64_t file_time;        /* the file has changed */
  double pixel_size;        /* nm, from the file's metadata; 0: unknown */
  char stored[96];          /* "u16, 512 pages, LZW": the file's format, for the user */
  const char *const *paths; /* the files of a set; valid until the movie is closed */
  size_t path_count;        /* 0: one file */
} movie_info;

/* Selects images of a file with positions, channels or planes in z. */
typedef struct movie_choice {
  bool all_pages;               /* all images of this file in their order; its metadata is
                                 * ignored */
  int64_t position, channel, z; /* from 0; −1: not chosen */
} movie_choice;

/* Opens a file by its contents and its extension. Checks in advance that all pages are alike, and
 * that the file has the length that its header or side-car declares. */
compute_status movie_open(const char *path, movie **opened, failure *why);

/* As movie_open, with a choice. Without a choice, a file with several positions is refused. So is a
 * file with more than one axis among channels, planes in z and times, and a file that announces
 * more images than its set contains. Planes or channels alone are a movie; `stored` describes
 * them. */
compute_status movie_open_choice(const char *path, const movie_choice *choice, movie **opened,
                                 failure *why);

void movie_close(movie *file); /* NULL is allowed */

const movie_info *movie_information(const movie *file);

/* Reads images first … first + count − 1, which must exist, dense, to `pixels`. Only one thread may
 * call it at a time. Sequential reading is fastest: in TIFFs of many pages, a jump to another page
 * takes a while. */
compute_status movie_read(movie *file, int64_t first, int64_t count, void *pixels, failure *why);

#endif
