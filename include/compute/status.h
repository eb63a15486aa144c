/* SPDX-License-Identifier: MIT */
/** @file
 * Status codes, error details and logging.
 *
 * Every call that can fail returns a compute_status; COMPUTE_OK is zero. The library never aborts
 * the process and prints nothing unless a log callback or COMPUTE_LOG asks for it. A compute_error,
 * kept per thread and per context, has the cause, the place and the remedy. */
#ifndef COMPUTE_STATUS_H
#define COMPUTE_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include "compute/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_context compute_context;

/** Codes are grouped by kind of cause, in hundreds. Codes are never renumbered. */
typedef enum compute_status {
  COMPUTE_OK = 0,

  /* 1xx: the call itself. */
  COMPUTE_ERROR_INVALID_ARGUMENT = 100, /**< a value outside the function's range */
  COMPUTE_ERROR_NULL_POINTER = 101,     /**< a required pointer is NULL */
  COMPUTE_ERROR_OVERFLOW = 102,         /**< a size does not fit into 63 bits */
  COMPUTE_ERROR_WRONG_CONTEXT = 103,    /**< objects of two contexts in one call */
  COMPUTE_ERROR_WRONG_GRAPH = 104,      /**< a node of another graph, or not a node */
  COMPUTE_ERROR_INVALID_STATE = 105,    /**< not possible in the object's current state */
  COMPUTE_ERROR_BUSY = 106,             /**< as much work is waiting as the object allows */

  /* 2xx: shapes, dtypes and data. */
  COMPUTE_ERROR_SHAPE = 200, /**< shapes do not match each other or the operation */
  COMPUTE_ERROR_DTYPE = 201, /**< unknown dtype, or one that the operation does not support */
  COMPUTE_ERROR_NOT_DIFFERENTIABLE = 202, /**< no gradient flows along the requested path */
  COMPUTE_ERROR_BINDING = 203,            /**< a plan was run with missing or wrong bindings */
  COMPUTE_ERROR_INDEX = 204,              /**< an index in the data points outside its axis */

  /* 3xx: devices and backends. */
  COMPUTE_ERROR_NO_DEVICE = 300,    /**< the requested device does not exist */
  COMPUTE_ERROR_BACKEND_LOAD = 301, /**< a module cannot be loaded; the loader's message is kept */
  COMPUTE_ERROR_BACKEND_ABI = 302,  /**< a module has another version of the vtable */
  COMPUTE_ERROR_MISSING_LIBRARY = 303, /**< a driver or vendor library is not installed */
  COMPUTE_ERROR_UNSUPPORTED = 304, /**< the device cannot do this; the reason is in the message */
  COMPUTE_ERROR_DEVICE_LOST = 305, /**< the device stopped responding */
  COMPUTE_ERROR_DISABLED = 306,    /**< switched off by an option or the environment */

  /* 4xx: memory. */
  COMPUTE_ERROR_OUT_OF_MEMORY = 400,        /**< host memory */
  COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY = 401, /**< device memory, after eviction and retry */

  /* 5xx: compiling and running. */
  COMPUTE_ERROR_COMPILATION = 500, /**< a kernel did not compile */
  COMPUTE_ERROR_LAUNCH = 501,      /**< a kernel did not start or failed while running */
  COMPUTE_ERROR_TRANSFER = 502,    /**< a copy between devices failed */
  COMPUTE_ERROR_TIMEOUT = 503,     /**< a time limit was exceeded */
  COMPUTE_ERROR_CANCELLED = 504,   /**< the caller cancelled the work, or work that it follows */
  COMPUTE_ERROR_VALIDATION = 505,  /**< a step's result is wrong (validate.h) */

  /* 6xx: files. */
  COMPUTE_ERROR_FILE = 600,   /**< a file cannot be opened, read or written */
  COMPUTE_ERROR_FORMAT = 601, /**< a file is damaged, or not in the format that its name suggests */

  /* 9xx: internal errors. */
  COMPUTE_ERROR_INTERNAL = 900 /**< a bug in libcompute; please report it */
} compute_status;

/** Short constant text for a code, such as "shapes do not fit". Never NULL; "unknown status" for a
 * number that is not a code. Thread-safe. */
COMPUTE_API const char *compute_status_text(compute_status status);

/** The identifier of a code, such as "COMPUTE_ERROR_SHAPE". Never NULL. Thread-safe. */
COMPUTE_API const char *compute_status_name(compute_status status);

/** Lists every status: the code at index (0 … count−1) through `status`. Returns the count.
 * `status` may be NULL. Thread-safe. */
COMPUTE_API size_t compute_status_list(size_t index, compute_status *status);

/** The details of a failure. All strings are zero-terminated and possibly empty. */
typedef struct compute_error {
  compute_status status;
  int64_t native_code;  /**< errno, a driver's or a library's own code; 0 if there is none */
  char operation[48];   /**< the graph operation or library call: "matmul", "compute_run" */
  char message[512];    /**< "matmul: inner sizes differ: [2,3] x [4,5]": the operation, then the
                           problem */
  char remedy[256];     /**< an action for the caller, or "" */
  char source[64];      /**< file:line inside libcompute, for bug reports */
  uint64_t reserved[8]; /**< zero */
} compute_error;

/** Copies the calling thread's last error in `context` (or, if this thread has none there, the
 * context's last error of any thread) to `error`. A NULL context asks for the thread's last error
 * in any context, which is how a failing compute_open is read. A success does not clear the error.
 * Returns COMPUTE_OK, even if there was no error (then error->status is COMPUTE_OK), or
 * COMPUTE_ERROR_NULL_POINTER. Thread-safe. */
COMPUTE_API compute_status compute_error_get(const compute_context *context, compute_error *error);

/** The message of compute_error_get. The string belongs to the calling thread and lives until that
 * thread's next call of this function. Never NULL; "" if there was no error. Thread-safe. */
COMPUTE_API const char *compute_error_message(const compute_context *context);

/** Clears the calling thread's error and the context's. Thread-safe. */
COMPUTE_API void compute_error_clear(const compute_context *context);

typedef enum compute_log_level {
  COMPUTE_LOG_OFF = 0,
  COMPUTE_LOG_ERROR = 1,
  COMPUTE_LOG_WARNING = 2,
  COMPUTE_LOG_INFO = 3,
  COMPUTE_LOG_DEBUG = 4
} compute_log_level;

/** Receives one line without its newline. May be called from any thread, several at once; it must
 * not call back into the library. `module` is "core" or a backend's name. It must return
 * (compute.h). */
typedef void (*compute_log_function)(void *user, compute_log_level level, const char *module,
                                     const char *message);

/** Sets the callback for the process's log, and its level; NULL or COMPUTE_LOG_OFF silences it.
 * Initially silent, unless the variable COMPUTE_LOG names a level (error, warning, info, debug):
 * then lines go to standard error. Thread-safe. */
COMPUTE_API void compute_log_set(compute_log_function function, void *user,
                                 compute_log_level level);

/** Host memory for the library's own objects. `allocate` returns NULL on failure and honours
 * `alignment` (a power of two, at least 16); `release` accepts NULL. Both must be thread-safe, and
 * must return (compute.h). */
typedef struct compute_allocator {
  void *(*allocate)(void *user, size_t bytes, size_t alignment);
  void (*release)(void *user, void *pointer);
  void *user;
} compute_allocator;

/** Replaces the host allocator of the process; NULL restores the C library's. Fails with
 * COMPUTE_ERROR_INVALID_STATE while any context is open; texts returned by the library must also
 * have been freed. Must not run concurrently with compute_open. */
COMPUTE_API compute_status compute_allocator_set(const compute_allocator *allocator);

/** Frees text that a libcompute call returned to the caller. NULL is allowed. Thread-safe. */
COMPUTE_API void compute_text_free(char *text);

/** One environment variable that the library reads. */
typedef struct compute_variable {
  const char *name;        /**< "COMPUTE_DEVICE" */
  const char *values;      /**< possible values: "cpu, cuda:0, …" */
  const char *description; /**< one sentence */
} compute_variable;

/** The variable at `index` of the one table of environment variables, or NULL past its end. The
 * result is constant. Thread-safe. */
COMPUTE_API const compute_variable *compute_variable_at(size_t index);

/** The value that the library reads for the variable `name`: NULL if it is unset, empty, not in the
 * table, or ignored because the program runs with raised privileges. The string belongs to the
 * environment. */
COMPUTE_API const char *compute_variable_value(const char *name);

/** Version of the running library as major * 10000 + minor * 100 + patch, and as text "0.2.0". */
COMPUTE_API uint32_t compute_version(void);
COMPUTE_API const char *compute_version_text(void);

#ifdef __cplusplus
}
#endif
#endif
