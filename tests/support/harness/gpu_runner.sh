# SPDX-License-Identifier: MIT
# Runs a table of steps under one time limit; tests/gpu.sh sources this file. The sourcing script
# defines
#
#   GPU_STEPS   lines "NAME|SECONDS|WHAT" in the order of execution; step_NAME is the function
#   results     the folder of the files
#   commit      the measured commit
#   limit       seconds for all steps together
#   selected    the names of the wanted steps, separated by ','
#   dry         not empty: nothing is measured, and the files are marked so
#   build, SETUP_ROOT   folders whose paths are removed from the files
#
# A step prints its log and may write JSON files into "$parts". While it runs, everything is in
# results/NAME-COMMIT.part/; afterwards in results/NAME-COMMIT.txt and .json. No result is ever
# replaced: a second run makes NAME-COMMIT-2. After its time, a step gets SIGTERM, and GRACE seconds
# later SIGKILL; SIGTERM and SIGINT end the whole run in this way.

GRACE=10      # seconds
LEAST_TIME=3  # with less left, no step starts
stopped=0 failed=0

# ---- Within a step ------------------------------------------------------------------------------

# Runs a command and logs it. A status other than 0 fails the step, which continues.
call() {
  local status=0
  printf '\n+'
  printf ' %q' "$@"
  echo
  "$@" || status=$?
  ((status == 0)) || { echo "status $status"; echo "$1" >>"$parts/failed"; }
}

# Ends a step that cannot run here.
skip() {
  echo "left out: $*"
  exit 77
}

# Runs a command in the background, with its log in a file, as soon as fewer than `most` run.
beside() {
  local log=$1
  shift
  while (($(jobs -rp | wc -l) >= ${most:-8})); do wait -n || true; done
  call "$@" >"$log" 2>&1 &
}

# ---- Around a step ------------------------------------------------------------------------------

note() {
  echo "$*"
  echo "$*" >>"$summary"
}

# Prints a name without any file yet, not even one of a run in progress.
free_name() {
  local base=$1-$commit name number=1
  name=$base
  while compgen -G "$results/$name.*" >/dev/null; do name=$base-$((++number)); done
  echo "$name"
}

# Removes local paths: results are kept with the sources.
remove_paths() {
  local home=${HOME:-/}
  sed -i "s|$parts/||g; s|$build|build|g; s|$SETUP_ROOT|.|g" "$@"
  [[ $home == / ]] || sed -i "s|$home/|~/|g" "$@"
}

# Moves a step's files to their final names and prints these.
publish() {
  local step=$1 name=$2 ended=$3 seconds=$4 file other
  for file in "$parts"/*.json; do
    [[ -e $file ]] || continue
    remove_paths "$file"
    sed -i "0,/{/s//{\n \"step\": {\"name\": \"$step\", \"commit\": \"$commit\", \"ended\": \"$ended\", \"seconds\": $seconds},/" \
      "$file"
    other=$name
    [[ ${file##*/} == "$step.json" ]] || { other=${file##*/}; other=$(free_name "${other%.json}"); }
    mv -n "$file" "$results/$other.json"
    printf ' %s.json' "$other"
  done
  remove_paths "$parts/log.txt"
  printf '\nended: %s after %s s\n' "$ended" "$seconds" >>"$parts/log.txt"
  mv -n "$parts/log.txt" "$results/$name.txt"
  printf ' %s.txt' "$name"
  rm -rf "$parts"
}

# Waits for a process group, and ends it when its time is over or the run is stopped. Its last
# program may outlive the step's shell.
await_group() {
  local group=$1 allowed=$2 began=$SECONDS told=0
  cut_off=
  while kill -0 -- "-$group" 2>/dev/null; do
    if ((told == 0 && (stopped || SECONDS - began >= allowed))); then
      if ((stopped)); then cut_off=interrupted; else cut_off='time over'; fi
      kill -TERM -- "-$group" 2>/dev/null || true
      told=$SECONDS
    elif ((told && SECONDS - told >= GRACE)); then
      kill -KILL -- "-$group" 2>/dev/null || true
      break
    fi
    sleep 0.1
  done
}

run_step() {
  local step=$1 allowed=$2 what=$3 name began=$SECONDS status=0 ended group
  name=$(free_name "$step")
  parts=$results/$name.part
  mkdir "$parts"
  set -m # a process group for the step
  (
    set +m
    trap 'wait; exit 143' TERM # programs write their data
    echo "$step: $what; commit $commit; $(date -u +%Y-%m-%dT%H:%M:%SZ); at most $allowed s"
    "step_$step"
  ) >"$parts/log.txt" 2>&1 &
  group=$!
  set +m
  await_group "$group" "$allowed"
  wait "$group" || status=$?
  if ((status == 77)); then
    note "$step: $(tail -1 "$parts/log.txt")"
    rm -rf "$parts"
    return
  fi
  ended=${cut_off:-complete}
  if [[ -z $cut_off && ($status != 0 || -e $parts/failed) ]]; then
    failed=1
    ended=failed
  fi
  [[ -z $dry ]] || ended="dry run, $ended"
  note "$step: $ended after $((SECONDS - began)) s:$(publish "$step" "$name" "$ended" "$((SECONDS - began))")"
}

# Runs all wanted steps; `failed` is 1 if one has failed.
run_steps() {
  local entry step seconds what left began=$SECONDS
  trap 'stopped=1' INT TERM
  mkdir -p "$results"
  summary=$results/$(free_name steps).txt
  for entry in "${GPU_STEPS[@]}"; do
    IFS='|' read -r step seconds what <<<"$entry"
    [[ ,$selected, == *",$step,"* ]] || continue
    left=$((limit - (SECONDS - began)))
    if ((stopped)); then
      note "$step: not started: interrupted"
    elif ((left < LEAST_TIME)); then
      note "$step: not started: the time is over"
    else
      [[ -z $dry ]] || seconds=$left # a miniature's time is meaningless
      run_step "$step" "$((seconds < left ? seconds : left))" "$what"
    fi
  done
}

list_steps() {
  local entry step seconds what sum=0
  for entry in "${GPU_STEPS[@]}"; do
    IFS='|' read -r step seconds what <<<"$entry"
    sum=$((sum + seconds))
    printf '%-12s %4d %5d  %s\n' "$step" "$seconds" "$sum" "$what"
  done
}

step_names() {
  local IFS=,
  echo "${GPU_STEPS[*]%%|*}"
}
