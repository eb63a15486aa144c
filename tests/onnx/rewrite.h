/* SPDX-License-Identifier: MIT */
/* The values of ONNX's node tests, and models that have them as initializers in place of inputs. */
#ifndef ONNX_REWRITE_H
#define ONNX_REWRITE_H

#include "model/onnx.h"
#include "onnx/message.h"

/* A value of a test, from its file: a tensor, several in a sequence, or none. */
typedef struct test_value {
  const onnx_value_info *info; /* the model's description */
  bool optional, sequence;     /* both: an optional sequence */
  bool absent;                 /* an optional value that is absent */
  size_t count;
  wire *tensors; /* TensorProto, in the file's memory */
} test_value;

/* Reads the content of input_0.pb or a similar file, which may be corrected. Returns false if it is
 * damaged. The caller frees `value->tensors`. */
bool test_value_read(wire content, const onnx_value_info *info, test_value *value);

/* The model in `model` with its inputs as initializers, which nodes compose to sequences and
 * optionals. */
message rewrite_model(wire model, const test_value *inputs, size_t input_count);

#endif
