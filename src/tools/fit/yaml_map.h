/* The top level of a YAML file: which value stands beside a key. */
#ifndef TOOLS_FIT_YAML_MAP_H
#define TOOLS_FIT_YAML_MAP_H

#include <stddef.h>

#include "tools/fit/failure.h"

typedef struct yaml_entry {
  const char *key; /* that is looked for */
  char value[64];  /* its text; empty if the key is not there */
} yaml_entry;

/* Fills in what the first document of the file, a mapping, has for the entries' keys; further keys
 * and documents are passed over. COMPUTE_ERROR_UNSUPPORTED if the program was built without
 * libyaml. */
compute_status yaml_map_read(const char *path, yaml_entry *entries, size_t count, failure *why);

#endif
