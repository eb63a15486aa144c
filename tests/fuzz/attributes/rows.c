/* SPDX-License-Identifier: MIT */
/* Kinds along rows: REDUCE, ROW, SCAN, TOP_K and SORT. */
#include "fuzz/attributes/attributes.h"

void read_reduce(reader *r, compute_reduce_attributes *a) {
  a->kept_rank = (int32_t)number(r);
  a->combine = (compute_combine)(byte(r) % 8);
}

void read_row(reader *r, compute_row_attributes *a) {
  a->operation = (compute_row_operation)(byte(r) % 5);
  a->epsilon = byte(r) * 0.01;
}

void read_scan(reader *r, compute_scan_attributes *a) {
  a->combine = (compute_combine)(byte(r) % 8);
  a->reverse = byte(r) & 1;
  a->exclusive = byte(r) & 1;
}

void read_top_k(reader *r, compute_top_k_attributes *a) {
  a->axis_size = number(r);
  a->smallest = byte(r) & 1;
}

void read_sort(reader *r, compute_sort_attributes *a) {
  a->descending = byte(r) & 1;
  a->values = byte(r) & 1;
  a->positions = byte(r) & 1;
}
