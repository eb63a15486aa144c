/* SPDX-License-Identifier: MIT */
/* Internals of a fit over a cluster: the division of items, and results as messages. */
#ifndef TOOLS_FIT_CLUSTER_PRIVATE_H
#define TOOLS_FIT_CLUSTER_PRIVATE_H

#include "compute/distributed.h"
#include "programs/fit/cluster.h"

/* ---- Division ------------------------------------------------------------------------------ */

/* `items` in blocks, block b with rank b modulo `ranks`. A rank numbers its own items from 0. */
typedef struct division {
  int64_t items, block;
  int32_t rank, ranks;
} division;

static inline int32_t division_owner(const division *d, int64_t item) {
  return (int32_t)(item / d->block % d->ranks);
}

/* The item that is number `own` of this rank; for the end of a block, the end of it. */
static inline int64_t division_item(const division *d, int64_t own) {
  return (own / d->block * d->ranks + d->rank) * d->block + own % d->block;
}

/* The number that its owner gives an item. */
static inline int64_t division_own(const division *d, int64_t item) {
  return item / d->block / d->ranks * d->block + item % d->block;
}

/* How many of the first `items` are this rank's. */
int64_t division_count(const division *d, int64_t items);

/* ---- Messages ------------------------------------------------------------------------------ */

/* ROIs in a message at most, unless one frame has more: each holds whole frames, so that the output
 * may end after any of them. */
enum { CLUSTER_PIECE = 8192 };

/* Results of some ROIs, with their corners if they have any. */
typedef struct cluster_rois {
  int64_t count;
  compute_fit_results results;
  const int32_t *corners;
} cluster_rois;

/* `count` of them from `first` on. */
cluster_rois cluster_part(const cluster_rois *all, int64_t first, int64_t count,
                          int32_t parameters);

typedef enum cluster_news {
  CLUSTER_RESULTS = 0,
  CLUSTER_BLOCK_ENDS = 1, /* results, the last of a block */
  CLUSTER_FAILED = 2      /* no results: the words of an error */
} cluster_news;

/* A message: a header, then the arrays. Each array holds `count` entries. */
typedef struct cluster_message {
  int64_t header[4]; /* news, ROIs, the item that follows, which arrays there are (bits) */
  compute_device *device;
  int32_t parameters;
  char *data; /* grows as needed */
  size_t room;
} cluster_message;

/* `cpu` holds the messages. Out of memory: false. */
bool cluster_message_create(cluster_message *m, compute_device *cpu, int32_t parameters);
void cluster_message_free(cluster_message *m);

compute_status cluster_send(cluster_message *m, compute_process_group *group, cluster_news news,
                            const cluster_rois *rois, int64_t next);
compute_status cluster_send_failure(cluster_message *m, compute_process_group *group,
                                    const char *words);

/* `rois` lies in the message until the next one. After CLUSTER_FAILED m->data holds the words. */
compute_status cluster_receive(cluster_message *m, compute_process_group *group, int32_t from,
                               cluster_news *news, cluster_rois *rois, int64_t *next);

/* A rank that has failed waits until the leader lets it end. */
compute_status cluster_let_end(cluster_message *m, compute_process_group *group, int32_t rank);
compute_status cluster_wait_to_end(cluster_message *m, compute_process_group *group);

#endif
