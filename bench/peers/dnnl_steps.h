/* SPDX-License-Identifier: MIT */
/* Short sequences of oneDNN primitives: data may have to be reordered to the library's own layout,
 * and back.
 *
 * Three variants are measured. Plain: data stay [n,c,h,w]. "reordered": data are reordered to the
 * library's preferred layout and the result back, in every run. "blocked": data are already in that
 * layout and the result stays in it, as inside a network; this is the library's best case. Filters
 * are always reordered beforehand. */
#ifndef BENCH_PEERS_DNNL_STEPS_H
#define BENCH_PEERS_DNNL_STEPS_H

#include <stdbool.h>

#include "dnnl_describe.h"
#include "peer.h"

enum { MAX_SETS = 16, MAX_SLOTS = 16, MAX_STEPS = 8, MAX_ARGUMENTS = 10, MAX_LAYOUTS = 32 };

typedef enum run_way { PLAIN, REORDERED, BLOCKED, WINOGRAD } run_way;
typedef enum run_phase { BEFORE, DURING, AFTER } run_phase;

/* An array of every set: one of the problem's, or one of the library's. */
typedef struct net_slot {
  dnnl_layout layout;
  dnnl_memory_t memory[MAX_SETS];
} net_slot;

typedef struct net_step {
  run_phase phase;
  dnnl_primitive_t primitive;
  int count, number[MAX_ARGUMENTS], slot[MAX_ARGUMENTS];
} net_step;

typedef struct network {
  const bench_peer_problem *problem;
  run_way way;
  bool failed;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  net_slot slots[MAX_SLOTS];
  net_step steps[MAX_STEPS];
  dnnl_layout layouts[MAX_LAYOUTS];
  int slot_count, step_count, layout_count;
  float *folded[MAX_SETS]; /* filter and bias with a batch norm folded in */
} network;

/* After any failure the network is not measured. */
void net_need(network *n, dnnl_status_t status);
/* A dense array. The network frees the results of this and the next functions. */
dnnl_layout net_layout(network *n, int rank, const int64_t *sizes, dnnl_format_tag_t tag);
/* The same array in any layout that a primitive prefers. */
dnnl_layout net_any(network *n, dnnl_layout from);
/* The layout of data: unchanged, or any. */
dnnl_layout net_data_layout(network *n, dnnl_layout plain);
/* Arrays of the problem, and of the library. */
int net_input_slot(network *n, int input, dnnl_layout d);
int net_output_slot(network *n, dnnl_layout d);
int net_own_slot(network *n, dnnl_layout d);
/* A primitive and its arguments. */
net_step *net_add_step(network *n, run_phase phase, const_dnnl_primitive_desc_t description);
void net_argument(net_step *s, int number, int slot);
void net_reorder(network *n, run_phase phase, int from, int to);
/* The slot with an argument of `d` in its preferred layout, reordered from `plain`. */
int net_bring(network *n, const_dnnl_primitive_desc_t d, int number, int plain, run_phase phase);
/* The slot for a result of `d`; net_finish, after its step, reorders it to `plain`. */
int net_result_slot(network *n, const_dnnl_primitive_desc_t d, int number, int plain);
/* When data are reordered. */
run_phase net_of_data(const network *n);
void net_finish(network *n, int from, int plain);
/* The description that is passed; without one the network is not measured. */
dnnl_primitive_desc_t net_described(network *n, dnnl_primitive_desc_t d);

/* For bench_peer_operation; `build` adds the slots and steps. */
void *net_setup(const bench_peer_problem *problem, run_way way, void (*build)(network *));
void net_run(void *state, uint32_t set);
void net_collect(void *state, uint32_t set);
void net_teardown(void *state);

/* Sets the library's number of threads. */
void dnnl_use_threads(int threads);

/* setup takes no argument that identifies the variant: NET_WAYS(build) defines one for each, and
 * NET_ROWS three rows of a table. */
#define NET_WAYS(build)                                                                            \
  static void *build##_plain(const bench_peer_problem *p) {                                        \
    return net_setup(p, PLAIN, build);                                                             \
  }                                                                                                \
  static void *build##_reordered(const bench_peer_problem *p) {                                    \
    return net_setup(p, REORDERED, build);                                                         \
  }                                                                                                \
  static void *build##_blocked(const bench_peer_problem *p) {                                      \
    return net_setup(p, BLOCKED, build);                                                           \
  }
#define NET_ROW(name_, variant_, setup_)                                                           \
  {                                                                                                \
    .name = name_, .variant = variant_, .setup = setup_, .run = net_run, .collect = net_collect,   \
    .teardown = net_teardown                                                                       \
  }
#define NET_ROWS(name_, build)                                                                     \
  NET_ROW(name_, "", build##_plain), NET_ROW(name_, "reordered", build##_reordered),               \
      NET_ROW(name_, "blocked", build##_blocked)

#endif
