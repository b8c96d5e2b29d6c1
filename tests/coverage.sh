#!/bin/sh
# Lines and branches of vram.h that the test programs and the command reach: coverage.sh [LINES]
# With LINES, the lines that none of them reaches follow. Needs clang and its llvm-cov, llvm-profdata.
cd "$(dirname "$0")/.." || exit 1
work=build/coverage
for tool in clang llvm-cov llvm-profdata; do
  command -v $tool >/dev/null 2>&1 || { echo "SKIP coverage: no $tool"; exit 0; }
done
rm -rf $work
mkdir -p $work
LLVM_PROFILE_FILE=$PWD/$work/%p.profraw
export LLVM_PROFILE_FILE
flags="-O1 -fprofile-instr-generate -fcoverage-mapping"
echo 'int main(void) { return 0; }' >$work/probe.c
clang $flags $work/probe.c -o $work/probe 2>/dev/null || { echo "SKIP coverage: clang has no profile runtime here"; exit 0; }
${MAKE:-make} -s --no-print-directory units B=$work UCC=clang UFLAGS="$flags" || exit 1
clang -std=c99 $flags -I. tests/compile/dtype_test.c -o $work/test_dtype && $work/test_dtype >$work/test_dtype.log || exit 1
llvm-profdata merge -o $work/profile $work/*.profraw || exit 1
objects=
for log in $work/test_*.log; do objects="$objects ${objects:+-object} ${log%.log}"; done
llvm-cov show $objects -instr-profile=$work/profile -show-branches=count >$work/shown || exit 1
# every line and every outcome of a condition once, though several programs hold vram.h
awk -F'|' -v show="$1" '
  /^\/.*:$/ { on = /vram.h:$/; next }
  !on { next }
  match($0, /Branch \([0-9]+:[0-9]+\)/) {
    at = substr($0, RSTART, RLENGTH)
    if (/Folded/) next
    all[at] = 1
    if (!/True: 0,/) yes[at] = 1
    if (!/False: 0\]/) no[at] = 1
    next
  }
  $2 ~ /^ *[0-9.]+[kMG]?$/ {
    if (!($1 in line)) { lines++; line[$1] = $3 }
    if ($2 !~ /^ *0$/ && !($1 in ran)) { reached++; ran[$1] = 1 }
  }
  END {
    for (at in all) { branches += 2; taken += (at in yes) + (at in no) }
    printf "coverage of vram.h: %.1f %% of %d lines, %.1f %% of %d branches\n",
      100 * reached / lines, lines, 100 * taken / branches, branches
    if (show == "LINES") for (l in line) if (!(l in ran)) print "vram.h:" l + 0 ":" line[l] | "sort -t: -k2n"
  }' $work/shown
