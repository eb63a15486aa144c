/* SPDX-License-Identifier: MIT */
/* A stand-in for NCCL: ranks are threads or processes of this machine.
 *
 * A communicator is a file in shared memory, named by the id. A rank's data go through its slot,
 * chunk by chunk, in stream order; ranks wait for each other after each step. Sums run from the
 * last rank to the first and are rounded to the element's precision after each addition, so that no
 * caller relies on another order. Calls stay in progress until they have been polled twice. */
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../../backends/cuda/nccl.h"
#include "cuda_driver/libraries/library.h"

enum { MOST_RANKS = 8, CHUNK = 1 << 16 };

/* ---- Shared by the ranks ------------------------------------------------------------------- */

typedef struct meeting {
  _Atomic int32_t arrived, turn;
} meeting;

typedef struct shared {
  _Atomic int32_t joined, finished;
  meeting all, pair[MOST_RANKS][MOST_RANKS];
  unsigned char slot[MOST_RANKS][CHUNK], passed[MOST_RANKS][MOST_RANKS][CHUNK];
} shared;

struct ncclComm {
  shared *shared;
  int32_t rank, size;
  nccl_id id; /* the file's name, until all have joined */
  int asked;  /* polls of the call in progress */
  bool joining, finalized;
  atomic_bool aborted;
  atomic_int users; /* unfinished operations */
};

static void pause_a_little(void) {
  nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* Waits for `count` ranks; returns false if the communicator is aborted. */
static bool meet(nccl_handle c, meeting *m, int32_t count) {
  const int32_t turn = atomic_load(&m->turn);
  if (atomic_fetch_add(&m->arrived, 1) + 1 == count) {
    atomic_store(&m->arrived, 0);
    atomic_fetch_add(&m->turn, 1);
    return true;
  }
  while (atomic_load(&m->turn) == turn) {
    if (atomic_load(&c->aborted)) return false;
    pause_a_little();
  }
  return true;
}

/* ---- Elements ------------------------------------------------------------------------------ */

static size_t bytes_of(int32_t type) {
  static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type <= NCCL_BFLOAT16 ? bytes[type] : 0;
}

static bool is_float(int32_t type) {
  return type >= NCCL_FLOAT16;
}

static element element_of(int32_t type) {
  return type == NCCL_FLOAT64   ? ELEMENT_F64
         : type == NCCL_FLOAT32 ? ELEMENT_F32
         : type == NCCL_FLOAT16 ? ELEMENT_F16
                                : ELEMENT_BF16;
}

static uint64_t whole(int32_t type, const void *array, size_t i) {
  switch (type) {
  case NCCL_INT8: return (uint64_t)(int64_t)((const int8_t *)array)[i];
  case NCCL_UINT8: return ((const uint8_t *)array)[i];
  case NCCL_INT32: return (uint64_t)(int64_t)((const int32_t *)array)[i];
  case NCCL_UINT32: return ((const uint32_t *)array)[i];
  default: return ((const uint64_t *)array)[i];
  }
}

static bool is_less(int32_t type, uint64_t a, uint64_t b) {
  const bool has_sign = type == NCCL_INT8 || type == NCCL_INT32 || type == NCCL_INT64;
  return has_sign ? (int64_t)a < (int64_t)b : a < b;
}

static void fold_whole(int32_t type, int32_t reduction, void *to, const void *from, size_t i) {
  const uint64_t a = whole(type, to, i), b = whole(type, from, i);
  const uint64_t value = reduction == NCCL_SUM                            ? a + b
                         : (reduction == NCCL_MAX) == is_less(type, a, b) ? b
                                                                          : a;
  memcpy((char *)to + i * bytes_of(type), &value, bytes_of(type)); /* little-endian */
}

static void fold(int32_t type, int32_t reduction, void *to, const void *from, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!is_float(type)) {
      fold_whole(type, reduction, to, from, i);
      continue;
    }
    const double a = element_load(element_of(type), to, (int64_t)i);
    const double b = element_load(element_of(type), from, (int64_t)i);
    element_store(element_of(type), to, (int64_t)i,
                  reduction == NCCL_MAX   ? fmax(a, b)
                  : reduction == NCCL_MIN ? fmin(a, b)
                                          : a + b);
  }
}

static void divide(int32_t type, void *array, size_t count, int32_t by) {
  for (size_t i = 0; i < count; i++)
    element_store(element_of(type), array, (int64_t)i,
                  element_load(element_of(type), array, (int64_t)i) / by);
}

/* ---- Operations, in the order of a stream -------------------------------------------------- */

typedef enum operation_kind {
  ALL_REDUCE,
  REDUCE_SCATTER,
  ALL_GATHER,
  BROADCAST,
  SEND,
  RECEIVE
} kind;

typedef struct operation {
  nccl_handle communicator;
  kind kind;
  const char *input;
  char *output;
  size_t count; /* of the input */
  int32_t type, reduction, peer;
  bool hangs;
} operation;

static void reduce_chunk(const operation *o, size_t first, size_t count) {
  shared *s = o->communicator->shared;
  const int32_t size = o->communicator->size;
  const size_t bytes = bytes_of(o->type);
  unsigned char sum[CHUNK];
  memcpy(sum, s->slot[size - 1], count * bytes);
  for (int32_t r = size - 2; r >= 0; r--) fold(o->type, o->reduction, sum, s->slot[r], count);
  if (o->reduction == NCCL_AVERAGE) divide(o->type, sum, count, size);
  if (o->kind == ALL_REDUCE) {
    memcpy(o->output + first * bytes, sum, count * bytes);
    return;
  }
  const size_t block = o->count / (size_t)size, begin = block * (size_t)o->communicator->rank;
  for (size_t i = 0; i < count; i++)
    if (first + i >= begin && first + i < begin + block)
      memcpy(o->output + (first + i - begin) * bytes, sum + i * bytes, bytes);
}

static bool together(const operation *o, size_t first, size_t count) {
  nccl_handle c = o->communicator;
  const size_t bytes = bytes_of(o->type), at = first * bytes;
  if (o->kind != BROADCAST || c->rank == o->peer)
    memcpy(c->shared->slot[c->rank], o->input + at, count * bytes);
  if (!meet(c, &c->shared->all, c->size)) return false;
  if (o->kind <= REDUCE_SCATTER) reduce_chunk(o, first, count);
  for (int32_t r = 0; r < c->size && o->kind == ALL_GATHER; r++)
    memcpy(o->output + ((size_t)r * o->count + first) * bytes, c->shared->slot[r], count * bytes);
  if (o->kind == BROADCAST) memcpy(o->output + at, c->shared->slot[o->peer], count * bytes);
  return meet(c, &c->shared->all, c->size);
}

static bool in_pair(const operation *o, size_t first, size_t count) {
  nccl_handle c = o->communicator;
  const int32_t from = o->kind == SEND ? c->rank : o->peer,
                to = o->kind == SEND ? o->peer : c->rank;
  const size_t bytes = count * bytes_of(o->type), at = first * bytes_of(o->type);
  meeting *m = &c->shared->pair[from][to];
  if (o->kind == SEND) memcpy(c->shared->passed[from][to], o->input + at, bytes);
  if (!meet(c, m, 2)) return false;
  if (o->kind == RECEIVE) memcpy(o->output + at, c->shared->passed[from][to], bytes);
  return meet(c, m, 2);
}

static void run(void *data) {
  const operation *o = data;
  nccl_handle c = o->communicator;
  const size_t most = CHUNK / bytes_of(o->type);
  bool going = true;
  while (o->hangs && !atomic_load(&c->aborted)) pause_a_little();
  for (size_t first = 0; going && !o->hangs && first < o->count; first += most) {
    const size_t count = o->count - first < most ? o->count - first : most;
    going = o->kind >= SEND ? in_pair(o, first, count) : together(o, first, count);
  }
  atomic_fetch_sub(&c->users, 1);
}

static nccl_result start(const char *name, operation o, cuda_stream stream) {
  const nccl_result code = library_call(name);
  o.hangs = library_hangs();
  const size_t bytes = o.count * bytes_of(o.type);
  const size_t parts = (size_t)o.communicator->size;
  const size_t out = o.kind == ALL_GATHER       ? bytes * parts
                     : o.kind == REDUCE_SCATTER ? bytes / parts
                                                : bytes;
  if (code != NCCL_OK) return code;
  if (o.communicator->asked || o.communicator->joining)
    library_misuse("%s while another call is in progress", name);
  if ((o.kind != RECEIVE && !library_on_device(o.input, bytes)) ||
      (o.kind != SEND && !library_on_device(o.output, out)))
    library_misuse("%s with memory that is not the device's", name);
  operation *made = malloc(sizeof *made);
  if (!made) return NCCL_SYSTEM_ERROR;
  *made = o;
  atomic_fetch_add(&o.communicator->users, 1);
  o.communicator->asked = 1;
  if (library_submit((void *)stream, run, made) == 0) return NCCL_IN_PROGRESS;
  atomic_fetch_sub(&o.communicator->users, 1);
  return NCCL_CUDA_ERROR;
}

/* ---- The library's functions --------------------------------------------------------------- */

#define PROTOTYPE(member, symbol, type, parameters) EXPORT type symbol parameters;
NCCL_FUNCTIONS(PROTOTYPE)

nccl_result ncclGetVersion(int32_t *number) {
  *number = (int32_t)library_version(22703);
  return NCCL_OK;
}

const char *ncclGetErrorString(nccl_result code) {
  return code == NCCL_REMOTE_ERROR ? "remote process exited or there was a network error"
                                   : "unhandled system error";
}

const char *ncclGetLastError(nccl_handle handle) {
  (void)handle;
  return "";
}

nccl_result ncclGetUniqueId(nccl_id *id) {
  static _Atomic int32_t number;
  const nccl_result code = library_call("ncclGetUniqueId");
  memset(id, 0, sizeof *id);
  snprintf(id->bytes, sizeof id->bytes, "/compute_nccl_%d_%d", (int)getpid(),
           (int)atomic_fetch_add(&number, 1));
  return code;
}

/* The first rank creates the file; all set the same size. */
static shared *open_shared(const nccl_id *id) {
  const int file = shm_open(id->bytes, O_RDWR | O_CREAT, 0600);
  void *memory = MAP_FAILED;
  if (file >= 0 && ftruncate(file, sizeof(shared)) == 0)
    memory = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  return memory == MAP_FAILED ? NULL : memory;
}

nccl_result ncclCommInitRankConfig(nccl_handle *handle, int32_t size, nccl_id id, int32_t rank,
                                   nccl_config *config) {
  const nccl_result code = library_call("ncclCommInitRankConfig");
  if (code != NCCL_OK) return code;
  if (config->magic != NCCL_CONFIG_MAGIC || config->size != sizeof *config || config->blocking ||
      size > MOST_RANKS || id.bytes[0] != '/')
    return NCCL_INVALID_ARGUMENT;
  nccl_handle made = calloc(1, sizeof *made);
  shared *memory = made ? open_shared(&id) : NULL;
  if (!memory) {
    free(made);
    return NCCL_SYSTEM_ERROR;
  }
  made->shared = memory;
  made->id = id;
  made->rank = rank;
  made->size = size;
  made->joining = true;
  if (!library_hangs() && atomic_fetch_add(&memory->joined, 1) + 1 == size) shm_unlink(id.bytes);
  library_object(1);
  *handle = made;
  return NCCL_IN_PROGRESS;
}

nccl_result ncclCommGetAsyncError(nccl_handle c, nccl_result *state) {
  const nccl_result code = library_call("ncclCommGetAsyncError");
  *state = code;
  if (code != NCCL_OK) return NCCL_OK;
  if (c->joining) {
    if (atomic_load(&c->shared->joined) < c->size) *state = NCCL_IN_PROGRESS;
    c->joining = *state != NCCL_OK;
  } else if (c->finalized) {
    if (atomic_load(&c->shared->finished) < c->size) *state = NCCL_IN_PROGRESS;
  } else if (c->asked) {
    *state = NCCL_IN_PROGRESS;
    c->asked = c->asked < 2 ? c->asked + 1 : 0;
  }
  return NCCL_OK;
}

nccl_result ncclCommFinalize(nccl_handle c) {
  const nccl_result code = library_call("ncclCommFinalize");
  if (code != NCCL_OK) return code;
  if (atomic_load(&c->users)) library_misuse("ncclCommFinalize while an operation is in progress");
  c->finalized = true;
  atomic_fetch_add(&c->shared->finished, 1);
  return NCCL_IN_PROGRESS;
}

static nccl_result end(nccl_handle c) {
  atomic_store(&c->aborted, true);
  while (atomic_load(&c->users)) pause_a_little();
  if (c->joining) shm_unlink(c->id.bytes);
  munmap(c->shared, sizeof *c->shared);
  library_object(-1);
  free(c);
  return NCCL_OK;
}

nccl_result ncclCommDestroy(nccl_handle c) {
  if (!c->finalized) library_misuse("ncclCommDestroy without ncclCommFinalize");
  (void)library_call("ncclCommDestroy");
  return end(c);
}

nccl_result ncclCommAbort(nccl_handle c) {
  (void)library_call("ncclCommAbort");
  return end(c);
}

nccl_result ncclAllReduce(const void *input, void *output, size_t count, int32_t type,
                          int32_t reduction, nccl_handle c, cuda_stream stream) {
  return start("ncclAllReduce",
               (operation){c, ALL_REDUCE, input, output, count, type, reduction, 0, false}, stream);
}

nccl_result ncclReduceScatter(const void *input, void *output, size_t output_count, int32_t type,
                              int32_t reduction, nccl_handle c, cuda_stream stream) {
  return start("ncclReduceScatter",
               (operation){c, REDUCE_SCATTER, input, output, output_count * (size_t)c->size, type,
                           reduction, 0, false},
               stream);
}

nccl_result ncclAllGather(const void *input, void *output, size_t input_count, int32_t type,
                          nccl_handle c, cuda_stream stream) {
  return start("ncclAllGather",
               (operation){c, ALL_GATHER, input, output, input_count, type, 0, 0, false}, stream);
}

nccl_result ncclBroadcast(const void *input, void *output, size_t count, int32_t type, int32_t root,
                          nccl_handle c, cuda_stream stream) {
  return start("ncclBroadcast",
               (operation){c, BROADCAST, input, output, count, type, 0, root, false}, stream);
}

nccl_result ncclSend(const void *input, size_t count, int32_t type, int32_t to, nccl_handle c,
                     cuda_stream stream) {
  return start("ncclSend", (operation){c, SEND, input, NULL, count, type, 0, to, false}, stream);
}

nccl_result ncclRecv(void *output, size_t count, int32_t type, int32_t from, nccl_handle c,
                     cuda_stream stream) {
  return start("ncclRecv", (operation){c, RECEIVE, NULL, output, count, type, 0, from, false},
               stream);
}
