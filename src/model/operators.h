/* SPDX-License-Identifier: MIT */
/* The families of operators, a file of operators/ each. */
#ifndef MODEL_OPERATORS_H
#define MODEL_OPERATORS_H

#include "model/record.h"

#define OPERATOR_FAMILIES(FAMILY)                                                                  \
  FAMILY(attention)                                                                                \
  FAMILY(control)                                                                                  \
  FAMILY(conv)                                                                                     \
  FAMILY(elementwise)                                                                              \
  FAMILY(index)                                                                                    \
  FAMILY(loss)                                                                                     \
  FAMILY(norm)                                                                                     \
  FAMILY(pool)                                                                                     \
  FAMILY(product)                                                                                  \
  FAMILY(quantize)                                                                                 \
  FAMILY(recurrent)                                                                                \
  FAMILY(reduce)                                                                                   \
  FAMILY(resize)                                                                                   \
  FAMILY(select)                                                                                   \
  FAMILY(sequence)                                                                                 \
  FAMILY(shape)                                                                                    \
  FAMILY(signal)

#define FAMILY(name) extern const operator_family operators_##name;
OPERATOR_FAMILIES(FAMILY)
#undef FAMILY

#endif
