/* A context's validation: its options and counters, and reporting. */
#ifndef VALIDATE_CONTROL_H
#define VALIDATE_CONTROL_H

#include "compute/validate.h"
#include "device/device.h"

/* The options as they are now, the defaults filled in. */
void validation_options(struct validation *validation, compute_validation_options *options);

/* Adds to the counters. */
void validation_count(struct validation *validation, const compute_validation_statistics *more);

/* The finding in words. */
void validation_describe(const compute_validation_finding *finding, char *text, size_t bytes);

/* Logs it, and calls the caller's function. */
void validation_report(compute_context *context, const compute_validation_options *options,
                       const compute_validation_finding *finding);

#endif
