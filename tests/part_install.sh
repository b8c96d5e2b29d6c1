# make dist, make install, a project that uses what is installed, manual page, shell completion:
# sourced by part.sh.
work=$PWD/build/install
rm -rf "$work"
mkdir -p "$work"
version=$(sed -n 's/^#define VRAM_VERSION "\(.*\)"$/\1/p' vram.h)

# A. make dist: the tracked files, twice the same bytes; it builds and passes its tests
if have git && [ -e .git ]; then
  git diff --quiet HEAD || echo "the tarball is the last commit: changes since then are not in it"
  for i in 1 2; do
    cell "make dist" "$MAKE" -s dist
    mv "vram-$version.tar.gz" "$work/$i.tar.gz"
    [ $i = 1 ] && sleep 1.1
  done
  same "make dist twice" "$work/1.tar.gz" "$work/2.tar.gz"
  (cd "$work" && tar xzf 1.tar.gz)
  git ls-tree -r --name-only HEAD | sort >"$work/tracked"
  (cd "$work/vram-$version" && find . -type f | sed 's:^\./::') | sort >"$work/packed"
  same "the tarball has the tracked files" "$work/tracked" "$work/packed"
else
  skip "no git repository: make dist"
  mkdir "$work/vram-$version"
  find . -type f ! -path './build/*' ! -path ./vram | tar cf - -T - | tar xf - -C "$work/vram-$version"
fi
tree=$work/vram-$version
GIT_CEILING_DIRECTORIES=$work
export GIT_CEILING_DIRECTORIES
# as the tree itself was built, but for time
in_tree() { "$MAKE" -s --no-print-directory -C "$tree" CFLAGS=-O0 "$@"; }
cell "the tarball builds" in_tree vram
# its files are those that the other parts test; here without git and without measured data
in_tree_parts() { in_tree $(printf 'part-%s ' "$@") && (cd "$tree" && sh tests/sum.sh "$@"); }
if [ -n "$LONG" ]; then cell "the tarball passes make check" in_tree check
else cell "the tarball passes its tests of vram fit" in_tree_parts fit; fi
refuse "make dist without git" "needs the git repository" in_tree dist

# B. what make install writes: below DESTDIR, with the right modes, nothing in the tree
cat >"$work/expected" <<EOF
bin/vram
bin/vram-checkpoint
bin/vram-export
bin/vram-measure
include/vram.h
include/vram_cuda.h
lib/libvram.a
lib/vram/libvram_preload.so
share/bash-completion/completions/vram
share/bash-completion/completions/vram-checkpoint
share/bash-completion/completions/vram-export
share/bash-completion/completions/vram-measure
share/cmake/vram/vramConfig.cmake
share/cmake/vram/vramConfigVersion.cmake
share/doc/vram/CHANGELOG.md
share/doc/vram/CONTRIBUTING.md
share/doc/vram/LICENSE
share/doc/vram/README.md
$(ls docs/*.md examples/*.* | sed 's:^:share/doc/vram/:')
$(awk -f tests/links.awk *.md docs/*.md | sed -n -e 's/#.*//' -e 's/^link [^ ]* //p' | sort -u | grep -v -e '^docs/' -e '^[A-Z]*\.md$' -e '^LICENSE$' -e '^examples/[^/]*$' | sed 's:^:share/doc/vram/:')
share/fish/vendor_completions.d/vram-checkpoint.fish
share/fish/vendor_completions.d/vram-export.fish
share/fish/vendor_completions.d/vram-measure.fish
share/fish/vendor_completions.d/vram.fish
$(ls tools/install/*.1 build/man/*.1 | sed 's:.*/:share/man/man1/:' | sort)
share/man/man7/vram-parallel.7
share/pkgconfig/vram.pc
$(ls tools/checkpoint_torch.py tools/export_*.py tools/measure_torch.py | grep -v _zoo | sed 's:^tools/:share/vram/:' | sort)
share/zsh/site-functions/_vram
EOF
stage="$work/a stage"
touch "$work/before"
sh=$(command -v dash || echo /bin/sh)
staged() { (umask 077 && in_tree -j8 "$@" DESTDIR="$stage" PREFIX="/opt/R&D tools" SHELL="$sh"); }
cell "make -n install" staged -n install
if [ ! -e "$stage" ]; then ok; else bad "make -n install writes"; fi
cell "make install" staged install
(cd "$stage/opt/R&D tools" && find . -type f | sed 's:^\./::') | sort >"$work/found"
same "installed files" "$work/expected" "$work/found"
find "$stage" -type f | grep -v '/opt/R&D tools/' >"$work/found"
same "nothing outside PREFIX" /dev/null "$work/found"
find "$stage" -type f ! -path '*/bin/*' ! -perm 644 >"$work/found"
find "$stage/opt/R&D tools" -type d ! -perm 755 >>"$work/found"
find "$stage" -path '*/bin/*' ! -perm 755 >>"$work/found"
same "modes" /dev/null "$work/found"
find "$tree" -newer "$work/before" >"$work/found"
same "make install leaves the tree alone" /dev/null "$work/found"
find "$stage" -type f ! -path '*/bin/vram' ! -path '*/lib/*' -exec grep -l '@[A-Z]*@' {} + >"$work/found"
same "every @NAME@ is filled in" /dev/null "$work/found"
(cd "$stage/opt/R&D tools/share/doc/vram" && awk -f "$tree/tests/links.awk" *.md docs/*.md |
  sed -n -e 's/#.*//' -e 's/^link //p' | while read -r place target; do
  [ -e "$target" ] || echo "$place $target"; done) >"$work/found"
same "links (>) of installed documents to what is not installed" /dev/null "$work/found"
cell "make uninstall" staged uninstall
cell "make uninstall once more" staged uninstall
find "$stage" -type f -o -type d -name vram >"$work/found"
same "make uninstall leaves no file" /dev/null "$work/found"
refuse "a PREFIX that is no absolute path" "PREFIX=usr" in_tree install PREFIX=usr
refuse "a PREFIX with a bar" "PREFIX has one of" in_tree install "PREFIX=$work/a|b"

# C. an outside project, built against what is installed
echo "vram $version: parameters 31400, gradients 31400, optimizer 62800" >"$work/figures"
runs() { # runs NAME PROGRAM
  "$2" >"$work/output" 2>&1
  same "$1" "$work/figures" "$work/output"
}
strict="-Wall -Wextra -Wpedantic -Werror"
consumer=tests/consumer
by_pkg_config() { # by_pkg_config NAME OPTIONS...
  name=$1
  shift
  have pkg-config || { skip "no pkg-config: $name"; return; }
  flags=$(pkg-config "$@" --cflags vram) || { bad "$name: pkg-config"; return; }
  libs=$(pkg-config "$@" --libs vram)
  for language in c c++; do
    case $language in
    c) compile="${CC:-cc} -std=c99" source=main.c ;;
    c++) compile="g++ -std=c++11" source=main.cc ;;
    esac
    have "${compile%% *}" || { skip "no ${compile%% *}: $name"; continue; }
    # pkg-config quotes for the shell
    eval "set -- $flags"
    cell "$name, $language" $compile $strict "$@" $consumer/$source -c -o "$work/main.o"
    # the implementation in C is that of the program in C++, too, and of what is installed elsewhere
    [ -e "$work/vram.o" ] || cell "$name, $language" $compile $strict "$@" $consumer/vram.c -c -o "$work/vram.o"
    cell "$name, $language, link" ${compile%% *} "$work/main.o" "$work/vram.o" -o "$work/program"
    runs "$name, $language, run" "$work/program"
    eval "set -- $libs"
    cell "$name, $language, libvram.a" ${compile%% *} "$work/main.o" "$@" -o "$work/program"
    runs "$name, $language, libvram.a, run" "$work/program"
    set --
  done
}
# in the place of the compiler: vram.c, the same in all, is compiled by the first project, and a copy in the others
cat >"$work/keep" <<END
#!/bin/sh
before=
for word; do
  case \$before\$word in -o*/vram.c.o)
    if [ -e "$work/kept.o" ]; then exec cp "$work/kept.o" "\$word"; fi
    "\$@" && exec cp "\$word" "$work/kept.o"
    exit 1 ;;
  esac
  before=\$word
done
exec "\$@"
END
chmod +x "$work/keep"
by_cmake() { # by_cmake NAME OPTIONS...
  name=$1
  shift
  have cmake || { skip "no cmake: $name"; return; }
  rm -rf "$work/cmake"
  cell "$name" cmake -S $consumer -B "$work/cmake" "-DCMAKE_C_COMPILER_LAUNCHER=$work/keep" "$@"
  cell "$name, build" cmake --build "$work/cmake"
  runs "$name, c" "$work/cmake/consumer-c"
  runs "$name, c++" "$work/cmake/consumer-cxx"
  case " $* " in *" -DVIA="*) return ;; esac
  runs "$name, vram::static" "$work/cmake/consumer-static"
  runs "$name, vram::static in a library" "$work/cmake/consumer-shared"
}
all_ways() { # all_ways NAME PREFIX PKG_CONFIG_OPTIONS...
  tree_name=$1 prefix=$2
  shift 2
  PKG_CONFIG_PATH=$prefix/share/pkgconfig
  export PKG_CONFIG_PATH
  by_pkg_config "$tree_name: pkg-config" "$@"
  by_cmake "$tree_name: find_package" "-DCMAKE_PREFIX_PATH=$prefix" -DWANTED=${version%.*}
  unset PKG_CONFIG_PATH
}
cell "install to a prefix" in_tree install PREFIX="$work/a prefix"
all_ways installed "$work/a prefix"
if have cmake && have pkg-config; then
  export PKG_CONFIG_PATH="$work/a prefix/share/pkgconfig"
  by_cmake "CMake with pkg-config" -DVIA=pkg-config
  pkg-config --modversion vram >"$work/found"
  echo "$version" >"$work/version"
  same "pkg-config --modversion" "$work/version" "$work/found"
  unset PKG_CONFIG_PATH
fi
"$work/a prefix/bin/vram" --version >"$work/found"
echo "vram $version" >"$work/version"
same "vram --version" "$work/version" "$work/found"
if have cmake; then
  minor=${version#*.} minor=${minor%%.*} major=${version%%.*}
  wanted() { rm -rf "$work/cmake" && cmake -S $consumer -B "$work/cmake" "-DCMAKE_PREFIX_PATH=$work/a prefix" "-DWANTED=$1"; }
  cell "the exact version" wanted "$version;EXACT"
  cell "a range of versions" wanted "$version...$major.$((minor + 1))"
  for v in $major.$((minor + 1)) $((major + 1)).0 $version.1 "$major.$((minor + 1))...$((major + 1))"; do
    refuse "version $v" "requested version" wanted "$v"
  done
fi
grep -m1 '^/\* vram.* - v' "$work/a prefix/include/vram.h" "$work/a prefix/include/vram_cuda.h" | sed 's/.* - v\([0-9.]*\) - .*/\1/' >"$work/found"
printf '%s\n' "${version%.*}" "${version%.*}" >"$work/version"
same "the headers' first lines name the version" "$work/version" "$work/found"
if have clang++; then
  echo '#include <vram.h>' >"$work/all.cc"
  cell "clang -Weverything" clang++ -std=c++11 -Weverything -Wno-c++98-compat -Wno-c++98-compat-pedantic -Werror \
    "-I$work/a prefix/include" -fsyntax-only "$work/all.cc"
else skip "no clang++: -Weverything"; fi
mkdir "$work/else"
mv "$work/a prefix" "$work/else/where"
all_ways moved "$work/else/where" --define-prefix
# the way from PyTorch: with the command and the files that were installed, through a link, too
if have python3; then
  ln -s "$work/else/where/bin/vram-measure" "$work/measure"
  env -u VRAM "$work/measure" --measured tests/measured/small.json >"$work/found" 2>&1
  cell "vram-measure" grep 'backward: all 26 allocations equal in order' "$work/found"
  cat >"$work/imports.py" <<'EOF'
import ast, pathlib, sys

found = {p.stem: ast.parse(p.read_text()) for p in pathlib.Path(sys.argv[1]).glob("*.py")}
wanted = {n.module if isinstance(n, ast.ImportFrom) else a.name for t in found.values() for n in ast.walk(t)
          if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
missing = {w for w in wanted if w.startswith(("export_", "measure_"))} - set(found)
sys.exit(f"not installed: {missing}" if missing or "export_torch" not in found else 0)
EOF
  cell "all that the exporter imports is installed" python3 "$work/imports.py" "$work/else/where/share/vram"
  python=${PYTHON:-python3}
  if "$python" -c 'import torch' 2>/dev/null; then
    cell "vram-export" env -u VRAM "$python" "$work/else/where/bin/vram-export" tests/measured/small.py:small -o "$work/small.vram"
    cell "what vram-export writes" "$work/else/where/bin/vram" estimate "$work/small.vram" --train adamw
  else
    skip "$python has no torch (PYTHON names one that has)"
    refuse "vram-export without PyTorch" '^vram-export: needs PyTorch: pip install torch' \
      "$python" "$work/else/where/bin/vram-export" torchvision:resnet18
  fi
else skip "no python3: vram-export, vram-measure"; fi
cell "install with INCLUDEDIR elsewhere" in_tree install PREFIX="$work/c" INCLUDEDIR="$work/include of all"
all_ways "INCLUDEDIR elsewhere" "$work/c"
if have pkg-config; then
  cell "install for a package" in_tree install DESTDIR="$work/sysroot" PREFIX=/usr
  export PKG_CONFIG_SYSROOT_DIR="$work/sysroot" PKG_CONFIG_LIBDIR="$work/sysroot/usr/share/pkgconfig"
  export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
  by_pkg_config "below a sysroot: pkg-config"
  unset PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_LIBDIR PKG_CONFIG_ALLOW_SYSTEM_CFLAGS PKG_CONFIG_ALLOW_SYSTEM_LIBS
fi
if have i686-linux-gnu-gcc; then
  rm "$tree/vram"
  cell "install for another machine" in_tree install CC=i686-linux-gnu-gcc PREFIX="$work/i686"
  if [ "$(od -An -tu1 -j18 -N1 "$work/i686/bin/vram" | tr -d ' ')" = 3 ]; then ok; else
    bad "the command is not of the other machine"
  fi
else skip "no i686-linux-gnu-gcc: install for another machine"; fi

# D. the manual pages: no warning; those of the commands say what their help says, word for word, and
# the page of vram has the commands and the keys of the JSON, no more, no less
page=tools/install/vram.1
for f in tools/install/*.1 build/man/*; do
  if have mandoc; then
    mandoc -T lint -W style $f 2>&1 | grep -v 'referenced manual not found' >"$work/found"
    same "mandoc -T lint $f" /dev/null "$work/found"
  else skip "no mandoc"; fi
  if have groff; then
    groff -mandoc -ww -Tascii $f 2>&1 >/dev/null | cat >"$work/found"
    same "groff -ww $f" /dev/null "$work/found"
  else skip "no groff"; fi
done
# what is installed of Python says its version, its options are in its page: without PyTorch
if have python3; then
  for t in export measure checkpoint; do
    tool=$work/else/where/bin/vram-$t
    if [ "$("$tool" --version)" = "vram-$t $version" ]; then ok; else bad "vram-$t --version"; fi
    "$tool" -h | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | sort -u >"$work/help"
    grep '^\.\(It \)\{0,1\}Fl ' tools/install/vram-$t.1 | tr ' ' '\n' | sed -n 's/^-[a-z]/-&/p' | grep -v version | sort -u >"$work/found"
    same "options of vram-$t -h (<) and its page (>)" "$work/help" "$work/found"
  done
fi
commands=$(./vram -h | sed -n 's/^  vram \([a-z]*\) .*/\1/p')
words() { tr -s ' \t:|-' '\n' | grep -v '^$'; }
said() { # said NAME SECTION: what a page says between its synopsis and SEE ALSO, without its titles
  mandoc -T ascii "build/man/vram-$1.$2" | col -bx >"$work/page"
  title=$(sed -n "s/^ *vram-$1 - //p" "$work/page")
  sed -e '1,/^SYNOPSIS/d' -e '/^SEE ALSO/,$d' -e '/^[A-Z][A-Z ]*$/d' -e "s/^     .${title#?}\\.\$//" "$work/page" | words
}
pages=$(echo $commands parallel | sed 's/ help / /')
if have mandoc; then
  for command in $pages; do
    ./vram help "$command" | sed -e '1s/   .*//' -e 's/^Environment: //' -e 's/^Exit status:\{0,1\} //' | words >"$work/help"
    said "$command" "$([ "$command" = parallel ] && echo 7 || echo 1)" >"$work/found"
    same "the help of $command (<) and its page (>)" "$work/help" "$work/found"
  done
fi
ls build/man | sed 's/^vram-\(.*\)\.[17]$/\1/' | sort >"$work/found"
echo $pages | tr ' ' '\n' | sort >"$work/help"
same "the commands (<) and their pages (>)" "$work/help" "$work/found"
sed -n 's/^\.It Cm \([a-z]*\).*/\1/p' $page | sort -u >"$work/found"
echo "$commands" | sort -u >"$work/help"
same "commands of the help (<) and the manual page (>)" "$work/help" "$work/found"
./vram list -h | sed -n 's/^vram list //p' | tr '|' '\n' | sort >"$work/help"
sed -n 's/^\.It Cm list Cm //p' $page | sort >"$work/found"
same "things to list in the help (<) and the manual page (>)" "$work/help" "$work/found"
# keys of the report; the categories and the sources of figures are values here
{
  ./vram estimate resnet50 --train adamw --json
  ./vram estimate mlp --inplace --json
  ./vram estimate tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf --json
  ./vram estimate tests/fuzz/corpus/read/llama3 --json
  ./vram estimate tests/golden/diffusers/tiny-sd --json
  ./vram estimate --embedded tests/embedded/kws.h --flash 64KiB --sram 64KiB --json
  ./vram estimate tests/golden/generate/llama_dynamic.vram --generate prompt=64,new=2 --json
  ./vram estimate tests/golden/parallel/tiny.vram --train adamw --parallel ddp=2 --json
  ./vram estimate tests/golden/parallel/tiny.vram --train adamw --parallel ddp=2 --rank all --json
  ./vram fit resnet50 --train adamw --budget 24GiB --json
  ./vram fit tests/golden/parallel/tiny.vram --train adamw --parallel auto --devices 3 --gpu t4,rtx3060 --json
  ./vram fit tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf --budget 4GiB --json
  ./vram plan resnet50 --budget 1400MiB --json
  ./vram plan tests/golden/parallel/tiny.vram --budget 4GiB --parallel fsdp2=2 --json
  ./vram replay tests/traces/step.pickle --policy both --json
  ./vram replay tests/traces/rmm.csv --json
  ./vram diff lenet5 tests/traces/lenet5.pickle --json
  awk -f tests/traces/bfc.awk tests/traces/bfc_jax.txt | ./vram replay - --policy bfc --json
  ./vram replay tests/traces/jax_after.prof --json
  ./vram advise lenet5 --train adamw --gpu rtx3060 --top 1 --json
  ./vram arena tests/traces/xla_mlp-buffer-assignment.txt --json
  ./vram arena lenet5 --train sgd --offsets --json
  ./vram list ops --json
} |
  sed -e 's/"peak_categories":{[^}]*}/"peak_categories":0/' -e 's/"[a-z_]*":{"calls":/"calls":/g' -e 's/"sources":{[^}]*}/"sources":0/' |
  grep -o '"[a-z0-9_]*":' | tr -d '":' | sort -u >"$work/help"
# (those of vram run: part preload)
sed -n '/^\.Sh JSON/,/^\.Sh ENV/p' $page | sed '/vram run --json/,/^\.El/d' | sed -n 's/^\.\(It \)\{0,1\}Va //p' | tr -d ',:.();' |
  tr -s ' ' '\n' | grep -v '^$' | sort -u >"$work/found"
same "keys of the JSON (<) and the manual page (>)" "$work/help" "$work/found"

# and every variable of the environment that the command asks for
grep -oh 'getenv("[A-Z_]*")' tools/vram*.c tools/preload*.c | sed 's/.*"\(.*\)".*/\1/' | sort -u >"$work/help"
sed -n '/^\.Sh ENV/,/^\.Sh INT/p' $page | sed -n -e 's/^\.It Ev //p' -e 's/^\.Ev //p' | tr -d '.,' | tr -s ' ' '\n' | sort -u >"$work/found"
grep -vxFf "$work/found" "$work/help" >"$work/lacks"
same "variables (>) that the manual page has not" /dev/null "$work/lacks"

# E. completion: what the shells' own functions offer at the end of a line
cat >"$work/lines" <<'EOF'
vram : advise arena convert diff emit estimate fit help list plan replay run watch
vram help p: parallel plan
vram estimate --am: --amp
vram estimate --amp : bf16 fp16
vram estimate --train adamw_8: adamw_8bit
vram estimate --gpu rtx409: rtx4090
vram estimate --rules i: ideal
vram estimate --embedded --kernels d: dsp
vram estimate --embedded --format i8: i8 i8_per_channel i8_per_tensor i8w4
vram estimate --flash-attn o: off on
vram estimate --cache-k q8: q8_0
vram estimate --infer --batch :
vram estimate resnet5: resnet50
vram fit --solve : batch ctx dim! lora n-cpu-moe new ngl prompt segments side slots
vram fit --so: --solve
vram fit gpt2 --solve dim!S: dim!S
vram estimate gpt2 --dim S: S=
vram estimate tests/golden/models/hf_gpt2.vram --dim N: N=
vram estimate --gpu=rtx409: --gpu=rtx4090
vram estimate --gpu t4,rtx409: t4,rtx4090
vram estimate --checkpoint : auto layers
vram estimate --cc 8: 8.0 8.6 8.9
vram estimate --quant nf4,d: nf4,double=0 nf4,dtype=
vram estimate --lora r=8,ta: r=8,targets=
vram estimate --alloc-conf exp: expandable_segments!True
vram estimate --generate prompt=9,n: prompt=9,new=
vram estimate --engine vllm --kv-cache-dtype f8e5: f8e5m2 f8e5m2fnuz
vram replay tests/traces/le: tests/traces/lenet5.pickle
vram replay tests/traces/bfc_jax.txt --policy bfc --alloc-conf pre: preallocate!True
vram arena tests/traces/xla_mlp-l: tests/traces/xla_mlp-live-range.txt
vram diff tests/traces/bfc_t: tests/traces/bfc_tensorflow.txt
vram advise tests/golden/gguf/llama-3.1: tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf
vram estimate tests/embedded/kws: tests/embedded/kws.vram
vram emit tests/embedded/kws.: tests/embedded/kws.h tests/embedded/kws.vram
vram run -- cmp tests/consumer/C: tests/consumer/CMakeLists.txt
vram plan --planner s: sequential sqrt stages
vram arena --order t: tflm
vram plan --mov: --moves
vram emit --no-f: --no-fold --no-fuse
vram emit --format i1: i16
vram emit lenet: lenet5
vram diff lenet: lenet5
vram diff --tol: --tolerance
vram replay --policy b: best bfc both
vram replay --alloc: --alloc-conf
vram replay tests/consumer/C: tests/consumer/CMakeLists.txt
vram list g: gpus
vram list r: rules
vram estimate --rules torch-2.14: torch-2.14
vram run --sn: --snapshot
vram run --units : iec si bytes
vram run --on-signal US: USR1 USR2
vram watch --o: --once
vram estimate --parallel fs: fsdp1= fsdp2=
vram estimate --parallel ddp=2+t: ddp=2+tp=
vram estimate --parallel fsdp2=8,m: fsdp2=8,mp=
vram estimate --parallel fsdp2=8,mp=: fsdp2=8,mp=bf16 fsdp2=8,mp=f32 fsdp2=8,mp=fp16
vram estimate --parallel hsdp=2x4,re: hsdp=2x4,reduce= hsdp=2x4,reshard=
vram estimate --parallel zero1=4,p: zero1=4,parameters_as_bucket_view=
vram estimate --parallel ds2=4,ro: ds2=4,round_robin_gradients=
vram estimate --parallel ds3=4,ro:
vram estimate --parallel ds3=4,sub: ds3=4,sub_group_size=
vram estimate --parallel pp=4+ep=2,hook=b: pp=4+ep=2,hook=bf16
vram estimate --parallel pp=4,schedule=Z: pp=4,schedule=ZBVZeroBubble
vram fit --parallel a: auto
vram convert --parallel d: ddp= ds1= ds2= ds3=
vram watch --sort p: pid
vram watch --units : iec si bytes
vram watch :
vram estimate tests/consumer/ma: tests/consumer/main.c tests/consumer/main.cc
vram estimate --events tests/consumer/C: tests/consumer/CMakeLists.txt
vram nothing :
EOF
# keys that stand behind commas: those of their readers, no more, no less
for option in lora quant; do
  ./vram estimate gpt2 --$option '?=1' 2>&1 | sed -n 's/.*expected \(.*\)).*/\1/p' | tr -s ', ' '\n\n' | grep -vx kind | sort >"$work/wanted"
  ./vram complete estimate --$option '' | sed -n 's/=.*//p' | sort >"$work/found"
  same "keys that --$option reads (<) and completion (>)" "$work/wanted" "$work/found"
done
./vram estimate gpt2 --quant '?' 2>&1 | sed -n 's/.*expected \(.*\)).*/\1/p' | sed 's/ or /, /' | tr -s ', ' '\n\n' | sort >"$work/wanted"
./vram complete estimate --quant '' | tr -d '\t' | grep -v = | sort >"$work/found"
same "kinds that --quant reads (<) and completion (>)" "$work/wanted" "$work/found"
sed -n '/ name\[\] = {"max_split/,/}/p' src/alloc/pool_config.c | grep -o '"[a-z_0-9]*"' | tr -d '"' | sort >"$work/wanted"
./vram complete estimate --alloc-conf '' | sed -n 's/:.*//p' | sort >"$work/found"
same "keys that --alloc-conf reads (<) and completion (>)" "$work/wanted" "$work/found"
try() { # try SHELL PROGRAM: PROGRAM prints what may end the line $1
  have "$1" || { skip "no $1"; return; }
  while IFS=: read -r line wanted; do # ! is a : of a word
    { PATH=$PWD:$PATH "$1" "$2" "$(echo "$line" | tr '!' ':')" 2>&1 | tr -s ' \n' '\n\n' | tr ':' '!' | grep -v '^$' | sort; echo .; } >"$work/found"
    { echo $wanted | tr ' ' '\n' | grep -v '^$' | sort; echo .; } >"$work/wanted"
    same "$1 completes '$line'" "$work/wanted" "$work/found"
  done <"$work/lines"
}
cat >"$work/try.bash" <<'EOF'
. tools/install/vram.bash
shopt -s failglob # texts of options and names of files are no patterns
# bash divides a line at = and :, too
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
divided=${1//=/ = }
read -ra COMP_WORDS <<<"${divided//:/ : }"
[[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_vram
word=${1##* } kept=${word%"${word##*[=:]}"}
printf '%s\n' "${COMPREPLY[@]/#/$kept}"
EOF
cat >"$work/try.fish" <<'EOF'
source tools/install/vram.fish
complete -C "$argv[1]" | cut -f1
EOF
# zsh's helpers only add words while it edits a line: here they print them
cat >"$work/try.zsh" <<'EOF'
emulate zsh
_describe() { for word in ${(P)2}; do print -r -- $IPREFIX${${word//\\:/!}%%:*}; done }
_files() { # -g PATTERN(-.): the files that it matches, else any
  local pattern=${${2%\(*}#\*} some
  some=($PREFIX*${~pattern}(N-.))
  (( $#some )) || some=($PREFIX*(N))
  print -rl -- $some
}
_vram() { . tools/install/vram.zsh }
words=(${(s: :)1}) PREFIX= IPREFIX=
[[ $1 == *' ' ]] || PREFIX=$words[-1]
[[ $1 == *' ' ]] && words+=('')
CURRENT=$#words
_vram
EOF
try bash "$work/try.bash"
try fish "$work/try.fish"
try zsh "$work/try.zsh"
if have zsh; then # and as a user types it
  cp tools/install/vram.zsh "$work/_vram"
  cat >"$work/type.zsh" <<'EOF'
zmodload zsh/zpty
case $1 in
zsh) zpty terminal zsh -f -i
  zpty -w terminal "PS1=; fpath=($2 \$fpath); autoload -Uz compinit; compinit -u -D; unsetopt beep" ;;
bash) zpty terminal bash --norc --noprofile -i
  zpty -w terminal "PS1=; . tools/install/vram.bash; bind 'set bell-style none'" ;;
esac
zpty -w terminal 'vram() { [ "$1" = complete ] && command vram "$@" || echo "ran: $*"; }'
zpty -w -n terminal "vram $3"$'\t; echo done | tr a-z A-Z\n'
while zpty -r terminal text; do print -r -- $text; [[ $text == *DONE* ]] && break; done
EOF
  typed() { # typed SHELL WORDS WANTED
    have "$1" || { skip "no $1"; return; }
    PATH=$PWD:$PATH timeout 60 zsh "$work/type.zsh" "$1" "$work" "$2" >"$work/found" 2>&1
    cell "$1 completes 'vram $2' as it is typed" grep -q "^ran: $3" "$work/found"
  }
  for shell in bash zsh; do
    typed $shell 'estimate --optim-impl fu' 'estimate --optim-impl fused'
    typed $shell 'estimate --gpu=rtx409' 'estimate --gpu=rtx4090'
    typed $shell 'estimate --parallel fsdp2=8,init=' 'estimate --parallel fsdp2=8,init=meta'
    typed $shell 'fit gpt2 --solve dim:L' 'fit gpt2 --solve dim:L'
    typed $shell 'replay tests/traces/len' 'replay tests/traces/lenet5.pickle'
  done
fi

# F. packages: one version everywhere, and what their recipes do
packages=tools/packages
say() { # say PLACE VERSION: what a file says
  if [ "$2" = "$version" ]; then ok; else bad "$1 says version '$2', vram.h $version"; fi
}
say CHANGELOG.md "$(sed -n 's/^## \([0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1)"
say debian/changelog "$(sed -n '1s/^vram (\([0-9.]*\)-[0-9a-z]*).*/\1/p' $packages/debian/changelog)"
say vcpkg.json "$(sed -n 's/^  "version": "\(.*\)",$/\1/p' $packages/vcpkg/vram/vcpkg.json)"
for f in docs/packages.md examples/fetch_content/CMakeLists.txt; do
  for v in $(sed -n -e 's/.*@v\([0-9.]*\)$/\1/p' -e 's/^ *rev: v//p' -e 's/.*vram-\([0-9.]*\)\.tar\.gz.*/\1/p' $f); do say $f "$v"; done
done
say "find_package of docs/packages.md" "$(sed -n 's/.*find_package(vram \([0-9.]*\)).*/\1/p' docs/packages.md).${version##*.}"
# the source package: of this tree, once more from what is in it, with debian/ at the top
cell "make deb-source" in_tree deb-source
deb=$tree/build/deb
(cd "$tree" && find . -type f ! -path './build/*' ! -path ./vram ! -path './libvram*' ! -path '*/__pycache__/*' | sort) >"$work/wanted"
tar tzf "$deb/vram_$version.orig.tar.gz" | grep -v '/$' | sed "s/^vram-$version/./" | sort >"$work/found"
same "the source package has the tree" "$work/wanted" "$work/found"
cell "debian/ at its top" test -x "$deb/vram-$version/debian/rules"
if have dpkg-source; then
  cell "dpkg-source" sh -c 'cd "$1" && dpkg-source -b "$2"' - "$deb" "vram-$version"
  sed -n "s/^Version: \(.*\)-[0-9a-z]*$/\1/p" "$deb"/*.dsc >"$work/found"
  echo "$version" >"$work/version"
  same "the version of the source package" "$work/version" "$work/found"
else skip "no dpkg-source: the Debian source package"; fi
# CMake: a project that brings the release along; the library itself is not compiled once more, it is
# that of ./vram; what it would install are the files that make install writes
if have cmake; then
  cat >"$work/launch" <<END2
#!/bin/sh
# what compiles, in the place of the compiler: the implementations that are there are copied
before=
for word; do
  case \$before\$word in -o*/vram_impl.c.o | -o*/library.c.o)
    name=\${word##*/}
    exec cp "$PWD/build/tool/\${name%.c.o}.o" "\$word" ;;
  esac
  before=\$word
done
exec "\$@"
END2
  chmod +x "$work/launch"
  tarball=$work/1.tar.gz
  [ -e "$tarball" ] || tarball=$deb/vram_$version.orig.tar.gz
  cell "FetchContent" cmake -S examples/fetch_content -B "$work/fetch" "-DVRAM_URL=$tarball" \
    "-DCMAKE_C_COMPILER_LAUNCHER=$work/launch"
  cell "FetchContent, build" cmake --build "$work/fetch"
  "$work/fetch/step" >"$work/found"
  echo "parameters 31400, gradients 31400, optimizer 62800" >"$work/wanted"
  same "FetchContent, run" "$work/wanted" "$work/found"
  cell "CMake" cmake -S $packages/cmake -B "$work/by_cmake" "-DCMAKE_INSTALL_PREFIX=$work/p" \
    -DCMAKE_INSTALL_LIBDIR=lib "-DCMAKE_C_COMPILER_LAUNCHER=$work/launch"
  cell "CMake, build" cmake --build "$work/by_cmake"
  cell "CMake, install" cmake --install "$work/by_cmake"
  mv "$work/p" "$work/p.cmake"
  cell "make install, as CMake lays it out" in_tree install PREFIX="$work/p" PKGCONFIGDIR="$work/p/lib/pkgconfig" \
    CMAKEDIR="$work/p/lib/cmake/vram"
  for f in include/vram.h include/vram_cuda.h lib/pkgconfig/vram.pc lib/cmake/vram/vramConfig.cmake \
    lib/cmake/vram/vramConfigVersion.cmake; do
    same "$f by CMake and by make" "$work/p/$f" "$work/p.cmake/$f"
  done
  cell "libvram.a by CMake" test -s "$work/p.cmake/lib/libvram.a"
else skip "no cmake: FetchContent"; fi
# the action: its last step with the inputs in its environment, as GitHub runs it
awk '/^      run: \|/ { on = 1; next } on { sub(/^        /, ""); print }' $packages/action/action.yml >"$work/step"
action() { # action BUDGET MODELS
  rm -f "$work/out" "$work/summary"
  GITHUB_ACTIONS=true GITHUB_ACTION_PATH=$PWD/$packages/action GITHUB_OUTPUT=$work/out GITHUB_STEP_SUMMARY=$work/summary \
    MODELS=$2 BUDGET=$1 OPTIONS="--train adamw" sh -e "$work/step" >"$work/output" 2>&1
}
models="examples/models/resnet50.vram
lenet5
"
action 24GiB "$models"
status=$?
if [ $status = 0 ] && [ "$(grep -c ': fits$' "$work/output")" = 2 ] && ! grep -q '^::' "$work/output"; then ok; else
  bad "the action, two models that fit"
  cat "$work/output"
fi
action 2GiB "$models"
status=$?
{
  echo "report<<END_OF_REPORT"
  grep -v '^::' "$work/output"
  echo "END_OF_REPORT"
} >"$work/wanted"
if [ $status = 3 ] && grep -q '^::error file=examples/models/resnet50.vram::resnet50 takes 2694283264 bytes' "$work/output"; then ok; else
  bad "the action, a model that does not fit"
  cat "$work/output"
fi
same "the action's output" "$work/wanted" "$work/out"
cell "the action's summary" grep -q '546799616 too many' "$work/summary"
action 2GiB "examples/none.vram"
if [ $? = 2 ]; then ok; else bad "the action, no model"; fi
action 2GiB "
"
if [ $? = 2 ]; then ok; else bad "the action, no models"; fi
refuse "gate.sh without a budget" "usage: gate.sh" sh $packages/gate.sh
refuse "gate.sh without a verdict" "no verdict" sh $packages/gate.sh 2GiB "" --help
gguf="tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf takes 22068322560 bytes of 25769803776, and the CUDA context: fits"
if [ "$(CDPATH=.:.. sh $packages/gate.sh 24GiB "" tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf)" = "$gguf" ]; then ok; else
  bad "gate.sh of a GGUF file"
fi
if have check-jsonschema; then cell "action.yml" check-jsonschema --builtin-schema vendor.github-actions $packages/action/action.yml
else skip "no check-jsonschema: the schema of action.yml"; fi
# recipes of package managers: built where these are
if have vcpkg; then cell "vcpkg format-manifest" vcpkg format-manifest --dry-run $packages/vcpkg/vram/vcpkg.json
else skip "no vcpkg: its port"; fi
if have conan; then cell "conan inspect" conan inspect $packages/conan
else skip "no conan: its recipe"; fi
