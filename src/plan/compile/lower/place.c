/* SPDX-License-Identifier: MIT */
/* Placement by cost. A cluster is the unit of placement; stored values may need transfers
 * (plan/cost/placement.h).
 *
 * Support is checked only for kernels that would be placed on a device: with a compiler, the check
 * generates the kernel's source. A refusal rules out that choice, and the solver runs again.
 * Refusals can only make a placement more expensive, so the first placement without a refusal is
 * optimal. */
#include "plan/compile/lower/lower.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/real.h"
#include "plan/cost/placement.h"
#include "plan/cost/costs.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

enum { REASON_BYTES = 512 };

/* A growing list of values or readers. */
typedef struct list {
  uint32_t *at;
  uint32_t count, capacity;
} list;

/* The kernels of a cluster and the values they read; independent of the device. */
typedef struct unit {
  uint32_t first_work, work_count;
  uint32_t first_read, read_count; /* values */
} unit;

typedef struct placing {
  lowering *l;
  kernel_draft *draft;
  unit *units;
  kernel_work *works;
  uint32_t work_count, work_capacity;
  list reads;           /* values, by unit */
  uint32_t *value_of;   /* by node: its value, or IR_NONE */
  uint32_t *value_node; /* by value */
  list *readers;        /* by value */
  uint32_t value_count;
  uint32_t *flat_readers; /* of all values, contiguous */
  /* Of the current candidate device. */
  placement_unit *costs;
  placement_value *values;
  placement_problem problem;
  uint32_t *readers_there;   /* by value: number of readers placed on the candidate */
  unsigned char *on, *asked; /* by unit: placed on the candidate; support was checked */
  const char **refusal;      /* by unit */
} placing;

static compute_status short_of_memory(const lowering *l) {
  return error_set(l->plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory to place the steps of the plan");
}

static bool list_add(scratch *memory, list *l, uint32_t item) {
  if (l->count == l->capacity) {
    uint32_t capacity = l->capacity ? 2 * l->capacity : 4;
    uint32_t *grown = scratch_take(memory, capacity, sizeof *grown);
    if (!grown) return false;
    if (l->count > 0) memcpy(grown, l->at, sizeof *grown * l->count);
    l->at = grown;
    l->capacity = capacity;
  }
  l->at[l->count++] = item;
  return true;
}

static bool is_empty(const compute_kernel_descriptor *d) {
  int32_t rank = kernel_output_rank(d);
  for (int32_t i = 0; i < rank; i++)
    if (d->size[i] == 0) return true;
  return false;
}

/* ---- The problem ----------------------------------------------------------------------------- */

/* Records that `reader`, a unit or a fixed device, needs the storage of `node`. Compilation stores
 * constants where they are needed, so they are never transferred. */
static bool note_reader(placing *p, uint32_t node, uint32_t reader) {
  lowering *l = p->l;
  uint32_t base = l->f->layouts[node].base;
  bool is_unit = reader < l->f->cluster_count;
  if (l->r->nodes[base].op == OP_constant || (is_unit && l->f->cluster_of[base] == reader))
    return true;
  uint32_t value = p->value_of[base];
  if (value == IR_NONE) {
    value = p->value_of[base] = p->value_count++;
    p->value_node[value] = base;
  }
  list *readers = &p->readers[value];
  /* A unit adds all of its reads at once, so a duplicate is the last of the list. */
  if (readers->count > 0 && readers->at[readers->count - 1] == reader) return true;
  if (is_unit && !list_add(l->memory, &p->reads, value)) return false;
  return list_add(l->memory, readers, reader);
}

static bool add_work(placing *p, const compute_kernel_descriptor *d) {
  if (p->work_count == p->work_capacity) {
    uint32_t capacity = p->work_capacity ? 2 * p->work_capacity : 32;
    kernel_work *grown = scratch_take(p->l->memory, capacity, sizeof *grown);
    if (!grown) return false;
    if (p->work_count > 0) memcpy(grown, p->works, sizeof *grown * p->work_count);
    p->works = grown;
    p->work_capacity = capacity;
  }
  p->works[p->work_count++] = step_work(d);
  return true;
}

static bool describe_unit(placing *p, uint32_t index) {
  unit *u = &p->units[index];
  *u = (unit){.first_work = p->work_count, .first_read = p->reads.count};
  for (uint32_t part = 0; draft_cluster(p->l, index, part, p->draft); part++) {
    const compute_kernel_descriptor *d = &p->draft->descriptor;
    if (is_empty(d)) continue;
    if (!add_work(p, d)) return false;
    for (uint32_t i = 0; i < d->input_count; i++)
      if (!note_reader(p, p->draft->input_node[i], index)) return false;
  }
  u->work_count = p->work_count - u->first_work;
  u->read_count = p->reads.count - u->first_read;
  return true;
}

static bool lies_on_cpu(const lowering *l, uint32_t parameter) {
  return l->r->nodes[parameter].tensor->buffer->device == l->plan->context->cpu;
}

/* Outputs are needed on the host, new values of parameters on the parameter's device. */
static bool describe_results(placing *p) {
  const ir *r = p->l->r;
  for (uint32_t i = 0; i < r->output_count; i++)
    if (ir_category(&r->nodes[r->outputs[i]]) != CATEGORY_STATE &&
        !note_reader(p, r->outputs[i], PLACEMENT_ON_CPU))
      return false;
  for (uint32_t i = 0; i < r->count; i++) {
    const ir_node *n = &r->nodes[i];
    if (n->live && n->op == OP_assign &&
        !note_reader(p, n->inputs[1],
                     lies_on_cpu(p->l, n->inputs[0]) ? PLACEMENT_ON_CPU : PLACEMENT_ON_ACCELERATOR))
      return false;
  }
  return true;
}

static bool begin(placing *p) {
  scratch *memory = p->l->memory;
  uint32_t units = p->l->f->cluster_count, nodes = p->l->r->count;
  p->draft = scratch_take(memory, 1, sizeof *p->draft);
  p->units = scratch_take(memory, units, sizeof *p->units);
  p->costs = scratch_take(memory, units, sizeof *p->costs);
  p->on = scratch_take(memory, units, 1);
  p->asked = scratch_take(memory, units, 1);
  p->refusal = scratch_take(memory, units, sizeof *p->refusal);
  p->value_of = scratch_take(memory, nodes, sizeof *p->value_of);
  p->value_node = scratch_take(memory, nodes, sizeof *p->value_node);
  p->readers = scratch_take(memory, nodes, sizeof *p->readers);
  if (!p->draft || !p->units || !p->costs || !p->on || !p->asked || !p->refusal || !p->value_of ||
      !p->value_node || !p->readers)
    return false;
  memset(p->value_of, 0xff, sizeof *p->value_of * nodes);
  for (uint32_t i = 0; i < units; i++)
    if (!describe_unit(p, i)) return false;
  return describe_results(p);
}

static uint32_t maker_of(const lowering *l, uint32_t node) {
  const ir_node *n = &l->r->nodes[node];
  if (n->op == OP_parameter)
    return lies_on_cpu(l, node) ? PLACEMENT_ON_CPU : PLACEMENT_ON_ACCELERATOR;
  return l->f->cluster_of[node] == IR_NONE ? PLACEMENT_ON_CPU : l->f->cluster_of[node];
}

static bool finish(placing *p) {
  uint32_t total = 0;
  for (uint32_t v = 0; v < p->value_count; v++) total += p->readers[v].count;
  p->values = scratch_take(p->l->memory, p->value_count, sizeof *p->values);
  p->flat_readers = scratch_take(p->l->memory, total, sizeof *p->flat_readers);
  p->readers_there = scratch_take(p->l->memory, p->value_count, sizeof *p->readers_there);
  if (!p->values || !p->flat_readers || !p->readers_there) return false;
  total = 0;
  for (uint32_t v = 0; v < p->value_count; v++) {
    const list *readers = &p->readers[v];
    p->values[v] = (placement_value){
        .maker = maker_of(p->l, p->value_node[v]), .first = total, .count = readers->count};
    memcpy(p->flat_readers + total, readers->at, sizeof *readers->at * readers->count);
    total += readers->count;
  }
  p->problem = (placement_problem){.units = p->costs,
                                   .unit_count = p->l->f->cluster_count,
                                   .values = p->values,
                                   .value_count = p->value_count,
                                   .readers = p->flat_readers};
  return true;
}

/* ---- One candidate --------------------------------------------------------------------------- */

static int64_t picoseconds(double seconds) {
  double value = seconds * 1e12;
  return value < 1e15 ? (int64_t)value : (int64_t)1e15;
}

static int64_t unit_cost(const placing *p, uint32_t index, const device_costs *costs) {
  const unit *u = &p->units[index];
  double seconds = 0;
  for (uint32_t i = 0; i < u->work_count; i++)
    seconds += costs_kernel_seconds(costs, &p->works[u->first_work + i]);
  return picoseconds(seconds);
}

static double node_bytes(const ir_node *n) {
  return (double)shape_count(n->shape) * (double)compute_dtype_size(n->dtype);
}

static void price(placing *p, compute_device *candidate) {
  device_costs here, there;
  costs_get(p->l->plan->context->cpu, true, &here);
  costs_get(candidate, true, &there);
  for (uint32_t i = 0; i < p->problem.unit_count; i++) {
    p->costs[i] = (placement_unit){unit_cost(p, i, &here), unit_cost(p, i, &there)};
    p->asked[i] = 0;
    p->refusal[i] = NULL;
  }
  for (uint32_t v = 0; v < p->value_count; v++) {
    double bytes = node_bytes(&p->l->r->nodes[p->value_node[v]]);
    p->values[v].to = picoseconds(costs_copy_seconds(&there, true, bytes));
    p->values[v].from = picoseconds(costs_copy_seconds(&there, false, bytes));
  }
}

/* Checks that the candidate supports all kernels of a unit. */
static compute_status ask(placing *p, uint32_t index, compute_device *candidate) {
  char reason[REASON_BYTES] = "";
  p->asked[index] = 1;
  for (uint32_t part = 0; draft_cluster(p->l, index, part, p->draft); part++) {
    const compute_kernel_descriptor *d = &p->draft->descriptor;
    if (is_empty(d)) continue;
    kernel_entry *known = kernel_cache_find(candidate->kernels, d);
    kernel_cache_return(candidate->kernels, known);
    if (known || kernel_is_supported(candidate, d, reason, sizeof reason)) continue;
    size_t bytes = strlen(reason) + 1;
    char *words = scratch_take(p->l->memory, bytes, 1);
    if (!words) return short_of_memory(p->l);
    memcpy(words, reason, bytes);
    p->refusal[index] = words;
    p->costs[index].accelerator = PLACEMENT_IMPOSSIBLE;
    break;
  }
  return COMPUTE_OK;
}

static compute_status solve(placing *p, compute_device *candidate, int64_t *total) {
  price(p, candidate);
  for (bool settled = false; !settled;) {
    settled = true;
    if (!placement_solve(&p->problem, p->on, total)) return short_of_memory(p->l);
    for (uint32_t i = 0; i < p->problem.unit_count; i++) {
      if (!p->on[i] || p->asked[i]) continue;
      compute_status status = ask(p, i, candidate);
      if (status != COMPUTE_OK) return status;
      settled &= !p->refusal[i];
    }
  }
  return COMPUTE_OK;
}

static bool is_there(const placing *p, uint32_t place) {
  if (place == PLACEMENT_ON_CPU || place == PLACEMENT_ON_ACCELERATOR)
    return place == PLACEMENT_ON_ACCELERATOR;
  return p->on[place] != 0;
}

static void count_readers_there(placing *p) {
  for (uint32_t v = 0; v < p->value_count; v++) {
    p->readers_there[v] = 0;
    for (uint32_t i = 0; i < p->values[v].count; i++)
      p->readers_there[v] += is_there(p, p->flat_readers[p->values[v].first + i]);
  }
}

/* ---- Explanations ---------------------------------------------------------------------------- */

typedef struct words {
  char text[REASON_BYTES];
  size_t used;
} words;

static void say(words *w, const char *text) {
  int n = snprintf(w->text + w->used, sizeof w->text - w->used, "%s", text);
  if (n > 0) w->used += (size_t)n;
  if (w->used >= sizeof w->text) w->used = sizeof w->text - 1;
}

static void say_time(words *w, int64_t time) {
  char number[REAL_TEXT_BYTES];
  double us = (double)time * 1e-6;
  say(w, us < 9.95     ? real_decimal(us, 2, number)
         : us < 9999.5 ? real_fixed(us, 0, number)
                       : real_decimal(us * 1e-3, 3, number));
  say(w, us < 9999.5 ? " µs" : " ms");
}

/* Returns the transfer cost of a value if one unit that writes or reads it moved to `side` and all
 * others stayed. */
static int64_t copy_cost(const placing *p, uint32_t value, uint32_t index, unsigned char side) {
  const placement_value *v = &p->values[value];
  const bool makes = v->maker == index;
  const uint32_t reads = makes ? 0 : 1, was_there = makes ? 0 : p->on[index];
  const bool from_there = makes ? side != 0 : is_there(p, v->maker);
  const uint32_t there = p->readers_there[value] - was_there + (side != 0 ? reads : 0);
  if (from_there) return there < v->count ? v->from : 0;
  return there > 0 ? v->to : 0;
}

/* Returns the transfer cost of all values that a unit writes and reads if it moved to `side` and
 * all others stayed. */
static int64_t copies_around(const placing *p, uint32_t index, unsigned char side) {
  const unit *u = &p->units[index];
  const cluster *c = &p->l->f->clusters[index];
  int64_t total = 0;
  for (uint32_t i = 0; i < u->read_count; i++)
    total += copy_cost(p, p->reads.at[u->first_read + i], index, side);
  for (uint32_t m = 0; m < c->member_count; m++)
    if (p->value_of[c->members[m]] != IR_NONE)
      total += copy_cost(p, p->value_of[c->members[m]], index, side);
  return total;
}

static void say_side(words *w, const placing *p, uint32_t index, unsigned char side,
                     const char *verb, const char *device) {
  const placement_unit *cost = &p->costs[index];
  int64_t copies = copies_around(p, index, side);
  say(w, side ? device : "the CPU");
  say(w, verb);
  say_time(w, side ? cost->accelerator : cost->cpu);
  if (copies == 0) return;
  say(w, " + ");
  say_time(w, copies);
  say(w, " of copies");
}

static const char *reason_for(const placing *p, uint32_t index, const char *device) {
  words w = {.used = 0};
  if (p->refusal[index]) {
    say(&w, device);
    say(&w, " cannot run it: ");
    say(&w, p->refusal[index]);
  } else {
    say_side(&w, p, index, p->on[index], " takes ", device);
    say(&w, ", ");
    say_side(&w, p, index, !p->on[index], " ", device);
  }
  char *kept = scratch_take(p->l->memory, w.used + 1, 1);
  if (kept) memcpy(kept, w.text, w.used + 1);
  return kept;
}

/* ---- The choice ------------------------------------------------------------------------------ */

/* True if the CPU and this candidate can reach the plan's parameters. */
static bool reaches_parameters(const lowering *l, const compute_device *candidate, bool *holds) {
  *holds = false;
  for (uint32_t i = 0; i < l->r->count; i++) {
    const ir_node *n = &l->r->nodes[i];
    if (!n->live || n->op != OP_parameter || lies_on_cpu(l, i)) continue;
    if (n->tensor->buffer->device != candidate) return false;
    *holds = true;
  }
  return true;
}

static bool is_candidate(const compute_device *device, const compute_device *only) {
  return device != device->context->cpu && (!only || device == only) &&
         atomic_load_explicit(&device->loss, memory_order_acquire) == DEVICE_WORKS &&
         (device->info.capabilities & COMPUTE_CAPABILITY_COMPUTE) != 0;
}

static compute_status write_places(placing *p, compute_device *device, bool holds) {
  lowering *l = p->l;
  compute_plan *plan = l->plan;
  bool used = holds;
  cluster_place *places = scratch_take(l->memory, p->problem.unit_count, sizeof *places);
  if (!places) return short_of_memory(l);
  count_readers_there(p);
  for (uint32_t i = 0; i < p->problem.unit_count; i++) used |= p->on[i] != 0;
  for (uint32_t i = 0; i < p->problem.unit_count; i++) {
    places[i].device = used && !p->on[i] ? PLAN_CPU : PLAN_MAIN;
    places[i].reason = reason_for(p, i, device->info.name);
    if (!places[i].reason) return short_of_memory(l);
  }
  plan->device[PLAN_MAIN] = used ? device : plan->context->cpu;
  plan->device[PLAN_CPU] = used ? plan->context->cpu : NULL;
  plan->port_device = used ? PLAN_CPU : PLAN_MAIN;
  plan->placed = true;
  l->places = places;
  return COMPUTE_OK;
}

compute_status place_clusters(lowering *l, compute_device *only) {
  compute_context *context = l->plan->context;
  if (!context->cpu) return COMPUTE_OK;
  placing p = {.l = l};
  if (!begin(&p) || !finish(&p)) return short_of_memory(l);
  int64_t best = 0, total;
  compute_device *chosen = NULL;
  bool parameters_there = false, holds;
  for (size_t i = 0; compute_device_at(context, i); i++) {
    compute_device *candidate = compute_device_at(context, i);
    if (!is_candidate(candidate, only) || !reaches_parameters(l, candidate, &holds)) continue;
    compute_status status = solve(&p, candidate, &total);
    if (status != COMPUTE_OK) return status;
    if (chosen && total >= best) continue;
    best = total;
    chosen = candidate;
    parameters_there = holds;
    status = write_places(&p, candidate, parameters_there);
    if (status != COMPUTE_OK) return status;
  }
  l->plan->placed = true; /* on the CPU, without another candidate */
  return COMPUTE_OK;
}
