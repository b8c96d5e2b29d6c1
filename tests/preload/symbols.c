/* Names of functions without their parameters, as c++filt and DWARF have them; texts are kept once.
 */
#include "../../tools/vram_symbols.c"

int main(void) {
  static const char *const names[][2] = {
      {"f(int)", "f"},
      {"a::f(void (*)(int), b<(c)1>) const", "a::f"},
      {"f(int) [clone .cold]", "f"},
      {"a::operator()(int) const &", "a::operator()"},
      {"a::operator()", "a::operator()"},
      {"operator()", "operator()"},
      {"(anonymous namespace)::f(int)", "(anonymous namespace)::f"},
      {"(anonymous namespace)::f", "(anonymous namespace)::f"},
      {"foo<(Bar)3>", "foo<(Bar)3>"},
      {"foo<(Bar)3>(int)", "foo<(Bar)3>"},
      {"c10::X<(c10::DeviceType)1>::alloc", "c10::X<(c10::DeviceType)1>::alloc"},
      {"f(int)::{lambda(auto:1)#1}", "f(int)::{lambda(auto:1)#1}"},
      {"f(int)::bar", "f(int)::bar"},
      {"void f(int)::bar<int>(int)", "void f(int)::bar<int>"}};
  char text[128];
  size_t i;
  int bad = 0;
  for (i = 0; i < sizeof names / sizeof *names; i++) {
    strcpy(text, names[i][0]);
    symbols_shorten(text);
    if (strcmp(text, names[i][1]) != 0)
      bad = printf("%s: %s, not %s\n", names[i][0], text, names[i][1]);
  }
  strcpy(text, "/build/tmpxft_00002370_00000000-6_my_net.cudafe1.cpp");
  if (strcmp(symbols_file(text), "my_net.cu") != 0)
    bad = printf("the file that nvcc made of my_net.cu is not it\n");
  strcpy(text, "a name");
  if (symbols_keep(text) != symbols_keep("a name") || symbols_keep(text) == symbols_keep("another"))
    bad = printf("texts are not kept once\n");
  return bad != 0;
}
