/* SPDX-License-Identifier: MIT */
/* What the modules that compile share: programs by their source, generated kernels and their
 * faults.
 *
 *   program.c    the table of a device's programs: found again in memory and on disk, compiled
 *                once whoever asks, kept for a while when nobody needs them
 *   generated.c  from a descriptor to launches, with plainer versions to fall back to
 *
 * A module embeds a `builder` in its device and hands it the few functions that differ between
 * drivers. These files are compiled into each such module. */
#ifndef COMMON_BUILDER_H
#define COMMON_BUILDER_H

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "compute/backend.h"

/* ---- What went wrong ----------------------------------------------------------------------- */

/* Nothing of this is recorded as error before builder_fail: the caller may know another way. */
typedef struct build_problem {
  compute_status status; /* COMPUTE_ERROR_COMPILATION where a plainer kernel may help */
  bool final;            /* the compiler's verdict on the text: it is not asked again */
  int64_t code;          /* the driver's */
  const char *code_name; /* constant; may be NULL */
  const char *call;      /* constant: what failed, or what there is no memory for */
  const char *remedy;    /* constant; may be NULL */
  char log[1024];
} build_problem;

/* Fills in a problem without log. Returns false. */
bool build_problem_set(build_problem *problem, compute_status status, int64_t code,
                       const char *code_name, const char *call);

/* Copies the compiler's output, blanks at the ends cut off. */
void build_problem_log(build_problem *problem, const char *log);

/* ---- Programs ------------------------------------------------------------------------------ */

/* One entry point of a program. A module's own struct begins with it. */
typedef struct builder_entry builder_entry;
struct builder_entry {
  builder_entry *next;
  char *name;
};

typedef struct builder_program builder_program;
struct builder_program {
  builder_program *next;          /* in its bucket */
  builder_program *newer, *older; /* while unreferenced */
  uint64_t hash;
  uint32_t references;
  bool building; /* by the thread that made it; others wait */
  bool listed;   /* in the table */
  char *source, *options;
  size_t source_bytes;
  void *handle; /* the driver's; NULL when the build has failed */
  build_problem problem;
  builder_entry *entries;
};

#define BUILDER_KEY_PARTS 16

/* What differs between drivers. `device` is the module's. */
typedef struct builder_driver {
  const char *module; /* "cuda" */
  const char *title;  /* "CUDA": before a kernel's text */

  /* All but module, source and options that can change a binary; returns how many parts. */
  uint32_t (*key_parts)(void *device, compute_cache_part parts[BUILDER_KEY_PARTS]);

  /* A program from a stored binary; NULL when the driver refuses it. Or sets *known: the binary
   * only says that the driver's own cache has the program. */
  void *(*load)(void *device, const builder_program *program, const void *binary, size_t bytes,
                bool *known);

  /* A program from its source, and, if `binary` is not NULL, what to store of it, in memory of
   * services->allocate; NULL there when there is nothing. NULL with the problem filled in. */
  void *(*compile)(void *device, const builder_program *program, void **binary, size_t *bytes,
                   build_problem *problem);
  void (*unload)(void *device, void *handle);

  /* An entry point, zeroed but for what the module sets; NULL with the problem. The table's mutex
   * is held. */
  builder_entry *(*entry_create)(void *device, const builder_program *program, const char *name,
                                 build_problem *problem);
  void (*entry_destroy)(void *device, builder_entry *entry); /* not `name` */

  /* Whether the device can run the launch, by what its driver says; false with the problem. */
  bool (*launch_fits)(void *device, const compute_generated_launch *launch,
                      const builder_entry *entry, build_problem *problem);
} builder_driver;

typedef struct builder {
  const builder_driver *driver;
  const compute_services *services;
  void *device;
  uint32_t index; /* the device's, for words */
  const compute_target *target;
  const char *options; /* for the compiler of generated kernels */

  pthread_mutex_t mutex; /* the table, and the entries of its programs */
  pthread_cond_t built;
  builder_program **buckets;
  uint32_t bucket_count, program_count;
  builder_program *newest, *oldest; /* unreferenced ones in order of last use */
  uint32_t unreferenced;
  compute_build_statistics statistics; /* each field atomic */
} builder;

/* The six fields before the mutex are the caller's. */
void builder_open(builder *b);
void builder_close(builder *b); /* all kernels are gone */

/* Makes what is built from now on new, as the device's context is: programs that kernels still need
 * stay theirs. Nobody else uses the builder meanwhile. */
void builder_forget(builder *b);

/* A program with one more reference, found or built; NULL with the problem filled in. */
builder_program *builder_get(builder *b, const char *source, size_t source_bytes,
                             const char *options, build_problem *problem);
void builder_release(builder *b, builder_program *program); /* NULL is allowed */

/* The function `name`; it lives as long as the program. NULL with the problem. */
builder_entry *builder_entry_get(builder *b, builder_program *program, const char *name,
                                 build_problem *problem);

/* Adds what was built so far. */
void builder_count(const builder *b, compute_build_statistics *statistics);

/* Records the problem as error; returns its status. `what`: "the kernel does not build". */
compute_status builder_fail(const builder *b, const build_problem *problem, const char *what);

/* The same for a kernel of the user's own, whose words are logged whole. `misnamed`: the driver
 * found no such function in the program, and what to do. */
compute_status builder_fail_custom(const builder *b, const char *entry, build_problem *problem,
                                   int64_t misnamed_code, const char *misnamed_remedy);

/* Memory of the services: zeroed; a zero-terminated copy. */
void *builder_allocate(const builder *b, size_t bytes);
void builder_free(const builder *b, void *pointer); /* NULL is allowed */
char *builder_duplicate(const builder *b, const char *text, size_t bytes);

/* ---- Generated kernels --------------------------------------------------------------------- */

#define BUILDER_BUFFERS     (COMPUTE_MAX_OPERANDS + 2) /* of one launch */
#define BUILDER_SHAPE_BYTES 3072

/* One launch as the driver needs it. The shape's head, the offsets, is zero. */
typedef struct builder_launch {
  builder_entry *entry;
  uint32_t group[3], groups[3];
  uint32_t buffer_count, shape_bytes, local_bytes;
  compute_generated_buffer *buffers; /* these two in one block of memory */
  unsigned char *shape;
} builder_launch;

typedef struct builder_kernel {
  builder_program *program; /* NULL when there is nothing to launch */
  uint32_t operands;        /* inputs and outputs */
  uint32_t launch_count;
  builder_launch launches[COMPUTE_GENERATED_LAUNCHES];
  uint64_t workspace_bytes;
  bool faults; /* some launch takes the fault word */
  char text[160];
} builder_kernel;

/* The parameters for a kernel, as tuning_lookup of the services; heuristic with an older core. */
compute_tuning_source builder_tuning(const builder *b, const compute_kernel_descriptor *descriptor,
                                     compute_tuning *tuning);

/* Whether the core can write the kernel; `reason` as in `supports` of the vtable. */
bool builder_supports(const builder *b, const compute_kernel_descriptor *descriptor, char *reason,
                      size_t reason_bytes);

/* The version with these parameters (NULL: the default choice) and no other, for the device's
 * target. Records the error. */
compute_status builder_kernel_build(builder *b, const compute_kernel_descriptor *descriptor,
                                    const compute_tuning *tuning, builder_kernel *kernel);

/* The first version that builds: with these parameters (unless NULL), the default
 * choice, plainer ones.
 * A warning for each step; records the error when none builds. */
compute_status builder_kernel_fall_back(builder *b, const compute_kernel_descriptor *descriptor,
                                        const compute_tuning *tuning, builder_kernel *kernel);
void builder_kernel_clear(builder *b, builder_kernel *kernel);

/* ---- Matrices for vendor libraries --------------------------------------------------------- */

/* How a matrix lies: by columns, by rows (false: neither), and the distance of two of them. One
 * element in a dimension fits both. */
bool builder_matrix_lies(int64_t rows, int64_t columns, const int64_t stride[2],
                         bool prefer_columns, bool *by_columns, int64_t *leading);

/* ---- Faults -------------------------------------------------------------------------------- */

/* Of kernels that meet an index outside its axis (compute/generator.h): which of a queue's records
 * belongs to whom. For modules that find out only when the queue is waited for. */

/* Of one queue. Kernels that come when all records are taken share the first one, without a
 * label. */
#define FAULT_RECORDS     64
#define FAULT_WORDS       (FAULT_RECORDS * COMPUTE_GENERATED_FAULT_WORDS)
#define FAULT_TABLE_BYTES (FAULT_WORDS * sizeof(int32_t))

typedef struct fault_table {
  uint32_t label; /* of what is enqueued now */
  uint32_t used;  /* records that kernels have been given since the last wait; 0: none */
  uint32_t labels[FAULT_RECORDS];
} fault_table;

/* The first word of the record for a kernel with this label, counted from the queue's first. */
uint32_t fault_take(fault_table *table, uint32_t label);

/* Words that kernels may have set since the last wait. */
static inline uint32_t fault_words(const fault_table *table) {
  return table->used * COMPUTE_GENERATED_FAULT_WORDS;
}

/* Looks at those words after a wait: COMPUTE_OK, or the error about the first that is set. Every
 * record is free again; a fault has to be zeroed by the module. */
compute_status fault_report(fault_table *table, const compute_services *services,
                            const int32_t *words, const char *device);

/* ---- Small helpers ------------------------------------------------------------------------- */

/* For device_target: what both the caller's struct and the module's have; struct_size says that. */
static inline void builder_target_copy(compute_target *to, const compute_target *from) {
  const size_t bytes = to->struct_size < from->struct_size ? to->struct_size : from->struct_size;
  memcpy(to, from, bytes);
  to->struct_size = bytes;
}

/* The host's clock, nanoseconds. */
static inline int64_t builder_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* A function of a library opened at run time, and its place in a struct of pointers. */
typedef struct library_row {
  const char *name;
  size_t offset;
} library_row;

/* Fills in such a struct. The name of the first function that the library lacks, or NULL. */
static inline const char *library_find(void *library, void *functions, const library_row *rows,
                                       size_t count) {
  const char *missing = NULL;
  for (size_t i = 0; i < count; i++) {
    void *address = dlsym(library, rows[i].name);
    /* ISO C has no cast from object to function pointers; POSIX promises that they fit. */
    memcpy((char *)functions + rows[i].offset, &address, sizeof address);
    if (!address && !missing) missing = rows[i].name;
  }
  return missing;
}

#endif
