#include "ggml.h"
#include "gguf.h"
#include <cstdio>
#include <cstring>
#include <string>
/* As verdict.c, by ggml itself: g++ -I GGML/include ggml_verdict.cpp, with the objects of
 * ggml-base. */
static std::string last;
int main() {
  ggml_log_set([](ggml_log_level, const char *t, void *) { last += t; }, nullptr);
  char line[4096];
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    last.clear();
    gguf_init_params p = {true, nullptr};
    gguf_context *c = gguf_init_from_file(line, p);
    if (c) {
      printf("ok %u %lld %lld %zu %zu\n", gguf_get_version(c), (long long)gguf_get_n_kv(c),
             (long long)gguf_get_n_tensors(c), gguf_get_alignment(c), gguf_get_data_offset(c));
      gguf_free(c);
    } else {
      for (char &k : last)
        if (k == '\n')
          k = ' ';
      printf("bad %s\n", last.c_str());
    }
    fflush(stdout);
  }
}
