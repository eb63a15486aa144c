/* SPDX-License-Identifier: MIT */
/* The transport of a group of one: it receives its data at once. */
#include <stdio.h>
#include <string.h>

#include "group/group.h"

static int alone_prepare(void) {
  return 0;
}

static int alone_open(void *argument, void **instance, int32_t *rank, int32_t *size, char *about,
                      size_t about_bytes) {
  *instance = argument;
  *rank = 0;
  *size = 1;
  snprintf(about, about_bytes, "none");
  return 0;
}

static void alone_close(void *instance, int orderly) {
  (void)instance;
  (void)orderly;
}

static void alone_error_text(void *instance, int code, char *text, size_t text_bytes) {
  (void)instance;
  snprintf(text, text_bytes, "code %d", code);
}

static int alone_exchange(void *instance, const void *send, const int32_t *bytes, void *receive,
                          int32_t own_bytes) {
  (void)instance;
  (void)bytes;
  memcpy(receive, send, (size_t)own_bytes);
  return 0;
}

static int alone_gather(void *instance, const void *send, void *receive, const int32_t *bytes) {
  (void)instance;
  memcpy(receive, send, (size_t)bytes[0]);
  return 0;
}

static int alone_broadcast(void *instance, void *data, int32_t bytes, int32_t root) {
  (void)instance;
  (void)data;
  (void)bytes;
  (void)root;
  return 0;
}

/* Never used: the core refuses a rank that sends to itself. */
static int alone_send(void *instance, const void *data, int32_t bytes, int32_t to) {
  (void)instance;
  (void)data;
  (void)bytes;
  return to + 1;
}

static int alone_receive(void *instance, void *data, int32_t bytes, int32_t from) {
  (void)instance;
  (void)data;
  (void)bytes;
  return from + 1;
}

static int alone_test(void *instance, int *done) {
  (void)instance;
  *done = 1;
  return 0;
}

const compute_transport group_alone = {.struct_size = sizeof group_alone,
                                       .abi_major = COMPUTE_TRANSPORT_ABI_MAJOR,
                                       .abi_minor = COMPUTE_TRANSPORT_ABI_MINOR,
                                       .name = "none",
                                       .prepare = alone_prepare,
                                       .open = alone_open,
                                       .close = alone_close,
                                       .error_text = alone_error_text,
                                       .exchange = alone_exchange,
                                       .gather = alone_gather,
                                       .broadcast = alone_broadcast,
                                       .send = alone_send,
                                       .receive = alone_receive,
                                       .test = alone_test};
