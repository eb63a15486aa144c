/* Fits of the model XYNB; fit_run.h explains. */
#define FIT_MODEL COMPUTE_FIT_XYNB
#include "fit_run.h"

void CPU_SYMBOL(cpu_fit_xynb)(const cpu_fit_job *, int64_t, int64_t, void *);

void CPU_SYMBOL(cpu_fit_xynb)(const cpu_fit_job *job, int64_t first, int64_t count,
                              void *workspace) {
  fit_run(job, first, count, workspace);
}
