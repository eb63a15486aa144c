/* SPDX-License-Identifier: MIT */
/* Internals of a group of processes.
 *
 * Calls become requests in a list; the group's thread carries them out, one after the other. It is
 * the only one that calls the transport, so MPI needs no locks, and every wait of it has a limit.
 *
 * Elements pass through memory of the group, in pieces. So tensors of all devices take one path,
 * and after a failure, when the transport may still write to where an operation was to end, the
 * caller's memory is not affected; the group's is then never freed. */
#ifndef GROUP_GROUP_H
#define GROUP_GROUP_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "compute/distributed.h"
#include "compute/transport.h"

typedef enum group_kind {
  GROUP_BARRIER,
  GROUP_BYTES, /* all-gather of host memory */
  GROUP_ALL_REDUCE,
  GROUP_REDUCE_SCATTER,
  GROUP_ALL_GATHER,
  GROUP_BROADCAST,
  GROUP_SEND_RECEIVE,
  GROUP_FAILED, /* in the place of a call that this rank does not come to: it fails on the others */
  GROUP_CLOSE,  /* on all ranks, or the group breaks */
  GROUP_KINDS
} group_kind;

/* What ranks must agree on; compared byte by byte, so there is no padding. */
typedef struct group_call {
  int32_t kind, reduction, dtype, accumulate, root;
  int32_t sends; /* of GROUP_SEND_RECEIVE, 0 or 1: here alone the two must differ */
  int64_t count; /* elements of the input; bytes of GROUP_BYTES */
} group_call;

struct compute_group_request {
  compute_process_group *group;
  int32_t references; /* atomic: the caller's, and one until it has ended */
  group_call call;
  const char *operation;
  compute_tensor *input, *output; /* retained */
  const void *bytes;              /* of GROUP_BYTES */
  void *all_bytes;
  int32_t peer; /* of GROUP_SEND_RECEIVE */
  compute_event *after;
  struct compute_group_request *next;
  bool done; /* under the group's lock, like the outcome */
  compute_status status;
  compute_error error; /* of GROUP_FAILED, from the beginning: why */
};

/* One member's entry in the table that is exchanged when a group opens. */
typedef struct group_record {
  char magic[16]; /* of every version */
  char version[16];
  char host[64], device[32];
  int64_t process;
} group_record;

struct compute_process_group {
  int32_t references; /* atomic: the caller's, and one for each request */
  compute_context *context;
  const compute_transport *transport;
  void *argument; /* for transport->open */
  void *instance;
  char about[128];
  double timeout;
  bool only; /* it is the one group over a module that a process can have open */
  compute_device *device;
  int32_t rank, size, local_rank, local_size, hosts;
  group_record *members;
  int32_t *local_ranks; /* of each member */
  /* Of the thread alone. */
  char *outgoing, *incoming; /* piece_bytes each, and a little more */
  size_t piece_bytes;
  int32_t *part_bytes; /* of each rank, for the operation under way */
  group_call *calls;   /* of each rank */
  bool all_close;      /* GROUP_CLOSE has succeeded */
  /* Shared. */
  pid_t process; /* the one that has the thread */
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t work, ended;
  compute_group_request *first, *last;
  bool opened, closing;
  compute_status broken; /* atomic; and why; written by the thread alone */
  compute_error reason;
};

/* ---- group.c ------------------------------------------------------------------------------- */

/* compute_group_open with a given transport; the options are complete. */
compute_status group_open_with(compute_context *context, const compute_transport *transport,
                               void *argument, const compute_group_options *options,
                               compute_process_group **group);

/* On the thread: joins the other processes, and learns who they are. */
compute_status group_join(compute_process_group *group);

/* Sets what follows from the members' hosts. */
compute_status group_count_hosts(compute_process_group *group);

/* Whether it is a rank of the group; `name` is the argument's. */
compute_status group_check_rank(const compute_process_group *group, const char *operation,
                                const char *name, int32_t rank);

void group_unreference(compute_process_group *group);

/* ---- launcher.c ---------------------------------------------------------------------------- */

/* The transport for these options and the launcher's variables. */
compute_status group_find_transport(compute_context *context, const char *name,
                                    const compute_transport **transport);

/* Whether MPI sees the other processes that srun has started: with the wrong module every one of
 * them is alone. */
compute_status group_check_size(compute_context *context, int32_t size);

/* ---- alone.c ------------------------------------------------------------------------------- */

/* The transport of a group of one. */
extern const compute_transport group_alone;

/* ---- request.c ----------------------------------------------------------------------------- */

/* Starts the group's thread, which joins the other processes first, and ends it after all
 * requests. */
compute_status group_thread_start(compute_process_group *group);
void group_thread_end(compute_process_group *group);

/* Submits a request with the members from `call` to `after`, and `error`, of `draft`, and waits for
 * it unless the caller takes it. */
compute_status group_submit(compute_process_group *group, const compute_group_request *draft,
                            compute_group_request **request);

/* ---- transfer.c, on the group's thread ------------------------------------------------------ */

/* Waits for the operation that a function of the transport, which returned `code`, has started. Any
 * failure breaks the group. */
compute_status group_finish(compute_process_group *group, const char *operation, int code);

/* Breaks the group, unless it is broken already; returns the status. The error is the calling
 * thread's. */
compute_status group_break(compute_process_group *group, compute_status status);

/* Every rank's bytes, in the order of the ranks. */
compute_status group_gather_now(compute_process_group *group, const char *operation,
                                const void *mine, int32_t bytes, void *all);

/* ---- collective.c -------------------------------------------------------------------------- */

/* Carries out a request, on the group's thread. */
compute_status group_perform(compute_group_request *request);

/* ---- reduce.c ------------------------------------------------------------------------------ */

/* result[i] = the reduction over r of parts[r * count + i], in the order of r. */
void group_reduce(const group_call *call, int32_t parts_count, const void *parts, size_t count,
                  void *result);

/* ---- call.c -------------------------------------------------------------------------------- */

/* Whether elements of `dtype` can be reduced so; if not, why. */
compute_status group_check_reduction(compute_group_reduction reduction, compute_dtype dtype,
                                     char *text, size_t text_bytes);

/* ---- agree.c ------------------------------------------------------------------------------- */

/* Collective: every rank's `bytes` bytes, in the order of the ranks, in all[size · bytes]. */
compute_status group_gather_bytes(compute_process_group *group, const char *operation,
                                  const void *mine, size_t bytes, void *all);

#endif
