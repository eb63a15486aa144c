/* SPDX-License-Identifier: MIT */
/* The machine and the software; see environment.h. */
#include "environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "programs/common/bytes.h"
#include "programs/common/describe.h"
#include "programs/common/json_text.h"
#include "output.h"
#include "peers.h"

/* Aligned with the text of the lines that environment_print writes. */
enum { INDENT = 11 };

extern char **environ;

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

void environment_cpu_model(char *text, size_t text_bytes) {
  char line[256];
  snprintf(text, text_bytes, "unknown");
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (!file) return;
  while (fgets(line, sizeof line, file)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) || !colon) continue;
    colon[strcspn(colon, "\n")] = '\0';
    snprintf(text, text_bytes, "%s", colon + 1 + strspn(colon + 1, " "));
    break;
  }
  fclose(file);
}

static void date_text(char *text, size_t text_bytes) {
  time_t now = time(NULL);
  struct tm utc;
  if (!gmtime_r(&now, &utc) || !strftime(text, text_bytes, "%Y-%m-%dT%H:%M:%SZ", &utc))
    text[0] = '\0';
}

/* Environment variables that control OpenBLAS, OpenMP or libcompute, except those set by
 * bench_peers_prepare. */
static bool is_own(const char *assignment) {
  const bench_peer_variable *v;
  for (size_t i = 0; (v = bench_peer_variable_at(i)); i++)
    if (v->set_here && !strncmp(assignment, v->name, strlen(v->name))) return true;
  return false;
}

static bool is_relevant(const char *assignment) {
  return !is_own(assignment) &&
         (describe_is_blas_variable(assignment) || !strncmp(assignment, "COMPUTE_", 8));
}

static json_t *variables(void) {
  json_t *object = json_object();
  for (char **entry = environ; *entry; entry++) {
    size_t length = strcspn(*entry, "=");
    char name[128];
    if (!is_relevant(*entry) || length >= sizeof name) continue;
    memcpy(name, *entry, length);
    name[length] = '\0';
    json_object_set_new(object, name, json_text(*entry + length + ((*entry)[length] == '=')));
  }
  return object;
}

static json_t *own_variables(void) {
  json_t *object = json_object();
  const bench_peer_variable *v;
  for (size_t i = 0; (v = bench_peer_variable_at(i)); i++)
    if (v->set_here) json_object_set_new(object, v->name, json_string(v->value));
  return object;
}

static json_t *peers(const bench_session *session) {
  json_t *object = json_object();
  const bench_peer *peer;
  for (size_t i = 0; (peer = bench_peer_at(session->peers, i)); i++)
    json_object_set_new(object, peer->name, json_text(peer->version));
  return object;
}

static json_t *limits(const bench_limits *l) {
  return json_pack("{s:i,s:s,s:o,s:o,s:o,s:o}", "threads", l->threads, "isa", l->isa,
                   "fma_f32_gflops", json_number(l->fma_f32), "fma_f64_gflops",
                   json_number(l->fma_f64), "stream_copy_gbytes_s", json_number(l->stream_copy),
                   "stream_add_gbytes_s", json_number(l->stream_add));
}

static json_t *notes(const bench_session *session) {
  json_t *list = json_array();
  for (size_t i = 0; i < session->note_count; i++)
    json_array_append_new(list, json_text(session->notes[i]));
  return list;
}

json_t *environment_json(const bench_session *session) {
  const compute_device_info *info = &session->info;
  char date[64], cpu[128], system[256];
  struct utsname name;
  date_text(date, sizeof date);
  environment_cpu_model(cpu, sizeof cpu);
  if (uname(&name)) memset(&name, 0, sizeof name);
  snprintf(system, sizeof system, "%s %s %s", name.sysname, name.release, name.machine);
  json_t *object =
      json_pack("{s:s,s:s,s:s,s:o,s:b,s:o,s:s,s:I,s:i}", "date", date, "library_version",
                compute_version_text(), "compiler", COMPILER, "git_commit",
                json_text(session->options->commit), "quick", (int)session->options->quick,
                "cpu_model", json_text(cpu), "system", system, "processors",
                (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "threads", session->threads);
  json_t *more = json_pack(
      "{s:o,s:o,s:o,s:o,s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o}", "device", json_text(info->name),
      "device_model", json_text(info->model), "driver", json_text(info->driver), "isa",
      json_text(info->isa), "memory_bytes", (json_int_t)info->memory_total, "cache_bytes",
      (json_int_t)info->cache_bytes, "device_notes", json_text(info->notes), "variables",
      variables(), "benchmark_variables", own_variables(), "peers", peers(session), "limits",
      limits(&session->limits), "notes", notes(session));
  int failed = !object || !more || json_object_update(object, more);
  json_decref(more);
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

void environment_print(const bench_session *session) {
  const compute_device_info *info = &session->info;
  const bench_limits *l = &session->limits;
  char cpu[128], bytes[32];
  environment_cpu_model(cpu, sizeof cpu);
  output_wrapped(session, INDENT, "libcompute %s on %s: %s, %s, %s", compute_version_text(),
                 info->name, info->model, info->isa, info->driver);
  output_wrapped(session, INDENT, "processor  %s, %d threads, last cache %s", cpu, session->threads,
                 bytes_text(info->cache_bytes, bytes, sizeof bytes));
  if (l->fma_f32 > 0)
    output_wrapped(
        session, INDENT,
        "limits     %.0f GFLOP/s f32, %.0f f64 (%s multiply-adds); memory %.1f GB/s copy, %.1f add",
        l->fma_f32, l->fma_f64, l->isa, l->stream_copy, l->stream_add);
  for (char **entry = environ; *entry; entry++)
    if (is_relevant(*entry)) output_wrapped(session, INDENT, "variable   %s", *entry);
  if (info->notes[0]) output_wrapped(session, INDENT, "WARNING    %s", info->notes);
}

void environment_print_peers(const bench_session *session) {
  const bench_peer *peer;
  char text[512] = "";
  size_t used = 0;
  for (size_t i = 0; (peer = bench_peer_at(session->peers, i)) && used < sizeof text; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s", i ? ", " : "", peer->name,
                             peer->version);
  puts("");
  output_wrapped(session, INDENT, "peers: %s", used ? text : "none");
}
