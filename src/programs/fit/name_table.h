/* SPDX-License-Identifier: MIT */
/* Numbers names in the order of their appearance, in constant time per name on average. */
#ifndef TOOLS_FIT_NAME_TABLE_H
#define TOOLS_FIT_NAME_TABLE_H

#include <jansson.h>
#include <stdint.h>

/* Zero-initialised: an empty table. */
typedef struct name_table {
  const char **names;
  size_t count;
  json_t *numbers; /* name → number */
} name_table;

void name_table_release(name_table *t);

/* The number of a name; a new name gets the next number. −1 when out of memory. */
int32_t name_table_number(name_table *t, const char *name);

/* The number of a name; −1 if it has none. */
int32_t name_table_find(const name_table *t, const char *name);

#endif
