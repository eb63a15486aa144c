/* SPDX-License-Identifier: MIT */
#include "fit_files/sample_tiff.h"

#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

/* The growing file in memory. */
typedef struct bytes {
  unsigned char *data;
  size_t used, room;
  bool big_endian, big;
} bytes;

static void put(bytes *to, const void *data, size_t count) {
  if (to->used + count > to->room) {
    to->room = 2 * (to->used + count);
    to->data = realloc(to->data, to->room);
    assert_non_null(to->data);
  }
  if (count > 0) memcpy(to->data + to->used, data, count);
  to->used += count;
}

static void set_number(const bytes *to, unsigned char *at, uint64_t value, int size) {
  for (int i = 0; i < size; i++) {
    at[to->big_endian ? size - 1 - i : i] = (unsigned char)(value >> (8 * i));
  }
}

static void put_number(bytes *to, uint64_t value, int size) {
  unsigned char text[8];
  set_number(to, text, value, size);
  put(to, text, (size_t)size);
}

/* An offset or count: 4 bytes, or 8 in a BigTIFF. */
static void put_place(bytes *to, uint64_t value) {
  put_number(to, value, to->big ? 8 : 4);
}

enum { TYPE_TEXT = 2, TYPE_SHORT = 3, TYPE_LONG = 4, TYPE_LONG8 = 16 };

static void put_entry(bytes *to, uint16_t tag, uint16_t type, uint64_t count, uint64_t value) {
  put_number(to, tag, 2);
  put_number(to, type, 2);
  put_place(to, count);
  int room = to->big ? 8 : 4, size = type == TYPE_SHORT ? 2 : type == TYPE_LONG ? 4 : room;
  put_number(to, value, size);
  for (int i = size; i < room; i++) put(to, "", 1);
}

/* Writes the page's pixels and directory. Returns the position of the next directory's offset. */
static size_t put_page(bytes *to, const sample_page *page) {
  uint64_t pixels = to->used;
  put(to, page->pixels, page->bytes);
  uint64_t text = to->used;
  if (page->description) put(to, page->description, strlen(page->description) + 1);
  if (to->used & 1) put(to, "", 1);
  uint64_t directory = to->used;
  int entries = 9 + (page->description != NULL) + (page->format != 0);
  put_number(to, (uint64_t)entries, to->big ? 8 : 2);
  put_entry(to, 256, TYPE_LONG, 1, page->columns);
  put_entry(to, 257, TYPE_LONG, 1, page->rows);
  put_entry(to, 258, TYPE_SHORT, 1, page->bits ? page->bits : 16);
  put_entry(to, 259, TYPE_SHORT, 1, page->compression ? page->compression : 1);
  const uint16_t gray = page->white_is_0 ? 0 : 1;
  put_entry(to, 262, TYPE_SHORT, 1, page->photometric ? page->photometric : gray);
  if (page->description) {
    put_entry(to, 270, TYPE_TEXT, strlen(page->description) + 1, text);
  }
  put_entry(to, 273, to->big ? TYPE_LONG8 : TYPE_LONG, 1,
            page->claimed_offset ? page->claimed_offset : pixels);
  put_entry(to, 277, TYPE_SHORT, 1, page->samples ? page->samples : 1);
  put_entry(to, 278, TYPE_LONG, 1, page->rows);
  put_entry(to, 279, TYPE_LONG, 1, page->claimed_bytes ? page->claimed_bytes : page->bytes);
  if (page->format) put_entry(to, 339, TYPE_SHORT, 1, page->format);
  size_t next = to->used;
  put_place(to, 0);
  put_place(to, directory); /* for sample_tiff_write; no reader looks past the last directory */
  return next;
}

void sample_tiff_write(const char *path, const sample_tiff *tiff) {
  bytes to = {.big_endian = tiff->big_endian, .big = tiff->big};
  size_t place = tiff->big ? 8 : 4;
  put(&to, tiff->big_endian ? "MM" : "II", 2);
  put_number(&to, tiff->big ? 43 : 42, 2);
  if (tiff->big) put_number(&to, 8, 2);
  if (tiff->big) put_number(&to, 0, 2);
  size_t next = to.used;
  uint64_t directories[64] = {0};
  put_place(&to, 0);
  for (int i = 0; i < tiff->pages; i++) {
    size_t link = next;
    next = put_page(&to, &tiff->page[i]);
    unsigned char *directory = to.data + next + place;
    for (size_t j = 0; j < place; j++) {
      size_t shift = 8 * (tiff->big_endian ? place - 1 - j : j);
      directories[i] |= (uint64_t)directory[j] << shift;
    }
    set_number(&to, to.data + link, directories[i], (int)place);
  }
  if (tiff->next_of_last >= 0) {
    set_number(&to, to.data + next, directories[tiff->next_of_last], (int)place);
  }
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(to.data, 1, to.used, file), to.used);
  assert_int_equal(fclose(file), 0);
  free(to.data);
}
