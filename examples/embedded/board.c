/* Start-up and semihosting for Cortex-M and RISC-V, and the same functions on a host. */
#include "board.h"

#if defined __arm__ || defined __riscv
extern uint8_t stack_bottom[], stack_top[], bss_begin[], bss_end[]; /* of sections.ld */
void start(void);

enum { SYS_WRITE0 = 0x04, SYS_EXIT_EXTENDED = 0x20, APPLICATION_EXIT = 0x20026 };

#ifdef __arm__
static void semihost(uintptr_t operation, const void *argument) {
  register uintptr_t r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}
#define STACK_POINTER(p) __asm__ volatile("mov %0, sp" : "=r"(p))
#else
static void semihost(uintptr_t operation, const void *argument) {
  register uintptr_t a0 __asm__("a0") = operation;
  register const void *a1 __asm__("a1") = argument;
  __asm__ volatile(".option push\n.option norvc\n.balign 16\n" /* in one page, none compressed */
                   "slli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\n.option pop"
                   : "+r"(a0)
                   : "r"(a1)
                   : "memory");
}
#define STACK_POINTER(p) __asm__ volatile("mv %0, sp" : "=r"(p))
#endif

void board_print(const char *text) { semihost(SYS_WRITE0, text); }

static void leave(int status) {
  const uint32_t block[2] = {APPLICATION_EXIT, (uint32_t)status};
  for (;;)
    semihost(SYS_EXIT_EXTENDED, block);
}

uint32_t board_stack(void) { return (uint32_t)((uintptr_t)stack_top - (uintptr_t)stack_bottom); }

/* below the stack pointer nothing is in use: there are no interrupts */
__attribute__((noinline)) void board_paint(uint8_t pattern) {
  volatile uint8_t *p;
  STACK_POINTER(p);
  while (p > stack_bottom)
    *--p = pattern;
}

uint32_t board_painted(uint8_t pattern) {
  const volatile uint8_t *p = stack_bottom;
  while (p < stack_top && *p == pattern)
    p++;
  return (uint32_t)((uintptr_t)stack_top - (uintptr_t)p);
}

void start(void) {
  uint8_t *p;
  for (p = bss_begin; p < bss_end; p++)
    *p = 0;
  leave(run());
}

static void fault(void) {
  board_print("fault\n");
  leave(3);
}

#ifdef __arm__
typedef void handler(void);
static const struct {
  uint8_t *stack;
  handler *start, *fault[14]; /* NMI, the faults, and what does not come */
} vectors
    __attribute__((section(".start"), used)) = {stack_top,
                                                start,
                                                {fault, fault, fault, fault, fault, fault, fault,
                                                 fault, fault, fault, fault, fault, fault, fault}};
#else
static void fault(void) __attribute__((aligned(4), used));
__asm__(".section .start, \"ax\"\n"
        ".globl _start\n"
        "_start: la sp, stack_top\n"
        "la t0, fault\n"
        "csrw mtvec, t0\n"
        "j start\n"
        ".text");
#endif

#else
#include <stdio.h>

void board_print(const char *text) { fputs(text, stdout); }
uint32_t board_stack(void) { return 0; }
void board_paint(uint8_t pattern) { (void)pattern; }
uint32_t board_painted(uint8_t pattern) { return (void)pattern, 0; }
int main(void) { return run(); }
#endif
