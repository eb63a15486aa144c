/* SPDX-License-Identifier: MIT */
/* Modules, launches, and graphs of launches. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_private.h"
#include "object.h"
#include "support/emulator/emulator_program.h"

enum { MOST_PARAMETERS = 256, PARAMETER_BYTES = 4096, NAME_BYTES = 64 };

/* Loaded objects stay open until the process ends, because launches in progress need them. */
typedef struct function {
  struct function *next;
  char name[NAME_BYTES];
  void (*enter)(dialect_item *);
  void (*call)(void **);
  uint32_t count, items;
  const uint32_t *sizes;
  uint32_t local_bytes; /* maximum for launches */
} function;

typedef struct module {
  object header;
  void *library;
  function *functions;
} module;

/* One launch with its parameters' values. */
typedef struct launch {
  function entry;
  uint32_t grid[3], block[3];
  _Alignas(16) unsigned char values[PARAMETER_BYTES];
} launch;

static pthread_mutex_t emulator_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- Modules ------------------------------------------------------------------------------- */

EXPORT cuda_result cuModuleLoadData(cuda_module *result, const void *data) {
  ENTER(cuModuleLoadData);
  image head;
  char path[sizeof head.object], log[1024];
  const int capability = (int)stand_in_machine.capability;
  if (memcmp(data, IMAGE_MAGIC, sizeof IMAGE_MAGIC) != 0) return CUDA_INVALID_IMAGE;
  memcpy(&head, data, sizeof head);
  if (head.compiler_major > stand_in_machine.driver_version / 1000)
    return head.is_ptx ? CUDA_UNSUPPORTED_PTX_VERSION : CUDA_INVALID_IMAGE;
  if (head.architecture > capability || (!head.is_ptx && head.architecture / 10 != capability / 10))
    return CUDA_NO_BINARY_FOR_GPU;
  void *library = dlopen(head.object, RTLD_NOW | RTLD_LOCAL);
  /* An image in a disk cache may outlive its object file. */
  if (!library &&
      object_make((const char *)data + sizeof head, NULL, 0, path, sizeof path, log, sizeof log))
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return CUDA_INVALID_IMAGE;
  module *made = object_create(OBJECT_MODULE, sizeof *made);
  if (!made) return CUDA_OUT_OF_MEMORY;
  made->library = library;
  object_add(&made->header);
  *result = (cuda_module)(void *)made;
  return CUDA_OK;
}

void module_destroy(object *destroyed) {
  module *m = (module *)(void *)destroyed;
  object_remove(destroyed);
  for (function *f = m->functions, *next; f; f = next) {
    next = f->next;
    free(f);
  }
  free(m);
}

EXPORT cuda_result cuModuleUnload(cuda_module unloaded) {
  const cuda_result code = stand_in_enter(CALL_cuModuleUnload);
  if (!object_is(unloaded, OBJECT_MODULE)) return INVALID_HANDLE;
  module_destroy((object *)(void *)unloaded);
  return code;
}

static void *symbol(const module *m, const char *name, const char *ending) {
  char words[NAME_BYTES + 32];
  snprintf(words, sizeof words, "%s%s", name, ending);
  return dlsym(m->library, words);
}

EXPORT cuda_result cuModuleGetFunction(cuda_function *result, cuda_module of, const char *name) {
  ENTER(cuModuleGetFunction);
  module *m = (module *)(void *)of;
  if (!object_is(m, OBJECT_MODULE)) return INVALID_HANDLE;
  void *enter = symbol(m, "dialect_enter", ""), *call = symbol(m, name, "_call");
  const uint32_t *parameters = symbol(m, name, "_parameters");
  if (!enter || !call || !parameters || strlen(name) >= NAME_BYTES) return CUDA_NOT_FOUND;
  function *f = calloc(1, sizeof *f);
  if (!f) return CUDA_OUT_OF_MEMORY;
  snprintf(f->name, sizeof f->name, "%s", name);
  memcpy(&f->enter, &enter, sizeof enter);
  memcpy(&f->call, &call, sizeof call);
  f->count = parameters[ENTRY_PARAMETERS];
  f->items = parameters[ENTRY_ITEMS];
  f->local_bytes = stand_in_local_bytes(false);
  f->sizes = parameters + ENTRY_FIRST_SIZE;
  f->next = m->functions;
  m->functions = f;
  *result = (cuda_function)(void *)f;
  return CUDA_OK;
}

EXPORT cuda_result cuFuncGetAttribute(int32_t *value, int32_t attribute, cuda_function of) {
  ENTER(cuFuncGetAttribute);
  *value = attribute == CUDA_FUNCTION_MAX_THREADS ? (int32_t)((function *)(void *)of)->items : 0;
  return CUDA_OK;
}

EXPORT cuda_result cuFuncSetAttribute(cuda_function of, int32_t attribute, int32_t value) {
  ENTER(cuFuncSetAttribute);
  if (!of || value < 0) return CUDA_INVALID_VALUE;
  if (attribute != CUDA_FUNCTION_MAX_DYNAMIC_SHARED_BYTES) return CUDA_OK;
  if ((uint32_t)value > stand_in_local_bytes(true)) return CUDA_INVALID_VALUE;
  ((function *)(void *)of)->local_bytes = (uint32_t)value;
  return CUDA_OK;
}

static uint32_t aligned(uint32_t at, uint32_t bytes) {
  const uint32_t alignment = bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
  return (at + alignment - 1) / alignment * alignment;
}

EXPORT cuda_result cuFuncGetParamInfo(cuda_function of, size_t index, size_t *offset,
                                      size_t *bytes) {
  ENTER(cuFuncGetParamInfo);
  const function *f = (function *)(void *)of;
  uint32_t at = 0;
  if (index >= f->count) return CUDA_INVALID_VALUE;
  for (uint32_t i = 0; i <= index; i++) {
    at = aligned(at, f->sizes[i]);
    *offset = at;
    at += f->sizes[i];
  }
  if (bytes) *bytes = f->sizes[index];
  return CUDA_OK;
}

/* ---- Launches ------------------------------------------------------------------------------ */

static cuda_result fill_launch(launch *l, cuda_function of, const uint32_t grid[3],
                               const uint32_t block[3], uint32_t local_bytes, void **parameters) {
  const function *f = (function *)(void *)of;
  const uint64_t items = (uint64_t)block[0] * block[1] * block[2];
  if (!f) return INVALID_HANDLE;
  for (int d = 0; d < 3; d++)
    if (grid[d] == 0 || block[d] == 0 || (d > 0 && grid[d] > 65535)) return CUDA_INVALID_VALUE;
  if (grid[0] > INT32_MAX || items > 1024 || block[2] > 64) return CUDA_INVALID_VALUE;
  if (items > f->items) return CUDA_LAUNCH_OUT_OF_RESOURCES;
  if (local_bytes > f->local_bytes) return CUDA_INVALID_VALUE;
  if (f->count > MOST_PARAMETERS || (f->count && !parameters)) return CUDA_INVALID_VALUE;
  l->entry = *f;
  memcpy(l->grid, grid, sizeof l->grid);
  memcpy(l->block, block, sizeof l->block);
  uint32_t at = 0;
  for (uint32_t i = 0; i < f->count; i++) {
    at = aligned(at, f->sizes[i]);
    if (at + f->sizes[i] > PARAMETER_BYTES || !parameters[i]) return CUDA_INVALID_VALUE;
    memcpy(l->values + at, parameters[i], f->sizes[i]);
    at += f->sizes[i];
  }
  return CUDA_OK;
}

static void run_launch(launch *l, int device) {
  void *arguments[MOST_PARAMETERS];
  char problem[256] = "";
  uint32_t at = 0;
  const cuda_result order = stand_in_kernel_order();
  if (order != CUDA_OK) {
    stand_in_lose(device, order);
    return;
  }
  for (uint32_t i = 0; i < l->entry.count; i++) {
    at = aligned(at, l->entry.sizes[i]);
    arguments[i] = l->values + at;
    at += l->entry.sizes[i];
  }
  engine_work(device, ENGINE_KERNELS, stand_in_machine.delay_kernels * 1000000);
  engine_hold(device);
  pthread_mutex_lock(&emulator_mutex);
  const bool good = emulator_launch_plain(l->entry.enter, l->entry.call, l->block, l->grid,
                                          arguments, EMULATOR_MIXED, problem, sizeof problem);
  pthread_mutex_unlock(&emulator_mutex);
  if (good) return;
  stand_in_misused("kernel %s: %s", l->entry.name, problem);
  stand_in_lose(device, CUDA_ILLEGAL_ADDRESS);
}

typedef struct launch_operation {
  operation base;
  size_t count;
  launch launches[];
} launch_operation;

static void run_launches(operation *self, int device) {
  launch_operation *o = (launch_operation *)self;
  for (size_t i = 0; i < o->count && stand_in_lost(device) == CUDA_OK; i++)
    run_launch(&o->launches[i], device);
}

EXPORT cuda_result cuLaunchKernel(cuda_function of, uint32_t grid_x, uint32_t grid_y,
                                  uint32_t grid_z, uint32_t block_x, uint32_t block_y,
                                  uint32_t block_z, uint32_t shared_bytes, cuda_stream on,
                                  void **parameters, void **extra) {
  ENTER(cuLaunchKernel);
  const uint32_t grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
  if (extra) return CUDA_NOT_SUPPORTED;
  launch_operation *o = operation_create(sizeof *o + sizeof(launch), run_launches);
  if (!o) return CUDA_OUT_OF_MEMORY;
  o->count = 1;
  const cuda_result code = fill_launch(&o->launches[0], of, grid, block, shared_bytes, parameters);
  if (code == CUDA_OK) return stream_submit(on, o);
  free(o);
  return code;
}

/* ---- Graphs -------------------------------------------------------------------------------- */

typedef struct node {
  struct node *after; /* here, a kernel waits for at most one other */
  size_t index;
  launch launched;
} node;

typedef struct graph {
  object header;
  node **nodes;
  size_t count;
} graph;

typedef struct executable {
  object header;
  const graph *of; /* only for comparison: the graph may be gone */
  node **origin;
  size_t *order;
  launch *launches;
  size_t count;
} executable;

EXPORT cuda_result cuGraphCreate(cuda_graph *result, uint32_t flags) {
  ENTER(cuGraphCreate);
  if (flags) return CUDA_INVALID_VALUE;
  object *made = object_create(OBJECT_GRAPH, sizeof(graph));
  if (made) object_add(made);
  *result = (cuda_graph)(void *)made;
  return made ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

EXPORT cuda_result cuGraphAddKernelNode(cuda_graph_node *result, cuda_graph to,
                                        const cuda_graph_node *after, size_t after_count,
                                        const cuda_kernel_node_parameters *parameters) {
  ENTER(cuGraphAddKernelNode);
  graph *g = (graph *)(void *)to;
  if (!object_is(g, OBJECT_GRAPH)) return INVALID_HANDLE;
  if (after_count > 1 || parameters->extra) return CUDA_NOT_SUPPORTED;
  node **nodes = realloc(g->nodes, (g->count + 1) * sizeof(node *));
  if (!nodes) return CUDA_OUT_OF_MEMORY;
  g->nodes = nodes;
  node *made = calloc(1, sizeof *made);
  if (!made) return CUDA_OUT_OF_MEMORY;
  const cuda_result code =
      fill_launch(&made->launched, parameters->function, parameters->grid, parameters->block,
                  parameters->shared_bytes, parameters->parameters);
  if (code != CUDA_OK) {
    free(made);
    return code;
  }
  made->after = after_count ? (node *)(void *)after[0] : NULL;
  made->index = g->count;
  g->nodes[g->count++] = made;
  *result = (cuda_graph_node)(void *)made;
  return CUDA_OK;
}

void graph_destroy(object *destroyed) {
  graph *g = (graph *)(void *)destroyed;
  object_remove(destroyed);
  for (size_t i = 0; i < g->count; i++) free(g->nodes[i]);
  free(g->nodes);
  free(g);
}

EXPORT cuda_result cuGraphDestroy(cuda_graph destroyed) {
  const cuda_result code = stand_in_enter(CALL_cuGraphDestroy);
  if (!object_is(destroyed, OBJECT_GRAPH)) return INVALID_HANDLE;
  graph_destroy((object *)(void *)destroyed);
  return code;
}

void executable_destroy(object *destroyed) {
  executable *e = (executable *)(void *)destroyed;
  object_remove(destroyed);
  free(e->origin);
  free(e->order);
  free(e->launches);
  free(e);
}

EXPORT cuda_result cuGraphExecDestroy(cuda_graph_executable destroyed) {
  const cuda_result code = stand_in_enter(CALL_cuGraphExecDestroy);
  if (!object_is(destroyed, OBJECT_EXECUTABLE)) return INVALID_HANDLE;
  executable_destroy((object *)(void *)destroyed);
  return code;
}

/* Finds an unexpected order that the dependencies allow: always the latest node that can run. */
static void find_order(executable *e) {
  bool *done = calloc(e->count + 1, sizeof *done);
  for (size_t turn = 0; done && turn < e->count; turn++) {
    size_t next = e->count;
    for (size_t i = 0; i < e->count; i++)
      if (!done[i] && (!e->origin[i]->after || done[e->origin[i]->after->index])) next = i;
    if (next == e->count) break;
    done[next] = true;
    e->order[turn] = next;
  }
  free(done);
}

EXPORT cuda_result cuGraphInstantiateWithFlags(cuda_graph_executable *result, cuda_graph from,
                                               uint64_t instantiate_flags) {
  ENTER(cuGraphInstantiateWithFlags);
  const graph *g = (const graph *)(void *)from;
  (void)instantiate_flags;
  if (!object_is(g, OBJECT_GRAPH)) return INVALID_HANDLE;
  executable *e = object_create(OBJECT_EXECUTABLE, sizeof *e);
  if (!e) return CUDA_OUT_OF_MEMORY;
  e->of = g;
  e->count = g->count;
  e->origin = calloc(g->count + 1, sizeof(node *));
  e->order = calloc(g->count + 1, sizeof *e->order);
  e->launches = calloc(g->count + 1, sizeof *e->launches);
  object_add(&e->header);
  if (!e->origin || !e->order || !e->launches) {
    executable_destroy(&e->header);
    return CUDA_OUT_OF_MEMORY;
  }
  for (size_t i = 0; i < g->count; i++) {
    e->origin[i] = g->nodes[i];
    e->launches[i] = g->nodes[i]->launched;
  }
  find_order(e);
  *result = (cuda_graph_executable)(void *)e;
  return CUDA_OK;
}

static bool is_graph(const object *o, const void *wanted) {
  return o == wanted;
}

EXPORT cuda_result cuGraphExecKernelNodeSetParams(cuda_graph_executable changed,
                                                  cuda_graph_node which,
                                                  const cuda_kernel_node_parameters *parameters) {
  ENTER(cuGraphExecKernelNodeSetParams);
  executable *e = (executable *)(void *)changed;
  if (!object_is(e, OBJECT_EXECUTABLE)) return INVALID_HANDLE;
  if (!object_find(OBJECT_GRAPH, -1, is_graph, e->of)) {
    stand_in_misused("a node of a graph that has been destroyed");
    return CUDA_INVALID_VALUE;
  }
  for (size_t i = 0; i < e->count; i++)
    if (e->origin[i] == (node *)(void *)which)
      return fill_launch(&e->launches[i], parameters->function, parameters->grid, parameters->block,
                         parameters->shared_bytes, parameters->parameters);
  return CUDA_INVALID_VALUE;
}

EXPORT cuda_result cuGraphLaunch(cuda_graph_executable launched, cuda_stream on) {
  ENTER(cuGraphLaunch);
  const executable *e = (const executable *)(void *)launched;
  if (!object_is(e, OBJECT_EXECUTABLE)) return INVALID_HANDLE;
  launch_operation *o = operation_create(sizeof *o + e->count * sizeof(launch), run_launches);
  if (!o) return CUDA_OUT_OF_MEMORY;
  o->count = e->count;
  for (size_t i = 0; i < e->count; i++) o->launches[i] = e->launches[e->order[i]];
  return stream_submit(on, o);
}
