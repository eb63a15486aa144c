/* SPDX-License-Identifier: MIT */
/* The stand-in of NVRTC: compiles CUDA source to an image for the stand-in driver. It refuses the
 * options that NVRTC refuses. The log is the C compiler's output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../backends/cuda/driver.h"
#include "object.h"

#define EXPORT __attribute__((visibility("default")))

#define PROTOTYPE(member, symbol, type, parameters) EXPORT type symbol parameters;
NVRTC_FUNCTIONS(PROTOTYPE)

enum { MAJOR = 13, MINOR = 0, INVALID_PROGRAM = 4, INVALID_INPUT = 3 };

struct _nvrtcProgram {
  char *source;
  image *made;
  bool is_ptx;
  char log[8192];
};

static const int known[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
enum { KNOWN = sizeof known / sizeof *known };

nvrtc_result nvrtcVersion(int *major, int *minor) {
  *major = MAJOR;
  *minor = MINOR;
  return NVRTC_OK;
}

nvrtc_result nvrtcGetNumSupportedArchs(int *count) {
  *count = KNOWN;
  return NVRTC_OK;
}

nvrtc_result nvrtcGetSupportedArchs(int *archs) {
  memcpy(archs, known, sizeof known);
  return NVRTC_OK;
}

const char *nvrtcGetErrorString(nvrtc_result code) {
  switch (code) {
  case NVRTC_OK: return "NVRTC_SUCCESS";
  case NVRTC_OUT_OF_MEMORY: return "NVRTC_ERROR_OUT_OF_MEMORY";
  case NVRTC_INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
  case NVRTC_COMPILATION: return "NVRTC_ERROR_COMPILATION";
  default: return "NVRTC_ERROR unknown";
  }
}

nvrtc_result nvrtcCreateProgram(nvrtc_program *result, const char *source, const char *name,
                                int header_count, const char *const *headers,
                                const char *const *header_names) {
  (void)name, (void)headers, (void)header_names;
  if (header_count) return INVALID_INPUT;
  nvrtc_program made = calloc(1, sizeof *made);
  if (!made) return NVRTC_OUT_OF_MEMORY;
  made->source = strdup(source);
  if (!made->source) {
    free(made);
    return NVRTC_OUT_OF_MEMORY;
  }
  *result = made;
  return NVRTC_OK;
}

nvrtc_result nvrtcDestroyProgram(nvrtc_program *program) {
  if (!*program) return INVALID_PROGRAM;
  free((*program)->source);
  free((*program)->made);
  free(*program);
  *program = NULL;
  return NVRTC_OK;
}

/* ---- Compiling ----------------------------------------------------------------------------- */

static bool starts_with(const char *words, const char *start) {
  return strncmp(words, start, strlen(start)) == 0;
}

static bool is_known_architecture(int architecture) {
  for (int i = 0; i < KNOWN; i++)
    if (known[i] == architecture) return true;
  return false;
}

/* Reads an option; returns false if NVRTC has no such option. */
static bool read_option(nvrtc_program program, const char *option, int *architecture) {
  static const char *const accepted[] = {"-default-device",
                                         "--device-as-default-execution-space",
                                         "-fmad=",
                                         "--fmad=",
                                         "-std=",
                                         "--std=",
                                         "-D",
                                         "-I",
                                         "-use_fast_math",
                                         "--use_fast_math",
                                         "-lineinfo",
                                         "--maxrregcount="};
  char kind[16];
  const char *value = starts_with(option, "--gpu-architecture=") ? option + 19
                      : starts_with(option, "-arch=")            ? option + 6
                                                                 : NULL;
  if (value) {
    if (sscanf(value, "%15[a-z]_%d", kind, architecture) != 2) return false;
    program->is_ptx = strcmp(kind, "compute") == 0;
    return (program->is_ptx || strcmp(kind, "sm") == 0) && is_known_architecture(*architecture);
  }
  for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
    if (starts_with(option, accepted[i])) return true;
  return false;
}

nvrtc_result nvrtcCompileProgram(nvrtc_program program, int option_count,
                                 const char *const *options) {
  int architecture = 75;
  image head = {.magic = IMAGE_MAGIC, .compiler_major = MAJOR};
  for (int i = 0; i < option_count; i++) {
    if (read_option(program, options[i], &architecture)) continue;
    snprintf(program->log, sizeof program->log, "nvrtc: error: invalid value for option %s\n",
             options[i]);
    return NVRTC_INVALID_OPTION;
  }
  char *source = object_translate(program->source);
  if (!source) return NVRTC_OUT_OF_MEMORY;
  if (!object_make(source, options, option_count, head.object, sizeof head.object, program->log,
                   sizeof program->log)) {
    free(source);
    return NVRTC_COMPILATION;
  }
  const size_t source_bytes = strlen(source) + 1;
  head.bytes = sizeof head + source_bytes;
  head.architecture = architecture;
  head.is_ptx = program->is_ptx;
  free(program->made);
  program->made = malloc(head.bytes);
  if (program->made) {
    memcpy(program->made, &head, sizeof head);
    memcpy((char *)program->made + sizeof head, source, source_bytes);
  }
  free(source);
  return program->made ? NVRTC_OK : NVRTC_OUT_OF_MEMORY;
}

/* ---- Results ------------------------------------------------------------------------------- */

nvrtc_result nvrtcGetProgramLogSize(nvrtc_program program, size_t *bytes) {
  *bytes = strlen(program->log) + 1;
  return NVRTC_OK;
}

nvrtc_result nvrtcGetProgramLog(nvrtc_program program, char *log) {
  memcpy(log, program->log, strlen(program->log) + 1);
  return NVRTC_OK;
}

/* A program for a virtual architecture has no CUBIN. */
static nvrtc_result size_of(nvrtc_program program, bool wanted, size_t *bytes) {
  if (!program->made) return INVALID_PROGRAM;
  *bytes = wanted ? program->made->bytes : 0;
  return NVRTC_OK;
}

static nvrtc_result copy_of(nvrtc_program program, bool wanted, char *to) {
  if (!program->made || !wanted) return INVALID_PROGRAM;
  memcpy(to, program->made, program->made->bytes);
  return NVRTC_OK;
}

nvrtc_result nvrtcGetCUBINSize(nvrtc_program program, size_t *bytes) {
  return size_of(program, !program->is_ptx, bytes);
}

nvrtc_result nvrtcGetCUBIN(nvrtc_program program, char *cubin) {
  return copy_of(program, !program->is_ptx, cubin);
}

nvrtc_result nvrtcGetPTXSize(nvrtc_program program, size_t *bytes) {
  return size_of(program, true, bytes);
}

nvrtc_result nvrtcGetPTX(nvrtc_program program, char *ptx) {
  return copy_of(program, true, ptx);
}
