/* SPDX-License-Identifier: MIT */
/* WINDOW, ATTENTION and RECURRENT. */
#include "fuzz/attributes/attributes.h"

void read_window(reader *r, compute_window_attributes *w) {
  w->operation = (compute_window_operation)(byte(r) % 4);
  w->by_data = byte(r) & 1;
  w->count_padding = byte(r) & 1;
  for (int i = 0; i < 2; i++) {
    w->data_size[i] = number(r);
    w->result_size[i] = number(r);
    w->size[i] = number(r);
    w->stride[i] = number(r);
    w->dilation[i] = number(r);
    w->padding[i] = number(r);
    w->padding_more[i] = (byte(r) & 1 ? -1 : 1) * (number(r) >> 1);
  }
}

void read_attention(reader *r, compute_attention_attributes *a) {
  a->keys = number(r);
  a->width = number(r);
  a->scale = byte(r) * 0.1;
  a->causal = byte(r) & 1;
  a->biased = byte(r) & 1;
}

void read_recurrent(reader *r, compute_recurrent_attributes *a) {
  a->cell = (compute_recurrent_cell)(byte(r) % 4);
  a->reverse = byte(r) & 1;
  a->reset_after = byte(r) & 1;
  a->lengths = byte(r) & 1;
  a->bias = byte(r) & 1;
  a->peepholes = byte(r) & 1;
  a->clip = byte(r) * 0.1;
}
