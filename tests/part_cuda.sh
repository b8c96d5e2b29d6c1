# vram_cuda.h on the fake driver (tests/cuda), under sanitizers; by every compiler, with and without
# CUDA's headers: sourced by part.sh.
work=$PWD/build/cuda
rm -rf "$work"
mkdir -p "$work"
src=tests/cuda
warn="-Wall -Wextra -Wpedantic -pedantic-errors -Wconversion -Wsign-conversion -Wshadow -Wundef -Wvla
-Wcast-qual -Wredundant-decls -Wwrite-strings -Werror"

# A. the test list; here and below no more of vram.h than it uses (part link has all of it)
leave="-DVRAM_NO_MODEL -DVRAM_NO_STEP -DVRAM_NO_NET -DVRAM_NO_READ -DVRAM_NO_KV"
list="$src/test_cuda.c $src/fake.c $src/impl.c -lpthread"
runs() { # runs NAME ARGUMENT COMPILER FLAGS...
  name=$1 argument=$2 cc=$3
  shift 3
  have "$cc" || { skip "no $cc"; return; }
  if ! "$cc" -std=gnu99 -g "$@" $leave $list -o "$work/$name" >"$work/$name.log" 2>&1; then
    bad "$name does not build"
    head -15 "$work/$name.log"
    return
  fi
  "$work/$name" $argument >"$work/$name.log" 2>&1
  status=$?
  if ! tail -n 1 "$work/$name.log" | grep -q '^cuda: [0-9]* passed, [0-9]* failed$' || [ $status -gt 1 ]; then
    bad "$name crashed or was stopped by a sanitizer: status $status"
    tail -30 "$work/$name.log"
  fi
  grep -v ' passed, \| calls, ' "$work/$name.log"
  add "$work/$name.log"
}
# without optimisation: that takes longer than what runs then
runs asan "" gcc $SANITIZE -O0 -fsanitize=address,undefined
runs tsan threads gcc -O1 -fsanitize=thread
runs msan threads clang $SANITIZE -O0 -fsanitize=memory
runs clang "" clang -O2
if [ -x "$work/clang" ]; then
  "$work/clang" device >"$work/device" 2>&1
  status=$?
  if grep -q '^SKIP: ' "$work/device"; then skip "no device: $(sed -n 's/^SKIP: //p' "$work/device")"
  elif [ $status = 0 ]; then add "$work/device"
  else
    bad "on a device"
    tail -30 "$work/device"
  fi
fi

# B. compilers and standards: implementation, user
for cc in gcc clang g++ clang++; do
  have $cc || { skip "no $cc"; continue; }
  case $cc in
  *++) stds="c++11 c++17" lang="-x c++" more="-Wold-style-cast -Wzero-as-null-pointer-constant" ;;
  *) stds="c99 c11" lang= more="-Wstrict-prototypes" ;;
  esac
  cell "$cc implementation" $cc -std=${stds%% *} $warn $leave $lang -c $src/impl.c -o "$work/$cc-impl.o"
  for std in $stds; do
    cell "$cc -std=$std user" $cc -std=$std $warn $more $lang -c $src/user.c -o "$work/$cc-user.o"
  done
done
printf '#define VRAM_IMPLEMENTATION\n#define VRAM_CUDA_IMPLEMENTATION\n#include "user.c"\n' >"$work/copy.c"
gcc=gcc; have gcc || gcc=${CC:-cc}
cell "static copy" $gcc -std=c99 $warn $leave -DVRAM_STATIC -I$src -c "$work/copy.c" -o "$work/static.o"
cell "renamed copy" $gcc -std=c99 $warn $leave -DVRAM_NAMESPACE=x_ -I$src -c "$work/copy.c" -o "$work/renamed.o"
symbols() { nm -g --defined-only "$1" | awk '{ print $3 }' | grep -vx use | grep -Ev "$2" >"$work/log"; }
if symbols "$work/static.o" '^$'; then bad "VRAM_STATIC leaves global symbols"; cat "$work/log"; else ok; fi
if symbols "$work/renamed.o" '^x_vram_'; then bad "not renamed"; cat "$work/log"; else ok; fi
if symbols "$work/$gcc-impl.o" '^vram_'; then bad "symbols without vram_"; cat "$work/log"; else ok; fi
if echo '#include <cuda_runtime.h>' | CPATH= $gcc -E - >/dev/null 2>&1; then
  skip "rerouting without CUDA's headers: they are in the compiler's path"
else
  refuse "rerouting without CUDA's headers" "VRAM_CUDA_REROUTE: include cuda_runtime.h" \
    env CPATH= $gcc -std=c99 -DVRAM_CUDA_REROUTE -fsyntax-only $src/user.c
fi
cell "no NEEDED of NVIDIA's" sh -c "$gcc -std=c99 $leave $src/impl.c -shared -fPIC -o $work/lib.so -lpthread && ! readelf -d $work/lib.so | grep -i 'needed.*\(cuda\|nvidia\)'"

# C. rerouting what ordinary C and C++ does, on the fake runtime; as much of CUDA's headers as that
# needs is in include
impl=$work/$gcc-impl.o
cell "the fake runtime" $gcc -std=gnu99 -c $src/cudart.c -o "$work/cudart.o"
counted() { # counted NAME COMMAND...: it prints "counted"
  name=$1
  shift
  "$@" >"$work/log" 2>&1
  if tail -n 1 "$work/log" | grep -qx counted; then ok; else
    bad "$name, run"
    tail -5 "$work/log"
  fi
}
on_fake() { # on_fake NAME SOURCE COMPILER FLAGS...
  name=$1 source=$2 cc=$3
  shift 3
  have $cc || { skip "no $cc: $name"; return; }
  case $cc in *++) lang="-x c++" ;; *) lang= ;; esac
  cell "$name" $cc $warn $leave -isystem $src/include "$@" $lang -c $src/$source -o "$work/one.o"
  cell "$name, link" $cc "$work/one.o" "$impl" "$work/cudart.o" -o "$work/one" -lpthread -ldl
  counted "$name" "$work/one"
}
on_fake "ordinary C++" ordinary.cpp g++ -std=c++11
on_fake "ordinary C++20, CUDA's headers first" ordinary.cpp g++ -std=c++20 -O2 -DBEFORE
on_fake "ordinary C++17, clang, CUDA's headers first" ordinary.cpp clang++ -std=c++17 -DBEFORE
on_fake "a tracker of its own" reroute_own.c $gcc -std=c99 -O1
on_fake "a tracker of its own, C++" reroute_own.c clang++ -std=c++11
on_fake "adaptors" adaptors.cu g++ -std=c++11 -Wzero-as-null-pointer-constant
on_fake "adaptors, C++20" adaptors.cu clang++ -std=c++20
on_fake "ranges of NVTX" injection.c $gcc -std=c99
refuse "VRAM_STATIC and rerouting" "not VRAM_STATIC" \
  $gcc -std=c99 -DVRAM_STATIC -DVRAM_CUDA_REROUTE -isystem $src/include -fsyntax-only $src/user.c

# D. rerouting beside CUDA's headers
if have nvcc; then
  cuda=$(dirname "$(dirname "$(command -v nvcc)")")
  rerouted() { # rerouted NAME COMMAND...
    name=$1
    shift
    cell "$name" "$@" -o "$work/reroute"
    "$work/reroute" >"$work/log" 2>&1
    if [ "$(cat "$work/log")" = rerouted ]; then ok; else
      bad "$name, run"
      cat "$work/log"
    fi
  }
  libraries="-L$cuda/lib64 -L$cuda/lib -lcudart_static -lpthread -ldl -lrt -lm"
  for order in 0 1 2; do
    cell "gcc, headers $order" $gcc -std=c99 -DHEADERS=$order -DIMPLEMENTATION -I$cuda/include -fsyntax-only $src/reroute.c
    have g++ && cell "g++, headers $order" g++ -std=c++11 -DHEADERS=$order -I$cuda/include -fsyntax-only -x c++ $src/reroute.c
  done
  rerouted gcc $gcc -std=c99 $leave -DHEADERS=2 -DIMPLEMENTATION -I$cuda/include $src/reroute.c $libraries
  by_nvcc() { # by_nvcc NAME FLAGS...: with the implementation that gcc has built
    name=$1
    shift
    cell "$name, compile" nvcc $leave "$@" -Xcompiler -Wall,-Werror -x cu -c $src/reroute.c -o "$work/reroute.o"
    rerouted "$name" nvcc "$work/reroute.o" "$impl"
  }
  by_nvcc nvcc -DHEADERS=2
  by_nvcc "nvcc, streams per thread" -DHEADERS=0 --default-stream per-thread
  refuse "nvcc, with the implementation" "the implementation goes into a .c file" \
    nvcc $leave -DHEADERS=0 -DIMPLEMENTATION -x cu -c $src/reroute.c -o "$work/reroute.o"
  cell "the fake driver as a library" $gcc -std=gnu99 -shared -fPIC $src/cudart.c -o "$work/cudart.so" -lpthread
  # a shared runtime, so that the fake one comes first; thrust and CCCL are what nvcc has
  before_fake() { LD_PRELOAD="$work/cudart.so" LD_LIBRARY_PATH="$cuda/lib64:$cuda/lib" "$@"; }
  nvcc_on_fake() { # nvcc_on_fake SOURCE FLAGS...
    source=$1
    shift
    cell "nvcc $* $source" nvcc $leave "$@" -x cu -c "$src/$source" -o "$work/one.o"
    cell "nvcc $* $source, link" nvcc -cudart shared "$work/one.o" "$impl" -o "$work/one"
    counted "nvcc $* $source" before_fake "$work/one"
  }
  for std in c++17 c++20; do
    for source in ordinary.cpp kernel.cu adaptors.cu; do
      nvcc_on_fake $source -std=$std $([ $source = kernel.cu ] && echo -rdc=true)
    done
  done
  nvcc_on_fake ordinary.cpp -std=c++17 -DBEFORE
  # thrust takes long: either order of the headers with either standard, two by nvcc, two by clang
  nvcc_on_fake thrust.cu -std=c++17
  nvcc_on_fake thrust.cu -std=c++20 -DBEFORE
  [ -z "$LONG" ] || nvcc_on_fake thrust.cu -std=c++17 -DBEFORE
  have clang++ && nvcc_on_fake ordinary.cpp -std=c++17 -ccbin clang++
  if [ -e "$cuda/include/nvtx3/nvtx3.hpp" ]; then
    nvcc_on_fake nvtx.cpp -std=c++17
    cell "cuda_allocators" nvcc -std=c++17 -cudart shared $leave -o "$work/one" examples/cuda_allocators.cu "$impl"
    sed -n '/&& \.\/cuda_allocators$/,/^```cpp/p' docs/cuda.md | sed -n '/^```text$/,/^```$/p' | sed '1d;$d' >"$work/wanted"
    before_fake "$work/one" >"$work/output" 2>&1
    same "cuda_allocators, output" "$work/wanted" "$work/output"
  else skip "no NVTX"; fi
  # RMM, its logger and its CCCL as pip has them: pip install --target DIR librmm-cu13
  if [ -e "${RMM:-/none}/librmm/include/rmm/version_config.hpp" ]; then
    where="-L$RMM/librmm/lib64 -L$RMM/rapids_logger/lib64"
    cell "nvcc rmm.cu" nvcc $leave -std=c++17 -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE \
      -I"$RMM/librmm/include/rapids" -I"$RMM/librmm/include" -I"$RMM/rapids_logger/include" -c $src/rmm.cu -o "$work/one.o"
    cell "nvcc rmm.cu, link" nvcc -cudart shared "$work/one.o" "$impl" $where -lrmm -lrapids_logger -o "$work/one"
    counted "nvcc rmm.cu" env LD_PRELOAD="$work/cudart.so" \
      LD_LIBRARY_PATH="$cuda/lib64:$RMM/librmm/lib64:$RMM/rapids_logger/lib64" "$work/one"
  else skip "no RMM (RMM=the folder that pip installed librmm-cu13 into)"; fi
  # Clang compiles CUDA itself, if its version knows this toolkit's headers
  by_clang() { "$clang" -x cuda --cuda-path="$cuda" --cuda-gpu-arch=sm_80 -Wno-unknown-cuda-version -isystem "$cuda/include/cccl" "$@"; }
  echo '__global__ void k() {}' >"$work/probe.cu"
  for clang in clang++ $(seq -f clang++-%g 40 -1 15) ""; do
    have "$clang" && by_clang -c "$work/probe.cu" -o "$work/probe.o" >"$work/log" 2>&1 && break
  done
  clang_on_fake() { # clang_on_fake SOURCE FLAGS...
    source=$1 link=
    shift
    case $source in kernel.cu)
      by_clang -fgpu-rdc -c "$work/probe.cu" -o "$work/probe.o" >"$work/log" 2>&1 || {
        skip "$clang finds no llvm-offload-binary (Debian: the package llvm of its version): $source"
        return
      }
      link="-fgpu-rdc --offload-arch=sm_80" ;;
    esac
    cell "$clang $* $source" by_clang $leave ${link:+-fgpu-rdc} -Wall -Wextra "$@" -c "$src/$source" -o "$work/one.o"
    cell "$clang $* $source, link" "$clang" $link --cuda-path="$cuda" "$work/one.o" "$impl" -L"$cuda/lib64" -lcudart -lpthread -ldl -o "$work/one"
    counted "$clang $* $source" before_fake "$work/one"
  }
  if [ -n "$clang" ]; then
    for std in c++17 c++20; do
      for source in ordinary.cpp kernel.cu; do clang_on_fake $source -std=$std; done
    done
    clang_on_fake ordinary.cpp -std=c++17 -DBEFORE
    clang_on_fake thrust.cu -std=c++17 -DBEFORE
    clang_on_fake thrust.cu -std=c++20
    clang_on_fake adaptors.cu -std=c++20 # of C++17 it has seen all in part C
  else skip "no clang++ that compiles CUDA with these headers"; fi
  # the page of docs/cuda.md, literally, but for the runtime: a shared one, so that the fake driver comes first
  mkdir "$work/page"
  cp vram.h vram_cuda.h "$work/page"
  sed -n '/^```cuda /,/^```$/p' docs/cuda.md | sed '1d;$d' >"$work/page/leak.cu"
  sed -n '/^```c norun: part cuda has vram.c/,/^```$/p' docs/cuda.md | sed '1d;$d' >"$work/page/vram.c"
  build=$(sed -n 's/^\(nvcc .*\) && \.\/leak$/\1/p' docs/cuda.md)
  sed -n '/^nvcc .*leak$/,/^\*\*4/p' docs/cuda.md | sed -n '/^```text$/,/^```$/p' | sed '1d;$d' >"$work/wanted"
  cell "a leak, build" sh -c "cd $work/page && $build -cudart shared"
  (cd "$work/page" && before_fake ./leak) >"$work/output" 2>&1
  same "a leak, output" "$work/wanted" "$work/output"
  for e in cuda_leak cuda_pool cuda_checkpoint; do
    # cuda_leak has all of the library in it; the others get that of ./vram
    own="-DVRAM_IMPLEMENTATION_INCLUDED" library=build/tool/vram_impl.o
    [ $e != cuda_leak ] || own= library=
    cell "$e, nvcc" nvcc $own -o "$work/$e" examples/$e.c $library -ldl -lpthread
    cell "$e, nvcc, C++" nvcc $own -x cu -c -o "$work/$e.o" examples/$e.c
    cell "$e, nvcc, C++, link" nvcc -o "$work/$e" "$work/$e.o" $library
    cell "$e runs" "$work/$e"
  done
else skip "no nvcc: rerouting beside CUDA's headers"; fi
