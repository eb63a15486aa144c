/* SPDX-License-Identifier: MIT */
/* jansson's JSON object is a hash table with a random seed, so no file can choose names that
 * collide. */
#include "programs/fit/name_table.h"

#include <stdlib.h>

void name_table_release(name_table *t) {
  free(t->names);
  json_decref(t->numbers);
  *t = (name_table){0};
}

int32_t name_table_find(const name_table *t, const char *name) {
  const json_t *number = json_object_get(t->numbers, name);
  return number ? (int32_t)json_integer_value(number) : -1;
}

int32_t name_table_number(name_table *t, const char *name) {
  const int32_t known = name_table_find(t, name);
  if (known >= 0 || t->count == INT32_MAX) return known;
  if (!t->numbers) t->numbers = json_object();
  if ((t->count & (t->count - 1)) == 0) { /* the capacity doubles */
    const char **names = realloc(t->names, 2 * (t->count + 1) * sizeof *names);
    if (!names) return -1;
    t->names = names;
  }
  const int32_t number = (int32_t)t->count;
  if (json_object_set_new_nocheck(t->numbers, name, json_integer(number))) return -1;
  t->names[t->count++] = json_object_iter_key(json_object_iter_at(t->numbers, name));
  return number;
}
