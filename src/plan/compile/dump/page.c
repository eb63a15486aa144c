/* SPDX-License-Identifier: MIT */
/* The log of a compilation: times of its passes; names and frames of the dump files. */
#include <stdatomic.h>
#include <stdio.h>

#include "core/device/collector.h"
#include "plan/compile/dump/dump.h"

static const char *const names[] = {"",
#define PASS(name, text) text,
                                    PLAN_PASSES(PASS)
#undef PASS
};

/* Per process, not per context: the contexts of a process share the folder. */
static atomic_uint compilations;

pass_log *pass_log_begin(const compute_plan *plan, pass_log *d) {
  dump_folder *folder = slot_get(&plan->context->slots, &dump_slot);
  const bool is_timed = profile_is_on(plan->context);
  if (!folder && !is_timed) return NULL;
  const int64_t now = clock_now();
  *d = (pass_log){.plan = plan,
                  .folder = folder,
                  .number = folder ? atomic_fetch_add(&compilations, 1) + 1 : 0,
                  .is_timed = is_timed,
                  .begin = now,
                  .pass_begin = now};
  return d;
}

/* The graph as it was recorded is not the work of a pass. */
void pass_log_time(const pass_log *d, plan_pass pass) {
  if (d->is_timed && pass != PASS_GRAPH)
    profile_pass(d->plan->context, names[pass], "", d->pass_begin);
}

void pass_log_finish(const pass_log *d) {
  if (!d || !d->is_timed) return;
  profile_pass(d->plan->context, "finish", "", d->pass_begin);
  profile_pass(d->plan->context, "compile", d->plan->name, d->begin);
}

void dump_quoted(text_buffer *t, const char *text) {
  for (const char *c = text; *c;) {
    const size_t length = utf8_length(c);
    const bool is_control = (unsigned char)*c < 0x20 || *c == 0x7f;
    if (*c == '\n')
      text_add(t, "\\n");
    else if (*c == '"' || *c == '\\')
      text_add(t, "\\%c", *c);
    else if (length == 0 || is_control)
      text_add(t, "?");
    else
      text_add(t, "%.*s", (int)length, c);
    c += length > 0 ? length : 1;
  }
}

/* "plan 3 (training step), pass 4, fuse: 12 nodes" */
static void add_title(text_buffer *t, const pass_log *d, plan_pass pass, uint32_t count,
                      const char *things) {
  text_add(t, "plan %u (", d->number);
  dump_quoted(t, d->plan->name ? d->plan->name : "unnamed");
  text_add(t, "), pass %d, %s: %u %s", (int)pass, names[pass], count, things);
}

void dump_page_begin(dump_page *page, const pass_log *d, plan_pass pass, uint32_t count,
                     const char *things) {
  *page = (dump_page){0};
  add_title(&page->text, d, pass, count, things);
  text_add(&page->text, "\n\n");
  text_add(&page->dot, "strict digraph \"");
  add_title(&page->dot, d, pass, count, things);
  text_add(&page->dot, "\" {\n  node [shape=box];\n");
}

static void write_one(const text_buffer *t, const pass_log *d, plan_pass pass, const char *end) {
  char name[64];
  snprintf(name, sizeof name, "plan-%04u-%02d-%s.%s", d->number, (int)pass, names[pass], end);
  dump_file(d->folder, name, t->data, t->length, false);
}

void dump_page_write(dump_page *page, const pass_log *d, plan_pass pass) {
  text_add(&page->dot, "}\n");
  if (!page->text.failed && !page->dot.failed) {
    write_one(&page->text, d, pass, "txt");
    write_one(&page->dot, d, pass, "dot");
  }
  text_release(&page->text);
  text_release(&page->dot);
}
