/* SPDX-License-Identifier: MIT */
/* Finding and opening peers; see peers.h.
 *
 * Each is opened with RTLD_LOCAL, so that its symbols do not clash with others, and never closed:
 * OpenMP and libtorch leave threads running, whose code must not be unmapped. */
#include "peers.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PEERS = 8 };

struct bench_peer_list {
  const bench_peer *peer[MAX_PEERS];
  size_t count;
};

/* Waiting threads spin by default for up to hundreds of milliseconds and would slow down the next
 * competitor. Sleeping at once (OMP_WAIT_POLICY=passive) would be unfair to the peers: every small
 * problem would pay for waking threads. So they spin for about 0.2 ms (GOMP counts iterations,
 * OpenBLAS takes a power of two of clock cycles), and measure.c pauses for longer. */
static bench_peer_variable variables[] = {
    {"GOMP_SPINCOUNT", "10000", false},
    {"KMP_BLOCKTIME", "0", false},
    {"OPENBLAS_THREAD_TIMEOUT", "19", false},
};

void bench_peers_prepare(void) {
  bool policy = getenv("OMP_WAIT_POLICY") != NULL;
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    bench_peer_variable *v = &variables[i];
    if (getenv(v->name) || (policy && strncmp(v->name, "OPENBLAS", 8) != 0)) continue;
    v->set_here = !setenv(v->name, v->value, 1);
  }
}

const bench_peer_variable *bench_peer_variable_at(size_t index) {
  return index < sizeof variables / sizeof *variables ? &variables[index] : NULL;
}

/* Whether a comma-separated list contains `name`. */
static bool is_wanted(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *word = list; word; word = strchr(word, ',')) {
    word += *word == ',';
    if (!strncmp(word, name, length) && (word[length] == ',' || !word[length])) return true;
  }
  return !list;
}

static void open_one(bench_session *session, bench_peer_list *list, const char *folder,
                     const char *file) {
  char path[4608];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    bench_note(session, "peer %s does not load: %s", file, dlerror());
    return;
  }
  /* The only portable way from dlsym's void pointer to a function's. */
  bench_peer_function entry = NULL;
  *(void **)&entry = dlsym(library, BENCH_PEER_ENTRY);
  const bench_peer *peer = entry ? entry() : NULL;
  if (entry && !peer)
    bench_note(session, "peer %s: the library that it calls is not installed", file);
  else if (!peer || peer->abi != BENCH_PEER_ABI)
    bench_note(session, "peer %s was built for another compute-bench", file);
  else
    list->peer[list->count++] = peer;
}

static int is_library(const struct dirent *entry) {
  size_t length = strlen(entry->d_name);
  return length > 3 && !strcmp(entry->d_name + length - 3, ".so");
}

/* Opens the peers of one folder, if there is such a folder. */
static void open_folder(bench_session *session, bench_peer_list *list, const char *folder,
                        const char *wanted) {
  struct dirent **entry;
  int count = scandir(folder, &entry, is_library, alphasort);
  for (int i = 0; i < count; i++) {
    char name[256];
    snprintf(name, sizeof name, "%s", entry[i]->d_name); /* peer-torch.so: torch */
    name[strlen(name) - 3] = '\0';
    const char *word = strncmp(name, "peer-", 5) ? name : name + 5;
    if (is_wanted(wanted, word) && list->count < MAX_PEERS)
      open_one(session, list, folder, entry[i]->d_name);
    free(entry[i]);
  }
  if (count >= 0) free(entry);
}

bench_peer_list *bench_peers_open(bench_session *session, const char *wanted) {
  bench_peer_list *list = calloc(1, sizeof *list);
  char program[4096], folder[4200];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (!list || length <= 0) return list;
  program[length] = '\0';
  *strrchr(program, '/') = '\0';
  snprintf(folder, sizeof folder, "%s/../lib/compute-peers", program);
  open_folder(session, list, folder, wanted);
  return list;
}

void bench_peers_close(bench_peer_list *list) {
  free(list);
}

const bench_peer *bench_peer_at(const bench_peer_list *list, size_t index) {
  return list && index < list->count ? list->peer[index] : NULL;
}
