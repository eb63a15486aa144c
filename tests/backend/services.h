/* SPDX-License-Identifier: MIT */
/* Services for a module under test: the core's services, but memory is counted and can fail, and
 * the module's messages about failures are kept. */
#ifndef BACKEND_SERVICES_H
#define BACKEND_SERVICES_H

#include <pthread.h>
#include <stdatomic.h>

#include "compute/backend.h"

enum { SERVICES_WORDS = 400 };

typedef struct watched_services {
  compute_services services; /* passed to the module; its host is this struct */
  const compute_services *core;
  _Atomic int64_t live, requests, failures; /* of allocate */
  int64_t fail_at;                          /* number of the failing request; 0: none */
  bool onward;                              /* and all later ones */
  _Atomic int64_t fails;                    /* calls of fail and fail_index */
  pthread_mutex_t mutex;                    /* protects the last of those calls, below */
  compute_status status;
  char words[SERVICES_WORDS];
  uint32_t label;
  int64_t index, offset;
} watched_services;

void services_watch(watched_services *services, const compute_services *core);

/* From now on, request number `nth` for memory fails (0: none); with `onward`, so do all later
 * ones. */
void services_arm(watched_services *services, int64_t nth, bool onward);

/* services_forget clears the module's messages. services_said returns the last status explained
 * since then, and its message (SERVICES_WORDS bytes). COMPUTE_OK: none. */
void services_forget(watched_services *services);
compute_status services_said(watched_services *services, char *words);

/* Returns the arguments of fail_index; false if it was not called since. */
bool services_index(watched_services *services, uint32_t *label, int64_t *index, int64_t *offset);

#endif
