/* The implementation between macros that other headers define. */
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define near
#define far
#define small char
#define interface struct
#define I (1.0i)
#define N 10
#define OK 0
#define ERROR 1
#define TRUE 1
#define FALSE 0
#define FREE 3
#define ALLOC 4
#define INPUTS 5
#define OTHER 6
#ifndef __cplusplus
#define bool int
#define true 1
#define false 0
#endif
#define VRAM_IMPLEMENTATION
#include "vram.h"
