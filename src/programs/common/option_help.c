/* SPDX-License-Identifier: MIT */
/* Prints --help from a program's table of options, for terminals of 80 columns. */
#include <stdio.h>
#include <string.h>

#include "programs/common/option.h"

enum { COLUMNS = 79, HELP_COLUMN = 26 };

/* Counts characters, not bytes. */
static int width_of(const char *text, size_t bytes) {
  int width = 0;
  for (size_t i = 0; i < bytes; i++) width += ((unsigned char)text[i] & 0xC0) != 0x80;
  return width;
}

/* Prints text from `column` on, wraps it, and ends the line. Further lines are indented to
 * `indent`. Backquotes mark bold words in the manual page and are omitted here. */
static void print_wrapped(const char *text, size_t bytes, int indent, int column) {
  const char *end = text + bytes;
  bool first = true;
  while (text < end) {
    const size_t length = strcspn(text, " \n");
    const size_t word = length < (size_t)(end - text) ? length : (size_t)(end - text);
    const int width = width_of(text, word);
    if (!first && column + 1 + width > COLUMNS) {
      printf("\n%*s", indent, "");
      column = indent;
    } else if (!first) {
      putchar(' ');
      column++;
    }
    for (size_t i = 0; i < word; i++)
      if (text[i] != '`') putchar(text[i]);
    column += width;
    first = false;
    text += word;
    while (text < end && (*text == ' ' || *text == '\n')) text++;
  }
  putchar('\n');
}

/* Prints the lines of a section's text. */
static void print_text(const char *text, int indent) {
  while (*text) {
    const size_t length = strcspn(text, "\n"), term = strcspn(text, "\t");
    if (length == 0 || !strncmp(text, "  ", 2)) {
      printf("%.*s\n", (int)length, text);
    } else if (term < length) {
      printf("%*s%-*.*s", indent + 2, "", 6, (int)term, text);
      if (term > 5) printf(" ");
      print_wrapped(text + term + 1, length - term - 1, indent + 8, indent + 8);
    } else {
      printf("%*s", indent, "");
      print_wrapped(text, length, indent, indent);
    }
    text += length + (text[length] == '\n');
  }
}

static void print_row(const option_row *row) {
  char left[100];
  const int n = snprintf(left, sizeof left, "  %s%.1s%s%s%s%s", row->letter ? "-" : "",
                         row->letter ? (char[]){row->letter, '\0'} : "", row->letter ? ", " : "",
                         row->name, row->value ? " " : "", row->value ? row->value : "");
  if (n + 1 < HELP_COLUMN)
    printf("%-*s", HELP_COLUMN, left);
  else
    printf("%s\n%*s", left, HELP_COLUMN, "");
  print_wrapped(row->help, strlen(row->help), HELP_COLUMN, HELP_COLUMN);
}

static void print_rows(const option_program *program, uint32_t command, bool internal) {
  const char *section = "Options", *last = section;
  const option_row *row;
  for (size_t i = 0; i < program->row_count; i++) {
    row = &program->rows[i];
    if (row->section) section = row->section;
    if (!option_applies(row, command) || row->internal) continue;
    if (section) printf("\n%s:\n", last = section);
    section = NULL;
    print_row(row);
  }
  if (strcmp(last, "Options") != 0) putchar('\n');
  for (size_t i = 0; (row = option_common(program, i)); i++) print_row(row);
  if (internal) printf("\nFor developers:\n");
  for (size_t i = 0; internal && i < program->row_count; i++)
    if (program->rows[i].internal) print_row(&program->rows[i]);
}

static void print_usage(const option_program *program) {
  const char *const *line = program->synopsis;
  for (; *line; line++)
    printf("%s %s %s\n", line == program->synopsis ? "Usage:" : "      ", program->name, *line);
}

static void print_sections(const option_program *program) {
  for (const option_section *s = program->sections; s && s->heading; s++) {
    if (!s->in_help) continue;
    printf("\n%s:\n", s->heading);
    print_text(s->text, 0);
  }
}

static void print_program(const option_program *program) {
  const option_row *row;
  printf("Usage: %s COMMAND [OPTION...]\n\n", program->name);
  print_text(program->description, 0);
  printf("\nCommands:\n");
  for (const option_command *c = program->commands; c->name; c++) {
    printf("  %-10s ", c->name);
    print_wrapped(c->text, strlen(c->text), 13, 13);
  }
  printf("\n'%s COMMAND --help' lists the options of a command.\n\nOptions:\n", program->name);
  for (size_t i = 0; (row = option_common(program, i)); i++) print_row(row);
  print_sections(program);
}

void option_print_help(const option_program *program, uint32_t command, bool internal) {
  if (program->commands && !command) {
    print_program(program);
    return;
  }
  if (!program->commands) {
    print_usage(program);
    putchar('\n');
    print_text(program->description, 0);
  }
  for (const option_command *c = program->commands; c && c->name; c++)
    if (c->bit == command)
      printf("Usage: %s %s %s%s[OPTION...]\n\n%c%s.\n", program->name, c->name, c->arguments,
             c->arguments[0] ? " " : "", c->text[0] - 'a' + 'A', c->text + 1);
  print_rows(program, command, internal);
  print_sections(program);
}
