/* SPDX-License-Identifier: MIT */
/* PNG pictures, and parts of them at the size that a network wants. Needs libpng and -lm. */
#ifndef PICTURE_H
#define PICTURE_H

#include <math.h>
#include <png.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_PIXELS = 1 << 28 };

typedef struct picture {
  int width, height;
  unsigned char *pixels; /* blue, green, red */
  char problem[80];
} picture;

typedef struct box {
  double left, top, width, height;
} box;

/* False with `problem` set if it fails. picture_release in any case. */
static bool picture_load(picture *p, const char *path) {
  png_image image = {.version = PNG_IMAGE_VERSION};
  const png_color white = {255, 255, 255}; /* behind transparent pixels */
  bool read = png_image_begin_read_from_file(&image, path);
  image.format = PNG_FORMAT_BGR;
  const bool fits = read && (double)image.width * image.height <= MOST_PIXELS;
  if (fits) p->pixels = malloc(PNG_IMAGE_SIZE(image));
  read = read && p->pixels && png_image_finish_read(&image, &white, p->pixels, 0, NULL);
  snprintf(p->problem, sizeof p->problem, "%.70s",
           read || image.message[0] ? image.message
           : fits                   ? "out of memory"
                                    : "too many pixels");
  p->width = (int)image.width;
  p->height = (int)image.height;
  png_image_free(&image);
  return read;
}

static void picture_release(picture *p) {
  free(p->pixels);
}

static double limit(double value, double low, double high) {
  return value < low ? low : value > high ? high : value;
}

/* Part `b` of the picture at another size, in the middle of width × height of [3,h,w], −1 … 1. */
static void sample(const picture *p, box b, int width, int height, int row_width, float *out) {
  for (int y = 0; y < height; y++) {
    const double at_y = limit(b.top + (y + 0.5) * b.height / height - 0.5, 0, p->height - 1);
    const int y0 = (int)at_y, y1 = y0 + (y0 + 1 < p->height);
    for (int x = 0; x < width; x++) {
      const double at_x = limit(b.left + (x + 0.5) * b.width / width - 0.5, 0, p->width - 1);
      const int x0 = (int)at_x, x1 = x0 + (x0 + 1 < p->width);
      const unsigned char *above = p->pixels + (size_t)y0 * (size_t)p->width * 3;
      const unsigned char *below = p->pixels + (size_t)y1 * (size_t)p->width * 3;
      for (int c = 0; c < 3; c++) {
        const double u = above[x0 * 3 + c] + (at_x - x0) * (above[x1 * 3 + c] - above[x0 * 3 + c]);
        const double v = below[x0 * 3 + c] + (at_x - x0) * (below[x1 * 3 + c] - below[x0 * 3 + c]);
        out[((size_t)c * (size_t)height + (size_t)y) * (size_t)row_width + (size_t)x] =
            (float)((u + (at_y - y0) * (v - u)) / 127.5 - 1);
      }
    }
  }
}

#endif
