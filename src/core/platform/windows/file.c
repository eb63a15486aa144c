/* SPDX-License-Identifier: MIT */
/* Files and folders by UTF-8 paths. Every open shares all rights, deletion included, so that a file
 * can be replaced while another process reads it, as on other systems. A path relative to an open
 * folder is joined to the path that this folder has now. */
#include <fcntl.h>
#include <io.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "native.h"

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

/* The path of `path` in an open folder, as UTF-16; NULL with an errno. */
static wchar_t *path_at(int folder, const char *path) {
  const bool absolute = path[0] == '/' || path[0] == '\\' || (path[0] && path[1] == ':');
  if (folder == AT_FDCWD || absolute) return native_wide_path(path);
  char *joined = malloc(NATIVE_PATH);
  wchar_t *wide = NULL;
  if (joined && native_path_of((HANDLE)_get_osfhandle(folder), joined, NATIVE_PATH)) {
    const size_t length = strlen(joined);
    if (length + 1 + strlen(path) < NATIVE_PATH) {
      snprintf(joined + length, NATIVE_PATH - length, "/%s", path);
      wide = native_wide_path(joined);
    } else {
      errno = ENAMETOOLONG;
    }
  }
  free(joined);
  return wide;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static DWORD creation_of(int flags) {
  if (flags & O_CREAT) {
    if (flags & O_EXCL) return CREATE_NEW;
    return flags & O_TRUNC ? CREATE_ALWAYS : OPEN_ALWAYS;
  }
  return flags & O_TRUNC ? TRUNCATE_EXISTING : OPEN_EXISTING;
}

static HANDLE open_handle(const wchar_t *path, int flags, int mode) {
  const int way = flags & (O_RDONLY | O_WRONLY | O_RDWR);
  DWORD access = way == O_RDONLY ? GENERIC_READ : way == O_WRONLY ? GENERIC_WRITE : 0;
  if (way == O_RDWR) access = GENERIC_READ | GENERIC_WRITE;
  if (flags & O_APPEND)
    access = (access & ~(DWORD)GENERIC_WRITE) | (FILE_GENERIC_WRITE & ~(DWORD)FILE_WRITE_DATA);
  if (way == O_RDONLY) access |= FILE_WRITE_ATTRIBUTES; /* futimens of a file that is read */
  DWORD attributes = FILE_FLAG_BACKUP_SEMANTICS;        /* else folders cannot be opened */
  if ((flags & O_CREAT) && !(mode & S_IWUSR)) attributes |= FILE_ATTRIBUTE_READONLY;
  if (flags & O_NOFOLLOW) attributes |= FILE_FLAG_OPEN_REPARSE_POINT;
  SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, !(flags & O_CLOEXEC)};
  HANDLE handle =
      CreateFileW(path, access, SHARE_ALL, &inherited, creation_of(flags), attributes, NULL);
  if (handle == INVALID_HANDLE_VALUE && way == O_RDONLY && GetLastError() == ERROR_ACCESS_DENIED)
    handle = CreateFileW(path, GENERIC_READ, SHARE_ALL, &inherited, creation_of(flags), attributes,
                         NULL);
  return handle;
}

/* Refuses a link, and a file where a folder is wanted. Returns 0 or an errno. */
static int kind_problem(HANDLE handle, int flags) {
  BY_HANDLE_FILE_INFORMATION facts;
  if (!GetFileInformationByHandle(handle, &facts)) return 0; /* a device */
  const bool folder = (facts.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  if ((flags & O_NOFOLLOW) && (facts.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT)) return ELOOP;
  if ((flags & O_DIRECTORY) && !folder) return ENOTDIR;
  return folder && (flags & (O_WRONLY | O_RDWR)) ? EISDIR : 0;
}

static int open_wide(wchar_t *path, int flags, int mode) {
  if (!path) return -1;
  HANDLE handle = open_handle(path, flags, mode);
  free(path);
  if (handle == INVALID_HANDLE_VALUE) return native_failed();
  const int problem = kind_problem(handle, flags);
  const int kept = flags & (O_APPEND | O_RDONLY | O_WRONLY | O_RDWR | O_NOINHERIT);
  const int file = problem ? -1 : _open_osfhandle((intptr_t)handle, kept | O_BINARY);
  if (file < 0) {
    CloseHandle(handle);
    if (problem) errno = problem;
  }
  return file;
}

/* The mode comes with O_CREAT only. */
static int mode_of(int flags, va_list list) {
  return flags & O_CREAT ? va_arg(list, int) : 0666;
}

int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = mode_of(flags, list);
  va_end(list);
  return open_wide(path_at(AT_FDCWD, path), flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = mode_of(flags, list);
  va_end(list);
  return open_wide(path_at(folder, path), flags, mode);
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* The open flags of a stream's mode. */
static int flags_of(const char *mode) {
  const bool both = strchr(mode, '+') != NULL;
  const int way = both ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
  const int made = mode[0] == 'r' ? 0 : mode[0] == 'a' ? O_CREAT | O_APPEND : O_CREAT | O_TRUNC;
  return way | made | (strchr(mode, 'e') ? O_CLOEXEC : 0) | (strchr(mode, 'x') ? O_EXCL : 0);
}

FILE *fopen(const char *path, const char *mode) {
  const int file = open(path, flags_of(mode), 0666);
  if (file < 0) return NULL;
  const char plain[4] = {mode[0], 'b', strchr(mode, '+') ? '+' : '\0', '\0'};
  FILE *stream = _fdopen(file, plain);
  if (!stream) close(file);
  return stream;
}

FILE *freopen(const char *path, const char *mode, FILE *stream) {
  fflush(stream);
  const int file = open(path, flags_of(mode), 0666);
  const bool moved = file >= 0 && _dup2(file, _fileno(stream)) == 0;
  if (file >= 0) close(file);
  clearerr(stream);
  return moved ? stream : NULL;
}

/* ---- Facts ----------------------------------------------------------------------------------- */

/* FILETIME counts 100 ns from 1601. */
static struct timespec time_of(FILETIME time) {
  const int64_t ticks = (int64_t)((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime);
  const int64_t since = ticks - INT64_C(116444736000000000);
  return (struct timespec){.tv_sec = since / 10000000, .tv_nsec = (long)(since % 10000000 * 100)};
}

static int status_of(HANDLE handle, struct stat *status) {
  BY_HANDLE_FILE_INFORMATION facts;
  *status = (struct stat){.st_nlink = 1};
  if (GetFileType(handle) != FILE_TYPE_DISK) {
    status->st_mode = S_IFCHR | S_IRUSR | S_IWUSR;
    return 0;
  }
  if (!GetFileInformationByHandle(handle, &facts)) return native_failed();
  const bool folder = (facts.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  const bool fixed = (facts.dwFileAttributes & FILE_ATTRIBUTE_READONLY) != 0 && !folder;
  status->st_dev = facts.dwVolumeSerialNumber;
  status->st_ino = (uint64_t)facts.nFileIndexHigh << 32 | facts.nFileIndexLow;
  status->st_mode = (folder ? S_IFDIR | S_IXUSR : S_IFREG) | S_IRUSR | (fixed ? 0u : S_IWUSR);
  status->st_nlink = facts.nNumberOfLinks;
  status->st_size = (int64_t)((uint64_t)facts.nFileSizeHigh << 32 | facts.nFileSizeLow);
  status->st_blocks = (status->st_size + 511) / 512;
  status->st_atim = time_of(facts.ftLastAccessTime);
  status->st_mtim = time_of(facts.ftLastWriteTime);
  status->st_ctim = status->st_mtim;
  return 0;
}

static int status_at(int folder, const char *path, struct stat *status, bool follow) {
  wchar_t *wide = path_at(folder, path);
  if (!wide) return -1;
  const DWORD flags = FILE_FLAG_BACKUP_SEMANTICS | (follow ? 0 : FILE_FLAG_OPEN_REPARSE_POINT);
  HANDLE handle =
      CreateFileW(wide, FILE_READ_ATTRIBUTES, SHARE_ALL, NULL, OPEN_EXISTING, flags, NULL);
  free(wide);
  if (handle == INVALID_HANDLE_VALUE) return native_failed();
  const int result = status_of(handle, status);
  CloseHandle(handle);
  return result;
}

int stat(const char *path, struct stat *status) {
  return status_at(AT_FDCWD, path, status, true);
}

int lstat(const char *path, struct stat *status) {
  return status_at(AT_FDCWD, path, status, false);
}

int fstatat(int folder, const char *path, struct stat *status, int flags) {
  return status_at(folder, path, status, !(flags & AT_SYMLINK_NOFOLLOW));
}

int fstat(int file, struct stat *status) {
  const intptr_t handle = _get_osfhandle(file);
  if (handle == -1) return -1;
  return status_of((HANDLE)handle, status);
}

int futimens(int file, const struct timespec times[2]) {
  FILETIME set[2];
  GetSystemTimeAsFileTime(&set[0]);
  set[1] = set[0];
  for (int i = 0; times && i < 2; i++) {
    const uint64_t ticks = (uint64_t)((int64_t)times[i].tv_sec * 10000000 + times[i].tv_nsec / 100 +
                                      INT64_C(116444736000000000));
    set[i] = (FILETIME){(DWORD)ticks, (DWORD)(ticks >> 32)};
  }
  return SetFileTime((HANDLE)_get_osfhandle(file), NULL, &set[0], &set[1]) ? 0 : native_failed();
}

int access(const char *path, int mode) {
  struct stat status;
  if (stat(path, &status) != 0) return -1;
  if (!(mode & W_OK) || (status.st_mode & S_IWUSR)) return 0;
  errno = EACCES;
  return -1;
}

int chmod(const char *path, unsigned mode) {
  wchar_t *wide = native_wide_path(path);
  const int result = wide ? _wchmod(wide, mode & S_IWUSR ? _S_IREAD | _S_IWRITE : _S_IREAD) : -1;
  free(wide);
  return result;
}

int fchmod(int file, unsigned mode) {
  (void)file;
  (void)mode;
  return 0;
}

/* ---- Changes --------------------------------------------------------------------------------- */

/* A new name first: a file that others have open keeps its name until they close it. */
static int unlink_wide(wchar_t *path) {
  if (!path) return -1;
  const BOOL removed = DeleteFileW(path);
  const int result = removed ? 0 : native_failed();
  free(path);
  return result;
}

int unlink(const char *path) {
  return unlink_wide(native_wide_path(path));
}

int unlinkat(int folder, const char *path, int flags) {
  (void)flags;
  return unlink_wide(path_at(folder, path));
}

int rmdir(const char *path) {
  wchar_t *wide = native_wide_path(path);
  if (!wide) return -1;
  const int result = RemoveDirectoryW(wide) ? 0 : native_failed();
  free(wide);
  return result;
}

int remove(const char *path) {
  struct stat status;
  if (lstat(path, &status) != 0) return -1;
  return S_ISDIR(status.st_mode) ? rmdir(path) : unlink(path);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
  wchar_t *source = path_at(from_folder, from), *target = source ? path_at(to_folder, to) : NULL;
  int result = -1;
  if (target) result = MoveFileExW(source, target, MOVEFILE_REPLACE_EXISTING) ? 0 : native_failed();
  free(source);
  free(target);
  return result;
}

int rename(const char *from, const char *to) {
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int mkdir(const char *path, unsigned mode) {
  (void)mode; /* a folder has its parent's rights: in the user's own places, the user's alone */
  wchar_t *wide = native_wide_path(path);
  if (!wide) return -1;
  const int result = CreateDirectoryW(wide, NULL) ? 0 : native_failed();
  free(wide);
  return result;
}

int mkfifo(const char *path, unsigned mode) {
  (void)path;
  (void)mode;
  errno = ENOSYS;
  return -1;
}

int chdir(const char *path) {
  wchar_t *wide = native_wide_path(path);
  if (!wide) return -1;
  const int result = SetCurrentDirectoryW(wide) ? 0 : native_failed();
  free(wide);
  return result;
}

/* ---- Content --------------------------------------------------------------------------------- */

static OVERLAPPED place_of(int64_t offset) {
  return (OVERLAPPED){.Offset = (DWORD)offset, .OffsetHigh = (DWORD)((uint64_t)offset >> 32)};
}

/* Windows moves the position with these; the callers of pread and pwrite use no position. */
int64_t pread(int file, void *data, size_t bytes, int64_t offset) {
  OVERLAPPED place = place_of(offset);
  DWORD done = 0;
  const DWORD part = bytes < (1u << 30) ? (DWORD)bytes : 1u << 30;
  if (ReadFile((HANDLE)_get_osfhandle(file), data, part, &done, &place)) return done;
  return GetLastError() == ERROR_HANDLE_EOF ? 0 : native_failed();
}

int64_t pwrite(int file, const void *data, size_t bytes, int64_t offset) {
  OVERLAPPED place = place_of(offset);
  DWORD done = 0;
  const DWORD part = bytes < (1u << 30) ? (DWORD)bytes : 1u << 30;
  if (WriteFile((HANDLE)_get_osfhandle(file), data, part, &done, &place)) return done;
  return native_failed();
}

int fsync(int file) {
  return _commit(file);
}

int ftruncate(int file, int64_t bytes) {
  const errno_t problem = _chsize_s(file, bytes);
  if (problem) errno = problem;
  return problem ? -1 : 0;
}

/* ---- Links, locks and volumes ---------------------------------------------------------------- */

static int not_supported(void) {
  errno = ENOSYS;
  return -1;
}

pid_t fork(void) {
  return not_supported();
}

int pipe(int ends[2]) {
  (void)ends;
  return not_supported();
}

int symlink(const char *target, const char *path) {
  (void)target;
  (void)path;
  return not_supported();
}

int link(const char *from, const char *to) {
  (void)from;
  (void)to;
  return not_supported();
}

ssize_t readlink(const char *path, char *target, size_t bytes) {
  (void)path;
  (void)target;
  (void)bytes;
  return not_supported();
}

/* One byte far behind the end stands for the file, whose content stays readable. */
int flock(int file, int operation) {
  HANDLE handle = (HANDLE)_get_osfhandle(file);
  OVERLAPPED place = place_of(INT64_MAX - 1);
  if (operation & LOCK_UN) return UnlockFileEx(handle, 0, 1, 0, &place) ? 0 : native_failed();
  const DWORD flags = (operation & LOCK_EX ? LOCKFILE_EXCLUSIVE_LOCK : 0u) |
                      (operation & LOCK_NB ? LOCKFILE_FAIL_IMMEDIATELY : 0u);
  if (LockFileEx(handle, flags, 0, 1, 0, &place)) return 0;
  if (GetLastError() != ERROR_LOCK_VIOLATION && GetLastError() != ERROR_IO_PENDING)
    return native_failed();
  errno = EWOULDBLOCK;
  return -1;
}

int fstatvfs(int file, struct statvfs *disk) {
  char *path = malloc(NATIVE_PATH);
  wchar_t *wide = NULL;
  ULARGE_INTEGER room;
  if (path && native_path_of((HANDLE)_get_osfhandle(file), path, NATIVE_PATH)) {
    char *slash = strrchr(path, '/');
    if (slash) slash[1] = '\0';
    wide = native_wide_path(path);
  }
  const bool known = wide && GetDiskFreeSpaceExW(wide, &room, NULL, NULL);
  free(wide);
  free(path);
  if (!known) return -1;
  *disk = (struct statvfs){.f_bavail = room.QuadPart, .f_frsize = 1};
  return 0;
}
