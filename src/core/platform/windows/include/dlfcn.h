/* SPDX-License-Identifier: MIT */
/* Dynamic libraries: LoadLibrary and its relatives, with UTF-8 paths. */
#ifndef PLATFORM_DLFCN_H
#define PLATFORM_DLFCN_H

/* Windows binds at the load, keeps each library's names apart, and resolves them within it. */
#define RTLD_LAZY     0
#define RTLD_NOW      0
#define RTLD_LOCAL    0
#define RTLD_GLOBAL   0
#define RTLD_DEEPBIND 0
#define RTLD_NOLOAD   1
#define RTLD_NODELETE 2
#define RTLD_DEFAULT  ((void *)0)

typedef struct Dl_info {
  const char *dli_fname; /* valid until this thread's next dladdr */
  void *dli_fbase;
  const char *dli_sname;
  void *dli_saddr;
} Dl_info;

#define dlopen  platform_dlopen
#define dlsym   platform_dlsym
#define dlclose platform_dlclose
#define dlerror platform_dlerror
#define dladdr  platform_dladdr

void *dlopen(const char *path, int flags);
void *dlsym(void *library, const char *name);
int dlclose(void *library);
const char *dlerror(void);
int dladdr(const void *address, Dl_info *info);

#endif
