# vram watch on pretended devices: sourced by part.sh.
work=$PWD/build/watch
rm -rf "$work"
mkdir -p "$work"
cc=${CC:-cc}
if ! "$cc" -shared -fPIC tests/watch/nvml.c -o "$work/new.so" 2>"$work/log" ||
  ! "$cc" -shared -fPIC -DOLD tests/watch/nvml.c -o "$work/old.so" 2>>"$work/log"; then
  skip "$cc makes no shared library: $(head -n 1 "$work/log")"
else
  vram=./vram
  "$MAKE" -s --no-print-directory build/models.h
  # the command under sanitizers, the library as it is: nothing of it counts here
  if "$cc" -std=c99 -g -O0 -fsanitize=address,undefined -fno-sanitize-recover=all -Ibuild \
    -o "$work/vram" $(ls tools/vram*.c | grep -v vram_impl) build/tool/vram_impl.o -ldl -lpthread 2>"$work/log" && "$work/vram" --version >/dev/null 2>&1; then
    vram=$work/vram
  else skip "$cc has no sanitizers: ./vram as it is"; fi
  user=$(id -un)
  show() { # show LIBRARY MODE DEVICES OPTIONS...
    lib=$1 mode=$2 devices=$3
    shift 3
    VRAM_NVML=$lib NVML_MODE=$mode NVML_DEVICES=$devices NVML_PID=$$ NO_COLOR=1 timeout 60 "$vram" watch "$@"
  }
  status() { # status NAME WANTED COMMAND...
    name=$1 wanted=$2
    shift 2
    "$@" >"$work/out" 2>"$work/err"
    got=$?
    if [ $got = "$wanted" ]; then ok; else
      bad "$name: exit status $got, not $wanted"
      head -5 "$work/out" "$work/err"
    fi
  }
  # what no machine and no run tells apart
  steady() {
    sed -e "s/$user */USER /; s/\"user\":\"$user\"/\"user\":\"USER\"/" -e "s/\b$$\b/PID/g" -e 's/ \+/ /g' -e 's/USER "/USER"/' \
      -e 's/"time":[0-9]*/"time":0/' -e 's/^[0-9T:-]* gpu/TIME gpu/' \
      -e 's/\("host_bytes":\)[1-9][0-9]*/\1BYTES/' \
      -e 's/\("pid":PID,.*"name":\)"[^"]*","command":"[^"]*"/\1"NAME","command":"COMMAND"/' \
      -e 's/\(PID USER .* 256 MiB [0-9-]* *%*\) .*/\1 COMMAND/' -e 's/; PID [^ ]* /; PID NAME /'
  }

  # A. two devices: the table, a line each, JSON; with the first forms of the calls the same figures
  cat >"$work/wanted" <<'END'
NVIDIA driver 595.00, CUDA 13.2
gpu name used free total busy temp power
0 Pretended GPU 80GB 1.50 GiB 78.5 GiB 80.0 GiB 35 % 41 C 120 W
 4194402 - C 768 MiB 0 % one
 4194401 - C 512 MiB 45 % a program
 PID USER C+G 256 MiB 40 % COMMAND
1 Pretended GPU 80GB 2.50 GiB 77.5 GiB 80.0 GiB 36 % 42 C 120 W
 4194403 - C 768 MiB 0 % a program
 4194402 - C 512 MiB 45 % one
 PID USER C 256 MiB 40 % COMMAND
END
  for form in new old; do
    show "$work/$form.so" "" 2 --once >"$work/log" 2>&1
    steady <"$work/log" >"$work/found"
    same "two devices, the table, $form forms" "$work/wanted" "$work/found"
  done
  cat >"$work/wanted" <<'END'
{"time":0,"driver":"595.00","cuda":"13.2","devices":[{"index":0,"mig":null,"name":"Pretended GPU 80GB","uuid":"GPU-0-0","total_bytes":85899345920,"used_bytes":1610612736,"free_bytes":84288733184,"reserved_bytes":536870912,"utilization_percent":35,"temperature_celsius":41,"power_watts":120.499,"power_limit_watts":700.000,"error":null,"processes":[{"pid":4194402,"type":"compute","used_bytes":805306368,"utilization_percent":0,"memory_utilization_percent":0,"encoder_percent":0,"decoder_percent":0,"cpu_percent":null,"host_bytes":null,"name":"one","command":null,"user":null},{"pid":4194401,"type":"compute","used_bytes":536870912,"utilization_percent":45,"memory_utilization_percent":7,"encoder_percent":1,"decoder_percent":3,"cpu_percent":null,"host_bytes":null,"name":"a program","command":null,"user":null},{"pid":PID,"type":"compute+graphics","used_bytes":268435456,"utilization_percent":40,"memory_utilization_percent":7,"encoder_percent":0,"decoder_percent":0,"cpu_percent":null,"host_bytes":BYTES,"name":"NAME","command":"COMMAND","user":"USER"}]}],"error":null}
END
  show "$work/new.so" "" 1 --once --json 2>&1 | steady >"$work/found"
  same "one device, JSON" "$work/wanted" "$work/found"
  echo "$$ $(cat /proc/$$/comm 2>/dev/null)" >"$work/wanted"
  show "$work/new.so" "" 1 --once --json | sed "s/.*\"pid\":\($$\),[^}]*\"name\":\"\([^\"]*\)\".*/\1 \2/" >"$work/found"
  if [ -e /proc/$$/comm ]; then same "the name of a process" "$work/wanted" "$work/found"; else skip "no /proc"; fi
  sed -n 's/^  *//p' >"$work/wanted" <<'END'
  TIME gpu 0 used 1610612736 free 84288733184 total 85899345920 busy 35 % temp 41 C power 120 W; 4194402 one - busy 0 %; 4194401 a program - busy 45 %; PID NAME - busy 40 %
END
  VRAM_NVML=$work/new.so NVML_MODE=na NVML_PID=$$ timeout 1 "$vram" watch --interval 0.2 --units bytes >"$work/lines" 2>&1
  steady <"$work/lines" | tr ";" "\n" | sort -u | sed "s/^ *//" >"$work/found"
  tr ';' '\n' <"$work/wanted" | sort -u | sed 's/^ *//' >"$work/expected"
  same "no terminal: a line added each time" "$work/expected" "$work/found"
  if [ "$(wc -l <"$work/lines")" -ge 2 ]; then ok; else bad "--interval 0.2: more than one line in a second"; fi

  # B. none, many, divided, of the system's memory, names that are no text
  status "no device" 0 show "$work/new.so" "" 0 --once
  if grep -q '^no device$' "$work/out"; then ok; else bad "no device: nothing said"; fi
  status "no device, JSON" 0 show "$work/new.so" "" 0 --once --json
  if grep -q '"devices":\[\],"error":null' "$work/out"; then ok; else bad "no device: JSON"; fi
  status "17 devices" 0 show "$work/new.so" "" 17 --once
  if [ "$(grep -c '^[0-9].*Pretended' "$work/out")" = 17 ]; then ok; else bad "17 devices: as many lines"; fi
  status "a divided device" 0 show "$work/new.so" mig 2 --once
  grep -o '^[0-9][0-9:]* *Pretended [A-Z]*' "$work/out" | tr -s ' ' >"$work/found"
  printf '0 Pretended GPU\n0:0 Pretended MIG\n0:2 Pretended MIG\n1 Pretended GPU\n' >"$work/wanted"
  same "a divided device: its parts" "$work/wanted" "$work/found"
  busy() { # busy NAME MODE WANTED: pid and busy % of the processes of one device and its parts
    name=$1 wanted=$3
    show "$work/new.so" "$2" 1 --once | sed -n "s/^ *\([0-9]*\) .* MiB *\([0-9-]*\) .*/\1 \2/p; s/^0:.*/part/p" | sed "s/^$$ /ME /" |
      tr '\n' ' ' >"$work/found"
    if [ "$(cat "$work/found")" = "$wanted" ]; then ok; else bad "$name: $(cat "$work/found")"; fi
  }
  busy "a divided device: each process once" mig "ME - part 4194401 - part 4194402 - "
  busy "its parts do not answer: the whole one's list" "mig fail:nvmlDeviceGetMigDeviceHandleByIndex:6" "4194402 - 4194401 - ME - "
  busy "busy, first form" fail:nvmlDeviceGetProcessesUtilizationInfo:13 "4194402 0 4194401 45 ME 40 "
  busy "no sample of late" idle "4194402 0 4194401 0 ME 0 "
  busy "samples of long ago" stale "4194402 0 4194401 0 ME 0 "
  busy "samples under other numbers" foreign "4194402 - 4194401 - ME - "
  busy "no samples" "fail:nvmlDeviceGetProcessesUtilizationInfo:3 fail:nvmlDeviceGetProcessUtilization:3" "4194402 - 4194401 - ME - "
  status "a device that does not answer" 0 show "$work/new.so" lost 3 --once
  if grep -q '^1 .*GPU is lost' "$work/out" && grep -q '^2 .*Pretended' "$work/out"; then ok; else
    bad "a device that does not answer: the others"
  fi
  if [ -e /proc/meminfo ]; then
    status "no memory of its own" 0 show "$work/new.so" soc 1 --once --json
    total=$(awk '/^MemTotal/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)
    if grep -q "\"total_bytes\":$total," "$work/out"; then ok; else bad "no memory of its own: the system's"; fi
  fi
  for options in --once "--once --json"; do
    status "names of control characters" 0 show "$work/new.so" dirty 2 $options
    if ! grep -q "$(printf '\033')" "$work/out"; then ok; else bad "names of control characters get through"; fi
  done
  status "processes without end" 0 show "$work/new.so" grow 1 --once

  # C. every call fails in turn, and peers come and go meanwhile: an answer each time
  for call in nvmlInit nvmlDeviceGetCount nvmlDeviceGetHandleByIndex nvmlSystemGetDriverVersion \
    nvmlSystemGetCudaDriverVersion nvmlSystemGetProcessName nvmlDeviceGetName nvmlDeviceGetUUID \
    nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetMemoryInfo nvmlDeviceGetUtilizationRates \
    nvmlDeviceGetTemperature nvmlDeviceGetPowerUsage nvmlDeviceGetEnforcedPowerLimit \
    nvmlDeviceGetMigMode nvmlDeviceGetMaxMigDeviceCount nvmlDeviceGetMigDeviceHandleByIndex \
    nvmlDeviceGetComputeRunningProcesses nvmlDeviceGetGraphicsRunningProcesses \
    nvmlDeviceGetProcessesUtilizationInfo nvmlDeviceGetProcessUtilization; do
    for code in 1 7 15 999; do
      wanted=0
      case $call in nvmlInit | nvmlDeviceGetCount) wanted=1 ;; esac
      status "$call fails with $code" $wanted show "$work/new.so" "fail:$call:$code churn mig" 2 --once --json
      if [ $wanted = 1 ] && ! grep -q '"devices":\[\],"error":"the NVIDIA driver .*'$code "$work/out"; then
        bad "$call fails with $code: the reason"
      fi
      cat "$work/out" >>"$work/all"
    done
  done
  if have python3; then
    cell "all that was said is JSON" python3 -c 'import json, sys
for line in open(sys.argv[1]): json.loads(line)' "$work/all"
  else skip "no python3: JSON is not read back"; fi

  # D. no driver, bad use: one line, and nothing else
  status "no driver" 1 show "$work/none.so" "" 1 --once
  if [ "$(wc -l <"$work/err")" = 1 ] && [ ! -s "$work/out" ]; then ok; else bad "no driver: one line"; fi
  status "no driver, JSON" 1 show "$work/none.so" "" 1 --json
  if grep -q '"devices":\[\],"error":"cannot open VRAM_NVML=' "$work/out" && [ ! -s "$work/err" ]; then ok; else
    bad "no driver: JSON"
  fi
  for words in "--interval" "--interval 0" "--interval 1x" "--interval nan" "--interval -1" "--often" \
    "--units pounds" "--units" "once"; do
    status "watch $words" 2 show "$work/new.so" "" 1 $words
    if [ "$(wc -l <"$work/err")" = 1 ] && [ ! -s "$work/out" ]; then ok; else bad "watch $words: one line"; fi
  done

  # E. so many times, some processes alone, another order
  status "--count" 0 show "$work/new.so" "" 1 --count 3 --interval 0.1
  if [ "$(wc -l <"$work/out")" = 3 ]; then ok; else bad "--count 3: $(wc -l <"$work/out") lines"; fi
  status "--count, JSON" 0 show "$work/new.so" "" 1 --count 2 --interval 0.1 --json
  if [ "$(grep -c '^{"time":.*}$' "$work/out")" = 2 ]; then ok; else bad "--count 2 --json: a line each time"; fi
  pids() { # pids NAME WANTED OPTIONS...: the processes of two devices, in this order
    name=$1 wanted=$2
    shift 2
    show "$work/new.so" "" 2 --once --json "$@" | grep -o '"pid":[0-9]*' | sed "s/\"pid\"://; s/^$$\$/ME/" | tr '\n' ' ' >"$work/found"
    if [ "$(cat "$work/found")" = "$wanted" ]; then ok; else bad "$name: $(cat "$work/found")"; fi
  }
  pids "--pid" "4194402 4194402 " --pid 4194402
  pids "--pid, several" "4194401 ME ME " --pid $$,4194401
  pids "--pid of none" "" --pid 1
  pids "--user" "ME ME " --user "nobody-here,$user"
  pids "--user of none" "" --user nobody-here
  pids "--sort pid" "ME 4194401 4194402 ME 4194402 4194403 " --sort pid
  pids "--sort busy" "4194401 ME 4194402 4194402 ME 4194403 " --sort busy
  pids "--sort command" "4194401 4194402 4194403 4194402 " --sort command --pid 4194401,4194402,4194403
  for words in "--count 0" "--count" "--pid x" "--pid 1," "--pid ,1" "--pid" "--user" "--sort size" "--sort"; do
    status "watch $words" 2 show "$work/new.so" "" 1 $words
    if [ "$(wc -l <"$work/err")" = 1 ] && [ ! -s "$work/out" ]; then ok; else bad "watch $words: one line"; fi
  done
  refuse "--sort mem" 'memory?' show "$work/new.so" "" 1 --sort memry

  # F. a terminal: pictures that fit it, keys, its own state again at the end
  if have python3; then
    cell "a terminal" env VRAM_NVML="$work/new.so" NVML_PID=$$ timeout 120 python3 tests/watch/terminal.py "$vram"
  else skip "no python3: no terminal"; fi
fi
