/* The parameters of compute_tuning as text: "group_x=64,vector=4", in the order of the struct and
 * without those that are 0; "-" when all are. The words are part of the tuning file's format. */
#ifndef TUNE_PARAMETERS_H
#define TUNE_PARAMETERS_H

#include "compute/backend.h"

#define PARAMETERS_BYTES 320 /* enough for every set of parameters */

/* Longer than any device could mean; keeps products of a few within 64 bits. */
#define PARAMETERS_LIMIT (UINT32_C(1) << 20)

/* Whether the `length` bytes at `text` are such a text: known names, each at most once, whole
 * numbers up to PARAMETERS_LIMIT. *tuning is complete on success, undefined otherwise. */
bool parameters_parse(const char *text, size_t length, compute_tuning *tuning);

/* Into `text`, which has PARAMETERS_BYTES and is returned. */
char *parameters_print(const compute_tuning *tuning, char *text);

bool parameters_none(const compute_tuning *tuning);
bool parameters_equal(const compute_tuning *a, const compute_tuning *b);

#endif
