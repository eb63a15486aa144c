/* SPDX-License-Identifier: MIT */
/* The tuning file under damage, torn writes and several writers: valid lines survive; invalid ones
 * are skipped and counted. */
#include <sys/stat.h>
#include <sys/wait.h>

#include "support/harness/failing_allocator.h"
#include "tune_fixture.h"

static char reason[TUNING_REASON_BYTES];

static tuning_contents read_file(const char *path) {
  tuning_contents contents;
  if (tuning_file_read(path, false, &contents, reason)) fail_msg("%s", reason);
  return contents;
}

/* ---- Lines --------------------------------------------------------------------------------- */

static void an_entry_survives_writing_and_reading(void **state) {
  (void)state;
  compute_target target = fixture_target("Model \\ with \x01 \xff \n \"quotes\" tuning 1 ");
  char identity[ENTRY_IDENTITY_BYTES], line[ENTRY_LINE_BYTES];
  const tuning_entry entry = {entry_identity(&target, identity),
                              "gemm/f32>f32>f32/nn.single/b0m10n10k10",
                              {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, PARAMETERS_LIMIT},
                              UINT64_MAX};
  const size_t length = entry_print(&entry, line);
  assert_int_equal(strlen(line), length);
  assert_int_equal(line[length - 1], '\n');
  assert_ptr_equal(strchr(line, '\n'), line + length - 1);
  tuning_entry read;
  assert_int_equal(entry_parse(line, length - 1, &read), ENTRY_GOOD);
  assert_string_equal(read.identity, identity);
  assert_string_equal(read.kernel_class, entry.kernel_class);
  assert_true(parameters_equal(&read.tuning, &entry.tuning));
  assert_true(read.nanoseconds == UINT64_MAX);
}

/* Files of earlier builds must stay readable: this is one, byte for byte. */
static void the_format_is_what_it_was(void **state) {
  (void)state;
  static const char expected[] =
      "tuning 1 \"opencl\" \"Vendor \\x22&\\x22 Sons\" \"M\" \"3.1\" map/f32>f32/in2.dense/n20 "
      "vector=4 12345 87415faf\n";
  char line[ENTRY_LINE_BYTES];
  fixture_line("M", "map/f32>f32/in2.dense/n20", 4, line);
  assert_string_equal(line, expected);
}

static void every_damaged_byte_costs_only_its_own_line(void **state) {
  (void)state;
  const char *path = fixture_file("damage");
  char text[3 * ENTRY_LINE_BYTES];
  size_t length[3], bytes = 0;
  for (uint32_t i = 0; i < 3; i++) {
    length[i] = fixture_line("M", "map/f32>f32/in2.dense/n20", i + 1, text + bytes);
    bytes += length[i];
  }
  for (size_t at = 0; at < length[0] + length[1]; at++) {
    const size_t line = at < length[0] ? 0 : 1;
    for (int bit = 0; bit < 8; bit++) {
      text[at] ^= (char)(1 << bit);
      fixture_write(path, "wb", text, bytes);
      text[at] ^= (char)(1 << bit);
      tuning_contents contents = read_file(path);
      assert_int_equal(contents.count, 2);
      assert_true(contents.damaged + contents.foreign >= 1);
      for (size_t i = 0; i < contents.count; i++) {
        const uint32_t vector = contents.entries[i].tuning.vector;
        if (vector == line + 1) fail_msg("line %zu survived damage at byte %zu", line, at);
        assert_string_equal(contents.entries[i].kernel_class, "map/f32>f32/in2.dense/n20");
      }
      tuning_file_release(&contents);
    }
  }
}

static void a_file_cut_anywhere_keeps_its_whole_lines(void **state) {
  (void)state;
  const char *path = fixture_file("cut");
  char text[2 * ENTRY_LINE_BYTES];
  const size_t first = fixture_line("M", "map/f32>f32/in2.dense/n20", 1, text);
  const size_t bytes = first + fixture_line("M", "map/f32>f32/in2.dense/n21", 2, text + first);
  for (size_t cut = 0; cut <= bytes; cut++) {
    fixture_write(path, "wb", text, cut);
    tuning_contents contents = read_file(path);
    assert_int_equal(contents.count, (cut + 1 >= first) + (cut + 1 >= bytes));
    tuning_file_release(&contents);
  }
}

static void a_torn_line_does_not_spoil_the_next(void **state) {
  (void)state;
  char text[2 * ENTRY_LINE_BYTES], torn[2 * ENTRY_LINE_BYTES];
  const size_t first = fixture_line("M", "map/f32>f32/in2.dense/n20", 1, text);
  const size_t second = fixture_line("M", "map/f32>f32/in2.dense/n21", 2, text + first);
  const char *path = fixture_file("torn");
  for (size_t cut = 1; cut + 1 < first; cut++) {
    /* The library's writer begins a new line … */
    fixture_write(path, "wb", text, cut);
    assert_int_equal(tuning_file_append(path, text + first, second, reason), COMPUTE_OK);
    tuning_contents contents = read_file(path);
    assert_int_equal(contents.count, 1);
    assert_int_equal(contents.entries[0].tuning.vector, 2);
    assert_int_equal(contents.damaged, 1);
    assert_int_equal(contents.stamp.size, cut + 1 + second);
    tuning_file_release(&contents);
    /* … and a line directly after a torn one is still found. */
    memcpy(torn, text, cut);
    memcpy(torn + cut, text + first, second);
    fixture_write(path, "wb", torn, cut + second);
    contents = read_file(path);
    assert_int_equal(contents.count, 1);
    assert_int_equal(contents.entries[0].tuning.vector, 2);
    tuning_file_release(&contents);
  }
}

/* A line with a valid checksum, whatever its text is. */
static size_t seal(const char *words, char *line) {
  tuning_entry entry = {"\"\" \"\" \"\" \"\"", "map", {0}, 0};
  char sealed[ENTRY_LINE_BYTES];
  /* entry_print puts a text between known ends, so its checksum is available for any text. */
  entry.identity = words;
  (void)entry_print(&entry, sealed);
  return (size_t)snprintf(line, ENTRY_LINE_BYTES, "%s", sealed);
}

static void nonsense_with_a_right_checksum_is_passed_over(void **state) {
  (void)state;
  static const char *const words[] = {"",
                                      "\"a\" \"b\" \"c\"",
                                      "\"a\" \"b\" \"c\" \"d",
                                      "a b c d",
                                      "\"a\"\"b\"\"c\"\"d\"",
                                      "\"a\" \"b\" \"c\" \"d\" \"e\"",
                                      "\"a\" \"b\" \"c\" \"d\" nothing - 3"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    char line[ENTRY_LINE_BYTES];
    tuning_entry entry;
    const size_t length = seal(words[i], line);
    if (entry_parse(line, length - 1, &entry) != ENTRY_DAMAGED) fail_msg("'%s' is good", words[i]);
  }
}

static void another_version_is_left_to_those_who_know_it(void **state) {
  (void)state;
  const char *path = fixture_file("version");
  char text[2 * ENTRY_LINE_BYTES];
  static const char later[] = "tuning 2 {\"device\": \"something else\"}\n";
  fixture_write(path, "wb", later, sizeof later - 1);
  fixture_write(path, "ab", text, fixture_line("M", "map/f32>f32/in2.dense/n20", 1, text));
  tuning_contents contents = read_file(path);
  assert_int_equal(contents.count, 1);
  assert_int_equal(contents.foreign, 1);
  assert_int_equal(contents.damaged, 0);
  tuning_file_release(&contents);
}

/* ---- Files --------------------------------------------------------------------------------- */

static void a_file_too_large_is_refused(void **state) {
  (void)state;
  const char *path = fixture_file("large");
  fixture_append_entry(path, "M", "map", 1);
  assert_int_equal(truncate(path, (off_t)TUNING_FILE_LIMIT + 1), 0);
  tuning_contents contents;
  assert_int_equal(tuning_file_read(path, true, &contents, reason), COMPUTE_ERROR_FILE);
  assert_non_null(strstr(reason, "16 MiB"));
  assert_int_equal(contents.count, 0);
  assert_int_equal(tuning_file_append(path, "x\n", 2, reason), COMPUTE_ERROR_FILE);
  struct stat status;
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_size, TUNING_FILE_LIMIT + 1);
  unlink(path);
}

static void what_is_no_file_is_refused_and_a_missing_one_may_be_empty(void **state) {
  (void)state;
  tuning_contents contents;
  const char *missing = fixture_file("missing");
  assert_int_equal(tuning_file_read(missing, true, &contents, reason), COMPUTE_OK);
  assert_int_equal(contents.count, 0);
  assert_int_equal(tuning_file_read(missing, false, &contents, reason), COMPUTE_ERROR_FILE);
  assert_non_null(strstr(reason, missing));
  assert_int_equal(tuning_file_read(TEST_SCRATCH_DIR, true, &contents, reason), COMPUTE_ERROR_FILE);
  assert_int_equal(tuning_file_append(TEST_SCRATCH_DIR, "x\n", 2, reason), COMPUTE_ERROR_FILE);
  assert_int_equal(tuning_file_append("/dev/null/tuning", "x\n", 2, reason), COMPUTE_ERROR_FILE);
}

static void folders_are_made_at_the_first_append(void **state) {
  (void)state;
  static const char path[] = TEST_SCRATCH_DIR "/new/folder/tuning";
  unlink(path);
  rmdir(TEST_SCRATCH_DIR "/new/folder");
  rmdir(TEST_SCRATCH_DIR "/new");
  char line[ENTRY_LINE_BYTES];
  const size_t bytes = fixture_line("M", "map", 1, line);
  assert_int_equal(tuning_file_append(path, line, bytes, reason), COMPUTE_OK);
  tuning_contents contents = read_file(path);
  assert_int_equal(contents.count, 1);
  tuning_file_release(&contents);
}

enum { WRITERS = 4, ENTRIES = 200 };

static void write_many(const char *path, int writer) {
  for (int i = 0; i < ENTRIES; i++) {
    char line[ENTRY_LINE_BYTES], kernel_class[64], why[TUNING_REASON_BYTES];
    snprintf(kernel_class, sizeof kernel_class, "map/w%d/e%d", writer, i);
    const size_t bytes = fixture_line("M", kernel_class, (uint32_t)writer + 1, line);
    if (tuning_file_append(path, line, bytes, why)) _exit(1);
  }
}

static void processes_that_append_at_once_lose_nothing(void **state) {
  (void)state;
  const char *path = fixture_file("together");
  pid_t child[WRITERS];
  for (int w = 0; w < WRITERS; w++) {
    child[w] = fork();
    assert_true(child[w] >= 0);
    if (child[w] == 0) {
      write_many(path, w);
      _exit(0);
    }
  }
  for (int w = 0; w < WRITERS; w++) {
    int result;
    assert_int_equal(waitpid(child[w], &result, 0), child[w]);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
  }
  tuning_contents contents = read_file(path);
  assert_int_equal(contents.count, WRITERS * ENTRIES);
  assert_int_equal(contents.damaged + contents.foreign, 0);
  tuning_file_release(&contents);
}

static void of_equal_keys_only_the_last_is_in_force(void **state) {
  (void)state;
  const char *path = fixture_file("replaced");
  fixture_append_entry(path, "M", "map/a", 1);
  fixture_append_entry(path, "N", "map/a", 2);
  fixture_append_entry(path, "M", "map/b", 3);
  fixture_append_entry(path, "M", "map/a", 4);
  fixture_append_entry(path, "M", "map/a", 5);
  tuning_contents contents = read_file(path);
  assert_int_equal(tuning_file_drop_replaced(&contents, reason), COMPUTE_OK);
  uint32_t left = 0;
  for (size_t i = 0; i < contents.count; i++)
    if (contents.entries[i].identity) left |= 1u << contents.entries[i].tuning.vector;
  assert_int_equal(left, 1u << 2 | 1u << 3 | 1u << 5);
  tuning_file_release(&contents);
}

static void short_memory_is_an_error_that_leaves_nothing_behind(void **state) {
  (void)state;
  const char *path = fixture_file("memory");
  for (int i = 0; i < 20; i++) fixture_append_entry(path, "M", "map/a", 1);
  failing_allocator_install();
  bool done = false;
  for (int64_t nth = 1; !done; nth++) {
    tuning_contents contents;
    failing_allocator_arm(nth, false);
    compute_status status = tuning_file_read(path, false, &contents, reason);
    if (!status) status = tuning_file_drop_replaced(&contents, reason);
    done = failing_allocator_failures() == 0;
    assert_int_equal(status, done ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY);
    tuning_file_release(&contents);
    assert_int_equal(failing_allocator_live(), 0);
  }
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_entry_survives_writing_and_reading),
      cmocka_unit_test(the_format_is_what_it_was),
      cmocka_unit_test(every_damaged_byte_costs_only_its_own_line),
      cmocka_unit_test(a_file_cut_anywhere_keeps_its_whole_lines),
      cmocka_unit_test(a_torn_line_does_not_spoil_the_next),
      cmocka_unit_test(nonsense_with_a_right_checksum_is_passed_over),
      cmocka_unit_test(another_version_is_left_to_those_who_know_it),
      cmocka_unit_test(a_file_too_large_is_refused),
      cmocka_unit_test(what_is_no_file_is_refused_and_a_missing_one_may_be_empty),
      cmocka_unit_test(folders_are_made_at_the_first_append),
      cmocka_unit_test(processes_that_append_at_once_lose_nothing),
      cmocka_unit_test(of_equal_keys_only_the_last_is_in_force),
      cmocka_unit_test(short_memory_is_an_error_that_leaves_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
