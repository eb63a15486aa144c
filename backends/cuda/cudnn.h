/* SPDX-License-Identifier: MIT */
/* Our declarations of the used part of cuDNN 9, its backend interface. Descriptors with attributes
 * describe a graph of operations. The library's heuristics name engines for the graph, and an
 * engine with its settings becomes an executable plan. */
#ifndef CUDA_CUDNN_H
#define CUDA_CUDNN_H

#include "vendor.h"

typedef void *cudnn_descriptor;

enum {
  CUDNN_OK = 0,
  CUDNN_BAD_PARAMETER = 2000, /* codes up to the next constant are of the same kind */
  CUDNN_UNSUPPORTED = 3000,
  CUDNN_INTERNAL = 4000,
  CUDNN_HOST_MEMORY = 4003,
  CUDNN_DEVICE_MEMORY = 4004,
  CUDNN_EXECUTION = 5000,

  CUDNN_F32 = 0, /* cudnnDataType_t */
  CUDNN_F64 = 1,
  CUDNN_F16 = 2,
  CUDNN_BF16 = 9,

  CUDNN_MODE_CROSS_CORRELATION = 1, /* cudnnConvolutionMode_t */

  CUDNN_HEURISTICS_FALLBACK = 2, /* cudnnBackendHeurMode_t */
  CUDNN_HEURISTICS_A = 3,

  CUDNN_NOTE_TENSOR_CORE = 0, /* cudnnBackendNumericalNote_t */
  CUDNN_NOTE_DOWN_CONVERT = 1,
  CUDNN_NOTE_REDUCED_REDUCTION = 2,
  CUDNN_NOTE_FFT = 3,
  CUDNN_NOTE_NONDETERMINISTIC = 4,
  CUDNN_NOTE_WINOGRAD = 5,   /* flags in addition to it */
  CUDNN_NOTE_WINOGRAD_4 = 6, /* tile sizes */
  CUDNN_NOTE_WINOGRAD_6 = 7,
  CUDNN_NOTE_WINOGRAD_13 = 8,
  CUDNN_NOTES = 16, /* more than exist */

  CUDNN_IS_HANDLE = 0, /* cudnnBackendAttributeType_t */
  CUDNN_IS_DATA_TYPE = 1,
  CUDNN_IS_INT64 = 3,
  CUDNN_IS_FLOAT = 4,
  CUDNN_IS_DOUBLE = 5,
  CUDNN_IS_POINTER = 6,
  CUDNN_IS_CONVOLUTION_MODE = 7,
  CUDNN_IS_HEURISTICS = 8,
  CUDNN_IS_NOTE = 11,
  CUDNN_IS_DESCRIPTOR = 15,

  CUDNN_KIND_CONVOLUTION = 1, /* cudnnBackendDescriptorType_t */
  CUDNN_KIND_ENGINE = 2,
  CUDNN_KIND_ENGINE_SETTINGS = 3,
  CUDNN_KIND_HEURISTICS = 4,
  CUDNN_KIND_PLAN = 5,
  CUDNN_KIND_FORWARD = 10,
  CUDNN_KIND_BY_FILTER = 11,
  CUDNN_KIND_BY_DATA = 12,
  CUDNN_KIND_GRAPH = 15,
  CUDNN_KIND_BINDINGS = 16,
  CUDNN_KIND_TENSOR = 17,

  CUDNN_CONVOLUTION_TYPE = 100, /* cudnnBackendAttributeName_t */
  CUDNN_CONVOLUTION_MODE = 101,
  CUDNN_CONVOLUTION_DILATION = 102,
  CUDNN_CONVOLUTION_STRIDE = 103,
  CUDNN_CONVOLUTION_PADDING_AFTER = 104,
  CUDNN_CONVOLUTION_PADDING = 105,
  CUDNN_CONVOLUTION_RANK = 106,
  CUDNN_HEURISTICS_MODE = 200,
  CUDNN_HEURISTICS_GRAPH = 201,
  CUDNN_HEURISTICS_RESULTS = 202,
  CUDNN_SETTINGS_ENGINE = 300,
  CUDNN_PLAN_HANDLE = 400,
  CUDNN_PLAN_SETTINGS = 401,
  CUDNN_PLAN_WORKSPACE = 402,
  CUDNN_FORWARD_ALPHA = 700, /* beta, convolution, w, x, y follow; also for gradients */
  CUDNN_BY_DATA_ALPHA = 706,
  CUDNN_BY_FILTER_ALPHA = 712,
  CUDNN_GRAPH_HANDLE = 800,
  CUDNN_GRAPH_OPERATIONS = 801,
  CUDNN_TENSOR_ALIGNMENT = 900,
  CUDNN_TENSOR_TYPE = 901,
  CUDNN_TENSOR_SIZES = 902,
  CUDNN_TENSOR_STRIDES = 903,
  CUDNN_TENSOR_NAME = 906,
  CUDNN_BINDINGS_NAMES = 1000,
  CUDNN_BINDINGS_POINTERS = 1001,
  CUDNN_BINDINGS_WORKSPACE = 1003,
  CUDNN_ENGINE_INDEX = 1301,
  CUDNN_ENGINE_NOTES = 1303
};

/* X(member, symbol, result type, parameters) */
#define CUDNN_FUNCTIONS(X)                                                                         \
  X(version, cudnnGetVersion, size_t, (void))                                                      \
  X(error_text, cudnnGetErrorString, const char *, (int32_t code))                                 \
  X(create, cudnnCreate, int32_t, (void **handle))                                                 \
  X(destroy, cudnnDestroy, int32_t, (void *handle))                                                \
  X(set_stream, cudnnSetStream, int32_t, (void *handle, cuda_stream stream))                       \
  X(describe, cudnnBackendCreateDescriptor, int32_t, (int32_t type, cudnn_descriptor * result))    \
  X(forget, cudnnBackendDestroyDescriptor, int32_t, (cudnn_descriptor descriptor))                 \
  X(finalize, cudnnBackendFinalize, int32_t, (cudnn_descriptor descriptor))                        \
  X(set, cudnnBackendSetAttribute, int32_t,                                                        \
    (cudnn_descriptor descriptor, int32_t attribute, int32_t type, int64_t count,                  \
     const void *values))                                                                          \
  X(get, cudnnBackendGetAttribute, int32_t,                                                        \
    (cudnn_descriptor descriptor, int32_t attribute, int32_t type, int64_t room, int64_t * count,  \
     void *values))                                                                                \
  X(execute, cudnnBackendExecute, int32_t,                                                         \
    (void *handle, cudnn_descriptor plan, cudnn_descriptor bindings))

#define CUDNN_MEMBER(member, symbol, type, parameters) type(*member) parameters;
typedef struct cudnn_functions {
  CUDNN_FUNCTIONS(CUDNN_MEMBER)
} cudnn_functions;

#define CUDNN_ANY_ENGINE (-1)
#define CUDNN_WAYS       2 /* plans per kernel: for aligned addresses, and for any */

/* One way to run a convolution. */
typedef struct cudnn_way {
  cudnn_descriptor settings, plan;
  int64_t workspace_bytes;
  int64_t engine; /* the library's engine number */
} cudnn_way;

/* Descriptors that plan descriptors refer to. */
typedef struct cudnn_pile {
  const cudnn_functions *functions;
  cudnn_descriptor descriptors[16];
  uint32_t count;
} cudnn_pile;

void cudnn_way_clear(const cudnn_functions *functions, cudnn_way *way);
void cudnn_pile_clear(cudnn_pile *pile);

/* All bytes count: the struct is part of a key. */
typedef struct cudnn_problem {
  int32_t operation; /* CUDNN_KIND_FORWARD … */
  int32_t type, sum_type, result_type;
  int32_t strict;                     /* factors must not be rounded */
  int32_t winograd;                   /* Winograd's minimal filtering is allowed */
  int64_t sizes[3][4], strides[3][4]; /* inputs[0], inputs[1], the output */
  int64_t stride[2], dilation[2], padding[2], padding_after[2];
} cudnn_problem;

/* Translates the whole descriptor, or returns false with a reason (a constant text). */
bool cudnn_translate(const compute_kernel_descriptor *descriptor, cudnn_problem *problem,
                     const char **reason);

/* A text for the log: "convolution 8x64x56x56 by 64x64x3x3, f32". */
void cudnn_describe(const cudnn_problem *problem, char *text, size_t text_bytes);

/* Proposes at most `room` plans for operands of this alignment: the heuristics' ranked ones first,
 * then the fallback ones; all engines or only one. The plans need the pile as long as they live,
 * also after a failure. Returns the library's code. */
int32_t cudnn_propose(const cuda_library *library, const cudnn_problem *problem, int64_t alignment,
                      int64_t workspace_limit, int64_t engine, cudnn_pile *pile, cudnn_way *ways,
                      int32_t room, int32_t *count);

/* One result of the convolution, as `sum` of cuda_verification. */
void cudnn_sum(const cudnn_problem *problem, uint64_t random, const double *const values[2],
               int64_t period, int64_t *place, double *sum, double *magnitude);

#endif
