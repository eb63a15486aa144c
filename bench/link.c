/* SPDX-License-Identifier: MIT */
/* libcompute-transport-link.so, for measurements only: the launcher's transport, made as slow as a
 * network. COMPUTE_TRANSPORT=link chooses it, BENCH_LINK=GBYTES_S,MICROSECONDS sets its speed.
 *
 * Each rank has a separate link that sends and receives at once. An operation that has arrived is
 * delayed by the latency and by the time of its bytes at the bandwidth. Its bytes are the larger of
 * the bytes sent and the bytes received. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/backend/transport.h"
#include "programs/common/clock.h"

enum { NO_TRANSPORT = -100 };

static const compute_transport *inner; /* once `prepare` has found it */
static double seconds_per_byte, latency;

static struct {
  void *inner;
  int32_t rank, size;
  double delay; /* of the operation in progress */
  int64_t end;  /* when the delay ends; 0: it has not arrived */
} state;

/* ---- The transport below ------------------------------------------------------------------- */

/* The module beside this one. */
static const compute_transport *load(const char *name) {
  Dl_info self;
  char path[PATH_MAX];
  void *library = NULL, *symbol = NULL;
  compute_transport_entry_function entry = NULL;
  if (!dladdr(&inner, &self)) return NULL;
  const char *slash = strrchr(self.dli_fname, '/');
  const int folder = slash ? (int)(slash - self.dli_fname) : 0;
  snprintf(path, sizeof path, "%.*s/libcompute-transport-%s.so", folder, self.dli_fname, name);
  library = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (library) symbol = dlsym(library, COMPUTE_TRANSPORT_ENTRY);
  memcpy(&entry, &symbol, sizeof symbol); /* ISO C has no cast between these */
  return entry ? entry() : NULL;
}

static int link_prepare(void) {
  double gbytes = 1, microseconds = 0;
  const char *text = getenv("BENCH_LINK");
  if (text && sscanf(text, "%lf,%lf", &gbytes, &microseconds) < 1) return NO_TRANSPORT;
  if (!(gbytes > 0) || !(microseconds >= 0)) return NO_TRANSPORT;
  seconds_per_byte = 1e-9 / gbytes;
  latency = 1e-6 * microseconds;
  if (!inner) inner = load(getenv("OMPI_COMM_WORLD_SIZE") ? "openmpi" : "mpich");
  return inner ? inner->prepare() : NO_TRANSPORT;
}

static int link_open(void *argument, void **instance, int32_t *rank, int32_t *size, char *about,
                     size_t about_bytes) {
  char below[96] = "";
  const int code = inner->open(argument, &state.inner, rank, size, below, sizeof below);
  if (code) return code;
  *instance = &state;
  state.rank = *rank;
  state.size = *size;
  state.delay = 0;
  state.end = 0;
  snprintf(about, about_bytes, "a link of %g GB/s and %g us, simulated; %s",
           1e-9 / seconds_per_byte, 1e6 * latency, below);
  return 0;
}

static void link_close(void *instance, int orderly) {
  (void)instance;
  inner->close(state.inner, orderly);
}

static void link_error_text(void *instance, int code, char *text, size_t text_bytes) {
  if (code == NO_TRANSPORT)
    snprintf(text, text_bytes,
             "no transport to slow down, or BENCH_LINK is not GBYTES_S,"
             "MICROSECONDS");
  else
    inner->error_text(instance ? state.inner : NULL, code, text, text_bytes);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static void hold(int64_t sent, int64_t received) {
  state.delay = latency + seconds_per_byte * (double)(sent > received ? sent : received);
  state.end = 0;
}

static int64_t sum_of_others(const int32_t *bytes) {
  int64_t sum = 0;
  for (int32_t r = 0; r < state.size; r++) sum += r == state.rank ? 0 : bytes[r];
  return sum;
}

static int link_exchange(void *instance, const void *send, const int32_t *bytes, void *receive,
                         int32_t own_bytes) {
  (void)instance;
  hold(sum_of_others(bytes), (int64_t)own_bytes * (state.size - 1));
  return inner->exchange(state.inner, send, bytes, receive, own_bytes);
}

static int link_gather(void *instance, const void *send, void *receive, const int32_t *bytes) {
  (void)instance;
  hold((int64_t)bytes[state.rank] * (state.size - 1), sum_of_others(bytes));
  return inner->gather(state.inner, send, receive, bytes);
}

static int link_broadcast(void *instance, void *data, int32_t bytes, int32_t root) {
  (void)instance;
  hold(bytes, bytes);
  return inner->broadcast(state.inner, data, bytes, root);
}

static int link_send(void *instance, const void *data, int32_t bytes, int32_t to) {
  (void)instance;
  hold(0, 0); /* the receiver waits */
  return inner->send(state.inner, data, bytes, to);
}

static int link_receive(void *instance, void *data, int32_t bytes, int32_t from) {
  (void)instance;
  hold(0, bytes);
  return inner->receive(state.inner, data, bytes, from);
}

static int link_test(void *instance, int *done) {
  (void)instance;
  if (state.end == 0) {
    const int code = inner->test(state.inner, done);
    if (code || !*done) return code;
    state.end = clock_now() + (int64_t)(1e9 * state.delay);
  }
  *done = clock_now() >= state.end;
  return 0;
}

static const compute_transport transport = {.struct_size = sizeof transport,
                                            .abi_major = COMPUTE_TRANSPORT_ABI_MAJOR,
                                            .abi_minor = COMPUTE_TRANSPORT_ABI_MINOR,
                                            .name = "link",
                                            .prepare = link_prepare,
                                            .open = link_open,
                                            .close = link_close,
                                            .error_text = link_error_text,
                                            .exchange = link_exchange,
                                            .gather = link_gather,
                                            .broadcast = link_broadcast,
                                            .send = link_send,
                                            .receive = link_receive,
                                            .test = link_test};

const compute_transport *compute_transport_entry(void) {
  return &transport;
}
