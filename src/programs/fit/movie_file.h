/* SPDX-License-Identifier: MIT */
/* What compute-fit fits: a stack of images (frames, or ROIs already cut out) in a file.
 *
 * multi-page TIFF  .tif .tiff  classic and BigTIFF, in strips or tiles, whatever compression
 * libtiff knows; one sample per pixel of 8 or 16 bits unsigned, or 32 or 64 bits float; inverted
 * where 0 is white. A stack of ImageJ's with one page for all is read, too, and sets of files:
 * OME-TIFF, Micro-Manager's and NDTiff. NumPy            .npy        rank 3, [n, rows, columns],
 * u1, u2, f4 or f8 of either byte order raw + YAML       .raw        pixels without a header;
 * <name>.yaml beside it says Width, Height, Frames, Data Type and Byte Order, as Picasso's do
 *
 * Values come as u16 (from u8 and u16) or as f32 (from f32 and f64), rows from the top. Memory does
 * not grow with the number of images, but for eight bytes each in a file that says where they are.
 */
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
  compute_dtype dtype;      /* COMPUTE_U16 or COMPUTE_F32: what movie_read gives */
  int64_t count;            /* images; ≥ 0 */
  int64_t rows, columns;    /* of each */
  uint64_t file_bytes;      /* size and time of last change (ns): to detect whether */
  int64_t file_time;        /* the file has changed */
  double pixel_size;        /* nm, from the file's metadata; 0: unknown */
  char stored[96];          /* "u16, 512 pages, LZW": the file's format, for the user */
  const char *const *paths; /* of a set: its files; valid until the movie is closed */
  size_t path_count;        /* 0: one file */
} movie_info;

/* Which images of a file with positions, channels or planes in z. */
typedef struct movie_choice {
  bool all_pages;               /* all of this file in their order, whatever its metadata says */
  int64_t position, channel, z; /* from 0; −1: not chosen */
} movie_choice;

/* Opens a file, by its contents and its extension, and checks in advance that all pages are alike
 * and that the file is as long as its header or side-car says. */
compute_status movie_open(const char *path, movie **opened, failure *why);

/* The same with a choice. Without one, a file with several positions, or or along more than
 * one of channels, planes in z and times, is refused, and so is one that announces more images than
 * it and the other files of its set have. Planes or channels alone are a movie, as `stored` says.
 */
compute_status movie_open_choice(const char *path, const movie_choice *choice, movie **opened,
                                 failure *why);

void movie_close(movie *file); /* NULL is allowed */

const movie_info *movie_information(const movie *file);

/* Reads images first … first + count − 1, which must exist, dense, to `pixels`. One thread at a
 * time may call it. Reading sequentially is fastest; in TIFFs of many pages, finding another page
 * takes a while. */
compute_status movie_read(movie *file, int64_t first, int64_t count, void *pixels, failure *why);

#endif
