/* SPDX-License-Identifier: MIT */
/* One fit by all processes that an MPI launcher has started: `mpirun -n 4 compute-fit fit …`.
 *
 * Items (frames, or ROIs of a stack) are divided into blocks, which go to the ranks in turn. Each
 * rank reads and fits its own; rank 0 leads: it receives the others' results and takes all of them
 * in the order of the items, as one process would. What has not been received yet waits with the
 * rank that computed it, so memory does not grow. */
#ifndef TOOLS_FIT_CLUSTER_H
#define TOOLS_FIT_CLUSTER_H

#include "programs/fit/fit_job.h"

typedef struct cluster cluster;

/* Opens the group of the launcher, if there is one: job->cluster stays NULL in a process of its
 * own. From here to cluster_start only the leader prints; what another rank says is kept. Returns
 * an exit status; cluster_start must follow, whatever it is. */
int cluster_open(fit_job *job);

/* Chooses the rank's device where --device leaves that open. */
int cluster_choose_device(fit_job *job);

/* Whether this process writes the output and speaks for all. */
bool cluster_leads(const fit_job *job);

/* Collective, when everything is open: fails on all ranks if one has failed (`result` is its exit
 * status), for which the leader then speaks, or has other input, files or options. The ranks learn
 * where the leader's output begins. */
int cluster_start(fit_job *job, int result);

/* compute_fit_run, for this rank's share of what `options` say. Its callbacks see all results on
 * the leader, as if it had computed them, and none on the other ranks. */
compute_status cluster_run(fit_job *job, const compute_fit_run_options *options);

/* Collective, when the leader has completed its output or failed to; returns its exit status. */
int cluster_end(fit_job *job, int result);

/* After a failed run: whether the leader has nothing to add, because another rank has failed, whose
 * words this prints; or, on another rank, because the leader speaks for it. */
bool cluster_say(const fit_job *job);

/* The progress of all ranks. */
compute_batch_progress cluster_progress(const fit_job *job, const compute_batch_progress *own);

/* Leaves the group. After a failure it stays open, with the context, so that the launcher ends the
 * other ranks when this process ends; then false. */
bool cluster_close(fit_job *job);

#endif
