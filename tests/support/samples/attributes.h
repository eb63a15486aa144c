/* SPDX-License-Identifier: MIT */
/* Room for the attributes of any kind of kernel, to be set by name. */
#ifndef SUPPORT_ATTRIBUTES_H
#define SUPPORT_ATTRIBUTES_H

#include "compute/backend.h"

typedef union any_attributes {
  compute_reduce_attributes reduce;
  compute_row_attributes row;
  compute_gemm_attributes gemm;
  compute_index_attributes index;
  compute_conv_attributes conv;
  compute_fit_attributes fit;
  compute_window_attributes window;
  compute_scan_attributes scan;
  compute_top_k_attributes top_k;
  compute_attention_attributes attention;
  compute_sort_attributes sort;
  compute_recurrent_attributes recurrent;
  compute_quantized_gemm_attributes quantized_gemm;
  compute_spots_attributes spots;
  compute_call_attributes call;
} any_attributes;

static inline void attributes_bind(compute_kernel_descriptor *d, const any_attributes *attributes) {
  d->attributes = attributes;
  d->attribute_bytes = sizeof *attributes;
}

#endif
