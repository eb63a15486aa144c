/* SPDX-License-Identifier: MIT */
/* GEMM, QUANTIZED_GEMM and CONV. */
#include "fuzz/attributes/attributes.h"

void read_gemm(reader *r, compute_gemm_attributes *a) {
  a->k = number(r);
  a->precision = (compute_precision)(byte(r) % 5);
}

void read_quantized_gemm(reader *r, compute_quantized_gemm_attributes *a) {
  a->k = number(r);
  a->block = number(r);
  a->bits = (int32_t)(byte(r) % 10);
  a->zeros = byte(r) & 1;
}

void read_conv(reader *r, compute_conv_attributes *c) {
  c->direction = (compute_convolution_direction)(byte(r) % 4);
  c->groups = (int32_t)number(r);
  c->batch = number(r);
  c->data_channels = number(r);
  c->result_channels = number(r);
  for (int i = 0; i < 2; i++) {
    c->data_size[i] = number(r);
    c->result_size[i] = number(r);
    c->filter_size[i] = number(r);
    c->stride[i] = number(r);
    c->dilation[i] = number(r);
    c->padding[i] = number(r);
  }
  c->precision = (compute_precision)(byte(r) % 5);
}
