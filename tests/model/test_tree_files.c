/* SPDX-License-Identifier: MIT */
/* Files of XGBoost and LightGBM: their questions, and files that are damaged. The packages' own
 * predictions are in tests/onnx/tree_files.py. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/trees.h"
#include "support/harness/failing_allocator.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

/* Feature 0 is below 0.5, or has category 1, 2 or 4. Feature 1 is below 2. */
static const char xgboost[] =
    "{\"learner\":{\"feature_names\":[\"\\u0061\"],\"gradient_booster\":{\"model\":{"
    "\"tree_info\":[0,0],\"trees\":["
    "{\"left_children\":[1,-1,3,-1,-1],\"right_children\":[2,-1,4,-1,-1],"
    "\"split_indices\":[0,0,1,0,0],\"split_conditions\":[5E-1,1E0,2E0,2E0,4E0],"
    "\"default_left\":[0,0,1,0,0],\"tree_param\":{\"size_leaf_vector\":\"1\"}},"
    "{\"left_children\":[1,-1,-1],\"right_children\":[2,-1,-1],\"split_indices\":[0,0,0],"
    "\"split_conditions\":[0,8E0,16E0],\"default_left\":[0,0,0],\"split_type\":[1,0,0],"
    "\"categories\":[2,1,4],\"categories_nodes\":[0],\"categories_segments\":[0],"
    "\"categories_sizes\":[3]}]},\"name\":\"gbtree\"},"
    "\"learner_model_param\":{\"base_score\":\"[5E-1]\",\"num_class\":\"0\",\"num_feature\":\"2\","
    "\"num_target\":\"1\"},\"objective\":{\"name\":\"binary:logistic\"}},\"version\":[3,2,0]}";

/* The same with zeros and magnitudes up to 1e-35 as missing values, and in LightGBM's directions.
 * The last tree has one leaf. */
static const char lightgbm[] =
    "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=1\n"
    "objective=binary sigmoid:2\nfeature_names=a b\n\n"
    "Tree=0\nnum_leaves=3\nnum_cat=0\nsplit_feature=0 1\nthreshold=0.5 2\ndecision_type=4 2\n"
    "left_child=-1 -2\nright_child=1 -3\nleaf_value=1 2 4\nis_linear=0\nshrinkage=1\n\n\n"
    "Tree=1\nnum_leaves=2\nnum_cat=1\nsplit_feature=0\nthreshold=0\ndecision_type=1\n"
    "left_child=-1\nright_child=-2\ncat_boundaries=0 2\ncat_threshold=22 1\nleaf_value=8 16\n"
    "is_linear=0\n\n\nTree=2\nnum_leaves=1\nleaf_value=32\n\nend of trees\n\nparameters:\n";

/* ---- UBJSON from JSON ------------------------------------------------------------------------ */

typedef struct bytes {
  unsigned char data[8192];
  size_t count;
} bytes;

static void put(bytes *to, const void *data, size_t count) {
  assert_true(to->count + count <= sizeof to->data);
  memcpy(to->data + to->count, data, count);
  to->count += count;
}

static void put_length(bytes *to, size_t length) {
  const unsigned char number[] = {'I', (unsigned char)(length >> 8), (unsigned char)length};
  put(to, number, sizeof number);
}

static void put_f32(bytes *to, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  for (int i = 24; i >= 0; i -= 8) put(to, &(unsigned char){(unsigned char)(bits >> i)}, 1);
}

/* Lists of numbers get a common type and a count. */
static bytes to_binary(const char *json) {
  bytes to = {.count = 0};
  bool key = false;
  for (const char *at = json; *at;) {
    if (*at == '"') {
      const size_t length = strcspn(at + 1, "\"");
      if (!key) put(&to, "S", 1);
      put_length(&to, length);
      put(&to, at + 1, length);
      at += length + 2;
    } else if (*at == '[' && strchr("-0123456789", at[1])) {
      const size_t length = strcspn(at, "]");
      size_t count = 1;
      for (size_t i = 0; i < length; i++) count += at[i] == ',';
      put(&to, "[$d#", 4);
      put_length(&to, count);
      for (const char *n = at; n < at + length; n += 1 + strcspn(n + 1, ",]"))
        put_f32(&to, strtof(n + 1, NULL));
      at += length + 1;
    } else {
      if (*at != ':' && *at != ',') put(&to, at, 1);
      at++;
    }
    key = at[-1] == '{' || (at[-1] == ',' && at[0] == '"' && at[-2] != ']' && key) ||
          (at[-1] == ',' && strchr("}]\"", at[-2]) && at[0] == '"');
  }
  return to;
}

/* ---- Results --------------------------------------------------------------------------------- */

static compute_tree_model *load(const void *data, size_t count) {
  compute_tree_model *model = NULL;
  assert_ok(compute_tree_model_load_memory(test_context, data, count, &model));
  return model;
}

static float result_of(const compute_tree_model *model, float a, float b, bool sums) {
  compute_graph *g = compute_graph_create(test_context);
  const compute_node x = compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(1, 2), (float[]){a, b});
  const compute_node y = compute_tree_model_record(g, x, model, sums);
  compute_plan *plan = test_compile(g, &y, 1, 0);
  compute_tensor *result = NULL;
  float value;
  assert_ok(compute_plan_create_tensor(plan, y, &result));
  assert_ok(compute_run(plan, (compute_binding[]){{y, result}}, 1, NULL));
  assert_ok(compute_tensor_read(result, &value, sizeof value));
  compute_tensor_release(result);
  compute_plan_release(plan);
  compute_graph_release(g);
  return value;
}

/* A copy with the first `old` replaced; the caller frees it. */
static char *replaced(const char *text, const char *old, const char *new) {
  const char *at = strstr(text, old);
  assert_non_null(at);
  char *copy = malloc(strlen(text) + strlen(new) + 1);
  assert_non_null(copy);
  memcpy(copy, text, (size_t)(at - text));
  strcpy(copy + (at - text), new);
  strcat(copy, at + strlen(old));
  return copy;
}

typedef struct row {
  float a, b, sum;
} row;

static void check_rows(const compute_tree_model *model, const row *rows, size_t count,
                       float factor) {
  for (size_t i = 0; i < count; i++) {
    const float sum = result_of(model, rows[i].a, rows[i].b, true);
    const float prediction = result_of(model, rows[i].a, rows[i].b, false);
    if (sum != rows[i].sum)
      fail_msg("(%g, %g): %g, not %g", (double)rows[i].a, (double)rows[i].b, (double)sum,
               (double)rows[i].sum);
    assert_true(fabsf(prediction - 1 / (1 + expf(-factor * sum))) < 1e-6f);
  }
}

static void questions_of_xgboost(void **state) {
  (void)state;
  static const row rows[] = {
      {0.25f, 0, 1 + 8},     {0.5f, 1, 2 + 8},   {0.5f, 2, 4 + 8},     {NAN, NAN, 2 + 16},
      {1, 5, 4 + 16},        {2.75f, 5, 4 + 16}, {3, 5, 4 + 8},        {4.5f, NAN, 2 + 16},
      {5, 0, 2 + 8},         {-1, 0, 1 + 8},     {INFINITY, 0, 2 + 8}, {0, INFINITY, 1 + 8},
      {-INFINITY, 0, 1 + 8},
  };
  const bytes binary = to_binary(xgboost);
  for (int form = 0; form < 2; form++) {
    compute_tree_model *model =
        form == 0 ? load(xgboost, strlen(xgboost)) : load(binary.data, binary.count);
    compute_tree_model_info info;
    assert_ok(compute_tree_model_describe(model, &info));
    assert_string_equal(info.format, "XGBoost");
    assert_string_equal(info.objective, "binary:logistic");
    assert_int_equal(info.features, 2);
    assert_int_equal(info.targets, 1);
    assert_int_equal(info.trees, 2);
    check_rows(model, rows, sizeof rows / sizeof *rows, 1);
    compute_tree_model_release(model);
  }
}

/* XGBoost rounds features to f32, so that 0.3 is not below the f32 next to it. */
static void xgboost_rounds_features(void **state) {
  (void)state;
  char *text = replaced(xgboost, "[5E-1,1E0", "[3E-1,1E0");
  compute_tree_model *model = load(text, strlen(text));
  free(text);
  compute_graph *g = compute_graph_create(test_context);
  const compute_node x =
      compute_constant(g, COMPUTE_F64, COMPUTE_SHAPE(2, 2), (double[]){0.3, 0, 0.25, 0});
  const compute_node y = compute_tree_model_record(g, x, model, true);
  compute_plan *plan = test_compile(g, &y, 1, 0);
  compute_tensor *result = NULL;
  double sums[2];
  assert_ok(compute_plan_create_tensor(plan, y, &result));
  assert_ok(compute_run(plan, (compute_binding[]){{y, result}}, 1, NULL));
  assert_ok(compute_tensor_read(result, sums, sizeof sums));
  assert_true(sums[0] == 2 + 8 && sums[1] == 1 + 8);
  compute_tensor_release(result);
  compute_plan_release(plan);
  compute_graph_release(g);
  compute_tree_model_release(model);
}

/* Files of one class have the base scores 0 and 1, which XGBoost moves off the ends. */
static void base_scores_at_the_ends_are_finite(void **state) {
  (void)state;
  for (int base = 0; base < 2; base++) {
    char *text = replaced(xgboost, "[5E-1]", base ? "[1E0]" : "[0]");
    compute_tree_model *model = load(text, strlen(text));
    free(text);
    const float added = result_of(model, 0.25f, 0, true) - (1 + 8);
    assert_true(fabsf(added - (base ? 13.745f : -13.8155f)) < 1e-3f);
    compute_tree_model_release(model);
  }
}

static void questions_of_lightgbm(void **state) {
  (void)state;
  static const row rows[] = {
      {0.25f, 0, 1 + 16 + 32},    {0.5f, 9, 1 + 16 + 32},      {0.75f, 2, 2 + 16 + 32},
      {0, 3, 4 + 16 + 32},        {1e-36f, 3, 4 + 16 + 32},    {-1e-36f, 1, 2 + 16 + 32},
      {NAN, 3, 4 + 16 + 32},      {-0.5f, NAN, 1 + 16 + 32},   {1, NAN, 2 + 8 + 32},
      {2.5f, 3, 4 + 8 + 32},      {3, 3, 4 + 16 + 32},         {4, INFINITY, 4 + 8 + 32},
      {32.5f, 3, 4 + 8 + 32},     {33, 3, 4 + 16 + 32},        {64, 3, 4 + 16 + 32},
      {INFINITY, 3, 4 + 16 + 32}, {-INFINITY, 3, 1 + 16 + 32},
  };
  compute_tree_model *model = load(lightgbm, strlen(lightgbm));
  compute_tree_model_info info;
  assert_ok(compute_tree_model_describe(model, &info));
  assert_string_equal(info.format, "LightGBM");
  assert_string_equal(info.objective, "binary sigmoid:2");
  assert_int_equal(info.trees, 3);
  check_rows(model, rows, sizeof rows / sizeof *rows, 2);
  compute_tree_model_release(model);
}

/* ---- Files that are refused ------------------------------------------------------------------ */

static void damaged_files_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *old, *new;
    compute_status status;
  } cases[] = {
      {xgboost, "[1,-1,3,-1,-1]", "[1,-1,0,-1,-1]", COMPUTE_ERROR_FORMAT},
      {xgboost, "[1,-1,3,-1,-1]", "[1,-1,1,-1,-1]", COMPUTE_ERROR_FORMAT},
      {xgboost, "[1,-1,3,-1,-1]", "[1,-1,5,-1,-1]", COMPUTE_ERROR_FORMAT},
      {xgboost, "[1,-1,3,-1,-1]", "[1,-1,3,-1]", COMPUTE_ERROR_FORMAT},
      {xgboost, "[1,-1,3,-1,-1]", "[1,-1,2.5,-1,-1]", COMPUTE_ERROR_FORMAT},
      {xgboost, "[0,0,1,0,0]", "[0,0,2,0,0]", COMPUTE_ERROR_FORMAT},
      {xgboost, "[5E-1,1E0", "[NaN,1E0", COMPUTE_ERROR_FORMAT},
      {xgboost, "[5E-1,1E0", "[5E-1x,1E0", COMPUTE_ERROR_FORMAT},
      {xgboost, "\"categories_sizes\":[3]", "\"categories_sizes\":[4]", COMPUTE_ERROR_FORMAT},
      {xgboost, "\"categories_nodes\":[0]", "\"categories_nodes\":[1]", COMPUTE_ERROR_FORMAT},
      {xgboost, "\"categories_nodes\":[0]", "\"categories_nodes\":[]", COMPUTE_ERROR_FORMAT},
      {xgboost, "[2,1,4]", "[2,-1,4]", COMPUTE_ERROR_FORMAT},
      {xgboost, "\"tree_info\":[0,0]", "\"tree_info\":[0,1]", COMPUTE_ERROR_FORMAT},
      {xgboost, "\"tree_info\":[0,0]", "\"tree_info\":[0]", COMPUTE_ERROR_FORMAT},
      {xgboost, "\"num_class\":\"0\"", "\"num_class\":\"16777216\"", COMPUTE_ERROR_FORMAT},
      {xgboost, "\"num_feature\":\"2\"", "\"num_feature\":\"0\"", COMPUTE_ERROR_FORMAT},
      {xgboost, "[5E-1]", "[5E-1,1]", COMPUTE_ERROR_FORMAT},
      {xgboost, "[5E-1]", "[5E-1,]", COMPUTE_ERROR_FORMAT},
      {xgboost, "[5E-1]", "[]", COMPUTE_ERROR_FORMAT},
      {xgboost, "[5E-1]", "2E0", COMPUTE_ERROR_FORMAT},
      {xgboost, "binary:logistic", "my\\u001bown", COMPUTE_ERROR_FORMAT},
      {xgboost, "gbtree", "gblinear", COMPUTE_ERROR_UNSUPPORTED},
      {xgboost, "\"size_leaf_vector\":\"1\"", "\"size_leaf_vector\":\"3\"",
       COMPUTE_ERROR_UNSUPPORTED},
      {lightgbm, "right_child=1", "right_child=0", COMPUTE_ERROR_FORMAT},
      {lightgbm, "left_child=-1 -2", "left_child=-1 -4", COMPUTE_ERROR_FORMAT},
      {lightgbm, "left_child=-1 -2", "left_child=-1 -1", COMPUTE_ERROR_FORMAT},
      {lightgbm, "num_leaves=3", "num_leaves=2147483646", COMPUTE_ERROR_FORMAT},
      {lightgbm, "num_leaves=3", "num_leaves=0", COMPUTE_ERROR_FORMAT},
      {lightgbm, "num_tree_per_iteration=1", "num_tree_per_iteration=2", COMPUTE_ERROR_FORMAT},
      {lightgbm, "max_feature_idx=1", "max_feature_idx=0", COMPUTE_ERROR_FORMAT},
      {lightgbm, "threshold=0.5", "threshold=nan", COMPUTE_ERROR_FORMAT},
      {lightgbm, "threshold=0\n", "threshold=1\n", COMPUTE_ERROR_FORMAT},
      {lightgbm, "cat_boundaries=0 2", "cat_boundaries=0 3", COMPUTE_ERROR_FORMAT},
      {lightgbm, "cat_threshold=22", "cat_threshold=-1", COMPUTE_ERROR_FORMAT},
      {lightgbm, "end of trees", "", COMPUTE_ERROR_FORMAT},
      {lightgbm, "is_linear=0", "is_linear=1", COMPUTE_ERROR_UNSUPPORTED},
      {lightgbm, "tree\n", "trees\n", COMPUTE_ERROR_FORMAT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = replaced(cases[i].text, cases[i].old, cases[i].new);
    compute_tree_model *model = (compute_tree_model *)text;
    const compute_status status =
        compute_tree_model_load_memory(test_context, text, strlen(text), &model);
    if (status != cases[i].status || model)
      fail_msg("%s: status %d, %s", cases[i].new, (int)status, compute_error_message(test_context));
    free(text);
  }
}

static void calls_are_checked(void **state) {
  (void)state;
  compute_tree_model *model = NULL;
  compute_tree_model_info info;
  assert_int_equal(compute_tree_model_load(test_context, NULL, &model), COMPUTE_ERROR_NULL_POINTER);
  assert_int_equal(compute_tree_model_load(test_context, "/", NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_int_equal(compute_tree_model_load(test_context, TEST_SCRATCH_DIR "/none", &model),
                   COMPUTE_ERROR_FILE);
  assert_int_equal(compute_tree_model_load(test_context, "/", &model), COMPUTE_ERROR_FILE);
  assert_int_equal(compute_tree_model_load_memory(test_context, "", 0, &model),
                   COMPUTE_ERROR_FORMAT);
  assert_int_equal(compute_tree_model_describe(NULL, &info), COMPUTE_ERROR_NULL_POINTER);
  compute_tree_model_release(NULL);
  char *text = replaced(xgboost, "binary:logistic", "my:own");
  model = load(text, strlen(text));
  free(text);
  static const struct {
    int64_t features;
    bool sums;
    compute_status status;
  } cases[] = {
      {3, true, COMPUTE_ERROR_SHAPE}, {2, false, COMPUTE_ERROR_UNSUPPORTED}, {2, true, COMPUTE_OK}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    compute_graph *g = compute_graph_create(test_context);
    const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(4, cases[i].features));
    compute_tree_model_record(g, x, model, cases[i].sums);
    assert_int_equal(compute_graph_status(g), cases[i].status);
    compute_graph_release(g);
  }
  compute_tree_model_release(model);
}

/* ---- Mutants --------------------------------------------------------------------------------- */

static size_t draw(test_random *random, size_t count) {
  return (size_t)test_random_uniform(random, 0, (double)count - 1e-9);
}

/* Changes bytes, removes or repeats a part, or cuts the end off. */
static size_t mutate(unsigned char *data, size_t count, size_t most, test_random *random) {
  static const char often[] = "0123456789-.,[]{}\"\n =$#dDiUIlLSTFZe";
  for (size_t n = 1 + draw(random, 3); n > 0 && count > 8; n--) {
    const size_t at = draw(random, count),
                 length = 1 + draw(random, count - at < 40 ? count - at : 40);
    switch (draw(random, 5)) {
    case 0: data[at] = (unsigned char)often[draw(random, sizeof often - 1)]; break;
    case 1: data[at] = (unsigned char)draw(random, 256); break;
    case 2:
      memmove(data + at, data + at + length, count - at - length);
      count -= length;
      break;
    case 3:
      if (count + length > most) break;
      memmove(data + at + length, data + at, count - at);
      count += length;
      break;
    default:
      if (draw(random, 10) == 0) count = at + 1;
    }
  }
  return count;
}

/* Every mutant is loaded or refused; one that is loaded is recorded or refused. */
static void mutants_do_no_harm(void **state) {
  (void)state;
  enum { COUNT = 30000, MOST = 8192 };
  const bytes binary = to_binary(xgboost);
  const unsigned char *const samples[] = {(const unsigned char *)xgboost, binary.data,
                                          (const unsigned char *)lightgbm};
  const size_t counts[] = {strlen(xgboost), binary.count, strlen(lightgbm)};
  test_random random = {.state = 43};
  int64_t loaded[3] = {0}, refused[3] = {0};
  for (int i = 0; i < COUNT; i++) {
    unsigned char data[MOST];
    memcpy(data, samples[i % 3], counts[i % 3]);
    const size_t count = mutate(data, counts[i % 3], sizeof data, &random);
    compute_tree_model *model = NULL;
    compute_tree_model_info info;
    const compute_status status = compute_tree_model_load_memory(test_context, data, count, &model);
    assert_true((status == COMPUTE_OK) == (model != NULL));
    assert_true(!status || status == COMPUTE_ERROR_FORMAT || status == COMPUTE_ERROR_UNSUPPORTED);
    ++*(status ? &refused[i % 3] : &loaded[i % 3]);
    if (!model) continue;
    assert_ok(compute_tree_model_describe(model, &info));
    compute_graph *g = compute_graph_create(test_context);
    const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(2, info.features));
    compute_tree_model_record(g, x, model, i % 2 == 0);
    assert_true(!compute_graph_status(g) || compute_graph_status(g) == COMPUTE_ERROR_UNSUPPORTED);
    compute_graph_release(g);
    compute_tree_model_release(model);
  }
  for (int k = 0; k < 3; k++) assert_true(loaded[k] > 100 && refused[k] > 100);
}

/* Without a context: the allocator cannot change while one is open. */
static void every_allocation_may_fail(void **state) {
  (void)state;
  const char *const samples[] = {xgboost, lightgbm};
  for (int i = 0; i < 2; i++) {
    bool failed = true;
    int64_t nth = 1;
    failing_allocator_install();
    for (; failed; nth++) {
      compute_tree_model *model = NULL;
      failing_allocator_arm(nth, false);
      const compute_status status =
          compute_tree_model_load_memory(NULL, samples[i], strlen(samples[i]), &model);
      failed = failing_allocator_failures() > 0;
      failing_allocator_arm(0, false);
      assert_int_equal(status, failed ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_OK);
      compute_tree_model_release(model);
    }
    assert_true(nth > 10);
    assert_int_equal(failing_allocator_remove(), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(questions_of_xgboost),
      cmocka_unit_test(questions_of_lightgbm),
      cmocka_unit_test(xgboost_rounds_features),
      cmocka_unit_test(base_scores_at_the_ends_are_finite),
      cmocka_unit_test(damaged_files_are_refused),
      cmocka_unit_test(calls_are_checked),
      cmocka_unit_test(mutants_do_no_harm),
  };
  const struct CMUnitTest alone[] = {cmocka_unit_test(every_allocation_may_fail)};
  const int failures = cmocka_run_group_tests(alone, NULL, NULL);
  return failures + cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
