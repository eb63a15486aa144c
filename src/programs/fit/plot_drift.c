/* SPDX-License-Identifier: MIT */
/* The drift over the frames as SVG: a curve for each axis and a dot for each window. z has a
 * separate panel. */
#include <math.h>
#include <stdio.h>

#include "programs/fit/drift.h"
#include "programs/fit/picture.h"
#include "programs/fit/whole_file.h"

enum { WIDTH = 560, LEFT = 66, PANEL = 470, TOP = 60, TALL = 240, BELOW = 52, STEPS = 400 };

/* A panel with axes `from` … `to` − 1. */
typedef struct axes {
  FILE *file;
  const drift_result *d;
  int from, to, top;
  double first, frames, unit, least, most; /* unit: nm per pixel, or 1 */
} axes;

static const char names[] = "xyz";

static double across(const axes *a, double frame) {
  return LEFT + PANEL * (frame - a->first) / a->frames;
}

static double frame_at(const axes *a, int step) {
  return a->first + (a->frames - 1) * step / STEPS;
}

static double down(const axes *a, double value) {
  return a->top + TALL * (1 - (value - a->least) / (a->most - a->least));
}

static double value_at(const axes *a, int axis, double frame) {
  double drift[3];
  drift_at(a->d, frame, drift);
  return drift[axis] * a->unit;
}

static void find_range(axes *a) {
  for (int i = 0; i <= STEPS; i++)
    for (int axis = a->from; axis < a->to; axis++) {
      const double value = value_at(a, axis, frame_at(a, i));
      a->least = fmin(a->least, value);
      a->most = fmax(a->most, value);
    }
  const double margin = fmax(0.05 * (a->most - a->least), 1e-3);
  a->least -= margin;
  a->most += margin;
}

static void draw_grid(const axes *a) {
  const double step = picture_round_down((a->most - a->least) / 4),
               frames = fmax(picture_round_down(a->frames / 4), 1);
  for (double k = ceil(a->least / step); k * step <= a->most; k++)
    fprintf(a->file,
            "<path d=\"M%d %.2fh%d\" class=\"grid\"/><text x=\"%d\" y=\"%.2f\" "
            "text-anchor=\"end\">%.6g</text>\n",
            LEFT - 5, down(a, k * step), PANEL + 5, LEFT - 9, down(a, k * step) + 4.5,
            k == 0 ? 0 : k * step);
  for (double k = ceil(a->first / frames); k * frames < a->first + a->frames; k++)
    fprintf(a->file,
            "<path d=\"M%.2f %dv5\" class=\"axis\"/><text x=\"%.2f\" y=\"%d\" "
            "text-anchor=\"middle\">%.6g</text>\n",
            across(a, k * frames), a->top + TALL, across(a, k * frames), a->top + TALL + 19,
            k * frames);
  fprintf(a->file, "<path d=\"M%d %dv%dh%d\" class=\"axis\"/>\n", LEFT, a->top, TALL, PANEL);
}

static void draw_axis(const axes *a, int axis) {
  const double *const values = a->d->axis[axis].value;
  fprintf(a->file, "<path class=\"%c\" d=\"", names[axis]);
  for (int i = 0; i <= STEPS; i++) {
    const double frame = frame_at(a, i);
    fprintf(a->file, "%c%.2f %.2f", i ? 'L' : 'M', across(a, frame),
            down(a, value_at(a, axis, frame)));
  }
  fputs("\"/>\n", a->file);
  for (int64_t i = 0; i < a->d->windows; i++)
    fprintf(a->file, "<circle class=\"%c\" cx=\"%.2f\" cy=\"%.2f\" r=\"2.5\"/>\n", names[axis],
            across(a, a->d->time[i]), down(a, values[i] * a->unit));
}

static void draw_panel(axes *a, const char *unit) {
  find_range(a);
  fprintf(a->file, "<text x=\"16\" y=\"%d\">drift, %s</text>\n", a->top - 14, unit);
  for (int axis = a->from; axis < a->to; axis++)
    fprintf(a->file, "<text x=\"%d\" y=\"%d\" class=\"%c\">%c</text>\n",
            LEFT + PANEL - 12 - 18 * (a->to - 1 - axis), a->top - 14, names[axis], names[axis]);
  draw_grid(a);
  for (int axis = a->from; axis < a->to; axis++) draw_axis(a, axis);
  fprintf(a->file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">frame</text>\n",
          LEFT + PANEL / 2, a->top + TALL + 40);
}

static void begin(FILE *file, const char *name, int height) {
  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
          "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
          WIDTH, height, WIDTH, height);
  plot_escape(file, name, 1000);
  fputs(": drift</title>\n<style>text{font:13px sans-serif;fill:#222}.t{font-weight:bold}"
        ".paper{fill:#fff}path{fill:none;stroke-width:1.5}.axis{stroke:#444;stroke-width:1}"
        ".grid{stroke:#ddd;stroke-width:1}path.x{stroke:#3b6ea5}path.y{stroke:#c0392b}"
        "path.z{stroke:#2e7d4f}circle.x,text.x{fill:#3b6ea5}circle.y,text.y{fill:#c0392b}"
        "circle.z,text.z{fill:#2e7d4f}\n"
        "@media (prefers-color-scheme:dark){text{fill:#e6e9ee}.paper{fill:#14181e}"
        ".axis{stroke:#9aa5b3}.grid{stroke:#313a46}path.x{stroke:#6ea8ff}path.y{stroke:#ff8a80}"
        "path.z{stroke:#7fd6a4}circle.x,text.x{fill:#6ea8ff}circle.y,text.y{fill:#ff8a80}"
        "circle.z,text.z{fill:#7fd6a4}}"
        "</style>\n<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n"
        "<text x=\"16\" y=\"24\" class=\"t\">",
        file);
  plot_escape(file, name, 50);
  fputs("</text>\n", file);
}

compute_status drift_plot(const drift_result *d, double unit_nm, const char *name, const char *path,
                          failure *why) {
  whole_file file;
  const compute_status status = whole_file_open(&file, path, why);
  if (status) return status;
  axes lateral = {.file = file.stream,
                  .d = d,
                  .to = 2,
                  .top = TOP,
                  .first = (double)d->first,
                  .frames = fmax((double)(d->last - d->first + 1), 2),
                  .unit = unit_nm > 0 ? unit_nm : 1};
  axes height = lateral;
  const int next = TOP + TALL + BELOW;
  begin(file.stream, name, d->axes > 2 ? next + TOP - 24 + TALL + BELOW : next);
  draw_panel(&lateral, unit_nm > 0 ? "nm" : "pixels");
  height.from = 2, height.to = 3, height.top = next + TOP - 24, height.unit = 1;
  if (d->axes > 2) draw_panel(&height, "nm");
  fputs("</svg>\n", file.stream);
  return whole_file_close(&file, COMPUTE_OK, why);
}
