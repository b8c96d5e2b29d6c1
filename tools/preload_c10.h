/* The error that PyTorch raises when there is no memory, from C. */
#ifndef PRELOAD_C10_H
#define PRELOAD_C10_H

/* Throws c10::OutOfMemoryError, in Python torch.OutOfMemoryError, with that text. It returns where
   no PyTorch is loaded, or one that does not export what this needs. */
void raise_out_of_memory(const char *text);

#endif
