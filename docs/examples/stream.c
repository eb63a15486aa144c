/* SPDX-License-Identifier: MIT */
/* More data than memory: a stream of matrices through a fused graph, while the next ones are
 * generated and the previous results are summed.
 *
 *   cc stream.c $(pkg-config --cflags --libs compute) -o stream && ./stream --help */
#include <compute/compute.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { SIDE = 64, ELEMENTS = SIDE * SIDE };

static const char help[] =
    "usage: stream [--size MB] [--device NAME] [--all] [--trace FILE] [--memory MB] [--quiet]\n"
    "\n"
    "Sends a stream of 64x64 matrices through sums of tanh(A W + b) rows and checks the results.\n"
    "  --size MB     data to stream (default 4096)\n"
    "  --device D    cpu, cuda:0, ... (default: the best)\n"
    "  --all         all devices together\n"
    "  --trace FILE  writes a timeline that ui.perfetto.dev opens\n"
    "  --memory MB   limit of the batches' memory (default 96)\n"
    "  --quiet       no progress bar\n";

/* The source: every matrix is one of a few, and its first element says which. */
enum { KINDS = 16 };
static float kinds[KINDS][ELEMENTS];

static compute_status make(void *user, int64_t first, int64_t items, void *data, int64_t *count) {
  float *matrix = data;
  (void)user;
  for (int64_t i = 0; i < items; i++)
    memcpy(matrix + i * ELEMENTS, kinds[(first + i) % KINDS], sizeof kinds[0]);
  *count = items;
  return COMPUTE_OK;
}

/* The sink: equal matrices must have equal sums, and all are added up. */
typedef struct totals {
  float row[KINDS][SIDE];
  double sum;
} totals;

static compute_status take(void *user, int64_t first, int64_t items, const void *data) {
  totals *t = user;
  const float *sums = data;
  for (int64_t i = 0; i < items; i++, sums += SIDE) {
    const int kind = (int)((first + i) % KINDS);
    if (first + i < KINDS) memcpy(t->row[kind], sums, sizeof t->row[kind]);
    for (int j = 0; j < SIDE; j++) {
      const float difference = sums[j] - t->row[kind][j];
      if (!(difference < 1e-4f && difference > -1e-4f)) {
        fprintf(stderr, "stream: matrix %lld is wrong\n", (long long)(first + i));
        return COMPUTE_ERROR_INVALID_STATE;
      }
      t->sum += sums[j];
    }
  }
  return COMPUTE_OK;
}

/* The work on a batch of matrices at once: compiled into a matrix product with everything else
 * fused into it, and a reduction. */
static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  compute_tensor *const *parameters = user;
  (void)items;
  compute_node w = compute_parameter(graph, parameters[0]);
  compute_node b = compute_parameter(graph, parameters[1]);
  compute_node y = compute_tanh(graph, compute_add(graph, compute_matmul(graph, inputs[0], w), b));
  outputs[0] = compute_sum(graph, y, COMPUTE_AXES(2), false);
}

static bool show(void *user, const compute_batch_progress *p) {
  char bar[41];
  const double part = p->total > 0 ? (double)p->items / (double)p->total : 1;
  const double megabytes = sizeof kinds[0] / 1e6;
  (void)user;
  for (int i = 0; i < 40; i++) bar[i] = i < (int)(40 * part) ? '#' : '.';
  bar[40] = '\0';
  fprintf(stderr, "\r[%s] %3.0f %%  %6.0f MB/s  ", bar, 100 * part, p->rate * megabytes);
  if (p->seconds_left >= 0) fprintf(stderr, "%4.0f s left ", p->seconds_left);
  if (p->items == p->total) fputc('\n', stderr);
  return true;
}

typedef struct arguments {
  double megabytes, memory;
  const char *device, *trace;
  bool all, quiet;
} arguments;

static int parse(int count, char **words, arguments *a) {
  for (int i = 1; i < count; i++) {
    const char *value = i + 1 < count ? words[i + 1] : NULL;
    if (!strcmp(words[i], "--help")) {
      fputs(help, stdout);
      return 0;
    }
    if (!strcmp(words[i], "--all"))
      a->all = true;
    else if (!strcmp(words[i], "--quiet"))
      a->quiet = true;
    else if (value && !strcmp(words[i], "--size"))
      a->megabytes = atof(words[++i]);
    else if (value && !strcmp(words[i], "--memory"))
      a->memory = atof(words[++i]);
    else if (value && !strcmp(words[i], "--device"))
      a->device = words[++i];
    else if (value && !strcmp(words[i], "--trace"))
      a->trace = words[++i];
    else
      return fprintf(stderr, "stream: unknown argument '%s'; see stream --help\n", words[i]), 2;
  }
  return -1;
}

static compute_status make_parameters(compute_context *context, compute_tensor **parameters) {
  compute_device *device = compute_default_device(context);
  compute_status s = compute_tensor_random(device, COMPUTE_F32, COMPUTE_SHAPE(SIDE, SIDE), -0.2,
                                           0.2, 1, &parameters[0]);
  if (s) return s;
  return compute_tensor_random(device, COMPUTE_F32, COMPUTE_SHAPE(SIDE), -1, 1, 2, &parameters[1]);
}

static compute_status stream(compute_context *context, const arguments *a,
                             compute_batch_result *result, totals *sums) {
  compute_tensor *parameters[2] = {NULL, NULL};
  compute_batch *batch = NULL;
  compute_status s = make_parameters(context, parameters);
  const compute_batch_port matrix = {COMPUTE_F32, COMPUTE_SHAPE(SIDE, SIDE)};
  const compute_batch_options options = {.build = build,
                                         .user = parameters,
                                         .inputs = &matrix,
                                         .input_count = 1,
                                         .output_count = 1,
                                         .memory = (uint64_t)(a->memory * 1e6),
                                         .flags = a->all ? COMPUTE_BATCH_ALL_DEVICES : 0,
                                         .name = "stream"};
  if (!s) s = compute_batch_create(context, &options, &batch);
  if (!s && a->trace) s = compute_profile_start(context, NULL);
  const compute_batch_source source = {.read = make};
  const compute_batch_sink sink = {.write = take, .user = sums};
  if (!s)
    s = compute_batch_run(
        batch,
        &(compute_batch_run_options){.items = (int64_t)(a->megabytes * 1e6 / sizeof kinds[0]),
                                     .sources = &source,
                                     .sinks = &sink,
                                     .progress = a->quiet ? NULL : show},
        result);
  if (!s && a->trace) s = compute_profile_write_trace(context, a->trace);
  compute_batch_device_info info;
  compute_device_info facts;
  for (size_t i = 0; !s && batch && compute_batch_device_at(batch, i, &info) == COMPUTE_OK; i++)
    if (compute_device_describe(info.device, &facts) == COMPUTE_OK)
      printf("%-10s %12lld matrices, %lld at a time\n", facts.name, (long long)info.items,
             (long long)info.batch);
  compute_batch_release(batch);
  compute_tensor_release(parameters[0]);
  compute_tensor_release(parameters[1]);
  return s;
}

int main(int count, char **words) {
  arguments a = {.megabytes = 4096, .memory = 96};
  static totals sums;
  compute_batch_result result;
  compute_context *context = NULL;
  struct rusage usage;
  const int code = parse(count, words, &a);
  if (code >= 0) return code;
  for (int k = 0; k < KINDS; k++)
    for (int i = 0; i < ELEMENTS; i++)
      kinds[k][i] = (float)((k * 7919 + i * 104729) % 1000) / 500 - 1;
  compute_status s = compute_open(&context, &(compute_open_options){.device = a.device});
  if (!s) s = stream(context, &a, &result, &sums);
  if (s) fprintf(stderr, "stream: %s\n", compute_error_message(context));
  compute_close(context);
  if (s) return 1;
  getrusage(RUSAGE_SELF, &usage);
  printf(
      "%lld matrices, %.1f MB in %.2f s: %.0f MB/s; sum %.6g; slots %.1f MB, peak memory %.0f MB\n",
      (long long)result.items, (double)result.bytes_read / 1e6, result.seconds,
      (double)result.bytes_read / 1e6 / result.seconds, sums.sum, (double)result.slot_bytes / 1e6,
      (double)usage.ru_maxrss / 1e3);
  return 0;
}
