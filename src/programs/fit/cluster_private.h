/* SPDX-License-Identifier: MIT */
/* Internals of a fit over a cluster: the division of items, and results as messages. */
#ifndef TOOLS_FIT_CLUSTER_PRIVATE_H
#define TOOLS_FIT_CLUSTER_PRIVATE_H

#include "compute/distributed.h"
#include "programs/fit/cluster.h"

/* ---- Division ------------------------------------------------------------------------------ */

/* `items` are divided into blocks. Block b belongs to rank b modulo `ranks`. A rank numbers its own
 * items from 0. */
typedef struct division {
  int64_t items, block;
  int32_t rank, ranks;
} division;

static inline int32_t division_owner(const division *d, int64_t item) {
  return (int32_t)(item / d->block % d->ranks);
}

/* Returns the item with number `own` on this rank. For the end of a block, returns the end of
 * it. */
static inline int64_t division_item(const division *d, int64_t own) {
  return (own / d->block * d->ranks + d->rank) * d->block + own % d->block;
}

/* Returns the number of an item on its owner. */
static inline int64_t division_own(const division *d, int64_t item) {
  return item / d->block / d->ranks * d->block + item % d->block;
}

/* Returns the number of this rank's items among the first `items`. */
int64_t division_count(const division *d, int64_t items);

/* ---- Messages ------------------------------------------------------------------------------ */

/* The maximum number of ROIs in a message, unless one frame has more. A message contains whole
 * frames, so that the output may end after any message. */
enum { CLUSTER_PIECE = 8192 };

/* Results of some ROIs, with corners if they have any. */
typedef struct cluster_rois {
  int64_t count;
  compute_fit_results results;
  const int32_t *corners;
} cluster_rois;

/* Returns `count` of them from `first` on. */
cluster_rois cluster_part(const cluster_rois *all, int64_t first, int64_t count,
                          int32_t parameters);

typedef enum cluster_news {
  CLUSTER_RESULTS = 0,
  CLUSTER_BLOCK_ENDS = 1, /* the last results of a block */
  CLUSTER_FAILED = 2      /* no results, but an error message */
} cluster_news;

/* A message: a header, then the arrays. Each array holds `count` entries. */
typedef struct cluster_message {
  int64_t header[4]; /* news, ROIs, the next item, present arrays (bits) */
  compute_device *device;
  int32_t parameters;
  char *data; /* grows as needed */
  size_t room;
} cluster_message;

/* Creates a message with memory on `cpu`. Returns false when out of memory. */
bool cluster_message_create(cluster_message *m, compute_device *cpu, int32_t parameters);
void cluster_message_free(cluster_message *m);

compute_status cluster_send(cluster_message *m, compute_process_group *group, cluster_news news,
                            const cluster_rois *rois, int64_t next);
compute_status cluster_send_failure(cluster_message *m, compute_process_group *group,
                                    const char *words);

/* Receives a message. `rois` points into the message and is valid until the next one. After
 * CLUSTER_FAILED, m->data contains the error text. */
compute_status cluster_receive(cluster_message *m, compute_process_group *group, int32_t from,
                               cluster_news *news, cluster_rois *rois, int64_t *next);

/* A failed rank waits in cluster_wait_to_end until the leader calls cluster_let_end. */
compute_status cluster_let_end(cluster_message *m, compute_process_group *group, int32_t rank);
compute_status cluster_wait_to_end(cluster_message *m, compute_process_group *group);

#endif
