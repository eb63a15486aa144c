/* SPDX-License-Identifier: MIT */
/* Cases without a peer; see single.h. */
#include "single.h"

#include "measure.h"

typedef struct single_state {
  const bench_single *single;
  compute_status status;
} single_state;

static void run(void *state, int64_t times) {
  single_state *s = state;
  for (int64_t i = 0; i < times && !s->status; i++) s->status = s->single->call(s->single->state);
}

void bench_run_single(bench_session *session, bench_record *record, const bench_single *single) {
  single_state state = {.single = single};
  bench_runner runner = {.run = run, .state = &state};
  bench_measure(&runner, 1, session->options->quick ? 0.1 : 0.4);
  if (state.status) {
    bench_fail_record(session, record, "does not run");
    return;
  }
  double per = single->per > 0 ? single->per : 1;
  record->ms = bench_quantile(&runner, 0.5) / per;
  record->ms_p10 = bench_quantile(&runner, 0.1) / per;
  record->ms_p90 = bench_quantile(&runner, 0.9) / per;
  if (single->bytes > 0) record->gbytes_s = single->bytes / per / record->ms * 1e-6;
  bench_record_add(session, record);
}
