/* Before every unit of the command in test_tool: its memory comes from functions of the test, which
   fail when they are told to. */
#ifndef TOOL_H
#define TOOL_H
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <stdlib.h>

void *tool_malloc(size_t n);
void *tool_calloc(size_t n, size_t each);
void *tool_realloc(void *old, size_t n);
void tool_free(void *p);
int tool_main(int argc, char **argv);

#ifndef TOOL_TEST /* the test itself has the real ones */
#define malloc tool_malloc
#define calloc tool_calloc
#define realloc tool_realloc
#define free tool_free
#define main tool_main
#endif
#endif
