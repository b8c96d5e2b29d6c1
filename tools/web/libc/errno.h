/* libc.c; the numbers are those of Linux. */
#ifndef WEB_ERRNO_H
#define WEB_ERRNO_H
extern int errno;
enum { ENOENT = 2, EIO = 5, ENOMEM = 12, EACCES = 13, EISDIR = 21, ENFILE = 23, EMFILE = 24 };
#endif
