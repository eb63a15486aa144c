/* SPDX-License-Identifier: MIT */
int sibling(void);

int sibling(void) {
  return 1;
}
