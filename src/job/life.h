/* The end of jobs: one's own, and that of the jobs that follow. */
#ifndef JOB_LIFE_H
#define JOB_LIFE_H

#include "job/job.h"

/* Lock held: takes over the failure of a job that has ended, if it is one. */
void life_inherit(compute_job *job, const compute_job *before);

/* Ends a job that is marked as ending, and the jobs that follow it and cannot run any more:
 * callbacks, waiters, references (the one that a job has until it has ended). Called without the
 * lock, by the thread that has marked it. */
void life_end(compute_job *job);

/* Gives plan and tensors back. */
void life_drop_inputs(compute_job *job);

void life_unreference(compute_job *job);

/* Whether the calling thread is in a job's callback. */
bool life_in_callback(void);

#endif
