# bash completion of vram: the command itself says what may stand for the last word
_vram_files() { # _vram_files WORD SUFFIXES: files with one of them, and folders; any file where there is none
  local file suffix all=() folders=() found=() suffixes
  read -ra suffixes <<<"$2"
  while IFS= read -r file; do all+=("$file"); done < <(compgen -f -- "$1")
  while IFS= read -r file; do folders+=("$file"); done < <(compgen -d -- "$1")
  for file in "${all[@]}"; do
    for suffix in "${suffixes[@]}"; do
      [[ $file == *"$suffix" ]] && found+=("$file") && break
    done
  done
  if ((${#found[@]})); then COMPREPLY+=("${found[@]}" "${folders[@]}"); else COMPREPLY+=("${all[@]}"); fi
}
_vram() {
  local i rest word words=() line=${COMP_LINE:0:COMP_POINT} kept
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
  words[0]=${words[0]/#\~\//"$HOME"/}
  while IFS= read -r line; do
    case $line in
    '<file>'*) _vram_files "${word#"$kept"}" "${line#'<file>'?}" ;;
    '<command>')
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -c -- "$word") ;;
    *)
      line=${line%%$'\t'*}
      COMPREPLY+=("${line#"$kept"}")
      [[ $line == *[=:] ]] && compopt -o nospace 2>/dev/null
      ;;
    esac
  done < <("${words[0]}" complete "${words[@]:1}" 2>/dev/null)
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
