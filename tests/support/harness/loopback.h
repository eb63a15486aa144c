/* SPDX-License-Identifier: MIT */
/* A transport between threads of this process, so that groups of several ranks are tested without
 * MPI, with failures and delays at chosen places; and the ranks as threads. */
#ifndef SUPPORT_LOOPBACK_H
#define SUPPORT_LOOPBACK_H

#include "compute/compute.h"
#include "compute/transport.h"

#define LOOPBACK_MOST 8

typedef struct loopback_hub loopback_hub;

/* One rank as a thread. A check that fails there is told to the test when all have ended. */
typedef struct loopback_rank {
  loopback_hub *hub;
  int32_t rank, size;
  void *user;
  compute_context *context;
  compute_process_group *group; /* NULL if it did not open: then `opened` says why */
  compute_status opened;
  char failure[400]; /* "" if everything is right */
  /* Set before the ranks start. */
  const char *backends, *device; /* opened, and the default device; NULL: "cpu,null", the CPU */
  int32_t reaches;               /* a type of devices, by DLPack, whose memory messages may be in */
  bool host_only;                /* of the group's options */
  /* Faults, likewise. */
  double timeout;     /* of the group */
  uint64_t delays;    /* a seed of random delays; 0: none */
  int64_t fail_at;    /* the call of the transport that fails, from 1; 0: none */
  int64_t silent_at;  /* the call from which on nothing is sent or arrives */
  bool tells_nothing; /* of which ranks are missing */
  int64_t calls;
  bool orderly; /* how the transport was closed, when all have ended */
} loopback_rank;

/* Runs `function` for ranks 0 … size−1 on threads with a context and a group each. The ranks are
 * returned for what they say; their contexts are closed. Fails the test if a check has failed. */
typedef void (*loopback_function)(loopback_rank *self);
void loopback_run(int32_t size, loopback_function function, void *user, loopback_rank *ranks);

/* In a rank: notes the first check that fails. */
#define RANK_CHECK(self, condition)                                                                \
  loopback_check((self), (condition), #condition, __FILE__, __LINE__)
void loopback_check(loopback_rank *self, bool condition, const char *text, const char *file,
                    int line);

/* The last error's message contains `part`. */
bool loopback_says(const loopback_rank *self, const char *part);

#endif
