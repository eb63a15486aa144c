/* SPDX-License-Identifier: MIT */
/* Models that differ from a valid one in their structure: a dtype, a size, a rank, a name, an
 * attribute, an operator, a version. Most are not valid ONNX, as if no checker had seen them. */
#ifndef ONNX_MUTATE_H
#define ONNX_MUTATE_H

#include "onnx/message.h"

/* Numbers that a seed begins. */
typedef struct draw {
  uint64_t state;
} draw;

uint64_t draw_next(draw *d);
uint32_t draw_below(draw *d, uint32_t count);

/* Mostly small; now and then at the edges of a range. */
int64_t draw_integer(draw *d);

/* `model` with attributes of one node drawn from what is extreme: the edges of integers, NaN and
 * infinities, empty and long lists and texts. */
message redraw_attributes(draw *d, wire model);

/* `model`, a ModelProto, with up to `count` changes. */
message mutate_model(wire model, draw *d, uint32_t count);

#endif
