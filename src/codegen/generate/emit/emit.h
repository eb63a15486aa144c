/* SPDX-License-Identifier: MIT */
/* The toolbox of the kinds of kernel: text, launches, index spaces and programs.
 *
 *   launch.c   launches: buffers, fields, and how items share the positions
 *   space.c    index spaces: fewest dimensions, and from positions to offsets
 *   program.c  programs of a descriptor as functions
 *   vector.c   vectors of neighbours
 *   text.c     macros, names of types, and the files of kernels/
 *   kinds/     the kinds, a file or a folder each
 *
 * A kind is one struct, emit_kind. Its `emit` fills in g->tuning (0 asks for the default choice),
 * writes definitions and one body for each launch, and returns COMPUTE_OK or emit_refuse(…). The
 * texts remember a lack of memory, and the end of the generation finds it: no call needs a check
 * for it.
 *
 * The finished source is
 *
 *   kernels/dialect_<dialect>.h
 *   #define INDEX i32                        or i64: g->wide
 *   functions of kernels/functions_*.h       those whose names occur below, and those they use
 *   g->definitions                           #defines, programs, helper functions, templates
 *   for each launch
 *     typedef struct { … } shape_<entry>;    offsets of the buffers, then the fields
 *     KERNEL REQUIRE_GROUP(…) void <entry>(GLOBAL const u16 *in0, …, const shape_<entry> shape) {
 *       in0 += shape.offset_in0; …
 *       launch->body
 *     }
 *
 * So code that uses `exp_f32(x)`, `LOAD_f16(in0, i)` or `convert_f64_i32(x)` gets the definition
 * automatically. */
#ifndef GENERATE_EMIT_H
#define GENERATE_EMIT_H

#include "codegen/generate/generate.h"
#include "compute/backend.h"
#include "core/base/arithmetic.h"
#include "core/base/text.h"
#include "core/type/dtype.h"

/* ---- A source under construction ----------------------------------------------------------- */

enum {
  EMIT_NAME_BYTES = 32,
  EMIT_BUFFERS = COMPUTE_MAX_OPERANDS + 3, /* workspace, fault and one to spare */
  EMIT_SHAPE_BYTES = 3072
};

/* One launch. Its generation owns it. */
typedef struct emit_launch {
  char entry[EMIT_NAME_BYTES];
  uint32_t group[3], groups[3];
  uint32_t local_bytes;   /* that the launch asks for: LOCAL_ARRAY_ASKED */
  uint32_t room;          /* groups that should fit on a compute unit; 0: any number */
  text_buffer body;       /* the text between the braces */
  text_buffer parameters; /* from here, the functions below fill in the fields */
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
  compute_tuning tuning; /* the request; a kind writes its choice here */
  bool wide;             /* INDEX is 64-bit. Set by space_canonicalise, or by the kind */
  text_buffer definitions;
  uint32_t launch_count;
  emit_launch *launch[COMPUTE_GENERATED_LAUNCHES];
  uint64_t workspace_bytes;
  bool faults;    /* a launch takes the fault word */
  char text[128]; /* one line on the choices made, for compute_explain */
  char *reason;   /* why the generator refuses */
  size_t reason_bytes;
  bool failed;   /* out of memory */
  bool overflow; /* more launches or groups than fit */
} generation;

/* True if the target is a CPU. There an item should walk contiguous memory by itself; vectors,
 * local memory and grid strides do harm. */
bool emit_for_cpu(const generation *g);
bool emit_has(const generation *g, uint32_t target_flag);

/* Writes the reason and returns COMPUTE_ERROR_UNSUPPORTED. */
compute_status emit_refuse(generation *g, const char *format, ...) COMPUTE_PRINTF(2, 3);

/* Limits for a group and for a compute unit. Where the target reports none, the result is the least
 * that every device of its family has. */
uint32_t emit_group_limit(const generation *g);
uint64_t emit_local_limit(const generation *g);
/* Bytes of local memory that a launch may ask for; 0: it cannot ask. The second is the larger of
 * both limits. */
uint64_t emit_asked_local_limit(const generation *g);
uint64_t emit_most_local_limit(const generation *g);
/* True if the order of sums must not depend on the number of items: no choice by the number of
 * rows, results or batches, nor by the device's compute units. */
static inline bool emit_is_reproducible(const generation *g) {
  return (g->descriptor->demands & COMPUTE_DEMAND_REPRODUCIBLE) != 0;
}
static inline int64_t emit_units(const generation *g) {
  return g->target->compute_units > 0 ? g->target->compute_units : 1;
}

/* ---- Numbers ------------------------------------------------------------------------------- */

static inline int64_t emit_clamp(int64_t value, int64_t low, int64_t high) {
  if (value > high) value = high;
  return value < low ? low : value;
}
static inline int64_t emit_magnitude(int64_t value) {
  return value < 0 ? (int64_t)(0 - (uint64_t)value) : value;
}
static inline bool emit_is_power(uint32_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}
/* The lowest power of two ≥ n, for n ≤ 2^62. */
static inline int64_t emit_power_of_two(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}
/* For fields of compute_tuning that are not set. */
static inline void emit_default(uint32_t *value, uint32_t preset) {
  if (*value == 0) *value = preset;
}

/* ---- Text ---------------------------------------------------------------------------------- */

/* The files of kernels/, without comments. A row without a name ends the table. */
typedef struct kernel_text {
  const char *name; /* "dialect_c.h" */
  const char *text; /* zero-terminated */
  size_t bytes;
} kernel_text;
extern const kernel_text kernel_texts[];

/* Returns NULL if there is no such file. */
const char *kernel_text_find(const char *name);

/* Appends those functions of kernels/functions_*.h whose names occur in the `count` texts, and the
 * functions that they use in turn. Each function comes after the ones that it uses. Returns false
 * when memory is short. */
bool kernel_text_functions(text_buffer *to, const char *const *texts, size_t count);

/* Appends the template of that name. */
void emit_template(generation *g, text_buffer *text, const char *name);

/* #define <name> <value>; replaces an earlier meaning of the name. Line ends in the value become
 * spaces. */
void emit_define(text_buffer *text, const char *name, const char *value);
void emit_define_number(text_buffer *text, const char *name, int64_t value);
/* As emit_define, but releases and empties `value`. A failure of `value` becomes a failure of
 * `text`. */
void emit_define_text(text_buffer *text, const char *name, text_buffer *value);
/* Adds to g->definitions a name that has no meaning yet. */
void emit_constant(generation *g, const char *name, int64_t value);

/* Names: "f32", "i64", "boolean" of a program type; "u16" for an f16 in memory. */
const char *emit_type(compute_dtype program_type);
const char *emit_storage(compute_dtype dtype);
/* For a program type: bytes of a value, and its lowest and highest value in the dialect's notation
 * (infinities for floats). */
uint32_t emit_value_bytes(compute_dtype type);
const char *emit_lowest(compute_dtype type);
const char *emit_highest(compute_dtype type);
/* Defines VALUE, FOLD (for ARGMAX and ARGMIN: FOLD_MORE), FOLD_IDENTITY and FOLD_IS_SUM. Returns
 * FOLD_IS_SUM: true for a sum of floats, which needs the template fold_compensated. */
bool emit_define_fold(text_buffer *text, compute_combine combine, compute_dtype type);

/* ---- Launches ------------------------------------------------------------------------------ */

/* Appends a new launch to the list. Returns NULL when memory is short; then the kind returns
 * COMPUTE_OK at once, since the failure is noted. groups of 0 count as 1. */
emit_launch *emit_launch_begin(generation *g, const char *entry, const uint32_t group[3],
                               const uint32_t groups[3]);

/* The same with a group and a grid of one dimension. */
emit_launch *emit_launch_line(generation *g, const char *entry, uint32_t group, int64_t groups);

/* Releases all launches and the definitions. */
void emit_release_launches(generation *g);

/* Buffer parameters, in order. Their names are in<i>, out<k>, workspace and fault. Pointers have
 * the dtype's storage type, and the offsets are added before the body. `written`: not const. */
void emit_input(generation *g, emit_launch *launch, uint32_t input);
void emit_output(generation *g, emit_launch *launch, uint32_t output);
void emit_inputs(generation *g, emit_launch *launch, uint32_t first, uint32_t end);
void emit_outputs(generation *g, emit_launch *launch); /* all */

/* `type` is a dialect type ("f32", "i64") with a size of element_bytes. A launch may take the
 * workspace several times under different names. Each starts at `offset_bytes`, a multiple of
 * element_bytes. */
void emit_workspace(generation *g, emit_launch *launch, const char *name, const char *type,
                    uint32_t element_bytes, uint64_t offset_bytes, bool written);
void emit_fault(generation *g, emit_launch *launch); /* GLOBAL i32 *fault; sets g->faults */

/* Fields of the struct `shape`; the body reads them as shape.<name>. An INDEX field has 32 or 64
 * bits by g->wide, which must be final at that point. */
void emit_field_index(generation *g, emit_launch *launch, const char *name, int64_t value);
void emit_field_u32(generation *g, emit_launch *launch, const char *name, uint32_t value);
void emit_field_i64(generation *g, emit_launch *launch, const char *name, int64_t value);
void emit_field_f32(generation *g, emit_launch *launch, const char *name, float value);
void emit_field_f64(generation *g, emit_launch *launch, const char *name, double value);

/* Fields for a divisor: DIVIDE(n, shape.<name>) is n / value for 0 ≤ n, by multiplication where
 * INDEX has 32 bits. value > 0. Also makes shape.<name>, the value itself. */
void emit_field_divisor(generation *g, emit_launch *launch, const char *name, int64_t value);

/* Items of a group: the largest power of two up to `wanted` that the target can run. */
uint32_t emit_group_items(const generation *g, uint32_t wanted);

/* How items share positions of equal work. */
typedef struct sweep {
  int64_t count; /* positions 0 … count − 1 */
  uint32_t group;
  int64_t groups;
  int64_t share; /* positions of a CPU item, in sequence; 0: items take turns */
} sweep;

/* A CPU gets single items, each with a share of at least `least` positions. Other targets get
 * groups of tuning.group_x or `group` items, and neighbouring items take neighbouring positions.
 * Sets group_x. count > 0. */
sweep sweep_plan(generation *g, int64_t count, int64_t least, uint32_t group);

/* "for (INDEX at = …) {": the caller closes the brace. The launch has the sweep's groups. */
void sweep_begin(generation *g, emit_launch *launch, const sweep *s);

/* Sets g->wide if 32 bits cannot address an operand of the descriptor, or cannot hold `more`,
 * another number for the computation of positions. */
void sweep_measure(generation *g, double more);

/* ---- Spaces -------------------------------------------------------------------------------- */

/* How a name walks over a space: a buffer ("in0", "out1"), or a number that programs ask for
 * ("position", "coordinate2"), which is an offset like any other. */
typedef struct emit_walk {
  char name[16];
  int64_t stride[COMPUTE_MAX_RANK];
} emit_walk;

enum { EMIT_WALKS = COMPUTE_MAX_OPERANDS + COMPUTE_MAX_RANK + 2 };

typedef struct emit_space {
  char name[EMIT_NAME_BYTES]; /* prefix of its fields */
  int32_t rank;
  int32_t fence; /* dimensions below it never merge with later ones; 0: no fence */
  /* Strides of dimensions below it are fields even if they are 0 or 1, so that one text serves more
   * shapes. Set it after space_canonicalise. */
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
/* Adds the walks "position" and "coordinate<d>" that the program asks for, over the first `rank`
 * dimensions. Their strides in later dimensions are 0. */
void space_add_program(emit_space *space, const compute_program *program, int32_t rank);

/* Drops dimensions of size 1 and merges neighbours that all walks take as one. Never merges across
 * the fence, which moves along. Sets g->wide when 32 bits do not hold an offset or the element
 * count. Order and row-major positions stay. */
void space_canonicalise(generation *g, emit_space *space);

/* Elements in dimensions first … end − 1. */
int64_t space_count(const emit_space *space, int32_t first, int32_t end);
/* The walk of that name, or NULL. */
const emit_walk *space_walk(const emit_space *space, const char *name);

/* Gives the space at least one dimension, so that a last one always exists. */
void space_fill_rank(emit_space *space);

/* Rows of the space: a space over its first `rank` dimensions with the walks of all operands. The
 * position of a row in it is "row". It may have no dimension left. Returns false if there is no
 * row. */
bool space_rows(generation *g, emit_space *space, int32_t rank);

/* Adds the fields that emit_offsets reads in dimensions first … end − 1: sizes
 * shape.<space>_size<d> and strides shape.<space>_<walk>_<d> (no field for strides 0 and 1). Call
 * it once for each dimension and launch. */
void emit_space_fields(generation *g, emit_launch *launch, const emit_space *space, int32_t first,
                       int32_t end);

/* Declares `const INDEX <prefix>_<walk>` for every walk: its offset at row-major position `index`
 * of dimensions first … end − 1. `index` is a variable or a number, and not negative. */
void emit_offsets(generation *g, text_buffer *text, const emit_space *space, int32_t first,
                  int32_t end, const char *index, const char *prefix);

/* " + <variable> * <stride>" of a walk in a dimension; nothing for stride 0. */
void emit_term(text_buffer *text, const emit_space *space, const char *walk, int32_t dimension,
               const char *variable);

/* The stride of a walk in a dimension as an expression: "0", "1" or "shape.<space>_<walk>_<d>". */
const char *emit_stride(const emit_space *space, const char *walk, int32_t dimension, char *text,
                        size_t bytes);

/* #define <name>(<parameter>) const INDEX <prefix>_<walk> = …; for dimensions first … end − 1 */
void emit_define_offsets(generation *g, text_buffer *text, const char *name, const char *parameter,
                         const emit_space *space, int32_t first, int32_t end, const char *prefix);
/* const INDEX <prefix>_<walk> = …; the stride along a dimension, 0 for a dimension ≥ the rank */
void emit_steps(text_buffer *text, const char *prefix, const emit_space *space, int32_t dimension);

/* ---- Programs ------------------------------------------------------------------------------ */

/* A program as a function in g->definitions. */
typedef struct emit_function {
  char name[EMIT_NAME_BYTES];
  bool first_is_value;  /* input 0 is a value argument, not a load: the folded value, the sum */
  uint32_t first_input; /* descriptor input of the first load */
  uint32_t input_count; /* includes the value */
  bool used[COMPUTE_MAX_OPERANDS + 1]; /* inputs that become arguments */
  compute_dtype input_type[COMPUTE_MAX_OPERANDS + 1];
  bool position, coordinate[COMPUTE_MAX_RANK];
  uint32_t output_count;
  compute_dtype output_type[COMPUTE_MAX_OPERANDS]; /* program types */
} emit_function;

/* Writes `program` as a function of the value of type `value` (COMPUTE_DTYPE_NONE: none) and of the
 * descriptor's inputs first_input … end_input − 1. A program without instructions returns its first
 * input. One output is the result of the function. Several outputs are the fields v0, v1, … of a
 * struct <name>_result. */
void emit_program(generation *g, emit_function *function, const char *name,
                  const compute_program *program, compute_dtype value, uint32_t first_input,
                  uint32_t end_input);

/* Writes a call. `value` is the expression of a value input, else NULL. `index` is the pattern of
 * the offsets; the walk's name replaces each $: "kept_$ + reduced_$". It serves loads
 * (LOAD_f16(in2, …)), position and coordinates alike. */
void emit_function_call(generation *g, text_buffer *text, const emit_function *function,
                        const char *value, const char *index);

/* The same with arguments from the caller. `argument` writes the computing-type value of input
 * `input` with walk `walk`. Where is_input is false, it writes the value of position or
 * coordinate<d>. */
typedef void (*emit_argument)(void *user, text_buffer *text, const char *walk, bool is_input,
                              uint32_t input);
void emit_call_with(text_buffer *text, const emit_function *function, const char *value,
                    emit_argument argument, void *user);

/* "f32" or "<name>_result". */
const char *emit_result_type(const emit_function *function, char *text, size_t bytes);

/* Stores all outputs of the descriptor from the variable `result`, one statement each. */
void emit_stores(generation *g, text_buffer *text, const emit_function *function,
                 const char *result, const char *index);

/* Writes a call and stores its outputs: const <type> result = f(value, …); out0[…] = …; */
void emit_apply(generation *g, text_buffer *text, const emit_function *function, const char *value,
                const char *index);

/* One load or store as text. LOAD_bf16(pointer, index) has the dtype's computing type. A store
 * takes a value of program type `from` and converts it; it ends with a semicolon. */
void emit_load(text_buffer *text, compute_dtype dtype, const char *pointer, const char *index);
void emit_store(text_buffer *text, compute_dtype dtype, compute_dtype from, const char *pointer,
                const char *index, const char *value);

/* `pattern` with every $ replaced by the walk's name. */
void emit_pattern(text_buffer *text, const char *pattern, const char *walk);

/* The value of program type `from` as an element of storage type. */
void emit_convert(text_buffer *text, compute_dtype from, compute_dtype dtype, const char *value);

/* #define FINISH(<parameters>): applies the epilogue to `value` at the offsets `index` and stores
 * the result. */
void emit_define_finish(generation *g, text_buffer *text, const emit_function *epilogue,
                        const char *parameters, const char *before, const char *value,
                        const char *index);

/* ---- Vectors -------------------------------------------------------------------------------- */

/* Loads and stores several neighbours along the last dimension of a space at once. */
enum { VECTOR_MOST = 8 };
/* The dtype of a walk of an operand; COMPUTE_DTYPE_NONE for position and coordinates. */
compute_dtype vector_dtype(const generation *g, const char *walk);
/* The largest number of elements in a load; 1 if the pattern of strides allows no vectors. */
uint32_t vector_choose(const generation *g, const emit_space *space);
/* True if the sizes and strides keep every vector inside a row and, given aligned buffers,
 * aligned. */
bool vector_fits(const generation *g, const emit_space *space, int64_t vector);
/* " && ALIGNED(in0, 16)" for each operand whose neighbours the space has, among the first `inputs`
 * inputs and, if `outputs`, all outputs. */
void vector_aligned(const generation *g, text_buffer *text, const emit_space *space,
                    uint32_t inputs, bool outputs, uint32_t vector);

/* #define VECTOR_ELEMENTS(at_step, to): computes the function of the elements from the offsets
 * `index` on into an array.
 * #define VECTOR_FINISH(at_step, inside, from): computes the function of the values in an array,
 * and stores the results if `inside`. */
void vector_define_elements(generation *g, text_buffer *text, const emit_space *space,
                            const emit_function *f, uint32_t vector, const char *index);
void vector_define_finish(generation *g, text_buffer *text, const emit_space *space,
                          const emit_function *f, uint32_t vector, const char *index);

/* ---- Spaces in another order of dimensions -------------------------------------------------- */

/* Dimension i of a space is the descriptor's dimension[i]. The order never moves a dimension across
 * the border between kept and reduced ones. */
typedef struct space_order {
  int32_t kept, rank;
  int32_t dimension[COMPUTE_MAX_RANK];
} space_order;

/* On both sides of `kept`, the dimension with the smallest steps of the main input comes last. The
 * main input is the input among 0 … count − 1 that repeats least. */
space_order space_sort(const compute_kernel_descriptor *d, int32_t kept, uint32_t count,
                       int32_t *main_input);

/* A space over the first `rank` dimensions of the order. */
void space_begin_in_order(emit_space *space, const char *name, const compute_kernel_descriptor *d,
                          const space_order *order, int32_t rank);
/* Adds the walks of the function's inputs, position and coordinates, over the descriptor's first
 * `rank` dimensions. Existing walks stay. */
void space_add_function(emit_space *space, const compute_kernel_descriptor *d,
                        const emit_function *function, const space_order *order, int32_t rank);
void space_add_outputs_in_order(emit_space *space, const compute_kernel_descriptor *d,
                                const space_order *order);
/* Row-major position in the descriptor's dimensions first … end − 1. */
void space_add_position(emit_space *space, const char *name, const compute_kernel_descriptor *d,
                        const space_order *order, int32_t first, int32_t end);

/* ---- Kinds --------------------------------------------------------------------------------- */

/* One axis of a grid. */
#define TUNE(member, ...)                                                                          \
  {                                                                                                \
    offsetof(compute_tuning, member), {                                                            \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }

typedef struct emit_kind {
  const char *name;
  bool accumulates;                      /* in descriptor->accumulate */
  compute_status (*emit)(generation *g); /* NULL: there is no generated kernel */
  const tuning_grid *grids;              /* NULL: it reads no parameters */
} emit_kind;

/* Every kind of COMPUTE_KERNEL_KINDS has an emit_<name>, defined in the kind's source. */
#define EMIT_DECLARE(code, number, name) extern const emit_kind emit_##name;
COMPUTE_KERNEL_KINDS(EMIT_DECLARE)
#undef EMIT_DECLARE

/* Refuses if a launch exceeds the limits of the target. */
compute_status emit_check_launches(generation *g);

/* One form of a kind: one way to write it, with its value of compute_tuning.variant. `problem` is
 * the part of the descriptor that the kind has read. */
typedef struct emit_form {
  uint32_t variant;
  bool (*suits)(const generation *g, const void *problem); /* by default; NULL: always */
  /* Completes g->tuning, or refuses. A form that refuses, here or in write, leaves the problem with
   * the same meaning. */
  compute_status (*accept)(generation *g, void *problem);
  compute_status (*write)(generation *g, void *problem);
} emit_form;

/* Writes the form that g->tuning asks for, or else the first that suits. If g->tuning is empty and
 * a form refuses, the next one that suits is tried. Parameters that the caller asked for are
 * refused, never replaced. The list ends with a form that always suits, and NULL. */
compute_status emit_by_form(generation *g, const emit_kind *kind, const emit_form *const *forms,
                            void *problem);

#endif
