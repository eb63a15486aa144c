/* SPDX-License-Identifier: MIT */
/* Locks of whole files, which end with the descriptor. */
#ifndef PLATFORM_SYS_FILE_H
#define PLATFORM_SYS_FILE_H

#define LOCK_SH 1
#define LOCK_EX 2
#define LOCK_NB 4
#define LOCK_UN 8

#define flock platform_flock
int flock(int file, int operation); /* fails with EWOULDBLOCK if others have the lock */

#endif
