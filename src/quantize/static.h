/* SPDX-License-Identifier: MIT */
/* The plan of a statically quantized model: which nodes and values have 8 bits. */
#ifndef QUANTIZE_STATIC_H
#define QUANTIZE_STATIC_H

#include "quantize/quantizer.h"

/* Up to KIND_MATMUL nodes have weights or are products; up to KIND_POOL a Relu or Clip may follow.
 */
typedef enum node_kind {
  KIND_CONV,
  KIND_CONV_TRANSPOSE,
  KIND_GEMM,
  KIND_MATMUL,
  KIND_PAIR,   /* of two quantized values */
  KIND_POOL,   /* with a scale for its result */
  KIND_SAME,   /* result and first input have one scale */
  KIND_CONCAT, /* result and all inputs have one scale */
  KIND_OTHER
} node_kind;

typedef struct static_value {
  int32_t user;  /* the last node that reads it, or −1 */
  bool observed; /* during calibration */
  bool possible; /* has a range, and an input or result of a node that may be chosen */
  bool wanted;   /* quantized */
  bool through;  /* all nodes of the main graph read it dequantized, not only chosen ones */
  int32_t group; /* towards the value that stands for all with this scale */
  observer seen;
  number_range range;
  const char *made; /* the name of the dequantized value */
  float scale;
} static_value;

typedef struct static_node {
  node_kind kind;
  bool chosen, removed;
  int32_t activation; /* the Relu or Clip that follows, or −1 */
  double least, most; /* its limits */
  int32_t result;     /* of it, or of the node */
} static_node;

typedef struct static_plan {
  quantizer *q;
  static_value *values; /* per value of the main graph */
  static_node *nodes;   /* per node */
} static_plan;

node_kind static_kind(const onnx_node *node);

/* The number of inputs, from the first on, which are activations, or weights of a product. */
size_t static_data_inputs(const onnx_node *node, node_kind kind);

enum { STATIC_STEPS = 255 };

/* The scale of values in a range, and the integer from 0 to STATIC_STEPS that stands for 0. */
float static_scale(number_range range, int32_t *offset);

/* Adds the new nodes and tensors to the edit. */
compute_status static_write(static_plan *p);

#endif
