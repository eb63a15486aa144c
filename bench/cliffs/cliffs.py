# SPDX-License-Identifier: MIT
"""Finds slow cases that nobody has measured: draws single operations and small graphs, and measures each beside ONNX
Runtime and OpenVINO, with one thread, and with narrower instruction sets.

    cliffs.py [--seed N] [--first I] [--count N] [--kinds A,B] [--json FILE.jsonl] [--minutes M] [--reduce SECONDS]
    cliffs.py --again FILE.jsonl [--json FILE.jsonl]
    cliffs.py --listed FILE.jsonl --reduce SECONDS [--json FILE.jsonl]
    cliffs.py --case SEED:INDEX [--keep FOLDER]
    cliffs.py --case 'MatMul=0,64,3,...' [--reduce SECONDS] [--keep FOLDER]

Every case is drawn from the seed and its index, so both repeat it. Results are compared. README.md explains the figures
and their limits; report.py makes a summary and a page of the files. The exit status is 1 only if a result of libcompute
is wrong. Needs numpy and onnx, and onnxruntime and openvino for comparisons, from PyPI.
"""

import argparse
import json
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "peers")]
sys.dont_write_bytecode = True
SKIP = 77


def parse():
    import engines

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="index of the first case")
    parser.add_argument("--count", type=int, default=100, help="cases")
    parser.add_argument("--minutes", type=float, default=1e9, help="ends after this time")
    parser.add_argument("--kinds", type=lambda text: text.split(","), help="operators and graphs, with commas")
    parser.add_argument("--list", action="store_true", help="names the kinds")
    parser.add_argument("--draw", action="store_true", help="prints the cases and measures nothing")
    parser.add_argument("--case", help="SEED:INDEX, or KIND=CHOICES as in the file")
    parser.add_argument("--again", metavar="FILE.jsonl", help="measures the listed cases of a file again")
    parser.add_argument("--keep", metavar="FOLDER", help="writes the models and inputs of --case, or of listed cases")
    parser.add_argument("--explain", action="store_true", help="prints the plan of each listed case")
    parser.add_argument(
        "--reduce",
        type=float,
        default=0,
        metavar="SECONDS",
        help="makes the worst case of each kind smaller for at most this time",
    )
    parser.add_argument("--listed", metavar="FILE.jsonl", help="measures nothing first: reduces the cases of a file")
    parser.add_argument("--figures", type=lambda text: text.split(","), default=["slowdown"], help="reduces these")
    parser.add_argument("--json", metavar="FILE.jsonl", help="a line for each case; lines are appended")
    parser.add_argument("--build", default=os.path.join(engines.ROOT, "build"), help="build folder")
    parser.add_argument("--library", help="libcompute.so (default: that of the build folder)")
    parser.add_argument("--isa", help="COMPUTE_CPU_ISA of libcompute")
    parser.add_argument(
        "--peers", type=lambda text: [t for t in text.split(",") if t], default=["openvino", "onnxruntime"]
    )
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--rounds", type=int, default=3, help="of the screening")
    parser.add_argument("--more-rounds", type=int, default=6, help="of what seems to be above a limit")
    parser.add_argument("--seconds", type=float, default=0.002, help="of each engine in a round, or one run")
    options = parser.parse_args()
    options.library = options.library or os.path.join(options.build, "lib", "libcompute.so")
    options.device = "cpu"
    return options


def line(record):
    """One line for people."""
    ours, figure = record["us"].get("libcompute"), f"{record['slowdown']:.2f}" if "slowdown" in record else "–"
    marks = " ".join(f"{name} {record[name]:.2g}" for name in record["flags"] if name != "slowdown")
    reason = record["left_out"].get("libcompute", "")
    verdict = "" if record["verdict"] == "right" else f"[{record['verdict']}{': ' * bool(reason)}{reason}] "
    words = f"{verdict}{record['kind']}: {record['words'][:150]}"
    return f"{record['case']:>9} {figure:>6} {ours or 0:10.1f} µs  {words}  {marks}"


def reduced(case, record, figure, measure_case, seconds):
    """The smallest case found whose figure is at least 0.6 of the first, and above its limit."""
    from measure import LIMITS, SHORT

    end, goal = time.monotonic() + seconds, max(LIMITS[figure], 0.6 * record[figure])
    best, tried = (case, record), {tuple(case.choices)}

    def attempt(choices):
        nonlocal best
        try:
            smaller = case.with_choices(choices)
        except Exception:  # these choices make no model
            return False
        if tuple(smaller.choices) in tried or smaller.bytes > best[0].bytes * 1.01 + 64:
            return False
        tried.add(tuple(smaller.choices))
        found = measure_case(smaller)
        if found.get(figure, 0) < goal or found["us"]["libcompute"] < SHORT:
            return False
        best = (smaller, found)
        return True

    changed = True
    while changed and time.monotonic() < end:
        changed = False
        # Larger numbers first: they are the sizes.
        for place in sorted(range(len(best[0].choices)), key=lambda i: -best[0].choices[i]):
            low, value = best[0].lowest[place] if place < len(best[0].lowest) else 0, None
            for part in (0, 0.25, 0.5, 0.75):
                if time.monotonic() > end or place >= len(best[0].choices):
                    break
                now = best[0].choices[place]
                value = low + int((now - low) * part)
                if value < now and attempt([*best[0].choices[:place], value, *best[0].choices[place + 1 :]]):
                    changed = True
                    break
    return best


class Output:
    """Lines of JSON: the setting first."""

    def __init__(self, options, team):
        import compare

        self.file = open(options.json, "a", encoding="utf-8") if options.json else None
        self.write(
            {
                "machine": compare.processor(),
                "commit": compare.commit(),
                "seed": options.seed,
                "threads": options.threads,
                "isa": team.isa,
                "date": time.strftime("%Y-%m-%d"),
            }
        )

    def write(self, values):
        if self.file:
            self.file.write(json.dumps(values) + "\n")
            self.file.flush()


def selected(options):
    """The cases, made one by one."""
    import case as cases
    import report

    if options.listed:
        return
    if options.case:
        yield cases.repeated(options.case, options.kinds)
    elif options.again:
        for record in report.read([options.again])[1]:
            if record["flags"] and "reduced" not in record:
                yield cases.again(record)
    else:
        for index in range(options.first, options.first + options.count):
            yield cases.drawn(options.seed, index, options.kinds)


def run(options, folder):
    import case as cases
    import measure
    import report

    warm = cases.repeated("Add=").write(folder, "warm")
    team = measure.Team(options, warm)
    for peer in options.peers:
        if team.get(peer) is None:
            print(f"{peer} is left out: {team.missing[peer]}")
    output, records, end = Output(options, team), [], time.monotonic() + 60 * options.minutes
    for case in selected(options):
        if time.monotonic() > end:
            break
        record = measure.measure(case, team, folder, options)
        records.append(record)
        output.write({key: value for key, value in record.items() if key != "plan"})
        if options.case or record["flags"] or record["verdict"] in ("wrong", "undecided", "refused"):
            print(line(record), flush=True)
            if options.explain:
                print(json.dumps(record["us"]), json.dumps(record["cpu_us"]), record.get("plan", ""), sep="\n")
            if options.keep:
                os.makedirs(options.keep, exist_ok=True)
                case.write(options.keep, record["case"].replace(":", "_").replace("=", "_").replace(",", "_")[:60])
    output.write({"versions": team.versions})
    if options.reduce:
        reduce_all(
            options,
            end,
            report.read([options.listed])[1] if options.listed else records,
            output,
            lambda case: measure.measure(case, team, folder, options, False),
            lambda case: measure.measure(case, team, folder, options),
        )
    team.close()
    return records


def reduce_all(options, end, records, output, quick, careful):
    """The worst of each kind and figure."""
    import case as cases

    worst = {}
    for record in records:
        for figure in record.get("confirmed", []):
            key = (record["kind"], figure)
            if key not in worst or record[figure] > worst[key][figure]:
                worst[key] = record
    for (_, figure), record in sorted(worst.items(), key=lambda item: -item[1][item[0][1]]):
        if figure not in options.figures or time.monotonic() > end:
            continue
        smaller, _ = reduced(cases.again(record), record, figure, quick, options.reduce)
        found = careful(smaller)
        output.write({**found, "reduced": figure, "case": record["case"], "text": smaller.text()})
        became = f"{record['case']} {record[figure]:.3g} is {found.get(figure, 0):.3g}"
        print(f"{figure}: {became} for {smaller.text()}  {smaller.words}", flush=True)


def main():
    try:
        import numpy  # noqa: F401
        import onnx.helper  # noqa: F401 (Debian's test data are a folder called onnx)
    except ImportError as error:
        print(f"skipped: {error}; PyPI has it")
        sys.exit(SKIP)
    options = parse()
    import case as cases

    if options.list:
        print("\n".join(cases.kinds(options.kinds)))
        return
    if options.draw:
        for index in range(options.first, options.first + options.count):
            case = cases.drawn(options.seed, index, options.kinds)
            print(f"{case.name} {case.text()} {case.words}")
        return
    os.environ.setdefault("COMPUTE_CACHE_DIR", os.path.join(os.path.abspath(options.build), "cliffs"))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        records = run(options, folder)
    wrong = [record["case"] for record in records if record["verdict"] == "wrong"]
    print(f"{len(records)} cases, {sum(bool(record['flags']) for record in records)} listed")
    if wrong:
        sys.exit(f"FAILED: wrong results: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
