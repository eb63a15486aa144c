/* One problem on one device: its buffers, the right results, and the stop-watch. */
#ifndef TUNE_MEASURE_H
#define TUNE_MEASURE_H

#include "device/buffer.h"
#include "tune/problem.h"

typedef double (*measure_clock)(void); /* seconds that only grow */

double measure_real_clock(void);

typedef struct tune_measure {
  measure_clock clock;
  compute_device *device;
  compute_queue *queue;
  const tune_problem *problem;
  memory_buffer *inputs[PROBLEM_INPUTS];
  memory_buffer *output;
  memory_buffer *expected; /* on the CPU */
  void *result;            /* host memory for what the device computes */
  uint64_t result_bytes;
} tune_measure;

/* Makes data, lets the CPU compute the results, and takes the inputs to the device. On failure the
 * error tells, and nothing is left. */
compute_status measure_open(tune_measure *measure, compute_device *device, compute_queue *queue,
                            const tune_problem *problem, measure_clock clock);
void measure_close(tune_measure *measure);

/* Whether the problem's buffers fit the device with room to spare. */
bool measure_fits(const compute_device *device, const tune_problem *problem);

/* Runs a kernel once, from a result of NaN, and compares. `right` says whether the numbers are; if
 * not, `reason` says why not. Fails as the device does. */
compute_status measure_check(const tune_measure *measure, void *kernel, bool *right, char *reason,
                             size_t reason_bytes);

/* Seconds of one kernel, `repetitions` submitted in a row. */
compute_status measure_time(const tune_measure *measure, void *kernel, uint32_t repetitions,
                            double *seconds);

#endif
