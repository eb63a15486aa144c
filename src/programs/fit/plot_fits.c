/* SPDX-License-Identifier: MIT */
/* Two histograms as SVG: the uncertainties of the positions, and the p-values, which are uniform
 * for good fits. They are stacked vertically to fit on a phone's screen. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "programs/fit/picture.h"
#include "programs/fit/whole_file.h"

enum { WIDTH = 430, LEFT = 62, PANEL = 344, TALL = 180, TOP = 92, BARS = 20, STEP = TALL + 98 };
enum { NAME_LENGTH = 50 }; /* length of the longest title */

typedef struct panel {
  FILE *file;
  double top;
  double most; /* the upper end of the scale */
} panel;

void plot_escape(FILE *file, const char *text, int letters) {
  for (; *text; text++) {
    const bool begins = ((unsigned char)*text & 0xc0) != 0x80; /* first byte of a letter in UTF-8 */
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

/* Formats a count as 500, 20 k or 1.5 M. */
static void count_text(double count, char text[32]) {
  const double unit = count >= 1e6 ? 1e6 : count >= 1e4 ? 1e3 : 1;
  snprintf(text, 32, "%g%s", count / unit, unit > 1e3 ? " M" : unit > 1 ? " k" : "");
}

/* Draws the frame and the scale of counts from 0 to p->most. */
static void draw_frame(const panel *p, const char *title, const char *below) {
  const double step = fmax(picture_round_down(p->most / 3), 1);
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

/* Ticks on a logarithmic axis: 1, 2 and 5 in each decade, or powers of ten if there are many
 * decades, or multiples of one step if the range is less than about a decade. */
static void draw_logarithmic_ticks(const panel *p, double least, double most) {
  static const double digits[] = {1, 2, 5};
  const double span = log(most / least);
  if (most < 8 * least) {
    const double step = picture_round_down((most - least) / 3);
    for (double k = ceil(least / step); k * step <= most; k++)
      draw_tick(p, log(k * step / least) / span, k * step);
    return;
  }
  for (double power = pow(10, floor(log10(least))); power <= most; power *= 10)
    for (int i = 0; i < (most > 2e3 * least ? 1 : 3); i++)
      if (power * digits[i] >= least && power * digits[i] <= most)
        draw_tick(p, log(power * digits[i] / least) / span, power * digits[i]);
}

/* Cells first … last contain all but a thousandth at each end. */
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
  plot_escape(file, name, 1000);
  fputs(": uncertainties of x and p-values of the fits</title>\n<style>text{font:13px sans-serif;"
        "fill:#222}.t{font-weight:bold}.paper{fill:#fff}rect{fill:#3b6ea5}path{fill:none}"
        ".axis{stroke:#444}.grid{stroke:#ddd}"
        ".line{stroke:#c0392b;stroke-width:1.5;stroke-dasharray:6 4}\n"
        "@media (prefers-color-scheme:dark){text{fill:#e6e9ee}.paper{fill:#14181e}"
        "rect{fill:#6ea8ff}.axis{stroke:#9aa5b3}.grid{stroke:#313a46}.line{stroke:#ff8a80}}"
        "</style>\n<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n"
        "<text x=\"16\" y=\"24\" class=\"t\">",
        file);
  plot_escape(file, name, NAME_LENGTH);
  fprintf(file, "</text>\n<text x=\"16\" y=\"42\">%lld fits of %s</text>\n", (long long)s->count,
          compute_fit_model_name(s->model));
  draw_uncertainties(file, s);
  draw_p_values(file, s);
  fputs("</svg>\n", file);
}

compute_status plot_write_svg(const statistics *s, const char *name, const char *path,
                              failure *why) {
  whole_file file;
  const compute_status status = whole_file_open(&file, path, why);
  if (status) return status;
  draw(file.stream, s, name);
  return whole_file_close(&file, COMPUTE_OK, why);
}
