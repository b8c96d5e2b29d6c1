/* The errors that PyTorch raises, from C. */
#ifndef PRELOAD_C10_H
#define PRELOAD_C10_H

/* Throws c10::OutOfMemoryError, in Python torch.OutOfMemoryError, with that text, or where it is not
   of memory c10::Error, a RuntimeError. It returns where no PyTorch is loaded, or one that does not
   export what this needs. */
void raise_error(const char *text, int of_memory);

#endif
