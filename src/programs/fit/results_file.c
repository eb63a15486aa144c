/* SPDX-License-Identifier: MIT */
/* The life cycle of a results file of any format.
 *
 * Rows are appended to <name>.incomplete. Only the header of a .npy is overwritten later. The
 * file's own threads format and write the rows (results_private.h). A checkpoint makes the rows
 * durable and then replaces the state, which records the number of valid bytes. A resumed run
 * truncates the file to the valid bytes. */
#include "programs/fit/results_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "programs/common/clock.h"
#include "programs/fit/results_private.h"

/* ---- Formats ------------------------------------------------------------------------------- */

bool results_format_of_path(const char *path, results_format *format) {
  static const struct {
    const char *extension;
    results_format format;
  } known[] = {
      {".npy", RESULTS_NPY}, {".csv", RESULTS_CSV}, {".hdf5", RESULTS_HDF5}, {".h5", RESULTS_HDF5}};
  size_t length = strlen(path);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t tail = strlen(known[i].extension);
    if (length <= tail || strcasecmp(path + length - tail, known[i].extension) != 0) continue;
    *format = known[i].format;
    return true;
  }
  return false;
}

const char *results_format_name(results_format format) {
  static const char *const names[] = {"npy", "csv", "hdf5"};
  return names[format];
}

bool results_format_available(results_format format) {
  return format != RESULTS_HDF5 || results_hdf5_built_in();
}

/* ---- Writing ------------------------------------------------------------------------------- */

compute_status results_write_at(const results_file *file, const void *data, size_t bytes,
                                uint64_t offset, failure *why) {
  const char *next = data;
  while (bytes > 0) {
    ssize_t put = pwrite(file->descriptor, next, bytes, (off_t)offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      int code = put < 0 ? errno : EIO;
      return failure_set_system(why, code, "what was written is kept: free some space and resume",
                                "cannot write %s", file->path);
    }
    next += put;
    offset += (uint64_t)put;
    bytes -= (size_t)put;
  }
  return COMPUTE_OK;
}

static compute_status write_head(const results_file *file, int64_t rows, failure *why) {
  char head[RESULTS_HEAD_BYTES];
  size_t bytes = results_head(file, rows, head);
  return results_write_at(file, head, bytes, 0, why);
}

compute_status results_keep(const results_file *file, const results_state *state, failure *why) {
  compute_status status = COMPUTE_OK;
  if (file->options.format != RESULTS_CSV) status = write_head(file, state->progress.rows, why);
  if (status) return status;
  if (fdatasync(file->descriptor) != 0 && errno != EINVAL) {
    return failure_set_system(why, errno, NULL, "cannot write %s", file->path);
  }
  return results_state_write(file->state_path, state, why);
}

static compute_status checkpoint(results_file *file, bool wait, failure *why) {
  rows_flush(&file->rows);
  compute_status status = queue_checkpoint(&file->queue, file->now, wait, why);
  file->checked = clock_seconds();
  return status;
}

compute_status results_file_checkpoint(results_file *file, failure *why) {
  return checkpoint(file, true, why);
}

static compute_status check_results(const results_file *file, const compute_fit_results *results,
                                    const int32_t *corners, failure *why) {
  uint32_t outputs = file->columns.problem.outputs;
  if ((results->parameters || !(outputs & COMPUTE_FIT_PARAMETERS)) &&
      (results->std || !(outputs & COMPUTE_FIT_STD)) &&
      (results->covariance || !(outputs & COMPUTE_FIT_COVARIANCE)) &&
      (results->ratio || !(outputs & COMPUTE_FIT_RATIO)) &&
      (results->p_raw || !(outputs & COMPUTE_FIT_P_RAW)) &&
      (results->p_value || !(outputs & COMPUTE_FIT_P_VALUE)) &&
      (results->iterations || !(outputs & COMPUTE_FIT_ITERATIONS)) &&
      (results->status || !(outputs & COMPUTE_FIT_STATUS)) &&
      (results->significance || !(outputs & COMPUTE_FIT_SIGNIFICANCE)) &&
      (corners || !file->options.corners))
    return COMPUTE_OK;
  return failure_set(why, COMPUTE_ERROR_NULL_POINTER, NULL, "some results for %s are missing",
                     file->path);
}

compute_status results_file_append(results_file *file, int64_t first, int64_t count,
                                   const compute_fit_results *results, const int32_t *corners,
                                   int64_t next_frame, failure *why) {
  compute_status status = queue_status(&file->queue, why);
  if (!status && count > 0) status = check_results(file, results, corners, why);
  if (status) return status;
  const column_rows all = {.results = results,
                           .corners = file->options.corners ? corners : NULL,
                           .roi = file->begin.rois + first,
                           .frame = file->begin.frames};
  file->now.rows += rows_put(&file->rows, &all, count);
  file->now.rois = file->begin.rois + first + count;
  if (file->options.corners) file->now.frames = file->begin.frames + next_frame;
  if (clock_seconds() - file->checked < file->options.checkpoint_seconds) return COMPUTE_OK;
  return checkpoint(file, false, why);
}

/* ---- Creating ------------------------------------------------------------------------------ */

static void stop_threads(results_file *file) {
  rows_close(&file->rows);
  queue_close(&file->queue);
}

static void release(results_file *file) {
  stop_threads(file);
  if (file->descriptor >= 0) close(file->descriptor); /* also releases the lock */
  free(file->path);
  free(file->incomplete);
  free(file->state_path);
  free(file->generated_by);
  free(file->input);
  selection_release(&file->selection);
  free(file);
}

static results_file *allocate(const char *path, const results_options *options) {
  results_file *file = calloc(1, sizeof *file);
  if (!file) return NULL;
  file->options = *options;
  file->problem = *options->problem;
  file->options.problem = &file->problem;
  file->descriptor = -1;
  file->path = strdup(path);
  file->generated_by = strdup(options->generated_by ? options->generated_by : "compute-fit");
  file->input = strdup(options->input ? options->input : "");
  if (asprintf(&file->incomplete, "%s.incomplete", path) < 0) file->incomplete = NULL;
  if (asprintf(&file->state_path, "%s.incomplete.json", path) < 0) file->state_path = NULL;
  if (file->path && file->generated_by && file->input && file->incomplete && file->state_path)
    return file;
  release(file);
  return NULL;
}

/* Describes the job; a file can be continued only by a job with the same description. */
static void describe_job(results_file *file) {
  char *job = file->state.job, *end = job + sizeof file->state.job;
  const results_options *options = &file->options;
  job += snprintf(job, (size_t)(end - job), "%.255s; %s; statuses %x; pixel %.17g; columns",
                  options->fingerprint ? options->fingerprint : "",
                  results_format_name(options->format), (unsigned)file->selection.statuses,
                  options->pixel_size);
  for (int32_t i = 0; i < file->columns.count && job < end; i++)
    job += snprintf(job, (size_t)(end - job), " %s", file->columns.columns[i].name);
}

static compute_status lock_file(results_file *file, bool *made, failure *why) {
  file->descriptor = open(file->incomplete, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  *made = file->descriptor >= 0;
  if (!*made && errno == EEXIST) file->descriptor = open(file->incomplete, O_RDWR | O_CLOEXEC);
  if (file->descriptor < 0) {
    return failure_set_system(why, errno, "choose another place for the results",
                              "cannot create %s", file->path);
  }
  struct stat here, there;
  bool taken = flock(file->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  /* Another process may have finished and renamed the file in the meantime. */
  if (!taken && (fstat(file->descriptor, &here) != 0 || stat(file->incomplete, &there) != 0 ||
                 here.st_ino != there.st_ino || here.st_dev != there.st_dev))
    taken = true;
  if (!taken) return COMPUTE_OK;
  close(file->descriptor);
  file->descriptor = -1;
  return failure_set(why, COMPUTE_ERROR_INVALID_STATE, "wait for it, or choose another name",
                     "%s is being written by another process", file->path);
}

static compute_status start_over(results_file *file, failure *why) {
  if (ftruncate(file->descriptor, 0) != 0)
    return failure_set_system(why, errno, NULL, "cannot write %s", file->path);
  char head[RESULTS_HEAD_BYTES];
  size_t bytes = results_head(file, 0, head);
  file->state.progress = file->now = file->begin = (results_progress){0};
  file->state.finishing = false;
  file->state.overwrite = file->options.overwrite;
  file->state.bytes = file->written = bytes;
  compute_status status = results_write_at(file, head, bytes, 0, why);
  return status ? status : results_keep(file, &file->state, why);
}

static compute_status resume_from(results_file *file, const results_state *found, failure *why) {
  struct stat about;
  if (fstat(file->descriptor, &about) != 0)
    return failure_set_system(why, errno, NULL, "cannot examine %s", file->incomplete);
  char head[RESULTS_HEAD_BYTES];
  size_t head_bytes = results_head(file, 0, head);
  uint64_t rows_bytes = (uint64_t)found->progress.rows * file->columns.record_bytes;
  bool fits = found->bytes >= head_bytes && (uint64_t)about.st_size >= found->bytes &&
              (file->options.format == RESULTS_CSV || found->bytes == head_bytes + rows_bytes);
  if (!fits)
    return failure_set(why, COMPUTE_ERROR_FORMAT, "overwrite the incomplete file to start again",
                       "%s has %" PRIu64 " bytes, but %s records %" PRIu64, file->incomplete,
                       (uint64_t)about.st_size, file->state_path, found->bytes);
  if (ftruncate(file->descriptor, (off_t)found->bytes) != 0)
    return failure_set_system(why, errno, NULL, "cannot write %s", file->incomplete);
  file->state = *found;
  file->begin = file->now = found->progress;
  file->written = found->bytes;
  return COMPUTE_OK;
}

/* Fails if this job may not replace an existing complete file. */
static compute_status check_complete(const results_file *file, const results_state *found,
                                     failure *why) {
  if (file->options.overwrite || access(file->path, F_OK) != 0) return COMPUTE_OK;
  if (found && (found->overwrite || found->finishing)) return COMPUTE_OK;
  return failure_set(why, COMPUTE_ERROR_FILE, NULL,
                     file->options.resume
                         ? "%s is complete: nothing is left to resume; use --force to overwrite it"
                         : "%s exists; use --force to overwrite it",
                     file->path);
}

/* Continues an incomplete file, or starts over. */
static compute_status begin_writing(results_file *file, bool made, failure *why) {
  results_state found;
  bool missing = true;
  if (!made && file->options.resume) {
    compute_status status = results_state_read(file->state_path, &found, &missing, why);
    if (status && !missing) return status;
  }
  compute_status status = check_complete(file, missing ? NULL : &found, why);
  if (status) return status;
  if (!missing && strcmp(found.job, file->state.job) == 0) return resume_from(file, &found, why);
  if (!missing && !file->options.overwrite) {
    return failure_set(why, COMPUTE_ERROR_INVALID_STATE,
                       "use the same input and options, or --force to overwrite it",
                       "%s belongs to another job, with other input or options", file->incomplete);
  }
  if (!made && missing && !file->options.resume && !file->options.overwrite)
    return failure_set(why, COMPUTE_ERROR_INVALID_STATE,
                       "use --resume to continue, or --force to overwrite it",
                       "%s exists: an earlier run did not finish", file->incomplete);
  return start_over(file, why);
}

static compute_status check_options(const char *path, const results_options *options,
                                    failure *why) {
  if (!results_format_available(options->format))
    return failure_set(why, COMPUTE_ERROR_UNSUPPORTED,
                       "write .csv or .npy, or rebuild with libhdf5's headers",
                       "%s cannot be written: this program was built without libhdf5", path);
  uint32_t outputs = options->problem->outputs;
  const uint32_t numberless = 1u << COMPUTE_FIT_SINGULAR | 1u << COMPUTE_FIT_BAD_DATA;
  if (options->format == RESULTS_HDF5 && options->statuses && !(options->statuses & ~numberless))
    return failure_set(why, COMPUTE_ERROR_INVALID_ARGUMENT, "write .csv or .npy",
                       "%s cannot hold fits without numbers", path);
  if (outputs && !(outputs & COMPUTE_FIT_PARAMETERS))
    return failure_set(why, COMPUTE_ERROR_INVALID_ARGUMENT, NULL,
                       "%s cannot be written without the parameters", path);
  return COMPUTE_OK;
}

/* Refuses results that certainly do not fit on the disk. A line has at least two characters per
 * column. */
static compute_status check_room(const results_file *file, failure *why) {
  struct statvfs disk;
  double each = file->options.format == RESULTS_CSV ? 2.0 * file->columns.count
                                                    : (double)file->columns.record_bytes;
  double left = (double)(file->options.expected_rows - file->now.rows) * each;
  if (left <= 0 || fstatvfs(file->descriptor, &disk) != 0) return COMPUTE_OK;
  double room = (double)disk.f_bavail * (double)disk.f_frsize;
  if (left <= room) return COMPUTE_OK;
  return failure_set(why, COMPUTE_ERROR_FILE,
                     "free some space, or write the results to another disk",
                     "%s: %" PRId64 " rows take another %.3g GB, but only %.3g GB are free",
                     file->path, file->options.expected_rows, left * 1e-9, room * 1e-9);
}

static compute_status start_threads(results_file *file, failure *why) {
  const bool text = file->options.format == RESULTS_CSV;
  compute_status status =
      queue_open(&file->queue, file, rows_block_bytes(&file->columns, text), why);
  if (status) return status;
  rows_open(&file->rows, &file->queue, &file->columns, text, &file->selection,
            file->options.threads);
  return COMPUTE_OK;
}

static compute_status prepare(results_file *file, failure *why) {
  results_options *options = &file->options;
  uint32_t statuses = options->statuses ? options->statuses : selection_statuses("all");
  if (options->format == RESULTS_HDF5)
    statuses &=
        1u << COMPUTE_FIT_CONVERGED | 1u << COMPUTE_FIT_MAX_ITERATIONS | 1u << COMPUTE_FIT_AT_BOUND;
  if (!(options->checkpoint_seconds > 0)) options->checkpoint_seconds = 2;
  columns_make(options, &file->columns);
  compute_status selected =
      selection_make(options, statuses, options->where, &file->selection, why);
  if (selected) return selected;
  describe_job(file);
  if (options->format == RESULTS_HDF5) {
    compute_status status = results_hdf5_check(file, why);
    if (status) return status;
  }
  bool made;
  compute_status status = lock_file(file, &made, why);
  if (status) return status;
  status = begin_writing(file, made, why);
  if (!status) status = check_room(file, why);
  if (!status) status = start_threads(file, why);
  if (status && made) {
    unlink(file->incomplete);
    unlink(file->state_path);
  }
  file->checked = clock_seconds();
  return status;
}

compute_status results_file_create(const char *path, const results_options *options,
                                   results_file **result, results_progress *progress,
                                   failure *why) {
  *result = NULL;
  compute_status status = check_options(path, options, why);
  if (status) return status;
  results_file *file = allocate(path, options);
  if (!file) {
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to write %s", path);
  }
  status = prepare(file, why);
  if (status) {
    release(file);
    return status;
  }
  *result = file;
  *progress = file->now;
  return COMPUTE_OK;
}

/* ---- Ending -------------------------------------------------------------------------------- */

compute_status results_file_finish(results_file *file, int64_t frames, failure *why) {
  compute_status status = results_file_checkpoint(file, why);
  if (!status && file->options.format == RESULTS_HDF5) {
    file->state.finishing = true;
    status = results_state_write(file->state_path, &file->state, why);
    if (!status) status = results_hdf5_finish(file, frames, why);
    if (!status) unlink(file->incomplete);
  } else if (!status && rename(file->incomplete, file->path) != 0) {
    status = failure_set_system(why, errno, "the results are in the incomplete file",
                                "cannot rename the incomplete file to %s", file->path);
  }
  if (!status) unlink(file->state_path);
  release(file);
  return status;
}

bool results_file_abandon(results_file *file, results_progress *progress) {
  if (progress) *progress = (results_progress){0};
  if (!file) return false;
  if (file->now.rois > 0 || file->now.frames > 0)
    results_file_checkpoint(file, NULL); /* if it fails, the previous one remains */
  stop_threads(file);                    /* from now on, no other thread changes the state */
  const results_progress kept = file->state.progress;
  const bool some = kept.rois > 0 || kept.frames > 0;
  if (progress) *progress = kept;
  if (!some) {
    unlink(file->incomplete);
    unlink(file->state_path);
  }
  release(file);
  return some;
}

/* ---- Headers of results files -------------------------------------------------------------- */

static size_t npy_head(const column_set *set, int64_t rows, char *text) {
  size_t used = npy_begin(text, RESULTS_HEAD_BYTES);
  for (int32_t i = 0; i < set->count; i++) {
    const column *c = &set->columns[i];
    used = npy_put_column(text, used, RESULTS_HEAD_BYTES, c->name, c->type, c->side, c->side);
  }
  return npy_end(text, used, RESULTS_HEAD_BYTES, rows, 20);
}

size_t results_head(const results_file *file, int64_t rows, char *text) {
  if (file->options.format != RESULTS_CSV) return npy_head(&file->columns, rows, text);
  return (size_t)(columns_put_heading(&file->columns, text) - text);
}
