#compdef vram vram-export vram-measure vram-checkpoint
# of vram-export and the others: the options that -h lists, and files
if [[ $service == vram-* ]]; then
  _gnu_generic
  return
fi
# zsh completion of vram: the command itself says what may stand for the last word
local line word head= none=1
local -a found open kinds
[[ $PREFIX == --*=* ]] && head=${PREFIX%%=*}=
for line in "${(@f)$("$words[1]" complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}"; do
  word=${${line%%$'\t'*}#$head}
  if [[ $word == '<file>' ]]; then
    IPREFIX+=$head PREFIX=${PREFIX#$head} head=
    kinds=(${(s: :)${line#'<file>'?}})
    if [[ $line == *.* ]]; then
      _files -g "*(${(j:|:)kinds})(-.)" && none=0
    else
      _files && none=0
    fi
  elif [[ $word == '<command>' ]]; then
    _command_names && none=0
  elif [[ $word == *[=:] ]]; then
    open+=("${word//:/\\:}:${line#*$'\t'}")
  elif [[ -n $word ]]; then
    found+=("${word//:/\\:}:${line#*$'\t'}")
  fi
done
IPREFIX+=$head PREFIX=${PREFIX#$head}
(( $#found )) && _describe vram found && none=0
(( $#open )) && _describe vram open -S '' && none=0
return none
