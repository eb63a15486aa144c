/* SPDX-License-Identifier: MIT */
/* Numbers names in the order of their appearance; time is linear in their number. */
#ifndef TOOLS_FIT_NAME_TABLE_H
#define TOOLS_FIT_NAME_TABLE_H

#include <jansson.h>
#include <stdint.h>

/* Zero is an empty table. */
typedef struct name_table {
  const char **names;
  size_t count;
  json_t *numbers; /* of each name */
} name_table;

void name_table_release(name_table *t);

/* The number of a name, which is new if it has none; −1 without memory. */
int32_t name_table_number(name_table *t, const char *name);

/* The number of a name, −1 if it has none. */
int32_t name_table_find(const name_table *t, const char *name);

#endif
