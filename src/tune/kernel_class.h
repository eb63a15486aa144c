/* What kernels share their best parameters: a short text made from a descriptor.
 *
 *   class   = kind "/" types "/" pattern "/" size
 *   kind    = "map" | "reduce" | "row" | "gemm" | "gather" | "scatter" | "copy" | "conv" | "fit"
 *           | "window" | "scan" | "top_k" | "attention"
 *   types   = inputs ">" outputs                    map, copy, gather, scatter, fit (its pixels),
 *                                                   top_k
 *           | inputs ">" accumulated ">" outputs    reduce, row, gemm, conv, window, scan,
 *                                                   attention
 *             where inputs and outputs are the dtypes that occur, each once, in the order of
 *             compute_dtype with "+" between, or "none"; inputs that only an epilogue reads do not
 *             count
 *   pattern = map:     "in" ("0" | "1" | "2" | "3" | "many") "." walk
 *           | copy:    walk
 *           | reduce:  ("full" | "inner" | "outer") [".position"]
 *           | row:     "softmax" | "normalize"
 *           | gemm:    letter letter "." ("single" | "batch")
 *           | gather, scatter, top_k: "axis"
 *           | conv:    ("forward" | "data" | "filter") [".point"] [".strided"] [".groups"]
 *           | fit:     ("xynb" | "xynbs" | "xynbsxsy" | "xyznb") "."
 *                      ("fisher" | "newton" | "marquardt" | "squares")
 *           | window:  ("max" | "average") [".data"]
 *           | scan:    "along" | "across"
 *           | attention: ("full" | "causal") [".biased"]
 *   walk    = "dense"      everything lies row by row
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
 * reduce: "inner" when the reduced dimensions hold the neighbours in memory, "full" when a single
 * result is left, "position" for argmax and argmin. Classes stand in tuning files, so their grammar
 * may grow but not change. */
#ifndef TUNE_KERNEL_CLASS_H
#define TUNE_KERNEL_CLASS_H

#include "kernel/kernel.h"

/* Whether `text` could be a class or the beginning of one up to a "/", of any kind. */
bool kernel_class_valid(const char *text, size_t length);

#define KERNEL_CLASS_APART (-1)

/* How badly `selector` fits a class; KERNEL_CLASS_APART if not at all.
 * A whole class fits the same class with 0, and classes that differ only in size with the sum of
 * the differences of their buckets, provided that none differs by more than
 * KERNEL_CLASS_REACH. The beginning of a class up to a "/" ("gemm", "gemm/f16>f32>f16") fits all
 * that begin so; the longer the better, yet worse than any whole class. */
int kernel_class_fit(const char *selector, const char *kernel_class);

#define KERNEL_CLASS_REACH 3

#endif
