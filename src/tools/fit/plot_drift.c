/* SPDX-License-Identifier: MIT */
/* The drift over the frames as SVG: a curve for each axis, and a dot for each window. */
#include <math.h>
#include <stdio.h>

#include "tools/fit/drift.h"
#include "tools/fit/picture.h"
#include "tools/fit/whole_file.h"

enum { WIDTH = 560, LEFT = 66, PANEL = 470, TOP = 60, TALL = 240, STEPS = 400 };

typedef struct axes {
  FILE *file;
  const drift_result *d;
  double first, frames, unit, least, most; /* unit: nm of a pixel, or 1 */
} axes;

static double across(const axes *a, double frame) {
  return LEFT + PANEL * (frame - a->first) / a->frames;
}

static double frame_at(const axes *a, int step) {
  return a->first + (a->frames - 1) * step / STEPS;
}

static double down(const axes *a, double value) {
  return TOP + TALL * (1 - (value - a->least) / (a->most - a->least));
}

static double value_at(const axes *a, int axis, double frame) {
  double xy[2];
  drift_at(a->d, frame, &xy[0], &xy[1]);
  return xy[axis] * a->unit;
}

static void find_range(axes *a) {
  for (int i = 0; i <= STEPS; i++)
    for (int axis = 0; axis < 2; axis++) {
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
            across(a, k * frames), TOP + TALL, across(a, k * frames), TOP + TALL + 19, k * frames);
  fprintf(a->file, "<path d=\"M%d %dv%dh%d\" class=\"axis\"/>\n", LEFT, TOP, TALL, PANEL);
}

static void draw_axis(const axes *a, int axis) {
  const double *const values = axis ? a->d->y : a->d->x;
  fprintf(a->file, "<path class=\"%c\" d=\"", axis ? 'y' : 'x');
  for (int i = 0; i <= STEPS; i++) {
    const double frame = frame_at(a, i);
    fprintf(a->file, "%c%.2f %.2f", i ? 'L' : 'M', across(a, frame),
            down(a, value_at(a, axis, frame)));
  }
  fputs("\"/>\n", a->file);
  for (int64_t i = 0; i < a->d->windows; i++)
    fprintf(a->file, "<circle class=\"%c\" cx=\"%.2f\" cy=\"%.2f\" r=\"2.5\"/>\n", axis ? 'y' : 'x',
            across(a, a->d->time[i]), down(a, values[i] * a->unit));
}

static void draw(const axes *a, const char *name, bool nm) {
  fprintf(a->file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
          "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
          WIDTH, TOP + TALL + 52, WIDTH, TOP + TALL + 52);
  plot_escape(a->file, name, 1000);
  fputs(": drift</title>\n<style>text{font:13px sans-serif;fill:#222}.t{font-weight:bold}"
        ".paper{fill:#fff}path{fill:none;stroke-width:1.5}.axis{stroke:#444;stroke-width:1}"
        ".grid{stroke:#ddd;stroke-width:1}path.x{stroke:#3b6ea5}path.y{stroke:#c0392b}"
        "circle.x,text.x{fill:#3b6ea5}circle.y,text.y{fill:#c0392b}\n"
        "@media (prefers-color-scheme:dark){text{fill:#e6e9ee}.paper{fill:#14181e}"
        ".axis{stroke:#9aa5b3}.grid{stroke:#313a46}path.x{stroke:#6ea8ff}path.y{stroke:#ff8a80}"
        "circle.x,text.x{fill:#6ea8ff}circle.y,text.y{fill:#ff8a80}}"
        "</style>\n<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n"
        "<text x=\"16\" y=\"24\" class=\"t\">",
        a->file);
  plot_escape(a->file, name, 50);
  fprintf(a->file, "</text>\n<text x=\"16\" y=\"46\">drift, %s</text>\n", nm ? "nm" : "pixels");
  fprintf(a->file, "<text x=\"%d\" y=\"46\" class=\"x\">x</text>", LEFT + PANEL - 30);
  fprintf(a->file, "<text x=\"%d\" y=\"46\" class=\"y\">y</text>\n", LEFT + PANEL - 12);
  draw_grid(a);
  draw_axis(a, 0);
  draw_axis(a, 1);
  fprintf(a->file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">frame</text>\n</svg>\n",
          LEFT + PANEL / 2, TOP + TALL + 40);
}

compute_status drift_plot(const drift_result *d, double unit_nm, const char *name, const char *path,
                          failure *why) {
  whole_file file;
  const compute_status status = whole_file_open(&file, path, why);
  if (status) return status;
  axes a = {.file = file.stream,
            .d = d,
            .first = (double)d->first,
            .frames = fmax((double)(d->last - d->first + 1), 2),
            .unit = unit_nm > 0 ? unit_nm : 1};
  find_range(&a);
  draw(&a, name, unit_nm > 0);
  return whole_file_close(&file, COMPUTE_OK, why);
}
