/* SPDX-License-Identifier: MIT */
/** @file
 * The interface of a transport module, which moves bytes between the processes of a group.
 *
 * A transport is a shared library, libcompute-transport-NAME.so, found in the folders of the
 * backend modules, with one exported symbol, COMPUTE_TRANSPORT_ENTRY. The core does everything that
 * depends on tensors (pieces, sums, checks, time limits). A transport only starts operations on
 * bytes and reports whether they have ended.
 *
 * A module has one instance at a time. All calls for it come from one thread, `open` and `close`
 * included; only `prepare` is called on the program's thread that opens the group. At most one
 * operation is in progress, so it needs no tags. Every rank makes the same collective calls in the
 * same order.
 *
 * Functions return 0, or the module's own code, which is not 0; `error_text` explains it. */
#ifndef COMPUTE_TRANSPORT_H
#define COMPUTE_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "compute/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Another major version is refused; within one, members are only appended. */
#define COMPUTE_TRANSPORT_ABI_MAJOR 1
#define COMPUTE_TRANSPORT_ABI_MINOR 2
#define COMPUTE_TRANSPORT_ENTRY     "compute_transport_entry"

/** No call moves more bytes than this, in all of its parts together. */
#define COMPUTE_TRANSPORT_MOST_BYTES (1 << 30)

typedef struct compute_transport {
  uint64_t struct_size; /**< of this struct in the module's version */
  uint32_t abi_major, abi_minor;
  const char *name;

  /** Before each `open`: initialises the state of the process. May wait for the other processes. */
  int (*prepare)(void);

  /** Joins the processes that were started together. On success *instance, *rank and *size are set,
   * and `about` has the library's name and version. Any wait for the other processes is the
   * instance's first operation: `test` reports its end, so that the wait has a limit. `argument` is
   * NULL, or the argument that the caller of a built-in transport passes. */
  int (*open)(void *argument, void **instance, int32_t *rank, int32_t *size, char *about,
              size_t about_bytes);

  /** `orderly`: all ranks close, and nothing is in progress. Otherwise an operation in progress may
   * never end; the function must return nevertheless, without waiting. */
  void (*close)(void *instance, int orderly);

  /** Writes an explanation of a code that a function returned. `instance` is NULL after `prepare`
   * and `open`. */
  void (*error_text)(void *instance, int code, char *text, size_t text_bytes);

  /* ---- Starting an operation. The memory stays valid until `test` reports its end. ----------- */

  /** The part for rank r is `bytes[r]` long and begins at `send` + the lengths of the parts before
   * it. Rank r's part for this rank, `own_bytes` long for every r, goes to `receive` + r ·
   * own_bytes. */
  int (*exchange)(void *instance, const void *send, const int32_t *bytes, void *receive,
                  int32_t own_bytes);
  /** Every rank's part, bytes[r] long, goes to `receive` on all of them, in the order of ranks.
   * `send` is this rank's. */
  int (*gather)(void *instance, const void *send, void *receive, const int32_t *bytes);
  int (*broadcast)(void *instance, void *data, int32_t bytes, int32_t root);
  int (*send)(void *instance, const void *data, int32_t bytes, int32_t to);
  int (*receive)(void *instance, void *data, int32_t bytes, int32_t from);

  /** Whether the operation in progress has ended, without waiting: *done is 0 or 1. */
  int (*test)(void *instance, int *done);

  /* ---- Optional ---- */

  /** Whether gather, broadcast, send and receive take memory of a device of this type, in DLPack's
   * numbers (2 CUDA, 10 ROCm). The thread that makes these calls has the device's context. */
  int (*reaches)(void *instance, int32_t device_type);

  /** The ranks that an operation waits for once it has reached its time limit (since minor version
   * 2). Sets missing[r], one byte for each rank, to 1 for these ranks and to 0 for all others, as
   * far as is known. Must not wait. The core calls it again and again, for a second at most: the
   * first call may ask the other ranks, and later ones hear their answers. Returns a code other
   * than 0 if the transport cannot find out: the error then names no rank.
   *
   * MPI itself does not report the ranks that a collective operation waits for, so its modules ask.
   * A rank answers while it waits in a later operation or in the same one. A rank that has left the
   * operation and makes no call counts as missing. While a group opens nothing can be asked, since
   * the ranks do not have a communicator yet. */
  int (*missing)(void *instance, uint8_t *missing);
} compute_transport;

/** The type of the exported symbol. Never NULL. */
typedef const compute_transport *(*compute_transport_entry_function)(void);

COMPUTE_API const compute_transport *compute_transport_entry(void);

#ifdef __cplusplus
}
#endif
#endif
