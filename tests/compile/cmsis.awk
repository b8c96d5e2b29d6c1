# Writes a C / C++ translation unit from golden/cmsis.txt: each number is checked as #if (literals)
# and as static assertion (enumerators of different enumerations).
function call(kernels, prefix, i, text) {
  text = "VRAM_CMSIS_" toupper($1) "_BYTES(" prefix kernels
  for (i = 1; i <= count[$1]; i++) text = text ", " prefix $column[$1, i]
  return text ")"
}
function takes(op, names, i, n, at, part) {
  n = split("act_bits weight_bits n h w c oh ow oc kh kw sh sw dh dw ph pw groups", part, " ")
  for (i = 1; i <= n; i++) at[part[i]] = i + 1
  count[op] = split(names, part, " ")
  for (i = 1; i <= count[op]; i++) column[op, i] = at[part[i]]
}
BEGIN {
  takes("conv2d", "act_bits weight_bits h w c kh kw sh sw dh dw ph pw groups")
  takes("depthwise_conv2d", "act_bits weight_bits n h w c oc kh kw sw dh dw ph pw")
  takes("conv_transpose2d", "act_bits weight_bits w c oc kh kw sh sw")
  takes("linear", "act_bits weight_bits oc")
  takes("avg_pool2d", "act_bits weight_bits c")
  print "/* written by cmsis.awk from golden/cmsis.txt */\n#include \"vram.h\""
}
/^#/ { next }
{
  row++
  for (i = 2; i <= 19; i++) value[$i]
  for (k = 0; k <= 5; k++) {
    bytes = k ? $(20 + k) : 0
    first[++n] = sprintf("#if !(%s == %s)\n#error \"row %d, kernels %d (#if) is not %s\"\n#endif", call(k, ""), bytes, row, k, bytes)
    second[n] = sprintf("VRAM_STATIC_ASSERT(%s == %sULL, cmsis_row_%d_kernels_%d);", call(k, "v"), bytes, row, k)
  }
  # other formats have no kernels: f32, f16, int4 activations, no weights
  for (i = 1; i <= 4; i++) {
    $2 = substr("32160408", 2 * i - 1, 2) + 0; $3 = substr("32160400", 2 * i - 1, 2) + 0
    value[$2]; value[$3]
    if ($1 != "avg_pool2d" || i < 4)
      for (k = 2; k <= 3; k++)
        if (row % 8 == 0)
          second[++n] = sprintf("VRAM_STATIC_ASSERT(%s == 0, cmsis_row_%d_format_%d_%d);", call(k, "v"), row, i, k)
  }
}
END {
  for (k = 0; k <= 5; k++) value[k]
  for (v in value) printf "enum { v%d = %d };\n", v, v
  for (i = 1; i <= n; i++) {
    if (i in first) print first[i]
    print second[i]
  }
}
