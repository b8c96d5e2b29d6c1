# What an inference of a model needs, counted from its text and the shapes of `vram estimate --csv`,
# with no part of vram's lines: parameters, multiply-accumulates, the most bytes of fp32 values that
# live at one time. Usage: awk -f emit.awk shapes.csv model.vram (no loops; INPUT: its first shape)
# Rules: values are rounded up to 16 bytes; views take none; what works element by element, norms
# and softmax overwrite an input that nothing reads later; of two inputs only if nothing reads
# either later.
function numel(shape, n, i, part) {
  n = split(shape, part, ",")
  for (i = 1; i <= n; i++) total = i == 1 ? part[1] : total * part[i]
  return n ? total : 1
}
function dimension(shape, i, part) { split(shape, part, ","); return part[i] }
function is(list) { return index(" " list " ", " " op " ") > 0 }
function key(name, else_, at) {
  for (at = 2; at <= NF; at++)
    if (index($at, name "=") == 1) return substr($at, length(name) + 2)
  return else_
}
function area(k, part) { return split(k, part, ",") == 2 ? part[1] * part[2] : two ? k * k : k }
function real(v) { while (v in now) v = now[v]; return v }
FNR == 1 { file++ }
file == 1 {
  if (FNR == 1 || /",none,/) next # the heading, what inference leaves out
  name = $0; sub(/,.*/, "", name)
  s = $0; sub(/^[^[]*\[/, "", s); sub(/\].*/, "", s)
  shape[name] = s
  p = $0; sub(/.*\]",[^,]*,/, "", p); sub(/,.*/, "", p)
  own[name] = p
  next
}
{ sub(/#.*/, "") }
!NF { next }
$1 == "input" {
  if (!("x" in given)) { given["x"] = $2; shape[$2] = INPUT; storage[$2] = $2 }
  next
}
$1 == "output" || $1 == "infer" { # the second one, which stands behind, says what inference gives
  split("", out)
  for (i = 2; i <= NF; i++) out[real($i)] = 1
  named = 1
  next
}
$1 == "parameter" || $1 == "buffer" { constant[$2] = 1; params += own[$2]; next }
$1 == "model" || $1 == "dim" || $1 == "drop" { next }
{
  op = $1; y = $2; sub(/,.*/, "", y)
  inputs = 0
  for (i = 3; i <= NF && index($i, "=") == 0; i++)
    if (!($i in constant)) x[++inputs] = real($i); else weight = $i
  if (!inputs) { constant[y] = 1; next }
  if (is("cross_entropy nll_loss mse_loss") || ((is("sum mean")) && shape[y] == "")) {
    loss[y] = x[1]
    next
  }
  if (is("dropout detach contiguous clone view reshape flatten squeeze unsqueeze permute transpose")) {
    now[y] = x[1] # the same storage, whoever reads it
    if (!(y in shape)) shape[y] = shape[x[1]]
    if (op != "dropout") looks[x[1]] = shape[y]
    last = y
    next
  }
  if (!(y in shape)) next # inference leaves it out
  count++
  what[count] = op; made[count] = y; reads[count] = inputs
  for (i = 1; i <= inputs; i++) { from[count, i] = x[i]; readers[x[i]]++ }
  fixed[count] = i > 3 && inputs == 1 && is("add mul") && NF > 3 && index($0, "scalar=") == 0
  two = op ~ /2d/
  params += own[y]
  if (op == "batch_norm") {
    c = dimension(shape[y], 2)
    params += 2 * c
    folded -= 4 * c # of what it has
    if (plain[x[1]] != "") fold[count] = x[1]
  }
  if (is("conv1d conv2d linear conv_transpose2d")) plain[y] = key("bias", 1) + 0 ? 0 : dimension(shape[y], 2)
  if (is("conv1d conv2d"))
    macs += numel(shape[y]) * dimension(shape[x[1]], 2) / key("groups", 1) * area(key("kernel_size"))
  else if (op == "conv_transpose2d")
    macs += numel(shape[x[1]]) * dimension(shape[y], 2) * area(key("kernel_size"))
  else if (op == "linear") {
    s = x[1] in looks ? looks[x[1]] : shape[x[1]]
    m = split(s, part, ",")
    macs += numel(shape[y]) * part[m]
  }
  if (key("inplace", 0) + 0 == 1) now[x[1]] = y
  last = y
}
END {
  if (!named) out[last in loss ? loss[last] : real(last)] = 1
  for (v in out) if (v in loss) { delete out[v]; out[real(loss[v])] = 1 }
  for (i = 1; i <= count; i++)
    for (k = 1; k <= reads[i]; k++) until[from[i, k]] = i
  for (v in out) until[v] = count + 1
  for (i in fold)
    if (readers[fold[i]] == 1 && !(fold[i] in out)) { extra += plain[fold[i]]; less += 4 * dimension(shape[made[i]], 2) }
  input = given["x"]
  live[input] = bytes(input); sum = peak = live[input]
  for (i = 1; i <= count; i++) {
    op = what[i]; y = made[i]; over = ""
    stays = 0
    for (k = 1; k <= reads[i]; k++) if (until[from[i, k]] > i) stays++
    if (!stays && (is("relu relu6 hardtanh hardswish hardsigmoid sigmoid tanh silu gelu elu leaky_relu softmax log_softmax batch_norm layer_norm rms_norm") || (is("add mul sub div") && !fixed[i])))
      for (k = 1; k <= reads[i]; k++)
        if (over == "" && numel(shape[from[i, k]]) == numel(shape[y])) over = from[i, k]
    if (over != "") { live[y] = live[over]; delete live[over] }
    else { live[y] = bytes(y); sum += live[y] }
    if (sum > peak) peak = sum
    for (k = 1; k <= reads[i]; k++) {
      v = from[i, k]
      if (until[v] <= i && v in live) { sum -= live[v]; delete live[v] }
    }
  }
  printf "%.0f %.0f %.0f %.0f\n", params, params + extra - less, macs, peak
}
function bytes(v) { return int((numel(shape[v]) * 4 + 15) / 16) * 16 }
