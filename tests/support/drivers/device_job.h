/* SPDX-License-Identifier: MIT */
/* A job that uses every feature of a device, for tests with a failing driver: transfers, a plan
 * with several kinds of kernels, a queue and an event, strided copies, and an index out of
 * range. */
#ifndef SUPPORT_DEVICE_JOB_H
#define SUPPORT_DEVICE_JOB_H

#include "compute/compute.h"

enum { JOB_ROWS = 9, JOB_INNER = 21, JOB_COLUMNS = 17, JOB_PICKED = 6 };

typedef struct job_result {
  float product[JOB_ROWS][JOB_COLUMNS]; /* gelu(x w + b) */
  float sums[JOB_ROWS], total;
  float picked[JOB_PICKED][JOB_COLUMNS], copied[JOB_COLUMNS][JOB_ROWS];
} job_result;

/* Runs the job on the context's default device. It leaves nothing behind, whatever the status. */
compute_status device_job(compute_context *context, job_result *result);

/* Fails the test if the two results differ by more than rounding. */
void device_job_check(const job_result *result, const job_result *expected, const char *where);

#endif
