/* Functions that the library of tools/preload.c finds without dlsym, which stands there itself. */
#ifndef PRELOAD_LIBC_H
#define PRELOAD_LIBC_H

typedef void *(*dlsym_function)(void *handle, const char *name);
typedef void *(*dlvsym_function)(void *handle, const char *name, const char *version);

/* A function or a variable, of the first object in the order of loading that has it, whether or not
   its names are global, and that is not this library; NULL: nobody has it. */
void *find_anywhere(const char *name);
/* The pointer to it; 0: nobody has it. */
int find_function(void *pointer, const char *name);

/* The ones that stand behind this library's; NULL: there is none. */
dlsym_function real_dlsym(void);
dlvsym_function real_dlvsym(void);

#endif
