/* Generated CUDA compiles with NVRTC without a warning: all of it for one architecture, and what
 * stands first of its kind for every other that NVRTC knows. It needs no GPU. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "support/sample_sources.h"
#include "support/test.h"

/* ---- The part of NVRTC that this needs ----------------------------------------------------- */

typedef struct nvrtc {
  int (*create)(void **program, const char *source, const char *name, int header_count,
                const char *const *headers, const char *const *header_names);
  int (*compile)(void *program, int option_count, const char *const *options);
  int (*log_size)(void *program, size_t *bytes);
  int (*log)(void *program, char *text);
  int (*destroy)(void **program);
  int (*arch_count)(int *count);
  int (*archs)(int *archs);
} nvrtc;

static bool find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static bool load(nvrtc *n) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                      "/usr/local/cuda/lib64/libnvrtc.so.13",
                                      "/usr/local/cuda/lib64/libnvrtc.so.12"};
  void *library = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  return library && find(library, "nvrtcCreateProgram", &n->create) &&
         find(library, "nvrtcCompileProgram", &n->compile) &&
         find(library, "nvrtcGetProgramLogSize", &n->log_size) &&
         find(library, "nvrtcGetProgramLog", &n->log) &&
         find(library, "nvrtcDestroyProgram", &n->destroy) &&
         find(library, "nvrtcGetNumSupportedArchs", &n->arch_count) &&
         find(library, "nvrtcGetSupportedArchs", &n->archs);
}

/* ---- Compiling ----------------------------------------------------------------------------- */

/* Everything is compiled for this one, if NVRTC knows it. */
enum { MAIN_ARCH = 90, MOST_ARCHS = 64 };

/* A log with anything in it is a failure too. */
static bool compile_one(const nvrtc *n, int arch, const sample_source *source) {
  char option[48];
  void *program = NULL;
  snprintf(option, sizeof option, "--gpu-architecture=sm_%d", arch);
  const char *const options[] = {option, "-default-device", "--fmad=false", "--std=c++17"};
  size_t bytes = 0;
  char *log = NULL;
  int error = n->create(&program, source->text, "kernel.cu", 0, NULL, NULL);
  if (!error) error = n->compile(program, 4, options);
  if (program && !n->log_size(program, &bytes) && bytes > 1) {
    log = calloc(1, bytes + 1);
    if (log) n->log(program, log);
  }
  if (error || bytes > 1)
    fprintf(stderr, "%s for sm_%d: error %d\n%.1500s\n", source->name, arch, error, log ? log : "");
  free(log);
  if (program) n->destroy(&program);
  return error == 0 && bytes <= 1;
}

static int compile(const sample_sources *sources, int worker, int workers) {
  nvrtc n;
  int archs[MOST_ARCHS], count = 0, failures = 0, main_arch = 0;
  if (!load(&n) || n.arch_count(&count) || count > MOST_ARCHS || n.archs(archs)) return -1;
  for (int a = 0; a < count; a++)
    if (archs[a] == MAIN_ARCH || main_arch == 0) main_arch = archs[a];
  for (size_t i = (size_t)worker; i < sources->count; i += (size_t)workers) {
    const sample_source *source = &sources->sources[i];
    for (int a = 0; a < count; a++) {
      if (archs[a] != main_arch && !source->first_of_kind) continue;
      if (!compile_one(&n, archs[a], source)) failures++;
    }
  }
  return failures;
}

/* Restricts the test to samples with this in their names: a word on the command line. */
static const char *part = "";

static void every_source_compiles_without_a_warning(void **state) {
  (void)state;
  sample_sources sources = sample_sources_create(COMPUTE_DIALECT_CUDA, part);
  assert_true(sources.count > 0);
  const int failures = sample_sources_in_parallel(&sources, compile);
  const size_t count = sources.count;
  sample_sources_release(&sources);
  if (failures < 0) {
    print_message("there is no NVRTC here\n");
    skip();
  }
  print_message("%zu sources\n", count);
  if (failures > 0) fail_msg("%d compilations failed", failures);
}

int main(int argc, char **argv) {
  if (argc > 1) part = argv[1];
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_source_compiles_without_a_warning)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
