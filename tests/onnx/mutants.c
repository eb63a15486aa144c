/* SPDX-License-Identifier: MIT */
/* Loads and runs mutants of ONNX's node tests (mutate.h). Every model is computed or refused with a
 * message, nothing leaks, and no process ends early. A mutant is identified by its number:
 * `onnx_mutants --first N --count 1` makes it again, --write saves it as a file. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "onnx/limits.h"
#include "onnx/mutate.h"
#include "support/harness/test.h"

enum { SKIPPED = 77, MOST_CHANGES = 4, MOST_PORTS = 32, MOST_ELEMENTS = 4096 };

static const char debian_folder[] = "/usr/share/libonnx-testdata/data/node";

typedef struct suite {
  const char *folder, *written;
  char **names;
  size_t count;
  uint64_t first, mutants;
  unsigned limit; /* seconds for one */
} suite;

/* The child's report to its parent. */
typedef struct progress {
  uint64_t number, loaded, ran;
  bool has_rounds;
  char problem[400];
} progress;

static void *check(void *memory) {
  if (memory) return memory;
  fprintf(stderr, "onnx_mutants: out of memory\n");
  exit(EXIT_FAILURE);
}

/* ---- Node tests ------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool find_tests(suite *s) {
  DIR *all = opendir(s->folder);
  if (!all) return false;
  for (struct dirent *entry; (entry = readdir(all));) {
    if (entry->d_name[0] == '.') continue;
    s->names = check(reallocarray(s->names, s->count + 1, sizeof *s->names));
    s->names[s->count++] = check(strdup(entry->d_name));
  }
  closedir(all);
  qsort(s->names, s->count, sizeof *s->names, by_name);
  return s->count > 0;
}

static message read_model(const suite *s, const char *name) {
  char path[1024];
  uint8_t part[4096];
  message model = {0};
  snprintf(path, sizeof path, "%s/%s/model.onnx", s->folder, name);
  FILE *file = fopen(path, "rb");
  for (size_t bytes; file && (bytes = fread(part, 1, sizeof part, file)) > 0;) {
    message more = {.data = check(malloc(bytes)), .bytes = bytes, .capacity = bytes};
    memcpy(more.data, part, bytes);
    message_join(&model, &more);
  }
  if (file) fclose(file);
  return model;
}

static message make_mutant(const suite *s, uint64_t number) {
  draw d = {number};
  message model = read_model(s, s->names[draw_below(&d, (uint32_t)s->count)]);
  message result = mutate_model(message_wire(&model), &d, 1 + draw_below(&d, MOST_CHANGES));
  message_release(&model);
  return result;
}

/* ---- Running --------------------------------------------------------------------------------- */

static bool COMPUTE_PRINTF(2, 3) complain(progress *p, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(p->problem, sizeof p->problem, format, list);
  va_end(list);
  return false;
}

static bool failed_well(progress *p, compute_context *context, compute_status status) {
  compute_error error;
  compute_error_get(context, &error);
  if (status == COMPUTE_ERROR_INTERNAL || error.status != status || !error.message[0])
    return complain(p, "%s: %s", compute_status_name(status), error.message);
  return true;
}

/* Elements that are valid for the dtype; narrow floats have random bits. */
static void fill(draw *d, compute_dtype dtype, int64_t count, uint8_t *data) {
  const size_t size = compute_dtype_size(dtype);
  for (int64_t i = 0; i < count; i++) {
    const int64_t whole = draw_integer(d);
    const double wide = (double)whole / 4;
    const float real = (float)wide;
    uint8_t *at = data + (size_t)i * size;
    if (dtype == COMPUTE_F32)
      memcpy(at, &real, sizeof real);
    else if (dtype == COMPUTE_F64)
      memcpy(at, &wide, sizeof wide);
    else
      memcpy(at, &whole, size);
    if (dtype == COMPUTE_BOOL) *at &= 1;
  }
}

static compute_shape draw_shape(draw *d, const compute_model_port *port, int64_t *elements) {
  compute_shape shape = {.rank = port->rank < 0 ? (int32_t)draw_below(d, 4) : port->rank};
  int64_t count = 1;
  for (int32_t i = 0; i < shape.rank; i++) {
    const bool known = port->rank >= 0 && port->size[i] >= 0;
    shape.size[i] = known ? port->size[i] : 1 + draw_below(d, 4);
    if (shape.size[i] > MOST_ELEMENTS || count * shape.size[i] > MOST_ELEMENTS) shape.size[i] = 1;
    count *= shape.size[i];
  }
  *elements = count;
  return shape;
}

static compute_model_item *draw_texts(draw *d, const compute_model_port *port) {
  static const char *const texts[] = {
      "", "a", "b c", "é,x", "www.x.com", "monday", "\xf0\x9f\x8c\x8d"};
  compute_model_item *item = NULL;
  int64_t count;
  const compute_shape shape = draw_shape(d, port, &count);
  const char **list = check(calloc((size_t)count + 1, sizeof *list));
  for (int64_t i = 0; i < count; i++) list[i] = texts[draw_below(d, 7)];
  compute_model_item_from_texts(shape, list, &item);
  free(list);
  return item;
}

static compute_model_item *draw_tensor(compute_context *context, draw *d,
                                       const compute_model_port *port) {
  compute_tensor *tensor = NULL;
  compute_model_item *item = NULL;
  int64_t count;
  const compute_shape shape = draw_shape(d, port, &count);
  uint8_t *data = check(calloc((size_t)count + 1, 8));
  const compute_dtype dtype = port->dtype ? port->dtype : COMPUTE_F32;
  fill(d, dtype, count, data);
  compute_tensor_from_host(compute_default_device(context), dtype, shape, data, &tensor);
  free(data);
  if (tensor) compute_model_item_from_tensor(tensor, &item);
  compute_tensor_release(tensor);
  return item;
}

static compute_model_item *draw_plain(compute_context *context, draw *d,
                                      const compute_model_port *port) {
  return port->kind & COMPUTE_MODEL_TEXT ? draw_texts(d, port) : draw_tensor(context, d, port);
}

/* A value of the port's kind; NULL if its dtype is not supported. */
static compute_model_item *draw_item(compute_context *context, draw *d,
                                     const compute_model_port *port) {
  compute_model_item *item = NULL, *optional = NULL;
  const bool holds = !(port->kind & COMPUTE_MODEL_OPTIONAL) || draw_below(d, 4) > 0;
  if (holds && !(port->kind & COMPUTE_MODEL_SEQUENCE)) item = draw_plain(context, d, port);
  if (holds && port->kind & COMPUTE_MODEL_SEQUENCE && !compute_model_item_sequence(&item))
    for (int64_t i = draw_below(d, 4); i > 0; i--) {
      compute_model_item *one = draw_plain(context, d, port);
      if (one) compute_model_item_append(item, one);
      compute_model_item_release(one);
    }
  if (!(port->kind & COMPUTE_MODEL_OPTIONAL)) return item;
  compute_model_item_optional(item, &optional);
  compute_model_item_release(item);
  return optional;
}

static bool run_model(progress *p, compute_context *context, draw *d, compute_model *model) {
  compute_model_argument in[MOST_PORTS] = {{0}}, out[MOST_PORTS] = {{0}};
  compute_model_port port;
  size_t inputs = 0, outputs = 0;
  for (size_t i = 0; inputs < MOST_PORTS && !compute_model_input_at(model, i, &port); i++) {
    compute_model_item *item = draw_item(context, d, &port);
    if (item) in[inputs++] = (compute_model_argument){port.name, item};
  }
  while (outputs < MOST_PORTS && !compute_model_output_at(model, outputs, &port))
    out[outputs++].name = port.name;
  const compute_status status = compute_model_run_items(model, in, inputs, out, outputs, NULL);
  bool good = !status || failed_well(p, context, status);
  p->ran += status == COMPUTE_OK;
  for (size_t i = 0; i < outputs; i++) {
    if (out[i].item && status) good = complain(p, "an item is left after a failure");
    compute_model_item_release(out[i].item);
  }
  for (size_t i = 0; i < inputs; i++) compute_model_item_release(in[i].item);
  return good;
}

static bool try_mutant(progress *p, compute_context *context, wire bytes) {
  compute_model *model = NULL;
  draw d = {p->number};
  const compute_status status =
      compute_model_load_memory(context, bytes.at, wire_bytes(bytes), NULL, &model);
  if (status) return failed_well(p, context, status);
  p->loaded++;
  const bool good = run_model(p, context, &d, model);
  compute_model_release(model);
  compute_pool_statistics pool;
  if (compute_pool_query(compute_default_device(context), &pool) || pool.bytes_active)
    return complain(p, "memory is held after the model is released");
  return good;
}

/* Returns true if the model may have unbounded rounds. Another test checks how long they take. */
static bool has_rounds(const message *mutant) {
  static const char *const operators[] = {"Loop", "Scan", "SequenceMap"};
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
    if (memmem(mutant->data, mutant->bytes, operators[i], strlen(operators[i]))) return true;
  return false;
}

enum { LIMIT_OF_ROUNDS = 5 };

/* The child process: mutants from number `first` on. */
static int run_from(const suite *s, uint64_t first, progress *p) {
  compute_context *context;
  if (!limits_open(&context)) return complain(p, "%s", compute_error_message(NULL)), EXIT_FAILURE;
  bool good = true;
  for (p->number = first; good && p->number < s->first + s->mutants; p->number++) {
    message mutant = make_mutant(s, p->number);
    p->has_rounds = has_rounds(&mutant);
    alarm(p->has_rounds ? LIMIT_OF_ROUNDS : s->limit);
    good = try_mutant(p, context, message_wire(&mutant));
    alarm(0);
    message_release(&mutant);
    if (!good) break;
  }
  if (compute_close(context) && good) good = complain(p, "%s", compute_error_message(context));
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Runs a process for mutants from number `first` on. Returns its status, or −1. */
static int run_child(const suite *s, uint64_t first, progress *p) {
  int status;
  fflush(stdout);
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) exit(run_from(s, first, p)); /* where a sanitizer checks for leaks */
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

static int watch(const suite *s, progress *p) {
  uint64_t slow = 0;
  int status = run_child(s, s->first, p);
  for (; WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM && p->has_rounds; slow++)
    status = run_child(s, p->number + 1, p);
  printf("%llu mutants of %zu node tests: %llu loaded, %llu ran, %llu with too many rounds\n",
         (unsigned long long)(p->number - s->first), s->count, (unsigned long long)p->loaded,
         (unsigned long long)p->ran, (unsigned long long)slow);
  if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS) return EXIT_SUCCESS;
  const char *problem = p->problem[0] ? p->problem : "it ends the process";
  printf("mutant %llu: %s\n", (unsigned long long)p->number,
         WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : problem);
  return EXIT_FAILURE;
}

/* ---- The command line ------------------------------------------------------------------------ */

static int write_mutant(const suite *s) {
  message mutant = make_mutant(s, s->first);
  FILE *file = fopen(s->written, "wb");
  const bool good = file && fwrite(mutant.data, 1, mutant.bytes, file) == mutant.bytes;
  message_release(&mutant);
  return file && !fclose(file) && good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static const char usage[] = "Usage: onnx_mutants [OPTION...] [FOLDER]\n"
                            "  --first N     the number of the first mutant\n"
                            "  --count N     how many; default 2000\n"
                            "  --limit S     seconds for each; default 20\n"
                            "  --write FILE  writes the first into a file instead\n";

int main(int argc, char **argv) {
  static const struct option options[] = {{"first", 1, NULL, 'f'},
                                          {"count", 1, NULL, 'c'},
                                          {"limit", 1, NULL, 'l'},
                                          {"write", 1, NULL, 'w'},
                                          {0}};
  suite s = {.folder = debian_folder, .first = test_seed() * 1000000, .mutants = 2000, .limit = 20};
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
    switch (option) {
    case 'f': s.first = strtoull(optarg, NULL, 10); break;
    case 'c': s.mutants = strtoull(optarg, NULL, 10); break;
    case 'l': s.limit = (unsigned)strtoul(optarg, NULL, 10); break;
    case 'w': s.written = optarg; break;
    default: fputs(usage, stderr); return EXIT_FAILURE;
    }
  }
  if (optind < argc) s.folder = argv[optind];
  if (!find_tests(&s)) {
    printf("skipped: no node tests in %s (package libonnx-testdata)\n", s.folder);
    return SKIPPED;
  }
  int result = EXIT_FAILURE;
  progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p != MAP_FAILED) result = s.written ? write_mutant(&s) : watch(&s, p);
  for (size_t i = 0; i < s.count; i++) free(s.names[i]);
  free(s.names);
  return result;
}
