/* SPDX-License-Identifier: MIT */
/* One fit by all processes that an MPI launcher has started: `mpirun -n 4 compute-fit fit …`.
 *
 * Items (frames, or ROIs of a stack) are divided into blocks, and the ranks take turns with the
 * blocks. Each rank reads and fits its own blocks. Rank 0 is the leader: it receives the results of
 * the others, and takes all results in the order of the items, as one process would. Results wait
 * on the rank that computed them until the leader receives them, so memory does not grow. */
#ifndef TOOLS_FIT_CLUSTER_H
#define TOOLS_FIT_CLUSTER_H

#include "programs/fit/fit_job.h"

typedef struct cluster cluster;

/* Opens the group of the launcher, if there is one. In a single process job->cluster stays NULL.
 * Until cluster_start only the leader prints; the other ranks keep their messages. Returns an exit
 * status. cluster_start must follow, whatever the status is. */
int cluster_open(fit_job *job);

/* Chooses the rank's device if --device does not choose one. */
int cluster_choose_device(fit_job *job);

/* Returns true if this process writes the output and prints messages for all ranks. */
bool cluster_leads(const fit_job *job);

/* Collective call after everything is open. Fails on all ranks if one rank has failed (`result` is
 * its exit status), or has other input, files or options. The leader prints the reason. The ranks
 * receive the position at which the leader's output begins. */
int cluster_start(fit_job *job, int result);

/* compute_fit_run for this rank's share of `options`. On the leader, the callbacks get all results
 * as if it had computed them. On the other ranks they get none. */
compute_status cluster_run(fit_job *job, const compute_fit_run_options *options);

/* Collective call after the leader has completed its output or failed. Returns its exit status. */
int cluster_end(fit_job *job, int result);

/* For use after a failed run. Returns true if the caller must not print its own error. On the
 * leader, another rank has failed, and this function prints its message. On the other ranks, the
 * leader prints. */
bool cluster_say(const fit_job *job);

/* Returns the progress of all ranks. */
compute_batch_progress cluster_progress(const fit_job *job, const compute_batch_progress *own);

/* Leaves the group. After a failure the group stays open, with the context, so that the launcher
 * ends the other ranks when this process ends. Returns false in this case. */
bool cluster_close(fit_job *job);

#endif
