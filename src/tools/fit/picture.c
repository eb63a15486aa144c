/* Pictures of a result.
 *
 * Localisations as an image: each a Gaussian of unit weight, as wide as its uncertainty, on a grid
 * finer than the camera's. Brightness is the square root of the density, so that a few dense places
 * do not leave all else black; the brightest thousandth of the lit pixels is white.
 *
 * Two histograms as SVG: how uncertain the positions are, and whether the p-values are as flat as
 * those of good fits must be. */
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
  int64_t zoom; /* pixels of the picture for one of the camera */
  int64_t rows, columns;
  float *density;
};

picture *picture_create(compute_fit_model model, int64_t rows, int64_t columns) {
  picture *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  const int64_t longest = rows > columns ? rows : columns;
  p->model = model;
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

/* Weights of the pixels around `centre`, a Gaussian integrated over each; returns how many, the
 * first for pixel *first. */
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

void picture_add(picture *p, int64_t count, const compute_fit_results *results,
                 const int32_t *corners) {
  const int32_t parameters = compute_fit_parameter_count(p->model);
  for (int64_t i = 0; i < count; i++) {
    const float *at = results->parameters + i * parameters;
    const float *std = results->std ? results->std + i * parameters : NULL;
    if (results->status[i] != COMPUTE_FIT_CONVERGED) continue;
    add_one(p, (double)at[1] + (corners ? corners[3 * i + 1] : 0),
            (double)at[0] + (corners ? corners[3 * i + 2] : 0), std ? (double)std[1] : 0,
            std ? (double)std[0] : 0);
  }
}

/* ---- PNG ----------------------------------------------------------------------------------- */

#ifdef FIT_WITH_PNG

static int ascending(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* The density that becomes white: that of the brightest thousandth of a sample of lit pixels. */
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
  return failure_set(why, COMPUTE_ERROR_UNSUPPORTED, "build it where libpng is installed",
                     "'%s': this compute-fit was built without libpng", path);
}

#endif

/* ---- Histograms ---------------------------------------------------------------------------- */

enum { WIDTH = 860, HEIGHT = 340, PANEL = 360, TALL = 200, TOP = 80, BARS = 20 };

typedef struct panel {
  FILE *file;
  double left;
} panel;

static void escape(FILE *file, const char *text) {
  for (; *text; text++) switch (*text) {
    case '<': fputs("&lt;", file); break;
    case '>': fputs("&gt;", file); break;
    case '&': fputs("&amp;", file); break;
    default:
      if ((unsigned char)*text >= 32) fputc(*text, file);
    }
}

static void draw_frame(const panel *p, const char *title, const char *below) {
  fprintf(p->file, "<text x=\"%g\" y=\"%d\" class=\"t\">%s</text>\n", p->left, TOP - 14, title);
  fprintf(p->file, "<text x=\"%g\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
          p->left + PANEL / 2.0, TOP + TALL + 40, below);
  fprintf(p->file, "<path d=\"M%g %dv%dh%d\" class=\"axis\"/>\n", p->left, TOP, TALL, PANEL);
}

static void draw_bar(const panel *p, double from, double to, double height) {
  if (!(height > 0)) return;
  fprintf(p->file, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n",
          p->left + from * PANEL, TOP + TALL * (1 - height), (to - from) * PANEL - 0.5,
          TALL * height);
}

static void draw_tick(const panel *p, double at, const char *text) {
  fprintf(p->file, "<path d=\"M%.2f %dv5\" class=\"axis\"/>", p->left + at * PANEL, TOP + TALL);
  fprintf(p->file, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
          p->left + at * PANEL, TOP + TALL + 19, text);
}

/* Cells first … last hold all but a thousandth at each end. */
static void draw_uncertainties(const panel *p, const statistics *s) {
  const double span = log10(STATISTICS_STD_MOST / STATISTICS_STD_LEAST);
  const double cell = span / STATISTICS_STD_CELLS;
  int64_t first = 0, last = STATISTICS_STD_CELLS - 1, below = 0, above = 0, most = 1;
  draw_frame(p, "Uncertainty of x", "standard deviation, pixels (logarithmic)");
  if (s->std_count == 0) return;
  while (below + s->std_x[first] <= s->std_count / 1000) below += s->std_x[first++];
  while (above + s->std_x[last] <= s->std_count / 1000) above += s->std_x[last--];
  first = first > 2 ? first - 2 : 0;
  last = last < STATISTICS_STD_CELLS - 3 ? last + 2 : STATISTICS_STD_CELLS - 1;
  for (int64_t i = first; i <= last; i++)
    if (s->std_x[i] > most) most = s->std_x[i];
  const double cells = (double)(last - first + 1);
  for (int64_t i = first; i <= last; i++)
    draw_bar(p, (double)(i - first) / cells, (double)(i - first + 1) / cells,
             (double)s->std_x[i] / (double)most);
  for (int k = 0; k <= 4; k++) {
    char text[32];
    const double at = k / 4.0;
    snprintf(text, sizeof text, "%.3g",
             STATISTICS_STD_LEAST * pow(10, ((double)first + at * cells) * cell));
    draw_tick(p, at, text);
  }
}

static void draw_p_values(const panel *p, const statistics *s) {
  static const char *const tick[] = {"0", "0.25", "0.5", "0.75", "1"};
  double bar[BARS] = {0}, most = 1.5;
  draw_frame(p, "p-value of the fit", "flat along the line where model and camera are right");
  for (int k = 0; k <= 4; k++) draw_tick(p, k / 4.0, tick[k]);
  if (s->p_value.count == 0) return;
  for (int64_t i = 0; i < STATISTICS_P_CELLS; i++)
    bar[i * BARS / STATISTICS_P_CELLS] +=
        (double)s->p_value.cell[i] * BARS / (double)s->p_value.count;
  for (int i = 0; i < BARS; i++) most = fmax(most, bar[i]);
  for (int i = 0; i < BARS; i++)
    draw_bar(p, (double)i / BARS, (double)(i + 1) / BARS, bar[i] / most);
  fprintf(p->file, "<path d=\"M%g %.2fh%d\" class=\"line\"/>\n", p->left,
          TOP + TALL * (1 - 1 / most), PANEL);
}

static void draw(FILE *file, const statistics *s, const char *title) {
  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
          "viewBox=\"0 0 %d %d\">\n<style>text{font:13px sans-serif;fill:#222}"
          ".t{font-weight:bold}rect{fill:#3b6ea5}.axis{stroke:#444;fill:none}"
          ".line{stroke:#c0392b;stroke-width:1.5;stroke-dasharray:6 4}</style>\n"
          "<rect width=\"%d\" height=\"%d\" style=\"fill:#fff\"/>\n<text x=\"40\" y=\"32\">",
          WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
  escape(file, title);
  fputs("</text>\n", file);
  draw_uncertainties(&(panel){file, 40}, s);
  draw_p_values(&(panel){file, 460}, s);
  fputs("</svg>\n", file);
}

compute_status plot_write_svg(const statistics *s, const char *title, const char *path,
                              failure *why) {
  char temporary[4096];
  snprintf(temporary, sizeof temporary, "%s.incomplete", path);
  FILE *file = fopen(temporary, "w");
  if (!file) return failure_set_system(why, errno, "", "'%s' could not be written", path);
  draw(file, s, title);
  const bool bad = ferror(file) != 0;
  if (fclose(file) || bad || rename(temporary, path)) {
    const int code = errno;
    remove(temporary);
    return failure_set_system(why, code, "", "'%s' could not be written", path);
  }
  return COMPUTE_OK;
}
