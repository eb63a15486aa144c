/* SPDX-License-Identifier: MIT */
/* The internals of a plan.
 *
 * A run works on slots. Each slot is one piece of memory: a bound input or output, a parameter, the
 * constants or the arena of a device. Steps name their operands as slot + offset, so a run is a
 * loop that fills in addresses and enqueues kernels. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <pthread.h>
#include <stdatomic.h>

#include "compute/plan.h"
#include "core/device/device.h"
#include "graph/node/graph.h"
#include "core/device/kernel_cache.h"
#include "core/device/buffer.h"
#include "plan/cost/costs.h"

/* The plan's device, and the CPU for steps that the device does not support or that run faster
 * there. */
enum { PLAN_MAIN = 0, PLAN_CPU = 1, PLAN_DEVICES = 2 };

typedef struct plan_operand {
  uint32_t slot;
  uint64_t offset; /* bytes */
} plan_operand;

/* A kernel, or a copy of `bytes` between the two devices (kernel NULL). */
typedef struct plan_step {
  kernel_entry *kernel;
  uint32_t device; /* PLAN_MAIN or PLAN_CPU; of a copy: its destination */
  uint32_t operand_count;
  uint32_t input_count;
  plan_operand *operands; /* inputs, then outputs */
  uint64_t bytes;
  char *text;               /* "map relu(add(in0, in1))", for compute_explain */
  char *shape;              /* iteration space */
  char *placement;          /* why the plan's device refused the step, or NULL */
  char *reason;             /* why the planner chose its device, or NULL */
  const char *operation;    /* the graph operation named in errors of the step; static */
  const index_check *check; /* the check of its indices, in the plan's checks; or NULL */
  void *call;               /* the block of a user-defined function, one reference; or NULL */
  bool fallback;            /* on the CPU because the plan's device refused it */
  bool plain_copy;          /* the copy does nothing if input and output are the same memory */
  uint32_t in_place;        /* bit i: the first output may overwrite input i, element by element */
  uint32_t micro_batch, micro_batches; /* index and number; 1: the whole batch */
  int64_t of_items;                    /* of a micro-batch: the items of the whole batch */
  bool side_by_side; /* of a micro-batch: may run with the others, in per-thread arenas */
  bool row_tile;     /* of a micro-batch: its items are rows of one image */
  uint32_t operations;
  uint64_t flops, bytes_read, bytes_written;
  kernel_work work;               /* of a kernel: input of the cost model */
  _Atomic uint64_t picoseconds;   /* the shortest time from compute_plan_measure, or 0 */
  _Atomic uint32_t profile_entry; /* its index in the profile, or 0 */
} plan_step;

/* Computes the addresses of a step's operands, in order. `memory` and `offset` describe the
 * slots. */
static inline void plan_step_arguments(const plan_step *s, const compute_memory *const *memory,
                                       const uint64_t *offset, compute_argument *arguments) {
  for (uint32_t k = 0; k < s->operand_count; k++) {
    uint32_t slot = s->operands[k].slot;
    arguments[k] =
        (compute_argument){.memory = memory[slot], .offset = offset[slot] + s->operands[k].offset};
  }
}

/* A bound input or output; its slot is its index among the plan's ports. */
typedef struct plan_port {
  uint32_t node;    /* index in the graph */
  uint32_t repeats; /* of an output: additional occurrences among the outputs */
  compute_dtype dtype;
  compute_shape shape;
  uint64_t bytes;
  uint32_t step; /* the last step that reads an input, the first that writes an output */
  char *name;    /* or NULL */
} plan_port;

/* A prepacked constant. The slots of these follow the slots of the arenas. */
typedef struct plan_packed {
  memory_buffer *buffer; /* a reference */
  plan_operand source;   /* the unpacked elements */
} plan_packed;

struct compute_plan {
  compute_context *context;
  compute_device *device[PLAN_DEVICES]; /* [PLAN_CPU] is NULL if no step needs it */
  uint32_t port_device; /* location of inputs and outputs: PLAN_MAIN, or PLAN_CPU if placed */
  bool placed;          /* the planner placed the steps by cost */
  uint32_t graph_serial;
  char *name;
  plan_port *ports; /* inputs, then outputs; each part ascending by node, each node once */
  uint32_t input_count, output_count;
  uint32_t repeat_count;       /* total over the outputs */
  compute_tensor **parameters; /* one reference each; their slots follow the ports' slots */
  uint32_t parameter_count;
  memory_buffer *constants[PLAN_DEVICES];
  uint32_t constant_slot[PLAN_DEVICES];
  uint64_t arena_bytes[PLAN_DEVICES];
  uint32_t arena_slot[PLAN_DEVICES];
  uint32_t thread_arenas; /* per-thread arenas: micro-batches that may run at once; 1: only one */
  uint64_t thread_arena_bytes;              /* distance between two per-thread arenas … */
  uint32_t thread_arena_slot[PLAN_DEVICES]; /* … in these slots, which are parts of the arenas */
  plan_packed *packed;
  size_t packed_count, packed_capacity;
  uint32_t packed_slot; /* the first slot of packed constants */
  uint32_t slot_count;
  plan_step *steps;
  uint32_t step_count;
  uint32_t most_operands;
  index_checks *checks;       /* or NULL */
  bool assigns;               /* the plan writes parameters */
  compute_fallback fallback;  /* not DEFAULT */
  uint32_t generation;        /* the device's generation when the kernels were built (device.h) */
  struct cpu_plan *cpu_plan;  /* run.h; NULL if a failed run cannot be repeated on the CPU */
  _Atomic int32_t references; /* the caller's and the jobs' */
  compute_plan_info info;
  pthread_mutex_t idle_mutex;
  struct plan_run *idle; /* run.c: scratch memory of finished runs, for reuse */
};

static inline uint32_t plan_port_count(const compute_plan *plan) {
  return plan->input_count + plan->output_count;
}

static inline bool plan_slot_is_parameter(const compute_plan *plan, uint32_t slot) {
  const uint32_t first = plan_port_count(plan);
  return slot >= first && slot - first < plan->parameter_count;
}

/* Sets direct[i] if a step reads or writes parameter i itself, not only its packed copy. */
void plan_find_direct(const compute_plan *plan, bool *direct);

/* Estimates the host memory of the plan in bytes, without its constants. */
uint64_t plan_host_bytes(const compute_plan *plan);

/* Adds a reference; compute_plan_release drops one. */
compute_plan *plan_retain(compute_plan *plan);

/* Replaces a run that cannot take place: skips the calls that others wait for, from step `first`
 * on. The thread's last error holds the reason and stays unchanged. */
void plan_skip_calls(const compute_plan *plan, uint32_t first);

/* Frees the scratch memory of finished runs. */
void plan_runs_release(compute_plan *plan);

extern object_kind plan_object;

#endif
