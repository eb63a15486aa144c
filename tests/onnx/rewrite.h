/* SPDX-License-Identifier: MIT */
/* Models whose inputs and outputs are sequences, optional or strings, made into models of tensors,
 * which is all that a program can pass: what is no tensor is put together, and taken apart again,
 * by nodes that are added to the graph. */
#ifndef ONNX_REWRITE_H
#define ONNX_REWRITE_H

#include "model/onnx.h"
#include "onnx/message.h"

/* A value of a test, from its file: a tensor, several in a sequence, or none. */
typedef struct test_value {
  const onnx_value_info *info; /* what the model says of it */
  bool optional, sequence;     /* both: an optional sequence */
  bool absent;                 /* an optional one without a value */
  size_t count;
  wire *tensors; /* TensorProto, in the memory of the file */
} test_value;

/* Reads the content of input_0.pb or the like, which may be corrected; false if it is damaged.
 * `value->tensors` is to be freed. */
bool test_value_read(wire content, const onnx_value_info *info, test_value *value);

/* A tensor that goes in or is expected to come out, under the name that it has in the new model. */
typedef struct test_tensor {
  char *name;
  wire tensor;    /* TensorProto, or … */
  bool is_number; /* … a single i64 or bool */
  bool is_bool;
  int64_t number;
} test_tensor;

typedef struct test_tensors {
  test_tensor *items;
  size_t count;
} test_tensors;

/* The model in `model` with nodes and ports added and taken away, so that it has only tensors as
 * inputs and outputs. With `constants`, and in any case for strings, inputs become initializers. */
message rewrite_model(wire model, const test_value *inputs, size_t input_count,
                      const test_value *outputs, size_t output_count, bool constants,
                      test_tensors *in, test_tensors *out);

void test_tensors_release(test_tensors *tensors);

#endif
