/* SPDX-License-Identifier: MIT */
/* See cluster.h. The leader's own blocks set the pace. When one of them is complete, the leader
 * takes the next blocks from the other ranks, and then continues. */
#include "programs/fit/cluster_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks are large enough that messages are few, and small enough that all ranks are busy. */
enum { MOST_FRAMES = 256, MOST_ROIS = 1 << 16, ROUNDS = 16 };

/* The result of a rank's opening phase. */
typedef struct report {
  int32_t result; /* exit status */
  char words[1020];
} report;

struct cluster {
  fit_job *job;
  compute_process_group *group;
  compute_group_info info;
  bool complete; /* the leader has completed its output */

  const compute_fit_run_options *whole; /* for all ranks together */
  bool frames;                          /* items are frames */
  division part;
  int64_t own_items, own_rois;
  int32_t *corners; /* of this rank's ROIs, with its own frame numbers */
  float *start;

  cluster_message message;
  int32_t *piece_corners; /* of a piece, with the frame numbers of the whole run */
  int64_t piece_room;     /* capacity in ROIs */
  int64_t own_next;       /* own items before it are taken or sent */
  int64_t next;           /* on the leader: items before it are taken */
  int64_t taken;          /* ROIs */
  report opening;         /* of this rank */
  int32_t failed_rank;    /* on the leader: the failed rank that waits until the leader's output is
                        * on disk */
  failure failed;         /* of another rank, or of the connection to it */
};

bool cluster_leads(const fit_job *job) {
  return !job->cluster || job->cluster->info.rank == 0;
}

/* ---- Opening ------------------------------------------------------------------------------- */

int cluster_open(fit_job *job) {
  compute_process_group *group = NULL;
  compute_group_info info;
  compute_status status =
      compute_group_open(job->session.context, &(compute_group_options){.host_only = true}, &group);
  if (!status) status = compute_group_query(group, &info);
  if (status) return fit_say_error(NULL, job->session.context);
  if (info.size == 1) {
    compute_group_close(group);
    return EXIT_GOOD;
  }
  cluster *c = calloc(1, sizeof *c);
  if (!c) {
    fit_say("out of memory");
    return EXIT_FAILED;
  }
  *c = (cluster){.job = job, .group = group, .info = info};
  job->cluster = c;
  if (info.rank > 0) fit_keep_words(c->opening.words, sizeof c->opening.words);
  if (job->a->saturation > 0) { /* only the rank that reads an image has its pixels */
    fit_say("--saturation: not with several processes");
    return EXIT_USAGE;
  }
  return EXIT_GOOD;
}

int cluster_choose_device(fit_job *job) {
  const char *wanted = job->a->device;
  compute_device *device = job->cluster ? job->cluster->info.device : NULL;
  compute_device_info info;
  if (!device || (wanted && strcmp(wanted, "auto"))) return EXIT_GOOD;
  if (compute_device_describe(device, &info)) return fit_say_error(NULL, job->session.context);
  job->session.device[0] = device;
  snprintf(job->session.names, sizeof job->session.names, "%s", info.name);
  return EXIT_GOOD;
}

bool cluster_close(fit_job *job) {
  cluster *c = job->cluster;
  if (!c) return true;
  const bool complete = c->complete;
  if (c->failed_rank > 0) (void)cluster_let_end(&c->message, c->group, c->failed_rank);
  free(c->corners);
  free(c->start);
  free(c->piece_corners);
  cluster_message_free(&c->message);
  if (complete) compute_group_close(c->group);
  free(c);
  job->cluster = NULL;
  return complete;
}

/* ---- Start and end ------------------------------------------------------------------------- */

static uint64_t hash(uint64_t from, const void *data, size_t bytes) {
  const unsigned char *at = data;
  for (size_t i = 0; at && i < bytes; i++) from = (from ^ at[i]) * 0x100000001b3u;
  return from;
}

static uint64_t hash_map(uint64_t from, const compute_fit_map *map) {
  return hash(from, map->values, (size_t)(map->rows * map->columns) * sizeof *map->values);
}

/* Hashes the shape of the spots. */
static uint64_t hash_shape(uint64_t from, const compute_fit_problem *p) {
  const double numbers[] = {p->depth, p->gamma, p->a[0],     p->a[1],
                            p->b[0],  p->b[1],  p->sigma[0], p->sigma[1]};
  if (p->model != COMPUTE_FIT_SPLINE) return hash(from, numbers, sizeof numbers);
  const double place[] = {p->z_step, p->z_first, p->spot[0], p->spot[1]};
  const size_t cells = (size_t)p->cells[0] * (size_t)p->cells[1] * (size_t)p->cells[2];
  from = hash(hash(from, place, sizeof place), p->cells, sizeof p->cells);
  return hash(from, p->spline, cells * COMPUTE_FIT_SPLINE_COEFFICIENTS * sizeof *p->spline);
}

/* Checks that all ranks fit the same. The movie is compared by its size, other files by their
 * contents. */
static compute_status agree(const cluster *c) {
  const fit_job *job = c->job;
  const camera_maps *m = &job->maps;
  const compute_fit_problem *p = &job->problem;
  const uint64_t none = 0xcbf29ce484222325u;
  const uint64_t maps = hash_map(hash_map(hash_map(none, &m->offset), &m->gain), &m->variance);
  char text[768];
  snprintf(text, sizeof text,
           "input of %" PRIu64 " bytes\n%" PRId64 " images of %" PRId64 " x %" PRId64
           " pixels\noptions %016" PRIx64 "\n--corners: %" PRId64 " numbers, %016" PRIx64
           "\n--start-file: %" PRId64 " numbers, %016" PRIx64 "\nmaps of the camera: %016" PRIx64
           "\n--calibration: %016" PRIx64,
           job->info.file_bytes, job->info.count, job->info.rows, job->info.columns,
           job->a->line.fingerprint, job->corners.count,
           hash(none, job->corners.values, (size_t)job->corners.count * sizeof(int32_t)),
           job->start.count,
           hash(none, job->start.values, (size_t)job->start.count * sizeof(float)),
           hash(maps, m->mask, (size_t)(m->mask_rows * m->mask_columns)), hash_shape(none, p));
  return compute_group_agree(c->group, "compute-fit", text);
}

static compute_status share_start(const cluster *c) {
  fit_job *job = c->job;
  compute_device *cpu = NULL;
  compute_tensor *tensor = NULL;
  int64_t begin[2] = {job->first_roi, job->first_frame};
  compute_status status = compute_device_by_name(job->session.context, "cpu", &cpu);
  if (!status)
    status =
        compute_tensor_wrap(cpu, COMPUTE_I64, COMPUTE_SHAPE(2), NULL, begin, NULL, NULL, &tensor);
  if (!status) status = compute_group_broadcast(c->group, tensor, 0, NULL, NULL);
  compute_tensor_release(tensor);
  job->first_roi = begin[0];
  job->first_frame = begin[1];
  return status;
}

/* Gathers the reports of all ranks, in their order. */
static compute_status gather_reports(cluster *c, report *all) {
  const int64_t bytes = sizeof *all;
  compute_device *cpu = NULL;
  compute_tensor *own = NULL, *tensor = NULL;
  compute_status status = compute_device_by_name(c->job->session.context, "cpu", &cpu);
  if (!status)
    status = compute_tensor_wrap(cpu, COMPUTE_U8, COMPUTE_SHAPE(bytes), NULL, &c->opening, NULL,
                                 NULL, &own);
  if (!status)
    status = compute_tensor_wrap(cpu, COMPUTE_U8, COMPUTE_SHAPE(bytes * c->info.size), NULL, all,
                                 NULL, NULL, &tensor);
  if (!status) status = compute_group_all_gather(c->group, own, tensor, NULL, NULL);
  compute_tensor_release(own);
  compute_tensor_release(tensor);
  return status;
}

/* Returns the exit status of the first failed rank. The leader prints its reason. */
static int judge(const cluster *c, const report *all) {
  int32_t rank = 0;
  while (rank < c->info.size && !all[rank].result) rank++;
  if (rank == c->info.size) return EXIT_GOOD;
  if (c->info.rank == 0 && rank > 0) fit_say("rank %" PRId32 ": %s", rank, all[rank].words);
  return all[rank].result;
}

int cluster_start(fit_job *job, int result) {
  cluster *c = job->cluster;
  if (!c) return result;
  fit_keep_words(NULL, 0);
  c->frames = job->frames;
  c->opening.result = result;
  report *all = calloc((size_t)c->info.size, sizeof *all);
  if (!all) {
    fit_say("out of memory");
    return EXIT_FAILED;
  }
  compute_status status = gather_reports(c, all);
  result = status ? EXIT_GOOD : judge(c, all);
  free(all);
  if (!result && !status) status = agree(c);
  if (!result && !status) status = share_start(c);
  if (!result && !status) return EXIT_GOOD;
  if (!result && cluster_leads(job)) fit_say_error(NULL, job->session.context);
  /* A launcher ends all ranks when one ends. So they wait until the leader has printed the reason
   * and removed its unused output. */
  results_file_abandon(job->results, NULL);
  job->results = NULL;
  (void)compute_group_barrier(c->group);
  return result ? result : EXIT_FAILED;
}

/* Returns the status of a rank that has already printed its error. */
static compute_status status_of(int result) {
  return result ? COMPUTE_ERROR_INVALID_STATE : COMPUTE_OK;
}

int cluster_end(fit_job *job, int result) {
  cluster *c = job->cluster;
  if (!c) return result;
  const compute_status status = compute_group_check(c->group, "compute-fit", status_of(result));
  c->complete = status == COMPUTE_OK;
  return status && !result ? EXIT_FAILED : result;
}

/* ---- Pixels -------------------------------------------------------------------------------- */

static compute_status read_own(void *user, int64_t first, int64_t items, void *data,
                               int64_t *count) {
  const cluster *c = user;
  const fit_job *job = c->job;
  const size_t bytes =
      (size_t)(job->info.rows * job->info.columns) * compute_dtype_size(job->info.dtype);
  char *next = data;
  *count = 0;
  if (items > c->own_items - first) items = c->own_items - first;
  while (items > 0) {
    const int64_t left = c->part.block - first % c->part.block,
                  wanted = items < left ? items : left;
    int64_t got = 0;
    const compute_status status = c->whole->pixels.read(
        c->whole->pixels.user, division_item(&c->part, first), wanted, next, &got);
    if (status) return status;
    *count += got;
    if (got < wanted) return COMPUTE_OK;
    first += wanted;
    items -= wanted;
    next += (size_t)wanted * bytes;
  }
  return COMPUTE_OK;
}

/* Records that a rank did not answer. */
static compute_status lost(cluster *c, compute_status status, const char *what, int32_t rank) {
  compute_error error = {0};
  compute_error_get(c->job->session.context, &error);
  const bool said = error.status == status;
  return failure_set(&c->failed, status, said ? error.remedy : NULL,
                     "waiting for %s %" PRId32 ": %s", what, rank,
                     said ? error.message : compute_status_text(status));
}

/* ---- Taking results, on the leader --------------------------------------------------------- */

static compute_status take(cluster *c, const cluster_rois *rois, int64_t next) {
  if (next > c->next) c->next = next;
  const compute_status status =
      c->whole->write(c->whole->write_user, c->taken, rois->count, &rois->results, rois->corners,
                      c->frames ? c->next : 0);
  c->taken += rois->count;
  return status;
}

static compute_status take_block(cluster *c, int32_t from) {
  cluster_news news = CLUSTER_RESULTS;
  while (news != CLUSTER_BLOCK_ENDS) {
    cluster_rois rois;
    int64_t next;
    compute_status status = cluster_receive(&c->message, c->group, from, &news, &rois, &next);
    if (status) return lost(c, status, "the results of rank", from);
    c->failed_rank = news == CLUSTER_FAILED ? from : 0;
    if (news == CLUSTER_FAILED)
      return failure_set(&c->failed, COMPUTE_ERROR_INVALID_STATE, NULL, "rank %" PRId32 ": %s",
                         from, c->message.data);
    status = take(c, &rois, next);
    if (status) return status;
  }
  return COMPUTE_OK;
}

/* Takes the blocks of the other ranks up to the leader's next block. */
static compute_status take_others(cluster *c) {
  compute_status status = COMPUTE_OK;
  for (int32_t rank = 1; !status && rank < c->part.ranks && c->next < c->part.items; rank++) {
    status = take_block(c, rank);
    const compute_batch_progress own = {
        .items = c->own_next, .total = c->own_items, .seconds_left = -1};
    if (!status && c->whole->progress && c->own_next == c->own_items &&
        !c->whole->progress(c->whole->progress_user, &own))
      status = COMPUTE_ERROR_CANCELLED;
  }
  return status;
}

/* ---- Giving results ------------------------------------------------------------------------ */

/* Returns the number of ROIs of the next piece from `done` on: whole frames, and at least one. */
static int64_t piece_length(const cluster *c, const cluster_rois *rois, int64_t done) {
  const int64_t left = rois->count - done;
  if (left <= CLUSTER_PIECE || !c->frames) return left < CLUSTER_PIECE ? left : CLUSTER_PIECE;
  const int32_t *corner = rois->corners + 3 * done, cut = corner[3 * CLUSTER_PIECE];
  int64_t count = CLUSTER_PIECE;
  while (count > 0 && corner[3 * (count - 1)] == cut) count--;
  if (count > 0) return count;
  while (count < left && corner[3 * count] == cut) count++;
  return count;
}

/* Converts the frame numbers of a piece to numbers of the whole run. */
static compute_status map_corners(cluster *c, cluster_rois *piece) {
  if (!piece->corners) return COMPUTE_OK;
  if (piece->count > c->piece_room) {
    int32_t *larger = realloc(c->piece_corners, 3 * (size_t)piece->count * sizeof *larger);
    if (!larger)
      return failure_set(&c->failed, COMPUTE_ERROR_OUT_OF_MEMORY, NULL,
                         "out of memory for %" PRId64 " ROIs of a frame", piece->count);
    c->piece_corners = larger;
    c->piece_room = piece->count;
  }
  for (int64_t i = 0; i < piece->count; i++) {
    const int32_t *corner = piece->corners + 3 * i;
    c->piece_corners[3 * i] = c->frames ? (int32_t)division_item(&c->part, corner[0]) : corner[0];
    c->piece_corners[3 * i + 1] = corner[1];
    c->piece_corners[3 * i + 2] = corner[2];
  }
  piece->corners = c->piece_corners;
  return COMPUTE_OK;
}

static compute_status send_piece(cluster *c, const cluster_rois *piece, int64_t next,
                                 cluster_news news) {
  const compute_status status = cluster_send(&c->message, c->group, news, piece, next);
  return status ? lost(c, status, "rank", 0) : COMPUTE_OK;
}

/* Gives the results of own items before `stop`, all in one block. `ends`: they end the block. */
static compute_status give(cluster *c, const cluster_rois *rois, int64_t stop, bool ends) {
  const bool leads = c->info.rank == 0;
  const int64_t next = stop > 0 ? division_item(&c->part, stop - 1) + 1 : 0;
  compute_status status = COMPUTE_OK;
  int64_t done = 0;
  bool last = rois->count == 0 && !ends && !leads; /* no news */
  while (!status && !last) {
    const int64_t count = piece_length(c, rois, done);
    cluster_rois piece = cluster_part(rois, done, count, c->message.parameters);
    done += count;
    last = done == rois->count;
    const int64_t complete = last        ? next
                             : c->frames ? division_item(&c->part, rois->corners[3 * done])
                                         : 0;
    status = map_corners(c, &piece);
    if (status) break;
    status = leads ? take(c, &piece, complete)
                   : send_piece(c, &piece, complete,
                                last && ends ? CLUSTER_BLOCK_ENDS : CLUSTER_RESULTS);
  }
  return !status && leads && ends ? take_others(c) : status;
}

/* Returns the number of ROIs whose own items are before `stop`. The first ROI is of item
 * own_next. */
static int64_t count_before(const cluster *c, const cluster_rois *rois, int64_t stop) {
  if (!c->frames) return stop - c->own_next;
  int64_t count = 0;
  while (count < rois->count && rois->corners[3 * count] < stop) count++;
  return count;
}

/* Gives the results of whole items. All own items before `end` are now complete. */
static compute_status advance(cluster *c, const cluster_rois *rois, int64_t end) {
  compute_status status = COMPUTE_OK;
  cluster_rois left = *rois;
  while (!status && c->own_next < end) {
    const int64_t block = c->part.block, block_end = (c->own_next / block + 1) * block;
    const int64_t stop = block_end < end ? block_end : end;
    const int64_t count = count_before(c, &left, stop);
    const cluster_rois now = cluster_part(&left, 0, count, c->message.parameters);
    left = cluster_part(&left, count, left.count - count, c->message.parameters);
    c->own_next = stop;
    status = give(c, &now, stop, stop == block_end || stop == c->own_items);
  }
  return status;
}

static compute_status write_own(void *user, int64_t first, int64_t count,
                                const compute_fit_results *results, const int32_t *corners,
                                int64_t next_frame) {
  cluster *c = user;
  const cluster_rois rois = {.count = count, .results = *results, .corners = corners};
  return advance(c, &rois, c->frames ? next_frame : first + count);
}

/* ---- The rank's share ---------------------------------------------------------------------- */

static void divide(cluster *c) {
  const int64_t items = c->frames ? c->whole->frames : c->whole->count;
  const int64_t most = c->frames ? MOST_FRAMES : MOST_ROIS, rounds = items / c->info.size / ROUNDS;
  c->part = (division){.items = items,
                       .block = rounds < 1      ? 1
                                : rounds < most ? rounds
                                                : most,
                       .rank = c->info.rank,
                       .ranks = c->info.size};
  c->own_items = division_count(&c->part, items);
}

/* Selects corners and starts of the rank's own ROIs, in the original order. */
static void pick_rows(cluster *c) {
  const size_t parameters = (size_t)c->message.parameters;
  const int32_t *corner = c->whole->corners;
  for (int64_t i = 0; i < c->whole->count; i++) {
    const int64_t item = c->frames ? corner[3 * i] : i;
    if (division_owner(&c->part, item) != c->part.rank) continue;
    if (corner) memcpy(c->corners + 3 * c->own_rois, corner + 3 * i, 3 * sizeof *corner);
    if (c->frames) c->corners[3 * c->own_rois] = (int32_t)division_own(&c->part, item);
    if (c->whole->start)
      memcpy(c->start + (size_t)c->own_rois * parameters, c->whole->start + (size_t)i * parameters,
             parameters * sizeof *c->start);
    c->own_rois++;
  }
}

static bool prepare(cluster *c, const compute_fit_run_options *options) {
  const int32_t parameters = compute_fit_parameter_count(c->job->problem.model);
  const size_t rois = (size_t)options->count + 1;
  compute_device *cpu = NULL;
  c->whole = options;
  divide(c);
  if (compute_device_by_name(c->job->session.context, "cpu", &cpu)) return false;
  if (options->corners) c->corners = malloc(3 * rois * sizeof *c->corners);
  if (options->start) c->start = malloc((size_t)parameters * rois * sizeof *c->start);
  if (!cluster_message_create(&c->message, cpu, parameters) || (options->corners && !c->corners) ||
      (options->start && !c->start))
    return false;
  if (options->corners || !c->frames) pick_rows(c);
  return true;
}

static compute_status fit_own(cluster *c) {
  compute_fit_run_options own = *c->whole;
  own.pixels = (compute_batch_source){.read = read_own, .user = c};
  own.count = c->own_rois;
  own.frames = c->frames ? c->own_items : 0;
  own.corners = c->corners;
  own.start = c->start;
  own.write = write_own;
  own.write_user = c;
  const cluster_rois none = {0};
  if (c->own_items == 0) return COMPUTE_OK;
  const compute_status status = compute_fit_run(c->job->fit, &own, &c->job->summary);
  return status ? status : advance(c, &none, c->own_items);
}

/* Sends the failure to the leader, which prints it. If the leader cannot be reached, this rank
 * prints it. A launcher ends the other ranks when this one has ended, so it waits until the leader
 * has completed its part of the output. */
static void report_failure(cluster *c, compute_status status) {
  const failure *read = &c->job->read_failure;
  char words[900];
  snprintf(words, sizeof words, "%s",
           read->status                        ? read->what
           : status == COMPUTE_ERROR_CANCELLED ? "interrupted"
                                               : compute_error_message(c->job->session.context));
  if (!c->failed.status && (status = cluster_send_failure(&c->message, c->group, words)))
    failure_set(&c->failed, status, NULL, "%s", words);
  else if (!c->failed.status)
    (void)cluster_wait_to_end(&c->message, c->group);
}

compute_status cluster_run(fit_job *job, const compute_fit_run_options *options) {
  cluster *c = job->cluster;
  if (!c) return compute_fit_run(job->fit, options, &job->summary);
  if (!prepare(c, options))
    return failure_set(&c->failed, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory");
  const compute_status status = fit_own(c);
  job->summary.count = c->taken;
  job->summary.frames = c->frames ? c->next : 0;
  if (status && c->info.rank > 0) report_failure(c, status);
  return status;
}

/* ---- Messages ------------------------------------------------------------------------------ */

bool cluster_say(const fit_job *job) {
  const cluster *c = job->cluster;
  if (!c) return false;
  if (c->failed.status && c->info.rank > 0)
    fit_say("rank %" PRId32 ": %s", c->info.rank, c->failed.what);
  else if (c->failed.status)
    fit_say_failure(&c->failed);
  return c->failed.status || c->info.rank > 0;
}

compute_batch_progress cluster_progress(const fit_job *job, const compute_batch_progress *own) {
  const cluster *c = job->cluster;
  compute_batch_progress all = *own;
  if (!c) return all;
  all.items = c->next;
  all.total = c->part.items;
  all.rate = own->rate * c->part.ranks;
  if (all.rate > 0) all.seconds_left = (double)(all.total - all.items) / all.rate;
  return all;
}
