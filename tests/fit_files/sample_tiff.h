/* SPDX-License-Identifier: MIT */
/* TIFFs put together byte by byte, good and bad ones: without libtiff, which is what reads them. */
#ifndef FIT_FILES_SAMPLE_TIFF_H
#define FIT_FILES_SAMPLE_TIFF_H

#include <stdbool.h>
#include <stdint.h>

/* One page, in one strip without compression. Zero means the usual. */
typedef struct sample_page {
  uint32_t rows, columns;
  uint16_t bits;        /* 0: 16 */
  uint16_t format;      /* 0: not said */
  uint16_t samples;     /* 0: 1 */
  uint16_t photometric; /* 0: dark is 0 (1) */
  bool white_is_0;      /* photometric 0, which means the usual here */
  uint16_t compression; /* 0: none (1) */
  const char *description;
  const void *pixels; /* `bytes` of them, as they are to stand in the file */
  uint32_t bytes;
  uint32_t claimed_bytes;  /* of the strip; 0: as many as there are */
  uint32_t claimed_offset; /* of the strip; 0: where it is */
} sample_page;

typedef struct sample_tiff {
  bool big_endian, big; /* BigTIFF */
  int pages;
  const sample_page *page;
  int next_of_last; /* page that follows the last one: a circle; −1: none */
} sample_tiff;

/* Writes the file, or fails the test. */
void sample_tiff_write(const char *path, const sample_tiff *tiff);

#endif
