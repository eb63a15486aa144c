/* Parsing COMPUTE_TUNING. Half a text is worse than none: whoever forces parameters wants to know
 * that all of them are in force, so the first mistake voids everything. */
#include "tune/forced.h"

#include <stdio.h>
#include <string.h>

#include "tune/parameters.h"

#define REASON_BYTES 128

static bool parse_rule(const char *text, size_t length, forced_rules *rules, char *reason) {
  const char *colon = memchr(text, ':', length);
  const int shown = length < 60 ? (int)length : 60;
  if (!colon) {
    snprintf(reason, REASON_BYTES, "'%.*s' has no ':'", shown, text);
    return false;
  }
  const size_t kernels = (size_t)(colon - text);
  if (!kernel_class_valid(text, kernels)) {
    snprintf(reason, REASON_BYTES, "'%.*s' names no class of kernels", shown, text);
    return false;
  }
  if (rules->count == FORCED_RULES) {
    snprintf(reason, REASON_BYTES, "more than %d rules", FORCED_RULES);
    return false;
  }
  if (!parameters_parse(colon + 1, length - kernels - 1, &rules->rule[rules->count].tuning)) {
    snprintf(reason, REASON_BYTES, "'%.*s' has no well-formed parameters", shown, text);
    return false;
  }
  memcpy(rules->rule[rules->count].kernels, text, kernels);
  rules->rule[rules->count].kernels[kernels] = '\0';
  rules->count++;
  return true;
}

bool forced_parse(const char *text, forced_rules *rules, char *reason) {
  memset(rules, 0, sizeof *rules);
  while (*text) {
    size_t length = strcspn(text, ";");
    const char *next = text + length + (text[length] == ';');
    while (length > 0 && *text == ' ') text++, length--;
    while (length > 0 && text[length - 1] == ' ') length--;
    if (length > 0 && !parse_rule(text, length, rules, reason)) {
      rules->count = 0;
      return false;
    }
    text = next;
  }
  return true;
}

bool forced_find(const forced_rules *rules, const char *kernel_class, compute_tuning *tuning) {
  int best = KERNEL_CLASS_APART;
  for (uint32_t i = 0; i < rules->count; i++) {
    int fit = kernel_class_fit(rules->rule[i].kernels, kernel_class);
    if (fit == KERNEL_CLASS_APART || (best != KERNEL_CLASS_APART && fit > best)) continue;
    best = fit;
    *tuning = rules->rule[i].tuning;
  }
  return best != KERNEL_CLASS_APART;
}
