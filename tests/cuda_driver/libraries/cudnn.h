/* SPDX-License-Identifier: MIT */
/* Inside of the stand-in for cuDNN.
 *
 *   cudnn.c              descriptors, heuristics, plans
 *   cudnn_convolution.c  what an operation says, and carrying it out */
#ifndef CUDA_DRIVER_CUDNN_H
#define CUDA_DRIVER_CUDNN_H

#include "../../../backends/cuda/cudnn.h"
#include "cuda_driver/libraries/library.h"

enum { WORKSPACE_BYTES = 1024 }; /* of every plan that can be had */

/* A convolution; 0 is w, 1 is x, 2 is y. */
typedef struct cudnn_work {
  int32_t operation;
  int result; /* which of the three is computed */
  bool rounds;
  element type[3];
  int64_t sizes[3][4], strides[3][4], name[3], alignment[3];
  int64_t stride[2], dilation[2], padding[2];
  void *data[3], *workspace;
} cudnn_work;

bool cudnn_read(const void *descriptor, int32_t name, int32_t type, int64_t count, void *values);
void *cudnn_follow(const void *descriptor, int32_t name, int32_t kind);
int cudnn_kind_of(const void *descriptor);

/* What the operation says; the library's code when that is nothing it could do. */
int32_t cudnn_read_work(const void *operation, cudnn_work *work);

/* Carries it out on the stream, with the addresses of the bindings. */
int32_t cudnn_run(cudnn_work *work, const void *bindings, cuda_stream stream);

#endif
