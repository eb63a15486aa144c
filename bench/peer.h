/* SPDX-License-Identifier: MIT */
/* The interface between compute-bench and the libraries that it compares with.
 *
 * A peer is a shared library in lib/compute-peers, opened at run time with local symbols; one that
 * is missing or does not load is simply not compared with. It exports one function,
 * compute_bench_peer, that returns its table of operations. This header is C and C++. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_PEER_ABI    2
#define BENCH_PEER_INPUTS 8
#define BENCH_PEER_ENTRY  "compute_bench_peer"

/* Indices into size for convolutions and pooling: data [n,c,h,w], filter
 * [o,c/groups,kernel,kernel]. */
enum {
  BENCH_N,
  BENCH_C,
  BENCH_H,
  BENCH_W,
  BENCH_O,
  BENCH_KERNEL,
  BENCH_STRIDE,
  BENCH_PADDING,
  BENCH_DILATION,
  BENCH_GROUPS,
  BENCH_SIZES
};

/* Dense row-major arrays, the same that libcompute reads and writes. */
typedef struct bench_peer_buffers {
  const void *input[BENCH_PEER_INPUTS];
  void *output;
} bench_peer_buffers;

/* One problem. The meaning of size depends on the operation; see bench/operations.h. */
typedef struct bench_peer_problem {
  const char *operation; /* "matmul" */
  const char *dtype;     /* "f32" */
  int64_t size[BENCH_SIZES];
  int threads;
  uint32_t set_count; /* sets of buffers that are used in turn */
  const bench_peer_buffers *sets;
} bench_peer_problem;

typedef struct bench_peer_operation {
  const char *name;    /* problem.operation */
  const char *variant; /* "", or how it is called; several variants are all measured */

  /* Prepares; NULL if the peer does not support this problem. The problem outlives the state. */
  void *(*setup)(const bench_peer_problem *problem);
  void (*run)(void *state, uint32_t set);

  /* Optional: writes the last run's result to the set's output, if run keeps it elsewhere. */
  void (*collect)(void *state, uint32_t set);
  void (*teardown)(void *state);
} bench_peer_operation;

typedef struct bench_peer {
  uint32_t abi;
  const char *name; /* "openblas" */
  const char *version;
  const bench_peer_operation *operations;
  size_t operation_count;
} bench_peer;

/* NULL where the library that the peer opens is not installed. */
typedef const bench_peer *(*bench_peer_function)(void);

__attribute__((visibility("default"))) const bench_peer *compute_bench_peer(void);

#ifdef __cplusplus
}
#endif
#endif
