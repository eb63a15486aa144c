/* SPDX-License-Identifier: MIT */
/* Variables of the environment in UTF-8. A text that getenv returned stays valid: each value of each
 * variable is kept once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"

typedef struct kept_value {
  struct kept_value *next;
  char *name, *value;
} kept_value;

static SRWLOCK lock = SRWLOCK_INIT;
static kept_value *kept;

static char *keep(const char *name, char *value) {
  AcquireSRWLockExclusive(&lock);
  kept_value *entry = kept;
  while (entry && (strcmp(entry->name, name) || strcmp(entry->value, value))) entry = entry->next;
  if (entry) {
    free(value);
  } else if ((entry = calloc(1, sizeof *entry)) != NULL) {
    entry->name = _strdup(name);
    entry->value = value;
    entry->next = kept;
    if (entry->name) kept = entry;
  }
  ReleaseSRWLockExclusive(&lock);
  return entry ? entry->value : NULL;
}

char *getenv(const char *name) {
  wchar_t *wide = native_wide(name), text[512], *longer = NULL;
  if (!wide) return NULL;
  SetLastError(ERROR_SUCCESS);
  DWORD count = GetEnvironmentVariableW(wide, text, 512);
  const bool exists = count > 0 || GetLastError() == ERROR_SUCCESS;
  if (count >= 512) {
    longer = calloc(count, sizeof *longer);
    if (longer) count = GetEnvironmentVariableW(wide, longer, count);
  }
  char *value = exists ? native_narrow_new(count == 0 ? L"" : longer ? longer : text) : NULL;
  free(longer);
  free(wide);
  return value ? keep(name, value) : NULL;
}

int setenv(const char *name, const char *value, int replace) {
  if (!replace && getenv(name)) return 0;
  wchar_t *wide = native_wide(name), *text = native_wide(value);
  int result = -1;
  if (wide && text) {
    _wputenv_s(wide, text); /* other code of the process may read the C library's copy */
    result = SetEnvironmentVariableW(wide, text) ? 0 : native_failed();
  }
  free(wide);
  free(text);
  return result;
}

int unsetenv(const char *name) {
  wchar_t *wide = native_wide(name);
  if (!wide) return -1;
  _wputenv_s(wide, L"");
  SetEnvironmentVariableW(wide, NULL);
  free(wide);
  return 0;
}
