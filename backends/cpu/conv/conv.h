/* SPDX-License-Identifier: MIT */
/* Convolution on the CPU, inside: what its files share.
 *
 *   conv.c           makes a kernel: reads the descriptor, offers it to the implementations;
 *                    the first of them: filters of one element are a matrix product
 *   conv_depthwise.c FORWARD of single channels, where data and results have channels last
 *   conv_planes.c    FORWARD of single channels, where planes do not need a copy
 *   conv_rows.c      FORWARD where results have channels last, perhaps pooled, or planes repay
 *                    turning; BY_DATA of planes without strides is turned into that
 *   conv_rows_schedule.c how it cuts its work
 *   conv_rows_pack.c its filters
 *   conv_taps.c      FORWARD and BY_DATA of small planes, tap by tap
 *   conv_places.c    its copies, place by place
 *   conv_winograd.c  FORWARD and BY_DATA for 3 × 3 filters, with fewer products, where allowed
 *   conv_direct.c    all three directions for groups of few channels
 *   conv_filter.c    BY_FILTER: sums over all results
 *   conv_filter_taps.c its products where planes are small, tap by tap
 *   conv_sweep.c     FORWARD and BY_DATA: windows of a padded copy times the filter
 *   conv_common.c    which taps meet which data along one dimension; the epilogue
 *
 * Nothing makes the matrix of all windows ("im2col"), which has as many times the data's elements
 * as the filter has. Data are copied once per block, with their padding, so that every window of
 * the block is the same shape at another address; the micro-kernels of matrix multiplication then
 * run on addresses. */
#ifndef CPU_CONV_CONV_H
#define CPU_CONV_CONV_H

#include "conv/isa/conv_table.h"
#include "conv/isa/depthwise_bytes_table.h"
#include "conv/isa/depthwise_table.h"
#include "conv/isa/planes_table.h"
#include "conv/isa/pooled_table.h"
#include "gemm/isa/gemm_table.h"
#include "program/program.h"

/* Results along one dimension, and the taps (positions in the filter) that meet data for any of
 * them. Result i of `count` is number first + i·step of the output; tap u reads the filter at
 * filter_first + u·filter_step and, for result i, the source at
 * i·source_step + offset_first + u·offset_step.
 *
 * FORWARD has one of them per dimension. BY_DATA with a stride has one per phase: every stride-th
 * element of the data is reached by the same taps, and these alone. */
typedef struct conv_axis {
  int64_t count, first, step;
  int64_t source_step, source_size;
  int64_t taps, filter_first, filter_step, offset_first, offset_step; /* offset_step > 0 */
  /* The copy has the source's elements of one residue by source_step together, so that neighbouring
   * results read neighbours: `splits` residues are met, and a tap reads up to `reach` after i. */
  int64_t splits, reach;
  int64_t taps_before; /* of the axes before, in a list */
} conv_axis;

typedef struct conv_operand {
  compute_dtype dtype;
  uint32_t size; /* bytes of an element */
  int64_t stride[4];
} conv_operand;

/* Filters that are taken tap by tap: their extent, and the stride. */
enum { CONV_TAPS_MOST = 8, CONV_TAPS_STRIDE = 4 };

/* A copy of some images, place by place, with the channels of a place side by side and at each
 * place the images after each other. Places of one residue by the source's step are a part of it,
 * so that what one tap meets for neighbouring results are neighbours (conv_places.c). */
typedef struct conv_places {
  int64_t size[2], step[2];         /* of the source: rows and columns; between results' places */
  int64_t place[2];                 /* rows and columns of a part */
  int64_t parts[2];                 /* residues that a tap meets … */
  int8_t part[2][CONV_TAPS_STRIDE]; /* … and which part one is in, or −1 */
  int64_t pixel;                    /* elements from one image's place to the next's */
} conv_places;

/* The results that a tap meets data for along one dimension, and where: result i at place i + base
 * of the part with this residue. */
typedef struct conv_reach {
  int64_t first, end, residue, base;
} conv_reach;

/* How FORWARD and BY_DATA cut their work. A unit is a band of results (some rows and columns of one
 * image, one phase and one group) for some of the group's result channels. */
typedef struct conv_schedule {
  int64_t source_channels, result_channels; /* of one group */
  int64_t rows, columns, bands_h, bands_w;  /* the largest band; the bands of the largest phase */
  int64_t block_m, blocks_m;                /* result channels of a unit; units side by side */
  int64_t channels;                         /* source channels per block of k */
  bool taps_inside;   /* k runs over (channel, tap), else over (tap, channel) */
  bool by_row;        /* rows of results are multiplied one by one */
  bool dense;         /* panels are put together of windows alone, across rows and images */
  int64_t images;     /* of a unit: one, unless `dense` */
  int64_t chunk_rows; /* rows of results between two calls of the epilogue */
  int64_t units, chunk, tasks;
  int64_t splits_w, part, plane, pitch; /* of the copy: elements of a part, a channel, a row */
  int64_t sums_row;                     /* elements from one channel's sums to the next's */
  uint64_t copy_bytes, sums_bytes, list_bytes, panel_bytes, worker_bytes, packed_bytes;
} conv_schedule;

/* How BY_FILTER cuts its work. A unit is a block of the filter (some result channels and some data
 * channels of one group, all taps), summed over one of `parts` parts of the bands of results. */
typedef struct conv_filter_schedule {
  int64_t block_m, blocks_m, block_c, blocks_c; /* result channels, data channels */
  int64_t rows, columns, bands_h, bands_w;      /* of results, summed from one copy */
  int64_t images;                               /* of a copy: one, unless they are small */
  int64_t chunk_rows;                           /* of results, multiplied at a time */
  int64_t parts;
  bool dots;             /* dot products along rows of results, else register tiles */
  int64_t step[2];       /* rows and columns of the copy from one result's window to the next */
  int64_t height, width; /* of the copy */
  int64_t tile;          /* elements of a unit's sums */
  uint64_t copy_bytes, factor_bytes, list_bytes, panel_bytes, worker_bytes, sums_bytes;
  /* Tap by tap: what both factors are packed into before anything is multiplied. */
  bool taps;
  conv_places data, gradient; /* of one panel of data channels; of one tile of result channels */
  int64_t image_parts;        /* … of `images` each */
  int64_t tiles, panels;      /* of a block, at most */
  int64_t tile_bytes, panel_each; /* of one tile or panel of one part of the images */
  uint64_t packed_bytes;
} conv_filter_schedule;

/* A block of the filter, and a band of results: of one image, or whole small ones. `rows` are those
 * of all images, one after the other. */
typedef struct conv_filter_unit {
  int64_t group, m, m_count, c, c_count;
  int64_t image, row, rows, column, columns;
} conv_filter_unit;

/* How Winograd's minimal filtering cuts its work. A unit is a run of tiles, numbered through all
 * images, for one group and one of `parts_m` parts of its result channels. Counts and steps are in
 * elements. */
typedef struct conv_winograd {
  const struct cpu_winograd *loops;         /* isa/conv_table.h */
  int64_t source_channels, result_channels; /* of one group */
  int64_t source_size[2], padding[2];       /* which may be negative in BY_DATA */
  int64_t tiles_h, tiles_w, tiles;          /* of an image; of all */
  int64_t run, parts_m;
  int64_t tiles_m;                    /* register tiles in a block of result channels */
  int64_t block_m, blocks_m, block_k; /* channels that are multiplied at a time */
  int64_t pitch;                      /* from one plane, or channel's sums, to the next */
  int64_t filter_position, source_position, sums_position; /* from one position to the next */
  int64_t together; /* result channels between two calls of the epilogue */
  int64_t source_elements, sums_elements, planes_elements, results_elements;
  uint64_t worker_bytes, filter_bytes;
} conv_winograd;

/* How FORWARD with channels last cuts its work (conv_rows.c). Steps are in elements, those of the
 * copy where nothing else is said. */
typedef struct conv_rows {
  int64_t channels, results;  /* data channels and result channels of one group */
  int64_t size;               /* bytes of an element of the copy */
  int64_t pixel, line;        /* from pixel to pixel, and from row to row */
  int64_t step[2];            /* pixels and rows from one result's window to the next */
  int64_t run, runs;          /* elements of a window that lie side by side; of one window */
  int64_t taps;               /* of a run */
  int64_t row_runs, together; /* runs at one distance `apart`; so many are multiplied at a time */
  int64_t apart;
  int64_t panels, lines; /* of the filter, for one group; of a panel, for one run */
  int64_t filter_first;  /* where its first tap lies */
  bool sparse;           /* the copy has only the pixels that filters of one element meet */
  bool finishes;         /* the micro-kernel computes the epilogue, … */
  uint64_t values;       /* … to which an input is added then: where in a worker's memory; or 0 */
  bool short_windows;    /* and pooled: sums stay in registers until then */
  uint64_t pooled;       /* largest results for the epilogue: where in a worker's memory; or 0 */
  bool turned;           /* the results are planes, turned panel by panel; … */
  int64_t chunk;         /* … after so many rows of results; … */
  uint64_t planes;       /* … where in a worker's memory they wait; or 0 */
  int64_t plane;         /* from one of these to the next */
  bool even;             /* from the last window of a row to the next row's it is one step */
  int64_t band, bands;   /* rows of results */
  int64_t block, blocks; /* panels */
  int64_t units;
  uint64_t copy_bytes, list_bytes, worker_bytes, packed_bytes;
} conv_rows;

/* How small planes are convolved tap by tap (conv_taps.c). A unit is some images and one of
 * `blocks` blocks of panels of result channels, of one group. Steps are in elements. */
typedef struct conv_taps {
  int64_t channels, results; /* source channels and result channels of one group */
  conv_places places;        /* of the source */
  int64_t images, image_parts;
  int64_t panels, block, blocks;
  int64_t together; /* taps of a column of the filter that are multiplied at a time, at most */
  int64_t taps;     /* that meet anything */
  int16_t order[CONV_TAPS_MOST * CONV_TAPS_MOST]; /* of the filter's taps within a panel, or −1 */
  bool turned;                                    /* sums are turned to planes */
  bool direct;                                    /* … which are the output */
  int64_t row;                                    /* of sums: from place to place */
  int64_t units;
  uint64_t copy_bytes, sums_bytes, image_bytes, worker_bytes, packed_bytes;
} conv_taps;

/* How depthwise convolution with channels last cuts its work (conv_depthwise.c). A task is `chunk`
 * rows of results. */
typedef struct conv_depthwise {
  cpu_depthwise_loop run;                 /* NULL: not taken */
  bool finishes;                          /* the loop begins the epilogue */
  const cpu_depthwise_bytes_table *bytes; /* makes bytes at once, from a filter that lies … */
  uint64_t bytes_at;                      /* … there in the packed one; or NULL … */
  int64_t rows;                           /* … so many rows of results at a time */
  int64_t block;                          /* channels */
  int64_t chunk, tasks;
  uint64_t worker_bytes, packed_bytes;
} conv_depthwise;

/* How depthwise convolution on planes cuts its work (conv_planes.c). A unit is a band of one plane
 * of results, a task `chunk` units. */
typedef struct conv_planes {
  cpu_planes_loop run;
  bool finishes;       /* the loop begins the epilogue */
  bool in_place;       /* the loop's results are the output */
  int64_t rows, bands; /* of a band; of a plane */
  int64_t units, chunk, tasks;
  uint64_t worker_bytes;
} conv_planes;

enum { CONV_WINOGRAD_SLACK = 64 }; /* elements that vectors may touch after lines and boxes */

typedef struct cpu_conv {
  cpu_kernel head;
  compute_conv_attributes shape;
  int64_t size[4]; /* the space */
  compute_dtype accumulate;
  uint32_t element; /* bytes of one of it */
  const cpu_gemm_type *type;
  conv_operand input[2];
  uint32_t extra_count, output_count;
  conv_operand extra[COMPUTE_MAX_OPERANDS]; /* the epilogue's inputs from its number 1 on */
  conv_operand output[COMPUTE_MAX_OPERANDS];
  cpu_program *epilogue;
  bool identity;      /* the epilogue only stores the sums, in their own dtype */
  bool coordinates;   /* the epilogue reads coordinates */
  cpu_kernel *matrix; /* the product that it comes down to, or NULL */
  bool swapped;       /* whose first factor is inputs[1] */
  conv_axis *axes[2]; /* height, width */
  int64_t axis_count[2];
  conv_schedule schedule;
  conv_filter_schedule filter;
  struct conv_direct *direct; /* conv_direct.h, where that way is taken */
  conv_rows rows;
  conv_taps taps;
  conv_depthwise depthwise;
  conv_planes planes;
  bool packed; /* launches have the filter packed, for rows or channels */
  bool winograd_allowed;
  conv_winograd winograd;
} cpu_conv;

/* A box of the space: element (i0…i3) is at first + i·step, and its sum sum_stride·i after `sums`.
 */
typedef struct conv_box {
  int64_t first[4], count[4], step[4];
  int64_t sum_stride[4];
  unsigned char *sums; /* may be overwritten */
} conv_box;

void conv_epilogue_run(const cpu_conv *conv, void *const *pointers, const conv_box *box);

/* The size of equal parts of `count`, as few as possible of at most `most`; 1 of nothing. */
static inline int64_t conv_equal_parts(int64_t count, int64_t most) {
  const int64_t parts = cpu_divide_up(count, cpu_max(most, 1));
  return count > 0 ? cpu_divide_up(count, parts) : 1;
}

/* The axes of both dimensions, unless they are there. COMPUTE_ERROR_OUT_OF_MEMORY. */
compute_status conv_axes_find(cpu_conv *conv);

/* The implementations: cpu_implementation.accept. */
compute_status conv_winograd_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                    const char **reason);
compute_status conv_rows_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                const char **reason);
compute_status conv_taps_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                const char **reason);
compute_status conv_depthwise_accept(cpu_kernel *kernel,
                                     const compute_kernel_descriptor *descriptor,
                                     const char **reason);
compute_status conv_planes_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                  const char **reason);
compute_status conv_direct_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                  const char **reason);
compute_status conv_filter_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                  const char **reason);
compute_status conv_sweep_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                 const char **reason);

/* Why results of FORWARD are not pooled, or NULL. */
const char *conv_rows_refuse_pool(const compute_kernel_descriptor *descriptor);

/* cpu_kind.packed_bytes and pack, of the filter. */
uint64_t conv_rows_packed_bytes(const cpu_conv *conv, uint64_t *form);
compute_status conv_rows_pack(const cpu_conv *conv, const void *filter, void *packed);
uint64_t conv_depthwise_packed_bytes(const cpu_conv *conv, uint64_t *form);
void conv_depthwise_pack(const cpu_conv *conv, const void *filter, void *packed);

/* ---- Tap by tap ------------------------------------------------------------------------------ */

conv_reach conv_reach_of(const conv_axis *axis, int64_t tap);

/* The parts and places that the taps of the axes meet. */
void conv_places_choose(const cpu_conv *conv, conv_places *p);

/* Where a place (row, column) of a part begins, in elements. */
static inline int64_t conv_place(const conv_places *p, int64_t images, int64_t part_h,
                                 int64_t part_w, int64_t row, int64_t column) {
  const int64_t part = part_h * p->parts[1] + part_w;
  return ((part * p->place[0] + row) * p->place[1] + column) * images * p->pixel;
}

/* Elements of the copy of `images` images. */
int64_t conv_places_elements(const conv_places *p, int64_t images);

/* Copies `channels` channels of `images` images, the first of which begins at `from`. `line` has
 * room for a row of one image, where steps are not one. */
void conv_places_copy(const cpu_conv *conv, const conv_operand *x, const conv_places *p,
                      const unsigned char *from, int64_t channels, int64_t images,
                      unsigned char *line, unsigned char *copy);

/* BY_FILTER tap by tap: the schedule, if the shape suits; the packing; and one part of the sum,
 * which asks for what the epilogue reads with the sums of a whole block. */
void conv_filter_taps_choose(cpu_conv *conv);
void conv_filter_taps_pack(const cpu_conv *conv, void *const *pointers, unsigned char *packed,
                           unsigned char *workers);
void conv_filter_taps_sum(const cpu_conv *conv, void *const *pointers,
                          const conv_filter_unit *block, int64_t part, unsigned char *packed,
                          unsigned char *sums);

/* ---- Shared by sweep and pack --------------------------------------------------------------- */

/* What one unit works on. */
typedef struct conv_unit {
  const conv_axis *h, *w;
  int64_t image, images, group;
  int64_t row, rows, column, columns; /* of results, within the phase */
  int64_t m, m_count;                 /* result channels, within the group */
} conv_unit;

/* Copies the source of a unit, all channels of its group. Where the copy is `cleared`, it has the
 * padding already, from a unit of the same phase and band. */
void conv_copy_source(const cpu_conv *conv, const void *source, const conv_unit *unit, bool cleared,
                      unsigned char *copy);

/* Packs the filter for one phase, group and block of channels, blocks of k one after the other. */
void conv_pack_filter(const cpu_conv *conv, const void *filter, const conv_unit *unit,
                      unsigned char *packed);

/* Where the rows of k of `channels` channels begin in the copy. */
void conv_list_rows(const cpu_conv *conv, const conv_unit *unit, int64_t channels, int64_t *rows);

/* ---- Direct convolution ---------------------------------------------------------------------- */

/* Direct convolution, inside: for groups of few channels, where the tiles of a matrix product would
 * be mostly empty. Depthwise convolution is the extreme of these.
 *
 * Planes of the data are copied with their padding, and every plane of results is a weighted sum
 * of shifted windows of them (isa/conv_table.h), or every element of the filter's gradient such a
 * window's product with a plane of y's gradient. */

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

#endif
