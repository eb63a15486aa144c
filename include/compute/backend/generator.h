/* SPDX-License-Identifier: MIT */
/** @file
 * Kernel source that the core generates for backends with a compiler, and its tuning parameters.
 * For authors of backends; included by compute/backend.h.
 *
 * From a descriptor, a target and a set of parameters the core's generator creates source text in
 * one of three dialects, with its launches. The same text serves many descriptors: sizes and
 * strides are launch arguments, and only their pattern (0, 1, other) is in the text. So a module
 * caches its built programs by their source text. */
#ifndef COMPUTE_GENERATOR_H
#define COMPUTE_GENERATOR_H

#include "compute/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Target -------------------------------------------------------------------------------- */

typedef enum compute_dialect {
  COMPUTE_DIALECT_OPENCL = 0, /**< OpenCL C 1.2 */
  COMPUTE_DIALECT_CUDA = 1,   /**< CUDA C++ for NVRTC, without headers */
  COMPUTE_DIALECT_C = 2 /**< C11 with GNU extensions; items of a group are run by a caller that
                         * offers the functions named in kernels/dialect_c.h */
} compute_dialect;

enum {
  COMPUTE_TARGET_F64 = 1 << 0,        /**< f64 arithmetic */
  COMPUTE_TARGET_F16 = 1 << 1,        /**< f16 as a type, not only as storage */
  COMPUTE_TARGET_FAST_LOCAL = 1 << 2, /**< local memory is dedicated and faster than global */
  COMPUTE_TARGET_LOCKSTEP = 1 << 3, /**< items run in groups of `lanes` on one instruction stream */
  COMPUTE_TARGET_MATRIX_CORES = 1 << 4, /**< matrix units of the CUDA dialect for f16, bf16, TF32 */
  COMPUTE_TARGET_FAULT_RECORDS =
      1 << 5, /**< the module has COMPUTE_GENERATED_FAULT_WORDS for faults */
  COMPUTE_TARGET_MATRIX_F64 = 1 << 6,      /**< with COMPUTE_TARGET_MATRIX_CORES: they multiply f64
                                            * faster than the other units do */
  COMPUTE_TARGET_WARPGROUP_MATRIX = 1 << 7 /**< with COMPUTE_TARGET_MATRIX_CORES: warpgroups
                                            * multiply from local memory (sm_90a) */
};

/** The properties of a device for the generator and the tuner. Texts are zero-terminated. Constant
 * while the device lives. */
typedef struct compute_target {
  size_t struct_size;
  compute_dialect dialect;
  compute_device_type type;
  uint32_t flags; /**< COMPUTE_TARGET_… */
  char backend[32];
  char vendor[64];
  char family[32]; /**< architecture: "sm_90", "gfx1100", "pocl"; "" if unknown */
  char model[128];
  char driver[128];
  uint32_t compute_units;
  uint32_t lanes;              /**< 1 if unknown */
  uint32_t vector_width;       /**< preferred number of f32 elements per load or store */
  uint32_t group_limit;        /**< items of one group */
  uint32_t group_limit_of[3];  /**< in each dimension */
  uint64_t local_bytes;        /**< of one group */
  uint64_t cache_bytes;        /**< last level */
  uint64_t launch_local_bytes; /**< of one group that a launch asks for (compute_generated_launch);
                                * 0 where launches cannot */
} compute_target;

/* ---- Parameters ---------------------------------------------------------------------------- */

/** How a kernel is partitioned. 0 leaves a value to the generator; a value that a kind does not use
 * is ignored. The generator refuses combinations that the target cannot run. */
typedef struct compute_tuning {
  uint32_t implementation;   /**< 0: generated; from 1: the module's own (a vendor's library) */
  uint32_t variant;          /**< of the variants of this kind; 0: the default */
  uint32_t group_x, group_y; /**< items of a group */
  uint32_t vector;           /**< elements of one load or store */
  uint32_t items; /**< elements that one item has in progress (MAP, COPY, REDUCE); GEMM: stages of
                   * a pipeline; ATTENTION: the width of a slice */
  uint32_t tile_m, tile_n, tile_k; /**< GEMM: of a group; COPY: tile_m × tile_n of a transpose */
  uint32_t item_m, item_n;         /**< GEMM: of one item */
  uint32_t groups;                 /**< groups launched for each compute unit, for grid strides */
} compute_tuning;

/** The origin of a set of parameters. */
typedef enum compute_tuning_source {
  COMPUTE_TUNING_HEURISTIC = 0,
  COMPUTE_TUNING_TABLE = 1, /**< built into the library */
  COMPUTE_TUNING_FILE = 2,
  COMPUTE_TUNING_FORCED = 3 /**< COMPUTE_TUNING or the caller */
} compute_tuning_source;

/* ---- Generated source ---------------------------------------------------------------------- */

#define COMPUTE_GENERATED_WORKSPACE UINT32_MAX /**< device memory that belongs to one enqueue */
#define COMPUTE_GENERATED_FAULT     (UINT32_MAX - 1) /**< of int32_t: see `faults` */

/** Of a fault: 1 when there is one, 0, then the index and the offset of services->fail_index, each
 * as its low and its high half. */
#define COMPUTE_GENERATED_FAULT_WORDS 6

/** One buffer argument of a launch. */
typedef struct compute_generated_buffer {
  uint32_t argument;      /**< inputs, then outputs, as in enqueue; or one of the two below */
  uint32_t element_bytes; /**< offsets are passed in elements of this size */
} compute_generated_buffer;

/** One launch of a generated program. The entry point takes the buffers in order as pointers to
 * global memory, then one struct of `shape_bytes` by value, which starts with an int64_t for each
 * buffer: its offset in elements from the pointer passed. The module fills these in; the rest of
 * the struct is constant. */
typedef struct compute_generated_launch {
  const char *entry;
  uint32_t group[3];  /**< items; the source requires exactly this size */
  uint32_t groups[3]; /**< each ≥ 1; [1] and [2] ≤ 65535 */
  uint32_t buffer_count;
  const compute_generated_buffer *buffers;
  const void *shape;
  uint32_t shape_bytes; /**< a multiple of 8, at most 3072 */
  uint32_t local_bytes; /**< local memory of each group that the launch has to ask for */
} compute_generated_launch;

#define COMPUTE_GENERATED_LAUNCHES 4

/** Launches run in sequence; each sees the results of the earlier ones. No launches: there is
 * nothing to do. */
typedef struct compute_generated {
  size_t struct_size;
  const char *source; /**< zero-terminated; NULL without launches */
  size_t source_bytes;
  uint64_t workspace_bytes; /**< of COMPUTE_GENERATED_WORKSPACE; contents undefined; 0: none */
  /** Whether launches take COMPUTE_GENERATED_FAULT: a word that they set to 1 when an index in the
   * data is out of range, and leave alone otherwise. For targets with COMPUTE_TARGET_FAULT_RECORDS
   * it is the first of COMPUTE_GENERATED_FAULT_WORDS words, and a fault fills in the others as
   * well.
   *
   * The module keeps zeroed words for each queue, for as many faults as it wants to distinguish. If
   * it finds one set while waiting for the queue, the wait fails with COMPUTE_ERROR_INDEX, and the
   * words are zeroed again. */
  bool faults;
  uint32_t launch_count;
  compute_generated_launch launches[COMPUTE_GENERATED_LAUNCHES];
  compute_tuning tuning; /**< the parameters in use, defaults filled in */
  char text[128];        /**< one line for compute_explain: "tiled GEMM 128x64x16, 8x8 per item" */
} compute_generated;

#ifdef __cplusplus
}
#endif
#endif
