/* SPDX-License-Identifier: MIT */
/* From clusters to steps: kernel descriptors, placement, storage. */
#ifndef PLAN_LOWER_H
#define PLAN_LOWER_H

#include "core/kernel/kernel.h"
#include "core/kernel/common/program.h"
#include "plan/compile/fuse/fuse.h"
#include "plan/compile/plan.h"
#include "plan/cost/costs.h"

/* One piece of memory with one lifetime. */
typedef struct storage {
  uint32_t slot;   /* IR_NONE until it is placed in an arena */
  uint32_t device; /* PLAN_MAIN or PLAN_CPU */
  uint64_t offset, bytes;
  uint32_t first, last; /* steps that write and read it, in running order */
  uint32_t home;        /* another storage whose memory it takes over; itself if none */
  uint32_t region; /* of a value that only a slice's steps use: the storage that has one part for
                    * each lane, and this value in each of them; or IR_NONE */
  uint32_t lanes;  /* of such a region; otherwise 0 */
  uint32_t node;   /* the parameter or constant whose elements it holds, or IR_NONE */
} storage;

typedef struct step_operand {
  uint32_t storage;
  uint64_t offset; /* bytes into the storage */
} step_operand;

typedef struct build_step {
  kernel_entry *kernel;
  uint32_t device, input_count, operand_count;
  step_operand operand[COMPUTE_MAX_OPERANDS];
  uint64_t bytes; /* of a transfer */
  compute_kernel_kind kind;
  uint32_t constant_inputs; /* as in the kernel's descriptor */
  uint32_t slice, slices;   /* which of how many slices of a batch; slices 1: all of it */
  int64_t first_item, items, of_items; /* of a slice: its items, among all */
  bool side_by_side;                   /* of a slice: all may run at once */
  bool in_bands;                       /* its items are rows of one image */
  uint32_t twin; /* an earlier step, of another slice, that has the same kernel and constants */
  uint32_t first_in_place; /* inputs from here on may be overwritten element by element … */
  bool in_place[COMPUTE_MAX_OPERANDS]; /* … if they have exactly the layout of the first output */
  bool plain_copy; /* with the same layout: nothing to do if input and output are the same */
  const char *text, *shape;
  const char *operation; /* named in errors; static */
  uint32_t checked;      /* the node whose indices it checks, or IR_NONE */
  const void *call;      /* of a caller's function: its block in the graph, or NULL */
  const char *placement; /* why the device refused it, or NULL */
  const char *reason;    /* why it was placed there, or NULL */
  bool fallback;         /* on the CPU because the device refused it */
  uint32_t operations;
  uint64_t flops, bytes_read, bytes_written;
  kernel_work work;
} build_step;

/* One constant's values in the constant memory of a device. */
typedef struct constant_piece {
  struct constant_piece *next;
  const void *values;
  uint64_t bytes, offset;
  uint32_t device;
} constant_piece;

/* Where a cluster runs, as decided by place_clusters. */
typedef struct cluster_place {
  uint32_t device;    /* PLAN_MAIN or PLAN_CPU */
  const char *reason; /* as text; NULL when there was no choice */
} cluster_place;

/* The state of one compilation after fusion. */
typedef struct lowering {
  const ir *r;
  const fusion *f;
  scratch *memory;
  compute_plan *plan;
  compute_fallback fallback;
  compute_precision product, convolution; /* the allowed precision of products */
  const cluster_place *places;            /* by cluster; NULL: everything on the plan's device */
  storage *storages;
  uint32_t storage_count, storage_capacity;
  uint32_t *home;   /* per node: its storage where it is computed, IR_NONE */
  uint32_t *copy;   /* per node: its storage on the other device, IR_NONE */
  uint32_t *target; /* per node: the output's or parameter's storage that it is computed into */
  uint32_t *values; /* per node: its value in the program being drafted */
  build_step *steps;
  uint32_t step_count, step_capacity;
  uint64_t constant_bytes[PLAN_DEVICES], packed_constant_bytes;
  constant_piece *constant_pieces;
  const struct plan_dump *dump; /* dump/dump.h; NULL: the passes are not written */
} lowering;

/* Makes what has an entry for each node, all of them IR_NONE. COMPUTE_ERROR_OUT_OF_MEMORY is the
 * only failure. */
compute_status lower_begin(lowering *l);

/* Releases the kernels of a lowering that does not become a plan. */
void lower_abandon(lowering *l);

/* ---- storage.c ------------------------------------------------------------------------------- */

/* A new storage; IR_NONE when out of memory. With `slot` IR_NONE it is placed in an arena. */
uint32_t storage_add(lowering *l, uint32_t slot, uint32_t device, uint64_t bytes);

/* Extends its lifetime to that step. Steps come in order. */
void storage_touch(lowering *l, uint32_t id, uint32_t step);

/* ---- steps.c --------------------------------------------------------------------------------- */

/* Fills text, shape, flops, bytes and work of a step with this kernel; false when out of memory. */
bool step_describe(lowering *l, const compute_kernel_descriptor *k, build_step *s);

/* ---- Drafts ---------------------------------------------------------------------------------- */

/* One cluster (or copy, or fill) as a descriptor and its operands. */
typedef struct kernel_draft {
  compute_kernel_descriptor descriptor;
  kernel_attributes attributes;
  compute_operand inputs[COMPUTE_MAX_OPERANDS], outputs[COMPUTE_MAX_OPERANDS];
  uint32_t input_node[COMPUTE_MAX_OPERANDS];  /* base node whose storage it reads */
  int64_t input_offset[COMPUTE_MAX_OPERANDS]; /* elements */
  uint32_t output_node[COMPUTE_MAX_OPERANDS]; /* base node whose storage it writes */
  int64_t output_offset[COMPUTE_MAX_OPERANDS];
  program_builder prologue, epilogue;
  uint32_t operations;
  bool checks_indices; /* reports invalid indices, naming the root's call */
  uint32_t part;       /* which one this is */
  int64_t joined;      /* of a concat: length of the parts drafted so far */
} kernel_draft;

/* The drafts of a cluster: one, or as many as the rule of its operation has parts. Request them in
 * order, `part` counting from 0, with the same `draft`; returns false when there are no more.
 */
bool draft_cluster(const lowering *l, uint32_t cluster, uint32_t part, kernel_draft *draft);

/* A copy of node's elements (through its layout) to a dense space of output_node. */
void draft_copy(const lowering *l, uint32_t node, kernel_draft *draft);

/* A store of a uniform constant to every element of `node`. */
void draft_fill(const lowering *l, uint32_t node, double value, kernel_draft *draft);

/* ---- Passes over the steps, in this order ---------------------------------------------------- */

/* pools.c: a convolution and the pooling of its results become one step. */
compute_status pools_join(lowering *l);

/* residuals.c: a convolution and the addition of other bytes to its own become one step. */
compute_status residuals_join(lowering *l);

/* slices.c: steps that exceed the caches become steps for a slice of the batch each. */
compute_status slices_cut(lowering *l);

/* bands.c: steps of one image become steps for some of its rows each. */
compute_status bands_cut(lowering *l);

/* pack.c: packs the constants that the steps' kernels want packed. */
compute_status pack_constants(lowering *l);

/* arena.c: offsets for all storages without a slot, and in-place reuse. */
compute_status arena_place(lowering *l);

/* pack.c: which inputs of a step with this kernel never change and can be packed: bits. */
uint32_t pack_find_constants(const lowering *l, const compute_kernel_descriptor *k,
                             const build_step *s);

/* ---- ports.c --------------------------------------------------------------------------------- */

typedef struct port_output {
  uint32_t node;        /* in the IR */
  uint32_t graph_index; /* as the caller named it */
  uint32_t repeats;     /* additional occurrences */
  uint32_t storage;
} port_output;

typedef struct port_assign {
  uint32_t parameter, value; /* IR nodes */
  uint32_t storage;
} port_assign;

typedef struct port_plan {
  uint32_t *inputs; /* IR nodes, ascending by graph index */
  uint32_t input_count;
  port_output *outputs; /* ascending by graph index */
  uint32_t output_count;
  uint32_t *parameters; /* IR nodes */
  uint32_t parameter_count;
  port_assign *assigns;
  uint32_t assign_count;
  uint32_t *order; /* clusters in running order */
} port_plan;

/* Numbers the slots, makes the storages of ports and parameters (l->home, l->target), and decides
 * the order of clusters. Fails with COMPUTE_ERROR_INVALID_ARGUMENT when a parameter is assigned
 * twice or lies on a device that the plan cannot reach. */
compute_status ports_collect(lowering *l, const uint32_t *graph_outputs, uint32_t count,
                             port_plan *ports);

/* Whether a node is all of its base, in row-major order: the base itself or a dense view. */
bool ports_is_whole(const lowering *l, uint32_t node);

/* fuse/order.c: in which order clusters run. */
/* Fills in ports->order. `late` marks the clusters that write parameters; those that read what they
 * compute are marked, too. COMPUTE_ERROR_OUT_OF_MEMORY is the only failure. */
compute_status order_clusters(const lowering *l, port_plan *ports, unsigned char *late);

/* ---- lower.c --------------------------------------------------------------------------------- */

/* All steps, with their storages placed. */
compute_status lower_all(lowering *l, const port_plan *ports);

/* ---- place.c: placement of clusters, by their costs and those of copies between devices ------ */

/* Considers `only`, or every device that runs kernels, together with the CPU. Sets the plan's
 * devices, where its ports live, and l->places. Changes nothing if there is no CPU to share the
 * work with. */
compute_status place_clusters(lowering *l, compute_device *only);

#endif
