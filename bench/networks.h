/* SPDX-License-Identifier: MIT */
/* The networks of the suite "train", for libcompute, its reference and the peers alike: lists of
 * parts. Each part takes the previous one's result unless it names another. This header is C and
 * C++. */
#ifndef BENCH_NETWORKS_H
#define BENCH_NETWORKS_H

#include <stddef.h>
#include <stdint.h>

typedef enum bench_part_kind {
  BENCH_PART_INPUT, /* [batch, outputs, side, side] */
  BENCH_PART_CONV,  /* with a bias; padding keeps the size, apart from the stride */
  BENCH_PART_NORM,  /* batch norm, epsilon 1e-5 */
  BENCH_PART_RELU,
  BENCH_PART_POOL,    /* maximum of 2 x 2 */
  BENCH_PART_AVERAGE, /* over all positions: [batch, channels] */
  BENCH_PART_DENSE,   /* of all elements; with a bias */
  BENCH_PART_ADD
} bench_part_kind;

typedef struct bench_part {
  bench_part_kind kind;
  int64_t inputs, outputs; /* channels, features */
  int64_t kernel, stride;  /* of a convolution */
  int from;                /* index of the part that it works on; 0: the previous one */
  int other;               /* add: the other operand */
} bench_part;

enum { BENCH_MLP, BENCH_CNN, BENCH_RESNET, BENCH_NETWORKS };
enum { BENCH_CLASSES = 10, BENCH_CHECK_STEPS = 3, BENCH_MOST_PARTS = 24 };

typedef struct bench_network {
  int64_t channels, side; /* of the data */
  int count;
  bench_part parts[BENCH_MOST_PARTS];
} bench_network;

/* Every part with weights has them in this order: weight [outputs, inputs, ...], bias [outputs]. */
static const bench_network bench_networks[BENCH_NETWORKS] = {
    {1,
     28,
     4,
     {{BENCH_PART_INPUT, 0, 1, 0, 0, 0, 0},
      {BENCH_PART_DENSE, 784, 512, 0, 0, 0, 0},
      {BENCH_PART_RELU, 0, 0, 0, 0, 0, 0},
      {BENCH_PART_DENSE, 512, BENCH_CLASSES, 0, 0, 0, 0}}},
    {1,
     28,
     10,
     {{BENCH_PART_INPUT, 0, 1, 0, 0, 0, 0},
      {BENCH_PART_CONV, 1, 32, 3, 1, 0, 0},
      {BENCH_PART_NORM, 32, 32, 0, 0, 0, 0},
      {BENCH_PART_RELU, 0, 0, 0, 0, 0, 0},
      {BENCH_PART_POOL, 0, 0, 0, 0, 0, 0},
      {BENCH_PART_CONV, 32, 64, 3, 1, 0, 0},
      {BENCH_PART_NORM, 64, 64, 0, 0, 0, 0},
      {BENCH_PART_RELU, 0, 0, 0, 0, 0, 0},
      {BENCH_PART_POOL, 0, 0, 0, 0, 0, 0},
      {BENCH_PART_DENSE, 64 * 7 * 7, BENCH_CLASSES, 0, 0, 0, 0}}},
    {3,
     32,
     22,
     {{BENCH_PART_INPUT, 0, 3, 0, 0, 0, 0},   {BENCH_PART_CONV, 3, 16, 3, 1, 0, 0},
      {BENCH_PART_NORM, 16, 16, 0, 0, 0, 0},  {BENCH_PART_RELU, 0, 0, 0, 0, 0, 0},
      {BENCH_PART_CONV, 16, 16, 3, 1, 0, 0},  {BENCH_PART_NORM, 16, 16, 0, 0, 0, 0},
      {BENCH_PART_RELU, 0, 0, 0, 0, 0, 0},    {BENCH_PART_CONV, 16, 16, 3, 1, 0, 0},
      {BENCH_PART_NORM, 16, 16, 0, 0, 0, 0},  {BENCH_PART_ADD, 0, 0, 0, 0, 8, 3},
      {BENCH_PART_RELU, 0, 0, 0, 0, 0, 0},    {BENCH_PART_CONV, 16, 32, 3, 2, 0, 0},
      {BENCH_PART_NORM, 32, 32, 0, 0, 0, 0},  {BENCH_PART_RELU, 0, 0, 0, 0, 0, 0},
      {BENCH_PART_CONV, 32, 32, 3, 1, 0, 0},  {BENCH_PART_NORM, 32, 32, 0, 0, 0, 0},
      {BENCH_PART_CONV, 16, 32, 1, 2, 10, 0}, {BENCH_PART_NORM, 32, 32, 0, 0, 0, 0},
      {BENCH_PART_ADD, 0, 0, 0, 0, 15, 17},   {BENCH_PART_RELU, 0, 0, 0, 0, 0, 0},
      {BENCH_PART_AVERAGE, 0, 0, 0, 0, 0, 0}, {BENCH_PART_DENSE, 32, BENCH_CLASSES, 0, 0, 0, 0}}}};

/* Elements of a part's weight (of its bias: outputs), 0 for one without. */
static inline int64_t bench_part_weights(const bench_part *p) {
  switch (p->kind) {
  case BENCH_PART_CONV: return p->outputs * p->inputs * p->kernel * p->kernel;
  case BENCH_PART_DENSE: return p->outputs * p->inputs;
  case BENCH_PART_NORM: return p->outputs;
  default: return 0;
  }
}

static inline int64_t bench_network_weights(const bench_network *n) {
  int64_t sum = 0;
  for (int i = 0; i < n->count; i++) {
    const int64_t weights = bench_part_weights(&n->parts[i]);
    sum += weights ? weights + n->parts[i].outputs : 0;
  }
  return sum;
}

/* The part that part `i` works on. */
static inline int bench_part_from(const bench_network *n, int i) {
  return n->parts[i].from ? n->parts[i].from : i - 1;
}

#endif
