/* SPDX-License-Identifier: MIT */
/* COMPUTE_DUMP: every compilation pass writes its result, and nothing else changes. */
#include "support/harness/test.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan/compile/dump/dump.h"
#include "support/harness/locale.h"

#define FOLDER TEST_SCRATCH_DIR "/dump"

enum { BATCH = 4, SIDE = 8, FILTERS = 6, CLASSES = 10 };

static const char *const passes[] = {
#define PASS(name, text) text,
    PLAN_PASSES(PASS)
#undef PASS
};

enum { PASSES = sizeof passes / sizeof *passes };

/* ---- Files ----------------------------------------------------------------------------------- */

/* Calls `use`, if it is not NULL, for each file of the folder whose name begins and ends like this.
 * Returns the number of files. */
static int each_file(const char *begin, const char *end, void (*use)(const char *path)) {
  DIR *folder = opendir(FOLDER);
  int count = 0;
  if (!folder) return 0;
  for (const struct dirent *e; (e = readdir(folder)) != NULL;) {
    const size_t length = strlen(e->d_name), tail = strlen(end);
    char path[sizeof FOLDER + sizeof e->d_name + 1];
    if (e->d_name[0] == '.' || strncmp(e->d_name, begin, strlen(begin)) != 0 || length < tail ||
        strcmp(e->d_name + length - tail, end) != 0)
      continue;
    snprintf(path, sizeof path, "%s/%s", FOLDER, e->d_name);
    if (use) use(path);
    count++;
  }
  closedir(folder);
  return count;
}

static void delete_file(const char *path) {
  assert_int_equal(remove(path), 0);
}

/* A file's text. The caller frees it. */
static char *file_text(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("there is no %s", path);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long size = ftell(file);
  assert_true(size > 0);
  rewind(file);
  char *text = malloc((size_t)size + 1);
  assert_non_null(text);
  assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
  text[size] = '\0';
  fclose(file);
  return text;
}

static char *pass_path(unsigned plan, int pass, const char *end) {
  static char path[sizeof FOLDER + 64];
  snprintf(path, sizeof path, "%s/plan-%04u-%02d-%s.%s", FOLDER, plan, pass, passes[pass - 1], end);
  return path;
}

/* The text after the title, which contains the plan's number. */
static const char *after_title(const char *text) {
  const char *end = strchr(text, '\n');
  assert_non_null(end);
  return end + 1;
}

static const char *wanted;
static unsigned found, found_count;

static void note_if_named(const char *path) {
  char *text = file_text(path), name[64];
  unsigned number;
  assert_int_equal(sscanf(path + sizeof FOLDER, "plan-%u-", &number), 1);
  snprintf(name, sizeof name, "plan %u (%s), pass 1, graph: ", number, wanted);
  if (strncmp(text, name, strlen(name)) == 0) {
    if (number > found) found = number;
    found_count++;
  }
  free(text);
}

/* The number of the last plan with this name; found_count plans have it. */
static unsigned last_plan(const char *name) {
  wanted = name;
  found = found_count = 0;
  each_file("plan-", "-01-graph.txt", note_if_named);
  return found;
}

/* ---- A network ------------------------------------------------------------------------------- */

typedef struct network {
  compute_context *context;
  compute_graph *graph;
  compute_tensor *filter, *filter_bias, *weight, *bias;
  compute_node x, y;
} network;

static void open_network(network *n, const char *backends, const char *device) {
  const compute_open_options options = {.backends = backends, .device = device, .threads = 1};
  assert_ok(compute_open(&n->context, &options));
  compute_context *c = n->context;
  n->filter = test_random_tensor(c, COMPUTE_F32, COMPUTE_SHAPE(FILTERS, 3, 3, 3), 1);
  n->filter_bias = test_random_tensor(c, COMPUTE_F32, COMPUTE_SHAPE(FILTERS), 2);
  n->weight = test_random_tensor(c, COMPUTE_F32, COMPUTE_SHAPE(FILTERS * SIDE * SIDE, CLASSES), 3);
  n->bias = test_random_tensor(c, COMPUTE_F32, COMPUTE_SHAPE(CLASSES), 4);
  const compute_conv2d_options padded = {.stride = {1, 1}, .padding = {1, 1}};
  compute_graph *g = n->graph = compute_graph_create(c);
  n->x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(BATCH, 3, SIDE, SIDE));
  compute_name(g, n->x, "a \"name\" \\ {\n\x01\xff");
  compute_node y = compute_conv2d(g, n->x, compute_parameter(g, n->filter),
                                  compute_parameter(g, n->filter_bias), &padded);
  y = compute_reshape(g, compute_relu(g, y), COMPUTE_SHAPE(BATCH, FILTERS * SIDE * SIDE));
  y = compute_matmul(g, y, compute_parameter(g, n->weight));
  y = compute_relu(g, compute_add(g, y, compute_parameter(g, n->bias)));
  const compute_node two =
      compute_add(g, compute_scalar(g, COMPUTE_F32, 0.5), compute_scalar(g, COMPUTE_F32, 1.5));
  n->y = compute_softmax(g, compute_mul(g, y, two), 1);
  assert_ok(compute_graph_status(g));
}

static void close_network(network *n) {
  compute_graph_release(n->graph);
  compute_tensor_release(n->filter);
  compute_tensor_release(n->filter_bias);
  compute_tensor_release(n->weight);
  compute_tensor_release(n->bias);
  test_close(n->context);
}

static compute_plan *compile(const network *n, const char *name, uint32_t flags) {
  const compute_plan_options options = {.name = name, .flags = flags};
  compute_plan *plan;
  assert_ok(compute_compile(n->graph, &n->y, 1, &options, &plan));
  return plan;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static int begin(void **state) {
  (void)state;
  each_file("", "", delete_file);
  rmdir(FOLDER);
  return setenv("COMPUTE_DUMP", FOLDER, 1);
}

static int end(void **state) {
  (void)state;
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  return unsetenv("COMPUTE_DUMP");
}

/* Strings end on their line, braces match, and nothing follows the last brace. */
static void check_balance(const char *path) {
  char *text = file_text(path);
  int depth = 0;
  bool quoted = false;
  assert_int_equal(strncmp(text, "strict digraph \"", 16), 0);
  for (const char *c = text; *c; c++) {
    if (quoted && *c == '\\')
      c++;
    else if (*c == '"')
      quoted = !quoted;
    else if (!quoted)
      depth += (*c == '{') - (*c == '}');
    if (depth < 0 || (quoted && *c == '\n')) fail_msg("%s is wrong at: %.40s", path, c);
  }
  assert_false(quoted);
  assert_int_equal(depth, 0);
  assert_string_equal(text + strlen(text) - 2, "}\n");
  free(text);
}

static void every_pass_has_a_text_and_a_drawing(void **state) {
  (void)state;
  network n;
  struct stat status;
  open_network(&n, "cpu", "cpu");
  compute_plan_release(compile(&n, "all passes", COMPUTE_PLAN_AUTO));
  const unsigned plan = last_plan("all passes");
  assert_int_equal(found_count, 1);
  for (int pass = 1; pass <= PASSES; pass++) {
    char title[64];
    snprintf(title, sizeof title, "plan %u (all passes), pass %d, %s: ", plan, pass,
             passes[pass - 1]);
    char *text = file_text(pass_path(plan, pass, "txt"));
    assert_int_equal(strncmp(text, title, strlen(title)), 0);
    free(text);
    assert_int_equal(stat(pass_path(plan, pass, "dot"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
  }
  assert_int_equal(each_file("plan-", ".dot", check_balance), each_file("plan-", ".txt", NULL));
  assert_int_equal(stat(FOLDER, &status), 0);
  assert_int_equal(status.st_mode & 0777, 0700);
  close_network(&n);
}

static void expect_in(unsigned plan, int pass, const char *part) {
  char *text = file_text(pass_path(plan, pass, "txt"));
  if (!strstr(text, part)) fail_msg("pass %s has no '%s':\n%s", passes[pass - 1], part, text);
  free(text);
}

static void passes_say_what_they_did(void **state) {
  (void)state;
  network n;
  open_network(&n, "cpu", "cpu");
  compute_plan_release(compile(&n, "what", 0));
  const unsigned plan = last_plan("what");
  expect_in(plan, PASS_GRAPH, "constant 0.5  f32 []");
  expect_in(plan, PASS_GRAPH, "input  f32 [4,3,8,8] \"a \\\"name\\\" \\\\ {\\n?\?\"");
  expect_in(plan, PASS_FOLD, "was add");
  expect_in(plan, PASS_CAPTURE, "constant 2  f32 []");
  expect_in(plan, PASS_FUSE, "view of ");
  expect_in(plan, PASS_FUSE, ", stored\n");
  expect_in(plan, PASS_FUSE, "cluster 1, conv2d: ");
  expect_in(plan, PASS_LOWER, "-> value ");
  expect_in(plan, PASS_ARENA, "-> @0\n");
  close_network(&n);
}

/* compute_explain's steps without the times. */
static char *explained_steps(const compute_plan *plan) {
  char *text;
  assert_ok(compute_explain(plan, &text));
  const char *from = strstr(text, "\nsteps (");
  assert_non_null(from);
  char *steps = calloc(1, strlen(text) + 1);
  assert_non_null(steps);
  for (from = after_title(from + 1); *from; from = after_title(from))
    if (strncmp(from, "      predicted ", 16) != 0)
      strncat(steps, from, (size_t)(after_title(from) - from));
  compute_text_free(text);
  return steps;
}

static void the_last_pass_is_the_plan(void **state) {
  (void)state;
  network n;
  open_network(&n, "cpu", "cpu");
  compute_plan *plan = compile(&n, "explained", 0);
  char *steps = explained_steps(plan);
  char *text = file_text(pass_path(last_plan("explained"), PASS_ARENA, "txt"));
  assert_string_equal(after_title(after_title(text)), steps);
  free(text);
  free(steps);
  compute_plan_release(plan);
  close_network(&n);
}

static void each_compilation_has_its_number(void **state) {
  (void)state;
  network n;
  unsigned plan[2];
  open_network(&n, "cpu", "cpu");
  for (int i = 0; i < 2; i++) {
    compute_plan_release(compile(&n, "twice", 0));
    plan[i] = last_plan("twice");
    assert_int_equal(found_count, i + 1);
  }
  assert_true(plan[1] > plan[0]);
  for (int pass = 1; pass <= PASSES; pass++) {
    if (pass == PASS_PLACE) continue; /* without placement by cost */
    char *first = file_text(pass_path(plan[0], pass, "txt"));
    char *second = file_text(pass_path(plan[1], pass, "txt"));
    assert_string_equal(after_title(first), after_title(second));
    free(first);
    free(second);
  }
  close_network(&n);
}

static void texts_do_not_follow_the_locale(void **state) {
  (void)state;
  if (!test_locale_make(test_locales[0], TEST_SCRATCH_DIR)) test_skip("no German locale");
  const locale_t german = newlocale(LC_ALL_MASK, test_locales[0], (locale_t)0);
  assert_true(german != (locale_t)0);
  network n;
  open_network(&n, "cpu", "cpu");
  compute_plan_release(compile(&n, "own", 0));
  const locale_t own = uselocale(german);
  compute_plan_release(compile(&n, "german", 0));
  uselocale(own);
  const unsigned plan[] = {last_plan("own"), last_plan("german")};
  for (int pass = PASS_GRAPH; pass <= PASS_ARENA; pass++) {
    if (pass == PASS_PLACE) continue;
    char *first = file_text(pass_path(plan[0], pass, "txt"));
    char *second = file_text(pass_path(plan[1], pass, "txt"));
    assert_string_equal(after_title(first), after_title(second));
    free(first);
    free(second);
  }
  close_network(&n);
  freelocale(german);
}

static int warnings;

static void count_warning(void *user, compute_log_level level, const char *module,
                          const char *message) {
  (void)user;
  (void)module;
  warnings += level == COMPUTE_LOG_WARNING && strstr(message, "COMPUTE_DUMP: " FOLDER);
}

static void compile_and_run(const network *n) {
  compute_plan *plan = compile(n, "run", 0);
  compute_tensor *x = test_random_tensor(n->context, COMPUTE_F32,
                                         COMPUTE_SHAPE(BATCH, 3, SIDE, SIDE), 5),
                 *y = test_tensor(n->context, COMPUTE_F32, COMPUTE_SHAPE(BATCH, CLASSES), NULL);
  const compute_binding bindings[] = {{n->x, x}, {n->y, y}};
  assert_ok(compute_run(plan, bindings, 2, NULL));
  double sum = 0;
  for (int i = 0; i < CLASSES; i++) sum += test_element(y, i);
  assert_float_equal(sum, 1, 1e-5);
  compute_tensor_release(x);
  compute_tensor_release(y);
  compute_plan_release(plan);
}

static void an_unusable_folder_is_one_warning(void **state) {
  (void)state;
  FILE *file = fopen(FOLDER, "w"); /* a file in place of the folder */
  assert_non_null(file);
  fclose(file);
  network n;
  warnings = 0;
  compute_log_set(count_warning, NULL, COMPUTE_LOG_WARNING);
  open_network(&n, "cpu", "cpu");
  compile_and_run(&n);
  compile_and_run(&n);
  close_network(&n);
  assert_int_equal(warnings, 1);
  delete_file(FOLDER);
}

static void a_folder_that_goes_away_is_one_warning(void **state) {
  (void)state;
  network n;
  warnings = 0;
  compute_log_set(count_warning, NULL, COMPUTE_LOG_WARNING);
  open_network(&n, "cpu", "cpu");
  assert_int_equal(rmdir(FOLDER), 0);
  compile_and_run(&n);
  compile_and_run(&n);
  close_network(&n);
  assert_int_equal(warnings, 1);
}

static void nothing_is_written_unasked(void **state) {
  (void)state;
  network n;
  unsetenv("COMPUTE_DUMP");
  open_network(&n, "cpu", "cpu");
  compile_and_run(&n);
  close_network(&n);
  assert_int_equal(access(FOLDER, F_OK), -1);
  assert_int_equal(mkdir(FOLDER, 0700), 0);
  open_network(&n, "cpu", "cpu");
  compile_and_run(&n);
  close_network(&n);
  assert_int_equal(each_file("", "", NULL), 0);
}

/* A symbolic link in place of a file would redirect the text to any of the user's files. */
static void links_are_not_followed(void **state) {
  (void)state;
  static const char victim[] = TEST_SCRATCH_DIR "/victim";
  network n;
  FILE *file = fopen(victim, "w");
  assert_non_null(file);
  fputs("kept", file);
  fclose(file);
  open_network(&n, "cpu", "cpu");
  compute_plan_release(compile(&n, "first", 0));
  const unsigned last = last_plan("constant folding"); /* within the first */
  assert_int_equal(symlink(victim, pass_path(last + 1, PASS_GRAPH, "txt")), 0);
  warnings = 0;
  compute_log_set(count_warning, NULL, COMPUTE_LOG_WARNING);
  compute_plan_release(compile(&n, "second", 0));
  assert_int_equal(warnings, 1);
  char *text = file_text(victim);
  assert_string_equal(text, "kept");
  free(text);
  close_network(&n);
}

static void draw(const char *path) {
  char command[sizeof FOLDER + 300];
  snprintf(command, sizeof command, "dot -Tcanon -o /dev/null '%s'", path);
  if (system(command) != 0) fail_msg("Graphviz does not read %s", path);
}

static void graphviz_reads_every_drawing(void **state) {
  (void)state;
  if (system("dot -V >/dev/null 2>&1") != 0) test_skip("no dot (Debian: graphviz)");
  network n;
  open_network(&n, "cpu", "cpu");
  compute_plan_release(compile(&n, "drawn \"\\", COMPUTE_PLAN_AUTO));
  assert_true(each_file("plan-", ".dot", draw) >= 2 * PASSES - 4);
  close_network(&n);
}

static const char *entry; /* the keyword of a kernel */

static void check_source(const char *path) {
  char *text = file_text(path);
  assert_non_null(strstr(text, entry));
  free(text);
}

/* The plan's kernels as the module compiles them; equal sources are written once. The variant on the
 * fake driver checks CUDA's. */
static void sources_are_written_once(void **state) {
  (void)state;
  network n;
  compute_context *probe;
  const char *chosen = getenv("COMPUTE_TEST_DEVICE");
  const bool cuda = chosen && strcmp(chosen, "cuda:0") == 0;
  const char *end = cuda ? ".cu" : ".cl";
  const compute_open_options options = {.backends = cuda ? "cpu,cuda" : "cpu,opencl",
                                        .device = cuda ? "cuda:0" : "opencl:0"};
  entry = cuda ? "__global__" : "__kernel";
  if (compute_open(&probe, &options) != COMPUTE_OK) {
    assert_false(cuda);
    test_skip("no OpenCL device");
  }
  test_close(probe);
  open_network(&n, options.backends, options.device);
  compute_plan_release(compile(&n, "kernels", 0));
  const int count = each_file("kernel-", end, check_source);
  assert_true(each_file("kernel-conv-", end, NULL) > 0);
  assert_true(each_file("kernel-row-", end, NULL) > 0);
  compute_plan_release(compile(&n, "again", 0));
  assert_int_equal(each_file("kernel-", "", NULL), count);
  close_network(&n);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
  const struct CMUnitTest dump[] = {
      TEST(every_pass_has_a_text_and_a_drawing),
      TEST(passes_say_what_they_did),
      TEST(the_last_pass_is_the_plan),
      TEST(each_compilation_has_its_number),
      TEST(texts_do_not_follow_the_locale),
      TEST(an_unusable_folder_is_one_warning),
      TEST(a_folder_that_goes_away_is_one_warning),
      TEST(nothing_is_written_unasked),
      TEST(links_are_not_followed),
      TEST(graphviz_reads_every_drawing),
      TEST(sources_are_written_once),
  };
  return cmocka_run_group_tests(dump, NULL, NULL);
}
