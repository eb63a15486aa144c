/* SPDX-License-Identifier: MIT */
/* One run of compute-fit fit: its input, fitter, output and statistics. */
#ifndef TOOLS_FIT_FIT_JOB_H
#define TOOLS_FIT_FIT_JOB_H

#include "programs/fit/array_file.h"
#include "programs/fit/settings.h"
#include "programs/fit/command.h"
#include "programs/fit/statistics.h"
#include "programs/fit/movie_file.h"
#include "programs/fit/picture.h"
#include "programs/fit/results_file.h"
#include "programs/fit/saturation.h"
#include "programs/fit/selection.h"

typedef struct fit_job {
  const fit_arguments *a;
  session session;
  compute_fit_problem problem;

  movie *movie;
  movie_info info;
  movie_info whole;  /* before --region and --frames */
  int64_t origin[3]; /* frame, row and column where the remaining part begins */
  bool frames;       /* the movie contains frames, not ROIs */
  camera_maps maps;
  array_data corners; /* i32 [n, 3] */
  array_data start;   /* f32 [n, P] */
  array_data truth;   /* f32 [n, P], with frames [n, 1 + P] */
  int64_t truth_cut;  /* spots of the truth outside the fitted part */

  /* Start and extent of the run. A run of a stack with corners also begins at a frame. */
  int64_t first_roi, first_frame;
  int32_t *shifted; /* corners with frames from first_frame on; NULL: unchanged */
  const int32_t *run_corners;
  int64_t run_corner_count;

  compute_fit *fit;
  struct cluster *cluster; /* NULL: this process fits alone */
  results_file *results;   /* NULL: another rank writes it */
  results_format format;
  results_options output; /* its `fingerprint` and further strings are not kept */
  selection selection;    /* selects the rows */
  saturation *saturation; /* NULL: no such column */
  statistics *statistics;
  match match;
  picture *picture;
  fit_progress bar;
  compute_fit_summary summary;
  compute_fit_times times;             /* times of the run's stages */
  double completing;                   /* seconds to complete the output after the last result */
  failure read_failure, write_failure; /* of the reading and the writing thread */
} fit_job;

/* Opens, reads and checks all files of the options, and creates the fitter and the output. Reports
 * errors. Returns an exit status. Always call fit_job_close afterwards. */
int fit_job_open(fit_job *job, const fit_arguments *a);
void fit_job_close(fit_job *job);

/* Cut the movie to --region and --frames, and then the maps and truth to its frames. fit_part_open
 * returns an exit status. */
int fit_part_open(fit_job *job);
void fit_part_cut_maps(fit_job *job);
void fit_part_cut_truth(fit_job *job);

/* Fills in job->output with its selection and saturation. Returns an exit status. */
int fit_describe_output(fit_job *job);

/* Returns the stage of a run that was busy longest: "reading", "finding", "fitting" or
 * "writing". */
const char *fit_job_slowest(const compute_fit_times *times);

/* Fits everything and completes the output, or reports how far it came. Returns an exit status. */
int fit_job_run(fit_job *job);

/* Prints the summary as text on standard output, and writes it as JSON for --json. `exit_status` is
 * the status of the run. Returns an exit status. */
int fit_job_summarize(const fit_job *job, int exit_status);

#endif
