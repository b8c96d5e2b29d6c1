#!/bin/sh
# Prints vram.h: the parts of src/ in the order of src/parts, without what only a part that is
# compiled alone needs (its includes). `pack.sh parts_cuda` prints vram_cuda.h. See src/README.md.
cd "$(dirname "$0")" || exit 1
list=${1:-parts}

names() { # the functions that the declarations declare, renamed with VRAM_NAMESPACE
  [ "$list" = parts ] || echo '/* clang-format off */'
  echo '#ifdef VRAM_NAMESPACE'
  if [ "$list" = parts ]; then
    echo '#define VRAM__JOIN_(a, b) a##b'
    echo '#define VRAM__JOIN(a, b) VRAM__JOIN_(a, b)'
  fi
  sed -n 's:^[a-z]*/.*\.h$:&:p' "$list" | xargs sed -n '/^VRAM_API/{
    /(/!N
    s/.*[ *]\(vram_[A-Za-z0-9_]*\)(.*/#define \1 VRAM__JOIN(VRAM_NAMESPACE, \1)/p
  }' | LC_ALL=C sort
  echo '#endif'
  [ "$list" = parts ] || echo '/* clang-format on */'
  echo
}

ops() { # the rows of all families, in the order of src/parts: the enum and the table
  echo '/* Made from the rows in src/ops (make). */'
  echo '#pragma once'
  echo
  echo '/* clang-format off */'
  sed -n 's:^ops/.*\.c$:&:p' parts | xargs sed -n '/^VRAM__OP[_A-Z]*(/{
    /($/N
    s/^[^(]*([[:space:]]*\([a-z0-9_]*\),.*/X(\1)/p
  }' | awk '
    BEGIN { line = "#define VRAM_OPS(X)" }
    length(line " " $0) > 95 { print line " \\"; line = " " }
    { line = line " " $0 }
    END { print line }'
  echo '/* clang-format on */'
}

seen=' '
part() { # part FILE: what it includes has been printed before
  for needed in $(sed -n 's/^#include "\(.*\)"$/\1/p' "$1"); do
    case $seen in
    *" $needed "*) ;;
    *) [ "$needed" = api/api.h ] || { echo "$1 includes $needed, which src/$list has not before it" >&2; exit 1; } ;;
    esac
  done
  seen="$seen$1 "
  sed -e '/^#include "/d' -e '/^#pragma once$/d' "$1" | sed '/./,$!d'
  case $1 in frame/bottom.h | cuda/reroute.h) ;; *) echo ;; esac
}

[ "$list" = ops ] && { ops; exit; }

while read -r word what; do
  case $word in
  '' | '#'*) ;;
  names) names ;;
  include) printf '#include "%s"\n\n' "$what" ;;
  unless) printf '#ifndef VRAM_NO_%s\n\n' "$what" ;;
  end) printf '#endif /* VRAM_NO_%s */\n\n' "$what" ;;
  *) part "$word" ;;
  esac
done <"$list"
