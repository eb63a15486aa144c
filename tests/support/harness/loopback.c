/* SPDX-License-Identifier: MIT */
#include "support/harness/loopback.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "group/group.h"
#include "support/harness/test.h"

/* ---- Messages ------------------------------------------------------------------------------- */

typedef struct message {
  struct message *next;
  size_t bytes;
  char data[];
} message;

typedef struct mailbox {
  message *first, *last;
} mailbox;

struct loopback_hub {
  pthread_mutex_t mutex;
  mailbox box[LOOPBACK_MOST][LOOPBACK_MOST]; /* [to][from] */
};

/* A rank's operation in progress, and the messages that it waits for. */
typedef struct instance {
  loopback_rank *self;
  uint64_t draws;
  struct {
    void *to; /* NULL: no message expected from this rank */
    size_t bytes;
  } awaited[LOOPBACK_MOST];
} instance;

static void post(instance *in, int32_t to, const void *data, size_t bytes) {
  message *m = malloc(sizeof *m + bytes);
  *m = (message){.bytes = bytes};
  if (bytes > 0) memcpy(m->data, data, bytes);
  mailbox *box = &in->self->hub->box[to][in->self->rank];
  pthread_mutex_lock(&in->self->hub->mutex);
  if (box->last)
    box->last->next = m;
  else
    box->first = m;
  box->last = m;
  pthread_mutex_unlock(&in->self->hub->mutex);
}

/* Takes a message that has arrived from a rank; returns false if there is none. A message of
 * another size is an error of the core. */
static bool take(instance *in, int32_t from) {
  mailbox *box = &in->self->hub->box[in->self->rank][from];
  message *m = box->first;
  if (!m) return false;
  box->first = m->next;
  if (!box->first) box->last = NULL;
  loopback_check(in->self, m->bytes == in->awaited[from].bytes, "sizes of messages", __FILE__,
                 __LINE__);
  const size_t bytes = m->bytes < in->awaited[from].bytes ? m->bytes : in->awaited[from].bytes;
  memcpy(in->awaited[from].to, m->data, bytes);
  in->awaited[from].to = NULL;
  free(m);
  return true;
}

static void await(instance *in, int32_t from, void *to, size_t bytes) {
  in->awaited[from].to = to;
  in->awaited[from].bytes = bytes;
}

/* ---- The transport ------------------------------------------------------------------------- */

enum { FAILURE = 77 };

/* Counts a call. Returns 0, or the code of the injected failure. */
static int count_call(instance *in) {
  loopback_rank *self = in->self;
  self->calls++;
  if (self->fail_at != 0 && self->calls == self->fail_at) return FAILURE;
  return 0;
}

static bool silent(const instance *in) {
  return in->self->silent_at != 0 && in->self->calls >= in->self->silent_at;
}

static int loopback_prepare(void) {
  return 0;
}

static int loopback_open(void *argument, void **made, int32_t *rank, int32_t *size, char *about,
                         size_t about_bytes) {
  instance *in = calloc(1, sizeof *in);
  in->self = argument;
  const int code = count_call(in);
  if (code) {
    free(in);
    return code;
  }
  *made = in;
  *rank = in->self->rank;
  *size = in->self->size;
  snprintf(about, about_bytes, "loopback");
  return 0;
}

static void loopback_close(void *made, int orderly) {
  instance *in = made;
  in->self->orderly = orderly;
  free(in);
}

static void loopback_error_text(void *made, int code, char *text, size_t text_bytes) {
  (void)made;
  snprintf(text, text_bytes, "planned failure %d", code);
}

static int loopback_exchange(void *made, const void *send, const int32_t *bytes, void *receive,
                             int32_t own_bytes) {
  instance *in = made;
  const char *from = send;
  const int code = count_call(in);
  if (code) return code;
  for (int32_t r = 0; r < in->self->size; from += bytes[r++]) {
    if (!silent(in)) post(in, r, from, (size_t)bytes[r]);
    await(in, r, (char *)receive + (size_t)r * (size_t)own_bytes, (size_t)own_bytes);
  }
  return 0;
}

static int loopback_gather(void *made, const void *send, void *receive, const int32_t *bytes) {
  instance *in = made;
  char *to = receive;
  const int code = count_call(in);
  if (code) return code;
  for (int32_t r = 0; r < in->self->size; to += bytes[r++]) {
    if (!silent(in)) post(in, r, send, (size_t)bytes[in->self->rank]);
    await(in, r, to, (size_t)bytes[r]);
  }
  return 0;
}

static int loopback_broadcast(void *made, void *data, int32_t bytes, int32_t root) {
  instance *in = made;
  const int code = count_call(in);
  if (code) return code;
  if (root != in->self->rank) await(in, root, data, (size_t)bytes);
  for (int32_t r = 0; r < in->self->size && root == in->self->rank; r++)
    if (r != root && !silent(in)) post(in, r, data, (size_t)bytes);
  return 0;
}

static int loopback_send(void *made, const void *data, int32_t bytes, int32_t to) {
  instance *in = made;
  const int code = count_call(in);
  if (code == 0 && !silent(in)) post(in, to, data, (size_t)bytes);
  return code;
}

static int loopback_receive(void *made, void *data, int32_t bytes, int32_t from) {
  instance *in = made;
  const int code = count_call(in);
  if (code == 0) await(in, from, data, (size_t)bytes);
  return code;
}

static int loopback_test(void *made, int *done) {
  instance *in = made;
  loopback_rank *self = in->self;
  *done = 0;
  if (silent(in)) return 0;
  if (self->delays != 0 && random_f32(self->delays, in->draws++, (uint32_t)self->rank) < 0.75f)
    return 0;
  *done = 1;
  pthread_mutex_lock(&self->hub->mutex);
  for (int32_t r = 0; r < self->size; r++)
    if (in->awaited[r].to && !take(in, r)) *done = 0;
  pthread_mutex_unlock(&self->hub->mutex);
  return 0;
}

static int loopback_reaches(void *made, int32_t device_type) {
  const instance *in = made;
  return in->self->reaches == device_type;
}

static int loopback_missing(void *made, uint8_t *missing) {
  const instance *in = made;
  for (int32_t r = 0; r < in->self->size; r++) missing[r] = in->awaited[r].to != NULL;
  return in->self->tells_nothing ? FAILURE : 0;
}

static const compute_transport transport = {.struct_size = sizeof transport,
                                            .abi_major = COMPUTE_TRANSPORT_ABI_MAJOR,
                                            .abi_minor = COMPUTE_TRANSPORT_ABI_MINOR,
                                            .name = "loopback",
                                            .prepare = loopback_prepare,
                                            .open = loopback_open,
                                            .close = loopback_close,
                                            .error_text = loopback_error_text,
                                            .exchange = loopback_exchange,
                                            .gather = loopback_gather,
                                            .broadcast = loopback_broadcast,
                                            .send = loopback_send,
                                            .receive = loopback_receive,
                                            .test = loopback_test,
                                            .reaches = loopback_reaches,
                                            .missing = loopback_missing};

/* ---- Ranks as threads ---------------------------------------------------------------------- */

void loopback_check(loopback_rank *self, bool condition, const char *text, const char *file,
                    int line) {
  if (condition || self->failure[0]) return;
  compute_error error = {.status = COMPUTE_OK};
  compute_error_get(self->context, &error);
  snprintf(self->failure, sizeof self->failure, "rank %d: %s:%d: %.120s; the last error: %.200s",
           (int)self->rank, file, line, text, error.message);
}

bool loopback_says(const loopback_rank *self, const char *part) {
  compute_error error = {.status = COMPUTE_OK};
  compute_error_get(self->context, &error);
  return strstr(error.message, part) != NULL;
}

typedef struct start {
  loopback_rank *rank;
  loopback_function function;
} start;

static void *run(void *argument) {
  const start *s = argument;
  loopback_rank *self = s->rank;
  const compute_open_options open = {.backends = self->backends ? self->backends : "cpu,null",
                                     .device = self->device ? self->device : "cpu",
                                     .threads = 1};
  RANK_CHECK(self, compute_open(&self->context, &open) == COMPUTE_OK);
  if (!self->context) return NULL;
  const compute_group_options o = {.timeout = self->timeout > 0 ? self->timeout : 60,
                                   .host_only = self->host_only};
  self->opened = group_open_with(self->context, &transport, self, &o, &self->group);
  s->function(self);
  compute_group_close(self->group);
  RANK_CHECK(self, compute_close(self->context) == COMPUTE_OK);
  return NULL;
}

void loopback_run(int32_t size, loopback_function function, void *user, loopback_rank *ranks) {
  loopback_hub hub = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  pthread_t threads[LOOPBACK_MOST];
  start starts[LOOPBACK_MOST];
  for (int32_t r = 0; r < size; r++) {
    ranks[r].hub = &hub;
    ranks[r].rank = r;
    ranks[r].size = size;
    ranks[r].user = user;
    ranks[r].calls = 0;
    ranks[r].failure[0] = '\0';
    starts[r] = (start){&ranks[r], function};
    assert_int_equal(pthread_create(&threads[r], NULL, run, &starts[r]), 0);
  }
  for (int32_t r = 0; r < size; r++) pthread_join(threads[r], NULL);
  for (int32_t to = 0; to < LOOPBACK_MOST; to++) {
    for (int32_t from = 0; from < LOOPBACK_MOST; from++) {
      for (message *m = hub.box[to][from].first, *next; m; m = next) {
        next = m->next;
        free(m);
      }
    }
  }
  for (int32_t r = 0; r < size; r++)
    if (ranks[r].failure[0]) fail_msg("%s", ranks[r].failure);
}
