/* SPDX-License-Identifier: MIT */
/* The parameters of a kernel: forced, from the tuning file, from the built-in table, or none. One
 * store per context; thread-safe. The first lookup reads the file. Later lookups check for changes
 * at most once a second, and read it again after a change. Lookups set no error: an unusable file
 * is logged and counts as empty. */
#ifndef TUNE_TUNING_H
#define TUNE_TUNING_H

#include <sys/stat.h>

#include "codegen/tune/entry.h"
#include "core/base/slot.h"

typedef struct tuning_store tuning_store;

tuning_store *tuning_create(void);        /* NULL: no host memory */
void tuning_release(tuning_store *store); /* NULL is allowed */

/* The store of a context. */
extern room_slot tuning_slot;
tuning_store *tuning_of(const compute_context *context);

/* The best match among forced rules, the file's entries for exactly this device, and the table, in
 * this order; see kernel_class_fit. */
compute_tuning_source tuning_lookup(tuning_store *store, const compute_target *target,
                                    const compute_kernel_descriptor *descriptor,
                                    compute_tuning *tuning);

/* ---- Forced parameters ---------------------------------------------------------------------- */

/* The text of COMPUTE_TUNING: forced parameters for classes of kernels.
 *
 *   text = rule { ";" rule }      rule = kernels ":" parameters
 *
 * `kernels` is a class or the beginning of one: "gemm:tile_m=64,tile_n=64;map/f16>f16:vector=8".
 * Spaces around rules are allowed, and so is an empty rule. The generator chooses the parameters
 * that a rule does not name. */

#define FORCED_RULES 32

typedef struct forced_rules {
  uint32_t count;
  struct {
    char kernels[KERNEL_CLASS_BYTES];
    compute_tuning tuning;
  } rule[FORCED_RULES];
} forced_rules;

/* Returns false if the text is malformed. Then no rule applies, and `reason` (≥ 128 bytes) gives
 * the cause. */
bool forced_parse(const char *text, forced_rules *rules, char *reason);

/* True if `text` is valid for COMPUTE_TUNING (NULL: it is not set). If not, `reason` gives the
 * cause. */
bool tuning_text_valid(const char *text, char reason[128]);

/* The best-matching rule for a class. The last of equally good ones wins. */
bool forced_find(const forced_rules *rules, const char *kernel_class, compute_tuning *tuning);

/* ---- The built-in table ---------------------------------------------------------------------- */

/* Parameters that come with the library: for single devices, families, vendors or types of
 * devices. */

/* The property to compare with a row's `device`, most specific first. */
typedef enum table_level {
  TABLE_MODEL = 0,  /* compute_target.model */
  TABLE_FAMILY = 1, /* compute_target.family */
  TABLE_VENDOR = 2, /* compute_target.vendor contains it, in any case */
  TABLE_TYPE = 3    /* "cpu", "gpu", "accelerator" */
} table_level;

typedef struct table_row {
  table_level level;
  const char *backend; /* NULL: any */
  const char *device;
  const char *kernels; /* a class, which also applies to similar sizes, or the beginning of one */
  compute_tuning tuning;
} table_row;

/* Ends with a row whose `kernels` is NULL. */
extern const table_row table_builtin[];

/* The parameters of the row at the most specific level that matches the target. Among these rows
 * the best match for the class wins, then the first. */
bool table_find(const table_row *rows, const compute_target *target, const char *kernel_class,
                compute_tuning *tuning);

/* ---- The file (tuning_file.c) --------------------------------------------------------------- */

/* The tuning file as a whole: an append-only text, one line for each entry. Several processes may
 * append concurrently: every addition is a single write at the file's end. Invalid lines are
 * skipped and counted, so damage costs only the affected lines. The last line for a device and
 * class is in effect. */

/* A larger file must be a mistake: this leaves room for a hundred thousand entries. */
#define TUNING_FILE_LIMIT ((size_t)16 << 20)

/* Identifies a version of the file. */
typedef struct tuning_stamp {
  dev_t device;
  ino_t inode;
  off_t size;
  struct timespec modified;
} tuning_stamp;

typedef struct tuning_contents {
  char *data;            /* text of the entries */
  tuning_entry *entries; /* in the order of the file */
  size_t count, capacity;
  size_t damaged, foreign; /* skipped lines */
  tuning_stamp stamp;      /* all 0 if there is no file */
} tuning_contents;

#define TUNING_REASON_BYTES 256

/* Reads the file. If `may_miss`, a missing file counts as empty. On failure (COMPUTE_ERROR_FILE,
 * _OUT_OF_MEMORY) *contents is empty, and `reason` of TUNING_REASON_BYTES gives the cause. Sets no
 * error. */
compute_status tuning_file_read(const char *path, bool may_miss, tuning_contents *contents,
                                char *reason);
void tuning_file_release(tuning_contents *contents);

/* The current stamp of the file; all 0 if there is none. */
tuning_stamp tuning_file_stamp(const char *path);

/* Appends complete lines in one write. Creates the file and its folder if missing. Fails as
 * tuning_file_read does. */
compute_status tuning_file_append(const char *path, const char *lines, size_t bytes, char *reason);

/* Finds entries that a later one replaces, and sets their identity to NULL. */
compute_status tuning_file_drop_replaced(tuning_contents *contents, char *reason);

/* ---- For the tuner and the exchange of files ------------------------------------------------ */

/* The same with another table instead of the built-in one, for tests. The rows must outlive the
 * store. */
tuning_store *tuning_create_with(const table_row *rows);

/* Returns "" if there is none; constant. */
const char *tuning_store_path(const tuning_store *store);

/* Appends lines that entry_print made; later lookups use them. `reason` has TUNING_REASON_BYTES.
 * Returns COMPUTE_ERROR_FILE or _OUT_OF_MEMORY on failure. Sets no error. */
compute_status tuning_store_append(tuning_store *store, const char *lines, size_t bytes,
                                   char *reason);

/* The file's parameters for a class. Ignores forced parameters and the table. */
bool tuning_store_find(tuning_store *store, const compute_target *target, const char *kernel_class,
                       compute_tuning *tuning);

#endif
