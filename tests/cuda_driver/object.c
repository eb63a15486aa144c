/* SPDX-License-Identifier: MIT */
/* Replaces a source's CUDA dialect by the C dialect; macros define the remaining CUDA C. For each
 * entry point, it adds a function that takes an array of arguments, and an array with the sizes of
 * its parameters. */
#include "object.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/generate/emit/emit.h"

extern char **environ;

static const char cuda_words[] =
    "typedef struct { unsigned x, y, z; } stand_in_index;\n"
    "#define STAND_IN_INDEX(of) ((stand_in_index){dialect_current->of[0], "
    "dialect_current->of[1], dialect_current->of[2]})\n"
    "#define threadIdx STAND_IN_INDEX(local_id)\n"
    "#define blockIdx STAND_IN_INDEX(group_id)\n"
    "#define blockDim STAND_IN_INDEX(group_size)\n"
    "#define gridDim STAND_IN_INDEX(group_count)\n"
    "#define __global__ static\n"
    "#define __device__ static inline __attribute__((unused))\n"
    "#define __forceinline__\n"
    "#define __restrict__ restrict\n"
    "#define __launch_bounds__(...)\n"
    "#define __shared__ static _Thread_local\n"
    "#define __syncthreads() BARRIER()\n"
    "#define __ffs(word) __builtin_ffs(word)\n"
    "#define atomicAdd(pointer, value) ATOMIC_ADD(pointer, value)\n";

static const char *const flags[] = {"-std=gnu11",
                                    "-O1",
                                    "-fPIC",
                                    "-shared",
                                    "-nostdlib",
                                    "-fvisibility=hidden",
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-fno-asynchronous-unwind-tables",
                                    "-Werror=implicit-function-declaration",
                                    "-x",
                                    "c"};
enum { FLAGS = sizeof flags / sizeof *flags, MOST_OPTIONS = 64 };

static const char *kernel_text_of(const char *name) {
  for (const kernel_text *file = kernel_texts; file->name; file++)
    if (strcmp(file->name, name) == 0) return file->text;
  return "";
}

/* ---- Text ---------------------------------------------------------------------------------- */

typedef struct text {
  char *data;
  size_t bytes, room;
  bool failed;
} text;

static void add_bytes(text *t, const char *data, size_t bytes) {
  if (t->bytes + bytes + 1 > t->room) {
    const size_t room = 2 * (t->bytes + bytes) + 4096;
    char *grown = t->failed ? NULL : realloc(t->data, room);
    if (!grown) {
      t->failed = true;
      return;
    }
    t->data = grown;
    t->room = room;
  }
  memcpy(t->data + t->bytes, data, bytes);
  t->bytes += bytes;
  t->data[t->bytes] = '\0';
}

static __attribute__((format(printf, 2, 3))) void add(text *t, const char *format, ...) {
  char line[1024];
  va_list list;
  va_start(list, format);
  const int length = vsnprintf(line, sizeof line, format, list);
  va_end(list);
  if (length < 0 || (size_t)length >= sizeof line)
    t->failed = true;
  else
    add_bytes(t, line, (size_t)length);
}

/* ---- Entries ------------------------------------------------------------------------------- */

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

/* Returns the next occurrence of a whole word, or NULL. */
static const char *find_word(const char *from, const char *word) {
  const size_t length = strlen(word);
  for (const char *at = from; (at = strstr(at, word)); at += length)
    if (!is_word(at[length]) && !is_word(at[-1])) return at;
  return NULL;
}

static bool in_directive(const char *start, const char *at) {
  while (at > start && at[-1] != '\n') at--;
  return *at == '#';
}

/* Returns the product of the numbers in the parentheses after `word`, before `end`; 1024 if the
 * word is absent. */
static unsigned items_of(const char *from, const char *end, const char *word) {
  const char *at = find_word(from, word);
  unsigned x = 1, y = 1, z = 1;
  if (!at || at >= end) return 1024;
  sscanf(at + strlen(word), "(%u, %u, %u", &x, &y, &z);
  return x * y * z;
}

/* Adds a caller of the entry `name`, whose parameters are the text from `from` to `end`. */
static void add_entry(text *t, const char *name, int name_bytes, const char *from, const char *end,
                      unsigned items) {
  struct {
    const char *start;
    int bytes;
  } types[256];
  int count = 0;
  while (from < end && count < 256) {
    const char *comma = from;
    while (comma < end && *comma != ',') comma++;
    const char *last = comma;
    while (last > from && !is_word(last[-1])) last--;
    while (last > from && is_word(last[-1])) last--;
    if (last > from) {
      types[count].start = from;
      types[count++].bytes = (int)(last - from);
    }
    from = comma + 1;
  }
#define VISIBLE "__attribute__((visibility(\"default\")))"
  add(t, VISIBLE " void %.*s_call(void **arguments);\nvoid %.*s_call(void **arguments) {\n",
      name_bytes, name, name_bytes, name);
  add(t, "  (void)arguments;\n  %.*s(", name_bytes, name);
  for (int i = 0; i < count; i++)
    add(t, "%s*(%.*s *)arguments[%d]", i ? ", " : "", types[i].bytes, types[i].start, i);
  add(t,
      ");\n}\nextern const uint32_t %.*s_parameters[];\n" VISIBLE
      " const uint32_t %.*s_parameters[] = {%d, %u",
      name_bytes, name, name_bytes, name, count, items);
  for (int i = 0; i < count; i++) add(t, ", sizeof(%.*s)", types[i].bytes, types[i].start);
  add(t, "};\n");
}

static void add_entries(text *t, const char *source, const char *word) {
  for (const char *at = source; (at = find_word(at, word)); at += strlen(word)) {
    if (in_directive(source, at)) continue;
    const char *result = find_word(at, "void");
    const char *name = result ? result + 4 : NULL;
    if (!name) return;
    while (isspace((unsigned char)*name)) name++;
    const char *bounds = find_word(at, "__launch_bounds__");
    if (bounds && strncmp(name, "__launch_bounds__", 17) == 0) {
      name = strchr(name, ')');
      if (!name) return;
      for (name++; isspace((unsigned char)*name);) name++;
    }
    const char *end_of_name = name;
    while (is_word(*end_of_name)) end_of_name++;
    const char *open = strchr(end_of_name, '('), *close = open ? strchr(open, ')') : NULL;
    if (!close || end_of_name == name) continue;
    const unsigned required = items_of(at, name, "REQUIRE_GROUP");
    const unsigned bound = items_of(at, name, "__launch_bounds__");
    add_entry(t, name, (int)(end_of_name - name), open + 1, close,
              required < bound ? required : bound);
  }
}

char *object_translate(const char *source) {
  const char *cuda = kernel_text_of("dialect_cuda.h"), *c = kernel_text_of("dialect_c.h");
  const char *dialect = strstr(source, cuda);
  text t = {0}, whole = {0};
  add(&t, "\n"); /* so that each byte has a predecessor */
  if (dialect) {
    add_bytes(&t, source, (size_t)(dialect - source));
    source = dialect + strlen(cuda);
  }
  for (const char *linkage; (linkage = strstr(source, "extern \"C\"")); source = linkage + 10)
    add_bytes(&t, source, (size_t)(linkage - source));
  add_bytes(&t, source, strlen(source));
  add_bytes(&whole, c, strlen(c));
  add_bytes(&whole, cuda_words, sizeof cuda_words - 1);
  if (!t.failed) {
    add(&whole, "#line 1 \"kernel.cu\"\n");
    add_bytes(&whole, t.data + 1, t.bytes - 1);
    add(&whole, "\n");
    add_entries(&whole, t.data, "KERNEL");
    add_entries(&whole, t.data, "__global__");
  }
  const bool failed = t.failed || whole.failed;
  free(t.data);
  if (!failed) return whole.data;
  free(whole.data);
  return NULL;
}

/* ---- Compiling ----------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const char *bytes) {
  for (const char *c = bytes; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
  return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

static bool write_file(const char *path, const char *words) {
  FILE *file = fopen(path, "w");
  if (!file) return false;
  const bool good = fputs(words, file) >= 0;
  return fclose(file) == 0 && good;
}

static void read_log(const char *path, char *log, size_t bytes) {
  FILE *file = fopen(path, "r");
  const size_t length = file ? fread(log, 1, bytes - 1, file) : 0;
  log[length] = '\0';
  if (file) fclose(file);
}

static int run_compiler(char *const arguments[], const char *words) {
  posix_spawn_file_actions_t actions;
  pid_t pid;
  int status = -1;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, words, O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  const int error = posix_spawnp(&pid, arguments[0], &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error) return error;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return errno;
  return status;
}

bool object_make(const char *source, const char *const *options, int option_count, char *path,
                 size_t path_bytes, char *log, size_t log_bytes) {
  static _Atomic unsigned number;
  char stem[512], source_path[600], made[600], words[600];
  char *arguments[FLAGS + MOST_OPTIONS + 8];
  int count = 0;
  uint64_t a = mix(UINT64_C(0xcbf29ce484222325), source), b = mix(a, "2");
  for (int i = 0; i < FLAGS; i++) b = mix(b, flags[i]);
  for (int i = 0; i < option_count; i++) b = mix(b, options[i]);
  b = mix(b, source);
  log[0] = '\0';
  mkdir(STAND_IN_OBJECTS, 0700);
  snprintf(path, path_bytes, STAND_IN_OBJECTS "/%016llx%016llx.so", (unsigned long long)a,
           (unsigned long long)b);
  if (access(path, R_OK) == 0) return true;
  snprintf(stem, sizeof stem, "%s.%d.%u", path, (int)getpid(), atomic_fetch_add(&number, 1));
  snprintf(source_path, sizeof source_path, "%s.c", stem);
  snprintf(made, sizeof made, "%s.new", stem);
  snprintf(words, sizeof words, "%s.txt", stem);
  if (!write_file(source_path, source)) {
    snprintf(log, log_bytes, "cannot write " STAND_IN_OBJECTS);
    return false;
  }
  arguments[count++] = (char *)(uintptr_t)STAND_IN_COMPILER;
  for (int i = 0; i < FLAGS; i++) arguments[count++] = (char *)(uintptr_t)flags[i];
  for (int i = 0; i < option_count && i < MOST_OPTIONS; i++)
    if (options[i][0] == '-' && (options[i][1] == 'D' || options[i][1] == 'I'))
      arguments[count++] = (char *)(uintptr_t)options[i];
  arguments[count++] = source_path;
  arguments[count++] = (char *)(uintptr_t) "-o";
  arguments[count++] = made;
  arguments[count++] = (char *)(uintptr_t) "-lm";
  arguments[count++] = (char *)(uintptr_t) "-lgcc";
  arguments[count] = NULL;
  const bool good = run_compiler(arguments, words) == 0 && rename(made, path) == 0;
  if (!good) read_log(words, log, log_bytes);
  if (!good && log[0] == '\0') snprintf(log, log_bytes, "the compiler failed without a word");
  unlink(source_path);
  unlink(words);
  return good;
}
