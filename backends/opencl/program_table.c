#include "program_table.h"

#include <string.h>

#define FIRST_BUCKETS      64
#define UNREFERENCED_LIMIT 256 /* programs kept for kernels that may come again */
#define IDLE_KERNELS       8   /* kept of one function: as many as threads enqueue it at once */

struct opencl_entry {
  opencl_entry *next;
  char *name;
  cl_program program;
  size_t group_limit;
  cl_uint arguments;
  cl_kernel idle[IDLE_KERNELS];
  uint32_t idle_count;
};

/* ---- Table (mutex held) -------------------------------------------------------------------- */

static uint64_t hash_add(uint64_t hash, const char *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
  return hash;
}

static opencl_program **bucket_of(const opencl_device *device, uint64_t hash) {
  return &device->programs[(hash ^ hash >> 32) & (device->bucket_count - 1)];
}

/* Longer chains are slower but no fault: only the first table must be had. */
static bool grow(opencl_device *device) {
  if (device->program_count < device->bucket_count) return true;
  const uint32_t old_count = device->bucket_count;
  opencl_program **old = device->programs;
  const uint32_t wanted = old_count ? 2 * old_count : FIRST_BUCKETS;
  opencl_program **made = opencl_allocate(device, wanted * sizeof *made);
  if (!made) return old_count > 0;
  device->programs = made;
  device->bucket_count = wanted;
  for (uint32_t i = 0; i < old_count; i++) {
    for (opencl_program *program = old[i], *next; program; program = next) {
      next = program->next;
      opencl_program **head = bucket_of(device, program->hash);
      program->next = *head;
      *head = program;
    }
  }
  opencl_release(device, old);
  return true;
}

static void unlist(opencl_device *device, opencl_program *program) {
  if (!program->listed) return;
  opencl_program **link = bucket_of(device, program->hash);
  while (*link != program) link = &(*link)->next;
  *link = program->next;
  program->listed = false;
  device->program_count--;
}

static void reference(opencl_device *device, opencl_program *program) {
  if (program->references++ > 0) return;
  *(program->newer ? &program->newer->older : &device->newest) = program->older;
  *(program->older ? &program->older->newer : &device->oldest) = program->newer;
  program->newer = program->older = NULL;
  device->unreferenced--;
}

/* The program that nobody has needed for longest, if there are more than `limit`. */
static opencl_program *surplus_take(opencl_device *device, uint32_t limit) {
  opencl_program *program = device->oldest;
  if (device->unreferenced <= limit) return NULL;
  reference(device, program); /* takes it out of the order */
  unlist(device, program);
  return program;
}

/* ---- Programs ------------------------------------------------------------------------------ */

/* Called without the lock. */
static void program_destroy(opencl_device *device, opencl_program *program) {
  if (!program) return;
  for (opencl_entry *entry = program->entries, *next; entry; entry = next) {
    next = entry->next;
    for (uint32_t i = 0; i < entry->idle_count; i++) device->cl->clReleaseKernel(entry->idle[i]);
    opencl_release(device, entry->name);
    opencl_release(device, entry);
  }
  if (program->program) device->cl->clReleaseProgram(program->program);
  opencl_release(device, program->source);
  opencl_release(device, program->options);
  opencl_release(device, program);
}

static opencl_program *program_create(opencl_device *device, const char *source,
                                      size_t source_bytes, const char *options, uint64_t hash) {
  opencl_program *program = opencl_allocate(device, sizeof *program);
  if (!program) return NULL;
  program->hash = hash;
  program->references = 1;
  program->building = true;
  program->source = opencl_duplicate(device, source, source_bytes);
  program->source_bytes = source_bytes;
  program->options = opencl_duplicate(device, options, strlen(options));
  if (program->source && program->options) return program;
  program_destroy(device, program);
  return NULL;
}

static opencl_program *find(const opencl_device *device, const char *source, size_t source_bytes,
                            const char *options, uint64_t hash) {
  if (device->bucket_count == 0) return NULL;
  opencl_program *program = *bucket_of(device, hash);
  while (program && !(program->hash == hash && program->source_bytes == source_bytes &&
                      memcmp(program->source, source, source_bytes) == 0 &&
                      strcmp(program->options, options) == 0))
    program = program->next;
  return program;
}

static void list(opencl_device *device, opencl_program *program) {
  opencl_program **head = bucket_of(device, program->hash);
  program->next = *head;
  *head = program;
  program->listed = true;
  device->program_count++;
}

opencl_program *opencl_table_take(opencl_device *device, const char *source, size_t source_bytes,
                                  const char *options, bool *fresh) {
  const uint64_t hash =
      hash_add(hash_add(0xcbf29ce484222325u, source, source_bytes), options, strlen(options));
  pthread_mutex_lock(&device->program_mutex);
  opencl_program *program = find(device, source, source_bytes, options, hash);
  *fresh = program == NULL;
  if (program) {
    reference(device, program);
    while (program->building) pthread_cond_wait(&device->program_built, &device->program_mutex);
  } else if (grow(device)) {
    program = program_create(device, source, source_bytes, options, hash);
    if (program) list(device, program);
  }
  pthread_mutex_unlock(&device->program_mutex);
  return program;
}

void opencl_table_publish(opencl_device *device, opencl_program *program, bool forget) {
  pthread_mutex_lock(&device->program_mutex);
  program->building = false;
  if (forget) unlist(device, program);
  pthread_cond_broadcast(&device->program_built);
  pthread_mutex_unlock(&device->program_mutex);
}

void opencl_program_release(opencl_device *device, opencl_program *program) {
  if (!program) return;
  opencl_program *unused = NULL;
  pthread_mutex_lock(&device->program_mutex);
  if (--program->references == 0) {
    if (program->listed) {
      program->older = device->newest;
      *(device->newest ? &device->newest->newer : &device->oldest) = program;
      device->newest = program;
      device->unreferenced++;
      unused = surplus_take(device, UNREFERENCED_LIMIT);
    } else {
      unused = program;
    }
  }
  pthread_mutex_unlock(&device->program_mutex);
  program_destroy(device, unused);
}

void opencl_programs_destroy(opencl_device *device) {
  for (opencl_program *program; (program = surplus_take(device, 0));)
    program_destroy(device, program);
  opencl_release(device, device->programs);
  device->programs = NULL;
  device->bucket_count = 0;
}

/* ---- Functions of a program ---------------------------------------------------------------- */

static opencl_entry *entry_find(opencl_program *program, const char *name) {
  opencl_entry *entry = program->entries;
  while (entry && strcmp(entry->name, name) != 0) entry = entry->next;
  return entry;
}

/* What the driver says of the function; it may fail or say 0. */
static void entry_ask(const opencl_device *device, opencl_entry *entry, cl_kernel kernel) {
  const opencl_library *cl = device->cl;
  size_t limit = 0;
  if (cl->clGetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof limit,
                                   &limit, NULL) != CL_SUCCESS ||
      limit == 0)
    limit = device->target.group_limit;
  entry->group_limit = limit < device->target.group_limit ? limit : device->target.group_limit;
  if (cl->clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof entry->arguments, &entry->arguments,
                          NULL) != CL_SUCCESS)
    entry->arguments = UINT32_MAX;
}

static opencl_entry *entry_create(opencl_device *device, opencl_program *program, const char *name,
                                  opencl_problem *problem) {
  opencl_entry *entry = opencl_allocate(device, sizeof *entry);
  if (entry) entry->name = opencl_duplicate(device, name, strlen(name));
  problem->code = CL_OUT_OF_HOST_MEMORY;
  problem->call = "clCreateKernel";
  problem->log[0] = '\0';
  cl_kernel kernel = entry && entry->name
                         ? device->cl->clCreateKernel(program->program, name, &problem->code)
                         : NULL;
  if (!kernel) {
    if (entry) opencl_release(device, entry->name);
    opencl_release(device, entry);
    return NULL;
  }
  entry->program = program->program;
  entry_ask(device, entry, kernel);
  entry->idle[entry->idle_count++] = kernel;
  entry->next = program->entries;
  program->entries = entry;
  return entry;
}

opencl_entry *opencl_program_entry(opencl_device *device, opencl_program *program, const char *name,
                                   opencl_problem *problem) {
  pthread_mutex_lock(&device->program_mutex);
  opencl_entry *entry = entry_find(program, name);
  if (!entry) entry = entry_create(device, program, name, problem);
  pthread_mutex_unlock(&device->program_mutex);
  return entry;
}

size_t opencl_entry_group_limit(const opencl_entry *entry) {
  return entry->group_limit;
}

cl_uint opencl_entry_arguments(const opencl_entry *entry) {
  return entry->arguments;
}

cl_kernel opencl_entry_take(opencl_device *device, opencl_entry *entry, cl_int *code) {
  cl_kernel kernel = NULL;
  pthread_mutex_lock(&device->program_mutex);
  if (entry->idle_count > 0) kernel = entry->idle[--entry->idle_count];
  pthread_mutex_unlock(&device->program_mutex);
  if (kernel) return kernel;
  *code = CL_OUT_OF_HOST_MEMORY;
  return device->cl->clCreateKernel(entry->program, entry->name, code);
}

void opencl_entry_return(opencl_device *device, opencl_entry *entry, cl_kernel kernel) {
  pthread_mutex_lock(&device->program_mutex);
  const bool keep = entry->idle_count < IDLE_KERNELS;
  if (keep) entry->idle[entry->idle_count++] = kernel;
  pthread_mutex_unlock(&device->program_mutex);
  if (!keep) device->cl->clReleaseKernel(kernel);
}
