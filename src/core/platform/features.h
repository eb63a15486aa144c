/* SPDX-License-Identifier: MIT */
/* Instructions that only some processors of a kind have: aarch64 and riscv64. On other processors
 * the compiler's own functions tell. For modules, so it is a header only. */
#ifndef PLATFORM_FEATURES_H
#define PLATFORM_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum platform_feature {
  PLATFORM_DOTPROD, /* aarch64: dot products of bytes */
  PLATFORM_I8MM,    /* aarch64: products of matrices of bytes */
  PLATFORM_BF16,    /* aarch64: dot products and conversions of bf16 */
  PLATFORM_RVV,     /* riscv64: vectors, 1.0 */
} platform_feature;

#if defined(__linux__) && (defined(__aarch64__) || defined(__riscv))
#include <sys/auxv.h>

/* Returns true if the processor has the feature and the system saves its registers. Any thread may
 * call it. The bits are numbers here, because older headers lack their names. */
static inline bool platform_has(platform_feature feature) {
#if defined(__aarch64__)
  switch (feature) {
  case PLATFORM_DOTPROD: return getauxval(AT_HWCAP) >> 20 & 1;
  case PLATFORM_I8MM: return getauxval(AT_HWCAP2) >> 13 & 1;
  case PLATFORM_BF16: return getauxval(AT_HWCAP2) >> 14 & 1;
  default: return false;
  }
#else
  return feature == PLATFORM_RVV && getauxval(AT_HWCAP) >> ('V' - 'A') & 1;
#endif
}
#elif defined(__APPLE__) && defined(__aarch64__)
#include <sys/sysctl.h>

static inline bool platform_has(platform_feature feature) {
  const char *const name = feature == PLATFORM_DOTPROD ? "hw.optional.arm.FEAT_DotProd"
                           : feature == PLATFORM_I8MM  ? "hw.optional.arm.FEAT_I8MM"
                           : feature == PLATFORM_BF16  ? "hw.optional.arm.FEAT_BF16"
                                                       : "";
  int has = 0;
  size_t size = sizeof has;
  return sysctlbyname(name, &has, &size, NULL, 0) == 0 && has;
}
#else
static inline bool platform_has(platform_feature feature) {
  (void)feature;
  return false;
}
#endif

#endif
