/* SPDX-License-Identifier: MIT */
/* The used part of NCCL 2.14 and newer (libnccl.so.2). Its ABI is stable within this soname: the
 * size and version of the configuration determine its members. */
#ifndef CUDA_NCCL_H
#define CUDA_NCCL_H

#include "driver.h"

typedef int32_t nccl_result; /* ncclResult_t; 0 is success */
typedef struct ncclComm *nccl_handle;

typedef struct nccl_id {
  char bytes[128];
} nccl_id;

/* ncclConfig_t of version 2.14. */
typedef struct nccl_config {
  size_t size;
  uint32_t magic, version;
  int32_t blocking;
} nccl_config;

enum {
  NCCL_OK = 0,
  NCCL_CUDA_ERROR = 1,
  NCCL_SYSTEM_ERROR = 2,
  NCCL_INTERNAL_ERROR = 3,
  NCCL_INVALID_ARGUMENT = 4,
  NCCL_INVALID_USAGE = 5,
  NCCL_REMOTE_ERROR = 6,
  NCCL_IN_PROGRESS = 7,

  NCCL_INT8 = 0, /* ncclDataType_t */
  NCCL_UINT8 = 1,
  NCCL_INT32 = 2,
  NCCL_UINT32 = 3,
  NCCL_INT64 = 4,
  NCCL_UINT64 = 5,
  NCCL_FLOAT16 = 6,
  NCCL_FLOAT32 = 7,
  NCCL_FLOAT64 = 8,
  NCCL_BFLOAT16 = 9,

  NCCL_SUM = 0, /* ncclRedOp_t */
  NCCL_MAX = 2,
  NCCL_MIN = 3,
  NCCL_AVERAGE = 4,

  NCCL_OLDEST = 21400
};
#define NCCL_CONFIG_MAGIC 0xcafebeefu

/* X(member, symbol, result type, parameters) */
#define NCCL_FUNCTIONS(X)                                                                          \
  X(version, ncclGetVersion, nccl_result, (int32_t * version))                                     \
  X(error_text, ncclGetErrorString, const char *, (nccl_result code))                              \
  X(last_error, ncclGetLastError, const char *, (nccl_handle handle))                              \
  X(unique_id, ncclGetUniqueId, nccl_result, (nccl_id * id))                                       \
  X(init, ncclCommInitRankConfig, nccl_result,                                                     \
    (nccl_handle * handle, int32_t size, nccl_id id, int32_t rank, nccl_config * config))          \
  X(async_error, ncclCommGetAsyncError, nccl_result, (nccl_handle handle, nccl_result * state))    \
  X(finalize, ncclCommFinalize, nccl_result, (nccl_handle handle))                                 \
  X(comm_destroy, ncclCommDestroy, nccl_result, (nccl_handle handle))                              \
  X(comm_abort, ncclCommAbort, nccl_result, (nccl_handle handle))                                  \
  X(all_reduce, ncclAllReduce, nccl_result,                                                        \
    (const void *input, void *output, size_t count, int32_t type, int32_t reduction,               \
     nccl_handle handle, cuda_stream stream))                                                      \
  X(reduce_scatter, ncclReduceScatter, nccl_result,                                                \
    (const void *input, void *output, size_t output_count, int32_t type, int32_t reduction,        \
     nccl_handle handle, cuda_stream stream))                                                      \
  X(all_gather, ncclAllGather, nccl_result,                                                        \
    (const void *input, void *output, size_t input_count, int32_t type, nccl_handle handle,        \
     cuda_stream stream))                                                                          \
  X(broadcast, ncclBroadcast, nccl_result,                                                         \
    (const void *input, void *output, size_t count, int32_t type, int32_t root,                    \
     nccl_handle handle, cuda_stream stream))                                                      \
  X(send, ncclSend, nccl_result,                                                                   \
    (const void *input, size_t count, int32_t type, int32_t to, nccl_handle handle,                \
     cuda_stream stream))                                                                          \
  X(receive, ncclRecv, nccl_result,                                                                \
    (void *output, size_t count, int32_t type, int32_t from, nccl_handle handle,                   \
     cuda_stream stream))

#define NCCL_MEMBER(member, symbol, type, parameters) type(*member) parameters;
typedef struct nccl_functions {
  NCCL_FUNCTIONS(NCCL_MEMBER)
} nccl_functions;

#endif
