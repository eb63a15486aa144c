/* SPDX-License-Identifier: MIT */
/* Forks of the process.
 *
 * A forked child has one thread: whatever another one had locked stays locked there, and what it
 * was changing stays half changed. So contexts of the parent are not used in the child (device.h),
 * and what all contexts of a process share is put into a defined state there. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdint.h>

/* How often the process was forked since process_watch, counted in the child; 0 in a process that
 * is nobody's child. Written only between a fork and its return. */
extern uint32_t process_forks;

/* Watches for forks from now on. Thread-safe; later calls do nothing. */
void process_watch(void);

/* What a room does about its own locks: before a fork, and afterwards in the parent and in the
 * child, on the thread that forks. `before` may wait for locks that are held for moments only, with
 * no call of others within. Any may be NULL. */
typedef struct process_hooks {
  void (*before)(void), (*in_parent)(void), (*in_child)(void);
} process_hooks;

/* Adds constant hooks, each once. Thread-safe. */
void process_at_fork(const process_hooks *hooks);

/* Brackets around calls that load libraries, which nest: a fork on another thread waits for their
 * end, for at most two seconds. The loader's state would otherwise be half changed in the
 * child, whose next dlopen would end it. */
void process_load_begin(void);
void process_load_end(void);

/* What rooms below do then. */
void base_allocator_forked(void);
void error_forked(void);
void log_forked(void);

#endif
