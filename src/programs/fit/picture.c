/* SPDX-License-Identifier: MIT */
/* Localisations as an image on a grid finer than the camera's. Each is a Gaussian of unit weight,
 * as wide as its uncertainty, or a count in one pixel. In a PNG, brightness is the square root of
 * the density, so that a few dense places do not leave the rest black. The brightest thousandth of
 * the lit pixels is white. A scale bar is in the corner. */
#include "programs/fit/picture.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FIT_WITH_PNG
#include <png.h>
#endif

enum { LONGEST_SIDE = 2048, MOST_ZOOM = 64 };

struct picture {
  picture_view view;
  int64_t rows, columns;
  float *density;
  float *across, *down; /* [columns], [rows]: weights of the spot being added */
};

picture_view picture_whole(int64_t rows, int64_t columns, double pixel_size) {
  const int64_t longest = rows > columns ? rows : columns;
  int64_t zoom = LONGEST_SIDE / (longest > 0 ? longest : 1);
  if (zoom < 1) zoom = 1;
  if (zoom > MOST_ZOOM) zoom = MOST_ZOOM;
  return (picture_view){.width = (double)columns,
                        .height = (double)rows,
                        .zoom = (double)zoom,
                        .pixel_size = pixel_size};
}

bool picture_size(const picture_view *view, int64_t *rows, int64_t *columns) {
  const double down = ceil(view->height * view->zoom - 1e-9),
               across = ceil(view->width * view->zoom - 1e-9);
  if (!(down >= 1 && across >= 1 && down * across <= (double)PICTURE_MOST_PIXELS)) return false;
  *rows = (int64_t)down;
  *columns = (int64_t)across;
  return true;
}

picture *picture_create(const picture_view *view) {
  picture *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->view = *view;
  if (picture_size(view, &p->rows, &p->columns)) {
    p->density = calloc((size_t)p->rows * (size_t)p->columns, sizeof *p->density);
    p->across = malloc((size_t)p->columns * sizeof *p->across);
    p->down = malloc((size_t)p->rows * sizeof *p->down);
  }
  if (p->density && p->across && p->down) return p;
  picture_release(p);
  return NULL;
}

void picture_release(picture *p) {
  if (!p) return;
  free(p->density);
  free(p->across);
  free(p->down);
  free(p);
}

/* Weights of the pixels around `centre`: a Gaussian integrated over each pixel. Returns their
 * number, at most `size`; weight[0] is for pixel *first. */
static int64_t weights(double centre, double sigma, int64_t size, int64_t *first, float *weight) {
  const double reach = fmin(3 * sigma + 0.5, (double)size);
  int64_t low = (int64_t)floor(centre - reach + 0.5), high = (int64_t)floor(centre + reach + 0.5);
  if (low < 0) low = 0;
  if (high > size - 1) high = size - 1;
  const double scale = 1 / (sigma * sqrt(2));
  double edge = erf(((double)low - 0.5 - centre) * scale);
  for (int64_t i = low; i <= high; i++) {
    const double next = erf(((double)i + 0.5 - centre) * scale);
    weight[i - low] = (float)(0.5 * (next - edge));
    edge = next;
  }
  *first = low;
  return high - low + 1;
}

void picture_add_spot(picture *p, double x, double y, double sigma_x, double sigma_y) {
  int64_t first_column, first_row;
  const double zoom = p->view.zoom, least = 0.4;
  const double row = (y + 0.5 - p->view.y) * zoom - 0.5,
               column = (x + 0.5 - p->view.x) * zoom - 0.5;
  if (!(row > -1 && row < (double)p->rows && column > -1 && column < (double)p->columns)) return;
  const int64_t columns =
      weights(column, fmax(sigma_x * zoom, least), p->columns, &first_column, p->across);
  const int64_t rows = weights(row, fmax(sigma_y * zoom, least), p->rows, &first_row, p->down);
  for (int64_t i = 0; i < rows; i++) {
    float *line = p->density + (first_row + i) * p->columns + first_column;
    for (int64_t k = 0; k < columns; k++) line[k] += p->down[i] * p->across[k];
  }
}

void picture_count_spot(picture *p, double x, double y) {
  const double row = floor((y + 0.5 - p->view.y) * p->view.zoom),
               column = floor((x + 0.5 - p->view.x) * p->view.zoom);
  if (row >= 0 && row < (double)p->rows && column >= 0 && column < (double)p->columns)
    p->density[(int64_t)row * p->columns + (int64_t)column]++;
}

const float *picture_density(const picture *p, int64_t *rows, int64_t *columns) {
  *rows = p->rows;
  *columns = p->columns;
  return p->density;
}

double picture_round_down(double most) {
  const double power = pow(10, floor(log10(most) + 1e-9)), rest = most / power * (1 + 1e-9);
  return power * (rest >= 5 ? 5 : rest >= 2 ? 2 : 1);
}

/* ---- PNG ----------------------------------------------------------------------------------- */

#ifdef FIT_WITH_PNG

static int ascending(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* The density drawn as white: the 99.9 % quantile of a sample of lit pixels. */
static float brightest(const picture *p) {
  enum { SAMPLE = 200000 };
  const int64_t pixels = p->rows * p->columns, step = 1 + pixels / (4 * SAMPLE);
  float *sample = malloc(4 * SAMPLE * sizeof *sample + sizeof *sample);
  int64_t count = 0;
  float most = 0;
  for (int64_t i = 0; i < pixels; i++) most = fmaxf(most, p->density[i]);
  if (!sample) return most;
  for (int64_t i = 0; i < pixels && count < 4 * SAMPLE; i += step)
    if (p->density[i] > 0.01f) sample[count++] = p->density[i];
  if (count > 1000) {
    qsort(sample, (size_t)count, sizeof *sample, ascending);
    most = sample[count - 1 - count / 1000];
  }
  free(sample);
  return most;
}

/* A colour from black through red and yellow to white, for `level` from 0 to 1. */
static void colour(float level, png_byte rgb[3]) {
  for (int i = 0; i < 3; i++)
    rgb[i] = (png_byte)lroundf(255 * fminf(fmaxf(level * 2.6f - 0.9f * (float)i, 0), 1));
}

typedef struct canvas {
  png_byte *rgb;
  int64_t rows, columns;
} canvas;

static void fill(const canvas *c, int64_t left, int64_t top, int64_t width, int64_t height,
                 png_byte grey) {
  for (int64_t y = top < 0 ? 0 : top; y < top + height && y < c->rows; y++)
    for (int64_t x = left < 0 ? 0 : left; x < left + width && x < c->columns; x++)
      memset(c->rgb + 3 * (y * c->columns + x), grey, 3);
}

enum { GLYPH_WIDTH = 5, GLYPH_HEIGHT = 7, GLYPH_STEP = 6 };

/* Rows of five dots, the leftmost in bit 4. u is the micro sign. */
static const struct glyph {
  char letter;
  unsigned char row[GLYPH_HEIGHT];
} glyphs[] = {
    {'0', {14, 17, 19, 21, 25, 17, 14}}, {'1', {4, 12, 4, 4, 4, 4, 14}},
    {'2', {14, 17, 1, 6, 8, 16, 31}},    {'5', {31, 16, 30, 1, 1, 17, 14}},
    {'.', {0, 0, 0, 0, 0, 12, 12}},      {'n', {0, 0, 22, 25, 17, 17, 17}},
    {'m', {0, 0, 26, 21, 21, 21, 21}},   {'u', {0, 0, 17, 17, 19, 29, 16}},
    {'p', {0, 0, 30, 17, 30, 16, 16}},   {'x', {0, 0, 17, 10, 4, 10, 17}},
};

static void write_text(const canvas *c, int64_t left, int64_t top, int64_t dot, const char *text) {
  for (; *text; text++, left += GLYPH_STEP * dot)
    for (size_t i = 0; i < sizeof glyphs / sizeof *glyphs; i++)
      for (int k = 0; glyphs[i].letter == *text && k < GLYPH_WIDTH * GLYPH_HEIGHT; k++)
        if (glyphs[i].row[k / GLYPH_WIDTH] >> (GLYPH_WIDTH - 1 - k % GLYPH_WIDTH) & 1)
          fill(c, left + k % GLYPH_WIDTH * dot, top + k / GLYPH_WIDTH * dot, dot, dot, 255);
}

/* Draws a labelled white bar on black in the lower right corner, at most a quarter of the picture
 * long. Its length is in nm or um if the camera's pixel size is known, otherwise in pixels. A
 * picture that is too small has no bar. */
static void draw_scale(const canvas *c, const picture *p) {
  char text[32];
  const double nm = p->view.pixel_size, unit = p->view.zoom / (nm > 0 ? nm : 1);
  const double length = picture_round_down((double)c->columns / 4 / unit);
  if (nm > 0 && length >= 1000)
    snprintf(text, sizeof text, "%.10g um", length / 1000);
  else
    snprintf(text, sizeof text, "%.10g %s", length, nm > 0 ? "nm" : "px");
  const int64_t bar = llround(length * unit), longest = c->rows > c->columns ? c->rows : c->columns;
  const int64_t dot = 1 + longest / 500, letters = ((int64_t)strlen(text) * GLYPH_STEP - 1) * dot;
  const int64_t width = (bar > letters ? bar : letters) + 6 * dot, height = 17 * dot;
  const int64_t left = c->columns - width - 4 * dot, top = c->rows - height - 4 * dot;
  if (left < 0 || top < 0 || bar < 1) return;
  fill(c, left, top, width, height, 0);
  write_text(c, left + (width - letters) / 2, top + 3 * dot, dot, text);
  fill(c, left + (width - bar) / 2, top + 12 * dot, bar, 2 * dot, 255);
}

bool picture_available(void) {
  return true;
}

compute_status picture_write_png(const picture *p, const char *path, failure *why) {
  char temporary[4096];
  const size_t pixels = (size_t)p->rows * (size_t)p->columns;
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)p->columns,
                     .height = (png_uint_32)p->rows,
                     .format = PNG_FORMAT_RGB};
  png_byte *rgb = malloc(3 * pixels);
  const float most = brightest(p), scale = most > 0 ? 1 / most : 0;
  if (!rgb)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, "", "'%s': out of memory for the picture",
                       path);
  for (size_t i = 0; i < pixels; i++) colour(sqrtf(fminf(p->density[i] * scale, 1)), rgb + 3 * i);
  draw_scale(&(canvas){rgb, p->rows, p->columns}, p);
  snprintf(temporary, sizeof temporary, "%s.incomplete", path);
  compute_status status = COMPUTE_OK;
  if (!png_image_write_to_file(&image, temporary, 0, rgb, 0, NULL))
    status = failure_set(why, COMPUTE_ERROR_FILE, "", "'%s' could not be written: %s", path,
                         image.message);
  else if (rename(temporary, path))
    status = failure_set_system(why, errno, "", "'%s' could not be written", path);
  if (status) remove(temporary);
  free(rgb);
  return status;
}

#else

bool picture_available(void) {
  return false;
}

compute_status picture_write_png(const picture *p, const char *path, failure *why) {
  (void)p;
  return failure_set(why, COMPUTE_ERROR_UNSUPPORTED, "rebuild it with libpng installed",
                     "'%s': this compute-fit was built without libpng", path);
}

#endif
