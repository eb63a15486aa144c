/* SPDX-License-Identifier: MIT */
/* Starting a program with chosen descriptors and signals: not supported here. posix_spawn returns
 * ENOSYS. */
#ifndef PLATFORM_SPAWN_H
#define PLATFORM_SPAWN_H

#include <errno.h>
#include <signal.h>
#include <sys/types.h>

typedef struct posix_spawn_file_actions {
  int unused;
} posix_spawn_file_actions_t;
typedef struct posix_spawnattr {
  int unused;
} posix_spawnattr_t;

#define POSIX_SPAWN_SETSIGMASK 1
#define POSIX_SPAWN_SETSIGDEF  2

#define posix_spawn_file_actions_init(actions) ((void)(actions), ENOSYS)
#define posix_spawn_file_actions_addopen(actions, number, path, flags, mode)                       \
  ((void)(actions), (void)(path), ENOSYS)
#define posix_spawn_file_actions_adddup2(actions, a, b) ((void)(actions), ENOSYS)
#define posix_spawn_file_actions_destroy(actions)       ((void)(actions))
#define posix_spawnattr_init(how)                       ((void)(how), ENOSYS)
#define posix_spawnattr_setflags(how, flags)            ((void)(how))
#define posix_spawnattr_setsigmask(how, set)            ((void)(how), (void)(set))
#define posix_spawnattr_setsigdefault(how, set)         ((void)(how), (void)(set))
#define posix_spawnattr_destroy(how)                    ((void)(how))
#define posix_spawn(child, path, files, how, words, variables)                                     \
  ((void)(child), (void)(path), (void)(files), (void)(how), (void)(words), (void)(variables),      \
   ENOSYS)

#endif
