/* SPDX-License-Identifier: MIT */
/* Attention, softmax(scale · q kᵀ + bias) v, shared by all attention operators. */
#ifndef MODEL_OPERATORS_ATTENTION_H
#define MODEL_OPERATORS_ATTENTION_H

#include "model/record.h"

/* The value that qk_matmul_output returns. */
typedef enum attention_stage {
  ATTENTION_PRODUCTS = 0, /* scale · q kᵀ */
  ATTENTION_CAPPED = 1,
  ATTENTION_BIASED = 2,
  ATTENTION_WEIGHTS = 3, /* after softmax */
  ATTENTION_NOTHING
} attention_stage;

typedef struct attention {
  /* [batch, heads, length, width]. q may have more heads: each head of k and v serves a group of
   * them. */
  compute_node q, k, v;
  double scale;            /* 0: 1 / sqrt(width) */
  double softcap;          /* 0: none */
  compute_dtype precision; /* of the softmax; NONE: the default */
  attention_stage stage;
  /* Broadcast to [batch, heads, queries, keys]; {0} for none. */
  compute_node visible; /* bool: keys that a query may attend to */
  compute_node bias;
  compute_node sink; /* [heads] or a scalar: the score of one extra key with value 0 */
  bool causal;       /* as in compute_attention_options */
} attention;

/* Masks keys where `condition` is false. */
void attention_hide(model_call *call, attention *a, compute_node condition);
void attention_add(model_call *call, attention *a, compute_node bias);

/* Query i has position p = i + offset and may attend to keys p − left … p + right; −1: no limit
 * on that side. A valid `offsets` [batch] is added to offset. */
void attention_window(model_call *call, attention *a, int64_t offset, compute_node offsets,
                      int64_t left, int64_t right);

/* Masks keys from position lengths[batch] on. */
void attention_lengths(model_call *call, attention *a, compute_node lengths);

/* *y is [batch, heads, queries, width of v]; *scores gets the value that `stage` selects. */
compute_status attention_run(model_call *call, const attention *a, compute_node *y,
                             compute_node *scores);

/* [batch, length, heads · width] to [batch, heads, length, width], and back. */
compute_status attention_split(model_call *call, compute_node x, int64_t heads,
                               compute_node *result);
compute_node attention_join(model_call *call, compute_node x);

/* Concatenates `past` and `more` along the key axis; `past` may be {0}. */
compute_node attention_append(model_call *call, compute_node past, compute_node more);

/* Rotates pairs of the first `width` elements of x [batch, heads, length, …]. The angles'
 * cosines and sines are [batch or 1, length, width / 2]. */
compute_status attention_rotate(model_call *call, compute_node cosines, compute_node sines,
                                int64_t width, bool interleaved, compute_node *x);

#endif
