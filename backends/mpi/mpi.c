/* SPDX-License-Identifier: MIT */
/* The transport over MPI. It is compiled once for each MPI of the machine, because their ABIs
 * differ.
 *
 * MPI can be initialised only once in a process, so it stays initialised until the process ends.
 * Each group has a separate communicator. MPI_Finalize waits for all ranks: after a failure it is
 * skipped, and the launcher detects that and ends the other processes. */
#include <mpi.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compute/backend/transport.h"

/* Our error codes; MPI's are positive. */
enum { NO_THREADS = -1, NO_MEMORY = -2, ENDED = -3, FAILED = -4, FORKED = -5, UNKNOWN = -6 };

enum { WORD = 1 }; /* the tag of progress messages; tensor messages have 0 */

/* A progress message: ranks exchange it when one of them has waited too long. */
typedef struct mpi_word {
  int64_t begun; /* number of collective operations begun */
  int64_t asks;  /* 1: the sender wants an answer; otherwise 0 */
} mpi_word;

typedef struct mpi_peer {
  int64_t begun; /* from its progress messages */
  mpi_word word; /* send buffer, in use until `said` completes */
  MPI_Request said;
} mpi_peer;

typedef struct mpi_group {
  MPI_Comm communicator; /* contains all ranks, once `joined` */
  MPI_Request request;
  int joined, rank, size;
  /* Counts and offsets of an exchange, for each rank. */
  int *send_bytes, *send_at, *receive_bytes, *receive_at;
  /* Progress messages. */
  int64_t begun;   /* collective operations begun by this rank */
  mpi_peer *peers; /* one for each rank */
  int asked;       /* the peers were asked for their progress */
  unsigned tests;
} mpi_group;

static struct {
  pid_t number; /* the process that uses MPI, or 0; a forked child inherits the memory, not MPI */
  int open;     /* a group is open */
  int failed;   /* a group was not closed properly */
} process;

/* ---- The process ----------------------------------------------------------------------------- */

/* Runs at the end of the process. Another rank may have died since the last group was closed, so
 * the wait for the others is limited to this time. */
static void finalize(void) {
  const int seconds = 10;
  MPI_Request request;
  int done = 0;
  if (process.failed || process.open || process.number != getpid()) return;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return;
  const time_t limit = time(NULL) + seconds;
  while (!done && time(NULL) <= limit) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
    if (!done) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  if (done) MPI_Finalize();
}

static int initialise(void) {
  int is = 0, ended = 0, level = MPI_THREAD_SINGLE;
  int code = MPI_Finalized(&ended);
  if (code == MPI_SUCCESS && ended) return ENDED;
  if (code == MPI_SUCCESS) code = MPI_Initialized(&is);
  if (code != MPI_SUCCESS) return code;
  if (is) {
    code = MPI_Query_thread(&level);
  } else {
    code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (code != MPI_SUCCESS) return code;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (atexit(finalize) != 0) return NO_MEMORY;
  }
  if (code != MPI_SUCCESS) return code;
  return level < MPI_THREAD_SERIALIZED ? NO_THREADS : 0;
}

/* MPI must be finalized on the thread that initialised it: usually the main thread, which opens the
 * group and ends the process. */
static int mpi_prepare(void) {
  if (process.number == 0) process.number = getpid();
  if (process.number != getpid()) return FORKED;
  if (process.failed) return FAILED;
  return initialise();
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void release(mpi_group *group) {
  free(group->send_bytes);
  free(group->peers);
  free(group);
}

static int create(mpi_group **made) {
  mpi_group *group = calloc(1, sizeof *group);
  *made = group;
  if (!group) return NO_MEMORY;
  int code = MPI_Comm_rank(MPI_COMM_WORLD, &group->rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(MPI_COMM_WORLD, &group->size);
  if (code != MPI_SUCCESS) return code;
  int *lists = calloc(4 * (size_t)group->size, sizeof *lists);
  if (!lists) return NO_MEMORY;
  group->peers = calloc((size_t)group->size, sizeof *group->peers);
  group->send_bytes = lists;
  group->send_at = lists + group->size;
  group->receive_bytes = lists + 2 * group->size;
  group->receive_at = lists + 3 * group->size;
  if (!group->peers) return NO_MEMORY;
  for (int r = 0; r < group->size; r++) group->peers[r].said = MPI_REQUEST_NULL;
  return MPI_Comm_idup(MPI_COMM_WORLD, &group->communicator, &group->request);
}

static int mpi_open(void *argument, void **instance, int32_t *rank, int32_t *size, char *about,
                    size_t about_bytes) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  mpi_group *group = NULL;
  (void)argument;
  const int code = create(&group);
  if (code != 0) {
    process.failed = 1;
    if (group) release(group);
    return code;
  }
  process.open = 1;
  *instance = group;
  *rank = group->rank;
  *size = group->size;
  if (MPI_Get_library_version(version, &length) != MPI_SUCCESS) version[0] = '\0';
  for (char *c = version; *c; c++)
    if (*c == '\t') *c = ' ';
  snprintf(about, about_bytes, "%s: %.*s", TRANSPORT_NAME, (int)strcspn(version, ",\n"), version);
  return 0;
}

/* `true` if the last progress message to a rank has left its buffer. */
static int may_say(mpi_peer *peer) {
  int ended = 0;
  return MPI_Test(&peer->said, &ended, MPI_STATUS_IGNORE) == MPI_SUCCESS && ended;
}

static void mpi_close(void *instance, int orderly) {
  mpi_group *group = instance;
  process.open = 0;
  if (!orderly) {
    process.failed = 1; /* a running operation may still use the lists */
    return;
  }
  MPI_Comm_free(&group->communicator);
  int left = 0;
  for (int r = 0; r < group->size; r++) left |= !may_say(&group->peers[r]);
  if (!left) release(group);
}

static void mpi_error_text(void *instance, int code, char *text, size_t text_bytes) {
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  (void)instance;
  switch (code) {
  case NO_THREADS:
    snprintf(text, text_bytes,
             "MPI must be initialised with MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE");
    return;
  case NO_MEMORY:
    snprintf(text, text_bytes, "not enough memory: %zu bytes for each rank",
             4 * sizeof(int) + sizeof(mpi_peer));
    return;
  case FAILED:
    snprintf(text, text_bytes, "an earlier group of this process has failed, which ends MPI's use");
    return;
  case FORKED: snprintf(text, text_bytes, "this process was forked by one that uses MPI"); return;
  case UNKNOWN: snprintf(text, text_bytes, "the ranks are not connected yet"); return;
  case ENDED: snprintf(text, text_bytes, "the program has finalized MPI"); return;
  default: break;
  }
  if (MPI_Error_string(code, words, &length) != MPI_SUCCESS) words[0] = '\0';
  snprintf(text, text_bytes, "%s", words);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static void set_places(int size, const int *bytes, int *at) {
  for (int r = 0, sum = 0; r < size; sum += bytes[r++]) at[r] = sum;
}

static int mpi_exchange(void *instance, const void *send, const int32_t *bytes, void *receive,
                        int32_t own_bytes) {
  mpi_group *g = instance;
  for (int r = 0; r < g->size; r++) {
    g->send_bytes[r] = bytes[r];
    g->receive_bytes[r] = own_bytes;
  }
  g->begun++;
  set_places(g->size, g->send_bytes, g->send_at);
  set_places(g->size, g->receive_bytes, g->receive_at);
  return MPI_Ialltoallv(send, g->send_bytes, g->send_at, MPI_BYTE, receive, g->receive_bytes,
                        g->receive_at, MPI_BYTE, g->communicator, &g->request);
}

static int mpi_gather(void *instance, const void *send, void *receive, const int32_t *bytes) {
  mpi_group *g = instance;
  for (int r = 0; r < g->size; r++) g->receive_bytes[r] = bytes[r];
  g->begun++;
  set_places(g->size, g->receive_bytes, g->receive_at);
  return MPI_Iallgatherv(send, bytes[g->rank], MPI_BYTE, receive, g->receive_bytes, g->receive_at,
                         MPI_BYTE, g->communicator, &g->request);
}

static int mpi_broadcast(void *instance, void *data, int32_t bytes, int32_t root) {
  mpi_group *g = instance;
  g->begun++;
  return MPI_Ibcast(data, bytes, MPI_BYTE, root, g->communicator, &g->request);
}

static int mpi_send(void *instance, const void *data, int32_t bytes, int32_t to) {
  mpi_group *g = instance;
  return MPI_Isend(data, bytes, MPI_BYTE, to, 0, g->communicator, &g->request);
}

static int mpi_receive(void *instance, void *data, int32_t bytes, int32_t from) {
  mpi_group *g = instance;
  return MPI_Irecv(data, bytes, MPI_BYTE, from, 0, g->communicator, &g->request);
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* Failures are not reported here: this rank's wait, or another rank's, has failed already. */
static void say(mpi_group *g, int to, int asks) {
  mpi_peer *peer = &g->peers[to];
  if (to == g->rank || !may_say(peer)) return;
  peer->word = (mpi_word){g->begun, asks};
  if (MPI_Isend(&peer->word, (int)sizeof peer->word, MPI_BYTE, to, WORD, g->communicator,
                &peer->said) != MPI_SUCCESS)
    peer->said = MPI_REQUEST_NULL;
}

static void hear(mpi_group *g) {
  MPI_Status status;
  for (int there = 0;;) {
    mpi_word word;
    if (MPI_Iprobe(MPI_ANY_SOURCE, WORD, g->communicator, &there, &status) != MPI_SUCCESS || !there)
      return;
    const int from = status.MPI_SOURCE;
    if (MPI_Recv(&word, (int)sizeof word, MPI_BYTE, from, WORD, g->communicator,
                 MPI_STATUS_IGNORE) != MPI_SUCCESS)
      return;
    g->peers[from].begun = word.begun;
    if (word.asks) say(g, from, 0);
  }
}

static int mpi_missing(void *instance, uint8_t *missing) {
  mpi_group *g = instance;
  if (!g->joined) return UNKNOWN;
  for (int r = 0; !g->asked && r < g->size; r++) say(g, r, 1);
  g->asked = 1;
  hear(g);
  for (int r = 0; r < g->size; r++) missing[r] = r != g->rank && g->peers[r].begun < g->begun;
  return 0;
}

/* The first operation belongs to `create`. A poll now and then also answers peers that have waited
 * too long; it is rare enough to cost nothing. */
static int mpi_test(void *instance, int *done) {
  const unsigned seldom = 64;
  mpi_group *g = instance;
  const int code = MPI_Test(&g->request, done, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS && !*done && g->joined && ++g->tests % seldom == 0) hear(g);
  if (code != MPI_SUCCESS || !*done || g->joined) return code;
  g->joined = 1;
  return MPI_Comm_set_errhandler(g->communicator, MPI_ERRORS_RETURN);
}

/* Asks the MPI library at run time, if it has the query function: it may be a different build of
 * this MPI than the one used at compile time. */
static int mpi_reaches(void *instance, int32_t device_type) {
  enum { CUDA = 2 };
  int (*ask)(void) = NULL;
  void *address = device_type == CUDA ? dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support") : NULL;
  (void)instance;
  memcpy(&ask, &address, sizeof address); /* ISO C has no cast between these types */
  return ask && ask() == 1;
}

static const compute_transport transport = {.struct_size = sizeof transport,
                                            .abi_major = COMPUTE_TRANSPORT_ABI_MAJOR,
                                            .abi_minor = COMPUTE_TRANSPORT_ABI_MINOR,
                                            .name = TRANSPORT_NAME,
                                            .prepare = mpi_prepare,
                                            .open = mpi_open,
                                            .close = mpi_close,
                                            .error_text = mpi_error_text,
                                            .exchange = mpi_exchange,
                                            .gather = mpi_gather,
                                            .broadcast = mpi_broadcast,
                                            .send = mpi_send,
                                            .receive = mpi_receive,
                                            .test = mpi_test,
                                            .reaches = mpi_reaches,
                                            .missing = mpi_missing};

const compute_transport *compute_transport_entry(void) {
  return &transport;
}
