/* A prefix for every function, so that copies of different versions live in one program: with
     #define VRAM_NAMESPACE mylib_
   before every include, vram_graph_parse is written as ever and linked as mylib_vram_graph_parse. A
   macro renames only what follows it, so this stands before the declarations; the list is made from
   them. */
