/* SPDX-License-Identifier: MIT */
/* Processes killed at a random moment while they fill the disk cache, the tuning file and the file
 * of costs, write profiles and traces, and run batches into a file. At any moment: entries are
 * complete or absent; a replaced file is one version or the other; a list loses at most the line in
 * progress; a sink holds a prefix of the results; and the next process works. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "codegen/cache/disk_cache.h"
#include "codegen/cache/entry.h"
#include "codegen/tune/entry.h"
#include "codegen/tune/tuning.h"
#include "core/base/alloc.h"
#include "plan/cost/file.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

#define ROOT    TEST_SCRATCH_DIR "/cache"
#define KERNELS ROOT "/kernels"
#define TUNING  ROOT "/tuning"
#define FILES   TEST_SCRATCH_DIR "/files"
#define SINK    FILES "/sums"

enum { KILLS = 30, HANG_SECONDS = 600, ENTRIES = 40, ITEMS = 5000, WIDTH = 3, READY = 'r' };

static void hang(int signal_number) {
  static const char words[] = "a process that writes does not get ready\n";
  (void)signal_number;
  if (write(2, words, sizeof words - 1) < 0) _exit(2);
  _exit(1);
}

/* ---- Writing processes --------------------------------------------------------------------- */

/* The bytes of an entry, computed from its number. */
static uint8_t *entry_bytes(uint32_t number, size_t *bytes) {
  test_random random = {number};
  *bytes = (size_t)test_random_integer(&random, 1, 100000);
  uint8_t *data = malloc(*bytes);
  for (size_t i = 0; data && i < *bytes; i++) data[i] = (uint8_t)(number * 7 + i * i);
  return data;
}

static void store_entry(disk_cache *cache, uint32_t number) {
  size_t bytes;
  uint8_t *data = entry_bytes(number, &bytes);
  disk_cache_store(cache, &(compute_cache_part){&number, sizeof number}, 1, data, bytes);
  free(data);
}

static void add_tuning(uint32_t number) {
  char line[ENTRY_LINE_BYTES], class[64], reason[TUNING_REASON_BYTES];
  snprintf(class, sizeof class, "map/f32>f32/in2.dense/n%u", number % 60);
  const tuning_entry entry = {"\"b\" \"v\" \"m\" \"d\"", class, {.vector = 1 + number % 4}, number};
  if (tuning_file_append(TUNING, line, entry_print(&entry, line), reason) != COMPUTE_OK) _exit(3);
}

static void add_costs(compute_device *device) {
  compute_device_info info;
  device_costs costs;
  char reason[COSTS_REASON_BYTES];
  if (compute_device_describe(device, &info) != COMPUTE_OK) _exit(4);
  costs_guess(&info, &costs);
  if (costs_file_add(device, &costs, reason) != COMPUTE_OK) _exit(4);
}

static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  (void)user;
  (void)items;
  outputs[0] = compute_sum(graph, inputs[0], COMPUTE_AXES(1), false);
}

static float item_value(int64_t item, int64_t i) {
  return (float)((item * 31 + i * 7) % 97);
}

static compute_status read_items(void *user, int64_t first, int64_t items, void *to,
                                 int64_t *count) {
  float *x = to;
  (void)user;
  *count = items;
  for (int64_t i = 0; i < items * WIDTH; i++) x[i] = item_value(first + i / WIDTH, i % WIDTH);
  return COMPUTE_OK;
}

static void write_sums(compute_context *context) {
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SHAPE(WIDTH)};
  const compute_batch_source source = {.read = read_items};
  const compute_batch_sink sink = {.path = SINK};
  compute_batch *batch = NULL;
  unlink(SINK);
  compute_status s = compute_batch_create(
      context,
      &(compute_batch_options){
          .build = build, .inputs = &port, .input_count = 1, .output_count = 1, .batch = 64},
      &batch);
  if (s == COMPUTE_OK)
    s = compute_batch_run(
        batch, &(compute_batch_run_options){.items = ITEMS, .sources = &source, .sinks = &sink},
        NULL);
  compute_batch_release(batch);
  if (s != COMPUTE_OK) _exit(5);
}

/* Writes everything, forever or once. */
static void write_all(bool forever, uint32_t number, int ready) {
  compute_context *context = NULL;
  if (compute_open(&context, &(compute_open_options){.device = "cpu", .threads = 2}) != COMPUTE_OK)
    _exit(6);
  disk_cache *cache = disk_cache_create();
  const char byte = READY;
  if (!cache || compute_profile_start(context, NULL) != COMPUTE_OK) _exit(6);
  if (ready >= 0 && write(ready, &byte, 1) != 1) _exit(6);
  do {
    number++;
    for (uint32_t i = 0; i < 4; i++) store_entry(cache, (number * 4 + i) % ENTRIES);
    add_tuning(number);
    if (number % 16 == 0) add_costs(compute_default_device(context));
    if (compute_profile_write(context, FILES "/profile.json") != COMPUTE_OK ||
        compute_profile_write_trace(context, FILES "/trace.json") != COMPUTE_OK)
      _exit(7);
    if (number % 3 == 0) write_sums(context);
  } while (forever);
  write_sums(context);
  disk_cache_release(cache);
  if (compute_close(context) != COMPUTE_OK) _exit(8);
}

/* ---- One process --------------------------------------------------------------------------- */

static void kill_one(test_random *random, uint32_t number) {
  int pipes[2], status;
  char byte;
  assert_int_equal(pipe(pipes), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    write_all(true, number, pipes[1]);
    _exit(0);
  }
  close(pipes[1]);
  assert_int_equal(read(pipes[0], &byte, 1), 1);
  close(pipes[0]);
  nanosleep(&(struct timespec){0, test_random_integer(random, 0, 150000000)}, NULL);
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status)) fail_msg("the process ended by itself, with %d", WEXITSTATUS(status));
}

/* The next process completes all of it. */
static void write_once(uint32_t number) {
  int status;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    write_all(false, number, -1);
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail_msg("the process after kill %u did not do its work: %d", number, status);
}

/* ---- Checks of the files ------------------------------------------------------------------- */

static int files_like(const char *folder, const char *prefix, const char *suffix) {
  DIR *stream = opendir(folder);
  int count = 0;
  for (const struct dirent *e; stream && (e = readdir(stream)) != NULL;) {
    const size_t length = strlen(e->d_name), end = strlen(suffix);
    count += strncmp(e->d_name, prefix, strlen(prefix)) == 0 && length >= end &&
             strcmp(e->d_name + length - end, suffix) == 0;
  }
  if (stream) closedir(stream);
  return count;
}

static int check_entries(void) {
  disk_cache *cache = disk_cache_create();
  disk_cache_statistics statistics;
  int found = 0;
  assert_non_null(cache);
  for (uint32_t i = 0; i < ENTRIES; i++) {
    size_t bytes, expected_bytes;
    uint8_t *expected = entry_bytes(i, &expected_bytes);
    void *data = disk_cache_load(cache, &(compute_cache_part){&i, sizeof i}, 1, &bytes);
    if (data && (bytes != expected_bytes || memcmp(data, expected, bytes) != 0))
      fail_msg("entry %u has other contents", i);
    found += data != NULL;
    base_release(data);
    free(expected);
  }
  disk_cache_query(cache, &statistics);
  assert_int_equal(statistics.damaged, 0);
  disk_cache_release(cache);
  return found;
}

static size_t check_tuning(int kills, size_t before) {
  char reason[TUNING_REASON_BYTES];
  tuning_contents contents;
  assert_ok(tuning_file_read(TUNING, true, &contents, reason));
  if (contents.damaged > (size_t)kills || contents.foreign > 0 || contents.count < before)
    fail_msg("tuning file after %d kills: %zu lines (before: %zu), %zu damaged, %zu foreign", kills,
             contents.count, before, contents.damaged, contents.foreign);
  const size_t count = contents.count;
  tuning_file_release(&contents);
  return count;
}

static char *read_text(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  struct stat status;
  *bytes = 0;
  if (!file || fstat(fileno(file), &status) != 0) return NULL;
  char *text = malloc((size_t)status.st_size + 1);
  assert_non_null(text);
  *bytes = fread(text, 1, (size_t)status.st_size, file);
  text[*bytes] = '\0';
  fclose(file);
  return text;
}

/* Checks that brackets balance: a complete JSON document. */
static void check_json(const char *path) {
  size_t bytes;
  char *text = read_text(path, &bytes);
  if (!text) return;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < bytes; i++) {
    if (quoted && text[i] == '\\')
      i++;
    else if (text[i] == '"')
      quoted = !quoted;
    else if (!quoted)
      depth += (text[i] == '{' || text[i] == '[') - (text[i] == '}' || text[i] == ']');
  }
  if (bytes == 0 || depth != 0 || quoted || (text[0] != '{' && text[0] != '['))
    fail_msg("%s is cut off: %zu bytes", path, bytes);
  free(text);
}

static void check_sums(bool complete) {
  size_t bytes;
  char *text = read_text(SINK, &bytes);
  const size_t items = bytes / sizeof(float);
  assert_true(items <= ITEMS && (!complete || items == ITEMS));
  for (size_t i = 0; i < items; i++) {
    float sum = 0, found;
    for (int64_t j = 0; j < WIDTH; j++) sum += item_value((int64_t)i, j);
    memcpy(&found, text + i * sizeof found, sizeof found);
    if (found != sum) fail_msg("of %zu items in the file number %zu is wrong", items, i);
  }
  free(text);
}

static void age_temporaries(void) {
  DIR *stream = opendir(KERNELS);
  const time_t then = time(NULL) - 7200;
  const struct timespec times[2] = {{then, 0}, {then, 0}};
  for (const struct dirent *e; stream && (e = readdir(stream)) != NULL;)
    if (strncmp(e->d_name, SWEEP_TEMPORARY, strlen(SWEEP_TEMPORARY)) == 0)
      utimensat(dirfd(stream), e->d_name, times, 0);
  if (stream) closedir(stream);
}

static void remove_files(const char *folder) {
  DIR *stream = opendir(folder);
  for (const struct dirent *e; stream && (e = readdir(stream)) != NULL;)
    unlinkat(dirfd(stream), e->d_name, 0);
  if (stream) closedir(stream);
}

static void a_kill_leaves_every_file_valid(void **state) {
  (void)state;
  test_random random = {(uint64_t)time(NULL)};
  size_t lines = 0;
  int found = 0;
  for (int kills = 1; kills <= KILLS; kills++) {
    kill_one(&random, (uint32_t)kills * 1003);
    found = check_entries();
    lines = check_tuning(kills, lines);
    check_json(FILES "/profile.json");
    check_json(FILES "/trace.json");
    check_sums(false);
    assert_true(files_like(KERNELS, SWEEP_TEMPORARY, "") <= kills);
    assert_true(files_like(FILES, "", ".tmp") <= kills);
    if (kills % 5 != 0) continue;
    write_once((uint32_t)kills * 1003);
    check_sums(true);
  }
  print_message("%d entries, %zu lines; left: %d of the cache, %d of profiles\n", found, lines,
                files_like(KERNELS, SWEEP_TEMPORARY, ""), files_like(FILES, "", ".tmp"));
  assert_true(found > ENTRIES / 2 && lines > KILLS);
  /* Unfinished files are removed once no process can be writing them. */
  age_temporaries();
  write_once(1);
  assert_int_equal(files_like(KERNELS, SWEEP_TEMPORARY, ""), 0);
}

static void the_costs_stay_readable(void **state) {
  (void)state;
  compute_context *context = NULL;
  device_costs costs;
  assert_ok(compute_open(&context, &(compute_open_options){.device = "cpu", .threads = 2}));
  add_costs(compute_default_device(context));
  assert_true(costs_file_find(compute_default_device(context), &costs));
  test_close(context);
}

int main(void) {
  signal(SIGALRM, hang);
  alarm(HANG_SECONDS);
  setenv("COMPUTE_CACHE_DIR", ROOT, 1);
  unsetenv("COMPUTE_TUNING_FILE");
  unsetenv("COMPUTE_CACHE_LIMIT");
  remove_files(KERNELS);
  remove_files(ROOT);
  remove_files(FILES);
  if (mkdir(FILES, 0700) != 0 && access(FILES, W_OK) != 0) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_kill_leaves_every_file_valid),
      cmocka_unit_test(the_costs_stay_readable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
