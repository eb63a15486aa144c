/* SPDX-License-Identifier: MIT */
/* TOP_K: the positions of the k largest elements of every row, in order.
 *
 * Elements become integer keys in the same order (select.h). A row is read once. A key is kept if
 * it exceeds a bound: the k-th largest of the keys before it (of equal keys the first wins), or
 * initially a lower bound. From time to time the list is reduced to k entries; finally it is
 * sorted. A few long rows are divided into parts, whose lists are combined.
 *
 * Short rows, and rows along another axis than the last one, are read in groups side by side, and
 * each key is compared with the lists of all rows of a group at once (isa/select_group.h).
 *
 * The result is unique, so it does not depend on this division. */
#include <stdio.h>
#include <string.h>

#include "core/nest.h"
#include "select.h"
#include "program/program.h"

enum {
  BLOCK = 64 * SELECT_RUN,
  DEPTH = BLOCK / SELECT_GROUP, /* positions of a group that are read together */
  GROUPED_LENGTH = 256,         /* of rows with many results */
  WORK = 1 << 14,               /* with fewer elements, another thread does not pay */
  TASKS_PER_THREAD = 4
};

typedef struct top_k_kernel {
  cpu_kernel head;
  const cpu_select_loops *loops;
  const select_functions *select;
  cpu_nest rows;
  compute_dtype dtype;
  uint32_t size;        /* of an input element */
  uint32_t value;       /* bytes of a value of the computing type, and of a key */
  int64_t length, step; /* of a row */
  int64_t k, result_step;
  bool smallest, direct, grouped;
  int64_t row_count, tasks;
  int64_t parts, part; /* parts per row; elements per part */
  int64_t capacity;    /* of a list of kept entries */
  uint64_t list_bytes;
} top_k_kernel;

typedef struct launch {
  const top_k_kernel *kernel;
  void *const *pointers;
  unsigned char *lists; /* for each worker: entries, and as much room */
  unsigned char *kept;  /* for each part: k entries; and their number */
  int64_t *held;
} launch;

typedef struct top_k_buffers {
  _Alignas(64) unsigned char elements[BLOCK * 8], keys[BLOCK * 8];
} top_k_buffers;

/* The rows of a group; the last one is repeated in an incomplete group. */
typedef struct row_group {
  int64_t count;
  const unsigned char *source[SELECT_GROUP];
  int64_t *positions[SELECT_GROUP];
  int64_t source_step, position_step; /* from row to row, in elements; 0 if they differ */
} row_group;

typedef union bound_key {
  int32_t narrow;
  int64_t wide;
} bound_key;

static void find_row(const launch *l, int64_t row, const unsigned char **source,
                     int64_t **positions) {
  const top_k_kernel *kernel = l->kernel;
  cpu_walk walk;
  cpu_walk_start(&kernel->rows, kernel->rows.rank, row, &walk);
  *source = (const unsigned char *)l->pointers[0] + walk.offset[0] * (int64_t)kernel->size;
  *positions = (int64_t *)l->pointers[1] + walk.offset[1];
}

/* Finds a bound that at least k keys of the first block exceed: the k-th largest peak of its lanes,
 * less 1. False if there is none. For small k, only few keys of the block then become entries,
 * instead of all. */
static bool first_bound(const top_k_kernel *kernel, const void *keys, int64_t count,
                        unsigned char *entries, unsigned char *room, bound_key *bound) {
  _Alignas(64) unsigned char peaks[SELECT_LANES * 8];
  if (kernel->k > SELECT_LANES / 2 || count < 2 * SELECT_LANES) return false;
  kernel->loops->peaks(peaks, keys, count);
  kernel->select->append(entries, 0, peaks, SELECT_LANES, 0, NULL);
  kernel->select->keep(entries, SELECT_LANES, kernel->k, room, bound);
  const bool narrow = kernel->value == sizeof bound->narrow;
  if (narrow ? bound->narrow == INT32_MIN : bound->wide == INT64_MIN) return false;
  if (narrow)
    bound->narrow--;
  else
    bound->wide--;
  return true;
}

/* Appends the block's keys that exceed a bound, or all of them without a bound; skips runs without
 * such keys. */
static int64_t append_above(const top_k_kernel *kernel, unsigned char *entries, int64_t held,
                            const unsigned char *keys, int64_t count, int64_t first,
                            const bound_key *bound) {
  if (!bound) return kernel->select->append(entries, held, keys, count, first, NULL);
  for (uint64_t runs = kernel->loops->above(keys, count, bound); runs; runs &= runs - 1) {
    const int64_t from = __builtin_ctzll(runs) * SELECT_RUN;
    held = kernel->select->append(entries, held, keys + from * (int64_t)kernel->value,
                                  cpu_min(SELECT_RUN, count - from), first + from, bound);
  }
  return held;
}

/* Selects from elements first … end − 1 of a row; returns the number of kept entries, at most k, at
 * the front of the list. */
static int64_t select_part(const launch *l, const unsigned char *row, int64_t first, int64_t end,
                           unsigned char *entries, unsigned char *room) {
  const top_k_kernel *kernel = l->kernel;
  const cpu_load_loop load = kernel->head.device->isa->tile->load[kernel->dtype];
  top_k_buffers b;
  int64_t held = 0;
  bound_key bound;
  bool bounded = false;
  for (int64_t at = first; at < end; at += BLOCK) {
    const int64_t count = cpu_min(BLOCK, end - at);
    const void *elements = row + at * kernel->step * (int64_t)kernel->size;
    if (!kernel->direct) {
      load(count, b.elements, elements, kernel->step);
      elements = b.elements;
    }
    kernel->loops->keys(b.keys, elements, count, kernel->smallest);
    if (at == first) bounded = first_bound(kernel, b.keys, count, entries, room, &bound);
    if (held + count > kernel->capacity) {
      kernel->select->keep(entries, held, kernel->k, room, &bound);
      held = kernel->k;
      bounded = true;
    }
    held = append_above(kernel, entries, held, b.keys, count, at, bounded ? &bound : NULL);
    if (!bounded && held >= kernel->k && end - at > 4 * BLOCK) {
      /* The first bound, set as soon as possible. */
      kernel->select->keep(entries, held, kernel->k, room, &bound);
      held = kernel->k;
      bounded = true;
    }
  }
  if (held > kernel->k) {
    kernel->select->keep(entries, held, kernel->k, room, &bound);
    held = kernel->k;
  }
  return held;
}

static void store(const launch *l, unsigned char *entries, unsigned char *room,
                  int64_t *positions) {
  const top_k_kernel *kernel = l->kernel;
  kernel->select->sort(entries, kernel->k, room);
  for (int64_t i = 0; i < kernel->k; i++)
    positions[i * kernel->result_step] = kernel->select->position(entries, i);
}

static void row_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const top_k_kernel *kernel = l->kernel;
  unsigned char *entries = l->lists + (uint64_t)worker * 2 * kernel->list_bytes;
  unsigned char *room = entries + kernel->list_bytes;
  const int64_t end = (task + 1) * kernel->row_count / kernel->tasks;
  for (int64_t row = task * kernel->row_count / kernel->tasks; row < end; row++) {
    const unsigned char *source;
    int64_t *positions;
    find_row(l, row, &source, &positions);
    select_part(l, source, 0, kernel->length, entries, room);
    store(l, entries, room, positions);
  }
}

/* ---- Rows in groups -------------------------------------------------------------------------- */

static row_group find_group(const launch *l, int64_t first) {
  const top_k_kernel *kernel = l->kernel;
  const cpu_nest *rows = &kernel->rows;
  const int64_t size = (int64_t)kernel->size, along = cpu_nest_length(rows);
  row_group group = {.count = cpu_min(SELECT_GROUP, kernel->row_count - first)};
  cpu_walk walk;
  cpu_walk_start(rows, rows->rank, first, &walk);
  group.source[0] = (const unsigned char *)l->pointers[0] + walk.offset[0] * size;
  group.positions[0] = (int64_t *)l->pointers[1] + walk.offset[1];
  if (group.count == SELECT_GROUP && first % along + SELECT_GROUP <= along) {
    group.source_step = cpu_nest_step(rows, 0);
    group.position_step = cpu_nest_step(rows, 1);
    for (int r = 1; r < SELECT_GROUP; r++) {
      group.source[r] = group.source[r - 1] + group.source_step * size;
      group.positions[r] = group.positions[r - 1] + group.position_step;
    }
    return group;
  }
  for (int r = 1; r < SELECT_GROUP; r++) {
    if (r < group.count) cpu_walk_next(rows, rows->rank, &walk);
    group.source[r] = (const unsigned char *)l->pointers[0] + walk.offset[0] * size;
    group.positions[r] = (int64_t *)l->pointers[1] + walk.offset[1];
  }
  return group;
}

static void make_keys(const top_k_kernel *kernel, const unsigned char *source, int64_t step,
                      int64_t count, unsigned char *room, unsigned char *keys) {
  const void *elements = source;
  if (step != 1 || kernel->size != kernel->value) {
    kernel->head.device->isa->tile->load[kernel->dtype](count, room, source, step);
    elements = room;
  }
  kernel->loops->keys(keys, elements, count, kernel->smallest);
}

/* The keys of all rows at positions first … first + count − 1, position by position. */
static void turn_group(const top_k_kernel *kernel, const row_group *group, int64_t first,
                       int64_t count, top_k_buffers *b) {
  const int64_t value = (int64_t)kernel->value, size = (int64_t)kernel->size;
  const int64_t line = SELECT_GROUP * value, begin = first * kernel->step * size;
  if (group->source_step == 1) {
    for (int64_t i = 0; i < count; i++)
      make_keys(kernel, group->source[0] + begin + i * kernel->step * size, 1, SELECT_GROUP,
                b->elements, b->keys + i * line);
    return;
  }
  _Alignas(64) unsigned char rows[BLOCK * 8];
  if (group->source_step && group->source_step == count * kernel->step)
    make_keys(kernel, group->source[0] + begin, kernel->step, SELECT_GROUP * count, b->elements,
              rows);
  else
    for (int r = 0; r < SELECT_GROUP; r++)
      make_keys(kernel, group->source[r] + begin, kernel->step, count, b->elements,
                rows + r * count * value);
  kernel->head.device->isa->tile->transpose[value == 4 ? 2 : 3](SELECT_GROUP, count, rows,
                                                                count * value, b->keys, line);
}

#define STORE_PLACES(type)                                                                         \
  do {                                                                                             \
    const type *p = (const type *)(const void *)places;                                            \
    if (group->position_step == 1)                                                                 \
      for (int64_t j = 0; j < kernel->k; j++)                                                      \
        for (int r = 0; r < SELECT_GROUP; r++)                                                     \
          group->positions[0][j * step + r] = p[j * SELECT_GROUP + r];                             \
    else                                                                                           \
      for (int64_t r = 0; r < group->count; r++)                                                   \
        for (int64_t j = 0; j < kernel->k; j++)                                                    \
          group->positions[r][j * step] = p[j * SELECT_GROUP + r];                                 \
  } while (0)

static void store_group(const top_k_kernel *kernel, const row_group *group,
                        const unsigned char *places) {
  const int64_t step = kernel->result_step;
  if (kernel->value == 4)
    STORE_PLACES(int32_t);
  else
    STORE_PLACES(int64_t);
}

static void group_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const top_k_kernel *kernel = l->kernel;
  unsigned char *best = l->lists + (uint64_t)worker * 2 * kernel->list_bytes;
  unsigned char *places = best + kernel->list_bytes;
  const int64_t groups = cpu_divide_up(kernel->row_count, SELECT_GROUP);
  const int64_t end = (task + 1) * groups / kernel->tasks;
  top_k_buffers b;
  for (int64_t number = task * groups / kernel->tasks; number < end; number++) {
    const row_group group = find_group(l, number * SELECT_GROUP);
    for (int64_t at = 0; at < kernel->length; at += DEPTH) {
      const int64_t count = cpu_min(DEPTH, kernel->length - at);
      turn_group(kernel, &group, at, count, &b);
      kernel->loops->group(best, places, b.keys, at, count, kernel->k);
    }
    store_group(kernel, &group, places);
  }
}

/* ---- A row in parts -------------------------------------------------------------------------- */

static void part_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const top_k_kernel *kernel = l->kernel;
  unsigned char *entries = l->lists + (uint64_t)worker * 2 * kernel->list_bytes;
  const int64_t first = task % kernel->parts * kernel->part;
  const int64_t end = cpu_min(first + kernel->part, kernel->length);
  const uint64_t bytes = (uint64_t)kernel->k * kernel->select->entry_bytes;
  const unsigned char *source;
  int64_t *positions;
  find_row(l, task / kernel->parts, &source, &positions);
  l->held[task] = select_part(l, source, first, end, entries, entries + kernel->list_bytes);
  memcpy(l->kept + (uint64_t)task * bytes, entries,
         (size_t)l->held[task] * kernel->select->entry_bytes);
}

/* Combines the lists of a row's parts. */
static void join_task(void *argument, int64_t row, int32_t worker) {
  const launch *l = argument;
  const top_k_kernel *kernel = l->kernel;
  const uint64_t entry = kernel->select->entry_bytes, bytes = (uint64_t)kernel->k * entry;
  unsigned char *entries = l->lists + (uint64_t)worker * 2 * kernel->list_bytes;
  unsigned char *room = entries + kernel->list_bytes;
  const unsigned char *source;
  int64_t *positions, held = 0;
  bound_key bound;
  for (int64_t part = 0; part < kernel->parts; part++) {
    const int64_t number = row * kernel->parts + part;
    memcpy(entries + (uint64_t)held * entry, l->kept + (uint64_t)number * bytes,
           (size_t)((uint64_t)l->held[number] * entry));
    held += l->held[number];
    if (held > kernel->k) {
      kernel->select->keep(entries, held, kernel->k, room, &bound);
      held = kernel->k;
    }
  }
  find_row(l, row, &source, &positions);
  store(l, entries, room, positions);
}

static compute_status top_k_run(const cpu_kernel *head, void *const *pointers) {
  const top_k_kernel *kernel = (const top_k_kernel *)head;
  cpu_device *device = head->device;
  if (kernel->row_count == 0 || kernel->k == 0) return COMPUTE_OK;
  const int64_t pieces = kernel->parts > 1 ? kernel->row_count * kernel->parts : 0;
  const uint64_t workers = kernel->tasks * kernel->parts == 1 ? 1 : (uint64_t)device->threads;
  const uint64_t lists = workers * 2 * kernel->list_bytes;
  const uint64_t numbers = cpu_whole_lines((uint64_t)pieces * sizeof(int64_t));
  const uint64_t bytes =
      lists + numbers + (uint64_t)pieces * (uint64_t)kernel->k * kernel->select->entry_bytes;
  unsigned char *memory = cpu_workspace_acquire(device, bytes);
  if (!memory) return cpu_out_of_memory(device, bytes);
  launch l = {kernel, pointers, memory, memory + lists + numbers,
              (int64_t *)(void *)(memory + lists)};
  if (pieces > 0) {
    cpu_parallel(device, pieces, part_task, &l);
    cpu_parallel(device, kernel->row_count, join_task, &l);
  } else {
    cpu_parallel(device, kernel->tasks, kernel->grouped ? group_task : row_task, &l);
  }
  cpu_workspace_return(device, memory);
  return COMPUTE_OK;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

/* Rows one by one are faster for many results of long rows; too few groups would leave threads
 * without work. */
static bool choose_groups(top_k_kernel *kernel, int64_t wanted) {
  const int64_t groups = cpu_divide_up(kernel->row_count, SELECT_GROUP);
  const int64_t few = 2 * (int64_t)(kernel->head.device->isa->vector_bytes / kernel->value);
  const bool is_short =
      kernel->length <= GROUPED_LENGTH && kernel->length * kernel->k <= 64 * few * few;
  kernel->grouped = (kernel->k <= few || is_short) && kernel->length <= INT32_MAX &&
                    kernel->row_count >= SELECT_GROUP / 2 &&
                    groups >= cpu_min(wanted, kernel->head.device->threads);
  if (!kernel->grouped) return false;
  kernel->tasks = cpu_min(groups, wanted);
  kernel->parts = 1;
  kernel->list_bytes = (uint64_t)kernel->k * SELECT_GROUP * kernel->value;
  return true;
}

static void choose_parts(top_k_kernel *kernel) {
  const int64_t threads = kernel->head.device->threads;
  int64_t total;
  if (__builtin_mul_overflow(kernel->row_count, kernel->length, &total)) total = INT64_MAX;
  const int64_t wanted = cpu_max(1, cpu_min(threads * TASKS_PER_THREAD, total / WORK));
  if (choose_groups(kernel, wanted)) return;
  kernel->tasks = threads > 1 ? cpu_min(kernel->row_count, wanted) : 1;
  kernel->parts = 1;
  /* A part should be several times as long as its list. */
  if (threads > 1 && kernel->row_count < threads)
    kernel->parts = cpu_max(
        1, cpu_min(wanted / kernel->row_count, kernel->length / 8 / cpu_max(kernel->k, BLOCK)));
  kernel->part = cpu_divide_up(kernel->length, kernel->parts);
  kernel->parts = cpu_divide_up(kernel->length, kernel->part);
  const int64_t most = cpu_max(kernel->part, 2 * kernel->k);
  kernel->capacity = cpu_min(2 * kernel->k + 2 * BLOCK, most + BLOCK);
  kernel->list_bytes =
      cpu_whole_lines((uint64_t)(kernel->capacity + 1) * kernel->select->entry_bytes);
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  top_k_kernel *kernel = (top_k_kernel *)head;
  cpu_device *device = kernel->head.device;
  const int32_t last = descriptor->rank - 1;
  const compute_operand *input = &descriptor->inputs[0];
  const cpu_type type = cpu_type_of(input->dtype);
  kernel->dtype = input->dtype;
  kernel->size = cpu_dtype_size(input->dtype);
  kernel->value = cpu_type_bytes(type);
  kernel->loops = &CPU_PICK(device->isa, cpu_select_table)->type[type];
  kernel->length = compute_top_k_of(descriptor)->axis_size;
  kernel->k = descriptor->size[last];
  kernel->step = input->stride[last];
  kernel->result_step = descriptor->outputs[0].stride[last];
  kernel->smallest = compute_top_k_of(descriptor)->smallest;
  if (type == CPU_TYPE_BOOL) kernel->smallest = !kernel->smallest; /* true is −1 here */
  kernel->direct = kernel->step == 1 && kernel->size == kernel->value;
  cpu_nest_begin(&kernel->rows, descriptor, 0, last);
  cpu_nest_collapse(&kernel->rows);
  cpu_nest_finish(&kernel->rows);
  if (!cpu_nest_count(&kernel->rows, kernel->rows.rank, &kernel->row_count))
    return cpu_fail_overflow(head);
  /* A short key and its position share one 64-bit number; longer rows are refused. */
  const bool narrow = kernel->value == 4;
  if (narrow && kernel->length > (INT64_C(1) << 32))
    return device->services->fail(device->services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                                  "top k: rows of more than 2^32 elements");
  kernel->select = narrow ? &select_32 : &select_64;
  if (kernel->row_count > 0 && kernel->k > 0) choose_parts(kernel);
  snprintf(kernel->head.description, sizeof kernel->head.description, "top %lld %s%s",
           (long long)kernel->k, device->isa->name,
           kernel->grouped     ? ", rows in groups"
           : kernel->parts > 1 ? ", rows in parts"
                               : ", a row at a time");
  return COMPUTE_OK;
}

static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  const int32_t last = descriptor->rank - 1;
  if (last < 0) return "there is no dimension for rows";
  if (descriptor->outputs[0].dtype != COMPUTE_I64) return "positions are i64";
  if (cpu_type_bytes(cpu_type_of(descriptor->inputs[0].dtype)) == 4 &&
      compute_top_k_of(descriptor)->axis_size > INT64_C(1) << 32)
    return "rows have more than 2^32 elements";
  return NULL;
}

const cpu_kind cpu_top_k_kind = {.name = "top k",
                                 .refuse = refuse_descriptor,
                                 .bytes = sizeof(top_k_kernel),
                                 .prepare = prepare,
                                 .run = top_k_run};

/* ---- Keeping the largest --------------------------------------------------------------------- */

/* Selection of the largest keys: declared in select.h, implemented in select_keys.h. */

#define KEY      int32_t
#define UNSIGNED uint32_t
#define ENTRY    uint64_t
#define BITS     32
#define NAME(x)  x##_32
#include "select_keys.h"
#undef KEY
#undef UNSIGNED
#undef ENTRY
#undef BITS
#undef NAME

__extension__ typedef unsigned __int128 wide_entry;

#define KEY      int64_t
#define UNSIGNED uint64_t
#define ENTRY    wide_entry
#define BITS     64
#define NAME(x)  x##_64
#include "select_keys.h"

const select_functions select_32 = {sizeof(uint64_t), append_32, keep_32, sort_32, position_32};
const select_functions select_64 = {sizeof(wide_entry), append_64, keep_64, sort_64, position_64};
