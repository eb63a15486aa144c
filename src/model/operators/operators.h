/* SPDX-License-Identifier: MIT */
/* The operator families, one source file in operators/ each. */
#ifndef MODEL_OPERATORS_H
#define MODEL_OPERATORS_H

#include "model/record.h"

#define OPERATOR_FAMILIES(FAMILY)                                                                  \
  FAMILY(attention)                                                                                \
  FAMILY(attention_runtime)                                                                        \
  FAMILY(control)                                                                                  \
  FAMILY(conv)                                                                                     \
  FAMILY(elementwise)                                                                              \
  FAMILY(flex)                                                                                     \
  FAMILY(index)                                                                                    \
  FAMILY(loss)                                                                                     \
  FAMILY(ml)                                                                                       \
  FAMILY(ml_labels)                                                                                \
  FAMILY(ml_linear)                                                                                \
  FAMILY(ml_trees)                                                                                 \
  FAMILY(norm)                                                                                     \
  FAMILY(packed)                                                                                   \
  FAMILY(pool)                                                                                     \
  FAMILY(product)                                                                                  \
  FAMILY(quantize)                                                                                 \
  FAMILY(quantized)                                                                                \
  FAMILY(recurrent)                                                                                \
  FAMILY(reduce)                                                                                   \
  FAMILY(resize)                                                                                   \
  FAMILY(rotary)                                                                                   \
  FAMILY(select)                                                                                   \
  FAMILY(sequence)                                                                                 \
  FAMILY(shape)                                                                                    \
  FAMILY(signal)                                                                                   \
  FAMILY(suppression)                                                                              \
  FAMILY(text)                                                                                     \
  FAMILY(tfidf)                                                                                    \
  FAMILY(unique)

#define FAMILY(name) extern const operator_family operators_##name;
OPERATOR_FAMILIES(FAMILY)
#undef FAMILY

#endif
