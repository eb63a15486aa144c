# SPDX-License-Identifier: MIT
# Long tests do a share of their work each day. COMPUTE_TEST_SAMPLE_SEED selects the share;
# tests/run.sh --full sets it to COMPUTE_TEST_SEED, by default the date. Without it, or with
# COMPUTE_TEST_LONG, they do all.
# Source this file. If COMPUTE_TEST_TURN is NUMBER/COUNT, a script runs only on that one of each
# COUNT days, and exits with 77 on the others; its shares then change from one of its days to the
# next.
#
#   share_lines COUNT   prints today's of COUNT shares of the lines on stdin
#   share_vectors       for COMPUTE_CPU_VECTORS: one instruction set of this machine; over
#                       time, each set meets every share of lines

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
unset COMPUTE_TEST_TURN # not for tests within this one
