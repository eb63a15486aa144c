/* SPDX-License-Identifier: MIT */
/* Formulas that files express as several operators become one operation of the graph, in each
 * floating-point dtype. Similar formulas with another meaning stay unchanged. In both cases the
 * values match the file's operators, evaluated here in double precision. */
#include <float.h>
#include <math.h>

#include "compute/compute.h"
#include "model/message_writer.h"
#include "support/harness/values.h"

enum { SIDE = 3, MOST_NAMES = 40, MOST_LENGTH = 16 };

/* ---- The file, as text ---------------------------------------------------------------------- */

/* One node of "Type inputs output; Type inputs output; ...". A type with an axis may end in a
 * digit, its axis; the default is the last axis. */
typedef struct line {
  char type[MOST_LENGTH], inputs[MOST_LENGTH], output[MOST_LENGTH];
  int axis;
} line;

static bool next_line(const char **text, line *l) {
  int length = 0;
  if (sscanf(*text, " %15s %15s %15[^; ]%n", l->type, l->inputs, l->output, &length) != 3)
    return false;
  *text += length + ((*text)[length] == ';');
  char *const last = l->type + strlen(l->type) - 1;
  l->axis = *last == '0' || *last == '1' ? *last - '0' : -1;
  if (l->axis >= 0) *last = 0;
  return true;
}

static const struct {
  const char *name;
  double value;
} numbers[] = {{"half", 0.5},      {"one", 1},         {"two", 2},
               {"root2", M_SQRT2}, {"inv", M_SQRT1_2}, {"k", 0.7978845608028654},
               {"c", 0.044715},    {"third", 3},       {"eps", 0x1p-10},
               {"ten", 10},        {"zero", 0},        {"low", -INFINITY}};
static const double inputs[SIDE * SIDE] = {1, 2, -1, 0.5, 3, -2, 0, -0.25, 1.5};

/* Parameters per column: biases and masks. */
static const struct {
  const char *name;
  double value[SIDE];
} vectors[] = {{"bias", {0.5, -1, 2}},
               {"part", {0, -INFINITY, 0.5}},
               {"gone", {-INFINITY, -INFINITY, -INFINITY}},
               {"above", {INFINITY, 0, -INFINITY}},
               {"lost", {0, NAN, 0}},
               {"least", {-FLT_MAX, -FLT_MAX, -FLT_MAX}}};

/* ---- Reference in double precision ---------------------------------------------------------- */

typedef struct matrix {
  char name[MOST_LENGTH];
  int rows, columns;
  double value[SIDE * SIDE];
} matrix;

typedef struct names {
  matrix all[MOST_NAMES];
  int count;
} names;

static matrix *add_name(names *n, const char *name, int rows, int columns) {
  assert_true(n->count < MOST_NAMES);
  matrix *m = &n->all[n->count++];
  *m = (matrix){.rows = rows, .columns = columns};
  snprintf(m->name, sizeof m->name, "%s", name);
  return m;
}

static const matrix *find_name(const names *n, const char *name, size_t length) {
  for (int i = 0; i < n->count; i++)
    if (strlen(n->all[i].name) == length && !strncmp(n->all[i].name, name, length))
      return &n->all[i];
  fail_msg("no value %s", name);
  return NULL;
}

/* The value as the file stores it. */
static double rounded(compute_dtype dtype, double value) {
  test_values one = test_values_create(dtype, COMPUTE_SHAPE(1));
  test_values_set(&one, 0, value);
  const double result = test_values_get(&one, 0);
  test_values_release(&one);
  return result;
}

static void begin_names(names *n, compute_dtype dtype, const double *x) {
  n->count = 0;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    add_name(n, numbers[i].name, 1, 1)->value[0] = rounded(dtype, numbers[i].value);
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
    matrix *m = add_name(n, vectors[i].name, 1, SIDE);
    for (int k = 0; k < SIDE; k++) m->value[k] = rounded(dtype, vectors[i].value[k]);
  }
  matrix *m = add_name(n, "x", SIDE, SIDE);
  for (int i = 0; i < SIDE * SIDE; i++) m->value[i] = rounded(dtype, x[i]);
}

/* The result of one operator from an exact result; f16 operators compute in f32. */
static double stepped(compute_dtype dtype, double value) {
  return dtype == COMPUTE_F64 ? value : (double)(float)value;
}

static double at(const matrix *m, int row, int column) {
  return m->value[(m->rows > 1 ? row : 0) * m->columns + (m->columns > 1 ? column : 0)];
}

static double unary(const char *type, double x) {
  if (!strcmp(type, "Erf")) return erf(x);
  if (!strcmp(type, "Tanh")) return tanh(x);
  if (!strcmp(type, "Sqrt")) return sqrt(x);
  if (!strcmp(type, "Neg")) return -x;
  if (!strcmp(type, "Exp")) return exp(x);
  assert_string_equal(type, "Sigmoid");
  return 1 / (1 + exp(-x));
}

static double binary(const char *type, double a, double b) {
  if (!strcmp(type, "Add")) return a + b;
  if (!strcmp(type, "Sub")) return a - b;
  if (!strcmp(type, "Mul")) return a * b;
  if (!strcmp(type, "Div")) return a / b;
  if (!strcmp(type, "Equal")) return a == b;
  assert_string_equal(type, "Pow");
  return pow(a, b);
}

static void multiply(const matrix *a, const matrix *b, matrix *y) {
  for (int i = 0; i < y->rows; i++)
    for (int j = 0; j < y->columns; j++)
      for (int e = 0; e < a->columns; e++)
        y->value[i * y->columns + j] += at(a, i, e) * at(b, e, j);
}

/* The mean of the element's row or column. */
static double mean_at(const matrix *m, int axis, int row, int column) {
  double sum = 0;
  for (int i = 0; i < SIDE; i++) sum += axis ? at(m, row, i) : at(m, i, column);
  return sum / SIDE;
}

static double largest_at(const matrix *m, int axis, int row, int column) {
  double largest = -INFINITY;
  for (int i = 0; i < SIDE; i++) {
    const double value = axis ? at(m, row, i) : at(m, i, column);
    if (isnan(value) || value > largest) largest = value;
    if (isnan(value)) break;
  }
  return largest;
}

static double softmax_at(const matrix *m, int axis, int row, int column) {
  const double largest = largest_at(m, axis, row, column);
  double sum = 0;
  for (int k = 0; k < SIDE; k++) sum += exp((axis ? at(m, row, k) : at(m, k, column)) - largest);
  return exp(at(m, row, column) - largest) / sum;
}

static double element_at(const line *l, const matrix *const *in, int axis, int i, int j) {
  const matrix *a = in[0], *b = in[1], *c = in[2];
  if (!strcmp(l->type, "ReduceMean")) return mean_at(a, axis, i, j);
  if (!strcmp(l->type, "ReduceMax")) return largest_at(a, axis, i, j);
  if (!strcmp(l->type, "Softmax")) return softmax_at(a, axis, i, j);
  if (!strcmp(l->type, "Transpose")) return at(a, j, i);
  if (!strcmp(l->type, "Where")) return at(a, i, j) != 0 ? at(b, i, j) : at(c, i, j);
  return b ? binary(l->type, at(a, i, j), at(b, i, j)) : unary(l->type, at(a, i, j));
}

static void evaluate(names *n, const line *l, compute_dtype dtype) {
  const matrix *in[3] = {NULL, NULL, NULL};
  const char *name = l->inputs;
  int rows = 1, columns = 1;
  for (int i = 0; i < 3 && *name; i++) {
    const size_t length = strcspn(name, ",");
    in[i] = find_name(n, name, length);
    name += length + (name[length] == ',');
    if (in[i]->rows > rows) rows = in[i]->rows;
    if (in[i]->columns > columns) columns = in[i]->columns;
  }
  const int axis = l->axis < 0 ? 1 : l->axis;
  if (!strncmp(l->type, "Reduce", 6)) *(axis ? &columns : &rows) = 1;
  matrix *y = add_name(n, l->output, rows, columns);
  const bool product = !strcmp(l->type, "MatMul");
  if (product) multiply(in[0], in[1], y);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      double *const value = &y->value[i * columns + j];
      *value = stepped(dtype, product ? *value : element_at(l, in, axis, i, j));
    }
}

/* ---- Comparing ------------------------------------------------------------------------------ */

static int32_t file_type(compute_dtype dtype) {
  return dtype == COMPUTE_F64 ? 11 : dtype == COMPUTE_F16 ? 10 : 1;
}

static void put_numbers(proto *graph, compute_dtype dtype, const char *name, const double *values,
                        int64_t count) {
  test_values stored = test_values_create(dtype, COMPUTE_SHAPE(count));
  for (int64_t i = 0; i < count; i++) test_values_set(&stored, i, values[i]);
  proto tensor = tensor_message(name, file_type(dtype), 1, &count);
  put_bytes(&tensor, 9, stored.data, stored.bytes);
  put_message(graph, GRAPH_INITIALIZER, tensor);
  test_values_release(&stored);
}

static void put_line(proto *graph, const line *l) {
  proto node = node_message(l->type, l->type, l->inputs, l->output);
  if (!strncmp(l->type, "Reduce", 6)) put_list_attribute(&node, "axes", &(int64_t){l->axis}, 1);
  if (!strcmp(l->type, "Softmax")) put_integer_attribute(&node, "axis", l->axis);
  put_message(graph, GRAPH_NODE, node);
}

static proto make_file(const char *nodes, compute_dtype dtype) {
  proto graph = graph_message("x", "y");
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    put_numbers(&graph, dtype, numbers[i].name, &numbers[i].value, 1);
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
    put_numbers(&graph, dtype, vectors[i].name, vectors[i].value, SIDE);
  for (line l; next_line(&nodes, &l);) put_line(&graph, &l);
  return model_message(graph);
}

static compute_tensor *make_input(compute_dtype dtype, const double *values) {
  test_values x = test_values_create(dtype, COMPUTE_SHAPE(SIDE, SIDE));
  for (int i = 0; i < SIDE * SIDE; i++) test_values_set(&x, i, values[i]);
  compute_tensor *tensor = test_tensor(test_context, dtype, x.shape, x.data);
  test_values_release(&x);
  return tensor;
}

static void assert_result(const char *nodes, compute_dtype dtype, compute_tensor *y) {
  names *n = calloc(1, sizeof *n);
  const char *text = nodes;
  assert_non_null(n);
  begin_names(n, dtype, inputs);
  for (line l; next_line(&text, &l);) evaluate(n, &l, dtype);
  const matrix *expected = find_name(n, "y", 1);
  assert_int_equal(compute_tensor_count(y), expected->rows * expected->columns);
  double largest = 1;
  for (int i = 0; i < SIDE * SIDE; i++) largest = fmax(largest, fabs(expected->value[i]));
  for (int i = 0; i < expected->rows * expected->columns; i++)
    if (!(fabs(test_element(y, i) - expected->value[i]) <= 16 * test_spacing(dtype, largest)))
      fail_msg("%s, %s: element %d is %.17g, expected %.17g", nodes, compute_dtype_name(dtype), i,
               test_element(y, i), expected->value[i]);
  free(n);
}

/* The explanation contains `operation`; NULL: none of the operations that formulas become. */
static void assert_found(const char *nodes, const char *text, const char *operation) {
  static const char *const all[] = {"silu", "gelu", "normalize", "attention"};
  if (operation && !strstr(text, operation)) fail_msg("%s: no %s in\n%s", nodes, operation, text);
  for (size_t i = 0; i < sizeof all / sizeof *all && !operation; i++)
    if (strstr(text, all[i])) fail_msg("%s: %s in\n%s", nodes, all[i], text);
}

/* The message must outlive the model that reads it. */
static compute_model *load_on(proto message, compute_device *device,
                              compute_model_formulas formulas) {
  const compute_model_options options = {.device = device, .formulas = formulas};
  compute_model *model = NULL;
  assert_ok(compute_model_load_memory(test_context, message.data, message.bytes, &options, &model));
  return model;
}

static compute_model *load(proto message) {
  return load_on(message, NULL, COMPUTE_FORMULAS_EXACT);
}

static void check(const char *nodes, const char *operation, compute_dtype dtype,
                  compute_model_formulas formulas) {
  const proto message = make_file(nodes, dtype);
  compute_model *model = load_on(message, NULL, formulas);
  compute_tensor *x = make_input(dtype, inputs);
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  char *text = NULL;
  assert_ok(compute_model_run(model, &in, 1, &out, 1));
  assert_result(nodes, dtype, out.tensor);
  assert_ok(compute_model_explain(model, &text));
  assert_found(nodes, text, operation);
  compute_text_free(text);
  compute_tensor_release(out.tensor);
  compute_tensor_release(x);
  compute_model_release(model);
  free(message.data);
}

static const compute_dtype types[] = {COMPUTE_F32, COMPUTE_F16, COMPUTE_F64};

static void check_all(const char *operation, compute_model_formulas formulas,
                      const char *const *nodes, size_t count) {
  for (size_t i = 0; i < count; i++)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
      check(nodes[i], operation, types[t], formulas);
}

#define COUNT_OF(...) (sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
#define CHECK_WITH(formulas, operation, ...)                                                       \
  check_all(operation, formulas, (const char *const[]){__VA_ARGS__}, COUNT_OF(__VA_ARGS__))
#define CHECK(operation, ...) CHECK_WITH(COMPUTE_FORMULAS_EXACT, operation, __VA_ARGS__)

/* ---- The formulas --------------------------------------------------------------------------- */

static void a_product_with_its_sigmoid_is_silu(void **state) {
  (void)state;
  CHECK("silu", "Sigmoid x s; Mul x,s y", "Sigmoid x s; Mul s,x y");
  CHECK(NULL, "Sigmoid x s; Neg x t; Mul t,s y", "Sigmoid x s; Add x,s y");
}

static void gelu_is_found_however_it_is_written(void **state) {
  (void)state;
  CHECK("gelu", "Div x,root2 u; Erf u e; Add e,one s; Mul x,s p; Mul p,half y",
        "Mul inv,x u; Erf u e; Add one,e s; Mul half,x h; Mul h,s y",
        "Mul x,inv u; Erf u e; Add e,one s; Mul s,half p; Mul p,x y",
        "Div x,root2 u; Erf u e; Add e,one s; Div x,two h; Mul s,h y");
  static const char squares_first[] = "Mul x,x a; Mul a,x b; Mul c,b d; Add x,d e; Mul k,e u; Tanh "
                                      "u t; Add t,one s; Mul x,half h; Mul h,s y";
  static const char power[] = "Pow x,third b; Mul b,c d; Add x,d e; Mul e,k u; Tanh u t; Add one,t "
                              "s; Mul x,s p; Mul half,p y";
  static const char factored[] = "Mul x,k a; Mul x,x b; Mul b,c d; Add d,one e; Mul a,e u; Tanh u "
                                 "t; Add t,one s; Mul half,s p; Mul x,p y";
  CHECK("gelu_tanh", squares_first, power, factored);
}

static void what_only_looks_like_gelu_is_not(void **state) {
  (void)state;
  CHECK(NULL, "Div x,two u; Erf u e; Add e,one s; Mul x,s p; Mul p,half y",
        "Div x,root2 u; Erf u e; Add e,two s; Mul x,s p; Mul p,half y",
        "Div x,root2 u; Erf u e; Add e,one s; Mul x,s p; Mul p,two y",
        "Div x,root2 u; Erf u e; Add e,one s; Neg x n; Mul n,s p; Mul p,half y",
        "Div x,root2 u; Erf u e; Add e,one s; Add x,bias n; Mul n,s p; Mul p,half y",
        "Mul x,inv u; Erf u e; Add e,one s; Mul s,s q; Mul q,half p; Mul p,x y",
        "Mul x,k u; Tanh u t; Add t,one s; Mul x,half h; Mul h,s y");
}

/* Along the last axis, as opsets before 17 express it. Its squares may overflow, except in f16. */
static void a_layer_norm_of_parts_is_one_operation(void **state) {
  (void)state;
  static const char norm[] =
      "ReduceMean x m; Sub x,m d; Pow d,two q; ReduceMean q v; Add v,eps w; Sqrt w r; Div d,r y";
  check(norm, "normalize", COMPUTE_F16, COMPUTE_FORMULAS_EXACT);
  check(norm, NULL, COMPUTE_F32, COMPUTE_FORMULAS_EXACT);
  check(norm, NULL, COMPUTE_F64, COMPUTE_FORMULAS_EXACT);
  CHECK_WITH(
      COMPUTE_FORMULAS_FAST, "normalize",
      "ReduceMean x m; Sub x,m d; Pow d,two q; ReduceMean q v; Add v,eps w; Sqrt w r; Div d,r y",
      "ReduceMean1 x m; Sub x,m d; Mul d,d q; ReduceMean1 q v; Add v,eps w; Sqrt w r; Div d,r y");
}

static void what_only_looks_like_a_layer_norm_is_not(void **state) {
  (void)state;
  static const char
      along_columns[] = "ReduceMean0 x m; Sub x,m d; Pow d,two q; ReduceMean0 q v; Add v,eps w; "
                        "Sqrt w r; Div d,r y",
      both_ways[] = "ReduceMean x m; Sub x,m d; Pow d,two q; ReduceMean0 q v; Add v,eps w; Sqrt w "
                    "r; Div d,r y",
      not_centred[] = "ReduceMean x m; Sub x,m d; Pow x,two q; ReduceMean q v; Add v,eps w; Sqrt w "
                      "r; Div d,r y",
      others_mean[] = "Neg x n; ReduceMean n m; Sub x,m d; Pow d,two q; ReduceMean q v; Add v,eps "
                      "w; Sqrt w r; Div d,r y",
      others_variance[] = "Exp x n; ReduceMean n m; Sub n,m e; Pow e,two q; ReduceMean q v; Add "
                          "v,eps w; Sqrt w r; ReduceMean x o; Sub x,o d; Div d,r y",
      variance[] = "ReduceMean x m; Sub x,m d; Pow d,two q; ReduceMean q v; Add v,eps w; Div d,w y",
      cubes[] = "ReduceMean x m; Sub x,m d; Mul d,x q; Mul q,q p; ReduceMean p v; Add v,eps w; "
                "Sqrt w r; Div d,r y",
      numerator[] = "ReduceMean x m; Sub x,m d; Pow d,two q; ReduceMean q v; Add v,eps w; Sqrt w "
                    "r; Div x,r y",
      large[] = "ReduceMean x m; Sub x,m d; Pow d,two q; ReduceMean q v; Add v,ten w; Sqrt w r; "
                "Div d,r y",
      each_its_own[] =
          "ReduceMean x m; Sub x,m d; Pow d,two q; ReduceMean q v; Add v,bias w; Exp w "
          "u; Sqrt u r; Div d,r y";
  CHECK_WITH(COMPUTE_FORMULAS_FAST, NULL, along_columns, both_ways, not_centred, others_mean,
             others_variance, variance, cubes, numerator, large, each_its_own);
}

static void attention_of_parts_is_one_operation(void **state) {
  (void)state;
  CHECK("attention", "Transpose x t; MatMul x,t s; Softmax s p; MatMul p,x y",
        "Transpose x t; MatMul x,t s; Div s,two q; Softmax q p; MatMul p,x y",
        "Transpose x t; MatMul x,t s; Mul half,s q; Add q,bias w; Softmax w p; MatMul p,x y",
        "Transpose x t; MatMul x,t s; Add bias,s w; Softmax w p; MatMul p,x y",
        "Transpose x t; Mul t,half r; MatMul x,r s; Softmax s p; MatMul p,x y",
        "Mul x,half q; Mul half,x r; Transpose r t; MatMul q,t s; Softmax s p; MatMul p,x y");
}

/* Counterexamples: the weights have another reader, before or after; the bias is scaled as well;
 * each column has its own scale; each column adds up to one. */
static void what_only_looks_like_attention_is_not(void **state) {
  (void)state;
  CHECK(
      NULL, "Transpose x t; MatMul x,t s; Softmax s p; Neg p r; MatMul p,x z; Add z,r y",
      "Transpose x t; MatMul x,t s; Softmax s p; MatMul p,x z; Add z,p y",
      "Transpose x t; MatMul x,t s; Mul bias,two a; Div s,two q; Add q,a w; Mul w,one v; Softmax v "
      "p; MatMul p,x y",
      "Transpose x t; MatMul x,t s; Mul s,bias q; Softmax q p; MatMul p,x y",
      "Transpose x t; MatMul x,t s; Softmax0 s p; MatMul p,x y",
      "Transpose x t; Add x,t s; Softmax s p; MatMul p,x y");
}

/* ---- Every input --------------------------------------------------------------------------- */

static double largest_of(compute_dtype dtype) {
  return dtype == COMPUTE_F64 ? DBL_MAX : dtype == COMPUTE_F16 ? 65504 : (double)FLT_MAX;
}

static double least_of(compute_dtype dtype) {
  return dtype == COMPUTE_F64 ? 0x1p-1070 : dtype == COMPUTE_F16 ? 0x1p-23 : 0x1p-145;
}

/* Small integers and special values, from a list of `most`. */
static double special(compute_dtype dtype, int64_t which) {
  const double values[] = {0,
                           -0.0,
                           INFINITY,
                           -INFINITY,
                           NAN,
                           least_of(dtype),
                           -least_of(dtype),
                           largest_of(dtype),
                           -largest_of(dtype),
                           sqrt(largest_of(dtype)),
                           1,
                           -1.5,
                           3};
  return values[which % (int64_t)(sizeof values / sizeof *values)];
}

enum { SPECIALS = 13 };

/* Allows rounding errors in proportion to `scale`, the magnitude of the terms. */
static bool is_equal(compute_dtype dtype, double actual, double expected, double scale) {
  if (isnan(expected) || isinf(expected) || !isfinite(actual))
    return isnan(expected) ? isnan(actual) : actual == expected;
  return fabs(actual - expected) <= 64 * test_spacing(dtype, fmax(fabs(expected), scale));
}

static void compare(const char *nodes, compute_dtype dtype, const double *x, compute_tensor *y,
                    const char *device, bool by_element) {
  names *n = calloc(1, sizeof *n);
  const char *text = nodes;
  double scale = 0;
  assert_non_null(n);
  begin_names(n, dtype, x);
  for (line l; next_line(&text, &l);) evaluate(n, &l, dtype);
  const matrix *expected = find_name(n, "y", 1);
  for (int i = 0; i < SIDE * SIDE; i++)
    if (isfinite(x[i])) scale = fmax(scale, fabs(x[i]));
  for (int i = 0; i < SIDE * SIDE; i++) {
    const double wanted = rounded(dtype, expected->value[i]), given = test_element(y, i);
    if (!is_equal(dtype, given, wanted, by_element && isfinite(x[i]) ? fabs(x[i]) : scale) ||
        (by_element && wanted == 0 && !signbit(wanted) != !signbit(given)))
      fail_msg("%s, %s on %s, x = %g %g %g %g %g %g %g %g %g: element %d is %.9g, expected %.9g",
               nodes, compute_dtype_name(dtype), device, x[0], x[1], x[2], x[3], x[4], x[5], x[6],
               x[7], x[8], i, given, wanted);
  }
  free(n);
}

/* Compares one device with the file's formula: all special values in each place, or `draws` random
 * choices in all places. */
static void check_inputs(const char *nodes, compute_dtype dtype, compute_device *device,
                         const char *name, int draws) {
  test_random random = {.state = 7};
  const proto message = make_file(nodes, dtype);
  compute_model *model = load_on(message, device, COMPUTE_FORMULAS_EXACT);
  const int runs = draws ? draws : (SPECIALS + SIDE * SIDE - 1) / (SIDE * SIDE);
  for (int run = 0; run < runs; run++) {
    double x[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++)
      x[i] = rounded(dtype, !draws ? special(dtype, run * SIDE * SIDE + i)
                            : test_random_integer(&random, 0, 3)
                                ? (double)test_random_integer(&random, -2, 2)
                                : special(dtype, test_random_integer(&random, 0, SPECIALS - 1)));
    compute_tensor *tensor = make_input(dtype, x);
    compute_model_binding in = {"x", tensor}, out = {"y", NULL};
    assert_ok(compute_model_run(model, &in, 1, &out, 1));
    compare(nodes, dtype, x, out.tensor, name, draws == 0);
    compute_tensor_release(out.tensor);
    compute_tensor_release(tensor);
  }
  compute_model_release(model);
  free(message.data);
}

static void check_everywhere(const char *nodes, int draws) {
  static const char *const devices[] = {"cpu", "opencl:0"};
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    compute_device *device = NULL;
    if (compute_device_by_name(test_context, devices[d], &device)) continue;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
      if (d == 0 || types[t] == COMPUTE_F32)
        check_inputs(nodes, types[t], device, devices[d], draws);
  }
}

static void products_with_gates_are_what_the_file_says(void **state) {
  (void)state;
  static const char *const all[] = {
      "Sigmoid x s; Mul x,s y",
      "Div x,root2 u; Erf u e; Add e,one s; Mul x,s p; Mul p,half y",
      "Mul inv,x u; Erf u e; Add one,e s; Mul half,x h; Mul h,s y",
      "Mul x,inv u; Erf u e; Add e,one s; Mul s,half p; Mul p,x y",
      "Mul x,x a; Mul a,x b; Mul c,b d; Add x,d e; Mul k,e u; Tanh u t; Add t,one s; Mul x,half h; "
      "Mul h,s y",
      "Pow x,third b; Mul b,c d; Add x,d e; Mul e,k u; Tanh u t; Add one,t s; Mul x,s p; Mul "
      "half,p y",
      "Mul x,k a; Mul x,x b; Mul b,c d; Add d,one e; Mul a,e u; Tanh u t; Add t,one s; Mul half,s "
      "p; Mul x,p y"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_everywhere(all[i], 0);
}

static void powers_are_what_the_file_says(void **state) {
  (void)state;
  static const char *const all[] = {"Pow x,half y", "Pow x,two y", "Pow x,third y", "Pow x,one y"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_everywhere(all[i], 0);
}

#define ATTENTION_OF(mask, rest)                                                                   \
  "Transpose x t; MatMul x,t s; Mul s,half q; Add q," mask " w; " rest
#define PLAIN  "Softmax w p; MatMul p,x y"
#define ZEROED "ReduceMax w m; Equal m,low e; Softmax w p; Where e,zero,p z; MatMul z,x y"

static void attention_is_what_the_file_says(void **state) {
  (void)state;
  static const char *const all[] = {"Transpose x t; MatMul x,t s; Softmax s p; MatMul p,x y",
                                    "Mul x,half q; Transpose x t; Mul t,half r; MatMul q,r s; "
                                    "Softmax s p; MatMul p,x y",
                                    ATTENTION_OF("bias", PLAIN),
                                    ATTENTION_OF("part", PLAIN),
                                    ATTENTION_OF("gone", PLAIN),
                                    ATTENTION_OF("above", PLAIN),
                                    ATTENTION_OF("lost", PLAIN),
                                    ATTENTION_OF("least", PLAIN),
                                    ATTENTION_OF("bias", ZEROED),
                                    ATTENTION_OF("part", ZEROED),
                                    ATTENTION_OF("gone", ZEROED),
                                    ATTENTION_OF("above", ZEROED),
                                    ATTENTION_OF("lost", ZEROED),
                                    ATTENTION_OF("least", ZEROED)};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_everywhere(all[i], 60);
  CHECK("attention", ATTENTION_OF("bias", ZEROED), ATTENTION_OF("bias", PLAIN));
}

/* A model recorded for training keeps the parts: the gradient needs the weights, so a fused
 * operation would gain nothing. */
static void attention_of_parts_stays_in_training(void **state) {
  (void)state;
  static const char nodes[] =
      "Transpose x t; MatMul x,t s; Add bias,s w; Softmax w p; MatMul p,x y";
  const proto message = make_file(nodes, COMPUTE_F32);
  compute_model *model = load(message);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(SIDE, SIDE));
  compute_model_value in = {"x", x}, out = {"y", {0}};
  assert_ok(compute_model_record(model, graph, &in, 1, &out, 1));
  compute_plan *plan = test_compile(graph, &out.node, 1, 0);
  compute_tensor *values = make_input(COMPUTE_F32, inputs), *y = NULL;
  assert_ok(compute_plan_create_tensor(plan, out.node, &y));
  char *text = NULL;
  assert_ok(compute_run(plan, (compute_binding[]){{x, values}, {out.node, y}}, 2, NULL));
  assert_result(nodes, COMPUTE_F32, y);
  assert_ok(compute_explain(plan, &text));
  assert_found(nodes, text, NULL);
  compute_text_free(text);
  compute_tensor_release(y);
  compute_tensor_release(values);
  compute_plan_release(plan);
  compute_graph_release(graph);
  compute_model_release(model);
  free(message.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_product_with_its_sigmoid_is_silu),
      cmocka_unit_test(gelu_is_found_however_it_is_written),
      cmocka_unit_test(what_only_looks_like_gelu_is_not),
      cmocka_unit_test(a_layer_norm_of_parts_is_one_operation),
      cmocka_unit_test(what_only_looks_like_a_layer_norm_is_not),
      cmocka_unit_test(attention_of_parts_is_one_operation),
      cmocka_unit_test(what_only_looks_like_attention_is_not),
      cmocka_unit_test(products_with_gates_are_what_the_file_says),
      cmocka_unit_test(powers_are_what_the_file_says),
      cmocka_unit_test(attention_is_what_the_file_says),
      cmocka_unit_test(attention_of_parts_stays_in_training),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
