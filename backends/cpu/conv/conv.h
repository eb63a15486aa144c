/* SPDX-License-Identifier: MIT */
/* Convolution on the CPU: the declarations that its files share.
 *
 *   conv.c           reads the descriptor and picks the first implementation that accepts it;
 *                    the first candidate treats filters of one element as a matrix product
 *   conv_depthwise.c FORWARD of single channels, if data and results have channels last
 *   conv_planes.c    FORWARD of single channels, if the planes need no copy
 *   conv_narrow.c    FORWARD of groups with one result: small planes, which it transposes
 *   conv_rows.c      FORWARD if results have channels last (perhaps pooled), or if transposing
 *                    planes pays; BY_DATA of planes without strides flips the filter
 *   conv_rows_schedule.c its schedule
 *   conv_rows_pack.c its prepacked filters
 *   conv_taps.c      FORWARD and BY_DATA of small planes, tap by tap
 *   conv_places.c    its copies, position by position
 *   conv_winograd.c  FORWARD and BY_DATA for 3 × 3 filters, with fewer products, where allowed
 *   conv_direct.c    all three directions for groups of few channels
 *   conv_filter.c    BY_FILTER: sums over all results
 *   conv_filter_taps.c its products for small planes, tap by tap
 *   conv_sweep.c     FORWARD and BY_DATA: windows of a padded copy times the filter
 *   conv_common.c    the taps along one dimension; the epilogue
 *
 * No implementation builds the matrix of all windows ("im2col"): it would be larger than the data
 * by the number of filter elements. Each block of data is copied once, with its padding, so that
 * every window of the block has the same shape at another address. The micro-kernels of matrix
 * multiplication then run on addresses. */
#ifndef CPU_CONV_CONV_H
#define CPU_CONV_CONV_H

#include "conv/isa/conv_table.h"
#include "conv/isa/depthwise_bytes_table.h"
#include "conv/isa/depthwise_table.h"
#include "conv/isa/planes_table.h"
#include "conv/isa/pooled_table.h"
#include "gemm/isa/gemm_table.h"
#include "program/program.h"

/* Results along one dimension, and the taps (positions in the filter) that read data for at least
 * one of them. Result i of `count` has index first + i·step in the output. Tap u reads the filter
 * at filter_first + u·filter_step. For result i it reads the source at
 * i·source_step + offset_first + u·offset_step.
 *
 * FORWARD has one axis per dimension. BY_DATA with a stride has one per phase: each phase is every
 * stride-th element of the data, and all its elements use the same taps. */
typedef struct conv_axis {
  int64_t count, first, step;
  int64_t source_step, source_size;
  int64_t taps, filter_first, filter_step, offset_first, offset_step; /* offset_step > 0 */
  /* The copy groups the source's elements by residue modulo source_step, so that neighbouring
   * results read neighbours. The taps use `splits` residues and read up to `reach` elements after
   * i. */
  int64_t splits, reach;
  int64_t taps_before; /* taps of the preceding axes of a list */
} conv_axis;

typedef struct conv_operand {
  compute_dtype dtype;
  uint32_t size; /* bytes of an element */
  int64_t stride[4];
} conv_operand;

/* Limits of the tap-by-tap implementations: extent of the filter, and stride. */
enum { CONV_TAPS_MOST = 8, CONV_TAPS_STRIDE = 4 };

/* A copy of some images by position: the channels of a position are contiguous, and the images
 * follow each other at each position. The positions of one residue modulo the source's step form a
 * part, so that one tap reads neighbours for neighbouring results (conv_places.c). */
typedef struct conv_places {
  int64_t size[2], step[2];         /* rows and columns of the source; step between results */
  int64_t place[2];                 /* rows and columns of a part */
  int64_t parts[2];                 /* residues that the taps use … */
  int8_t part[2][CONV_TAPS_STRIDE]; /* … and the part of each residue, or −1 */
  int64_t pixel;                    /* elements between the same position of two images */
} conv_places;

/* The results for which one tap reads data, along one dimension. Result i reads position i + base
 * of the part with this residue. */
typedef struct conv_reach {
  int64_t first, end, residue, base;
} conv_reach;

/* The schedule of FORWARD and BY_DATA. A unit is a tile of results (some rows and columns of one
 * image, one phase and one group) for some of the group's result channels. */
typedef struct conv_schedule {
  int64_t source_channels, result_channels; /* of one group */
  int64_t rows, columns, bands_h, bands_w;  /* the largest tile; tiles of the largest phase */
  int64_t block_m, blocks_m;                /* result channels of a unit; number of blocks */
  int64_t channels;                         /* source channels per block of k */
  bool taps_inside;   /* k runs over (channel, tap), else over (tap, channel) */
  bool by_row;        /* rows of results are multiplied separately */
  bool dense;         /* panels contain only windows, across rows and images */
  int64_t images;     /* of a unit: one, unless `dense` */
  int64_t chunk_rows; /* rows of results between two calls of the epilogue */
  int64_t units, chunk, tasks;
  int64_t splits_w, part, plane, pitch; /* of the copy: elements of a part, a channel, a row */
  int64_t sums_row;                     /* elements between the sums of two channels */
  uint64_t copy_bytes, sums_bytes, list_bytes, panel_bytes, worker_bytes, packed_bytes;
} conv_schedule;

/* The schedule of BY_FILTER. A unit is a block of the filter (some result channels and some data
 * channels of one group, all taps). It is summed over one of `parts` parts of the tiles of
 * results. */
typedef struct conv_filter_schedule {
  int64_t block_m, blocks_m, block_c, blocks_c; /* result channels, data channels */
  int64_t rows, columns, bands_h, bands_w;      /* of results, summed from one copy */
  int64_t images;                               /* of a copy: one, unless they are small */
  int64_t chunk_rows;                           /* of results, multiplied at a time */
  int64_t parts;
  bool dots;             /* dot products along rows of results, else register tiles */
  int64_t step[2];       /* rows and columns of the copy between two windows */
  int64_t height, width; /* of the copy */
  int64_t tile;          /* elements of a unit's sums */
  uint64_t copy_bytes, factor_bytes, list_bytes, panel_bytes, worker_bytes, sums_bytes;
  /* Tap by tap: the sizes of both packed factors. All packing precedes the products. */
  bool taps;
  conv_places data, gradient; /* of one panel of data channels; of one tile of result channels */
  int64_t image_parts;        /* … of `images` each */
  int64_t tiles, panels;      /* of a block, at most */
  int64_t tile_bytes, panel_each; /* of one tile or panel of one part of the images */
  uint64_t packed_bytes;
} conv_filter_schedule;

/* A block of the filter, and a tile of results: from one image, or from several small whole images.
 * `rows` counts the rows of all its images, one after the other. */
typedef struct conv_filter_unit {
  int64_t group, m, m_count, c, c_count;
  int64_t image, row, rows, column, columns;
} conv_filter_unit;

/* The schedule of Winograd's minimal filtering. A unit is a run of tiles, numbered through all
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
  int64_t pitch;                      /* between two planes, or the sums of two channels */
  int64_t filter_position, source_position, sums_position; /* from one position to the next */
  int64_t together; /* result channels between two calls of the epilogue */
  int64_t source_elements, sums_elements, planes_elements, results_elements;
  uint64_t worker_bytes, filter_bytes;
} conv_winograd;

/* The schedule of FORWARD with channels last (conv_rows.c). Steps are in elements of the copy,
 * unless noted. */
typedef struct conv_rows {
  int64_t channels, results;  /* data channels and result channels of one group */
  int64_t size;               /* bytes of an element of the copy */
  int64_t pixel, line;        /* from pixel to pixel, and from row to row */
  int64_t step[2];            /* pixels and rows between two results' windows */
  int64_t run, runs;          /* contiguous elements of a window; runs of a window */
  int64_t taps;               /* of a run */
  int64_t row_runs, together; /* runs at one distance `apart`; runs per product */
  int64_t apart;
  int64_t panels, lines; /* of the filter, for one group; of a panel, for one run */
  int64_t filter_first;  /* offset of its first tap */
  bool sparse;           /* the copy has only the pixels that filters of one element read */
  bool finishes;         /* the micro-kernel computes the epilogue, … */
  uint64_t values; /* … and then adds an input: offset of the values in a worker's memory; or 0 */
  bool short_windows; /* results are pooled in registers */
  uint64_t pooled; /* offset of the pooled results before the epilogue in a worker's memory; or 0 */
  bool turned;     /* the results are planes, transposed panel by panel; … */
  int64_t chunk;   /* … after so many rows of results; … */
  uint64_t planes; /* … offset of the transposed planes in a worker's memory; or 0 */
  int64_t plane;   /* elements between two transposed planes */
  bool even;       /* the last window of a row and the next row's first are one step apart */
  int64_t band, bands;   /* rows of results */
  int64_t block, blocks; /* panels */
  int64_t units;
  uint64_t copy_bytes, list_bytes, worker_bytes, packed_bytes;
} conv_rows;

/* The schedule of small planes, tap by tap (conv_taps.c). A unit is some images and one of `blocks`
 * blocks of panels of result channels, of one group. Steps are in elements. */
typedef struct conv_taps {
  int64_t channels, results; /* source channels and result channels of one group */
  conv_places places;        /* of the source */
  int64_t images, image_parts;
  int64_t panels, block, blocks;
  int64_t together; /* taps of a column of the filter that are multiplied at a time, at most */
  int64_t taps;     /* that read data */
  int16_t order[CONV_TAPS_MOST * CONV_TAPS_MOST]; /* of the filter's taps within a panel, or −1 */
  bool turned;                                    /* sums are transposed to planes */
  bool direct;                                    /* … directly in the output */
  int64_t row;                                    /* elements of sums between two positions */
  int64_t units;
  uint64_t copy_bytes, sums_bytes, image_bytes, worker_bytes, packed_bytes;
} conv_taps;

/* The schedule of depthwise convolution with channels last (conv_depthwise.c). A task is `chunk`
 * rows of results. */
typedef struct conv_depthwise {
  cpu_depthwise_loop run;                 /* NULL: not accepted */
  bool finishes;                          /* the loop begins the epilogue */
  const cpu_depthwise_bytes_table *bytes; /* makes bytes directly; its packed filter … */
  uint64_t bytes_at;                      /* … has this offset; or NULL … */
  int64_t rows;                           /* … so many rows of results at a time */
  int64_t block;                          /* channels */
  int64_t chunk, tasks;
  uint64_t worker_bytes, packed_bytes;
} conv_depthwise;

/* The schedule of depthwise convolution on planes (conv_planes.c). A unit is a row tile of one
 * plane of results; a task is `chunk` units. */
typedef struct conv_planes {
  cpu_planes_loop run;
  bool finishes;       /* the loop begins the epilogue */
  bool in_place;       /* the loop's results are the output */
  int64_t rows, bands; /* of a tile; tiles of a plane */
  int64_t units, chunk, tasks;
  uint64_t worker_bytes;
} conv_planes;

/* The schedule of depthwise convolution of small planes (conv_narrow.c), beside that with channels
 * last. A unit is a block of channels of one image; a task is `chunk` units. */
typedef struct conv_narrow {
  bool finishes;         /* the loop does the whole epilogue */
  bool in_place;         /* the transposed sums are the output */
  int64_t block, blocks; /* channels; blocks of an image */
  int64_t units, chunk, tasks;
  uint64_t worker_bytes;
} conv_narrow;

enum { CONV_WINOGRAD_SLACK = 64 }; /* elements that vectors may access past lines and boxes */

typedef struct cpu_conv {
  cpu_kernel head;
  compute_conv_attributes shape;
  int64_t size[4]; /* of the results */
  compute_dtype accumulate;
  uint32_t element; /* bytes of an element of `accumulate` */
  const cpu_gemm_type *type;
  conv_operand input[2];
  uint32_t extra_count, output_count;
  conv_operand extra[COMPUTE_MAX_OPERANDS]; /* the epilogue's inputs, from input 1 on */
  conv_operand output[COMPUTE_MAX_OPERANDS];
  cpu_program *epilogue;
  bool identity;      /* the epilogue only stores the sums, without conversion */
  bool coordinates;   /* the epilogue reads coordinates */
  cpu_kernel *matrix; /* the equivalent matrix product, or NULL */
  bool swapped;       /* the product's first factor is inputs[1] */
  conv_axis *axes[2]; /* height, width */
  int64_t axis_count[2];
  conv_schedule schedule;
  conv_filter_schedule filter;
  struct conv_direct *direct; /* NULL unless conv_direct.c accepted */
  conv_rows rows;
  conv_taps taps;
  conv_depthwise depthwise;
  conv_planes planes;
  conv_narrow narrow;
  bool packed; /* launches receive a prepacked filter (rows, depthwise) */
  bool winograd_allowed;
  conv_winograd winograd;
} cpu_conv;

/* A box of the results: element (i0…i3) is result first + i·step; its sum is at sum_stride·i in
 * `sums`. */
typedef struct conv_box {
  int64_t first[4], count[4], step[4];
  int64_t sum_stride[4];
  unsigned char *sums; /* may be overwritten */
} conv_box;

void conv_epilogue_run(const cpu_conv *conv, void *const *pointers, const conv_box *box);

/* Binds the requantization of sums to bytes (requantize.h) to the operands of a launch, from this
 * image and channel on. */
cpu_requantize_lines conv_requantize_bind(const cpu_conv *conv, void *const *pointers,
                                          int64_t image, int64_t channel);

/* Size of equal parts of `count` elements: the fewest parts of at most `most`. Returns 1 if `count`
 * is 0. */
static inline int64_t conv_equal_parts(int64_t count, int64_t most) {
  const int64_t parts = cpu_divide_up(count, cpu_max(most, 1));
  return count > 0 ? cpu_divide_up(count, parts) : 1;
}

/* Finds the axes of both dimensions, unless they exist. May return COMPUTE_ERROR_OUT_OF_MEMORY. */
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
compute_status conv_narrow_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                  const char **reason);
compute_status conv_direct_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                  const char **reason);
compute_status conv_filter_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                  const char **reason);
compute_status conv_sweep_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                 const char **reason);

/* The reason why results of FORWARD cannot be pooled, or NULL. */
const char *conv_rows_refuse_pool(const compute_kernel_descriptor *descriptor);

/* cpu_kind.packed_bytes and pack for the filter. */
uint64_t conv_rows_packed_bytes(const cpu_conv *conv, uint64_t *form);
compute_status conv_rows_pack(const cpu_conv *conv, const void *filter, void *packed);
uint64_t conv_depthwise_packed_bytes(const cpu_conv *conv, uint64_t *form);
void conv_depthwise_pack(const cpu_conv *conv, const void *filter, void *packed);

/* A launch with the filter as [taps][channels], and `worker_bytes` of memory for each worker. */
typedef struct conv_depthwise_launch {
  const cpu_conv *conv;
  void *const *pointers;
  const unsigned char *weights;
  unsigned char *workers;
} conv_depthwise_launch;

/* Runs `task` for each of the tasks, with the launch as its argument. */
compute_status conv_depthwise_start(const cpu_conv *conv, void *const *pointers, int64_t tasks,
                                    uint64_t worker_bytes,
                                    void (*task)(void *argument, int64_t number, int32_t worker));

/* `true` if the epilogue begins by adding a bias per channel, and limits: the loop for channels last
 * can do both. Then its finish for the channels from `channel` on. */
bool conv_depthwise_can_finish(const cpu_conv *conv);
cpu_depthwise_finish conv_depthwise_place_finish(const cpu_conv *conv, void *const *pointers,
                                                 int64_t channel);

/* ---- Tap by tap ------------------------------------------------------------------------------ */

conv_reach conv_reach_of(const conv_axis *axis, int64_t tap);

/* Finds the parts and positions that the taps of the axes read. */
void conv_places_choose(const cpu_conv *conv, conv_places *p);

/* Offset of position (row, column) of a part, in elements. */
static inline int64_t conv_place(const conv_places *p, int64_t images, int64_t part_h,
                                 int64_t part_w, int64_t row, int64_t column) {
  const int64_t part = part_h * p->parts[1] + part_w;
  return ((part * p->place[0] + row) * p->place[1] + column) * images * p->pixel;
}

/* Elements of the copy of `images` images. */
int64_t conv_places_elements(const conv_places *p, int64_t images);

/* Copies `channels` channels of `images` images, from the first image's data at `from`. `line` is
 * scratch memory for a row of one image, used if a step is not 1. */
void conv_places_copy(const cpu_conv *conv, const conv_operand *x, const conv_places *p,
                      const unsigned char *from, int64_t channels, int64_t images,
                      unsigned char *line, unsigned char *copy);

/* BY_FILTER tap by tap: the schedule, if the shape suits; the packing; and one part of the sum.
 * With a whole block's sums, the last one also prefetches the epilogue's inputs. */
void conv_filter_taps_choose(cpu_conv *conv);
void conv_filter_taps_pack(const cpu_conv *conv, void *const *pointers, unsigned char *packed,
                           unsigned char *workers);
void conv_filter_taps_sum(const cpu_conv *conv, void *const *pointers,
                          const conv_filter_unit *block, int64_t part, unsigned char *packed,
                          unsigned char *sums);

/* ---- Shared by sweep and pack --------------------------------------------------------------- */

/* The work of one unit. */
typedef struct conv_unit {
  const conv_axis *h, *w;
  int64_t image, images, group;
  int64_t row, rows, column, columns; /* of results, within the phase */
  int64_t m, m_count;                 /* result channels, within the group */
} conv_unit;

/* Copies the source of a unit, all channels of its group. If `cleared`, the copy already has the
 * padding, from a unit of the same phase and tile. */
void conv_copy_source(const cpu_conv *conv, const void *source, const conv_unit *unit, bool cleared,
                      unsigned char *copy);

/* Packs the filter for one phase, group and block of channels, blocks of k one after the other. */
void conv_pack_filter(const cpu_conv *conv, const void *filter, const conv_unit *unit,
                      unsigned char *packed);

/* Lists the offsets of the rows of k in the copy, for `channels` channels. */
void conv_list_rows(const cpu_conv *conv, const conv_unit *unit, int64_t channels, int64_t *rows);

/* ---- Direct convolution ---------------------------------------------------------------------- */

/* Direct convolution, for groups of few channels. The tiles of a matrix product would be mostly
 * empty there; depthwise convolution is the extreme case.
 *
 * Planes of the data are copied with their padding. A plane of results is a weighted sum of shifted
 * windows of them (isa/conv_table.h). An element of the filter's gradient is the product of such a
 * window with a plane of y's gradient. */

/* The schedule. A unit is a row tile of results of one image and one group. A row of the copy
 * consists of `residues` parts: columns of one residue modulo the stride are contiguous, in the
 * order of the neighbouring results that read them. One copy serves the results of all phases
 * (conv_axis). */
struct conv_direct {
  const cpu_direct_loops *loops;
  int64_t sources, results;             /* planes of one group: copied; computed */
  int64_t count[2], step[2];            /* results of the largest phase; source step between them */
  int64_t low[2], reach[2];             /* a window's first position; from there to its last */
  int64_t residues, part, pitch, plane; /* elements of a part, a row, a plane of the copy */
  int64_t rows, bands;                  /* of results of the largest phase */
  int64_t taps;                         /* of the whole filter, in all phases */
  bool squares;                         /* 3 × 3, contiguous */
  int64_t units, chunk, tasks;
  int64_t parts; /* BY_FILTER: of the units, summed separately */
  uint64_t copy_bytes, plane_bytes, phase_bytes, weight_bytes, worker_bytes;
  int64_t places[]; /* offsets of the taps in the copy: by phase, source channel, tap */
};

/* Result channels per call of the micro-kernels in BY_FILTER. */
#define CONV_DIRECT_TOGETHER 2

/* The work of one unit; rows count within the phases. */
typedef struct direct_unit {
  int64_t image, group, band, row, rows;
} direct_unit;

/* Makes the schedule. Returns NULL if memory is short (then *fits is true) or the shape does not
 * suit. */
struct conv_direct *conv_direct_schedule(const cpu_conv *conv, bool *fits);

/* Copies the source planes of a unit. The padding around them is the same for all units of a tile.
 * It is cleared if *cleared, the number of a tile or −1, differs from the unit's. */
void conv_direct_copy(const cpu_conv *conv, const void *source, const direct_unit *unit,
                      int64_t *cleared, unsigned char *copy);

#endif
