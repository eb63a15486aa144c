/* Which bytes tensors span, and whether any of many overlap. */
#ifndef PLAN_SPANS_H
#define PLAN_SPANS_H

#include "tensor/tensor.h"

/* From the first element of a tensor to the end of the last. Addresses are the host's where memory
 * has one, since two wraps of one array are two buffers; else offsets into a buffer. */
typedef struct memory_span {
  const void *space; /* NULL: the host's memory */
  uint64_t begin, end;
  uint64_t reach; /* in a sorted list: the largest end up to here, of one space */
} memory_span;

typedef struct span_list {
  memory_span *at; /* room for as many as will be added */
  uint32_t count;
} span_list;

/* Nothing for a tensor without elements, which overlaps no other one. */
void spans_add(span_list *list, const compute_tensor *tensor);

/* To be called after the last spans_add. */
void spans_sort(span_list *list);

/* Whether a tensor overlaps any of a sorted list. */
bool spans_meet(const span_list *list, const compute_tensor *tensor);

/* Whether any two of a sorted list overlap. */
bool spans_collide(const span_list *list);

#endif
