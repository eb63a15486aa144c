/* SPDX-License-Identifier: MIT */
/* Common helpers of the decoder tests. */
#ifndef MODEL_DECODING_H
#define MODEL_DECODING_H

#include "model/message_writer.h"
#include "model/onnx.h"
#include "support/harness/failing_allocator.h"

/* The last message, in a block of exactly its size, so that sanitizers find a read past its end. */
static unsigned char *held;

static inline compute_status decode_bytes(const void *data, size_t bytes, const char *folder,
                                          onnx_file *file) {
  free(held);
  held = malloc(bytes ? bytes : 1);
  if (bytes > 0) memcpy(held, data, bytes);
  return onnx_decode(NULL, "test", "the model", (wire){held, held + bytes}, folder,
                     COMPUTE_MODEL_MAP, file);
}

/* Decodes and frees the message. */
static inline compute_status decode(proto model, const char *folder, onnx_file *file) {
  const compute_status status = decode_bytes(model.data, model.bytes, folder, file);
  free(model.data);
  return status;
}

static inline void assert_reads(proto model, onnx_file *file) {
  assert_ok(decode(model, NULL, file));
}

/* A refused message leaves an empty file structure. */
static inline void assert_refuses_in(proto model, const char *folder, compute_status expected,
                                     const char *part) {
  static const onnx_file nothing;
  onnx_file file;
  assert_fails(decode(model, folder, &file), expected);
  assert_memory_equal(&file, &nothing, sizeof file);
  test_check_message(NULL, part);
  test_check_message(NULL, "the model");
}

static inline void assert_refuses(proto model, const char *part) {
  assert_refuses_in(model, NULL, COMPUTE_ERROR_FORMAT, part);
}

/* A model of one initializer. */
static inline proto with_initializer(proto tensor) {
  proto graph = graph_message(NULL, NULL);
  put_message(&graph, GRAPH_INITIALIZER, tensor);
  return model_message(graph);
}

static inline int free_held(void **state) {
  (void)state;
  free(held);
  held = NULL;
  return 0;
}

/* Three floats in a larger tensor. `width` numbers give the place of each float; 0: one number
 * each, as a vector. */
static inline proto sparse_message(const char *name, int rank, const int64_t *sizes,
                                   const int64_t *indices, int64_t width) {
  static const float values[] = {1, 2, 3};
  proto sparse = {0};
  proto tensor = tensor_message("", ONNX_INT64, width ? 2 : 1, (int64_t[]){3, width});
  put_bytes(&tensor, 9, indices, (size_t)(width ? width : 1) * 24);
  put_message(&sparse, 1, vector_message(name, values, 3));
  put_message(&sparse, 2, tensor);
  for (int i = 0; i < rank; i++) put_integer(&sparse, 3, sizes[i]);
  return sparse;
}

/* Each allocation fails once: decoding reports it and leaks nothing. Frees the model. */
static inline void assert_survives_allocations(proto model, const char *folder) {
  failing_allocator_install();
  for (int64_t nth = 1;; nth++) {
    onnx_file file;
    failing_allocator_arm(nth, false);
    const compute_status status = decode_bytes(model.data, model.bytes, folder, &file);
    const bool failed = failing_allocator_failures() > 0;
    failing_allocator_arm(0, false);
    if (status == COMPUTE_OK) onnx_release(&file);
    assert_int_equal(status, failed ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_OK);
    assert_int_equal(failing_allocator_live(), 0);
    if (!failed) break;
    assert_true(nth < 10000);
  }
  assert_int_equal(failing_allocator_remove(), 0);
  free(model.data);
}

#endif
