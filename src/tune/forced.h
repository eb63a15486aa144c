/* The text of COMPUTE_TUNING: which kernels get which parameters, whatever else is known.
 *
 *   text = rule { ";" rule }      rule = kernels ":" parameters
 *
 * with a class or the beginning of one (kernel_class.h) and parameters (parameters.h):
 * "gemm:tile_m=64,tile_n=64;map/f16>f16:vector=8". Spaces around rules are allowed, as is an empty
 * rule. Parameters that a rule does not name are the generator's judgement. */
#ifndef TUNE_FORCED_H
#define TUNE_FORCED_H

#include "compute/backend.h"
#include "tune/kernel_class.h"

#define FORCED_RULES 32

typedef struct forced_rules {
  uint32_t count;
  struct {
    char kernels[KERNEL_CLASS_BYTES];
    compute_tuning tuning;
  } rule[FORCED_RULES];
} forced_rules;

/* False if the text is malformed; then there are no rules and `reason` (≥ 128 bytes) says why. */
bool forced_parse(const char *text, forced_rules *rules, char *reason);

/* The best rule for a class; of equally good ones, the last. */
bool forced_find(const forced_rules *rules, const char *kernel_class, compute_tuning *tuning);

#endif
