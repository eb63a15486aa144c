/* SPDX-License-Identifier: MIT */
/* Shared by operators on texts (call/text.h). Texts are UTF-8. A byte that is no part of a
 * character counts as U+FFFD. */
#ifndef MODEL_OPERATORS_TEXT_H
#define MODEL_OPERATORS_TEXT_H

#include "model/record.h"

/* The next character of a text, or 0 at its end. Advances *text. */
uint32_t text_next(const char **text);

/* Equal for two inputs of texts. */
compute_status text_equal(model_call *call);

/* A text of a list that is sorted by text_sort. */
typedef struct text_entry {
  const char *text;
  int64_t at; /* in the list before */
} text_entry;

/* `count` texts in order; NULL if out of memory. */
text_entry *text_sort(model_call *call, const char *const *texts, size_t count);

/* The first place of a text in its list, or −1. */
int64_t text_place(const text_entry *sorted, size_t count, const char *text);

#endif
