/* SPDX-License-Identifier: MIT */
/* Reads a command line with a program's table of options. Converts text to values, and describes
 * the allowed values in error messages. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "programs/common/option.h"

/* ---- Values -------------------------------------------------------------------------------- */

static bool unbounded(const option_row *row) {
  return row->least == 0 && row->most == 0;
}

static bool read_number(const char *text, const char *stop, double *value) {
  char *end;
  *value = strtod(text, &end);
  return end == stop && end != text && isfinite(*value);
}

static bool within(const option_row *row, double value) {
  return unbounded(row) || (value >= row->least && value <= row->most);
}

static bool parse_number(const option_row *row, const char *text, double *value) {
  return read_number(text, text + strlen(text), value) && within(row, *value);
}

static bool parse_count(const option_row *row, const char *text, int64_t *value) {
  char *end;
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  int64_t scale = 1;
  if (end == text || errno) return false;
  if (row->kind == OPTION_BYTES && *end) {
    static const char unit[] = "KMG";
    const char *found = strchr(unit, *end);
    if (!found) return false;
    scale = (int64_t)1 << (10 * (found - unit + 1));
    end++;
  }
  if (*end || (double)number * (double)scale > MANY_COUNT || !within(row, (double)number))
    return false;
  *value = number * scale;
  return true;
}

static bool parse_size(const option_row *row, const char *text, size_value *size) {
  char *end;
  errno = 0;
  long rows = strtol(text, &end, 10), columns = rows;
  if (end == text || errno) return false;
  if (*end == 'x') {
    const char *second = end + 1;
    columns = strtol(second, &end, 10);
    if (end == second || errno) return false;
  }
  if (*end || !within(row, (double)rows) || !within(row, (double)columns)) return false;
  *size = (size_value){(int32_t)rows, (int32_t)columns};
  return true;
}

static bool parse_list(const option_row *row, const char *text, list_value *list) {
  list->count = 0;
  for (const char *position = text;; position++) {
    const char *stop = position + strcspn(position, ",");
    if (list->count >= (int32_t)row->most || list->count == LIST_VALUE_MOST) return false;
    double *value = &list->value[list->count++];
    if (!read_number(position, stop, value) || !(*value > row->least)) return false;
    if (!*stop) return true;
    position = stop;
  }
}

static bool parse_range(const option_row *row, const char *text, compute_range *range) {
  const char *stop = text + strcspn(text, ":");
  if (!read_number(text, stop, &range->low) || !within(row, range->low)) return false;
  range->high = range->low;
  if (!*stop) return true;
  return parse_number(row, stop + 1, &range->high) && range->high >= range->low;
}

static bool parse_choice(const option_row *row, const char *text, int32_t *choice) {
  for (int32_t i = 0; row->choices[i]; i++) {
    if (strcasecmp(row->choices[i], text) != 0) continue;
    *choice = i;
    return true;
  }
  return false;
}

static bool is_choice(const option_row *row, const char *word, size_t length) {
  for (size_t i = 0; row->choices[i]; i++)
    if (strlen(row->choices[i]) == length && !strncmp(row->choices[i], word, length)) return true;
  return false;
}

static bool parse_words(const option_row *row, const char *text) {
  for (;; text++) {
    const size_t length = strcspn(text, ",");
    if (!is_choice(row, text, length)) return false;
    text += length;
    if (!*text) return true;
  }
}

/* Any text except a number is a file name. A number out of bounds is an error. */
static bool parse_map(const option_row *row, const char *text, map_value *value) {
  value->file = NULL;
  if (parse_number(row, text, &value->number)) return true;
  char *end;
  strtod(text, &end);
  value->file = text;
  return *text && *end;
}

/* Reads `text` into the option's field. Returns false if the value is not allowed. Not for
 * flags. */
static bool parse_value(const option_row *row, const char *text, void *field) {
  switch (row->kind) {
  case OPTION_FLAG: return false;
  case OPTION_TEXT:
  case OPTION_NAMES:
  case OPTION_FILE:
  case OPTION_DEVICE:
  case OPTION_DEVICES: *(const char **)field = text; return *text != '\0';
  case OPTION_WORD: *(const char **)field = text; return is_choice(row, text, strlen(text));
  case OPTION_WORDS: *(const char **)field = text; return parse_words(row, text);
  case OPTION_CHOICE: return parse_choice(row, text, field);
  case OPTION_COUNT:
  case OPTION_BYTES: return parse_count(row, text, field);
  case OPTION_NUMBER: return parse_number(row, text, field);
  case OPTION_SIZE: return parse_size(row, text, field);
  case OPTION_LIST: return parse_list(row, text, field);
  case OPTION_RANGE: return parse_range(row, text, field);
  case OPTION_MAP: return parse_map(row, text, field);
  }
  return false;
}

/* ---- Descriptions of allowed values -------------------------------------------------------- */

/* A text buffer of fixed size. */
typedef struct words {
  char text[600];
  size_t length;
} words;

static void words_add(words *w, const char *format, ...) COMPUTE_PRINTF(2, 3);
static void words_add(words *w, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const int n = vsnprintf(w->text + w->length, sizeof w->text - w->length, format, list);
  va_end(list);
  if (n > 0) w->length += (size_t)n;
  if (w->length >= sizeof w->text) w->length = sizeof w->text - 1;
}

static void add_bounds(words *w, const option_row *row) {
  if (unbounded(row)) return;
  if (row->least <= -1e6 && row->most >= 1e6) return;
  if (row->least > 0 && row->least < 1e-300)
    words_add(w, " above 0");
  else if (row->most >= 1e6)
    words_add(w, " of at least %g", row->least);
  else
    words_add(w, " from %g to %g", row->least, row->most);
}

/* Appends a description of the allowed values: "a number above 0". */
static void add_allowed(words *w, const option_row *row) {
  switch (row->kind) {
  case OPTION_FLAG: words_add(w, "given without a value"); break;
  case OPTION_TEXT: words_add(w, "text that is not empty"); break;
  case OPTION_NAMES: words_add(w, "names separated by commas"); break;
  case OPTION_FILE: words_add(w, "a file name"); break;
  case OPTION_DEVICE: words_add(w, "a device name, such as cpu or cuda:0"); break;
  case OPTION_DEVICES: words_add(w, "device names separated by commas, such as cpu,cuda:0"); break;
  case OPTION_WORD:
  case OPTION_CHOICE:
  case OPTION_WORDS:
    words_add(w, row->kind == OPTION_WORDS ? "a list, separated by commas, of" : "one of");
    for (size_t i = 0; row->choices[i]; i++) words_add(w, "%s %s", i ? "," : "", row->choices[i]);
    break;
  case OPTION_COUNT:
    words_add(w, "a whole number");
    add_bounds(w, row);
    break;
  case OPTION_BYTES: words_add(w, "a number of bytes, such as 500M"); break;
  case OPTION_NUMBER:
    words_add(w, "a number");
    add_bounds(w, row);
    break;
  case OPTION_SIZE:
    words_add(w, "rows and columns, each");
    add_bounds(w, row);
    words_add(w, ", such as 5x9, or one number for both");
    break;
  case OPTION_LIST:
    words_add(w, "up to %g numbers%s, separated by commas", row->most,
              row->least == 0 ? " above 0" : "");
    break;
  case OPTION_RANGE:
    words_add(w, "a number or a range LOW:HIGH");
    add_bounds(w, row);
    break;
  case OPTION_MAP:
    words_add(w, "a number");
    add_bounds(w, row);
    words_add(w, ", or a file");
    break;
  }
}

/* ---- Near misses --------------------------------------------------------------------------- */

enum { LONGEST_WORD = 40 };

static size_t least_of(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Returns the number of insertions, deletions, replacements and swaps of neighbours that change one
 * word into the other. */
static size_t distance(const char *a, const char *b) {
  const size_t n = strlen(a), m = strlen(b);
  size_t row[3][LONGEST_WORD + 1];
  if (n > LONGEST_WORD || m > LONGEST_WORD) return SIZE_MAX;
  for (size_t j = 0; j <= m; j++) row[0][j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t *now = row[i % 3];
    const size_t *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    now[0] = i;
    for (size_t j = 1; j <= m; j++) {
      now[j] = least_of(least_of(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = least_of(now[j], before[j - 2] + 1);
    }
  }
  return row[n % 3][m];
}

/* Returns the distance of two words: 0 if `word` is a prefix of the candidate, SIZE_MAX if they are
 * not similar. */
static size_t farness(const char *word, const char *candidate) {
  const size_t length = strlen(word), apart = distance(word, candidate);
  if (length > 1 && !strncmp(word, candidate, length)) return 0;
  return apart <= (length < 4 ? 1 : length / 3) ? apart : SIZE_MAX;
}

const char *option_nearest(const char *word, const char *const *choices) {
  const char *nearest = NULL;
  size_t least = SIZE_MAX;
  for (; *choices; choices++) {
    const size_t apart = farness(word, *choices);
    if (apart >= least) continue;
    least = apart;
    nearest = *choices;
  }
  return nearest;
}

/* ---- Tables -------------------------------------------------------------------------------- */

/* Options of every program. --help-all exists only if it shows more than --help. */
static const option_row common[] = {
    {"--help", OPTION_FLAG, 0, .letter = 'h', .help = "prints this help"},
    {"--version", OPTION_FLAG, 0, .help = "prints the version"},
    {"--help-all", OPTION_FLAG, 0, .help = "prints this help with the options for developers"},
};

const option_row *option_common(const option_program *program, size_t index) {
  size_t count = 2;
  for (size_t i = 0; i < program->row_count; i++)
    if (program->rows[i].internal) count = 3;
  return index < count ? &common[index] : NULL;
}

static bool is_common(const option_row *row) {
  return row >= common && row < common + sizeof common / sizeof *common;
}

bool option_applies(const option_row *row, uint32_t command) {
  return !row->commands || !command || (row->commands & command);
}

static bool is_called(const option_row *row, const char *name, size_t length) {
  if (row->letter && length == 2 && name[0] == '-' && name[1] == row->letter) return true;
  return strlen(row->name) == length && !strncmp(row->name, name, length);
}

/* Returns the command's own row if there is one. Commands may have options with the same name. */
static const option_row *find_row(const option_line *line, const char *name, size_t length) {
  const option_program *program = line->program;
  const option_row *row, *other = NULL;
  for (size_t i = program->row_count; i-- > 0;) {
    row = &program->rows[i];
    if (!is_called(row, name, length)) continue;
    if (option_applies(row, line->command)) return row;
    other = row;
  }
  if (other) return other;
  for (size_t i = 0; (row = option_common(program, i)); i++)
    if (is_called(row, name, length)) return row;
  return NULL;
}

static bool row_given(const option_line *line, const option_row *row) {
  const size_t place = (size_t)(row - line->program->rows);
  return (line->given[place / 64] >> place % 64 & 1) != 0;
}

bool option_given(const option_line *line, const char *name) {
  const option_row *row = find_row(line, name, strlen(name));
  return row && !is_common(row) && row_given(line, row);
}

static const option_command *command_of(const option_line *line) {
  const option_command *c = line->program->commands;
  for (; c && c->name; c++)
    if (c->bit == line->command) return c;
  return NULL;
}

const char *option_command_name(const option_line *line) {
  const option_command *command = command_of(line);
  return command ? command->name : "";
}

/* ---- Messages ------------------------------------------------------------------------------ */

static void say_list(const option_program *program, const char *format, va_list list) {
  fprintf(stderr, "%s: ", program->name);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
}

void option_say(const option_program *program, const char *format, ...) {
  va_list list;
  va_start(list, format);
  say_list(program, format, list);
  va_end(list);
}

/* As option_say, for wrong arguments. Returns false. */
static bool wrong(const option_line *line, const char *format, ...) COMPUTE_PRINTF(2, 3);
static bool wrong(const option_line *line, const char *format, ...) {
  va_list list;
  va_start(list, format);
  say_list(line->program, format, list);
  va_end(list);
  return false;
}

/* Writes "compute-fit crlb --help". */
static const char *help_command(const option_line *line, char *text, size_t bytes) {
  const option_command *command = command_of(line);
  snprintf(text, bytes, "%s%s%s --help", line->program->name, command ? " " : "",
           command ? command->name : "");
  return text;
}

static bool say_unknown(const option_line *line, const char *argument, size_t length) {
  const option_program *program = line->program;
  const char *nearest = NULL;
  const option_row *row;
  char name[LONGEST_WORD], help[80];
  size_t least = SIZE_MAX;
  /* "-sigma" is compared as "--sigma". */
  snprintf(name, sizeof name, "%s%.*s", argument[1] == '-' || length == 2 ? "" : "-", (int)length,
           argument);
  for (size_t i = 0;
       i < program->row_count || (row = option_common(program, i - program->row_count)); i++) {
    if (i < program->row_count) row = &program->rows[i];
    const size_t apart = farness(name, row->name);
    if (!option_applies(row, line->command) || row->internal || apart >= least) continue;
    least = apart;
    nearest = row->name;
  }
  if (nearest)
    return wrong(line, "unknown option %.*s; did you mean %s?", (int)length, argument, nearest);
  return wrong(line, "unknown option %.*s; see %s", (int)length, argument,
               help_command(line, help, sizeof help));
}

static bool say_other_command(const option_line *line, const option_row *row) {
  words others = {0};
  for (const option_command *c = line->program->commands; c->name; c++)
    if (row->commands & c->bit) words_add(&others, "%s%s", others.length ? ", " : "", c->name);
  return wrong(line, "%s is not an option of '%s'; it is one of: %s", row->name,
               option_command_name(line), others.text);
}

static bool say_bad_value(const option_line *line, const option_row *row, const char *value) {
  words allowed = {0};
  add_allowed(&allowed, row);
  const bool listed = row->kind == OPTION_WORD || row->kind == OPTION_CHOICE;
  const char *nearest = listed ? option_nearest(value, row->choices) : NULL;
  return wrong(line, "invalid %s '%s': it must be %s%s%s%s", row->name, value, allowed.text,
               nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static bool say_no_value(const option_line *line, const option_row *row) {
  words allowed = {0};
  add_allowed(&allowed, row);
  return wrong(line, "%s needs a value: %s must be %s", row->name, row->value, allowed.text);
}

/* ---- The command line ---------------------------------------------------------------------- */

/* FNV-1a of "--name=value", summed over all options. */
static uint64_t hash_option(const char *name, const char *value) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
  hash = (hash ^ '=') * 0x100000001b3u;
  for (; value && *value; value++) hash = (hash ^ (unsigned char)*value) * 0x100000001b3u;
  return hash;
}

/* Splits an argument that begins with '-'. *length is the length of the option's name. Returns the
 * value after '=' or a single letter; NULL: none. */
static const char *split(const option_line *line, const char *argument, size_t *length) {
  *length = strlen(argument);
  if (argument[1] == '-') {
    *length = strcspn(argument, "=");
    return argument[*length] ? argument + *length + 1 : NULL;
  }
  const option_row *row = *length > 2 ? find_row(line, argument, 2) : NULL;
  /* "-help" is not -h with a value, and "-output" not -o with the file "utput". */
  char name[LONGEST_WORD];
  snprintf(name, sizeof name, "-%s", argument);
  if (!row || row->kind == OPTION_FLAG || find_row(line, name, strlen(name))) return NULL;
  *length = 2;
  return argument + 2 + (argument[2] == '=');
}

/* Returns true if the next argument is an option, so that the value is missing. */
static bool is_option(const option_line *line, const char *argument) {
  return !strncmp(argument, "--", 2) &&
         (!argument[2] || find_row(line, argument, strcspn(argument, "=")));
}

/* Returns the place for the next value of an option; NULL if there are too many values. */
static const char **next_of_list(text_list *list) {
  return list->count < TEXT_LIST_MOST ? &list->value[list->count++] : NULL;
}

/* Reads the option at argv[*i] and its value, which may be the next argument. */
static bool parse_option(option_line *line, int argc, char **argv, int *i) {
  size_t length;
  const char *value = split(line, argv[*i], &length);
  const option_row *row = find_row(line, argv[*i], length);
  if (!row) return say_unknown(line, argv[*i], length);
  if (!option_applies(row, line->command)) return say_other_command(line, row);
  if (is_common(row)) return wrong(line, "%s does not take a value", row->name);
  if (row_given(line, row) && !row->many) return wrong(line, "%s was given twice", row->name);
  const size_t place = (size_t)(row - line->program->rows);
  line->given[place / 64] |= (uint64_t)1 << place % 64;
  void *field = (char *)line + row->offset;
  if (row->kind == OPTION_FLAG) {
    if (value) return wrong(line, "%s does not take a value", row->name);
    *(bool *)field = true;
  } else {
    if (!value && (*i + 1 == argc || is_option(line, argv[*i + 1]))) return say_no_value(line, row);
    if (!value) value = argv[++*i];
    if (row->many && !(field = next_of_list(field)))
      return wrong(line, "%s was given more than %d times", row->name, TEXT_LIST_MOST);
    if (!parse_value(row, value, field)) return say_bad_value(line, row, value);
  }
  if (!row->neutral) line->fingerprint += hash_option(row->name, value);
  return true;
}

static bool parse_command(option_line *line, const char *name) {
  const char *names[17] = {0};
  words all = {0};
  size_t count = 0;
  for (const option_command *c = line->program->commands; c->name && count < 16; c++) {
    if (!strcmp(c->name, name)) line->command = c->bit;
    words_add(&all, "%s%s", count ? ", " : "", c->name);
    names[count++] = c->name;
  }
  if (line->command) return true;
  const char *nearest = option_nearest(name, names);
  if (nearest) return wrong(line, "unknown command '%s'; did you mean %s?", name, nearest);
  return wrong(line, "unknown command '%s'; the commands are %s", name, all.text);
}

static bool parse_operand(option_line *line, char *argument) {
  const option_command *command = command_of(line);
  const option_kind taken = command ? command->operand : line->program->operand;
  char help[80];
  if (line->program->commands && !command) return parse_command(line, argument);
  if (taken == OPTION_FLAG || line->operand)
    return wrong(line, "unexpected argument '%s'; see %s", argument,
                 help_command(line, help, sizeof help));
  line->operand = argument;
  return true;
}

/* Handles --help, --version and --help-all. They end the program at any position. */
static bool print_common(const option_line *line, const char *argument, int *status) {
  const option_row *row = NULL;
  for (size_t i = 0; (row = option_common(line->program, i)); i++)
    if (is_called(row, argument, strlen(argument))) break;
  if (!row) return false;
  if (row == &common[1])
    printf("%s (libcompute) %s\n", line->program->name, COMPUTE_VERSION_TEXT);
  else
    option_print_help(line->program, line->command, row == &common[2]);
  *status = fflush(stdout) ? EXIT_FAILED : EXIT_GOOD;
  return true;
}

bool option_read(const option_program *program, int argc, char **argv, void *arguments,
                 int *status) {
  option_line *line = arguments;
  *line = (option_line){.program = program};
  *status = EXIT_USAGE;
  for (int i = 1; i < argc; i++) {
    const bool option = argv[i][0] == '-' && argv[i][1];
    if (option && !strcmp(argv[i], "--")) {
      while (++i < argc)
        if (!parse_operand(line, argv[i])) return false;
    } else if (option) {
      if (print_common(line, argv[i], status)) return false;
      if (program->commands && !line->command) {
        size_t length;
        split(line, argv[i], &length);
        if (find_row(line, argv[i], length))
          return wrong(line, "the command must come before %.*s; see %s --help", (int)length,
                       argv[i], program->name);
        return say_unknown(line, argv[i], length);
      }
      if (!parse_option(line, argc, argv, &i)) return false;
    } else if (!parse_operand(line, argv[i])) {
      return false;
    }
  }
  if (!program->commands || line->command) return true;
  return wrong(line, "a command is missing; see %s --help", program->name);
}
