/* SPDX-License-Identifier: MIT */
/* Operators of ai.onnx.ml: their numbers, labels that are texts, damaged files. */
#include <math.h>
#include <time.h>

#include "compute/compute.h"
#include "model/classical_cases.h"
#include "model/message_writer.h"

static const float features[4][3] = {{1, 2, 3}, {-1, 0.5f, 0}, {0.25f, -2, 4}, {3, -0.5f, -1}};

/* ---- Files ----------------------------------------------------------------------------------- */

static void put_list(proto *attribute, char kind, const char *values) {
  static const char kinds[] = "fisFIS";
  static const int types[] = {6, 7, 8, 1, 2, 3};
  static const uint32_t fields[] = {7, 8, 9, 2, 3, 4};
  const size_t k = (size_t)(strchr(kinds, kind) - kinds);
  for (const char *at = values; at;) {
    const size_t length = strcspn(at, ",");
    if (kind == 'f' || kind == 'F')
      put_float(attribute, fields[k], strtof(at, NULL));
    else if (kind == 'i' || kind == 'I')
      put_integer(attribute, fields[k], strtoll(at, NULL, 10));
    else
      put_bytes(attribute, fields[k], at, length);
    at = at[length] ? at + length + 1 : NULL;
  }
  put_integer(attribute, 20, types[k]);
}

/* A vector as the attribute. Kinds: D float32, L int64, B uint8. */
static void put_tensor(proto *attribute, char kind, const char *values) {
  proto data = {0};
  int64_t count = 0;
  for (const char *at = values; at; count++) {
    const float real = strtof(at, NULL);
    const int64_t integer = strtoll(at, NULL, 10);
    const uint8_t byte = (uint8_t)integer;
    if (kind == 'D')
      put_raw(&data, &real, sizeof real);
    else if (kind == 'L')
      put_raw(&data, &integer, sizeof integer);
    else
      put_raw(&data, &byte, sizeof byte);
    at = strchr(at, ',');
    if (at) at++;
  }
  proto tensor = tensor_message("", kind == 'D' ? 1 : kind == 'L' ? 7 : 2, 1, &count);
  put_message(&tensor, 9, data);
  put_message(attribute, 5, tensor);
  put_integer(attribute, 20, 4);
}

static void put_attributes(proto *node, const char *attributes) {
  char text[2048];
  assert_true(strlen(attributes) < sizeof text);
  strcpy(text, attributes);
  for (char *at = text, *end; *at; at = end) {
    end = at + strcspn(at, ";");
    if (*end) *end++ = 0;
    while (*end == ' ') end++;
    char *value = strchr(at, '=');
    assert_non_null(value);
    *value = 0;
    proto attribute = {0};
    put_text(&attribute, 1, at);
    (strchr("DLB", value[1]) ? put_tensor : put_list)(&attribute, value[1], value + 3);
    put_message(node, NODE_ATTRIBUTE, attribute);
  }
}

static proto file_of(proto graph) {
  proto model = model_message(graph);
  put_message(&model, 8, opset_message("ai.onnx.ml", 3));
  return model;
}

static proto node_of(const char *type, const char *inputs, const char *outputs,
                     const char *attributes) {
  proto node = node_message("node", type, inputs, outputs);
  put_text(&node, 7, "ai.onnx.ml");
  put_attributes(&node, attributes);
  return node;
}

static void *loaded; /* the file of the model, which refers to its tensors */

static compute_model *load(proto message) {
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
  loaded = message.data;
  return model;
}

static void unload(compute_model *model) {
  compute_model_release(model);
  free(loaded);
  loaded = NULL;
}

static compute_tensor *matrix(const float *data, int64_t rows) {
  compute_tensor *x = NULL;
  assert_ok(compute_tensor_from_host(compute_default_device(test_context), COMPUTE_F32,
                                     COMPUTE_SHAPE(rows, 3), data, &x));
  return x;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void compare(const classical_case *c, const compute_tensor *tensor, const double *expected,
                    int64_t count) {
  compute_tensor *wide = NULL;
  double actual[64];
  assert_ok(compute_tensor_cast(tensor, COMPUTE_F64, &wide));
  if (compute_tensor_count(wide) != count)
    fail_msg("%s, %s: %lld elements", c->type, c->attributes,
             (long long)compute_tensor_count(wide));
  assert_ok(compute_tensor_read(wide, actual, (size_t)count * sizeof *actual));
  for (int64_t i = 0; i < count; i++)
    if (actual[i] != expected[i] &&
        (isinf(expected[i]) || !(fabs(actual[i] - expected[i]) <= 2e-6 * (1 + fabs(expected[i])))))
      fail_msg("%s, %s: element %d is %.9g, not %.9g", c->type, c->attributes, (int)i, actual[i],
               expected[i]);
  compute_tensor_release(wide);
}

static void operators_give_the_numbers_of_onnx_runtime(void **state) {
  (void)state;
  compute_tensor *x = matrix(&features[0][0], 4);
  for (size_t i = 0; i < sizeof classical_cases / sizeof *classical_cases; i++) {
    const classical_case *c = &classical_cases[i];
    const char *outputs = c->z_count ? "y,z" : "y";
    proto graph = graph_message("x", outputs);
    put_message(&graph, GRAPH_NODE, node_of(c->type, "x", outputs, c->attributes));
    compute_model *model = load(file_of(graph));
    compute_model_binding in = {"x", x}, out[2] = {{"y", NULL}, {"z", NULL}};
    const compute_status status = compute_model_run(model, &in, 1, out, c->z_count ? 2 : 1);
    if (status) fail_msg("%s: %s", c->attributes, compute_error_message(test_context));
    compare(c, out[0].tensor, c->y, c->y_count);
    if (c->z_count) compare(c, out[1].tensor, c->z, c->z_count);
    compute_tensor_release(out[0].tensor);
    compute_tensor_release(out[1].tensor);
    unload(model);
  }
  compute_tensor_release(x);
}

/* Compares the result of one node with numbers. */
static void check_node(const char *type, const char *attributes, const compute_tensor *x,
                       const double *expected, int64_t count) {
  const classical_case c = {.type = type, .attributes = attributes};
  proto graph = graph_message("x", "y");
  put_message(&graph, GRAPH_NODE, node_of(type, "x", "y", attributes));
  compute_model *model = load(file_of(graph));
  compute_model_binding in = {"x", (compute_tensor *)(uintptr_t)x}, out = {"y", NULL};
  const compute_status status = compute_model_run(model, &in, 1, &out, 1);
  if (status) fail_msg("%s: %s", attributes, compute_error_message(test_context));
  compare(&c, out.tensor, expected, count);
  compute_tensor_release(out.tensor);
  unload(model);
}

static void no_category_holds_for_nan_and_large_numbers(void **state) {
  (void)state;
  static const float numbers[] = {NAN, INFINITY, 1.5f};
  compute_tensor *x = matrix(numbers, 1);
  check_node("OneHotEncoder", "cats_int64s=i 0,9223372036854775807,-9223372036854775808,1", x,
             (const double[]){0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 12);
  compute_tensor_release(x);
}

/* 2^53 + 1 is not a double. */
static void integer_labels_keep_all_digits(void **state) {
  (void)state;
  static const int64_t keys[] = {9007199254740992, 9007199254740993, 3};
  static const char *const tables[] = {
      "keys_tensor=L 9007199254740992,9007199254740993; values_tensor=L 10,20",
      "keys_int64s=i 9007199254740992,9007199254740993; values_int64s=i 10,20",
      "keys_tensor=L 9007199254740992,9007199254740993; values_int64s=i 10,20; "
      "default_tensor=L -1",
      "keys_int64s=i 9007199254740992,9007199254740993; values_tensor=L 10,20; "
      "default_int64=I -1",
  };
  compute_tensor *x = NULL;
  assert_ok(compute_tensor_from_host(compute_default_device(test_context), COMPUTE_I64,
                                     COMPUTE_SHAPE(3), keys, &x));
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    check_node("LabelEncoder", tables[i], x, (const double[]){10, 20, -1}, 3);
  check_node("LabelEncoder", "keys_tensor=L 3; values_tensor=L 4; default_int64=I -5", x,
             (const double[]){-5, -5, 4}, 3);
  check_node("LabelEncoder", "keys_tensor=L 3; values_tensor=D 4; default_float=F -0.5", x,
             (const double[]){-0.5, -0.5, 4}, 3);
  proto graph = graph_message("x", "y");
  put_message(&graph, GRAPH_NODE,
              node_of("LabelEncoder", "x", "y",
                      "keys_tensor=L 3; values_tensor=L 9007199254740993; "
                      "default_tensor=L 9223372036854775807"));
  compute_model *model = load(file_of(graph));
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  int64_t values[3];
  assert_ok(compute_model_run(model, &in, 1, &out, 1));
  assert_ok(compute_tensor_read(out.tensor, values, sizeof values));
  assert_true(values[0] == INT64_MAX && values[1] == INT64_MAX);
  assert_true(values[2] == 9007199254740993);
  compute_tensor_release(out.tensor);
  compute_tensor_release(x);
  unload(model);
}

/* One support vector, and very many classes: the file is small, and so must be the tables. */
static void machines_of_many_classes_need_little_memory(void **state) {
  (void)state;
  enum { CLASSES = 1500, PAIRS = CLASSES * (CLASSES - 1) / 2 };
  proto node = node_of("SVMClassifier", "x", "y", "support_vectors=f 1,1,1");
  proto groups = {0}, labels = {0}, coefficients = {0}, rho = {0};
  for (int i = 0; i < CLASSES; i++) {
    put_integer(&groups, 8, i == 0);
    put_integer(&labels, 8, i + 7);
    if (i > 0) put_float(&coefficients, 7, 1);
  }
  for (int i = 0; i < PAIRS; i++) put_float(&rho, 7, 0);
  static const char *const names[] = {"vectors_per_class", "classlabels_ints", "coefficients",
                                      "rho"};
  proto lists[] = {groups, labels, coefficients, rho};
  for (int i = 0; i < 4; i++) {
    put_text(&lists[i], 1, names[i]);
    put_integer(&lists[i], 20, i < 2 ? 7 : 6);
    put_message(&node, NODE_ATTRIBUTE, lists[i]);
  }
  proto graph = graph_message("x", "y");
  put_message(&graph, GRAPH_NODE, node);
  compute_model *model = load(file_of(graph));
  compute_tensor *x = matrix(&features[0][0], 4);
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  int64_t y[4];
  assert_ok(compute_model_run(model, &in, 1, &out, 1));
  assert_ok(compute_tensor_read(out.tensor, y, sizeof y));
  /* Row 1 has a negative sum: class 0 loses, and the last class wins all its pairs. */
  assert_true(y[0] == 7 && y[1] == CLASSES + 6 && y[2] == 7 && y[3] == 7);
  compute_tensor_release(out.tensor);
  compute_tensor_release(x);
  unload(model);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static void check_labels(const compute_model *model, size_t output, const char *const *texts,
                         size_t count) {
  assert_int_equal(compute_model_label_count(model, output), count);
  const char *text = NULL;
  int64_t number = -1;
  for (size_t i = 0; i < count; i++) {
    assert_ok(compute_model_label_at(model, output, i, &text, &number));
    assert_string_equal(text, texts[i]);
    assert_int_equal(number, i);
  }
  assert_int_equal(compute_model_label_at(model, output, count, &text, &number),
                   COMPUTE_ERROR_INVALID_ARGUMENT);
}

/* A classifier with texts, its label behind a Reshape, and the map of its scores. */
static void labels_that_are_texts_have_a_list(void **state) {
  (void)state;
  static const char *const texts[] = {"cat", "dog", "emu"};
  proto graph = graph_message("x", "label,map,other");
  proto reshape = node_message("reshape", "Reshape", "y,shape", "label");
  const int64_t shape[] = {-1, 1};
  put_message(&graph, GRAPH_INITIALIZER, integers_message("shape", shape, 2));
  put_message(&graph, GRAPH_NODE,
              node_of("LinearClassifier", "x", "y,z",
                      "coefficients=f 1,0,1,0,1,0,-1,1,0; intercepts=f 0.5,0,1; "
                      "classlabels_strings=s cat,dog,emu"));
  put_message(&graph, GRAPH_NODE, reshape);
  put_message(&graph, GRAPH_NODE,
              node_of("ZipMap", "z", "map", "classlabels_strings=s cat,dog,emu"));
  put_message(&graph, GRAPH_NODE, node_of("Scaler", "x", "other", "scale=f 2"));
  compute_model *model = load(file_of(graph));
  check_labels(model, 0, texts, 3);
  check_labels(model, 1, texts, 3);
  check_labels(model, 2, NULL, 0);
  check_labels(model, 3, NULL, 0);
  compute_tensor *x = matrix(&features[0][0], 4);
  compute_model_binding in = {"x", x}, out[2] = {{"label", NULL}, {"map", NULL}};
  assert_ok(compute_model_run(model, &in, 1, out, 2));
  int64_t labels[4];
  float scores[4][3];
  assert_ok(compute_tensor_read(out[0].tensor, labels, sizeof labels));
  assert_ok(compute_tensor_read(out[1].tensor, scores, sizeof scores));
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 3; k++) assert_true(scores[i][labels[i]] >= scores[i][k]);
  compute_tensor_release(out[0].tensor);
  compute_tensor_release(out[1].tensor);
  compute_tensor_release(x);
  unload(model);
}

/* Two classifiers with the labels y and other, and one node more. table and column are i64. */
static compute_model *model_with_labels(const char *type, const char *domain, const char *inputs,
                                        const char *attributes) {
  static const int64_t table[] = {1, 0, 2, 3};
  static const int64_t column[] = {4, 1};
  static const char classifier[] = "coefficients=f 1,0,1,0,1,0,-1,1,0; intercepts=f 0.5,0,1; "
                                   "classlabels_strings=s ";
  char first[256], second[256];
  snprintf(first, sizeof first, "%scat,dog,emu", classifier);
  snprintf(second, sizeof second, "%semu,dog,cat", classifier);
  proto graph = graph_message("x", "result");
  put_message(&graph, GRAPH_INITIALIZER, integers_message("table", table, 4));
  put_message(&graph, GRAPH_INITIALIZER, integers_message("column", column, 2));
  put_message(&graph, GRAPH_NODE, node_of("LinearClassifier", "x", "y,z", first));
  put_message(&graph, GRAPH_NODE, node_of("LinearClassifier", "x", "other,w", second));
  proto node = node_message("node", type, inputs, "result");
  put_text(&node, 7, domain);
  if (*attributes) put_attributes(&node, attributes);
  put_message(&graph, GRAPH_NODE, node);
  return load(file_of(graph));
}

static void labels_that_are_texts_are_not_numbers(void **state) {
  (void)state;
  static const char ml[] = "ai.onnx.ml";
  static const char *const moves[][3] = {{"Identity", "y", ""},
                                         {"Reshape", "y,column", ""},
                                         {"Expand", "y,column", ""},
                                         {"Gather", "y,table", ""},
                                         {"Transpose", "y", ""}};
  static const char *const others[][4] = {
      {"Cast", "y", "to=I 7", ""},
      {"Equal", "y,other", "", ""},
      {"Equal", "y,table", "", ""},
      {"Concat", "y,other", "axis=I 0", ""},
      {"Add", "y,table", "", ""},
      {"Gather", "table,y", "axis=I 0", ""},
      {"Unique", "y", "", ""},
      {"SequenceConstruct", "y", "", ""},
      {"OneHotEncoder", "y", "cats_int64s=i 0,1,2", ml},
      {"LabelEncoder", "y", "keys_int64s=i 0,1,2; values_int64s=i 4,5,6", ml},
      {"ArrayFeatureExtractor", "table,y", "", ml},
  };
  static const char *const texts[] = {"cat", "dog", "emu"};
  compute_tensor *x = matrix(&features[0][0], 4);
  compute_model_binding in = {"x", x};
  for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
    compute_model_binding out = {"result", NULL};
    compute_model *model = model_with_labels(moves[i][0], "", moves[i][1], moves[i][2]);
    check_labels(model, 0, texts, 3);
    const compute_status status = compute_model_run(model, &in, 1, &out, 1);
    if (status) fail_msg("%s: %s", moves[i][0], compute_error_message(test_context));
    compute_tensor_release(out.tensor);
    unload(model);
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    compute_model_binding out = {"result", NULL};
    compute_model *model =
        model_with_labels(others[i][0], others[i][3], others[i][1], others[i][2]);
    if (compute_model_run(model, &in, 1, &out, 1) != COMPUTE_ERROR_UNSUPPORTED)
      fail_msg("%s of labels", others[i][0]);
    unload(model);
  }
  compute_tensor_release(x);
}

/* Labels in a branch would lose their list. */
static void labels_do_not_leave_a_branch(void **state) {
  (void)state;
  static const uint8_t yes = 1;
  static const int64_t none = 1;
  proto condition = tensor_message("condition", 9, 1, &none);
  put_bytes(&condition, 9, &yes, 1);
  proto node = node_message("if", "If", "condition", "result");
  for (int i = 0; i < 2; i++) {
    proto branch = graph_message(NULL, i ? "a" : "b");
    put_message(&branch, GRAPH_NODE,
                node_of("LinearClassifier", "x", i ? "a,c" : "b,d",
                        "coefficients=f 1,0,1,0,1,0; classlabels_strings=s cat,dog"));
    put_graph_attribute(&node, i ? "then_branch" : "else_branch", branch);
  }
  proto graph = graph_message("x", "result");
  put_message(&graph, GRAPH_INITIALIZER, condition);
  put_message(&graph, GRAPH_NODE, node);
  compute_model *model = load(file_of(graph));
  compute_tensor *x = matrix(&features[0][0], 4);
  compute_model_binding in = {"x", x}, out = {"result", NULL};
  assert_int_equal(compute_model_run(model, &in, 1, &out, 1), COMPUTE_ERROR_UNSUPPORTED);
  assert_non_null(strstr(compute_error_message(test_context), "labels that are texts"));
  compute_tensor_release(x);
  unload(model);
}

/* The search for one text must not walk all keys. Equal keys: the first counts. */
static void many_texts_are_found_quickly(void **state) {
  (void)state;
  enum { COUNT = 50000 };
  const int64_t count = COUNT;
  proto node = node_of("LabelEncoder", "texts", "y", "default_int64=I -9");
  proto keys = {0}, values = {0}, texts = tensor_message("texts", 8, 1, &count);
  put_text(&keys, 1, "keys_strings");
  put_text(&values, 1, "values_int64s");
  for (int i = 0; i < COUNT; i++) {
    char name[32];
    snprintf(name, sizeof name, "key %06d", COUNT - i / 2);
    put_text(&keys, 9, name);
    put_integer(&values, 8, i);
    snprintf(name, sizeof name, "key %06d%s", COUNT - i / 2, i % 2 ? "?" : "");
    put_text(&texts, 6, name);
  }
  put_integer(&keys, 20, 8);
  put_integer(&values, 20, 7);
  put_message(&node, NODE_ATTRIBUTE, keys);
  put_message(&node, NODE_ATTRIBUTE, values);
  proto graph = graph_message(NULL, "y");
  put_message(&graph, GRAPH_INITIALIZER, texts);
  put_message(&graph, GRAPH_NODE, node);
  compute_model *model = load(file_of(graph));
  compute_model_binding out = {"y", NULL};
  const clock_t start = clock();
  assert_ok(compute_model_run(model, NULL, 0, &out, 1));
  const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  int64_t *y = malloc(COUNT * sizeof *y);
  assert_non_null(y);
  assert_ok(compute_tensor_read(out.tensor, y, COUNT * sizeof *y));
  for (int i = 0; i < COUNT; i++) assert_int_equal(y[i], i % 2 ? -9 : i);
  assert_true(seconds < 2); /* of the processor; a walk takes several times as long */
  free(y);
  compute_tensor_release(out.tensor);
  unload(model);
}

/* ---- Hostile files --------------------------------------------------------------------------- */

#define STUMP                                                                                      \
  "nodes_treeids=i 0,0,0; nodes_nodeids=i 0,1,2; nodes_featureids=i 0,0,0; "                       \
  "nodes_values=f 0,0,0; target_treeids=i 0,0; target_nodeids=i 1,2; target_weights=f 1,2; "

/* TreeEnsemble: two nodes, three leaves. */
#define PAIR                                                                                       \
  "nodes_featureids=i 0,1; nodes_splits=D 0,0; nodes_modes=B 0,0; leaf_weights=D 1,2,3; "          \
  "n_targets=I 1; "

static void damaged_models_are_refused(void **state) {
  (void)state;
  static const char *const damaged[][2] = {
      {"TreeEnsembleRegressor",
       "nodes_truenodeids=i 1,0,0; nodes_falsenodeids=i 0,0,0; nodes_modes=s "
       "BRANCH_LEQ,LEAF,LEAF; target_ids=i 0,0; " STUMP},
      {"TreeEnsembleRegressor",
       "nodes_truenodeids=i 0,0,0; nodes_falsenodeids=i 0,0,0; nodes_modes=s "
       "LEAF,LEAF,LEAF; target_ids=i 0,0; " STUMP},
      {"TreeEnsembleRegressor",
       "nodes_truenodeids=i 0,0,0; nodes_falsenodeids=i 0,2,1; nodes_modes=s "
       "LEAF,BRANCH_LEQ,LEAF; target_treeids=i 0; target_nodeids=i 0; target_ids=i 0; "
       "target_weights=f 1; nodes_treeids=i 0,0,0; nodes_nodeids=i 0,1,2; "
       "nodes_featureids=i 0,0,0; nodes_values=f 0,0,0"},
      /* the root is the last node */
      {"TreeEnsembleRegressor",
       "nodes_truenodeids=i 0,0,1; nodes_falsenodeids=i 0,0,0; nodes_modes=s "
       "LEAF,LEAF,BRANCH_LEQ; target_ids=i 0,0; target_treeids=i 0,0; target_nodeids=i 0,1; "
       "target_weights=f 1,2; nodes_treeids=i 0,0,0; nodes_nodeids=i 0,1,2; "
       "nodes_featureids=i 0,0,0; nodes_values=f 0,0,0"},
      /* number 2 is not a node */
      {"TreeEnsemble", "tree_roots=i 0; nodes_truenodeids=i 2,0; nodes_trueleafs=i 0,1; "
                       "nodes_falsenodeids=i 1,1; nodes_falseleafs=i 1,1; "
                       "leaf_targetids=i 0,0,0; " PAIR},
      {"TreeEnsemble", "tree_roots=i 4; nodes_truenodeids=i 1,0; nodes_trueleafs=i 0,1; "
                       "nodes_falsenodeids=i 0,1; nodes_falseleafs=i 1,1; "
                       "leaf_targetids=i 0,0,0; " PAIR},
      /* no node leads to leaf 2 */
      {"TreeEnsemble", "tree_roots=i 0; nodes_truenodeids=i 1,0; nodes_trueleafs=i 0,1; "
                       "nodes_falsenodeids=i 0,1; nodes_falseleafs=i 1,1; "
                       "leaf_targetids=i 0,0,-1; " PAIR},
      {"LinearClassifier", "coefficients=f 1,2,3; classlabels_strings=s a"},
      {"TreeEnsembleRegressor",
       "nodes_truenodeids=i 1,0,0; nodes_falsenodeids=i 1,0,0; nodes_modes=s "
       "BRANCH_LEQ,LEAF,LEAF; target_ids=i 0,0; " STUMP},
      {"TreeEnsembleRegressor",
       "nodes_truenodeids=i 1,0,0; nodes_falsenodeids=i 9,0,0; nodes_modes=s "
       "BRANCH_LEQ,LEAF,LEAF; target_ids=i 0,0; " STUMP},
      {"TreeEnsembleRegressor",
       "nodes_truenodeids=i 1,0,0; nodes_falsenodeids=i 2,0,0; nodes_modes=s "
       "BRANCH_LEQ,LEAF; target_ids=i 0,0; " STUMP},
      {"TreeEnsembleRegressor",
       "nodes_truenodeids=i 1,0,0; nodes_falsenodeids=i 2,0,0; nodes_modes=s "
       "BRANCH_LEQ,LEAF,TWIG; target_ids=i 0,0; " STUMP},
      {"TreeEnsembleRegressor",
       "nodes_truenodeids=i 1,0,0; nodes_falsenodeids=i 2,0,0; nodes_modes=s "
       "BRANCH_LEQ,LEAF,LEAF; target_ids=i 0,1099511627776; " STUMP},
      {"TreeEnsembleRegressor", "n_targets=I 1099511627776; nodes_truenodeids=i 1,0,0; "
                                "nodes_falsenodeids=i 2,0,0; nodes_modes=s BRANCH_LEQ,LEAF,LEAF; "
                                "target_ids=i 0,1; " STUMP},
      {"TreeEnsembleRegressor", "n_targets=I 16777216; nodes_truenodeids=i 1,0,0; "
                                "nodes_falsenodeids=i 2,0,0; nodes_modes=s BRANCH_LEQ,LEAF,LEAF; "
                                "target_ids=i 0,1; base_values=f 1,2; " STUMP},
      {"TreeEnsembleClassifier", "nodes_truenodeids=i 1; class_ids=i 1"},
      {"TreeEnsemble", "tree_roots=i 0,0; nodes_featureids=i 0"},
      {"LinearClassifier", "coefficients=f 1,2; classlabels_ints=i 1,2"},
      {"LinearClassifier", "coefficients=f 1,2,3,4,5,6; classlabels_ints=i 1,2,3"},
      {"LinearRegressor", "coefficients=f 1,2,3; intercepts=f 1,2"},
      {"SVMRegressor",
       "n_supports=I 1099511627776; coefficients=f 1; support_vectors=f 1; rho=f 0"},
      {"SVMClassifier", "vectors_per_class=i 4611686018427387904,4611686018427387904; "
                        "coefficients=f 1; support_vectors=f 1; rho=f 0; classlabels_ints=i 1,2"},
      {"SVMClassifier", "vectors_per_class=i 1,-1; coefficients=f 1; rho=f 0"},
      {"SVMRegressor", "kernel_type=S CUBIC; coefficients=f 1,2,3; rho=f 0; n_supports=I 1; "
                       "support_vectors=f 1,2,3"},
      {"Scaler", "scale=f 1,2"},
      {"Scaler", "scale=i 1,2,3"},
      {"Normalizer", "norm=S L3"},
      {"Imputer", "replaced_value_float=F 0"},
      {"OneHotEncoder", "zeros=I 1"},
      {"OneHotEncoder", "cats_strings=s a,b"},
      {"FeatureVectorizer", "inputdimensions=i 1099511627776"},
      {"FeatureVectorizer", "inputdimensions=i 3,3"},
      {"LabelEncoder", "keys_floats=f 1,2; values_floats=f 1"},
      {"LabelEncoder", "keys_strings=s a,b; values_floats=f 1,2"},
      {"CategoryMapper", "cats_strings=s a,b; cats_int64s=i 1"},
      {"CastMap", "map_form=S DENSE"},
  };
  compute_tensor *x = matrix(&features[0][0], 4);
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
    proto graph = graph_message("x", "y");
    put_message(&graph, GRAPH_NODE, node_of(damaged[i][0], "x", "y", damaged[i][1]));
    proto model_file = model_message(graph);
    put_message(&model_file, 8, opset_message("ai.onnx.ml", 5));
    compute_model *model = load(model_file);
    compute_model_binding in = {"x", x}, out = {"y", NULL};
    if (compute_model_run(model, &in, 1, &out, 1) == COMPUTE_OK)
      fail_msg("%s: %s", damaged[i][0], damaged[i][1]);
    assert_null(out.tensor);
    unload(model);
  }
  compute_tensor_release(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operators_give_the_numbers_of_onnx_runtime),
      cmocka_unit_test(no_category_holds_for_nan_and_large_numbers),
      cmocka_unit_test(integer_labels_keep_all_digits),
      cmocka_unit_test(machines_of_many_classes_need_little_memory),
      cmocka_unit_test(labels_that_are_texts_have_a_list),
      cmocka_unit_test(labels_that_are_texts_are_not_numbers),
      cmocka_unit_test(labels_do_not_leave_a_branch),
      cmocka_unit_test(many_texts_are_found_quickly),
      cmocka_unit_test(damaged_models_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
