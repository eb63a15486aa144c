/* SPDX-License-Identifier: MIT */
/* compute-conformance: whether a backend keeps the promises of compute/backend.h.
 *
 * The suite opens the module as the core does and then calls its vtable itself, with services of
 * its own that count what the module takes, note what it says, and can fail. A case is a function;
 * whatever it makes through the calls below is released when it ends, however it ends. */
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
  EXTENT_QUICK,   /* the fewest kernels */
  EXTENT_DEFAULT, /* a share of the kernels where each takes a compiler */
  EXTENT_FULL     /* all */
} extent;

/* The module under test: the core's copy of its vtable, with NULL for slots that it lacks. */
typedef struct subject {
  const compute_backend *backend;
  const compute_services *core;   /* the services of the context that loaded it */
  uint32_t index;                 /* of the device */
  const conformance_hooks *hooks; /* NULL: none */
  extent extent;
  uint64_t seed;
  uint32_t spread; /* of the kernels one in so many */
} subject;

/* A running case. */
typedef struct run {
  const subject *subject;
  const compute_backend *backend;
  watched_services services;
  void *instance, *device;
  outcome outcome;
  char words[CASE_WORDS]; /* why it was refused, or what is wrong */
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
  bool own_device; /* opens instance and device itself */
} conformance_case;

/* Calls `add` with every case, in the order in which they run. */
typedef void (*case_visitor)(const conformance_case *c, void *user);
void module_cases(case_visitor add, void *user);
void memory_cases(case_visitor add, void *user);
void queue_cases(case_visitor add, void *user);
void kernel_cases(case_visitor add, void *user, bool compiles); /* compiles: fewer fits */
void fault_cases(case_visitor add, void *user, const conformance_hooks *hooks);

/* Runs one case; its outcome and words are in `r`. */
void case_run(run *r, const conformance_case *c);

/* ---- For cases ----------------------------------------------------------------------------- */

/* End the case. */
_Noreturn void case_fail(run *r, const char *format, ...) COMPUTE_PRINTF(2, 3);
_Noreturn void case_refuse(run *r, const char *format, ...) COMPUTE_PRINTF(2, 3);

/* The condition holds, or the case fails with these words. */
#define EXPECT(r, condition, ...)                                                                  \
  do {                                                                                             \
    if (!(condition)) case_fail(r, __VA_ARGS__);                                                   \
  } while (0)

/* The call gives this status, and if that is an error, the module has said why. */
void case_status(run *r, const char *call, compute_status actual, compute_status expected);
#define EXPECT_OK(r, call)             case_status(r, #call, call, COMPUTE_OK)
#define EXPECT_STATUS(r, call, status) case_status(r, #call, call, status)

/* The module offers these slots, or the case is refused. */
#define NEEDS(r, slot)                                                                             \
  do {                                                                                             \
    if (!(r)->backend->slot) case_refuse(r, "the module does not offer " #slot);                   \
  } while (0)

/* Make things that are released when the case ends; the first two ask for a kernel's descriptor
 * that is supported, or refuse the case with the module's reason. */
void *case_queue(run *r);
compute_memory *case_memory(run *r, uint64_t bytes);
void *case_kernel(run *r, const compute_kernel_descriptor *d);
void *case_event(run *r, void *queue);
void *case_timer(run *r, void *queue);
void *case_host_memory(run *r, uint64_t bytes);
void *case_recording(run *r, void *recording);
void *case_buffer(run *r, size_t bytes); /* the C library's, zeroed */

/* Copies between host and the beginning of a memory, waited for. */
void case_upload(run *r, void *queue, const compute_memory *memory, uint64_t offset,
                 const void *data, uint64_t bytes);
void case_download(run *r, void *queue, const compute_memory *memory, uint64_t offset, void *data,
                   uint64_t bytes);

/* y = 2 x + 1 over `count` f32: the kernel with which queues are tested. */
enum { AFFINE_COUNT = 1000 };
void *case_affine(run *r);

#endif
