/* SPDX-License-Identifier: MIT */
/* compute-fit render: draws a picture of a table of localisations. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "programs/common/output_check.h"
#include "programs/fit/command.h"
#include "programs/fit/picture.h"
#include "programs/fit/simulation.h"
#include "programs/fit/summary.h"
#include "programs/fit/table.h"

typedef struct render_job {
  const fit_arguments *a;
  table table;
  spots spots;
  picture_view view;
  picture *picture;
} render_job;

static bool has_ending(const char *path, const char *ending) {
  const size_t length = strlen(path), most = strlen(ending);
  return length > most && !strcasecmp(path + length - most, ending);
}

static bool is_png(const char *path) {
  return has_ending(path, ".png");
}

static bool is_picture(const char *path) {
  return is_png(path) || has_ending(path, ".npy") || has_ending(path, ".tif") ||
         has_ending(path, ".tiff");
}

static int check_arguments(const fit_arguments *a) {
  if (!a->output) {
    fit_say("render needs --output FILE (-o): a .png, .tif or .npy file");
    return EXIT_USAGE;
  }
  if (a->zoom > 0 && a->resolution > 0) {
    fit_say("--zoom and --resolution say the same; give one of them");
    return EXIT_USAGE;
  }
  if (is_png(a->output) && option_given(&a->line, "--dtype")) {
    fit_say("--dtype is for .tif and .npy; a .png has colours");
    return EXIT_USAGE;
  }
  if (is_png(a->output) && !picture_available()) {
    fit_say("--output: this compute-fit was built without libpng; %s.npy works",
            image_file_has_tiff() ? ".tif or " : "");
    return EXIT_FAILED;
  }
  if (!is_picture(a->output)) {
    fit_say("--output: '%s' must end in .png, .tif or .npy", a->output);
    return EXIT_USAGE;
  }
  return output_check(&fit_program, "--output", a->output);
}

/* Finds the size of the camera's frame: from the side-car, or from the extent of the
 * localisations. */
static void find_frame(const render_job *job, int64_t *rows, int64_t *columns) {
  const spots *s = &job->spots;
  double bottom = 0, right = 0;
  *rows = (int64_t)table_number_of_history(&job->table, "Height");
  *columns = (int64_t)table_number_of_history(&job->table, "Width");
  if (*rows > 0 && *columns > 0) return;
  for (int64_t i = 0; i < s->count; i++) {
    bottom = fmax(bottom, s->y[i]);
    right = fmax(right, s->x[i]);
  }
  *rows = (int64_t)floor(fmin(bottom, 1e9) + 0.5) + 1;
  *columns = (int64_t)floor(fmin(right, 1e9) + 0.5) + 1;
}

static int choose_view(render_job *job) {
  const fit_arguments *a = job->a;
  int64_t rows, columns;
  find_frame(job, &rows, &columns);
  if (a->region.count == 4) {
    rows = (int64_t)ceil(a->region.value[3]);
    columns = (int64_t)ceil(a->region.value[2]);
  }
  job->view = picture_whole(rows, columns, job->spots.pixel_size);
  if (a->region.count == 4) {
    job->view.x = a->region.value[0];
    job->view.y = a->region.value[1];
    job->view.width = a->region.value[2];
    job->view.height = a->region.value[3];
  }
  if (a->zoom > 0) job->view.zoom = a->zoom;
  if (a->resolution > 0) {
    if (!(job->spots.pixel_size > 0)) {
      fit_say("--resolution is in nm, which needs --pixel-size; --zoom does not");
      return EXIT_USAGE;
    }
    job->view.zoom = job->spots.pixel_size / a->resolution;
  }
  if (picture_size(&job->view, &rows, &columns)) return EXIT_GOOD;
  fit_say("the picture would have %.0f x %.0f pixels; it may have %.3g",
          job->view.height * job->view.zoom, job->view.width * job->view.zoom,
          (double)PICTURE_MOST_PIXELS);
  return EXIT_USAGE;
}

static void draw(render_job *job) {
  const spots *s = &job->spots;
  for (int64_t i = 0; i < s->count; i++) {
    if (job->a->histogram)
      picture_count_spot(job->picture, s->x[i], s->y[i]);
    else
      picture_add_spot(job->picture, s->x[i], s->y[i], s->std_x ? s->std_x[i] : 0,
                       s->std_y ? s->std_y[i] : 0);
  }
}

/* Converts the density to u16. Counts are unchanged. Weights are scaled so that the brightest pixel
 * has the largest value. *cut is the number of pixels whose counts are too large. */
static uint16_t *as_u16(const float *density, size_t pixels, bool counts, size_t *cut) {
  uint16_t *values = malloc((pixels + 1) * sizeof *values);
  float most = 0;
  for (size_t i = 0; i < pixels; i++) most = fmaxf(most, density[i]);
  const float scale = counts || !(most > 0) ? 1 : UINT16_MAX / most;
  *cut = 0;
  for (size_t i = 0; values && i < pixels; i++) {
    values[i] = (uint16_t)lroundf(fminf(density[i] * scale, UINT16_MAX));
    *cut += counts && density[i] > UINT16_MAX;
  }
  return values;
}

static int write_image(const render_job *job) {
  const fit_arguments *a = job->a;
  int64_t rows, columns;
  const float *density = picture_density(job->picture, &rows, &columns);
  const bool whole = option_given(&a->line, "--dtype") && fit_dtypes[a->dtype] == COMPUTE_U16;
  size_t cut = 0;
  uint16_t *values = whole ? as_u16(density, (size_t)(rows * columns), a->histogram, &cut) : NULL;
  image_file *file = NULL;
  failure why = {0};
  if (whole && !values) {
    fit_say("out of memory for the picture");
    return EXIT_FAILED;
  }
  if (cut > 0 && !a->quiet)
    fit_say("note: pixels with more than 65535 localisations: %zu, written as 65535; --dtype f32 "
            "holds them",
            cut);
  compute_status status = image_file_create(a->output, whole ? COMPUTE_U16 : COMPUTE_F32, 1, rows,
                                            columns, a->force, &file, &why);
  if (!status) {
    status = image_file_append(file, 1, whole ? (const void *)values : density, &why);
    if (status)
      image_file_abandon(file);
    else
      status = image_file_finish(file, &why);
  }
  free(values);
  return status ? fit_say_failure(&why) : EXIT_GOOD;
}

static int write_picture(const render_job *job) {
  failure why = {0};
  if (!is_png(job->a->output)) return write_image(job);
  if (!job->a->force && fit_refuse_existing(job->a->output)) return EXIT_FAILED;
  return picture_write_png(job->picture, job->a->output, &why) ? fit_say_failure(&why) : EXIT_GOOD;
}

static int summarize(const render_job *job) {
  const fit_arguments *a = job->a;
  int64_t rows, columns;
  (void)picture_density(job->picture, &rows, &columns);
  if (wants_text(a))
    printf("%s: %" PRId64 " localisations on %" PRId64 " x %" PRId64
           " pixels, %.6g for each of the camera's\n",
           a->output, job->spots.count, rows, columns, job->view.zoom);
  return json_end_table(a,
                        json_pack("{s:I,s:I,s:I,s:o}", "localisations",
                                  (json_int_t)job->spots.count, "rows", (json_int_t)rows, "columns",
                                  (json_int_t)columns, "zoom", json_number(job->view.zoom)));
}

int command_render(const fit_arguments *a) {
  render_job job = {.a = a};
  int result = check_arguments(a);
  if (!result) result = spots_open(a, &job.table, &job.spots);
  if (!result) result = choose_view(&job);
  if (!result) {
    job.picture = picture_create(&job.view);
    if (!job.picture) {
      fit_say("out of memory for the picture");
      result = EXIT_FAILED;
    }
  }
  if (!result) {
    draw(&job);
    result = write_picture(&job);
  }
  if (!result) result = summarize(&job);
  picture_release(job.picture);
  spots_release(&job.spots);
  table_release(&job.table);
  return result;
}
