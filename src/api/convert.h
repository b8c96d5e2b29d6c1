#pragma once
#include "api/graph.h"
#include "api/read.h"
#include "api/writer.h"
/* >>convert ===================================================================================
   Files that have a graph, as the text form. Shapes are those that the ops of the text form give;
   what reshapes and slices need is computed from the model's constants and from shapes. Sizes that
   a file leaves open become dims, as far as the text's sizes are products of them: the others stand
   in the text as numbers, and a comment says so. What has no word becomes a `custom` line with the
   shape that the file says, and a comment with its name. */

#ifndef VRAM_NO_MODEL
/* Bytes of memory that vram_graph_write needs. */
VRAM_API uint64_t vram_graph_write_bytes(const vram_graph *g);

/* Writes a graph as a text that reads as the same one: of what vram_parallel_cut made, too. Sizes
   are numbers, rounds of loops are written out ("loop.3.fc"). Lines `tp` are left out: of a whole
   graph they are lost, what was cut needs none. err may be NULL, nothing else.
     VRAM_ERR_MEMORY       scratch is too small; nothing is written
     VRAM_ERR_UNSUPPORTED  a whole training step, or a key with a word that is not known
     VRAM_ERR_WRITE        the sink has ended it */
VRAM_API vram_result vram_graph_write(const vram_graph *g, void *scratch, uint64_t bytes,
                                      const vram_sink *sink, vram_error *err);
#endif

#if !defined(VRAM_NO_READ) && !defined(VRAM_NO_MODEL)
/* Writes the graph of an ONNX or TFLite model that was read and finished; of TFLite channels first
   (N,C,H,W), and quantised tensors as the f32 that they stand for. set: sizes for dims by the names
   that the file gives them, a name NULL is the first one; an open size of the first axis is 1 if it
   is not named. mem: memory that nothing else uses meanwhile. The sink is called at the end only.
     VRAM_ERR_MEMORY       mem is too small: once more, with twice as much
     VRAM_ERR_UNSUPPORTED  no such file; an op without a word whose result has no shape in the file
     VRAM_ERR_NAME         a value that nothing gives, a dim in `set` that the file has not
     VRAM_ERR_SHAPE        a size that is neither known nor set
     VRAM_ERR_WRITE        the sink has ended it */
VRAM_API vram_result vram_graph_of_file(const vram_file *f, const vram_dim *set, uint32_t nset,
                                        void *mem, uint64_t bytes, const vram_sink *sink,
                                        vram_error *e);
#endif
