/* SPDX-License-Identifier: MIT */
/* The machine, processors, waits on words of memory, and what other systems know of users. */
#include <io.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/platform/futex.h"
#include "core/platform/processors.h"
#include "native.h"

#include <psapi.h>

/* ---- Waits ----------------------------------------------------------------------------------- */

void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
  WaitOnAddress((volatile void *)word, &expected, sizeof expected, INFINITE);
}

void futex_wake(_Atomic uint32_t *word, int32_t threads) {
  if (threads > 8) {
    WakeByAddressAll((void *)word);
    return;
  }
  for (int32_t i = 0; i < threads; i++) WakeByAddressSingle((void *)word);
}

/* ---- Processors ------------------------------------------------------------------------------ */

/* A process has one group of at most 64 processors unless it asks for more. */
int32_t processors_allowed(void) {
  DWORD_PTR allowed = 0, all;
  if (GetProcessAffinityMask(GetCurrentProcess(), &allowed, &all) && allowed)
    return __builtin_popcountll(allowed);
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return (int32_t)info.dwNumberOfProcessors;
}

int32_t processor_now(void) {
  return (int32_t)GetCurrentProcessorNumber();
}

void processor_leave(int32_t processor) {
  (void)processor; /* Windows balances its queues at once */
}

void processor_yield(void) {
  SwitchToThread();
}

/* ---- The machine ----------------------------------------------------------------------------- */

static int64_t page_bytes(void) {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwPageSize;
}

/* The largest cache of a level in bytes, or −1. */
static int64_t cache_bytes(BYTE level) {
  DWORD bytes = 0;
  GetLogicalProcessorInformation(NULL, &bytes);
  SYSTEM_LOGICAL_PROCESSOR_INFORMATION *rows = malloc(bytes);
  int64_t largest = -1;
  if (rows && GetLogicalProcessorInformation(rows, &bytes)) {
    for (size_t i = 0; i < bytes / sizeof *rows; i++) {
      const CACHE_DESCRIPTOR *cache = &rows[i].Cache;
      if (rows[i].Relationship == RelationCache && cache->Level == level &&
          cache->Type != CacheInstruction && (int64_t)cache->Size > largest)
        largest = cache->Size;
    }
  }
  free(rows);
  return largest;
}

int64_t sysconf(int name) {
  MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
  switch (name) {
  case _SC_PAGESIZE: return page_bytes();
  case _SC_NPROCESSORS_ONLN: return processors_allowed();
  case _SC_PHYS_PAGES:
    return GlobalMemoryStatusEx(&memory) ? (int64_t)memory.ullTotalPhys / page_bytes() : -1;
  case _SC_AVPHYS_PAGES:
    return GlobalMemoryStatusEx(&memory) ? (int64_t)memory.ullAvailPhys / page_bytes() : -1;
  case _SC_LEVEL2_CACHE_SIZE: return cache_bytes(2);
  case _SC_LEVEL3_CACHE_SIZE: return cache_bytes(3);
  default: errno = EINVAL; return -1;
  }
}

int gethostname(char *name, size_t bytes) {
  wchar_t wide[256];
  DWORD count = 256;
  if (!GetComputerNameExW(ComputerNameDnsHostname, wide, &count)) return native_failed();
  return native_narrow(wide, name, bytes) ? 0 : -1;
}

int getrusage(int who, struct rusage *usage) {
  PROCESS_MEMORY_COUNTERS counters = {.cb = sizeof counters};
  (void)who;
  if (!GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters))
    return native_failed();
  *usage = (struct rusage){(int64_t)(counters.PeakWorkingSetSize >> 10)};
  return 0;
}

int ioctl(int file, int request, struct winsize *size) {
  CONSOLE_SCREEN_BUFFER_INFO screen;
  (void)request;
  if (!GetConsoleScreenBufferInfo((HANDLE)_get_osfhandle(file), &screen)) return native_failed();
  size->ws_col = (unsigned short)(screen.srWindow.Right - screen.srWindow.Left + 1);
  size->ws_row = (unsigned short)(screen.srWindow.Bottom - screen.srWindow.Top + 1);
  return 0;
}

/* ---- Users ----------------------------------------------------------------------------------- */

unsigned geteuid(void) {
  return 0;
}

/* ---- Signals --------------------------------------------------------------------------------- */

int pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
  static _Thread_local sigset_t mask;
  if (before) *before = mask;
  if (!set) return 0;
  mask = how == SIG_SETMASK ? *set : how == SIG_BLOCK ? mask | *set : mask & ~*set;
  return 0;
}

int platform_sigaction(int number, const struct sigaction *action, struct sigaction *before) {
  void (*previous)(int) = action ? signal(number, action->sa_handler) : SIG_DFL;
  if (before) *before = (struct sigaction){.sa_handler = previous};
  return previous == SIG_ERR ? -1 : 0;
}
