/* libc.c */
#ifndef WEB_STDLIB_H
#define WEB_STDLIB_H
#include <stddef.h>

enum { EXIT_SUCCESS, EXIT_FAILURE };
void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *old, size_t n);
void free(void *p);
void qsort(void *base, size_t n, size_t size, int (*order)(const void *, const void *));
double strtod(const char *s, char **end);
long strtol(const char *s, char **end, int base);
long long strtoll(const char *s, char **end, int base);
char *getenv(const char *name);
_Noreturn void exit(int status);
_Noreturn void abort(void);
#endif
