/* SPDX-License-Identifier: MIT */
/* A box as sets of lines: a loop's rows run along one of its dimensions, and from row to row along
 * the longest other dimension. The remaining dimensions are stepped through. */
#ifndef CPU_PROGRAM_LINES_H
#define CPU_PROGRAM_LINES_H

#include "program/program.h"

typedef struct cpu_lines {
  const cpu_box *box;
  int32_t along, across; /* across −1: one line */
  int64_t rows, count;
  int64_t index[CPU_BOX_RANK];
} cpu_lines;

static inline cpu_lines cpu_lines_first(const cpu_box *box, int32_t along) {
  cpu_lines l = {.box = box, .along = along, .across = -1, .count = box->count[along]};
  for (int32_t d = 0; d < box->rank; d++)
    if (d != along && (l.across < 0 || box->count[d] > box->count[l.across])) l.across = d;
  l.rows = l.across < 0 ? 1 : box->count[l.across];
  return l;
}

static inline bool cpu_lines_next(cpu_lines *l) {
  for (int32_t d = l->box->rank - 1; d >= 0; l->index[d--] = 0)
    if (d != l->along && d != l->across && ++l->index[d] < l->box->count[d]) return true;
  return false;
}

/* For an operand with these steps: the offset of the first line, and the distance between rows, in
 * elements. */
static inline int64_t cpu_lines_offset(const cpu_lines *l, const int64_t *step, int64_t *row) {
  int64_t offset = 0;
  for (int32_t d = 0; d < l->box->rank; d++) offset += l->index[d] * step[d];
  *row = l->across < 0 ? 0 : step[l->across];
  return offset;
}

#endif
