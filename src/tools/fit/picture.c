/* SPDX-License-Identifier: MIT */
/* Pictures of a result.
 *
 * Localisations as an image: each a Gaussian of unit weight, as wide as its uncertainty, on a grid
 * finer than the camera's. Brightness is the square root of the density, so that a few dense places
 * do not leave everything else black; the brightest thousandth of the lit pixels is white. There is
 * a scale bar in the corner.
 *
 * Two histograms as SVG: the uncertainties of the positions, and the p-values, which are uniform
 * for good fits. They are stacked vertically to fit on a phone's screen. */
#include "tools/fit/picture.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FIT_WITH_PNG
#include <png.h>
#endif

enum { LONGEST_SIDE = 2048, MOST_ZOOM = 64, REACH = 12 };

struct picture {
  compute_fit_model model;
  int64_t zoom; /* pixels of the picture per camera pixel */
  int64_t rows, columns;
  double pixel_size; /* of the camera, nm; 0: unknown */
  float *density;
};

picture *picture_create(compute_fit_model model, int64_t rows, int64_t columns, double pixel_size) {
  picture *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  const int64_t longest = rows > columns ? rows : columns;
  p->model = model;
  p->pixel_size = pixel_size;
  p->zoom = LONGEST_SIDE / longest;
  if (p->zoom < 1) p->zoom = 1;
  if (p->zoom > MOST_ZOOM) p->zoom = MOST_ZOOM;
  p->rows = rows * p->zoom;
  p->columns = columns * p->zoom;
  p->density = calloc((size_t)p->rows * (size_t)p->columns, sizeof *p->density);
  if (p->density) return p;
  free(p);
  return NULL;
}

void picture_release(picture *p) {
  if (p) free(p->density);
  free(p);
}

/* Weights of the pixels around `centre`, a Gaussian integrated over each; returns their number; the
 * first is for pixel *first. */
static int64_t weights(double centre, double sigma, int64_t size, int64_t *first,
                       float weight[2 * REACH + 2]) {
  const double reach = fmin(3 * sigma + 0.5, REACH);
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

/* Position and width in the camera's pixels. */
static void add_one(picture *p, double y, double x, double sigma_y, double sigma_x) {
  float across[2 * REACH + 2], down[2 * REACH + 2];
  int64_t first_column, first_row;
  const double zoom = (double)p->zoom, least = 0.4, most = REACH / 3.0;
  const double row = (y + 0.5) * zoom - 0.5, column = (x + 0.5) * zoom - 0.5;
  if (!(row > -1 && row < (double)p->rows && column > -1 && column < (double)p->columns)) return;
  const int64_t columns =
      weights(column, fmin(fmax(sigma_x * zoom, least), most), p->columns, &first_column, across);
  const int64_t rows =
      weights(row, fmin(fmax(sigma_y * zoom, least), most), p->rows, &first_row, down);
  for (int64_t i = 0; i < rows; i++) {
    float *line = p->density + (first_row + i) * p->columns + first_column;
    for (int64_t k = 0; k < columns; k++) line[k] += down[i] * across[k];
  }
}

void picture_add(picture *p, int64_t count, const int64_t *index,
                 const compute_fit_results *results, const int32_t *corners) {
  const int32_t parameters = compute_fit_parameter_count(p->model);
  for (int64_t k = 0; k < count; k++) {
    const int64_t i = index[k];
    const float *at = results->parameters + i * parameters;
    const float *std = results->std ? results->std + i * parameters : NULL;
    if (results->status[i] != COMPUTE_FIT_CONVERGED) continue;
    add_one(p, (double)at[1] + (corners ? corners[3 * i + 1] : 0),
            (double)at[0] + (corners ? corners[3 * i + 2] : 0), std ? (double)std[1] : 0,
            std ? (double)std[0] : 0);
  }
}

/* The largest of …, 0.5, 1, 2, 5, 10, … that is at most `most`, which is positive. */
static double round_down(double most) {
  const double power = pow(10, floor(log10(most) + 1e-9)), rest = most / power * (1 + 1e-9);
  return power * (rest >= 5 ? 5 : rest >= 2 ? 2 : 1);
}

/* ---- PNG ----------------------------------------------------------------------------------- */

#ifdef FIT_WITH_PNG

static int ascending(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* The density drawn as white: that of the brightest thousandth of a sample of lit pixels. */
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

/* Black, red, yellow, white: `level` from 0 to 1. */
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

/* A white bar on black in the lower right corner, at most a quarter of the picture long, with its
 * length: nm or um if the camera's pixel size is known, otherwise pixels. Omitted if the picture is
 * too small for it. */
static void draw_scale(const canvas *c, const picture *p) {
  char text[32];
  const double unit = (double)p->zoom / (p->pixel_size > 0 ? p->pixel_size : 1);
  const double length = round_down((double)c->columns / 4 / unit);
  if (p->pixel_size > 0 && length >= 1000)
    snprintf(text, sizeof text, "%.10g um", length / 1000);
  else
    snprintf(text, sizeof text, "%.10g %s", length, p->pixel_size > 0 ? "nm" : "px");
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

/* ---- Histograms ---------------------------------------------------------------------------- */

enum { WIDTH = 430, LEFT = 62, PANEL = 344, TALL = 180, TOP = 92, BARS = 20, STEP = TALL + 98 };
enum { NAME_LENGTH = 50 }; /* length of the title that fits */

typedef struct panel {
  FILE *file;
  double top;
  double most; /* at the upper end of the scale */
} panel;

/* Escapes text for XML, without control characters, cut to the given number of letters. */
static void escape(FILE *file, const char *text, int letters) {
  for (; *text; text++) {
    const bool begins = ((unsigned char)*text & 0xc0) != 0x80; /* a letter in UTF-8 */
    if (begins && letters-- == 0) {
      fputs("…", file);
      return;
    }
    switch (*text) {
    case '<': fputs("&lt;", file); break;
    case '>': fputs("&gt;", file); break;
    case '&': fputs("&amp;", file); break;
    default:
      if ((unsigned char)*text >= 32) fputc(*text, file);
    }
  }
}

/* 500, 20 k, 1.5 M */
static void count_text(double count, char text[32]) {
  const double unit = count >= 1e6 ? 1e6 : count >= 1e4 ? 1e3 : 1;
  snprintf(text, 32, "%g%s", count / unit, unit > 1e3 ? " M" : unit > 1 ? " k" : "");
}

/* The frame, and the scale of counts from 0 to p->most. */
static void draw_frame(const panel *p, const char *title, const char *below) {
  const double step = fmax(round_down(p->most / 3), 1);
  fprintf(p->file, "<text x=\"%d\" y=\"%g\" class=\"t\">%s</text>\n", 16, p->top - 28, title);
  fprintf(p->file, "<text x=\"%d\" y=\"%g\" text-anchor=\"middle\">%s</text>\n", LEFT + PANEL / 2,
          p->top + TALL + 38, below);
  fprintf(p->file, "<text x=\"%d\" y=\"%g\" text-anchor=\"end\">fits</text>\n", LEFT - 9,
          p->top - 12);
  for (int64_t k = 0; (double)k * step <= p->most; k++) {
    char text[32];
    const double y = p->top + TALL * (1 - (double)k * step / p->most);
    count_text((double)k * step, text);
    fprintf(p->file, "<path d=\"M%d %.2fh%d\" class=\"grid\"/>", LEFT - 5, y, PANEL + 5);
    fprintf(p->file, "<text x=\"%d\" y=\"%.2f\" text-anchor=\"end\">%s</text>\n", LEFT - 9, y + 4.5,
            text);
  }
  fprintf(p->file, "<path d=\"M%d %gv%dh%d\" class=\"axis\"/>\n", LEFT, p->top, TALL, PANEL);
}

static void draw_bar(const panel *p, double from, double to, double count) {
  if (!(count > 0)) return;
  fprintf(p->file, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n",
          LEFT + from * PANEL, p->top + TALL * (1 - count / p->most), (to - from) * PANEL - 0.5,
          TALL * count / p->most);
}

static void draw_tick(const panel *p, double at, double value) {
  fprintf(p->file, "<path d=\"M%.2f %gv5\" class=\"axis\"/>", LEFT + at * PANEL, p->top + TALL);
  fprintf(p->file, "<text x=\"%.2f\" y=\"%g\" text-anchor=\"middle\">%.6g</text>\n",
          LEFT + at * PANEL, p->top + TALL + 19, value);
}

/* Ticks on a logarithmic axis: 1, 2 and 5 of each decade; powers of ten where there are many
 * decades; multiples of one step if the range is less than about a decade. */
static void draw_logarithmic_ticks(const panel *p, double least, double most) {
  static const double digits[] = {1, 2, 5};
  const double span = log(most / least);
  if (most < 8 * least) {
    const double step = round_down((most - least) / 3);
    for (double k = ceil(least / step); k * step <= most; k++)
      draw_tick(p, log(k * step / least) / span, k * step);
    return;
  }
  for (double power = pow(10, floor(log10(least))); power <= most; power *= 10)
    for (int i = 0; i < (most > 2e3 * least ? 1 : 3); i++)
      if (power * digits[i] >= least && power * digits[i] <= most)
        draw_tick(p, log(power * digits[i] / least) / span, power * digits[i]);
}

/* Cells first … last hold all but a thousandth at each end. */
static void draw_uncertainties(FILE *file, const statistics *s) {
  const double cell = log10(STATISTICS_STD_MOST / STATISTICS_STD_LEAST) / STATISTICS_STD_CELLS;
  int64_t first = 0, last = STATISTICS_STD_CELLS - 1, below = 0, above = 0, most = 1;
  panel p = {file, TOP, 1};
  if (s->std_count > 0) {
    while (below + s->std_x[first] <= s->std_count / 1000) below += s->std_x[first++];
    while (above + s->std_x[last] <= s->std_count / 1000) above += s->std_x[last--];
    first = first > 2 ? first - 2 : 0;
    last = last < STATISTICS_STD_CELLS - 3 ? last + 2 : STATISTICS_STD_CELLS - 1;
  }
  for (int64_t i = first; i <= last; i++)
    if (s->std_x[i] > most) most = s->std_x[i];
  p.most = (double)most;
  draw_frame(&p, "Uncertainty of x", "standard deviation, pixels (logarithmic)");
  const double cells = (double)(last - first + 1);
  for (int64_t i = first; i <= last; i++)
    draw_bar(&p, (double)(i - first) / cells, (double)(i - first + 1) / cells, (double)s->std_x[i]);
  draw_logarithmic_ticks(&p, STATISTICS_STD_LEAST * pow(10, (double)first * cell),
                         STATISTICS_STD_LEAST * pow(10, (double)(last + 1) * cell));
}

static void draw_p_values(FILE *file, const statistics *s) {
  double bar[BARS] = {0};
  const double flat = (double)s->p_value.count / BARS;
  panel p = {file, TOP + STEP, fmax(1.5 * flat, 1)};
  for (int64_t i = 0; i < STATISTICS_P_CELLS; i++)
    bar[i * BARS / STATISTICS_P_CELLS] += (double)s->p_value.cell[i];
  for (int i = 0; i < BARS; i++) p.most = fmax(p.most, bar[i]);
  draw_frame(&p, "p-value of the fit", "uniform (dashed line) if the model and camera are right");
  for (int k = 0; k <= 5; k++) draw_tick(&p, k / 5.0, k / 5.0);
  for (int i = 0; i < BARS; i++) draw_bar(&p, (double)i / BARS, (double)(i + 1) / BARS, bar[i]);
  if (flat > 0)
    fprintf(file, "<path d=\"M%d %.2fh%d\" class=\"line\"/>\n", LEFT,
            p.top + TALL * (1 - flat / p.most), PANEL);
}

static void draw(FILE *file, const statistics *s, const char *name) {
  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
          "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
          WIDTH, TOP + 2 * STEP - 44, WIDTH, TOP + 2 * STEP - 44);
  escape(file, name, 1000);
  fputs(": uncertainties of x and p-values of the fits</title>\n<style>text{font:13px sans-serif;"
        "fill:#222}.t{font-weight:bold}.paper{fill:#fff}rect{fill:#3b6ea5}path{fill:none}"
        ".axis{stroke:#444}.grid{stroke:#ddd}"
        ".line{stroke:#c0392b;stroke-width:1.5;stroke-dasharray:6 4}\n"
        "@media (prefers-color-scheme:dark){text{fill:#e6e9ee}.paper{fill:#14181e}"
        "rect{fill:#6ea8ff}.axis{stroke:#9aa5b3}.grid{stroke:#313a46}.line{stroke:#ff8a80}}"
        "</style>\n<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n"
        "<text x=\"16\" y=\"24\" class=\"t\">",
        file);
  escape(file, name, NAME_LENGTH);
  fprintf(file, "</text>\n<text x=\"16\" y=\"42\">%lld fits of %s</text>\n", (long long)s->count,
          compute_fit_model_name(s->model));
  draw_uncertainties(file, s);
  draw_p_values(file, s);
  fputs("</svg>\n", file);
}

compute_status plot_write_svg(const statistics *s, const char *name, const char *path,
                              failure *why) {
  char temporary[4096];
  snprintf(temporary, sizeof temporary, "%s.incomplete", path);
  FILE *file = fopen(temporary, "w");
  if (!file) return failure_set_system(why, errno, "", "'%s' could not be written", path);
  draw(file, s, name);
  const bool bad = ferror(file) != 0;
  if (fclose(file) || bad || rename(temporary, path)) {
    const int code = errno;
    remove(temporary);
    return failure_set_system(why, code, "", "'%s' could not be written", path);
  }
  return COMPUTE_OK;
}
