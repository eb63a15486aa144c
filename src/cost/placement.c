/* The network: the source is the CPU, the sink the accelerator. A unit on the source's side runs on
 * the CPU, and its edge to the sink is cut, which costs what the unit costs there; and the other
 * way round.
 *
 * A value has two more nodes. `needed there` lies before its readers, with edges that cannot be
 * cut: one reader on the accelerator draws it to that side, and if the maker is on the other, the
 * edge between them is cut, for the price of the copy. `needed here` mirrors it. */
#include "cost/placement.h"

#include "base/alloc.h"
#include "cost/flow.h"

enum { CPU_NODE = 0, ACCELERATOR_NODE = 1, FIRST_UNIT = 2 };

static uint32_t node_of(uint32_t unit) {
  return unit == PLACEMENT_ON_CPU           ? CPU_NODE
         : unit == PLACEMENT_ON_ACCELERATOR ? ACCELERATOR_NODE
                                            : FIRST_UNIT + unit;
}

static void add_value(flow_network *network, const placement_problem *p, uint32_t index) {
  const placement_value *v = &p->values[index];
  uint32_t needed_there = FIRST_UNIT + p->unit_count + 2 * index, needed_here = needed_there + 1;
  flow_add(network, node_of(v->maker), needed_there, v->to);
  flow_add(network, needed_here, node_of(v->maker), v->from);
  for (uint32_t i = 0; i < v->count; i++) {
    uint32_t reader = node_of(p->readers[v->first + i]);
    flow_add(network, needed_there, reader, FLOW_ENDLESS);
    flow_add(network, reader, needed_here, FLOW_ENDLESS);
  }
}

bool placement_solve(const placement_problem *problem, unsigned char *on_accelerator,
                     int64_t *total) {
  uint32_t nodes = FIRST_UNIT + problem->unit_count + 2 * problem->value_count;
  uint32_t edges = 2 * problem->unit_count + 2 * problem->value_count;
  for (uint32_t i = 0; i < problem->value_count; i++) edges += 2 * problem->values[i].count;
  flow_network network;
  if (!flow_create(&network, nodes, edges)) return false;
  unsigned char *side = base_allocate(nodes, 1);
  if (!side) {
    flow_release(&network);
    return false;
  }
  for (uint32_t i = 0; i < problem->unit_count; i++) {
    flow_add(&network, FIRST_UNIT + i, ACCELERATOR_NODE, problem->units[i].cpu);
    flow_add(&network, CPU_NODE, FIRST_UNIT + i, problem->units[i].accelerator);
  }
  for (uint32_t i = 0; i < problem->value_count; i++) add_value(&network, problem, i);
  flow_cut(&network, CPU_NODE, ACCELERATOR_NODE, side);
  for (uint32_t i = 0; i < problem->unit_count; i++) on_accelerator[i] = side[FIRST_UNIT + i];
  *total = placement_cost(problem, on_accelerator);
  base_release(side);
  flow_release(&network);
  return true;
}

static bool is_on_accelerator(const unsigned char *on_accelerator, uint32_t unit) {
  if (unit == PLACEMENT_ON_CPU || unit == PLACEMENT_ON_ACCELERATOR)
    return unit == PLACEMENT_ON_ACCELERATOR;
  return on_accelerator[unit] != 0;
}

int64_t placement_cost(const placement_problem *problem, const unsigned char *on_accelerator) {
  int64_t total = 0;
  for (uint32_t i = 0; i < problem->unit_count; i++)
    total += on_accelerator[i] ? problem->units[i].accelerator : problem->units[i].cpu;
  for (uint32_t i = 0; i < problem->value_count; i++) {
    const placement_value *v = &problem->values[i];
    bool there = is_on_accelerator(on_accelerator, v->maker), crosses = false;
    for (uint32_t r = 0; r < v->count; r++)
      crosses |= is_on_accelerator(on_accelerator, problem->readers[v->first + r]) != there;
    if (crosses) total += there ? v->from : v->to;
  }
  return total;
}
