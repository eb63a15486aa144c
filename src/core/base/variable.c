/* SPDX-License-Identifier: MIT */
/* The table of environment variables, and its only reader. No other file of the library or its
 * programs calls getenv, so the table is complete. docs/reference/environment.md is its page for
 * users. */
#include "core/base/variable.h"
#include "core/platform/privilege.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compute/status.h"
#include "core/base/log.h"
#include "core/platform/names.h"

/* The rule for a value. Only our variables are checked. */
typedef enum variable_kind {
  VARIABLE_ANY,     /* checked by its reader, or not at all for other software */
  VARIABLE_NUMBER,  /* whole number in low … high */
  VARIABLE_WORD,    /* one of `words` */
  VARIABLE_WORDS,   /* some of `words`, separated by ',' */
  VARIABLE_NAME,    /* name of a module */
  VARIABLE_NAMES,   /* names of modules, separated by ',' */
  VARIABLE_PATH,    /* absolute path, or one of `words` */
  VARIABLE_PATHS,   /* absolute paths, separated by ':' */
  VARIABLE_NEW_FILE /* in a folder that can be written to */
} variable_kind;

typedef struct variable_row {
  compute_variable shown;
  bool trusted_only; /* names files, sets parameters of running code, or makes the process load a
                      * library: see privilege_raised */
  variable_kind kind;
  int64_t low, high;
  const char *words; /* separated by ' ': "off error" */
} variable_row;

static const variable_row table[] = {
    {.shown = {"COMPUTE_DEVICE", "cpu, cuda:0, opencl:1, …, auto",
               "The default device of a context that names none in its options. With auto it is "
               "the best one, and plans that name none place each step where it runs fastest."},
     .trusted_only = false},
    {.shown = {"COMPUTE_BACKENDS", "names separated by ','",
               "Loads only these backend modules; by default all that are found."},
     .trusted_only = false,
     .kind = VARIABLE_NAMES},
    {.shown =
         {"COMPUTE_BACKEND_PATH", "absolute folders separated by ':'",
          "Folders searched for backend modules before the library's own; ignored in privileged "
          "programs."},
     .trusted_only = true,
     .kind = VARIABLE_PATHS},
    {.shown =
         {"COMPUTE_LOG", "off, error, warning, info, debug",
          "Writes the log to standard error from this level on; by default nothing is written."},
     .trusted_only = false,
     .kind = VARIABLE_WORD,
     .words = "off error warning info debug"},
    {.shown = {"COMPUTE_THREADS", "1 … 4096",
               "CPU threads of a context; by default as many as the process may use."},
     .trusted_only = false,
     .kind = VARIABLE_NUMBER,
     .low = 1,
     .high = 4096},
    {.shown = {"COMPUTE_CACHE_DIR", "absolute folder",
               "Where compiled kernels and tuning results are kept; by default, compute under "
               "XDG_CACHE_HOME or ~/.cache. Ignored in privileged programs."},
     .trusted_only = true,
     .kind = VARIABLE_PATH},
    {.shown = {"COMPUTE_CACHE_LIMIT", "bytes; 0: no cache",
               "Size limit of the compiled kernels on disk, by default 256 MiB; the least recently "
               "used are deleted first."},
     .trusted_only = false,
     .kind = VARIABLE_NUMBER,
     .high = INT64_MAX},
    {.shown = {"COMPUTE_PROFILE", "file",
               "Every context records, and writes its profile (compute_profile_write) to this file "
               "when it "
               "closes. Ignored in privileged programs."},
     .trusted_only = true,
     .kind = VARIABLE_NEW_FILE},
    {.shown = {"COMPUTE_TRACE", "file",
               "Every context records, and writes its timeline (compute_profile_write_trace) to "
               "this file "
               "when it closes. Ignored in privileged programs."},
     .trusted_only = true,
     .kind = VARIABLE_NEW_FILE},
    {.shown = {"COMPUTE_DUMP", "folder",
               "Every compilation writes its graph, and its nodes or steps after each pass, there "
               "as text and for Graphviz, and every generated kernel its source. Ignored in "
               "privileged programs."},
     .trusted_only = true},
    {.shown =
         {"COMPUTE_VALIDATE", "1, warn, replace, strict",
          "Every context checks each step against a plain evaluation (compute_validation_start): "
          "warn "
          "(or 1) reports, replace also continues with the plain result, strict fails the run."},
     .trusted_only = false,
     .kind = VARIABLE_WORD,
     .words = "1 warn replace strict"},
    {.shown = {"COMPUTE_LEAKS", "1",
               "Every context records where its tensors, graphs, plans and other objects are "
               "created, and if some are left when it is closed, lists them in the log or else on "
               "standard error."},
     .trusted_only = false,
     .kind = VARIABLE_WORD,
     .words = "1"},
    {.shown = {"COMPUTE_TUNING", "gemm:tile_m=64,tile_n=64;map:vector=4, …",
               "Overrides the parameters of generated kernels, tuned or not; see "
               "docs/internals/tuning.md. "
               "Ignored in "
               "privileged programs."},
     .trusted_only = true},
    {.shown = {"COMPUTE_TUNING_FILE", "absolute path, or none",
               "The tuning file; by default, tuning in the cache folder. Ignored in privileged "
               "programs."},
     .trusted_only = true,
     .kind = VARIABLE_PATH,
     .words = "none"},
    {.shown = {"COMPUTE_COSTS", "measure, stored, guess",
               "What automatic placement is based on: figures of each device, measured when they "
               "are first "
               "needed (default); figures measured earlier; or estimates."},
     .trusted_only = false,
     .kind = VARIABLE_WORD,
     .words = "measure stored guess"},
    {.shown = {"COMPUTE_CPU_ISA",
               "scalar, neon, dotprod, i8mm, bf16, rvv, simd128, avx2, avx512, amx",
               "The instruction set of the CPU backend; by default the best that the machine has."},
     .trusted_only = false,
     .kind = VARIABLE_WORD,
     .words = "scalar neon dotprod i8mm bf16 rvv simd128 avx2 avx512 amx"},
    {.shown = {"COMPUTE_POOL_BUDGET", "bytes; 0: no limit",
               "Limit of each device's buffer pool until compute_pool_set_budget changes it."},
     .trusted_only = false,
     .kind = VARIABLE_NUMBER,
     .high = INT64_MAX},
    {.shown =
         {"COMPUTE_BLAS", "path or soname, or none",
          "The CBLAS library of the CPU backend; none for its own kernels. Ignored in privileged "
          "programs."},
     .trusted_only = true},
    {.shown = {"COMPUTE_CC", "path or name, or none",
               "The C compiler that builds portable kernels for the CPU; by default the first of "
               "cc, gcc and clang in PATH. Ignored in privileged programs."},
     .trusted_only = true},
    {.shown = {"COMPUTE_OPENCL_SUBDEVICES", "0 … 64",
               "Splits each OpenCL CPU device into this many devices, if its driver can; 0 and 1: "
               "no split."},
     .trusted_only = false,
     .kind = VARIABLE_NUMBER,
     .high = 64},
    {.shown =
         {"COMPUTE_CUDA_LIBRARIES", "none, or cublas, cudnn, nccl with ',' between them",
          "Which of NVIDIA's libraries the CUDA backend may use for products, convolutions and "
          "groups of processes; by default all that are found."},
     .trusted_only = false,
     .kind = VARIABLE_WORDS,
     .words = "none cublas cudnn nccl"},
    {.shown = {"COMPUTE_TRANSPORT", "openmpi, mpich, none, or a module's name",
               "What connects the processes of a group (compute_group_open); by default it follows "
               "from the launcher's variables. With none every process is a group of one."},
     .trusted_only = true,
     .kind = VARIABLE_NAME},
    {.shown = {"COMPUTE_GROUP_TIMEOUT", "seconds",
               "How long a call of a group waits for other ranks, by default 600; then it fails."},
     .trusted_only = false,
     .kind = VARIABLE_NUMBER,
     .low = 1,
     .high = INT32_MAX},
    {.shown = {"COMPUTE_GROUP_HOST_ONLY", "0 or 1",
               "With 1 groups exchange the elements of devices only through host memory, without "
               "NCCL and without MPI reading the memory of GPUs; by default 0."},
     .trusted_only = false,
     .kind = VARIABLE_NUMBER,
     .high = 1},
    {.shown = {"OMPI_COMM_WORLD_SIZE", "number of processes",
               "Set by Open MPI's mpirun; with it a group uses Open MPI. Ignored in privileged "
               "programs."},
     .trusted_only = true},
    {.shown = {"PMIX_RANK", "number",
               "Set by srun --mpi=pmix; with it a group uses Open MPI. Ignored in privileged "
               "programs."},
     .trusted_only = true},
    {.shown = {"PMI_RANK", "number",
               "Set by MPICH's mpirun and srun --mpi=pmi2; with it a group uses MPICH. Ignored in "
               "privileged programs."},
     .trusted_only = true},
    {.shown =
         {"SLURM_STEP_NUM_TASKS", "number of processes",
          "Set by srun; if there are several and nothing says which MPI connects them, no group "
          "opens. Ignored in privileged programs."},
     .trusted_only = true},
    {.shown = {"OCL_ICD_VENDORS", "a folder, an .icd file or a library",
               "Read by the OpenCL loader itself, instead of /etc/OpenCL/vendors; libcompute looks "
               "there for registered drivers."},
     .trusted_only = false},
    {.shown = {"POCL_CACHE_DIR", "absolute folder",
               "Read by PoCL itself, which keeps its compiled kernels there; libcompute checks "
               "whether PoCL has a cache."},
     .trusted_only = false},
    {.shown = {"CUDA_VISIBLE_DEVICES", "numbers or names of GPUs with ',' between them",
               "Read by the NVIDIA driver itself, which shows only these GPUs; libcompute only "
               "mentions it if there are none."},
     .trusted_only = false},
    {.shown = {"LD_LIBRARY_PATH", "folders with ':' between them",
               "Read by the loader itself; the cache stores which NVRTC was found, and looks again "
               "if this changes."},
     .trusted_only = true},
    {.shown = {"PATH", "absolute folders with ':' between them",
               "Searched for a C compiler, which gets the same PATH."},
     .trusted_only = true},
    {.shown = {"XDG_CACHE_HOME", "absolute folder",
               "The user's cache folder, used when COMPUTE_CACHE_DIR is not set."},
     .trusted_only = true},
    {.shown = {PLATFORM_NAME("HOME", "LOCALAPPDATA"), "absolute folder",
               "The user's folder; its .cache is used when XDG_CACHE_HOME is not set either."},
     .trusted_only = true},
    {.shown = {"NO_COLOR", "anything", "The programs use no colours on a terminal."},
     .trusted_only = false},
    {.shown = {"TERM", "dumb, or a terminal's name",
               "The programs draw no progress bar and no colours on a dumb terminal."},
     .trusted_only = false},
    {.shown =
         {"OPENBLAS_CORETYPE", "an OpenBLAS kernel name",
          "Read by OpenBLAS itself; libcompute only reports it, because it can halve its speed."},
     .trusted_only = false},
    {.shown =
         {"OPENBLAS_L2_SIZE", "bytes",
          "Read by OpenBLAS itself; libcompute only reports it, because it can halve its speed."},
     .trusted_only = false},
};

enum { VARIABLE_COUNT = sizeof table / sizeof *table };

const compute_variable *compute_variable_at(size_t index) {
  return index < VARIABLE_COUNT ? &table[index].shown : NULL;
}

const char *variable_text(const char *name) {
  if (!name) return NULL;
  for (size_t i = 0; i < VARIABLE_COUNT; i++) {
    if (strcmp(table[i].shown.name, name) != 0) continue;
    if (table[i].trusted_only && privilege_raised()) return NULL;
    const char *text = getenv(name);
    return text && *text ? text : NULL;
  }
  return NULL;
}

const char *compute_variable_value(const char *name) {
  return variable_text(name);
}

int64_t variable_integer(const char *name, int64_t low, int64_t high, int64_t fallback) {
  const char *text = variable_text(name);
  if (!text) return fallback;
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno == 0 && end != text && *end == '\0' && value >= low && value <= high) return value;
  log_write(COMPUTE_LOG_WARNING, "core",
            "%s=%s is ignored: it must be a whole number from %lld to %lld", name, text,
            (long long)low, (long long)high);
  return fallback;
}

/* ---- Checking -------------------------------------------------------------------------------- */

/* `true` if `word` is one of `words`, which are separated by ' '. */
static bool is_word(const char *words, const char *word, size_t length) {
  while (words && *words) {
    const size_t one = strcspn(words, " ");
    if (one == length && !strncmp(words, word, length)) return true;
    words += one + (words[one] == ' ');
  }
  return false;
}

static bool all_words(const char *words, const char *text) {
  for (;; text++) {
    const size_t length = strcspn(text, ",");
    if (!is_word(words, text, length)) return false;
    text += length;
    if (!*text) return true;
  }
}

/* Names as in file names: lower case, digits and '_'. Empty entries are ignored. */
static bool all_names(const char *text) {
  return text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_,")] == '\0';
}

static bool all_absolute(const char *text) {
  for (; *text; text += *text != '\0') {
    const size_t length = strcspn(text, PLATFORM_LIST_SEPARATOR);
    if (length && !path_is_absolute(text)) return false;
    text += length;
  }
  return true;
}

static bool in_bounds(const variable_row *row, const char *text) {
  char *end;
  errno = 0;
  const long long value = strtoll(text, &end, 10);
  return errno == 0 && end != text && *end == '\0' && value >= row->low && value <= row->high;
}

/* `true` if a file with this name can be written or created. */
static bool can_be_written(const char *path) {
  char folder[PATH_MAX];
  if (access(path, F_OK) == 0) {
    struct stat found;
    return stat(path, &found) == 0 && !S_ISDIR(found.st_mode) && access(path, W_OK) == 0;
  }
  const char *slash = path_last_separator(path);
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
  return access(folder, W_OK | X_OK) == 0;
}

static bool is_right(const variable_row *row, const char *text) {
  switch (row->kind) {
  case VARIABLE_ANY: return true;
  case VARIABLE_NUMBER: return in_bounds(row, text);
  case VARIABLE_WORD: return is_word(row->words, text, strlen(text));
  case VARIABLE_WORDS: return all_words(row->words, text);
  case VARIABLE_NAME: return !strchr(text, ',') && all_names(text);
  case VARIABLE_NAMES: return all_names(text);
  case VARIABLE_PATH: return path_is_absolute(text) || is_word(row->words, text, strlen(text));
  case VARIABLE_PATHS: return all_absolute(text);
  case VARIABLE_NEW_FILE: return can_be_written(text);
  }
  return true;
}

/* Writes the rule: "it must be a whole number from 1 to 4096". */
static void describe(const variable_row *row, char *text, size_t bytes) {
  switch (row->kind) {
  case VARIABLE_NUMBER:
    if (row->high == INT64_MAX)
      snprintf(text, bytes, "it must be a whole number of bytes, 0 or more");
    else
      snprintf(text, bytes, "it must be a whole number from %lld to %lld", (long long)row->low,
               (long long)row->high);
    break;
  case VARIABLE_NEW_FILE: snprintf(text, bytes, "this file cannot be written"); break;
  case VARIABLE_PATH:
    snprintf(text, bytes, "it must be an absolute path%s%s", row->words ? " or " : "",
             row->words ? row->words : "");
    break;
  case VARIABLE_PATHS:
    snprintf(text, bytes, "it must be absolute paths with ':' between them");
    break;
  case VARIABLE_WORD:
    snprintf(text, bytes, "it must be %s%s", strchr(row->words, ' ') ? "one of " : "",
             row->shown.values);
    break;
  case VARIABLE_ANY:
  case VARIABLE_NAME:
  case VARIABLE_WORDS:
  case VARIABLE_NAMES: snprintf(text, bytes, "it must be %s", row->shown.values); break;
  }
}

const char *variables_check(bool (*overridden)(const void *user, const char *name),
                            const void *user, char *rule, size_t rule_bytes) {
  for (size_t i = 0; i < VARIABLE_COUNT; i++) {
    const variable_row *row = &table[i];
    const char *text = variable_text(row->shown.name);
    if (!text || is_right(row, text) || overridden(user, row->shown.name)) continue;
    describe(row, rule, rule_bytes);
    return row->shown.name;
  }
  return NULL;
}
