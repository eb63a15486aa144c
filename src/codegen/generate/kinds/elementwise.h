/* SPDX-License-Identifier: MIT */
/* Loops over a space with one statement inside (map.c), the same for MAP and COPY. */
#ifndef GENERATE_ELEMENTWISE_H
#define GENERATE_ELEMENTWISE_H

#include "codegen/generate/emit/emit.h"

typedef struct elementwise {
  generation *g;
  emit_space space;      /* a walk for every operand; dimensions in any order */
  const char *what;      /* "map", for the line of explanation */
  emit_function program; /* applied to an element; unused where `plain` */
  bool plain;            /* out0 = in0, element by element, without conversion */
} elementwise;

/* Orders the space's dimensions as in the first output's memory, and makes the space canonical. */
void elementwise_order(elementwise *e);

/* Writes the launch; after elementwise_order. */
compute_status elementwise_emit(elementwise *e);

/* Exchanges two dimensions of a space. */
void elementwise_swap(emit_space *space, int32_t a, int32_t b);

#endif
