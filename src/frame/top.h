/* vram.h - v0.3 - bytes of neural networks: at compile time, before a run and during it
   public domain or MIT-0, at your choice: see the end of this file

   Do this:
     #define VRAM_IMPLEMENTATION
   before you include this file in *one* C or C++ file, to create the implementation.

   A model in the text form, and what a step of it takes (memory is the caller's, nothing else is
   allocated; there is no global state, so any thread may call on its own graph):
     vram_graph g;
     vram_report r;
     vram_error e;
     vram_step_options o = VRAM_ZERO_INIT;
     uint64_t n = vram_graph_parse_bytes(text, len, NULL, 0);
     vram_graph_init(&g, malloc(n), n);
     if (vram_graph_parse(&g, text, len, NULL, 0, &e)) ...        e.line, e.column, e.text
     o.train = 1;
     n = vram_step_bytes(&g, &o);
     if (vram_step(&g, &o, malloc(n), n, &r, &e)) ...       e.text
     r.params_bytes, r.saved_bytes, r.peak_requested_bytes, ...

   Before the first include:
     VRAM_STATIC          the implementation is private to this file
     VRAM_NAMESPACE x_    vram_graph_parse is linked as x_vram_graph_parse, and so on
     VRAM_MACROS_ONLY     nothing but >>ct
     VRAM_ASSERT(x)       where the library checks its own results, for tests of it (assert):
                          every plan is verified before it is given out. Usually nothing
     VRAM_NO_MODEL, VRAM_NO_STEP, VRAM_NO_PLAN, VRAM_NO_NET, VRAM_NO_WRITE, VRAM_NO_KV, VRAM_NO_READ
                          leave a part out, declarations and all, and what needs it: without a
                          model there is no step, without plans no >>net, without >>kv no >>read

   Contents (search for the tags; the declarations, in this order)
     >>ct        compile-time arithmetic: macros, no implementation needed
     >>types     results, errors, limits
     >>dtype     stored types
     >>version   the versions of PyTorch that there are rules for
     >>op        the table of ops: one row each
     >>graph     a model: built by calls or read from the text form
     >>optim     the table of optimizers: one row each
     >>event     an allocation, predicted or observed
     >>ledger    what counts events
     >>pool      a caching allocator
     >>parallel  one rank of many: how a model is spread
     >>step      one step as a stream of events, and the report
     >>solve     the largest value of a dim that fits a budget
     >>advise    what to change so that a step takes less
     >>message   messages on too little memory, and their cause
     >>arena     offsets for buffers whose lifetimes are known
     >>schedule  a chain of stages: what to compute again, to stay within a budget
     >>runner    a schedule in one arena, run with the caller's functions
     >>net       a network for a microcontroller, line by line, at run time
     >>writer    steps and ledgers as pictures, files and text
     >>kv        caches of keys and values, states
     >>serve     the budgets of serving engines
     >>read      files of models: GGUF, safetensors, config.json, ONNX, TFLite, .pte
     >>llama     what llama.cpp allocates
     >>convert   files with a graph as the text form: ONNX, TFLite
     >>tflm      what TensorFlow Lite Micro allocates
   Behind them the implementation, made from files in folders; each begins with its own tag:
   >>core/ >>alloc/ >>model/ >>torch/ >>ops/ >>step/ >>parallel/ >>plan/ >>net/ >>write/ >>kv/
   >>read/ >>llama/ >>convert/ >>tflm/ >>advise/ and the file's name (>>alloc/pool, >>step/replay).
*/
#ifndef VRAM_H_INCLUDED
#define VRAM_H_INCLUDED

/* A mistake in a line of a network is one message of GCC's, without what stands in this header;
   VRAM_WARNINGS: with all, for tests of it. */
#if defined(VRAM_MACROS_ONLY) && defined(__GNUC__) && !defined(VRAM_WARNINGS)
#pragma GCC system_header
#endif
#ifdef __clang__ /* whose -Weverything finds these in every header */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wunknown-warning-option"
#pragma clang diagnostic ignored "-Wpadded"
#pragma clang diagnostic ignored "-Wreserved-macro-identifier"
#endif

#define VRAM_VERSION "0.3.0"
