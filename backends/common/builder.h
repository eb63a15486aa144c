/* SPDX-License-Identifier: MIT */
/* Shared code of the compiling modules: a cache of built programs, and generated kernels.
 *
 *   program.c    a device's table of programs: looked up in memory and on disk, compiled once for
 *                all callers, and kept for a while after the last use
 *   generated.c  turns a descriptor into launches; falls back to plainer versions
 *
 * A module embeds a `builder` in its device and supplies the few functions that differ between
 * drivers. These files are compiled into each such module. */
#ifndef COMMON_BUILDER_H
#define COMMON_BUILDER_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "compute/backend.h"

/* ---- Failed builds ------------------------------------------------------------------------- */

/* A failed build. It is not recorded as an error before builder_fail: the caller may have another
 * way. */
typedef struct build_problem {
  compute_status status; /* COMPUTE_ERROR_COMPILATION if a plainer kernel may help */
  bool final;            /* the compiler rejected the text: do not ask it again */
  int64_t code;          /* the driver's error code */
  const char *code_name; /* constant; may be NULL */
  const char *call;      /* constant: the failed call, or the object that did not fit memory */
  const char *remedy;    /* constant; may be NULL */
  char log[1024];
} build_problem;

/* Fills in a problem without a log. Returns false. */
bool build_problem_set(build_problem *problem, compute_status status, int64_t code,
                       const char *code_name, const char *call);

/* Copies the compiler's output without leading and trailing blanks. */
void build_problem_log(build_problem *problem, const char *log);

/* ---- Programs ------------------------------------------------------------------------------ */

/* One entry point of a program. A module's entry struct starts with it. */
typedef struct builder_entry builder_entry;
struct builder_entry {
  builder_entry *next;
  char *name;
};

typedef struct builder_program builder_program;
struct builder_program {
  builder_program *next;          /* next in its bucket */
  builder_program *newer, *older; /* list of unreferenced programs */
  uint64_t hash;
  uint32_t references;
  bool building; /* by the thread that created it; other threads wait */
  bool listed;   /* in the table */
  char *source, *options;
  size_t source_bytes;
  void *handle; /* the driver's handle; NULL if the build failed */
  build_problem problem;
  builder_entry *entries;
};

#define BUILDER_KEY_PARTS 16

/* The driver-specific functions. `device` is the module's device. */
typedef struct builder_driver {
  const char *module; /* "cuda" */
  const char *title;  /* "CUDA": prefix of a kernel's text */

  /* Fills in all parts of the cache key that can change a binary, except module, source and
   * options. Returns their number. */
  uint32_t (*key_parts)(void *device, compute_cache_part parts[BUILDER_KEY_PARTS]);

  /* Creates a program from a stored binary, or returns NULL if the driver refuses it. *known is set
   * instead if the stored entry only records that the driver's own cache has the program. */
  void *(*load)(void *device, const builder_program *program, const void *binary, size_t bytes,
                bool *known);

  /* Compiles a program from its source; returns NULL and fills in the problem on failure. If
   * `binary` is not NULL, *binary receives the data for the disk cache, allocated with
   * services->allocate, or NULL if there is none. */
  void *(*compile)(void *device, const builder_program *program, void **binary, size_t *bytes,
                   build_problem *problem);
  void (*unload)(void *device, void *handle);

  /* Creates an entry point: zeroed, except for the module's fields. Returns NULL and fills in the
   * problem on failure. The caller holds the table's mutex. */
  builder_entry *(*entry_create)(void *device, const builder_program *program, const char *name,
                                 build_problem *problem);
  void (*entry_destroy)(void *device, builder_entry *entry); /* does not free `name` */

  /* `true` if the driver's limits allow the launch; otherwise fills in the problem. */
  bool (*launch_fits)(void *device, const compute_generated_launch *launch,
                      const builder_entry *entry, build_problem *problem);
} builder_driver;

/* Like compute_build_statistics. */
typedef struct builder_counters {
  _Atomic uint64_t programs_compiled, programs_from_disk, programs_from_driver, programs_shared,
      programs_failed, build_nanoseconds;
} builder_counters;

typedef struct builder {
  const builder_driver *driver;
  const compute_services *services;
  void *device;
  uint32_t index; /* the device's index, for messages */
  const compute_target *target;
  const char *options; /* compiler options for generated kernels */

  pthread_mutex_t mutex; /* protects the table and the entries of its programs */
  pthread_cond_t built;
  builder_program **buckets;
  uint32_t bucket_count, program_count;
  builder_program *newest, *oldest; /* unreferenced programs, in order of last use */
  uint32_t unreferenced;
  builder_counters counters;
} builder;

/* The caller fills in the six fields before the mutex. */
void builder_open(builder *b);
void builder_close(builder *b); /* no kernel may remain */

/* Forgets all programs, because the device's context is new: later requests build again. Programs
 * that kernels still need stay valid for them. No other thread may use the builder meanwhile. */
void builder_forget(builder *b);

/* Finds or builds a program and adds a reference; NULL with the problem filled in on failure. */
builder_program *builder_get(builder *b, const char *source, size_t source_bytes,
                             const char *options, build_problem *problem);
void builder_release(builder *b, builder_program *program); /* NULL is allowed */

/* The function `name`; it lives as long as the program. NULL with the problem filled in on
 * failure. */
builder_entry *builder_entry_get(builder *b, builder_program *program, const char *name,
                                 build_problem *problem);

/* Adds this builder's counters to *statistics. */
void builder_count(const builder *b, compute_build_statistics *statistics);

/* Records the problem as an error and returns its status. `what` is, for example, "the kernel does
 * not build". */
compute_status builder_fail(const builder *b, const build_problem *problem, const char *what);

/* The same for a user's custom kernel; the log contains the whole message. `misnamed_code` is the
 * driver's code for a missing function; `misnamed_remedy` is the advice for it. */
compute_status builder_fail_custom(const builder *b, const char *entry, build_problem *problem,
                                   int64_t misnamed_code, const char *misnamed_remedy);

/* Host memory from the services: a zeroed block, or a zero-terminated copy. */
void *builder_allocate(const builder *b, size_t bytes);
void builder_free(const builder *b, void *pointer); /* NULL is allowed */
char *builder_duplicate(const builder *b, const char *text, size_t bytes);

/* ---- Generated kernels --------------------------------------------------------------------- */

#define BUILDER_BUFFERS     (COMPUTE_MAX_OPERANDS + 2) /* of one launch */
#define BUILDER_SHAPE_BYTES 3072

/* A launch in the driver's form. The start of the shape (the offsets) is zero. */
typedef struct builder_launch {
  builder_entry *entry;
  uint32_t group[3], groups[3];
  uint32_t buffer_count, shape_bytes, local_bytes;
  compute_generated_buffer *buffers; /* shares one allocation with `shape` */
  unsigned char *shape;
} builder_launch;

typedef struct builder_kernel {
  builder_program *program; /* NULL if there is nothing to launch */
  uint32_t operands;        /* number of inputs and outputs */
  uint32_t launch_count;
  builder_launch launches[COMPUTE_GENERATED_LAUNCHES];
  uint64_t workspace_bytes;
  bool faults; /* a launch uses the fault word */
  char text[160];
} builder_kernel;

/* Looks up the parameters of a kernel with tuning_lookup of the services. An older core has no such
 * function; the result is then heuristic. */
compute_tuning_source builder_tuning(const builder *b, const compute_kernel_descriptor *descriptor,
                                     compute_tuning *tuning);

/* `true` if the core can generate the kernel; `reason` as in `supports` of the vtable. */
bool builder_supports(const builder *b, const compute_kernel_descriptor *descriptor, char *reason,
                      size_t reason_bytes);

/* Builds exactly the version with these parameters (NULL: the default choice) for the device's
 * target. Records the error. */
compute_status builder_kernel_build(builder *b, const compute_kernel_descriptor *descriptor,
                                    const compute_tuning *tuning, builder_kernel *kernel);

/* Builds the first version that works: with these parameters (unless NULL), then with the default
 * choice, then plainer versions. Warns for each step. Records an error if no version builds. */
compute_status builder_kernel_fall_back(builder *b, const compute_kernel_descriptor *descriptor,
                                        const compute_tuning *tuning, builder_kernel *kernel);
void builder_kernel_clear(builder *b, builder_kernel *kernel);

/* ---- Matrices for vendor libraries --------------------------------------------------------- */

/* The matrix layout: column-major or row-major, and the leading dimension. Returns false for any
 * other layout. A dimension of one element fits both. */
bool builder_matrix_lies(int64_t rows, int64_t columns, const int64_t stride[2],
                         bool prefer_columns, bool *by_columns, int64_t *leading);

/* ---- Faults -------------------------------------------------------------------------------- */

/* Faults are kernels that meet an index outside its axis (compute/backend/generator.h). This table maps
 * each fault record of a queue to the label of its kernel. Modules that detect faults only at a
 * queue wait use it. */

/* Per queue. When all records are in use, further kernels share the first one, without a label. */
#define FAULT_RECORDS     64
#define FAULT_WORDS       (FAULT_RECORDS * COMPUTE_GENERATED_FAULT_WORDS)
#define FAULT_TABLE_BYTES (FAULT_WORDS * sizeof(int32_t))

typedef struct fault_table {
  uint32_t label; /* label of the work being enqueued */
  uint32_t used;  /* records given to kernels since the last wait; 0: none */
  uint32_t labels[FAULT_RECORDS];
} fault_table;

/* The index of the first word of the record for a kernel with this label, within the queue's
 * words. */
uint32_t fault_take(fault_table *table, uint32_t label);

/* Number of words that kernels may have set since the last wait. */
static inline uint32_t fault_words(const fault_table *table) {
  return table->used * COMPUTE_GENERATED_FAULT_WORDS;
}

/* Checks those words after a wait. Returns COMPUTE_OK, or records the error of the first set word.
 * It frees all records; the module must zero the words of a fault. */
compute_status fault_report(fault_table *table, const compute_services *services,
                            const int32_t *words, const char *device);

/* ---- Small helpers ------------------------------------------------------------------------- */

/* For device_target: copies the fields that both versions of the struct have, by struct_size. */
static inline void builder_target_copy(compute_target *to, const compute_target *from) {
  const size_t bytes = to->struct_size < from->struct_size ? to->struct_size : from->struct_size;
  memcpy(to, from, bytes);
  to->struct_size = bytes;
}

/* The host's monotonic clock, in nanoseconds. */
static inline int64_t builder_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* A function of a library opened at run time, and its offset in a struct of pointers. */
typedef struct library_row {
  const char *name;
  size_t offset;
} library_row;

/* Fills in such a struct. Returns the name of the first missing function, or NULL. */
static inline const char *library_find(void *library, void *functions, const library_row *rows,
                                       size_t count) {
  const char *missing = NULL;
  for (size_t i = 0; i < count; i++) {
    void *address = dlsym(library, rows[i].name);
    /* ISO C has no cast from object pointers to function pointers; POSIX guarantees that they
     * fit. */
    memcpy((char *)functions + rows[i].offset, &address, sizeof address);
    if (!address && !missing) missing = rows[i].name;
  }
  return missing;
}

#endif
