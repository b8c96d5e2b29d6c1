/* What llama.cpp says of a file and settings (lines "FILE key=value ..."), as JSON; with MAKE:
   which tensors it asks for, of a file of keys. How it is built: llama_foreign.py. */
#include "ggml-backend.h"
#include "gguf.h"
#include "llama-ext.h"
#include "llama.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>
#ifdef MAKE
static void set(ggml_tensor *, void *) {}
static void lg(ggml_log_level l, const char *t, void *) {
  if (l >= GGML_LOG_LEVEL_ERROR)
    fputs(t, stderr);
}
int main(int, char **v) {
  llama_log_set(lg, nullptr);
  gguf_init_params p{true, nullptr};
  auto *g = gguf_init_from_file(v[1], p);
  auto mp = llama_model_default_params();
  ggml_backend_dev_t d[1] = {nullptr};
  mp.devices = d;
  mp.n_gpu_layers = 0;
  mp.no_alloc = true;
  mp.load_mtp = false;
  auto *m = llama_model_init_from_user(g, set, nullptr, mp);
  fprintf(stderr, "%s\n", m ? "made" : "failed");
  fflush(stdout);
  std::_Exit(!m);
}
#else
static std::string logtext;
static bool verbose = false;
static void logger(ggml_log_level, const char *t, void *) {
  logtext += t;
  if (verbose)
    fputs(t, stderr);
}
static ggml_type type_of(const std::string &s) {
  for (int i = 0; i < GGML_TYPE_COUNT; i++) {
    const char *n = ggml_type_name((ggml_type)i);
    if (n && s == n)
      return (ggml_type)i;
  }
  return GGML_TYPE_COUNT;
}
int main(int argc, char **argv) {
  verbose = getenv("VERBOSE") != nullptr;
  llama_log_set(logger, nullptr);
  ggml_backend_load_all();
  llama_backend_init();
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream in(line);
    std::string file, w;
    in >> file;
    std::map<std::string, std::string> set;
    while (in >> w) {
      auto e = w.find('=');
      set[w.substr(0, e)] = w.substr(e + 1);
    }
    auto num = [&](const char *k, int d) {
      auto i = set.find(k);
      return i == set.end() ? d : atoi(i->second.c_str());
    };
    logtext.clear();
    llama_model_params mp = llama_model_default_params();
    mp.no_alloc = true;
    mp.load_mode = LLAMA_LOAD_MODE_NONE;
    mp.use_extra_bufts = num("extra", 1);
    mp.load_mtp = false;
    int nd = num("devices", 0);
    std::vector<ggml_backend_dev_t> devs;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
      auto d = ggml_backend_dev_get(i);
      if (ggml_backend_dev_type(d) == GGML_BACKEND_DEVICE_TYPE_GPU && (int)devs.size() < nd)
        devs.push_back(d);
    }
    devs.push_back(nullptr);
    mp.devices = devs.data();
    mp.n_gpu_layers = nd ? num("ngl", -1) : 0;
    float ts[128] = {0};
    if (set.count("ts")) {
      std::istringstream t(set["ts"]);
      std::string p;
      int n = 0;
      while (std::getline(t, p, ','))
        ts[n++] = atof(p.c_str());
      mp.tensor_split = ts;
    }
    mp.main_gpu = num("main", 0);
    mp.split_mode = num("split", 0) ? LLAMA_SPLIT_MODE_NONE : LLAMA_SPLIT_MODE_LAYER;
    std::vector<std::string> patterns; /* common/arg.cpp: --n-cpu-moe, --override-tensor */
    for (int i = 0; i < num("ncmoe", 0); i++)
      patterns.push_back("blk\\." + std::to_string(i) +
                         "\\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU");
    if (set.count("ot"))
      patterns.push_back(set["ot"]);
    std::vector<llama_model_tensor_buft_override> over;
    for (auto &x : patterns) {
      auto e = x.rfind('=');
      std::string to = x.substr(e + 1);
      x.resize(e);
      over.push_back({x.c_str(), to == "CPU" ? ggml_backend_cpu_buffer_type()
                                             : ggml_backend_dev_buffer_type(
                                                   devs[atoi(to.c_str() + 4)])});
    }
    over.push_back({nullptr, nullptr});
    if (!patterns.empty())
      mp.tensor_buft_overrides = over.data();
    printf("{\"line\":\"%s\"", line.c_str());
    llama_model *m = llama_model_load_from_file(file.c_str(), mp);
    llama_context *c = nullptr;
    if (m) {
      llama_context_params cp = llama_context_default_params();
      cp.n_ctx = num("ctx", 0);
      cp.n_batch = num("batch", 2048);
      cp.n_ubatch = num("ubatch", 512);
      cp.n_seq_max = num("seq", 1);
      cp.n_outputs_max = num("outputs", 0);
      cp.kv_unified = num("unified", 0);
      cp.swa_full = num("swa_full", 0);
      cp.offload_kqv = num("kqv", 1);
      cp.embeddings = num("emb", 0);
      cp.pooling_type = (enum llama_pooling_type)num("pooling", -1);
      cp.flash_attn_type = set.count("fa") ? (num("fa", 0) ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                                                           : LLAMA_FLASH_ATTN_TYPE_DISABLED)
                                           : LLAMA_FLASH_ATTN_TYPE_AUTO;
      if (set.count("k"))
        cp.type_k = type_of(set["k"]);
      if (set.count("v"))
        cp.type_v = type_of(set["v"]);
      try {
        c = llama_init_from_model(m, cp);
      } catch (...) {
      }
    }
    if (!c) {
      std::string e;
      auto p = logtext.rfind("rror");
      if (p == std::string::npos)
        p = logtext.size() > 300 ? logtext.size() - 300 : 0;
      e = logtext.substr(p, 300);
      for (auto &x : e)
        if (x == '"' || x == '\n' || x == '\\')
          x = ' ';
      printf(",\"error\":\"%s\"", e.c_str());
    } else {
      printf(",\"n_ctx\":%u,\"buffers\":{", llama_n_ctx(c));
      bool first = true;
      for (auto &[b, d] : llama_get_memory_breakdown(c)) {
        if (!d.total())
          continue;
        printf("%s\"%s\":[%zu,%zu,%zu]", first ? "" : ",", ggml_backend_buft_name(b), d.model,
               d.context, d.compute);
        first = false;
      }
      printf("}");
      std::istringstream t(logtext);
      std::string l;
      std::string kv;
      while (std::getline(t, l)) {
        auto p = l.find("output buffer size =");
        if (p != std::string::npos)
          printf(",\"output_mib\":%.2f", atof(l.c_str() + p + 20));
        unsigned cells, layers, seqs, str;
        double mib, km, vm;
        char kt[32], vt[32];
        p = l.find("size =");
        if (p != std::string::npos && l.find("llama_kv_cache") != std::string::npos &&
            sscanf(l.c_str() + p,
                   "size = %lf MiB ( %u cells, %u layers, %u/%u seqs), K (%31[^)]): %lf MiB, V "
                   "(%31[^)]): %lf",
                   &mib, &cells, &layers, &seqs, &str, kt, &km, vt, &vm) == 9) {
          char o[256];
          snprintf(o, 256, "%s[%u,%u,%u,\"%s\",%.2f,\"%s\",%.2f]", kv.empty() ? "" : ",", cells,
                   layers, str, kt, km, vt, vm);
          kv += o;
        }
        p = l.find("llama_memory_recurrent: size =");
        double r, s;
        if (p != std::string::npos) {
          auto q = l.find("R (f32):");
          if (q != std::string::npos &&
              sscanf(l.c_str() + q, "R (f32): %lf MiB, S (f32): %lf", &r, &s) == 2)
            printf(",\"rs_mib\":[%.2f,%.2f]", r, s);
        }
        p = l.find("Flash Attention was auto, set to ");
        if (p != std::string::npos)
          printf(",\"fa\":\"%s\"", l.substr(p + 33).c_str());
        else {
          p = l.find("Flash Attention not supported, set to disabled");
          if (p != std::string::npos)
            printf(",\"fa\":\"disabled\"");
        }
      }
      if (!kv.empty())
        printf(",\"kv\":[%s]", kv.c_str());
      llama_free(c);
    }
    if (m)
      llama_model_free(m);
    printf("}\n");
    fflush(stdout);
  }
}
#endif
