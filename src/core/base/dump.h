/* SPDX-License-Identifier: MIT */
/* The folder of COMPUTE_DUMP, where a context writes its work for people to read. */
#ifndef BASE_DUMP_H
#define BASE_DUMP_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/slot.h"

typedef struct dump_folder dump_folder;

/* Creates the folder in the variable, if it does not exist, with access for this user only. NULL if
 * the variable is not set, or if the folder is unusable, which is logged. Thread-safe. */
dump_folder *dump_folder_create(void);

/* The context's slot for the folder: slot_get returns the folder or NULL. */
extern room_slot dump_slot;

/* Writes a file into the folder, with access for this user only. Replaces an existing file; with
 * `once` it stays unchanged. Logs the folder's first failure and returns none. Thread-safe. */
void dump_file(dump_folder *folder, const char *name, const char *text, size_t bytes, bool once);

#endif
