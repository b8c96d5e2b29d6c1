/* >>llama/llama    what llama.cpp allocates for a GGUF file */
#include "llama/llama.h"

VRAM_API vram_result vram_llama(const vram_file *f, const vram_llama_options *o, void *memory,
                                uint64_t bytes, vram_llama_report *r, vram_error *e) {
  (void)o;
  (void)memory;
  (void)bytes;
  vram__memory_zero(r, sizeof *r);
  return vram__error_begin(e, VRAM_ERR_UNSUPPORTED, 0,
                           f->format == VRAM_FILE_GGUF ? "not counted yet" : "no GGUF file");
}
