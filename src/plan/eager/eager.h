/* SPDX-License-Identifier: MIT */
/* Eager calls (compute/eager.h): their descriptions and their cached plans.
 *
 * The first eager call of a context creates the plan cache; the context owns it. Thread-safe. */
#ifndef EAGER_EAGER_H
#define EAGER_EAGER_H

#include <stdatomic.h>

#include "compute/eager.h"
#include "compute/plan.h"
#include "graph/node/graph.h"

/* The description of one call: a builder of graph.h with its operands and attributes. */
typedef struct eager_call eager_call;

/* Adds the operation to a graph; `x` holds one node per operand. */
typedef compute_node eager_build(compute_graph *graph, const compute_node *x,
                                 const eager_call *call);

/* Attributes that the operation does not use are zero. */
struct eager_call {
  const char *operation;
  eager_build *build;
  const compute_tensor *const *operands;
  size_t operand_count;
  bool optional;          /* operands after the first may be NULL (omitted) */
  compute_device *device; /* for a call without operands; otherwise the first operand's device */
  double number[2];
  int64_t integer[4];
  int32_t axis;
  uint32_t stream;
  compute_dtype dtype;
  bool keep_axes;
  compute_axes axes;
  compute_shape shape;
  const void *extra; /* a text, or options whose padding is zero; compared as bytes */
  size_t extra_bytes;
};

/* Runs the call. On success *result is a new tensor. */
compute_status eager_run(const eager_call *call, compute_tensor **result);

/* Defines the builder build_<name>; `expression` may use graph, x and call. */
#define EAGER_BUILD(name, expression)                                                              \
  static compute_node build_##name(compute_graph *graph, const compute_node *x,                    \
                                   const eager_call *call) {                                       \
    (void)x, (void)call;                                                                           \
    return expression;                                                                             \
  }

/* The return expression of an eager function; `result` is the function's last parameter.
 * EAGER_OPERANDS and the attributes follow as initialisers of eager_call. */
#define EAGER_CALL_AS(name, builder, ...)                                                          \
  eager_run(&(const eager_call){.operation = name, .build = builder, __VA_ARGS__}, result)
#define EAGER_CALL(name, ...) EAGER_CALL_AS(#name, build_##name, __VA_ARGS__)
#define EAGER_OPERANDS(...)                                                                        \
  .operands = (const compute_tensor *const[]){__VA_ARGS__},                                        \
  .operand_count = sizeof((const compute_tensor *const[]){__VA_ARGS__}) / sizeof(compute_tensor *)

/* The cached plans of a context; each counts as a live object. No eager call may be running when
 * the cache is released. A context that stays open can create a new cache. */
struct eager_cache;
extern room_slot eager_slot;

/* A plan that computes one operation; it has one input per operand. */
typedef struct eager_plan {
  _Atomic int32_t references; /* the cache has one */
  compute_plan *plan;
  compute_node *inputs; /* {0} for an omitted operand; owned */
  compute_node output;
  unsigned char *key; /* the call's structure as bytes; owned */
  size_t key_bytes;
  uint64_t hash;
  uint64_t bytes;                   /* memory of the plan */
  struct eager_plan *next;          /* in the same bucket */
  struct eager_plan *newer, *older; /* by last use */
} eager_plan;

/* Drops a reference; the last one frees the plan. NULL is allowed. */
void eager_plan_release(eager_plan *plan);

/* Returns the context's cache and creates it on the first call; NULL when out of memory. */
struct eager_cache *eager_cache_of(compute_context *context);

/* Returns the plan with this key and a reference for the caller; NULL if there is none. */
eager_plan *eager_cache_find(struct eager_cache *cache, const void *key, size_t key_bytes,
                             uint64_t hash);

/* Adds a plan and evicts the least recently used plans beyond the limits. Returns the plan to use,
 * with a reference for the caller. This is another thread's plan if that thread inserted first. */
eager_plan *eager_cache_insert(struct eager_cache *cache, eager_plan *plan);

size_t eager_cache_count(struct eager_cache *cache);

/* The limits of the cache: plans, and their bytes in total. One plan always stays. */
enum { EAGER_CACHE_LIMIT = 256, EAGER_CACHE_BYTES = 16 << 20 };

#endif
