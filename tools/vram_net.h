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

#endif
