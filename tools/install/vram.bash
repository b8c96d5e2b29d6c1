# bash completion of vram: the command itself says what may stand for the last word
_vram_files() { # _vram_files WORD SUFFIXES: files with one of them, and folders; any file where there is none
  local file suffix found=() IFS=$'\n'
  for file in $(compgen -f -- "$1"); do
    IFS=' '
    for suffix in $2; do
      [[ $file == *"$suffix" ]] && found+=("$file") && break
    done
    IFS=$'\n'
  done
  if ((${#found[@]})); then
    COMPREPLY+=("${found[@]}" $(compgen -d -- "$1"))
  else
    COMPREPLY+=($(compgen -f -- "$1"))
  fi
}
_vram() {
  local i rest word words=() line=${COMP_LINE:0:COMP_POINT} kept IFS=$'\n'
  # bash divides words at = and :, which are parts of ours
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]} rest=${line#"${line%%[![:blank:]]*}"}
    if ((i > 0)) && [[ $rest == "$line" ]]; then words[${#words[@]} - 1]+=$word; else words+=("$word"); fi
    line=${rest#"$word"}
  done
  word=${words[${#words[@]} - 1]}
  kept=${word%"${word##*["${COMP_WORDBREAKS//[^=:]/}"]}"} # what stands before the part that bash completes
  [[ $COMP_WORDBREAKS == *[=:]* ]] || kept=
  COMPREPLY=()
  for line in $("${words[0]}" complete "${words[@]:1}" 2>/dev/null); do
    case $line in
    '<file>'*) _vram_files "${word#"$kept"}" "${line#'<file>'?}" ;;
    '<command>') COMPREPLY+=($(compgen -c -- "$word")) ;;
    *)
      line=${line%%$'\t'*}
      COMPREPLY+=("${line#"$kept"}")
      [[ $line == *[=:] ]] && compopt -o nospace 2>/dev/null
      ;;
    esac
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
