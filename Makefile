CC ?= cc
CFLAGS ?= -O2
WARN = -std=c99 -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow

vram: tools/vram.c vram.h
	$(CC) $(WARN) $(CFLAGS) -o $@ tools/vram.c
