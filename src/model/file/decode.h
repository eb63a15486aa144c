/* SPDX-License-Identifier: MIT */
/* Shared by the parts of onnx_decode: messages (message.c, decode.c), tensor elements
 * (tensor_data.c), external data files (external.c), names (resolve.c). */
#ifndef MODEL_DECODE_H
#define MODEL_DECODE_H

#include "model/onnx.h"

/* Nesting limits. A nested graph is three messages below its outer graph. */
enum { MOST_NESTED_GRAPHS = 64, MOST_NESTED_MESSAGES = 3 * MOST_NESTED_GRAPHS + 8 };

typedef struct onnx_decoder {
  const compute_context *context;
  const char *operation, *shown;
  onnx_file *file;
  int folder;              /* descriptor of the external data folder; −1: not open, or none */
  const char *folder_path; /* or NULL */
  compute_model_files files;
  unsigned char *raws; /* stack of raw structs of the messages being decoded */
  int depth;           /* number of structs in `raws` */
  uint64_t mapped;     /* total bytes of external data files */
  uint64_t converted;  /* total bytes of copied elements */
} onnx_decoder;

/* Records "cannot read FILE as ONNX: …" and returns `status`. */
compute_status decode_fail(const onnx_decoder *decoder, compute_status status, const char *format,
                           ...) COMPUTE_PRINTF(3, 4);
compute_status decode_out_of_memory(const onnx_decoder *decoder);

/* A repeated field. */
typedef struct message_list {
  void *items;
  size_t count;
} message_list;

/* A TensorProto. `present` has a bit for each list of elements that is not empty. */
typedef struct tensor_message {
  const char *name;
  int64_t type, location;
  message_list sizes;    /* of int64_t */
  message_list strings;  /* of const char * */
  message_list external; /* of text_pair */
  wire raw;              /* `at` NULL: none */
  uint32_t present;
  bool segment;
} tensor_message;

typedef struct sparse_message {
  const onnx_tensor *values, *indices;
  message_list sizes;
} sparse_message;

/* Convert a TensorProto and a SparseTensorProto to tensors; `message` is the whole encoded
 * message. */
compute_status tensor_take(onnx_decoder *decoder, const tensor_message *raw, wire message,
                           onnx_tensor *result);
compute_status tensor_take_sparse(onnx_decoder *decoder, const sparse_message *raw,
                                  onnx_tensor *result);

/* Bytes of a tensor's elements in their dtype in memory. */
uint64_t tensor_bytes(const onnx_tensor *tensor);

/* Finds the `bytes` bytes of external data that a tensor's external_data names. */
compute_status external_find(onnx_decoder *decoder, const tensor_message *raw, uint64_t bytes,
                             wire *result);

/* Maps or reads the file at `path` as file->message. */
compute_status external_map_model(onnx_decoder *decoder, const char *path);
void external_release(onnx_file *file);

/* Where a tensor's elements are: in the caller's memory or the arena, in a mapped file, or in a
 * copy of a file. */
typedef enum external_place { EXTERNAL_NONE, EXTERNAL_MAPPED, EXTERNAL_COPIED } external_place;
external_place external_place_of(const onnx_file *file, const void *data);

/* Drops the pages that are completely inside these bytes of a mapped file. A later access reads
 * them again. */
void external_forget(const void *data, size_t bytes);

/* Numbers the values of all graphs, resolves names and sorts nodes. */
compute_status resolve_names(onnx_decoder *decoder);

#endif
