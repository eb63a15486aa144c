/* SPDX-License-Identifier: MIT */
/* The differences between the interfaces of oneDNN 2 and 3: layouts of arrays, and descriptions of
 * primitives. dnnl_describe_2.c and dnnl_describe_3.c implement it; CMake takes the one that the
 * installed headers accept. Everything else is the same in both.
 *
 * A function that returns a pointer returns NULL if the library refuses. The caller frees the
 * result. */
#ifndef BENCH_PEERS_DNNL_DESCRIBE_H
#define BENCH_PEERS_DNNL_DESCRIBE_H

#include <oneapi/dnnl/dnnl.h>

/* A memory descriptor. Interface 2 passes pointers to a struct of the caller, interface 3
 * handles. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t dnnl_layout;
#else
typedef const dnnl_memory_desc_t *dnnl_layout;
#endif

dnnl_layout layout_create(int rank, const int64_t *sizes, dnnl_data_type_t type,
                          dnnl_format_tag_t tag);
dnnl_layout layout_copy(dnnl_layout from);
void layout_destroy(dnnl_layout layout);
/* The sizes, which live as long as the layout; *rank of them. */
const int64_t *layout_sizes(dnnl_layout layout, int *rank);

/* Applied to the result of a primitive. */
dnnl_status_t append_activation(dnnl_post_ops_t after, dnnl_alg_kind_t kind);

/* y = a · b + bias. The bias may be NULL. */
dnnl_primitive_desc_t describe_matmul(dnnl_engine_t engine, const_dnnl_primitive_attr_t attributes,
                                      dnnl_layout a, dnnl_layout b, dnnl_layout bias,
                                      dnnl_layout y);
dnnl_primitive_desc_t describe_unary(dnnl_engine_t engine, dnnl_alg_kind_t kind, float alpha,
                                     dnnl_layout x);
dnnl_primitive_desc_t describe_add(dnnl_engine_t engine, dnnl_layout x);
/* Along the second of two axes. */
dnnl_primitive_desc_t describe_softmax(dnnl_engine_t engine, dnnl_alg_kind_t kind, dnnl_layout x);
dnnl_primitive_desc_t describe_layer_norm(dnnl_engine_t engine, dnnl_layout x);
dnnl_primitive_desc_t describe_reduction(dnnl_engine_t engine, dnnl_alg_kind_t kind, dnnl_layout x,
                                         dnnl_layout y);

/* Windows over the two axes of an image. A dilation of 0 leaves no gaps. */
typedef struct dnnl_windows {
  dnnl_dims_t size, stride, dilation, padding, padding_end;
} dnnl_windows;

/* `bias` is NULL for none. A backward pass takes the layouts of the gradients. */
typedef struct dnnl_conv_layouts {
  dnnl_layout x, filter, bias, y;
} dnnl_conv_layouts;

dnnl_primitive_desc_t describe_conv(dnnl_engine_t engine, const_dnnl_primitive_attr_t attributes,
                                    dnnl_alg_kind_t kind, const dnnl_conv_layouts *l,
                                    const dnnl_windows *w);
dnnl_primitive_desc_t describe_conv_by_data(dnnl_engine_t engine, dnnl_alg_kind_t kind,
                                            const dnnl_conv_layouts *l, const dnnl_windows *w,
                                            const_dnnl_primitive_desc_t forward);
dnnl_primitive_desc_t describe_conv_by_filter(dnnl_engine_t engine, dnnl_alg_kind_t kind,
                                              const dnnl_conv_layouts *l, const dnnl_windows *w,
                                              const_dnnl_primitive_desc_t forward);
dnnl_primitive_desc_t describe_deconv(dnnl_engine_t engine, const dnnl_conv_layouts *l,
                                      const dnnl_windows *w);

dnnl_primitive_desc_t describe_pool(dnnl_engine_t engine, dnnl_prop_kind_t pass,
                                    dnnl_alg_kind_t kind, dnnl_layout x, dnnl_layout y,
                                    const dnnl_windows *w);
dnnl_primitive_desc_t describe_pool_backward(dnnl_engine_t engine, dnnl_alg_kind_t kind,
                                             dnnl_layout dx, dnnl_layout dy, const dnnl_windows *w,
                                             const_dnnl_primitive_desc_t forward);

dnnl_primitive_desc_t describe_batch_norm(dnnl_engine_t engine, dnnl_prop_kind_t pass,
                                          dnnl_layout x, unsigned flags);
dnnl_primitive_desc_t describe_batch_norm_backward(dnnl_engine_t engine, dnnl_layout x,
                                                   unsigned flags,
                                                   const_dnnl_primitive_desc_t forward);

#endif
