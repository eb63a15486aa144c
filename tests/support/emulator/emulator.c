/* SPDX-License-Identifier: MIT */
/* Runs a compiled program: groups, items as coroutines, buffers with guards. */
#include "support/emulator/emulator_program.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum {
  STACK_BYTES = 128 << 10,
  SIGNAL_STACK_BYTES = 64 << 10,
  FRONT_BYTES = 4096, /* least length of the pattern before a buffer */
  POINTER_ALIGNMENT = 64,
  MOST_BUFFERS = 2 * COMPUTE_MAX_OPERANDS,
  LOCAL_PATTERN = 0xff /* a NaN, and an index far out of range */
};

bool emulator_explain(char *problem, size_t bytes, const char *format, ...) {
  va_list list;
  va_start(list, format);
  if (bytes > 0) vsnprintf(problem, bytes, format, list);
  va_end(list);
  return false;
}

/* ---- Buffers ------------------------------------------------------------------------------- */

static unsigned char pattern(size_t i) {
  return (unsigned char)(0xa5 + 7 * i);
}

bool emulator_buffer_create(size_t bytes, emulator_buffer *buffer) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t inner = (bytes + FRONT_BYTES + page - 1) / page * page;
  *buffer = (emulator_buffer){.bytes = bytes, .page_bytes = inner + 2 * page};
  void *pages =
      mmap(NULL, buffer->page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return false;
  buffer->pages = pages;
  if (mprotect(buffer->pages + page, inner, PROT_READ | PROT_WRITE)) {
    emulator_buffer_release(buffer);
    return false;
  }
  buffer->data = buffer->pages + page + inner - bytes;
  for (unsigned char *p = buffer->pages + page; p < buffer->pages + page + inner; p++)
    *p = pattern((size_t)(p - buffer->pages));
  return true;
}

void emulator_buffer_release(emulator_buffer *buffer) {
  if (buffer->pages) munmap(buffer->pages, buffer->page_bytes);
  *buffer = (emulator_buffer){0};
}

bool emulator_buffer_intact(const emulator_buffer *buffer) {
  const unsigned char *first = buffer->pages + sysconf(_SC_PAGESIZE);
  for (const unsigned char *p = first; p < buffer->data; p++)
    if (*p != pattern((size_t)(p - buffer->pages))) return false;
  return true;
}

/* ---- Coroutines ---------------------------------------------------------------------------- */

/* Most of the time of a kernel with barriers is spent switching. swapcontext saves the signal mask
 * with a system call each time; the compiler's own jumps do not. Sanitizers can follow only
 * swapcontext, and Clang has no such jumps for RISC-V. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define FOLLOWED 1
#elif defined __clang__ && defined __riscv
#define FOLLOWED 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FOLLOWED 1
#endif
#endif

#ifdef FOLLOWED
typedef struct place {
  ucontext_t context;
} place;

static ucontext_t *beginning_of(place *at) {
  return &at->context;
}

static void switch_to(place *from, place *to) {
  swapcontext(&from->context, &to->context);
}

static void begin_at(place *from, place *to) {
  swapcontext(&from->context, &to->context);
}
#else
typedef struct place {
  void *words[5];
} place;

static ucontext_t beginning; /* needed only once, and large */

static ucontext_t *beginning_of(place *at) {
  (void)at;
  return &beginning;
}

static __attribute__((noinline, noreturn)) void jump(place *to) {
  __builtin_longjmp(to->words, 1);
}

static void jump_from(place *from, place *to) {
  if (!__builtin_setjmp(from->words)) jump(to);
}

static void begin_from(place *from, place *to) {
  (void)to;
  if (!__builtin_setjmp(from->words)) setcontext(&beginning);
}

/* Called through volatile pointers, so that the compiler assumes that a call changes every register
 * and any memory. */
static void (*volatile switch_to)(place *, place *) = jump_from;
static void (*volatile begin_at)(place *, place *) = begin_from;
#endif

/* ---- Items --------------------------------------------------------------------------------- */

typedef enum item_state { ITEM_FRESH, ITEM_RUNNING, ITEM_WAITING, ITEM_ENDED } item_state;

typedef struct item {
  place place;
  bool begun; /* its coroutine waits, or is at the end of carry_items' loop */
  item_state state;
  int line;        /* of the barrier where it waits */
  uint32_t id[3];  /* in the group */
  uint32_t follow; /* indexed by turn, not by item: the item that runs in this turn */
} item;

enum { LOCAL_ARRAYS = 32 };

/* The launch in progress; coroutines read it. */
static struct {
  const uint32_t *group, *groups;
  void (*call)(void **arguments);
  void **arguments;
  emulator_order order;
  uint32_t item_step, group_step; /* of the mixed order */
  dialect_item machine;           /* seen by the current item */
  struct {
    unsigned char *memory;
    uint64_t bytes;
  } local[LOCAL_ARRAYS]; /* local arrays that already hold the pattern in this group */
  uint32_t local_count;
  place scheduler;
  item *items;
  uint32_t item_count, fresh; /* the items before `fresh`, in order of turns, have begun */
  uint32_t current;
  bool suspended; /* the running coroutine has waited in this group */
  char *problem;
  size_t problem_bytes;
  sigjmp_buf escape;
} run;

/* Returns a number coprime to the count, so that i -> i·step mod count visits every item. */
static uint32_t mixing_step(uint64_t whole) {
  const uint32_t count = (uint32_t)whole;
  uint32_t step = count / 2 + count / 8 + 1;
  for (;; step++) {
    uint32_t a = step, b = count;
    while (b) {
      const uint32_t rest = a % b;
      a = b;
      b = rest;
    }
    if (a == 1) return step;
  }
}

static uint64_t in_order(uint64_t turn, uint64_t count, uint32_t step) {
  if (run.order == EMULATOR_DESCENDING) return count - 1 - turn;
  if (run.order == EMULATOR_MIXED) return turn * step % count;
  return turn;
}

static uint32_t item_of_turn(uint32_t turn) {
  return run.items[turn].follow;
}

static void set_current(uint32_t index) {
  run.current = index;
  memcpy(run.machine.local_id, run.items[index].id, sizeof run.machine.local_id);
}

/* Computes the order and the ids once per launch: each switch needs both. */
static void number_items(void) {
  const uint32_t *size = run.group;
  for (uint32_t i = 0; i < run.item_count; i++) {
    item *numbered = &run.items[i];
    numbered->follow = (uint32_t)in_order(i, run.item_count, run.item_step);
    numbered->id[0] = i % size[0];
    numbered->id[1] = i / size[0] % size[1];
    numbered->id[2] = i / size[0] / size[1];
  }
}

/* Stacks and coroutines outlive a launch, because making them costs more than most kernels. */
static struct {
  item *items;
  unsigned char *stacks;
  uint32_t capacity;
} kept;

/* A coroutine's body. Items that never wait share one coroutine: the next begins after the last has
 * ended. Afterwards the coroutine stays for the next group or launch. */
static void carry_items(void) {
  for (place *self = &run.items[run.current].place;; switch_to(self, &run.scheduler)) {
    for (;;) {
      run.items[run.current].state = ITEM_RUNNING;
      run.call(run.arguments);
      run.items[run.current].state = ITEM_ENDED;
      if (run.suspended || run.fresh == run.item_count) break;
      set_current(item_of_turn(run.fresh++));
    }
  }
}

static void wait_at_barrier(dialect_item *machine) {
  item *self = &run.items[run.current];
  self->state = ITEM_WAITING;
  self->line = machine->line;
  run.suspended = true;
  switch_to(&self->place, &run.scheduler);
}

/* The first item of a group that reaches a local array fills it, before any item uses it. */
static void fill_local(dialect_item *machine, void *memory, uint64_t bytes) {
  (void)machine;
  for (uint32_t i = 0; i < run.local_count; i++)
    if (run.local[i].memory == memory) return;
  if (run.local_count == LOCAL_ARRAYS) return;
  run.local[run.local_count].memory = memory;
  run.local[run.local_count++].bytes = bytes;
  memset(memory, LOCAL_PATTERN, bytes);
}

/* Returns true if no item of the group has written past the end of a local array. A real device
 * would fault or change another array. */
static bool check_fences(void) {
  for (uint32_t i = 0; i < run.local_count; i++) {
    const unsigned char *fence = run.local[i].memory + run.local[i].bytes - DIALECT_FENCE;
    for (uint32_t k = 0; k < DIALECT_FENCE; k++)
      if (fence[k] != LOCAL_PATTERN)
        return emulator_explain(run.problem, run.problem_bytes,
                                "a group writes past the end of a local array of %llu bytes",
                                (unsigned long long)(run.local[i].bytes - DIALECT_FENCE));
  }
  return true;
}

static void start_item(uint32_t index) {
  item *started = &run.items[index];
  set_current(index);
  run.suspended = false;
  if (started->begun) {
    switch_to(&run.scheduler, &started->place);
    return;
  }
  ucontext_t *context = beginning_of(&started->place);
  getcontext(context);
  /* Stacks end at different offsets within a page; otherwise they would evict each other from the
   * cache. */
  context->uc_stack.ss_sp = kept.stacks + (size_t)index * STACK_BYTES;
  context->uc_stack.ss_size = STACK_BYTES - index % 64 * 192;
  context->uc_link = NULL;
  makecontext(context, carry_items, 0);
  started->begun = true;
  begin_at(&run.scheduler, &started->place);
}

static void continue_item(uint32_t index) {
  set_current(index);
  run.items[index].state = ITEM_RUNNING;
  run.suspended = true;
  switch_to(&run.scheduler, &run.items[index].place);
}

/* Returns true if all items wait at one barrier or all have ended. */
static bool check_phase(bool *ended) {
  const item *first = &run.items[0];
  for (uint32_t i = 1; i < run.item_count; i++) {
    const item *other = &run.items[i];
    if (other->state == first->state && (first->state == ITEM_ENDED || other->line == first->line))
      continue;
    const item *waiting = first->state == ITEM_WAITING ? first : other;
    if (other->state != first->state)
      return emulator_explain(run.problem, run.problem_bytes,
                              "an item of the group ended while others wait at the barrier in line "
                              "%d (items 0 and %u)",
                              waiting->line, i);
    return emulator_explain(run.problem, run.problem_bytes,
                            "items 0 and %u wait at different barriers, in lines %d and %d", i,
                            first->line, other->line);
  }
  *ended = first->state == ITEM_ENDED;
  return true;
}

static bool run_group(void) {
  bool ended = false;
  run.local_count = 0;
  for (uint32_t i = 0; i < run.item_count; i++) run.items[i].state = ITEM_FRESH;
  run.fresh = 0;
  while (run.fresh < run.item_count) start_item(item_of_turn(run.fresh++));
  while (check_phase(&ended)) {
    if (ended) return check_fences();
    for (uint32_t turn = 0; turn < run.item_count; turn++) continue_item(item_of_turn(turn));
  }
  return false;
}

static bool run_groups(void) {
  dialect_item *machine = &run.machine;
  const uint32_t *groups = run.groups;
  const uint64_t count = (uint64_t)groups[0] * groups[1] * groups[2];
  for (uint64_t turn = 0; turn < count; turn++) {
    const uint64_t group = in_order(turn, count, run.group_step);
    machine->group_id[0] = (uint32_t)(group % groups[0]);
    machine->group_id[1] = (uint32_t)(group / groups[0] % groups[1]);
    machine->group_id[2] = (uint32_t)(group / groups[0] / groups[1]);
    if (!run_group()) return false;
  }
  return true;
}

/* ---- Signals ------------------------------------------------------------------------------- */

static const int caught[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
enum { CAUGHT = sizeof caught / sizeof *caught };

static void on_signal(int number, siginfo_t *info, void *context) {
  const dialect_item *machine = &run.machine;
  (void)context;
  emulator_explain(run.problem, run.problem_bytes,
                   "%s at address %p in item %u %u %u of group %u %u %u",
                   number == SIGILL ? "undefined behaviour" : strsignal(number), info->si_addr,
                   machine->local_id[0], machine->local_id[1], machine->local_id[2],
                   machine->group_id[0], machine->group_id[1], machine->group_id[2]);
  siglongjmp(run.escape, 1);
}

static bool run_caught(void) {
  static unsigned char signal_stack[SIGNAL_STACK_BYTES];
  const stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
  stack_t stack_before;
  struct sigaction action, before[CAUGHT];
  volatile bool good = false;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaltstack(&stack, &stack_before);
  for (int i = 0; i < CAUGHT; i++) sigaction(caught[i], &action, &before[i]);
  if (!sigsetjmp(run.escape, 1)) good = run_groups();
  for (int i = 0; i < CAUGHT; i++) sigaction(caught[i], &before[i], NULL);
  sigaltstack(&stack_before, NULL);
  return good;
}

/* ---- Launches ------------------------------------------------------------------------------ */

/* Fills in the shape's offsets. Pointers are rounded down to the alignment of a device's memory, so
 * that the offsets matter. */
static bool bind(const compute_generated_launch *launch, void *const *buffers, void **pointers,
                 unsigned char *shape) {
  memcpy(shape, launch->shape, launch->shape_bytes);
  for (uint32_t i = 0; i < launch->buffer_count; i++) {
    const uintptr_t address = (uintptr_t)buffers[i];
    const uint32_t bytes = launch->buffers[i].element_bytes;
    const int64_t rest = (int64_t)(address % POINTER_ALIGNMENT);
    if (bytes == 0 || rest % bytes)
      return emulator_explain(run.problem, run.problem_bytes,
                              "buffer %u has elements of %u bytes, which its address is no "
                              "multiple of",
                              i, bytes);
    const int64_t offset = rest / bytes;
    pointers[i] = (unsigned char *)buffers[i] - rest;
    memcpy(shape + i * sizeof offset, &offset, sizeof offset);
  }
  return true;
}

static bool check_launch(const emulator_program *program, const compute_generated_launch *launch,
                         uint32_t *entry) {
  for (*entry = 0; *entry < program->entry_count; ++*entry)
    if (!strcmp(program->entries[*entry].name, launch->entry)) break;
  if (*entry == program->entry_count)
    return emulator_explain(run.problem, run.problem_bytes, "no entry point %s", launch->entry);
  if (launch->buffer_count > MOST_BUFFERS || launch->shape_bytes > 3072 ||
      launch->shape_bytes % 8 || launch->shape_bytes < 8 * launch->buffer_count ||
      launch->shape_bytes != program->entries[*entry].shape_bytes)
    return emulator_explain(run.problem, run.problem_bytes,
                            "%u buffers and a shape of %u bytes, which the source takes to have "
                            "%llu",
                            launch->buffer_count, launch->shape_bytes,
                            (unsigned long long)program->entries[*entry].shape_bytes);
  for (int d = 0; d < 3; d++)
    if (launch->group[d] == 0 || launch->groups[d] == 0 || (d > 0 && launch->groups[d] > 65535))
      return emulator_explain(run.problem, run.problem_bytes, "%u groups of %u items",
                              launch->groups[d], launch->group[d]);
  return true;
}

static bool keep_items(uint32_t count) {
  if (count <= kept.capacity) return true;
  if (kept.stacks) munmap(kept.stacks, (size_t)kept.capacity * STACK_BYTES);
  free(kept.items);
  kept.capacity = 0;
  kept.items = calloc(count, sizeof *kept.items);
  void *stacks = mmap(NULL, (size_t)count * STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  kept.stacks = stacks != MAP_FAILED ? stacks : NULL;
  if (!kept.items || !kept.stacks) return false;
  kept.capacity = count;
  return true;
}

bool emulator_launch_plain(void (*enter)(dialect_item *), void (*call)(void **),
                           const uint32_t group[3], const uint32_t groups[3], void **arguments,
                           emulator_order order, char *problem, size_t problem_bytes) {
  run.problem = problem;
  run.problem_bytes = problem_bytes;
  run.group = group;
  run.groups = groups;
  run.call = call;
  run.arguments = arguments;
  run.order = order;
  run.item_count = group[0] * group[1] * group[2];
  run.item_step = mixing_step(run.item_count);
  run.group_step = mixing_step((uint64_t)groups[0] * groups[1] * groups[2]);
  run.machine = (dialect_item){.barrier = wait_at_barrier, .local = fill_local};
  memcpy(run.machine.group_size, group, sizeof run.machine.group_size);
  memcpy(run.machine.group_count, groups, sizeof run.machine.group_count);
  enter(&run.machine);

  if (!keep_items(run.item_count))
    return emulator_explain(problem, problem_bytes, "no memory for %u items", run.item_count);
  run.items = kept.items;
  number_items();
  if (run_caught()) return true;
  /* Some items wait or were interrupted: they begin anew. */
  for (uint32_t i = 0; i < kept.capacity; i++) kept.items[i].begun = false;
  return false;
}

bool emulator_launch(emulator_program *program, const compute_generated_launch *launch,
                     void *const *buffers, emulator_order order, char *problem,
                     size_t problem_bytes) {
  void *pointers[MOST_BUFFERS + 1];
  _Alignas(16) unsigned char shape[3072];
  uint32_t entry;
  run.problem = problem;
  run.problem_bytes = problem_bytes;
  if (!check_launch(program, launch, &entry) || !bind(launch, buffers, pointers, shape))
    return false;
  pointers[launch->buffer_count] = shape;
  return emulator_launch_plain(program->enter, program->entries[entry].call, launch->group,
                               launch->groups, pointers, order, problem, problem_bytes);
}

bool emulator_run(emulator_program *program, const compute_generated *generated,
                  void *const *arguments, emulator_order order, bool *fault, char *problem,
                  size_t problem_bytes) {
  emulator_buffer workspace = {0}, word = {0};
  bool good = emulator_buffer_create((size_t)generated->workspace_bytes, &workspace) &&
              emulator_buffer_create(COMPUTE_GENERATED_FAULT_WORDS * sizeof(int32_t), &word);
  if (!good) emulator_explain(problem, problem_bytes, "no memory for the workspace");
  if (good) memset(word.data, 0, word.bytes);
  if (good) memset(workspace.data, LOCAL_PATTERN, workspace.bytes);
  for (uint32_t l = 0; good && l < generated->launch_count; l++) {
    const compute_generated_launch *launch = &generated->launches[l];
    void *buffers[MOST_BUFFERS] = {NULL};
    for (uint32_t i = 0; i < launch->buffer_count && i < MOST_BUFFERS; i++) {
      const uint32_t argument = launch->buffers[i].argument;
      buffers[i] = argument == COMPUTE_GENERATED_WORKSPACE ? workspace.data
                   : argument == COMPUTE_GENERATED_FAULT   ? word.data
                                                           : arguments[argument];
    }
    good = emulator_launch(program, launch, buffers, order, problem, problem_bytes);
  }
  if (good && (!emulator_buffer_intact(&workspace) || !emulator_buffer_intact(&word)))
    good = emulator_explain(problem, problem_bytes, "a write before the workspace");
  if (good) {
    int32_t value;
    memcpy(&value, word.data, sizeof value);
    *fault = value != 0;
    if (value != 0 && value != 1)
      good = emulator_explain(problem, problem_bytes, "the fault word is %d", (int)value);
    if (value != 0 && !generated->faults)
      good = emulator_explain(problem, problem_bytes, "a fault that was not announced");
  }
  emulator_buffer_release(&workspace);
  emulator_buffer_release(&word);
  return good;
}
