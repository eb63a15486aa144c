/* SPDX-License-Identifier: MIT */
/* Models that differ from a valid one in their structure: a dtype, a size, a rank, a name, an
 * attribute, an operator, a version. Most are invalid ONNX, as in files that no checker has
 * seen. */
#ifndef ONNX_MUTATE_H
#define ONNX_MUTATE_H

#include "onnx/message.h"

/* A sequence of random numbers from a seed. */
typedef struct draw {
  uint64_t state;
} draw;

uint64_t draw_next(draw *d);
uint32_t draw_below(draw *d, uint32_t count);

/* Mostly small; sometimes at the ends of the range. */
int64_t draw_integer(draw *d);

/* `model` with extreme attributes in one node: the ends of the integer range, NaN and infinities,
 * empty and long lists and texts. */
message redraw_attributes(draw *d, wire model);

/* `model`, a ModelProto, with up to `count` changes. */
message mutate_model(wire model, draw *d, uint32_t count);

#endif
