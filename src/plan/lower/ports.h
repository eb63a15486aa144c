/* What goes into and comes out of a plan: inputs, parameters, outputs, assignments; and which
 * results can be computed where they belong. */
#ifndef PLAN_PORTS_H
#define PLAN_PORTS_H

#include "plan/lower/lower.h"

typedef struct port_output {
  uint32_t node;        /* in the IR */
  uint32_t graph_index; /* as the caller named it */
  uint32_t repeats;     /* how many times more */
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

#endif
