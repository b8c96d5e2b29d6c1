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
llvm-cov report $objects -instr-profile=$work/profile >$work/report || exit 1
awk '$1 ~ /vram.h$/ {
  printf "coverage of vram.h: %s of %d lines, %s of %d branches, %s of %d functions\n", $10, $8, $13, $11, $7, $5
}' $work/report
if [ "$1" = LINES ]; then
  llvm-cov show $objects -instr-profile=$work/profile | awk -F'|' '
    /^[^ ].*:$/ { on = /vram.h:$/ }
    on && $2 ~ /^ *0$/ { print "vram.h:" $1 + 0 ":" $3 }'
fi
