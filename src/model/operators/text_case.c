/* SPDX-License-Identifier: MIT */
#include "model/operators/text_case.h"

#include <stddef.h>

/* Capital letters and the distance to their small letters. Distance 0: capital and small letters
 * alternate, and `first` is a capital one. */
static const struct {
  uint32_t first, last, distance;
} rows[] = {
    {0x41, 0x5a, 32},   {0xc0, 0xd6, 32},   {0xd8, 0xde, 32},    {0x100, 0x12f, 0},
    {0x132, 0x137, 0},  {0x139, 0x148, 0},  {0x14a, 0x177, 0},   {0x178, 0x178, 0xffffff87U},
    {0x179, 0x17e, 0},  {0x386, 0x386, 38}, {0x388, 0x38a, 37},  {0x38c, 0x38c, 64},
    {0x38e, 0x38f, 63}, {0x391, 0x3a1, 32}, {0x3a3, 0x3ab, 32},  {0x400, 0x40f, 80},
    {0x410, 0x42f, 32}, {0x460, 0x481, 0},  {0x48a, 0x4bf, 0},   {0x4c1, 0x4ce, 0},
    {0x4d0, 0x52f, 0},  {0x531, 0x556, 48}, {0x1e00, 0x1e95, 0}, {0x1ea0, 0x1eff, 0},
};

uint32_t text_case(uint32_t character, bool upper) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const uint32_t first = rows[i].first, last = rows[i].last, distance = rows[i].distance;
    if (distance == 0) {
      if (character < first || character > last) continue;
      const bool small = (character - first) % 2 != 0;
      return small == upper ? (small ? character - 1 : character + 1) : character;
    }
    if (!upper && character >= first && character <= last) return character + distance;
    if (upper && character - distance >= first && character - distance <= last)
      return character - distance;
  }
  return character;
}
