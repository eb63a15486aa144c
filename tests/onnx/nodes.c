/* SPDX-License-Identifier: MIT */
/* Runs ONNX's node tests (folders as in node_case.h) and checks the results against a list of
 * expected failures. The tests run one after the other in a separate process. After a crash or a
 * hang, the next process continues with the next test. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "onnx/node_case.h"
#include "support/harness/test.h"

enum { SKIPPED = 77 };

static const char debian_folder[] = "/usr/share/libonnx-testdata/data/node";

typedef struct node_test {
  char *folder;
  const char *name; /* the last part of `folder` */
  node_result result;
  char *reason; /* the cause if it does not pass */
} node_test;

/* Tests that are expected to fail. `proof` confirms the reason: "draws", or the beginning of the
 * library's message, in quotes. */
typedef struct expectation {
  char *pattern, *proof, *reason;
  uint32_t crc; /* of the test's files; 0: any */
  size_t count; /* tests with this failure */
  bool used;    /* some test has this name */
} expectation;

typedef struct suite {
  const char *device, *only, *table, *title;
  bool constants, strict, complete;
  unsigned limit; /* seconds for one test */
  size_t sample;  /* one of this many */
  node_test *tests;
  size_t count;
  expectation *expected;
  size_t expected_count;
  size_t passed, unexpected;
} suite;

static void *check(void *memory) {
  if (memory) return memory;
  fprintf(stderr, "onnx_nodes: out of memory\n");
  exit(EXIT_FAILURE);
}

/* ---- List of tests ------------------------------------------------------------------------- */

static int by_folder(const void *a, const void *b) {
  return strcmp(((const node_test *)a)->folder, ((const node_test *)b)->folder);
}

static bool find_tests(suite *s, const char *folder) {
  DIR *all = opendir(folder);
  if (!all) return false;
  for (struct dirent *entry; (entry = readdir(all));) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/model.onnx", folder, entry->d_name);
    if (entry->d_name[0] == '.' || access(path, R_OK)) continue;
    if (s->only && fnmatch(s->only, entry->d_name, 0)) continue;
    *strrchr(path, '/') = '\0';
    s->tests = check(reallocarray(s->tests, s->count + 1, sizeof *s->tests));
    s->tests[s->count++] = (node_test){.folder = check(strdup(path))};
  }
  closedir(all);
  return true;
}

/* Keeps one test in `sample`, always the same ones, so that similar neighbours in the list share
 * the work. The seed draws some more. */
static void take_sample(suite *s) {
  size_t kept = 0;
  for (size_t i = 0; i < s->count; i++) {
    if (i % s->sample == 0 || test_takes(0, i))
      s->tests[kept++] = s->tests[i];
    else
      free(s->tests[i].folder);
  }
  s->count = kept;
}

/* Releases of ONNX have different data under one name. The CRC-32 of the model, the inputs and the
 * outputs, in this order, distinguishes them. */
static uint32_t crc_of(const char *folder) {
  static const char *const kinds[] = {"model", "input", "output"};
  uLong crc = crc32(0, NULL, 0);
  for (int kind = 0, number = 0; kind < 3;) {
    char path[1100], bytes[4096];
    if (kind)
      snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.pb", folder, kinds[kind], number++);
    else
      snprintf(path, sizeof path, "%s/model.onnx", folder);
    FILE *file = fopen(path, "rb");
    for (size_t count; file && (count = fread(bytes, 1, sizeof bytes, file));)
      crc = crc32(crc, (const Bytef *)bytes, (uInt)count);
    if (file) fclose(file);
    if (file && kind) continue;
    kind++;
    number = 0;
  }
  return (uint32_t)crc;
}

/* A line of the list: a pattern of names, the proof and the reason, with " | " between them; or a
 * comment after '#'. The kind of run and the crc of the data may precede the pattern, each with a
 * colon. */
static void take_line(suite *s, char *line) {
  static const char between[] = " | ";
  const char *other = s->constants ? "inputs:" : "constants:";
  const char *own = s->constants ? "constants:" : "inputs:";
  char *proof = strstr(line, between), *reason = proof ? strstr(proof + 1, between) : NULL;
  line[strcspn(line, "\n")] = '\0';
  if (line[0] == '#' || !reason || !strncmp(line, other, strlen(other))) return;
  *proof = *reason = '\0';
  proof += strlen(between), reason += strlen(between);
  if (!strncmp(line, own, strlen(own))) line += strlen(own);
  uint32_t crc = 0;
  if (!strncmp(line, "crc:", 4)) {
    crc = (uint32_t)strtoul(line + 4, &line, 16);
    line += strcspn(line, ":") + 1;
  }
  s->expected = check(reallocarray(s->expected, s->expected_count + 1, sizeof *s->expected));
  s->expected[s->expected_count++] = (expectation){.pattern = check(strdup(line)),
                                                   .proof = check(strdup(proof)),
                                                   .reason = check(strdup(reason)),
                                                   .crc = crc};
}

/* Returns true if the test fails in the expected way. */
static bool is_proven(const expectation *expected, const node_test *test) {
  return strcmp(expected->proof, "draws") == 0 ? test->result == NODE_DRAWS
                                               : strstr(test->reason, expected->proof) != NULL;
}

static bool read_expectations(suite *s, const char *path) {
  char line[1024];
  FILE *file = fopen(path, "r");
  if (!file) return false;
  while (fgets(line, sizeof line, file)) take_line(s, line);
  fclose(file);
  return true;
}

static expectation *find_expectation(suite *s, const node_test *test) {
  for (size_t i = 0; i < s->expected_count; i++) {
    expectation *e = &s->expected[i];
    if (fnmatch(e->pattern, test->name, 0)) continue;
    if (!e->crc || e->crc == crc_of(test->folder)) return e;
  }
  return NULL;
}

/* ---- Running ------------------------------------------------------------------------------- */

/* The process with the tests from `first` on. For each test it writes a line: the digit of its
 * result, and the reason if it does not pass. */
static void run_from(const suite *s, size_t first, FILE *to) {
  compute_context *context;
  const compute_open_options options = {.device = s->device};
  if (compute_open(&context, &options)) {
    fprintf(stderr, "onnx_nodes: %s\n", compute_error_message(NULL));
    _exit(2);
  }
  const unsigned flags =
      (s->constants ? NODE_CASE_CONSTANTS : 0U) | (s->strict ? NODE_CASE_STRICT : 0U);
  for (size_t i = first; i < s->count; i++) {
    char reason[REASON_BYTES];
    alarm(s->limit);
    const node_result result = node_case_run(context, s->tests[i].folder, flags, reason);
    alarm(0);
    if (result >= NODE_PASSES) reason[0] = '\0';
    for (char *c = reason; (c = strchr(c, '\n'));) *c = ' ';
    fprintf(to, "%d%s\n", (int)result, reason);
    fflush(to);
  }
  const bool closed = compute_close(context) == COMPUTE_OK;
  if (!closed) fprintf(stderr, "onnx_nodes: %s\n", compute_error_message(context));
  exit(closed ? 0 : 3); /* where a sanitizer checks for leaks */
}

/* Reads a process's lines. Returns the number after the last test that it finished. */
static size_t take_results(suite *s, size_t first, FILE *from) {
  char line[REASON_BYTES + 8];
  size_t i = first;
  for (; i < s->count && fgets(line, sizeof line, from); i++) {
    line[strcspn(line, "\n")] = '\0';
    s->tests[i].result = (node_result)(line[0] - '0');
    s->tests[i].reason = check(strdup(line + 1));
  }
  return i;
}

static void note_end(const suite *s, node_test *test, int status) {
  char reason[64];
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (number == SIGALRM)
    snprintf(reason, sizeof reason, "takes longer than %u s", s->limit);
  else if (number)
    snprintf(reason, sizeof reason, "crashes: %s", strsignal(number));
  else
    snprintf(reason, sizeof reason, "ends the process with status %d", WEXITSTATUS(status));
  test->reason = check(strdup(reason));
}

/* Returns false if no test can run, or if the library reports a leak. */
static bool run_all(suite *s) {
  for (size_t next = 0; next < s->count;) {
    int ends[2], status;
    if (pipe(ends)) return false;
    fflush(stdout);
    const pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
      close(ends[0]);
      run_from(s, next, check(fdopen(ends[1], "w")));
    }
    close(ends[1]);
    FILE *from = check(fdopen(ends[0], "r"));
    next = take_results(s, next, from);
    fclose(from);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return false;
    if (next < s->count)
      note_end(s, &s->tests[next++], status);
    else if (status)
      return false;
  }
  return true;
}

/* ---- Results ------------------------------------------------------------------------------- */

static void judge(suite *s) {
  for (size_t i = 0; i < s->count; i++) {
    const node_test *test = &s->tests[i];
    expectation *expected = find_expectation(s, test);
    const bool draws = expected && strcmp(expected->proof, "draws") == 0;
    /* Ten other numbers, each 0 or 1, are the expected ones now and then. */
    const bool by_chance = draws && test->result >= NODE_PASSES;
    const bool passed = test->result >= NODE_PASSES && !by_chance;
    s->passed += passed;
    if (expected) expected->used = true;
    if (expected && !passed) expected->count++;
    if (expected ? by_chance || (!passed && is_proven(expected, test)) : passed) continue;
    s->unexpected++;
    if (passed)
      printf("PASSES  %s, though expected to fail: %s\n", test->name, expected->reason);
    else if (expected)
      printf("FAILS   %s: %s; expected '%s'\n", test->name, test->reason, expected->proof);
    else
      printf("FAILS   %s (crc:%08x): %s\n", test->name, crc_of(test->folder), test->reason);
  }
  for (size_t i = 0; i < s->expected_count && s->complete; i++) {
    if (s->expected[i].used) continue;
    printf("UNUSED  %s: there is no such test\n", s->expected[i].pattern);
    s->unexpected++;
  }
}

/* Calls `print` with each reason and the number of tests that failed for it. */
static void for_reasons(const suite *s, void (*print)(FILE *, const char *, size_t), FILE *file) {
  for (size_t i = 0; i < s->expected_count; i++) {
    size_t count = 0;
    bool first = true;
    for (size_t k = 0; k < s->expected_count; k++) {
      if (strcmp(s->expected[k].reason, s->expected[i].reason) != 0) continue;
      first = first && k >= i;
      count += s->expected[k].count;
    }
    if (first && count) print(file, s->expected[i].reason, count);
  }
}

static void print_line(FILE *file, const char *reason, size_t count) {
  fprintf(file, "%7zu  %s\n", count, reason);
}

static void print_row(FILE *file, const char *reason, size_t count) {
  fprintf(file, "| %zu | %s |\n", count, reason);
}

static void print_table(const suite *s, FILE *file) {
  fprintf(file, "\n%s, on %s:\n\n| tests | |\n|---|---|\n| %zu | pass |\n", s->title, s->device,
          s->passed);
  for_reasons(s, print_row, file);
  fprintf(file, "\n");
}

/* Replaces the table between two lines of a document. */
static bool update_table(const suite *s) {
  static const char begin[] = "<!-- node tests -->\n", end[] = "<!-- end of node tests -->\n";
  char *text = NULL;
  size_t room = 0;
  FILE *file = fopen(s->table, "r");
  const ssize_t length = file ? getdelim(&text, &room, '\0', file) : -1;
  char *first = length > 0 ? strstr(text, begin) : NULL, *last = first ? strstr(first, end) : NULL;
  if (file) fclose(file);
  if (!last || !(file = fopen(s->table, "w"))) {
    fprintf(stderr, "onnx_nodes: %s cannot be written, or has not the lines %sand %s", s->table,
            begin, end);
    free(text);
    return false;
  }
  fwrite(text, 1, (size_t)(first - text) + sizeof begin - 1, file);
  print_table(s, file);
  fputs(last, file);
  free(text);
  return fclose(file) == 0;
}

static void print_summary(const suite *s) {
  printf("%zu tests on %s%s: %zu pass, %zu do not\n", s->count, s->device,
         s->constants ? ", inputs as initializers" : "", s->passed, s->count - s->passed);
  for_reasons(s, print_line, stdout);
}

/* ---- The command line ---------------------------------------------------------------------- */

static const char usage[] =
    "Usage: onnx_nodes [OPTION...] [FOLDER...]\n"
    "  --expect FILE   names of tests that are expected to fail, each with the reason\n"
    "  --complete      each of these must be the name of a test\n"
    "  --constants     inputs are initializers of the models; before --expect\n"
    "  --strict        nothing may be left to the CPU\n"
    "  --sample N      one test in N, and some more, which COMPUTE_TEST_SEED draws\n"
    "  --device NAME   default: COMPUTE_TEST_DEVICE, or cpu\n"
    "  --only PATTERN  names of tests to run\n"
    "  --limit S       seconds for each test; default 60\n"
    "  --table FILE    writes the table of results into a document\n"
    "  --title TEXT    what the table is called\n";

static int run_suite(suite *s) {
  qsort(s->tests, s->count, sizeof *s->tests, by_folder);
  if (s->sample > 1) take_sample(s);
  for (size_t i = 0; i < s->count; i++) s->tests[i].name = strrchr(s->tests[i].folder, '/') + 1;
  const bool ran = run_all(s);
  if (ran) judge(s);
  if (ran) print_summary(s);
  const bool written = !ran || !s->table || update_table(s);
  return ran && written && !s->unexpected ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void release(suite *s) {
  for (size_t i = 0; i < s->count; i++) {
    free(s->tests[i].folder);
    free(s->tests[i].reason);
  }
  for (size_t i = 0; i < s->expected_count; i++) {
    free(s->expected[i].pattern);
    free(s->expected[i].proof);
    free(s->expected[i].reason);
  }
  free(s->tests);
  free(s->expected);
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"expect", 1, NULL, 'e'},
                                          {"complete", 0, NULL, 'a'},
                                          {"constants", 0, NULL, 'c'},
                                          {"device", 1, NULL, 'd'},
                                          {"only", 1, NULL, 'o'},
                                          {"limit", 1, NULL, 'l'},
                                          {"table", 1, NULL, 't'},
                                          {"strict", 0, NULL, 's'},
                                          {"sample", 1, NULL, 'p'},
                                          {"title", 1, NULL, 'n'},
                                          {0}};
  const char *device = getenv("COMPUTE_TEST_DEVICE");
  suite s = {.device = device ? device : "cpu", .limit = 60, .title = "ONNX's node tests"};
  bool good = true;
  int result = EXIT_FAILURE;
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
    switch (option) {
    case 'e': good = read_expectations(&s, optarg) && good; break;
    case 'a': s.complete = true; break;
    case 'c': s.constants = true; break;
    case 's': s.strict = true; break;
    case 'p':
      s.sample = strtoul(optarg, NULL, 10);
      setenv("COMPUTE_TEST_SAMPLES", optarg, 1);
      break;
    case 'd': s.device = optarg; break;
    case 'o': s.only = optarg; break;
    case 'l': s.limit = (unsigned)strtoul(optarg, NULL, 10); break;
    case 't': s.table = optarg; break;
    case 'n': s.title = optarg; break;
    default: good = false;
    }
  }
  if (!good) fputs(usage, stderr);
  for (int i = optind; i < argc; i++) good = find_tests(&s, argv[i]) && good;
  if (optind == argc && !find_tests(&s, debian_folder)) {
    printf("skipped: there is no folder %s (Debian: libonnx-testdata)\n", debian_folder);
    good = false;
    result = SKIPPED;
  }
  if (good && !s.count) fprintf(stderr, "onnx_nodes: there are no such tests\n");
  if (good && s.count) result = run_suite(&s);
  release(&s);
  return result;
}
