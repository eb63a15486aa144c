/* The context and the devices that a subcommand works with. */
#ifndef TOOLS_FIT_SESSION_H
#define TOOLS_FIT_SESSION_H

#include "tools/fit/options.h"

enum { SESSION_MAX_DEVICES = 32 };

typedef struct session {
  compute_context *context;
  compute_device *device[SESSION_MAX_DEVICES];
  size_t device_count;                  /* ≥ 1 */
  char names[32 * SESSION_MAX_DEVICES]; /* "cpu, cuda:0" */
  int32_t threads;                      /* of the CPU */
} session;

/* Opens a context with --threads and finds the devices of --device. Returns an exit status; on
 * failure everything is closed again. */
int session_open(const fit_arguments *a, session *s);
void session_close(session *s);

#endif
