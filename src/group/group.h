/* SPDX-License-Identifier: MIT */
/* Internals of a group of processes.
 *
 * Calls become requests in a list, and the group's thread carries them out one after the other.
 * Only this thread calls the transport. So MPI needs no locks, and every wait for other ranks has a
 * limit.
 *
 * Elements pass through the group's memory in pieces (stage.c), so tensors of all devices take one
 * path. After a failure, the transport may still write to the target of an operation. The caller's
 * memory is then unaffected, and the group's memory is never freed. The exception is direct.c: if
 * the devices of all ranks reach each other without the transport, elements go from tensor to
 * tensor. */
#ifndef GROUP_GROUP_H
#define GROUP_GROUP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "compute/distributed.h"
#include "compute/backend/transport.h"

typedef enum group_kind {
  GROUP_BARRIER,
  GROUP_BYTES, /* all-gather of host memory */
  GROUP_ALL_REDUCE,
  GROUP_REDUCE_SCATTER,
  GROUP_ALL_GATHER,
  GROUP_BROADCAST,
  GROUP_SEND_RECEIVE,
  GROUP_FAILED, /* in place of a call that this rank does not reach; it fails on the others */
  GROUP_CLOSE,  /* on all ranks, or the group breaks */
  GROUP_KINDS
} group_kind;

/* The fields that ranks must agree on. They are compared as bytes, so there is no padding. */
typedef struct group_call {
  int32_t kind, reduction, dtype, accumulate, root;
  int16_t sends;  /* GROUP_SEND_RECEIVE: 0 or 1; the two ranks must differ in it */
  int16_t direct; /* 0 or 1: the device's communicator could carry out the call; may differ */
  int64_t count;  /* elements of the input; for GROUP_BYTES, bytes */
} group_call;

typedef struct group_stage group_stage;   /* stage.c */
typedef struct group_direct group_direct; /* direct.c */

struct compute_group_request {
  compute_process_group *group;
  _Atomic int32_t references; /* the caller's, and one until the request has ended */
  group_call call;
  const char *operation;
  compute_tensor *input, *output; /* retained */
  const void *bytes;              /* for GROUP_BYTES */
  void *all_bytes;
  int32_t peer; /* for GROUP_SEND_RECEIVE */
  bool fixed_order;
  compute_event *after;
  struct compute_group_request *next;
  bool done; /* guarded by the group's mutex, like status and error */
  compute_status status;
  compute_error error; /* for GROUP_FAILED: the reason, set before submission */
};

/* One member's entry in the table that is exchanged when a group opens. */
typedef struct group_record {
  char magic[16]; /* the same in every version */
  char version[16];
  char host[64], device[32];
  int64_t process;
} group_record;

struct compute_process_group {
  _Atomic int32_t references; /* the caller's, and one for each request */
  compute_context *context;
  const compute_transport *transport;
  void *argument; /* for transport->open */
  void *instance;
  char about[128];
  double timeout;
  bool only; /* the process's only open group over a transport module */
  bool host_only;
  compute_device *device;
  int32_t rank, size, local_rank, local_size, hosts;
  group_record *members;
  int32_t *local_ranks; /* one per member */
  /* Used only by the thread: */
  char *outgoing, *incoming; /* piece_bytes each, and a little more */
  size_t piece_bytes;
  int32_t *part_bytes;  /* per rank, for the current operation */
  group_call *calls;    /* one per rank */
  group_stage *stages;  /* of devices whose tensors have been used */
  group_direct *direct; /* NULL: the devices are not connected; not_direct is the reason */
  bool connected;       /* the devices were connected when the group opened */
  char not_direct[256], direct_name[32];
  int32_t reached_type; /* DLPack type of devices whose memory the transport reaches, or 0 */
  bool all_close;       /* GROUP_CLOSE has succeeded */
  /* Shared between threads: */
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t work, ended;
  compute_group_request *first, *last;
  bool opened, closing;
  _Atomic compute_status broken; /* the status of the failure; only the thread writes it */
  compute_error reason;
};

/* ---- group.c ------------------------------------------------------------------------------- */

/* compute_group_open with a given transport; the options are complete. */
compute_status group_open_with(compute_context *context, const compute_transport *transport,
                               void *argument, const compute_group_options *options,
                               compute_process_group **group);

/* On the group's thread: joins the other processes and exchanges the members' records. */
compute_status group_join(compute_process_group *group);

/* Sets the fields that depend on the members' hosts. */
compute_status group_count_hosts(compute_process_group *group);

/* Succeeds if `rank` is a rank of the group. `name` is the argument's name. */
compute_status group_check_rank(const compute_process_group *group, const char *operation,
                                const char *name, int32_t rank);

void group_unreference(compute_process_group *group);

/* ---- launcher.c ---------------------------------------------------------------------------- */

/* The transport for these options and the launcher's variables. */
compute_status group_find_transport(compute_context *context, const char *name,
                                    const compute_transport **transport);

/* Checks that MPI finds the other processes that srun started. With the wrong transport module,
 * each process is alone. */
compute_status group_check_size(compute_context *context, int32_t size);

/* ---- alone.c ------------------------------------------------------------------------------- */

/* The transport of a group of one. */
extern const compute_transport group_alone;

/* ---- request.c ----------------------------------------------------------------------------- */

/* Starts and ends the group's thread. The thread first joins the other processes, and ends after
 * all requests. */
compute_status group_thread_start(compute_process_group *group);
void group_thread_end(compute_process_group *group);

/* Submits a request with these members of `draft`: `call` to `after`, and `error`. Waits for it
 * unless the caller takes the request. */
compute_status group_submit(compute_process_group *group, const compute_group_request *draft,
                            compute_group_request **request);

/* ---- transfer.c, on the group's thread ------------------------------------------------------ */

/* A wait for other ranks. `ask` sets *done when it is over. After the limit, `explain` writes the
 * ranks that have not arrived, or the reason why they are unknown. Its text begins with "; " or is
 * empty. */
typedef struct group_wait {
  compute_status (*ask)(void *what, bool *done);
  void (*explain)(const void *what, char *text, size_t text_bytes);
  void *what;
} group_wait;

/* Polls until `ask` fails, until it sets *done, or until `limit` seconds have passed. */
compute_status group_await(compute_process_group *group, const char *operation, double limit,
                           const group_wait *wait);

/* Waits for an operation that the transport has started; `code` is the result of the transport's
 * function. Any failure breaks the group. `peer` is the only other rank that takes part. */
compute_status group_finish(compute_process_group *group, const char *operation, int code);
compute_status group_finish_with(compute_process_group *group, const char *operation, int code,
                                 int32_t peer);

/* Breaks the group unless it is already broken. Returns the status. The reason is the calling
 * thread's last error. */
compute_status group_break(compute_process_group *group, compute_status status);

/* The error of opening a group when `bytes` bytes are not available. */
compute_status group_no_memory(const compute_process_group *group, size_t bytes);

/* Keeps memory of a failed group forever, because its transport may still write to it. */
void group_abandon(void *memory);

/* Gathers every rank's bytes in rank order. */
compute_status group_gather_now(compute_process_group *group, const char *operation,
                                const void *mine, int32_t bytes, void *all);

/* ---- collective.c -------------------------------------------------------------------------- */

/* Carries out a request, on the group's thread. */
compute_status group_perform(compute_group_request *request);

/* ---- stage.c, on the group's thread --------------------------------------------------------- */

/* The path of a call's elements through the group's memory, in pieces of up to `most` of
 * `elements`. The input has `loads` blocks of `elements` elements (0: this rank has no input), and
 * the output has `stores` blocks. A piece contains the same part of each block, side by side.
 * `carry` sends a piece with `count` elements of each block from `outgoing`, which it may change,
 * and writes the received piece to `incoming`. */
typedef struct group_flow {
  int64_t elements, most;
  int32_t loads, stores;
  bool moved; /* the transport may use device memory that it reaches */
  compute_status (*carry)(const compute_group_request *request, int64_t count, void *outgoing,
                          void *incoming);
} group_flow;

/* Overlaps the copies: while one piece is carried, the next comes from the input's device and the
 * previous goes to the output's device. */
compute_status group_pass(const compute_group_request *request, const group_flow *flow);

/* A queue for a device's tensors; the group owns it. */
compute_status group_stage_queue(compute_process_group *group, compute_device *device,
                                 compute_queue **queue);

/* group_stage_join asks the transport if it reaches memory of the group's device.
 * group_stage_reaches is true if it reaches memory of `device`. */
void group_stage_join(compute_process_group *group);
bool group_stage_reaches(const compute_process_group *group, const compute_device *device);

void group_stages_release(compute_process_group *group);

/* ---- direct.c, on the group's thread --------------------------------------------------------- */

/* Connects the ranks' devices if all of them support it; otherwise records the reason. */
compute_status group_direct_join(compute_process_group *group);

/* True if this rank can leave its part of a call to its device. */
bool group_direct_suits(const compute_group_request *request);

/* Carries out a call if that is true on all ranks that take part. */
compute_status group_direct_perform(const compute_group_request *request);

/* `orderly`: every rank closes the group. */
void group_direct_close(compute_process_group *group, bool orderly);

/* ---- reduce.c ------------------------------------------------------------------------------ */

/* result[i] = the reduction of parts[r * count + i] over r, in the order of r. `result` may be
 * `parts`. */
void group_reduce(const group_call *call, int32_t parts_count, const void *parts, size_t count,
                  void *result);

/* ---- call.c -------------------------------------------------------------------------------- */

/* Succeeds if elements of `dtype` support the reduction; otherwise `text` is the reason. */
compute_status group_check_reduction(compute_group_reduction reduction, compute_dtype dtype,
                                     char *text, size_t text_bytes);

/* ---- agree.c ------------------------------------------------------------------------------- */

/* Collective: gathers every rank's `bytes` bytes, in rank order, into all[size · bytes]. */
compute_status group_gather_bytes(compute_process_group *group, const char *operation,
                                  const void *mine, size_t bytes, void *all);

#endif
