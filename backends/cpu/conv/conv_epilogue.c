/* The epilogue over a box of finished sums, which are still in a cache of this core.
 *
 * The interpreter works on runs, and each run has a price of its own. Rows of results that follow
 * each other without a gap in every operand become one run; their sums, which have a gap between
 * rows wherever windows overlap the padding, are then moved together first. Where nothing is to be
 * computed, rows are copied. */
#include <string.h>

#include "conv.h"

typedef struct walk {
  const cpu_conv *conv;
  int dimension; /* that runs go along */
  int64_t length;
  int64_t input_step[COMPUTE_MAX_OPERANDS][4]; /* bytes per step in each dimension of the box */
  int64_t output_step[COMPUTE_MAX_OPERANDS][4];
  const unsigned char *input[COMPUTE_MAX_OPERANDS]; /* of the box's first element */
  unsigned char *output[COMPUTE_MAX_OPERANDS];
  int64_t position, position_step[4];
} walk;

static void find_operands(walk *w, void *const *pointers, const conv_box *box) {
  const cpu_conv *conv = w->conv;
  w->input[0] = box->sums;
  for (int d = 0; d < 4; d++) w->input_step[0][d] = box->sum_stride[d] * conv->element;
  for (uint32_t i = 0; i < conv->extra_count; i++) {
    const conv_operand *extra = &conv->extra[i];
    w->input[i + 1] = pointers[2 + i];
    for (int d = 0; d < 4; d++) {
      w->input[i + 1] += box->first[d] * extra->stride[d] * extra->size;
      w->input_step[i + 1][d] = box->step[d] * extra->stride[d] * extra->size;
    }
  }
  for (uint32_t i = 0; i < conv->output_count; i++) {
    const conv_operand *output = &conv->output[i];
    w->output[i] = pointers[2 + conv->extra_count + i];
    for (int d = 0; d < 4; d++) {
      w->output[i] += box->first[d] * output->stride[d] * output->size;
      w->output_step[i][d] = box->step[d] * output->stride[d] * output->size;
    }
  }
  int64_t step = 1;
  for (int d = 3; d >= 0; d--) {
    w->position += box->first[d] * step;
    w->position_step[d] = box->step[d] * step;
    step *= conv->size[d];
  }
}

/* Whether rows (dimension 3) continue each other along dimension 2 in all but the sums. */
static bool rows_continue(const walk *w, const conv_box *box) {
  const int64_t columns = box->count[3];
  if (w->conv->coordinates || w->position_step[2] != columns * w->position_step[3]) return false;
  for (uint32_t i = 1; i <= w->conv->extra_count; i++)
    if (w->input_step[i][2] != columns * w->input_step[i][3]) return false;
  for (uint32_t i = 0; i < w->conv->output_count; i++)
    if (w->output_step[i][2] != columns * w->output_step[i][3]) return false;
  return true;
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
static void move_together(walk *w, conv_box *box) {
  const int64_t columns = box->count[3], bytes = columns * w->conv->element;
  if (box->sum_stride[2] == columns) return;
  for (int64_t i = 0; i < box->count[0]; i++)
    for (int64_t j = 0; j < box->count[1]; j++) {
      unsigned char *sums = box->sums + i * w->input_step[0][0] + j * w->input_step[0][1];
      for (int64_t row = 1; row < box->count[2]; row++)
        move_row(sums + row * bytes, sums + row * w->input_step[0][2], bytes);
    }
  box->sum_stride[2] = columns;
  w->input_step[0][2] = bytes;
}

/* The dimension for runs: the last, unless it is short, or the first output's channels lie side by
 * side and there are enough of them. */
static int choose_dimension(const walk *w, const conv_box *box, bool merged) {
  enum { LONG = 16 };
  const conv_operand *output = &w->conv->output[0];
  if (output->stride[1] == 1 && output->stride[3] != 1 && box->count[1] >= LONG) return 1;
  if (merged || box->count[3] >= LONG) return 3;
  int best = 3;
  for (int d = 2; d >= 0; d--)
    if (box->count[d] > box->count[best]) best = d;
  return best;
}

static void do_run(const walk *w, const int64_t index[4], const conv_box *box,
                   cpu_scratch *scratch) {
  const cpu_conv *conv = w->conv;
  const int run = w->dimension;
  cpu_tile tile;
  int64_t position = w->position;
  const unsigned char *input[COMPUTE_MAX_OPERANDS];
  unsigned char *output[COMPUTE_MAX_OPERANDS];
  for (uint32_t i = 0; i <= conv->extra_count; i++) {
    input[i] = w->input[i];
    for (int d = 0; d < 4; d++) input[i] += index[d] * w->input_step[i][d];
    const uint32_t size = i == 0 ? conv->element : conv->extra[i - 1].size;
    tile.input_stride[i] = w->input_step[i][run] / (int64_t)size;
  }
  for (uint32_t i = 0; i < conv->output_count; i++) {
    output[i] = w->output[i];
    for (int d = 0; d < 4; d++) output[i] += index[d] * w->output_step[i][d];
    tile.output_stride[i] = w->output_step[i][run] / (int64_t)conv->output[i].size;
  }
  for (int d = 0; d < 4; d++) {
    position += index[d] * w->position_step[d];
    tile.coordinate[d] = box->first[d] + index[d] * box->step[d];
  }
  tile.dimension = run;
  tile.position_step = w->position_step[run];
  /* Coordinates grow by one along a tile. */
  const bool single = conv->coordinates && box->step[run] != 1;
  const int64_t most = single ? 1 : cpu_program_tile_elements(conv->epilogue);
  const int64_t first = tile.coordinate[run];
  for (int64_t j = 0; j < w->length; j += most) {
    tile.count = cpu_min(most, w->length - j);
    for (uint32_t i = 0; i <= conv->extra_count; i++)
      tile.input[i] = input[i] + j * w->input_step[i][run];
    for (uint32_t i = 0; i < conv->output_count; i++)
      tile.output[i] = output[i] + j * w->output_step[i][run];
    tile.position = position + j * w->position_step[run];
    tile.coordinate[run] = first + j * box->step[run];
    cpu_program_run(conv->epilogue, &tile, scratch, false);
  }
}

/* Rows of sums are rows of the output. */
static void copy_rows(const walk *w, const conv_box *box) {
  int64_t bytes = box->count[3] * w->conv->element, rows = box->count[2];
  if (w->input_step[0][2] == bytes && w->output_step[0][2] == bytes) {
    bytes *= rows;
    rows = 1;
  }
  for (int64_t i = 0; i < box->count[0]; i++)
    for (int64_t j = 0; j < box->count[1]; j++) {
      const unsigned char *from = box->sums + i * w->input_step[0][0] + j * w->input_step[0][1];
      unsigned char *to = w->output[0] + i * w->output_step[0][0] + j * w->output_step[0][1];
      for (int64_t row = 0; row < rows; row++) {
        move_row(to, from, bytes);
        from += w->input_step[0][2];
        to += w->output_step[0][2];
      }
    }
}

void conv_epilogue_run(const cpu_conv *conv, void *const *pointers, conv_box *box) {
  cpu_scratch scratch;
  walk w;
  w.conv = conv;
  w.position = 0;
  find_operands(&w, pointers, box);
  int64_t count[4];
  for (int d = 0; d < 4; d++) {
    count[d] = box->count[d];
    if (count[d] == 0) return;
  }
  if (conv->identity && w.output_step[0][3] == conv->element && box->sum_stride[3] == 1) {
    copy_rows(&w, box);
    return;
  }
  const bool merged = box->sum_stride[3] == 1 && rows_continue(&w, box);
  w.dimension = choose_dimension(&w, box, merged);
  w.length = count[w.dimension];
  if (w.dimension == 3 && merged) {
    move_together(&w, box);
    w.length = count[2] * count[3];
    count[2] = 1;
  }
  count[w.dimension] = 1;
  int64_t index[4];
  for (index[0] = 0; index[0] < count[0]; index[0]++)
    for (index[1] = 0; index[1] < count[1]; index[1]++)
      for (index[2] = 0; index[2] < count[2]; index[2]++)
        for (index[3] = 0; index[3] < count[3]; index[3]++) do_run(&w, index, box, &scratch);
}
