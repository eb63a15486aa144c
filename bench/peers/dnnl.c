/* SPDX-License-Identifier: MIT */
/* Peer: oneDNN 2 or 3 through its C interface. Plain f32 products use dnnl_sgemm, everything else
 * primitives that are created once, as the library recommends. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dnnl_network.h"
#include "dnnl_steps.h"

typedef struct run_state {
  const bench_peer_problem *problem;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_t primitive; /* NULL: dnnl_sgemm */
  int argument_count;         /* inputs, then the output */
  dnnl_exec_arg_t arguments[MAX_SETS][MAX_ARGUMENTS];
} run_state;

/* An operation's primitive, with a memory descriptor and number for each argument. */
typedef struct recipe {
  dnnl_primitive_desc_t primitive;
  int count;
  int number[MAX_ARGUMENTS];
  dnnl_layout memory[MAX_ARGUMENTS];
  int layout_count; /* freed with the recipe */
  dnnl_layout layouts[MAX_ARGUMENTS];
} recipe;

static dnnl_data_type_t data_type(const bench_peer_problem *p) {
  if (!strcmp(p->dtype, "f32")) return dnnl_f32;
  if (!strcmp(p->dtype, "bf16")) return dnnl_bf16;
  return dnnl_data_type_undef;
}

/* NULL if the library refuses; then describing a primitive also fails. */
static dnnl_layout laid_out(recipe *r, const bench_peer_problem *p, int rank, const int64_t *sizes,
                            dnnl_format_tag_t tag) {
  return r->layouts[r->layout_count++] = layout_create(rank, sizes, data_type(p), tag);
}

/* A dense row-major array of up to three dimensions; 0 ends the list. */
static dnnl_layout dense(recipe *r, const bench_peer_problem *p, int64_t a, int64_t b, int64_t c) {
  static const dnnl_format_tag_t tag[] = {dnnl_a, dnnl_ab, dnnl_abc};
  int rank = c ? 3 : b ? 2 : 1;
  return laid_out(r, p, rank, (int64_t[]){a, b, c}, tag[rank - 1]);
}

static void add_argument(recipe *r, int number, dnnl_layout memory) {
  r->number[r->count] = number;
  r->memory[r->count++] = memory;
}

/* ---- Operations: each fills a recipe ------------------------------------------------------- */

static void matmul(const bench_peer_problem *p, dnnl_engine_t engine, recipe *r) {
  int64_t m = p->size[0], n = p->size[1], k = p->size[2], batch = p->size[3];
  dnnl_layout a = batch ? dense(r, p, batch, m, k) : dense(r, p, m, k, 0);
  dnnl_layout b = batch ? dense(r, p, batch, k, n) : dense(r, p, k, n, 0);
  dnnl_layout y = batch ? dense(r, p, batch, m, n) : dense(r, p, m, n, 0);
  r->primitive = describe_matmul(engine, NULL, a, b, NULL, y);
  add_argument(r, DNNL_ARG_SRC, a);
  add_argument(r, DNNL_ARG_WEIGHTS, b);
  add_argument(r, DNNL_ARG_DST, y);
}

static void matmul_bias_gelu(const bench_peer_problem *p, dnnl_engine_t engine, recipe *r) {
  int64_t m = p->size[0], n = p->size[1], k = p->size[2];
  dnnl_layout a = dense(r, p, m, k, 0), b = dense(r, p, k, n, 0);
  dnnl_layout bias = dense(r, p, 1, n, 0), y = dense(r, p, m, n, 0);
  dnnl_post_ops_t after = NULL;
  dnnl_primitive_attr_t attributes = NULL;
  if (!dnnl_post_ops_create(&after) && !dnnl_primitive_attr_create(&attributes) &&
      !append_activation(after, dnnl_eltwise_gelu_erf) &&
      !dnnl_primitive_attr_set_post_ops(attributes, after))
    r->primitive = describe_matmul(engine, attributes, a, b, bias, y);
  dnnl_post_ops_destroy(after);
  dnnl_primitive_attr_destroy(attributes);
  add_argument(r, DNNL_ARG_SRC, a);
  add_argument(r, DNNL_ARG_WEIGHTS, b);
  add_argument(r, DNNL_ARG_BIAS, bias);
  add_argument(r, DNNL_ARG_DST, y);
}

static void unary(const bench_peer_problem *p, dnnl_engine_t engine, recipe *r) {
  static const struct {
    const char *name;
    dnnl_alg_kind_t kind;
  } kinds[] = {{"relu", dnnl_eltwise_relu},
               {"exp", dnnl_eltwise_exp},
               {"log", dnnl_eltwise_log},
               {"tanh", dnnl_eltwise_tanh},
               {"sigmoid", dnnl_eltwise_logistic},
               {"gelu", dnnl_eltwise_gelu_erf},
               {"gelu_tanh", dnnl_eltwise_gelu_tanh},
               {"silu", dnnl_eltwise_swish}};
  dnnl_layout x = dense(r, p, p->size[0], 0, 0);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kinds[i].name, p->operation)) continue;
    /* alpha 1 is swish's factor; relu's, its negative slope, is 0 */
    float alpha = kinds[i].kind == dnnl_eltwise_swish;
    r->primitive = describe_unary(engine, kinds[i].kind, alpha, x);
  }
  add_argument(r, DNNL_ARG_SRC, x);
  add_argument(r, DNNL_ARG_DST, x);
}

static void add(const bench_peer_problem *p, dnnl_engine_t engine, recipe *r) {
  dnnl_layout x = dense(r, p, p->size[0], 0, 0);
  r->primitive = describe_add(engine, x);
  add_argument(r, DNNL_ARG_SRC_0, x);
  add_argument(r, DNNL_ARG_SRC_1, x);
  add_argument(r, DNNL_ARG_DST, x);
}

static void softmax(const bench_peer_problem *p, dnnl_engine_t engine, recipe *r) {
  dnnl_layout x = dense(r, p, p->size[0], p->size[1], 0);
  dnnl_alg_kind_t kind = strcmp(p->operation, "softmax") ? dnnl_softmax_log : dnnl_softmax_accurate;
  r->primitive = describe_softmax(engine, kind, x);
  add_argument(r, DNNL_ARG_SRC, x);
  add_argument(r, DNNL_ARG_DST, x);
}

static void layer_norm(const bench_peer_problem *p, dnnl_engine_t engine, recipe *r) {
  dnnl_layout x = dense(r, p, p->size[0], p->size[1], 0), row = dense(r, p, p->size[1], 0, 0);
  r->primitive = describe_layer_norm(engine, x);
  add_argument(r, DNNL_ARG_SRC, x);
  add_argument(r, DNNL_ARG_SCALE, row);
  add_argument(r, DNNL_ARG_SHIFT, row);
  add_argument(r, DNNL_ARG_DST, x);
}

static void reduction(const bench_peer_problem *p, dnnl_engine_t engine, recipe *r) {
  int64_t rows = p->size[0], columns = p->size[1];
  dnnl_layout x = dense(r, p, rows, columns, 0);
  bool keep_rows = strstr(p->operation, "_rows"), keep_columns = strstr(p->operation, "_columns");
  dnnl_layout y = dense(r, p, keep_rows ? rows : 1, keep_columns ? columns : 1, 0);
  dnnl_alg_kind_t kind = strcmp(p->operation, "max_rows") ? dnnl_reduction_sum : dnnl_reduction_max;
  r->primitive = describe_reduction(engine, kind, x, y);
  add_argument(r, DNNL_ARG_SRC, x);
  add_argument(r, DNNL_ARG_DST, y);
}

/* A reorder from [rows,columns] to the same matrix stored by columns. */
static void transpose(const bench_peer_problem *p, dnnl_engine_t engine, recipe *r) {
  dnnl_layout x = dense(r, p, p->size[0], p->size[1], 0), y = laid_out(r, p, 2, p->size, dnnl_ba);
  if (dnnl_reorder_primitive_desc_create(&r->primitive, x, engine, y, engine, NULL))
    r->primitive = NULL;
  add_argument(r, DNNL_ARG_FROM, x);
  add_argument(r, DNNL_ARG_TO, y);
}

/* ---- Setting up, running ------------------------------------------------------------------- */

static void teardown(void *state) {
  run_state *s = state;
  for (int i = 0; i < MAX_SETS; i++)
    for (int j = 0; j < MAX_ARGUMENTS; j++)
      if (s->arguments[i][j].memory) dnnl_memory_destroy(s->arguments[i][j].memory);
  if (s->primitive) dnnl_primitive_destroy(s->primitive);
  if (s->stream) dnnl_stream_destroy(s->stream);
  if (s->engine) dnnl_engine_destroy(s->engine);
  free(s);
}

/* Memory objects for every set; false when one cannot be made. */
static bool make_arguments(run_state *s, const recipe *r) {
  s->argument_count = r->count;
  for (uint32_t set = 0; set < s->problem->set_count; set++) {
    const bench_peer_buffers *b = &s->problem->sets[set];
    for (int i = 0; i < r->count; i++) {
      dnnl_exec_arg_t *argument = &s->arguments[set][i];
      void *data = i + 1 < r->count ? (void *)(uintptr_t)b->input[i] : b->output;
      argument->arg = r->number[i];
      if (dnnl_memory_create(&argument->memory, r->memory[i], s->engine, data)) return false;
    }
  }
  return true;
}

typedef void (*recipe_function)(const bench_peer_problem *, dnnl_engine_t, recipe *);

static void *setup(const bench_peer_problem *problem, recipe_function cook) {
  run_state *s = calloc(1, sizeof *s);
  recipe r = {0};
  dnnl_use_threads(problem->threads);
  if (!s || data_type(problem) == dnnl_data_type_undef || problem->set_count > MAX_SETS) {
    free(s);
    return NULL;
  }
  s->problem = problem;
  if (!dnnl_engine_create(&s->engine, dnnl_cpu, 0)) {
    dnnl_stream_create(&s->stream, s->engine, dnnl_stream_default_flags);
    cook(problem, s->engine, &r);
  }
  bool ready = r.primitive && !dnnl_primitive_create(&s->primitive, r.primitive) &&
               make_arguments(s, &r) && s->stream;
  if (r.primitive) dnnl_primitive_desc_destroy(r.primitive);
  for (int i = 0; i < r.layout_count; i++) layout_destroy(r.layouts[i]);
  if (ready) return s;
  teardown(s);
  return NULL;
}

static void run(void *state, uint32_t set) {
  run_state *s = state;
  dnnl_primitive_execute(s->primitive, s->stream, s->argument_count, s->arguments[set]);
  dnnl_stream_wait(s->stream);
}

static void *sgemm_setup(const bench_peer_problem *problem) {
  if (problem->size[3] || data_type(problem) != dnnl_f32) return NULL;
  dnnl_use_threads(problem->threads);
  run_state *s = calloc(1, sizeof *s);
  if (s) s->problem = problem;
  return s;
}

static void sgemm_run(void *state, uint32_t set) {
  const run_state *s = state;
  const bench_peer_buffers *b = &s->problem->sets[set];
  int64_t m = s->problem->size[0], n = s->problem->size[1], k = s->problem->size[2];
  bool transposed = !strcmp(s->problem->operation, "matmul_nt");
  dnnl_sgemm('N', transposed ? 'T' : 'N', m, n, k, 1, b->input[0], k, b->input[1],
             transposed ? k : n, 0, b->output, n);
}

/* setup takes no argument that identifies the operation, so each recipe has its own. */
static void *setup_matmul(const bench_peer_problem *p) {
  return !p->size[3] && data_type(p) == dnnl_f32 ? NULL : setup(p, matmul);
}
static void *setup_gelu(const bench_peer_problem *p) {
  return setup(p, matmul_bias_gelu);
}
static void *setup_unary(const bench_peer_problem *p) {
  return setup(p, unary);
}
static void *setup_add(const bench_peer_problem *p) {
  return setup(p, add);
}
static void *setup_softmax(const bench_peer_problem *p) {
  return setup(p, softmax);
}
static void *setup_layer_norm(const bench_peer_problem *p) {
  return setup(p, layer_norm);
}
static void *setup_reduction(const bench_peer_problem *p) {
  return setup(p, reduction);
}
static void *setup_transpose(const bench_peer_problem *p) {
  return setup(p, transpose);
}

#define PRIMITIVE(name_, setup_)                                                                   \
  { .name = name_, .variant = "", .setup = setup_, .run = run, .teardown = teardown }

static const bench_peer_operation plain[] = {
    {.name = "matmul", .variant = "", .setup = sgemm_setup, .run = sgemm_run, .teardown = teardown},
    {.name = "matmul_nt",
     .variant = "",
     .setup = sgemm_setup,
     .run = sgemm_run,
     .teardown = teardown},
    PRIMITIVE("matmul", setup_matmul),
    PRIMITIVE("matmul_bias_gelu", setup_gelu),
    PRIMITIVE("relu", setup_unary),
    PRIMITIVE("exp", setup_unary),
    PRIMITIVE("log", setup_unary),
    PRIMITIVE("tanh", setup_unary),
    PRIMITIVE("sigmoid", setup_unary),
    PRIMITIVE("silu", setup_unary),
    PRIMITIVE("gelu", setup_unary),
    PRIMITIVE("gelu_tanh", setup_unary),
    PRIMITIVE("add", setup_add),
    PRIMITIVE("softmax", setup_softmax),
    PRIMITIVE("log_softmax", setup_softmax),
    PRIMITIVE("layer_norm", setup_layer_norm),
    PRIMITIVE("sum_all", setup_reduction),
    PRIMITIVE("sum_rows", setup_reduction),
    PRIMITIVE("sum_columns", setup_reduction),
    PRIMITIVE("max_rows", setup_reduction),
    PRIMITIVE("transpose", setup_transpose),
};

const bench_peer *compute_bench_peer(void) {
  enum { PLAIN_COUNT = sizeof plain / sizeof *plain, MOST = PLAIN_COUNT + 64 };
  static bench_peer_operation operations[MOST];
  const bench_peer_operation *more[] = {dnnl_conv_operations, dnnl_layer_operations};
  static char version[32];
  static bench_peer peer = {
      .abi = BENCH_PEER_ABI, .name = "dnnl", .version = version, .operations = operations};
  memcpy(operations, plain, sizeof plain);
  peer.operation_count = PLAIN_COUNT;
  for (size_t i = 0; i < sizeof more / sizeof *more; i++)
    for (const bench_peer_operation *o = more[i]; o->name && peer.operation_count < MOST; o++)
      operations[peer.operation_count++] = *o;
  const dnnl_version_t *v = dnnl_version();
  snprintf(version, sizeof version, "%d.%d.%d", v->major, v->minor, v->patch);
  return &peer;
}
