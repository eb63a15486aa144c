/* SPDX-License-Identifier: MIT */
/* See dnnl_steps.h. */
#include "dnnl_steps.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* ---- Building ------------------------------------------------------------------------------ */

void net_need(network *n, dnnl_status_t status) {
  n->failed |= status != dnnl_success;
}

/* NULL in place of a layout also fails. */
static dnnl_layout keep(network *n, dnnl_layout d) {
  if (d && n->layout_count < MAX_LAYOUTS) return n->layouts[n->layout_count++] = d;
  layout_destroy(d);
  n->failed = true;
  return NULL;
}

dnnl_layout net_layout(network *n, int rank, const int64_t *sizes, dnnl_format_tag_t tag) {
  return keep(n, layout_create(rank, sizes, dnnl_f32, tag));
}

dnnl_layout net_any(network *n, dnnl_layout from) {
  int rank = 0;
  const int64_t *sizes = from ? layout_sizes(from, &rank) : NULL;
  return sizes ? net_layout(n, rank, sizes, dnnl_format_tag_any) : NULL;
}

/* data(set): the array, or NULL for one of the library's. */
static int add_slot(network *n, dnnl_layout d, bool own, int input) {
  if (n->failed || n->slot_count == MAX_SLOTS) {
    n->failed = true;
    return 0;
  }
  net_slot *s = &n->slots[n->slot_count];
  s->layout = d;
  for (uint32_t i = 0; i < n->problem->set_count; i++) {
    const bench_peer_buffers *b = &n->problem->sets[i];
    void *data = input < 0 ? b->output : (void *)(uintptr_t)b->input[input];
    net_need(n, dnnl_memory_create(&s->memory[i], d, n->engine, own ? DNNL_MEMORY_ALLOCATE : data));
  }
  return n->slot_count++;
}

int net_input_slot(network *n, int input, dnnl_layout d) {
  return add_slot(n, d, false, input);
}
int net_output_slot(network *n, dnnl_layout d) {
  return add_slot(n, d, false, -1);
}
int net_own_slot(network *n, dnnl_layout d) {
  return add_slot(n, d, true, -1);
}

net_step *net_add_step(network *n, run_phase phase, const_dnnl_primitive_desc_t description) {
  static net_step none;
  if (n->failed || n->step_count == MAX_STEPS) {
    n->failed = true;
    none = (net_step){0};
    return &none;
  }
  net_step *s = &n->steps[n->step_count++];
  s->phase = phase;
  net_need(n, dnnl_primitive_create(&s->primitive, description));
  return s;
}

void net_argument(net_step *s, int number, int slot) {
  s->number[s->count] = number;
  s->slot[s->count++] = slot;
}

/* A step that reorders slot `from` into slot `to`. */
void net_reorder(network *n, run_phase phase, int from, int to) {
  dnnl_primitive_desc_t d = NULL;
  net_need(n, dnnl_reorder_primitive_desc_create(&d, n->slots[from].layout, n->engine,
                                                 n->slots[to].layout, n->engine, NULL));
  net_step *s = net_add_step(n, phase, d);
  net_argument(s, DNNL_ARG_FROM, from);
  net_argument(s, DNNL_ARG_TO, to);
  if (d) dnnl_primitive_desc_destroy(d);
}

static dnnl_layout wanted(const network *n, const_dnnl_primitive_desc_t d, int number) {
  return n->failed ? NULL : dnnl_primitive_desc_query_md(d, dnnl_query_exec_arg_md, number);
}

/* The slot with an argument of `d` in its preferred layout, reordered from `plain`. */
int net_bring(network *n, const_dnnl_primitive_desc_t d, int number, int plain, run_phase phase) {
  dnnl_layout w = wanted(n, d, number);
  if (!w || dnnl_memory_desc_equal(w, n->slots[plain].layout)) return plain;
  const int slot = net_own_slot(n, keep(n, layout_copy(w)));
  net_reorder(n, phase, plain, slot);
  return slot;
}

/* The slot for a result of `d`, and the step, to be added after it, that reorders it to `plain`. */
int net_result_slot(network *n, const_dnnl_primitive_desc_t d, int number, int plain) {
  dnnl_layout w = wanted(n, d, number);
  if (!w || dnnl_memory_desc_equal(w, n->slots[plain].layout)) return plain;
  return net_own_slot(n, keep(n, layout_copy(w)));
}

run_phase net_of_data(const network *n) {
  return n->way == REORDERED ? DURING : BEFORE;
}

void net_finish(network *n, int from, int plain) {
  if (from != plain) net_reorder(n, n->way == REORDERED ? DURING : AFTER, from, plain);
}

dnnl_primitive_desc_t net_described(network *n, dnnl_primitive_desc_t d) {
  n->failed |= d == NULL;
  return d;
}

dnnl_layout net_data_layout(network *n, dnnl_layout plain) {
  return n->way == PLAIN ? plain : net_any(n, plain);
}

/* ---- Setting up, running ------------------------------------------------------------------- */

static void execute(network *n, uint32_t set, run_phase phase) {
  for (int i = 0; i < n->step_count; i++) {
    const net_step *s = &n->steps[i];
    dnnl_exec_arg_t arguments[MAX_ARGUMENTS];
    if (s->phase != phase) continue;
    for (int j = 0; j < s->count; j++)
      arguments[j] = (dnnl_exec_arg_t){s->number[j], n->slots[s->slot[j]].memory[set]};
    dnnl_primitive_execute(s->primitive, n->stream, s->count, arguments);
  }
  dnnl_stream_wait(n->stream);
}

void net_run(void *state, uint32_t set) {
  execute(state, set, DURING);
}

void net_collect(void *state, uint32_t set) {
  execute(state, set, AFTER);
}

void net_teardown(void *state) {
  network *n = state;
  for (int i = 0; i < n->step_count; i++)
    if (n->steps[i].primitive) dnnl_primitive_destroy(n->steps[i].primitive);
  for (int i = 0; i < MAX_SLOTS; i++)
    for (int j = 0; j < MAX_SETS; j++)
      if (n->slots[i].memory[j]) dnnl_memory_destroy(n->slots[i].memory[j]);
  for (int i = 0; i < MAX_SETS; i++) free(n->folded[i]);
  for (int i = 0; i < n->layout_count; i++) layout_destroy(n->layouts[i]);
  if (n->stream) dnnl_stream_destroy(n->stream);
  if (n->engine) dnnl_engine_destroy(n->engine);
  free(n);
}

/* A variant with the same steps as the plain one is not measured. */
static bool is_distinct(const network *n) {
  int during = 0, other = 0;
  for (int i = 0; i < n->step_count; i++)
    if (n->steps[i].phase == DURING)
      during++;
    else
      other++;
  switch (n->way) {
  case REORDERED: return during > 1;
  case BLOCKED: return other > 1;
  default: return true;
  }
}

/* OpenMP's own call, found at run time: oneDNN may also have been built with another runtime. */
void dnnl_use_threads(int threads) {
  void *library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
  void (*set)(int) = NULL;
  if (library) *(void **)&set = dlsym(library, "omp_set_num_threads");
  if (set) set(threads);
}

void *net_setup(const bench_peer_problem *problem, run_way way, void (*build)(network *)) {
  network *n =
      strcmp(problem->dtype, "f32") || problem->set_count > MAX_SETS ? NULL : calloc(1, sizeof *n);
  if (!n) return NULL;
  dnnl_use_threads(problem->threads);
  n->problem = problem;
  n->way = way;
  net_need(n, dnnl_engine_create(&n->engine, dnnl_cpu, 0));
  if (!n->failed) net_need(n, dnnl_stream_create(&n->stream, n->engine, dnnl_stream_default_flags));
  if (!n->failed) build(n);
  if (n->failed || !is_distinct(n)) {
    net_teardown(n);
    return NULL;
  }
  for (uint32_t set = 0; set < problem->set_count; set++) execute(n, set, BEFORE);
  return n;
}
