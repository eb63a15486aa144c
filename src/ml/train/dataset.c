/* SPDX-License-Identifier: MIT */
/* Datasets: pairs of items in host memory. A split shares the data; gathering copies it. */
#include "ml/train/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/float_environment.h"
#include "compute/io.h"
#include "core/device/device.h"
#include "io/new_file.h"
#include "io/npy.h"
#include "core/type/dtype.h"
#include "core/tensor/tensor.h"
#include "core/base/random.h"
#include "core/type/shape.h"

/* ---- Making and freeing -------------------------------------------------------------------- */

compute_status dataset_host(compute_context *context, const char *operation,
                            compute_device **host) {
  *host = context->cpu;
  if (*host) return COMPUTE_OK;
  return error_set(context, COMPUTE_ERROR_NO_DEVICE, operation,
                   "datasets need the CPU module, which is not loaded");
}

static compute_status check_items(const compute_context *context, const char *operation,
                                  compute_shape inputs, compute_shape targets) {
  char first[176], second[176];
  if (inputs.rank > 0 && targets.rank > 0 && inputs.size[0] == targets.size[0] &&
      inputs.size[0] > 0)
    return COMPUTE_OK;
  return error_set(context, COMPUTE_ERROR_SHAPE, operation,
                   "inputs %s and targets %s must have the same number of items, at least one",
                   compute_shape_text(inputs, first, sizeof first),
                   compute_shape_text(targets, second, sizeof second));
}

static void set_part(dataset_data *data, dataset_part part, compute_tensor *tensor) {
  compute_shape item = {.rank = tensor->shape.rank - 1};
  for (int32_t i = 0; i < item.rank; i++) item.size[i] = tensor->shape.size[i + 1];
  data->part[part].tensor = tensor;
  data->part[part].bytes = compute_tensor_data(tensor);
  data->part[part].dtype = tensor->dtype;
  data->part[part].item = item;
  data->part[part].item_bytes = (int64_t)tensor_dense_bytes(tensor) / tensor->shape.size[0];
}

compute_status dataset_create(compute_context *context, const char *operation,
                              compute_tensor *inputs, compute_tensor *targets,
                              compute_dataset **result) {
  compute_status status = check_items(context, operation, inputs->shape, targets->shape);
  compute_dataset *dataset = status ? NULL : base_allocate(1, sizeof *dataset);
  dataset_data *data = status ? NULL : base_allocate(1, sizeof *data);
  if (!dataset || !data) {
    base_release(data);
    base_release(dataset);
    compute_tensor_release(targets);
    compute_tensor_release(inputs);
    return status ? status
                  : error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                              "not enough memory for a dataset");
  }
  atomic_init(&data->references, 1);
  set_part(data, DATASET_INPUT, inputs);
  set_part(data, DATASET_TARGET, targets);
  *dataset = (compute_dataset){.context = context, .data = data, .count = inputs->shape.size[0]};
  *result = dataset;
  return COMPUTE_OK;
}

/* Copies a tensor to host memory. */
static compute_status copy_to_host(compute_context *context, const char *operation,
                                   const compute_tensor *tensor, compute_tensor **copy) {
  compute_device *host;
  compute_status status = dataset_host(context, operation, &host);
  if (!status) status = tensor_create_private(host, tensor->dtype, tensor->shape, copy);
  if (status) return status;
  status = compute_tensor_copy(*copy, tensor);
  if (status) compute_tensor_release(*copy);
  return status;
}

compute_status compute_dataset_from_tensors(compute_context *context, const compute_tensor *inputs,
                                            const compute_tensor *targets,
                                            compute_dataset **dataset) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_dataset_from_tensors";
  if (dataset) *dataset = NULL;
  const compute_status missing =
      error_if_null(context, operation, context, inputs, targets, dataset);
  if (missing) return missing;
  if (inputs->buffer->device->context != context || targets->buffer->device->context != context)
    return error_set(context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "a tensor belongs to another context");
  compute_status status = check_items(context, operation, inputs->shape, targets->shape);
  compute_tensor *input_copy, *target_copy;
  if (!status) status = copy_to_host(context, operation, inputs, &input_copy);
  if (status) return status;
  status = copy_to_host(context, operation, targets, &target_copy);
  if (status) {
    compute_tensor_release(input_copy);
    return status;
  }
  return dataset_create(context, operation, input_copy, target_copy, dataset);
}

void compute_dataset_release(compute_dataset *dataset) {
  if (IS_INHERITED(dataset, context)) return;
  if (!dataset) return;
  if (atomic_fetch_sub_explicit(&dataset->data->references, 1, memory_order_acq_rel) == 1) {
    compute_tensor_release(dataset->data->part[DATASET_INPUT].tensor);
    compute_tensor_release(dataset->data->part[DATASET_TARGET].tensor);
    base_release(dataset->data);
  }
  base_release(dataset->items);
  base_release(dataset);
}

int64_t compute_dataset_count(const compute_dataset *dataset) {
  return dataset ? dataset->count : 0;
}

compute_batch_port dataset_port(const compute_dataset *dataset, dataset_part part) {
  return (compute_batch_port){.dtype = dataset->data->part[part].dtype,
                              .item = dataset->data->part[part].item};
}

/* ---- Order --------------------------------------------------------------------------------- */

enum { STREAM_EPOCH = 0x65706f63, STREAM_SPLIT = 0x73706c69 };

/* ⌊a · b / 2⁶⁴⌋ */
static uint64_t multiply_high(uint64_t a, uint64_t b) {
  uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
  uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t)middle;
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

/* The Fisher-Yates shuffle in Durstenfeld's form (CACM 7, 1964, algorithm 235), with random numbers
 * from Philox counters. The bias of a 64-bit number is count / 2⁶⁴. */
void dataset_shuffle(int64_t *items, int64_t count, uint64_t seed, uint32_t epoch,
                     uint32_t stream) {
  uint32_t words[4] = {0};
  for (int64_t i = 0; i < count; i++) items[i] = i;
  for (int64_t i = count - 1; i > 0; i--) {
    int64_t block = i / 2;
    if (i % 2 != 0 || i == count - 1) {
      const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), epoch, stream};
      random_block(seed, counter, words);
    }
    const uint32_t *half = words + 2 * (i % 2);
    uint64_t random = (uint64_t)half[1] << 32 | half[0];
    int64_t j = (int64_t)multiply_high(random, (uint64_t)i + 1), item = items[i];
    items[i] = items[j];
    items[j] = item;
  }
}

void dataset_order(const compute_dataset *dataset, uint64_t seed, uint32_t epoch, int64_t *items) {
  dataset_shuffle(items, dataset->count, seed, epoch, STREAM_EPOCH);
}

/* ---- Splitting ----------------------------------------------------------------------------- */

static int compare_items(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Returns the index of an item in the shared data. */
static int64_t place_of(const compute_dataset *dataset, int64_t item) {
  return dataset->items ? dataset->items[item] : item;
}

/* Draws the items of `taken`; the others go to `kept`. Both are sorted in ascending order. */
static void draw(const compute_dataset *dataset, uint64_t seed, int64_t *drawn, int64_t *kept,
                 int64_t kept_count, int64_t *taken, int64_t taken_count) {
  dataset_shuffle(drawn, dataset->count, seed, 0, STREAM_SPLIT);
  for (int64_t i = 0; i < dataset->count; i++)
    *(i < taken_count ? &taken[i] : &kept[i - taken_count]) = place_of(dataset, drawn[i]);
  qsort(taken, (size_t)taken_count, sizeof *taken, compare_items);
  qsort(kept, (size_t)kept_count, sizeof *kept, compare_items);
}

static compute_status split(compute_dataset *dataset, const char *operation, int64_t taken_count,
                            uint64_t seed, compute_dataset **second) {
  int64_t kept_count = dataset->count - taken_count;
  compute_dataset *made = base_allocate(1, sizeof *made);
  int64_t *drawn = base_allocate((uint64_t)dataset->count, sizeof *drawn);
  int64_t *kept = base_allocate((uint64_t)kept_count, sizeof *kept);
  int64_t *taken = base_allocate((uint64_t)taken_count, sizeof *taken);
  if (!made || !drawn || !kept || !taken) {
    base_release(taken);
    base_release(kept);
    base_release(drawn);
    base_release(made);
    return error_set(dataset->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for the order of %" PRId64 " items", dataset->count);
  }
  draw(dataset, seed, drawn, kept, kept_count, taken, taken_count);
  base_release(drawn);
  base_release(dataset->items);
  dataset->items = kept;
  dataset->count = kept_count;
  atomic_fetch_add_explicit(&dataset->data->references, 1, memory_order_relaxed);
  *made = (compute_dataset){
      .context = dataset->context, .data = dataset->data, .count = taken_count, .items = taken};
  *second = made;
  return COMPUTE_OK;
}

compute_status compute_dataset_split(compute_dataset *dataset, double fraction, uint64_t seed,
                                     compute_dataset **second) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(dataset, context);
  static const char operation[] = "compute_dataset_split";
  if (second) *second = NULL;
  const compute_status missing =
      error_if_null(dataset ? dataset->context : NULL, operation, dataset, second);
  if (missing) return missing;
  double wanted = fraction > 0 && fraction < 1 ? round(fraction * (double)dataset->count) : 0;
  if (!(wanted >= 1 && wanted < (double)dataset->count))
    return error_set(dataset->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "a fraction of %g of %" PRId64 " items leaves one of the parts empty",
                     fraction, dataset->count);
  return split(dataset, operation, (int64_t)wanted, seed, second);
}

/* ---- Gathering ----------------------------------------------------------------------------- */

#define TASK_BYTES 262144 /* a smaller task does not justify waking a thread */

typedef struct gather_call {
  const compute_dataset *dataset;
  dataset_part part;
  compute_dtype dtype;
  const int64_t *items;
  int64_t count, tasks;
  char *data;
} gather_call;

/* The tasks divide the items into equal shares. */
static void gather_share(void *argument, int64_t task, int32_t worker) {
  (void)worker;
  const gather_call *call = argument;
  const dataset_data *data = call->dataset->data;
  const int64_t from_bytes = data->part[call->part].item_bytes;
  const compute_dtype from_dtype = data->part[call->part].dtype;
  const int64_t one = 1, elements = from_bytes / (int64_t)compute_dtype_size(from_dtype);
  const int64_t to_bytes = elements * (int64_t)compute_dtype_size(call->dtype);
  int64_t end = call->count * (task + 1) / call->tasks;
  for (int64_t i = call->count * task / call->tasks; i < end; i++) {
    const char *from =
        data->part[call->part].bytes + place_of(call->dataset, call->items[i]) * from_bytes;
    char *to = call->data + i * to_bytes;
    if (call->dtype == from_dtype) {
      memcpy(to, from, (size_t)from_bytes);
    } else {
      host_copy(COMPUTE_SHAPE(elements), &(host_array){call->dtype, to, &one},
                &(host_array){from_dtype, (char *)(uintptr_t)from, &one});
    }
  }
}

static void gather_part(const compute_dataset *dataset, dataset_part part, compute_dtype dtype,
                        const int64_t *items, int64_t count, void *data) {
  int64_t bytes = count * dataset->data->part[part].item_bytes;
  if (bytes == 0) return;
  gather_call call = {dataset, part, dtype, items, count, bytes / TASK_BYTES, data};
  if (call.tasks > count) call.tasks = count;
  if (call.tasks < 2) {
    call.tasks = 1;
    gather_share(&call, 0, 0);
  } else {
    thread_pool_run(dataset->context->threads, call.tasks, gather_share, &call);
  }
}

compute_status dataset_gather(const compute_dataset *dataset, const int64_t *items, int64_t count,
                              const compute_batch_port *input, const compute_batch_port *target,
                              void *inputs, void *targets) {
  gather_part(dataset, DATASET_INPUT, input->dtype, items, count, inputs);
  gather_part(dataset, DATASET_TARGET, target->dtype, items, count, targets);
  return COMPUTE_OK;
}

/* ---- Checks for a trainer ------------------------------------------------------------------ */

static compute_shape without_ones(compute_shape shape) {
  compute_shape kept = {.rank = 0};
  for (int32_t i = 0; i < shape.rank; i++) {
    if (shape.size[i] != 1) kept.size[kept.rank++] = shape.size[i];
  }
  return kept;
}

static bool is_convertible(compute_dtype from, compute_dtype to) {
  if (from == to || (dtype_is_float(from) && dtype_is_float(to))) return true;
  if (dtype_is_float(from) || !(dtype_is_integer(from) || from == COMPUTE_BOOL)) return false;
  return dtype_is_float(to) || to == COMPUTE_I32 || to == COMPUTE_I64;
}

/* Returns true if an integer dtype can represent all values of another one. */
static bool holds_all(compute_dtype dtype, compute_dtype other) {
  int64_t low, other_low;
  uint64_t high, other_high;
  dtype_limits(dtype, &low, &high);
  dtype_limits(other, &other_low, &other_high);
  return low <= other_low && high >= other_high;
}

/* Checks the range of integers for a port with a narrower dtype. */
static compute_status check_range(const compute_dataset *dataset, dataset_part part,
                                  compute_dtype to, const char *operation) {
  const compute_dtype from = dataset_port(dataset, part).dtype;
  const int64_t size = (int64_t)compute_dtype_size(from);
  const int64_t elements = dataset->data->part[part].item_bytes / size;
  for (int64_t i = 0; i < dataset->count; i++) {
    const char *item = dataset->data->part[part].bytes +
                       place_of(dataset, i) * dataset->data->part[part].item_bytes;
    for (int64_t j = 0; j < elements; j++) {
      const int64_t value = dtype_load_integer(from, item + size * j);
      const bool wrapped = value < 0 && !dtype_holds_integer(from, value);
      if (!wrapped && dtype_holds_integer(to, value)) continue;
      char text[24];
      snprintf(text, sizeof text, wrapped ? "%" PRIu64 : "%" PRId64, value);
      return error_set(dataset->context, COMPUTE_ERROR_OVERFLOW, operation,
                       "item %" PRId64 " of the data has %s, which does not fit into %s", i, text,
                       compute_dtype_name(to));
    }
  }
  return COMPUTE_OK;
}

static compute_status check_part(const compute_dataset *dataset, dataset_part part,
                                 const compute_batch_port *port, const char *operation) {
  const char *name = part == DATASET_INPUT ? "input" : "target";
  compute_batch_port has = dataset_port(dataset, part);
  char first[176], second[176];
  if (!compute_shape_equal(without_ones(has.item), without_ones(port->item)))
    return error_set(dataset->context, COMPUTE_ERROR_SHAPE, operation,
                     "%s items of the data are %s; the trainer expects %s", name,
                     compute_shape_text(has.item, first, sizeof first),
                     compute_shape_text(port->item, second, sizeof second));
  if (!is_convertible(has.dtype, port->dtype))
    return error_set(dataset->context, COMPUTE_ERROR_DTYPE, operation,
                     "%s items of the data are %s; the trainer expects %s", name,
                     compute_dtype_name(has.dtype), compute_dtype_name(port->dtype));
  if (dtype_is_float(port->dtype) || holds_all(port->dtype, has.dtype)) return COMPUTE_OK;
  return check_range(dataset, part, port->dtype, operation);
}

compute_status dataset_check(const compute_dataset *dataset, const compute_batch_port *input,
                             const compute_batch_port *target, const char *operation) {
  compute_status status = check_part(dataset, DATASET_INPUT, input, operation);
  return status ? status : check_part(dataset, DATASET_TARGET, target, operation);
}

compute_status dataset_check_labels(const compute_dataset *dataset, int64_t classes,
                                    const char *operation) {
  enum { SOME = 512 };
  const compute_dtype dtype = dataset->data->part[DATASET_TARGET].dtype;
  const int64_t each =
      dataset->data->part[DATASET_TARGET].item_bytes / (int64_t)compute_dtype_size(dtype);
  if (each != 1) return COMPUTE_OK; /* another check refuses it and reports the shapes */
  for (int64_t first = 0; first < dataset->count; first += SOME) {
    int64_t items[SOME], labels[SOME];
    const int64_t count = dataset->count - first < SOME ? dataset->count - first : SOME;
    for (int64_t i = 0; i < count; i++) items[i] = first + i;
    gather_part(dataset, DATASET_TARGET, COMPUTE_I64, items, count, labels);
    for (int64_t i = 0; i < count; i++) {
      if (labels[i] >= 0 && labels[i] < classes) continue;
      return error_set(dataset->context, COMPUTE_ERROR_INDEX, operation,
                       "the label of item %" PRId64 " is %" PRId64 ", and the model has %" PRId64
                       " classes, 0 ... %" PRId64,
                       first + i, labels[i], classes, classes - 1);
    }
  }
  return COMPUTE_OK;
}

/* ---- From files ---------------------------------------------------------------------------- */

/* ---- .npy and IDX -------------------------------------------------------------------------- */

static compute_status read_array(compute_device *host, const char *operation, const char *path,
                                 compute_tensor **tensor) {
  unsigned char start[6] = {0};
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* other file types are refused below */
  if (file < 0) return file_error(host->context, operation, path, "open", errno);
  int code = file_read_at(file, 0, start, sizeof start);
  close(file);
  if (code && code != FILE_ENDED) {
    return file_error(host->context, operation, path, "read", code);
  }
  if (!memcmp(start, "\x93NUMPY", 6)) return npy_read(operation, host, path, tensor);
  bool compressed = start[0] == 0x1f && start[1] == 0x8b;
  if (compressed || (start[0] == 0 && start[1] == 0 && !code)) {
    return idx_read(operation, host, path, tensor);
  }
  return error_set(host->context, COMPUTE_ERROR_FORMAT, operation,
                   "%s is neither an .npy nor an IDX file", path);
}

compute_status compute_dataset_from_files(compute_context *context, const char *inputs,
                                          const char *targets, compute_dataset **dataset) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_dataset_from_files";
  if (dataset) *dataset = NULL;
  const compute_status missing =
      error_if_null(context, operation, context, inputs, targets, dataset);
  if (missing) return missing;
  compute_device *host;
  compute_tensor *input, *target;
  compute_status status = dataset_host(context, operation, &host);
  if (!status) status = read_array(host, operation, inputs, &input);
  if (status) return status;
  status = read_array(host, operation, targets, &target);
  if (status) {
    compute_tensor_release(input);
    return status;
  }
  return dataset_create(context, operation, input, target, dataset);
}

/* ---- Tables -------------------------------------------------------------------------------- */

/* Columns that are targets: one with labels, or several with numbers. */
typedef struct table_split {
  compute_context *context;
  const char *operation;
  const char *path;
  const double *values;
  int64_t rows, columns, target_count;
  int64_t *places; /* per column: its place in the target, or −1 */
  bool labels;
  float *inputs, *numbers;
  int64_t *targets;
} table_split;

static compute_status take_label(const table_split *table, int64_t row, int64_t column,
                                 double value) {
  if (!(value >= -0x1p53 && value <= 0x1p53) || value != floor(value))
    return error_set(table->context, COMPUTE_ERROR_FORMAT, table->operation,
                     "%s, line %" PRId64 ", column %" PRId64
                     ": %g is not a label; labels are whole numbers",
                     table->path, row + 1, column + 1, value);
  table->targets[row] = (int64_t)value;
  return COMPUTE_OK;
}

static compute_status take_rows(const table_split *table) {
  const double *value = table->values;
  float *input = table->inputs;
  compute_status status = COMPUTE_OK;
  for (int64_t row = 0; row < table->rows && !status; row++) {
    for (int64_t column = 0; column < table->columns && !status; column++, value++) {
      const int64_t place = table->places[column];
      if (place < 0)
        *input++ = (float)*value;
      else if (table->labels)
        status = take_label(table, row, column, *value);
      else
        table->numbers[row * table->target_count + place] = (float)*value;
    }
  }
  return status;
}

/* Finds the place of each column. */
static compute_status find_places(table_split *table, const int32_t *given) {
  table->places = base_allocate((uint64_t)table->columns, sizeof *table->places);
  if (!table->places)
    return error_set(table->context, COMPUTE_ERROR_OUT_OF_MEMORY, table->operation,
                     "not enough memory for the columns of %s", table->path);
  for (int64_t i = 0; i < table->columns; i++) table->places[i] = -1;
  for (int64_t i = 0; i < table->target_count; i++) {
    const int64_t column = given[i] < 0 ? table->columns + given[i] : given[i];
    if (column < 0 || column >= table->columns || table->places[column] >= 0)
      return error_set(table->context, COMPUTE_ERROR_INVALID_ARGUMENT, table->operation,
                       "column %d is %s the %" PRId64 " of %s", (int)given[i],
                       column < 0 || column >= table->columns ? "outside" : "named twice among",
                       table->columns, table->path);
    table->places[column] = i;
  }
  return COMPUTE_OK;
}

static compute_status check_item(const table_split *table, compute_shape item) {
  int64_t count;
  char text[176];
  const int64_t left = table->columns - table->target_count;
  compute_status status = shape_validate(item, &count);
  if (!status && item.rank < COMPUTE_MAX_RANK && count == left) return COMPUTE_OK;
  return error_set(table->context, COMPUTE_ERROR_SHAPE, table->operation,
                   "an item of shape %s does not match the %" PRId64
                   " columns of %s besides the %s",
                   compute_shape_text(item, text, sizeof text), left, table->path,
                   table->labels ? "label" : "targets");
}

static compute_status split_table(table_split *table, compute_device *host, compute_shape item,
                                  compute_dataset **dataset) {
  const compute_shape shape = dataset_batch_shape(item, table->rows);
  const compute_shape target =
      table->labels ? COMPUTE_SHAPE(table->rows) : COMPUTE_SHAPE(table->rows, table->target_count);
  compute_tensor *inputs, *targets;
  compute_status status = tensor_create_private(host, COMPUTE_F32, shape, &inputs);
  if (status) return status;
  status = tensor_create_private(host, table->labels ? COMPUTE_I64 : COMPUTE_F32, target, &targets);
  if (status) {
    compute_tensor_release(inputs);
    return status;
  }
  table->inputs = compute_tensor_data(inputs);
  table->numbers = compute_tensor_data(targets);
  table->targets = compute_tensor_data(targets);
  status = take_rows(table);
  if (!status) return dataset_create(table->context, table->operation, inputs, targets, dataset);
  compute_tensor_release(targets);
  compute_tensor_release(inputs);
  return status;
}

static compute_status read_table(table_split *table, const int32_t *columns, compute_shape item,
                                 compute_dataset **dataset) {
  compute_device *host;
  compute_tensor *values; /* as f64, which represents every f32 and every label exactly */
  compute_status status = dataset_host(table->context, table->operation, &host);
  if (!status) status = compute_csv_read(host, table->path, COMPUTE_F64, NULL, &values);
  if (status) return status;
  table->values = compute_tensor_data(values);
  table->rows = values->shape.size[0];
  table->columns = values->shape.size[1];
  status = find_places(table, columns);
  if (!status) status = check_item(table, item);
  if (!status) status = split_table(table, host, item, dataset);
  base_release(table->places);
  compute_tensor_release(values);
  return status;
}

compute_status compute_dataset_from_csv(compute_context *context, const char *path,
                                        int32_t target_column, compute_shape item,
                                        compute_dataset **dataset) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_dataset_from_csv";
  if (dataset) *dataset = NULL;
  const compute_status missing = error_if_null(context, operation, context, path, dataset);
  if (missing) return missing;
  table_split table = {
      .context = context, .operation = operation, .path = path, .target_count = 1, .labels = true};
  return read_table(&table, &target_column, item, dataset);
}

compute_status compute_dataset_from_csv_numbers(compute_context *context, const char *path,
                                                const int32_t *target_columns, size_t target_count,
                                                compute_shape item, compute_dataset **dataset) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_dataset_from_csv_numbers";
  if (dataset) *dataset = NULL;
  const compute_status missing =
      error_if_null(context, operation, context, path, target_columns, dataset);
  if (missing) return missing;
  if (target_count < 1 || target_count > INT32_MAX)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "%zu target columns; there must be at least 1", target_count);
  table_split table = {.context = context,
                       .operation = operation,
                       .path = path,
                       .target_count = (int64_t)target_count};
  return read_table(&table, target_columns, item, dataset);
}
