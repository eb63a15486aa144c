/* SPDX-License-Identifier: MIT */
/* A union of the attributes of all kinds of kernels, set by name. */
#ifndef SUPPORT_ATTRIBUTES_H
#define SUPPORT_ATTRIBUTES_H

#include "compute/backend.h"
#include "compute/backend/fit_kinds.h"

/* A kind's attributes are compute_<kind>_attributes, with these exceptions. */
typedef compute_index_attributes compute_gather_attributes, compute_scatter_attributes;
typedef struct no_attributes {
  char unused;
} compute_map_attributes, compute_copy_attributes;

typedef union any_attributes {
#define MEMBER(code, number, name) compute_##name##_attributes name;
  COMPUTE_KERNEL_KINDS(MEMBER)
#undef MEMBER
  compute_index_attributes index; /* for GATHER and SCATTER */
} any_attributes;

static inline void attributes_bind(compute_kernel_descriptor *d, const any_attributes *attributes) {
  d->attributes = attributes;
  d->attribute_bytes = sizeof *attributes;
}

#endif
