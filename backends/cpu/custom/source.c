/* SPDX-License-Identifier: MIT */
/* Translates a kernel in the dialect to one C file.
 *
 * The dialect's keywords for items are defined before the dialect itself (DIALECT_OWN_ITEMS). They
 * are thread-local variables whose address is never taken, so that a compiler can keep them in
 * registers and vectorise the loop over a group's items. The generated caller follows the kernel.
 * Its parameters are copied from the text: with other punctuation, a parameter list is also a list
 * of members and of variables. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "custom.h"

enum { MOST_PARAMETERS = 256 };

static const char words[] =
    "#define DIALECT_OWN_ITEMS\n"
    "#include <stdint.h>\n"
    "#define LOCAL_ID_X dialect_lx\n#define LOCAL_ID_Y dialect_ly\n#define LOCAL_ID_Z dialect_lz\n"
    "#define GLOBAL_ID_X dialect_x\n#define GLOBAL_ID_Y dialect_y\n#define GLOBAL_ID_Z dialect_z\n"
    "#define GROUP_ID_X dialect_gx\n#define GROUP_ID_Y dialect_gy\n#define GROUP_ID_Z dialect_gz\n"
    "#define GROUP_SIZE_X dialect_sx\n#define GROUP_SIZE_Y dialect_sy\n"
    "#define GROUP_SIZE_Z dialect_sz\n"
    "#define GROUP_COUNT_X dialect_nx\n#define GROUP_COUNT_Y dialect_ny\n"
    "#define GROUP_COUNT_Z dialect_nz\n"
    "static _Thread_local uint32_t dialect_lx, dialect_ly, dialect_lz, dialect_x, dialect_y,\n"
    "    dialect_z, dialect_gx, dialect_gy, dialect_gz, dialect_sx, dialect_sy, dialect_sz,\n"
    "    dialect_nx, dialect_ny, dialect_nz;\n";

/* For kernels without barriers. A barrier hidden in a macro then fails to compile. */
static const char words_of_loops[] =
    "void dialect_hidden_barrier(void)\n"
    "    __attribute__((error(\"write BARRIER() literally, not by pasting\")));\n"
    "#define BARRIER() dialect_hidden_barrier()\n"
    "#define LOCAL_ARRAY(type, name, count) static _Thread_local type name[count]\n";

/* For kernels with barriers. An item restores its indices after a barrier, because other items
 * change them. The compiler must assume that others modify local arrays. */
static const char words_of_items[] =
    "static _Thread_local void (*dialect_wait)(void *);\n"
    "static _Thread_local void *dialect_waiter;\n"
    "static __attribute__((noinline, unused)) void dialect_barrier(void) {\n"
    "  const uint32_t lx = dialect_lx, ly = dialect_ly, lz = dialect_lz;\n"
    "  const uint32_t x = dialect_x, y = dialect_y, z = dialect_z;\n"
    "  void *const waiter = dialect_waiter;\n"
    "  dialect_wait(waiter);\n"
    "  dialect_lx = lx, dialect_ly = ly, dialect_lz = lz;\n"
    "  dialect_x = x, dialect_y = y, dialect_z = z;\n"
    "  dialect_waiter = waiter;\n"
    "  __asm__ volatile(\"\" : : : \"memory\");\n"
    "}\n"
    "#define BARRIER() dialect_barrier()\n"
    "#define LOCAL_ARRAY(type, name, count)  \\\n"
    "  static _Thread_local type name[count]; \\\n"
    "  __asm__ volatile(\"\" : : \"r\"(name) : \"memory\")\n";

static const char common[] = "#define BARRIER_GLOBAL() BARRIER()\n";

/* ---- Text ------------------------------------------------------------------------------------ */

typedef struct text {
  cpu_device *device;
  char *data; /* NULL before the first append, and if out of memory */
  size_t used, capacity;
  bool failed;
} text;

static void add_bytes(text *t, const char *data, size_t bytes) {
  if (t->failed) return;
  if (t->used + bytes + 1 > t->capacity) {
    const size_t capacity = 2 * (t->used + bytes + 1);
    char *grown = cpu_allocate(t->device, capacity);
    if (!grown) {
      t->failed = true;
      return;
    }
    if (t->used > 0) memcpy(grown, t->data, t->used);
    cpu_release(t->device, t->data);
    t->data = grown;
    t->capacity = capacity;
  }
  memcpy(t->data + t->used, data, bytes);
  t->used += bytes;
  t->data[t->used] = '\0';
}

static void add(text *t, const char *string) {
  add_bytes(t, string, strlen(string));
}

/* ---- Reading the kernel ---------------------------------------------------------------------- */

typedef struct piece {
  const char *start;
  size_t bytes;
} piece;

typedef struct kernel_text {
  piece parameters[MOST_PARAMETERS], names[MOST_PARAMETERS];
  uint32_t count;
  bool waits; /* a barrier occurs */
} kernel_text;

/* Only ASCII, independent of the host's locale. */
static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

static bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Blanks out comments, strings and characters, so that only code remains; line breaks are kept. */
static void blank(char *s) {
  while (*s) {
    if (s[0] == '/' && s[1] == '/') {
      while (*s && *s != '\n') *s++ = ' ';
    } else if (s[0] == '/' && s[1] == '*') {
      const char *const end = strstr(s + 2, "*/");
      while (*s && (!end || s < end + 2)) {
        if (*s != '\n') *s = ' ';
        s++;
      }
    } else if (*s == '"' || *s == '\'') {
      const char quote = *s;
      *s++ = ' ';
      while (*s && *s != quote && *s != '\n') {
        if (*s == '\\' && s[1] && s[1] != '\n') *s++ = ' ';
        *s++ = ' ';
      }
      if (*s == quote) *s++ = ' ';
    } else {
      s++;
    }
  }
}

/* The next occurrence of the whole word `word` in s, or NULL. */
static const char *find_word(const char *s, const char *start, const char *word) {
  const size_t length = strlen(word);
  for (const char *at = s; (at = strstr(at, word)) != NULL; at += length)
    if ((at == start || !is_word(at[-1])) && !is_word(at[length])) return at;
  return NULL;
}

static const char *skip_blanks(const char *s) {
  while (is_space(*s)) s++;
  return s;
}

/* The position after the parenthesis that closes the one at s; NULL if there is none. */
static const char *close_of(const char *s) {
  int depth = 0;
  for (; *s; s++) {
    depth += *s == '(';
    depth -= *s == ')';
    if (depth == 0) return s + 1;
  }
  return NULL;
}

static piece trim(const char *start, const char *end) {
  while (start < end && is_space(*start)) start++;
  while (end > start && is_space(end[-1])) end--;
  return (piece){start, (size_t)(end - start)};
}

/* Reads the parameters between the parentheses; false if one is not a type followed by a name. */
static bool read_parameters(const char *start, const char *end, kernel_text *k) {
  const piece whole = trim(start, end);
  k->count = 0;
  if (whole.bytes == 0 || (whole.bytes == 4 && memcmp(whole.start, "void", 4) == 0)) return true;
  for (const char *at = start; at <= end; at++) {
    if (at < end && *at != ',') continue;
    const piece p = trim(start, at);
    const char *name = p.start + p.bytes;
    while (name > p.start && is_word(name[-1])) name--;
    const size_t length = (size_t)(p.start + p.bytes - name);
    if (length == 0 || name == p.start || is_digit(*name) || memchr(p.start, '(', p.bytes) ||
        memchr(p.start, '[', p.bytes) || k->count == MOST_PARAMETERS)
      return false;
    k->parameters[k->count] = p;
    k->names[k->count++] = (piece){name, length};
    start = at + 1;
  }
  return true;
}

static bool follows_kernel(const char *start, const char *at) {
  const char *from = at;
  while (from > start && from[-1] != ';' && from[-1] != '}') from--;
  const char *word = find_word(from, start, "KERNEL");
  return word && word < at;
}

static compute_status refuse(const cpu_device *device, const char *entry, const char *why) {
  return device->services->fail(device->services->host, COMPUTE_ERROR_COMPILATION, 0, NULL,
                                "cpu: kernel '%.60s' %s", entry, why);
}

static compute_status read_kernel(const cpu_device *device, const char *code, const char *entry,
                                  kernel_text *k) {
  k->waits = find_word(code, code, "BARRIER") || find_word(code, code, "BARRIER_GLOBAL") ||
             strstr(code, "MATRIX_MULTIPLY_");
  for (const char *at = code; (at = find_word(at, code, entry)) != NULL; at += strlen(entry)) {
    const char *open = skip_blanks(at + strlen(entry));
    if (*open != '(' || !follows_kernel(code, at)) continue;
    const char *end = close_of(open);
    if (!end || *skip_blanks(end) != '{') continue; /* only a declaration */
    if (read_parameters(open + 1, end - 1, k)) return COMPUTE_OK;
    return refuse(device, entry,
                  "has a parameter that is not a type and a name; write a pointer for an array");
  }
  return refuse(device, entry, "is not in the source: 'KERNEL void NAME(…) { … }'");
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void add_piece(text *t, const char *before, piece p, const char *after) {
  add(t, before);
  add_bytes(t, p.start, p.bytes);
  add(t, after);
}

static void add_arguments(text *t, const kernel_text *k) {
  add(t, "#line 1 \"arguments\"\ntypedef struct dialect_arguments {\n");
  for (uint32_t i = 0; i < k->count; i++) add_piece(t, "  ", k->parameters[i], ";\n");
  add(t, k->count == 0 ? "  int dialect_none;\n" : "");
  add(t, "} dialect_arguments;\n"
         "#define DIALECT_EXPORT __attribute__((visibility(\"default\"), used))\n"
         "typedef struct dialect_parameter {\n  u64 offset, bytes, is_pointer;\n"
         "} dialect_parameter;\n"
         "DIALECT_EXPORT const dialect_parameter " CUSTOM_PARAMETERS "[] = {\n");
  for (uint32_t i = 0; i < k->count; i++) {
    add_piece(t, "  {__builtin_offsetof(dialect_arguments, ", k->names[i], "), ");
    add_piece(t, "sizeof(((dialect_arguments *)0)->", k->names[i], "), ");
    add_piece(t, "__builtin_classify_type(((dialect_arguments *)0)->", k->names[i], ") == 5},\n");
  }
  char count[160];
  snprintf(count, sizeof count,
           "  {0, 0, 0}};\nDIALECT_EXPORT const u32 " CUSTOM_COUNT " = %u;\n"
           "DIALECT_EXPORT const u64 " CUSTOM_BYTES " = sizeof(dialect_arguments);\n",
           (unsigned)k->count);
  add(t, count);
}

/* Copies the parameters to local variables: stores through pointers cannot change these. */
static void add_variables(text *t, const kernel_text *k) {
  for (uint32_t i = 0; i < k->count; i++) {
    add_piece(t, "  ", k->parameters[i], " = ");
    add_piece(t, "((const dialect_arguments *)dialect_given)->", k->names[i], ";\n");
  }
}

static void add_call(text *t, const kernel_text *k, const char *entry) {
  add(t, entry);
  add(t, "(");
  for (uint32_t i = 0; i < k->count; i++) add_piece(t, i > 0 ? ", " : "", k->names[i], "");
  add(t, ");\n");
}

static void add_loops(text *t, const kernel_text *k, const char *entry) {
  add(t, "DIALECT_EXPORT void " CUSTOM_LOOPS "(const void *dialect_given,\n"
         "    const u32 *dialect_groups, const u32 *dialect_group, u64 dialect_first,\n"
         "    u64 dialect_end) {\n"
         "  const u32 dialect_g[3] = {dialect_group[0], dialect_group[1], dialect_group[2]};\n"
         "  dialect_sx = dialect_g[0], dialect_sy = dialect_g[1], dialect_sz = dialect_g[2];\n"
         "  dialect_nx = dialect_groups[0], dialect_ny = dialect_groups[1];\n"
         "  dialect_nz = dialect_groups[2];\n");
  add_variables(t, k);
  add(t, "  for (u64 dialect_n = dialect_first; dialect_n < dialect_end; dialect_n++) {\n"
         "    dialect_gx = (u32)(dialect_n % dialect_nx);\n"
         "    dialect_gy = (u32)(dialect_n / dialect_nx % dialect_ny);\n"
         "    dialect_gz = (u32)(dialect_n / dialect_nx / dialect_ny);\n"
         "    const u32 dialect_begin = dialect_gx * dialect_g[0];\n"
         "    const u32 dialect_last = dialect_begin + dialect_g[0];\n"
         "    for (u32 dialect_k = 0; dialect_k < dialect_g[2]; dialect_k++)\n"
         "      for (u32 dialect_j = 0; dialect_j < dialect_g[1]; dialect_j++) {\n"
         "        dialect_lz = dialect_k, dialect_ly = dialect_j;\n"
         "        dialect_z = dialect_gz * dialect_g[2] + dialect_k;\n"
         "        dialect_y = dialect_gy * dialect_g[1] + dialect_j;\n"
         "#ifdef __clang__\n"
         "#pragma clang loop vectorize(assume_safety)\n"
         "#else\n"
         "#pragma GCC ivdep\n"
         "#endif\n"
         "        for (u32 dialect_i = dialect_begin; dialect_i < dialect_last; dialect_i++) {\n"
         "          dialect_x = dialect_i, dialect_lx = dialect_i - dialect_begin;\n"
         "          ");
  add_call(t, k, entry);
  add(t, "        }\n      }\n  }\n}\n");
}

static void add_item(text *t, const kernel_text *k, const char *entry) {
  add(t, "DIALECT_EXPORT void " CUSTOM_ITEM "(const void *dialect_given,\n"
         "    const u32 *dialect_groups, const u32 *dialect_group, const u32 *dialect_where,\n"
         "    const u32 *dialect_self, void (*dialect_w)(void *), void *dialect_r) {\n"
         "  dialect_sx = dialect_group[0], dialect_sy = dialect_group[1];\n"
         "  dialect_sz = dialect_group[2];\n"
         "  dialect_nx = dialect_groups[0], dialect_ny = dialect_groups[1];\n"
         "  dialect_nz = dialect_groups[2];\n"
         "  dialect_gx = dialect_where[0], dialect_gy = dialect_where[1];\n"
         "  dialect_gz = dialect_where[2];\n"
         "  dialect_lx = dialect_self[0], dialect_ly = dialect_self[1];\n"
         "  dialect_lz = dialect_self[2];\n"
         "  dialect_x = dialect_gx * dialect_sx + dialect_lx;\n"
         "  dialect_y = dialect_gy * dialect_sy + dialect_ly;\n"
         "  dialect_z = dialect_gz * dialect_sz + dialect_lz;\n"
         "  dialect_wait = dialect_w, dialect_waiter = dialect_r;\n");
  add_variables(t, k);
  add(t, "  ");
  add_call(t, k, entry);
  add(t, "}\n");
}

compute_status custom_source(cpu_device *device, const char *source, const char *entry,
                             char **result) {
  const compute_services *services = device->services;
  const size_t bytes = strlen(source) + 1;
  char *code = cpu_allocate(device, bytes);
  kernel_text *k = cpu_allocate(device, sizeof *k);
  text t = {.device = device, .failed = !code || !k};
  compute_status status = COMPUTE_OK;
  if (!t.failed) {
    memcpy(code, source, bytes);
    blank(code);
    status = read_kernel(device, code, entry, k);
  }
  if (!status && !t.failed && k->waits && !custom_has_fibers)
    status = services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                            "cpu: kernel '%.60s' has barriers, which this library can run on "
                            "x86-64 and aarch64 only",
                            entry);
  if (!status && !t.failed) {
    add(&t, words);
    add(&t, k->waits ? words_of_items : words_of_loops);
    add(&t, common);
    add(&t, services->dialect_text(services->host, COMPUTE_DIALECT_C));
    add(&t, "\n#line 1 \"");
    add(&t, entry);
    add(&t, "\"\n");
    add(&t, source);
    add(&t, "\n");
    add_arguments(&t, k);
    (k->waits ? add_item : add_loops)(&t, k, entry);
  }
  cpu_release(device, code);
  cpu_release(device, k);
  if (!status && t.failed) status = cpu_out_of_memory(device, t.used);
  if (status)
    cpu_release(device, t.data);
  else
    *result = t.data;
  return status;
}
