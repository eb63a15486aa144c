/* The table of Gaussian fits for one instruction set. */
#include "fit_work.h"

void CPU_SYMBOL(cpu_fit_xynb)(const cpu_fit_job *, int64_t, int64_t, void *);
void CPU_SYMBOL(cpu_fit_xynbs)(const cpu_fit_job *, int64_t, int64_t, void *);
void CPU_SYMBOL(cpu_fit_xynbsxsy)(const cpu_fit_job *, int64_t, int64_t, void *);
void CPU_SYMBOL(cpu_fit_xyznb)(const cpu_fit_job *, int64_t, int64_t, void *);
extern const cpu_fit_table CPU_SYMBOL(cpu_fit_table);

static uint64_t workspace_bytes(const compute_fit_problem *problem) {
  return fit_workspace_bytes(problem);
}

const cpu_fit_table CPU_SYMBOL(cpu_fit_table) = {
    .lanes = FIT_LANES,
    .workspace_bytes = workspace_bytes,
    .fit = {[COMPUTE_FIT_XYNB] = CPU_SYMBOL(cpu_fit_xynb),
            [COMPUTE_FIT_XYNBS] = CPU_SYMBOL(cpu_fit_xynbs),
            [COMPUTE_FIT_XYNBSXSY] = CPU_SYMBOL(cpu_fit_xynbsxsy),
            [COMPUTE_FIT_XYZNB] = CPU_SYMBOL(cpu_fit_xyznb)},
};
