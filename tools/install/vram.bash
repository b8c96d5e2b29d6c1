# bash completion of vram: the command itself says what may stand for the last word
_vram() {
  local word current=${COMP_WORDS[COMP_CWORD]} IFS=$'\n'
  COMPREPLY=()
  for word in $("${COMP_WORDS[0]}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
    if [[ $word == '<file>' ]]; then
      COMPREPLY+=($(compgen -f -- "$current"))
    else
      COMPREPLY+=("${word%%$'\t'*}")
      [[ ${COMPREPLY[-1]} == *= ]] && compopt -o nospace 2>/dev/null
    fi
  done
}
complete -o filenames -F _vram vram

# of vram-export and the others: the options that -h lists, and files
_vram_python() {
  local current=${COMP_WORDS[COMP_CWORD]} IFS=$'\n'
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" -h 2>/dev/null | grep -o -e '^  --[a-z-]*' | tr -d ' ')" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
complete -o filenames -F _vram_python vram-export vram-measure vram-checkpoint
