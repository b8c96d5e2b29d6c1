/* Checks that count. A failed one prints file, line and values and the program goes on.
   Last line of every test program: `name: N passed, N failed`. */
#ifndef TEST_H
#define TEST_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long test_passed, test_failed;
static char test_where[300]; /* what the checks are about now; printed with a failure */

#define TEST_UNUSED __attribute__((unused))
#define TEST_SHOWN 15 /* failures that are printed in full */

static TEST_UNUSED int test_result(int ok, const char *file, int line) {
  if (ok) {
    test_passed++;
    return 1;
  }
  if (++test_failed <= TEST_SHOWN)
    printf("%s:%d: %s%s", file, line, test_where, *test_where ? ": " : "");
  return 0;
}
static TEST_UNUSED int test_shown(void) { return test_failed <= TEST_SHOWN; }

static TEST_UNUSED int test_true(int ok, const char *what, const char *file, int line) {
  if (!test_result(ok, file, line) && test_shown())
    printf("%s\n", what);
  return ok;
}

static TEST_UNUSED int test_equal(uint64_t got, uint64_t want, const char *what, const char *file,
                                  int line) {
  int ok = got == want;
  if (!test_result(ok, file, line) && test_shown())
    printf("%s is %llu, wanted %llu\n", what, (unsigned long long)got, (unsigned long long)want);
  return ok;
}

static TEST_UNUSED int test_text(const char *got, const char *want, const char *what,
                                 const char *file, int line) {
  int ok = got && strcmp(got, want) == 0;
  if (!test_result(ok, file, line) && test_shown())
    printf("%s is\n    \"%s\", wanted\n    \"%s\"\n", what, got ? got : "(null)", want);
  return ok;
}

/* A crash names what the checks were about; sanitizers have reports of their own. */
#if defined(__has_feature)
#define TEST_HAS(x) __has_feature(x)
#else
#define TEST_HAS(x) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !TEST_HAS(address_sanitizer) && !TEST_HAS(memory_sanitizer)
/* NOLINTBEGIN(bugprone-signal-handler,cert-sig30-c): the program ends here */
static void test_crash(int number) {
  printf("%s: signal %d\n", test_where, number);
  fflush(stdout);
  _Exit(2);
}
/* NOLINTEND(bugprone-signal-handler,cert-sig30-c) */
__attribute__((constructor)) static void test_begin(void) {
  signal(SIGSEGV, test_crash);
  signal(SIGABRT, test_crash);
  signal(SIGFPE, test_crash);
  signal(SIGILL, test_crash);
}
#endif

/* Scratch: full of something, so that who reads it before it is written goes wrong. */
static TEST_UNUSED void *test_scratch(uint64_t bytes) {
  void *scratch = malloc(bytes ? (size_t)bytes : 1);
#if !TEST_HAS(memory_sanitizer) /* which sees that by itself */
  if (scratch)
    memset(scratch, 0xbe, (size_t)bytes);
#endif
  return scratch;
}

#define CHECK(ok) test_true((ok) != 0, #ok, __FILE__, __LINE__)
/* a precondition: counts only when it fails */
#define NEED(ok) ((ok) ? 1 : test_true(0, #ok, __FILE__, __LINE__))
#define FAIL(what) test_true(0, what, __FILE__, __LINE__)
#define EQUAL(got, want) test_equal((uint64_t)(got), (uint64_t)(want), #got, __FILE__, __LINE__)
#define TEXT(got, want) test_text(got, want, #got, __FILE__, __LINE__)

static TEST_UNUSED int test_done(const char *name) {
  if (test_failed > TEST_SHOWN)
    printf("%s: %lu more failures are not shown\n", name, test_failed - TEST_SHOWN);
  printf("%s: %lu passed, %lu failed\n", name, test_passed, test_failed);
  return test_failed != 0;
}

#endif
