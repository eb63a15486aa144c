/* What the kinds REDUCE and ROW share: spaces whose dimensions they have put into an order of their
 * own, and macros around their templates. */
#ifndef GENERATE_FOLD_H
#define GENERATE_FOLD_H

#include "generate/emit.h"

/* An order of the descriptor's dimensions: dimension i of a space is the descriptor's dimension[i].
 * Dimensions stay on their side of the border between kept and reduced ones. */
typedef struct fold_order {
  int32_t kept, rank;
  int32_t dimension[COMPUTE_MAX_RANK];
} fold_order;

/* On both sides of `kept` the dimension in which the main input takes the smallest steps comes
 * last. The main input is the one among inputs 0 … count − 1 that repeats least. */
fold_order fold_sort(const compute_kernel_descriptor *d, int32_t kept, uint32_t count,
                     int32_t *main_input);

/* A space over the first `rank` dimensions of the order. */
void fold_space(emit_space *space, const char *name, const compute_kernel_descriptor *d,
                const fold_order *order, int32_t rank);
/* The walk of an operand, by its strides in the descriptor. */
void fold_add(emit_space *space, const char *name, const int64_t *stride, const fold_order *order);
/* Walks of what the function takes: its inputs, position and coordinates, over the descriptor's
 * first `rank` dimensions. Walks that are there already stay. */
void fold_add_function(emit_space *space, const compute_kernel_descriptor *d,
                       const emit_function *function, const fold_order *order, int32_t rank);
void fold_add_outputs(emit_space *space, const compute_kernel_descriptor *d,
                      const fold_order *order);
/* Row-major position in the descriptor's dimensions first … end − 1. */
void fold_add_position(emit_space *space, const char *name, const compute_kernel_descriptor *d,
                       const fold_order *order, int32_t first, int32_t end);

/* #define <name> <value>, whatever the name meant before; line ends in the value become spaces. */
void fold_define(text_buffer *text, const char *name, const char *value);
void fold_define_number(text_buffer *text, const char *name, int64_t value);
/* As fold_define; releases and empties `value`, whose failure becomes one of `text`. */
void fold_define_text(text_buffer *text, const char *name, text_buffer *value);
/* #define <name>(<parameter>) const INDEX <prefix>_<walk> = …; for dimensions first … end − 1 */
void fold_define_offsets(generation *g, text_buffer *text, const char *name, const char *parameter,
                         const emit_space *space, int32_t first, int32_t end, const char *prefix);
/* const INDEX <prefix>_<walk> = …; the stride along a dimension, 0 if that is past the last */
void fold_steps(text_buffer *text, const char *prefix, const emit_space *space, int32_t dimension);
/* #define FINISH(<parameters>): the epilogue of `value` at the offsets `index`, stored. */
void fold_define_finish(generation *g, text_buffer *text, const emit_function *epilogue,
                        const char *parameters, const char *before, const char *value,
                        const char *index);

uint32_t fold_power_of_two(int64_t n); /* the lowest that is not below n, for 1 ≤ n ≤ 2^30 */
int64_t fold_divide_up(int64_t a, int64_t b);
int64_t fold_clamp(int64_t value, int64_t low, int64_t high);
uint32_t fold_value_bytes(compute_dtype type);
/* The lowest and highest values of a type as the dialect writes them, infinities for floats. */
const char *fold_lowest(compute_dtype type);
const char *fold_highest(compute_dtype type);

#endif
