/* SPDX-License-Identifier: MIT */
/* Generates source and launches from a descriptor: the part that all kinds share. */
#include "codegen/generate/generate.h"

#include <stdio.h>
#include <string.h>

#include "codegen/generate/emit/emit.h"
#include "core/base/alloc.h"

static const emit_kind *const kinds[] = {
#define ROW(code, number, name) [number] = &emit_##name,
    COMPUTE_KERNEL_KINDS(ROW)
#undef ROW
};

/* Devices with a compiler run SPOTS as a graph of other operations. */
const emit_kind emit_spots = {.name = "SPOTS"};
const emit_kind emit_quantized_gemm = {.name = "QUANTIZED_GEMM"};

/* Generated code cannot call back into the program. */
const emit_kind emit_call = {.name = "CALL"};

static const emit_kind *kind_of(compute_kernel_kind kind) {
  return (size_t)kind < sizeof kinds / sizeof *kinds ? kinds[kind] : NULL;
}

const tuning_grid *generate_grids(compute_kernel_kind kind) {
  const emit_kind *k = kind_of(kind);
  return k ? k->grids : NULL;
}

static const char *dialect_file(compute_dialect dialect) {
  switch (dialect) {
  case COMPUTE_DIALECT_CUDA: return "dialect_cuda.h";
  case COMPUTE_DIALECT_C: return "dialect_c.h";
  case COMPUTE_DIALECT_OPENCL: break;
  }
  return "dialect_opencl.h";
}

const char *generate_dialect(compute_dialect dialect) {
  const char *text = kernel_text_find(dialect_file(dialect));
  return text ? text : "";
}

/* ---- Requirements of every kernel ---------------------------------------------------------- */

static bool program_has_f64(const compute_program *program) {
  for (uint32_t i = 0; i < program->count; i++) {
    if (program->instructions[i].type == COMPUTE_F64) return true;
  }
  return false;
}

static bool descriptor_has_f64(const compute_kernel_descriptor *d, const emit_kind *kind) {
  for (uint32_t i = 0; i < d->input_count; i++) {
    if (d->inputs[i].dtype == COMPUTE_F64) return true;
  }
  for (uint32_t k = 0; k < d->output_count; k++) {
    if (d->outputs[k].dtype == COMPUTE_F64) return true;
  }
  return (kind->accumulates && d->accumulate == COMPUTE_F64) || program_has_f64(&d->prologue) ||
         program_has_f64(&d->epilogue);
}

/* ---- Assembling ---------------------------------------------------------------------------- */

static void add_data(text_buffer *to, const text_buffer *from) {
  if (from->failed) to->failed = true;
  if (from->data) text_add(to, "%s", from->data);
}

/* Writes the struct of the shape. A last member fills it up to a multiple of 8 bytes: rusticl of
 * Mesa 22.3 refuses arguments that end with the compiler's padding. */
static void add_shape(text_buffer *source, const emit_launch *l) {
  text_add(source, "typedef struct {\n");
  add_data(source, &l->offsets);
  add_data(source, &l->fields);
  if (l->shape_bytes % 8) text_add(source, "  u32 padding;\n");
  text_add(source, "} shape_%s;\n", l->entry);
}

/* Writes the entry point. The C dialect also gets a function that calls it with an array of
 * arguments. */
static void add_entry(text_buffer *source, const emit_launch *l, compute_dialect dialect) {
  add_shape(source, l);
  text_add(source, "KERNEL REQUIRE_%s(%u, %u, %u", l->room ? "ROOM" : "GROUP",
           (unsigned)l->group[0], (unsigned)l->group[1], (unsigned)l->group[2]);
  if (l->room) text_add(source, ", %u", (unsigned)l->room);
  text_add(source, ") void %s(", l->entry);
  add_data(source, &l->parameters);
  text_add(source, "const shape_%s shape) {\n", l->entry);
  add_data(source, &l->advance);
  add_data(source, &l->body);
  text_add(source, "}\n");
  if (dialect != COMPUTE_DIALECT_C) return;
  text_add(source,
           "__attribute__((visibility(\"default\"))) void %s_call(void **arguments);\n"
           "void %s_call(void **arguments) {\n  %s(",
           l->entry, l->entry, l->entry);
  add_data(source, &l->call);
  text_add(source, "*(const shape_%s *)arguments[%u]);\n}\n", l->entry, (unsigned)l->buffer_count);
}

/* Items of groups of one wait for nobody. PoCL's compiler takes minutes for loops with barriers. */
static bool items_are_alone(const generation *g) {
  for (uint32_t i = 0; i < g->launch_count; i++) {
    const uint32_t *group = g->launch[i]->group;
    if (group[0] != 1 || group[1] != 1 || group[2] != 1) return false;
  }
  return true;
}

static bool write_source(const generation *g, text_buffer *source) {
  text_buffer entries = {0};
  for (uint32_t i = 0; i < g->launch_count; i++) {
    add_entry(&entries, g->launch[i], g->target->dialect);
  }
  const char *texts[] = {g->definitions.data, entries.data};
  text_add(source, "%s#define INDEX %s\n", generate_dialect(g->target->dialect),
           g->wide ? "i64" : "i32");
  text_add(source,
           g->wide ? "#define DIVIDE(n, d) ((INDEX)((u64)(n) / (u64)(d)))\n"
                   : "#define DIVIDE(n, d) ((INDEX)(((u64)(u32)(n) * d##_magic) >> d##_shift))\n");
  if (items_are_alone(g))
    text_add(source, "#undef BARRIER\n#define BARRIER() ((void)0)\n"
                     "#undef BARRIER_GLOBAL\n#define BARRIER_GLOBAL() ((void)0)\n");
  if (emit_for_cpu(g)) text_add(source, "#define FOR_CPU\n");
  if (emit_for_cpu(g) && emit_has(g, COMPUTE_TARGET_F64)) {
    text_add(source, "#define FOR_CPU_WITH_F64\n");
  }
  const bool done = kernel_text_functions(source, texts, 2);
  add_data(source, &g->definitions);
  add_data(source, &entries);
  text_release(&entries);
  return done && !source->failed;
}

/* ---- The result ---------------------------------------------------------------------------- */

/* The result of generate_kernel: one block for the struct and the data behind its launches. */
typedef struct result_block {
  compute_generated generated;
  char *source;
  compute_generated_buffer buffer[COMPUTE_GENERATED_LAUNCHES][EMIT_BUFFERS];
  _Alignas(8) unsigned char shape[COMPUTE_GENERATED_LAUNCHES][EMIT_SHAPE_BYTES];
} result_block;

static void fill_launch(result_block *block, uint32_t index, const emit_launch *l) {
  compute_generated_launch *launch = &block->generated.launches[index];
  memcpy(launch->group, l->group, sizeof launch->group);
  memcpy(launch->groups, l->groups, sizeof launch->groups);
  memcpy(block->buffer[index], l->buffer, sizeof l->buffer);
  launch->local_bytes = l->local_bytes;
  launch->buffer_count = l->buffer_count;
  launch->buffers = block->buffer[index];
  const uint32_t offsets = 8 * l->buffer_count;
  memcpy(block->shape[index] + offsets, l->shape, l->shape_bytes);
  launch->shape = block->shape[index];
  launch->shape_bytes = (offsets + l->shape_bytes + 7) / 8 * 8;
}

/* The names of the entry points follow the source in the same block of memory. */
static result_block *make_result(const generation *g) {
  text_buffer source = {0};
  result_block *block = base_allocate(1, sizeof *block);
  if (!block || (g->launch_count > 0 && !write_source(g, &source))) goto failed;
  const size_t source_bytes = source.length;
  size_t name_at[COMPUTE_GENERATED_LAUNCHES];
  for (uint32_t i = 0; i < g->launch_count; i++) {
    name_at[i] = source.length + 1;
    text_add(&source, "%c%s", 0, g->launch[i]->entry);
  }
  if (source.failed) goto failed;
  compute_generated *generated = &block->generated;
  block->source = source.data;
  generated->struct_size = sizeof *generated;
  generated->source = source.data;
  generated->source_bytes = source_bytes;
  generated->workspace_bytes = g->workspace_bytes;
  generated->faults = g->faults;
  generated->launch_count = g->launch_count;
  generated->tuning = g->tuning;
  memcpy(generated->text, g->text, sizeof g->text);
  for (uint32_t i = 0; i < g->launch_count; i++) {
    fill_launch(block, i, g->launch[i]);
    generated->launches[i].entry = source.data + name_at[i];
  }
  return block;

failed:
  text_release(&source);
  base_release(block);
  return NULL;
}

/* ---- The kernel ---------------------------------------------------------------------------- */

compute_status generate_kernel(const compute_target *target,
                               const compute_kernel_descriptor *descriptor,
                               const compute_tuning *tuning, const compute_generated **generated,
                               char *reason, size_t reason_bytes) {
  char unwanted[8];
  generation g = {.target = target,
                  .descriptor = descriptor,
                  .reason = reason ? reason : unwanted,
                  .reason_bytes = reason ? reason_bytes : sizeof unwanted};
  *generated = NULL;
  if (tuning) g.tuning = *tuning;
  if (g.reason_bytes > 0) g.reason[0] = 0;
  const emit_kind *kind = kind_of(descriptor->kind);
  if (!kind || !kind->emit)
    return emit_refuse(&g, "no generated kernel of kind %d", (int)descriptor->kind);
  if (!emit_has(&g, COMPUTE_TARGET_F64) && descriptor_has_f64(descriptor, kind)) {
    return emit_refuse(&g, "the device has no f64");
  }
  compute_status status = kind->emit(&g);
  if (!status) status = emit_check_launches(&g);
  if (!status) {
    result_block *block = g.failed ? NULL : make_result(&g);
    if (block) *generated = &block->generated;
    if (!block) status = COMPUTE_ERROR_OUT_OF_MEMORY;
  }
  emit_release_launches(&g);
  return status;
}

void generate_release(const compute_generated *generated) {
  if (!generated) return;
  result_block *block = (result_block *)generated; /* first member of result_block */
  base_release(block->source);
  base_release(block);
}

bool generate_supports(const compute_target *target, const compute_kernel_descriptor *descriptor,
                       char *reason, size_t reason_bytes) {
  const compute_generated *generated;
  const compute_status status =
      generate_kernel(target, descriptor, NULL, &generated, reason, reason_bytes);
  generate_release(generated);
  /* Out of memory is no property of the kernel; the build will report it. */
  return status == COMPUTE_OK || status == COMPUTE_ERROR_OUT_OF_MEMORY;
}
