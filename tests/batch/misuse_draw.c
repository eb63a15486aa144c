/* SPDX-License-Identifier: MIT */
/* A seed determines everything about a case here, except the order of threads. */
#include <stdio.h>

#include "batch/misuse.h"

static int64_t draw(test_random *random, int64_t low, int64_t high) {
  return test_random_integer(random, low, high);
}

/* Returns true once in `n` times. */
static bool once_in(test_random *random, int64_t n) {
  return draw(random, 1, n) == 1;
}

/* ---- Iterators ----------------------------------------------------------------------------- */

void misuse_draw_case(const misuse_round *round, uint64_t seed, misuse_case *drawn) {
  static const int widths[] = {0, 1, 3, 3, 5, MISUSE_WIDTH};
  static const uint32_t slots[] = {0, 1, 1, 2, 3, 5, COMPUTE_BATCH_MAX_SLOTS};
  test_random random = {seed};
  misuse_case *c = drawn;
  *c = (misuse_case){.seed = seed};
  c->by_step = once_in(&random, 2);
  c->device_count = (int)(once_in(&random, 2) ? 1 : draw(&random, 2, MISUSE_DEVICES));
  bool others = false;
  for (int i = 0; i < c->device_count; i++) {
    c->device[i] = (int)draw(&random, 0, round->device_count - 1);
    others = others || c->device[i] != 0;
  }
  c->all_devices = !c->by_step && once_in(&random, 8);
  c->width = widths[draw(&random, 0, 5)];
  c->inputs = (int)draw(&random, 0, MISUSE_PORTS);
  c->outputs = (int)draw(&random, 1, MISUSE_PORTS);
  c->batch = once_in(&random, 20) ? 0 : draw(&random, 1, once_in(&random, 2) ? 4 : 40);
  c->slots = slots[draw(&random, 0, 6)];
  c->memory = once_in(&random, 4) ? (uint64_t)draw(&random, 1, 4000) : 0;
  /* Not every device can compute everything. */
  c->fallback = others || c->all_devices || once_in(&random, 2) ? COMPUTE_FALLBACK_SILENT
                                                                : COMPUTE_FALLBACK_STRICT;
  c->runs = (int)draw(&random, 1, MISUSE_RUNS);
  c->builder_fails = !c->by_step && once_in(&random, 12);
}

/* ---- Runs ---------------------------------------------------------------------------------- */

static void draw_ways(test_random *random, misuse_run *run) {
  const misuse_case *c = run->of;
  for (int i = 0; i < c->inputs; i++) {
    run->source[i] = (misuse_way)draw(random, WAY_CALL, WAY_FILE);
    if (once_in(random, 2)) run->source[i] = WAY_CALL;
  }
  for (int i = 0; i < c->outputs; i++) {
    run->sink[i] = (misuse_way)draw(random, WAY_CALL, WAY_DISCARD);
    if (once_in(random, 2)) run->sink[i] = WAY_CALL;
  }
}

/* A file of items without bytes has no end. */
static bool has_end(const misuse_run *run, int port) {
  return run->source[port] == WAY_CALL || (run->source[port] == WAY_FILE && run->of->width > 0);
}

/* Draws a port for a trouble of this kind, or returns −1. */
static int draw_port(test_random *random, const misuse_run *run, misuse_kind kind) {
  const misuse_case *c = run->of;
  const bool sink = kind == SINK_FAILS || kind == CANCEL_IN_SINK;
  const int count = sink ? c->outputs : c->inputs;
  const bool only_calls = kind == SOURCE_LIES || kind == CANCEL_IN_SOURCE || sink;
  const int first = count > 0 ? (int)draw(random, 0, count - 1) : 0;
  for (int k = 0; k < count; k++) {
    const int i = (first + k) % count;
    if ((sink ? run->sink[i] : run->source[i]) == WAY_CALL) return i;
    if (!only_calls && has_end(run, i)) return i;
  }
  return -1;
}

static compute_status draw_status(test_random *random, misuse_kind kind) {
  static const compute_status callers[] = {COMPUTE_ERROR_FILE, COMPUTE_ERROR_INVALID_STATE,
                                           COMPUTE_ERROR_CANCELLED, COMPUTE_ERROR_DEVICE_LOST,
                                           COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY};
  static const compute_status devices[] = {COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY,
                                           COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY,
                                           COMPUTE_ERROR_DEVICE_LOST,
                                           COMPUTE_ERROR_LAUNCH,
                                           COMPUTE_ERROR_TRANSFER,
                                           COMPUTE_ERROR_TIMEOUT};
  switch (kind) {
  case SOURCE_ENDS:
  case SOURCE_LIES: return COMPUTE_ERROR_INVALID_ARGUMENT;
  case SOURCE_FAILS:
  case SINK_FAILS: return callers[draw(random, 0, 4)];
  case STEP_FAILS: return COMPUTE_ERROR_INVALID_STATE;
  case DEVICE_FAILS: return devices[draw(random, 0, 5)];
  case THREAD_RUNS: return COMPUTE_ERROR_INVALID_STATE;
  default: return COMPUTE_ERROR_CANCELLED;
  }
}

static bool draw_trouble(test_random *random, const misuse_run *run, misuse_trouble *trouble) {
  const misuse_kind kind = (misuse_kind)draw(random, 0, TROUBLE_KINDS - 1);
  misuse_trouble t = {.kind = kind, .status = draw_status(random, kind)};
  switch (kind) {
  case STEP_FAILS:
  case DEVICE_FAILS:
  case CANCEL_IN_STEP:
    if (!run->of->by_step) return false;
    break;
  case PROGRESS_CANCELS:
    if (!run->progress) return false;
    t.item = draw(random, 0, 5);
    *trouble = t;
    return true;
  case CANCEL_AT_UNLOCK:
    t.port = (int)draw(random, 0, MISUSE_PORTS - 1);
    t.item = draw(random, 1, once_in(random, 2) ? 8 : 80);
    *trouble = t;
    return true;
  case THREAD_CANCELS:
  case THREAD_RUNS:
    t.item = once_in(random, 3) ? 0 : draw(random, 0, 2000);
    *trouble = t;
    return true;
  default:
    t.port = draw_port(random, run, kind);
    if (t.port < 0) return false;
  }
  if (run->items == 0) return false;
  t.item = draw(random, 0, run->items - 1);
  if (kind == SOURCE_FAILS && run->source[t.port] == WAY_FILE) t.status = COMPUTE_ERROR_FILE;
  *trouble = t;
  return true;
}

/* A run that ends only when it is cancelled, and a trouble that certainly cancels it. */
static void draw_endless(test_random *random, misuse_run *run) {
  const misuse_case *c = run->of;
  misuse_trouble t = {.kind = CANCEL_AT_UNLOCK, .status = COMPUTE_ERROR_CANCELLED};
  for (int i = 0; i < c->inputs; i++) run->source[i] = WAY_CALL;
  for (int i = 0; i < c->outputs; i++)
    if (run->sink[i] != WAY_CALL) run->sink[i] = WAY_DISCARD;
  run->endless = run->until_end = true;
  run->items = MISUSE_ENDLESS;
  if (once_in(random, 2)) {
    t.kind = THREAD_CANCELS;
    t.item = -1;
  } else if (once_in(random, 2)) { /* the caller's thread has few unlocks */
    t.item = draw(random, 1, 3);
  } else {
    t.port = c->by_step ? (int)draw(random, 1, 2) : 1;
    t.item = draw(random, 1, 60);
  }
  run->trouble[run->trouble_count++] = t;
}

static void draw_troubles(test_random *random, misuse_run *run) {
  const int64_t dice = draw(random, 0, 19);
  const int wanted = dice < 7 ? 0 : dice < 15 ? 1 : dice < 18 ? 2 : 3;
  for (int tries = 0; tries < 12 && run->trouble_count < wanted; tries++)
    run->trouble_count += draw_trouble(random, run, &run->trouble[run->trouble_count]);
}

void misuse_draw_run(const misuse_round *round, const misuse_case *of, uint64_t seed,
                     misuse_run *drawn) {
  static const double seconds[] = {0, 0, 1e-12, 1e-6, 1e-4, 1e-3, 1e5};
  test_random random = {seed};
  misuse_run *run = drawn;
  *run = (misuse_run){.of = of, .round = round, .seed = seed};
  const int64_t many = once_in(&random, 2) ? 20 : MISUSE_ITEMS;
  run->items = once_in(&random, 6) ? draw(&random, 0, 1) : draw(&random, 2, many);
  draw_ways(&random, run);
  bool ends = false;
  for (int i = 0; i < of->inputs; i++) ends = ends || has_end(run, i);
  run->until_end = ends && once_in(&random, 3);
  run->offset = once_in(&random, 2) ? 0 : 12;
  run->delay = once_in(&random, 3) ? 0 : (int)draw(&random, 1, once_in(&random, 4) ? 800 : 60);
  run->progress = once_in(&random, 2);
  run->progress_seconds = seconds[draw(&random, 0, 6)];
  if (of->inputs > 0 && once_in(&random, 12))
    draw_endless(&random, run);
  else
    draw_troubles(&random, run);
  atomic_init(&run->cut, INT64_MAX);
  atomic_init(&run->cancelled, false);
  atomic_init(&run->over, false);
  for (int i = 0; i < MISUSE_PORTS; i++) atomic_init(&run->armed[i], false);
}

const misuse_trouble *misuse_find(const misuse_run *run, misuse_kind kind, int port) {
  for (int i = 0; i < run->trouble_count; i++)
    if (run->trouble[i].kind == kind && run->trouble[i].port == port) return &run->trouble[i];
  return NULL;
}

/* ---- Messages ------------------------------------------------------------------------------ */

void misuse_describe(const misuse_case *c, const misuse_run *run, char text[MISUSE_TEXT]) {
  static const char *const kinds[] = {
      "source ends",    "source fails",   "source lies",  "sink fails",   "step fails",
      "device fails",   "source cancels", "sink cancels", "step cancels", "progress cancels",
      "unlock cancels", "thread cancels", "thread runs"};
  static const char *const ways[] = {"call", "array", "file", "discard"};
  size_t used = (size_t)snprintf(text, MISUSE_TEXT, "%s, devices",
                                 c->by_step         ? "step"
                                 : c->builder_fails ? "bad graph"
                                                    : "graph");
#define SAY(...)                                                                                   \
  if (used < MISUSE_TEXT) used += (size_t)snprintf(text + used, MISUSE_TEXT - used, __VA_ARGS__)
  for (int i = 0; i < c->device_count; i++) SAY(" %d", c->device[i]);
  SAY("%s, width %d, batch %lld, slots %u, memory %llu%s", c->all_devices ? " (all)" : "", c->width,
      (long long)c->batch, c->slots, (unsigned long long)c->memory,
      c->fallback == COMPUTE_FALLBACK_STRICT ? ", strict" : "");
  if (!run) return;
  SAY("; %lld items%s", (long long)run->items, run->until_end ? " until the end" : "");
  for (int i = 0; i < c->inputs; i++) SAY(", from %s", ways[run->source[i]]);
  for (int i = 0; i < c->outputs; i++) SAY(", to %s", ways[run->sink[i]]);
  SAY(", delay %d, progress %s %g", run->delay, run->progress ? "every" : "never",
      run->progress_seconds);
  for (int i = 0; i < run->trouble_count; i++)
    SAY("; %s %d at %lld with %s", kinds[run->trouble[i].kind], run->trouble[i].port,
        (long long)run->trouble[i].item, compute_status_name(run->trouble[i].status));
#undef SAY
}
