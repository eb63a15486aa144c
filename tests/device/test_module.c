/* SPDX-License-Identifier: MIT */
/* Probing modules: whatever file is in a module folder, the context opens and the probe classifies
 * the file. Bad modules are copies of the good null module with a few changed bytes. */
#include "support/harness/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compute/backend.h"
#include "support/harness/failing_allocator.h"

#define FOLDER TEST_SCRATCH_DIR "/modules"
#define GOOD   TEST_MODULE_DIR "/libcompute-null.so"

static unsigned char *image; /* the good module's bytes, changed by tests */
static size_t image_bytes;

static int image_read(void **state) {
  (void)state;
  FILE *file = fopen(GOOD, "rb");
  if (!file) return -1;
  fseek(file, 0, SEEK_END);
  image_bytes = (size_t)ftell(file);
  rewind(file);
  image = malloc(image_bytes);
  const size_t got = image ? fread(image, 1, image_bytes, file) : 0;
  fclose(file);
  setenv("COMPUTE_BACKEND_PATH", TEST_MODULE_DIR, 1);
  unsetenv("COMPUTE_BACKENDS");
  unsetenv("COMPUTE_DEVICE");
  mkdir(FOLDER, 0700);
  return got == image_bytes ? 0 : -1;
}

static int image_free(void **state) {
  (void)state;
  free(image);
  image = NULL;
  return 0;
}

static void write_file(const char *name, const void *data, size_t bytes) {
  char path[512];
  snprintf(path, sizeof path, FOLDER "/%s", name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static void remove_file(const char *name) {
  char path[512];
  snprintf(path, sizeof path, FOLDER "/%s", name);
  remove(path);
}

/* Opens a context that searches FOLDER first and then finds the good null module. */
static compute_context *open_with(const char *backends) {
  const compute_open_options options = {
      .backend_path = FOLDER, .backends = backends, .device = "null:0"};
  compute_context *context = NULL;
  assert_ok(compute_open(&context, &options));
  return context;
}

/* Returns the probe of a file in FOLDER, or NULL. */
static const compute_probe *probe_of(const compute_context *context, const char *name) {
  char path[512];
  snprintf(path, sizeof path, FOLDER "/%s", name);
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(context, i)) != NULL; i++) {
    if (strcmp(probe->path, path) == 0) return probe;
  }
  return NULL;
}

/* Opens a context next to the file and checks its probe; the detail must contain `words`. */
static void expect(const char *name, compute_probe_state state, const char *words) {
  compute_context *context = open_with(NULL);
  const compute_probe *probe = probe_of(context, name);
  assert_non_null(probe);
  if (probe->state != state || !strstr(probe->detail, words)) {
    fail_msg("%s: %s, \"%s\"; expected %s, \"%s\"", name, compute_probe_state_text(probe->state),
             probe->detail, compute_probe_state_text(state), words);
  }
  assert_int_equal(probe->device_count, state == COMPUTE_PROBE_LOADED ? 1 : 0);
  assert_ok(compute_close(context));
  remove_file(name);
}

/* Replaces every occurrence of `from` in the image; returns their number. */
static size_t replace(const char *from, const char *to) {
  const size_t length = strlen(from);
  size_t count = 0;
  for (size_t i = 0; i + length <= image_bytes; i++) {
    if (memcmp(image + i, from, length) != 0) continue;
    memcpy(image + i, to, length);
    count++;
  }
  return count;
}

/* The start of the vtable: two integers without relocations. */
typedef struct vtable_head {
  uint64_t struct_size;
  uint32_t abi_major, abi_minor;
} vtable_head;

static void replace_head(vtable_head to) {
  const vtable_head from = {sizeof(compute_backend), COMPUTE_BACKEND_ABI_MAJOR,
                            COMPUTE_BACKEND_ABI_MINOR};
  size_t count = 0;
  for (size_t i = 0; i + sizeof from <= image_bytes; i += 8) {
    if (memcmp(image + i, &from, sizeof from) != 0) continue;
    memcpy(image + i, &to, sizeof to);
    count++;
  }
  assert_int_equal(count, 1);
}

static void write_null(void) {
  write_file("libcompute-null.so", image, image_bytes);
}

/* ---- Other files --------------------------------------------------------------------------- */

static void other_files_are_not_modules(void **state) {
  (void)state;
  write_file("libcompute-text.so", "This is not a library.\n", 23);
  expect("libcompute-text.so", COMPUTE_PROBE_NOT_A_MODULE, "ELF");
  write_file("libcompute-empty.so", "", 0);
  expect("libcompute-empty.so", COMPUTE_PROBE_NOT_A_MODULE, "too short");
  mkdir(FOLDER "/libcompute-folder.so", 0700);
  expect("libcompute-folder.so", COMPUTE_PROBE_NOT_A_MODULE, "not a regular file");
  assert_int_equal(mkfifo(FOLDER "/libcompute-fifo.so", 0600), 0);
  expect("libcompute-fifo.so", COMPUTE_PROBE_NOT_A_MODULE, "not a regular file");
  assert_int_equal(symlink(TEST_NOWHERE, FOLDER "/libcompute-dangling.so"), 0);
  expect("libcompute-dangling.so", COMPUTE_PROBE_NOT_A_MODULE, "cannot be opened: No such file");
}

static void a_truncated_module_is_refused_at_every_length(void **state) {
  (void)state;
  for (size_t bytes = 0; bytes < image_bytes; bytes += bytes < 1000 ? 37 : 617) {
    write_file("libcompute-null.so", image, bytes);
    expect("libcompute-null.so", COMPUTE_PROBE_NOT_A_MODULE, "");
  }
  write_file("libcompute-null.so", image, image_bytes - 1);
  expect("libcompute-null.so", COMPUTE_PROBE_NOT_A_MODULE, "truncated");
}

/* Without section headers, only the segments reveal a truncation. After the last segment it is
 * harmless, so the module may load. */
static void a_truncated_module_without_sections_never_crashes(void **state) {
  (void)state;
  memset(image + 40, 0, 8);     /* e_shoff */
  memset(image + 58, 0, 2 * 3); /* e_shentsize, e_shnum, e_shstrndx */
  size_t refused = 0;
  for (size_t bytes = 64; bytes < image_bytes; bytes += 409) {
    write_file("libcompute-null.so", image, bytes);
    compute_context *context = open_with(NULL);
    const compute_probe *probe = probe_of(context, "libcompute-null.so");
    assert_true(probe->state == COMPUTE_PROBE_NOT_A_MODULE || probe->state == COMPUTE_PROBE_LOADED);
    refused += probe->state == COMPUTE_PROBE_NOT_A_MODULE;
    assert_ok(compute_close(context));
  }
  assert_true(refused > 0);
  remove_file("libcompute-null.so");
}

static void damaged_headers_are_refused(void **state) {
  (void)state;
  static const struct {
    size_t offset;
    unsigned char byte;
  } damages[] = {
      {16, 2},    /* e_type: an executable */
      {35, 0x7f}, /* e_phoff past the end of the file */
      {39, 0xff}, /* e_phoff near 2^64 */
      {47, 0xff}, /* e_shoff near 2^64 */
      {54, 57},   /* e_phentsize */
      {56, 0},    /* e_phnum */
      {58, 1},    /* e_shentsize */
      {61, 0x7f}, /* e_shnum */
  };
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    const unsigned char before = image[damages[i].offset];
    image[damages[i].offset] = damages[i].byte;
    write_null();
    expect("libcompute-null.so", COMPUTE_PROBE_NOT_A_MODULE, "");
    image[damages[i].offset] = before;
  }
}

static void another_machines_library_gets_the_loaders_words(void **state) {
  (void)state;
  image[4] = image[4] == 1 ? 2 : 1; /* EI_CLASS */
  write_null();
  expect("libcompute-null.so", COMPUTE_PROBE_FAILED, "ELF");
}

static void a_library_without_the_entry_is_not_a_module(void **state) {
  (void)state;
  assert_true(replace(COMPUTE_BACKEND_ENTRY, "compute_backend_entrx") > 0);
  write_null();
  expect("libcompute-null.so", COMPUTE_PROBE_NOT_A_MODULE, COMPUTE_BACKEND_ENTRY);
}

static void a_missing_library_is_named(void **state) {
  (void)state;
  assert_true(replace("libc.so.6", "libq.so.6") > 0);
  write_null();
  compute_context *context = open_with(NULL);
  const compute_probe *probe = probe_of(context, "libcompute-null.so");
  assert_int_equal(probe->state, COMPUTE_PROBE_MISSING_LIBRARY);
  assert_non_null(strstr(probe->detail, "libq.so.6"));
  assert_non_null(strstr(probe->remedy, "libq.so.6"));
  assert_ok(compute_close(context));
  remove_file("libcompute-null.so");
}

static void an_undefined_symbol_is_named(void **state) {
  (void)state;
  assert_true(replace("sysconf", "syscomf") > 0);
  write_null();
  expect("libcompute-null.so", COMPUTE_PROBE_FAILED, "syscomf");
}

/* ---- Versions ------------------------------------------------------------------------------ */

static void another_major_version_is_refused(void **state) {
  (void)state;
  replace_head((vtable_head){sizeof(compute_backend), COMPUTE_BACKEND_ABI_MAJOR + 1, 3});
  write_null();
  expect("libcompute-null.so", COMPUTE_PROBE_WRONG_ABI, "ABI 3.3");
}

static void a_newer_minor_version_works(void **state) {
  (void)state;
  replace_head((vtable_head){sizeof(compute_backend) + 64, COMPUTE_BACKEND_ABI_MAJOR,
                             COMPUTE_BACKEND_ABI_MINOR + 5});
  write_null();
  expect("libcompute-null.so", COMPUTE_PROBE_LOADED, "");
}

static void a_vtable_without_required_slots_is_refused(void **state) {
  (void)state;
  replace_head(
      (vtable_head){offsetof(compute_backend, kernel_destroy), COMPUTE_BACKEND_ABI_MAJOR, 0});
  write_null();
  expect("libcompute-null.so", COMPUTE_PROBE_NOT_A_MODULE, "missing kernel_destroy, enqueue");
}

static void a_vtable_that_ends_within_a_slot_lacks_it(void **state) {
  (void)state;
  replace_head((vtable_head){offsetof(compute_backend, enqueue) + 4, COMPUTE_BACKEND_ABI_MAJOR, 0});
  write_null();
  expect("libcompute-null.so", COMPUTE_PROBE_NOT_A_MODULE, "missing enqueue");
}

static void a_vtable_of_a_few_bytes_has_no_name(void **state) {
  (void)state;
  replace_head((vtable_head){sizeof(vtable_head), COMPUTE_BACKEND_ABI_MAJOR, 0});
  write_null();
  expect("libcompute-null.so", COMPUTE_PROBE_NOT_A_MODULE, "must consist of lower-case letters");
}

static void file_and_backend_must_agree_on_the_name(void **state) {
  (void)state;
  write_file("libcompute-other.so", image, image_bytes);
  expect("libcompute-other.so", COMPUTE_PROBE_NOT_A_MODULE, "libcompute-null.so");
}

/* ---- List of candidates -------------------------------------------------------------------- */

/* Counts only this test's folders: the installation's folder may contain modules. */
static size_t count_probes(const compute_context *context, const char *name, size_t *loaded) {
  const compute_probe *probe;
  size_t count = 0;
  *loaded = 0;
  for (size_t i = 0; (probe = compute_probe_at(context, i)) != NULL; i++) {
    if (strcmp(probe->name, name) != 0) continue;
    if (!strstr(probe->path, TEST_MODULE_DIR) && !strstr(probe->path, FOLDER)) continue;
    count++;
    *loaded += probe->state == COMPUTE_PROBE_LOADED;
  }
  return count;
}

static void the_first_that_works_wins(void **state) {
  (void)state;
  size_t loaded;
  write_null();
  compute_context *context = open_with("null");
  assert_int_equal(probe_of(context, "libcompute-null.so")->state, COMPUTE_PROBE_LOADED);
  assert_int_equal(count_probes(context, "null", &loaded), 2);
  assert_int_equal(loaded, 1);
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(context, i)) != NULL; i++) {
    if (strcmp(probe->path, GOOD) != 0) continue;
    assert_int_equal(probe->state, COMPUTE_PROBE_DUPLICATE);
    assert_non_null(strstr(probe->detail, FOLDER));
  }
  assert_ok(compute_close(context));

  write_file("libcompute-null.so", image, image_bytes / 2);
  context = open_with("null");
  assert_int_equal(count_probes(context, "null", &loaded), 2);
  assert_int_equal(loaded, 1);
  assert_ok(compute_close(context));
  remove_file("libcompute-null.so");
}

static void an_excluded_module_is_not_even_opened(void **state) {
  (void)state;
  write_file("libcompute-text.so", "text", 4);
  compute_context *context = open_with("null,none_such");
  const compute_probe *probe = probe_of(context, "libcompute-text.so");
  assert_int_equal(probe->state, COMPUTE_PROBE_DISABLED);
  assert_non_null(strstr(probe->detail, "null,none_such"));
  assert_ok(compute_close(context));

  setenv("COMPUTE_BACKENDS", "null", 1);
  context = open_with(NULL);
  probe = probe_of(context, "libcompute-text.so");
  assert_int_equal(probe->state, COMPUTE_PROBE_DISABLED);
  assert_non_null(strstr(probe->detail, "COMPUTE_BACKENDS"));
  assert_ok(compute_close(context));
  unsetenv("COMPUTE_BACKENDS");
  remove_file("libcompute-text.so");
}

static void a_folder_is_searched_once(void **state) {
  (void)state;
  size_t loaded;
  const compute_open_options options = {.backend_path = TEST_MODULE_DIR ":" TEST_MODULE_DIR
                                                                        "/.:/nowhere::" FOLDER "/",
                                        .backends = "null",
                                        .device = "null:0"};
  compute_context *context = NULL;
  assert_ok(compute_open(&context, &options));
  assert_int_equal(count_probes(context, "null", &loaded), 1);
  assert_ok(compute_close(context));
}

static void only_module_names_are_candidates(void **state) {
  (void)state;
  static const char *const names[] = {"libcompute-.so",
                                      "libcompute-UP.so",
                                      "libcompute-a.so.1",
                                      "compute-a.so",
                                      "libcompute-a-b.so",
                                      "libcompute-a",
                                      ".so",
                                      "libcompute-abcdefghijklmnopqrstu.so"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) write_file(names[i], "x", 1);
  compute_context *context = open_with(NULL);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    assert_null(probe_of(context, names[i]));
    remove_file(names[i]);
  }
  assert_ok(compute_close(context));
}

static char refusals[4096];

static void remember(void *user, compute_log_level level, const char *module, const char *message) {
  (void)user;
  (void)level;
  (void)module;
  const size_t length = strlen(refusals);
  snprintf(refusals + length, sizeof refusals - length, "%s\n", message);
}

static void relative_folders_are_refused_and_the_log_says_so(void **state) {
  (void)state;
  assert_int_equal(chdir(TEST_SCRATCH_DIR), 0);
  write_null();
  compute_log_set(remember, NULL, COMPUTE_LOG_WARNING);
  const compute_open_options options = {
      .backend_path = "modules:./modules:.:", .backends = "null", .device = "null:0"};
  compute_context *context = NULL;
  assert_ok(compute_open(&context, &options));
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  const compute_probe *probe;
  for (size_t i = 0; (probe = compute_probe_at(context, i)) != NULL; i++) {
    assert_int_equal(probe->path[0], '/');
    assert_null(strstr(probe->path, "/modules/"));
  }
  assert_non_null(strstr(refusals, "'modules'"));
  assert_non_null(strstr(refusals, "'./modules'"));
  assert_non_null(strstr(refusals, "'.'"));
  assert_non_null(strstr(refusals, "not absolute"));
  assert_ok(compute_close(context));
  remove_file("libcompute-null.so");
}

static void bad_modules_leave_no_error_and_no_leak(void **state) {
  (void)state;
  write_file("libcompute-text.so", "text", 4);
  write_file("libcompute-null.so", image, image_bytes / 2);
  failing_allocator_install();
  compute_error_clear(NULL);
  compute_context *context = open_with(NULL);
  assert_string_equal(compute_error_message(NULL), "");
  assert_string_equal(compute_error_message(context), "");
  assert_ok(compute_close(context));
  assert_int_equal(failing_allocator_remove(), 0);
  remove_file("libcompute-text.so");
  remove_file("libcompute-null.so");
}

static void every_state_has_a_text(void **state) {
  (void)state;
  for (int i = COMPUTE_PROBE_LOADED; i <= COMPUTE_PROBE_DUPLICATE; i++) {
    assert_string_not_equal(compute_probe_state_text((compute_probe_state)i), "unknown state");
  }
  assert_string_equal(compute_probe_state_text((compute_probe_state)-1), "unknown state");
  assert_string_equal(compute_probe_state_text((compute_probe_state)99), "unknown state");
}

#define MODULE_TEST(test) cmocka_unit_test_setup_teardown(test, image_read, image_free)

int main(void) {
  const struct CMUnitTest tests[] = {
      MODULE_TEST(other_files_are_not_modules),
      MODULE_TEST(a_truncated_module_is_refused_at_every_length),
      MODULE_TEST(a_truncated_module_without_sections_never_crashes),
      MODULE_TEST(damaged_headers_are_refused),
      MODULE_TEST(another_machines_library_gets_the_loaders_words),
      MODULE_TEST(a_library_without_the_entry_is_not_a_module),
      MODULE_TEST(a_missing_library_is_named),
      MODULE_TEST(an_undefined_symbol_is_named),
      MODULE_TEST(another_major_version_is_refused),
      MODULE_TEST(a_newer_minor_version_works),
      MODULE_TEST(a_vtable_without_required_slots_is_refused),
      MODULE_TEST(a_vtable_that_ends_within_a_slot_lacks_it),
      MODULE_TEST(a_vtable_of_a_few_bytes_has_no_name),
      MODULE_TEST(file_and_backend_must_agree_on_the_name),
      MODULE_TEST(the_first_that_works_wins),
      MODULE_TEST(an_excluded_module_is_not_even_opened),
      MODULE_TEST(a_folder_is_searched_once),
      MODULE_TEST(only_module_names_are_candidates),
      MODULE_TEST(relative_folders_are_refused_and_the_log_says_so),
      MODULE_TEST(bad_modules_leave_no_error_and_no_leak),
      cmocka_unit_test(every_state_has_a_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
