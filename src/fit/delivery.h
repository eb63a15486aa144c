/* From records to the caller's arrays and function. */
#ifndef FIT_DELIVERY_H
#define FIT_DELIVERY_H

#include "fit/fit.h"

/* One run's. All calls come from the thread that runs the fitter. */
typedef struct fit_delivery {
  compute_fit *fit;
  const compute_fit_run_options *options;
  compute_fit_summary summary;
  int32_t columns; /* of a record */
  int32_t at[8];   /* where output i (a bit's number) begins in it, or −1 */
  bool streams;    /* results go past the caches */

  /* Of the batch that is being delivered: */
  compute_fit_results to; /* where its results go; NULL: nowhere */
  int64_t of_status[COMPUTE_FIT_STATUS_COUNT], iterations;

  void *scratch; /* for results that only the caller's function gets */
  size_t scratch_bytes;
} fit_delivery;

/* A run. When it begins, all statuses are COMPUTE_FIT_NOT_RUN; when it ends, ROIs that are not
 * complete have this status and NaN everywhere, whatever was written of them before. */
void delivery_open(fit_delivery *delivery, compute_fit *fit,
                   const compute_fit_run_options *options);
void delivery_close(fit_delivery *delivery);

/* A batch of `count` records in pieces: begin, pieces one after the other with their places in the
 * batch, end. It counts as complete when the end succeeds. */
compute_status delivery_begin(fit_delivery *delivery, int64_t count);
void delivery_take(fit_delivery *delivery, int64_t place, int64_t count, const float *records);
compute_status delivery_end(fit_delivery *delivery, int64_t count, const int32_t *corners,
                            int64_t frames);

#endif
