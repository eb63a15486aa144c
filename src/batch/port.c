/* SPDX-License-Identifier: MIT */
/* Sources and sinks. The CPU works in the caller's arrays without copying. For other devices, all
 * threads of the context copy the arrays, since a single thread is slower than a fast bus. */
#include "batch/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compute/call.h"
#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/base/file.h"

#define PIECE ((uint64_t)1 << 20) /* bytes that one task copies */

static const char operation[] = "compute_batch_run";

/* ---- Checks -------------------------------------------------------------------------------- */

static compute_status refuse(const compute_batch *batch, const char *whose, uint32_t index,
                             const char *why) {
  return error_set(batch->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "the %s %u %s", whose,
                   index, why);
}

static compute_status check_source(const compute_batch *batch, const compute_batch_source *s,
                                   uint32_t i) {
  char what[40];
  if ((s->array != NULL) + (s->path != NULL) + (s->read != NULL) != 1)
    return refuse(batch, "source of input", i, "must have one of array, path and read");
  snprintf(what, sizeof what, "options.sources[%u]", i);
  return error_if_reserved(batch->context, operation, what, s->reserved);
}

static compute_status check_sink(const compute_batch *batch, const compute_batch_sink *s,
                                 uint32_t i) {
  char what[40];
  if ((s->array != NULL) + (s->path != NULL) + (s->write != NULL) + s->discard != 1)
    return refuse(batch, "sink of output", i, "must have one of array, path, write and discard");
  snprintf(what, sizeof what, "options.sinks[%u]", i);
  return error_if_reserved(batch->context, operation, what, s->reserved);
}

/* True if the source determines its end. A file of items without bytes has no end. */
static bool has_end(const compute_batch *batch, const compute_batch_source *source, uint32_t i) {
  return source->read || (source->path && batch->inputs[i].bytes > 0);
}

static compute_status check(const compute_batch *batch, const compute_batch_run_options *options) {
  bool ends = options->items != COMPUTE_BATCH_UNTIL_END;
  compute_status status = COMPUTE_OK;
  if (options->items < COMPUTE_BATCH_UNTIL_END)
    return error_set(batch->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "invalid number of items: %lld", (long long)options->items);
  if ((!options->sources && batch->input_count > 0) || !options->sinks)
    return error_set(batch->context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                     !options->sinks ? "sinks" : "sources");
  for (uint32_t i = 0; !status && i < batch->input_count; i++) {
    status = check_source(batch, &options->sources[i], i);
    ends = ends || has_end(batch, &options->sources[i], i);
  }
  for (uint32_t i = 0; !status && i < batch->output_count; i++)
    status = check_sink(batch, &options->sinks[i], i);
  if (status || ends) return status;
  return error_set_native(batch->context, COMPUTE_ERROR_INVALID_ARGUMENT, 0, operation, "set items",
                          "the number of items is not set, and no source has an end of its own");
}

/* ---- Files --------------------------------------------------------------------------------- */

static compute_status file_failed(const compute_batch *batch, const char *what, const char *path,
                                  int code) {
  return error_set_native(batch->context, file_status(code), code, operation, NULL, "%s %s: %s",
                          what, path, strerror(code));
}

static compute_status open_files(compute_batch *batch) {
  for (uint32_t i = 0; i < batch->input_count; i++) {
    const char *path = batch->sources[i].path;
    if (!path) continue;
    batch->source_files[i] = open(path, O_RDONLY | O_CLOEXEC);
    if (batch->source_files[i] < 0) return file_failed(batch, "reading", path, errno);
  }
  for (uint32_t i = 0; i < batch->output_count; i++) {
    const char *path = batch->sinks[i].path;
    if (!path) continue;
    batch->sink_files[i] = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (batch->sink_files[i] < 0) return file_failed(batch, "writing", path, errno);
  }
  return COMPUTE_OK;
}

/* The number of items in a regular file that contains whole items; otherwise −1. */
static int64_t file_items(const compute_batch *batch, uint32_t i) {
  struct stat facts;
  const uint64_t offset = batch->sources[i].offset, bytes = batch->inputs[i].bytes;
  if (batch->source_files[i] < 0 || bytes == 0 || fstat(batch->source_files[i], &facts) != 0 ||
      !S_ISREG(facts.st_mode))
    return -1;
  const uint64_t size = (uint64_t)facts.st_size;
  const uint64_t left = size > offset ? size - offset : 0;
  return left % bytes == 0 ? (int64_t)(left / bytes) : -1;
}

/* The number of items, if all sources that have an end are files of the same length. */
static int64_t total_items(const compute_batch *batch) {
  int64_t total = COMPUTE_BATCH_UNTIL_END;
  for (uint32_t i = 0; i < batch->input_count; i++) {
    if (!has_end(batch, &batch->sources[i], i)) continue;
    const int64_t items = file_items(batch, i);
    if (items < 0 || (total >= 0 && items != total)) return COMPUTE_BATCH_UNTIL_END;
    total = items;
  }
  return total;
}

static compute_status open_ports(compute_batch *batch, const compute_batch_run_options *options) {
  compute_status status = check(batch, options);
  if (status) return status;
  batch->sources = options->sources;
  batch->sinks = options->sinks;
  status = open_files(batch);
  batch->flow.total =
      options->items != COMPUTE_BATCH_UNTIL_END ? options->items : total_items(batch);
  if (status || !options->group || batch->flow.total != COMPUTE_BATCH_UNTIL_END) return status;
  return error_set(batch->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                   "a group cannot divide an unknown number of items");
}

/* Takes this rank's part of the items, if all ranks have the same number of items. */
static compute_status take_part(compute_batch *batch, compute_process_group *group,
                                compute_status status) {
  char text[32];
  compute_group_info info;
  status = compute_group_check(group, operation, status);
  snprintf(text, sizeof text, "%lld items", (long long)batch->flow.total);
  if (!status) status = compute_group_agree(group, operation, text);
  if (!status) status = compute_group_query(group, &info);
  if (status) return status;
  batch_flow *f = &batch->flow;
  compute_call_share(f->total, info.rank, info.size, &f->first_item, &f->total);
  f->next_item = f->first_item;
  return COMPUTE_OK;
}

compute_status ports_open(compute_batch *batch, const compute_batch_run_options *options,
                          compute_status status) {
  if (!status) status = open_ports(batch, options);
  return options->group ? take_part(batch, options->group, status) : status;
}

compute_status ports_close(compute_batch *batch) {
  compute_status status = COMPUTE_OK;
  for (int i = 0; i < COMPUTE_BATCH_MAX_PORTS; i++) {
    if (batch->source_files[i] >= 0) close(batch->source_files[i]);
    /* The system may report delayed write errors only now. */
    if (batch->sink_files[i] >= 0 && close(batch->sink_files[i]) != 0 && !status)
      status = file_failed(batch, "writing", batch->sinks[i].path, errno);
    batch->source_files[i] = batch->sink_files[i] = -1;
  }
  return status;
}

/* ---- Copies -------------------------------------------------------------------------------- */

typedef struct pieces {
  char *to;
  const char *from;
  uint64_t bytes;
} pieces;

static void copy_piece(void *argument, int64_t task, int32_t worker) {
  const pieces *p = argument;
  const uint64_t start = (uint64_t)task * PIECE, left = p->bytes - start;
  (void)worker;
  memcpy(p->to + start, p->from + start, (size_t)min_u64(left, PIECE));
}

static void copy(const compute_batch *batch, void *to, const void *from, uint64_t bytes) {
  pieces p = {.to = to, .from = from, .bytes = bytes};
  if (bytes > 0)
    thread_pool_run(batch->context->threads, (int64_t)((bytes + PIECE - 1) / PIECE), copy_piece,
                    &p);
}

/* ---- Sources ------------------------------------------------------------------------------- */

static compute_status callback_failed(const compute_batch *batch, compute_status status,
                                      const char *whose, uint32_t index, int64_t item) {
  compute_error error;
  compute_error_get(batch->context, &error);
  const bool known = error.status == status && error.message[0] != '\0';
  return error_set_native(batch->context, status, known ? error.native_code : 0, operation,
                          known ? error.remedy : NULL, "the %s %u failed at item %lld: %s", whose,
                          index, (long long)item,
                          known ? error.message : compute_status_text(status));
}

static compute_status read_file(const compute_batch *batch, const batch_slot *slot, uint32_t i,
                                int64_t *count) {
  const uint64_t bytes = batch->inputs[i].bytes, wanted = bytes * (uint64_t)*count;
  const uint64_t start = batch->sources[i].offset + bytes * (uint64_t)slot->first;
  char *to = slot->inputs[i].data;
  uint64_t done = 0;
  ssize_t got = 1;
  while (done < wanted && got != 0) {
    got = pread(batch->source_files[i], to + done, (size_t)(wanted - done), (off_t)(start + done));
    if (got < 0 && errno != EINTR) {
      *count = (int64_t)(done / bytes);
      return file_failed(batch, "reading", batch->sources[i].path, errno);
    }
    if (got > 0) done += (uint64_t)got;
  }
  if (done == wanted) return COMPUTE_OK;
  *count = (int64_t)(done / bytes);
  if (done % bytes == 0) return COMPUTE_OK;
  return error_set(batch->context, COMPUTE_ERROR_FILE, operation,
                   "%s ends in the middle of item %lld of %llu bytes", batch->sources[i].path,
                   (long long)(slot->first + *count), (unsigned long long)bytes);
}

static compute_status read_callback(const compute_batch *batch, const batch_slot *slot, uint32_t i,
                                    int64_t *count) {
  const compute_batch_source *source = &batch->sources[i];
  const int64_t wanted = *count;
  int64_t got = 0;
  const compute_status status =
      source->read(source->user, slot->first, wanted, slot->inputs[i].data, &got);
  *count = got < 0 ? 0 : got > wanted ? wanted : got;
  if (status) return callback_failed(batch, status, "source of input", i, slot->first + *count);
  if (got == *count) return COMPUTE_OK;
  return error_set(batch->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                   "the source of input %u returned %lld items; at most %lld were requested", i,
                   (long long)got, (long long)wanted);
}

static compute_status ended_early(const compute_batch *batch, uint32_t i, int64_t items) {
  if (batch->flow.total != COMPUTE_BATCH_UNTIL_END)
    return error_set(batch->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "the source of input %u ended after %lld of %lld items", i, (long long)items,
                     (long long)batch->flow.total);
  return error_set(batch->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                   "the source of input %u ended after %lld items, but another source has more", i,
                   (long long)items);
}

/* Reads up to *count items of one source. */
static compute_status read_source(const compute_batch *batch, const batch_slot *slot, uint32_t i,
                                  int64_t *count) {
  return batch->sources[i].path ? read_file(batch, slot, i, count)
                                : read_callback(batch, slot, i, count);
}

/* In a run until the end, the first source that ends determines the end, and the others must agree.
 * After a failure, the items before it are still delivered, so the remaining sources are read up to
 * there. Of several failures, the one at the earliest item counts. */
static compute_status read_ending(const compute_batch *batch, const batch_slot *slot,
                                  int64_t *count) {
  const bool until_end = batch->flow.total == COMPUTE_BATCH_UNTIL_END;
  uint32_t first = COMPUTE_BATCH_MAX_PORTS;
  int64_t first_got = slot->items;
  compute_status status = COMPUTE_OK;
  compute_error error;
  for (uint32_t i = 0; i < batch->input_count && (!status || *count > 0); i++) {
    if (!has_end(batch, &batch->sources[i], i)) continue;
    const int64_t wanted = !status ? slot->items : *count;
    int64_t got = wanted;
    compute_status mine = read_source(batch, slot, i, &got);
    if (first == COMPUTE_BATCH_MAX_PORTS) {
      first = i;
      first_got = until_end ? got : wanted;
    }
    const int64_t expected = !status ? first_got : wanted;
    if (got < *count) *count = got;
    if (mine == COMPUTE_OK && got != expected)
      mine = ended_early(batch, got > expected ? first : i, slot->first + *count);
    if (mine == COMPUTE_OK || (status && got == wanted)) continue;
    status = mine;
    compute_error_get(batch->context, &error);
  }
  if (status) error_restore(batch->context, &error);
  return status;
}

compute_status ports_read(const compute_batch *batch, batch_slot *slot, int64_t *count) {
  *count = slot->items;
  const compute_status status = read_ending(batch, slot, count);
  /* Arrays last: the number of items is known only now. */
  for (uint32_t i = 0; i < batch->input_count; i++) {
    const char *array = batch->sources[i].array;
    const batch_buffer *buffer = &slot->inputs[i];
    const uint64_t bytes = batch->inputs[i].bytes;
    if (array && buffer->data == buffer->host)
      copy(batch, buffer->data, array + bytes * (uint64_t)slot->first, bytes * (uint64_t)*count);
  }
  return status;
}

/* ---- Sinks --------------------------------------------------------------------------------- */

static compute_status write_file(const compute_batch *batch, const batch_slot *slot, uint32_t i) {
  const uint64_t bytes = batch->outputs[i].bytes, wanted = bytes * (uint64_t)slot->items;
  const uint64_t start = batch->sinks[i].offset + bytes * (uint64_t)slot->first;
  const char *from = slot->outputs[i].data;
  for (uint64_t done = 0; done < wanted;) {
    const ssize_t put =
        pwrite(batch->sink_files[i], from + done, (size_t)(wanted - done), (off_t)(start + done));
    if (put < 0 && errno != EINTR)
      return file_failed(batch, "writing", batch->sinks[i].path, errno);
    if (put > 0) done += (uint64_t)put;
  }
  return COMPUTE_OK;
}

static compute_status write_port(const compute_batch *batch, const batch_slot *slot, uint32_t i) {
  const compute_batch_sink *sink = &batch->sinks[i];
  const batch_buffer *buffer = &slot->outputs[i];
  const uint64_t bytes = batch->outputs[i].bytes;
  if (sink->path) return write_file(batch, slot, i);
  if (sink->array && buffer->data == buffer->host)
    copy(batch, (char *)sink->array + bytes * (uint64_t)slot->first, buffer->data,
         bytes * (uint64_t)slot->items);
  if (!sink->write) return COMPUTE_OK;
  const compute_status status = sink->write(sink->user, slot->first, slot->items, buffer->data);
  return !status ? status : callback_failed(batch, status, "sink of output", i, slot->first);
}

compute_status ports_write(const compute_batch *batch, const batch_slot *slot) {
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; !status && i < batch->output_count; i++) status = write_port(batch, slot, i);
  return status;
}
