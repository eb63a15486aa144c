/* SPDX-License-Identifier: MIT */
#include "fit_files/sample_results.h"

#include <math.h>
#include <stdlib.h>

static void *room(int64_t count, size_t size) {
  void *memory = calloc((size_t)count + 1, size);
  if (!memory) abort();
  return memory;
}

static void fill(compute_fit_results *r, int32_t parameters, int64_t i, int64_t roi) {
  bool bad = roi % 11 == 10;
  for (int32_t k = 0; k < parameters; k++) {
    double value = k + 1 + (double)(roi % 1000) / 1000;
    r->parameters[i * parameters + k] = bad ? NAN : (float)value;
    r->std[i * parameters + k] = bad ? NAN : (float)(value / 10);
    for (int32_t j = 0; j < parameters; j++) {
      r->covariance[(i * parameters + k) * parameters + j] = bad ? NAN : (float)(roi + 10 * k + j);
    }
  }
  r->ratio[i] = bad ? NAN : -(float)roi / 4;
  r->p_raw[i] = bad ? NAN : 1 / (float)(roi + 2);
  r->p_value[i] = bad ? NAN : 1e-3f / (float)(roi + 1);
  r->significance[i] = bad ? NAN : (float)(roi % 50);
  r->iterations[i] = (int32_t)(roi % 7);
  r->status[i] = (uint8_t)(bad ? COMPUTE_FIT_BAD_DATA : 1 + roi % 3);
}

void sample_results_make(compute_fit_model model, int64_t first, int64_t count,
                         sample_results *sample) {
  int32_t p = compute_fit_parameter_count(model);
  sample->results = (compute_fit_results){
      .parameters = room(count * p, 4),
      .std = room(count * p, 4),
      .covariance = room(count * p * p, 4),
      .ratio = room(count, 4),
      .p_raw = room(count, 4),
      .p_value = room(count, 4),
      .significance = room(count, 4),
      .iterations = room(count, 4),
      .status = room(count, 1),
  };
  sample->corners = room(3 * count, 4);
  for (int64_t i = 0; i < count; i++) {
    fill(&sample->results, p, i, first + i);
    sample->corners[3 * i] = (int32_t)((first + i) / SAMPLE_PER_FRAME);
    sample->corners[3 * i + 1] = (int32_t)((first + i) % 100);
    sample->corners[3 * i + 2] = (int32_t)(2 * ((first + i) % 50));
  }
}

void sample_results_release(sample_results *sample) {
  free(sample->results.parameters);
  free(sample->results.std);
  free(sample->results.covariance);
  free(sample->results.ratio);
  free(sample->results.p_raw);
  free(sample->results.p_value);
  free(sample->results.significance);
  free(sample->results.iterations);
  free(sample->results.status);
  free(sample->corners);
}

int64_t sample_results_frames(int64_t rois) {
  return rois / SAMPLE_PER_FRAME;
}

compute_status sample_results_append(results_file *file, compute_fit_model model, int64_t begin,
                                     int64_t first, int64_t end, int64_t piece, failure *why) {
  compute_status status = COMPUTE_OK;
  while (first < end && !status) {
    int64_t count = end - first < piece ? end - first : piece;
    sample_results sample;
    sample_results_make(model, first, count, &sample);
    for (int64_t i = 0; i < count; i++) {
      sample.corners[3 * i] -= (int32_t)sample_results_frames(begin);
    }
    first += count;
    status =
        results_file_append(file, first - count - begin, count, &sample.results, sample.corners,
                            sample_results_frames(first) - sample_results_frames(begin), why);
    sample_results_release(&sample);
  }
  return status;
}
