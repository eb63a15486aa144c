/* SCATTER: what is decided about a kernel, and the part that writes it. */
#ifndef GENERATE_SCATTER_H
#define GENERATE_SCATTER_H

#include "generate/emit.h"

enum {
  WALK = 1, /* compute_tuning.variant */
  STAGED = 2,
  GROUP = 128,
  GROUPS_PER_UNIT = 16,
  DEFAULT_UNITS = 16,
  UPDATES_OF_PART = 64, /* at least */
  UPDATES_OF_CPU_PART = 1024,
  SHARES_PER_UNIT = 2,
  SHARE = 1 << 14, /* additions for which a CPU item pays */
  LINE = 16,       /* columns of a CPU item, if there are as many */
  WORKSPACE_LIMIT = 64 << 20
};

typedef struct scatter {
  generation *g;
  emit_space columns; /* the free dimensions: in0, out0, and in1 unless `slices` */
  emit_space updates; /* the others: in0 */
  emit_space indices; /* the same: in1 */
  emit_space result;  /* axis, then free dimensions: out0; if `copies` */
  int64_t column_count, update_count;
  bool slices; /* all columns share the indices */
  bool staged; /* chunks of indices go through local memory */
  bool copies; /* sums are taken in the workspace */
  compute_dtype sum;
  uint32_t sum_bytes;
  uint32_t group_x, group_y; /* columns and ranges of a group */
  int64_t ranges, rows;      /* of the axis; places of one */
  int64_t parts, part;       /* of the updates; updates of one */
  int64_t width, pieces;     /* CPU: columns of an item; pieces of a line of columns */
} scatter;

/* Adds the launches. */
void scatter_write(scatter *s);

#endif
