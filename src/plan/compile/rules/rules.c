/* SPDX-License-Identifier: MIT */
/* The planner's table of rules, from ops.def, and the drafts of clusters. */
#include "plan/compile/rules/draft.h"

/* No kernel computes these nodes: they are already in memory, or have no value. */
const plan_rule rule_NONE = {0};

const plan_rule *const plan_rules[OP_COUNT] = {
    [OP_NONE] = &rule_NONE,
#define ELEMENTWISE(name, ...)                                         [OP_##name] = &rule_map,
#define SCALED(name, ...)                                              [OP_##name] = &rule_map,
#define STRUCTURAL(name, category, domain, gradient, block, rule, ...) [OP_##name] = &rule_##rule,
#include "graph/ops.def"
};

/* Kernels that only move elements keep every bit: plans with and without demands share them. */
static bool computes(compute_kernel_kind kind) {
  return kind != COMPUTE_KERNEL_COPY && kind != COMPUTE_KERNEL_GATHER &&
         kind != COMPUTE_KERNEL_SORT && kind != COMPUTE_KERNEL_TOP_K;
}

bool draft_cluster(const lowering *l, uint32_t index, uint32_t part, kernel_draft *d) {
  const cluster *c = &l->f->clusters[index];
  const ir_node *root = &l->r->nodes[c->root];
  const plan_rule *rule = ir_rule(c->anchor == IR_NONE ? root : &l->r->nodes[c->anchor]);
  if (part >= (rule->parts ? rule->parts(l, c) : 1)) return false;
  d->part = part;
  rule->draft(l, c, d);
  if (computes(d->descriptor.kind)) d->descriptor.demands = l->demands;
  draft_finish(d);
  return true;
}
