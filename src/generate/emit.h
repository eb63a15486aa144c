/* What the kinds of kernel are written with: text, launches, index spaces and programs.
 *
 * A kind is one function, compute_status emit_<kind>(generation *g). It fills in g->tuning (0 asks
 * for its judgement), writes definitions and one body for each launch, and returns COMPUTE_OK or
 * emit_refuse(…). Want of memory is remembered in the texts and found at the end: no call needs
 * checking for it.
 *
 * The finished source is
 *
 *   kernels/dialect_<dialect>.h
 *   #define INDEX i32                        or i64: g->wide
 *   functions of kernels/functions_*.h       those whose names occur below, and what they use
 *   g->definitions                           #defines, programs, helper functions, templates
 *   for each launch
 *     typedef struct { … } shape_<entry>;    offsets of the buffers, then the fields
 *     KERNEL REQUIRE_GROUP(…) void <entry>(GLOBAL const u16 *in0, …, const shape_<entry> shape) {
 *       in0 += shape.offset_in0; …
 *       launch->body
 *     }
 *
 * So whoever writes `exp_f32(x)`, `LOAD_f16(in0, i)` or `convert_f64_i32(x)` gets the definition
 * with it, and need not say so. */
#ifndef GENERATE_EMIT_H
#define GENERATE_EMIT_H

#include "base/text.h"
#include "compute/backend.h"

/* ---- A source under construction ----------------------------------------------------------- */

enum {
  EMIT_NAME_BYTES = 32,
  EMIT_BUFFERS = COMPUTE_MAX_OPERANDS + 3, /* workspace, fault and one to spare */
  EMIT_SHAPE_BYTES = 3072
};

/* One launch. Owned by its generation. */
typedef struct emit_launch {
  char entry[EMIT_NAME_BYTES];
  uint32_t group[3], groups[3];
  uint32_t room;          /* groups that should find room on a compute unit; 0: no matter */
  text_buffer body;       /* what stands between the braces */
  text_buffer parameters; /* the rest is filled in by the functions below */
  text_buffer offsets;
  text_buffer fields;
  text_buffer advance;
  text_buffer call;
  uint32_t buffer_count;
  compute_generated_buffer buffer[EMIT_BUFFERS];
  uint32_t shape_bytes;
  unsigned char shape[EMIT_SHAPE_BYTES];
  bool overflow; /* more buffers or fields than fit */
} emit_launch;

typedef struct generation {
  const compute_target *target;
  const compute_kernel_descriptor *descriptor;
  compute_tuning tuning; /* as asked for; a kind writes down what it chose */
  bool wide;             /* INDEX is 64-bit. Set by space_canonicalise, or by the kind */
  text_buffer definitions;
  uint32_t launch_count;
  emit_launch *launch[COMPUTE_GENERATED_LAUNCHES];
  uint64_t workspace_bytes;
  bool faults;    /* a launch takes the fault word */
  char text[128]; /* one line on what was made, for compute_explain */
  char *reason;   /* of a refusal */
  size_t reason_bytes;
  bool failed;   /* no memory */
  bool overflow; /* more launches or groups than fit */
} generation;

/* Whether the target is a CPU: then an item should walk contiguous memory by itself, and vectors,
 * local memory and grid strides do harm. */
bool emit_for_cpu(const generation *g);
bool emit_has(const generation *g, uint32_t target_flag);

/* Writes the reason and returns COMPUTE_ERROR_UNSUPPORTED. */
compute_status emit_refuse(generation *g, const char *format, ...) COMPUTE_PRINTF(2, 3);

/* Appends kernels/<name>, without its comments. */
void emit_template(generation *g, text_buffer *text, const char *name);

/* ---- Launches ------------------------------------------------------------------------------ */

/* A new launch, at the end of the list, or NULL when memory is short (then the kind returns
 * COMPUTE_OK at once; the failure is noted) . groups of 0 count as 1. */
emit_launch *emit_launch_begin(generation *g, const char *entry, const uint32_t group[3],
                               const uint32_t groups[3]);

/* Buffer parameters, in order. Names are in<i>, out<k>, workspace and fault. Pointers have the
 * dtype's storage type, and offsets are added before the body. `written`: not const. */
void emit_input(generation *g, emit_launch *launch, uint32_t input);
void emit_output(generation *g, emit_launch *launch, uint32_t output);
void emit_inputs(generation *g, emit_launch *launch, uint32_t first, uint32_t end);
void emit_outputs(generation *g, emit_launch *launch); /* all */

/* `type` is a dialect type ("f32", "i64"), of element_bytes. The workspace may be taken several
 * times under different names; `offset_bytes` (a multiple of element_bytes) says where it starts.
 */
void emit_workspace(generation *g, emit_launch *launch, const char *name, const char *type,
                    uint32_t element_bytes, uint64_t offset_bytes, bool written);
void emit_fault(generation *g, emit_launch *launch); /* GLOBAL i32 *fault; sets g->faults */

/* Fields of the struct `shape`, read in the body as shape.<name>. An INDEX field has 32 or 64 bits
 * by g->wide, which must be final by then. */
void emit_field_index(generation *g, emit_launch *launch, const char *name, int64_t value);
void emit_field_u32(generation *g, emit_launch *launch, const char *name, uint32_t value);
void emit_field_i64(generation *g, emit_launch *launch, const char *name, int64_t value);
void emit_field_f32(generation *g, emit_launch *launch, const char *name, float value);
void emit_field_f64(generation *g, emit_launch *launch, const char *name, double value);

/* A field pair that divides: DIVIDE(n, shape.<name>) is n / value for 0 ≤ n, by multiplication
 * where INDEX has 32 bits. value > 0. Also makes shape.<name>, the value itself. */
void emit_field_divisor(generation *g, emit_launch *launch, const char *name, int64_t value);

/* ---- Spaces -------------------------------------------------------------------------------- */

/* How something walks over a space: a buffer ("in0", "out1"), or a number that programs ask for
 * ("position", "coordinate2"), which is an offset like any other. */
typedef struct emit_walk {
  char name[16];
  int64_t stride[COMPUTE_MAX_RANK];
} emit_walk;

enum { EMIT_WALKS = COMPUTE_MAX_OPERANDS + COMPUTE_MAX_RANK + 2 };

typedef struct emit_space {
  char name[EMIT_NAME_BYTES]; /* prefix of its fields */
  int32_t rank;
  int32_t fence; /* dimensions below it never merge with those past it; 0: no fence */
  /* Strides of dimensions below it are fields even if they are 0 or 1: one text for more shapes. To
   * be set after space_canonicalise. */
  int32_t generic;
  int64_t size[COMPUTE_MAX_RANK];
  uint32_t walk_count;
  emit_walk walk[EMIT_WALKS];
} emit_space;

/* Starts with the descriptor's rank and sizes. */
void space_begin(emit_space *space, const char *name, int32_t rank, const int64_t *size);
void space_add(emit_space *space, const char *name, const int64_t *stride);
/* in<first> … in<end − 1>; all outputs. */
void space_add_inputs(generation *g, emit_space *space, uint32_t first, uint32_t end);
void space_add_outputs(generation *g, emit_space *space);
/* The walks "position" and "coordinate<d>" that the program asks for, over the first `rank`
 * dimensions (strides past them are 0). */
void space_add_program(emit_space *space, const compute_program *program, int32_t rank);

/* Drops dimensions of size 1, merges neighbours that all walks take as one (never across the fence,
 * which moves along), and sets g->wide when 32 bits do not hold an offset or the element count.
 * Order and row-major positions stay. */
void space_canonicalise(generation *g, emit_space *space);

/* Elements in dimensions first … end − 1. */
int64_t space_count(const emit_space *space, int32_t first, int32_t end);
/* The walk of that name, or NULL. */
const emit_walk *space_walk(const emit_space *space, const char *name);

/* Adds the fields that emit_offsets reads in dimensions first … end − 1: sizes
 * shape.<space>_size<d> and strides shape.<space>_<walk>_<d> (no field for strides 0 and 1). Once
 * for each dimension and launch. */
void emit_space_fields(generation *g, emit_launch *launch, const emit_space *space, int32_t first,
                       int32_t end);

/* Declares `const INDEX <prefix>_<walk>` for every walk: its offset at row-major position `index`
 * (a variable or number; not negative) of dimensions first … end − 1. */
void emit_offsets(generation *g, text_buffer *text, const emit_space *space, int32_t first,
                  int32_t end, const char *index, const char *prefix);

/* The stride of a walk in a dimension as an expression: "0", "1" or "shape.<space>_<walk>_<d>". */
const char *emit_stride(const emit_space *space, const char *walk, int32_t dimension, char *text,
                        size_t bytes);

/* ---- Programs ------------------------------------------------------------------------------ */

/* A program written as a function of g->definitions. */
typedef struct emit_function {
  char name[EMIT_NAME_BYTES];
  bool first_is_value;  /* input 0 is not loaded but handed over: the folded value, the sum */
  uint32_t first_input; /* the descriptor's input that the first loaded one is */
  uint32_t input_count; /* with the value */
  bool used[COMPUTE_MAX_OPERANDS + 1]; /* inputs that are arguments at all */
  compute_dtype input_type[COMPUTE_MAX_OPERANDS + 1];
  bool position, coordinate[COMPUTE_MAX_RANK];
  uint32_t output_count;
  compute_dtype output_type[COMPUTE_MAX_OPERANDS]; /* program types */
} emit_function;

/* Writes `program` as a function: of the value of type `value` (COMPUTE_DTYPE_NONE: none) and the
 * descriptor's inputs first_input … end_input − 1. A program without instructions gives its first
 * input. One output is the function's result; several are the fields v0, v1, … of a struct
 * <name>_result. */
void emit_program(generation *g, emit_function *function, const char *name,
                  const compute_program *program, compute_dtype value, uint32_t first_input,
                  uint32_t end_input);

/* Writes a call. `value` is the expression of a value input, else NULL; `index` that of offsets, in
 * which $ stands for the walk's name: "kept_$ + reduced_$". It serves loads (LOAD_f16(in2, …)),
 * position and coordinates alike. */
void emit_call(generation *g, text_buffer *text, const emit_function *function, const char *value,
               const char *index);

/* The same with arguments of the caller's own making: `argument` writes the computing-type value of
 * input `input`, whose walk is `walk`, or, where is_input is false, the value of position or
 * coordinate<d>. */
typedef void (*emit_argument)(void *user, text_buffer *text, const char *walk, bool is_input,
                              uint32_t input);
void emit_call_with(text_buffer *text, const emit_function *function, const char *value,
                    emit_argument argument, void *user);

/* "f32" or "<name>_result". */
const char *emit_result_type(const emit_function *function, char *text, size_t bytes);

/* Stores all outputs of the descriptor from the result in the variable `result`, a statement each.
 */
void emit_stores(generation *g, text_buffer *text, const emit_function *function,
                 const char *result, const char *index);

/* One load or store as text: LOAD_bf16(pointer, index) has the dtype's computing type; a store
 * takes a value of program type `from` and converts it. The store ends with a semicolon. */
void emit_load(text_buffer *text, compute_dtype dtype, const char *pointer, const char *index);
void emit_store(text_buffer *text, compute_dtype dtype, compute_dtype from, const char *pointer,
                const char *index, const char *value);

/* `pattern` with every $ replaced by the walk's name. */
void emit_pattern(text_buffer *text, const char *pattern, const char *walk);

/* The program type in which elements of a dtype are computed: f16, bf16 -> F32; u8 -> I32. */
compute_dtype emit_computes(compute_dtype dtype);

/* The value of program type `from` as an element of storage type. */
void emit_convert(text_buffer *text, compute_dtype from, compute_dtype dtype, const char *value);

/* Names: "f32", "i64", "boolean" of a program type; "u16" for an f16 in memory; "bf16" as in
 * LOAD_bf16.
 */
const char *emit_type(compute_dtype program_type);
const char *emit_storage(compute_dtype dtype);
const char *emit_dtype(compute_dtype dtype);

/* ---- Kinds --------------------------------------------------------------------------------- */

typedef compute_status (*emit_kind)(generation *g);

compute_status emit_map(generation *g);
compute_status emit_copy(generation *g);
compute_status emit_reduce(generation *g);
compute_status emit_row(generation *g);
compute_status emit_gemm(generation *g);
compute_status emit_conv(generation *g);
compute_status emit_gather(generation *g);
compute_status emit_scatter(generation *g);
compute_status emit_fit(generation *g);
compute_status emit_window(generation *g);
compute_status emit_scan(generation *g);
compute_status emit_top_k(generation *g);
compute_status emit_attention(generation *g);

#endif
