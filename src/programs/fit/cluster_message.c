/* SPDX-License-Identifier: MIT */
/* Messages with results between ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/fit/cluster_private.h"

enum { ARRAYS = 10, WORDS = 1024 };

/* ---- Division ------------------------------------------------------------------------------ */

int64_t division_count(const division *d, int64_t items) {
  const int64_t round = d->block * d->ranks, rest = items % round - d->rank * d->block;
  const int64_t partly = rest < 0 ? 0 : rest < d->block ? rest : d->block;
  return items / round * d->block + partly;
}

/* ---- Arrays -------------------------------------------------------------------------------- */

/* One array of the results: the location of its address, and the bytes per ROI. */
typedef struct array {
  void *place;
  size_t bytes;
} array;

/* Arrays of bytes come last, so that contiguous arrays are all aligned. */
static void list_arrays(cluster_rois *rois, int32_t parameters, array list[ARRAYS]) {
  compute_fit_results *r = &rois->results;
  const size_t p = (size_t)parameters, number = sizeof(float);
  const array all[ARRAYS] = {{&r->parameters, p * number},
                             {&r->std, p * number},
                             {&r->covariance, p * p * number},
                             {&r->ratio, number},
                             {&r->p_raw, number},
                             {&r->p_value, number},
                             {&r->significance, number},
                             {&r->iterations, sizeof(int32_t)},
                             {&rois->corners, 3 * sizeof(int32_t)},
                             {&r->status, 1}};
  memcpy(list, all, sizeof all);
}

static char *address_of(const array *a) {
  char *address;
  memcpy(&address, a->place, sizeof address);
  return address;
}

static void set_address(const array *a, char *address) {
  memcpy(a->place, &address, sizeof address);
}

cluster_rois cluster_part(const cluster_rois *all, int64_t first, int64_t count,
                          int32_t parameters) {
  cluster_rois part = *all;
  array list[ARRAYS];
  list_arrays(&part, parameters, list);
  part.count = count;
  for (int i = 0; i < ARRAYS; i++) {
    char *address = address_of(&list[i]);
    if (address) set_address(&list[i], address + (size_t)first * list[i].bytes);
  }
  return part;
}

/* ---- Messages ------------------------------------------------------------------------------ */

bool cluster_message_create(cluster_message *m, compute_device *cpu, int32_t parameters) {
  *m = (cluster_message){.device = cpu, .parameters = parameters, .room = WORDS};
  m->data = malloc(m->room);
  return m->data != NULL;
}

static bool make_room(cluster_message *m, size_t bytes) {
  if (bytes <= m->room) return true;
  char *larger = realloc(m->data, bytes);
  if (!larger) return false;
  m->data = larger;
  m->room = bytes;
  return true;
}

/* Returns the bytes of `count` ROIs with the arrays in `present`. */
static size_t bytes_of(const cluster_message *m, int64_t count, int64_t present) {
  cluster_rois none = {0};
  array list[ARRAYS];
  size_t bytes = 0;
  list_arrays(&none, m->parameters, list);
  for (int i = 0; i < ARRAYS; i++)
    if (present >> i & 1) bytes += (size_t)count * list[i].bytes;
  return bytes;
}

void cluster_message_free(cluster_message *m) {
  free(m->data);
  m->data = NULL;
}

typedef enum direction { SEND, RECEIVE } direction;

/* Sends memory to another rank without conversion, or receives it. */
static compute_status move(const cluster_message *m, compute_process_group *group, direction way,
                           int32_t rank, void *data, size_t bytes) {
  compute_tensor *tensor = NULL;
  if (bytes == 0) return COMPUTE_OK;
  compute_status status = compute_tensor_wrap(m->device, COMPUTE_U8, COMPUTE_SHAPE((int64_t)bytes),
                                              NULL, data, NULL, NULL, &tensor);
  if (status) return status;
  status = way == SEND ? compute_group_send(group, tensor, rank, NULL, NULL)
                       : compute_group_receive(group, tensor, rank, NULL, NULL);
  compute_tensor_release(tensor);
  return status;
}

compute_status cluster_send(cluster_message *m, compute_process_group *group, cluster_news news,
                            const cluster_rois *rois, int64_t next) {
  cluster_rois all = *rois;
  array list[ARRAYS];
  int64_t present = 0;
  list_arrays(&all, m->parameters, list);
  for (int i = 0; i < ARRAYS; i++)
    if (address_of(&list[i])) present |= INT64_C(1) << i;
  const size_t bytes = bytes_of(m, rois->count, present);
  if (!make_room(m, bytes)) return COMPUTE_ERROR_OUT_OF_MEMORY;
  char *to = m->data;
  for (int i = 0; i < ARRAYS; i++) {
    const size_t size = present >> i & 1 ? (size_t)rois->count * list[i].bytes : 0;
    if (size > 0) memcpy(to, address_of(&list[i]), size);
    to += size;
  }
  const int64_t header[4] = {news, rois->count, next, present};
  memcpy(m->header, header, sizeof header);
  const compute_status status = move(m, group, SEND, 0, m->header, sizeof m->header);
  return status ? status : move(m, group, SEND, 0, m->data, bytes);
}

compute_status cluster_send_failure(cluster_message *m, compute_process_group *group,
                                    const char *words) {
  memset(m->header, 0, sizeof m->header);
  m->header[0] = CLUSTER_FAILED;
  snprintf(m->data, WORDS, "%s", words);
  const compute_status status = move(m, group, SEND, 0, m->header, sizeof m->header);
  return status ? status : move(m, group, SEND, 0, m->data, WORDS);
}

/* Sets the addresses of the arrays within a message. */
static void spread(const cluster_message *m, cluster_rois *rois) {
  array list[ARRAYS];
  char *at = m->data;
  *rois = (cluster_rois){.count = m->header[1]};
  list_arrays(rois, m->parameters, list);
  for (int i = 0; i < ARRAYS; i++) {
    if (!(m->header[3] >> i & 1)) continue;
    set_address(&list[i], at);
    at += (size_t)rois->count * list[i].bytes;
  }
}

compute_status cluster_receive(cluster_message *m, compute_process_group *group, int32_t from,
                               cluster_news *news, cluster_rois *rois, int64_t *next) {
  compute_status status = move(m, group, RECEIVE, from, m->header, sizeof m->header);
  if (status) return status;
  *news = (cluster_news)m->header[0];
  *next = m->header[2];
  if (m->header[1] < 0) return COMPUTE_ERROR_INTERNAL;
  const size_t bytes = *news == CLUSTER_FAILED ? WORDS : bytes_of(m, m->header[1], m->header[3]);
  if (!make_room(m, bytes)) return COMPUTE_ERROR_OUT_OF_MEMORY;
  status = move(m, group, RECEIVE, from, m->data, bytes);
  if (!status) spread(m, rois);
  return status;
}

compute_status cluster_let_end(cluster_message *m, compute_process_group *group, int32_t rank) {
  return move(m, group, SEND, rank, m->header, sizeof m->header);
}

compute_status cluster_wait_to_end(cluster_message *m, compute_process_group *group) {
  return move(m, group, RECEIVE, 0, m->header, sizeof m->header);
}
