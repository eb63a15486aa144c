/* SPDX-License-Identifier: MIT */
/* Upper and lower case of single characters, independent of the process's locale. */
#ifndef MODEL_TEXT_CASE_H
#define MODEL_TEXT_CASE_H

#include <stdbool.h>
#include <stdint.h>

/* The character in upper or lower case. Itself if that case has several characters, or is unknown to
 * Unicode 14. */
uint32_t text_case(uint32_t character, bool upper);

#endif
