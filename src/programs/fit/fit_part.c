/* SPDX-License-Identifier: MIT */
/* --region and --frames: the fitted part of a movie. Movie, camera maps and truth are cut to the
 * part. The output has the coordinates of the whole movie. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "programs/fit/fit_job.h"
#include "programs/fit/movie_crop.h"

static bool is_whole(double value) {
  return value >= 0 && value < 1e15 && value == floor(value);
}

static int take_frames(const fit_job *job, movie_part *part) {
  const compute_range *range = &job->a->frame_range;
  if (!option_given(&job->a->line, "--frames")) return EXIT_GOOD;
  if (!is_whole(range->low) || !is_whole(range->high) || range->high >= (double)part->frames) {
    fit_say("--frames: '%s' has the frames 0 to %" PRId64, job->a->line.operand, part->frames - 1);
    return EXIT_USAGE;
  }
  part->frame = (int64_t)range->low;
  part->frames = (int64_t)range->high - part->frame + 1;
  return EXIT_GOOD;
}

static int take_region(const fit_job *job, movie_part *part) {
  const double *v = job->a->region.value;
  if (!job->a->region.count) return EXIT_GOOD;
  bool good = job->a->region.count == 4;
  for (int i = 0; i < 4; i++) good = good && is_whole(v[i]);
  if (!good || v[2] < 1 || v[3] < 1 || v[0] + v[2] > (double)part->columns ||
      v[1] + v[3] > (double)part->rows) {
    fit_say("--region: X,Y,WIDTH,HEIGHT must be whole numbers within the frames of '%s': %" PRId64
            " wide, %" PRId64 " high",
            job->a->line.operand, part->columns, part->rows);
    return EXIT_USAGE;
  }
  part->column = (int64_t)v[0];
  part->row = (int64_t)v[1];
  part->columns = (int64_t)v[2];
  part->rows = (int64_t)v[3];
  return EXIT_GOOD;
}

int fit_part_open(fit_job *job) {
  const fit_arguments *a = job->a;
  failure why = {0};
  const bool frames = option_given(&a->line, "--frames");
  job->whole = job->info;
  if (!frames && !a->region.count) return EXIT_GOOD;
  if (!job->frames || a->corners) {
    fit_say("%s is for movies in which spots are found; here %s says where the ROIs are",
            frames ? "--frames" : "--region", job->frames ? "--corners" : "--roi-stack");
    return EXIT_USAGE;
  }
  movie_part part = {
      .frames = job->info.count, .rows = job->info.rows, .columns = job->info.columns};
  int result = take_frames(job, &part);
  if (!result) result = take_region(job, &part);
  if (result) return result;
  if (movie_crop(&job->movie, &part, &why)) return fit_say_failure(&why);
  job->info = *movie_information(job->movie);
  job->origin[0] = part.frame;
  job->origin[1] = part.row;
  job->origin[2] = part.column;
  return EXIT_GOOD;
}

/* Moves the part's rows to the front of an array with the size of the frames. */
static void cut(const fit_job *job, void *values, size_t size) {
  unsigned char *to = values;
  const unsigned char *from = values;
  const int64_t columns = job->info.columns, stride = job->whole.columns;
  for (int64_t i = 0; values && i < job->info.rows; i++)
    memmove(to + (size_t)(i * columns) * size,
            from + (size_t)((job->origin[1] + i) * stride + job->origin[2]) * size,
            (size_t)columns * size);
}

static void cut_map(const fit_job *job, compute_fit_map *map) {
  if (!map->values) return;
  cut(job, (void *)(uintptr_t)map->values, sizeof *map->values);
  map->rows = job->info.rows;
  map->columns = job->info.columns;
}

void fit_part_cut_maps(fit_job *job) {
  camera_maps *maps = &job->maps;
  if (job->info.rows == job->whole.rows && job->info.columns == job->whole.columns) return;
  cut_map(job, &maps->offset);
  cut_map(job, &maps->gain);
  cut_map(job, &maps->variance);
  if (!maps->mask) return;
  cut(job, maps->mask, sizeof *maps->mask);
  maps->mask_rows = job->info.rows;
  maps->mask_columns = job->info.columns;
}

void fit_part_cut_truth(fit_job *job) {
  const int32_t columns = 1 + compute_fit_parameter_count(job->problem.model);
  float *values = job->truth.values;
  int64_t kept = 0;
  for (int64_t i = 0; i < job->truth.shape.size[0]; i++) {
    const float *from = values + i * columns;
    const double frame = (double)from[0] - (double)job->origin[0];
    const double x = (double)from[1] - (double)job->origin[2],
                 y = (double)from[2] - (double)job->origin[1];
    if (frame < 0 || frame >= (double)job->info.count || x < -0.5 || y < -0.5 ||
        x >= (double)job->info.columns - 0.5 || y >= (double)job->info.rows - 0.5)
      continue;
    float *to = values + kept++ * columns;
    memmove(to, from, (size_t)columns * sizeof *to);
    to[0] = (float)frame;
    to[1] = (float)x;
    to[2] = (float)y;
  }
  job->truth_cut = job->truth.shape.size[0] - kept;
  job->truth.shape.size[0] = kept;
}
