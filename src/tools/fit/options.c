/* Reads the command line by the table of options, and prints help from it. Text becomes numbers,
 * and what would have been allowed becomes text. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/fit/option_table.h"

/* ---- Values -------------------------------------------------------------------------------- */

static bool unbounded(const option_row *row) {
  return row->least == 0 && row->most == 0;
}

static bool read_number(const char *text, const char *stop, double *value) {
  char *end;
  errno = 0;
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
  long long number = strtoll(text, &end, 10);
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
    if (list->count >= (int32_t)row->most) return false;
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
    if (strcasecmp(row->choices[i], text)) continue;
    *choice = i;
    return true;
  }
  return false;
}

/* What is no number is a file's name; a number out of bounds is an error. */
static bool parse_camera(const option_row *row, const char *text, camera_value *value) {
  value->file = NULL;
  if (parse_number(row, text, &value->number)) return true;
  char *end;
  strtod(text, &end);
  value->file = text;
  return *text && *end;
}

/* Reads `text` into the option's field of `a`; false if it is not allowed. Not for flags. */
static bool option_parse(const option_row *row, const char *text, fit_arguments *a) {
  void *field = (char *)a + row->offset;
  switch (row->kind) {
  case OPTION_FLAG: return false;
  case OPTION_TEXT:
    *(const char **)field = text;
    if (!row->choices) return *text != '\0';
    return parse_choice(row, text, &(int32_t){0});
  case OPTION_COUNT:
  case OPTION_BYTES: return parse_count(row, text, field);
  case OPTION_NUMBER: return parse_number(row, text, field);
  case OPTION_SIZE: return parse_size(row, text, field);
  case OPTION_LIST: return parse_list(row, text, field);
  case OPTION_RANGE: return parse_range(row, text, field);
  case OPTION_CHOICE: return parse_choice(row, text, field);
  case OPTION_CAMERA: return parse_camera(row, text, field);
  }
  return false;
}

/* ---- What is allowed, in words ------------------------------------------------------------- */

/* Text that grows up to its size. */
typedef struct option_words {
  char text[400];
  size_t length;
} option_words;

static void option_words_add(option_words *w, const char *format, ...) COMPUTE_PRINTF(2, 3);
static void option_words_add(option_words *w, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int n = vsnprintf(w->text + w->length, sizeof w->text - w->length, format, list);
  va_end(list);
  if (n > 0) w->length += (size_t)n;
  if (w->length >= sizeof w->text) w->length = sizeof w->text - 1;
}

static void add_bounds(option_words *w, const option_row *row) {
  if (unbounded(row)) return;
  if (row->least <= -1e6 && row->most >= 1e6) return;
  if (row->least > 0 && row->least < 1e-300)
    option_words_add(w, " above 0");
  else if (row->most >= 1e6)
    option_words_add(w, " of at least %g", row->least);
  else
    option_words_add(w, " from %g to %g", row->least, row->most);
}

/* Adds what is allowed: "a number above 0". */
static void option_add_allowed(option_words *w, const option_row *row) {
  switch (row->kind) {
  case OPTION_FLAG: option_words_add(w, "given without a value"); break;
  case OPTION_TEXT:
    if (!row->choices) {
      option_words_add(w, "not to be empty");
      break;
    }
    /* fallthrough */
  case OPTION_CHOICE:
    option_words_add(w, "one of");
    for (size_t i = 0; row->choices[i]; i++)
      option_words_add(w, "%s %s", i ? "," : "", row->choices[i]);
    break;
  case OPTION_COUNT:
    option_words_add(w, "a whole number");
    add_bounds(w, row);
    break;
  case OPTION_BYTES: option_words_add(w, "a number of bytes, as 500M"); break;
  case OPTION_NUMBER:
    option_words_add(w, "a number");
    add_bounds(w, row);
    break;
  case OPTION_SIZE:
    option_words_add(w, "rows and columns, each");
    add_bounds(w, row);
    option_words_add(w, ", as 5x9, or one number");
    break;
  case OPTION_LIST:
    option_words_add(w, "up to %g numbers%s with commas", row->most,
                     row->least == 0 ? " above 0" : "");
    break;
  case OPTION_RANGE:
    option_words_add(w, "a number or a range LOW:HIGH");
    add_bounds(w, row);
    break;
  case OPTION_CAMERA:
    option_words_add(w, "a number");
    add_bounds(w, row);
    option_words_add(w, ", or a file");
    break;
  }
}

/* ---- Messages ------------------------------------------------------------------------------ */

void fit_say(const char *format, ...) {
  va_list list;
  va_start(list, format);
  fputs("compute-fit: ", stderr);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
}

int fit_say_error(const char *what, const compute_context *context) {
  compute_error error = {0};
  compute_error_get(context, &error);
  fit_say("%s%s%s", what ? what : "", what ? ": " : "", error.message);
  if (error.remedy[0]) fprintf(stderr, "  %s\n", error.remedy);
  return EXIT_FAILED;
}

static void say_wrong_value(const option_row *row, const char *value) {
  option_words allowed = {0};
  option_add_allowed(&allowed, row);
  fit_say("%s is %s, not '%s'", row->name, allowed.text, value);
}

/* ---- The command line ---------------------------------------------------------------------- */

static const struct {
  const char *name;
  uint32_t bit;
  const char *arguments, *text;
} commands[] = {
    {"fit", COMMAND_FIT, "INPUT -o RESULT", "fits the spots of a movie or of a stack of ROIs"},
    {"simulate", COMMAND_SIMULATE, "-o IMAGES", "makes ROIs or movies with known truth"},
    {"crlb", COMMAND_CRLB, "", "the least uncertainties that the light allows"},
    {"validate", COMMAND_VALIDATE, "",
     "simulates and fits every model at several light levels; judges the results"},
    {"bench", COMMAND_BENCH, "", "how many fits per second this machine makes"},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

const char *arguments_command_name(uint32_t command) {
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    if (commands[i].bit == command) return commands[i].name;
  return "";
}

static const option_row *find_row(const char *name, size_t length) {
  if (length == 2 && !strncmp(name, "-o", 2)) return find_row("--output", 8);
  for (size_t i = 0; i < option_count; i++)
    if (strlen(option_table[i].name) == length && !strncmp(option_table[i].name, name, length))
      return &option_table[i];
  return NULL;
}

bool arguments_given(const fit_arguments *a, const char *name) {
  const option_row *row = find_row(name, strlen(name));
  return row && (a->given >> (row - option_table) & 1) != 0;
}

static bool say_unknown(const fit_arguments *a, const char *argument, const option_row *row) {
  const char *command = arguments_command_name(a->command);
  if (!row) {
    fit_say("unknown option '%s'; see compute-fit %s --help", argument, command);
    return false;
  }
  option_words others = {0};
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    if (row->commands & commands[i].bit)
      option_words_add(&others, "%s%s", others.length ? ", " : "", commands[i].name);
  fit_say("%s is not an option of '%s' but of: %s", row->name, command, others.text);
  return false;
}

/* FNV-1a of "--name=value", to be summed up over all options. */
static uint64_t hash_option(const char *name, const char *value) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
  hash = (hash ^ '=') * 0x100000001b3u;
  for (; value && *value; value++) hash = (hash ^ (unsigned char)*value) * 0x100000001b3u;
  return hash;
}

/* Reads the option at argv[*i], and its value, which may be the next argument. */
static bool parse_option(int argc, char **argv, int *i, fit_arguments *a) {
  const char *argument = argv[*i], *value = NULL;
  size_t length = argument[1] == '-' ? strcspn(argument, "=") : strlen(argument);
  const option_row *row = find_row(argument, length);
  if (!row || !(row->commands & a->command)) return say_unknown(a, argument, row);
  const uint64_t bit = (uint64_t)1 << (row - option_table);
  if (a->given & bit) {
    fit_say("%s was given twice", row->name);
    return false;
  }
  a->given |= bit;
  if (argument[length] == '=') value = argument + length + 1;
  if (row->kind == OPTION_FLAG && !value) {
    if (!row->neutral) a->fingerprint += hash_option(row->name, NULL);
    *(bool *)((char *)a + row->offset) = true;
    return true;
  }
  if (!value && *i + 1 == argc) {
    option_words allowed = {0};
    option_add_allowed(&allowed, row);
    fit_say("%s needs a value: %s is %s", row->name, row->value, allowed.text);
    return false;
  }
  if (!value) value = argv[++*i];
  if (!row->neutral) a->fingerprint += hash_option(row->name, value);
  if (option_parse(row, value, a)) return true;
  say_wrong_value(row, value);
  return false;
}

static bool parse_command(const char *name, fit_arguments *a) {
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    if (!strcmp(commands[i].name, name)) a->command = commands[i].bit;
  if (a->command) return true;
  fit_say("unknown command '%s'; there are fit, simulate, crlb, validate and bench", name);
  return false;
}

bool arguments_parse(int argc, char **argv, fit_arguments *a) {
  *a = (fit_arguments){.sigma = {{1.3}, 1},
                       .depth = 0.4,
                       .gamma = 0.25,
                       .gain = {.number = 1},
                       .gain_adu = {.number = 1},
                       .em_gain = 1,
                       .frames = 100,
                       .seed = 1,
                       .size = {256, 256},
                       .spots = 20,
                       .photons = {1000, 1000},
                       .background = {10, 10},
                       .position = {-0.5, 0.5},
                       .roi = {7, 7},
                       .x = NAN,
                       .y = NAN,
                       .seconds = 0.5};
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      a->help = true;
      return true;
    }
    if (!a->command) {
      if (!parse_command(argv[i], a)) return false;
    } else if (argv[i][0] == '-' && argv[i][1]) {
      if (!parse_option(argc, argv, &i, a)) return false;
    } else if (a->command != COMMAND_FIT || a->input) {
      fit_say("'%s' is one argument too many; see compute-fit %s --help", argv[i],
              arguments_command_name(a->command));
      return false;
    } else {
      a->input = argv[i];
    }
  }
  if (a->command) return true;
  fit_say("a command is missing: fit, simulate, crlb, validate or bench; see compute-fit --help");
  return false;
}

/* ---- Help ---------------------------------------------------------------------------------- */

static void print_row(const option_row *row) {
  char left[80];
  snprintf(left, sizeof left, "%s%s%s", row->name, row->value ? " " : "",
           row->value ? row->value : "");
  printf("  %-29s ", left);
  for (const char *s = row->help; *s; s++) {
    putchar(*s);
    if (*s == '\n') printf("%32s", "");
  }
  putchar('\n');
}

static void print_program_help(void) {
  printf("usage: compute-fit COMMAND [OPTION…]\n"
         "Maximum-likelihood fits of Gaussian spots in camera images, with uncertainties.\n\n");
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    printf("  %-10s %s\n", commands[i].name, commands[i].text);
  printf("\n'compute-fit COMMAND --help' lists the options of a command; compute-fit(1) and\n"
         "docs/guide/fitting.md say more.\n"
         "Exit status: 0; 1 when something failed; 2 for wrong arguments; 130 after Ctrl-C.\n");
}

void arguments_print_help(uint32_t command) {
  if (!command) {
    print_program_help();
    return;
  }
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    if (commands[i].bit == command)
      printf("usage: compute-fit %s %s%s[OPTION…]\n%c%s.\n", commands[i].name,
             commands[i].arguments, commands[i].arguments[0] ? " " : "",
             commands[i].text[0] - 'a' + 'A', commands[i].text + 1);
  const char *section = NULL;
  for (size_t i = 0; i < option_count; i++) {
    const option_row *row = &option_table[i];
    if (row->section) section = row->section;
    if (!(row->commands & command)) continue;
    if (section) printf("\n%s\n", section);
    section = NULL;
    print_row(row);
  }
}
