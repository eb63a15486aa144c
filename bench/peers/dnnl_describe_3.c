/* SPDX-License-Identifier: MIT */
/* dnnl_describe.h for oneDNN 3: a primitive is described in one call, with handles for layouts. */
#include <stddef.h>
#include <stdint.h>

#include "dnnl_describe.h"

#if DNNL_VERSION_MAJOR != 3
#error "this is for oneDNN 3"
#endif

dnnl_layout layout_create(int rank, const int64_t *sizes, dnnl_data_type_t type,
                          dnnl_format_tag_t tag) {
  dnnl_memory_desc_t d = NULL;
  return dnnl_memory_desc_create_with_tag(&d, rank, sizes, type, tag) ? NULL : d;
}

dnnl_layout layout_copy(dnnl_layout from) {
  dnnl_memory_desc_t d = NULL;
  return dnnl_memory_desc_clone(&d, from) ? NULL : d;
}

void layout_destroy(dnnl_layout layout) {
  if (layout) dnnl_memory_desc_destroy((dnnl_memory_desc_t)(uintptr_t)layout);
}

const int64_t *layout_sizes(dnnl_layout layout, int *rank) {
  int32_t count = 0;
  const int64_t *sizes = NULL;
  dnnl_memory_desc_query(layout, dnnl_query_ndims_s32, &count);
  dnnl_memory_desc_query(layout, dnnl_query_dims, &sizes);
  *rank = count;
  return sizes;
}

dnnl_status_t append_activation(dnnl_post_ops_t after, dnnl_alg_kind_t kind) {
  return dnnl_post_ops_append_eltwise(after, kind, 0, 0);
}

dnnl_primitive_desc_t describe_matmul(dnnl_engine_t engine, const_dnnl_primitive_attr_t attributes,
                                      dnnl_layout a, dnnl_layout b, dnnl_layout bias,
                                      dnnl_layout y) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_matmul_primitive_desc_create(&d, engine, a, b, bias, y, attributes) ? NULL : d;
}

dnnl_primitive_desc_t describe_unary(dnnl_engine_t engine, dnnl_alg_kind_t kind, float alpha,
                                     dnnl_layout x) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_eltwise_forward_primitive_desc_create(&d, engine, dnnl_forward_inference, kind, x, x,
                                                    alpha, 0, NULL)
             ? NULL
             : d;
}

dnnl_primitive_desc_t describe_add(dnnl_engine_t engine, dnnl_layout x) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_binary_primitive_desc_create(&d, engine, dnnl_binary_add, x, x, x, NULL) ? NULL : d;
}

dnnl_primitive_desc_t describe_softmax(dnnl_engine_t engine, dnnl_alg_kind_t kind, dnnl_layout x) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_softmax_forward_primitive_desc_create(&d, engine, dnnl_forward_inference, kind, x, x,
                                                    1, NULL)
             ? NULL
             : d;
}

dnnl_primitive_desc_t describe_layer_norm(dnnl_engine_t engine, dnnl_layout x) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_layer_normalization_forward_primitive_desc_create(
             &d, engine, dnnl_forward_inference, x, x, NULL, 1e-5F, dnnl_use_scale | dnnl_use_shift,
             NULL)
             ? NULL
             : d;
}

dnnl_primitive_desc_t describe_reduction(dnnl_engine_t engine, dnnl_alg_kind_t kind, dnnl_layout x,
                                         dnnl_layout y) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_reduction_primitive_desc_create(&d, engine, kind, x, y, 0, 0, NULL) ? NULL : d;
}

dnnl_primitive_desc_t describe_conv(dnnl_engine_t engine, const_dnnl_primitive_attr_t attributes,
                                    dnnl_alg_kind_t kind, const dnnl_conv_layouts *l,
                                    const dnnl_windows *w) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_convolution_forward_primitive_desc_create(
             &d, engine, dnnl_forward_inference, kind, l->x, l->filter, l->bias, l->y, w->stride,
             w->dilation, w->padding, w->padding_end, attributes)
             ? NULL
             : d;
}

dnnl_primitive_desc_t describe_conv_by_data(dnnl_engine_t engine, dnnl_alg_kind_t kind,
                                            const dnnl_conv_layouts *l, const dnnl_windows *w,
                                            const_dnnl_primitive_desc_t forward) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_convolution_backward_data_primitive_desc_create(
             &d, engine, kind, l->x, l->filter, l->y, w->stride, w->dilation, w->padding,
             w->padding_end, forward, NULL)
             ? NULL
             : d;
}

dnnl_primitive_desc_t describe_conv_by_filter(dnnl_engine_t engine, dnnl_alg_kind_t kind,
                                              const dnnl_conv_layouts *l, const dnnl_windows *w,
                                              const_dnnl_primitive_desc_t forward) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_convolution_backward_weights_primitive_desc_create(
             &d, engine, kind, l->x, l->filter, NULL, l->y, w->stride, w->dilation, w->padding,
             w->padding_end, forward, NULL)
             ? NULL
             : d;
}

dnnl_primitive_desc_t describe_deconv(dnnl_engine_t engine, const dnnl_conv_layouts *l,
                                      const dnnl_windows *w) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_deconvolution_forward_primitive_desc_create(
             &d, engine, dnnl_forward_inference, dnnl_deconvolution_direct, l->x, l->filter, NULL,
             l->y, w->stride, w->dilation, w->padding, w->padding_end, NULL)
             ? NULL
             : d;
}

dnnl_primitive_desc_t describe_pool(dnnl_engine_t engine, dnnl_prop_kind_t pass,
                                    dnnl_alg_kind_t kind, dnnl_layout x, dnnl_layout y,
                                    const dnnl_windows *w) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_pooling_forward_primitive_desc_create(&d, engine, pass, kind, x, y, w->stride,
                                                    w->size, w->dilation, w->padding,
                                                    w->padding_end, NULL)
             ? NULL
             : d;
}

dnnl_primitive_desc_t describe_pool_backward(dnnl_engine_t engine, dnnl_alg_kind_t kind,
                                             dnnl_layout dx, dnnl_layout dy, const dnnl_windows *w,
                                             const_dnnl_primitive_desc_t forward) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_pooling_backward_primitive_desc_create(&d, engine, kind, dx, dy, w->stride, w->size,
                                                     w->dilation, w->padding, w->padding_end,
                                                     forward, NULL)
             ? NULL
             : d;
}

dnnl_primitive_desc_t describe_batch_norm(dnnl_engine_t engine, dnnl_prop_kind_t pass,
                                          dnnl_layout x, unsigned flags) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_batch_normalization_forward_primitive_desc_create(&d, engine, pass, x, x, 1e-5F,
                                                                flags, NULL)
             ? NULL
             : d;
}

dnnl_primitive_desc_t describe_batch_norm_backward(dnnl_engine_t engine, dnnl_layout x,
                                                   unsigned flags,
                                                   const_dnnl_primitive_desc_t forward) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_batch_normalization_backward_primitive_desc_create(&d, engine, dnnl_backward, x, x, x,
                                                                 1e-5F, flags, forward, NULL)
             ? NULL
             : d;
}
