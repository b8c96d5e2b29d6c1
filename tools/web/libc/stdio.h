/* What tools/vram_*.c ask of C's library, for WebAssembly without one: libc.c has it. */
#ifndef WEB_STDIO_H
#define WEB_STDIO_H
#include <stdarg.h>
#include <stddef.h>

typedef struct web_file FILE;
typedef long long off_t;
extern FILE *const stdin, *const stdout, *const stderr;

#define EOF (-1)
enum { SEEK_SET, SEEK_CUR, SEEK_END };
enum { _IOFBF, _IOLBF, _IONBF, BUFSIZ = 1024 };

FILE *fopen(const char *path, const char *mode);
int fclose(FILE *f);
int fflush(FILE *f);
int ferror(FILE *f);
int setvbuf(FILE *f, char *buffer, int mode, size_t bytes);
size_t fread(void *to, size_t size, size_t n, FILE *f);
size_t fwrite(const void *from, size_t size, size_t n, FILE *f);
int fseek(FILE *f, long offset, int from);
int fseeko(FILE *f, off_t offset, int from);
long ftell(FILE *f);
off_t ftello(FILE *f);
char *fgets(char *to, int n, FILE *f);
int fputc(int c, FILE *f);
int putc(int c, FILE *f);
int putchar(int c);
int fputs(const char *s, FILE *f);
int puts(const char *s);
int printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
int fprintf(FILE *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
int vfprintf(FILE *f, const char *format, va_list words);
int sprintf(char *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
int snprintf(char *to, size_t n, const char *format, ...) __attribute__((format(printf, 3, 4)));
int vsnprintf(char *to, size_t n, const char *format, va_list words);
#endif
