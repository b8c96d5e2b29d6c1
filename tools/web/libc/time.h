/* libc.c */
#ifndef WEB_TIME_H
#define WEB_TIME_H
typedef long long time_t;
struct timespec {
  time_t tv_sec;
  long tv_nsec;
};
enum { CLOCK_REALTIME, CLOCK_MONOTONIC };
time_t time(time_t *to);
int clock_gettime(int which, struct timespec *to);
#endif
