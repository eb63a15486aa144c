/* SPDX-License-Identifier: MIT */
/* The texts of tuning: classes of kernels, sets of parameters, and lines of a tuning file. */
#ifndef TUNE_ENTRY_H
#define TUNE_ENTRY_H

#include "core/kernel/kernel.h"

/* ---- Classes ------------------------------------------------------------------------------- */

/* Kernels of a class share their best parameters. A class is a short text made from a descriptor.
 *
 *   class   = kind "/" types "/" pattern "/" size
 *   kind    = a name of COMPUTE_KERNEL_KINDS: "map", "reduce", …
 *             (kinds without a rule below: see src/core/kernel/kinds/<kind>.c)
 *   types   = inputs ">" outputs                    map, copy, gather, scatter, fit (its pixels),
 *                                                   top_k
 *           | inputs ">" accumulated ">" outputs    reduce, row, gemm, conv, window, scan,
 *                                                   attention
 *             where inputs and outputs are the dtypes that occur, each once, in the order of
 *             compute_dtype with "+" between, or "none"; inputs for the epilogue only do not
 *             count
 *   pattern = map:     "in" ("0" | "1" | "2" | "3" | "many") "." walk
 *           | copy:    walk
 *           | reduce:  ("full" | "inner" | "outer") [".position"]
 *           | row:     "softmax" | "normalize"
 *           | gemm:    letter letter "." ("single" | "batch")
 *           | gather, scatter, top_k: "axis"
 *           | conv:    ("forward" | "data" | "filter") [".point"] [".strided"] [".groups"]
 *                      [".winograd"], if allowed and if it makes a difference
 *           | fit:     ("xynb" | "xynbs" | "xynbsxsy" | "xyznb") "."
 *                      ("fisher" | "newton" | "marquardt" | "squares")
 *           | window:  ("max" | "average" | "argmax") [".data"]
 *           | scan:    "along" | "across"
 *           | attention: ("full" | "causal") [".biased"]
 *   walk    = "dense"      all operands are row by row
 *           | "broadcast"  an input repeats in some dimension, nothing else is out of order
 *           | "transpose"  (copy) source and result are contiguous along different dimensions
 *           | "strided"    anything else
 *   letter  = "n" as written row by row | "t" transposed | "x" neither: of A, then of B
 *   size    = "n" bucket                            map, copy, gather, scatter: elements
 *           | "k" bucket "r" bucket                 reduce: kept, reduced elements
 *           | "r" bucket "n" bucket                 row: rows, their length
 *           | "b" bucket "m" bucket "n" bucket "k" bucket      gemm
 *           | "b" bucket "c" bucket "o" bucket "p" bucket      conv: batch, channels of a group,
 *             in and out, and positions of a result
 *           | "n" bucket "p" bucket                 fit: ROIs, no more than 2^15, and their pixels
 *           | "b" bucket "p" bucket "w" bucket      window: planes, positions, elements of a window
 *           | "r" bucket "n" bucket                 scan: rows, their length
 *           | "r" bucket "n" bucket "k" bucket      top_k: rows, their length, results of each
 *           | "b" bucket "m" bucket "k" bucket "w" bucket "e" bucket      attention: batches,
 *             queries, keys, widths of Q and of V
 *   bucket  = the base-2 logarithm, rounded to the nearest whole number
 *
 * reduce: "inner" when the reduced dimensions hold the neighbours in memory, "full" for a single
 * result, "position" for argmax and argmin. Tuning files contain classes, so their grammar may
 * grow but not change. */

/* True if `text` can be a class of any kind, or the beginning of one up to a "/". */
bool kernel_class_valid(const char *text, size_t length);

#define KERNEL_CLASS_APART (-1)

/* The distance of `selector` from a class, or KERNEL_CLASS_APART if it does not match. A complete
 * class has distance 0 from itself. Its distance from a class that differs only in size is the sum
 * of the differences of their buckets; no difference may exceed KERNEL_CLASS_REACH. The beginning
 * of a class up to a "/" ("gemm", "gemm/f16>f32>f16") matches all classes with this beginning. A
 * longer one is closer, but never as close as a complete class. */
int kernel_class_fit(const char *selector, const char *kernel_class);

#define KERNEL_CLASS_REACH 3

/* ---- Parameters ---------------------------------------------------------------------------- */

/* The parameters of compute_tuning as text: "group_x=64,vector=4", in the order of the struct and
 * without zeros; "-" when all are 0. The names are part of the tuning file's format. */

#define PARAMETERS_BYTES 320 /* enough for every set of parameters */

/* Larger than any meaningful value; keeps products of a few within 64 bits. */
#define PARAMETERS_LIMIT (UINT32_C(1) << 20)

/* Parses the `length` bytes at `text`: the listed names, each at most once, with whole numbers up
 * to PARAMETERS_LIMIT. *tuning is complete on success, undefined otherwise. */
bool parameters_parse(const char *text, size_t length, compute_tuning *tuning);

/* Writes into `text`, which has PARAMETERS_BYTES, and returns it. */
char *parameters_print(const compute_tuning *tuning, char *text);

bool parameters_none(const compute_tuning *tuning);
bool parameters_equal(const compute_tuning *a, const compute_tuning *b);

/* ---- Lines --------------------------------------------------------------------------------- */

/* One line of a tuning file: the best parameters for a class of kernels on a device. Example, in
 * the file a single line:
 *
 *   tuning 1 "opencl" "Vendor" "Model" "Driver 3.1" map/f32>f32/in2.dense/n20 vector=4 81234
 *   9f27c1aa
 *
 * The parts are: the format's version; the device as its backend, vendor, model and driver; the
 * class; the parameters; the time of one kernel in nanoseconds; the CRC-32 of all before the last
 * space, in hexadecimal. Quoted texts are printable ASCII. "\"", "\\" and all other bytes are
 * written as \x and two hexadecimal digits.
 *
 * A device with another driver counts as a different device: its best parameters may have
 * changed. */

#define ENTRY_VERSION        1
#define ENTRY_IDENTITY_BYTES 1536 /* for all texts of a target, escaped */
#define ENTRY_LINE_BYTES     2560

/* Texts are zero-terminated; the entry does not own them. */
typedef struct tuning_entry {
  const char *identity; /* identity of the device, as in the line */
  const char *kernel_class;
  compute_tuning tuning;
  uint64_t nanoseconds;
} tuning_entry;

typedef enum entry_state {
  ENTRY_GOOD = 0,
  ENTRY_DAMAGED = 1,
  ENTRY_FOREIGN = 2 /* of another version of the format */
} entry_state;

/* Writes the device's part of a line into `text` of ENTRY_IDENTITY_BYTES, and returns it. */
char *entry_identity(const compute_target *target, char *text);

/* Reads the `length` bytes of a line without its line end. On success `entry` points to parts of
 * the line, and zeros are written after these parts. Otherwise nothing changes. */
entry_state entry_parse(char *line, size_t length, tuning_entry *entry);

/* Writes the line with its line end into `text` of ENTRY_LINE_BYTES, and returns its length. */
size_t entry_print(const tuning_entry *entry, char *text);

#endif
