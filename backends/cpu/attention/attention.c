/* SPDX-License-Identifier: MIT */
/* ATTENTION: softmax(scale · Q Kᵀ + bias) V, without ever storing all scores.
 *
 * A unit is some queries of one matrix; it visits the keys in tiles. A tile's scores are a small
 * matrix product. Each row keeps a running maximum and a sum of exponentials, and its partial sum
 * of V is rescaled when the maximum grows (M. Milakov and N. Gimelshein, "Online normalizer
 * calculation for softmax", 2018; T. Dao and others, "FlashAttention", 2022). Fully masked tiles
 * are skipped, and also tiles that a bias of minus infinity hides from all of a few queries.
 *
 * Products use the micro-kernels of matrix multiplication. Tiles of K and V are packed for them;
 * for a few queries, packing would take longer than the product and is omitted. Scores of bf16 use
 * bf16 pair products (gemm/isa/gemm_pack_bf16.h) if the machine has them. Weights stay f32: as two
 * parts of bf16, which keep enough digits, they would take as long. The division of keys into tiles
 * depends only on sizes, and a query is computed independently of its neighbours: the bits do not
 * depend on the number of threads. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "program/program.h"
#include "attention/isa/attention_table.h"
#include "gemm/gemm.h"
#include "core/nest.h"

enum {
  QUERIES = 128,   /* per unit: several register tiles of any instruction set */
  KEYS = 128,      /* per tile: a unit's scores stay in the L2 cache */
  GROUP = 8,       /* queries whose softmax is computed together */
  FEW = 4,         /* so few queries are multiplied row by row */
  FEW_KEYS = 256,  /* keys per tile for few queries */
  MOST_UNITS = 32, /* number of units for the threads */
  WORK = 1 << 16,  /* with fewer multiply-adds, another thread does not pay */
  UNITS_PER_THREAD = 4
};

enum { Q = 0, K = 1, V = 2, BIAS = 3 };

typedef struct attention_operand {
  compute_dtype dtype;
  uint32_t size;
  int64_t row, column; /* strides */
} attention_operand;

typedef struct attention_kernel {
  cpu_kernel head;
  const cpu_gemm_type *product;
  const cpu_gemm_type *words; /* pair products for scores, or NULL */
  const cpu_attention_loops *loops;
  cpu_nest batch;
  compute_dtype type;
  uint32_t element;
  attention_operand operand[5]; /* the output follows the inputs */
  int32_t output;               /* operand number of the output */
  bool biased, causal, formula, zero_weights, few, direct_k, direct_v, slivers;
  int64_t queries, keys, width, columns; /* m, keys, width, e */
  double scale;
  double share;       /* factor on weights in the online formula; 1: they may sum to more than 1 */
  int64_t rows, tile; /* queries of a unit, keys of a tile */
  int64_t units_per_matrix, units, tasks;
  uint64_t q_bytes, k_bytes, v_bytes, score_bytes, bias_bytes, sum_bytes, worker_bytes;
} attention_kernel;

typedef struct launch {
  const attention_kernel *kernel;
  void *const *pointers;
  unsigned char *workers;
} launch;

/* The scratch memory of a unit. */
typedef struct job {
  const attention_kernel *kernel;
  unsigned char *data[5]; /* of its matrices */
  int64_t first, count;   /* queries */
  unsigned char *q, *k, *v, *scores, *bias, *sums;
  double peak[QUERIES], total[QUERIES];
} job;

static cpu_gemm_source source_at(const job *j, int which, int64_t row) {
  const attention_operand *o = &j->kernel->operand[which];
  return (cpu_gemm_source){j->data[which] + row * o->row * (int64_t)o->size, o->dtype, o->row,
                           o->column};
}

/* The transposed source. */
static cpu_gemm_source turned(cpu_gemm_source source) {
  return (cpu_gemm_source){source.data, source.dtype, source.inner, source.outer};
}

/* Number of keys that query `i` sees: the first ones. */
static int64_t keys_seen(const attention_kernel *kernel, int64_t i) {
  if (!kernel->causal) return kernel->keys;
  const int64_t seen = i + 1 + kernel->keys - kernel->queries;
  return cpu_max(0, cpu_min(seen, kernel->keys));
}

/* ---- Products ------------------------------------------------------------------------------ */

static int64_t word_count(const attention_kernel *kernel) {
  return cpu_divide_up(kernel->width, kernel->words->group);
}

static void pack_queries(const job *j) {
  const attention_kernel *kernel = j->kernel;
  const cpu_gemm_source source = source_at(j, Q, j->first);
  if (kernel->words)
    kernel->words->pack_rows(j->q, gemm_word_row(word_count(kernel)) * kernel->words->group,
                             j->count, kernel->width, &source);
  else if (kernel->slivers)
    kernel->product->pack_slivers(j->q, j->count, kernel->width, &source);
  else
    kernel->product->pack_rows(j->q, kernel->width, j->count, kernel->width, &source);
}

/* The same with bf16 pair products. */
static void multiply_words(const job *j, int64_t key, int64_t keys) {
  const attention_kernel *kernel = j->kernel;
  const cpu_gemm_type *words = kernel->words;
  const cpu_gemm_source source = turned(source_at(j, K, key));
  const int64_t count = word_count(kernel);
  words->pack_words(j->k, true, keys, kernel->width, &source, COMPUTE_BF16);
  words->multiply(&(cpu_gemm_block){.m = j->count,
                                    .n = keys,
                                    .k = count,
                                    .a = j->q,
                                    .a_row = gemm_word_row(count),
                                    .a_k = 1,
                                    .b = j->k,
                                    .b_k = words->columns,
                                    .b_column = count * words->columns,
                                    .c = j->scores,
                                    .c_row = kernel->tile});
}

static void multiply_scores(const job *j, int64_t key, int64_t keys) {
  const attention_kernel *kernel = j->kernel;
  cpu_gemm_source source = source_at(j, K, key);
  cpu_gemm_block block = {.m = j->count,
                          .n = keys,
                          .k = kernel->width,
                          .a = j->q,
                          .a_row = kernel->width,
                          .a_k = 1,
                          .slivers = kernel->slivers,
                          .c = j->scores,
                          .c_row = kernel->tile};
  if (kernel->width == 0) {
    memset(j->scores, 0, (size_t)(j->count * kernel->tile * kernel->element));
  } else if (kernel->words) {
    multiply_words(j, key, keys);
  } else if (kernel->few) {
    block.b = source.data;
    block.b_column = source.outer;
    if (!kernel->direct_k) {
      kernel->product->pack_rows(j->k, kernel->width, keys, kernel->width, &source);
      block.b = j->k;
      block.b_column = kernel->width;
    }
    kernel->product->dot(&block);
  } else {
    source = turned(source);
    kernel->product->pack_panels(j->k, kernel->width, keys, &source);
    block.b = j->k;
    block.b_k = kernel->product->columns;
    block.b_column = kernel->width * kernel->product->columns;
    kernel->product->multiply(&block);
  }
}

static void add_values(const job *j, int64_t key, int64_t keys) {
  const attention_kernel *kernel = j->kernel;
  const cpu_gemm_source source = source_at(j, V, key);
  cpu_gemm_block block = {.m = j->count,
                          .n = kernel->columns,
                          .k = keys,
                          .a = j->scores,
                          .a_row = kernel->tile,
                          .a_k = 1,
                          .c = j->sums,
                          .c_row = kernel->columns,
                          .accumulate = true};
  if (kernel->few) {
    block.b = source.data;
    block.b_k = source.outer;
    if (!kernel->direct_v) {
      kernel->product->pack_rows(j->v, kernel->columns, keys, kernel->columns, &source);
      block.b = j->v;
      block.b_k = kernel->columns;
    }
    kernel->product->stream(&block);
  } else {
    kernel->product->pack_panels(j->v, keys, kernel->columns, &source);
    block.b = j->v;
    block.b_k = kernel->product->columns;
    block.b_column = keys * kernel->product->columns;
    kernel->product->multiply(&block);
  }
}

/* ---- Softmax ------------------------------------------------------------------------------- */

/* The bias of one query for some keys, in the computing type. */
static const void *read_bias(const job *j, int64_t row, int64_t key, int64_t keys) {
  const attention_kernel *kernel = j->kernel;
  const attention_operand *o = &kernel->operand[BIAS];
  if (!kernel->biased) return NULL;
  const unsigned char *from =
      j->data[BIAS] + ((j->first + row) * o->row + key * o->column) * (int64_t)o->size;
  if (o->dtype == kernel->type && o->column == 1) return from;
  kernel->head.device->isa->tile->load[o->dtype](keys, j->bias, from, o->column);
  return j->bias;
}

/* `true` if no query sees any of these keys: they are past the end of a sequence that grows in a
 * buffer. Used only if a unit has all queries of its matrix. Otherwise the division into units
 * would decide whether an infinite value of V, times 0, counts. */
static bool are_hidden(const job *j, int64_t key, int64_t keys) {
  const attention_kernel *kernel = j->kernel;
  if (!kernel->biased || !kernel->few || kernel->formula) return false;
  for (int64_t i = 0; i < j->count; i++)
    if (!kernel->loops->hides(read_bias(j, i, key, keys), keys)) return false;
  return true;
}

/* Rows of a bias are far apart, so the processor does not prefetch them. */
static void fetch_bias(const job *j, int64_t row, int64_t key, int64_t keys) {
  const attention_kernel *kernel = j->kernel;
  const attention_operand *o = &kernel->operand[BIAS];
  if (!kernel->biased || o->column != 1 || row >= j->count) return;
  const uintptr_t first =
      (uintptr_t)j->data[BIAS] + (uintptr_t)(((j->first + row) * o->row + key) * (int64_t)o->size);
  for (uintptr_t byte = 0; byte < (uintptr_t)keys * o->size; byte += 64)
    __builtin_prefetch((const void *)(first + byte));
}

static void *scores_of(const job *j, int64_t row) {
  return j->scores + row * j->kernel->tile * j->kernel->element;
}

/* A few rows at a time: first the largest score of each, then their exponentials. With a single
 * row, the processor would wait for the first before the second. */
static void soften(job *j, int64_t key, int64_t keys) {
  const attention_kernel *kernel = j->kernel;
  double largest[GROUP];
  int64_t seen[GROUP];
  for (int64_t first = 0; first < j->count; first += GROUP) {
    const int64_t rows = cpu_min(GROUP, j->count - first);
    for (int64_t r = 0; r < rows; r++) {
      const int64_t i = first + r;
      seen[r] = cpu_max(0, cpu_min(keys_seen(kernel, j->first + i) - key, keys));
      const void *bias = seen[r] > 0 ? read_bias(j, i, key, seen[r]) : NULL;
      fetch_bias(j, i + 2, key, keys);
      largest[r] = kernel->loops->weigh(scores_of(j, i), bias, seen[r], kernel->scale, j->peak[i]);
    }
    for (int64_t r = 0; r < rows; r++) {
      const int64_t i = first + r;
      const double shrink = kernel->loops->soften(scores_of(j, i), seen[r], keys, largest[r],
                                                  kernel->share, &j->peak[i], &j->total[i]);
      if (shrink != 1)
        kernel->loops->scale(j->sums + i * kernel->columns * kernel->element, kernel->columns,
                             shrink);
    }
  }
}

static void store(job *j) {
  const attention_kernel *kernel = j->kernel;
  const attention_operand *o = &kernel->operand[kernel->output];
  const cpu_tile_table *tile = kernel->head.device->isa->tile;
  const cpu_type made = cpu_type_of(kernel->type), own = cpu_type_of(o->dtype);
  for (int64_t i = 0; i < j->count; i++) {
    unsigned char *sums = j->sums + i * kernel->columns * kernel->element;
    unsigned char *to = j->data[kernel->output] + (j->first + i) * o->row * (int64_t)o->size;
    if (j->total[i] == 0 && !kernel->formula)
      /* no key is visible, but 0 times an infinite value may have been added */
      memset(sums, 0, (size_t)kernel->columns * kernel->element);
    else if (j->total[i] != 0 || !kernel->zero_weights)
      kernel->loops->scale(sums, kernel->columns, 1 / j->total[i]);
    for (int64_t e = 0; e < kernel->columns; e += kernel->tile) {
      const int64_t count = cpu_min(kernel->tile, kernel->columns - e);
      const void *values = sums + e * kernel->element;
      if (made != own) {
        tile->narrow[made][o->dtype](count, j->scores, values);
        values = j->scores;
      }
      tile->store[o->dtype](count, to + e * o->column * (int64_t)o->size, o->column, values);
    }
  }
}

/* ---- Launching ----------------------------------------------------------------------------- */

static void start(const launch *l, int64_t unit, int32_t worker, job *j) {
  const attention_kernel *kernel = l->kernel;
  cpu_walk walk;
  cpu_walk_start(&kernel->batch, kernel->batch.rank, unit / kernel->units_per_matrix, &walk);
  for (int o = 0; o <= kernel->output; o++)
    j->data[o] = (unsigned char *)l->pointers[o] + walk.offset[o] * kernel->operand[o].size;
  j->kernel = kernel;
  j->first = unit % kernel->units_per_matrix * kernel->rows;
  j->count = cpu_min(kernel->rows, kernel->queries - j->first);
  j->q = l->workers + (uint64_t)worker * kernel->worker_bytes;
  j->k = j->q + kernel->q_bytes;
  j->v = j->k + kernel->k_bytes;
  j->scores = j->v + kernel->v_bytes;
  j->bias = j->scores + kernel->score_bytes;
  j->sums = j->bias + kernel->bias_bytes;
  memset(j->sums, 0, (size_t)kernel->sum_bytes);
  for (int64_t i = 0; i < j->count; i++) {
    j->peak[i] = -INFINITY;
    j->total[i] = 0;
  }
}

static void attention_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const attention_kernel *kernel = l->kernel;
  job j;
  const int64_t end = (task + 1) * kernel->units / kernel->tasks;
  for (int64_t unit = task * kernel->units / kernel->tasks; unit < end; unit++) {
    start(l, unit, worker, &j);
    pack_queries(&j);
    const int64_t seen = keys_seen(kernel, j.first + j.count - 1);
    for (int64_t key = 0; key < seen; key += kernel->tile) {
      const int64_t keys = cpu_min(kernel->tile, seen - key);
      if (are_hidden(&j, key, keys)) continue;
      multiply_scores(&j, key, keys);
      soften(&j, key, keys);
      add_values(&j, key, keys);
    }
    store(&j);
  }
}

static compute_status attention_run(const cpu_kernel *head, void *const *pointers) {
  const attention_kernel *kernel = (const attention_kernel *)head;
  cpu_device *device = head->device;
  if (kernel->units == 0) return COMPUTE_OK;
  const uint64_t workers = kernel->tasks == 1 ? 1 : (uint64_t)device->threads;
  const uint64_t bytes = workers * kernel->worker_bytes;
  unsigned char *memory = cpu_workspace_acquire(device, bytes);
  if (!memory) return cpu_out_of_memory(device, bytes);
  launch l = {kernel, pointers, memory};
  cpu_parallel(device, kernel->tasks, attention_task, &l);
  cpu_workspace_return(device, memory);
  return COMPUTE_OK;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

static void read_operands(attention_kernel *kernel, const compute_kernel_descriptor *descriptor) {
  const int32_t rows = descriptor->rank - 2;
  kernel->output = (int32_t)descriptor->input_count;
  for (int32_t i = 0; i <= kernel->output; i++) {
    const compute_operand *from =
        i < kernel->output ? &descriptor->inputs[i] : &descriptor->outputs[0];
    kernel->operand[i] = (attention_operand){from->dtype, cpu_dtype_size(from->dtype),
                                             from->stride[rows], from->stride[rows + 1]};
  }
}

static void choose_units(attention_kernel *kernel, int64_t matrices) {
  const int64_t threads = kernel->head.device->threads, element = kernel->element;
  const cpu_gemm_type *product = kernel->product;
  kernel->few = kernel->queries <= FEW;
  if (kernel->few || kernel->operand[Q].dtype != COMPUTE_BF16 ||
      kernel->operand[K].dtype != COMPUTE_BF16)
    kernel->words = NULL;
  kernel->slivers = product->pack_slivers && !kernel->few;
  kernel->direct_k = kernel->operand[K].dtype == kernel->type && kernel->operand[K].column == 1;
  kernel->direct_v = kernel->operand[V].dtype == kernel->type && kernel->operand[V].column == 1;
  kernel->tile = cpu_min(kernel->few ? FEW_KEYS : KEYS, cpu_max(kernel->keys, 16));
  kernel->rows = cpu_min(QUERIES, kernel->queries);
  const double work = (double)matrices * (double)kernel->queries * (double)kernel->keys *
                      (double)(kernel->width + kernel->columns);
  const int64_t worth = work / WORK < 1e9 ? (int64_t)(work / WORK) : (int64_t)1e9;
  const int64_t wanted = cpu_max(1, cpu_min(threads * UNITS_PER_THREAD, worth));
  /* Units consist of whole register tiles, with fewer queries if there are few matrices. This must
   * not depend on the number of threads: other tiles may round differently. */
  const int64_t whole = product->rows * 2;
  const int64_t share = cpu_divide_up(kernel->queries, cpu_divide_up(MOST_UNITS, matrices));
  kernel->rows = cpu_min(kernel->rows, cpu_divide_up(share, whole) * whole);
  kernel->units_per_matrix = cpu_divide_up(kernel->queries, kernel->rows);
  kernel->units = matrices * kernel->units_per_matrix;
  kernel->tasks = threads > 1 ? cpu_min(kernel->units, cpu_max(wanted, 1)) : 1;
  const int64_t packed = kernel->words ? kernel->words->columns : product->columns;
  const int64_t panels = cpu_divide_up(kernel->tile, packed) * packed;
  const int64_t value_panels = cpu_divide_up(kernel->columns, product->columns) * product->columns;
  kernel->q_bytes =
      cpu_whole_lines((uint64_t)((kernel->rows + product->rows) * kernel->width * element));
  if (kernel->words)
    kernel->q_bytes = cpu_whole_lines(
        (uint64_t)(kernel->rows * gemm_word_row(word_count(kernel)) * (int64_t)sizeof(uint32_t)));
  kernel->k_bytes = cpu_whole_lines((uint64_t)(panels * kernel->width * element));
  kernel->v_bytes = cpu_whole_lines((uint64_t)(kernel->tile * value_panels * element));
  kernel->score_bytes = cpu_whole_lines((uint64_t)(kernel->rows * kernel->tile * element));
  kernel->bias_bytes = kernel->biased ? cpu_whole_lines((uint64_t)(kernel->tile * element)) : 0;
  kernel->sum_bytes = cpu_whole_lines((uint64_t)(kernel->rows * kernel->columns * element));
  kernel->worker_bytes = kernel->q_bytes + kernel->k_bytes + kernel->v_bytes + kernel->score_bytes +
                         kernel->bias_bytes + kernel->sum_bytes;
}

static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  const compute_dtype type = descriptor->accumulate;
  if (descriptor->rank < 2 || (type != COMPUTE_F32 && type != COMPUTE_F64))
    return "unsupported combination of dtypes";
  if (descriptor->input_count != (compute_attention_of(descriptor)->biased ? 4u : 3u))
    return "unsupported combination of dtypes";
  for (uint32_t i = 0; i < descriptor->input_count; i++)
    if (cpu_type_of(descriptor->inputs[i].dtype) != cpu_type_of(type))
      return "unsupported combination of dtypes";
  return NULL;
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  attention_kernel *kernel = (attention_kernel *)head;
  cpu_device *device = kernel->head.device;
  const compute_attention_attributes *a = compute_attention_of(descriptor);
  const int32_t rank = descriptor->rank;
  kernel->type = descriptor->accumulate;
  kernel->element = cpu_dtype_size(kernel->type);
  const bool is_double = kernel->type == COMPUTE_F64;
  kernel->product = is_double ? device->isa->gemm->f64 : device->isa->gemm->f32;
  kernel->words = is_double ? NULL : device->isa->gemm->bf16;
  kernel->loops = CPU_PICK_FLOAT(device->isa, cpu_attention, kernel->type);
  kernel->queries = descriptor->size[rank - 2];
  kernel->columns = descriptor->size[rank - 1];
  kernel->keys = a->keys;
  kernel->width = a->width;
  kernel->scale = a->scale;
  kernel->causal = a->causal;
  kernel->biased = a->biased;
  kernel->formula = a->formula;
  kernel->zero_weights = a->zero_weights;
  read_operands(kernel, descriptor);
  const bool half = kernel->operand[Q].dtype == COMPUTE_F16;
  kernel->share = a->formula && !half ? compute_attention_share(a) : 1;
  cpu_nest_begin(&kernel->batch, descriptor, 0, rank - 2);
  cpu_nest_collapse(&kernel->batch);
  cpu_nest_finish(&kernel->batch);
  int64_t matrices;
  if (!cpu_nest_count(&kernel->batch, kernel->batch.rank, &matrices))
    return cpu_fail_overflow(head);
  if (matrices > 0 && kernel->queries > 0 && kernel->columns > 0) choose_units(kernel, matrices);
  snprintf(kernel->head.description, sizeof kernel->head.description,
           "attention %s, %lld queries by %lld keys%s", device->isa->name, (long long)kernel->rows,
           (long long)kernel->tile,
           kernel->few     ? ", row by row"
           : kernel->words ? ", scores of words"
                           : "");
  return COMPUTE_OK;
}

const cpu_kind cpu_attention_kind = {.name = "attention",
                                     .refuse = refuse_descriptor,
                                     .bytes = sizeof(attention_kernel),
                                     .prepare = prepare,
                                     .run = attention_run};
