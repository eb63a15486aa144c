/* SPDX-License-Identifier: MIT */
/* Operators on texts. Texts pass through operators that move elements and are refused by others.
 * New texts need no new plans. */
#include "model/items.h"

/* ---- Texts ------------------------------------------------------------------------------------- */

static void texts_move_and_join(void **state) {
  (void)state;
  proto graph = graph_message("a,b", "y");
  put_message(&graph, GRAPH_INITIALIZER, integers_message("order", (int64_t[]){2, 0, 1, 2}, 4));
  put_message(&graph, GRAPH_NODE, operator_node("StringConcat", "a,b", "joined"));
  put_message(&graph, GRAPH_NODE, operator_node("Gather", "joined,order", "moved"));
  proto node = operator_node("Concat", "moved,a", "y");
  put_integer_attribute(&node, "axis", 0);
  put_message(&graph, GRAPH_NODE, node);
  compute_model *model = load(graph);
  for (int round = 0; round < 3; round++) {
    const char *third = round ? "ü" : "";
    compute_model_item *result, *const items[] = {texts(3, (const char *[]){"a", "b", third}),
                                                  texts(1, (const char *[]){"!"})};
    assert_ok(run(model, items, 2, &result));
    char last[8];
    snprintf(last, sizeof last, "%s!", third);
    assert_texts(result, (const char *[]){last, "a!", "b!", last, "a", "b", third}, 7);
    compute_model_item_release(result);
  }
  compute_model_info info;
  assert_ok(compute_model_describe(model, &info));
  assert_int_equal(info.plan_hits, 2); /* other texts need no other plans */
  compute_model_release(model);
}

static void texts_are_compared_by_content(void **state) {
  (void)state;
  compute_model *model = load_node(operator_node("Equal", "a,b", "y"), "a,b", "y");
  compute_model_item *result, *const items[] = {texts(3, (const char *[]){"x", "", "xy"}),
                                                texts(3, (const char *[]){"x", "", "xz"})};
  assert_ok(run(model, items, 2, &result));
  assert_numbers(result, (uint8_t[]){1, 1, 0}, 3);
  compute_model_item_release(result);
  compute_model_release(model);
}

static void operators_of_numbers_refuse_texts(void **state) {
  (void)state;
  static const char *const types[] = {"Add", "Unique", "ReduceSum", "Sigmoid", "CumSum"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    const bool two = i == 0 || i == 4;
    compute_model *model =
        load_node(operator_node(types[i], two ? "a,b" : "a", "y"), two ? "a,b" : "a", "y");
    compute_model_item *result, *const items[] = {texts(1, (const char *[]){"x"}),
                                                  texts(1, (const char *[]){"y"})};
    assert_fails(run(model, items, two ? 2 : 1, &result), COMPUTE_ERROR_UNSUPPORTED);
    if (!two) compute_model_item_release(items[1]);
    assert_null(result);
    compute_model_release(model);
  }
  compute_model *model = load_node(operator_node("Concat", "a,b", "y"), "a,b", "y");
  compute_model_item *result, *const items[] = {texts(1, (const char *[]){"x"}),
                                                numbers(1, (float[]){1})};
  assert_fails(run(model, items, 2, &result), COMPUTE_ERROR_DTYPE);
  compute_model_release(model);
}

static void words_are_normalized(void **state) {
  (void)state;
  proto node = operator_node("StringNormalizer", "a", "y");
  put_text_attribute(&node, "case_change_action", "UPPER");
  put_texts_attribute(&node, "stopwords", "Der,ÄPFEL");
  compute_model *model = load_node(node, "a", "y");
  compute_model_item *result,
      *item = texts(4, (const char *[]){"der", "Straße", "äpfel", "я ňσŷա"});
  assert_ok(run(model, &item, 1, &result));
  assert_texts(result, (const char *[]){"STRAßE", "Я ŇΣŶԱ"}, 2);
  compute_model_item_release(result);
  item = texts(1, (const char *[]){"DER"});
  assert_ok(run(model, &item, 1, &result));
  assert_texts(result, (const char *[]){""}, 1);
  compute_model_item_release(result);
  compute_model_release(model);
}

/* Letters of two characters in the other case stay, and so does ς in small letters. */
static void both_cases_are_known(void **state) {
  (void)state;
  static const char *const cases[][3] = {/* upper, text, lower */
                                         {"ΚΌΣΜΟΣ", "κόσμος", "κόσμος"},
                                         {"ȘȚƠƯƏ", "șțơưə", "șțơưə"},
                                         {"ÅΏΆἈᾸᾼß", "Åώάἀᾰᾼß", "åώάἀᾰᾳß"},
                                         {"ΜӀІԸᲐ𐐀", "µӏІըა𐐨", "µӏіըა𐐨"},
                                         {"ßŉﬁİ", "ßŉﬁİ", "ßŉﬁİ"}};
  for (int upper = 0; upper < 2; upper++) {
    proto node = operator_node("StringNormalizer", "a", "y");
    put_text_attribute(&node, "case_change_action", upper ? "UPPER" : "LOWER");
    compute_model *model = load_node(node, "a", "y");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      compute_model_item *result, *item = texts(1, &cases[i][1]);
      assert_ok(run(model, &item, 1, &result));
      assert_texts(result, &cases[i][upper ? 0 : 2], 1);
      compute_model_item_release(result);
    }
    compute_model_release(model);
  }
}

static void patterns_match_whole_texts(void **state) {
  (void)state;
  static const struct {
    const char *pattern, *text;
    bool matches;
  } cases[] = {
      {"abc", "abc", true},
      {"abc", "abcd", false},
      {"a|bc", "bc", true},
      {"a|bc", "ac", false},
      {"(a|b)c", "bc", true},
      {"a*", "", true},
      {"a+", "", false},
      {"a?b", "b", true},
      {"a{2,3}", "aa", true},
      {"a{2,3}", "aaaa", false},
      {"a{0}b", "b", true},
      {"(ab){2,}", "ababab", true},
      {"(ab){2,}", "ab", false},
      {"[^a-c]x", "dx", true},
      {"[^a-c]x", "bx", false},
      {"[]a]+", "]a", true},
      {"[a\\-z]+", "a-z", true},
      {".é.", "xéy", true},
      {".", "\n", false},
      {"\\w+\\W", "ab_1.", true},
      {"\\d{3}", "12x", false},
      {"\\bfoo\\b", "foo", true},
      {"a\\bb", "ab", false},
      {"^a$", "a", true},
      {"(?:a|)b", "b", true},
      {"()", "", true},
      {"[[:alpha:]]+", "aZ", true},
      {"\\s", "\v", false},
      {"[\\s]", "\v", false},
      {"\\S", "\v", true},
      {"\\s{4}", "\t\n\f\r", true},
      {"[[:space:]]", "\v", true},
      {"[d-ea-bc-dx]{6}", "abcdex", true},
      {"[d-ea-bc-dx]", "f", false},
      {"[a-zc-d]", "m", true},
      {"a*+", "aaa", true},
      {"(a*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false},
      {"((a{0,9}){0,9}){0,9}b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    proto node = operator_node("RegexFullMatch", "a", "y");
    put_text_attribute(&node, "pattern", cases[i].pattern);
    compute_model *model = load_node(node, "a", "y");
    compute_model_item *result, *item = texts(1, &cases[i].text);
    assert_ok(run(model, &item, 1, &result));
    uint8_t matches;
    assert_ok(compute_tensor_read(compute_model_item_tensor(result), &matches, 1));
    if (matches != cases[i].matches)
      fail_msg("'%s' on '%s': %d", cases[i].pattern, cases[i].text, matches);
    compute_model_item_release(result);
    compute_model_release(model);
  }
}

static void wrong_patterns_are_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {"(",
                                      ")",
                                      "a)",
                                      "[a",
                                      "*",
                                      "a{2",
                                      "a{3,2}",
                                      "(?=a)",
                                      "(a)\\1",
                                      "[[:none:]]",
                                      "[z-a]",
                                      "\\",
                                      "(((a{1000}){1000}){1000})"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    proto node = operator_node("RegexFullMatch", "a", "y");
    put_text_attribute(&node, "pattern", wrong[i]);
    compute_model *model = load_node(node, "a", "y");
    compute_model_item *result, *item = texts(1, (const char *[]){"a"});
    const compute_status status = run(model, &item, 1, &result);
    if (status != COMPUTE_ERROR_UNSUPPORTED) fail_msg("'%s': %d", wrong[i], (int)status);
    compute_model_release(model);
  }
}

/* White space at both ends is no part of a piece, also behind the last split. */
static void texts_are_split(void **state) {
  (void)state;
  static const struct {
    int64_t most;
    const char *delimiter, *text, *parts[3];
    int64_t count;
  } cases[] = {
      {-1, "", "  a b  c ", {"a", "b", "c"}, 3},
      {1, "", " a b  c \t", {"a", "b  c"}, 2},
      {0, "", " a b ", {"a b"}, 1},
      {2, "", "a  ", {"a"}, 1},
      {1, " ", "a b  ", {"a", "b  "}, 2},
      {-1, ",,", "a,,,b", {"a", ",b"}, 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    proto node = operator_node("StringSplit", "a", "y");
    put_text_attribute(&node, "delimiter", cases[i].delimiter);
    if (cases[i].most >= 0) put_integer_attribute(&node, "maxsplit", cases[i].most);
    compute_model *model = load_node(node, "a", "y");
    compute_model_item *result, *item = texts(1, &cases[i].text);
    assert_ok(run(model, &item, 1, &result));
    assert_texts(result, cases[i].parts, (size_t)cases[i].count);
    compute_model_item_release(result);
    compute_model_release(model);
  }
}

/* A vector of texts of a Constant node, of an initializer and of the run. */
static void features_of_texts_are_texts(void **state) {
  (void)state;
  for (int from = 0; from < 3; from++) {
    proto graph = graph_message("a", "y");
    proto node = operator_node("Constant", "", "list");
    put_texts_attribute(&node, "value_strings", "x,y,z");
    if (from == 0) put_message(&graph, GRAPH_NODE, node);
    if (from != 0) free(node.data);
    if (from == 1) {
      proto list = tensor_message("list", 8, 1, (int64_t[]){3});
      put_names(&list, 6, "x,y,z");
      put_message(&graph, GRAPH_INITIALIZER, list);
    }
    node = operator_node("ArrayFeatureExtractor", from == 2 ? "b,a" : "list,a", "y");
    put_text(&node, 7, "ai.onnx.ml");
    put_message(&graph, GRAPH_NODE, node);
    if (from == 2) put_values(&graph, GRAPH_INPUT, "b");
    compute_model *model = load(graph);
    compute_model_item *result,
        *items[] = {whole_numbers(2, (int64_t[]){2, 0}), texts(3, (const char *[]){"x", "y", "z"})};
    assert_ok(run(model, items, from == 2 ? 2 : 1, &result));
    if (from != 2) compute_model_item_release(items[1]);
    assert_texts(result, (const char *[]){"z", "x"}, 2);
    assert_int_equal(compute_model_label_count(model, 0), from == 1 ? 3 : 0);
    compute_model_item_release(result);
    compute_model_release(model);
  }
}

static void labels_encode_texts(void **state) {
  (void)state;
  for (int to_text = 0; to_text < 2; to_text++) {
    proto node = operator_node("LabelEncoder", "a", "y");
    put_text(&node, 7, "ai.onnx.ml");
    put_texts_attribute(&node, "keys_strings", "cat,dog,bird");
    if (to_text)
      put_texts_attribute(&node, "values_strings", "chat,chien,oiseau");
    else
      put_list_attribute(&node, "values_int64s", (int64_t[]){3, 5, 7}, 3);
    compute_model *model = load_node(node, "a", "y");
    compute_model_item *result, *item = texts(3, (const char *[]){"dog", "cow", "cat"});
    assert_ok(run(model, &item, 1, &result));
    if (to_text)
      assert_texts(result, (const char *[]){"chien", "_Unused", "chat"}, 3);
    else
      assert_numbers(result, (int64_t[]){5, -1, 3}, 24);
    compute_model_item_release(result);
    compute_model_release(model);
  }
}

/* ---- TfIdfVectorizer --------------------------------------------------------------------------- */

static void put_numbers_attribute(proto *node, const char *name, const float *values, int count) {
  proto attribute = {0};
  put_text(&attribute, 1, name);
  for (int i = 0; i < count; i++) put_float(&attribute, 7, values[i]);
  put_integer(&attribute, 20, 6);
  put_message(node, NODE_ATTRIBUTE, attribute);
}

static proto vectorizer(const char *mode, int64_t length, int64_t skips) {
  proto node = operator_node("TfIdfVectorizer", "a", "y");
  put_text_attribute(&node, "mode", mode);
  put_integer_attribute(&node, "min_gram_length", length);
  put_integer_attribute(&node, "max_gram_length", length);
  put_integer_attribute(&node, "max_skip_count", skips);
  return node;
}

/* Weight i is of the n-gram i of the pool, which counts in column ngram_indexes[i]. */
static void weights_belong_to_ngrams(void **state) {
  (void)state;
  static const struct {
    const char *mode;
    float expected[3];
  } cases[] = {{"TF", {1, 2, 1}}, {"IDF", {20, 30, 10}}, {"TFIDF", {20, 60, 10}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    proto node = vectorizer(cases[i].mode, 1, 0);
    put_list_attribute(&node, "ngram_counts", (int64_t[]){0}, 1);
    put_list_attribute(&node, "ngram_indexes", (int64_t[]){2, 0, 1}, 3);
    put_list_attribute(&node, "pool_int64s", (int64_t[]){5, 6, 7}, 3);
    put_numbers_attribute(&node, "weights", (float[]){10, 20, 30}, 3);
    compute_model *model = load_node(node, "a", "y");
    compute_model_item *result, *item = whole_numbers(4, (int64_t[]){5, 6, 7, 7});
    assert_ok(run(model, &item, 1, &result));
    assert_numbers(result, cases[i].expected, sizeof cases[i].expected);
    compute_model_item_release(result);
    compute_model_release(model);
  }
}

/* ---- Ends of runs ------------------------------------------------------------------------------ */

/* Lets one question pass: the plan before the operator asks first. */
static bool ends_soon(void *user) {
  int *asked = user;
  return ++*asked < 2;
}

static void assert_ends(compute_model *model, compute_model_item *item) {
  int asked = 0;
  compute_model_argument in = {"a", item}, out = {"y", NULL};
  const compute_model_run_options options = {.go_on = ends_soon, .user = &asked};
  assert_fails(compute_model_run_items(model, &in, 1, &out, 1, &options), COMPUTE_ERROR_CANCELLED);
  assert_null(out.item);
  assert_int_equal(asked, 2);
  compute_model_item_release(item);
  compute_model_release(model);
}

/* Both would run for minutes. */
static void long_operators_can_be_ended(void **state) {
  (void)state;
  enum { ITEMS = 1 << 18, CHARACTERS = 1 << 22 };
  proto node = vectorizer("TF", 2, INT64_MAX);
  put_list_attribute(&node, "ngram_counts", (int64_t[]){0, 0}, 2);
  put_list_attribute(&node, "ngram_indexes", (int64_t[]){0}, 1);
  put_list_attribute(&node, "pool_int64s", (int64_t[]){5, 6}, 2);
  int64_t *values = calloc(ITEMS, sizeof *values);
  char *text = malloc(CHARACTERS + 1);
  assert_true(values && text);
  memset(text, 'a', CHARACTERS);
  text[CHARACTERS] = '\0';
  assert_ends(load_node(node, "a", "y"), whole_numbers(ITEMS, values));
  node = operator_node("RegexFullMatch", "a", "y");
  put_text_attribute(&node, "pattern", "((a?){1000})*");
  assert_ends(load_node(node, "a", "y"), texts(1, (const char *[]){text}));
  free(values);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_move_and_join),
      cmocka_unit_test(texts_are_compared_by_content),
      cmocka_unit_test(operators_of_numbers_refuse_texts),
      cmocka_unit_test(words_are_normalized),
      cmocka_unit_test(both_cases_are_known),
      cmocka_unit_test(patterns_match_whole_texts),
      cmocka_unit_test(wrong_patterns_are_refused),
      cmocka_unit_test(texts_are_split),
      cmocka_unit_test(features_of_texts_are_texts),
      cmocka_unit_test(labels_encode_texts),
      cmocka_unit_test(weights_belong_to_ngrams),
      cmocka_unit_test(long_operators_can_be_ended),
  };
  const int failures = cmocka_run_group_tests(tests, test_group_open, test_group_close);
  free_messages();
  return failures;
}
