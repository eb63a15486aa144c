/* SPDX-License-Identifier: MIT */
/* dnnl_describe.h for oneDNN 2: an operation is described first, then the primitive. */
#include <stdlib.h>
#include <string.h>

#include "dnnl_describe.h"

#if DNNL_VERSION_MAJOR != 2
#error "this is for oneDNN 2"
#endif

dnnl_layout layout_create(int rank, const int64_t *sizes, dnnl_data_type_t type,
                          dnnl_format_tag_t tag) {
  dnnl_memory_desc_t *d = calloc(1, sizeof *d);
  if (!d || !dnnl_memory_desc_init_by_tag(d, rank, sizes, type, tag)) return d;
  free(d);
  return NULL;
}

dnnl_layout layout_copy(dnnl_layout from) {
  dnnl_memory_desc_t *d = malloc(sizeof *d);
  if (d) *d = *from;
  return d;
}

void layout_destroy(dnnl_layout layout) {
  free((void *)(uintptr_t)layout);
}

const int64_t *layout_sizes(dnnl_layout layout, int *rank) {
  *rank = layout->ndims;
  return layout->dims;
}

dnnl_status_t append_activation(dnnl_post_ops_t after, dnnl_alg_kind_t kind) {
  return dnnl_post_ops_append_eltwise(after, 1, kind, 0, 0);
}

static dnnl_primitive_desc_t described(dnnl_engine_t engine, const_dnnl_primitive_attr_t attributes,
                                       const void *operation, const_dnnl_primitive_desc_t hint) {
  dnnl_primitive_desc_t d = NULL;
  return dnnl_primitive_desc_create(&d, operation, attributes, engine, hint) ? NULL : d;
}

dnnl_primitive_desc_t describe_matmul(dnnl_engine_t engine, const_dnnl_primitive_attr_t attributes,
                                      dnnl_layout a, dnnl_layout b, dnnl_layout bias,
                                      dnnl_layout y) {
  dnnl_matmul_desc_t o;
  if (dnnl_matmul_desc_init(&o, a, b, bias, y)) return NULL;
  return described(engine, attributes, &o, NULL);
}

dnnl_primitive_desc_t describe_unary(dnnl_engine_t engine, dnnl_alg_kind_t kind, float alpha,
                                     dnnl_layout x) {
  dnnl_eltwise_desc_t o;
  if (dnnl_eltwise_forward_desc_init(&o, dnnl_forward_inference, kind, x, alpha, 0)) return NULL;
  return described(engine, NULL, &o, NULL);
}

dnnl_primitive_desc_t describe_add(dnnl_engine_t engine, dnnl_layout x) {
  dnnl_binary_desc_t o;
  if (dnnl_binary_desc_init(&o, dnnl_binary_add, x, x, x)) return NULL;
  return described(engine, NULL, &o, NULL);
}

dnnl_primitive_desc_t describe_softmax(dnnl_engine_t engine, dnnl_alg_kind_t kind, dnnl_layout x) {
  dnnl_softmax_v2_desc_t o;
  if (dnnl_softmax_v2_forward_desc_init(&o, dnnl_forward_inference, kind, x, x, 1)) return NULL;
  return described(engine, NULL, &o, NULL);
}

dnnl_primitive_desc_t describe_layer_norm(dnnl_engine_t engine, dnnl_layout x) {
  dnnl_layer_normalization_desc_t o;
  if (dnnl_layer_normalization_forward_desc_init(&o, dnnl_forward_inference, x, NULL, 1e-5F,
                                                 dnnl_use_scale | dnnl_use_shift))
    return NULL;
  return described(engine, NULL, &o, NULL);
}

dnnl_primitive_desc_t describe_reduction(dnnl_engine_t engine, dnnl_alg_kind_t kind, dnnl_layout x,
                                         dnnl_layout y) {
  dnnl_reduction_desc_t o;
  if (dnnl_reduction_desc_init(&o, kind, x, y, 0, 0)) return NULL;
  return described(engine, NULL, &o, NULL);
}

dnnl_primitive_desc_t describe_conv(dnnl_engine_t engine, const_dnnl_primitive_attr_t attributes,
                                    dnnl_alg_kind_t kind, const dnnl_conv_layouts *l,
                                    const dnnl_windows *w) {
  dnnl_convolution_desc_t o;
  if (dnnl_dilated_convolution_forward_desc_init(&o, dnnl_forward_inference, kind, l->x, l->filter,
                                                 l->bias, l->y, w->stride, w->dilation, w->padding,
                                                 w->padding_end))
    return NULL;
  return described(engine, attributes, &o, NULL);
}

dnnl_primitive_desc_t describe_conv_by_data(dnnl_engine_t engine, dnnl_alg_kind_t kind,
                                            const dnnl_conv_layouts *l, const dnnl_windows *w,
                                            const_dnnl_primitive_desc_t forward) {
  dnnl_convolution_desc_t o;
  if (dnnl_dilated_convolution_backward_data_desc_init(&o, kind, l->x, l->filter, l->y, w->stride,
                                                       w->dilation, w->padding, w->padding_end))
    return NULL;
  return described(engine, NULL, &o, forward);
}

dnnl_primitive_desc_t describe_conv_by_filter(dnnl_engine_t engine, dnnl_alg_kind_t kind,
                                              const dnnl_conv_layouts *l, const dnnl_windows *w,
                                              const_dnnl_primitive_desc_t forward) {
  dnnl_convolution_desc_t o;
  if (dnnl_dilated_convolution_backward_weights_desc_init(&o, kind, l->x, l->filter, NULL, l->y,
                                                          w->stride, w->dilation, w->padding,
                                                          w->padding_end))
    return NULL;
  return described(engine, NULL, &o, forward);
}

dnnl_primitive_desc_t describe_deconv(dnnl_engine_t engine, const dnnl_conv_layouts *l,
                                      const dnnl_windows *w) {
  dnnl_deconvolution_desc_t o;
  if (dnnl_deconvolution_forward_desc_init(&o, dnnl_forward_inference, dnnl_deconvolution_direct,
                                           l->x, l->filter, NULL, l->y, w->stride, w->padding,
                                           w->padding_end))
    return NULL;
  return described(engine, NULL, &o, NULL);
}

dnnl_primitive_desc_t describe_pool(dnnl_engine_t engine, dnnl_prop_kind_t pass,
                                    dnnl_alg_kind_t kind, dnnl_layout x, dnnl_layout y,
                                    const dnnl_windows *w) {
  dnnl_pooling_v2_desc_t o;
  if (dnnl_pooling_v2_forward_desc_init(&o, pass, kind, x, y, w->stride, w->size, w->dilation,
                                        w->padding, w->padding_end))
    return NULL;
  return described(engine, NULL, &o, NULL);
}

dnnl_primitive_desc_t describe_pool_backward(dnnl_engine_t engine, dnnl_alg_kind_t kind,
                                             dnnl_layout dx, dnnl_layout dy, const dnnl_windows *w,
                                             const_dnnl_primitive_desc_t forward) {
  dnnl_pooling_v2_desc_t o;
  if (dnnl_pooling_v2_backward_desc_init(&o, kind, dx, dy, w->stride, w->size, w->dilation,
                                         w->padding, w->padding_end))
    return NULL;
  return described(engine, NULL, &o, forward);
}

dnnl_primitive_desc_t describe_batch_norm(dnnl_engine_t engine, dnnl_prop_kind_t pass,
                                          dnnl_layout x, unsigned flags) {
  dnnl_batch_normalization_desc_t o;
  if (dnnl_batch_normalization_forward_desc_init(&o, pass, x, 1e-5F, flags)) return NULL;
  return described(engine, NULL, &o, NULL);
}

dnnl_primitive_desc_t describe_batch_norm_backward(dnnl_engine_t engine, dnnl_layout x,
                                                   unsigned flags,
                                                   const_dnnl_primitive_desc_t forward) {
  dnnl_batch_normalization_desc_t o;
  if (dnnl_batch_normalization_backward_desc_init(&o, dnnl_backward, x, x, 1e-5F, flags))
    return NULL;
  return described(engine, NULL, &o, forward);
}
