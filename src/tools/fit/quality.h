/* Fits against the truth, in words and as JSON: shared by fit and validate. */
#ifndef TOOLS_FIT_QUALITY_H
#define TOOLS_FIT_QUALITY_H

#include "tools/fit/statistics.h"
#include "tools/json_text.h"

/* {"x": {"count", "bias", "bias_standard_error", "std", "crlb", "std_over_crlb"}, …}; parameters
 * that were `fixed` (bits) are left out. */
json_t *quality_errors_json(const statistics *s, uint32_t fixed);

/* {"count", "ks_distance", "ks_probability", "below_0.01", "below_0.05", "histogram"}; null where
 * there are no numbers. */
json_t *quality_uniformity_json(const uniformity *u);

/* A table with a line for each parameter, on standard output. */
void quality_print_errors(const statistics *s, uint32_t fixed);

/* "p-value …" as a line. */
void quality_print_uniformity(const char *name, const uniformity *u);

#endif
