# SPDX-License-Identifier: MIT
"""Measures a case with all engines, which alternate."""

import copy
import os
import re
import time

import engines
import judge

PEERS = ("onnxruntime", "openvino")
PAUSE, LONG_PAUSE = 0.002, 0.06  # ONNX Runtime's threads spin for up to 0.06 s
LIMIT = 30  # seconds for an answer
CASES_A_PROCESS = 25
SHORT = 20.0  # microseconds: calls from Python count in shorter runs
NARROWER = {"avx2": ("scalar",), "avx512": ("scalar", "avx2"), "amx": ("scalar", "avx2", "avx512"), "neon": ("scalar",),
            "dotprod": ("neon",), "i8mm": ("neon", "dotprod"), "bf16": ("neon", "dotprod", "i8mm"),
            "rvv": ("scalar",)}
# The figures that put a case on a list, and their limits.
LIMITS = {"slowdown": 1.5, "prediction": 4.0, "threads": 2.0, "isa": 1.1}
MEMORY = 4 << 20  # bytes; an engine's code alone takes as much


def predicted(text):
    """Microseconds of all steps of all plans; None if there are none."""
    total, parts, inside = 0.0, 1.0, False
    found = False
    for line in text.splitlines():
        repeat = re.search(r"run in (\d+) (?:band|slice)s", line)
        if repeat:
            parts, inside = float(repeat[1]), True
        elif inside and "repeat these for the other" in line:
            parts, inside = 1.0, False
        value = re.search(r"predicted ([0-9.e+-]+) µs", line)
        if value:
            total, found = total + parts * float(value[1]), True
    return total if found else None


class Team:
    """A process for each engine, replaced when it has died, or has measured CASES_A_PROCESS cases."""

    def __init__(self, options, warm):
        self.options, self.warm, self.workers, self.missing, self.age = options, warm, {}, {}, 0
        self.settings = {"libcompute": options}
        worker = self.get("libcompute")
        if worker is None:
            raise RuntimeError(self.missing["libcompute"])
        self.isa, self.versions = worker.ready.get("isa", ""), {"libcompute": worker.ready["version"]}
        worker.ask("costs", LIMIT)  # stores them for the next processes
        self.close()
        self.vary("one thread", threads=1)
        for isa in NARROWER.get(self.isa, ()):
            self.vary(isa, isa=isa)
        for peer in options.peers:
            self.settings[peer] = options

    def vary(self, name, **changes):
        options = copy.copy(self.options)
        for key, value in changes.items():
            setattr(options, key, value)
        self.settings[name] = options

    def get(self, name):
        """A worker, or None."""
        worker = self.workers.get(name)
        if name in self.missing or (worker is not None and not worker.reason):
            return worker
        engine = name if name in PEERS else "libcompute"
        worker = engines.Worker(engine, self.settings[name])
        if worker.reason:
            self.missing[name] = worker.reason
            return None
        for command in (f"load {self.warm[0]}", f"bind {self.warm[1]}", "forget"):
            worker.ask(command, LIMIT)
        if hasattr(self, "versions"):
            self.versions[engine] = worker.ready["version"]
        worker.fresh = True
        self.workers[name] = worker
        return worker

    def next_case(self):
        self.age += 1
        if self.age % CASES_A_PROCESS == 0:
            self.close()

    def close(self):
        for worker in self.workers.values():
            if not worker.reason:
                worker.close()
        self.workers = {}


class Measurement:
    """The engines with a case loaded."""

    def __init__(self, case, team, folder):
        self.case, self.team, self.folder = case, team, folder
        self.workers, self.times, self.cpu = {}, {}, {}
        self.record = {
            "case": case.name,
            "kind": case.kind,
            "family": case.family,
            "words": case.words,
            "choices": case.choices,
            "left_out": {},
        }
        self.files = case.write(folder)

    def load(self, names):
        for name in names:
            worker = self.team.get(name)
            if worker is None:
                continue
            for command in (f"load {self.files[0]}", f"bind {self.files[1]}", f"save_all {self.folder}/{name}.npz"):
                answer = worker.ask(command, LIMIT)
                if "error" in answer:
                    self.record["left_out"][name] = answer["error"].split("\n")[0][:160]
                    break
            else:
                self.workers[name] = worker
            if getattr(worker, "fresh", False):
                worker.fresh = False
                peak = worker.ask("memory", LIMIT).get("peak", 0)
                if name in self.workers and peak:
                    self.record.setdefault("memory", {})[name] = peak

    def results(self):
        return {name: judge.read(f"{self.folder}/{name}.npz") for name in self.workers}

    def judge(self):
        """Leaves out peers with other results. "wrong": a peer and the reference agree on something else."""
        results = self.results()
        if "libcompute" not in results:
            return "refused" if results else "invalid"
        ours = results["libcompute"]
        peers = [name for name in results if name in PEERS]
        far = {name: judge.apart(ours, results[name], self.case) for name in peers}
        for name in peers:
            if far[name] > 1:
                self.record["left_out"][name] = "another result"
                self.record.setdefault("apart", {})[name] = far[name]
                del self.workers[name]
        if not peers:
            return "alone"
        if min(far.values()) <= 1:
            return "right"
        truth = judge.reference(*self.files, f"{self.folder}/reference.npz")
        if truth is None:
            return "undecided"
        error = {name: judge.apart(theirs, truth, self.case) for name, theirs in results.items()}
        self.record["apart_from_reference"] = error
        if error["libcompute"] <= 1:
            return "right"
        return "wrong" if min(error[name] for name in peers) <= 1 else "undecided"

    def vary(self, names):
        """Loads variants of libcompute. False if one has another result."""
        self.load(names)
        results = self.results()
        far = {name: judge.apart(results["libcompute"], results[name], self.case) for name in names if name in results}
        differ = {name: value for name, value in far.items() if value > 1}
        if differ:
            self.record["apart"] = {**self.record.get("apart", {}), **differ}
        return not differ or self.case.random

    def rounds(self, count, seconds):
        for _ in range(count):
            for name, worker in list(self.workers.items()):
                answer = worker.ask(f"run {seconds}", LIMIT)
                if "error" in answer:
                    self.record["left_out"][name] = answer["error"].split("\n")[0][:160]
                    del self.workers[name]
                    continue
                self.times[name] = min(self.times.get(name, 1e9), 1e6 * min(answer["times"]))
                self.cpu[name] = min(self.cpu.get(name, 1e9), 1e6 * answer["cpu"])
                time.sleep(LONG_PAUSE if name == "onnxruntime" else PAUSE)

    def figures(self):
        """What LIMITS are for."""
        found, ours = {}, self.times.get("libcompute")
        if ours is None:
            return found
        best = min((self.times[name] for name in self.times if name in PEERS), default=None)
        if best:
            found["slowdown"] = ours / best
        if self.record.get("predicted_us"):
            found["prediction"] = max(self.record["predicted_us"] / ours, ours / self.record["predicted_us"])
        if "one thread" in self.times and self.team.options.threads > 1:
            found["threads"] = self.cpu["libcompute"] / self.cpu["one thread"]
        narrow = [self.times[name] for name in self.times if name in NARROWER.get(self.team.isa, ())]
        if narrow:
            found["isa"] = ours / min(narrow)
        return found

    def short(self):
        """Times of libcompute and the best peer in which calls from Python and of the library count."""
        best = min((self.times[name] for name in self.times if name in PEERS), default=0)
        return max(self.times.get("libcompute", 0), best) < SHORT

    def suspicious(self):
        """The figures above their limits, in cases that are not short."""
        if self.times.get("libcompute", 0) < SHORT:
            return []
        return [name for name, value in self.figures().items() if value > LIMITS[name]]

    def finish(self):
        """The record, with four digits of each figure."""
        r = self.record
        r["us"] = {name: float(f"{value:.4g}") for name, value in self.times.items()}
        r["cpu_us"] = {
            name: float(f"{self.cpu[name]:.4g}") for name in ("libcompute", "one thread") if name in self.cpu
        }
        r.update({name: float(f"{value:.4g}") for name, value in self.figures().items()})
        r["flags"] = self.suspicious()
        r["short"] = self.short()
        return r


def measure(case, team, folder, options, confirm=True):
    """The record of a case: a screening, and more rounds for what seems to be above a limit. Short cases, which are
    never listed, take one round."""
    team.next_case()
    m = Measurement(case, team, folder)
    # ONNX Runtime runs last in a round: its threads spin afterwards.
    m.load(["libcompute", *sorted(options.peers, key=lambda name: name == "onnxruntime")])
    m.record["verdict"] = m.judge()
    if "libcompute" in m.workers:
        text = m.workers["libcompute"].ask("explain", LIMIT).get("text", "")
        value = predicted(text)
        m.record["predicted_us"] = value and float(f"{value:.4g}")
        m.record["host"] = "function of the host" in text
        if options.explain:
            m.record["plan"] = text
        m.rounds(1, options.seconds)
        if m.times.get("libcompute", 0) > 0.75 * SHORT:
            if not m.vary([name for name in team.settings if name != "libcompute" and name not in PEERS]):
                m.record["verdict"] = "wrong"
            m.workers = {name: m.workers[name] for name in sorted(m.workers, key=lambda name: name == "onnxruntime")}
            m.rounds(options.rounds - 1, options.seconds)
            if confirm and m.suspicious():
                m.rounds(options.more_rounds, 4 * options.seconds)
                m.record["confirmed"] = m.suspicious()
    for name in team.settings:
        path = os.path.join(folder, f"{name}.npz")
        if os.path.exists(path):
            os.remove(path)
    return m.finish()
