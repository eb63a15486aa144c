/* SPDX-License-Identifier: MIT */
/* Finds and runs the machine's C compiler.
 *
 * It runs in a new folder below /tmp, private to this user and removed afterwards. The disk cache
 * keeps the result, keyed by everything that it depends on. The object is loaded from an anonymous
 * file: from verified bytes, not from a path that could be replaced. A program with raised
 * privileges compiles nothing. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/loading.h"
#include "custom.h"
#include "core/platform/file_part.h"
#include "core/platform/library.h"

enum { PATH_BYTES = 4096, MOST_WORDS = 64, LOG_BYTES = 320, MOST_OBJECT = 64 << 20 };

static const char install[] =
    "install a C compiler with the C library's headers (Debian: gcc and libc6-dev), or name one "
    "in COMPUTE_CC";

static compute_status fail(const cpu_device *device, compute_status status, int64_t code,
                           const char *remedy, const char *entry, const char *what,
                           const char *detail) {
  return device->services->fail(device->services->host, status, code, remedy,
                                "cpu: kernel '%.60s': %s%s%.320s", entry, what,
                                detail[0] ? ": " : "", detail);
}

/* ---- Finding the compiler -------------------------------------------------------------------- */

typedef struct c_compiler {
  char path[PATH_BYTES];
  struct stat file;
} c_compiler;

static bool is_program(const char *path, struct stat *file) {
  return stat(path, file) == 0 && S_ISREG(file->st_mode) && access(path, X_OK) == 0;
}

/* Searches for `name` in the absolute folders of PATH. */
static bool find_in_path(const char *folders, const char *name, c_compiler *found) {
  for (const char *at = folders; at && *at;) {
    const size_t length = strcspn(at, ":");
    const int used = snprintf(found->path, sizeof found->path, "%.*s/%s", (int)length, at, name);
    if (*at == '/' && used > 0 && used < PATH_BYTES && is_program(found->path, &found->file))
      return true;
    at += length + (at[length] == ':');
  }
  return false;
}

static compute_status find_compiler(const cpu_device *device, const char *entry,
                                    c_compiler *found) {
  static const char *const usual[] = {"cc", "gcc", "clang"};
  const compute_services *services = device->services;
  if (getauxval(AT_SECURE))
    return fail(device, COMPUTE_ERROR_UNSUPPORTED, 0, NULL, entry,
                "a program with elevated privileges does not start a compiler", "");
  if (!LIBRARY_FROM_MEMORY)
    return fail(device, COMPUTE_ERROR_UNSUPPORTED, 0, NULL, entry,
                "kernels of your own do not run on the CPU of this system", "");
  const char *named = services->variable(services->host, "COMPUTE_CC");
  const char *folders = services->variable(services->host, "PATH");
  if (named && strcmp(named, "none") == 0)
    return fail(device, COMPUTE_ERROR_UNSUPPORTED, 0, "unset COMPUTE_CC, or name a compiler in it",
                entry, "COMPUTE_CC=none disables kernels for the CPU", "");
  if (named && named[0] == '/') {
    snprintf(found->path, sizeof found->path, "%s", named);
    if (is_program(found->path, &found->file)) return COMPUTE_OK;
  } else if (named) {
    if (!strchr(named, '/') && find_in_path(folders, named, found)) return COMPUTE_OK;
  }
  if (named)
    return fail(device, COMPUTE_ERROR_UNSUPPORTED, 0,
                "set COMPUTE_CC to the absolute path of a compiler, or to its name in PATH", entry,
                "COMPUTE_CC does not name a program", named);
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (find_in_path(folders, usual[i], found)) return COMPUTE_OK;
  return fail(device, COMPUTE_ERROR_UNSUPPORTED, 0, install, entry,
              "no C compiler (cc, gcc, clang) in PATH", "");
}

/* ---- The command ----------------------------------------------------------------------------- */

/* Compiles for the machine's processor, or for the set that COMPUTE_CPU_ISA permits. */
static const char *architecture(const cpu_device *device) {
#if defined(__x86_64__)
  const bool forced = device->services->variable(device->services->host, "COMPUTE_CPU_ISA") != NULL;
  const uint32_t bytes = device->isa->vector_bytes;
  return !forced       ? "-march=native"
         : bytes == 64 ? "-march=x86-64-v4"
         : bytes == 32 ? "-march=x86-64-v3"
                       : "-march=x86-64";
#elif defined(__aarch64__)
  (void)device;
  return "-mcpu=native";
#else
  (void)device;
  return "-O3";
#endif
}

typedef struct command {
  char *words[MOST_WORDS + 1];
  int count;
  char output[PATH_BYTES], input[PATH_BYTES];
} command;

static bool add_word(command *c, const char *word) {
  if (c->count == MOST_WORDS) return false;
  c->words[c->count++] = (char *)word;
  return true;
}

/* `options` is split at blanks. */
static bool make_command(const cpu_device *device, const c_compiler *program, char *options,
                         command *c) {
  static const char *const before[] = {
      "-x",      "c",     "-std=gnu11",          "-O3",
      "-fPIC",   "-w",    "-fvisibility=hidden", "-fno-math-errno",
      "-shared", "-pipe", "-fno-trapping-math",  "-ffp-contract=off"};
  bool fits = add_word(c, program->path);
  for (size_t i = 0; i < sizeof before / sizeof *before; i++) fits = fits && add_word(c, before[i]);
  fits = fits && add_word(c, architecture(device));
  char *place = NULL;
  for (char *word = options ? strtok_r(options, " \t\n", &place) : NULL; word && fits;
       word = strtok_r(NULL, " \t\n", &place))
    fits = add_word(c, word);
  fits = fits && add_word(c, "-o") && add_word(c, c->output) && add_word(c, c->input) &&
         add_word(c, "-lm");
  c->words[c->count] = NULL;
  return fits;
}

/* ---- Running it ------------------------------------------------------------------------------ */

static int write_all(int file, const void *data, size_t bytes) {
  const char *at = data;
  while (bytes > 0) {
    const ssize_t done = write(file, at, file_part(bytes));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return done < 0 ? errno : EIO;
    at += done;
    bytes -= (size_t)done;
  }
  return 0;
}

static int write_file(const char *path, const void *data, size_t bytes) {
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  const int problem = write_all(file, data, bytes);
  return close(file) != 0 && problem == 0 ? errno : problem;
}

/* The file's bytes, from cpu_allocate; NULL with errno on failure. */
static void *read_file(cpu_device *device, const char *path, size_t *bytes) {
  const int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status;
  if (file < 0) return NULL;
  char *data = NULL;
  if (fstat(file, &status) == 0 && status.st_size > 0 && status.st_size <= MOST_OBJECT)
    data = cpu_allocate(device, (uint64_t)status.st_size + 1);
  size_t have = 0;
  while (data && have < (size_t)status.st_size) {
    const ssize_t done = read(file, data + have, file_part((size_t)status.st_size - have));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) break;
    have += (size_t)done;
  }
  close(file);
  *bytes = have;
  return data;
}

/* Starts the command in a clean environment and waits for it. Returns 0 or an errno; *exit_status
 * comes from waitpid, or is −1 if the program ignores SIGCHLD. */
static int spawn_and_wait(const cpu_device *device, const char *folder, const char *log,
                          char *const *words, int *exit_status) {
  const compute_services *services = device->services;
  const char *path = services->variable(services->host, "PATH");
  const char *home = services->variable(services->host, "HOME");
  char variables[3][PATH_BYTES];
  snprintf(variables[0], sizeof variables[0], "PATH=%s", path ? path : "/usr/bin:/bin");
  snprintf(variables[1], sizeof variables[1], "TMPDIR=%s", folder);
  snprintf(variables[2], sizeof variables[2], "HOME=%s", home ? home : folder);
  char *environment[] = {variables[0], variables[1], variables[2], "LC_ALL=C", NULL};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  sigset_t none, pipes;
  sigemptyset(&none);
  sigemptyset(&pipes);
  sigaddset(&pipes, SIGPIPE);
  pid_t child = 0;
  int problem = posix_spawn_file_actions_init(&files);
  if (problem) return problem;
  problem = posix_spawnattr_init(&how);
  if (!problem) {
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &pipes);
    problem = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!problem)
      problem =
          posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (!problem) problem = posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (!problem) problem = posix_spawn(&child, words[0], &files, &how, words, environment);
    posix_spawnattr_destroy(&how);
  }
  posix_spawn_file_actions_destroy(&files);
  *exit_status = -1;
  if (!problem)
    while (waitpid(child, exit_status, 0) < 0 && errno == EINTR) continue;
  return problem;
}

/* The first lines of the compiler's output, joined. */
static void summarise(cpu_device *device, const char *path, char *words) {
  size_t bytes, used = 0;
  char *log = read_file(device, path, &bytes);
  words[0] = '\0';
  for (size_t i = 0; log && i < bytes && used + 1 < LOG_BYTES; i++)
    words[used++] = log[i] == '\n' ? ' ' : log[i];
  words[used] = '\0';
  cpu_release(device, log);
}

/* Compiles the text to an object. */
static compute_status compile(cpu_device *device, const c_compiler *program, const char *text,
                              const char *entry, char *options, void **object, size_t *bytes) {
  char folder[] = "/tmp/compute-XXXXXX", log[64], words[LOG_BYTES];
  compute_status status = COMPUTE_OK;
  *object = NULL;
  if (!mkdtemp(folder))
    return fail(device, COMPUTE_ERROR_FILE, errno, NULL, entry, "no folder to compile in",
                strerror(errno));
  command *c = cpu_allocate(device, sizeof *c);
  if (!c) {
    rmdir(folder);
    return cpu_out_of_memory(device, sizeof *c);
  }
  snprintf(log, sizeof log, "%s/log", folder);
  snprintf(c->input, sizeof c->input, "%s/kernel.c", folder);
  snprintf(c->output, sizeof c->output, "%s/kernel.so", folder);
  int exit_status = 0, problem = write_file(c->input, text, strlen(text));
  if (problem) {
    status = fail(device, COMPUTE_ERROR_FILE, problem, NULL, entry, c->input, strerror(problem));
  } else if (!make_command(device, program, options, c)) {
    status = fail(device, COMPUTE_ERROR_INVALID_ARGUMENT, 0, NULL, entry, "too many options", "");
  } else {
    problem = spawn_and_wait(device, folder, log, c->words, &exit_status);
    if (!problem && exit_status <= 0) *object = read_file(device, c->output, bytes);
    summarise(device, log, words);
    if (problem)
      status = fail(device, COMPUTE_ERROR_UNSUPPORTED, problem, install, entry, program->path,
                    strerror(problem));
    else if (!*object)
      status = fail(device, COMPUTE_ERROR_COMPILATION, exit_status, NULL, entry,
                    "it does not compile", words);
  }
  unlink(log);
  unlink(c->input);
  unlink(c->output);
  rmdir(folder);
  cpu_release(device, c);
  return status;
}

/* ---- The cache ------------------------------------------------------------------------------- */

/* The meaning of `native` on this machine: the lines of /proc/cpuinfo that identify the first
 * processor. */
static void describe_processor(char *text, size_t bytes) {
  static const char *const keys[] = {"vendor_id",       "cpu family", "model",
                                     "stepping",        "flags",      "Features",
                                     "CPU implementer", "CPU part",   "CPU variant"};
  FILE *file = fopen("/proc/cpuinfo", "re");
  char *line = NULL;
  size_t room = 0, used = 0;
  text[0] = '\0';
  while (file && getline(&line, &room, file) > 1)
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
      if (strncmp(line, keys[i], strlen(keys[i])) == 0 && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used, "%s", line);
  free(line);
  if (file) fclose(file);
}

typedef struct cache_key {
  char processor[8192];
  int64_t file[5];
  compute_cache_part parts[8];
  uint32_t count;
} cache_key;

static void make_key(const cpu_device *device, const c_compiler *program, const char *text,
                     const char *options, cache_key *key) {
  static const char what[] = "a user's kernel for the CPU, 1";
  const char *how = architecture(device);
  const int64_t file[5] = {(int64_t)program->file.st_size, (int64_t)program->file.st_mtim.tv_sec,
                           program->file.st_mtim.tv_nsec, (int64_t)program->file.st_ino,
                           (int64_t)program->file.st_dev};
  memcpy(key->file, file, sizeof file);
  describe_processor(key->processor, sizeof key->processor);
  const compute_cache_part parts[] = {{what, sizeof what},
                                      {program->path, strlen(program->path)},
                                      {key->file, sizeof key->file},
                                      {how, strlen(how)},
                                      {key->processor, strlen(key->processor)},
                                      {options ? options : "", options ? strlen(options) : 0},
                                      {text, strlen(text)}};
  memcpy(key->parts, parts, sizeof parts);
  key->count = sizeof parts / sizeof *parts;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* False if the bytes are not a loadable object; `why` receives the loader's message. */
static bool load(const compute_services *services, const void *bytes, size_t count,
                 custom_object *object, char *why, size_t why_bytes) {
  char path[64];
  *object =
      (custom_object){.services = services, .file = memfd_create("compute-kernel", MFD_CLOEXEC)};
  const int problem = object->file < 0 ? errno : write_all(object->file, bytes, count);
  snprintf(path, sizeof path, "/proc/self/fd/%d", object->file);
  loading_begin(services);
  if (problem == 0) object->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  loading_end(services);
  const char *words = problem ? strerror(problem) : object->handle ? NULL : dlerror();
  snprintf(why, why_bytes, "%s", words ? words : "");
  if (!object->handle && object->file >= 0) close(object->file);
  return object->handle != NULL;
}

void custom_unload(custom_object *object) {
  if (!object->handle) return;
  loading_begin(object->services);
  dlclose(object->handle);
  loading_end(object->services);
  close(object->file);
  object->handle = NULL;
}

compute_status custom_load(cpu_device *device, const char *text, const char *entry,
                           const char *options, custom_object *object) {
  const compute_services *services = device->services;
  char why[LOG_BYTES] = "";
  c_compiler *found = cpu_allocate(device, sizeof *found);
  cache_key *key = cpu_allocate(device, sizeof *key);
  const size_t length = options ? strlen(options) + 1 : 1;
  char *copy = cpu_allocate(device, length); /* split below */
  void *made = NULL;
  size_t bytes = 0;
  bool loaded = false;
  *object = (custom_object){.handle = NULL};
  compute_status status = COMPUTE_OK;
  if (!found || !key || !copy)
    status = cpu_out_of_memory(device, sizeof *found + sizeof *key + length);
  else
    status = find_compiler(device, entry, found);
  if (!status) {
    if (options) memcpy(copy, options, length);
    make_key(device, found, text, options, key);
    made = services->cache_load(services->host, key->parts, key->count, &bytes);
    loaded = made && load(services, made, bytes, object, why, sizeof why);
    cpu_release(device, made);
  }
  if (!status && !loaded) {
    status = compile(device, found, text, entry, copy, &made, &bytes);
    loaded = !status && load(services, made, bytes, object, why, sizeof why);
    if (loaded) services->cache_store(services->host, key->parts, key->count, made, bytes);
    if (!status && !loaded)
      status = fail(device, COMPUTE_ERROR_COMPILATION, 0, NULL, entry,
                    "the compiled object cannot be loaded", why);
    if (made) cpu_release(device, made);
  }
  cpu_release(device, copy);
  cpu_release(device, key);
  cpu_release(device, found);
  return status;
}
