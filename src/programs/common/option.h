/* SPDX-License-Identifier: MIT */
/* Command lines. Each program has a table of options with one row per option. The table drives
 * parsing, messages, --help, the manual page and shell completions.
 *
 * Every program has --help (-h) and --version. It also has --help-all if it has options for
 * developers. Options have the forms "--opt value" or "--opt=value", and "--" ends them. This
 * header does not need libcompute, so that the generator of the pages can be built for the build
 * machine. */
#ifndef TOOLS_OPTION_H
#define TOOLS_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/simulate.h"

/* Exit statuses of all programs. */
enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

typedef enum option_kind {
  OPTION_FLAG,    /* bool */
  OPTION_TEXT,    /* const char *: any non-empty text */
  OPTION_NAMES,   /* const char *: text with commas; `choices` are only suggestions */
  OPTION_FILE,    /* const char * */
  OPTION_DEVICE,  /* const char *: the name of a device */
  OPTION_DEVICES, /* const char *: names separated by commas, or one of `choices` */
  OPTION_WORD,    /* const char *: one of `choices` */
  OPTION_WORDS,   /* const char *: some of `choices`, separated by commas */
  OPTION_CHOICE,  /* int32_t: the index of one of `choices` */
  OPTION_COUNT,   /* int64_t: a whole number within least … most */
  OPTION_BYTES,   /* int64_t: a whole number, optionally followed by K, M or G */
  OPTION_NUMBER,  /* double within least … most */
  OPTION_SIZE,    /* size_value: RxC or N, each within least … most */
  OPTION_LIST,    /* list_value: up to `most` numbers separated by commas, each above `least` */
  OPTION_RANGE,   /* compute_range: LOW:HIGH or one number, each within least … most */
  OPTION_MAP      /* map_value: a number within least … most, or the name of a file */
} option_kind;

typedef struct size_value {
  int32_t rows, columns;
} size_value;

enum { LIST_VALUE_MOST = 8 };

typedef struct list_value {
  double value[LIST_VALUE_MOST];
  int32_t count;
} list_value;

enum { TEXT_LIST_MOST = 64 };

/* The values of an option that may be given more than once. */
typedef struct text_list {
  const char *value[TEXT_LIST_MOST];
  int32_t count;
} text_list;

/* A number, or a file with one number per pixel. */
typedef struct map_value {
  double number;
  const char *file; /* NULL: `number` is used */
} map_value;

typedef struct option_row {
  const char *name; /* "--roi" */
  option_kind kind;
  size_t offset;              /* of the option's field in the program's arguments */
  uint32_t commands;          /* bits of the commands that accept it; 0: all */
  char letter;                /* 'o' for -o; 0: none */
  const char *value;          /* as shown in the help; NULL for flags */
  const char *help;           /* a phrase, for the help and the manual page */
  const char *more;           /* sentences only for the manual page; may be NULL */
  double least, most;         /* limits; both 0: any finite number */
  const char *const *choices; /* ends with NULL */
  bool neutral;               /* does not change the bytes of a result */
  bool internal;              /* for developers: only --help-all shows it */
  bool many;                  /* may be repeated; TEXT or FILE: the field is a text_list */
  const char *section;        /* heading, in the first row of a group */
} option_row;

#define MANY_COUNT 9e15 /* the largest count; a double represents it exactly */

/* A subcommand. */
typedef struct option_command {
  const char *name;
  uint32_t bit;
  const char *arguments; /* "INPUT -o RESULT"; "" if it has none */
  option_kind operand;   /* OPTION_FILE or OPTION_DEVICE; OPTION_FLAG: no operand */
  const char *text;      /* "fits the spots of a movie" */
} option_command;

/* A section of the manual page. Each line of `text` is a paragraph. A line with a tab is
 * "term\tmeaning". A line that begins with two spaces is verbatim. Words between `…` are bold. */
typedef struct option_section {
  const char *heading;
  const char *text;
  bool in_help;
} option_section;

typedef struct option_program {
  const char *name;               /* "compute-fit" */
  const char *summary;            /* for the page's NAME: "fit Gaussian spots in camera images" */
  const char *const *synopsis;    /* lines after the name, ends with NULL; NULL if there are
                                   * commands */
  const char *description;        /* paragraphs as in a section; --help also shows them */
  const option_command *commands; /* ends with a row of zeros; NULL: none */
  option_kind operand;            /* for a program without commands */
  const option_row *rows;
  size_t row_count;
  const option_section *sections; /* ends with a row of zeros */
} option_program;

/* The parsed command line, except the options' values. It is the first member of every program's
 * struct of arguments. */
typedef struct option_line {
  const option_program *program;
  uint32_t command;     /* the bit of the subcommand */
  uint64_t given[2];    /* bit i: the command line has row i */
  uint64_t fingerprint; /* of the options that are not neutral, as written, independent of their
                         * order */
  const char *operand;  /* the argument that is not an option; NULL: none */
} option_line;

/* Reads argv[1] … argv[argc − 1] into `arguments`. The first member of `arguments` is an
 * option_line, and the other fields must contain their defaults. Returns true if the program should
 * run. Otherwise the program should end with *status: help or the version was printed, or a message
 * on standard error has reported wrong arguments. */
bool option_read(const option_program *program, int argc, char **argv, void *arguments,
                 int *status);

/* Returns true if the command line has option `name` ("--roi"). */
bool option_given(const option_line *line, const char *name);

/* Returns "fit", "simulate", …; "" without a command. */
const char *option_command_name(const option_line *line);

/* Writes "compute-fit: " and the message as a line to standard error. */
void option_say(const option_program *program, const char *format, ...) COMPUTE_PRINTF(2, 3);

/* Returns the word of `words` (ends with NULL) that is most similar to `word`, or NULL if none is
 * similar. */
const char *option_nearest(const char *word, const char *const *words);

/* ---- Output of the table --------------------------------------------------------------------- */

/* Returns true if a command accepts an option. Command 0: no command, or all. */
bool option_applies(const option_row *row, uint32_t command);

/* Returns the i-th of --help, --version and --help-all as a row; NULL past the end. */
const option_row *option_common(const option_program *program, size_t index);

/* Print on standard output: the help of a command (0: of the program), the manual page, … */
void option_print_help(const option_program *program, uint32_t command, bool internal);
void option_print_manual(const option_program *program);
/* … and the completions for "bash", "zsh" or "fish". Returns false for another shell. */
bool option_print_completion(const option_program *program, const char *shell);

#endif
