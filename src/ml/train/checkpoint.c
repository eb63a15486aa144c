/* SPDX-License-Identifier: MIT */
/* Checkpoints: one file of named tensors with the complete state of a run, so that it continues bit
 * for bit.
 *
 * The file contains the model's parameters and statistics ("model."), the trainer's state between
 * steps ("optimizer.", "gradients.", "loss_scale.") and its counters ("trainer.counters"). Reading
 * checks every name, dtype and shape, and loads everything into memory before anything changes. */
#include <inttypes.h>
#include <string.h>

#include "compute/io.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/text.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "io/tensor_file.h"
#include "ml/train/dataset.h"
#include "ml/train/trainer.h"

#define LAYOUT 1
/* Limit of the counters, so that a continued run does not overflow. */
#define MOST_COUNTED (INT64_C(1) << 53)

enum { COUNTER_LAYOUT, COUNTER_UPDATES, COUNTER_BATCHES, COUNTER_EPOCHS, COUNTER_SEED, COUNTERS };

/* The tensors of a checkpoint and their names. */
typedef struct checkpoint {
  compute_trainer *trainer;
  const char *operation;
  restore_entry *entries; /* the model's tensors, the trainer's tensors, the counters; on rank 0
                           * then the whole tensors of divided state */
  char **names;           /* owned */
  size_t count, name_count;
  size_t whole_count; /* entries at the end, on rank 0 only */
  compute_tensor *counters;
} checkpoint;

compute_status train_check_path(const compute_trainer *trainer, const char *operation,
                                const char *path) {
  const char *end = strrchr(path, '.');
  if (end && (strcmp(end, ".safetensors") == 0 || strcmp(end, ".npz") == 0)) return COMPUTE_OK;
  return error_set_native(trainer->context, COMPUTE_ERROR_INVALID_ARGUMENT, 0, operation,
                          "name it .safetensors or .npz", "cannot tell the format from the name %s",
                          path);
}

/* Returns the number of entries that all ranks have. The counters are the last of them. */
static size_t common(const checkpoint *c) {
  return c->count - c->whole_count;
}

static void close_checkpoint(checkpoint *c) {
  for (size_t i = 0; i < c->name_count; i++) base_release(c->names[i]);
  for (size_t i = common(c); i < c->count; i++) compute_tensor_release(c->entries[i].tensor);
  base_release(c->names);
  base_release(c->entries);
  compute_tensor_release(c->counters);
}

static compute_status no_memory(const checkpoint *c) {
  return error_set(c->trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, c->operation,
                   "not enough memory for a list of tensors");
}

static void add(checkpoint *c, const char *name, compute_tensor *tensor) {
  c->entries[c->count++] = (restore_entry){.name = name, .tensor = tensor};
}

static compute_status add_whole(checkpoint *c, size_t index) {
  char *name = NULL;
  compute_tensor *whole = NULL;
  const compute_status status = train_shards_whole(c->trainer, index, &name, &whole);
  c->names[c->name_count++] = name;
  if (status) return status;
  add(c, name, whole);
  c->whole_count++;
  return COMPUTE_OK;
}

static compute_status open_checkpoint(checkpoint *c, compute_trainer *trainer,
                                      const char *operation) {
  *c = (checkpoint){.trainer = trainer, .operation = operation};
  const size_t wholes = trainer->rank == 0 ? train_shards_count(trainer) : 0;
  const size_t kept = trainer->state_count - trainer->divided_states;
  c->entries = base_allocate(trainer->tensor_count + kept + 1 + wholes, sizeof *c->entries);
  c->names = base_allocate(trainer->tensor_count + wholes, sizeof *c->names);
  if (!c->entries || !c->names) return no_memory(c);
  for (size_t i = 0; i < trainer->tensor_count; i++) {
    compute_layer_parameter p;
    compute_status status = compute_layer_parameter_at(trainer->options.model, i, &p);
    if (status) return status;
    text_buffer name = {0};
    text_add(&name, "model.%s", p.name);
    if (name.failed) {
      text_release(&name);
      return no_memory(c);
    }
    c->names[c->name_count++] = name.data;
    add(c, name.data, p.tensor);
  }
  for (size_t i = 0; i < kept; i++) add(c, trainer->states[i].name, trainer->states[i].tensor);
  compute_device *host;
  compute_status status = dataset_host(trainer->context, operation, &host);
  if (!status) status = train_tensor(host, COMPUTE_I64, COMPUTE_SHAPE(COUNTERS), 0, &c->counters);
  if (!status) add(c, "trainer.counters", c->counters);
  for (size_t i = 0; !status && i < wholes; i++) status = add_whole(c, i);
  return status;
}

/* Collective: copies divided state between the whole tensors and the ranks' parts. */
static compute_status move_state(const checkpoint *c, bool spread) {
  const size_t wholes = train_shards_count(c->trainer);
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < wholes; i++) {
    compute_tensor *whole = c->trainer->rank == 0 ? c->entries[common(c) + i].tensor : NULL;
    status = train_shards_move(c->trainer, i, whole, spread);
  }
  return status;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static compute_status check_call(const compute_trainer *trainer, const char *path,
                                 const char *operation) {
  if (trainer && path) return COMPUTE_OK;
  return error_set(trainer ? trainer->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                   "%s is NULL", trainer ? "path" : "trainer");
}

static compute_named_tensor named(const checkpoint *c, size_t index) {
  return (compute_named_tensor){c->entries[index].name, c->entries[index].tensor};
}

/* The counters are the last of the common entries. */
static compute_status write_all(const checkpoint *c, const char *path) {
  compute_named_tensor *tensors = base_allocate(c->count, sizeof *tensors);
  if (!tensors) return no_memory(c);
  const size_t counters = common(c) - 1;
  for (size_t i = 0; i < counters; i++) tensors[i] = named(c, i);
  for (size_t i = common(c); i < c->count; i++) tensors[i - 1] = named(c, i);
  tensors[c->count - 1] = named(c, counters);
  const compute_status status =
      compute_tensor_file_write(c->trainer->context, path, tensors, c->count);
  base_release(tensors);
  return status;
}

compute_status compute_trainer_save(compute_trainer *trainer, const char *path) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(trainer, context);
  static const char operation[] = "compute_trainer_save";
  compute_status status = check_call(trainer, path, operation);
  if (!trainer) return status;
  if (!status) status = train_drain(trainer);
  status = train_group_check(trainer, operation, status); /* before the ranks exchange anything */
  if (status) return status;
  const int64_t counters[COUNTERS] = {[COUNTER_LAYOUT] = LAYOUT,
                                      [COUNTER_UPDATES] = trainer->updates,
                                      [COUNTER_BATCHES] = trainer->batches,
                                      [COUNTER_EPOCHS] = trainer->epochs,
                                      [COUNTER_SEED] = (int64_t)trainer->options.seed};
  checkpoint c = {.trainer = trainer};
  status = train_group_collect_sums(trainer);
  if (!status) status = open_checkpoint(&c, trainer, operation);
  status = train_group_check(trainer, operation, status);
  if (!status) status = move_state(&c, false);
  if (!status) status = compute_tensor_write(c.counters, counters, sizeof counters);
  if (!status && trainer->rank == 0) status = write_all(&c, path);
  close_checkpoint(&c);
  return train_group_check(trainer, operation, status);
}

/* ---- Reading ------------------------------------------------------------------------------- */

static compute_status check_counters(const checkpoint *c, const compute_tensor *tensor,
                                     int64_t *counters) {
  compute_status status = compute_tensor_read(tensor, counters, COUNTERS * sizeof *counters);
  if (status) return status;
  bool sound = counters[COUNTER_LAYOUT] == LAYOUT;
  for (int i = COUNTER_UPDATES; i <= COUNTER_EPOCHS; i++)
    sound = sound && counters[i] >= 0 && counters[i] <= MOST_COUNTED;
  if (sound && counters[COUNTER_UPDATES] <= counters[COUNTER_BATCHES]) return COMPUTE_OK;
  return error_set(c->trainer->context, COMPUTE_ERROR_FORMAT, c->operation,
                   "the checkpoint's counters are invalid (layout %" PRId64 ")",
                   counters[COUNTER_LAYOUT]);
}

static compute_status read_all(checkpoint *c, restore *restoring) {
  int64_t counters[COUNTERS];
  restoring->entries = c->entries;
  restoring->count = c->count;
  compute_status status = restore_read(restoring);
  if (!status) status = check_counters(c, c->entries[common(c) - 1].read, counters);
  return status ? status : restore_put(restoring);
}

/* In a group, rank 0 reads the file and sends the tensors to all ranks. */
static compute_status load(checkpoint *c, restore *restoring) {
  compute_trainer *trainer = c->trainer;
  int64_t counters[COUNTERS];
  compute_status status = trainer->rank == 0 ? read_all(c, restoring) : COMPUTE_OK;
  status = train_group_check(trainer, c->operation, status);
  for (size_t i = 0; trainer->group && !status && i < common(c); i++)
    status = compute_group_broadcast(trainer->group, c->entries[i].tensor, 0, NULL, NULL);
  if (!status) status = move_state(c, true);
  if (!status) status = train_group_clear_sums(trainer);
  if (!status) status = compute_tensor_read(c->counters, counters, sizeof counters);
  if (status) return status;
  trainer->updates = counters[COUNTER_UPDATES];
  trainer->batches = counters[COUNTER_BATCHES];
  trainer->epochs = counters[COUNTER_EPOCHS];
  trainer->options.seed = (uint64_t)counters[COUNTER_SEED];
  return COMPUTE_OK;
}

compute_status compute_trainer_load(compute_trainer *trainer, const char *path) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(trainer, context);
  static const char operation[] = "compute_trainer_load";
  static const char remedy[] = "resume with the model and options of the run that wrote it";
  compute_status status = check_call(trainer, path, operation);
  if (!status) status = train_drain(trainer);
  if (status) return trainer ? train_group_check(trainer, operation, status) : status;
  checkpoint c;
  restore restoring = {.context = trainer->context,
                       .operation = operation,
                       .path = path,
                       .owner = "this trainer",
                       .missing_remedy = remedy,
                       .extra_remedy = remedy};
  status = train_group_check(trainer, operation, open_checkpoint(&c, trainer, operation));
  if (!status) status = load(&c, &restoring);
  restore_close(&restoring);
  close_checkpoint(&c);
  return status;
}
