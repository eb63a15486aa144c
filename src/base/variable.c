/* The table of environment variables and their one reader. No other file of the library calls
 * getenv, so this table is complete; docs/reference/environment.md shows it to users. */
#include "base/variable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "compute/status.h"

typedef struct variable_row {
  compute_variable shown;
  bool trusted_only; /* names files, or parameters of the code that runs: see privilege.h */
} variable_row;

static const variable_row table[] = {
    {{"COMPUTE_DEVICE", "cpu, cuda:0, opencl:1, …, auto",
      "The default device of a context that names none in its options. With auto it is the best "
      "one, and plans that name none place each step where they run fastest."},
     false},
    {{"COMPUTE_BACKENDS", "names with ',' between them",
      "Only these backend modules are loaded; without it, all that are found."},
     false},
    {{"COMPUTE_BACKEND_PATH", "absolute folders with ':' between them",
      "Folders searched for backend modules before the library's own; ignored in privileged "
      "programs."},
     true},
    {{"COMPUTE_LOG", "off, error, warning, info, debug",
      "Writes the log to standard error from this level on; initially nothing is written."},
     false},
    {{"COMPUTE_THREADS", "1 … 4096",
      "CPU threads of a context; without it, as many as the process may use."},
     false},
    {{"COMPUTE_CACHE_DIR", "absolute folder",
      "Where compiled kernels and tuning results are kept; without it, compute under "
      "XDG_CACHE_HOME or ~/.cache. Ignored in privileged programs."},
     true},
    {{"COMPUTE_CACHE_LIMIT", "bytes; 0: no cache",
      "What the compiled kernels kept on disk may take, 256 MiB without it; the least recently "
      "used go first."},
     false},
    {{"COMPUTE_PROFILE", "file",
      "Every context records, and writes its profile (compute_profile_write) to this file when it "
      "closes. Ignored in privileged programs."},
     true},
    {{"COMPUTE_TRACE", "file",
      "Every context records, and writes its timeline (compute_profile_write_trace) to this file "
      "when it closes. Ignored in privileged programs."},
     true},
    {{"COMPUTE_VALIDATE", "1, warn, replace, strict",
      "Every context checks each step against a plain evaluation (compute_validation_start): warn "
      "(or 1) reports, replace also goes on with the plain result, strict fails the run."},
     false},
    {{"COMPUTE_TUNING", "gemm:tile_m=64,tile_n=64;map:vector=4, …",
      "Parameters forced upon generated kernels, whatever was tuned; see docs/internals/tuning.md. Ignored "
      "in privileged programs."},
     true},
    {{"COMPUTE_TUNING_FILE", "absolute path, or none",
      "The tuning file; without it, tuning in the cache folder. Ignored in privileged programs."},
     true},
    {{"COMPUTE_COSTS", "measure, stored, guess",
      "What placing the steps of a plan automatically goes by: figures of each device, measured "
      "when they are first needed (without it); or those measured before; or guesses."},
     false},
    {{"COMPUTE_CPU_ISA", "scalar, avx2, avx512",
      "The instruction set of the CPU backend, if the machine has it; without it, the best."},
     false},
    {{"COMPUTE_POOL_BUDGET", "bytes; 0: no limit",
      "What the buffer pool of each device may hold until compute_pool_set_budget says otherwise."},
     false},
    {{"COMPUTE_BLAS", "path or soname, or none",
      "The CBLAS library of the CPU backend; none for its own kernels. Ignored in privileged "
      "programs."},
     true},
    {{"COMPUTE_CC", "path or name, or none",
      "The C compiler that makes kernels of your own for the CPU; without it, the first of cc, gcc "
      "and clang in PATH; none for none. Ignored in privileged programs."},
     true},
    {{"COMPUTE_OPENCL_SUBDEVICES", "0 … 64",
      "Divides each OpenCL device that is a CPU into so many devices, if its driver can; 0 and 1: "
      "none."},
     false},
    {{"COMPUTE_CUDA_LIBRARIES", "none, or cublas, cudnn with ',' between them",
      "Which of NVIDIA's libraries the CUDA backend may use for products and convolutions; without "
      "it, all that are found."},
     false},
    {{"OCL_ICD_VENDORS", "a folder, an .icd file or a library",
      "Read by the OpenCL loader itself, instead of /etc/OpenCL/vendors; libcompute looks there "
      "for which drivers are registered."},
     false},
    {{"POCL_CACHE_DIR", "absolute folder",
      "Read by PoCL itself, which keeps its compiled kernels there; libcompute looks whether it "
      "does."},
     false},
    {{"CUDA_VISIBLE_DEVICES", "numbers or names of GPUs with ',' between them",
      "Read by the NVIDIA driver itself, which shows only these GPUs; libcompute only reports it, "
      "when there are none."},
     false},
    {{"LD_LIBRARY_PATH", "folders with ':' between them",
      "The loader's, not ours: which NVRTC was found is remembered in the cache for as long as "
      "this stays the same."},
     true},
    {{"PATH", "absolute folders with ':' between them",
      "Where a C compiler is looked for, and what it then gets as its own PATH."},
     true},
    {{"XDG_CACHE_HOME", "absolute folder",
      "The user's cache folder, used when COMPUTE_CACHE_DIR is not set."},
     true},
    {{"HOME", "absolute folder",
      "The user's folder; its .cache is used when XDG_CACHE_HOME is not set either."},
     true},
    {{"OPENBLAS_CORETYPE", "an OpenBLAS kernel name",
      "Read by OpenBLAS itself; libcompute only reports it, because it can halve its speed."},
     false},
    {{"OPENBLAS_L2_SIZE", "bytes",
      "Read by OpenBLAS itself; libcompute only reports it, because it can halve its speed."},
     false},
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
