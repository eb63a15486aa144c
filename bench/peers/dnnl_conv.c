/* SPDX-License-Identifier: MIT */
/* oneDNN's convolutions (dnnl_steps.h). A batch norm that follows one is folded into filter and
 * bias beforehand, and relu is part of the primitive. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dnnl_network.h"
#include "dnnl_steps.h"

/* ---- Convolution --------------------------------------------------------------------------- */

typedef struct geometry {
  dnnl_conv_layouts plain;
  dnnl_windows windows;
} geometry;

static geometry geometry_of(network *n) {
  const int64_t *s = n->problem->size;
  const int64_t k = s[BENCH_KERNEL], d = s[BENCH_DILATION] ? s[BENCH_DILATION] : 1;
  const int64_t groups = s[BENCH_GROUPS] ? s[BENCH_GROUPS] : 1;
  const int64_t t = s[BENCH_STRIDE], pad = s[BENCH_PADDING];
  geometry g = {.windows = {.stride = {t, t},
                            .padding = {pad, pad},
                            .padding_end = {pad, pad},
                            .dilation = {d - 1, d - 1}}};
  dnnl_conv_layouts *l = &g.plain;
  const int64_t p = (s[BENCH_H] + 2 * pad - d * (k - 1) - 1) / t + 1;
  const int64_t q = (s[BENCH_W] + 2 * pad - d * (k - 1) - 1) / t + 1;
  const int64_t c = s[BENCH_C], o = s[BENCH_O];
  l->x = net_layout(n, 4, (int64_t[]){s[BENCH_N], c, s[BENCH_H], s[BENCH_W]}, dnnl_nchw);
  l->y = net_layout(n, 4, (int64_t[]){s[BENCH_N], o, p, q}, dnnl_nchw);
  l->bias = net_layout(n, 1, &o, dnnl_a);
  if (groups > 1)
    l->filter = net_layout(n, 5, (int64_t[]){groups, o / groups, c / groups, k, k}, dnnl_goihw);
  else
    l->filter = net_layout(n, 4, (int64_t[]){o, c, k, k}, dnnl_oihw);
  return g;
}

static dnnl_alg_kind_t algorithm(const network *n) {
  return n->way == WINOGRAD ? dnnl_convolution_winograd : dnnl_convolution_direct;
}

/* Data in their plain layout or any, the filter always in any. */
static dnnl_conv_layouts preferred(network *n, const dnnl_conv_layouts *plain) {
  return (dnnl_conv_layouts){.x = net_data_layout(n, plain->x),
                             .y = net_data_layout(n, plain->y),
                             .filter = net_any(n, plain->filter)};
}

static dnnl_primitive_desc_t describe_forward(network *n, const geometry *g, bool relu) {
  dnnl_conv_layouts l = preferred(n, &g->plain);
  dnnl_post_ops_t after = NULL;
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_primitive_desc_t d = NULL;
  if (relu) l.bias = g->plain.bias;
  net_need(n, dnnl_primitive_attr_create(&attributes));
  net_need(n, dnnl_post_ops_create(&after));
  if (relu) net_need(n, append_activation(after, dnnl_eltwise_relu));
  net_need(n, dnnl_primitive_attr_set_post_ops(attributes, after));
  if (!n->failed)
    d = net_described(n, describe_conv(n->engine, attributes, algorithm(n), &l, &g->windows));
  dnnl_post_ops_destroy(after);
  dnnl_primitive_attr_destroy(attributes);
  return d;
}

/* conv, bias, batch norm → filter·factor, (bias − mean)·factor + shift, in arrays of our own. */
static void fold(network *n, const geometry *g, int *filter, int *bias) {
  const int64_t o = n->problem->size[BENCH_O], k = n->problem->size[BENCH_KERNEL];
  const int64_t groups = n->problem->size[BENCH_GROUPS] ? n->problem->size[BENCH_GROUPS] : 1;
  const int64_t each = n->problem->size[BENCH_C] / groups * k * k;
  *filter = net_own_slot(n, g->plain.filter);
  *bias = net_own_slot(n, g->plain.bias);
  for (uint32_t s = 0; s < n->problem->set_count && !n->failed; s++) {
    const float *const *in = (const float *const *)n->problem->sets[s].input;
    float *to = n->folded[s] = malloc((size_t)(o * each + o) * sizeof(float));
    if (!to) {
      n->failed = true;
      return;
    }
    for (int64_t i = 0; i < o; i++) {
      const float factor = in[5][i] / sqrtf(in[4][i] + 1e-5F);
      for (int64_t j = 0; j < each; j++) to[i * each + j] = in[1][i * each + j] * factor;
      to[o * each + i] = (in[2][i] - in[3][i]) * factor + in[6][i];
    }
    net_need(n, dnnl_memory_set_data_handle(n->slots[*filter].memory[s], to));
    net_need(n, dnnl_memory_set_data_handle(n->slots[*bias].memory[s], to + o * each));
  }
}

static void convolution(network *n) {
  const bool relu = !strcmp(n->problem->operation, "conv_bn_relu");
  const geometry g = geometry_of(n);
  dnnl_primitive_desc_t d = describe_forward(n, &g, relu);
  int filter = 0, bias = 0;
  const int x = net_input_slot(n, 0, g.plain.x), y = net_output_slot(n, g.plain.y);
  if (relu)
    fold(n, &g, &filter, &bias);
  else
    filter = net_input_slot(n, 1, g.plain.filter);
  filter = net_bring(n, d, DNNL_ARG_WEIGHTS, filter, BEFORE);
  const int data = net_bring(n, d, DNNL_ARG_SRC, x, net_of_data(n));
  const int result = net_result_slot(n, d, DNNL_ARG_DST, y);
  net_step *s = net_add_step(n, DURING, d);
  net_argument(s, DNNL_ARG_SRC, data);
  net_argument(s, DNNL_ARG_WEIGHTS, filter);
  if (relu) net_argument(s, DNNL_ARG_BIAS, bias);
  net_argument(s, DNNL_ARG_DST, result);
  net_finish(n, result, y);
  if (d) dnnl_primitive_desc_destroy(d);
}

static void convolution_by_data(network *n) {
  const geometry g = geometry_of(n);
  const dnnl_conv_layouts l = preferred(n, &g.plain);
  dnnl_primitive_desc_t hint = describe_forward(n, &g, false), d = NULL;
  if (!n->failed)
    d = net_described(n, describe_conv_by_data(n->engine, algorithm(n), &l, &g.windows, hint));
  const int filter =
      net_bring(n, d, DNNL_ARG_WEIGHTS, net_input_slot(n, 0, g.plain.filter), BEFORE);
  const int from =
      net_bring(n, d, DNNL_ARG_DIFF_DST, net_input_slot(n, 1, g.plain.y), net_of_data(n));
  const int plain = net_output_slot(n, g.plain.x),
            result = net_result_slot(n, d, DNNL_ARG_DIFF_SRC, plain);
  net_step *s = net_add_step(n, DURING, d);
  net_argument(s, DNNL_ARG_WEIGHTS, filter);
  net_argument(s, DNNL_ARG_DIFF_DST, from);
  net_argument(s, DNNL_ARG_DIFF_SRC, result);
  net_finish(n, result, plain);
  if (hint) dnnl_primitive_desc_destroy(hint);
  if (d) dnnl_primitive_desc_destroy(d);
}

static void convolution_by_filter(network *n) {
  const geometry g = geometry_of(n);
  const dnnl_conv_layouts l = preferred(n, &g.plain);
  dnnl_primitive_desc_t hint = describe_forward(n, &g, false), d = NULL;
  if (!n->failed)
    d = net_described(n, describe_conv_by_filter(n->engine, algorithm(n), &l, &g.windows, hint));
  const int data = net_bring(n, d, DNNL_ARG_SRC, net_input_slot(n, 0, g.plain.x), net_of_data(n));
  const int from =
      net_bring(n, d, DNNL_ARG_DIFF_DST, net_input_slot(n, 1, g.plain.y), net_of_data(n));
  const int plain = net_output_slot(n, g.plain.filter);
  const int result = net_result_slot(n, d, DNNL_ARG_DIFF_WEIGHTS, plain);
  net_step *s = net_add_step(n, DURING, d);
  net_argument(s, DNNL_ARG_SRC, data);
  net_argument(s, DNNL_ARG_DIFF_DST, from);
  net_argument(s, DNNL_ARG_DIFF_WEIGHTS, result);
  net_finish(n, result, plain);
  if (hint) dnnl_primitive_desc_destroy(hint);
  if (d) dnnl_primitive_desc_destroy(d);
}

/* Our filter is [channels of x, channels of the result, rows, columns]. */
static void deconvolution(network *n) {
  const int64_t *s = n->problem->size;
  const int64_t k = s[BENCH_KERNEL], t = s[BENCH_STRIDE], pad = s[BENCH_PADDING];
  const int64_t p = (s[BENCH_H] - 1) * t - 2 * pad + k, q = (s[BENCH_W] - 1) * t - 2 * pad + k;
  const dnnl_conv_layouts plain = {
      .x = net_layout(n, 4, (int64_t[]){s[BENCH_N], s[BENCH_C], s[BENCH_H], s[BENCH_W]}, dnnl_nchw),
      .y = net_layout(n, 4, (int64_t[]){s[BENCH_N], s[BENCH_O], p, q}, dnnl_nchw),
      .filter = net_layout(n, 4, (int64_t[]){s[BENCH_O], s[BENCH_C], k, k}, dnnl_iohw)};
  const dnnl_windows windows = {.stride = {t, t}, .padding = {pad, pad}, .padding_end = {pad, pad}};
  const dnnl_conv_layouts l = preferred(n, &plain);
  dnnl_primitive_desc_t d = NULL;
  if (s[BENCH_GROUPS] > 1) n->failed = true;
  if (!n->failed) d = net_described(n, describe_deconv(n->engine, &l, &windows));
  const int w = net_bring(n, d, DNNL_ARG_WEIGHTS, net_input_slot(n, 1, plain.filter), BEFORE);
  const int from = net_bring(n, d, DNNL_ARG_SRC, net_input_slot(n, 0, plain.x), net_of_data(n));
  const int y = net_output_slot(n, plain.y), to = net_result_slot(n, d, DNNL_ARG_DST, y);
  net_step *step = net_add_step(n, DURING, d);
  net_argument(step, DNNL_ARG_SRC, from);
  net_argument(step, DNNL_ARG_WEIGHTS, w);
  net_argument(step, DNNL_ARG_DST, to);
  net_finish(n, to, y);
  if (d) dnnl_primitive_desc_destroy(d);
}

/* ---- The table ----------------------------------------------------------------------------- */

NET_WAYS(convolution)
NET_WAYS(convolution_by_data)
NET_WAYS(convolution_by_filter)
NET_WAYS(deconvolution)

static void *convolution_winograd(const bench_peer_problem *p) {
  return net_setup(p, WINOGRAD, convolution);
}

const bench_peer_operation dnnl_conv_operations[] = {
    NET_ROWS("conv", convolution),
    NET_ROW("conv", "winograd", convolution_winograd),
    NET_ROWS("conv_bn_relu", convolution),
    NET_ROW("conv_bn_relu", "winograd", convolution_winograd),
    NET_ROWS("conv_by_data", convolution_by_data),
    NET_ROWS("conv_by_filter", convolution_by_filter),
    NET_ROWS("conv_transpose", deconvolution),
    {0}};
