# SPDX-License-Identifier: MIT
# Long tests do a share of their work each day: COMPUTE_TEST_SAMPLE_SEED, which tests/run.sh --full
# sets to COMPUTE_TEST_SEED, the date unless that is given, says which. Without it, or with COMPUTE_TEST_LONG, they do all.
# Source this file.
#
#   share_lines COUNT   of the lines on stdin today's of COUNT shares
#   share_is_today NUMBER COUNT   whether today's of COUNT shares is this one
#   share_vectors       for COMPUTE_CPU_VECTORS: one of the instruction sets that this machine has;
#                       in time each of them meets every share of lines

share_lines() {
  if [[ -n ${COMPUTE_TEST_LONG-} || -z ${COMPUTE_TEST_SAMPLE_SEED-} ]]; then
    cat
  else
    awk -v count="$1" -v seed="$COMPUTE_TEST_SAMPLE_SEED" '(NR + seed) % count == 0'
  fi
}

share_is_today() {
  seq "$2" | share_lines "$2" | grep -x "$1" >/dev/null
}

share_vectors() {
  local sets COMPUTE_TEST_SAMPLE_SEED=${COMPUTE_TEST_SAMPLE_SEED:+$((COMPUTE_TEST_SAMPLE_SEED / 2))}
  sets=$(echo avx2; ! grep -qwm1 avx512vl /proc/cpuinfo || echo avx512)
  sets=$(share_lines "$(wc -l <<<"$sets")" <<<"$sets")
  [[ $sets == *$'\n'* ]] && echo ON || echo "$sets"
}
