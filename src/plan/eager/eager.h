/* SPDX-License-Identifier: MIT */
/* Eager calls (compute/eager.h): their descriptions, and their plans, cached by structure.
 *
 * The first eager call of a context creates its cache; the context owns it. Thread-safe. */
#ifndef EAGER_EAGER_H
#define EAGER_EAGER_H

#include "compute/eager.h"
#include "compute/plan.h"
#include "graph/node/graph.h"

/* A builder of graph.h with its operands and attributes. */
typedef struct eager_call eager_call;

/* Adds the operation to a graph; `x` has a node for each operand. */
typedef compute_node eager_build(compute_graph *graph, const compute_node *x,
                                 const eager_call *call);

/* Attributes that the operation lacks are zero. */
struct eager_call {
  const char *operation;
  eager_build *build;
  const compute_tensor *const *operands;
  size_t operand_count;
  bool optional;          /* operands after the first may be NULL: omitted */
  compute_device *device; /* without operands; else the first operand's is used */
  double number[2];
  int64_t integer[3];
  int32_t axis;
  uint32_t stream;
  compute_dtype dtype;
  bool keep_axes;
  compute_axes axes;
  compute_shape shape;
};

/* Runs the call; on success *result is a new tensor. */
compute_status eager_run(const eager_call *call, compute_tensor **result);

/* Defines the builder build_<name>; `expression` may use graph, x and call. */
#define EAGER_BUILD(name, expression)                                                              \
  static compute_node build_##name(compute_graph *graph, const compute_node *x,                    \
                                   const eager_call *call) {                                       \
    (void)x, (void)call;                                                                           \
    return expression;                                                                             \
  }

/* What the function of a call returns; `result` is its last parameter. EAGER_OPERANDS and the
 * attributes follow, as fields of eager_call. */
#define EAGER_CALL_AS(name, builder, ...)                                                          \
  eager_run(&(const eager_call){.operation = name, .build = builder, __VA_ARGS__}, result)
#define EAGER_CALL(name, ...) EAGER_CALL_AS(#name, build_##name, __VA_ARGS__)
#define EAGER_OPERANDS(...)                                                                        \
  .operands = (const compute_tensor *const[]){__VA_ARGS__},                                        \
  .operand_count = sizeof((const compute_tensor *const[]){__VA_ARGS__}) / sizeof(compute_tensor *)

/* Of a context: its cached plans, which count as live objects. No eager call may be running when
 * they are released; a context that stays open can start a new cache. */
struct eager_cache;
extern room_slot eager_slot;

/* A plan that computes one operation from as many inputs as the operation has operands. */
typedef struct eager_plan {
  int32_t references; /* atomic; the cache has one */
  compute_plan *plan;
  compute_node *inputs; /* {0} for an omitted operand; owned */
  compute_node output;
  unsigned char *key; /* the structure, as bytes; owned */
  size_t key_bytes;
  uint64_t hash;
  uint64_t bytes;                   /* that it takes */
  struct eager_plan *next;          /* in the same bucket */
  struct eager_plan *newer, *older; /* by last use */
} eager_plan;

/* Frees the plan with its last reference. NULL is allowed. */
void eager_plan_release(eager_plan *plan);

/* The context's cache, created if there is none; NULL when out of memory. */
struct eager_cache *eager_cache_of(compute_context *context);

/* The plan with this key, with a reference for the caller; NULL if there is none. */
eager_plan *eager_cache_find(struct eager_cache *cache, const void *key, size_t key_bytes,
                             uint64_t hash);

/* Adds a plan to the cache, which evicts the least recently used ones beyond its limit. Returns the
 * plan to use, with a reference for the caller: another thread's if that was faster. */
eager_plan *eager_cache_insert(struct eager_cache *cache, eager_plan *plan);

/* Plans that are cached now. */
size_t eager_cache_count(struct eager_cache *cache);

/* Plans, and bytes that they take together; one is always kept. */
enum { EAGER_CACHE_LIMIT = 256, EAGER_CACHE_BYTES = 16 << 20 };

#endif
