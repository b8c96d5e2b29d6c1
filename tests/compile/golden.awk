# Writes a C / C++ translation unit from golden.txt. Each row is checked as #if, static assertion,
# array size, enumerator, case label and run-time value.
BEGIN {
  print "/* written by golden.awk from golden.txt */"
  print "#include \"vram.h\""
  print "int golden_failures(void);"
}
/^#/ || /^[ \t]*$/ { next }
{
  hash = index($0, " # ")
  line = substr($0, 1, hash - 1)
  at = 0
  while ((step = index(substr(line, at + 1), " = ")) > 0) at += step + 2
  expr = substr(line, 1, at - 3)
  value = substr(line, at + 1) + 0 == 0 ? "0" : substr(line, at + 1)
  i++
  small = length(value) < 5 || (length(value) == 5 && value <= 30000)
  printf "#if !((%s) == %sULL)\n#error \"golden row %d (#if) is not %s\"\n#endif\n", expr, value, i, value
  printf "VRAM_STATIC_ASSERT((%s) == %sULL, golden_row_%d);\n", expr, value, i
  if (small && value != "0")
    printf "struct golden_array_%d { char a[%s]; };\nVRAM_STATIC_ASSERT(sizeof(struct golden_array_%d) == %sU, golden_array_row_%d);\n", i, expr, i, value, i
  else
    printf "struct golden_array_%d { char a[(%s) == %sULL ? 1 : -1]; };\n", i, expr, value
  if (small)
    printf "enum { golden_enum_%d = %s };\nVRAM_STATIC_ASSERT(golden_enum_%d == %s, golden_enum_row_%d);\n", i, expr, i, value, i
  else
    printf "enum { golden_enum_%d = 1 / ((%s) == %sULL ? 1 : 0) };\n", i, expr, value
  printf "static int golden_case_%d(unsigned long long v) { switch (v) { case %s: return 0; default: return 1; } }\n", i, expr
  run[i] = sprintf("  v = %sULL; failures += golden_case_%d(v); u = %s; failures += u != v;", value, i, expr)
}
END {
  print "int golden_failures(void) {\n  int failures = 0;\n  volatile unsigned long long v, u;"
  for (j = 1; j <= i; j++) print run[j]
  print "  return failures;\n}"
  print "#ifdef GOLDEN_MAIN\n#include <stdio.h>\nint main(void) {"
  printf "  int f = golden_failures();\n  printf(\"golden: %d rows, %%d failures\\n\", f);\n  return f != 0;\n}\n#endif\n", i
}
