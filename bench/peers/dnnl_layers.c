/* SPDX-License-Identifier: MIT */
/* oneDNN's pooling and batch norm (dnnl_steps.h). The results of the forward pass that a backward
 * pass needs (positions of the maxima, statistics) are computed beforehand. */
#include <stdlib.h>
#include <string.h>

#include "dnnl_network.h"
#include "dnnl_steps.h"

/* ---- Pooling ------------------------------------------------------------------------------- */

typedef struct windows {
  dnnl_layout x, y;
  dnnl_windows at;
  dnnl_alg_kind_t kind;
} windows;

static windows windows_of(network *n) {
  const int64_t *s = n->problem->size;
  const int64_t k = s[BENCH_KERNEL], t = s[BENCH_STRIDE], pad = s[BENCH_PADDING];
  const int64_t p = (s[BENCH_H] + 2 * pad - k) / t + 1, q = (s[BENCH_W] + 2 * pad - k) / t + 1;
  windows w = {.at = {.size = {k, k},
                      .stride = {t, t},
                      .padding = {pad, pad},
                      .padding_end = {(p - 1) * t + k - s[BENCH_H] - pad,
                                      (q - 1) * t + k - s[BENCH_W] - pad}},
               .kind = strstr(n->problem->operation, "max") ? dnnl_pooling_max
                                                            : dnnl_pooling_avg_include_padding};
  w.x = net_layout(n, 4, (int64_t[]){s[BENCH_N], s[BENCH_C], s[BENCH_H], s[BENCH_W]}, dnnl_nchw);
  w.y = net_layout(n, 4, (int64_t[]){s[BENCH_N], s[BENCH_C], p, q}, dnnl_nchw);
  return w;
}

/* Blocks of 16 channels, the library's preferred layout; pooling does not choose a layout. */
static dnnl_layout blocked(network *n, dnnl_layout plain) {
  int rank = 0;
  const int64_t *sizes = plain && n->way != PLAIN ? layout_sizes(plain, &rank) : NULL;
  return sizes ? net_layout(n, rank, sizes, dnnl_nChw16c) : plain;
}

static dnnl_primitive_desc_t describe_windows(network *n, const windows *w, dnnl_prop_kind_t pass) {
  dnnl_layout x = blocked(n, w->x), y = blocked(n, w->y);
  if (n->failed) return NULL;
  return net_described(n, describe_pool(n->engine, pass, w->kind, x, y, &w->at));
}

static void pooling(network *n) {
  const windows w = windows_of(n);
  dnnl_primitive_desc_t d = describe_windows(n, &w, dnnl_forward_inference);
  const int x = net_bring(n, d, DNNL_ARG_SRC, net_input_slot(n, 0, w.x), net_of_data(n));
  const int plain = net_output_slot(n, w.y), y = net_result_slot(n, d, DNNL_ARG_DST, plain);
  net_step *s = net_add_step(n, DURING, d);
  net_argument(s, DNNL_ARG_SRC, x);
  net_argument(s, DNNL_ARG_DST, y);
  net_finish(n, y, plain);
  if (d) dnnl_primitive_desc_destroy(d);
}

/* Runs the forward pass beforehand and returns the position of each maximum. */
static int places_of_maxima(network *n, const windows *w, const_dnnl_primitive_desc_t forward) {
  const int x = net_bring(n, forward, DNNL_ARG_SRC, net_input_slot(n, 0, w->x), BEFORE);
  dnnl_layout result = blocked(n, w->y);
  dnnl_layout space =
      n->failed ? NULL : dnnl_primitive_desc_query_md(forward, dnnl_query_workspace_md, 0);
  n->failed |= space == NULL;
  const int y = net_own_slot(n, result), places = n->failed ? 0 : net_own_slot(n, space);
  net_step *s = net_add_step(n, BEFORE, forward);
  net_argument(s, DNNL_ARG_SRC, x);
  net_argument(s, DNNL_ARG_DST, y);
  net_argument(s, DNNL_ARG_WORKSPACE, places);
  return places;
}

static void pooling_backward(network *n) {
  const windows w = windows_of(n);
  const bool max = w.kind == dnnl_pooling_max;
  dnnl_layout dx = blocked(n, w.x), dy = blocked(n, w.y);
  dnnl_primitive_desc_t hint = describe_windows(n, &w, dnnl_forward_training), d = NULL;
  if (!n->failed)
    d = net_described(n, describe_pool_backward(n->engine, w.kind, dx, dy, &w.at, hint));
  const int places = max ? places_of_maxima(n, &w, hint) : 0;
  const int from = net_bring(n, d, DNNL_ARG_DIFF_DST, net_input_slot(n, max, w.y), net_of_data(n));
  const int plain = net_output_slot(n, w.x), to = net_result_slot(n, d, DNNL_ARG_DIFF_SRC, plain);
  net_step *s = net_add_step(n, DURING, d);
  net_argument(s, DNNL_ARG_DIFF_DST, from);
  net_argument(s, DNNL_ARG_DIFF_SRC, to);
  if (max) net_argument(s, DNNL_ARG_WORKSPACE, places);
  net_finish(n, to, plain);
  if (hint) dnnl_primitive_desc_destroy(hint);
  if (d) dnnl_primitive_desc_destroy(d);
}

/* ---- Batch norm ---------------------------------------------------------------------------- */

static dnnl_layout image(network *n) {
  return net_layout(n, 4, n->problem->size, dnnl_nchw);
}

static dnnl_layout channels(network *n) {
  return net_layout(n, 1, &n->problem->size[BENCH_C], dnnl_a);
}

static const unsigned affine = dnnl_use_scale | dnnl_use_shift;

static void batch_norm(network *n) {
  dnnl_layout x = image(n), c = channels(n), data = blocked(n, x);
  dnnl_primitive_desc_t d = NULL;
  if (!n->failed)
    d = net_described(n, describe_batch_norm(n->engine, dnnl_forward_inference, data,
                                             affine | dnnl_use_global_stats));
  static const int number[] = {DNNL_ARG_MEAN, DNNL_ARG_VARIANCE, DNNL_ARG_SCALE, DNNL_ARG_SHIFT};
  const int from = net_bring(n, d, DNNL_ARG_SRC, net_input_slot(n, 0, x), net_of_data(n));
  int of[4];
  for (int i = 0; i < 4; i++) of[i] = net_input_slot(n, i + 1, c);
  const int plain = net_output_slot(n, x), y = net_result_slot(n, d, DNNL_ARG_DST, plain);
  net_step *s = net_add_step(n, DURING, d);
  net_argument(s, DNNL_ARG_SRC, from);
  for (int i = 0; i < 4; i++) net_argument(s, number[i], of[i]);
  net_argument(s, DNNL_ARG_DST, y);
  net_finish(n, y, plain);
  if (d) dnnl_primitive_desc_destroy(d);
}

/* Both the forward and the backward pass are timed. */
static void batch_norm_train(network *n) {
  dnnl_layout x = image(n), c = channels(n), data = blocked(n, x);
  dnnl_primitive_desc_t f = NULL, d = NULL;
  if (!n->failed)
    f = net_described(n, describe_batch_norm(n->engine, dnnl_forward_training, data, affine));
  if (!n->failed) d = net_described(n, describe_batch_norm_backward(n->engine, data, affine, f));
  const int from = net_bring(n, f, DNNL_ARG_SRC, net_input_slot(n, 0, x), net_of_data(n));
  const int dy = net_bring(n, d, DNNL_ARG_DIFF_DST, net_input_slot(n, 3, x), net_of_data(n));
  const int gain = net_input_slot(n, 1, c), bias = net_input_slot(n, 2, c);
  const int mean = net_own_slot(n, c), variance = net_own_slot(n, c);
  const int dgain = net_own_slot(n, c), dbias = net_own_slot(n, c), y = net_own_slot(n, data);
  const int plain = net_output_slot(n, x), dx = net_result_slot(n, d, DNNL_ARG_DIFF_SRC, plain);
  net_step *s = net_add_step(n, DURING, f);
  net_argument(s, DNNL_ARG_SRC, from);
  net_argument(s, DNNL_ARG_SCALE, gain);
  net_argument(s, DNNL_ARG_SHIFT, bias);
  net_argument(s, DNNL_ARG_MEAN, mean);
  net_argument(s, DNNL_ARG_VARIANCE, variance);
  net_argument(s, DNNL_ARG_DST, y);
  s = net_add_step(n, DURING, d);
  net_argument(s, DNNL_ARG_SRC, from);
  net_argument(s, DNNL_ARG_DIFF_DST, dy);
  net_argument(s, DNNL_ARG_SCALE, gain);
  net_argument(s, DNNL_ARG_SHIFT, bias); /* not read, but required */
  net_argument(s, DNNL_ARG_MEAN, mean);
  net_argument(s, DNNL_ARG_VARIANCE, variance);
  net_argument(s, DNNL_ARG_DIFF_SRC, dx);
  net_argument(s, DNNL_ARG_DIFF_SCALE, dgain);
  net_argument(s, DNNL_ARG_DIFF_SHIFT, dbias);
  net_finish(n, dx, plain);
  if (f) dnnl_primitive_desc_destroy(f);
  if (d) dnnl_primitive_desc_destroy(d);
}

/* ---- The table ----------------------------------------------------------------------------- */

NET_WAYS(pooling)
NET_WAYS(pooling_backward)
NET_WAYS(batch_norm)
NET_WAYS(batch_norm_train)

const bench_peer_operation dnnl_layer_operations[] = {
    NET_ROWS("max_pool", pooling),
    NET_ROWS("average_pool", pooling),
    NET_ROWS("max_pool_backward", pooling_backward),
    NET_ROWS("average_pool_backward", pooling_backward),
    NET_ROWS("batch_norm", batch_norm),
    NET_ROWS("batch_norm_train", batch_norm_train),
    {0}};
