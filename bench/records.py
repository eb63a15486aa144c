# SPDX-License-Identifier: MIT
"""compute-bench's JSON: its records by case, and names and numbers as text."""

import json
import re
from typing import Any, Optional

Record = dict[str, Any]

LIBRARIES = {"openblas": "OpenBLAS", "dnnl": "oneDNN", "torch": "libtorch"}
MANNERS = {
    "plain": "allocating",
    "reordered": "reordering",
    "blocked": "own layout",
    "winograd": "own layout, Winograd",
    "folded": "batch norm folded",
}
INSIDE = ("dnnl blocked", "dnnl winograd")  # with arrays already in the peer's own layout
PRODUCTS = ("matmul", "conv")  # suites limited by multiply-adds; the others are limited by memory


def peer_name(peer: str) -> str:
    """'dnnl reordered' -> 'oneDNN (reordering)'."""
    library, _, manner = peer.partition(" ")
    if library not in LIBRARIES:
        return "itself on one thread" if peer == "one thread" else peer
    return LIBRARIES[library] + (f" ({MANNERS.get(manner, manner)})" if manner else "")


class Case:
    """The records of one case on one device: one, or one for each peer."""

    def __init__(self, records: list[Record]):
        self.first = records[0]
        self.records = records
        self.name: str = self.first["case"]
        self.suite: str = self.first["suite"]
        self.device: str = self.first["device"]
        self.ok: bool = all(r["ok"] for r in records)
        self.peers: dict[str, float] = {
            r["peer"]: r["speedup"] for r in records if r.get("speedup")
        }

    def fastest(
        self, prefix: str = "", inside: Optional[bool] = None
    ) -> Optional[tuple[str, float]]:
        """The fastest peer whose name begins like this, and the speed-up over it."""
        found = [
            (speedup, peer)
            for peer, speedup in self.peers.items()
            if peer.startswith(prefix) and inside in (None, peer in INSIDE)
        ]
        return min(found)[::-1] if found else None

    def megabytes(self) -> float:
        """The data that it reads and writes; 0 if not counted."""
        return (self.first["gbytes_s"] or 0) * (self.first["ms"] or 0)


class Bench:
    """A run of compute-bench, of this version or of an earlier one."""

    def __init__(self, data: dict[str, Any]):
        self.environment: dict[str, Any] = data["environment"]
        self.records: list[Record] = data["records"]
        self.device: str = self.environment.get("device") or "cpu"
        self.on_cpu: bool = self.device.startswith("cpu")
        groups: dict[tuple[str, str, str], list[Record]] = {}
        for record in self.records:
            key = (record["suite"], record["case"], record["device"])
            groups.setdefault(key, []).append(record)
        self.cases: list[Case] = [Case(group) for group in groups.values()]

    def limit(self, name: str) -> Optional[float]:
        """One of the CPU's limits, if the CPU was measured."""
        return self.environment.get("limits", {}).get(name) if self.on_cpu else None

    def cache_megabytes(self) -> float:
        """The size up to which arrays may stay in the caches. Virtual machines share theirs with
        others."""
        return min((self.environment.get("cache_bytes") or 32e6) * 1e-6, 32)

    def skipped(self) -> list[tuple[str, str]]:
        """The cases that were not measured, and why."""
        found = [
            note.partition(" skipped: ")
            for note in self.environment.get("notes", [])
            if " skipped: " in note
        ]
        return [(case, why) for case, _, why in found]

    def timed(self, *suites: str) -> list[Case]:
        """Cases whose results are right."""
        return [c for c in self.cases if c.suite in suites and c.ok and c.first["ms"]]

    def named(self, name: str) -> Optional[Case]:
        return next((c for c in self.cases if c.name == name), None)

    def peer_title(self, peer: str) -> str:
        """The peer's name with the version that was measured."""
        found = self.environment.get("peers", {}).get(peer.split(" ")[0]) or ""
        version = re.search(r"\d+(\.\d+)+", found)
        library, bracket, manner = peer_name(peer).partition(" (")
        return library + (f" {version.group()}" if version else "") + bracket + manner

    def part_of_limit(self, case: Case) -> Optional[float]:
        """The fraction of the multiply-add peak or of the streaming speed that a case reaches."""
        first = case.first
        if case.suite in PRODUCTS:
            limit = self.limit("fma_f64_gflops" if first["dtype"] == "f64" else "fma_f32_gflops")
            return first["gflops"] / limit if limit and first["gflops"] else None
        limit = self.limit("stream_add_gbytes_s")
        return first["gbytes_s"] / limit if limit and first["gbytes_s"] else None


def read(path: str) -> Bench:
    with open(path, encoding="utf-8") as file:
        return Bench(json.load(file))


def time_text(ms: Optional[float]) -> str:
    if ms is None:
        return ""
    for factor, unit in ((1e6, "ns"), (1e3, "µs"), (1, "ms")):
        if ms * factor < 999.5:
            return f"{ms * factor:.3g} {unit}"
    return f"{ms / 1000:.3g} s"


def rate_text(rate: Optional[float]) -> str:
    """Millions per second: three digits, no exponent."""
    if not rate:
        return ""
    millions = rate * 1e-6
    return f"{millions:.0f} M/s" if millions >= 99.95 else f"{millions:#.3g} M/s"


def ratio_text(ratio: float) -> str:
    return (
        f"{ratio:.0f} ×" if ratio >= 99.5 else f"{ratio:.3g} ×" if ratio >= 10 else f"{ratio:.2f} ×"
    )


def number(value: Optional[float], form: str = "{:.3g}") -> str:
    return "" if value is None else form.format(value)
