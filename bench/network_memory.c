/* SPDX-License-Identifier: MIT */
/* See network_memory.h. The trainer has its own context, whose pool is used for nothing else: the
 * pool's peak is compared with the memory that the trainer states for a step. Neither the pool nor
 * the process may grow from the first steps to the last. */
#include "network_memory.h"

#include <math.h>
#include <stdio.h>

#include "measure.h"
#include "network_own.h"

static const double tolerance = 0.1, growth_allowed = 1 << 20;

/* Memory of the process in use, in bytes. */
static double resident(void) {
  double kib = NAN;
  char line[128];
  FILE *file = fopen("/proc/self/status", "r");
  if (!file) return NAN;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "VmRSS: %lf", &kib) == 1) break;
  fclose(file);
  return kib * 1024;
}

/* The trainer's figure excludes x and labels, which its caller owns. */
static compute_status measure(network_own *own, const network_data *d, compute_device *device,
                              int64_t steps, bench_record *record) {
  enum { FIRST = 10 };
  const int64_t area = d->network->side * d->network->side;
  const double own_bytes =
      (double)(d->batch * d->network->channels * area) * sizeof(float) + (double)d->batch * 8;
  compute_pool_statistics pool, later;
  compute_trainer_info info;
  network_own_run(own, FIRST);
  compute_status s = own->status;
  if (!s) s = compute_pool_query(device, &pool);
  const double before = resident(), start = clock_seconds();
  network_own_run(own, steps);
  record->ms = record->ms_p10 = record->ms_p90 = (clock_seconds() - start) / (double)steps * 1e3;
  if (!s) s = own->status;
  if (!s) s = compute_pool_query(device, &later);
  if (!s) s = compute_trainer_query(own->trainer, &info);
  if (s) return s;
  record->training.rate = (double)d->batch / record->ms * 1e3;
  record->training.steps = (double)steps;
  record->training.planned_bytes = (double)info.peak_bytes;
  record->training.measured_bytes = (double)later.bytes_peak - own_bytes;
  record->training.growth_bytes = fmax(resident() - before, 0);
  record->max_rel_err = fabs(record->training.measured_bytes / (double)info.peak_bytes - 1);
  const bench_training *t = &record->training;
  bench_require_most(record, "measured memory", "bytes", t->measured_bytes,
                     (1 + tolerance) * t->planned_bytes);
  bench_require_least(record, "measured memory", "bytes", t->measured_bytes,
                      (1 - tolerance) * t->planned_bytes);
  bench_require_most(record, "peak of the pool", "bytes", (double)later.bytes_peak,
                     (double)pool.bytes_peak);
  bench_require_most(record, "memory in use", "bytes", (double)later.bytes_active,
                     (double)pool.bytes_active);
  bench_require_most(record, "growth of the process", "bytes", t->growth_bytes, growth_allowed);
  return COMPUTE_OK;
}

void network_memory_run(bench_session *session, const char *suite, const bench_case *c) {
  compute_context *context = NULL;
  network_own own = {0};
  network_data data = {0};
  bench_record record = bench_record_new(session, suite, c);
  const int64_t steps = session->options->quick ? c->size[2] / 10 : c->size[2];
  compute_status s = compute_open(
      &context, &(compute_open_options){.device = session->info.name,
                                        .threads = (int32_t)session->options->threads});
  compute_device *device = s ? NULL : compute_default_device(context);
  if (!s)
    s = network_own_create(context, device, NULL, &bench_networks[c->size[0]], c->size[1], true,
                           &own, &data);
  if (!s) s = measure(&own, &data, device, steps, &record);
  if (s) {
    bench_fail(session, suite, c, "does not run");
  } else {
    bench_record_add(session, &record);
  }
  network_own_release(&own);
  network_data_release(&data);
  bench_close_context(session, suite, c, context);
}
