/* SPDX-License-Identifier: MIT */
/* Forms: a kind of kernel can have several, and this file chooses one. */
#include "codegen/generate/emit/emit.h"

#include <string.h>

static compute_status try_form(generation *g, const emit_form *form, void *problem) {
  g->tuning.variant = form->variant;
  compute_status status = form->accept(g, problem);
  if (!status) status = form->write(g, problem);
  return status ? status : emit_check_launches(g);
}

/* Removes everything that a form wrote before it refused. */
static void start_over(generation *g) {
  emit_release_launches(g);
  g->workspace_bytes = 0;
  g->faults = g->overflow = false;
  g->tuning = (compute_tuning){0};
  g->text[0] = 0;
  if (g->reason_bytes > 0) g->reason[0] = 0;
}

compute_status emit_by_form(generation *g, const emit_kind *kind, const emit_form *const *forms,
                            void *problem) {
  static const compute_tuning nothing;
  const uint32_t asked = g->tuning.variant;
  const bool is_free = memcmp(&g->tuning, &nothing, sizeof nothing) == 0;
  for (; *forms; forms++) {
    const emit_form *form = *forms;
    if (asked ? form->variant != asked : form->suits && !form->suits(g, problem)) continue;
    const compute_status status = try_form(g, form, problem);
    if (status != COMPUTE_ERROR_UNSUPPORTED || !is_free || !forms[1]) return status;
    start_over(g);
  }
  return emit_refuse(g, "%s has no variant %u", kind->name, (unsigned)asked);
}
