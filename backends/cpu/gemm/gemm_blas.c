/* The implementation that calls OpenBLAS: single-threaded, from our threads, on disjoint tiles of
 * C.
 *
 * Every call packs its part of A and B anew, so tiles are as large as they can be: C is cut once
 * per thread, along its longer side. Within a task C is made in panels of rows that stay in a
 * cache, so that the epilogue finds them there; a panel is high enough that packing B again for
 * each costs little. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gemm.h"

enum {
  LEAST_PANEL_ROWS = 256, /* packing B again costs a few hundredths of the product */
  PANEL_BYTES = 512 << 10,
  LEAST_TILE = 64 /* rows or columns */
};

typedef struct blas_launch {
  const cpu_gemm *gemm;
  const cpu_blas_functions *functions;
  void *const *pointers;
  unsigned char *scratch;
  uint64_t worker_bytes;
} blas_launch;

/* One operand as CBLAS sees it. */
typedef struct blas_operand {
  const unsigned char *data;
  int transpose, leading;
} blas_operand;

static blas_operand describe_operand(const gemm_operand *operand, const unsigned char *data,
                                     int64_t row, int64_t column, int64_t rows, int64_t columns) {
  const bool plain = operand->column == 1;
  const int64_t leading = plain ? operand->row : operand->column;
  const int64_t least = cpu_max(plain ? columns : rows, 1);
  return (blas_operand){
      .data = data + (row * operand->row + column * operand->column) * operand->size,
      .transpose = plain ? CPU_BLAS_PLAIN : CPU_BLAS_TRANSPOSED,
      /* A single row's stride may be anything; CBLAS wants it to be a row long. */
      .leading = (int)cpu_max(leading, least)};
}

/* sums (m × n) = A's rows from `row` on · B's columns from `column` on. */
static void call_gemm(const blas_launch *launch, const gemm_matrix *matrix, int64_t row,
                      int64_t column, int64_t m, int64_t n, void *sums, int64_t sums_row) {
  const gemm_problem *problem = &launch->gemm->problem;
  const int64_t k = problem->k;
  const blas_operand a = describe_operand(&problem->a, matrix->a, row, 0, m, k);
  const blas_operand b = describe_operand(&problem->b, matrix->b, 0, column, k, n);
  const int leading = (int)cpu_max(sums_row, n);
  if (problem->accumulate == COMPUTE_F32)
    launch->functions->sgemm(CPU_BLAS_ROW_MAJOR, a.transpose, b.transpose, (int)m, (int)n, (int)k,
                             1.0f, (const float *)(const void *)a.data, a.leading,
                             (const float *)(const void *)b.data, b.leading, 0.0f, sums, leading);
  else
    launch->functions->dgemm(CPU_BLAS_ROW_MAJOR, a.transpose, b.transpose, (int)m, (int)n, (int)k,
                             1.0, (const double *)(const void *)a.data, a.leading,
                             (const double *)(const void *)b.data, b.leading, 0.0, sums, leading);
}

static void blas_task(void *argument, int64_t task, int32_t worker) {
  const blas_launch *launch = argument;
  const cpu_gemm *gemm = launch->gemm;
  const gemm_problem *problem = &gemm->problem;
  const int64_t tiles = gemm->blas_tiles_m * gemm->blas_tiles_n;
  const int64_t tile_m = task % tiles / gemm->blas_tiles_n, tile_n = task % gemm->blas_tiles_n;
  const int64_t end = problem->m * (tile_m + 1) / gemm->blas_tiles_m;
  const int64_t column = problem->n * tile_n / gemm->blas_tiles_n;
  const int64_t columns = problem->n * (tile_n + 1) / gemm->blas_tiles_n - column;
  const gemm_operand *c = &problem->output[0];
  gemm_matrix matrix;
  gemm_problem_matrix(problem, launch->pointers, task / tiles, &matrix);
  for (int64_t row = problem->m * tile_m / gemm->blas_tiles_m; row < end; row += gemm->blas_rows) {
    const int64_t rows = cpu_min(gemm->blas_rows, end - row);
    unsigned char *sums = launch->scratch
                              ? launch->scratch + (uint64_t)worker * launch->worker_bytes
                              : matrix.output[0] + (row * c->row + column) * c->size;
    const int64_t sums_row = launch->scratch ? columns : c->row;
    call_gemm(launch, &matrix, row, column, rows, columns, sums, sums_row);
    if (launch->scratch || !gemm->identity)
      gemm_epilogue_run(gemm, &matrix, sums, sums_row, row, rows, column, columns);
  }
}

static compute_status blas_run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_gemm *gemm = (const cpu_gemm *)kernel;
  const gemm_problem *problem = &gemm->problem;
  cpu_device *device = kernel->device;
  blas_launch launch = {.gemm = gemm, .functions = cpu_blas_open(device), .pointers = pointers};
  const int64_t tasks = problem->batches * gemm->blas_tiles_m * gemm->blas_tiles_n;
  if (!gemm_sums_in_place(gemm, pointers)) {
    const int64_t columns = cpu_divide_up(problem->n, gemm->blas_tiles_n);
    const uint64_t elements = (uint64_t)(gemm->blas_rows * columns + 63) & ~(uint64_t)63;
    launch.worker_bytes = elements * problem->size;
    const uint64_t workers = tasks == 1 ? 1 : (uint64_t)device->threads;
    launch.scratch = cpu_workspace_acquire(device, workers * launch.worker_bytes);
    if (!launch.scratch) return cpu_out_of_memory(device, workers * launch.worker_bytes);
  }
  cpu_blas_enter();
  cpu_parallel(device, tasks, blas_task, &launch);
  cpu_blas_leave();
  cpu_workspace_return(device, launch.scratch);
  return COMPUTE_OK;
}

static compute_status refuse(const char **reason, const char *text) {
  *reason = text;
  return COMPUTE_OK;
}

/* CBLAS wants one stride to be 1, the other at least as long as what it skips. */
static bool operand_fits(const gemm_operand *operand, int64_t rows, int64_t columns) {
  const int64_t leading = operand->column == 1 ? operand->row : operand->column;
  if (operand->column == 1) return leading <= INT_MAX && (leading >= columns || rows == 1);
  return operand->row == 1 && leading <= INT_MAX && (leading >= rows || columns == 1);
}

/* Tasks: one per thread, along the longer side, as long as they are worth a call. */
static void choose_tiles(cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t threads = gemm->head.device->threads;
  const int64_t wanted = cpu_divide_up(threads, problem->batches);
  const double products = (double)problem->m * (double)problem->n * (double)problem->k;
  const double useful = products / (64.0 * 64.0 * 64.0);
  const int64_t tiles = useful < (double)wanted ? cpu_max((int64_t)useful, 1) : wanted;
  gemm->blas_tiles_m = gemm->blas_tiles_n = 1;
  if (problem->m >= problem->n)
    gemm->blas_tiles_m = cpu_min(tiles, cpu_divide_up(problem->m, LEAST_TILE));
  else
    gemm->blas_tiles_n = cpu_min(tiles, cpu_divide_up(problem->n, LEAST_TILE));
  const int64_t columns = cpu_divide_up(problem->n, gemm->blas_tiles_n);
  const int64_t rows = cpu_divide_up(problem->m, gemm->blas_tiles_m);
  const int64_t fitting =
      cpu_max(PANEL_BYTES / (columns * (int64_t)problem->size), LEAST_PANEL_ROWS);
  gemm->blas_rows =
      gemm->identity && gemm->in_place ? rows : cpu_divide_up(rows, cpu_divide_up(rows, fitting));
}

compute_status gemm_blas_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                const char **reason) {
  (void)descriptor;
  cpu_gemm *gemm = (cpu_gemm *)kernel;
  const gemm_problem *problem = &gemm->problem;
  if (problem->accumulate != COMPUTE_F32 && problem->accumulate != COMPUTE_F64)
    return refuse(reason, "integers");
  if (problem->a.dtype != problem->accumulate || problem->b.dtype != problem->accumulate)
    return refuse(reason, "operands need a conversion");
  if (problem->m > INT_MAX || problem->n > INT_MAX || problem->k > INT_MAX)
    return refuse(reason, "a size past 2^31");
  if (problem->k == 0) return refuse(reason, "nothing to multiply");
  if (!operand_fits(&problem->a, problem->m, problem->k) ||
      !operand_fits(&problem->b, problem->k, problem->n))
    return refuse(reason, "strides that CBLAS cannot express");
  if (gemm->in_place && problem->output[0].row > INT_MAX)
    return refuse(reason, "a row stride past 2^31");
  if ((double)problem->m * (double)problem->n * (double)problem->k < 32.0 * 32.0 * 32.0)
    return refuse(reason, "too small for a library call");
  if (!cpu_blas_open(gemm->head.device))
    return refuse(reason, cpu_blas_describe(gemm->head.device));
  choose_tiles(gemm);
  gemm->head.run = blas_run;
  snprintf(gemm->head.description, sizeof gemm->head.description,
           "gemm OpenBLAS %s %cgemm, %lldx%lld tiles of %lldx%lld",
           cpu_blas_core(gemm->head.device), problem->accumulate == COMPUTE_F32 ? 's' : 'd',
           (long long)gemm->blas_tiles_m, (long long)gemm->blas_tiles_n,
           (long long)cpu_divide_up(problem->m, gemm->blas_tiles_m),
           (long long)cpu_divide_up(problem->n, gemm->blas_tiles_n));
  return COMPUTE_OK;
}

/* ---- Opening the library --------------------------------------------------------------------- */

/* Opens OpenBLAS once per process and keeps its thread count at one while we are inside. */

/* All of the process; `mutex` guards everything. */
typedef struct cpu_blas {
  pthread_mutex_t mutex;
  int64_t references; /* devices that hold the library */
  bool present;
  void *library;
  cpu_blas_functions functions;
  char *(*get_corename)(void);
  char *(*get_config)(void);
  int (*get_threads)(void);
  void (*set_threads)(int count);
  int64_t inside; /* enters without their leave */
  int saved_threads;
  char description[160], core[48], warning[256];
} cpu_blas;

static cpu_blas process = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* OpenBLAS's names of kernels by the width of their vectors, in bytes; those without
 * multiply-add count as 16. */
static const struct {
  const char *core;
  uint32_t vector_bytes;
} cores[] = {{"SkylakeX", 64}, {"Cooperlake", 64},  {"SapphireRapids", 64}, {"Haswell", 32},
             {"Zen", 32},      {"Sandybridge", 16}, {"Prescott", 16},       {"Core2", 16},
             {"Penryn", 16},   {"Nehalem", 16},     {"Dunnington", 16},     {"Athlon", 16},
             {"Opteron", 16},  {"Barcelona", 16},   {"Bobcat", 16},         {"Atom", 16},
             {"Nano", 16},     {"Bulldozer", 16},   {"Piledriver", 16},     {"Steamroller", 16},
             {"Excavator", 16}};

static uint32_t core_vector_bytes(const char *name) {
  for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++)
    if (strncasecmp(name, cores[i].core, strlen(cores[i].core)) == 0) return cores[i].vector_bytes;
  return 64; /* unknown: no reason to warn */
}

/* These variables belong to OpenBLAS, which reads them when it is loaded; we only report them. */
static void find_warning(cpu_blas *blas, const compute_services *services) {
  const char *core_type = services->variable(services->host, "OPENBLAS_CORETYPE");
  const char *l2_size = services->variable(services->host, "OPENBLAS_L2_SIZE");
  const cpu_isa *best = cpu_isa_select(NULL, NULL);
  blas->warning[0] = 0;
  if (core_vector_bytes(blas->core) < best->vector_bytes) {
    if (core_type && *core_type)
      snprintf(blas->warning, sizeof blas->warning,
               "OPENBLAS_CORETYPE=%.32s makes OpenBLAS use its %s kernels, although this processor "
               "has %s; unset it",
               core_type, blas->core, best->name);
    else
      snprintf(blas->warning, sizeof blas->warning,
               "OpenBLAS does not know this processor well: it uses its %s kernels, although there "
               "is %s",
               blas->core, best->name);
  } else if (l2_size && *l2_size) {
    snprintf(blas->warning, sizeof blas->warning,
             "OPENBLAS_L2_SIZE=%.32s replaces the cache size that OpenBLAS would find by itself; "
             "unset it",
             l2_size);
  }
}

/* "OpenBLAS 0.3.21 DYNAMIC_ARCH … Zen …" begins with the name and the version. */
static void describe(cpu_blas *blas) {
  const char *config = blas->get_config ? blas->get_config() : "";
  int words = 0;
  size_t length = 0;
  while (config[length] && words < 2) words += config[++length] == ' ' || !config[length];
  snprintf(blas->core, sizeof blas->core, "%s", blas->get_corename ? blas->get_corename() : "");
  snprintf(blas->description, sizeof blas->description, "%.*s%s%s",
           (int)(length < 64 ? length : 64), length ? config : "CBLAS library",
           blas->core[0] ? " " : "", blas->core);
}

/* dlsym hands functions over as object pointers; POSIX promises that they fit. */
static bool find(cpu_blas *blas, const char *name, void *function_pointer) {
  void *address = dlsym(blas->library, name);
  memcpy(function_pointer, &address, sizeof address);
  return address != NULL;
}

/* Fills `process` with the library, or with the reason why there is none. */
static void open_library(cpu_blas *blas, const compute_services *services) {
  const char *name = services->variable(services->host, "COMPUTE_BLAS");
  blas->present = false;
  blas->core[0] = blas->warning[0] = 0;
  if (name && strcmp(name, "none") == 0) {
    snprintf(blas->description, sizeof blas->description, "none: COMPUTE_BLAS is none");
    return;
  }
  /* NODELETE: OpenBLAS's own threads and fork handlers may outlive any reference of ours. */
  blas->library = dlopen(name ? name : "libopenblas.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!blas->library) {
    const char *why = dlerror();
    snprintf(blas->description, sizeof blas->description, "none: %s", why ? why : "cannot load");
    return;
  }
  if (!find(blas, "cblas_sgemm", &blas->functions.sgemm) ||
      !find(blas, "cblas_dgemm", &blas->functions.dgemm)) {
    snprintf(blas->description, sizeof blas->description,
             "none: %.96s lacks cblas_sgemm or cblas_dgemm", name ? name : "libopenblas.so.0");
    dlclose(blas->library);
    blas->library = NULL;
    return;
  }
  find(blas, "openblas_get_corename", &blas->get_corename);
  find(blas, "openblas_get_config", &blas->get_config);
  find(blas, "openblas_get_num_threads", &blas->get_threads);
  find(blas, "openblas_set_num_threads", &blas->set_threads);
  blas->present = true;
  describe(blas);
  find_warning(blas, services);
}

/* OpenBLAS and the OpenMP that it may be linked with obey the environment. A core before 1.5 has no
 * opinion. */
static bool is_trusted(const cpu_device *device) {
  const compute_services *services = device->services;
  const size_t needed =
      offsetof(compute_services, trusts_environment) + sizeof services->trusts_environment;
  return services->struct_size < needed || !services->trusts_environment ||
         services->trusts_environment(services->host, "cpu");
}

const cpu_blas_functions *cpu_blas_open(cpu_device *device) {
  if (!is_trusted(device)) return NULL;
  pthread_mutex_lock(&process.mutex);
  if (!device->blas) {
    if (process.references++ == 0) open_library(&process, device->services);
    device->blas = &process;
  }
  const bool present = process.present;
  pthread_mutex_unlock(&process.mutex);
  return present ? &process.functions : NULL;
}

void cpu_blas_close(cpu_device *device) {
  pthread_mutex_lock(&process.mutex);
  if (device->blas && --process.references == 0) {
    if (process.library) dlclose(process.library);
    process.library = NULL;
    process.present = false;
  }
  device->blas = NULL;
  pthread_mutex_unlock(&process.mutex);
}

void cpu_blas_enter(void) {
  pthread_mutex_lock(&process.mutex);
  if (process.inside++ == 0 && process.get_threads && process.set_threads) {
    process.saved_threads = process.get_threads();
    if (process.saved_threads != 1) process.set_threads(1);
  }
  pthread_mutex_unlock(&process.mutex);
}

void cpu_blas_leave(void) {
  pthread_mutex_lock(&process.mutex);
  if (--process.inside == 0 && process.set_threads && process.saved_threads != 1)
    process.set_threads(process.saved_threads);
  pthread_mutex_unlock(&process.mutex);
}

const char *cpu_blas_describe(cpu_device *device) {
  if (!is_trusted(device))
    return "none: the program runs with raised privileges, and does not name cpu in "
           "options.backends";
  cpu_blas_open(device);
  return process.description;
}

const char *cpu_blas_warning(cpu_device *device) {
  if (!is_trusted(device)) return NULL;
  cpu_blas_open(device);
  return process.warning[0] ? process.warning : NULL;
}

const char *cpu_blas_core(cpu_device *device) {
  if (!is_trusted(device)) return "";
  cpu_blas_open(device);
  return process.core;
}
