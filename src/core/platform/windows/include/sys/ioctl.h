/* SPDX-License-Identifier: MIT */
/* The width of a console. */
#ifndef PLATFORM_SYS_IOCTL_H
#define PLATFORM_SYS_IOCTL_H

#define TIOCGWINSZ 1
struct winsize {
  unsigned short ws_row, ws_col;
};

#define ioctl platform_ioctl
int ioctl(int file, int request, struct winsize *size);

#endif
