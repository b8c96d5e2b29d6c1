#compdef vram vram-export vram-measure vram-checkpoint
# of vram-export and the others: the options that -h lists, and files
if [[ $service == vram-* ]]; then
  _gnu_generic
  return
fi
# zsh completion of vram: the command itself says what may stand for the last word
local line none=1
local -a found
for line in "${(@f)$("$words[1]" complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}"; do
  if [[ $line == '<file>' ]]; then
    _files && none=0
  elif [[ -n $line ]]; then
    found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  fi
done
(( $#found )) && _describe vram found && none=0
return none
