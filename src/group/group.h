/* SPDX-License-Identifier: MIT */
/* Internals of a group of processes.
 *
 * Calls become requests in a list; the group's thread carries them out, one after the other. It is
 * the only one that calls the transport, so MPI needs no locks, and every wait for other ranks has
 * a limit.
 *
 * Elements pass through memory of the group, in pieces (stage.c). So tensors of all devices take
 * one path, and after a failure, when the transport may still write to where an operation was to
 * end, the caller's memory is not affected; the group's is then never freed. Only where the devices
 * of all ranks reach each other without the transport (direct.c), elements go from tensor to
 * tensor. */
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
  int16_t sends;  /* of GROUP_SEND_RECEIVE, 0 or 1: here alone the two must differ */
  int16_t direct; /* 0 or 1: the rank could let its device's communicator do it; may differ */
  int64_t count;  /* elements of the input; bytes of GROUP_BYTES */
} group_call;

typedef struct group_stage group_stage;   /* stage.c */
typedef struct group_direct group_direct; /* direct.c */

struct compute_group_request {
  compute_process_group *group;
  int32_t references; /* atomic: the caller's, and one until it has ended */
  group_call call;
  const char *operation;
  compute_tensor *input, *output; /* retained */
  const void *bytes;              /* of GROUP_BYTES */
  void *all_bytes;
  int32_t peer; /* of GROUP_SEND_RECEIVE */
  bool fixed_order;
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
  bool host_only;
  compute_device *device;
  int32_t rank, size, local_rank, local_size, hosts;
  group_record *members;
  int32_t *local_ranks; /* of each member */
  /* Of the thread alone. */
  char *outgoing, *incoming; /* piece_bytes each, and a little more */
  size_t piece_bytes;
  int32_t *part_bytes;  /* of each rank, for the operation under way */
  group_call *calls;    /* of each rank */
  group_stage *stages;  /* of devices whose tensors have passed */
  group_direct *direct; /* NULL: the devices are not connected, and why */
  bool connected;       /* they were when the group opened */
  char not_direct[256], direct_name[32];
  int32_t reached_type; /* of devices whose memory the transport reaches, in DLPack's terms; or 0 */
  bool all_close;       /* GROUP_CLOSE has succeeded */
  /* Shared. */
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

/* A wait for other ranks: `ask` says whether it is over. After the limit, `explain` writes which
 * ranks have not come, or why that is not known; it begins with "; " or is empty. */
typedef struct group_wait {
  compute_status (*ask)(void *what, bool *done);
  void (*explain)(const void *what, char *text, size_t text_bytes);
  void *what;
} group_wait;

/* Polls until `ask` fails, finds that what was waited for is done, or `limit` seconds are over. */
compute_status group_await(compute_process_group *group, const char *operation, double limit,
                           const group_wait *wait);

/* Waits for the operation that a function of the transport, which returned `code`, has started. Any
 * failure breaks the group. `peer`: the one rank that takes part besides this one. */
compute_status group_finish(compute_process_group *group, const char *operation, int code);
compute_status group_finish_with(compute_process_group *group, const char *operation, int code,
                                 int32_t peer);

/* Breaks the group, unless it is broken already; returns the status. The error is the calling
 * thread's. */
compute_status group_break(compute_process_group *group, compute_status status);

/* The error of opening a group that did not get `bytes` bytes. */
compute_status group_no_memory(const compute_process_group *group, size_t bytes);

/* Memory of a group that has failed, to which its transport may still write, is never freed. */
void group_abandon(void *memory);

/* Every rank's bytes, in the order of the ranks. */
compute_status group_gather_now(compute_process_group *group, const char *operation,
                                const void *mine, int32_t bytes, void *all);

/* ---- collective.c -------------------------------------------------------------------------- */

/* Carries out a request, on the group's thread. */
compute_status group_perform(compute_group_request *request);

/* ---- stage.c, on the group's thread --------------------------------------------------------- */

/* How a call's elements pass through the group's memory: in pieces of up to `most` of `elements`.
 * The input consists of `loads` blocks of so many elements (0: this rank has none), of which a
 * piece has the same part each, side by side; and the output of `stores` blocks. `carry` sends a
 * piece of `count` elements of each block from `outgoing`, which it may change, and leaves one in
 * `incoming`. */
typedef struct group_flow {
  int64_t elements, most;
  int32_t loads, stores;
  bool moved; /* the transport may use the devices' memory, where it reaches that */
  compute_status (*carry)(const compute_group_request *request, int64_t count, void *outgoing,
                          void *incoming);
} group_flow;

/* While a piece is carried, the next is on its way from the input's device and the one before on
 * its way to the output's. */
compute_status group_pass(const compute_group_request *request, const group_flow *flow);

/* A queue for a device's tensors, kept by the group. */
compute_status group_stage_queue(compute_process_group *group, compute_device *device,
                                 compute_queue **queue);

/* Asks the transport whether it reaches memory of the group's device; and whether it does that of
 * another. */
void group_stage_join(compute_process_group *group);
bool group_stage_reaches(const compute_process_group *group, const compute_device *device);

void group_stages_release(compute_process_group *group);

/* ---- direct.c, on the group's thread --------------------------------------------------------- */

/* Connects the ranks' devices if all of them can be; otherwise says why not. */
compute_status group_direct_join(compute_process_group *group);

/* Whether this rank's part of a call could be left to its device. */
bool group_direct_suits(const compute_group_request *request);

/* Carries out a call for which that is so on all ranks that take part. */
compute_status group_direct_perform(const compute_group_request *request);

/* `orderly`: every rank closes. */
void group_direct_close(compute_process_group *group, bool orderly);

/* ---- reduce.c ------------------------------------------------------------------------------ */

/* result[i] = the reduction over r of parts[r * count + i], in the order of r; may be `parts`. */
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
