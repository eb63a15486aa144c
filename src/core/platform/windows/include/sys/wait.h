/* SPDX-License-Identifier: MIT */
/* There are no child processes to wait for. */
#ifndef PLATFORM_SYS_WAIT_H
#define PLATFORM_SYS_WAIT_H

#include <errno.h>
#include <sys/types.h>

#define WIFEXITED(status)   0
#define WIFSIGNALED(status) 0
#define WEXITSTATUS(status) (status)
#define WTERMSIG(status)    (status)
#define WNOHANG             1

static inline pid_t waitpid(pid_t child, int *status, int flags) {
  (void)child;
  (void)status;
  (void)flags;
  errno = ECHILD;
  return -1;
}

#endif
