/* Between the files that evaluate kernels. */
#ifndef VALIDATE_KINDS_H
#define VALIDATE_KINDS_H

#include "validate/evaluate.h"

void evaluate_coordinates(const int64_t *size, int32_t rank, int64_t position, int64_t *coordinate);

/* The element of an operand at a place of the space. */
number evaluate_load(const view *v, int32_t rank, const int64_t *coordinate);

/* The epilogue on `value` (NULL: none) and the inputs from `rest` on. */
void evaluate_epilogue(const evaluation *e, const number *value, uint32_t rest,
                       const int64_t *coordinate, int64_t position, workspace *w, number *results);
number evaluate_prologue(const evaluation *e, const int64_t *coordinate, int64_t position,
                         workspace *w);

/* fold.c */
number evaluate_fold(const evaluation *e, const int64_t *kept, int64_t position, workspace *w);
/* row.c: a whole row with its epilogue, into w->results. */
void evaluate_row(const evaluation *e, int64_t row, workspace *w);
/* product.c */
number evaluate_product(const evaluation *e, const int64_t *coordinate);
number evaluate_convolution(const evaluation *e, const int64_t *coordinate);

/* window.c */
number evaluate_window(const evaluation *e, const int64_t *coordinate);

/* A sum of `terms` terms, as a device may have added them in any order: `magnitude` is the sum of
 * their absolute values, `error` that of their errors. */
number evaluate_sum(compute_dtype type, double sum, double magnitude, double error, double terms,
                    bool exact);

#endif
