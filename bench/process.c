/* SPDX-License-Identifier: MIT */
/* See process.h. */
#include "process.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

bool process_folder_make(process_folder *folder) {
  *folder = (process_folder){"/tmp/compute-bench-XXXXXX"};
  if (mkdtemp(folder->path)) return true;
  folder->path[0] = '\0';
  return false;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
  (void)status;
  (void)kind;
  (void)walk;
  return remove(path);
}

void process_folder_remove(const process_folder *folder) {
  if (folder->path[0]) nftw(folder->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

bool process_find(const char *name, char *path, size_t bytes) {
  const ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
  if (length <= 0) return false;
  path[length] = 0;
  char *slash = strrchr(path, '/');
  if (!name || !slash) return slash != NULL;
  const size_t room = bytes - (size_t)(slash + 1 - path);
  return snprintf(slash + 1, room, "%s", name) < (int)room && access(path, X_OK) == 0;
}

static void file_in(const process_folder *folder, const char *name, char *path, size_t bytes) {
  snprintf(path, bytes, "%s/%s", folder->path, name);
}

/* The last line that is not empty. Repeats the whole on stderr. */
static bool last_line(const process_folder *folder, char *text, size_t bytes) {
  char path[64], line[1024];
  file_in(folder, "errors", path, sizeof path);
  FILE *file = fopen(path, "r");
  text[0] = '\0';
  while (file && fgets(line, sizeof line, file)) {
    fputs(line, stderr);
    line[strcspn(line, "\n")] = '\0';
    if (line[strspn(line, " \t\r")]) snprintf(text, bytes, "%.*s", (int)bytes - 1, line);
  }
  if (file) fclose(file);
  return text[0] != '\0';
}

static void say_why(process_call *call, int status) {
  char words[sizeof call->said];
  if (WIFSIGNALED(status))
    snprintf(call->said, sizeof call->said, "signal %d (%s)", WTERMSIG(status),
             strsignal(WTERMSIG(status)));
  else
    snprintf(call->said, sizeof call->said, "exit status %d", WEXITSTATUS(status));
  if (last_line(call->folder, words, sizeof words))
    snprintf(call->said, sizeof call->said, "%s", words);
}

static void start_child(const process_call *call) {
  char output[64], errors[64];
  file_in(call->folder, "output", output, sizeof output);
  file_in(call->folder, "errors", errors, sizeof errors);
  for (size_t i = 0; i < sizeof call->variables / sizeof *call->variables; i++)
    if (call->variables[i]) putenv(call->variables[i]);
  if (freopen(output, "w", stdout) && freopen(errors, "w", stderr)) {
    execv(call->words[0], call->words);
    fprintf(stderr, "%s cannot be started: %s\n", call->words[0], strerror(errno));
    fflush(stderr);
  }
  _exit(127);
}

bool process_run(process_call *call) {
  int status = 0;
  fflush(NULL);
  const pid_t process = fork();
  if (process == 0) start_child(call);
  if (process < 0 || wait4(process, &status, 0, &call->usage) != process) {
    snprintf(call->said, sizeof call->said, "no process: %s", strerror(errno));
    return false;
  }
  if (status) say_why(call, status);
  return status == 0;
}

bool process_numbers(const process_folder *folder, double *value, int count) {
  char path[64];
  file_in(folder, "output", path, sizeof path);
  FILE *file = fopen(path, "r");
  bool good = file != NULL;
  for (int i = 0; i < count && good; i++) good = fscanf(file, "%lf", &value[i]) == 1;
  if (file) fclose(file);
  return good;
}
