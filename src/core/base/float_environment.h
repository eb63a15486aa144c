/* SPDX-License-Identifier: MIT */
/* The floating-point environment of a call: rounding, subnormal numbers, and traps.
 *
 * A program may round upward, flush subnormal numbers to zero, or trap exceptions. Our results must
 * not depend on this, and our exceptions must not stop the program. So each public function that
 * computes begins with FLOAT_ENVIRONMENT_DEFAULT. It sets the default environment of C until the
 * function returns, and then restores the caller's environment with its exception flags. The check
 * costs a few cycles, because registers are written only where they differ.
 *
 * The library's threads start in the default environment (core/base/thread.h). Callbacks run in it,
 * and code that calls one restores it afterwards with float_environment_default. Header-only, so
 * that backends can use it. */
#ifndef BASE_FLOAT_ENVIRONMENT_H
#define BASE_FLOAT_ENVIRONMENT_H

#include <stdint.h>

#if defined(__x86_64__)

#include <xmmintrin.h>

enum {
  FLOAT_MXCSR_DEFAULT = 0x1F80, /* all exceptions masked, round to nearest */
  FLOAT_X86_FLAGS = 0x3F,       /* the exception flags of both units */
  FLOAT_X87_DEFAULT = 0x37F     /* all exceptions masked, round to nearest, extended precision */
};

/* The state of the x87 as FNSTENV stores it. word[1] is the status with the exception flags. */
typedef struct float_x87_state {
  uint32_t word[7];
} float_x87_state;

typedef struct float_environment {
  uint32_t mxcsr;
  uint16_t x87_control, x87_status;
  float_x87_state x87; /* valid if x87_control is not the default */
} float_environment;

static inline float_environment float_environment_default(void) {
  float_environment before;
  before.mxcsr = _mm_getcsr();
  __asm__ volatile("fnstcw %0" : "=m"(before.x87_control));
  __asm__ volatile("fnstsw %0" : "=m"(before.x87_status));
  if ((before.mxcsr & ~(uint32_t)FLOAT_X86_FLAGS) != FLOAT_MXCSR_DEFAULT)
    _mm_setcsr(FLOAT_MXCSR_DEFAULT);
  if (before.x87_control != FLOAT_X87_DEFAULT) {
    static const uint16_t standard = FLOAT_X87_DEFAULT;
    __asm__ volatile("fnstenv %0\n\tfnclex\n\tfldcw %1" : "=m"(before.x87) : "m"(standard));
  }
  return before;
}

static inline void float_environment_restore(const float_environment *before) {
  if (_mm_getcsr() != before->mxcsr) _mm_setcsr(before->mxcsr);
  uint16_t x87_status;
  __asm__ volatile("fnstsw %0" : "=m"(x87_status));
  if (before->x87_control != FLOAT_X87_DEFAULT) {
    __asm__ volatile("fldenv %0" : : "m"(before->x87));
  } else if ((x87_status ^ before->x87_status) & FLOAT_X86_FLAGS) {
    /* Code with long double may raise flags, such as strtod and some C libraries' math
     * functions. */
    float_x87_state x87;
    __asm__ volatile("fnstenv %0" : "=m"(x87));
    x87.word[1] = (x87.word[1] & ~(uint32_t)FLOAT_X86_FLAGS) |
                  (before->x87_status & (uint32_t)FLOAT_X86_FLAGS);
    __asm__ volatile("fldenv %0" : : "m"(x87));
  }
}

#elif defined(__aarch64__)

typedef struct float_environment {
  uint64_t control, status;
} float_environment;

static inline float_environment float_environment_default(void) {
  float_environment before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before.control));
  __asm__ volatile("mrs %0, fpsr" : "=r"(before.status));
  if (before.control != 0) __asm__ volatile("msr fpcr, xzr");
  return before;
}

static inline void float_environment_restore(const float_environment *before) {
  uint64_t status;
  __asm__ volatile("mrs %0, fpsr" : "=r"(status));
  if (status != before->status) __asm__ volatile("msr fpsr, %0" : : "r"(before->status));
  if (before->control != 0) __asm__ volatile("msr fpcr, %0" : : "r"(before->control));
}

#else

#include <fenv.h>

typedef struct float_environment {
  fenv_t environment;
} float_environment;

static inline float_environment float_environment_default(void) {
  float_environment before;
  fegetenv(&before.environment);
  fesetenv(FE_DFL_ENV);
  return before;
}

static inline void float_environment_restore(const float_environment *before) {
  fesetenv(&before->environment);
}

#endif

/* The first statement of a function: sets the default environment until it returns. */
#define FLOAT_ENVIRONMENT_DEFAULT                                                                  \
  const float_environment float_environment_before                                                 \
      __attribute__((cleanup(float_environment_restore), unused)) = float_environment_default()

#endif
