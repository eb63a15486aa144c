/* SPDX-License-Identifier: MIT */
/* compute-conformance checks that a backend keeps the promises of compute/backend.h.
 *
 * The suite opens the module like the core and then calls its vtable directly. Its own services
 * count the module's allocations, record its messages, and can fail. A case is a function. All
 * objects that it makes through the calls below are released when it ends, in whatever way. */
#ifndef BACKEND_CONFORMANCE_H
#define BACKEND_CONFORMANCE_H

#include <setjmp.h>

#include "backend/conformance_hooks.h"
#include "backend/services.h"
#include "compute/compute.h"

enum { CASE_NAME = 128, CASE_WORDS = 600, CASE_THINGS = 256 };

typedef enum outcome { OUTCOME_PASSED, OUTCOME_REFUSED, OUTCOME_FAILED } outcome;

const char *outcome_name(outcome which);

typedef enum extent {
  EXTENT_QUICK,   /* the minimum of kernels */
  EXTENT_DEFAULT, /* all kernels, or a share if each needs a compiler */
  EXTENT_FULL     /* all */
} extent;

/* The module under test: the core's copy of its vtable, with NULL for missing slots. */
typedef struct subject {
  const compute_backend *backend;
  const compute_services *core;   /* services of the context that loaded it */
  uint32_t index;                 /* index of the device */
  const conformance_hooks *hooks; /* NULL: none */
  extent extent;
  uint64_t seed;
  uint32_t spread; /* runs one kernel in so many */
} subject;

/* A running case. */
typedef struct run {
  const subject *subject;
  const compute_backend *backend;
  watched_services services;
  void *instance, *device;
  outcome outcome;
  char words[CASE_WORDS]; /* reason of the refusal, or the error */
  jmp_buf end;
  struct {
    int kind;
    void *handle;
    compute_memory memory;
  } things[CASE_THINGS];
  uint32_t thing_count;
} run;

typedef struct conformance_case {
  const char *name; /* "memory/alignment" */
  void (*function)(run *r, const void *user);
  const void *user;
  bool own_device; /* opens its own instance and device */
} conformance_case;

/* Calls `add` with every case in the order of execution. */
typedef void (*case_visitor)(const conformance_case *c, void *user);
void module_cases(case_visitor add, void *user);
void memory_cases(case_visitor add, void *user);
void queue_cases(case_visitor add, void *user);
void kernel_cases(case_visitor add, void *user, bool compiles); /* compiles: fewer fits */
void fault_cases(case_visitor add, void *user, const conformance_hooks *hooks);

/* Runs one case; `r` gets its outcome and message. */
void case_run(run *r, const conformance_case *c);

/* ---- For cases ----------------------------------------------------------------------------- */

/* End the case. */
_Noreturn void case_fail(run *r, const char *format, ...) COMPUTE_PRINTF(2, 3);
_Noreturn void case_refuse(run *r, const char *format, ...) COMPUTE_PRINTF(2, 3);

/* Fails the case with this message unless the condition holds. */
#define EXPECT(r, condition, ...)                                                                  \
  do {                                                                                             \
    if (!(condition)) case_fail(r, __VA_ARGS__);                                                   \
  } while (0)

/* Checks that the call returns this status, and that the module explained an error. */
void case_status(run *r, const char *call, compute_status actual, compute_status expected);
#define EXPECT_OK(r, call)             case_status(r, #call, call, COMPUTE_OK)
#define EXPECT_STATUS(r, call, status) case_status(r, #call, call, status)

/* Refuses the case if the module lacks a slot. */
#define NEEDS(r, slot)                                                                             \
  do {                                                                                             \
    if (!(r)->backend->slot) case_refuse(r, "the module does not offer " #slot);                   \
  } while (0)

/* Make objects that are released when the case ends. case_kernel refuses the case with the module's
 * reason if the descriptor is not supported. */
void *case_queue(run *r);
compute_memory *case_memory(run *r, uint64_t bytes);
void *case_kernel(run *r, const compute_kernel_descriptor *d);
void *case_event(run *r, void *queue);
void *case_timer(run *r, void *queue);
void *case_host_memory(run *r, uint64_t bytes);
void *case_recording(run *r, void *recording);
void *case_buffer(run *r, size_t bytes); /* from the C library, zeroed */

/* Copy between the host and a memory, from `offset` on, and wait. */
void case_upload(run *r, void *queue, const compute_memory *memory, uint64_t offset,
                 const void *data, uint64_t bytes);
void case_download(run *r, void *queue, const compute_memory *memory, uint64_t offset, void *data,
                   uint64_t bytes);

/* y = 2 x + 1 over `count` f32: the kernel for the tests of queues. */
enum { AFFINE_COUNT = 1000 };
void *case_affine(run *r);

#endif
