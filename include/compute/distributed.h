/* SPDX-License-Identifier: MIT */
/** @file
 * Groups of processes: collective operations on tensors over several machines.
 * @code
 *   compute_process_group *group;
 *   compute_group_open(context, NULL, &group);
 *   compute_group_all_reduce(group, COMPUTE_GROUP_MEAN, x, x, NULL, NULL);
 *   compute_group_close(group);
 * @endcode
 * Start the program with MPI's own launcher (`mpirun -n 4 program`, `srun`): each process opens the
 * group and has a rank in it. A program that is started without one is a group of one, which needs
 * no MPI: the same calls work and nothing is sent. libcompute does not link MPI; a module for the
 * launcher's MPI is opened when it is needed.
 *
 * **Collective calls.** Every rank makes a *collective* call, in the same order, with the same
 * kind, dtype and sizes. That is checked before any data moves. If ranks differ, all of them get
 * COMPUTE_ERROR_INVALID_ARGUMENT, which names the rank and the difference, and the group stays
 * usable.
 *
 * **Failures.** Every wait has a time limit. If a rank dies, hangs or fails in the middle of a
 * call, the group is *broken* on the others within that limit: that call and every later one return
 * the first failure at once. A broken group can only be closed. The error of a wait that has
 * reached its limit names the ranks that did not arrive, or explains that the transport cannot find
 * out (compute/backend/transport.h); asking them takes up to a second after the limit.
 *
 * **Order of sums.** Sums are in the order of the ranks: the same bits for a given number of ranks,
 * whatever the timing, and the same on every rank. The exception: sums and means of tensors on the
 * ranks' own devices, where these are connected without the host (NCCL, docs/guide/cluster.md). The
 * library chooses their order, and f16 and bf16 are rounded after each addition, unless a call asks
 * for `fixed_order` or, with narrower dtypes than f64, for `accumulate`.
 *
 * **Threads.** A thread of the group carries out the calls, in sequence. A group may be used from
 * several threads, but then they must agree on the order of the calls as all ranks must. */
#ifndef COMPUTE_DISTRIBUTED_H
#define COMPUTE_DISTRIBUTED_H

#include "compute/device.h"
#include "compute/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_process_group compute_process_group;

typedef struct compute_group_options {
  /** "openmpi", "mpich" or another module libcompute-transport-NAME.so; "none": a group of one
   * whatever the launcher. NULL: COMPUTE_TRANSPORT, or else by the launcher's variables; in a
   * program with raised privileges (docs/security.md) neither is read, and NULL means "none". MPI
   * obeys the environment: such a program clears it before it names one. */
  const char *transport;
  double timeout;         /**< seconds that a call waits for other ranks; 0: COMPUTE_GROUP_TIMEOUT,
                           * or else 600 */
  compute_device *device; /**< of this rank; NULL: by its local rank */
  bool host_only;         /**< elements of devices always pass through host memory; false: as
                           * COMPUTE_GROUP_HOST_ONLY is set */
  uint64_t reserved[7];   /**< must be zero */
} compute_group_options;

/** Collective: every process of the launcher opens its group. `options` may be NULL. A process can
 * have one group over MPI open at a time, and any number of groups of one without it. Ownership of
 * *group passes to the caller, who closes it before the context.
 *
 * The first group initialises MPI, and it is finalized when the process ends. If the program has
 * initialised MPI itself (with MPI_THREAD_SERIALIZED at least), the program finalizes it as well.
 *
 * - COMPUTE_ERROR_BACKEND_LOAD if there is no module for the launcher.
 * - _TRANSFER if MPI fails, or an earlier group of the process has been broken.
 * - _TIMEOUT. MPI's own initialisation, which waits for the other processes, has no limit.
 * - _INVALID_STATE if a group is open.
 * - _INVALID_ARGUMENT if ranks have different versions of libcompute. */
COMPUTE_API compute_status compute_group_open(compute_context *context,
                                              const compute_group_options *options,
                                              compute_process_group **group);

/** Collective: waits for the requests in progress and until every rank closes. NULL is allowed. If
 * another rank makes a collective call instead, the group is broken on all of them. A process that
 * ends without closing its group, or with a broken one, does not finalize MPI, so the launcher ends
 * the others. The calling thread's last error stays as it was. */
COMPUTE_API void compute_group_close(compute_process_group *group);

typedef struct compute_group_info {
  int32_t rank, size;             /**< 0 … size−1 */
  int32_t local_rank, local_size; /**< among the ranks with this host name */
  int32_t hosts;                  /**< with different names */
  char host[64];
  char transport[128];    /**< "none", or the module's name and its library's version */
  compute_device *device; /**< as chosen; alone on its host, the default device; else device number
                           * local_rank of its backend, modulo their number */
  double timeout;
  bool broken;
  uint64_t reserved[8];
} compute_group_info;

COMPUTE_API compute_status compute_group_query(const compute_process_group *group,
                                               compute_group_info *info);

/** Another member of the group, as it was when the group opened. */
typedef struct compute_group_member {
  int32_t rank, local_rank;
  int64_t process; /**< its number on its host */
  char host[64], device[32], version[16];
  uint64_t reserved[4];
} compute_group_member;

COMPUTE_API compute_status compute_group_member_at(const compute_process_group *group, int32_t rank,
                                                   compute_group_member *member);

/** A description of the route of elements of tensors on `device`, NULL for host memory: "NCCL
 * 2.27.3", or "pinned host memory, openmpi: Open MPI v5.0.3; rank 1: …" with the reason. Cut to
 * text_bytes. Some calls pass through the host all the same, as with `fixed_order`. */
COMPUTE_API compute_status compute_group_route(const compute_process_group *group,
                                               const compute_device *device, char *text,
                                               size_t text_bytes);

/* ---- Requests ------------------------------------------------------------------------------ */

/** A call in progress. Functions with a parameter `request` return at once if it is not NULL, with
 * ownership of *request; with NULL they wait. The tensors are kept alive until the call has ended;
 * their elements must not be touched meanwhile. */
typedef struct compute_group_request compute_group_request;

/** Waits until the call has ended and returns its status; repeatable. Thread-safe. */
COMPUTE_API compute_status compute_group_request_wait(compute_group_request *request);
/** Whether it has ended, without waiting. */
COMPUTE_API compute_status compute_group_request_poll(const compute_group_request *request,
                                                      bool *done);
/** The call continues if it has not ended. NULL is allowed. */
COMPUTE_API void compute_group_request_release(compute_group_request *request);

/* ---- Collectives --------------------------------------------------------------------------- */

/* Tensors are dense, of any device of the group's context; outputs are not read-only or frozen.
 * Work that writes an input must have ended, or be before the event `after` of the options.
 * `options` and `request` may be NULL. Errors of all:
 * - COMPUTE_ERROR_NULL_POINTER, _WRONG_CONTEXT, _SHAPE, _DTYPE and _INVALID_ARGUMENT for the call's
 *   own arguments. The other ranks then still wait for this rank's call, until their limit.
 * - _INVALID_ARGUMENT on all ranks if their calls differ.
 * - _INVALID_STATE if a rank has closed its group.
 * - _TIMEOUT and _TRANSFER, which break the group. */

typedef enum compute_group_reduction {
  COMPUTE_GROUP_SUM = 0,  /**< integers wrap; not of bool */
  COMPUTE_GROUP_MEAN = 1, /**< of floats */
  COMPUTE_GROUP_MAX = 2,  /**< NaN if any is */
  COMPUTE_GROUP_MIN = 3
} compute_group_reduction;

typedef struct compute_group_call_options {
  compute_dtype accumulate; /**< of sums and means: COMPUTE_F64, rounded once at the end. 0: f64
                             * for f64, integers of 64 bits for integers, f32 for other floats */
  bool fixed_order;         /**< sums and means in the order of the ranks on devices as well; they
                             * pass through host memory if any rank asks for it */
  compute_event *after;     /**< recorded after the work that writes the input, kept until the call
                             * has ended; or NULL */
  uint64_t reserved[4];     /**< must be zero */
} compute_group_call_options;

/** output = the reduction of all ranks' inputs, on every rank. Same dtype and shape; may be the
 * same tensor. */
COMPUTE_API compute_status compute_group_all_reduce(compute_process_group *group,
                                                    compute_group_reduction reduction,
                                                    const compute_tensor *input,
                                                    compute_tensor *output,
                                                    const compute_group_call_options *options,
                                                    compute_group_request **request);

/** input [size · n, …] → output [n, …]: this rank's block of the reduction. The output may be a
 * view of that block of the input. */
COMPUTE_API compute_status compute_group_reduce_scatter(compute_process_group *group,
                                                        compute_group_reduction reduction,
                                                        const compute_tensor *input,
                                                        compute_tensor *output,
                                                        const compute_group_call_options *options,
                                                        compute_group_request **request);

/** input [n, …] → output [size · n, …]: all ranks' inputs in their order. The input may be a view
 * of this rank's block of the output. */
COMPUTE_API compute_status compute_group_all_gather(compute_process_group *group,
                                                    const compute_tensor *input,
                                                    compute_tensor *output,
                                                    const compute_group_call_options *options,
                                                    compute_group_request **request);

/** Copies the root's elements to all ranks. Nothing is written on the root. */
COMPUTE_API compute_status compute_group_broadcast(compute_process_group *group,
                                                   compute_tensor *tensor, int32_t root,
                                                   const compute_group_call_options *options,
                                                   compute_group_request **request);

/** Returns when every rank has called it. */
COMPUTE_API compute_status compute_group_barrier(compute_process_group *group);

/** Between two different ranks; only they call. The receiver's tensor has the sender's dtype and
 * count. Like all calls they are carried out in order, and each ends when the other side takes
 * part. Two ranks that both send to each other, or both receive, get
 * COMPUTE_ERROR_INVALID_ARGUMENT, and nothing is sent. */
COMPUTE_API compute_status compute_group_send(compute_process_group *group,
                                              const compute_tensor *tensor, int32_t to,
                                              const compute_group_call_options *options,
                                              compute_group_request **request);
COMPUTE_API compute_status compute_group_receive(compute_process_group *group,
                                                 compute_tensor *tensor, int32_t from,
                                                 const compute_group_call_options *options,
                                                 compute_group_request **request);

/* ---- Agreement ----------------------------------------------------------------------------- */

/** Collective. Whether all ranks have the same text: settings, a list of files, a hash, in lines.
 * If not, all get COMPUTE_ERROR_INVALID_ARGUMENT, which names the first rank that differs from rank
 * 0, and the first line that differs in each of the two texts. `operation` names the caller in
 * messages. */
COMPUTE_API compute_status compute_group_agree(compute_process_group *group, const char *operation,
                                               const char *text);

/** Collective, after a step that may fail on one rank alone (opening a file, for example). Every
 * rank passes its own status. COMPUTE_OK if all have succeeded. Otherwise a rank that has failed
 * gets its own status and error again; the others get the first failing rank's status, with its
 * rank and message. */
COMPUTE_API compute_status compute_group_check(compute_process_group *group, const char *operation,
                                               compute_status status);

#ifdef __cplusplus
}
#endif
#endif
