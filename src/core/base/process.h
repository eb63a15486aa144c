/* SPDX-License-Identifier: MIT */
/* Forks of the process.
 *
 * A forked child has one thread. Locks of other threads stay locked in the child, and their changes
 * stay incomplete. So the child does not use the parent's contexts (device.h), and this file resets
 * the state that all contexts of a process share. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdint.h>

/* Counts forks since process_watch; each forked child increments its copy. 0 in a process that is
 * no forked child. Written only in the child, before fork returns. */
extern uint32_t process_forks;

/* Starts to watch for forks. Thread-safe; later calls do nothing. */
void process_watch(void);

/* A room's functions for its locks. They run before a fork, and then in the parent and in the
 * child, on the forking thread. `before` may wait only for locks that are locked briefly, without
 * calls to foreign code. Each may be NULL. */
typedef struct process_hooks {
  void (*before)(void), (*in_parent)(void), (*in_child)(void);
} process_hooks;

/* Registers constant hooks, each once. Thread-safe. */
void process_at_fork(const process_hooks *hooks);

/* Put these around calls that load libraries; they nest. A fork on another thread waits for their
 * end, for at most two seconds. Otherwise the loader's state would be incomplete in the child, and
 * the child's next dlopen would end it. */
void process_load_begin(void);
void process_load_end(void);

/* Fork handlers of this room, called in the child. */
void base_allocator_forked(void);
void error_forked(void);
void log_forked(void);

#endif
