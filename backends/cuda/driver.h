/* SPDX-License-Identifier: MIT */
/* The CUDA driver (libcuda.so.1) and its compiler NVRTC, opened at run time. This header declares
 * types, constants and prototypes, so a build needs no toolkit. Each function is requested in the
 * interface version of its prototype, whatever driver is installed. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/backend.h"

/* ---- Types --------------------------------------------------------------------------------- */

typedef int32_t cuda_result; /* CUresult; 0 is success */
typedef int32_t cuda_device_id;
typedef uint64_t cuda_pointer; /* CUdeviceptr */
typedef struct CUctx_st *cuda_context;
typedef struct CUmod_st *cuda_module;
typedef struct CUfunc_st *cuda_function;
typedef struct CUstream_st *cuda_stream;
typedef struct CUevent_st *cuda_event;
typedef struct CUgraph_st *cuda_graph;
typedef struct CUgraphExec_st *cuda_graph_executable;
typedef struct CUgraphNode_st *cuda_graph_node;
typedef struct CUmemPoolHandle_st *cuda_memory_pool;

typedef struct cuda_uuid {
  char bytes[16];
} cuda_uuid;

/* CUmemLocation and CUmemPoolProps. */
typedef struct cuda_memory_location {
  int32_t type, id;
} cuda_memory_location;

typedef struct cuda_memory_pool_properties {
  int32_t allocation_type, handle_types;
  cuda_memory_location location;
  void *security_attributes;
  size_t maximum_size;
  uint16_t usage;
  unsigned char reserved[54];
} cuda_memory_pool_properties;

/* CUmemAccessDesc. */
typedef struct cuda_memory_access {
  cuda_memory_location location;
  int32_t flags;
} cuda_memory_access;

/* CUDA_KERNEL_NODE_PARAMS, version 2. */
typedef struct cuda_kernel_node_parameters {
  cuda_function function;
  uint32_t grid[3], block[3], shared_bytes;
  void **parameters, **extra;
  void *kernel;
  cuda_context context;
} cuda_kernel_node_parameters;

enum {
  CUDA_HOST_MEMORY_SHORT = -1, /* ours: the loader ran out of memory; the driver's code may mean GPU
                                * memory */
  CUDA_OK = 0,
  CUDA_INVALID_VALUE = 1,
  CUDA_OUT_OF_MEMORY = 2,
  CUDA_NOT_INITIALIZED = 3,
  CUDA_DEINITIALIZED = 4,
  CUDA_STUB_LIBRARY = 34,
  CUDA_DEVICE_UNAVAILABLE = 46,
  CUDA_NO_DEVICE = 100,
  CUDA_INVALID_DEVICE = 101,
  CUDA_INVALID_IMAGE = 200,
  CUDA_NO_BINARY_FOR_GPU = 209,
  CUDA_ECC_UNCORRECTABLE = 214,
  CUDA_INVALID_PTX = 218,
  CUDA_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_NOT_FOUND = 500,
  CUDA_NOT_READY = 600,
  CUDA_ILLEGAL_ADDRESS = 700,
  CUDA_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_LAUNCH_TIMEOUT = 702,
  CUDA_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_NOT_SUPPORTED = 801,
  CUDA_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_GRAPH_EXEC_UPDATE_FAILURE = 910,
  CUDA_UNKNOWN = 999
};

/* CUdevice_attribute. */
enum {
  CUDA_MAX_THREADS_PER_BLOCK = 1,
  CUDA_MAX_BLOCK_X = 2,
  CUDA_MAX_BLOCK_Y = 3,
  CUDA_MAX_BLOCK_Z = 4,
  CUDA_SHARED_BYTES_PER_BLOCK = 8,
  CUDA_WARP_SIZE = 10,
  CUDA_CLOCK_RATE = 13,
  CUDA_MULTIPROCESSORS = 16,
  CUDA_KERNEL_TIMEOUT = 17,
  CUDA_INTEGRATED = 18,
  CUDA_CAN_MAP_HOST_MEMORY = 19,
  CUDA_COMPUTE_MODE = 20,
  CUDA_CONCURRENT_KERNELS = 31,
  CUDA_ECC_ENABLED = 32,
  CUDA_PCI_BUS = 33,
  CUDA_PCI_DEVICE = 34,
  CUDA_MEMORY_CLOCK_RATE = 36, /* in kHz, like CUDA_CLOCK_RATE */
  CUDA_MEMORY_BUS_BITS = 37,
  CUDA_L2_BYTES = 38,
  CUDA_ASYNC_ENGINES = 40,
  CUDA_UNIFIED_ADDRESSING = 41,
  CUDA_PCI_DOMAIN = 50,
  CUDA_CAPABILITY_MAJOR = 75,
  CUDA_CAPABILITY_MINOR = 76,
  CUDA_MANAGED_MEMORY = 83,
  CUDA_PAGEABLE_MEMORY_ACCESS = 88,
  CUDA_CONCURRENT_MANAGED_ACCESS = 89,
  CUDA_SHARED_BYTES_PER_BLOCK_OPTIN = 97,
  CUDA_HOST_REGISTER_SUPPORTED = 99,
  CUDA_MEMORY_POOLS_SUPPORTED = 115
};

enum {
  CUDA_STREAM_NON_BLOCKING = 1,
  CUDA_EVENT_DEFAULT = 0,
  CUDA_EVENT_DISABLE_TIMING = 2,
  CUDA_HOST_ALLOC_PORTABLE = 1,
  CUDA_HOST_ALLOC_MAPPED = 2,
  CUDA_POOL_RELEASE_THRESHOLD = 4, /* CUmemPool_attribute */
  CUDA_ALLOCATION_PINNED = 1,      /* CUmemAllocationType */
  CUDA_LOCATION_DEVICE = 1,        /* CUmemLocationType */
  CUDA_ACCESS_READ_WRITE = 3,      /* CUmemAccess_flags */
  CUDA_FUNCTION_MAX_THREADS = 0,   /* CUfunction_attribute */
  CUDA_FUNCTION_SHARED_BYTES = 1,
  CUDA_FUNCTION_MAX_DYNAMIC_SHARED_BYTES = 8,
  CUDA_COMPUTE_MODE_PROHIBITED = 2,
  CUDA_POINTER_MEMORY_TYPE = 2, /* CUpointer_attribute */
  CUDA_POINTER_DEVICE_POINTER = 3,
  CUDA_POINTER_HOST_POINTER = 4,
  CUDA_POINTER_DEVICE_ORDINAL = 9,
  CUDA_MEMORY_TYPE_HOST = 1, /* CUmemorytype */
  CUDA_MEMORY_TYPE_DEVICE = 2
};

/* ---- Functions ----------------------------------------------------------------------------- */

/* X(member, symbol, version, parameters): the version that introduced this form of the function,
 * 1000 · major + 10 · minor. */
#define CUDA_FUNCTIONS(X)                                                                          \
  X(init, cuInit, 2000, (uint32_t flags))                                                          \
  X(driver_version, cuDriverGetVersion, 2020, (int32_t * version))                                 \
  X(error_name, cuGetErrorName, 6000, (cuda_result code, const char **name))                       \
  X(error_text, cuGetErrorString, 6000, (cuda_result code, const char **text))                     \
  X(device_count, cuDeviceGetCount, 2000, (int32_t * count))                                       \
  X(device_get, cuDeviceGet, 2000, (cuda_device_id * device, int32_t ordinal))                     \
  X(device_name, cuDeviceGetName, 2000, (char *name, int32_t bytes, cuda_device_id device))        \
  X(device_memory, cuDeviceTotalMem, 3020, (size_t * bytes, cuda_device_id device))                \
  X(device_attribute, cuDeviceGetAttribute, 2000,                                                  \
    (int32_t * value, int32_t attribute, cuda_device_id device))                                   \
  X(context_retain, cuDevicePrimaryCtxRetain, 7000,                                                \
    (cuda_context * context, cuda_device_id device))                                               \
  X(context_release, cuDevicePrimaryCtxRelease, 11000, (cuda_device_id device))                    \
  X(context_set, cuCtxSetCurrent, 4000, (cuda_context context))                                    \
  X(context_get, cuCtxGetCurrent, 4000, (cuda_context * context))                                  \
  X(memory_info, cuMemGetInfo, 3020, (size_t * available, size_t * total))                         \
  X(memory_allocate, cuMemAlloc, 3020, (cuda_pointer * pointer, size_t bytes))                     \
  X(memory_free, cuMemFree, 3020, (cuda_pointer pointer))                                          \
  X(host_allocate, cuMemHostAlloc, 2020, (void **pointer, size_t bytes, uint32_t flags))           \
  X(host_free, cuMemFreeHost, 2000, (void *pointer))                                               \
  X(host_register, cuMemHostRegister, 6050, (void *pointer, size_t bytes, uint32_t flags))         \
  X(host_unregister, cuMemHostUnregister, 4000, (void *pointer))                                   \
  X(host_device_pointer, cuMemHostGetDevicePointer, 3020,                                          \
    (cuda_pointer * device, void *host, uint32_t flags))                                           \
  X(pointer_attributes, cuPointerGetAttributes, 7000,                                              \
    (uint32_t count, int32_t * attributes, void **values, cuda_pointer pointer))                   \
  X(copy_to_device, cuMemcpyHtoDAsync, 3020,                                                       \
    (cuda_pointer to, const void *from, size_t bytes, cuda_stream stream))                         \
  X(copy_to_host, cuMemcpyDtoHAsync, 3020,                                                         \
    (void *to, cuda_pointer from, size_t bytes, cuda_stream stream))                               \
  X(copy_on_device, cuMemcpyDtoDAsync, 3020,                                                       \
    (cuda_pointer to, cuda_pointer from, size_t bytes, cuda_stream stream))                        \
  X(copy_to_peer, cuMemcpyPeerAsync, 4000,                                                         \
    (cuda_pointer to, cuda_context to_context, cuda_pointer from, cuda_context from_context,       \
     size_t bytes, cuda_stream stream))                                                            \
  X(set_words, cuMemsetD32Async, 3020,                                                             \
    (cuda_pointer to, uint32_t value, size_t count, cuda_stream stream))                           \
  X(stream_create, cuStreamCreate, 2000, (cuda_stream * stream, uint32_t flags))                   \
  X(stream_destroy, cuStreamDestroy, 4000, (cuda_stream stream))                                   \
  X(stream_wait, cuStreamSynchronize, 2000, (cuda_stream stream))                                  \
  X(stream_wait_event, cuStreamWaitEvent, 3020,                                                    \
    (cuda_stream stream, cuda_event event, uint32_t flags))                                        \
  X(event_create, cuEventCreate, 2000, (cuda_event * event, uint32_t flags))                       \
  X(event_destroy, cuEventDestroy, 4000, (cuda_event event))                                       \
  X(event_record, cuEventRecord, 2000, (cuda_event event, cuda_stream stream))                     \
  X(event_wait, cuEventSynchronize, 2000, (cuda_event event))                                      \
  X(event_query, cuEventQuery, 2000, (cuda_event event))                                           \
  X(event_elapsed, cuEventElapsedTime, 2000,                                                       \
    (float *milliseconds, cuda_event first, cuda_event last))                                      \
  X(module_load, cuModuleLoadData, 2000, (cuda_module * module, const void *image))                \
  X(module_unload, cuModuleUnload, 2000, (cuda_module module))                                     \
  X(module_function, cuModuleGetFunction, 2000,                                                    \
    (cuda_function * function, cuda_module module, const char *name))                              \
  X(function_attribute, cuFuncGetAttribute, 2020,                                                  \
    (int32_t * value, int32_t attribute, cuda_function function))                                  \
  X(function_set, cuFuncSetAttribute, 9000,                                                        \
    (cuda_function function, int32_t attribute, int32_t value))                                    \
  X(launch, cuLaunchKernel, 4000,                                                                  \
    (cuda_function function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t block_x,  \
     uint32_t block_y, uint32_t block_z, uint32_t shared_bytes, cuda_stream stream,                \
     void **parameters, void **extra))                                                             \
  X(graph_destroy, cuGraphDestroy, 10000, (cuda_graph graph))                                      \
  X(executable_launch, cuGraphLaunch, 10000,                                                       \
    (cuda_graph_executable executable, cuda_stream stream))                                        \
  X(executable_destroy, cuGraphExecDestroy, 10000, (cuda_graph_executable executable))

/* Newer than the oldest supported driver, or not on every device; NULL if the driver lacks them. */
#define CUDA_OPTIONAL_FUNCTIONS(X)                                                                 \
  X(device_uuid, cuDeviceGetUuid, 11040, (cuda_uuid * uuid, cuda_device_id device))                \
  X(pool_create, cuMemPoolCreate, 11020,                                                           \
    (cuda_memory_pool * pool, const cuda_memory_pool_properties *properties))                      \
  X(pool_destroy, cuMemPoolDestroy, 11020, (cuda_memory_pool pool))                                \
  X(pool_set, cuMemPoolSetAttribute, 11020,                                                        \
    (cuda_memory_pool pool, int32_t attribute, void *value))                                       \
  X(pool_access, cuMemPoolSetAccess, 11020,                                                        \
    (cuda_memory_pool pool, const cuda_memory_access *access, size_t count))                       \
  X(pool_trim, cuMemPoolTrimTo, 11020, (cuda_memory_pool pool, size_t keep))                       \
  X(pool_allocate, cuMemAllocFromPoolAsync, 11020,                                                 \
    (cuda_pointer * pointer, size_t bytes, cuda_memory_pool pool, cuda_stream stream))             \
  X(pool_free, cuMemFreeAsync, 11020, (cuda_pointer pointer, cuda_stream stream))                  \
  X(peer_possible, cuDeviceCanAccessPeer, 4000,                                                    \
    (int32_t * possible, cuda_device_id device, cuda_device_id peer))                              \
  X(peer_enable, cuCtxEnablePeerAccess, 4000, (cuda_context peer, uint32_t flags))                 \
  X(function_parameter, cuFuncGetParamInfo, 12040,                                                 \
    (cuda_function function, size_t index, size_t * offset, size_t * bytes))                       \
  X(graph_create, cuGraphCreate, 10000, (cuda_graph * graph, uint32_t flags))                      \
  X(graph_add_kernel, cuGraphAddKernelNode, 12000,                                                 \
    (cuda_graph_node * node, cuda_graph graph, const cuda_graph_node *after, size_t after_count,   \
     const cuda_kernel_node_parameters *parameters))                                               \
  X(graph_instantiate, cuGraphInstantiateWithFlags, 11040,                                         \
    (cuda_graph_executable * executable, cuda_graph graph, uint64_t flags))                        \
  X(executable_set_kernel, cuGraphExecKernelNodeSetParams, 12000,                                  \
    (cuda_graph_executable executable, cuda_graph_node node,                                       \
     const cuda_kernel_node_parameters *parameters))

#define CUDA_MEMBER(member, symbol, version, parameters) cuda_result(*member) parameters;
typedef struct cuda_driver {
  CUDA_FUNCTIONS(CUDA_MEMBER)
  CUDA_OPTIONAL_FUNCTIONS(CUDA_MEMBER)
  int32_t version; /* 13000 for CUDA 13.0 */
} cuda_driver;

/* Returns NULL, with a sentence in `reason`, if there is no driver, the driver does not work, or
 * the parent process started CUDA before it forked. The library stays open until the process ends.
 * Thread-safe. `code` receives the driver's code, CUDA_HOST_MEMORY_SHORT if there was no host
 * memory to load the driver, or 0 if there is no driver to ask. */
const cuda_driver *cuda_driver_load(int32_t *code, char *reason, size_t reason_bytes);

/* ---- NVRTC --------------------------------------------------------------------------------- */

/* NVRTC, NVIDIA's compiler library, opened at run time. Several versions may be installed, and
 * newer ones do not support old GPUs: the newest version that fits the GPU and the driver is used.
 *
 * It is a hundred megabytes large and takes longer to open than a small job to run. So the disk
 * cache stores the properties that were found, and a process that gets all its kernels from the
 * cache never opens the library. */

typedef struct _nvrtcProgram *nvrtc_program;
typedef int32_t nvrtc_result; /* 0 is success */

enum {
  NVRTC_OK = 0,
  NVRTC_OUT_OF_MEMORY = 1,
  NVRTC_INVALID_OPTION = 5,
  NVRTC_COMPILATION = 6,
  NVRTC_BUILTIN_FAILURE = 7
};

/* X(member, symbol, result type, parameters) */
#define NVRTC_FUNCTIONS(X)                                                                         \
  X(version, nvrtcVersion, nvrtc_result, (int *major, int *minor))                                 \
  X(arch_count, nvrtcGetNumSupportedArchs, nvrtc_result, (int *count))                             \
  X(archs, nvrtcGetSupportedArchs, nvrtc_result, (int *archs))                                     \
  X(error_text, nvrtcGetErrorString, const char *, (nvrtc_result code))                            \
  X(create, nvrtcCreateProgram, nvrtc_result,                                                      \
    (nvrtc_program * program, const char *source, const char *name, int header_count,              \
     const char *const *headers, const char *const *header_names))                                 \
  X(destroy, nvrtcDestroyProgram, nvrtc_result, (nvrtc_program * program))                         \
  X(compile, nvrtcCompileProgram, nvrtc_result,                                                    \
    (nvrtc_program program, int option_count, const char *const *options))                         \
  X(log_bytes, nvrtcGetProgramLogSize, nvrtc_result, (nvrtc_program program, size_t * bytes))      \
  X(log, nvrtcGetProgramLog, nvrtc_result, (nvrtc_program program, char *log))                     \
  X(cubin_bytes, nvrtcGetCUBINSize, nvrtc_result, (nvrtc_program program, size_t * bytes))         \
  X(cubin, nvrtcGetCUBIN, nvrtc_result, (nvrtc_program program, char *cubin))                      \
  X(ptx_bytes, nvrtcGetPTXSize, nvrtc_result, (nvrtc_program program, size_t * bytes))             \
  X(ptx, nvrtcGetPTX, nvrtc_result, (nvrtc_program program, char *ptx))

#define NVRTC_MEMBER(member, symbol, type, parameters) type(*member) parameters;
typedef struct nvrtc_library {
  NVRTC_FUNCTIONS(NVRTC_MEMBER) /* after nvrtc_open */
  int major, minor;
  int arch[64]; /* all supported architectures: 121 for sm_121 */
  int arch_total;
} nvrtc_library;

/* Returns the version for a GPU of this compute capability (90 for 9.0) and a driver of this
 * version (13000 for CUDA 13.0). NULL, with a sentence in `reason`, if there is none, or if host
 * memory is short (*memory_short). Thread-safe. */
const nvrtc_library *nvrtc_find(const compute_services *services, int32_t capability,
                                int32_t driver_version, char *reason, size_t reason_bytes,
                                bool *memory_short);

/* Call before its functions. False, with a sentence in `reason`, if the library has gone since it
 * was found, or if host memory is short. It stays open until the process ends. Thread-safe. */
bool nvrtc_open(const compute_services *services, const nvrtc_library *nvrtc, char *reason,
                size_t reason_bytes, bool *memory_short);

/* nvrtcCompileProgram of an opened library. */
nvrtc_result nvrtc_compile(const compute_services *services, const nvrtc_library *nvrtc,
                           nvrtc_program program, int count, const char *const *options);

/* Returns the architecture to compile for. The result is CUBIN for exactly this GPU (*exact), or
 * PTX for the driver to finish if the GPU is newer than the compiler. 0 if the GPU is older than
 * every architecture of the compiler. */
int nvrtc_architecture(const nvrtc_library *nvrtc, int32_t capability, bool *exact);

#endif
