/* SPDX-License-Identifier: MIT */
/* The folder that COMPUTE_DUMP names, in which a context writes its work for people to read. */
#ifndef BASE_DUMP_H
#define BASE_DUMP_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/slot.h"

typedef struct dump_folder dump_folder;

/* Creates the folder that the variable names if it does not exist, for this user only. NULL if the
 * variable is not set, or if the folder cannot be used, which is logged. Thread-safe. */
dump_folder *dump_folder_create(void);

/* What a context keeps: slot_get of its slots is the folder, or NULL. */
extern room_slot dump_slot;

/* Writes a file there, for this user only, over one of this name; with `once` a file that exists
 * stays as it is. The first failure of a folder is logged, and none is reported. Thread-safe. */
void dump_file(dump_folder *folder, const char *name, const char *text, size_t bytes, bool once);

#endif
