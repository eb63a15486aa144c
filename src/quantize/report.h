/* SPDX-License-Identifier: MIT */
/* A report: the errors of a quantized model's layers. */
#ifndef QUANTIZE_REPORT_H
#define QUANTIZE_REPORT_H

#include "compute/quantize.h"
#include "model/file/arena.h"

struct compute_quantize_report {
  model_arena memory;
  compute_quantize_layer *layers;
  size_t count, outputs;             /* `outputs` of the layers are outputs of the model */
  uint64_t source_bytes, made_bytes; /* of the files */
};

#endif
