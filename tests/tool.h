/* Before every unit of the command in test_tool: its memory and its files come from functions of
   the test, which fail when they are told to. */
#ifndef TOOL_H
#define TOOL_H
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *tool_malloc(size_t n);
void *tool_calloc(size_t n, size_t each);
void *tool_realloc(void *old, size_t n);
void tool_free(void *p);
char *tool_strdup(const char *s);
char *tool_realpath(const char *path, char *to);
FILE *tool_fopen(const char *path, const char *mode);
int tool_main(int argc, char **argv);

#ifndef TOOL_TEST /* the test itself has the real ones */
#define malloc tool_malloc
#define calloc tool_calloc
#define realloc tool_realloc
#define free tool_free
#undef strdup
#define strdup tool_strdup
#define realpath tool_realpath
#define fopen tool_fopen
#define main tool_main
#endif
#endif
