/* What the program needs of a board: a line of output, an end, and its stack. */
#ifndef BOARD_H
#define BOARD_H
#include <stdint.h>

int run(void); /* the program: its exit status */
void board_print(const char *text);
uint32_t board_stack(void); /* bytes that the linker reserved, 0: not ours */
void board_paint(uint8_t pattern);
uint32_t board_painted(uint8_t pattern); /* bytes of stack that were written to since */

/* a section whose name is a C identifier: GNU ld and lld define its ends. used: an array of one
 * value would become part of the code */
#define WEIGHTS __attribute__((section("vram_weights"), aligned(4), used))
extern const uint8_t __start_vram_weights[], __stop_vram_weights[];
#endif
