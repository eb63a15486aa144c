/* SPDX-License-Identifier: MIT */
/* WordPiece (Wu et al. 2016) as BERT's networks were trained with it: words are cut into the
 * longest pieces that the vocabulary has. Letters of Latin-1 lose case and accents; other letters
 * are taken as they are, and ideographs and general punctuation are words of their own. */
#ifndef WORD_PIECE_H
#define WORD_PIECE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 256, MOST_WORD = 400 /* bytes */ };

typedef struct vocabulary_token {
  const char *text;
  int64_t id;
} vocabulary_token;

typedef struct vocabulary {
  char *text;
  vocabulary_token *tokens; /* sorted */
  size_t count;
  int64_t unknown, start, end;
} vocabulary;

typedef struct token_list {
  int64_t ids[MOST_TOKENS], count;
} token_list;

static int vocabulary_compare(const void *a, const void *b) {
  return strcmp(((const vocabulary_token *)a)->text, ((const vocabulary_token *)b)->text);
}

static int64_t vocabulary_find(const vocabulary *v, const char *text) {
  const vocabulary_token *found =
      bsearch(&(vocabulary_token){text, 0}, v->tokens, v->count, sizeof *found, vocabulary_compare);
  return found ? found->id : -1;
}

/* A token a line; the number of the line is what the network knows it by. False if the file cannot
 * be read or is not a vocabulary. vocabulary_release in any case. */
static bool vocabulary_load(vocabulary *v, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  const long bytes = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
  if (bytes > 0 && bytes < 1 << 24) v->text = calloc((size_t)bytes + 1, 1);
  if (v->text) v->tokens = malloc(((size_t)bytes + 1) * sizeof *v->tokens);
  rewind(file);
  const bool read = v->tokens && fread(v->text, 1, (size_t)bytes, file) == (size_t)bytes;
  fclose(file);
  if (!read) return false;
  for (char *line = v->text; *line; v->count++) {
    v->tokens[v->count] = (vocabulary_token){line, (int64_t)v->count};
    line += strcspn(line, "\n");
    if (*line) *line++ = '\0';
  }
  qsort(v->tokens, v->count, sizeof *v->tokens, vocabulary_compare);
  v->unknown = vocabulary_find(v, "[UNK]");
  v->start = vocabulary_find(v, "[CLS]");
  v->end = vocabulary_find(v, "[SEP]");
  return v->unknown >= 0 && v->start >= 0 && v->end >= 0;
}

static void vocabulary_release(vocabulary *v) {
  free(v->text);
  free(v->tokens);
}

/* The next character, simplified, in `out`; *alone: a word of its own. Returns its bytes. */
static size_t next_character(const char *at, char *out, bool *alone) {
  static const char plain[] = "aaaaaa\xa6"
                              "ceeeeiiii\xb0"
                              "nooooo\xd7\xb8"
                              "uuuuy\xbe\x9f";
  const unsigned char *u = (const unsigned char *)at;
  size_t bytes = 1;
  while ((u[bytes] & 0xc0) == 0x80 && bytes < 4) bytes++;
  memcpy(out, at, bytes), out[bytes] = '\0';
  *alone = u[0] < 0x80
               ? strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", *at) != NULL
               : bytes == 3 && ((u[0] == 0xe2 && u[1] <= 0x81) || (u[0] >= 0xe4 && u[0] <= 0xe9));
  if (*at >= 'A' && *at <= 'Z') out[0] = (char)(*at - 'A' + 'a');
  if (u[0] < ' ' || (u[0] == 0xc2 && u[1] == 0xa0)) strcpy(out, " ");
  if (u[0] == 0xc3 && bytes == 2) {
    const char c = u[1] == 0xbf ? 'y' : plain[u[1] & 0x1f];
    if (u[1] == 0xb7 || u[1] == 0x97 || u[1] == 0x9f) return bytes; /* division, times, sharp s */
    if (c >= 'a' && c <= 'z')
      strcpy(out, (char[]){c, '\0'});
    else
      out[1] = c;
  }
  return bytes;
}

/* The last place is for the end. */
static void token_add(token_list *list, int64_t id) {
  if (list->count < MOST_TOKENS - 1) list->ids[list->count++] = id;
}

/* The longest token that a word begins with, then that of the rest, which is marked with ##. */
static void token_add_word(const vocabulary *v, token_list *list, const char *word) {
  const size_t length = strlen(word);
  const int64_t before = list->count;
  for (size_t from = 0, to; from < length; from = to) {
    char piece[MOST_WORD + 16];
    int64_t id = -1;
    for (to = length; to > from && id < 0; to -= id < 0) {
      snprintf(piece, sizeof piece, "%s%.*s", from ? "##" : "", (int)(to - from), word + from);
      id = vocabulary_find(v, piece);
    }
    if (id < 0) { /* the whole word is unknown */
      list->count = before;
      token_add(list, v->unknown);
      return;
    }
    token_add(list, id);
  }
}

/* What the network reads for a sentence: start, words, end; what is too long is cut off. */
static void token_list_make(const vocabulary *v, token_list *list, const char *text) {
  char word[MOST_WORD + 8] = "", character[5] = "";
  bool alone = false;
  list->count = 0;
  token_add(list, v->start);
  for (size_t used = 0;;) {
    const size_t bytes = *text ? next_character(text, character, &alone) : 0;
    const bool ends = !bytes || alone || *character == ' ';
    if (used && (ends || used + bytes > MOST_WORD)) token_add_word(v, list, word), used = 0;
    if (!bytes) break;
    if (alone) token_add_word(v, list, character);
    if (!ends) strcpy(word + used, character), used += strlen(character);
    text += bytes;
  }
  list->ids[list->count++] = v->end;
}

#endif
