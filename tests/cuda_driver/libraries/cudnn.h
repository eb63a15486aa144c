/* SPDX-License-Identifier: MIT */
/* Internals of the stand-in for cuDNN.
 *
 *   cudnn.c              descriptors, heuristics, plans
 *   cudnn_convolution.c  reads an operation and runs it */
#ifndef CUDA_DRIVER_CUDNN_H
#define CUDA_DRIVER_CUDNN_H

#include "../../../backends/cuda/cudnn.h"
#include "cuda_driver/libraries/library.h"

enum { WORKSPACE_BYTES = 1024 }; /* of every valid plan */

/* A convolution; index 0 is w, 1 is x, 2 is y. */
typedef struct cudnn_work {
  int32_t operation;
  int result; /* index of the computed tensor */
  bool rounds;
  element type[3];
  int64_t sizes[3][4], strides[3][4], name[3], alignment[3];
  int64_t stride[2], dilation[2], padding[2];
  void *data[3], *workspace;
} cudnn_work;

bool cudnn_read(const void *descriptor, int32_t name, int32_t type, int64_t count, void *values);
void *cudnn_follow(const void *descriptor, int32_t name, int32_t kind);
int cudnn_kind_of(const void *descriptor);

/* Reads the operation; returns the library's error code if it is not supported. */
int32_t cudnn_read_work(const void *operation, cudnn_work *work);

/* Runs it on the stream, with the addresses of the bindings. */
int32_t cudnn_run(cudnn_work *work, const void *bindings, cuda_stream stream);

#endif
