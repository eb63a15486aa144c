/* SPDX-License-Identifier: MIT */
/* SORT: sorts rows, stably.
 *
 * Elements become integer keys in the same order. Entries of a key and a position (select.h) are
 * sorted, the largest first, and no two are equal. Entries are radix-sorted by key bytes, which is
 * stable; small numbers of entries are merge-sorted. A few long rows are divided into parts, which
 * all threads sort and then merge. The result is unique, so it does not depend on this division.
 * Values are copied from the entries' positions, so they keep their bits. */
#include <stdio.h>
#include <string.h>

#include "core/nest.h"
#include "select.h"
#include "program/program.h"

__extension__ typedef unsigned __int128 wide_entry;

enum {
  BLOCK = 1024,
  WORK = 1 << 14, /* with fewer elements, another thread does not pay */
  TASKS_PER_THREAD = 4,
  FEW = 256, /* so few entries are merge-sorted instead */
  DIGITS = 256
};

/* The functions for entries of 64 bits, with a 32-bit key, and of 128 bits. */
typedef struct sort_functions {
  const select_functions *select;

  /* Sorts `count` entries with ascending positions, the largest first. */
  void (*sort)(void *entries, int64_t count, void *room);

  /* Entries first … end − 1 of the merged sequence of a[0 … a_count − 1] and b[0 … b_count − 1]. */
  void (*merge)(const void *a, int64_t a_count, const void *b, int64_t b_count, int64_t first,
                int64_t end, void *to);
} sort_functions;

/* taken: how many of the first `count` merged entries come from a. */
#define SORT_FUNCTIONS(bits, entry)                                                                \
  static void sort_entries_##bits(void *entries, int64_t count, void *room) {                      \
    entry *from = entries, *to = room;                                                             \
    int64_t held[bits / 8][DIGITS] = {{0}};                                                        \
    if (count <= FEW) {                                                                            \
      select_##bits.sort(entries, count, room);                                                    \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t i = 0; i < count; i++)                                                            \
      for (int byte = 0; byte < bits / 8; byte++)                                                  \
        held[byte][(uint8_t) ~(from[i] >> (bits + 8 * byte))]++;                                   \
    for (int byte = 0; byte < bits / 8; byte++) {                                                  \
      const int shift = bits + 8 * byte;                                                           \
      int64_t *at = held[byte], start = 0;                                                         \
      if (at[(uint8_t) ~(from[0] >> shift)] == count) continue;                                    \
      for (int digit = 0; digit < DIGITS; digit++) {                                               \
        const int64_t number = at[digit];                                                          \
        at[digit] = start;                                                                         \
        start += number;                                                                           \
      }                                                                                            \
      for (int64_t i = 0; i < count; i++) to[at[(uint8_t) ~(from[i] >> shift)]++] = from[i];       \
      entry *const swapped = from;                                                                 \
      from = to;                                                                                   \
      to = swapped;                                                                                \
    }                                                                                              \
    if (from != entries) memcpy(entries, from, (size_t)count * sizeof *from);                      \
  }                                                                                                \
                                                                                                   \
  static int64_t taken_##bits(const entry *a, int64_t a_count, const entry *b, int64_t b_count,    \
                              int64_t count) {                                                     \
    int64_t low = cpu_max(0, count - b_count), high = cpu_min(a_count, count);                     \
    while (low < high) {                                                                           \
      const int64_t middle = low + (high - low) / 2;                                               \
      if (a[middle] > b[count - 1 - middle])                                                       \
        low = middle + 1;                                                                          \
      else                                                                                         \
        high = middle;                                                                             \
    }                                                                                              \
    return low;                                                                                    \
  }                                                                                                \
                                                                                                   \
  static void merge_entries_##bits(const void *left, int64_t a_count, const void *right,           \
                                   int64_t b_count, int64_t first, int64_t end, void *result) {    \
    const entry *a = left, *b = right;                                                             \
    entry *to = result;                                                                            \
    int64_t i = taken_##bits(a, a_count, b, b_count, first), j = first - i;                        \
    for (int64_t at = first; at < end; at++) {                                                     \
      const bool is_left = j >= b_count || (i < a_count && a[i] > b[j]);                           \
      *to++ = is_left ? a[i] : b[j];                                                               \
      i += is_left;                                                                                \
      j += !is_left;                                                                               \
    }                                                                                              \
  }                                                                                                \
                                                                                                   \
  static const sort_functions sort_##bits = {&select_##bits, sort_entries_##bits,                  \
                                             merge_entries_##bits};

SORT_FUNCTIONS(32, uint64_t)
SORT_FUNCTIONS(64, wide_entry)

typedef struct sort_kernel {
  cpu_kernel head;
  const cpu_select_loops *loops;
  const sort_functions *functions;
  cpu_nest rows;
  compute_dtype dtype;
  uint32_t size; /* of an input element */
  int64_t length, step;
  int32_t values, positions; /* output numbers; −1: not requested */
  int64_t value_step, position_step;
  bool ascending, direct, moves_nan;
  int64_t row_count, tasks;
  int64_t parts, part; /* parts per row; elements per part */
  uint64_t row_bytes;  /* of a row's entries */
} sort_kernel;

typedef struct sort_row {
  const unsigned char *source;
  unsigned char *values;
  int64_t *positions;
} sort_row;

typedef struct launch {
  const sort_kernel *kernel;
  void *const *pointers;
  unsigned char *memory; /* for each worker, or for the only row: entries, and as much room */
  sort_row row;          /* for a row in parts: */
  const unsigned char *from;
  unsigned char *to;
  int64_t run; /* number of sorted entries in sequence */
} launch;

typedef struct sort_buffers {
  _Alignas(64) unsigned char elements[BLOCK * 8], keys[BLOCK * 8];
} sort_buffers;

static sort_row find_row(const launch *l, int64_t number) {
  const sort_kernel *kernel = l->kernel;
  cpu_walk walk;
  cpu_walk_start(&kernel->rows, kernel->rows.rank, number, &walk);
  sort_row row = {(const unsigned char *)l->pointers[0] + walk.offset[0] * (int64_t)kernel->size,
                  NULL, NULL};
  if (kernel->values > 0)
    row.values = (unsigned char *)l->pointers[kernel->values] +
                 walk.offset[kernel->values] * (int64_t)kernel->size;
  if (kernel->positions > 0)
    row.positions = (int64_t *)l->pointers[kernel->positions] + walk.offset[kernel->positions];
  return row;
}

/* Descending keys put NaN first; this changes its key to the lowest. */
static void move_nan(void *keys, int64_t count, bool is_narrow) {
  int32_t *narrow = keys;
  int64_t *wide = keys;
  if (is_narrow)
    for (int64_t i = 0; i < count; i++) narrow[i] = narrow[i] == INT32_MAX ? INT32_MIN : narrow[i];
  else
    for (int64_t i = 0; i < count; i++) wide[i] = wide[i] == INT64_MAX ? INT64_MIN : wide[i];
}

/* Entries of elements first … end − 1 of a row. */
static void make_entries(const sort_kernel *kernel, const unsigned char *row, int64_t first,
                         int64_t end, unsigned char *entries) {
  const cpu_load_loop load = kernel->head.device->isa->tile->load[kernel->dtype];
  const select_functions *select = kernel->functions->select;
  sort_buffers b;
  int64_t held = 0;
  for (int64_t at = first; at < end; at += BLOCK) {
    const int64_t count = cpu_min(BLOCK, end - at);
    const void *elements = row + at * kernel->step * (int64_t)kernel->size;
    if (!kernel->direct) {
      load(count, b.elements, elements, kernel->step);
      elements = b.elements;
    }
    kernel->loops->keys(b.keys, elements, count, kernel->ascending);
    if (kernel->moves_nan) move_nan(b.keys, count, kernel->functions == &sort_32);
    held = select->append(entries, held, b.keys, count, at, NULL);
  }
}

#define COPY_VALUES(type)                                                                          \
  do {                                                                                             \
    const type *source = (const type *)(const void *)row->source;                                  \
    type *values = (type *)(void *)row->values;                                                    \
    for (int64_t i = first; i < end; i++)                                                          \
      values[i * kernel->value_step] = source[position(entries, i - first) * kernel->step];        \
  } while (0)

/* Results first … end − 1 of a row. */
static void store(const sort_kernel *kernel, const sort_row *row, const unsigned char *entries,
                  int64_t first, int64_t end) {
  int64_t (*const position)(const void *, int64_t) = kernel->functions->select->position;
  if (row->positions)
    for (int64_t i = first; i < end; i++)
      row->positions[i * kernel->position_step] = position(entries, i - first);
  if (!row->values) return;
  switch (kernel->size) {
  case 1: COPY_VALUES(uint8_t); break;
  case 2: COPY_VALUES(uint16_t); break;
  case 4: COPY_VALUES(uint32_t); break;
  default: COPY_VALUES(uint64_t); break;
  }
}

static void row_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const sort_kernel *kernel = l->kernel;
  unsigned char *entries = l->memory + (uint64_t)worker * 2 * kernel->row_bytes;
  const int64_t end = (task + 1) * kernel->row_count / kernel->tasks;
  for (int64_t number = task * kernel->row_count / kernel->tasks; number < end; number++) {
    const sort_row row = find_row(l, number);
    make_entries(kernel, row.source, 0, kernel->length, entries);
    kernel->functions->sort(entries, kernel->length, entries + kernel->row_bytes);
    store(kernel, &row, entries, 0, kernel->length);
  }
}

/* ---- A row in parts -------------------------------------------------------------------------- */

static void part_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const sort_kernel *kernel = l->kernel;
  const int64_t first = task * kernel->part;
  const int64_t end = cpu_min(first + kernel->part, kernel->length);
  unsigned char *entries = l->memory + first * kernel->functions->select->entry_bytes;
  (void)worker;
  make_entries(kernel, l->row.source, first, end, entries);
  kernel->functions->sort(entries, end - first, entries + kernel->row_bytes);
}

/* A part of the merged pairs of runs. Runs are whole parts, so it belongs to one pair. */
static void merge_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const sort_kernel *kernel = l->kernel;
  const int64_t entry = kernel->functions->select->entry_bytes;
  const int64_t first = task * kernel->part;
  const int64_t end = cpu_min(first + kernel->part, kernel->length);
  const int64_t start = first / l->run / 2 * 2 * l->run;
  const int64_t middle = cpu_min(start + l->run, kernel->length);
  const int64_t last = cpu_min(middle + l->run, kernel->length);
  (void)worker;
  kernel->functions->merge(l->from + start * entry, middle - start, l->from + middle * entry,
                           last - middle, first - start, end - start, l->to + first * entry);
}

static void store_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const sort_kernel *kernel = l->kernel;
  const int64_t first = task * kernel->part;
  (void)worker;
  store(kernel, &l->row, l->from + first * kernel->functions->select->entry_bytes, first,
        cpu_min(first + kernel->part, kernel->length));
}

static void sort_in_parts(launch *l, int64_t number) {
  const sort_kernel *kernel = l->kernel;
  const cpu_device *device = kernel->head.device;
  unsigned char *from = l->memory, *to = l->memory + kernel->row_bytes;
  l->row = find_row(l, number);
  cpu_parallel(device, kernel->parts, part_task, l);
  for (l->run = kernel->part; l->run < kernel->length; l->run *= 2) {
    l->from = from;
    l->to = to;
    cpu_parallel(device, kernel->parts, merge_task, l);
    to = from;
    from = l->to;
  }
  l->from = from;
  cpu_parallel(device, kernel->parts, store_task, l);
}

static compute_status sort_run(const cpu_kernel *head, void *const *pointers) {
  const sort_kernel *kernel = (const sort_kernel *)head;
  cpu_device *device = head->device;
  if (kernel->row_count == 0 || kernel->length == 0) return COMPUTE_OK;
  const uint64_t workers = kernel->parts > 1 || kernel->tasks == 1 ? 1 : (uint64_t)device->threads;
  uint64_t bytes;
  if (__builtin_mul_overflow(workers * 2, kernel->row_bytes, &bytes)) bytes = UINT64_MAX;
  unsigned char *memory = bytes == UINT64_MAX ? NULL : cpu_workspace_acquire(device, bytes);
  if (!memory) return cpu_out_of_memory(device, bytes);
  launch l = {.kernel = kernel, .pointers = pointers, .memory = memory};
  if (kernel->parts > 1)
    for (int64_t row = 0; row < kernel->row_count; row++) sort_in_parts(&l, row);
  else
    cpu_parallel(device, kernel->tasks, row_task, &l);
  cpu_workspace_return(device, memory);
  return COMPUTE_OK;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

static void choose_parts(sort_kernel *kernel) {
  const int64_t threads = kernel->head.device->threads;
  int64_t total;
  if (__builtin_mul_overflow(kernel->row_count, kernel->length, &total)) total = INT64_MAX;
  const int64_t wanted = cpu_max(1, cpu_min(threads * TASKS_PER_THREAD, total / WORK));
  kernel->tasks = threads > 1 ? cpu_min(kernel->row_count, wanted) : 1;
  kernel->parts = 1;
  if (threads > 1 && kernel->row_count < threads)
    while (kernel->parts < threads && kernel->length / kernel->parts >= 2 * WORK)
      kernel->parts *= 2;
  kernel->part = cpu_divide_up(kernel->length, kernel->parts);
  kernel->parts = cpu_divide_up(kernel->length, kernel->part);
  if (__builtin_mul_overflow((uint64_t)kernel->length + 8,
                             (uint64_t)kernel->functions->select->entry_bytes, &kernel->row_bytes))
    kernel->row_bytes = UINT64_MAX;
  else
    kernel->row_bytes = cpu_whole_lines(kernel->row_bytes);
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  sort_kernel *kernel = (sort_kernel *)head;
  cpu_device *device = kernel->head.device;
  const compute_sort_attributes *a = compute_sort_of(descriptor);
  const int32_t last = descriptor->rank - 1;
  const compute_operand *input = &descriptor->inputs[0];
  const cpu_type type = cpu_type_of(input->dtype);
  const uint32_t value = cpu_type_bytes(type);
  kernel->dtype = input->dtype;
  kernel->size = cpu_dtype_size(input->dtype);
  kernel->loops = &CPU_PICK(device->isa, cpu_select_table)->type[type];
  kernel->functions = value == 4 ? &sort_32 : &sort_64;
  kernel->length = descriptor->size[last];
  kernel->step = input->stride[last];
  kernel->values = a->values ? 1 : -1;
  kernel->positions = a->positions ? 1 + a->values : -1;
  if (a->values) kernel->value_step = descriptor->outputs[0].stride[last];
  if (a->positions) kernel->position_step = descriptor->outputs[a->values].stride[last];
  kernel->ascending = !a->descending;
  kernel->moves_nan = a->descending && cpu_dtype_is_float(input->dtype);
  kernel->direct = kernel->step == 1 && kernel->size == value;
  cpu_nest_begin(&kernel->rows, descriptor, 0, last);
  cpu_nest_collapse(&kernel->rows);
  cpu_nest_finish(&kernel->rows);
  if (!cpu_nest_count(&kernel->rows, kernel->rows.rank, &kernel->row_count))
    return cpu_fail_overflow(head);
  if (kernel->row_count > 0 && kernel->length > 0) choose_parts(kernel);
  snprintf(kernel->head.description, sizeof kernel->head.description, "sort %s%s",
           device->isa->name, kernel->parts > 1 ? ", rows in parts" : ", a row at a time");
  return COMPUTE_OK;
}

/* A short key and its position share one 64-bit number. */
static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  if (cpu_type_bytes(cpu_type_of(descriptor->inputs[0].dtype)) == 4 &&
      descriptor->size[descriptor->rank - 1] > INT64_C(1) << 32)
    return "rows have more than 2^32 elements";
  return NULL;
}

const cpu_kind cpu_sort_kind = {.name = "sort",
                                .refuse = refuse_descriptor,
                                .bytes = sizeof(sort_kernel),
                                .prepare = prepare,
                                .run = sort_run};
