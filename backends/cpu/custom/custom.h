/* SPDX-License-Identifier: MIT */
/* The user's custom kernels on the CPU, compiled by the machine's C compiler.
 *
 * source.c turns the kernel in the dialect into one C file, and compiler.c compiles that to a
 * shared object. custom.c runs its groups of items: in loops, or, if items wait for each other,
 * with a separate stack for each item (fibers.c). */
#ifndef CPU_CUSTOM_CUSTOM_H
#define CPU_CUSTOM_CUSTOM_H

#include "core/cpu.h"

enum { CUSTOM_MOST_ITEMS = 1024 /* per group */ };

/* ---- source.c -------------------------------------------------------------------------------- */

/* The object's exports. `loops` runs groups first … end − 1, in row-major order with x fastest.
 * `item` runs one item to completion and calls `wait` at its barriers. */
typedef void custom_loops(const void *arguments, const uint32_t *groups, const uint32_t *group,
                          uint64_t first, uint64_t end);
typedef void custom_item(const void *arguments, const uint32_t *groups, const uint32_t *group,
                         const uint32_t *group_id, const uint32_t *local_id,
                         void (*wait)(void *waiter), void *waiter);

typedef struct custom_parameter {
  uint64_t offset, bytes, is_pointer;
} custom_parameter;

#define CUSTOM_LOOPS      "compute_custom_loops" /* one of the two exists */
#define CUSTOM_ITEM       "compute_custom_item"
#define CUSTOM_PARAMETERS "compute_custom_parameters" /* custom_parameter[count] */
#define CUSTOM_COUNT      "compute_custom_count"      /* uint32_t */
#define CUSTOM_BYTES      "compute_custom_bytes"      /* uint64_t: of all arguments */

/* Writes the whole C file for a kernel; release it with cpu_release. COMPUTE_ERROR_COMPILATION if
 * there is no such kernel, or its parameters cannot be parsed. */
compute_status custom_source(cpu_device *device, const char *source, const char *entry,
                             char **text);

/* ---- compiler.c ------------------------------------------------------------------------------ */

/* A loaded object. The loader identifies objects by path; here the path names the anonymous file's
 * descriptor. The descriptor stays open while the object is loaded, so that no other file gets the
 * same number. */
typedef struct custom_object {
  const compute_services *services;
  void *handle; /* from dlopen; NULL: not loaded */
  int file;
} custom_object;

/* Compiles the source, or finds it in the disk cache, and loads it; release with custom_unload.
 * COMPUTE_ERROR_UNSUPPORTED if there is no compiler, _COMPILATION with its log, _FILE. */
compute_status custom_load(cpu_device *device, const char *text, const char *entry,
                           const char *options, custom_object *object);
void custom_unload(custom_object *object); /* does nothing if none is loaded */

/* ---- fibers.c -------------------------------------------------------------------------------- */

/* `true` if fibers support this machine's registers. */
extern const bool custom_has_fibers;

/* Stacks for the items of a group. */
typedef struct custom_stacks {
  struct custom_stacks *next; /* for the owner's list */
  uint32_t items;
} custom_stacks;

/* NULL if out of memory. */
custom_stacks *custom_stacks_create(cpu_device *device, uint32_t items);
void custom_stacks_release(cpu_device *device, custom_stacks *stacks);

/* Runs the items of one group until all have ended. False if some ended while others waited at a
 * barrier: the group is then abandoned. */
bool custom_run_group(custom_stacks *stacks, custom_item *item, const void *arguments,
                      const uint32_t *groups, const uint32_t *group, const uint32_t *group_id);

/* ---- custom.c: slots of the vtable ----------------------------------------------------------- */

compute_status cpu_custom_build(void *device, const char *source, const char *entry,
                                const char *options, void **kernel);
void cpu_custom_destroy(void *device, void *kernel);
compute_status cpu_custom_run(cpu_device *device, void *kernel, const uint32_t groups[3],
                              const uint32_t group[3], const compute_custom_argument *arguments,
                              uint32_t count);

#endif
