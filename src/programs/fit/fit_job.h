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
  int64_t origin[3]; /* frame, row and column of the part that they leave */
  bool frames;       /* the movie holds frames, not ROIs */
  camera_maps maps;
  array_data corners; /* i32 [n, 3] */
  array_data start;   /* f32 [n, P] */
  array_data truth;   /* f32 [n, P], with frames [n, 1 + P] */
  int64_t truth_cut;  /* of its spots that are outside what is fitted */

  /* Where the run begins, and its extent. For stacks with corners a run begins at a frame, too. */
  int64_t first_roi, first_frame;
  int32_t *shifted; /* corners of this run, with frames counted from first_frame; NULL: unchanged */
  const int32_t *run_corners;
  int64_t run_corner_count;

  compute_fit *fit;
  struct cluster *cluster; /* NULL: this process fits alone */
  results_file *results;   /* NULL: another rank writes it */
  results_format format;
  results_options output; /* its `fingerprint` and so on are not kept */
  selection selection;    /* of the rows */
  saturation *saturation; /* NULL: not wanted */
  statistics *statistics;
  match match;
  picture *picture;
  fit_progress bar;
  compute_fit_summary summary;
  compute_fit_times times;             /* of the run's stages */
  double completing;                   /* seconds to complete the output after the last result */
  failure read_failure, write_failure; /* of the reading thread, and of the writing thread */
} fit_job;

/* Opens, reads and checks everything that --options name, creates the fitter and the output;
 * reports errors. Returns an exit status. Always call fit_job_close afterwards. */
int fit_job_open(fit_job *job, const fit_arguments *a);
void fit_job_close(fit_job *job);

/* Cuts the movie to --region and --frames, then what belongs to its frames. The first returns an
 * exit status. */
int fit_part_open(fit_job *job);
void fit_part_cut_maps(fit_job *job);
void fit_part_cut_truth(fit_job *job);

/* Fills in job->output, and the selection and saturation that belong to it. Returns an exit
 * status. */
int fit_describe_output(fit_job *job);

/* The stage of a run that was busy longest: "reading", "finding", "fitting" or "writing". */
const char *fit_job_slowest(const compute_fit_times *times);

/* Fits everything and completes the output, or reports how far it got. Returns an exit status. */
int fit_job_run(fit_job *job);

/* The summary as text on standard output, and as JSON where --json says; `exit_status` is that of
 * the run. Returns an exit status. */
int fit_job_summarize(const fit_job *job, int exit_status);

#endif
