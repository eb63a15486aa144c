/* What a job reads before it starts: the movie's head, camera maps, corners, starts, truth. */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/fit/fit_job.h"

static int check_roi(fit_job *job) {
  const fit_arguments *a = job->a;
  const movie_info *m = &job->info;
  compute_fit_problem *p = &job->problem;
  if (job->frames) {
    if (p->rows <= m->rows && p->columns <= m->columns) return EXIT_GOOD;
    fit_say("--roi: %" PRId32 " x %" PRId32
            " pixels are more than the frames of '%s' have: %" PRId64 " x %" PRId64,
            p->rows, p->columns, a->input, m->rows, m->columns);
    return EXIT_FAILED;
  }
  if (m->rows > COMPUTE_FIT_MAX_SIDE || m->columns > COMPUTE_FIT_MAX_SIDE) {
    fit_say("--roi-stack: the images of '%s' have %" PRId64 " x %" PRId64
            " pixels; ROIs have %d x %d at most. Without --roi-stack they are taken for frames",
            a->input, m->rows, m->columns, COMPUTE_FIT_MAX_SIDE, COMPUTE_FIT_MAX_SIDE);
    return EXIT_FAILED;
  }
  if (arguments_given(a, "--roi") && (p->rows != m->rows || p->columns != m->columns)) {
    fit_say("--roi: %" PRId32 " x %" PRId32 ", but the ROIs of '%s' have %" PRId64 " x %" PRId64
            " pixels",
            p->rows, p->columns, a->input, m->rows, m->columns);
    return EXIT_FAILED;
  }
  p->rows = (int32_t)m->rows;
  p->columns = (int32_t)m->columns;
  return EXIT_GOOD;
}

/* Images this small are seldom frames. */
enum { SMALL_SIDE = 25 };

static void hint_at_stacks(const fit_job *job) {
  const movie_info *m = &job->info;
  if (job->frames && !job->a->find && !job->a->corners && !job->a->quiet && m->rows <= SMALL_SIDE &&
      m->columns <= SMALL_SIDE)
    fit_say("note: the images of %" PRId64 " x %" PRId64
            " pixels are taken for frames; if they are ROIs, give --roi-stack",
            m->rows, m->columns);
}

static int open_movie(fit_job *job) {
  failure why = {0};
  if (movie_open(job->a->input, &job->movie, &why)) return fit_say_failure(&why);
  job->info = *movie_information(job->movie);
  job->frames = !job->a->roi_stack;
  hint_at_stacks(job);
  return check_roi(job);
}

static int read_maps(fit_job *job) {
  const movie_info *m = &job->info;
  if (job->frames) return camera_read(job->a, m->rows, m->columns, 0, 0, "the frames", &job->maps);
  if (!job->a->corners)
    return camera_read(job->a, m->rows, m->columns, 0, 0, "the ROIs", &job->maps);
  /* With corners, the maps' size is the frames'. */
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

/* Reads an array with a row for each ROI, or with rows_wanted < 0 for as many as there are. */
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

static int check_corners(const fit_job *job) {
  const int32_t *c = job->corners.values;
  const int64_t count = job->corners.shape.size[0];
  int64_t rows = job->info.rows, columns = job->info.columns, frames = job->info.count;
  if (!job->frames) {
    frames = INT32_MAX;
    if (!camera_shape(&job->maps, &rows, &columns)) rows = columns = INT32_MAX;
  }
  for (int64_t i = 0; i < count; i++, c += 3) {
    const char *wrong = NULL;
    if (c[0] < 0 || c[0] >= frames)
      wrong = "is in a frame that does not exist";
    else if (c[1] < 0 || c[2] < 0 || c[1] > rows - job->problem.rows ||
             c[2] > columns - job->problem.columns)
      wrong = "reaches out of its frame";
    else if (i > 0 && c[0] < c[-3])
      wrong = "is in an earlier frame than the one before; sort them";
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
                     "one for each parameter of the model that is fitted", &job->truth);
  result =
      read_rows("--truth", a->truth, COMPUTE_F32, 1 + parameters, -1,
                "the frame, and one for each parameter of the model that is fitted", &job->truth);
  if (result) return result;
  const compute_fit_problem *p = &job->problem;
  job->match = (match){.truth = job->truth.values,
                       .truths = job->truth.shape.size[0],
                       .isolation = p->rows > p->columns ? p->rows : p->columns};
  return EXIT_GOOD;
}

int fit_input_open(fit_job *job) {
  int result = open_movie(job);
  if (!result) result = read_maps(job);
  return result ? result : read_arrays(job);
}
