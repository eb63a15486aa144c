/* SPDX-License-Identifier: MIT */
/* Collective operations between GPUs of several processes, by NCCL.
 *
 * Communicators are opened as non-blocking, so that no call waits for another rank: NCCL continues
 * on its threads, and the core polls its state. An operation that does not end is closed, which
 * aborts waiting kernels. Operations that only move data move it as bytes. */
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "nccl.h"

typedef struct communicator {
  cuda_device *device;
  const nccl_functions *nccl;
  nccl_handle handle; /* NCCL may write it until it has joined */
  int32_t size;
} communicator;

_Static_assert(sizeof(nccl_id) == COMPUTE_COMMUNICATOR_ID_BYTES, "ncclUniqueId");

/* ---- Failures ------------------------------------------------------------------------------ */

static compute_status library_of(cuda_device *device, const cuda_library **library) {
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  *library = cuda_library_open(device, CUDA_NCCL);
  if (*library) return COMPUTE_OK;
  return device->services->fail(device->services->host, COMPUTE_ERROR_UNSUPPORTED, 0,
                                "install NCCL 2.14 or newer", "cuda:%u: no NCCL: %s", device->index,
                                device->libraries[CUDA_NCCL].reason);
}

/* The library's last error may belong to another call, but it has the details. */
static compute_status fail(const communicator *c, nccl_result code, const char *what) {
  const char *words = c->nccl->error_text(code), *details = c->nccl->last_error(c->handle);
  return cuda_library_fail(c->device, COMPUTE_ERROR_TRANSFER, code,
                           "NCCL_DEBUG=INFO shows more; COMPUTE_GROUP_HOST_ONLY=1 avoids NCCL",
                           "cuda:%u: NCCL: %s: %s%s%.120s", c->device->index, what,
                           words ? words : "unknown code", details && *details ? "; " : "",
                           details ? details : "");
}

/* ---- Opening and closing ------------------------------------------------------------------- */

compute_status cuda_communicator_offer(void *handle, compute_communicator_offer *offer) {
  cuda_device *device = handle;
  const cuda_library *library = NULL;
  const compute_status status = library_of(device, &library);
  if (status != COMPUTE_OK) return status;
  int32_t part[3] = {0};
  static const int32_t attributes[] = {CUDA_PCI_DOMAIN, CUDA_PCI_BUS, CUDA_PCI_DEVICE};
  for (int i = 0; i < 3; i++) {
    const cuda_result code = device->driver->device_attribute(&part[i], attributes[i], device->id);
    if (code != CUDA_OK) return cuda_fail(device, code, "asking for the GPU's address");
  }
  *offer = (compute_communicator_offer){.library = ""};
  snprintf(offer->library, sizeof offer->library, "%s", library->name);
  snprintf(offer->place, sizeof offer->place, "%04x:%02x:%02x", (unsigned)part[0],
           (unsigned)part[1], (unsigned)part[2]);
  return COMPUTE_OK;
}

compute_status cuda_communicator_identify(void *handle,
                                          uint8_t bytes[COMPUTE_COMMUNICATOR_ID_BYTES]) {
  cuda_device *device = handle;
  const cuda_library *library = NULL;
  nccl_id id = {{0}};
  const compute_status status = library_of(device, &library);
  if (status != COMPUTE_OK) return status;
  const communicator none = {.device = device, .nccl = library->functions};
  const nccl_result code = none.nccl->unique_id(&id);
  if (code != NCCL_OK) return fail(&none, code, "making an id");
  memcpy(bytes, &id, sizeof id);
  return COMPUTE_OK;
}

compute_status cuda_communicator_open(void *handle,
                                      const uint8_t bytes[COMPUTE_COMMUNICATOR_ID_BYTES],
                                      int32_t rank, int32_t size, void **result) {
  cuda_device *device = handle;
  const cuda_library *library = NULL;
  nccl_id id;
  nccl_config config = {
      .size = sizeof config, .magic = NCCL_CONFIG_MAGIC, .version = NCCL_OLDEST, .blocking = 0};
  compute_status status = library_of(device, &library);
  if (status != COMPUTE_OK) return status;
  communicator *made = builder_allocate(&device->builder, sizeof *made);
  if (!made) return cuda_fail_memory(device->services, "a communicator");
  *made = (communicator){.device = device, .nccl = library->functions, .size = size};
  memcpy(&id, bytes, sizeof id);
  const nccl_result code = made->nccl->init(&made->handle, size, id, rank, &config);
  if (code == NCCL_OK || code == NCCL_IN_PROGRESS) {
    *result = made;
    return COMPUTE_OK;
  }
  status = fail(made, code, "joining");
  cuda_communicator_close(made, false);
  return status;
}

compute_status cuda_communicator_test(void *handle, bool *done) {
  const communicator *c = handle;
  nccl_result state = NCCL_OK;
  *done = false;
  const compute_status status = cuda_enter(c->device);
  if (status != COMPUTE_OK) return status;
  const nccl_result code = c->nccl->async_error(c->handle, &state);
  if (code != NCCL_OK) return fail(c, code, "asking for its state");
  *done = state == NCCL_OK;
  return *done || state == NCCL_IN_PROGRESS ? COMPUTE_OK : fail(c, state, "in the background");
}

compute_status cuda_communicator_finish(void *handle) {
  const communicator *c = handle;
  const compute_status status = cuda_enter(c->device);
  if (status != COMPUTE_OK) return status;
  const nccl_result code = c->nccl->finalize(c->handle);
  return code == NCCL_OK || code == NCCL_IN_PROGRESS ? COMPUTE_OK : fail(c, code, "finishing");
}

void cuda_communicator_close(void *handle, bool orderly) {
  communicator *c = handle;
  if (c->handle && cuda_enter_to_release(c->device))
    (void)(orderly ? c->nccl->comm_destroy(c->handle) : c->nccl->comm_abort(c->handle));
  builder_free(&c->device->builder, c);
}

/* ---- Calls --------------------------------------------------------------------------------- */

/* NCCL's type for the dtype; -1 if NCCL cannot add or compare it. */
static int32_t type_of(compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_F64: return NCCL_FLOAT64;
  case COMPUTE_F32: return NCCL_FLOAT32;
  case COMPUTE_F16: return NCCL_FLOAT16;
  case COMPUTE_BF16: return NCCL_BFLOAT16;
  case COMPUTE_I8: return NCCL_INT8;
  case COMPUTE_I32: return NCCL_INT32;
  case COMPUTE_I64: return NCCL_INT64;
  case COMPUTE_U8: return NCCL_UINT8;
  case COMPUTE_U32: return NCCL_UINT32;
  case COMPUTE_U64: return NCCL_UINT64;
  default: return -1;
  }
}

static bool is_float(compute_dtype dtype) {
  return dtype == COMPUTE_F64 || dtype == COMPUTE_F32 || dtype == COMPUTE_F16 ||
         dtype == COMPUTE_BF16;
}

/* NCCL's float extrema ignore NaN; ours do not. */
bool cuda_communicator_supports(void *handle, const compute_collective *collective) {
  (void)handle;
  if (collective->kind > COMPUTE_COLLECTIVE_REDUCE_SCATTER) return true;
  if (type_of(collective->dtype) < 0) return false;
  return collective->reduction <= COMPUTE_COLLECTIVE_MEAN || !is_float(collective->dtype);
}

static nccl_result call(const communicator *c, cuda_stream stream, const compute_collective *call,
                        void *input, void *output) {
  static const int32_t reductions[] = {[COMPUTE_COLLECTIVE_SUM] = NCCL_SUM,
                                       [COMPUTE_COLLECTIVE_MEAN] = NCCL_AVERAGE,
                                       [COMPUTE_COLLECTIVE_MAX] = NCCL_MAX,
                                       [COMPUTE_COLLECTIVE_MIN] = NCCL_MIN};
  const nccl_functions *nccl = c->nccl;
  const size_t count = (size_t)call->count, bytes = count * cuda_element_bytes(call->dtype);
  switch (call->kind) {
  case COMPUTE_COLLECTIVE_ALL_REDUCE:
    return nccl->all_reduce(input, output, count, type_of(call->dtype), reductions[call->reduction],
                            c->handle, stream);
  case COMPUTE_COLLECTIVE_REDUCE_SCATTER:
    return nccl->reduce_scatter(input, output, count / (size_t)c->size, type_of(call->dtype),
                                reductions[call->reduction], c->handle, stream);
  case COMPUTE_COLLECTIVE_ALL_GATHER:
    return nccl->all_gather(input, output, bytes, NCCL_UINT8, c->handle, stream);
  case COMPUTE_COLLECTIVE_BROADCAST: {
    void *both = input ? input : output;
    return nccl->broadcast(both, both, bytes, NCCL_UINT8, call->peer, c->handle, stream);
  }
  case COMPUTE_COLLECTIVE_SEND:
    return nccl->send(input, bytes, NCCL_UINT8, call->peer, c->handle, stream);
  case COMPUTE_COLLECTIVE_RECEIVE:
    return nccl->receive(output, bytes, NCCL_UINT8, call->peer, c->handle, stream);
  }
  return NCCL_INVALID_ARGUMENT;
}

compute_status cuda_communicator_submit(void *handle, void *queue,
                                        const compute_collective *collective,
                                        const compute_argument *input,
                                        const compute_argument *output) {
  static const char *const names[] = {[COMPUTE_COLLECTIVE_ALL_REDUCE] = "an all-reduce",
                                      [COMPUTE_COLLECTIVE_REDUCE_SCATTER] = "a reduce-scatter",
                                      [COMPUTE_COLLECTIVE_ALL_GATHER] = "an all-gather",
                                      [COMPUTE_COLLECTIVE_BROADCAST] = "a broadcast",
                                      [COMPUTE_COLLECTIVE_SEND] = "a send",
                                      [COMPUTE_COLLECTIVE_RECEIVE] = "a receive"};
  const communicator *c = handle;
  const compute_status status = cuda_enter(c->device);
  if (status != COMPUTE_OK) return status;
  const nccl_result code = call(c, ((const cuda_queue *)queue)->stream, collective,
                                (void *)(uintptr_t)(input ? cuda_address(input) : 0),
                                (void *)(uintptr_t)(output ? cuda_address(output) : 0));
  return code == NCCL_OK || code == NCCL_IN_PROGRESS ? COMPUTE_OK
                                                     : fail(c, code, names[collective->kind]);
}
