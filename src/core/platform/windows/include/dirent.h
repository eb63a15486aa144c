/* SPDX-License-Identifier: MIT */
/* Listings of folders, with names in UTF-8. */
#ifndef PLATFORM_DIRENT_H
#define PLATFORM_DIRENT_H

typedef struct platform_directory DIR;
struct dirent {
  unsigned char d_type;
  char d_name[260 * 3 + 1];
};
enum { DT_UNKNOWN, DT_DIR = 4, DT_REG = 8, DT_LNK = 10 };

#define opendir   platform_opendir
#define fdopendir platform_fdopendir
#define readdir   platform_readdir
#define closedir  platform_closedir
DIR *opendir(const char *path);
DIR *fdopendir(int folder); /* closes the descriptor with the listing */
struct dirent *readdir(DIR *directory);
int closedir(DIR *directory);

#endif
