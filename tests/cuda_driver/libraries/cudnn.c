/* SPDX-License-Identifier: MIT */
/* A stand-in for libcudnn.so.9: descriptors with attributes, heuristics, plans. cudnn_convolution.c
 * has the convolution.
 *
 * Its heuristics propose seven engines. One rounds its factors like tensor cores (and really does,
 * so that the result shows it). One has sums that differ from run to run. One declares Winograd.
 * One has a plan that cannot be made. One wants more workspace than exists. One rounds its factors
 * without declaring it. One is good. The fallback heuristics propose only the last. */
#include "cuda_driver/libraries/cudnn.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION = 91900, MAGIC = 0xcd44, MOST_ATTRIBUTES = 12, MOST_VALUES = 8 };

enum {
  ENGINE_ROUNDS,
  ENGINE_RANDOM,
  ENGINE_FILTERS,
  ENGINE_BROKEN,
  ENGINE_GREEDY,
  ENGINE_LIES,
  ENGINE_GOOD,
  ENGINES
};

#define CUDNN_PROTOTYPE(member, symbol, type, parameters) EXPORT type symbol parameters;
CUDNN_FUNCTIONS(CUDNN_PROTOTYPE)

#define CALL()                                                                                     \
  do {                                                                                             \
    const int32_t code = library_call(__func__);                                                   \
    if (code) return code;                                                                         \
  } while (0)

typedef struct attribute {
  int32_t name, type;
  int64_t count;
  _Alignas(8) unsigned char values[8 * MOST_VALUES];
} attribute;

typedef struct descriptor {
  int magic, kind, engine;
  bool final;
  int count;
  attribute attributes[MOST_ATTRIBUTES];
} descriptor;

typedef struct handle {
  int magic;
  cuda_stream stream;
} handle;

/* ---- Handles ------------------------------------------------------------------------------- */

size_t cudnnGetVersion(void) {
  return (size_t)library_version(VERSION);
}

const char *cudnnGetErrorString(int32_t code) {
  return code == CUDNN_OK ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_OTHER";
}

int32_t cudnnCreate(void **result) {
  CALL();
  if (!library_starts(12)) return 1001;
  handle *made = calloc(1, sizeof *made);
  if (!made) return CUDNN_HOST_MEMORY;
  made->magic = MAGIC;
  library_object(1);
  *result = made;
  return CUDNN_OK;
}

int32_t cudnnDestroy(void *destroyed) {
  CALL();
  free(destroyed);
  library_object(-1);
  return CUDNN_OK;
}

int32_t cudnnSetStream(void *of, cuda_stream stream) {
  CALL();
  ((handle *)of)->stream = stream;
  return CUDNN_OK;
}

/* ---- Descriptors --------------------------------------------------------------------------- */

int32_t cudnnBackendCreateDescriptor(int32_t kind, cudnn_descriptor *result) {
  CALL();
  descriptor *made = calloc(1, sizeof *made);
  if (!made) return CUDNN_HOST_MEMORY;
  made->magic = MAGIC;
  made->kind = kind;
  library_object(1);
  *result = made;
  return CUDNN_OK;
}

int32_t cudnnBackendDestroyDescriptor(cudnn_descriptor destroyed) {
  const int32_t code = library_call(__func__);
  descriptor *d = destroyed;
  if (d->magic != MAGIC) {
    library_misuse("cuDNN: a descriptor that is none is destroyed");
    return CUDNN_BAD_PARAMETER;
  }
  d->magic = 0;
  free(d);
  library_object(-1);
  return code;
}

static size_t size_of(int32_t type) {
  switch (type) {
  case CUDNN_IS_HANDLE:
  case CUDNN_IS_INT64:
  case CUDNN_IS_DOUBLE:
  case CUDNN_IS_POINTER:
  case CUDNN_IS_DESCRIPTOR: return 8;
  default: return 4;
  }
}

static const attribute *find(const descriptor *d, int32_t name) {
  for (int i = 0; i < d->count; i++)
    if (d->attributes[i].name == name) return &d->attributes[i];
  return NULL;
}

int32_t cudnnBackendSetAttribute(cudnn_descriptor changed, int32_t name, int32_t type,
                                 int64_t count, const void *values) {
  CALL();
  descriptor *d = changed;
  if (d->magic != MAGIC || d->final || count < 1 || count > MOST_VALUES ||
      d->count == MOST_ATTRIBUTES || find(d, name))
    return CUDNN_BAD_PARAMETER;
  attribute *a = &d->attributes[d->count++];
  a->name = name;
  a->type = type;
  a->count = count;
  memcpy(a->values, values, size_of(type) * (size_t)count);
  return CUDNN_OK;
}

bool cudnn_read(const void *of, int32_t name, int32_t type, int64_t count, void *values) {
  const descriptor *d = of;
  const attribute *a = d->magic == MAGIC ? find(d, name) : NULL;
  if (!a || a->type != type || a->count != count) return false;
  memcpy(values, a->values, size_of(type) * (size_t)count);
  return true;
}

/* Returns a finished descriptor of this kind from an attribute; NULL if it is absent. */
void *cudnn_follow(const void *of, int32_t name, int32_t kind) {
  descriptor *found = NULL;
  if (!cudnn_read(of, name, CUDNN_IS_DESCRIPTOR, 1, &found)) return NULL;
  if (found->magic == MAGIC && found->final && (kind < 0 || found->kind == kind)) return found;
  library_misuse("cuDNN: a descriptor refers to one that is gone or unfinished");
  return NULL;
}

int cudnn_kind_of(const void *of) {
  return ((const descriptor *)of)->kind;
}

/* ---- Graphs, engines, plans ---------------------------------------------------------------- */

static bool reads_handle(const descriptor *d, int32_t name) {
  const handle *h = NULL;
  return cudnn_read(d, name, CUDNN_IS_HANDLE, 1, &h) && h->magic == MAGIC;
}

static int32_t finalize_plan(const descriptor *d) {
  const descriptor *settings = cudnn_follow(d, CUDNN_PLAN_SETTINGS, CUDNN_KIND_ENGINE_SETTINGS);
  if (!reads_handle(d, CUDNN_PLAN_HANDLE) || !settings) return CUDNN_BAD_PARAMETER;
  return settings->engine == ENGINE_BROKEN ? CUDNN_UNSUPPORTED : CUDNN_OK;
}

int32_t cudnnBackendFinalize(cudnn_descriptor finished) {
  CALL();
  descriptor *d = finished;
  int32_t code = CUDNN_OK;
  cudnn_work work;
  if (d->magic != MAGIC || d->final) return CUDNN_BAD_PARAMETER;
  if (d->kind == CUDNN_KIND_GRAPH) {
    const descriptor *operation = cudnn_follow(d, CUDNN_GRAPH_OPERATIONS, -1);
    if (!reads_handle(d, CUDNN_GRAPH_HANDLE) || !operation) return CUDNN_BAD_PARAMETER;
    code = cudnn_read_work(operation, &work);
  } else if (d->kind == CUDNN_KIND_HEURISTICS) {
    if (!cudnn_follow(d, CUDNN_HEURISTICS_GRAPH, CUDNN_KIND_GRAPH)) code = CUDNN_BAD_PARAMETER;
  } else if (d->kind == CUDNN_KIND_PLAN) {
    code = finalize_plan(d);
  }
  d->final = code == CUDNN_OK;
  return code;
}

/* Fills in settings allocated by the caller. */
static int32_t heuristics_answer(const descriptor *d, int64_t room, int64_t *count,
                                 descriptor **settings) {
  int32_t mode = -1;
  descriptor *graph = cudnn_follow(d, CUDNN_HEURISTICS_GRAPH, CUDNN_KIND_GRAPH);
  if (!cudnn_read(d, CUDNN_HEURISTICS_MODE, CUDNN_IS_HEURISTICS, 1, &mode) || !graph)
    return CUDNN_BAD_PARAMETER;
  *count = 0;
  for (int i = mode == CUDNN_HEURISTICS_A ? 0 : ENGINE_GOOD; i < ENGINES && *count < room; i++) {
    descriptor *filled = settings[(*count)++];
    if (filled->magic != MAGIC || filled->kind != CUDNN_KIND_ENGINE_SETTINGS)
      return CUDNN_BAD_PARAMETER;
    filled->engine = i;
    filled->final = true;
    filled->count = 1;
    filled->attributes[0] =
        (attribute){.name = CUDNN_HEURISTICS_GRAPH, .type = CUDNN_IS_DESCRIPTOR, .count = 1};
    memcpy(filled->attributes[0].values, &graph, sizeof graph);
  }
  return CUDNN_OK;
}

static int32_t engine_notes(const descriptor *d, int64_t room, int64_t *count, int32_t *notes) {
  *count = 0;
  if (d->engine == ENGINE_ROUNDS && room >= 2) {
    notes[(*count)++] = CUDNN_NOTE_TENSOR_CORE;
    notes[(*count)++] = CUDNN_NOTE_DOWN_CONVERT;
  }
  if (d->engine == ENGINE_FILTERS && room >= 2) {
    notes[(*count)++] = CUDNN_NOTE_WINOGRAD;
    notes[(*count)++] = CUDNN_NOTE_WINOGRAD_4;
  }
  if (d->engine == ENGINE_RANDOM && room >= 1) notes[(*count)++] = CUDNN_NOTE_NONDETERMINISTIC;
  return CUDNN_OK;
}

int32_t cudnnBackendGetAttribute(cudnn_descriptor asked, int32_t name, int32_t type, int64_t room,
                                 int64_t *count, void *values) {
  CALL();
  const descriptor *d = asked;
  if (d->magic != MAGIC || !d->final) return CUDNN_BAD_PARAMETER;
  if (name == CUDNN_HEURISTICS_RESULTS && type == CUDNN_IS_DESCRIPTOR)
    return heuristics_answer(d, room, count, values);
  if (name == CUDNN_ENGINE_NOTES && type == CUDNN_IS_NOTE && d->kind == CUDNN_KIND_ENGINE)
    return engine_notes(d, room, count, values);
  if (name == CUDNN_ENGINE_INDEX && type == CUDNN_IS_INT64 && d->kind == CUDNN_KIND_ENGINE) {
    const int64_t index = d->engine;
    memcpy(values, &index, sizeof index);
    *count = 1;
    return CUDNN_OK;
  }
  if (name == CUDNN_SETTINGS_ENGINE && type == CUDNN_IS_DESCRIPTOR) {
    descriptor *engine = *(descriptor **)values;
    if (engine->magic != MAGIC || engine->kind != CUDNN_KIND_ENGINE) return CUDNN_BAD_PARAMETER;
    engine->engine = d->engine;
    engine->final = true;
    *count = 1;
    return CUDNN_OK;
  }
  if (name == CUDNN_PLAN_WORKSPACE && type == CUDNN_IS_INT64 && d->kind == CUDNN_KIND_PLAN) {
    const descriptor *settings = cudnn_follow(d, CUDNN_PLAN_SETTINGS, CUDNN_KIND_ENGINE_SETTINGS);
    const int64_t bytes = settings->engine == ENGINE_GREEDY ? (int64_t)1 << 40 : WORKSPACE_BYTES;
    memcpy(values, &bytes, sizeof bytes);
    *count = 1;
    return CUDNN_OK;
  }
  return CUDNN_BAD_PARAMETER;
}

int32_t cudnnBackendExecute(void *with, cudnn_descriptor plan, cudnn_descriptor bindings) {
  CALL();
  const handle *h = with;
  const descriptor *d = plan, *bound = bindings;
  cudnn_work work;
  if (h->magic != MAGIC || d->magic != MAGIC || !d->final || !bound->final)
    return CUDNN_BAD_PARAMETER;
  const descriptor *settings = cudnn_follow(d, CUDNN_PLAN_SETTINGS, CUDNN_KIND_ENGINE_SETTINGS);
  const descriptor *graph =
      settings ? cudnn_follow(settings, CUDNN_HEURISTICS_GRAPH, CUDNN_KIND_GRAPH) : NULL;
  const descriptor *operation = graph ? cudnn_follow(graph, CUDNN_GRAPH_OPERATIONS, -1) : NULL;
  if (!operation) return CUDNN_BAD_PARAMETER;
  const int32_t code = cudnn_read_work(operation, &work);
  if (code != CUDNN_OK) return code;
  const bool lies = settings->engine == ENGINE_LIES;
  work.rounds = (settings->engine == ENGINE_ROUNDS || lies) && work.type[0] == ELEMENT_F32;
  library_call(work.rounds                          ? (lies ? "lying" : "rounding")
               : settings->engine == ENGINE_FILTERS ? "filtering"
                                                    : "exact");
  return cudnn_run(&work, bound, h->stream);
}
