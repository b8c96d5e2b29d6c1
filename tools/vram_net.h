/* The lines of a network for a microcontroller: what estimate --embedded and emit share. */
#ifndef VRAM_NET_H
#define VRAM_NET_H

#include "vram_job.h"

#define NET_NAME 64 /* of a network made of a model */

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

#endif
