/* SPDX-License-Identifier: MIT */
/* A transport between threads of this process, with failures and delays at chosen places. It tests
 * groups of several ranks without MPI; each rank is a thread. */
#ifndef SUPPORT_LOOPBACK_H
#define SUPPORT_LOOPBACK_H

#include "compute/compute.h"
#include "compute/backend/transport.h"

#define LOOPBACK_MOST 8

typedef struct loopback_hub loopback_hub;

/* One rank as a thread. A failed check is reported to the test after all ranks have ended. */
typedef struct loopback_rank {
  loopback_hub *hub;
  int32_t rank, size;
  void *user;
  compute_context *context;
  compute_process_group *group; /* NULL if it did not open: see `opened` */
  compute_status opened;
  char failure[400]; /* "" if all checks passed */
  /* Set before the ranks start. */
  const char *backends, *device; /* NULL: "cpu,null" and the CPU */
  int32_t reaches;               /* DLPack device type whose memory may hold messages; 0: none */
  bool host_only;                /* option of the group */
  /* Faults, set before the ranks start. */
  double timeout;     /* of the group */
  uint64_t delays;    /* seed of random delays; 0: none */
  int64_t fail_at;    /* number of the transport call that fails, from 1; 0: none */
  int64_t silent_at;  /* from this call on, nothing is sent or arrives */
  bool tells_nothing; /* does not report the missing ranks */
  int64_t calls;
  bool orderly; /* how the transport was closed; valid when all have ended */
} loopback_rank;

/* Runs `function` for ranks 0 … size−1 on threads, each with its own context and group. The
 * returned ranks hold their reports; their contexts are closed. Fails the test if a check has
 * failed. */
typedef void (*loopback_function)(loopback_rank *self);
void loopback_run(int32_t size, loopback_function function, void *user, loopback_rank *ranks);

/* In a rank: records the first failed check. */
#define RANK_CHECK(self, condition)                                                                \
  loopback_check((self), (condition), #condition, __FILE__, __LINE__)
void loopback_check(loopback_rank *self, bool condition, const char *text, const char *file,
                    int line);

/* The last error's message contains `part`. */
bool loopback_says(const loopback_rank *self, const char *part);

#endif
