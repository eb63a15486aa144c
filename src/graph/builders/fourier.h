/* SPDX-License-Identifier: MIT */
/* Nodes of Fourier transforms, for builders and gradients. */
#ifndef GRAPH_FOURIER_H
#define GRAPH_FOURIER_H

#include "compute/fft.h"
#include "graph/builders/build.h"

/* A transform of checked x along `axis`, counted from 0, with the first `results` points. Points
 * beyond the length are cut; a->points is not read. */
compute_node build_fourier(compute_graph *graph, const char *operation, compute_node x,
                           int32_t axis, const compute_fourier_attributes *a, int64_t results);

#endif
