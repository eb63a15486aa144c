/* SPDX-License-Identifier: MIT */
/* Builds a kernel's text into a loaded shared object with the machine's C compiler. */
#include "support/emulator/emulator_program.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 1024, AT_ONCE = 8, DAY = 24 * 60 * 60 };

extern char **environ;

/* Warnings are errors, as for the other compilers. Undefined behaviour traps. */
static const char *const flags[] = {"-std=gnu11",
                                    "-O1",
                                    "-g1",
                                    "-fPIC",
                                    "-shared",
                                    "-fvisibility=hidden",
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-Wall",
                                    "-Wextra",
                                    "-Werror",
                                    "-Wno-unused-function",
                                    "-Wno-unused-parameter",
                                    "-Wno-unused-variable",
                                    "-Wno-unused-but-set-variable",
                                    "-fsanitize=alignment,shift,signed-integer-overflow",
                                    "-fsanitize=integer-divide-by-zero,float-cast-overflow,bool",
                                    "-fsanitize-undefined-trap-on-error",
                                    "-x",
                                    "c"};
enum { FLAGS = sizeof flags / sizeof *flags };

emulator_source emulator_source_of(const compute_generated *generated) {
  emulator_source source = {.text = generated->source, .entry_count = generated->launch_count};
  for (uint32_t i = 0; i < generated->launch_count; i++)
    source.entries[i] = generated->launches[i].entry;
  return source;
}

/* ---- Files --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const char *text) {
  for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
  return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

/* Names the source's file by a hash of everything that the object depends on. */
static void name_file(const char *folder, const emulator_source *source, const char *ending,
                      char path[PATH_BYTES]) {
  uint64_t a = UINT64_C(0xcbf29ce484222325), b = UINT64_C(0x84222325cbf29ce4);
  a = mix(a, source->text);
  b = mix(mix(b, "1"), source->text);
  for (uint32_t i = 0; i < source->entry_count; i++) a = mix(a, source->entries[i]);
  for (int i = 0; i < FLAGS; i++) b = mix(b, flags[i]);
  snprintf(path, PATH_BYTES, "%s/%016llx%016llx%s", folder, (unsigned long long)a,
           (unsigned long long)b, ending);
}

/* Writes the source and its size of each shape: the launch must agree. */
static bool write_source(const char *path, const emulator_source *source) {
  FILE *file = fopen(path, "w");
  if (!file) return false;
  fputs(source->text, file);
  for (uint32_t i = 0; i < source->entry_count; i++)
    fprintf(file,
            "\nextern const uint64_t %s_shape_bytes;\n"
            "__attribute__((visibility(\"default\"))) const uint64_t %s_shape_bytes = "
            "sizeof(shape_%s);\n",
            source->entries[i], source->entries[i], source->entries[i]);
  const bool good = !ferror(file);
  return fclose(file) == 0 && good;
}

/* Reads the tail of the compiler's output, from its first error. */
static void read_problem(const char *path, char *problem, size_t bytes) {
  FILE *file = fopen(path, "r");
  if (bytes == 0) return;
  size_t length = file ? fread(problem, 1, bytes - 1, file) : 0;
  problem[length] = 0;
  if (file) fclose(file);
  if (length == 0) emulator_explain(problem, bytes, "the compiler failed without a word");
}

/* ---- Compiling ----------------------------------------------------------------------------- */

typedef struct job {
  pid_t pid;
  const emulator_source *source;
} job;

static bool start(job *j, const char *folder, const emulator_source *source) {
  char text[PATH_BYTES], made[PATH_BYTES], words[PATH_BYTES];
  const char *compiler = getenv("CC");
  char *arguments[FLAGS + 6];
  int count = 0;
  posix_spawn_file_actions_t actions;
  name_file(folder, source, ".c", text);
  name_file(folder, source, ".new", made);
  name_file(folder, source, ".txt", words);
  if (!write_source(text, source)) return false;
  if (!compiler || !compiler[0]) compiler = "cc";
  arguments[count++] = (char *)(uintptr_t)compiler;
  for (int i = 0; i < FLAGS; i++) arguments[count++] = (char *)(uintptr_t)flags[i];
  arguments[count++] = text;
  arguments[count++] = (char *)(uintptr_t) "-o";
  arguments[count++] = made;
  arguments[count++] = (char *)(uintptr_t) "-lm";
  arguments[count] = NULL;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, words, O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  const int error = posix_spawnp(&j->pid, compiler, &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  j->source = source;
  return error == 0;
}

/* Waits for a job. Only a finished object gets its final name, so that no process loads half an
 * object. */
static bool finish(const job *j, const char *folder, char *problem, size_t bytes) {
  char text[PATH_BYTES], made[PATH_BYTES], words[PATH_BYTES], object[PATH_BYTES];
  int status = -1;
  name_file(folder, j->source, ".c", text);
  name_file(folder, j->source, ".new", made);
  name_file(folder, j->source, ".txt", words);
  name_file(folder, j->source, ".so", object);
  while (waitpid(j->pid, &status, 0) < 0 && errno == EINTR) continue;
  if (status != 0 || rename(made, object)) {
    read_problem(words, problem, bytes);
    return false;
  }
  unlink(words);
  return true;
}

/* Returns true if there is an object, and marks it as in use. */
static bool exists(const char *folder, const emulator_source *source) {
  char path[PATH_BYTES];
  name_file(folder, source, ".so", path);
  return utimensat(AT_FDCWD, path, NULL, 0) == 0;
}

/* Removes the objects that no run has used for a day: sources of older generators. */
static void prune(const char *folder) {
  DIR *directory = opendir(folder);
  const time_t now = time(NULL);
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    char path[PATH_BYTES];
    struct stat info;
    if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= PATH_BYTES) continue;
    if (!stat(path, &info) && S_ISREG(info.st_mode) && now - info.st_mtime > DAY) unlink(path);
  }
  if (directory) closedir(directory);
}

static bool in_progress(const job *jobs, int count, const emulator_source *source) {
  for (int i = 0; i < count; i++)
    if (!strcmp(jobs[i].source->text, source->text)) return true;
  return false;
}

/* Only the first problem is reported. */
static void note(bool success, const char *words, bool *good, char *problem, size_t bytes) {
  if (success || !*good) return;
  *good = false;
  emulator_explain(problem, bytes, "%s", words);
}

bool emulator_compile(const char *folder, const emulator_source *sources, size_t count,
                      char *problem, size_t problem_bytes) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  const int limit = processors < 1 ? 1 : processors > AT_ONCE ? AT_ONCE : (int)processors;
  char words[2048];
  job jobs[AT_ONCE];
  int running = 0;
  bool good = true;
  mkdir(folder, 0700);
  if (count > 1) prune(folder);
  for (size_t i = 0; i < count; i++) {
    if (exists(folder, &sources[i]) || in_progress(jobs, running, &sources[i])) continue;
    if (running == limit) {
      note(finish(&jobs[0], folder, words, sizeof words), words, &good, problem, problem_bytes);
      memmove(jobs, jobs + 1, (size_t)--running * sizeof *jobs);
    }
    if (start(&jobs[running], folder, &sources[i])) {
      running++;
    } else {
      snprintf(words, sizeof words, "no compiler, or the folder %s is not writable", folder);
      note(false, words, &good, problem, problem_bytes);
    }
  }
  for (int i = 0; i < running; i++)
    note(finish(&jobs[i], folder, words, sizeof words), words, &good, problem, problem_bytes);
  return good;
}

/* ---- Loading ------------------------------------------------------------------------------- */

static void *symbol(const emulator_program *program, const char *name, const char *ending) {
  char text[128];
  snprintf(text, sizeof text, "%s%s", name, ending);
  return dlsym(program->library, text);
}

static bool find_entries(emulator_program *program, const emulator_source *source, char *problem,
                         size_t bytes) {
  void *enter = symbol(program, "dialect_enter", "");
  if (!enter) return emulator_explain(problem, bytes, "the object has no dialect_enter");
  memcpy(&program->enter, &enter, sizeof enter);
  program->entry_count = source->entry_count;
  for (uint32_t i = 0; i < source->entry_count; i++) {
    const char *name = source->entries[i];
    void *call = symbol(program, name, "_call");
    const uint64_t *shape_bytes = symbol(program, name, "_shape_bytes");
    if (!call || !shape_bytes)
      return emulator_explain(problem, bytes, "the object has no entry point %s", name);
    snprintf(program->entries[i].name, sizeof program->entries[i].name, "%s", name);
    memcpy(&program->entries[i].call, &call, sizeof call);
    program->entries[i].shape_bytes = *shape_bytes;
  }
  return true;
}

emulator_program *emulator_open(const char *folder, const emulator_source *source, char *problem,
                                size_t problem_bytes) {
  char path[PATH_BYTES];
  if (!emulator_compile(folder, source, 1, problem, problem_bytes)) return NULL;
  name_file(folder, source, ".so", path);
  emulator_program *program = calloc(1, sizeof *program);
  if (!program) {
    emulator_explain(problem, problem_bytes, "no memory");
    return NULL;
  }
  program->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  bool good = program->library != NULL;
  if (!good)
    emulator_explain(problem, problem_bytes, "%s", dlerror());
  else
    good = find_entries(program, source, problem, problem_bytes);
  if (good) return program;
  emulator_close(program);
  return NULL;
}

void emulator_close(emulator_program *program) {
  if (!program) return;
  if (program->library) dlclose(program->library);
  free(program);
}
