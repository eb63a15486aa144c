/* SPDX-License-Identifier: MIT */
#include "support/harness/guest.h"

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/platform/names.h"
#include "support/harness/test.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { STACK = 1 << 20, PATTERN = 0xA5 };

/* Bits of MXCSR without a name in fenv.h. */
enum { FLUSH = 0x8000, SUBNORMALS_ARE_ZERO = 0x0040 };

typedef struct environment {
  const char *name;
  int rounding;
  unsigned flush;
  bool traps;
} environment;

static const environment environments[] = {
    {"the default", FE_TONEAREST, 0, false},
    {"upward", FE_UPWARD, 0, false},
    {"downward, traps", FE_DOWNWARD, 0, true},
    {"toward zero, flush", FE_TOWARDZERO, FLUSH | SUBNORMALS_ARE_ZERO, false},
    {"traps", FE_TONEAREST, 0, true},
    {"flush", FE_TONEAREST, FLUSH, false},
    {"subnormal inputs are zero", FE_TONEAREST, SUBNORMALS_ARE_ZERO, false},
    {"upward, flush, traps", FE_UPWARD, FLUSH | SUBNORMALS_ARE_ZERO, true},
};

size_t guest_environments(void) {
  return sizeof environments / sizeof *environments;
}

const char *guest_environment_name(size_t i) {
  return environments[i].name;
}

/* The state that a call must not change. */
typedef struct thread_state {
  int rounding, flags, traps;
  unsigned control;
  sigset_t signals;
} thread_state;

static thread_state state_read(void) {
  thread_state s = {.rounding = fegetround(), .flags = fetestexcept(FE_ALL_EXCEPT)};
#if defined(__GLIBC__)
  s.traps = fegetexcept();
#endif
#if defined(__x86_64__)
  s.control = _mm_getcsr();
#endif
  pthread_sigmask(SIG_BLOCK, NULL, &s.signals);
  return s;
}

static const char *state_difference(const thread_state *before, const thread_state *after) {
  if (before->rounding != after->rounding) return "rounding mode";
  if (before->traps != after->traps) return "traps";
  if (before->flags != after->flags) return "exception flags";
  if (before->control != after->control) return "control register";
  for (int s = 1; s < SIGRTMIN; s++)
    if (sigismember(&before->signals, s) != sigismember(&after->signals, s)) return "signal mask";
  return NULL;
}

typedef struct guest {
  const environment *environment;
  guest_call call;
  void *argument;
  const unsigned char *top; /* end of the stack that the call may use */
  guest_report report;
} guest;

static void enter(const environment *e) {
  feclearexcept(FE_ALL_EXCEPT);
  fesetround(e->rounding);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | e->flush);
#endif
#if defined(__GLIBC__)
  if (e->traps) feenableexcept(FE_ALL_EXCEPT);
#endif
}

static void *work(void *argument) {
  guest *g = argument;
  g->top = __builtin_frame_address(0);
  enter(g->environment);
  const thread_state before = state_read();
  const compute_status status = g->call(g->argument);
  const thread_state after = state_read();
  fesetenv(FE_DFL_ENV);
  g->report.status = status;
  g->report.changed = state_difference(&before, &after);
  return NULL;
}

guest_report guest_run(size_t number, guest_call call, void *argument) {
  guest g = {.environment = &environments[number], .call = call, .argument = argument};
  pthread_attr_t attributes;
  pthread_t thread;
  unsigned char *stack =
      mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(stack != MAP_FAILED);
  memset(stack, PATTERN, STACK);
  assert_int_equal(pthread_attr_init(&attributes), 0);
  assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK), 0);
  assert_int_equal(pthread_create(&thread, &attributes, work, &g), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  pthread_attr_destroy(&attributes);
  size_t untouched = 0;
  while (untouched < STACK && stack[untouched] == PATTERN) untouched++;
  g.report.stack_bytes = (size_t)(g.top - (stack + untouched));
  munmap(stack, STACK);
  return g.report;
}

bool guest_knows_stack(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return false;
#else
  return PLATFORM_NAME(true, false);
#endif
#else
  return PLATFORM_NAME(true, false);
#endif
}
