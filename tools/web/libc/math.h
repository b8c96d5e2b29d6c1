/* libc.c */
#ifndef WEB_MATH_H
#define WEB_MATH_H
#define isfinite(x) __builtin_isfinite(x)
double frexp(double x, int *exponent);
#endif
