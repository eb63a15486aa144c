/* One row for each option of compute-fit: what it takes, where that goes, and its help. Parsing,
 * messages and help texts are made from this table alone. */
#ifndef TOOLS_FIT_OPTION_TABLE_H
#define TOOLS_FIT_OPTION_TABLE_H

#include <stddef.h>

#include "tools/fit/options.h"

typedef enum option_kind {
  OPTION_FLAG,
  OPTION_TEXT,   /* a name, a file, a list that is read later */
  OPTION_COUNT,  /* whole number within least … most */
  OPTION_BYTES,  /* whole number, K, M or G behind it */
  OPTION_NUMBER, /* within least … most */
  OPTION_SIZE,   /* RxC or N, each within least … most */
  OPTION_LIST,   /* `most` numbers at most, with commas, each of them above `least` */
  OPTION_RANGE,  /* LOW:HIGH or one number, both ≥ least */
  OPTION_CHOICE, /* one of `choices`; its place */
  OPTION_CAMERA  /* a number within least … most, or a file */
} option_kind;

typedef struct option_row {
  const char *name; /* "--roi" */
  option_kind kind;
  size_t offset;        /* in fit_arguments */
  uint32_t commands;    /* that know it */
  const char *value;    /* as shown in the help; NULL for flags */
  const char *help;     /* one sentence; '\n' where the line should break */
  double least, most;   /* both 0: any finite number */
  const char **choices; /* ends with NULL */
  bool neutral;         /* the bytes of a result do not depend on it */
  const char *section;  /* heading, for the first of a group; NULL: the group goes on */
} option_row;

#define MANY_COUNT 9e15 /* the largest count: a double holds it exactly */

extern const option_row option_table[];
extern const size_t option_count;

#endif
