/* The epilogue over a box of finished sums, which are still in a cache of this core.
 *
 * The interpreter works on runs, and each run has a price of its own. Rows of results that follow
 * each other without a gap in every operand become one run; their sums, which have a gap between
 * rows wherever windows overlap the padding, are then moved together first. Where nothing is to be
 * computed, rows are copied. */
#include <string.h>

#include "conv.h"

/* An operand's steps in a box, and its first element. */
static int64_t box_steps(const conv_box *box, const conv_operand *operand,
                         int64_t step[CPU_BOX_RANK]) {
  int64_t first = 0;
  for (int d = 0; d < 4; d++) {
    first += box->first[d] * operand->stride[d];
    step[d] = box->step[d] * operand->stride[d];
  }
  return first * (int64_t)operand->size;
}

static void find_operands(const cpu_conv *conv, void *const *pointers, const conv_box *from,
                          cpu_box *box) {
  box->program = conv->epilogue;
  box->rank = 4;
  box->position = 0;
  for (int d = 0; d < COMPUTE_MAX_RANK; d++) box->coordinate[d] = d < 4 ? from->first[d] : 0;
  int64_t step = 1;
  for (int d = 3; d >= 0; d--) {
    box->count[d] = from->count[d];
    box->dimension[d] = d;
    box->pace[d] = from->step[d];
    box->position += from->first[d] * step;
    box->position_step[d] = from->step[d] * step;
    box->input_step[0][d] = from->sum_stride[d];
    step *= conv->size[d];
  }
  box->input[0] = from->sums;
  for (uint32_t i = 0; i < conv->extra_count; i++)
    box->input[i + 1] = (const unsigned char *)pointers[2 + i] +
                        box_steps(from, &conv->extra[i], box->input_step[i + 1]);
  for (uint32_t k = 0; k < conv->output_count; k++)
    box->output[k] = (unsigned char *)pointers[2 + conv->extra_count + k] +
                     box_steps(from, &conv->output[k], box->output_step[k]);
}

/* memmove for rows, which are often so short that the call would cost more than the bytes: these
 * are all loaded before any is stored. */
static void move_row(unsigned char *to, const unsigned char *from, int64_t bytes) {
  enum { SHORT = 16, LONG = 32 };
  unsigned char first[LONG], last[LONG];
  if (bytes >= LONG && bytes <= 2 * LONG) {
    memcpy(first, from, LONG);
    memcpy(last, from + bytes - LONG, LONG);
    memcpy(to, first, LONG);
    memcpy(to + bytes - LONG, last, LONG);
  } else if (bytes >= SHORT && bytes < LONG) {
    memcpy(first, from, SHORT);
    memcpy(last, from + bytes - SHORT, SHORT);
    memcpy(to, first, SHORT);
    memcpy(to + bytes - SHORT, last, SHORT);
  } else {
    memmove(to, from, (size_t)bytes);
  }
}

/* Closes the gaps between rows of sums. */
static void move_together(const cpu_conv *conv, const conv_box *from, cpu_box *box) {
  const int64_t columns = box->count[3], bytes = columns * conv->element;
  if (from->sum_stride[2] == columns) return;
  for (int64_t i = 0; i < box->count[0]; i++)
    for (int64_t j = 0; j < box->count[1]; j++) {
      unsigned char *sums =
          from->sums + (i * from->sum_stride[0] + j * from->sum_stride[1]) * conv->element;
      for (int64_t row = 1; row < box->count[2]; row++)
        move_row(sums + row * bytes, sums + row * from->sum_stride[2] * conv->element, bytes);
    }
  box->input_step[0][2] = columns;
}

/* The dimension for runs: the last, unless it is short, or the first output's channels lie side by
 * side and there are enough of them. */
static int choose_dimension(const cpu_conv *conv, const cpu_box *box, bool merged) {
  enum { LONG = 16 };
  const conv_operand *output = &conv->output[0];
  if (output->stride[1] == 1 && output->stride[3] != 1 && box->count[1] >= LONG) return 1;
  int64_t longest = merged ? box->count[2] * box->count[3] : box->count[3];
  int best = 3;
  if (longest >= LONG) return 3;
  for (int d = 2; d >= 0; d--) {
    if (box->count[d] <= longest) continue;
    longest = box->count[d];
    best = d;
  }
  return best;
}

/* Rows of sums are rows of the output. */
static void copy_rows(const cpu_conv *conv, const cpu_box *box) {
  const int64_t element = conv->element, *from_step = box->input_step[0];
  const int64_t *to_step = box->output_step[0];
  int64_t bytes = box->count[3] * element, rows = box->count[2];
  if (from_step[2] == box->count[3] && to_step[2] == box->count[3]) {
    bytes *= rows;
    rows = 1;
  }
  for (int64_t i = 0; i < box->count[0]; i++)
    for (int64_t j = 0; j < box->count[1]; j++) {
      const unsigned char *from = box->input[0] + (i * from_step[0] + j * from_step[1]) * element;
      unsigned char *to = box->output[0] + (i * to_step[0] + j * to_step[1]) * element;
      for (int64_t row = 0; row < rows; row++) {
        move_row(to, from, bytes);
        from += from_step[2] * element;
        to += to_step[2] * element;
      }
    }
}

void conv_epilogue_run(const cpu_conv *conv, void *const *pointers, const conv_box *from) {
  cpu_box box;
  for (int d = 0; d < 4; d++)
    if (from->count[d] == 0) return;
  find_operands(conv, pointers, from, &box);
  if (conv->identity && box.output_step[0][3] == 1 && from->sum_stride[3] == 1) {
    copy_rows(conv, &box);
    return;
  }
  const bool merged = from->sum_stride[3] == 1 && cpu_box_continues(&box, 2, 1);
  const int along = choose_dimension(conv, &box, merged);
  if (along == 3 && merged) {
    move_together(conv, from, &box);
    cpu_box_merge(&box);
  }
  cpu_box_run(&box, along < box.rank ? along : box.rank - 1);
}
