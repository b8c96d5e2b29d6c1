# bash completion of vram: the command itself says what may stand for the last word
_vram() {
  local word current=${COMP_WORDS[COMP_CWORD]} IFS=$'\n'
  COMPREPLY=()
  for word in $("${COMP_WORDS[0]}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
    if [[ $word == '<file>' ]]; then
      COMPREPLY+=($(compgen -f -- "$current"))
    else
      COMPREPLY+=("${word%%$'\t'*}")
    fi
  done
}
complete -o filenames -F _vram vram
