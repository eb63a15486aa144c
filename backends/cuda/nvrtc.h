/* NVRTC, NVIDIA's compiler as a library, opened at run time. Several versions may be installed, and
 * newer ones no longer know old GPUs: the newest that fits the GPU and the driver is taken.
 *
 * It is a hundred megabytes and takes longer to open than a small job to run. So what was found of
 * it is remembered in the disk cache, and a process that gets all its kernels from there never
 * opens it. */
#ifndef CUDA_NVRTC_H
#define CUDA_NVRTC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/backend.h"

typedef struct _nvrtcProgram *nvrtc_program;
typedef int32_t nvrtc_result; /* 0 is success */

enum {
  NVRTC_OK = 0,
  NVRTC_OUT_OF_MEMORY = 1,
  NVRTC_INVALID_OPTION = 5,
  NVRTC_COMPILATION = 6,
  NVRTC_BUILTIN_FAILURE = 7
};

/* X(member, symbol, type of the result, parameters) */
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
  int arch[64]; /* all that it knows: 121 for sm_121 */
  int arch_total;
} nvrtc_library;

/* The one for a GPU of this compute capability (90 for 9.0) and a driver of this version (13000 for
 * CUDA 13.0). NULL, with a sentence in `reason`, when there is none, or when host memory is short
 * (*memory_short). Thread-safe. */
const nvrtc_library *nvrtc_find(const compute_services *services, int32_t capability,
                                int32_t driver_version, char *reason, size_t reason_bytes,
                                bool *memory_short);

/* Before its functions are called: false, with a sentence in `reason`, when it has gone since it
 * was found, or host memory is short. Stays open until the process ends. Thread-safe. */
bool nvrtc_open(const nvrtc_library *nvrtc, char *reason, size_t reason_bytes, bool *memory_short);

/* The architecture to compile for, and whether the result is CUBIN for just this GPU (*exact) or
 * PTX for the driver to finish, which is needed where the GPU is newer than the compiler. 0 when
 * the GPU is older than all that the compiler knows. */
int nvrtc_architecture(const nvrtc_library *nvrtc, int32_t capability, bool *exact);

#endif
