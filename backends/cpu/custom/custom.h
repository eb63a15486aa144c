/* SPDX-License-Identifier: MIT */
/* The user's kernels on the CPU, compiled by the machine's C compiler.
 *
 * The dialect's source becomes one C file (source.c), which the compiler turns into a shared object
 * (compiler.c), whose functions run groups of items (custom.c): in loops, or, if items wait for
 * each other, each item on its own stack (fibers.c). */
#ifndef CPU_CUSTOM_CUSTOM_H
#define CPU_CUSTOM_CUSTOM_H

#include "core/cpu.h"

enum { CUSTOM_MOST_ITEMS = 1024 /* of a group */ };

/* ---- source.c -------------------------------------------------------------------------------- */

/* The object's exports. `loops` runs groups first … end − 1, in row-major order with x fastest;
 * `item` runs one item to completion, calling `wait` at its barriers.
 */
typedef void custom_loops(const void *arguments, const uint32_t *groups, const uint32_t *group,
                          uint64_t first, uint64_t end);
typedef void custom_item(const void *arguments, const uint32_t *groups, const uint32_t *group,
                         const uint32_t *group_id, const uint32_t *local_id,
                         void (*wait)(void *waiter), void *waiter);

typedef struct custom_parameter {
  uint64_t offset, bytes, is_pointer;
} custom_parameter;

#define CUSTOM_LOOPS      "compute_custom_loops" /* one of the two is set */
#define CUSTOM_ITEM       "compute_custom_item"
#define CUSTOM_PARAMETERS "compute_custom_parameters" /* custom_parameter[count] */
#define CUSTOM_COUNT      "compute_custom_count"      /* uint32_t */
#define CUSTOM_BYTES      "compute_custom_bytes"      /* uint64_t: of the struct of all arguments */

/* The whole C file for a kernel; to be freed with cpu_release. COMPUTE_ERROR_COMPILATION if there
 * is no such kernel, or its parameters cannot be parsed. */
compute_status custom_source(cpu_device *device, const char *source, const char *entry,
                             char **text);

/* ---- compiler.c ------------------------------------------------------------------------------ */

/* A loaded object. The loader identifies objects by path, here that of the anonymous file's
 * descriptor: it stays open while the object is loaded, so that no other gets the same number. */
typedef struct custom_object {
  const compute_services *services;
  void *handle; /* of dlopen; NULL: not loaded */
  int file;
} custom_object;

/* The source compiled, or found in the disk cache, and loaded; to be unloaded with custom_unload.
 * COMPUTE_ERROR_UNSUPPORTED where there is no compiler, _COMPILATION with its log, _FILE. */
compute_status custom_load(cpu_device *device, const char *text, const char *entry,
                           const char *options, custom_object *object);
void custom_unload(custom_object *object); /* does nothing where none is loaded */

/* ---- fibers.c -------------------------------------------------------------------------------- */

/* Whether this machine's registers are known. */
extern const bool custom_has_fibers;

/* Stacks for the items of a group. */
typedef struct custom_stacks {
  struct custom_stacks *next; /* for the owner's list */
  uint32_t items;
} custom_stacks;

/* NULL when out of memory. */
custom_stacks *custom_stacks_create(cpu_device *device, uint32_t items);
void custom_stacks_release(cpu_device *device, custom_stacks *stacks);

/* Runs the items of one group until all have ended. False if some ended while others waited at a
 * barrier: then the group is abandoned. */
bool custom_run_group(custom_stacks *stacks, custom_item *item, const void *arguments,
                      const uint32_t *groups, const uint32_t *group, const uint32_t *group_id);

/* ---- custom.c: of the vtable ----------------------------------------------------------------- */

compute_status cpu_custom_build(void *device, const char *source, const char *entry,
                                const char *options, void **kernel);
void cpu_custom_destroy(void *device, void *kernel);
compute_status cpu_custom_run(cpu_device *device, void *kernel, const uint32_t groups[3],
                              const uint32_t group[3], const compute_custom_argument *arguments,
                              uint32_t count);

#endif
