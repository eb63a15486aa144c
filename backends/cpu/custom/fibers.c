/* SPDX-License-Identifier: MIT */
/* Items that wait for each other. Each item has a separate stack, and a barrier switches to the
 * next item. All items of a group run on one thread, so they share the object's thread-local
 * arrays.
 *
 * A switch is a few instructions of assembly: swapcontext makes a system call each time, and not
 * every C library has it. */
#include <sys/mman.h>
#include <unistd.h>

#include "custom.h"

enum {
  STACK_BYTES = 128 << 10, /* the lowest page of each is a guard page */
  /* Stacks start at different cache lines of a page; otherwise all would share a few cache sets. */
  STAGGERED = 64,
  STAGGER_BYTES = 5 * 64
};

typedef struct fiber {
  void *at; /* its stack pointer while it waits */
  struct group_run *run;
  uint32_t local_id[3];
  bool ended;
} fiber;

typedef struct stacks {
  custom_stacks head;
  unsigned char *memory;
  uint64_t bytes;
  fiber fibers[];
} stacks;

typedef struct group_run {
  void *at; /* the runner's stack pointer */
  custom_item *item;
  const void *arguments;
  const uint32_t *groups, *group, *group_id;
} group_run;

/* ---- Switching ------------------------------------------------------------------------------- */

/* Windows has no such attribute. */
#ifdef __ELF__
#define HIDDEN __attribute__((visibility("hidden")))
#else
#define HIDDEN
#endif

/* Saves the callee-saved registers, stores the stack pointer in *from, and continues on the stack
 * `to`. */
void cpu_fiber_switch(void **from, void *to) HIDDEN;
/* Start of a new stack. */
void cpu_fiber_start(void) HIDDEN;

#if defined(__x86_64__) && defined(__ELF__)
const bool custom_has_fibers = true;

__asm__(".text\n"
        ".p2align 4\n"
        ".globl cpu_fiber_switch\n"
        ".hidden cpu_fiber_switch\n"
        ".type cpu_fiber_switch, @function\n"
        "cpu_fiber_switch:\n"
        "  pushq %rbp\n"
        "  pushq %rbx\n"
        "  pushq %r12\n"
        "  pushq %r13\n"
        "  pushq %r14\n"
        "  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n"
        "  popq %r14\n"
        "  popq %r13\n"
        "  popq %r12\n"
        "  popq %rbx\n"
        "  popq %rbp\n"
        "  ret\n"
        ".size cpu_fiber_switch, . - cpu_fiber_switch\n"
        ".globl cpu_fiber_start\n"
        ".hidden cpu_fiber_start\n"
        ".type cpu_fiber_start, @function\n"
        "cpu_fiber_start:\n"
        "  movq %r12, %rdi\n"
        "  call *%r13\n"
        "  ud2\n"
        ".size cpu_fiber_start, . - cpu_fiber_start\n");

/* The popped registers, r15 first; then the return address; above them, a stack aligned as before a
 * call. */
enum { FRAME_WORDS = 7, FRAME_ARGUMENT = 3, FRAME_FUNCTION = 2, FRAME_RETURN = 6 };

#elif defined(__aarch64__) && defined(__ELF__)
const bool custom_has_fibers = true;

__asm__(".text\n"
        ".p2align 4\n"
        ".globl cpu_fiber_switch\n"
        ".hidden cpu_fiber_switch\n"
        ".type cpu_fiber_switch, %function\n"
        "cpu_fiber_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n"
        "  stp x21, x22, [sp, #16]\n"
        "  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n"
        "  stp x27, x28, [sp, #64]\n"
        "  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n"
        "  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n"
        "  str x9, [x0]\n"
        "  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n"
        "  ldp x21, x22, [sp, #16]\n"
        "  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n"
        "  ldp x27, x28, [sp, #64]\n"
        "  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n"
        "  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n"
        "  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size cpu_fiber_switch, . - cpu_fiber_switch\n"
        ".globl cpu_fiber_start\n"
        ".hidden cpu_fiber_start\n"
        ".type cpu_fiber_start, %function\n"
        "cpu_fiber_start:\n"
        "  mov x0, x19\n"
        "  blr x20\n"
        "  brk #1\n"
        ".size cpu_fiber_start, . - cpu_fiber_start\n");

enum { FRAME_WORDS = 20, FRAME_ARGUMENT = 0, FRAME_FUNCTION = 1, FRAME_RETURN = 11 };

#else
const bool custom_has_fibers = false;

enum { FRAME_WORDS = 1, FRAME_ARGUMENT = 0, FRAME_FUNCTION = 0, FRAME_RETURN = 0 };

void cpu_fiber_switch(void **from, void *to) {
  (void)from;
  (void)to;
}

void cpu_fiber_start(void) {}
#endif

/* ---- Items ----------------------------------------------------------------------------------- */

/* Code on these stacks is not instrumented by sanitizers, which would mistake abandoned frames for
 * live ones. */
#define ON_A_FIBER __attribute__((no_sanitize("address"), no_sanitize("thread"), noinline))

ON_A_FIBER static void leave(fiber *f) {
  cpu_fiber_switch(&f->at, f->run->at);
}

ON_A_FIBER static void wait(void *waiter) {
  leave(waiter);
}

ON_A_FIBER static void run_item(fiber *f) {
  const group_run *run = f->run;
  run->item(run->arguments, run->groups, run->group, run->group_id, f->local_id, wait, f);
  f->ended = true;
  leave(f);
}

/* Prepares a stack that starts in run_item(f). */
ON_A_FIBER static void prepare(fiber *f, unsigned char *top) {
  uint64_t *frame = (uint64_t *)(void *)top - FRAME_WORDS;
  for (int i = 0; i < FRAME_WORDS; i++) frame[i] = 0;
  frame[FRAME_ARGUMENT] = (uint64_t)(uintptr_t)f;
  frame[FRAME_FUNCTION] = (uint64_t)(uintptr_t)run_item;
  frame[FRAME_RETURN] = (uint64_t)(uintptr_t)cpu_fiber_start;
  f->at = frame;
  f->ended = false;
}

ON_A_FIBER static void enter(group_run *run, fiber *f) {

  cpu_fiber_switch(&run->at, f->at);
}

bool custom_run_group(custom_stacks *given, custom_item *item, const void *arguments,
                      const uint32_t *groups, const uint32_t *group, const uint32_t *group_id) {
  stacks *s = (stacks *)given;
  const uint32_t count = group[0] * group[1] * group[2];
  group_run run = {
      .item = item, .arguments = arguments, .groups = groups, .group = group, .group_id = group_id};
  for (uint32_t i = 0; i < count; i++) {
    fiber *f = &s->fibers[i];
    f->run = &run;
    f->local_id[0] = i % group[0];
    f->local_id[1] = i / group[0] % group[1];
    f->local_id[2] = i / group[0] / group[1];
    prepare(f, s->memory + (uint64_t)(i + 1) * STACK_BYTES - i % STAGGERED * STAGGER_BYTES);
  }
  for (uint32_t ended = 0; ended < count;) {
    ended = 0;
    for (uint32_t i = 0; i < count; i++) {
      enter(&run, &s->fibers[i]);
      ended += s->fibers[i].ended;
    }
    if (ended > 0 && ended < count) return false;
  }
  return true;
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

custom_stacks *custom_stacks_create(cpu_device *device, uint32_t items) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  stacks *s = cpu_allocate(device, sizeof *s + items * sizeof *s->fibers);
  if (!s) return NULL;
  s->head.items = items;
  s->bytes = (uint64_t)items * STACK_BYTES;
  void *memory = mmap(NULL, (size_t)s->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) {
    cpu_release(device, s);
    return NULL;
  }
  s->memory = memory;
  for (uint32_t i = 0; i < items; i++)
    (void)mprotect(s->memory + (uint64_t)i * STACK_BYTES, page, PROT_NONE);
  return &s->head;
}

void custom_stacks_release(cpu_device *device, custom_stacks *given) {
  stacks *s = (stacks *)given;
  if (!s) return;
  munmap(s->memory, (size_t)s->bytes);
  cpu_release(device, s);
}
