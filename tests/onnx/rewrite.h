/* SPDX-License-Identifier: MIT */
/* Converts models whose inputs and outputs are sequences, optionals or strings to models of
 * tensors, because a program can pass only tensors. Added nodes compose the other values and take
 * them apart again. */
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

/* An input or expected output tensor, under its name in the new model. */
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

/* The model in `model` with nodes and ports added and removed, so that its inputs and outputs are
 * tensors only. With `constants`, and always for strings, inputs become initializers. */
message rewrite_model(wire model, const test_value *inputs, size_t input_count,
                      const test_value *outputs, size_t output_count, bool constants,
                      test_tensors *in, test_tensors *out);

void test_tensors_release(test_tensors *tensors);

#endif
