/* Finding functions in kernels/functions_*.h.
 *
 * A line "//@ name" starts the section of one function; it ends at the next such line. Sections use
 * only what stands before them, in their file or in a file before in the alphabet. So one pass from
 * the last section to the first finds everything that is needed: whoever uses a section has been
 * looked at when its turn comes.
 *
 * In functions_real.h "real" stands for f32 and f64, in functions_integer.h "integer" and "natural"
 * for i32 and u32, i64 and u64: each section there is several functions. */
#include "generate/kernel_text.h"

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"

static const char section_mark[] = "//@ ";
enum { MARK_BYTES = sizeof section_mark - 1, NAME_BYTES = 40, TYPES = 2 };

/* One word of a file that stands for several types. */
typedef struct type_word {
  const char *file, *word, *type[TYPES];
} type_word;

static const type_word type_words[] = {
    {"functions_real.h", "real", {"f64", "f32"}},
    {"functions_integer.h", "integer", {"i64", "i32"}},
    {"functions_integer.h", "natural", {"u64", "u32"}},
};
enum { TYPE_WORDS = sizeof type_words / sizeof *type_words };

const char *kernel_text_find(const char *name) {
  for (const kernel_text *file = kernel_texts; file->name; file++) {
    if (!strcmp(file->name, name)) return file->text;
  }
  return NULL;
}

/* ---- Sections ------------------------------------------------------------------------------ */

typedef struct section {
  const char *text; /* after the line of the mark */
  size_t bytes;
  const char *file;
  int type; /* which of the types; −1 in files without type words */
  char name[NAME_BYTES];
  bool wanted;
} section;

typedef struct section_list {
  section *section;
  size_t count, capacity;
  bool failed;
} section_list;

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

/* The word that starts at `text`, or NULL. Type words also end names: add_integer. */
static const type_word *word_at(const char *file, const char *text) {
  for (int i = 0; i < TYPE_WORDS; i++) {
    const type_word *word = &type_words[i];
    const size_t length = strlen(word->word);
    if (strcmp(word->file, file) != 0 || strncmp(text, word->word, length) != 0) continue;
    if (!is_word(text[length])) return word;
  }
  return NULL;
}

/* Appends `bytes` of text with the types put in. */
static void add_typed(text_buffer *to, const section *s, const char *text, size_t bytes) {
  size_t start = 0;
  for (size_t i = 0; s->type >= 0 && i < bytes; i++) {
    if (i > 0 && isalnum((unsigned char)text[i - 1])) continue;
    const type_word *word = word_at(s->file, text + i);
    if (!word) continue;
    text_add(to, "%.*s%s", (int)(i - start), text + start, word->type[s->type]);
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
  bool typed = false;
  for (int i = 0; i < TYPE_WORDS; i++) typed |= !strcmp(type_words[i].file, file->name);
  for (int type = typed ? 0 : -1; type < (typed ? TYPES : 0); type++) {
    const char *mark = strstr(file->text, section_mark);
    while (mark) {
      const char *next = strstr(mark + MARK_BYTES, section_mark);
      add_section(list, file->name, mark, next ? next : file->text + file->bytes, type);
      mark = next;
    }
  }
}

/* ---- Choosing ------------------------------------------------------------------------------ */

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
