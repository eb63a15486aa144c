/* SPDX-License-Identifier: MIT */
/* Opens and checks everything before the first pixel is fitted. The most likely mistakes are
 * checked first. The output is created last. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "programs/common/output_check.h"
#include "programs/fit/cluster.h"
#include "programs/fit/file_names.h"
#include "programs/fit/fit_job.h"
#include "programs/fit/settings.h"

/* ---- Files --------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), wanted = strlen(end);
  return length > wanted && !strcasecmp(text + length - wanted, end);
}

static int choose_format(fit_job *job) {
  const fit_arguments *a = job->a;
  static const char *const name[] = {"npy", "csv", "hdf5"};
  static const results_format format[] = {RESULTS_NPY, RESULTS_CSV, RESULTS_HDF5};
  bool known = results_format_of_path(a->output, &job->format);
  for (size_t i = 0; a->format && i < 3; i++) {
    if (strcasecmp(a->format, name[i])) continue;
    job->format = format[i];
    known = true;
  }
  if (!known) {
    fit_say("--output: '%s' does not end in .csv, .hdf5, .h5 or .npy; give --format", a->output);
    return EXIT_USAGE;
  }
  if (results_format_available(job->format)) return EXIT_GOOD;
  fit_say("--output: this compute-fit was built without the library for %s",
          results_format_name(job->format));
  return EXIT_FAILED;
}

static int check_arguments(fit_job *job) {
  const fit_arguments *a = job->a;
  if (!a->line.operand) {
    fit_say("fit needs a movie or a stack: a .tif, .npy or .raw file");
    return EXIT_USAGE;
  }
  if (!a->output) {
    fit_say("fit needs --output FILE (-o): a .csv, .hdf5 or .npy file");
    return EXIT_USAGE;
  }
  if (a->find && (a->roi_stack || a->corners)) {
    fit_say("--find is for frames without --corners; here %s says where the ROIs are",
            a->roi_stack ? "--roi-stack" : "--corners");
    return EXIT_USAGE;
  }
  static const char *const spot[] = {"--threshold", "--distance", "--filter", "--limit"};
  for (size_t i = 0; i < sizeof spot / sizeof *spot; i++)
    if (option_given(&a->line, spot[i]) && (a->roi_stack || a->corners)) {
      fit_say("%s is for finding spots; here %s says where the ROIs are", spot[i],
              a->roi_stack ? "--roi-stack" : "--corners");
      return EXIT_USAGE;
    }
  if (a->picture && !ends_with(a->picture, ".png") && !ends_with(a->picture, ".svg")) {
    fit_say("--picture: '%s' must end in .png or .svg", a->picture);
    return EXIT_USAGE;
  }
  if (a->picture && ends_with(a->picture, ".png") && !picture_available()) {
    fit_say("--picture: this compute-fit was built without libpng; .svg works");
    return EXIT_FAILED;
  }
  if (a->picture && !a->force && !a->resume && fit_refuse_existing(a->picture)) return EXIT_FAILED;
  if (a->start_file && !a->roi_stack && !a->corners) {
    fit_say(
        "--start-file needs --roi-stack or --corners: the number of spots is not known in advance");
    return EXIT_USAGE;
  }
  return choose_format(job);
}

/* ---- Input --------------------------------------------------------------------------------- */

static int check_roi(fit_job *job) {
  const fit_arguments *a = job->a;
  const movie_info *m = &job->info;
  compute_fit_problem *p = &job->problem;
  if (job->frames) {
    if (p->rows <= m->rows && p->columns <= m->columns) return EXIT_GOOD;
    fit_say("--roi: %" PRId32 " x %" PRId32
            " pixels are more than the frames of '%s' have: %" PRId64 " x %" PRId64,
            p->rows, p->columns, a->line.operand, m->rows, m->columns);
    return EXIT_FAILED;
  }
  if (m->rows > COMPUTE_FIT_MAX_SIDE || m->columns > COMPUTE_FIT_MAX_SIDE) {
    fit_say("--roi-stack: the images of '%s' have %" PRId64 " x %" PRId64
            " pixels; ROIs have at most %d x %d. Without --roi-stack they are treated as frames",
            a->line.operand, m->rows, m->columns, COMPUTE_FIT_MAX_SIDE, COMPUTE_FIT_MAX_SIDE);
    return EXIT_FAILED;
  }
  if (option_given(&a->line, "--roi") && (p->rows != m->rows || p->columns != m->columns)) {
    fit_say("--roi: %" PRId32 " x %" PRId32 ", but the ROIs of '%s' have %" PRId64 " x %" PRId64
            " pixels",
            p->rows, p->columns, a->line.operand, m->rows, m->columns);
    return EXIT_FAILED;
  }
  p->rows = (int32_t)m->rows;
  p->columns = (int32_t)m->columns;
  return EXIT_GOOD;
}

/* Images of this size are rarely frames. */
enum { SMALL_SIDE = 25 };

/* Fraction of the light in an ROI. With less, a fit does not reach its bound. */
#define LEAST_LIGHT 0.9

static void hint_at_stacks(const fit_job *job) {
  const movie_info *m = &job->info;
  if (!cluster_leads(job)) return;
  if (job->frames && !job->a->find && !job->a->corners && !job->a->quiet && m->rows <= SMALL_SIDE &&
      m->columns <= SMALL_SIDE)
    fit_say("note: the images of %" PRId64 " x %" PRId64
            " pixels are treated as frames; if they are ROIs, give --roi-stack",
            m->rows, m->columns);
}

/* Returns the width at the far end of the calibrated depth, in pixels of one axis. */
static double widest(const compute_fit_problem *p, int axis) {
  const double t = 1 + fabs(p->gamma) / p->depth;
  const double square = 1 + t * t * (1 + t * (p->a[axis] + t * p->b[axis]));
  const double sigma = p->sigma[axis] > 0 ? p->sigma[axis] : p->sigma[0];
  return sigma * sqrt(fmax(square, 1));
}

/* Warns if spots are wider than their ROI. The background then absorbs a part of the light, and the
 * errors of z and photons exceed their uncertainties. */
static void hint_at_widths(const fit_job *job) {
  const compute_fit_problem *p = &job->problem;
  if (p->model != COMPUTE_FIT_XYZNB || job->a->quiet || !cluster_leads(job)) return;
  const double light =
      erf(p->columns / (2 * M_SQRT2 * widest(p, 0))) * erf(p->rows / (2 * M_SQRT2 * widest(p, 1)));
  if (light < LEAST_LIGHT)
    fit_say(
        "note: at z = +-%g um spots are wider than these ROIs (%.0f %% of the light is inside); "
        "a larger --roi makes z, photons and background as precise as their uncertainties say",
        p->depth, 100 * light);
}

static int open_movie(fit_job *job) {
  const fit_arguments *a = job->a;
  failure why = {0};
  const movie_choice choice = {.all_pages = a->all_pages,
                               .position = a->position_number,
                               .channel = a->channel,
                               .z = a->z_number};
  if (movie_open_choice(a->line.operand, &choice, &job->movie, &why)) return fit_say_failure(&why);
  job->info = *movie_information(job->movie);
  int result = file_names_check(a, job->info.paths, job->info.path_count);
  if (result) return result;
  job->frames = !job->a->roi_stack;
  hint_at_stacks(job);
  result = fit_part_open(job);
  if (!result) result = check_roi(job);
  if (!result) hint_at_widths(job);
  return result;
}

static int read_maps(fit_job *job) {
  const movie_info *m = &job->whole;
  if (job->frames) {
    const int result = camera_read(job->a, m->rows, m->columns, 0, 0, "the frames", &job->maps);
    if (!result) fit_part_cut_maps(job);
    return result;
  }
  if (!job->a->corners)
    return camera_read(job->a, m->rows, m->columns, 0, 0, "the ROIs", &job->maps);
  /* With corners, the maps have the size of the frames. */
  const char *const file[] = {job->a->offset.file, job->a->gain.file, job->a->gain_adu.file,
                              job->a->variance.file, job->a->mask};
  for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
    array_data array = {0};
    failure why = {0};
    if (!file[i]) continue;
    if (array_read(file[i], COMPUTE_F32, 2, 2, &array, &why)) return fit_say_failure(&why);
    free(array.values);
    return camera_read(job->a, array.shape.size[0], array.shape.size[1], m->rows, m->columns,
                       "the frames", &job->maps);
  }
  return EXIT_GOOD;
}

/* Reads an array with one row per ROI, or with any number of rows if rows_wanted < 0. */
static int read_rows(const char *option, const char *path, compute_dtype dtype, int64_t columns,
                     int64_t rows_wanted, const char *what, array_data *array) {
  failure why = {0};
  if (!path) return EXIT_GOOD;
  if (array_read(path, dtype, 2, 2, array, &why)) return fit_say_failure(&why);
  const int64_t rows = array->shape.size[0];
  if (array->shape.size[1] != columns) {
    fit_say("%s: '%s' has %" PRId64 " columns; there must be %" PRId64 ": %s", option, path,
            array->shape.size[1], columns, what);
    return EXIT_FAILED;
  }
  if (rows_wanted >= 0 && rows != rows_wanted) {
    fit_say("%s: '%s' has %" PRId64 " rows, but there are %" PRId64 " ROIs", option, path, rows,
            rows_wanted);
    return EXIT_FAILED;
  }
  return EXIT_GOOD;
}

/* Finds the size of the frames: from the movie, or, for a stack of ROIs, from the camera maps that
 * contain them. It is 0 for a stack without such maps. */
static void find_frame_size(const fit_job *job, int64_t *rows, int64_t *columns) {
  *rows = *columns = 0;
  if (job->frames) {
    *rows = job->info.rows;
    *columns = job->info.columns;
  } else if (!job->a->corners || !camera_shape(&job->maps, rows, columns) ||
             (*rows == job->info.rows && *columns == job->info.columns)) {
    *rows = *columns = 0; /* the maps have the ROI's size */
  }
}

static int check_corners(const fit_job *job) {
  const int32_t *c = job->corners.values;
  const int64_t count = job->corners.shape.size[0];
  const int64_t frames = job->frames ? job->info.count : INT32_MAX;
  int64_t rows, columns;
  find_frame_size(job, &rows, &columns);
  if (rows == 0) rows = columns = INT32_MAX;
  for (int64_t i = 0; i < count; i++, c += 3) {
    const char *wrong = NULL;
    if (c[0] < 0 || c[0] >= frames)
      wrong = "is in a frame that does not exist";
    else if (c[1] < 0 || c[2] < 0 || c[1] > rows - job->problem.rows ||
             c[2] > columns - job->problem.columns)
      wrong = "extends beyond its frame";
    else if (i > 0 && c[0] < c[-3])
      wrong = "is in an earlier frame than its predecessor; sort them";
    if (!wrong) continue;
    fit_say(
        "--corners: ROI %" PRId64 " at frame %" PRId32 ", row %" PRId32 ", column %" PRId32
        " %s (%" PRId64 " frames of %" PRId64 " x %" PRId64 ", ROIs of %" PRId32 " x %" PRId32 ")",
        i, c[0], c[1], c[2], wrong, frames, rows, columns, job->problem.rows, job->problem.columns);
    return EXIT_FAILED;
  }
  return EXIT_GOOD;
}

static int read_arrays(fit_job *job) {
  const fit_arguments *a = job->a;
  const int32_t parameters = compute_fit_parameter_count(job->problem.model);
  const int64_t stack = job->frames ? -1 : job->info.count;
  int result = read_rows("--corners", a->corners, COMPUTE_I32, 3, stack, "frame, row and column",
                         &job->corners);
  if (!result && a->corners) result = check_corners(job);
  const int64_t rois = a->corners ? job->corners.shape.size[0] : stack;
  if (!result)
    result = read_rows("--start-file", a->start_file, COMPUTE_F32, parameters, rois,
                       "one for each parameter of the model", &job->start);
  if (result || !a->truth) return result;
  if (!job->frames)
    return read_rows("--truth", a->truth, COMPUTE_F32, parameters, rois,
                     "one for each fitted parameter of the model", &job->truth);
  result = read_rows("--truth", a->truth, COMPUTE_F32, 1 + parameters, -1,
                     "the frame, and one for each fitted parameter of the model", &job->truth);
  if (result) return result;
  fit_part_cut_truth(job);
  const compute_fit_problem *p = &job->problem;
  job->match = (match){.truth = job->truth.values,
                       .truths = job->truth.shape.size[0],
                       .isolation = p->rows > p->columns ? p->rows : p->columns};
  return EXIT_GOOD;
}

/* Opens movie, maps, corners, starts and truth. */
static int fit_input_open(fit_job *job) {
  int result = open_movie(job);
  if (!result) result = read_maps(job);
  return result ? result : read_arrays(job);
}

/* ---- Fitter and output --------------------------------------------------------------------- */

static int make_fitter(fit_job *job) {
  const fit_arguments *a = job->a;
  int64_t rows, columns;
  find_frame_size(job, &rows, &columns);
  if (!job->frames && rows > 0) job->problem.flags |= COMPUTE_FIT_STACK;
  compute_fit_options options = {
      .problem = job->problem,
      .dtype = job->info.dtype,
      .frame_rows = rows,
      .frame_columns = columns,
      .offset = job->maps.offset,
      .gain = job->maps.gain,
      .variance = job->maps.variance,
      .mask = job->maps.mask,
      .mask_rows = job->maps.mask_rows,
      .mask_columns = job->maps.mask_columns,
      .find = job->frames && !a->corners,
      .spots = {.filter = (compute_spot_filter)a->filter,
                .sigma =
                    a->calibration && !a->astigmatism ? a->sigma.value[0] : job->problem.sigma[0],
                .threshold = a->threshold,
                .distance = (int32_t)a->distance,
                .limit = a->limit},
      .devices = job->session.device,
      .device_count = job->session.device_count,
      .batch = a->batch,
      .memory = (uint64_t)a->memory,
      .name = "compute-fit",
  };
  if (compute_fit_create(job->session.context, &options, &job->fit))
    return fit_say_error(NULL, job->session.context);
  return EXIT_GOOD;
}

/* Hashes size and modification time of a file that the result depends on. */
static uint64_t hash_file(uint64_t hash, const char *path) {
  struct stat found;
  if (!path || stat(path, &found)) return hash;
  const uint64_t part[] = {(uint64_t)found.st_size, (uint64_t)found.st_mtim.tv_sec,
                           (uint64_t)found.st_mtim.tv_nsec};
  for (size_t i = 0; i < 3; i++) hash = (hash ^ part[i]) * 0x100000001b3u;
  return hash;
}

static int make_output(fit_job *job) {
  const fit_arguments *a = job->a;
  char generator[64], fingerprint[256];
  const char *const file[] = {a->corners,       a->start_file,    a->astigmatism,
                              a->calibration,   a->mask,          a->gain.file,
                              a->gain_adu.file, a->variance.file, a->offset.file};
  uint64_t files = 0xcbf29ce484222325u;
  for (size_t i = 0; i < sizeof file / sizeof *file; i++) files = hash_file(files, file[i]);
  snprintf(generator, sizeof generator, "compute-fit %s", compute_version_text());
  snprintf(fingerprint, sizeof fingerprint,
           "input %" PRIu64 " bytes of %" PRId64 ", options %016" PRIx64 ", files %016" PRIx64,
           job->info.file_bytes, job->info.file_time, a->line.fingerprint, files);
  results_options options = job->output;
  options.generated_by = generator;
  options.fingerprint = fingerprint;
  results_progress begin = {0};
  failure why = {0};
  if (results_file_create(a->output, &options, &job->results, &begin, &why))
    return fit_say_failure(&why);
  job->first_roi = begin.rois;
  job->first_frame = begin.frames;
  return EXIT_GOOD;
}

/* Cuts the corners to this run: all in frame first_frame and later. */
static int cut_corners(fit_job *job) {
  const int32_t *all = job->corners.values;
  int64_t first = 0, count = all ? job->corners.shape.size[0] : 0;
  if (!all) return EXIT_GOOD;
  /* In a stack, a part of a frame's ROIs may be complete. */
  if (!job->frames) first = job->first_roi;
  while (job->frames && first < count && all[3 * first] < job->first_frame) first++;
  job->first_roi = first;
  job->run_corners = all + 3 * first;
  job->run_corner_count = count - first;
  if (job->first_frame == 0 || job->run_corner_count == 0) return EXIT_GOOD;
  job->shifted = malloc((size_t)job->run_corner_count * 3 * sizeof *job->shifted);
  if (!job->shifted) {
    fit_say("out of memory for the corners");
    return EXIT_FAILED;
  }
  for (int64_t i = 0; i < 3 * job->run_corner_count; i++)
    job->shifted[i] = job->run_corners[i] - (i % 3 == 0 ? (int32_t)job->first_frame : 0);
  job->run_corners = job->shifted;
  return EXIT_GOOD;
}

static int make_observers(fit_job *job) {
  job->statistics = statistics_create(job->problem.model);
  const bool image = job->a->picture && ends_with(job->a->picture, ".png");
  int64_t rows = job->info.rows, columns = job->info.columns;
  if (!job->frames && job->a->corners) {
    rows = columns = 0;
    const int32_t *c = job->corners.values;
    for (int64_t i = 0; i < job->corners.shape.size[0]; i++, c += 3) {
      if (c[1] + job->problem.rows > rows) rows = c[1] + job->problem.rows;
      if (c[2] + job->problem.columns > columns) columns = c[2] + job->problem.columns;
    }
  }
  const picture_view view = picture_whole(rows, columns, job->output.pixel_size);
  if (image) job->picture = picture_create(&view);
  if (job->statistics && (!image || job->picture)) return EXIT_GOOD;
  fit_say("out of memory for statistics and picture");
  return EXIT_FAILED;
}

static int open_all(fit_job *job) {
  const fit_arguments *a = job->a;
  const bool leads = cluster_leads(job);
  int result = file_names_check(a, NULL, 0);
  if (!result && leads) result = output_check(&fit_program, "--json", a->json);
  if (!result) result = check_arguments(job);
  if (!result) result = problem_from_arguments(a, &job->problem);
  if (!result) result = fit_input_open(job);
  if (!result && leads) result = output_check(&fit_program, "--picture", a->picture);
  if (!result) result = session_find_devices(a, &job->session);
  if (!result) result = cluster_choose_device(job);
  if (!result) result = make_fitter(job);
  if (!result) result = fit_describe_output(job);
  if (!result) result = make_observers(job);
  if (!result && leads) result = make_output(job);
  return result;
}

/* The group is opened first. The other ranks then learn of any later failure, and only one rank
 * prints it. */
int fit_job_open(fit_job *job, const fit_arguments *a) {
  *job = (fit_job){.a = a};
  int result = session_begin(a, &job->session);
  if (!result) result = cluster_open(job);
  if (!result) result = open_all(job);
  result = cluster_start(job, result);
  return result ? result : cut_corners(job);
}

void fit_job_close(fit_job *job) {
  results_file_abandon(job->results, NULL);
  compute_fit_release(job->fit);
  if (cluster_close(job) && job->session.context) session_close(&job->session);
  picture_release(job->picture);
  selection_release(&job->selection);
  saturation_release(job->saturation);
  free(job->statistics);
  free(job->shifted);
  free(job->corners.values);
  free(job->start.values);
  free(job->truth.values);
  camera_release(&job->maps);
  movie_close(job->movie);
}
