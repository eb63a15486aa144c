/* Which parameters a kernel gets: forced, from the tuning file, from the built-in table, or none.
 * One per context; thread-safe. The file is read when it is first needed, and again when it has
 * changed since, which is looked at once a second at most. Lookups set no error: a file that cannot
 * be used is logged, and counts as empty. */
#ifndef TUNE_TUNING_H
#define TUNE_TUNING_H

#include "compute/backend.h"

typedef struct tuning_store tuning_store;

tuning_store *tuning_create(void);        /* NULL: no host memory */
void tuning_release(tuning_store *store); /* NULL is allowed */

/* Of the file's entries for this very device, the one whose class fits best; see
 * kernel_class_fit. */
compute_tuning_source tuning_lookup(tuning_store *store, const compute_target *target,
                                    const compute_kernel_descriptor *descriptor,
                                    compute_tuning *tuning);

/* ---- For the tuner and the exchange of files ------------------------------------------------ */

struct table_row;

/* With another table than the built-in one, for tests. The rows must outlive the store. */
tuning_store *tuning_create_with(const struct table_row *rows);

/* "" if there is none; constant. */
const char *tuning_store_path(const tuning_store *store);

/* Appends lines made by entry_print; a lookup after that knows them. `reason` is of
 * TUNING_REASON_BYTES. COMPUTE_ERROR_FILE, _OUT_OF_MEMORY. Sets no error. */
compute_status tuning_store_append(tuning_store *store, const char *lines, size_t bytes,
                                   char *reason);

/* What the file says for a class, forced parameters and table aside. */
bool tuning_store_find(tuning_store *store, const compute_target *target, const char *kernel_class,
                       compute_tuning *tuning);

#endif
