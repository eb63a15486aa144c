/* SPDX-License-Identifier: MIT */
/* Compares the declarations of NVIDIA's libraries in backends/cuda with the vendor's headers, where
 * they are installed (CMake finds them: HAVE_…). Compiling this file checks every constant and
 * struct. Running it checks the libraries' behaviour without a GPU. */
#include <dlfcn.h>
#include <string.h>

#include "../../backends/cuda/cublas.h"
#include "../../backends/cuda/cudnn.h"
#include "../../backends/cuda/driver.h"
#include "../../backends/cuda/nccl.h"
#include "support/harness/test.h"

#define IS(ours, theirs)        _Static_assert((int)(ours) == (int)(theirs), #ours)
#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #ours)
#define SAME_PLACE(ours, member, theirs, other)                                                    \
  _Static_assert(offsetof(ours, member) == offsetof(theirs, other), #ours "." #member)

/* ---- The driver ---------------------------------------------------------------------------- */

#ifdef HAVE_CUDA_H
#include <cuda.h>
IS(CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
IS(CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
IS(CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
IS(CUDA_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
IS(CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
IS(CUDA_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE);
IS(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
IS(CUDA_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
IS(CUDA_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
IS(CUDA_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
IS(CUDA_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
IS(CUDA_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
IS(CUDA_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
IS(CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
IS(CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
IS(CUDA_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
IS(CUDA_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
IS(CUDA_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
IS(CUDA_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
IS(CUDA_HOST_MEMORY_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
IS(CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
IS(CUDA_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
IS(CUDA_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
IS(CUDA_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
IS(CUDA_GRAPH_EXEC_UPDATE_FAILURE, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
IS(CUDA_UNKNOWN, CUDA_ERROR_UNKNOWN);
IS(CUDA_MAX_THREADS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
IS(CUDA_MAX_BLOCK_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
IS(CUDA_MAX_BLOCK_Y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
IS(CUDA_MAX_BLOCK_Z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
IS(CUDA_SHARED_BYTES_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
IS(CUDA_WARP_SIZE, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
IS(CUDA_CLOCK_RATE, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
IS(CUDA_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
IS(CUDA_KERNEL_TIMEOUT, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT);
IS(CUDA_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED);
IS(CUDA_CAN_MAP_HOST_MEMORY, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
IS(CUDA_COMPUTE_MODE, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
IS(CUDA_CONCURRENT_KERNELS, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
IS(CUDA_ECC_ENABLED, CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
IS(CUDA_PCI_BUS, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
IS(CUDA_PCI_DEVICE, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
IS(CUDA_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
IS(CUDA_ASYNC_ENGINES, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
IS(CUDA_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
IS(CUDA_PCI_DOMAIN, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
IS(CUDA_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
IS(CUDA_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
IS(CUDA_MANAGED_MEMORY, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
IS(CUDA_PAGEABLE_MEMORY_ACCESS, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
IS(CUDA_CONCURRENT_MANAGED_ACCESS, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
IS(CUDA_SHARED_BYTES_PER_BLOCK_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
IS(CUDA_HOST_REGISTER_SUPPORTED, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
IS(CUDA_MEMORY_POOLS_SUPPORTED, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
IS(CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
IS(CUDA_EVENT_DEFAULT, CU_EVENT_DEFAULT);
IS(CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
IS(CUDA_HOST_ALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
IS(CUDA_HOST_ALLOC_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP);
IS(CUDA_POOL_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
IS(CUDA_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
IS(CUDA_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
IS(CUDA_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
IS(CUDA_FUNCTION_MAX_THREADS, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
IS(CUDA_FUNCTION_SHARED_BYTES, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
IS(CUDA_FUNCTION_MAX_DYNAMIC_SHARED_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
IS(CUDA_COMPUTE_MODE_PROHIBITED, CU_COMPUTEMODE_PROHIBITED);
IS(CUDA_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
IS(CUDA_POINTER_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
IS(CUDA_POINTER_HOST_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER);
IS(CUDA_POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
IS(CUDA_MEMORY_TYPE_HOST, CU_MEMORYTYPE_HOST);
IS(CUDA_MEMORY_TYPE_DEVICE, CU_MEMORYTYPE_DEVICE);
IS(CUDA_OK, CUDA_SUCCESS);
SAME_SIZE(cuda_result, CUresult);
SAME_SIZE(cuda_device_id, CUdevice);
SAME_SIZE(cuda_pointer, CUdeviceptr);
SAME_SIZE(cuda_uuid, CUuuid);
SAME_SIZE(cuda_memory_location, CUmemLocation);
SAME_PLACE(cuda_memory_location, type, CUmemLocation, type);
SAME_PLACE(cuda_memory_location, id, CUmemLocation, id);
SAME_SIZE(cuda_memory_access, CUmemAccessDesc);
SAME_PLACE(cuda_memory_access, flags, CUmemAccessDesc, flags);
SAME_SIZE(cuda_memory_pool_properties, CUmemPoolProps);
SAME_PLACE(cuda_memory_pool_properties, handle_types, CUmemPoolProps, handleTypes);
SAME_PLACE(cuda_memory_pool_properties, location, CUmemPoolProps, location);
SAME_PLACE(cuda_memory_pool_properties, security_attributes, CUmemPoolProps,
           win32SecurityAttributes);
SAME_PLACE(cuda_memory_pool_properties, maximum_size, CUmemPoolProps, maxSize);
SAME_SIZE(cuda_kernel_node_parameters, CUDA_KERNEL_NODE_PARAMS);
SAME_PLACE(cuda_kernel_node_parameters, grid, CUDA_KERNEL_NODE_PARAMS, gridDimX);
SAME_PLACE(cuda_kernel_node_parameters, block, CUDA_KERNEL_NODE_PARAMS, blockDimX);
SAME_PLACE(cuda_kernel_node_parameters, shared_bytes, CUDA_KERNEL_NODE_PARAMS, sharedMemBytes);
SAME_PLACE(cuda_kernel_node_parameters, parameters, CUDA_KERNEL_NODE_PARAMS, kernelParams);
SAME_PLACE(cuda_kernel_node_parameters, extra, CUDA_KERNEL_NODE_PARAMS, extra);
SAME_PLACE(cuda_kernel_node_parameters, kernel, CUDA_KERNEL_NODE_PARAMS, kern);
SAME_PLACE(cuda_kernel_node_parameters, context, CUDA_KERNEL_NODE_PARAMS, ctx);
#endif

#ifdef HAVE_NVRTC_H
#include <nvrtc.h>
IS(NVRTC_OK, NVRTC_SUCCESS);
IS(NVRTC_OUT_OF_MEMORY, NVRTC_ERROR_OUT_OF_MEMORY);
IS(NVRTC_INVALID_OPTION, NVRTC_ERROR_INVALID_OPTION);
IS(NVRTC_COMPILATION, NVRTC_ERROR_COMPILATION);
IS(NVRTC_BUILTIN_FAILURE, NVRTC_ERROR_BUILTIN_OPERATION_FAILURE);
SAME_SIZE(nvrtc_result, nvrtcResult);
#endif

/* ---- cuBLASLt ------------------------------------------------------------------------------ */

#ifdef HAVE_CUBLASLT_H
#include <cublasLt.h>
IS(CUBLAS_OK, CUBLAS_STATUS_SUCCESS);
IS(CUBLAS_NO_CONTEXT, CUBLAS_STATUS_NOT_INITIALIZED);
IS(CUBLAS_NO_MEMORY, CUBLAS_STATUS_ALLOC_FAILED);
IS(CUBLAS_INVALID, CUBLAS_STATUS_INVALID_VALUE);
IS(CUBLAS_ARCHITECTURE, CUBLAS_STATUS_ARCH_MISMATCH);
IS(CUBLAS_EXECUTION, CUBLAS_STATUS_EXECUTION_FAILED);
IS(CUBLAS_INTERNAL, CUBLAS_STATUS_INTERNAL_ERROR);
IS(CUBLAS_UNSUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
IS(CUBLAS_TYPE_F32, CUDA_R_32F);
IS(CUBLAS_TYPE_F64, CUDA_R_64F);
IS(CUBLAS_TYPE_F16, CUDA_R_16F);
IS(CUBLAS_TYPE_BF16, CUDA_R_16BF);
IS(CUBLAS_BY_F32, CUBLAS_COMPUTE_32F);
IS(CUBLAS_BY_F64, CUBLAS_COMPUTE_64F);
IS(CUBLAS_BY_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
IS(CUBLAS_AS_IT_IS, CUBLAS_OP_N);
IS(CUBLAS_TRANSPOSED, CUBLAS_OP_T);
IS(CUBLAS_OPERATION_TRANSPOSE_A, CUBLASLT_MATMUL_DESC_TRANSA);
IS(CUBLAS_OPERATION_TRANSPOSE_B, CUBLASLT_MATMUL_DESC_TRANSB);
IS(CUBLAS_OPERATION_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
IS(CUBLAS_OPERATION_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
IS(CUBLAS_OPERATION_BIAS_TYPE, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
IS(CUBLAS_LAYOUT_BATCHES, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
IS(CUBLAS_LAYOUT_DISTANCE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
IS(CUBLAS_PREFERENCE_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
IS(CUBLAS_PREFERENCE_REDUCTION, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
IS(CUBLAS_PREFERENCE_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
IS(CUBLAS_PREFERENCE_ALIGNMENT_A + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
IS(CUBLAS_PREFERENCE_ALIGNMENT_A + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
IS(CUBLAS_PREFERENCE_ALIGNMENT_A + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
IS(CUBLAS_REDUCTION_BY_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
IS(CUBLAS_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT);
IS(CUBLAS_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU);
IS(CUBLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
IS(CUBLAS_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU);
IS(CUBLAS_EPILOGUE_RELU | CUBLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS);
IS(CUBLAS_EPILOGUE_GELU | CUBLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS);
SAME_SIZE(cublas_operation, cublasLtMatmulDescOpaque_t);
SAME_SIZE(cublas_layout, cublasLtMatrixLayoutOpaque_t);
SAME_SIZE(cublas_preference, cublasLtMatmulPreferenceOpaque_t);
SAME_SIZE(cublas_algorithm, cublasLtMatmulAlgo_t);
SAME_SIZE(cublas_proposal, cublasLtMatmulHeuristicResult_t);
SAME_PLACE(cublas_proposal, workspace_bytes, cublasLtMatmulHeuristicResult_t, workspaceSize);
SAME_PLACE(cublas_proposal, state, cublasLtMatmulHeuristicResult_t, state);
SAME_PLACE(cublas_proposal, waves, cublasLtMatmulHeuristicResult_t, wavesCount);
SAME_SIZE(int32_t, cublasStatus_t);
SAME_SIZE(int32_t, cudaDataType);
#endif

/* ---- cuDNN --------------------------------------------------------------------------------- */

#ifdef HAVE_CUDNN_H
#include <cudnn_graph.h>
IS(CUDNN_OK, CUDNN_STATUS_SUCCESS);
IS(CUDNN_BAD_PARAMETER, CUDNN_STATUS_BAD_PARAM);
IS(CUDNN_UNSUPPORTED, CUDNN_STATUS_NOT_SUPPORTED);
IS(CUDNN_INTERNAL, CUDNN_STATUS_INTERNAL_ERROR);
IS(CUDNN_HOST_MEMORY, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
IS(CUDNN_DEVICE_MEMORY, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
IS(CUDNN_EXECUTION, CUDNN_STATUS_EXECUTION_FAILED);
IS(CUDNN_F32, CUDNN_DATA_FLOAT);
IS(CUDNN_F64, CUDNN_DATA_DOUBLE);
IS(CUDNN_F16, CUDNN_DATA_HALF);
IS(CUDNN_BF16, CUDNN_DATA_BFLOAT16);
IS(CUDNN_MODE_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION);
IS(CUDNN_HEURISTICS_FALLBACK, CUDNN_HEUR_MODE_FALLBACK);
IS(CUDNN_HEURISTICS_A, CUDNN_HEUR_MODE_A);
IS(CUDNN_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
IS(CUDNN_NOTE_DOWN_CONVERT, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
IS(CUDNN_NOTE_REDUCED_REDUCTION, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
IS(CUDNN_NOTE_FFT, CUDNN_NUMERICAL_NOTE_FFT);
IS(CUDNN_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
IS(CUDNN_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD);
IS(CUDNN_NOTE_WINOGRAD_4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4);
IS(CUDNN_NOTE_WINOGRAD_6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6);
IS(CUDNN_NOTE_WINOGRAD_13, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
IS(CUDNN_IS_HANDLE, CUDNN_TYPE_HANDLE);
IS(CUDNN_IS_DATA_TYPE, CUDNN_TYPE_DATA_TYPE);
IS(CUDNN_IS_INT64, CUDNN_TYPE_INT64);
IS(CUDNN_IS_FLOAT, CUDNN_TYPE_FLOAT);
IS(CUDNN_IS_DOUBLE, CUDNN_TYPE_DOUBLE);
IS(CUDNN_IS_POINTER, CUDNN_TYPE_VOID_PTR);
IS(CUDNN_IS_CONVOLUTION_MODE, CUDNN_TYPE_CONVOLUTION_MODE);
IS(CUDNN_IS_HEURISTICS, CUDNN_TYPE_HEUR_MODE);
IS(CUDNN_IS_NOTE, CUDNN_TYPE_NUMERICAL_NOTE);
IS(CUDNN_IS_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR);
IS(CUDNN_KIND_CONVOLUTION, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
IS(CUDNN_KIND_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
IS(CUDNN_KIND_ENGINE_SETTINGS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
IS(CUDNN_KIND_HEURISTICS, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
IS(CUDNN_KIND_PLAN, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
IS(CUDNN_KIND_FORWARD, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
IS(CUDNN_KIND_BY_FILTER, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
IS(CUDNN_KIND_BY_DATA, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
IS(CUDNN_KIND_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
IS(CUDNN_KIND_BINDINGS, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
IS(CUDNN_KIND_TENSOR, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
IS(CUDNN_CONVOLUTION_TYPE, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
IS(CUDNN_CONVOLUTION_MODE, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
IS(CUDNN_CONVOLUTION_DILATION, CUDNN_ATTR_CONVOLUTION_DILATIONS);
IS(CUDNN_CONVOLUTION_STRIDE, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
IS(CUDNN_CONVOLUTION_PADDING_AFTER, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
IS(CUDNN_CONVOLUTION_PADDING, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
IS(CUDNN_CONVOLUTION_RANK, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
IS(CUDNN_HEURISTICS_MODE, CUDNN_ATTR_ENGINEHEUR_MODE);
IS(CUDNN_HEURISTICS_GRAPH, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
IS(CUDNN_HEURISTICS_RESULTS, CUDNN_ATTR_ENGINEHEUR_RESULTS);
IS(CUDNN_SETTINGS_ENGINE, CUDNN_ATTR_ENGINECFG_ENGINE);
IS(CUDNN_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
IS(CUDNN_PLAN_SETTINGS, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
IS(CUDNN_PLAN_WORKSPACE, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
IS(CUDNN_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
IS(CUDNN_FORWARD_ALPHA + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
IS(CUDNN_FORWARD_ALPHA + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
IS(CUDNN_FORWARD_ALPHA + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
IS(CUDNN_FORWARD_ALPHA + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
IS(CUDNN_FORWARD_ALPHA + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
IS(CUDNN_BY_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
IS(CUDNN_BY_DATA_ALPHA + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
IS(CUDNN_BY_DATA_ALPHA + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
IS(CUDNN_BY_DATA_ALPHA + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
IS(CUDNN_BY_DATA_ALPHA + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
IS(CUDNN_BY_DATA_ALPHA + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
IS(CUDNN_BY_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
IS(CUDNN_BY_FILTER_ALPHA + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
IS(CUDNN_BY_FILTER_ALPHA + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
IS(CUDNN_BY_FILTER_ALPHA + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
IS(CUDNN_BY_FILTER_ALPHA + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
IS(CUDNN_BY_FILTER_ALPHA + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
IS(CUDNN_GRAPH_HANDLE, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
IS(CUDNN_GRAPH_OPERATIONS, CUDNN_ATTR_OPERATIONGRAPH_OPS);
IS(CUDNN_TENSOR_ALIGNMENT, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
IS(CUDNN_TENSOR_TYPE, CUDNN_ATTR_TENSOR_DATA_TYPE);
IS(CUDNN_TENSOR_SIZES, CUDNN_ATTR_TENSOR_DIMENSIONS);
IS(CUDNN_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_STRIDES);
IS(CUDNN_TENSOR_NAME, CUDNN_ATTR_TENSOR_UNIQUE_ID);
IS(CUDNN_BINDINGS_NAMES, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
IS(CUDNN_BINDINGS_POINTERS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
IS(CUDNN_BINDINGS_WORKSPACE, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
IS(CUDNN_ENGINE_INDEX, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
IS(CUDNN_ENGINE_NOTES, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
_Static_assert((int)CUDNN_NOTES >= (int)CUDNN_NUMERICAL_NOTE_TYPE_COUNT, "room for all notes");
SAME_SIZE(int32_t, cudnnStatus_t);
SAME_SIZE(int32_t, cudnnBackendAttributeName_t);
SAME_SIZE(cudnn_descriptor, cudnnBackendDescriptor_t);
#endif

/* ---- NCCL ---------------------------------------------------------------------------------- */

#ifdef HAVE_NCCL_H
#include <nccl.h>
IS(NCCL_OK, ncclSuccess);
IS(NCCL_CUDA_ERROR, ncclUnhandledCudaError);
IS(NCCL_SYSTEM_ERROR, ncclSystemError);
IS(NCCL_INTERNAL_ERROR, ncclInternalError);
IS(NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
IS(NCCL_INVALID_USAGE, ncclInvalidUsage);
IS(NCCL_REMOTE_ERROR, ncclRemoteError);
IS(NCCL_IN_PROGRESS, ncclInProgress);
IS(NCCL_INT8, ncclInt8);
IS(NCCL_UINT8, ncclUint8);
IS(NCCL_INT32, ncclInt32);
IS(NCCL_UINT32, ncclUint32);
IS(NCCL_INT64, ncclInt64);
IS(NCCL_UINT64, ncclUint64);
IS(NCCL_FLOAT16, ncclFloat16);
IS(NCCL_FLOAT32, ncclFloat32);
IS(NCCL_FLOAT64, ncclFloat64);
IS(NCCL_BFLOAT16, ncclBfloat16);
IS(NCCL_SUM, ncclSum);
IS(NCCL_MAX, ncclMax);
IS(NCCL_MIN, ncclMin);
IS(NCCL_AVERAGE, ncclAvg);
IS(NCCL_OLDEST, NCCL_VERSION(2, 14, 0));
SAME_SIZE(nccl_id, ncclUniqueId);
SAME_SIZE(nccl_result, ncclResult_t);
SAME_PLACE(nccl_config, size, ncclConfig_t, size);
SAME_PLACE(nccl_config, magic, ncclConfig_t, magic);
SAME_PLACE(nccl_config, version, ncclConfig_t, version);
SAME_PLACE(nccl_config, blocking, ncclConfig_t, blocking);
#endif

#ifdef HAVE_CUDA_H
#define CUDA_H_THERE true
#else
#define CUDA_H_THERE false
#endif
#ifdef HAVE_NVRTC_H
#define NVRTC_H_THERE true
#else
#define NVRTC_H_THERE false
#endif
#ifdef HAVE_CUBLASLT_H
#define CUBLASLT_H_THERE true
#else
#define CUBLASLT_H_THERE false
#endif
#ifdef HAVE_CUDNN_H
#define CUDNN_H_THERE true
#else
#define CUDNN_H_THERE false
#endif
#ifdef HAVE_NCCL_H
#define NCCL_H_THERE true
#else
#define NCCL_H_THERE false
#endif

static void what_is_declared_agrees_with_the_headers(void **state) {
  (void)state;
  static const struct {
    const char *name;
    bool there;
  } headers[] = {{"cuda.h", CUDA_H_THERE},
                 {"nvrtc.h", NVRTC_H_THERE},
                 {"cublasLt.h", CUBLASLT_H_THERE},
                 {"cudnn_graph.h", CUDNN_H_THERE},
                 {"nccl.h", NCCL_H_THERE}};
  int there = 0;
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    print_message("%s %s\n", headers[i].name, headers[i].there ? "agrees" : "is not installed");
    there += headers[i].there;
  }
  if (there == 0) test_skip("no header of NVIDIA's is installed");
}

/* ---- The real libraries -------------------------------------------------------------------- */

typedef struct function_row {
  const char *name;
  size_t offset;
} function_row;

/* Opens a library from the toolkit's folder: other search paths find the stand-ins first. */
static bool open_real(const char *path, const function_row *rows, size_t count, void *functions) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return false;
  for (size_t i = 0; i < count; i++) {
    void *address = dlsym(handle, rows[i].name);
    if (!address) fail_msg("%s lacks %s", path, rows[i].name);
    memcpy((char *)functions + rows[i].offset, &address, sizeof address);
  }
  return true;
}

#define BLAS_ROW(member, symbol, type, parameters) {#symbol, offsetof(cublas_functions, member)},
#define DNN_ROW(member, symbol, type, parameters)  {#symbol, offsetof(cudnn_functions, member)},

static void cublaslt_takes_our_descriptors(void **state) {
  (void)state;
  static const function_row rows[] = {CUBLAS_FUNCTIONS(BLAS_ROW)};
  cublas_functions f;
  cublas_operation operation;
  cublas_layout layout;
  cublas_preference preference;
  if (!open_real("/usr/local/cuda/lib64/libcublasLt.so.13", rows, sizeof rows / sizeof *rows, &f) &&
      !open_real("/usr/local/cuda/lib64/libcublasLt.so.12", rows, sizeof rows / sizeof *rows, &f))
    test_skip("the library is not installed");
  assert_true(f.version() >= 120000);
  assert_int_equal(f.layout_init(&layout, sizeof layout, CUBLAS_TYPE_F16, 8, 4, 8), CUBLAS_OK);
  const int32_t batches = 3, transposed = CUBLAS_TRANSPOSED, type = CUBLAS_TYPE_F16;
  const int32_t epilogue = CUBLAS_EPILOGUE_GELU | CUBLAS_EPILOGUE_BIAS;
  const int64_t distance = 32;
  const uint64_t bytes = 1 << 20;
  const uint32_t alignment = 16, reduction = CUBLAS_REDUCTION_BY_COMPUTE_TYPE;
  const void *bias = &f;
  assert_int_equal(f.layout_set(&layout, CUBLAS_LAYOUT_BATCHES, &batches, sizeof batches), 0);
  assert_int_equal(f.layout_set(&layout, CUBLAS_LAYOUT_DISTANCE, &distance, sizeof distance), 0);
  assert_int_equal(f.operation_init(&operation, sizeof operation, CUBLAS_BY_F32, CUBLAS_TYPE_F32),
                   0);
  for (int i = 0; i < 2; i++)
    assert_int_equal(f.operation_set(&operation, CUBLAS_OPERATION_TRANSPOSE_A + i, &transposed,
                                     sizeof transposed),
                     0);
  assert_int_equal(
      f.operation_set(&operation, CUBLAS_OPERATION_EPILOGUE, &epilogue, sizeof epilogue), 0);
  assert_int_equal(f.operation_set(&operation, CUBLAS_OPERATION_BIAS, &bias, sizeof bias), 0);
  assert_int_equal(f.operation_set(&operation, CUBLAS_OPERATION_BIAS_TYPE, &type, sizeof type), 0);
  assert_int_equal(f.preference_init(&preference, sizeof preference), 0);
  assert_int_equal(f.preference_set(&preference, CUBLAS_PREFERENCE_WORKSPACE, &bytes, sizeof bytes),
                   0);
  assert_int_equal(
      f.preference_set(&preference, CUBLAS_PREFERENCE_REDUCTION, &reduction, sizeof reduction), 0);
  for (int i = 0; i < 4; i++)
    assert_int_equal(f.preference_set(&preference, CUBLAS_PREFERENCE_ALIGNMENT_A + i, &alignment,
                                      sizeof alignment),
                     0);
}

static void cudnn_takes_our_descriptors(void **state) {
  (void)state;
  static const function_row rows[] = {CUDNN_FUNCTIONS(DNN_ROW)};
  cudnn_functions f;
  if (!open_real("/usr/local/cuda/lib64/libcudnn.so.9", rows, sizeof rows / sizeof *rows, &f))
    test_skip("the library is not installed");
  assert_true(f.version() >= 90000);
  const int64_t sizes[4] = {2, 3, 8, 8}, strides[4] = {192, 64, 8, 1}, name = 1, alignment = 16;
  const int64_t two = 2, ones[2] = {1, 1};
  const int32_t type = CUDNN_F32, mode = CUDNN_MODE_CROSS_CORRELATION;
  cudnn_descriptor tensor = NULL, convolution = NULL;
  assert_int_equal(f.describe(CUDNN_KIND_TENSOR, &tensor), CUDNN_OK);
  assert_int_equal(f.set(tensor, CUDNN_TENSOR_TYPE, CUDNN_IS_DATA_TYPE, 1, &type), 0);
  assert_int_equal(f.set(tensor, CUDNN_TENSOR_SIZES, CUDNN_IS_INT64, 4, sizes), 0);
  assert_int_equal(f.set(tensor, CUDNN_TENSOR_STRIDES, CUDNN_IS_INT64, 4, strides), 0);
  assert_int_equal(f.set(tensor, CUDNN_TENSOR_NAME, CUDNN_IS_INT64, 1, &name), 0);
  assert_int_equal(f.set(tensor, CUDNN_TENSOR_ALIGNMENT, CUDNN_IS_INT64, 1, &alignment), 0);
  assert_int_equal(f.finalize(tensor), 0);
  assert_int_equal(f.describe(CUDNN_KIND_CONVOLUTION, &convolution), 0);
  assert_int_equal(f.set(convolution, CUDNN_CONVOLUTION_RANK, CUDNN_IS_INT64, 1, &two), 0);
  assert_int_equal(f.set(convolution, CUDNN_CONVOLUTION_TYPE, CUDNN_IS_DATA_TYPE, 1, &type), 0);
  assert_int_equal(f.set(convolution, CUDNN_CONVOLUTION_MODE, CUDNN_IS_CONVOLUTION_MODE, 1, &mode),
                   0);
  assert_int_equal(f.set(convolution, CUDNN_CONVOLUTION_PADDING, CUDNN_IS_INT64, 2, ones), 0);
  assert_int_equal(f.set(convolution, CUDNN_CONVOLUTION_PADDING_AFTER, CUDNN_IS_INT64, 2, ones), 0);
  assert_int_equal(f.set(convolution, CUDNN_CONVOLUTION_DILATION, CUDNN_IS_INT64, 2, ones), 0);
  assert_int_equal(f.set(convolution, CUDNN_CONVOLUTION_STRIDE, CUDNN_IS_INT64, 2, ones), 0);
  assert_int_equal(f.finalize(convolution), 0);
  assert_int_equal(f.forget(convolution), 0);
  assert_int_equal(f.forget(tensor), 0);
}

#define NCCL_ROW(member, symbol, type, parameters) {#symbol, offsetof(nccl_functions, member)},

static void nccl_has_what_is_called(void **state) {
  (void)state;
  static const function_row rows[] = {NCCL_FUNCTIONS(NCCL_ROW)};
  nccl_functions f;
  int32_t version = 0;
  if (!open_real("libnccl.so.2", rows, sizeof rows / sizeof *rows, &f))
    test_skip("the library is not installed");
  assert_int_equal(f.version(&version), NCCL_OK);
  assert_true(version >= NCCL_OLDEST);
  assert_non_null(strstr(f.error_text(NCCL_REMOTE_ERROR), "remote"));
  assert_non_null(f.last_error(NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_declared_agrees_with_the_headers),
      cmocka_unit_test(cublaslt_takes_our_descriptors),
      cmocka_unit_test(cudnn_takes_our_descriptors),
      cmocka_unit_test(nccl_has_what_is_called),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
