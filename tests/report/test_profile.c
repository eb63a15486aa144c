/* SPDX-License-Identifier: MIT */
/* The profile of a context: complete, valid JSON for any texts, and never a partial file. */
#include "support/harness/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "codegen/cache/disk_cache.h"
#include "core/device/device.h"
#include "support/harness/failing_allocator.h"
#include "report/profile.h"

#define FOLDER    TEST_SCRATCH_DIR "/files"
#define FILE_PATH FOLDER "/profile.json"

static compute_context *context;

static int open_both(void **state) {
  (void)state;
  mkdir(FOLDER, 0700);
  unlink(FILE_PATH);
  unsetenv("COMPUTE_PROFILE");
  const compute_open_options options = {.backends = "cpu,null", .device = "null:0"};
  return compute_open(&context, &options) == COMPUTE_OK ? 0 : -1;
}

static int close_both(void **state) {
  (void)state;
  const compute_status status = compute_close(context);
  context = NULL;
  return status == COMPUTE_OK ? 0 : -1;
}

static compute_device *device_called(const char *name) {
  compute_device *device = NULL;
  assert_ok(compute_device_by_name(context, name, &device));
  return device;
}

static size_t read_whole(char *data, size_t bytes) {
  const int file = open(FILE_PATH, O_RDONLY);
  if (file < 0) return 0;
  const ssize_t got = read(file, data, bytes - 1);
  close(file);
  data[got < 0 ? 0 : got] = '\0';
  return got < 0 ? 0 : (size_t)got;
}

static size_t files_in_folder(void) {
  DIR *stream = opendir(FOLDER);
  size_t count = 0;
  assert_non_null(stream);
  for (const struct dirent *e; (e = readdir(stream)) != NULL;) count += e->d_name[0] != '.';
  closedir(stream);
  return count;
}

/* Python's result of an expression over the profile `p`, in Python's ASCII notation. */
static const char *ask(const char *expression) {
  static char answer[4096];
  char command[2048];
  snprintf(command, sizeof command,
           "python3 -c 'import json,sys; p=json.load(open(sys.argv[1],encoding=\"utf-8\")); "
           "print(ascii(eval(sys.argv[2])))' '%s' '%s'",
           FILE_PATH, expression);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  const size_t got = fread(answer, 1, sizeof answer - 1, pipe);
  answer[got] = '\0';
  if (got > 0 && answer[got - 1] == '\n') answer[got - 1] = '\0';
  if (pclose(pipe) != 0) fail_msg("%s", expression);
  return answer;
}

static void skip_without_python(void) {
  if (system("python3 -c pass >/dev/null 2>&1") == 0) return;
  test_skip("no python3 to read JSON with");
}

/* ---- Content ------------------------------------------------------------------------------- */

static void every_device_and_counter_is_there(void **state) {
  (void)state;
  skip_without_python();
  compute_tensor *tensor = NULL;
  compute_device *device = device_called("null:0");
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(1000), &tensor));
  assert_ok(compute_profile_write(context, FILE_PATH));
  assert_string_equal(ask("p[\"format_version\"]"), "1");
  char expected[256];
  snprintf(expected, sizeof expected, "'%s'", compute_version_text());
  assert_string_equal(ask("p[\"library_version\"]"), expected);
  assert_string_equal(ask("[d[\"name\"] for d in p[\"devices\"]]"), "['cpu', 'null:0']");
  assert_string_equal(ask("[d[\"backend\"] for d in p[\"devices\"]]"), "['cpu', 'null']");
  assert_string_equal(ask("p[\"devices\"][1][\"model\"]"), "'null device'");
  assert_string_equal(ask("all(d[\"driver\"] for d in p[\"devices\"])"), "True");

  compute_pool_statistics s;
  assert_ok(compute_pool_query(device, &s));
  snprintf(expected, sizeof expected, "[%llu, %llu, %llu, %llu]",
           (unsigned long long)s.bytes_active, (unsigned long long)s.bytes_requested,
           (unsigned long long)s.misses, (unsigned long long)s.blocks_active);
  assert_int_equal(s.bytes_requested, 4000);
  assert_string_equal(ask("[p[\"devices\"][1][\"pool\"][k] for k in "
                          "[\"bytes_active\",\"bytes_requested\",\"misses\",\"blocks_active\"]]"),
                      expected);
  snprintf(expected, sizeof expected, "%zu",
           offsetof(compute_pool_statistics, reserved) / sizeof(uint64_t));
  assert_string_equal(ask("len(p[\"devices\"][0][\"pool\"])"), expected);
  snprintf(expected, sizeof expected, "%zu",
           offsetof(compute_build_statistics, reserved) / sizeof(uint64_t));
  assert_string_equal(ask("len(p[\"devices\"][0][\"builds\"])"), expected);
  assert_string_equal(ask("set(p[\"devices\"][0][\"builds\"].values())"), "{0}");
  snprintf(expected, sizeof expected, "%zu", sizeof(disk_cache_statistics) / sizeof(uint64_t) + 1);
  assert_string_equal(ask("len(p[\"disk_cache\"])"), expected);
  compute_tensor_release(tensor);
}

static void count_builds(void *device, compute_build_statistics *statistics) {
  (void)device;
  statistics->programs_compiled += 1;
  statistics->programs_from_disk += 2;
  statistics->programs_from_driver += 3;
  statistics->programs_shared += 4;
  statistics->programs_failed += 5;
  statistics->build_nanoseconds += UINT64_MAX;
}

static void what_a_module_counts_is_reported(void **state) {
  (void)state;
  compute_device *device = device_called("null:0");
  compute_backend counting = *device->backend;
  const compute_backend *real = device->backend;
  compute_build_statistics s = {.programs_failed = 77};
  assert_ok(compute_build_query(device, &s));
  assert_int_equal(s.programs_failed + s.build_nanoseconds, 0);
  counting.build_statistics = count_builds;
  device->backend = &counting;
  assert_ok(compute_build_query(device, &s));
  assert_int_equal(s.programs_failed, 5);
  assert_ok(compute_profile_write(context, FILE_PATH));
  device->backend = real;
  assert_fails(compute_build_query(NULL, &s), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_build_query(device, NULL), COMPUTE_ERROR_NULL_POINTER);
  skip_without_python();
  assert_string_equal(ask("p[\"devices\"][1][\"builds\"]"),
                      "{'programs_compiled': 1, 'programs_from_disk': 2, "
                      "'programs_from_driver': 3, 'programs_shared': 4, 'programs_failed': 5, "
                      "'build_nanoseconds': 18446744073709551615}");
}

static compute_status be_lost(void *handle, compute_device_info *info) {
  (void)handle;
  snprintf(info->model, sizeof info->model, "half an answer");
  return error_set(context, COMPUTE_ERROR_DEVICE_LOST, "test", "lost");
}

static void a_lost_device_is_described_as_it_was(void **state) {
  (void)state;
  compute_device *device = device_called("null:0");
  const compute_backend *whole = device->backend;
  compute_backend lost = *whole;
  lost.device_describe = be_lost;
  device->backend = &lost;
  assert_fails(compute_pool_query(NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_ok(compute_profile_write(context, FILE_PATH));
  device->backend = whole;
  test_check_message(NULL, "device is NULL"); /* sets no error itself */
  skip_without_python();
  assert_string_equal(ask("[p[\"devices\"][1][k] for k in [\"name\",\"model\"]]"),
                      "['null:0', 'null device']");
}

/* The folder of the disk cache is a text from the user. */
static void any_text_becomes_valid_json(void **state) {
  (void)state;
  skip_without_python();
  char *kept = getenv("COMPUTE_CACHE_DIR");
  kept = kept ? strdup(kept) : NULL;
  setenv("COMPUTE_CACHE_DIR", "/a \"b\" \\c \x01\n\x1f\x7f \xc3\xa9 \xff\xc3 \xf0\x9f\x98\x80", 1);
  disk_cache *odd = disk_cache_create(), *own = slot_get(&context->slots, &disk_cache_slot);
  _Atomic(void *) *place = &context->slots.content[disk_cache_slot.number - 1];
  *place = odd;
  const compute_cache_part part = {"key", 3};
  size_t bytes;
  assert_null(disk_cache_load(odd, &part, 1, &bytes));
  assert_ok(compute_profile_write(context, FILE_PATH));
  *place = own;
  disk_cache_release(odd);
  assert_string_equal(
      ask("p[\"disk_cache\"][\"folder\"]"),
      "'/a \"b\" \\\\c \\x01\\n\\x1f\\x7f \\xe9 \\ufffd\\ufffd \\U0001f600/kernels'");
  assert_string_equal(ask("[p[\"disk_cache\"][k] for k in "
                          "[\"hits\",\"misses\",\"stores\",\"damaged\",\"evictions\"]]"),
                      "[0, 1, 0, 0, 0]");
  if (kept) setenv("COMPUTE_CACHE_DIR", kept, 1);
  free(kept);
}

/* ---- File ---------------------------------------------------------------------------------- */

static void a_file_that_cannot_be_written_is_an_error(void **state) {
  (void)state;
  assert_fails(compute_profile_write(context, FOLDER "/missing/profile.json"), COMPUTE_ERROR_FILE);
  test_check_message(context, FOLDER "/missing/profile.json");
  assert_fails(compute_profile_write(context, FOLDER), COMPUTE_ERROR_FILE);
  assert_fails(compute_profile_write(context, ""), COMPUTE_ERROR_FILE);
  assert_fails(compute_profile_write(context, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_profile_write(NULL, FILE_PATH), COMPUTE_ERROR_NULL_POINTER);
  assert_int_equal(files_in_folder(), 0);
}

static void a_link_or_a_device_stays_one(void **state) {
  (void)state;
  static const char link[] = FOLDER "/link";
  struct stat status;
  assert_int_equal(symlink(FILE_PATH, link), 0);
  assert_ok(compute_profile_write(context, FILE_PATH));
  assert_int_equal(truncate(FILE_PATH, 100000), 0);
  assert_ok(compute_profile_write(context, link));
  assert_int_equal(lstat(link, &status), 0);
  assert_true(S_ISLNK(status.st_mode));
  assert_int_equal(stat(FILE_PATH, &status), 0);
  assert_in_range(status.st_size, 100, 10000);
  unlink(link);
  assert_int_equal(symlink("/dev/full", link), 0);
  assert_fails(compute_profile_write(context, link), COMPUTE_ERROR_FILE);
  unlink(link);
  assert_int_equal(files_in_folder(), 1);
}

static atomic_bool stop;

static void *write_over_and_over(void *argument) {
  (void)argument;
  uintptr_t failures = 0;
  while (!atomic_load(&stop)) failures += compute_profile_write(context, FILE_PATH) != COMPUTE_OK;
  return (void *)failures;
}

static void a_reader_never_sees_half_of_it(void **state) {
  (void)state;
  static char text[1 << 16];
  pthread_t writers[2];
  assert_ok(compute_profile_write(context, FILE_PATH));
  atomic_store(&stop, false);
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&writers[i], NULL, write_over_and_over, NULL), 0);
  int broken = 0;
  for (int i = 0; i < 500; i++) {
    const size_t length = read_whole(text, sizeof text);
    broken += length < 100 || text[0] != '{' || text[length - 2] != '}' || text[length - 1] != '\n';
  }
  atomic_store(&stop, true);
  for (int i = 0; i < 2; i++) {
    void *failures;
    pthread_join(writers[i], &failures);
    assert_null(failures);
  }
  assert_int_equal(broken, 0);
  assert_int_equal(files_in_folder(), 1);
}

static void without_memory_the_old_file_stays(void **state) {
  (void)state;
  static char before[1 << 16], after[1 << 16];
  close_both(NULL);
  failing_allocator_install();
  open_both(NULL);
  assert_ok(compute_profile_write(context, FILE_PATH));
  read_whole(before, sizeof before);
  /* The context allocates memory for its first error. */
  assert_fails(compute_profile_write(context, NULL), COMPUTE_ERROR_NULL_POINTER);
  int64_t nth = 1;
  for (;; nth++) {
    const int64_t live = failing_allocator_live();
    failing_allocator_arm(nth, false);
    const compute_status status = compute_profile_write(context, FILE_PATH);
    const int64_t failures = failing_allocator_failures();
    failing_allocator_arm(0, false);
    assert_int_equal(failing_allocator_live(), live);
    if (failures == 0) break;
    assert_int_equal(status, COMPUTE_ERROR_OUT_OF_MEMORY);
    read_whole(after, sizeof after);
    assert_string_equal(before, after);
  }
  assert_true(nth > 3);
  close_both(NULL);
  assert_int_equal(failing_allocator_remove(), 0);
  open_both(NULL);
}

/* ---- At closing ---------------------------------------------------------------------------- */

static char logged[1024];

static void remember(void *user, compute_log_level level, const char *module, const char *message) {
  (void)user;
  (void)module;
  if (level == COMPUTE_LOG_WARNING) snprintf(logged, sizeof logged, "%s", message);
}

static void closing_writes_what_the_variable_names(void **state) {
  (void)state;
  char text[1 << 14];
  profile_at_close(context);
  assert_int_equal(read_whole(text, sizeof text), 0);
  setenv("COMPUTE_PROFILE", FILE_PATH, 1);
  assert_int_equal(close_both(NULL), 0);
  assert_true(read_whole(text, sizeof text) > 100);
}

static void a_profile_that_fails_at_closing_is_only_logged(void **state) {
  (void)state;
  assert_fails(compute_pool_query(NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  setenv("COMPUTE_PROFILE", FOLDER "/missing/profile.json", 1);
  compute_log_set(remember, NULL, COMPUTE_LOG_WARNING);
  profile_at_close(context);
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  unsetenv("COMPUTE_PROFILE");
  assert_non_null(strstr(logged, FOLDER "/missing/profile.json"));
  test_check_message(NULL, "device is NULL");
}

#define PROFILE_TEST(test) cmocka_unit_test_setup_teardown(test, open_both, close_both)

int main(void) {
  const struct CMUnitTest tests[] = {
      PROFILE_TEST(every_device_and_counter_is_there),
      PROFILE_TEST(what_a_module_counts_is_reported),
      PROFILE_TEST(a_lost_device_is_described_as_it_was),
      PROFILE_TEST(any_text_becomes_valid_json),
      PROFILE_TEST(a_file_that_cannot_be_written_is_an_error),
      PROFILE_TEST(a_link_or_a_device_stays_one),
      PROFILE_TEST(a_reader_never_sees_half_of_it),
      PROFILE_TEST(without_memory_the_old_file_stays),
      PROFILE_TEST(closing_writes_what_the_variable_names),
      PROFILE_TEST(a_profile_that_fails_at_closing_is_only_logged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
