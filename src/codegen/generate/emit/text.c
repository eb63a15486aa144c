/* SPDX-License-Identifier: MIT */
/* The parts of a source: macros, names of types, templates and functions of kernels/.
 *
 * In the files of kernels/ a line "//@ name" starts a section, which ends at the next such line. A
 * section of functions_*.h is one function. Any other section is a template, and its name begins as
 * the name of its file. A section of functions uses only earlier sections of its file, or files
 * that precede it in the alphabet. So one pass from the last section to the first finds all needed
 * sections: every user of a section is visited before the section.
 *
 * In functions_real.h "real" is replaced by f32 and f64. In functions_integer.h "integer" and
 * "natural" are replaced by i32 and u32, i64 and u64. Each section there gives several
 * functions. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "codegen/generate/emit/emit.h"
#include "core/base/alloc.h"
#include "core/base/real.h"

static const char section_mark[] = "//@ ";
enum { MARK_BYTES = sizeof section_mark - 1, NAME_BYTES = 40 };

/* ---- Macros -------------------------------------------------------------------------------- */

void emit_define(text_buffer *text, const char *name, const char *value) {
  const size_t name_length = strcspn(name, "(");
  text_add(text, "#undef %.*s\n#define %s ", (int)name_length, name, name);
  while (value && *value) {
    const size_t length = strcspn(value, "\n");
    text_add(text, "%.*s ", (int)length, value);
    value += length + (value[length] == '\n');
  }
  text_add(text, "\n");
}

void emit_define_number(text_buffer *text, const char *name, int64_t value) {
  char number[32];
  snprintf(number, sizeof number, "%" PRId64, value);
  emit_define(text, name, number);
}

void emit_define_text(text_buffer *text, const char *name, text_buffer *value) {
  emit_define(text, name, value->data);
  text->failed |= value->failed;
  text_release(value);
  *value = (text_buffer){0};
}

void emit_constant(generation *g, const char *name, int64_t value) {
  text_add(&g->definitions, "#define %s %" PRId64 "\n", name, value);
}

/* ---- Types --------------------------------------------------------------------------------- */

const char *emit_type(compute_dtype type) {
  static const char *const names[COMPUTE_DTYPE_COUNT] = {
      [COMPUTE_F64] = "f64", [COMPUTE_F32] = "f32",      [COMPUTE_I64] = "i64",
      [COMPUTE_I32] = "i32", [COMPUTE_BOOL] = "boolean",
  };
  return names[type] ? names[type] : "void";
}

const char *emit_storage(compute_dtype dtype) {
  if (dtype_is_half(dtype)) return "u16";
  return dtype == COMPUTE_BOOL ? "u8" : compute_dtype_name(dtype);
}

uint32_t emit_value_bytes(compute_dtype type) {
  return type == COMPUTE_F64 || type == COMPUTE_I64 ? 8 : 4;
}

const char *emit_lowest(compute_dtype type) {
  switch (type) {
  case COMPUTE_F64: return "(-INFINITY_f64)";
  case COMPUTE_F32: return "(-INFINITY_f32)";
  case COMPUTE_I64: return "((i64)((u64)1 << 63))";
  case COMPUTE_I32: return "((i32)((u32)1 << 31))";
  default: return "0";
  }
}

const char *emit_highest(compute_dtype type) {
  switch (type) {
  case COMPUTE_F64: return "INFINITY_f64";
  case COMPUTE_F32: return "INFINITY_f32";
  case COMPUTE_I64: return "((i64)(~(u64)0 >> 1))";
  case COMPUTE_I32: return "((i32)(~(u32)0 >> 1))";
  default: return "1";
  }
}

bool emit_define_fold(text_buffer *text, compute_combine combine, compute_dtype type) {
  const bool real = dtype_is_float(type);
  const char *wrap = type == COMPUTE_I64 ? "u64" : "u32", *identity = "0", *head = "FOLD(a, b)";
  char sign = '+', fold[64];
  bool more = false; /* the fold looks for places */
  switch (combine) {
  case COMPUTE_COMBINE_SUM: break;
  case COMPUTE_COMBINE_PROD: sign = '*'; break;
  case COMPUTE_COMBINE_ARGMAX: more = true; /* fall through */
  case COMPUTE_COMBINE_MAX: sign = '>'; break;
  case COMPUTE_COMBINE_ARGMIN: more = true; /* fall through */
  case COMPUTE_COMBINE_MIN: sign = '<'; break;
  }
  if (sign == '*') identity = "1";
  if (sign == '>') identity = emit_lowest(type);
  if (sign == '<') identity = emit_highest(type);
  const bool picks = sign == '>' || sign == '<';
  if (more) {
    head = "FOLD_MORE(b, a)";
    snprintf(fold, sizeof fold, "((b) %c (a))", sign);
  } else if (picks) { /* a NaN in b passes by the comparison; only a NaN in a needs a test */
    snprintf(fold, sizeof fold,
             real ? "((((a) %c (b)) | ((a) != (a))) ? (a) : (b))" : "((a) %c (b) ? (a) : (b))",
             sign);
  } else if (real) {
    snprintf(fold, sizeof fold, "((a) %c (b))", sign);
  } else {
    snprintf(fold, sizeof fold, "(VALUE)((%s)(a) %c (%s)(b))", wrap, sign, wrap);
  }
  emit_define(text, "VALUE", emit_type(type));
  emit_define(text, head, fold);
  emit_define(text, "FOLD_IDENTITY", identity);
  emit_define_number(text, "FOLD_IS_SUM", real && combine == COMPUTE_COMBINE_SUM);
  return real && combine == COMPUTE_COMBINE_SUM;
}

/* ---- Files and templates ------------------------------------------------------------------- */

const char *kernel_text_find(const char *name) {
  for (const kernel_text *file = kernel_texts; file->name; file++) {
    if (!strcmp(file->name, name)) return file->text;
  }
  return NULL;
}

/* The end of the section that begins at `text`. */
static const char *section_end(const kernel_text *file, const char *text) {
  const char *next = strstr(text, section_mark);
  return next ? next : file->text + file->bytes;
}

void emit_template(generation *g, text_buffer *text, const char *name) {
  const size_t length = strlen(name), first_word = strcspn(name, "_");
  for (const kernel_text *file = kernel_texts; file->name; file++) {
    if (strncmp(file->name, name, first_word) != 0) continue;
    for (const char *at = file->text; (at = strstr(at, section_mark)) != NULL;) {
      at += MARK_BYTES;
      if (strncmp(at, name, length) != 0 || at[length] != '\n') continue;
      at += length + 1;
      text_add(text, "%.*s", (int)(section_end(file, at) - at), at);
      return;
    }
  }
  g->overflow = true; /* the source would not compile without it */
}

/* ---- Functions ----------------------------------------------------------------------------- */

/* A word of a file that is replaced by several types: two computing types or, where `spell` is set,
 * the result of `spell` for each narrow dtype. */
typedef struct type_word {
  const char *file, *word, *type[2];
  const char *(*spell)(compute_dtype dtype);
} type_word;

static const char *value_type(compute_dtype dtype) {
  return emit_type(dtype_compute_type(dtype));
}

static const type_word type_words[] = {
    {"functions_real.h", "real", {"f64", "f32"}, NULL},
    {"functions_integer.h", "integer", {"i64", "i32"}, NULL},
    {"functions_integer.h", "natural", {"u64", "u32"}, NULL},
    {"functions_narrow.h", "narrow", {NULL}, compute_dtype_name},
    {"functions_narrow.h", "value", {NULL}, value_type},
};
enum { TYPE_WORDS = sizeof type_words / sizeof *type_words };

/* The replacement of the word for a type, or NULL. A type is an index from 0, or a dtype. */
static const char *spelling(const type_word *word, int type) {
  if (!word->spell) return type < 2 ? word->type[type] : NULL;
  return dtype_is_narrow((compute_dtype)type) ? word->spell((compute_dtype)type) : NULL;
}

typedef struct section {
  const char *text; /* after the line of the mark */
  size_t bytes;
  const char *file;
  int type; /* index of the type; −1 in files without type words */
  char name[NAME_BYTES];
  bool wanted;
} section;

typedef struct section_list {
  section *section;
  size_t count, capacity;
  bool failed;
} section_list;

static bool is_word(char c) {
  return ascii_is_alphanumeric(c) || c == '_';
}

/* The type word at `text`, or NULL. Type words can also end a name: add_integer. */
static const type_word *word_at(const char *file, const char *text) {
  for (int i = 0; i < TYPE_WORDS; i++) {
    const type_word *word = &type_words[i];
    const size_t length = strlen(word->word);
    if (strcmp(word->file, file) != 0 || strncmp(text, word->word, length) != 0) continue;
    if (!is_word(text[length])) return word;
  }
  return NULL;
}

/* Appends `bytes` of text and replaces the type words. */
static void add_typed(text_buffer *to, const section *s, const char *text, size_t bytes) {
  size_t start = 0;
  for (size_t i = 0; s->type >= 0 && i < bytes; i++) {
    if (i > 0 && ascii_is_alphanumeric(text[i - 1])) continue;
    const type_word *word = word_at(s->file, text + i);
    if (!word) continue;
    text_add(to, "%.*s%s", (int)(i - start), text + start, spelling(word, s->type));
    start = i + strlen(word->word);
    i = start - 1;
  }
  text_add(to, "%.*s", (int)(bytes - start), text + start);
}

static void add_section(section_list *list, const char *file, const char *mark, const char *end,
                        int type) {
  if (base_grow((void **)&list->section, &list->capacity, list->count + 1, sizeof(section)) != 0) {
    list->failed = true;
    return;
  }
  section *s = &list->section[list->count++];
  const char *line = strchr(mark, '\n');
  *s = (section){.text = line ? line + 1 : end, .file = file, .type = type};
  s->bytes = (size_t)(end - s->text);
  text_buffer name = {0};
  const char *from = mark + MARK_BYTES;
  add_typed(&name, s, from, strcspn(from, "\n"));
  if (name.failed || name.length >= NAME_BYTES) list->failed = true;
  if (name.data && name.length < NAME_BYTES) memcpy(s->name, name.data, name.length + 1);
  text_release(&name);
}

static void add_file(section_list *list, const kernel_text *file) {
  const type_word *typed = NULL;
  for (int i = 0; i < TYPE_WORDS; i++)
    if (!strcmp(type_words[i].file, file->name)) typed = &type_words[i];
  for (int type = typed ? 0 : -1; type < (typed ? COMPUTE_DTYPE_COUNT : 0); type++) {
    if (typed && !spelling(typed, type)) continue;
    const char *mark = strstr(file->text, section_mark);
    while (mark) {
      const char *end = section_end(file, mark + MARK_BYTES);
      add_section(list, file->name, mark, end, type);
      mark = *end ? end : NULL;
    }
  }
}

static bool names(const char *text, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = text; at && (at = strstr(at, name)) != NULL; at += length) {
    if ((at == text || !is_word(at[-1])) && !is_word(at[length])) return true;
  }
  return false;
}

bool kernel_text_functions(text_buffer *to, const char *const *texts, size_t count) {
  section_list list = {0};
  text_buffer all = {0};
  for (const kernel_text *file = kernel_texts; file->name; file++) {
    if (!strncmp(file->name, "functions_", 10)) add_file(&list, file);
  }
  for (size_t i = 0; i < count; i++) {
    if (texts[i]) text_add(&all, "%s\n", texts[i]);
  }
  for (size_t i = list.count; i-- > 0 && !list.failed;) {
    section *s = &list.section[i];
    s->wanted = all.data && names(all.data, s->name);
    if (s->wanted) add_typed(&all, s, s->text, s->bytes);
  }
  for (size_t i = 0; i < list.count && !list.failed; i++) {
    section *s = &list.section[i];
    if (s->wanted) add_typed(to, s, s->text, s->bytes);
  }
  const bool done = !list.failed && !all.failed && !to->failed;
  base_release(list.section);
  text_release(&all);
  return done;
}
