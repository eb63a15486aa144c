/* SPDX-License-Identifier: MIT */
/* Regular expressions, for RegexFullMatch. The process's locale has no effect. The time for a match
 * is at most proportional to the length of the text, times the length of the pattern with its
 * repeats written out, times the logarithm of the ranges in a set.
 *
 * Covered: characters, `.`, sets with ranges and classes ([a-z], [^\w.], [[:alpha:]]), the classes
 * \d \w \s and \D \W \S in ASCII, groups, alternatives, the repeats * + ? {m} {m,} {m,n} also lazy,
 * and ^ $ \b \B. Back references, look-around and flags are refused.
 *
 * Unlike in RE2, `{` is a repeat or an error and never a character. A repeat may follow a repeat:
 * a*+ is (a*)+. */
#ifndef MODEL_TEXT_PATTERN_H
#define MODEL_TEXT_PATTERN_H

#include "model/record.h"

typedef struct text_pattern {
  const struct pattern_state *states;
  const struct pattern_range *ranges;
  int32_t count, first, last; /* states */
} text_pattern;

/* Memory of a match. */
typedef struct pattern_memory {
  int32_t *states;
  uint32_t *marks;
  uint32_t mark;
} pattern_memory;

/* Compiles `source` into the recording's memory. COMPUTE_ERROR_UNSUPPORTED with the position for
 * syntax that is not covered, and for patterns that are too long with their repeats. */
compute_status pattern_compile(model_call *call, const char *source, text_pattern *pattern);

/* Returns false if out of memory. */
bool pattern_open(const text_pattern *pattern, pattern_memory *memory);
void pattern_close(pattern_memory *memory);

/* Sets *matches if the pattern matches the whole text. COMPUTE_ERROR_CANCELLED. */
compute_status pattern_match(host_call *call, const text_pattern *pattern, pattern_memory *memory,
                             const char *text, bool *matches);

#endif
