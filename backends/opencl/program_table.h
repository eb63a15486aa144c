/* The table of a device's programs, and the idle kernel objects of each. */
#ifndef OPENCL_PROGRAM_TABLE_H
#define OPENCL_PROGRAM_TABLE_H

#include "opencl.h"

struct opencl_program {
  opencl_program *next;          /* in its bucket */
  opencl_program *newer, *older; /* while unreferenced */
  uint64_t hash;
  uint32_t references;
  bool building; /* by the thread that made it; others wait */
  bool listed;   /* in the table */
  char *source, *options;
  size_t source_bytes;
  cl_program program; /* NULL when the build has failed */
  opencl_problem problem;
  opencl_entry *entries;
};

/* The program with one more reference: one of the table, whose build has ended, or a new one
 * (*fresh), which the caller builds and then publishes. NULL: no host memory. */
opencl_program *opencl_table_take(opencl_device *device, const char *source, size_t source_bytes,
                                  const char *options, bool *fresh);

/* Says that the build has ended; `forget` takes the program out of the table, so that the next one
 * who needs it tries again. */
void opencl_table_publish(opencl_device *device, opencl_program *program, bool forget);

#endif
