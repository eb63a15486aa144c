/* SPDX-License-Identifier: MIT */
/* Manual pages and shell completions from the programs' tables of options.
 *
 * The program compute-options writes them during the build: "compute-options NAME man FILE", or
 * bash, zsh, fish. It links the tables, but not libcompute. */
#include <stdio.h>
#include <string.h>

#include "programs/common/option.h"

/* ---- The manual page ----------------------------------------------------------------------- */

/* Escapes text for troff: `bold`, hyphens that can be copied, and no accidental requests.
 */
static void put_troff(const char *text, size_t bytes) {
  bool bold = false;
  if (bytes && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
  for (const char *c = text; c < text + bytes; c++) {
    switch (*c) {
    case '`':
      fputs(bold ? "\\fR" : "\\fB", stdout);
      bold = !bold;
      break;
    case '\\': fputs("\\e", stdout); break;
    case '-': fputs("\\-", stdout); break;
    case '\'': fputs("\\(aq", stdout); break;
    case '^': fputs("\\(ha", stdout); break;
    case '~': fputs("\\(ti", stdout); break;
    default: putchar(*c);
    }
  }
}

static void put_words(const char *text) {
  put_troff(text, strlen(text));
}

static void put_bold(const char *text) {
  fputs("\\fB", stdout);
  put_words(text);
  fputs("\\fR", stdout);
}

/* Writes the lines of a section's text. "P" begins a paragraph and has no effect after a
 * heading. */
static void put_text(const char *text) {
  bool verbatim = false;
  for (bool first = true; *text; first = false) {
    const size_t length = strcspn(text, "\n"), term = strcspn(text, "\t");
    const bool as_is = length == 0 ? verbatim : !strncmp(text, "  ", 2);
    if (as_is != verbatim) puts(as_is ? ".PP\n.nf" : ".fi");
    if (!as_is && term < length) {
      fputs(".TP\n\\fB", stdout);
      put_troff(text, term);
      puts("\\fR");
      put_troff(text + term + 1, length - term - 1);
    } else {
      if (!as_is && !first) puts(".PP");
      put_troff(as_is && length ? text + 2 : text, as_is && length ? length - 2 : length);
    }
    putchar('\n');
    verbatim = as_is;
    text += length + (text[length] == '\n');
  }
  if (verbatim) puts(".fi");
}

/* Writes "fit, simulate" for an option that only some commands have. */
static void put_commands(const option_program *program, const option_row *row) {
  uint32_t all = 0;
  const char *comma = "";
  for (const option_command *c = program->commands; c && c->name; c++) all |= c->bit;
  if (!row->commands || (row->commands & all) == all) return;
  fputs("(", stdout);
  for (const option_command *c = program->commands; c && c->name; c++) {
    if (!(row->commands & c->bit)) continue;
    printf("%s\\fB%s\\fR", comma, c->name);
    comma = ", ";
  }
  puts(")");
}

/* Writes a help text as a sentence. The text is a phrase, so it gets a capital letter and a full
 * stop. */
static void put_sentence(const char *text) {
  const size_t length = strlen(text);
  const bool small = *text >= 'a' && *text <= 'z';
  if (small) putchar(*text - 'a' + 'A');
  put_troff(text + small, length - small);
  puts(length && text[length - 1] == '.' ? "" : ".");
}

static void put_option(const option_program *program, const option_row *row) {
  puts(".TP");
  if (row->letter) printf("\\fB\\-%c\\fR, ", row->letter);
  put_bold(row->name);
  if (row->value) {
    fputs(" \\fI", stdout);
    put_words(row->value);
    fputs("\\fR", stdout);
  }
  putchar('\n');
  put_sentence(row->help);
  if (row->more) {
    put_words(row->more);
    putchar('\n');
  }
  put_commands(program, row);
}

static void put_options(const option_program *program) {
  const option_row *row;
  puts(".SH OPTIONS");
  for (size_t i = 0; i < program->row_count; i++) {
    row = &program->rows[i];
    if (row->section) {
      fputs(".SS ", stdout);
      put_words(row->section);
      putchar('\n');
    }
    if (!row->internal) put_option(program, row);
  }
  puts(".SS Help");
  for (size_t i = 0; (row = option_common(program, i)); i++) put_option(program, row);
}

static void put_synopsis(const option_program *program) {
  puts(".SH SYNOPSIS");
  for (const char *const *line = program->synopsis; line && *line; line++) {
    if (line != program->synopsis) puts(".br");
    put_bold(program->name);
    putchar(' ');
    put_words(*line);
    putchar('\n');
  }
  for (const option_command *c = program->commands; c && c->name; c++) {
    if (c != program->commands) puts(".br");
    put_bold(program->name);
    putchar(' ');
    put_bold(c->name);
    printf(" %s%s[OPTION...]\n", c->arguments, c->arguments[0] ? " " : "");
  }
}

void option_print_manual(const option_program *program) {
  fputs(".TH ", stdout);
  for (const char *c = program->name; *c; c++)
    putchar(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
  printf(" 1 \"\" \"libcompute %s\" \"User Commands\"\n.SH NAME\n", COMPUTE_VERSION_TEXT);
  put_words(program->name);
  fputs(" \\- ", stdout);
  put_words(program->summary);
  putchar('\n');
  put_synopsis(program);
  puts(".SH DESCRIPTION");
  put_text(program->description);
  if (program->commands) puts(".SH COMMANDS");
  for (const option_command *c = program->commands; c && c->name; c++) {
    printf(".TP\n\\fB%s\\fR\n", c->name);
    put_sentence(c->text);
  }
  put_options(program);
  for (const option_section *s = program->sections; s && s->heading; s++) {
    fputs(".SH ", stdout);
    for (const char *c = s->heading; *c; c++) putchar(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    putchar('\n');
    put_text(s->text);
  }
}

/* ---- What all shells need ------------------------------------------------------------------ */

static const char generated[] = "generated from the program's table of options; do not edit";

/* Writes the program's name as a part of a shell function's name: "compute_fit". */
static void put_identifier(const option_program *program) {
  for (const char *c = program->name; *c; c++) putchar(*c == '-' ? '_' : *c);
}

static void put_choices(const option_row *row, const char *before) {
  for (size_t i = 0; row->choices && row->choices[i]; i++) printf("%s%s", before, row->choices[i]);
}

static bool has_devices(option_kind kind) {
  return kind == OPTION_DEVICE || kind == OPTION_DEVICES;
}

static bool is_list(option_kind kind) {
  return kind == OPTION_DEVICES || kind == OPTION_WORDS || kind == OPTION_NAMES;
}

/* Returns row i of the program's options, followed by the options of all programs; NULL past the
 * end. */
static const option_row *row_at(const option_program *program, size_t i) {
  return i < program->row_count ? &program->rows[i]
                                : option_common(program, i - program->row_count);
}

/* Writes text in single quotes. Characters in `special` get a backslash. */
static void put_quoted(const char *text, const char *special) {
  for (; *text; text++) {
    if (*text == '`') continue;
    if (*text == '\'')
      fputs("'\\''", stdout);
    else if (strchr(special, *text))
      printf("\\%c", *text);
    else
      putchar(*text);
  }
}

/* ---- bash ---------------------------------------------------------------------------------- */

/* Words are read from the line itself, since readline breaks them at ':' and '='. The part before
 * the break is then removed from the front of each completion. */
static const char bash_begin[] =
    "() {\n"
    "  local line=${COMP_LINE:0:COMP_POINT} word option value taken command='' i\n"
    "  local -a words names=()\n"
    "  read -ra words <<<\"$line\"\n"
    "  [[ $line == *[[:space:]] ]] && words+=('')\n"
    "  word=${words[-1]} option=${words[-2]} value=$word\n"
    "  if [[ $word == --*=* ]]; then option=${word%%=*} value=${word#*=}; fi\n";

static const char bash_end[] =
    "  # Of a list with commas only the last name is completed.\n"
    "  taken=${word%\"$value\"}\n"
    "  mapfile -t COMPREPLY < <(compgen -P \"$taken\" -W \"${names[*]}\" -- \"$value\")\n"
    "  for i in '=' ':'; do\n"
    "    [[ $COMP_WORDBREAKS == *\"$i\"* && $word == *\"$i\"* ]] || continue\n"
    "    taken=${word%\"${word##*\"$i\"}\"}\n"
    "    COMPREPLY=(\"${COMPREPLY[@]#\"$taken\"}\")\n"
    "  done\n"
    "}\n";

static const char bash_files[] = "    compopt -o filenames\n"
                                 "    mapfile -t COMPREPLY < <(compgen -f -- \"$value\")\n"
                                 "    return\n";

static void bash_values(const option_row *row) {
  if (row->kind == OPTION_FLAG) return;
  printf("  %s%.1s%s%s)\n", row->letter ? "-" : "", row->letter ? &row->letter : "",
         row->letter ? " | " : "", row->name);
  if (row->kind == OPTION_FILE || row->kind == OPTION_MAP) {
    fputs(bash_files, stdout);
  } else {
    if (is_list(row->kind)) puts("    value=${value##*,}");
    fputs("    names=(", stdout);
    put_choices(row, " ");
    if (has_devices(row->kind)) fputs(" $(compute-info --names 2>/dev/null)", stdout);
    puts(" )");
  }
  puts("    ;;");
}

static void bash_names(const option_program *program, uint32_t command, option_kind operand) {
  const option_row *row;
  fputs("    names=(", stdout);
  for (size_t i = 0; (row = row_at(program, i)); i++)
    if (option_applies(row, command) && !row->internal) printf(" %s", row->name);
  puts(" )");
  if (operand == OPTION_DEVICE)
    puts("    [[ $word == -* ]] || names=($(compute-info --names 2>/dev/null))");
  if (operand == OPTION_FILE) printf("    if [[ $word != -* ]]; then\n%s    fi\n", bash_files);
}

static void bash_rest(const option_program *program) {
  puts("  *)\n    case $command in");
  for (const option_command *c = program->commands; c && c->name; c++) {
    printf("    %s)\n", c->name);
    bash_names(program, c->bit, c->operand);
    puts("    ;;");
  }
  puts("    *)");
  if (program->commands) {
    fputs("    names=(--help --version", stdout);
    for (const option_command *c = program->commands; c->name; c++) printf(" %s", c->name);
    puts(")");
  } else {
    bash_names(program, 0, program->operand);
  }
  puts("    ;;\n    esac\n    ;;\n  esac");
}

static void print_bash(const option_program *program) {
  printf("# bash completion for %s, %s.\n_", program->name, generated);
  put_identifier(program);
  fputs(bash_begin, stdout);
  if (program->commands) puts("  ((${#words[@]} > 2)) && command=${words[1]}");
  puts("  case $option in");
  for (size_t i = 0; i < program->row_count; i++) bash_values(&program->rows[i]);
  bash_rest(program);
  fputs(bash_end, stdout);
  fputs("complete -F _", stdout);
  put_identifier(program);
  printf(" %s\n", program->name);
}

/* ---- zsh ----------------------------------------------------------------------------------- */

static void zsh_value(const option_row *row) {
  printf(":%s:", row->value);
  if (row->kind == OPTION_FILE || row->kind == OPTION_MAP) {
    fputs("_files", stdout);
  } else if (has_devices(row->kind)) {
    fputs(is_list(row->kind) ? "_sequence _compute_devices -" : "_compute_devices", stdout);
    put_choices(row, " ");
  } else if (is_list(row->kind)) {
    fputs("_sequence compadd -", stdout);
    put_choices(row, " ");
  } else if (row->choices) {
    fputs("(", stdout);
    put_choices(row, " ");
    fputs(")", stdout);
  }
}

static void zsh_options(const option_program *program, uint32_t command, option_kind operand) {
  const option_row *row;
  fputs("    _arguments -s -S", stdout);
  for (size_t i = 0; (row = row_at(program, i)); i++) {
    if (!option_applies(row, command) || row->internal) continue;
    const char *equals = row->kind == OPTION_FLAG ? "" : "=";
    if (row->letter && row->many)
      printf(" \\\n      '*'{-%c,%s%s}'[", row->letter, row->name, equals);
    else if (row->letter)
      printf(" \\\n      '(-%c %s)'{-%c,%s%s}'[", row->letter, row->name, row->letter, row->name,
             equals);
    else
      printf(" \\\n      '%s%s%s[", row->many ? "*" : "", row->name, equals);
    put_quoted(row->help, "[]\\:");
    putchar(']');
    if (row->kind != OPTION_FLAG) zsh_value(row);
    putchar('\'');
  }
  if (operand == OPTION_FILE) fputs(" \\\n      '1:file:_files'", stdout);
  if (operand == OPTION_DEVICE) fputs(" \\\n      '1:device:_compute_devices'", stdout);
  putchar('\n');
}

static void zsh_commands(const option_program *program) {
  puts("  local -a commands\n  commands=(");
  for (const option_command *c = program->commands; c->name; c++) {
    printf("    '%s:", c->name);
    put_quoted(c->text, "\\:");
    puts("'");
  }
  puts("  )\n"
       "  if ((CURRENT == 2)); then\n"
       "    _describe command commands\n"
       "    _arguments '--help[prints this help]' '--version[prints the version]'\n"
       "    return\n"
       "  fi\n"
       "  local command=$words[2]\n"
       "  shift words\n"
       "  ((CURRENT--))\n"
       "  case $command in");
  for (const option_command *c = program->commands; c->name; c++) {
    printf("  %s)\n", c->name);
    zsh_options(program, c->bit, c->operand);
    puts("    ;;");
  }
  puts("  esac");
}

static void print_zsh(const option_program *program) {
  printf("#compdef %s\n# zsh completion for %s, %s.\n", program->name, program->name, generated);
  puts("_compute_devices() {\n"
       "  local -a names\n"
       "  names=(${(f)\"$(compute-info --names 2>/dev/null)\"})\n"
       "  compadd \"$@\" -- $names\n"
       "}");
  putchar('_');
  put_identifier(program);
  puts("() {");
  if (program->commands)
    zsh_commands(program);
  else
    zsh_options(program, 0, program->operand);
  fputs("}\n_", stdout);
  put_identifier(program);
  puts(" \"$@\"");
}

/* ---- fish ---------------------------------------------------------------------------------- */

/* Writes -n '…' for an option that only some commands have. */
static void fish_condition(const option_program *program, uint32_t bits) {
  if (!program->commands || !bits) return;
  fputs(" -n '__fish_seen_subcommand_from", stdout);
  for (const option_command *c = program->commands; c->name; c++)
    if (bits & c->bit) printf(" %s", c->name);
  putchar('\'');
}

static void fish_value(const option_row *row) {
  const char *devices = has_devices(row->kind) ? "(compute-info --names 2>/dev/null)" : "";
  if (row->kind == OPTION_FILE || row->kind == OPTION_MAP) {
    fputs(" -r -F", stdout);
  } else if (is_list(row->kind)) {
    fputs(" -x -a \"(__fish_complete_list , 'string join \\n", stdout);
    put_choices(row, " ");
    printf(" %s')\"", devices);
  } else if (row->kind != OPTION_FLAG) {
    fputs(" -x", stdout);
    if (!row->choices && !*devices) return;
    fputs(" -a '", stdout);
    put_choices(row, " ");
    printf(" %s'", devices);
  }
}

static void print_fish(const option_program *program) {
  const option_row *row;
  printf("# fish completion for %s, %s.\ncomplete -c %s -f\n", program->name, generated,
         program->name);
  for (const option_command *c = program->commands; c && c->name; c++) {
    printf("complete -c %s -n __fish_use_subcommand -a %s -d '", program->name, c->name);
    put_quoted(c->text, "");
    puts("'");
    if (c->operand != OPTION_FILE) continue;
    printf("complete -c %s", program->name);
    fish_condition(program, c->bit);
    puts(" -F");
  }
  if (program->operand == OPTION_DEVICE)
    printf("complete -c %s -a '(compute-info --names 2>/dev/null)'\n", program->name);
  for (size_t i = 0; (row = row_at(program, i)); i++) {
    if (row->internal) continue;
    printf("complete -c %s", program->name);
    fish_condition(program, row->commands);
    printf(" -l %s", row->name + 2);
    if (row->letter) printf(" -s %c", row->letter);
    fish_value(row);
    fputs(" -d '", stdout);
    put_quoted(row->help, "");
    puts("'");
  }
}

bool option_print_completion(const option_program *program, const char *shell) {
  static const struct {
    const char *name;
    void (*print)(const option_program *program);
  } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
  for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
    if (strcmp(shells[i].name, shell) != 0) continue;
    shells[i].print(program);
    return true;
  }
  return false;
}

/* ---- compute-options ----------------------------------------------------------------------- */

extern const option_program info_program, run_program, tune_program, fit_program, bench_program,
    conformance_program;

int main(int argc, char **argv) {
  static const option_program *const programs[] = {&info_program,  &run_program,
                                                   &tune_program,  &fit_program,
                                                   &bench_program, &conformance_program};
  if (argc == 4 && !freopen(argv[3], "w", stdout)) {
    perror(argv[3]);
    return EXIT_FAILED;
  }
  for (size_t i = 0; argc == 4 && i < sizeof programs / sizeof *programs; i++) {
    if (strcmp(programs[i]->name, argv[1]) != 0) continue;
    if (!strcmp(argv[2], "man"))
      option_print_manual(programs[i]);
    else if (!option_print_completion(programs[i], argv[2]))
      break;
    return fflush(stdout) ? EXIT_FAILED : EXIT_GOOD;
  }
  fprintf(stderr, "Usage: compute-options PROGRAM man|bash|zsh|fish FILE\n");
  return EXIT_USAGE;
}
