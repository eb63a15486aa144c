/* SPDX-License-Identifier: MIT */
/* compute-fit simulate: ROI stacks and movies with known truth. They are written piece by piece, so
 * that they may be larger than memory. */
#include "programs/fit/simulation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/common/clock.h"
#include "programs/fit/array_file.h"
#include "programs/fit/command.h"
#include "programs/fit/summary.h"
#include "programs/fit/settings.h"

/* Bytes of pixels per piece: enough to keep all threads busy. */
#define PIECE_BYTES (16 << 20)

typedef struct simulate_job {
  const fit_arguments *a;
  session session;
  compute_simulation simulation;
  camera_maps maps;
  int64_t count, rows, columns, piece; /* images */
  int64_t truth_columns, spots;
  image_file *images;
  array_writer *truth;
  void *pixels;
  float *values; /* truth of one piece */
  int64_t values_room;
  double seconds;
} simulate_job;

compute_simulation simulation_from_arguments(const fit_arguments *a,
                                             const compute_fit_problem *problem,
                                             const camera_maps *maps) {
  compute_simulation s = {.problem = *problem,
                          .seed = (uint64_t)a->seed,
                          .photons = a->photons,
                          .background = a->background,
                          .position = a->position,
                          .z = a->z,
                          .sigma = a->sigma_range,
                          .noise_free = a->noise_free};
  if (maps) {
    s.offset = maps->offset.values;
    s.gain = maps->gain.values;
    s.variance = maps->variance.values;
  }
  return s;
}

static int check_arguments(const fit_arguments *a) {
  static const char *const movie_only[] = {"--frames",   "--size",  "--spots", "--z-step",
                                           "--emitters", "--blink", "--drift"};
  if (!a->output) {
    fit_say("simulate needs --output FILE (-o): a .npy, .tif or .raw file");
    return EXIT_USAGE;
  }
  for (size_t i = 0; !a->movie && i < sizeof movie_only / sizeof *movie_only; i++)
    if (option_given(&a->line, movie_only[i])) {
      fit_say("%s is for --movie; for a stack, use --rois and --roi", movie_only[i]);
      return EXIT_USAGE;
    }
  if (a->movie && (option_given(&a->line, "--rois") || option_given(&a->line, "--position"))) {
    fit_say("%s is for stacks; for a --movie, use --frames, --size and --spots",
            option_given(&a->line, "--rois") ? "--rois" : "--position");
    return EXIT_USAGE;
  }
  if (!a->emitters && (a->blink || a->drift.count)) {
    fit_say("%s needs --emitters: without them spots are elsewhere in each frame",
            a->blink ? "--blink" : "--drift");
    return EXIT_USAGE;
  }
  if (!a->movie && a->rois == 0) {
    fit_say("simulate needs --rois N, or --movie");
    return EXIT_USAGE;
  }
  if (option_given(&a->line, "--sigma-range") && a->model != COMPUTE_FIT_XYNBS &&
      a->model != COMPUTE_FIT_XYNBSXSY) {
    fit_say("--sigma-range is for the models XYNBS and XYNBSXSY; for others, use --sigma");
    return EXIT_USAGE;
  }
  if (a->movie && (a->roi.rows > a->size.rows || a->roi.columns > a->size.columns)) {
    fit_say("--roi: %" PRId32 " x %" PRId32 " pixels are more than --size has: %" PRId32
            " x %" PRId32,
            a->roi.rows, a->roi.columns, a->size.rows, a->size.columns);
    return EXIT_USAGE;
  }
  return EXIT_GOOD;
}

static int prepare(simulate_job *job) {
  const fit_arguments *a = job->a;
  compute_fit_problem problem;
  int result = check_arguments(a);
  if (!result) result = problem_from_arguments(a, &problem);
  if (result) return result;
  job->count = a->movie ? a->frames : a->rois;
  job->rows = a->movie ? a->size.rows : a->roi.rows;
  job->columns = a->movie ? a->size.columns : a->roi.columns;
  result = camera_read(a, job->rows, job->columns, 0, 0,
                       a->movie ? "the frames (--size)" : "the ROIs (--roi)", &job->maps);
  if (result) return result;
  job->simulation = simulation_from_arguments(a, &problem, &job->maps);
  compute_simulation *s = &job->simulation;
  s->dtype =
      a->noise_free && !option_given(&a->line, "--dtype") ? COMPUTE_F32 : fit_dtypes[a->dtype];
  s->frame_rows = a->movie ? job->rows : 0;
  s->frame_columns = a->movie ? job->columns : 0;
  s->spots = a->movie ? a->spots : 0;
  s->emitters = a->emitters;
  s->blink = a->blink;
  for (int i = 0; i < a->drift.count && a->frames > 1; i++)
    s->drift[i] = a->drift.value[i] / (double)(a->frames - 1);
  job->truth_columns = compute_fit_parameter_count(problem.model) + (a->movie ? 1 : 0);
  return session_open(a, &job->session);
}

static int no_memory(void) {
  fit_say("out of memory for the images");
  return EXIT_FAILED;
}

static int open_files(simulate_job *job) {
  const fit_arguments *a = job->a;
  failure why = {0};
  const int64_t bytes =
      job->rows * job->columns * (int64_t)compute_dtype_size(job->simulation.dtype);
  job->piece = PIECE_BYTES / bytes > 0 && a->z_step == 0 ? PIECE_BYTES / bytes : 1;
  job->pixels = malloc((size_t)(job->piece * bytes));
  if (!job->pixels) return no_memory();
  if (image_file_create(a->output, job->simulation.dtype, job->count, job->rows, job->columns,
                        a->force, &job->images, &why) ||
      (a->truth && array_writer_create(a->truth, COMPUTE_F32, COMPUTE_SHAPE(job->truth_columns),
                                       a->force, &job->truth, &why)))
    return fit_say_failure(&why);
  return EXIT_GOOD;
}

/* Allocates the truth of images first … first + count − 1 and returns its number of rows. */
static int prepare_truth(simulate_job *job, int64_t first, int64_t count, int64_t *rows) {
  *rows = count;
  if (job->a->movie &&
      compute_simulate_spot_count(job->session.context, &job->simulation, first, count, rows))
    return fit_say_error(NULL, job->session.context);
  if (*rows > job->values_room || !job->values) {
    free(job->values);
    job->values_room = *rows + 64;
    job->values = malloc((size_t)(job->values_room * job->truth_columns) * sizeof *job->values);
  }
  return job->values ? EXIT_GOOD : no_memory();
}

static int make_piece(simulate_job *job, int64_t first, int64_t count) {
  compute_context *context = job->session.context;
  const double z = job->a->z.low + job->a->z_step * (double)first;
  if (job->a->z_step != 0) job->simulation.z = (compute_range){z, z};
  failure why = {0};
  int64_t rows;
  int result = prepare_truth(job, first, count, &rows);
  if (result) return result;
  compute_status status = job->a->movie ? compute_simulate_movie(context, &job->simulation, first,
                                                                 count, job->pixels, job->values)
                                        : compute_simulate_rois(context, &job->simulation, first,
                                                                count, job->pixels, job->values);
  if (status) return fit_say_error(NULL, context);
  job->spots += rows;
  if (image_file_append(job->images, count, job->pixels, &why) ||
      (job->truth && array_writer_append(job->truth, rows, job->values, &why)))
    return fit_say_failure(&why);
  return EXIT_GOOD;
}

static int make_all(simulate_job *job) {
  const double start = clock_seconds();
  fit_progress bar = {.bar = progress_begin(job->a->quiet, 0),
                      .verb = "simulated",
                      .items = job->a->movie ? "frames" : "ROIs"};
  int result = EXIT_GOOD;
  for (int64_t done = 0; done < job->count && !result;) {
    const int64_t count = job->count - done < job->piece ? job->count - done : job->piece;
    result = make_piece(job, done, count);
    if (result) break;
    done += count;
    job->seconds = clock_seconds() - start;
    const double rate = (double)done / (job->seconds + 1e-9);
    const compute_batch_progress p = {.items = done,
                                      .total = job->count,
                                      .seconds = job->seconds,
                                      .rate = rate,
                                      .seconds_left = (double)(job->count - done) / rate};
    if (!fit_progress_show(&bar, &p)) result = EXIT_INTERRUPTED;
  }
  progress_hide(&bar.bar);
  if (result == EXIT_INTERRUPTED) fit_say("interrupted; '%s' was not written", job->a->output);
  return result;
}

static int finish(simulate_job *job) {
  failure why = {0};
  compute_status status = COMPUTE_OK;
  if (job->truth) status = array_writer_finish(job->truth, &why);
  job->truth = NULL;
  if (!status) {
    status = image_file_finish(job->images, &why);
    job->images = NULL;
  }
  return status ? fit_say_failure(&why) : EXIT_GOOD;
}

static int summarize(const simulate_job *job) {
  const fit_arguments *a = job->a;
  char number[32], rate[32];
  const double per_second = job->seconds > 0 ? (double)job->count / job->seconds : 0;
  if (wants_text(a))
    printf("%s: %s %s of %" PRId64 " x %" PRId64 " pixels with %" PRId64 " spots, %s per second\n",
           a->output, progress_number((double)job->count, number, sizeof number),
           a->movie ? "frames" : "ROIs", job->rows, job->columns, job->spots,
           progress_number(per_second, rate, sizeof rate));
  if (!a->json) return EXIT_GOOD;
  json_t *root = json_begin(a, &job->simulation.problem);
  json_t *more = json_pack(
      "{s:o,s:o,s:I,s:I,s:I,s:I,s:s,s:I,s:o,s:o}", "output", json_text(a->output), "truth",
      json_text(a->truth), "images", (json_int_t)job->count, "rows", (json_int_t)job->rows,
      "columns", (json_int_t)job->columns, "spots", (json_int_t)job->spots, "dtype",
      job->simulation.dtype == COMPUTE_U16 ? "u16" : "f32", "seed", (json_int_t)a->seed, "seconds",
      json_number(job->seconds), "images_per_second", json_number(per_second));
  json_object_update(root, more);
  json_decref(more);
  return json_end(a, root);
}

int command_simulate(const fit_arguments *a) {
  simulate_job job = {.a = a};
  int result = prepare(&job);
  if (!result) result = open_files(&job);
  if (!result) result = make_all(&job);
  if (!result) result = finish(&job);
  if (!result) result = summarize(&job);
  image_file_abandon(job.images);
  array_writer_abandon(job.truth);
  if (job.session.context) session_close(&job.session);
  camera_release(&job.maps);
  free(job.pixels);
  free(job.values);
  return result;
}
