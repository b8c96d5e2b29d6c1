#!/bin/sh
# gate.sh BUDGET OPTIONS MODEL...: examples/ci_gate.sh for each model, with the OPTIONS of vram estimate as
# one word ("": as the example chooses). Ends with 0 if all fit, with 3 if one does not, with 2 if one is
# bad or there is none. VRAM: the command; else the one that is built in this tree, the one that is
# installed, or it is built now. On GitHub what does not fit is an annotation of its file, and the lines
# are the output `report` and the step's summary.
tree=$(CDPATH= cd -- "$(dirname "$0")/../.." && pwd) || exit 1
[ $# -ge 3 ] || { echo "usage: gate.sh BUDGET OPTIONS MODEL..." >&2; exit 2; }
if [ -z "$VRAM" ]; then
  if [ -x "$tree/vram" ]; then VRAM=$tree/vram
  elif command -v vram >/dev/null; then VRAM=vram
  else make -s -C "$tree" vram >&2 && VRAM=$tree/vram || exit 1; fi
fi
export VRAM
budget=$1 options=$2 worst=0 report=
shift 2
for model; do
  model=$(echo "$model" | sed 's/[[:space:]]*$//') # lines of YAML keep blanks and carriage returns
  [ -n "$model" ] || continue
  # the options are words of their own
  line=$(set -f && sh "$tree/examples/ci_gate.sh" "$model" "$budget" $options)
  status=$?
  case $status in
  0) ;;
  3) [ $worst != 0 ] || worst=3 ;;
  *) worst=2 ;;
  esac
  line=${line:-"$model: no estimate, see the log"}
  [ -z "$GITHUB_ACTIONS" ] || [ $status = 0 ] || echo "::error file=$model::$line"
  echo "$line"
  report="$report$line
"
done
if [ -n "$GITHUB_OUTPUT" ]; then printf 'report<<END_OF_REPORT\n%sEND_OF_REPORT\n' "$report" >>"$GITHUB_OUTPUT"; fi
if [ -n "$GITHUB_STEP_SUMMARY" ]; then printf '```\n%s```\n' "$report" >>"$GITHUB_STEP_SUMMARY"; fi
[ -n "$report" ] || { echo "gate.sh: no model" >&2; exit 2; }
exit $worst
