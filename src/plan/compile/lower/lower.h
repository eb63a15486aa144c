/* SPDX-License-Identifier: MIT */
/* Lowering: turns clusters into steps with kernel descriptors, a device and storage. */
#ifndef PLAN_LOWER_H
#define PLAN_LOWER_H

#include "core/kernel/kernel.h"
#include "core/kernel/common/program.h"
#include "plan/compile/fuse/fuse.h"
#include "plan/compile/plan.h"
#include "plan/cost/costs.h"

/* One piece of memory with one lifetime. */
typedef struct storage {
  uint32_t slot;   /* IR_NONE until the storage is placed in an arena */
  uint32_t device; /* PLAN_MAIN or PLAN_CPU */
  uint64_t offset, bytes;
  uint32_t first, last;   /* steps that write and read it, in execution order */
  uint32_t home;          /* another storage whose memory it takes over; itself if none */
  uint32_t region;        /* of a value used only inside a micro-batch: the storage that holds all
                    * per-thread arenas, each with this value; or IR_NONE */
  uint32_t thread_arenas; /* of such a storage: the number of its arenas; otherwise 0 */
  uint32_t node;          /* the parameter or constant stored here, or IR_NONE */
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
  uint32_t constant_inputs;            /* as in the kernel's descriptor */
  uint32_t micro_batch, micro_batches; /* index and number; 1: the whole batch */
  int64_t first_item, items, of_items; /* of a micro-batch: its items, of the whole batch */
  bool side_by_side;                   /* of a micro-batch: may run with the others */
  bool row_tile;                       /* its items are rows of one image */
  uint32_t like;           /* a step of an earlier micro-batch with the same kernel and constants */
  uint32_t first_in_place; /* the first output may overwrite inputs from here on … */
  bool in_place[COMPUTE_MAX_OPERANDS]; /* … element by element, if they have exactly its layout */
  bool plain_copy; /* same layout: the copy does nothing if input and output are the same memory */
  const char *text, *shape;
  const char *operation; /* for error messages; static */
  uint32_t checked;      /* the node whose indices the step checks, or IR_NONE */
  const void *call;      /* of a user-defined function: its block in the graph, or NULL */
  const char *placement; /* why the device refused the step, or NULL */
  const char *reason;    /* why the planner chose the device, or NULL */
  bool fallback;         /* on the CPU because the device refused it */
  uint32_t operations;
  uint64_t flops, bytes_read, bytes_written;
  kernel_work work;
} build_step;

/* The values of one constant in a device's constant memory. */
typedef struct constant_piece {
  struct constant_piece *next;
  const void *values;
  uint64_t bytes, offset;
  uint32_t device;
} constant_piece;

/* The device of a cluster, chosen by place_clusters. */
typedef struct cluster_place {
  uint32_t device;    /* PLAN_MAIN or PLAN_CPU */
  const char *reason; /* text; NULL if there was no choice */
} cluster_place;

/* The state of one compilation after fusion. */
typedef struct lowering {
  const ir *r;
  const fusion *f;
  scratch *memory;
  compute_plan *plan;
  compute_fallback fallback;
  compute_precision precision; /* allowances for products */
  uint32_t demands;            /* on kernels that compute */
  const cluster_place *places; /* by cluster; NULL: all on the plan's device */
  storage *storages;
  uint32_t storage_count, storage_capacity;
  uint32_t *home;   /* by node: its storage on the device that computes it, or IR_NONE */
  uint32_t *copy;   /* by node: its storage on the other device, or IR_NONE */
  uint32_t *target; /* by node: the storage of the output or parameter to compute into */
  uint32_t *values; /* by node: its value in the program being drafted */
  build_step *steps;
  uint32_t step_count, step_capacity;
  uint64_t constant_bytes[PLAN_DEVICES], packed_constant_bytes;
  constant_piece *constant_pieces;
  struct pass_log *log; /* dump/dump.h; NULL: the passes are not logged */
} lowering;

/* Creates the arrays with one entry per node, all IR_NONE. COMPUTE_ERROR_OUT_OF_MEMORY is the only
 * failure. */
compute_status lower_begin(lowering *l);

/* Releases the kernels of a lowering that does not become a plan. */
void lower_abandon(lowering *l);

/* ---- storage.c ------------------------------------------------------------------------------- */

/* Adds a storage; returns IR_NONE when out of memory. If `slot` is IR_NONE, it is placed in an
 * arena. */
uint32_t storage_add(lowering *l, uint32_t slot, uint32_t device, uint64_t bytes);

/* Extends a storage's lifetime to the step. Calls must come in step order. */
void storage_touch(lowering *l, uint32_t id, uint32_t step);

/* ---- steps.c --------------------------------------------------------------------------------- */

/* Fills in text, shape, flops, bytes and work of a step with this kernel; false when out of
 * memory. */
kernel_work step_work(const compute_kernel_descriptor *k);
bool step_describe(lowering *l, const compute_kernel_descriptor *k, build_step *s);

/* ---- Drafts ---------------------------------------------------------------------------------- */

/* A position in a chain of concat and embed nodes (draft_joined.c). */
typedef struct draft_cursor {
  uint32_t node, operand; /* the next operand to draft */
  int64_t joined;         /* length of the operands before it */
  uint32_t inner;         /* the operand that is a node of the chain, or IR_NONE */
  int64_t inner_start;
  bool filled;                      /* the node lies in zeros */
  int64_t offset;                   /* of the node in the chain's result, in elements */
  int64_t stride[COMPUTE_MAX_RANK]; /* there */
} draft_cursor;

/* One cluster (or copy, or fill) as a descriptor and its operands. */
typedef struct kernel_draft {
  compute_kernel_descriptor descriptor;
  kernel_attributes attributes;
  compute_operand inputs[COMPUTE_MAX_OPERANDS], outputs[COMPUTE_MAX_OPERANDS];
  uint32_t input_node[COMPUTE_MAX_OPERANDS];  /* base node of the storage to read */
  int64_t input_offset[COMPUTE_MAX_OPERANDS]; /* elements */
  uint32_t output_node[COMPUTE_MAX_OPERANDS]; /* base node of the storage to write */
  int64_t output_offset[COMPUTE_MAX_OPERANDS];
  program_builder prologue, epilogue;
  uint32_t operations;
  bool checks_indices; /* reports invalid indices with the name of the root's call */
  uint32_t part;       /* index of this kernel within its cluster */
  draft_cursor cursor; /* of concat and embed */
} kernel_draft;

/* Drafts one kernel of a cluster. A cluster has one, or as many as the rule of its operation has
 * parts. The caller requests them in order, with `part` counting from 0 and the same `draft`.
 * Returns false when there are no more. */
bool draft_cluster(const lowering *l, uint32_t cluster, uint32_t part, kernel_draft *draft);

/* Drafts a copy of node's elements (through its layout) to a dense space of output_node. */
void draft_copy(const lowering *l, uint32_t node, kernel_draft *draft);

/* Drafts a store of a uniform constant to every element of `node`. */
void draft_fill(const lowering *l, uint32_t node, double value, kernel_draft *draft);

/* ---- Passes over the steps, in this order ---------------------------------------------------- */

/* pools.c: joins a convolution and the pooling of its results into one step. */
compute_status pools_join(lowering *l);

/* residuals.c: joins a convolution and the addition of other bytes to its results into one step. */
compute_status residuals_join(lowering *l);

/* micro_batches.c: divides steps that exceed the caches into one step per micro-batch. */
compute_status micro_batches_cut(lowering *l);

/* row_tiles.c: divides the steps of one image into steps for row tiles with halo. */
compute_status row_tiles_cut(lowering *l);

/* pack.c: packs the constants that the steps' kernels want prepacked. */
compute_status pack_constants(lowering *l);

/* arena.c: reuses memory in place and gives offsets to all storages without a slot. */
compute_status arena_place(lowering *l);

/* pack.c: returns a bit mask of the step's inputs that never change and can be packed. */
uint32_t pack_find_constants(const lowering *l, const compute_kernel_descriptor *k,
                             const build_step *s);

typedef union pack_attributes {
  compute_gemm_attributes gemm;
  compute_conv_attributes conv;
} pack_attributes;

/* pack.c: allows pairs of 8-bit products to saturate if the constant weights exclude it. Then
 * k->attributes becomes `attributes`. */
void pack_let_saturate(const lowering *l, const build_step *s, compute_kernel_descriptor *k,
                       pack_attributes *attributes);

/* ---- ports.c --------------------------------------------------------------------------------- */

typedef struct port_output {
  uint32_t node;        /* in the IR */
  uint32_t graph_index; /* in the caller's graph */
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
  uint32_t *order; /* clusters in execution order */
} port_plan;

/* Numbers the slots, creates the storages of ports and parameters (l->home, l->target), and orders
 * the clusters. Fails with COMPUTE_ERROR_INVALID_ARGUMENT if a parameter is assigned twice or is on
 * a device that the plan cannot reach. */
compute_status ports_collect(lowering *l, const uint32_t *graph_outputs, uint32_t count,
                             port_plan *ports);

/* True if a node is the whole of its base in row-major order: the base itself or a dense view. */
bool ports_is_whole(const lowering *l, uint32_t node);

/* fuse/order.c: fills in ports->order. `late` marks the clusters that write parameters; the
 * function also marks all clusters that depend on them. COMPUTE_ERROR_OUT_OF_MEMORY is the only
 * failure. */
compute_status order_clusters(const lowering *l, port_plan *ports, unsigned char *late);

/* ---- lower.c --------------------------------------------------------------------------------- */

/* Creates all steps and places their storages. */
compute_status lower_all(lowering *l, const port_plan *ports);

/* ---- place.c: placement of clusters by the costs of kernels and transfers -------------------- */

/* Considers `only`, or every device that runs kernels (NULL), together with the CPU. Sets the
 * plan's devices, the device of its ports, and l->places. Changes nothing if the context has no CPU
 * to share the work. */
compute_status place_clusters(lowering *l, compute_device *only);

#endif
