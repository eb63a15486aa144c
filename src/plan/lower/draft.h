/* What drafts of kernels are put together from; the drafts themselves are in lower_kernel.c and
 * lower_network.c. */
#ifndef PLAN_DRAFT_H
#define PLAN_DRAFT_H

#include "plan/lower/lower.h"

/* How the dimensions of a shape become those of a kernel's space: dimension i of the space is axis
 * axis[i] of the shape, or −1 where the shape has none (its stride is 0 there). */
typedef struct dimension_map {
  int32_t rank;
  int32_t axis[COMPUTE_MAX_RANK];
} dimension_map;

dimension_map draft_identity(int32_t rank);

/* Strides of a shape's axes as those of the space. */
void draft_spread(const dimension_map *map, const int64_t *strides, int64_t *result);

/* An empty draft over `space`. */
/* The attributes of the kernel begun, zeros. */
static inline void *draft_attributes(kernel_draft *d, size_t bytes) {
  return kernel_attributes_in(&d->attributes, &d->descriptor, bytes);
}

void draft_begin(kernel_draft *d, compute_kernel_kind kind, compute_shape space,
                 const dimension_map *map);

/* One more input: `node` through its layout, broadcast to `shape`. Returns its number. */
uint32_t draft_input(const lowering *l, kernel_draft *d, uint32_t node, compute_shape shape,
                     const dimension_map *map);

/* One more output: `node`, dense. */
void draft_output(const lowering *l, kernel_draft *d, uint32_t node, const dimension_map *map);

/* Body members, operands from outside and stored values, over the shape of the root. Input
 * `first_input` of the kernel is the program's input number `reserved`. */
void draft_body(const lowering *l, const cluster *c, uint32_t *value, kernel_draft *d,
                uint32_t first_input, uint32_t reserved, const dimension_map *map);

/* ---- lower_network.c: the kinds of neural networks, and spots -------------------------------- */

void draft_convolution(const lowering *l, const cluster *c, uint32_t *value, kernel_draft *d);
void draft_window(const lowering *l, const cluster *c, uint32_t *value, kernel_draft *d);
void draft_scan(const lowering *l, const cluster *c, kernel_draft *d);
void draft_top_k(const lowering *l, const cluster *c, kernel_draft *d);
void draft_attention(const lowering *l, const cluster *c, kernel_draft *d);
void draft_spots(const lowering *l, const cluster *c, kernel_draft *d);

#endif
