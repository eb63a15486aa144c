/* SPDX-License-Identifier: MIT */
/* Nodes of ai.onnx.ml, and their results for the features of test_classical.c: ONNX Runtime's 1.32,
 * but ONNX's reference for the linear SVMRegressor and for Normalizer with MAX, and the logistic
 * function for the TreeEnsembleRegressor that asks for it. */
#ifndef MODEL_CLASSICAL_CASES_H
#define MODEL_CLASSICAL_CASES_H

#include <stdint.h>

/* Attributes are "name=kind values", with ';' between them. Kinds: f floats, i integers, s texts;
 * F, I and S one of them. */
typedef struct classical_case {
  const char *type, *attributes;
  double y[36];
  int64_t y_count;
  double z[12];
  int64_t z_count; /* 0: one output */
} classical_case;

/* Two trees; the tests of their three branches. */
#define NODES(a, b, c)                                                                             \
  "nodes_treeids=i 0,0,0,0,0,1,1,1; nodes_nodeids=i 0,1,2,3,4,0,1,2; "                             \
  "nodes_featureids=i 0,0,2,0,0,1,0,0; nodes_truenodeids=i 1,0,3,0,0,1,0,0; "                      \
  "nodes_falsenodeids=i 2,0,4,0,0,2,0,0; nodes_values=f 0.5,0,2,0,0,0,0,0; "                       \
  "nodes_modes=s " a ",LEAF," b ",LEAF,LEAF," c ",LEAF,LEAF; "
#define CLASSES(ids, weights)                                                                      \
  "class_treeids=i 0,0,0,1,1; class_nodeids=i 1,3,4,1,2; class_ids=i " ids                         \
  "; class_weights=f " weights "; "

static const classical_case classical_cases[] = {
    {"Scaler",
     "offset=f 1,0,-1; scale=f 2,0.5,1",
     {0, 1, 4, -4, 0.25, 1, -1.5, -1, 5, 4, -0.25, 0},
     12,
     {0},
     0},
    {"Scaler",
     "offset=f 0.5; scale=f 4",
     {2, 6, 10, -6, 0, -2, -1, -10, 14, 10, -4, -6},
     12,
     {0},
     0},
    {"Normalizer",
     "norm=S L1",
     {0.1666667, 0.3333333, 0.5, -0.6666667, 0.3333333, 0, 0.04, -0.32, 0.64, 0.6666667, -0.1111111,
      -0.2222222},
     12,
     {0},
     0},
    {"Normalizer",
     "norm=S L2",
     {0.2672612, 0.5345225, 0.8017837, -0.8944272, 0.4472136, 0, 0.05581456, -0.4465165, 0.8930329,
      0.9370426, -0.1561738, -0.3123475},
     12,
     {0},
     0},
    {"Normalizer",
     "norm=S MAX",
     {0.3333333, 0.6666667, 1, -1, 0.5, 0, 0.0625, -0.5, 1, 1, -0.1666667, -0.3333333},
     12,
     {0},
     0},
    {"Binarizer", "threshold=F 0.25", {1, 1, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0}, 12, {0}, 0},
    {"Imputer",
     "imputed_value_floats=f 9; replaced_value_float=F -1",
     {1, 2, 3, 9, 0.5, 0, 0.25, -2, 4, 3, -0.5, 9},
     12,
     {0},
     0},
    {"Imputer",
     "imputed_value_floats=f 7,8,9; replaced_value_float=F 0",
     {1, 2, 3, -1, 0.5, 9, 0.25, -2, 4, 3, -0.5, -1},
     12,
     {0},
     0},
    {"FeatureVectorizer",
     "inputdimensions=i 3",
     {1, 2, 3, -1, 0.5, 0, 0.25, -2, 4, 3, -0.5, -1},
     12,
     {0},
     0},
    {"OneHotEncoder",
     "cats_int64s=i 3,-1,0",
     {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1,
      0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0},
     36,
     {0},
     0},
    {"LabelEncoder",
     "keys_floats=f 3,0.5,-1; values_floats=f 10,20,30; default_float=F -5",
     {-5, -5, 10, 30, 20, -5, -5, -5, -5, 10, -5, 30},
     12,
     {0},
     0},
    {"LabelEncoder",
     "keys_floats=f 0,2,2; values_int64s=i 10,20,30",
     {-1, 20, -1, -1, -1, 10, -1, -1, -1, -1, -1, -1},
     12,
     {0},
     0},
    {"LinearRegressor",
     "coefficients=f 1,2,3; intercepts=f 0.5",
     {14.5, 0.5, 8.75, -0.5},
     4,
     {0},
     0},
    {"LinearRegressor",
     "targets=I 2; coefficients=f 1,2,3,-1,0,2; intercepts=f 0.5,-1",
     {14.5, 4, 0.5, 0, 8.75, 6.75, -0.5, -6},
     8,
     {0},
     0},
    {"LinearClassifier",
     "coefficients=f 1,0,1,0,1,0,-1,1,0; intercepts=f 0.5,0,1; classlabels_ints=i 4,5,6; "
     "post_transform=S SOFTMAX",
     {4, 6, 4, 4},
     4,
     {0.8589811, 0.07050946, 0.07050946, 0.04201007, 0.1141952, 0.8437947, 0.9963637, 0.001166622,
      0.002469739, 0.9464992, 0.04712342, 0.006377461},
     12},
    {"LinearClassifier",
     "coefficients=f 1,0,1,0,1,0,-1,1,0; intercepts=f 0.5,0,1; classlabels_ints=i 4,5,6; "
     "post_transform=S SOFTMAX_ZERO",
     {4, 6, 4, 4},
     4,
     {0.8589811, 0.07050946, 0.07050946, 0.04201007, 0.1141952, 0.8437947, 0.9963637, 0.001166622,
      0.002469739, 0.9464992, 0.04712342, 0.006377461},
     12},
    {"LinearClassifier",
     "coefficients=f 1,-1,0.5; intercepts=f -0.25; classlabels_ints=i 4,5; "
     "post_transform=S LOGISTIC",
     {5, 4, 5, 5},
     4,
     {0.4378235, 0.5621765, 0.8519527, 0.1480473, 0.01798624, 0.9820138, 0.06008667, 0.9399133},
     8},
    {"LinearClassifier",
     "coefficients=f 1,-1,0.5,-1,1,-0.5; intercepts=f -0.25,0.25; classlabels_ints=i 4,5; "
     "post_transform=S LOGISTIC; multi_class=I 1",
     {4, 5, 4, 4},
     4,
     {0.5621765, 0.4378235, 0.1480472, 0.8519528, 0.9820138, 0.01798624, 0.9399134, 0.06008664},
     8},
    {"SVMRegressor",
     "kernel_type=S RBF; kernel_params=f 0.5,0,3; n_supports=I 2; "
     "support_vectors=f 1,2,3,0,0,1; coefficients=f 2,-1; rho=f 0.25",
     {2.238891, -0.07367626, 0.24885, 0.2486772},
     4,
     {0},
     0},
    {"SVMRegressor",
     "kernel_type=S POLY; kernel_params=f 0.5,1,3; n_supports=I 2; "
     "support_vectors=f 1,2,3,0,0,1; coefficients=f 2,-1; rho=f 0.25; one_class=I 1",
     {1, 1, 1, 1},
     4,
     {0},
     0},
    {"SVMRegressor",
     "kernel_type=S LINEAR; coefficients=f 2,-1,0.5; rho=f 0.25",
     {1.75, -2.25, 4.75, 6.25},
     4,
     {0},
     0},
    {"SVMClassifier",
     "kernel_type=S SIGMOID; kernel_params=f 0.1,0.2,3; vectors_per_class=i 1,2; "
     "support_vectors=f 1,2,3,0,0,1,-1,0,2; coefficients=f 2,-1,-1; rho=f 0.25; "
     "classlabels_ints=i 3,8",
     {3, 3, 3, 3},
     4,
     {-1.026852, 1.026852, -0.1560627, 0.1560627, -0.5058475, 0.5058475, -0.6409806, 0.6409806},
     8},
    {"SVMClassifier",
     "kernel_type=S RBF; kernel_params=f 0.3,0,3; vectors_per_class=i 1,2,1; "
     "support_vectors=f 1,2,3,0,0,1,-1,0,2,3,0,0; "
     "coefficients=f 2,-1,-1,1,1.5,-0.5,-0.25,-2; rho=f 0.25,-0.1,0.2; "
     "classlabels_ints=i 3,8,9",
     {3, 9, 3, 3},
     4,
     {2.115589, 1.406097, 0.1374024, -0.5179748, -0.07690546, -0.1397061, 0.1836643, -0.09201853,
      0.1753618, 0.2314678, 0.5878595, -1.184097},
     12},
    {"SVMClassifier",
     "kernel_type=S RBF; kernel_params=f 0.3,0,3; vectors_per_class=i 1,2,1; "
     "support_vectors=f 1,2,3,0,0,1,-1,0,2,3,0,0; "
     "coefficients=f 2,-1,-1,1,1.5,-0.5,-0.25,-2; rho=f 0.25,-0.1,0.2; prob_a=f -1.5,-2,-1; "
     "prob_b=f 0.1,-0.2,0; classlabels_ints=i 3,8,9",
     {3, 9, 3, 3},
     4,
     {0.9123864, 0.04423371, 0.0433799, 0.2463122, 0.3982653, 0.3554224, 0.3534521, 0.3333867,
      0.3131612, 0.5394036, 0.2292469, 0.2313493},
     12},
    {"TreeEnsembleRegressor",
     NODES("BRANCH_LEQ", "BRANCH_LT",
           "BRANCH_GTE") "n_targets=I 1; target_treeids=i 0,0,0,1,1; target_nodeids=i 1,3,4,1,2; "
                         "target_ids=i 0,0,0,0,0; target_weights=f 1,-2,4,0.5,0.25",
     {4.5, 1.5, 1.25, -1.75},
     4,
     {0},
     0},
    {"TreeEnsembleRegressor",
     NODES(
         "BRANCH_GT", "BRANCH_EQ",
         "BRANCH_NEQ") "n_targets=I 1; target_treeids=i 0,0,0,1,1; target_nodeids=i 1,3,4,1,2; "
                       "target_ids=i 0,0,0,0,0; target_weights=f 1,-2,4,0.5,0.25; base_values=f 10",
     {11.5, 14.5, 14.5, 11.5},
     4,
     {0},
     0},
    {"TreeEnsembleRegressor",
     NODES(
         "BRANCH_LEQ", "BRANCH_LT",
         "BRANCH_GTE") "n_targets=I 2; target_treeids=i 0,0,0,1,1,1; target_nodeids=i 1,3,4,1,2,2; "
                       "target_ids=i 0,1,0,1,0,1; target_weights=f 1,-2,4,0.5,0.25,3; "
                       "aggregate_function=S AVERAGE",
     {2, 0.25, 0.5, 0.25, 0.625, 1.5, 0.125, 0.5},
     8,
     {0},
     0},
    {"TreeEnsembleRegressor",
     NODES(
         "BRANCH_LEQ", "BRANCH_LT",
         "BRANCH_GTE") "n_targets=I 2; target_treeids=i 0,0,0,1,1,1; target_nodeids=i 1,3,4,1,2,2; "
                       "target_ids=i 0,1,0,1,0,1; target_weights=f 1,-2,4,0.5,0.25,3; "
                       "aggregate_function=S MIN; base_values=f 1,2",
     {5, 2.5, 2, 2.5, 1.25, 5, 1.25, 0},
     8,
     {0},
     0},
    {"TreeEnsembleRegressor",
     NODES(
         "BRANCH_LEQ", "BRANCH_LT",
         "BRANCH_GTE") "n_targets=I 2; target_treeids=i 0,0,0,1,1,1; target_nodeids=i 1,3,4,1,2,2; "
                       "target_ids=i 0,1,0,1,0,1; target_weights=f 1,-2,4,0.5,0.25,3; "
                       "aggregate_function=S MAX; post_transform=S SOFTMAX",
     {0.9706877, 0.02931223, 0.6224594, 0.3775407, 0.1192029, 0.880797, 0.06008665, 0.9399133},
     8,
     {0},
     0},
    {"TreeEnsembleRegressor",
     NODES("BRANCH_LEQ", "BRANCH_LT",
           "BRANCH_GTE") "n_targets=I 1; target_treeids=i 0,0,0,1,1; target_nodeids=i 1,3,4,1,2; "
                         "target_ids=i 0,0,0,0,0; target_weights=f 1,-2,4,0.5,0.25; "
                         "post_transform=S LOGISTIC; "
                         "nodes_missing_value_tracks_true=i 1,0,1,0,0,1,0,0",
     {0.9890131, 0.8175745, 0.7772999, 0.1480472},
     4,
     {0},
     0},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("0,1,2,1,0",
                 "0.5,0.25,0.75,-0.5,0.125") "classlabels_int64s=i 5,7,9; post_transform=S NONE",
     {9, 5, 5, 7},
     4,
     {0, -0.5, 0.75, 0.5, -0.5, 0, 0.625, 0, 0, 0.125, 0.25, 0},
     12},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("0,0,0,0,0",
                 "0.5,-0.25,0.75,-0.5,0.125") "classlabels_int64s=i 5,7; post_transform=S NONE",
     {7, 5, 7, 5},
     4,
     {-0.25, 0.25, -0, 0, -0.625, 0.625, 0.125, -0.125},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("0,0,0,0,0",
                 "0.25,0.125,0.5,0.25,0.125") "classlabels_int64s=i 5,7; post_transform=S NONE",
     {7, 5, 5, 5},
     4,
     {0.25, 0.75, 0.5, 0.5, 0.625, 0.375, 0.75, 0.25},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("1,1,1,1,1",
                 "0.5,-0.25,0.75,-0.5,0.125") "classlabels_int64s=i 5,7; post_transform=S NONE",
     {7, 5, 7, 5},
     4,
     {0, 0.25, 0, 0, 0, 0.625, 0, -0.125},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("1,1,1,1,1",
                 "0.25,0.125,0.5,0.25,0.125") "classlabels_int64s=i 5,7; post_transform=S NONE",
     {7, 5, 5, 5},
     4,
     {0, 0.75, 0, 0.5, 0, 0.375, 0, 0.25},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE") CLASSES(
         "0,1,2,1,0",
         "0.5,0.25,0.75,-0.5,0.125") "classlabels_int64s=i 5,7,9; post_transform=S LOGISTIC",
     {9, 5, 5, 7},
     4,
     {0.5, 0.3775406, 0.6791787, 0.6224594, 0.3775406, 0.5, 0.6513549, 0.5, 0.5, 0.5312094,
      0.5621765, 0.5},
     12},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("0,0,0,0,0",
                 "0.5,-0.25,0.75,-0.5,0.125") "classlabels_int64s=i 5,7; post_transform=S LOGISTIC",
     {7, 5, 7, 5},
     4,
     {0.4378235, 0.5621765, 0.5, 0.5, 0.3486451, 0.6513549, 0.5312094, 0.4687906},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("0,0,0,0,0",
                 "0.25,0.125,0.5,0.25,0.125") "classlabels_int64s=i 5,7; post_transform=S LOGISTIC",
     {7, 5, 5, 5},
     4,
     {0.3208213, 0.6791787, 0.3775406, 0.6224594, 0.4073334, 0.5926666, 0.4378235, 0.5621765},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("1,1,1,1,1",
                 "0.5,-0.25,0.75,-0.5,0.125") "classlabels_int64s=i 5,7; post_transform=S LOGISTIC",
     {7, 5, 7, 5},
     4,
     {0.5, 0.5621765, 0.5, 0.5, 0.5, 0.6513549, 0.5, 0.4687906},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("1,1,1,1,1",
                 "0.25,0.125,0.5,0.25,0.125") "classlabels_int64s=i 5,7; post_transform=S LOGISTIC",
     {7, 5, 5, 5},
     4,
     {0.5, 0.6791787, 0.5, 0.6224594, 0.5, 0.5926666, 0.5, 0.5621765},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("0,1,2,1,0",
                 "0.5,0.25,0.75,-0.5,0.125") "classlabels_int64s=i 5,7,9; post_transform=S SOFTMAX",
     {9, 5, 5, 7},
     4,
     {0.2685623, 0.1628913, 0.5685464, 0.5064804, 0.1863237, 0.3071959, 0.4829698, 0.2585151,
      0.2585151, 0.331604, 0.3757566, 0.2926395},
     12},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("0,0,0,0,0",
                 "0.5,-0.25,0.75,-0.5,0.125") "classlabels_int64s=i 5,7; post_transform=S SOFTMAX",
     {7, 5, 7, 5},
     4,
     {-0.25, 0.25, -0, 0, -0.625, 0.625, 0.125, -0.125},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("0,0,0,0,0",
                 "0.25,0.125,0.5,0.25,0.125") "classlabels_int64s=i 5,7; post_transform=S SOFTMAX",
     {7, 5, 5, 5},
     4,
     {0.25, 0.75, 0.5, 0.5, 0.625, 0.375, 0.75, 0.25},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("1,1,1,1,1",
                 "0.5,-0.25,0.75,-0.5,0.125") "classlabels_int64s=i 5,7; post_transform=S SOFTMAX",
     {7, 5, 7, 5},
     4,
     {0.4378235, 0.5621765, 0.5, 0.5, 0.3486452, 0.6513549, 0.5312094, 0.4687907},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE")
         CLASSES("1,1,1,1,1",
                 "0.25,0.125,0.5,0.25,0.125") "classlabels_int64s=i 5,7; post_transform=S SOFTMAX",
     {7, 5, 5, 5},
     4,
     {0.3208213, 0.6791787, 0.3775407, 0.6224594, 0.4073334, 0.5926666, 0.4378235, 0.5621765},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE") CLASSES(
         "0,1,2,1,0",
         "0.5,0.25,0.75,-0.5,0.125") "classlabels_int64s=i 5,7,9; post_transform=S SOFTMAX_ZERO",
     {9, 5, 5, 7},
     4,
     {0, 0.2227001, 0.7772999, 0.7310586, 0.2689414, 0, 1, 0, 0, 0.4687907, 0.5312094, 0},
     12},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE") CLASSES(
         "0,0,0,0,0",
         "0.5,-0.25,0.75,-0.5,0.125") "classlabels_int64s=i 5,7; post_transform=S SOFTMAX_ZERO",
     {7, 5, 7, 5},
     4,
     {-0.25, 0.25, -0, 0, -0.625, 0.625, 0.125, -0.125},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE") CLASSES(
         "0,0,0,0,0",
         "0.25,0.125,0.5,0.25,0.125") "classlabels_int64s=i 5,7; post_transform=S SOFTMAX_ZERO",
     {7, 5, 5, 5},
     4,
     {0.25, 0.75, 0.5, 0.5, 0.625, 0.375, 0.75, 0.25},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE") CLASSES(
         "1,1,1,1,1",
         "0.25,0.125,0.5,0.25,0.125") "classlabels_int64s=i 5,7; post_transform=S SOFTMAX_ZERO",
     {7, 5, 5, 5},
     4,
     {0, 1, 0, 1, 0, 1, 0, 1},
     8},
    {"TreeEnsembleClassifier",
     NODES("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE") CLASSES(
         "0,0,0,0,0", "0.5,-0.25,0.75,-0.5,0.125") "classlabels_int64s=i 5,7; base_values=f 0.25; "
                                                   "post_transform=S LOGISTIC",
     {7, 7, 7, 7},
     4,
     {0.3775406, 0.6224594, 0.4378235, 0.5621765, 0.294215, 0.705785, 0.4687906, 0.5312094},
     8},
};

#endif
