/* SPDX-License-Identifier: MIT */
/* Dumps the nodes of a graph and of the planner's copy. Nodes and clusters count from 1. */
#include "core/base/alloc.h"
#include "core/base/real.h"
#include "core/tensor/tensor.h"
#include "core/type/shape.h"
#include "plan/compile/dump/dump.h"

static const char *op_name(graph_op op) {
  return graph_op_describe(op)->name;
}

/* "add(3, 1)", "constant 0.5", "input "pixels"" */
static void add_operation(text_buffer *t, const ir_node *n) {
  char number[REAL_TEXT_BYTES];
  text_add(t, "%s", op_name(n->op));
  for (uint32_t k = 0; k < n->input_count; k++)
    text_add(t, "%s%u", k == 0 ? "(" : ", ", n->inputs[k] + 1);
  if (n->input_count > 0) text_add(t, ")");
  if (n->op == OP_constant && n->uniform && n->constant)
    text_add(t, " %s", real_decimal(ir_uniform_value(n), 9, number));
}

static void add_type(text_buffer *t, const ir_node *n) {
  char shape[96];
  text_add(t, "%s %s", compute_dtype_name(n->dtype),
           compute_shape_text(n->shape, shape, sizeof shape));
}

/* Adds a box with the operation; the edges show its operands. */
static void add_box(text_buffer *dot, uint32_t i, const ir_node *n, const char *style) {
  ir_node alone = *n;
  alone.input_count = 0;
  text_add(dot, "  n%u [label=\"%u ", i + 1, i + 1);
  add_operation(dot, &alone);
  if (n->name) {
    text_add(dot, " ");
    dump_quoted(dot, n->name);
  }
  text_add(dot, "\\n");
  add_type(dot, n);
  text_add(dot, "\"%s];\n", style);
}

static void add_edges(text_buffer *dot, uint32_t i, const ir_node *n) {
  for (uint32_t k = 0; k < n->input_count; k++)
    text_add(dot, "  n%u -> n%u;\n", n->inputs[k] + 1, i + 1);
}

static void add_name(text_buffer *t, const ir_node *n) {
  if (!n->name) return;
  text_add(t, " \"");
  dump_quoted(t, n->name);
  text_add(t, "\"");
}

/* ---- A graph --------------------------------------------------------------------------------- */

/* Returns the node as capture would copy it. */
static ir_node view_of(const compute_graph *graph, uint32_t index, bool is_folded) {
  const graph_node *g = &graph->nodes[index];
  return (ir_node){.op = is_folded ? OP_constant : g->op,
                   .dtype = g->dtype,
                   .shape = g->shape,
                   .input_count = is_folded ? 0 : g->input_count,
                   .inputs = g->inputs,
                   .constant = g->constant,
                   .uniform = !is_folded && g->uniform,
                   .name = g->name};
}

enum { NEEDED = 1, FOLDED = 2 };

/* Marks the nodes that the outputs need; folded nodes need no operands. Returns their number. */
static uint32_t mark(const compute_graph *g, const uint32_t *outputs, uint32_t count,
                     const folding *folded, unsigned char *marks) {
  uint32_t nodes = 0;
  for (uint32_t i = 0; i < folded->count; i++) marks[folded->values[i].graph_index] = FOLDED;
  for (uint32_t i = 0; i < count; i++) marks[outputs[i]] |= NEEDED;
  for (size_t i = g->count; i-- > 0;) {
    if (!(marks[i] & NEEDED)) continue;
    nodes++;
    if (marks[i] & FOLDED) continue;
    for (uint32_t k = 0; k < g->nodes[i].input_count; k++) marks[g->nodes[i].inputs[k]] |= NEEDED;
  }
  return nodes;
}

void dump_write_graph(const pass_log *d, plan_pass pass, const compute_graph *graph,
                      const uint32_t *outputs, uint32_t count, const folding *folded) {
  dump_page page;
  unsigned char *marks = base_allocate(graph->count, 1);
  if (!marks) return;
  dump_page_begin(&page, d, pass, mark(graph, outputs, count, folded, marks), "nodes");
  for (uint32_t i = 0; i < graph->count; i++) {
    if (!(marks[i] & NEEDED)) continue;
    const bool is_folded = (marks[i] & FOLDED) != 0;
    const ir_node n = view_of(graph, i, is_folded);
    text_add(&page.text, "%4u  ", i + 1);
    add_operation(&page.text, &n);
    text_add(&page.text, "  ");
    add_type(&page.text, &n);
    if (is_folded) text_add(&page.text, "  was %s", op_name(graph->nodes[i].op));
    add_name(&page.text, &n);
    text_add(&page.text, "\n");
    add_box(&page.dot, i, &n, "");
    add_edges(&page.dot, i, &n);
  }
  base_release(marks);
  text_add(&page.text, "\noutputs");
  for (uint32_t i = 0; i < count; i++) text_add(&page.text, " %u", outputs[i] + 1);
  text_add(&page.text, "\n");
  dump_page_write(&page, d, pass);
}

/* ---- The planner's nodes --------------------------------------------------------------------- */

static uint32_t count_live(const ir *r) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < r->count; i++) count += r->nodes[i].live;
  return count;
}

static bool is_view(const fusion *f, uint32_t i) {
  return f && f->layouts[i].base != i;
}

/* Adds strides in elements unless they are row-major. */
static void add_layout(text_buffer *t, const fusion *f, uint32_t i, const ir_node *n) {
  const layout *lay = &f->layouts[i];
  if (is_view(f, i)) {
    text_add(t, "  view of %u", lay->base + 1);
    if (lay->offset != 0) text_add(t, "+%lld", (long long)lay->offset);
  }
  if (shape_is_dense(n->shape, lay->stride)) return;
  text_add(t, "  strides");
  for (int32_t a = 0; a < n->shape.rank; a++)
    text_add(t, "%s%lld", a == 0 ? " " : ",", (long long)lay->stride[a]);
}

static void add_node(dump_page *page, const dump_state *s, uint32_t i) {
  const ir_node *n = &s->r->nodes[i];
  text_buffer *t = &page->text;
  text_add(t, "%4u  ", i + 1);
  add_operation(t, n);
  text_add(t, "  ");
  add_type(t, n);
  text_add(t, "  of graph node %u", n->source + 1);
  add_name(t, n);
  if (s->f) {
    add_layout(t, s->f, i, n);
    if (s->f->cluster_of[i] != IR_NONE)
      text_add(t, "  in cluster %u%s", s->f->cluster_of[i] + 1, s->f->stored[i] ? ", stored" : "");
  }
  text_add(t, "\n");
  add_edges(&page->dot, i, n);
}

/* "cluster 2: 4 5 6 around 4; on the CPU because …" */
static void add_cluster(dump_page *page, const dump_state *s, uint32_t index) {
  const cluster *c = &s->f->clusters[index];
  const cluster_place *place = s->l && s->l->places ? &s->l->places[index] : NULL;
  const char *around = op_name(s->r->nodes[c->anchor == IR_NONE ? c->root : c->anchor].op);
  text_buffer *t = &page->text;
  text_add(t, "cluster %u, %s:", index + 1, around);
  text_add(&page->dot, "  subgraph cluster_%u {\n  label=\"cluster %u, %s", index + 1, index + 1,
           around);
  for (uint32_t m = 0; m < c->member_count; m++) text_add(t, " %u", c->members[m] + 1);
  if (place) {
    const char *device = s->l->plan->device[place->device]->info.name;
    text_add(t, "  on %s", device);
    if (place->reason) text_add(t, " because %s", place->reason);
    text_add(&page->dot, "\\non ");
    dump_quoted(&page->dot, device);
  }
  text_add(t, "\n");
  text_add(&page->dot, "\";\n");
  for (uint32_t m = 0; m < c->member_count; m++) {
    const uint32_t i = c->members[m];
    add_box(&page->dot, i, &s->r->nodes[i], s->f->stored[i] ? ", style=bold" : "");
  }
  text_add(&page->dot, "  }\n");
}

void dump_write_nodes(const pass_log *d, plan_pass pass, const dump_state *s) {
  dump_page page;
  const uint32_t clusters = s->f ? s->f->cluster_count : 0;
  dump_page_begin(&page, d, pass, count_live(s->r), "nodes");
  for (uint32_t i = 0; i < s->r->count; i++) {
    if (!s->r->nodes[i].live) continue;
    if (!s->f || s->f->cluster_of[i] == IR_NONE)
      add_box(&page.dot, i, &s->r->nodes[i], is_view(s->f, i) ? ", style=dashed" : "");
    add_node(&page, s, i);
  }
  text_add(&page.text, "\noutputs");
  for (uint32_t i = 0; i < s->r->output_count; i++)
    text_add(&page.text, " %u", s->r->outputs[i] + 1);
  text_add(&page.text, "\n\n");
  for (uint32_t i = 0; i < clusters; i++) add_cluster(&page, s, s->order ? s->order[i] : i);
  dump_page_write(&page, d, pass);
}
