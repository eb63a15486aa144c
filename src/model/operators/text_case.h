/* SPDX-License-Identifier: MIT */
/* Upper and lower case of single characters, independent of the process's locale. */
#ifndef MODEL_TEXT_CASE_H
#define MODEL_TEXT_CASE_H

#include <stdbool.h>
#include <stdint.h>

/* The character in the other case, or itself. Covers Latin, Greek, Cyrillic and Armenian letters
 * that have one character in both cases. */
uint32_t text_case(uint32_t character, bool upper);

#endif
