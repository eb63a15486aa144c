/* SPDX-License-Identifier: MIT */
/* Windows sends no signals to threads, so masks are kept and have no effect. Programs get SIGINT
 * and SIGTERM through sigaction. */
#ifndef PLATFORM_SIGNAL_H
#define PLATFORM_SIGNAL_H

#include_next <signal.h>

#include <sys/types.h>

#ifndef _POSIX
typedef _sigset_t sigset_t;
#endif

#define SIGKILL  9
#define SIGBUS   10
#define SIGSYS   12
#define SIGPIPE  13
#define SIGALRM  14
#define SIGTRAP  5
#define SIGHUP   1
#define SIGSTOP  19
#define SIGCONT  18
#define SIGPROF  27
#define SIGXFSZ  25
#define SIGRTMIN 30
#define SIGRTMAX 31
#define SIGUSR1  28
#define SIGUSR2  29

#define SIG_BLOCK    0
#define SIG_UNBLOCK  1
#define SIG_SETMASK  2
#define SA_RESTART   1
#define SA_RESETHAND 2

struct sigaction {
  void (*sa_handler)(int);
  sigset_t sa_mask;
  int sa_flags;
};

#define sigfillset      platform_sigfillset
#define sigemptyset     platform_sigemptyset
#define sigaddset       platform_sigaddset
#define sigdelset       platform_sigdelset
#define sigismember     platform_sigismember
#define pthread_sigmask platform_sigmask

static inline int sigfillset(sigset_t *set) {
  *set = ~(sigset_t)0;
  return 0;
}
static inline int sigemptyset(sigset_t *set) {
  *set = 0;
  return 0;
}
static inline int sigaddset(sigset_t *set, int number) {
  *set |= (sigset_t)1 << number;
  return 0;
}
static inline int sigdelset(sigset_t *set, int number) {
  *set &= ~((sigset_t)1 << number);
  return 0;
}
static inline int sigismember(const sigset_t *set, int number) {
  return (*set >> number & 1) != 0;
}

/* The mask of this thread, kept so that a caller finds again what it set. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *before);

#define sigaction(...) platform_sigaction(__VA_ARGS__)
int platform_sigaction(int number, const struct sigaction *action, struct sigaction *before);

#endif
