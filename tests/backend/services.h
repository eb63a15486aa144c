/* SPDX-License-Identifier: MIT */
/* Services for a module under test: the core's, but memory is counted and can fail, and what the
 * module says of its failures is kept. */
#ifndef BACKEND_SERVICES_H
#define BACKEND_SERVICES_H

#include <pthread.h>

#include "compute/backend.h"

enum { SERVICES_WORDS = 400 };

typedef struct watched_services {
  compute_services services; /* what the module is given; its host is this struct */
  const compute_services *core;
  int64_t live, requests, failures; /* atomic: of allocate */
  int64_t fail_at;                  /* the request that fails; 0: none */
  bool onward;                      /* and all after it */
  int64_t fails;                    /* atomic: calls of fail and fail_index */
  pthread_mutex_t mutex;            /* of what follows: the last of those calls */
  compute_status status;
  char words[SERVICES_WORDS];
  uint32_t label;
  int64_t index, offset;
} watched_services;

void services_watch(watched_services *services, const compute_services *core);

/* From now on the nth request for memory fails (0: none), and with `onward` all after it. */
void services_arm(watched_services *services, int64_t nth, bool onward);

/* Forgets what the module has said; gives the last status that it explained since, and the words
 * (SERVICES_WORDS bytes). COMPUTE_OK: none. */
void services_forget(watched_services *services);
compute_status services_said(watched_services *services, char *words);

/* Like fail_index's arguments; false if it was not called since. */
bool services_index(watched_services *services, uint32_t *label, int64_t *index, int64_t *offset);

#endif
