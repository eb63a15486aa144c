/* SPDX-License-Identifier: MIT */
/* Operators of ai.onnx.ml: their numbers, labels that are texts, damaged files. */
#include <math.h>

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
    put_list(&attribute, value[1], value + 3);
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

static compute_model *load(proto message) {
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, NULL, &model));
  free(message.data);
  return model;
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
    if (!(fabs(actual[i] - expected[i]) <= 2e-6 * (1 + fabs(expected[i]))))
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
    compute_model_release(model);
  }
  compute_tensor_release(x);
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
  compute_model_release(model);
}

/* ---- Hostile files --------------------------------------------------------------------------- */

#define STUMP                                                                                      \
  "nodes_treeids=i 0,0,0; nodes_nodeids=i 0,1,2; nodes_featureids=i 0,0,0; "                       \
  "nodes_values=f 0,0,0; target_treeids=i 0,0; target_nodeids=i 1,2; target_weights=f 1,2; "

static void damaged_models_are_refused(void **state) {
  (void)state;
  static const char *const damaged[][2] = {
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
    compute_model_release(model);
  }
  compute_tensor_release(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operators_give_the_numbers_of_onnx_runtime),
      cmocka_unit_test(labels_that_are_texts_have_a_list),
      cmocka_unit_test(damaged_models_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
