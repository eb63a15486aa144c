/* Datasets from files. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "compute/io.h"
#include "device/device.h"
#include "io/new_file.h"
#include "io/npy.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"
#include "train/dataset.h"

/* ---- .npy and IDX -------------------------------------------------------------------------- */

static compute_status read_array(compute_device *host, const char *operation, const char *path,
                                 compute_tensor **tensor) {
  unsigned char start[6] = {0};
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* what is no file is refused below */
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
                   "%s begins neither as .npy nor as IDX files do", path);
}

compute_status compute_dataset_from_files(compute_context *context, const char *inputs,
                                          const char *targets, compute_dataset **dataset) {
  static const char operation[] = "compute_dataset_from_files";
  if (dataset) *dataset = NULL;
  if (!context || !inputs || !targets || !dataset) {
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                     !context   ? "context"
                     : !inputs  ? "inputs"
                     : !targets ? "targets"
                                : "dataset");
  }
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

typedef struct table_split {
  compute_context *context;
  const char *operation;
  const char *path;
  const double *values;
  int64_t rows, columns, target;
  float *inputs;
  int64_t *targets;
} table_split;

static compute_status take_rows(const table_split *table) {
  const double *value = table->values;
  float *input = table->inputs;
  for (int64_t row = 0; row < table->rows; row++) {
    for (int64_t column = 0; column < table->columns; column++, value++) {
      if (column != table->target) {
        *input++ = (float)*value;
        continue;
      }
      if (!(*value >= -0x1p53 && *value <= 0x1p53) || *value != floor(*value)) {
        return error_set(table->context, COMPUTE_ERROR_FORMAT, table->operation,
                         "%s, line %" PRId64 ", column %" PRId64 ": %g is no label, which is a "
                         "whole number",
                         table->path, row + 1, column + 1, *value);
      }
      table->targets[row] = (int64_t)*value;
    }
  }
  return COMPUTE_OK;
}

static compute_status check_columns(const table_split *table, int32_t given, compute_shape item) {
  int64_t count;
  char text[176];
  if (table->target < 0 || table->target >= table->columns) {
    return error_set(table->context, COMPUTE_ERROR_INVALID_ARGUMENT, table->operation,
                     "column %d is not among the %" PRId64 " of %s", (int)given, table->columns,
                     table->path);
  }
  compute_status status = shape_validate(item, &count);
  if (!status && item.rank < COMPUTE_MAX_RANK && count == table->columns - 1) return COMPUTE_OK;
  return error_set(table->context, COMPUTE_ERROR_SHAPE, table->operation,
                   "an item of shape %s cannot be made of the %" PRId64 " columns of %s beside "
                   "the label",
                   compute_shape_text(item, text, sizeof text), table->columns - 1, table->path);
}

static compute_status split_table(table_split *table, compute_device *host, compute_shape item,
                                  compute_dataset **dataset) {
  const compute_shape shape = dataset_batch_shape(item, table->rows);
  compute_tensor *inputs, *targets;
  compute_status status = tensor_create_private(host, COMPUTE_F32, shape, &inputs);
  if (status) return status;
  status = tensor_create_private(host, COMPUTE_I64, COMPUTE_SHAPE(table->rows), &targets);
  if (status) {
    compute_tensor_release(inputs);
    return status;
  }
  table->inputs = compute_tensor_data(inputs);
  table->targets = compute_tensor_data(targets);
  status = take_rows(table);
  if (!status) return dataset_create(table->context, table->operation, inputs, targets, dataset);
  compute_tensor_release(targets);
  compute_tensor_release(inputs);
  return status;
}

compute_status compute_dataset_from_csv(compute_context *context, const char *path,
                                        int32_t target_column, compute_shape item,
                                        compute_dataset **dataset) {
  static const char operation[] = "compute_dataset_from_csv";
  if (dataset) *dataset = NULL;
  if (!context || !path || !dataset) {
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                     !context ? "context"
                     : !path  ? "path"
                              : "dataset");
  }
  compute_device *host;
  compute_tensor *values; /* as f64, which every f32 and every label fits into */
  compute_status status = dataset_host(context, operation, &host);
  if (!status) status = compute_csv_read(host, path, COMPUTE_F64, NULL, &values);
  if (status) return status;
  table_split table = {.context = context,
                       .operation = operation,
                       .path = path,
                       .values = compute_tensor_data(values),
                       .rows = values->shape.size[0],
                       .columns = values->shape.size[1]};
  table.target = target_column < 0 ? table.columns + target_column : target_column;
  status = check_columns(&table, target_column, item);
  if (!status) status = split_table(&table, host, item, dataset);
  compute_tensor_release(values);
  return status;
}
