/* Direct convolution, inside: for groups of few channels, where the tiles of a matrix product would
 * be mostly empty. Depthwise convolution is the extreme of these.
 *
 * Planes of the data are copied with their padding, and every plane of results is a weighted sum
 * of shifted windows of them (isa/direct_table.h), or every element of the filter's gradient such a
 * window's product with a plane of y's gradient. */
#ifndef CPU_CONV_DIRECT_H
#define CPU_CONV_DIRECT_H

#include "conv.h"
#include "conv/isa/direct_table.h"

/* How the work is cut. A unit is a band of results of one image and one group. In the copy, a row
 * consists of `residues` parts: columns of one residue by the stride lie side by side, as
 * neighbouring results read them. Results of all phases (conv_axis) are made from one copy. */
struct conv_direct {
  const cpu_direct_loops *loops;
  int64_t sources, results;  /* planes of one group that are copied; that are made */
  int64_t count[2], step[2]; /* results of the largest phase; of the source, between them */
  int64_t low[2], reach[2];  /* a window's first place; from there to its last */
  int64_t residues, part, pitch, plane; /* elements of a part, a row, a plane of the copy */
  int64_t rows, bands;                  /* of results of the largest phase */
  int64_t taps;                         /* of the whole filter, in all phases */
  bool squares;                         /* 3 × 3, side by side */
  int64_t units, chunk, tasks;
  int64_t parts; /* BY_FILTER: of the units, summed apart */
  uint64_t copy_bytes, plane_bytes, phase_bytes, weight_bytes, worker_bytes;
  int64_t places[]; /* of the taps in the copy: by phase, source channel, tap */
};

/* Result channels that BY_FILTER takes at a time, as the micro-kernels do. */
#define CONV_DIRECT_TOGETHER 2

/* What one unit works on; rows are of the phases. */
typedef struct direct_unit {
  int64_t image, group, band, row, rows;
} direct_unit;

/* The schedule, or NULL when memory is short (then *fits) or the way does not fit the shape. */
struct conv_direct *conv_direct_schedule(const cpu_conv *conv, bool *fits);

/* Copies the source planes of a unit. The padding around them is the same for all units of a band:
 * it is cleared when *cleared, a band or −1, is another one. */
void conv_direct_copy(const cpu_conv *conv, const void *source, const direct_unit *unit,
                      int64_t *cleared, unsigned char *copy);

void conv_direct_filter_accept(cpu_conv *conv);

#endif
