/* Files that gzip packed (RFC 1952): profiles of JAX, traces of PyTorch. */
#ifndef VRAM_GZIP_H
#define VRAM_GZIP_H

#include "vram_command.h"

int gzip_is(const char *bytes, size_t len);
/* What was packed, in place of *bytes, which came from malloc(); at most CMD_MAX_INPUT. Checked
   against its length and CRC. Not FITS: message printed, *bytes is as it was. */
int gzip_unpack(const char *path, char **bytes, size_t *len);

#endif
