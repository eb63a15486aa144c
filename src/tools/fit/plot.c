/* Two histograms as SVG: how uncertain the positions are, and whether the p-values are as flat as
 * those of good fits must be. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/fit/picture.h"

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
