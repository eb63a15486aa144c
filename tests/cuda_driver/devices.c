/* SPDX-License-Identifier: MIT */
/* Start of the driver, devices, primary contexts, and the lookup of functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_private.h"

enum { UNITS = 4, GROUP_LIMIT = 1024, SHARED_BYTES = 48 << 10, SHARED_BYTES_ASKED = 160 << 10 };

static struct CUctx_st { int references; } contexts[MOST_DEVICES];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool initialised;
static _Thread_local cuda_context current;

int current_device(void) {
  return current ? device_of_context(current) : -1;
}

cuda_context context_of(int device) {
  return &contexts[device];
}

int device_of_context(cuda_context context) {
  for (int i = 0; i < MOST_DEVICES; i++)
    if (context == &contexts[i]) return context->references ? i : -1;
  return -1;
}

/* ---- Starting ------------------------------------------------------------------------------ */

/* Like the driver: counts GPUs up to the first number that is invalid or repeated. */
static int visible_count(void) {
  const char *text = getenv("CUDA_VISIBLE_DEVICES");
  const int all = (int)stand_in_machine.device_count;
  bool taken[MOST_DEVICES] = {false};
  int count = 0;
  if (!text) return all;
  while (*text) {
    char *end;
    const long number = strtol(text, &end, 10);
    if (end == text || number < 0 || number >= all || taken[number]) break;
    taken[number] = true;
    count++;
    if (*end != ',') break;
    text = end + 1;
  }
  return count;
}

EXPORT cuda_result cuInit(uint32_t flags) {
  ENTER(cuInit);
  if (flags) return CUDA_INVALID_VALUE;
  if (stand_in_machine.init) return (cuda_result)stand_in_machine.init;
  if (visible_count() == 0) return CUDA_NO_DEVICE;
  initialised = true;
  return CUDA_OK;
}

EXPORT cuda_result cuDriverGetVersion(int32_t *version) {
  ENTER(cuDriverGetVersion);
  *version = (int32_t)stand_in_machine.driver_version;
  return CUDA_OK;
}

static const struct {
  cuda_result code;
  const char *name;
} codes[] = {
    {0, "CUDA_SUCCESS"},
    {1, "CUDA_ERROR_INVALID_VALUE"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {3, "CUDA_ERROR_NOT_INITIALIZED"},
    {34, "CUDA_ERROR_STUB_LIBRARY"},
    {100, "CUDA_ERROR_NO_DEVICE"},
    {101, "CUDA_ERROR_INVALID_DEVICE"},
    {200, "CUDA_ERROR_INVALID_IMAGE"},
    {201, "CUDA_ERROR_INVALID_CONTEXT"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
    {400, "CUDA_ERROR_INVALID_HANDLE"},
    {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {801, "CUDA_ERROR_NOT_SUPPORTED"},
    {999, "CUDA_ERROR_UNKNOWN"},
};

EXPORT cuda_result cuGetErrorName(cuda_result code, const char **name) {
  ENTER(cuGetErrorName);
  *name = NULL;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].code == code) *name = codes[i].name;
  return *name ? CUDA_OK : CUDA_INVALID_VALUE;
}

EXPORT cuda_result cuGetErrorString(cuda_result code, const char **text) {
  ENTER(cuGetErrorString);
  const char *name = NULL;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].code == code) name = codes[i].name;
  *text = name;
  return name ? CUDA_OK : CUDA_INVALID_VALUE;
}

/* ---- Devices ------------------------------------------------------------------------------- */

static bool is_device(int32_t device) {
  return device >= 0 && device < visible_count();
}

EXPORT cuda_result cuDeviceGetCount(int32_t *count) {
  ENTER(cuDeviceGetCount);
  if (!initialised) return CUDA_NOT_INITIALIZED;
  *count = (int32_t)visible_count();
  return CUDA_OK;
}

EXPORT cuda_result cuDeviceGet(cuda_device_id *device, int32_t ordinal) {
  ENTER(cuDeviceGet);
  if (!is_device(ordinal)) return CUDA_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_OK;
}

EXPORT cuda_result cuDeviceGetName(char *name, int32_t bytes, cuda_device_id device) {
  ENTER(cuDeviceGetName);
  if (!is_device(device)) return CUDA_INVALID_DEVICE;
  snprintf(name, (size_t)bytes, "Simulated GPU");
  return CUDA_OK;
}

EXPORT cuda_result cuDeviceTotalMem(size_t *bytes, cuda_device_id device) {
  ENTER(cuDeviceTotalMem);
  if (!is_device(device)) return CUDA_INVALID_DEVICE;
  *bytes = (size_t)stand_in_machine.memory;
  return CUDA_OK;
}

EXPORT cuda_result cuDeviceGetUuid(cuda_uuid *uuid, cuda_device_id device) {
  ENTER(cuDeviceGetUuid);
  if (!is_device(device)) return CUDA_INVALID_DEVICE;
  memset(uuid, device + 1, sizeof *uuid);
  return CUDA_OK;
}

uint32_t stand_in_local_bytes(bool asked) {
  return asked ? SHARED_BYTES_ASKED : SHARED_BYTES;
}

EXPORT cuda_result cuDeviceGetAttribute(int32_t *value, int32_t attribute, cuda_device_id device) {
  ENTER(cuDeviceGetAttribute);
  if (!is_device(device)) return CUDA_INVALID_DEVICE;
  switch (attribute) {
  case CUDA_MAX_THREADS_PER_BLOCK:
  case CUDA_MAX_BLOCK_X:
  case CUDA_MAX_BLOCK_Y: *value = GROUP_LIMIT; break;
  case CUDA_MAX_BLOCK_Z: *value = 64; break;
  case CUDA_SHARED_BYTES_PER_BLOCK: *value = SHARED_BYTES; break;
  case CUDA_SHARED_BYTES_PER_BLOCK_OPTIN: *value = SHARED_BYTES_ASKED; break;
  case CUDA_WARP_SIZE: *value = 32; break;
  case CUDA_CLOCK_RATE: *value = 1000000; break;
  case CUDA_MULTIPROCESSORS: *value = UNITS; break;
  case CUDA_INTEGRATED: *value = stand_in_machine.unified != 0; break;
  case CUDA_PCI_BUS: *value = device + 1; break;
  case CUDA_MEMORY_CLOCK_RATE: *value = 1000000; break;
  case CUDA_MEMORY_BUS_BITS: *value = 512; break;
  case CUDA_L2_BYTES: *value = 4 << 20; break;
  case CUDA_ASYNC_ENGINES: *value = 2; break;
  case CUDA_CAN_MAP_HOST_MEMORY:
  case CUDA_CONCURRENT_KERNELS:
  case CUDA_UNIFIED_ADDRESSING:
  case CUDA_MANAGED_MEMORY: *value = 1; break;
  case CUDA_HOST_REGISTER_SUPPORTED: *value = !stand_in_machine.no_register; break;
  case CUDA_MEMORY_POOLS_SUPPORTED: *value = !stand_in_machine.no_pools; break;
  case CUDA_CAPABILITY_MAJOR: *value = (int32_t)stand_in_machine.capability / 10; break;
  case CUDA_CAPABILITY_MINOR: *value = (int32_t)stand_in_machine.capability % 10; break;
  default: *value = 0; break;
  }
  return CUDA_OK;
}

EXPORT cuda_result cuDeviceCanAccessPeer(int32_t *possible, cuda_device_id device,
                                         cuda_device_id peer) {
  ENTER(cuDeviceCanAccessPeer);
  if (!is_device(device) || !is_device(peer)) return CUDA_INVALID_DEVICE;
  *possible = device != peer && !stand_in_machine.no_peers;
  return CUDA_OK;
}

/* ---- Contexts ------------------------------------------------------------------------------ */

EXPORT cuda_result cuDevicePrimaryCtxRetain(cuda_context *context, cuda_device_id device) {
  ENTER(cuDevicePrimaryCtxRetain);
  if (!is_device(device)) return CUDA_INVALID_DEVICE;
  pthread_mutex_lock(&mutex);
  contexts[device].references++;
  pthread_mutex_unlock(&mutex);
  *context = &contexts[device];
  return CUDA_OK;
}

EXPORT cuda_result cuDevicePrimaryCtxRelease(cuda_device_id device) {
  const cuda_result code = stand_in_enter(CALL_cuDevicePrimaryCtxRelease);
  if (!is_device(device) || contexts[device].references == 0) return INVALID_CONTEXT;
  pthread_mutex_lock(&mutex);
  const bool last = contexts[device].references == 1;
  if (last) objects_end(device);
  contexts[device].references--;
  if (last && current == &contexts[device]) current = NULL;
  pthread_mutex_unlock(&mutex);
  return code;
}

void context_end(int device) {
  pthread_mutex_lock(&mutex);
  objects_end(device);
  contexts[device].references = 0;
  pthread_mutex_unlock(&mutex);
}

EXPORT cuda_result cuCtxSetCurrent(cuda_context context) {
  ENTER(cuCtxSetCurrent);
  if (context && device_of_context(context) < 0) return INVALID_CONTEXT;
  current = context;
  return CUDA_OK;
}

EXPORT cuda_result cuCtxGetCurrent(cuda_context *context) {
  ENTER(cuCtxGetCurrent);
  *context = current;
  return CUDA_OK;
}

EXPORT cuda_result cuCtxEnablePeerAccess(cuda_context peer, uint32_t flags) {
  ENTER(cuCtxEnablePeerAccess);
  if (flags || device_of_context(peer) < 0) return CUDA_INVALID_VALUE;
  return stand_in_machine.no_peers ? 217 : CUDA_OK;
}

/* ---- Finding functions --------------------------------------------------------------------- */

typedef void plain_function(void);

static const struct {
  const char *name;
  int version;
  plain_function *function;
} functions[] = {
#define FUNCTION_ROW(member, symbol, version, parameters)                                          \
  {#symbol, version, (plain_function *)symbol},
    CUDA_FUNCTIONS(FUNCTION_ROW) CUDA_OPTIONAL_FUNCTIONS(FUNCTION_ROW)};

static cuda_result find(const char *symbol, void **address, int version) {
  *address = NULL;
  if (stand_in_machine.init == CUDA_STUB_LIBRARY) return CUDA_STUB_LIBRARY;
  if (version > stand_in_machine.driver_version) return CUDA_NOT_FOUND;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    if (strcmp(functions[i].name, symbol) != 0 || functions[i].version > version) continue;
    memcpy(address, &functions[i].function, sizeof *address);
    return CUDA_OK;
  }
  return CUDA_NOT_FOUND;
}

EXPORT cuda_result cuGetProcAddress_v2(const char *symbol, void **address, int version,
                                       uint64_t flags, int *status);
cuda_result cuGetProcAddress_v2(const char *symbol, void **address, int version, uint64_t flags,
                                int *status) {
  (void)flags;
  const cuda_result code = find(symbol, address, version);
  if (status) *status = code == CUDA_OK ? 0 : 1;
  return code;
}

EXPORT cuda_result cuGetProcAddress(const char *symbol, void **address, int version,
                                    uint64_t flags);
cuda_result cuGetProcAddress(const char *symbol, void **address, int version, uint64_t flags) {
  (void)flags;
  return find(symbol, address, version);
}
