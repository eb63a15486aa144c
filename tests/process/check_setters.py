#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library is a guest: it changes no setting of the whole process.

    check_setters.py SOURCE_FOLDER

In src/ (without the programs in src/programs/) and backends/, two things fail: calls of functions that change a
setting of the whole process or end it, and lookups of such functions in other libraries. ALLOWED lists each exception
with its reason; an unused exception fails as well.
"""
import os
import re
import sys

# The setting that each function changes for the whole process.
SETTERS = {
    "locale": "setlocale uselocale",
    "environment": "setenv unsetenv putenv clearenv",
    "signals": "signal sigaction sigset sigignore siginterrupt sigvec bsd_signal sigaltstack signalfd sigwait alarm ualarm "
               "setitimer timer_create raise kill killpg",
    "folders and modes of files": "umask chdir fchdir chroot",
    "random numbers": "srand srandom srand48 seed48 initstate setstate",
    "time": "tzset settimeofday clock_settime adjtime",
    "limits and privileges": "setrlimit setrlimit64 prlimit setpriority nice setuid setgid seteuid setegid setreuid setregid "
                             "setresuid setresgid setgroups initgroups capset prctl personality unshare setns setpgid setsid",
    "memory": "mallopt mlockall munlockall malloc_trim sbrk brk malloc_set_state obstack_alloc_failed_handler",
    "standard streams": "freopen dup2 dup3 setvbuf setbuf setlinebuf fclose_all fcloseall",
    "the end of the process": "exit _exit _Exit quick_exit abort atexit at_quick_exit on_exit err errx verr verrx assert_fail",
    "children": "fork vfork system popen waitpid wait3 wait4 pthread_atfork daemon",
    "scheduling": "sched_setaffinity sched_setscheduler sched_setparam pthread_setaffinity_np pthread_setschedparam",
    "floating-point modes": "fesetround fesetenv feupdateenv feenableexcept fedisableexcept feholdexcept fesetmode",
    "signal masks": "sigprocmask pthread_sigmask",
    "names and terminals": "sethostname setdomainname openlog closelog tcsetattr",
    "threads of other libraries": "openblas_set_num_threads goto_set_num_threads omp_set_num_threads omp_set_dynamic "
                                  "omp_set_nested MKL_Set_Num_Threads mkl_set_num_threads MKL_Set_Dynamic mkl_set_dynamic "
                                  "bli_thread_set_num_threads openblas_set_affinity",
}

# (file, function): the reason why this call changes no setting of the process.
ALLOWED = {
    ("src/core/device/driver_call.c", "pthread_sigmask"): "of the calling thread, restored before the call returns",
    ("src/core/base/float_environment.h", "fesetenv"): "of the calling thread, restored before the call returns",
    ("src/core/base/process.c", "pthread_atfork"): "watches for forks",
    ("src/core/platform/bsd/futex.c", "pthread_atfork"): "watches for forks",
    ("backends/cpu/core/blas.c", "pthread_atfork"): "watches for forks",
    ("backends/cpu/core/blas.c", "pthread_sigmask"): "of the calling thread, restored before the call returns",
    ("backends/cpu/core/blas.c", "fesetenv"): "of a thread of the library's own",
    ("backends/cpu/core/blas.c", "openblas_set_num_threads"): "of a copy that only this library uses",
    ("backends/cpu/core/blas.c", "omp_set_num_threads"): "of the calling thread, restored after its task",
    ("src/core/platform/posix/processors.c", "sched_setaffinity"): "of a thread of the library's own",
    ("src/core/base/thread.c", "pthread_sigmask"): "of the calling thread, while it starts threads",
    ("backends/cpu/custom/compiler.c", "waitpid"): "of the compiler that it has started",
    ("backends/mpi/mpi.c", "atexit"): "MPI_Finalize has to come at the end of the process",
}


def plain(text):
    """Without comments; strings stay, since functions are looked up by name."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)


def sources(root):
    for tree in ("src", "backends"):
        for folder, _, names in os.walk(os.path.join(root, tree)):
            path = os.path.relpath(folder, root)
            # Programs own their process; the sources for Windows define functions with these names.
            if path.startswith(("src/programs", "src/core/platform/windows")):
                continue
            for name in names:
                if name.endswith((".c", ".h", ".def")):
                    yield os.path.join(path, name)


def main():
    root = sys.argv[1]
    kind_of = {name: kind for kind, names in SETTERS.items() for name in names.split()}
    call = re.compile(r'(?<![\w.>])(?:"(%s)"|(%s)\s*\()' % ("|".join(kind_of), "|".join(kind_of)))
    failures, used, files = 0, set(), 0
    for path in sorted(sources(root)):
        files += 1
        text = plain(open(os.path.join(root, path), encoding="utf-8").read())
        for found in call.finditer(text):
            name = found.group(1) or found.group(2)
            if (path, name) in ALLOWED:
                used.add((path, name))
                continue
            line = text.count("\n", 0, found.start()) + 1
            print("%s:%d: %s changes %s for the whole process" % (path, line, name, kind_of[name]))
            failures += 1
    for path, name in sorted(set(ALLOWED) - used):
        print("%s no longer uses %s, which is allowed there" % (path, name))
        failures += 1
    if files < 100:
        print("only %d files were found" % files)
        failures += 1
    sys.exit(failures > 0)


main()
