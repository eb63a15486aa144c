/* SPDX-License-Identifier: MIT */
/* Attention: softmax(scale · q kᵀ + bias) v, as all operators of that kind record it. */
#ifndef MODEL_OPERATORS_ATTENTION_H
#define MODEL_OPERATORS_ATTENTION_H

#include "model/record.h"

/* What qk_matmul_output shows. */
typedef enum attention_stage {
  ATTENTION_PRODUCTS = 0, /* scale · q kᵀ */
  ATTENTION_CAPPED = 1,
  ATTENTION_BIASED = 2,
  ATTENTION_WEIGHTS = 3, /* after softmax */
  ATTENTION_NOTHING
} attention_stage;

typedef struct attention {
  /* [batch, heads, length, width]. Each head of k and v is for as many of q's as there are more. */
  compute_node q, k, v;
  double scale;            /* 0: 1 / sqrt(width) */
  double softcap;          /* 0: none */
  compute_dtype precision; /* of the softmax; NONE: the usual one */
  attention_stage stage;
  /* Of what broadcasts to [batch, heads, queries, keys]; {0} for none. */
  compute_node visible; /* bool: the keys that count */
  compute_node bias;
  compute_node sink; /* [heads]: the score of one more key, whose value is 0; or a scalar */
  bool causal;       /* as compute_attention_options says */
} attention;

/* Only keys where `condition` is true count. */
void attention_hide(model_call *call, attention *a, compute_node condition);
void attention_add(model_call *call, attention *a, compute_node bias);

/* Query i, at position p = i + offset, sees keys p − left … p + right; −1: all on that side.
 * `offsets` [batch], if it is valid, is added to offset. */
void attention_window(model_call *call, attention *a, int64_t offset, compute_node offsets,
                      int64_t left, int64_t right);

/* Keys before lengths[batch] count. */
void attention_lengths(model_call *call, attention *a, compute_node lengths);

/* [batch, heads, queries, width of v]; *scores gets what `stage` says. */
compute_status attention_run(model_call *call, const attention *a, compute_node *y,
                             compute_node *scores);

/* [batch, length, heads · width] to [batch, heads, length, width], and back. */
compute_status attention_split(model_call *call, compute_node x, int64_t heads,
                               compute_node *result);
compute_node attention_join(model_call *call, compute_node x);

/* `more` behind `past` along the axis of keys; `past` may be {0}. */
compute_node attention_append(model_call *call, compute_node past, compute_node more);

/* Pairs of the first `width` elements of x [batch, heads, length, …] turned by angles whose cosines
 * and sines are [batch or 1, length, width / 2]. */
compute_status attention_rotate(model_call *call, compute_node cosines, compute_node sines,
                                int64_t width, bool interleaved, compute_node *x);

#endif
