/* SPDX-License-Identifier: MIT */
/* The internals of a plan.
 *
 * A run works on slots, each one piece of memory: the bound inputs and outputs, the parameters, the
 * constants and one arena on each device. Steps name their operands as slot + offset, so that a run
 * is a loop that fills in addresses and enqueues. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <pthread.h>

#include "compute/plan.h"
#include "core/device/device.h"
#include "graph/node/graph.h"
#include "core/device/kernel_cache.h"
#include "core/device/buffer.h"
#include "plan/cost/costs.h"

/* The plan's device, and the CPU for steps that it does not support or that are faster there. */
enum { PLAN_MAIN = 0, PLAN_CPU = 1, PLAN_DEVICES = 2 };

typedef struct plan_operand {
  uint32_t slot;
  uint64_t offset; /* bytes */
} plan_operand;

/* A kernel, or (kernel NULL) a copy of `bytes` between the two devices. */
typedef struct plan_step {
  kernel_entry *kernel;
  uint32_t device; /* PLAN_MAIN or PLAN_CPU; of a copy: where it goes to */
  uint32_t operand_count;
  uint32_t input_count;
  plan_operand *operands; /* inputs, then outputs */
  uint64_t bytes;
  char *text;               /* "map relu(add(in0, in1))", for compute_explain */
  char *shape;              /* iteration space */
  char *placement;          /* why the plan's device refused it, or NULL */
  char *reason;             /* why it was placed where it is, or NULL */
  const char *operation;    /* of the graph, named in the step's errors; static */
  const index_check *check; /* of its indices, in the plan's checks; or NULL */
  void *call;               /* the block of a caller's function, one reference; or NULL */
  bool fallback;            /* on the CPU because the plan's device refused it */
  bool plain_copy;          /* nothing to do if its input and its output are the same memory */
  uint32_t in_place; /* bit i: input i may be overwritten by the first output, element by element */
  uint32_t slice, slices; /* which of how many slices of a batch it computes; slices 1: all of it */
  int64_t of_items;       /* of a slice: the items of all slices together */
  bool side_by_side;      /* of a slice: all may run at once, each in a lane */
  bool in_bands;          /* of a slice: its items are rows of one image */
  uint32_t operations;
  uint64_t flops, bytes_read, bytes_written;
  kernel_work work;       /* of a kernel: the input of its predicted time */
  uint64_t picoseconds;   /* atomic: the shortest time measured by compute_plan_measure, or 0 */
  uint32_t profile_entry; /* atomic: its number in the profile, or 0 */
} plan_step;

/* The addresses of a step's operands, in order, computed from those of the slots. */
static inline void plan_step_arguments(const plan_step *step, const compute_memory *const *memory,
                                       const uint64_t *offset, compute_argument *arguments) {
  for (uint32_t k = 0; k < step->operand_count; k++) {
    uint32_t slot = step->operands[k].slot;
    arguments[k] = (compute_argument){.memory = memory[slot],
                                      .offset = offset[slot] + step->operands[k].offset};
  }
}

/* A bound input or output; its slot is its number among the plan's ports. */
typedef struct plan_port {
  uint32_t node;    /* index in the graph */
  uint32_t repeats; /* of an output: additional occurrences among the caller's outputs */
  compute_dtype dtype;
  compute_shape shape;
  uint64_t bytes;
  uint32_t step; /* the last that reads an input, the first that writes an output */
  char *name;    /* or NULL */
} plan_port;

/* What a kernel reads in a form of its own; its slot is its number after the arenas'. */
typedef struct plan_packed {
  memory_buffer *buffer; /* a reference */
  plan_operand source;   /* the elements as they lie */
} plan_packed;

struct compute_plan {
  compute_context *context;
  compute_device *device[PLAN_DEVICES]; /* [PLAN_CPU] is NULL when nothing needs it */
  uint32_t port_device; /* where inputs and outputs live: PLAN_MAIN, or PLAN_CPU if placed */
  bool placed;          /* its steps were placed by their cost */
  uint32_t graph_serial;
  char *name;
  plan_port *ports; /* inputs, then outputs; each part ascending by node, each node once */
  uint32_t input_count, output_count;
  uint32_t repeat_count;       /* of all outputs together */
  compute_tensor **parameters; /* a reference each; their slots follow those of the ports */
  uint32_t parameter_count;
  memory_buffer *constants[PLAN_DEVICES];
  uint32_t constant_slot[PLAN_DEVICES];
  uint64_t arena_bytes[PLAN_DEVICES];
  uint32_t arena_slot[PLAN_DEVICES];
  uint32_t lanes;      /* in how many lanes slices may run at once; 1: in one, each by itself */
  uint64_t lane_bytes; /* from the values of slices in one lane to those in the next … */
  uint32_t lane_slot[PLAN_DEVICES]; /* … in these slots, which are parts of the arenas */
  plan_packed *packed;
  size_t packed_count, packed_capacity;
  uint32_t packed_slot; /* the first of their slots */
  uint32_t slot_count;
  plan_step *steps;
  uint32_t step_count;
  uint32_t most_operands;
  index_checks *checks;      /* or NULL */
  bool assigns;              /* writes parameters */
  compute_fallback fallback; /* not DEFAULT */
  uint32_t generation;       /* of its device when the kernels were built (device.h) */
  struct cpu_plan *cpu_plan; /* run.h; NULL if a failing run cannot be repeated on the CPU */
  int32_t references;        /* atomic: the caller's and those of jobs */
  compute_plan_info info;
  pthread_mutex_t idle_mutex;
  struct plan_run *idle; /* run.c: scratch of finished runs, for reuse */
};

static inline uint32_t plan_port_count(const compute_plan *plan) {
  return plan->input_count + plan->output_count;
}

static inline bool plan_slot_is_parameter(const compute_plan *plan, uint32_t slot) {
  const uint32_t first = plan_port_count(plan);
  return slot >= first && slot - first < plan->parameter_count;
}

/* direct[i]: whether parameter i is read or written directly, and not only in packed form. */
void plan_find_direct(const compute_plan *plan, bool *direct);

/* About how many bytes of host memory the plan takes, without its constants. */
uint64_t plan_host_bytes(const compute_plan *plan);

/* Another reference; compute_plan_release drops one. */
compute_plan *plan_retain(compute_plan *plan);

/* Instead of a run that cannot take place: the calls of steps from number `first` on that others
 * wait for are skipped. The thread's last error says why, and is kept. */
void plan_skip_calls(const compute_plan *plan, uint32_t first);

/* Frees the scratch of finished runs. */
void plan_runs_release(compute_plan *plan);

extern object_kind plan_object;

#endif
