/* SPDX-License-Identifier: MIT */
/* Generated CUDA compiles with NVRTC without a warning; this needs no GPU. Among the architectures
 * of this NVRTC that suit a source, sources alternate between the oldest and the newest, and every
 * third is compiled for one in between. The test takes one source in COMPUTE_TEST_SPREAD, chosen by
 * the seed (test_seed). COMPUTE_TEST_LONG compiles all sources for all architectures. No source
 * depends on its architecture.
 *
 * Twelve sources form one program, each in a separate namespace and with its macros undefined at
 * its end, which saves a third of the time. If the log of a program is not empty, its sources are
 * compiled one by one to find the cause. The test records the hash of each compiled text,
 * architecture and NVRTC version, so that another run in the same folder compiles new sources only.
 * The output counts both kinds. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/text.h"
#include "support/samples/sample_sources.h"
#include "support/harness/test.h"

/* ---- The necessary part of NVRTC ----------------------------------------------------------- */

typedef struct nvrtc {
  int (*version)(int *major, int *minor);
  int (*create)(void **program, const char *source, const char *name, int header_count,
                const char *const *headers, const char *const *header_names);
  int (*compile)(void *program, int option_count, const char *const *options);
  int (*log_size)(void *program, size_t *bytes);
  int (*log)(void *program, char *text);
  int (*destroy)(void **program);
  int (*arch_count)(int *count);
  int (*archs)(int *archs);
} nvrtc;

enum { MOST_ARCHS = 64, BATCH = 12, LOG_BYTES = 1500 };

static bool find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

/* Loads NVRTC. Returns the missing part, or NULL. */
static const char *load(nvrtc *n) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                      "/usr/local/cuda/lib64/libnvrtc.so.13",
                                      "/usr/local/cuda/lib64/libnvrtc.so.12"};
  void *library = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!library) return "neither libnvrtc.so.13 nor libnvrtc.so.12 can be opened";
  const bool whole = find(library, "nvrtcVersion", &n->version) &&
                     find(library, "nvrtcCreateProgram", &n->create) &&
                     find(library, "nvrtcCompileProgram", &n->compile) &&
                     find(library, "nvrtcGetProgramLogSize", &n->log_size) &&
                     find(library, "nvrtcGetProgramLog", &n->log) &&
                     find(library, "nvrtcDestroyProgram", &n->destroy) &&
                     find(library, "nvrtcGetNumSupportedArchs", &n->arch_count) &&
                     find(library, "nvrtcGetSupportedArchs", &n->archs);
  return whole ? NULL : "the library lacks a function of NVRTC 11.2";
}

/* Returns true if the log is empty; otherwise copies the text into `log`. */
static bool compile_text(const nvrtc *n, int arch, const char *text, char log[LOG_BYTES]) {
  char option[48];
  void *program = NULL;
  snprintf(option, sizeof option, "--gpu-architecture=sm_%d%s", arch, arch == 90 ? "a" : "");
  const char *const options[] = {option, "-default-device", "--fmad=false", "--std=c++17"};
  size_t bytes = 0;
  int error = n->create(&program, text, "kernel.cu", 0, NULL, NULL);
  if (!error) error = n->compile(program, 4, options);
  if (program && !n->log_size(program, &bytes) && bytes > 1) {
    char *whole = calloc(1, bytes + 1);
    if (whole) n->log(program, whole);
    snprintf(log, LOG_BYTES, "error %d\n%s", error, whole ? whole : "");
    free(whole);
  } else {
    snprintf(log, LOG_BYTES, "error %d", error);
  }
  if (program) n->destroy(&program);
  return error == 0 && bytes <= 1;
}

/* ---- Results of the processes -------------------------------------------------------------- */

enum { MOST_WORKERS = 8 }; /* of sample_sources_in_parallel */

typedef struct tally {
  int version[2], archs[MOST_ARCHS], arch_count;
  size_t compiled[MOST_WORKERS], recalled[MOST_WORKERS], unsuited[MOST_WORKERS],
      spared[MOST_WORKERS];
} tally;

static tally *tallies; /* shared between the processes */

/* ---- Sources compiled before --------------------------------------------------------------- */

typedef struct record {
  uint64_t *hash;
  size_t count, capacity;
} record;

static record known;

static uint64_t key_of(const sample_source *source, int arch) {
  const uint64_t words[] = {(uint64_t)arch, (uint64_t)tallies->version[0],
                            (uint64_t)tallies->version[1]};
  uint64_t key = source->hash;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    key = (key ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
  return key;
}

static int compare_hashes(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static bool is_known(uint64_t key) {
  return known.count > 0 && bsearch(&key, known.hash, known.count, sizeof key, compare_hashes);
}

static FILE *open_record(int worker, const char *mode) {
  char path[512];
  snprintf(path, sizeof path, "%s/compiled_%d", TEST_SCRATCH_DIR, worker);
  return fopen(path, mode);
}

static void read_record(void) {
  for (int worker = 0; worker < MOST_WORKERS; worker++) {
    FILE *file = open_record(worker, "rb");
    uint64_t key;
    while (file && fread(&key, sizeof key, 1, file) == 1) {
      if (known.count == known.capacity) {
        known.capacity = known.capacity ? 2 * known.capacity : 4096;
        known.hash = realloc(known.hash, known.capacity * sizeof *known.hash);
        assert_non_null(known.hash);
      }
      known.hash[known.count++] = key;
    }
    if (file) fclose(file);
  }
  if (known.count > 0) qsort(known.hash, known.count, sizeof *known.hash, compare_hashes);
}

/* ---- Several sources as one program -------------------------------------------------------- */

/* Writes "#define" or "#undef" for each macro of the source, or for each entry point. */
static void undefine_macros(text_buffer *to, const char *source) {
  for (const char *at = strstr(source, "#define "); at; at = strstr(at, "#define ")) {
    at += 8;
    text_add(to, "#undef %.*s\n", (int)strcspn(at, "( \t\n"), at);
  }
}

/* Entry points are outside of namespaces, so each gets a unique name. */
static void name_entries(text_buffer *to, const char *source, size_t number, bool begin) {
  const char *at = source;
  while ((at = strstr(at, "KERNEL REQUIRE_GROUP(")) != NULL) {
    at = strstr(at, ") void ");
    if (!at) return;
    at += 7;
    const int length = (int)strcspn(at, "(");
    if (begin)
      text_add(to, "#define %.*s %.*s_%zu\n", length, at, length, at, number);
    else
      text_add(to, "#undef %.*s\n", length, at);
  }
}

static void add_source(text_buffer *to, const char *source, size_t number) {
  name_entries(to, source, number, true);
  text_add(to, "namespace source_%zu {\n%s\n}\n", number, source);
  name_entries(to, source, number, false);
  undefine_macros(to, source);
}

/* ---- Compiling ----------------------------------------------------------------------------- */

typedef struct batch {
  const sample_source *source[BATCH];
  size_t count;
} batch;

static int compile_batch(const nvrtc *n, int arch, const batch *b, FILE *written) {
  char log[LOG_BYTES];
  text_buffer text = {0};
  int failures = 0;
  for (size_t i = 0; i < b->count; i++) add_source(&text, b->source[i]->text, i);
  const bool together = text.data && !text.failed && compile_text(n, arch, text.data, log);
  text_release(&text);
  for (size_t i = 0; i < b->count; i++) {
    const sample_source *source = b->source[i];
    const uint64_t key = key_of(source, arch);
    if (together || compile_text(n, arch, source->text, log)) {
      if (written) fwrite(&key, sizeof key, 1, written);
    } else {
      fprintf(stderr, "%s for sm_%d: %s\n", source->name, arch, log);
      failures++;
    }
  }
  return failures;
}

/* Returns true if source `number` is compiled for the suitable architecture `a`. A spread that is
 * no multiple of 2 or 3 covers both halves and all thirds every time. */
static bool is_taken(const sample_source *source, size_t number, int a) {
  int first = 0;
  const int last = tallies->arch_count - 1;
  while (first < last && tallies->archs[first] < source->least_arch) first++;
  if (getenv("COMPUTE_TEST_LONG")) return true;
  if (source->only_arch) return test_in_spread(number);
  if (!test_in_spread(number)) return false;
  if (first == last) return true;
  if (a == first || a == last) return a == (number % 2 == 0 ? first : last);
  return number % 3 == 0 && a == first + 1 + (int)(number / 3 % (size_t)(last - first - 1));
}

/* Compiles this worker's sources for one architecture, a batch at a time. */
static int compile_for(const nvrtc *n, int a, const sample_sources *sources, int worker,
                       int workers, FILE *written) {
  const int arch = tallies->archs[a];
  batch b = {.count = 0};
  int failures = 0;
  for (size_t i = (size_t)worker; i < sources->count; i += (size_t)workers) {
    const sample_source *source = &sources->sources[i];
    if (arch < source->least_arch || (source->only_arch && arch != source->only_arch)) {
      tallies->unsuited[worker]++;
    } else if (!is_taken(source, i / (size_t)workers, a)) {
      tallies->spared[worker]++;
    } else if (is_known(key_of(source, arch))) {
      tallies->recalled[worker]++;
    } else {
      tallies->compiled[worker]++;
      b.source[b.count++] = source;
    }
    if (b.count < BATCH) continue;
    failures += compile_batch(n, arch, &b, written);
    b.count = 0;
  }
  return b.count > 0 ? failures + compile_batch(n, arch, &b, written) : failures;
}

static int compile(const sample_sources *sources, int worker, int workers) {
  nvrtc n;
  int failures = 0;
  if (load(&n)) return -1;
  FILE *written = open_record(worker, "ab");
  for (int a = 0; a < tallies->arch_count; a++)
    failures += compile_for(&n, a, sources, worker, workers, written);
  if (written) fclose(written);
  return failures;
}

/* ---- The promise --------------------------------------------------------------------------- */

/* A command line argument: restricts the test to samples whose names contain it. */
static const char *part = "";

/* NVRTC runs in a separate process, so that no threads exist before the other workers fork. */
static int ask(const sample_sources *sources, int worker, int workers) {
  nvrtc n;
  (void)sources;
  (void)workers;
  if (worker != 0) return 0;
  const char *missing = load(&n);
  if (missing) fprintf(stderr, "skipped: no NVRTC here: %s\n", missing);
  if (missing || n.version(&tallies->version[0], &tallies->version[1]) ||
      n.arch_count(&tallies->arch_count) || tallies->arch_count > MOST_ARCHS ||
      n.archs(tallies->archs))
    return -1;
  return 0;
}

/* Prints the number of compiled sources, and checks that none is missing. */
static void report(const sample_sources *sources) {
  size_t compiled = 0, recalled = 0, unsuited = 0, spared = 0;
  for (int worker = 0; worker < MOST_WORKERS; worker++) {
    compiled += tallies->compiled[worker];
    recalled += tallies->recalled[worker];
    unsuited += tallies->unsuited[worker];
    spared += tallies->spared[worker];
  }
  print_message("NVRTC %d.%d, %d architectures:", tallies->version[0], tallies->version[1],
                tallies->arch_count);
  for (int a = 0; a < tallies->arch_count; a++) print_message(" sm_%d", tallies->archs[a]);
  print_message("\n%zu sources: %zu compilations, %zu more that an earlier run has done, %zu left "
                "out because the architecture lacks the tensor cores for them, %zu spared without "
                "COMPUTE_TEST_LONG\n",
                sources->count, compiled, recalled, unsuited, spared);
  assert_int_equal(compiled + recalled + unsuited + spared,
                   (size_t)tallies->arch_count * sources->count);
}

static void every_source_compiles_without_a_warning(void **state) {
  (void)state;
  tallies = mmap(NULL, sizeof *tallies, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(tallies != MAP_FAILED);
  sample_sources sources = sample_sources_create(COMPUTE_DIALECT_CUDA, part);
  assert_true(sources.count > 0);
  if (sample_sources_in_parallel(&sources, ask) != 0) test_skip("no NVRTC");
  read_record();
  const int failures = sample_sources_in_parallel(&sources, compile);
  report(&sources);
  sample_sources_release(&sources);
  free(known.hash);
  munmap(tallies, sizeof *tallies);
  if (failures != 0) fail_msg("%d compilations failed", failures);
}

int main(int argc, char **argv) {
  if (argc > 1) part = argv[1];
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_source_compiles_without_a_warning)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
