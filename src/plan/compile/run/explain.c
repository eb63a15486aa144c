/* SPDX-License-Identifier: MIT */
/* compute_explain: a plan as a readable table. */
#include "plan/compile/run/explain.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/real.h"
#include "plan/compile/run/run.h"
#include "core/tensor/tensor.h"

static void print_bytes(text_buffer *t, uint64_t bytes) {
  char number[REAL_TEXT_BYTES];
  if (bytes < 10000)
    text_add(t, "%llu B", (unsigned long long)bytes);
  else if (bytes < 10000000)
    text_add(t, "%s kB", real_fixed((double)bytes / 1e3, 1, number));
  else
    text_add(t, "%s MB", real_fixed((double)bytes / 1e6, 1, number));
}

static void print_port(const plan_port *p, bool input, text_buffer *t) {
  if (p->name)
    text_add(t, "%s", p->name);
  else
    text_add(t, "%s %u", input ? "input" : "output", p->node + 1);
}

void explain_operand(const compute_plan *plan, text_buffer *t, const plan_operand *o) {
  const uint32_t ports = plan_port_count(plan);
  if (o->slot >= plan->slot_count) {
    text_add(t, "value %u", o->slot - plan->slot_count + 1);
    if (o->offset != 0) text_add(t, "+%llu", (unsigned long long)o->offset);
    return;
  }
  if (o->slot < ports) {
    print_port(&plan->ports[o->slot], o->slot < plan->input_count, t);
    if (o->offset != 0) text_add(t, "+%llu", (unsigned long long)o->offset);
    return;
  }
  if (o->slot >= plan->packed_slot) {
    text_add(t, "packed ");
    o = &plan->packed[o->slot - plan->packed_slot].source;
  }
  if (plan_slot_is_parameter(plan, o->slot)) text_add(t, "parameter %u", o->slot - ports);
  for (uint32_t d = 0; d < PLAN_DEVICES; d++) {
    if (plan->constant_slot[d] == o->slot)
      text_add(t, "constant %llu", (unsigned long long)o->offset);
    if (plan->arena_slot[d] == o->slot || plan->thread_arena_slot[d] == o->slot)
      text_add(t, "@%llu", (unsigned long long)o->offset);
  }
}

static void print_time(text_buffer *t, double seconds) {
  char number[REAL_TEXT_BYTES];
  double us = seconds * 1e6;
  text_add(t, "%s µs",
           us < 9999.5 && us >= 9.95 ? real_fixed(us, 0, number)
                                     : real_decimal(us, us < 9.95 ? 2 : 4, number));
}

/* The prediction excludes waiting for the step; the measured time includes it. */
static double predicted_seconds(const plan_step *s, const device_costs *costs) {
  if (!s->kernel)
    return costs_copy_seconds(&costs[PLAN_MAIN], s->device == PLAN_MAIN, (double)s->bytes);
  return costs_kernel_seconds(&costs[s->device], &s->work);
}

static void print_times(text_buffer *t, const plan_step *s, const device_costs *costs) {
  uint64_t measured = atomic_load_explicit(&s->picoseconds, memory_order_relaxed);
  text_add(t, "      predicted ");
  print_time(t, predicted_seconds(s, costs));
  if (measured > 0) {
    text_add(t, ", measured ");
    print_time(t, (double)measured * 1e-12);
  }
  text_add(t, "\n");
}

void explain_host(const compute_context *context, text_buffer *t, double rows) {
  device_costs costs;
  if (!context->cpu) return;
  costs_get(context->cpu, false, &costs);
  text_add(t, "      predicted ");
  print_time(
      t, costs_kernel_seconds(
             &costs, &(kernel_work){.moved = WORK_STREAM, .product = WORK_CLASSES, .rows = rows}));
  text_add(t, "\n");
}

void explain_step(const compute_plan *plan, text_buffer *t, uint32_t number, const plan_step *s,
                  const device_costs *costs) {
  const compute_device *device = plan->device[s->device];
  char flops[REAL_TEXT_BYTES];
  text_add(t, "%4u  %s\n", number + 1, s->text);
  text_add(t, "      %s%s%u operation%s, ", s->shape, s->shape[0] ? "; " : "", s->operations,
           s->operations == 1 ? "" : "s");
  if (s->flops > 0) text_add(t, "%s MFLOP, ", real_decimal((double)s->flops / 1e6, 3, flops));
  print_bytes(t, s->bytes_read);
  text_add(t, " read, ");
  print_bytes(t, s->bytes_written);
  text_add(t, " written\n      ");
  for (uint32_t i = 0; i < s->operand_count; i++) {
    text_add(t, i == 0 ? "" : i == s->input_count ? " -> " : ", ");
    if (i == 0 && s->input_count == 0) text_add(t, "-> ");
    explain_operand(plan, t, &s->operands[i]);
  }
  text_add(t, "\n");
  char words[160] = "";
  if (s->kernel && device->backend->kernel_describe)
    device->backend->kernel_describe(device->handle, s->kernel->kernel, words, sizeof words);
  if (s->kernel) text_add(t, "      on %s%s%s\n", device->info.name, words[0] ? ": " : "", words);
  if (costs) print_times(t, s, costs);
  if (s->reason) text_add(t, "      placed there because %s\n", s->reason);
  if (s->placement) text_add(t, "      not where asked, because %s\n", s->placement);
}

/* Prints the steps of the first micro-batch, which represent all. Returns the number of all their
 * steps. */
static uint32_t print_micro_batches(const compute_plan *plan, text_buffer *t, uint32_t number,
                                    const device_costs *costs) {
  const plan_step *s = &plan->steps[number];
  uint32_t first = number + 1, end; /* of the other micro-batches */
  while (first < plan->step_count && plan->steps[first].micro_batches == s->micro_batches &&
         plan->steps[first].micro_batch == 0)
    first++;
  for (end = first; end < plan->step_count && plan->steps[end].micro_batch > 0;) end++;
  const char *part = s->row_tile ? "band" : "slice", *items = s->row_tile ? "rows" : "items";
  text_add(t, "      steps %u to %u run in %u %ss of the %lld %s%s; the first %s:\n", number + 1,
           end, s->micro_batches, part, (long long)s->of_items, items,
           s->side_by_side ? ", each on one thread" : "", part);
  for (uint32_t i = number; i < first; i++) explain_step(plan, t, i, &plan->steps[i], costs);
  text_add(t, "      steps %u to %u repeat these for the other %ss\n", first + 1, end, part);
  return end - number;
}

static void print_ports(const compute_plan *plan, text_buffer *t) {
  char shape[96];
  for (uint32_t i = 0; i < plan_port_count(plan); i++) {
    const plan_port *p = &plan->ports[i];
    text_add(t, "%-10s node %u %s %s%s%s\n", i < plan->input_count ? "input" : "output",
             p->node + 1, compute_dtype_name(p->dtype),
             compute_shape_text(p->shape, shape, sizeof shape), p->name ? " " : "",
             p->name ? p->name : "");
  }
  for (uint32_t i = 0; i < plan->parameter_count; i++) {
    const compute_tensor *x = plan->parameters[i];
    text_add(t, "parameter  %u %s %s\n", i, compute_dtype_name(x->dtype),
             compute_shape_text(x->shape, shape, sizeof shape));
  }
}

compute_status compute_explain(const compute_plan *plan, char **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(plan, context);
  if (result) *result = NULL;
  if (!plan || !result)
    return error_set(plan ? plan->context : NULL, COMPUTE_ERROR_NULL_POINTER, "compute_explain",
                     "%s is NULL", !plan ? "plan" : "text");
  text_buffer t = {0};
  char flops[REAL_TEXT_BYTES];
  device_costs costs[PLAN_DEVICES];
  for (uint32_t d = 0; d < PLAN_DEVICES; d++)
    if (plan->device[d]) costs_get(plan->device[d], false, &costs[d]);
  const compute_plan_info *info = &plan->info;
  text_add(&t, "plan %s on %s%s: %u steps for %u operations", plan->name ? plan->name : "(unnamed)",
           plan->device[PLAN_MAIN]->info.name,
           !plan->placed            ? ""
           : plan->device[PLAN_CPU] ? " and the CPU, placed by cost"
                                    : ", placed by cost",
           info->steps, info->operations);
  if (info->fallbacks > 0) text_add(&t, ", %u of them on the CPU instead", info->fallbacks);
  text_add(&t, "\n%s MFLOP; ", real_decimal((double)info->flops / 1e6, 4, flops));
  print_bytes(&t, info->bytes_read);
  text_add(&t, " read, ");
  print_bytes(&t, info->bytes_written);
  text_add(&t, " written; arena ");
  print_bytes(&t, info->arena_bytes);
  text_add(&t, ", constants ");
  print_bytes(&t, info->constant_bytes);
  text_add(&t, "\n\n");
  print_ports(plan, &t);
  text_add(&t, "\nsteps (inputs -> outputs; @n is an offset in the arena)\n");
  for (uint32_t i = 0; i < plan->step_count;) {
    const plan_step *s = &plan->steps[i];
    if (s->micro_batches > 1)
      i += print_micro_batches(plan, &t, i, costs);
    else
      explain_step(plan, &t, i++, s, costs);
  }
  if (t.failed) {
    text_release(&t);
    return error_set(plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_explain",
                     "not enough memory for the text");
  }
  *result = t.data;
  return COMPUTE_OK;
}

compute_status compute_plan_measure(const compute_plan *plan, const compute_binding *bindings,
                                    size_t count) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(plan, context);
  if (!plan || (!bindings && count > 0))
    return error_set(plan ? plan->context : NULL, COMPUTE_ERROR_NULL_POINTER,
                     "compute_plan_measure", "%s is NULL", !plan ? "plan" : "bindings");
  const run_control control = {.timed = true};
  run_attempt attempt;
  const compute_status status = run_once(plan, bindings, count, NULL, &control, &attempt);
  if (status != COMPUTE_OK) run_skip_rest(plan, &attempt);
  return status;
}
