/* SPDX-License-Identifier: MIT */
/* Texts of a model and of its runs. Graphs have no texts: a value of texts is an i64 tensor of the
 * type ONNX_STRING, with numbers of texts in a list. Operators that move elements work on it as on
 * other tensors; functions of the host read and add texts.
 *
 * The model's list has the constants of the file. Each run has another list, whose numbers
 * start at TEXT_FIRST_OF_RUN. Number 0 is the empty text in both. A number outside is the empty
 * text as well, so a wrong number never reads outside the lists. */
#ifndef MODEL_TEXT_H
#define MODEL_TEXT_H

#include <pthread.h>

#include "compute/model.h"
#include "model/file/arena.h"

#define TEXT_FIRST_OF_RUN (INT64_C(1) << 40)

/* Limit on the bytes of a run's texts. */
#define TEXT_MOST_BYTES (UINT64_C(1) << 31)

/* A growing list of texts. Not thread-safe. */
typedef struct text_list {
  const char **items;
  size_t count, capacity;
  uint64_t bytes;
  model_arena arena; /* of texts that the list owns */
} text_list;

/* The numbers of a list in the file. */
typedef struct text_constants {
  const char *const *texts; /* its address in the file is the key; NULL: free */
  const int64_t *numbers;
} text_constants;

/* The texts of the file that recordings have met. */
typedef struct model_texts {
  pthread_mutex_t lock;
  text_list list;
  text_constants *table; /* hash table keyed by address */
  size_t used, capacity;
} model_texts;

void texts_open(model_texts *texts);
void texts_close(model_texts *texts);

/* The numbers of `count` texts at an address in the file. They live as long as the model. NULL if
 * out of memory. */
const int64_t *texts_of_file(compute_model *model, const char *const *texts, size_t count);

/* The text with this number, of the model or of the run. `run` may be NULL. */
const char *texts_find(compute_model *model, const text_list *run, int64_t number);

/* Copies a text into a run's list. *number is its number. */
compute_status texts_add(text_list *run, const char *text, size_t length, int64_t *number);

void texts_release(text_list *run);

#endif
