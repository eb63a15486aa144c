/* SPDX-License-Identifier: MIT */
/* What the parts of onnx_decode share: messages (message.c, decode.c), elements (tensor_data.c),
 * files beside the model (external.c), names (resolve.c). */
#ifndef MODEL_DECODE_H
#define MODEL_DECODE_H

#include "model/onnx.h"

/* Graphs nest this deep at most; a graph is three messages below the one around it. */
enum { MOST_NESTED_GRAPHS = 64, MOST_NESTED_MESSAGES = 3 * MOST_NESTED_GRAPHS + 8 };

typedef struct onnx_decoder {
  const compute_context *context;
  const char *operation, *shown;
  onnx_file *file;
  int folder;              /* descriptor of where external data lies; −1: not open yet, or none */
  const char *folder_path; /* or NULL */
  compute_model_files files;
  unsigned char *raws; /* raw structs of the messages that are being decoded */
  int depth;           /* how many these are */
  uint64_t mapped;     /* bytes of all files of external data */
  uint64_t converted;  /* bytes of elements that had to be copied */
} onnx_decoder;

/* Records "cannot read FILE as ONNX: …" and returns `status`. */
compute_status decode_fail(const onnx_decoder *decoder, compute_status status, const char *format,
                           ...) COMPUTE_PRINTF(3, 4);
compute_status decode_out_of_memory(const onnx_decoder *decoder);

/* A list as messages have it. */
typedef struct message_list {
  void *items;
  size_t count;
} message_list;

/* A TensorProto. `present` has a bit for each list of elements that is not empty. */
typedef struct tensor_message {
  const char *name;
  int64_t type, location;
  message_list sizes;    /* int64_t */
  message_list strings;  /* const char * */
  message_list external; /* text_pair */
  wire raw;              /* `at` NULL: none */
  uint32_t present;
  bool segment;
} tensor_message;

typedef struct sparse_message {
  const onnx_tensor *values, *indices;
  message_list sizes;
} sparse_message;

/* What a TensorProto and a SparseTensorProto say; `message` is all of it. */
compute_status tensor_take(onnx_decoder *decoder, const tensor_message *raw, wire message,
                           onnx_tensor *result);
compute_status tensor_take_sparse(onnx_decoder *decoder, const sparse_message *raw,
                                  onnx_tensor *result);

/* Bytes of a tensor's elements as they are used. */
uint64_t tensor_bytes(const onnx_tensor *tensor);

/* The `bytes` bytes beside the model that a tensor's external_data names. */
compute_status external_find(onnx_decoder *decoder, const tensor_message *raw, uint64_t bytes,
                             wire *result);

/* Maps or reads the file at `path` as file->message. */
compute_status external_map_model(onnx_decoder *decoder, const char *path);
void external_release(onnx_file *file);

/* Where elements of a tensor lie: in memory of the caller's or of the arena, in a mapped file, or
 * in a copy of one. */
typedef enum external_place { EXTERNAL_NONE, EXTERNAL_MAPPED, EXTERNAL_COPIED } external_place;
external_place external_place_of(const onnx_file *file, const void *data);

/* Gives the pages back that lie wholly within these bytes of a mapped file; they are read again if
 * they are needed again. */
void external_forget(const void *data, size_t bytes);

/* Numbers the values of all graphs, finds what names stand for, sorts nodes. */
compute_status resolve_names(onnx_decoder *decoder);

#endif
