/* The lines of a network for a microcontroller: what estimate --embedded and emit share. */
#ifndef VRAM_NET_H
#define VRAM_NET_H

#include "vram_job.h"

#define NET_NAME 64 /* of a network made of a model */

/* Memories, the fastest first: [NAME=]SIZE, 0: without a limit. */
typedef struct net_banks {
  vram_arena_options o;
  char name[VRAM_ARENA_BANKS][16];
} net_banks;

/* One more; 0: error printed. */
int net_bank(net_banks *b, const char *v);

/* Says by how much the buffers do not fit them: what vram_net_plan left with VRAM_ERR_LIMIT. */
int net_banks_too_large(const net_banks *b, const vram_net *net, const char *path,
                        const vram_error *err);
/* Are they one name? Macros and sections do not know capitals from other letters. */
int net_same_name(const char *a, const char *b);

/* Memories of constants, the fastest first: NAME=SIZE[:FROM]. */
typedef struct rom_constant { /* of a line, or of an operator of a .tflite file */
  char name[96];
  uint32_t number; /* of that line or operator */
  uint32_t memory;
  uint64_t bytes, accesses;
} rom_constant;

typedef struct net_roms {
  vram_rom_options o;
  char name[VRAM_ARENA_BANKS][16], from[VRAM_ARENA_BANKS][16];
  rom_constant *constant;
  uint32_t count, unit; /* arrays are aligned to so many bytes */
  vram_rom rom;
} net_roms;

/* One more; 0: error printed. */
int net_rom(net_roms *r, const char *v);
/* Behind all options: is what is copied anywhere? Not FITS: message printed. */
int net_roms_check(net_roms *r, const net_banks *b);
/* The memory of each constant: of the arrays that emit --weights writes (of_file), or as the lines
   count them. Not FITS: message printed. net_roms_end in any case. */
int net_roms_place(net_roms *r, const net_banks *b, const vram_net *net, const char *path,
                   int of_file);
int net_roms_add(net_roms *r, const char *name, uint32_t number, const vram_net_line *l,
                 uint64_t bytes);
void net_roms_end(net_roms *r);
void net_roms_text(const net_roms *r);
void net_roms_json(const net_roms *r);

/* Which of count names v is, in whatever case; -1: error printed. */
int net_choice(const char *what, const char *v, const char *(*name)(uint32_t), uint32_t count);
/* The name of a model's network: what to has already, the model's, or the file's. */
void net_name(const char *model, const vram_graph *g, char *to);
/* The lines of a model, counted. Not FITS: message printed. */
int net_of_model(const job *j, const vram_graph *g, const vram_net_lower_options *o, void **mem,
                 vram_net *net);

/* Has the file VRAM_NET_ lines: is it a C header, or is there a BEGIN? */
int net_is_lines(const char *path, const char *text, size_t len);
/* The lines of a C header, counted; name NULL: its only network. Not FITS: message printed. */
int net_of_lines(const char *path, const char *text, size_t len, const char *name, void **mem,
                 vram_net *net);

/* The format of a .tflite file's values and weights; of other files *format stays. */
int tflite_format(const char *path, vram_net_format *format);

/* TensorFlow Lite Micro's arena for a .tflite file, on each target. */
typedef struct tflm_arenas {
  uint64_t head_bytes;
  uint64_t tail_bytes[VRAM_TFLM_TARGET_COUNT], arena_bytes[VRAM_TFLM_TARGET_COUNT];
  uint32_t count; /* of targets; 0: another file, or kernels that are not known */
} tflm_arenas;

/* emit --weights: constants of a .tflite file as arrays. Not FITS: message printed. */
int weights_write(const char *path, const char *model, const vram_net *net, const char *upper,
                  const net_roms *roms);
/* How many bytes those arrays are. */
int weights_count(const char *model, const vram_net *net, net_roms *roms);

int tflm_find(const char *path, const vram_tflm_options *o, tflm_arenas *to);
/* estimate --embedded --tflm: with its parts. */
int tflm_report(const char *path, const job *j, const vram_tflm_options *o);

/* A program of ExecuTorch (.pte): what it has planned; budgets NULL: none. */
int executorch_is(const char *path);
int executorch_report(const char *path, const job *j, const uint64_t *flash, const uint64_t *sram);

#endif
