# SPDX-License-Identifier: MIT
# Long tests do a share of their work each day: COMPUTE_TEST_SAMPLE_SEED, which tests/run.sh --full
# sets to COMPUTE_TEST_SEED, the date unless that is given, says which. Without it, or with
# COMPUTE_TEST_LONG, they do all.
# Source this file. Where COMPUTE_TEST_TURN is NUMBER/COUNT, a script runs on that one of each COUNT days
# only, and leaves with 77 on the others; its shares then change from one of its days to the next.
#
#   share_lines COUNT   of the lines on stdin today's of COUNT shares
#   share_vectors       for COMPUTE_CPU_VECTORS: one of the instruction sets that this machine has;
#                       in time each of them meets every share of lines

share_lines() {
  if [[ -n ${COMPUTE_TEST_LONG-} || -z ${COMPUTE_TEST_SAMPLE_SEED-} ]]; then
    cat
  else
    awk -v count="$1" -v seed="$COMPUTE_TEST_SAMPLE_SEED" '(NR + seed) % count == 0'
  fi
}

share_turn() { # NUMBER/COUNT
  local number=${1%/*} count=${1#*/}
  seq "$count" | share_lines "$count" | grep -x "$number" >/dev/null ||
    { echo "skipped: turn $1 is another day's; COMPUTE_TEST_SEED=0 takes all"; exit 77; }
  COMPUTE_TEST_SAMPLE_SEED=${COMPUTE_TEST_SAMPLE_SEED:+$((COMPUTE_TEST_SAMPLE_SEED / count))}
}

share_vectors() {
  local sets COMPUTE_TEST_SAMPLE_SEED=${COMPUTE_TEST_SAMPLE_SEED:+$((COMPUTE_TEST_SAMPLE_SEED / 2))}
  sets=$(echo avx2; ! grep -qwm1 avx512vl /proc/cpuinfo || echo avx512)
  sets=$(share_lines "$(wc -l <<<"$sets")" <<<"$sets")
  [[ $sets == *$'\n'* ]] && echo ON || echo "$sets"
}

if [[ -n ${COMPUTE_TEST_TURN-} ]]; then share_turn "$COMPUTE_TEST_TURN"; fi
unset COMPUTE_TEST_TURN # not that of tests within this one
