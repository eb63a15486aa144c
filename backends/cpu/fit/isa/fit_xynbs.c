/* Fits of the model XYNBS; fit_run.h explains. */
#define FIT_MODEL COMPUTE_FIT_XYNBS
#include "fit_run.h"

void CPU_SYMBOL(cpu_fit_xynbs)(const cpu_fit_job *, int64_t, int64_t, void *);

void CPU_SYMBOL(cpu_fit_xynbs)(const cpu_fit_job *job, int64_t first, int64_t count,
                               void *workspace) {
  fit_run(job, first, count, workspace);
}
