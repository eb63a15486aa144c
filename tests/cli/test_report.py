#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/report.py and bench/draw.py: their pages for results of this and of earlier versions."""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "bench")
RESULTS = os.path.join(BENCH, "results", "xeon-avx512-2core")
TEXT = "{http://www.w3.org/2000/svg}text"
TITLE = "{http://www.w3.org/2000/svg}title"
ROW = {"suite": "matmul", "case": "matmul_64", "device": "cpu", "dtype": "f32", "ms": 1.0,
       "ms_p10": 0.9, "ms_p90": 1.1, "gflops": 2.0, "gbytes_s": 1.0, "max_rel_err": 1e-7, "ok": True}


def result_files():
    """The stored results of compute-bench."""
    paths = sorted(glob.glob(os.path.join(BENCH, "results", "*", "bench*.json")))
    return [path for path in paths if "picasso" not in path]


def read(name):
    with open(os.path.join(RESULTS, name), encoding="utf-8") as file:
        return json.load(file)


def sizes(text):
    return [float(size) for size in re.findall(r"font(?:-size)?:[^;}]*?([\d.]+)px", text)]


def boxes(drawing):
    """(left, right, y, words) of each text, with the width that it has in a wide font."""
    for text in xml.fromstring(drawing).iter(TEXT):
        style, words = text.get("style"), "".join(text.itertext())
        wide, x = 0.56 * sizes(style)[0] * len(words), float(text.get("x"))
        anchor = re.search(r"text-anchor: (\w+)", style)
        left = x - wide * {"middle": 0.5, "end": 1}.get(anchor.group(1) if anchor else "", 0)
        yield left, left + wide, float(text.get("y")), words


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def start(self, program, *arguments):
        """Uses only Python's standard library."""
        return subprocess.run([sys.executable, "-S", os.path.join(BENCH, program), *arguments],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONIOENCODING": "utf-8"})

    def page(self, data, *options):
        """The page and the printed output."""
        source, target = self.path("b.json"), self.path("r.html")
        with open(source, "w", encoding="utf-8") as file:
            json.dump(data, file)
        result = self.start("report.py", source, target, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(target, encoding="utf-8") as file:
            return file.read(), result.stdout

    stored_pages = {}

    def stored_page(self, name):
        """The page of a stored result, made once for all tests."""
        if name not in self.stored_pages:
            self.stored_pages[name] = self.page(read(name))[0]
        return self.stored_pages[name]

    def drawings(self, page):
        found = re.findall(r"<svg.*?</svg>", page, re.S)
        for drawing in found:
            self.check_drawing(drawing)
        return found

    def check_drawing(self, drawing):
        root = xml.fromstring(drawing)
        self.assertTrue(root.find(TITLE).text)
        self.assertNotRegex(drawing, r"\bnan\b|\binf\b|#000000")
        self.assertGreaterEqual(min(sizes(drawing)), 11)
        found, width = sorted(boxes(drawing)), float(root.get("width"))
        for i, (left, right, y, words) in enumerate(found):
            self.assertTrue(left >= 0 and right <= width, (words, left, right, width))
            for other in found[i + 1 :]:
                self.assertFalse(other[0] < right and abs(other[2] - y) < 10, (words, other[3]))


class Report(Pages):
    def test_what_was_skipped_and_what_the_build_lacks_is_said_above_all_figures(self):
        why = "compute-fit was built without libtiff (Debian: libtiff-dev)"
        notes = [f"fit/XYNB_7_tiff skipped: {why}", "matmul/matmul_64: odd"]
        peer = "the peer oneDNN: no libdnnl (Debian: libdnnl-dev)"
        with open(self.path("left"), "w", encoding="utf-8") as file:
            file.write(f"{peer}\n")
        data = {"environment": {"notes": notes}, "records": [ROW]}
        page, _ = self.page(data, "--left-out", self.path("left"))
        box = page.partition("<section>")[0].partition('<details class="left"')[2]
        self.assertIn("1 case was skipped; 1 part is not in this build", box)
        self.assertIn(f"<li>fit/XYNB_7_tiff: {why}</li><li>{peer}</li>", box)
        page, _ = self.page({"environment": {}, "records": [ROW]})
        self.assertNotIn("<details", page)

    def test_tables_say_a_limit_only_where_there_is_one(self):
        """The streaming limit is the memory's: cached data may exceed it."""
        limits = {"stream_add_gbytes_s": 40.0, "fma_f32_gflops": 100.0}
        cached = {**ROW, "suite": "elementwise", "case": "add_1M", "ms": 0.14, "gbytes_s": 86.8}
        streamed = {**cached, "case": "add_10M", "ms": 4.0, "gbytes_s": 30.0}
        page, _ = self.page({"environment": {"limits": limits}, "records": [ROW, cached, streamed]})
        self.assertNotIn("217%", page)
        self.assertIn("<td>75%</td>", page)
        self.assertIn("What stays in the caches has neither limit", page)

    def test_rows_of_fits_have_different_names(self):
        for path in result_files():
            with open(path, encoding="utf-8") as file:
                page, _ = self.page(json.load(file))
            fits = page.partition('aria-label="fits"')[2].partition("</table>")[0]
            names = re.findall(r"<tr><td>([^<]*)</td>", fits)
            self.assertEqual(len(names), len(set(names)), path)

    def test_one_value_far_above_the_others_does_not_stretch_the_axis(self):
        rows = [{**ROW, "suite": "reduce", "case": f"sum_{i}", "gbytes_s": 50.0, "ms": 2.0,
                 "peer": "dnnl", "peer_ms": 2.0 * ratio, "speedup": ratio}
                for i, ratio in enumerate((0.9, 1.1, 1.5, 2.0, 3.0, 223.0))]
        page, _ = self.page({"environment": {}, "records": rows})
        axis = {words for drawing in self.drawings(page) for *_, words in boxes(drawing)}
        self.assertIn("223 ×", axis)
        self.assertIn("2 ×", axis)
        self.assertFalse({"16 ×", "64 ×", "128 ×", "256 ×"} & axis, axis)

    def test_one_red_box_names_what_was_seen_and_allowed(self):
        failure = {"what": "error", "unit": "", "seen": 0.5, "allowed": 1e-6, "least": False,
                   "text": "error 0.5, at most 1e-6 allowed"}
        empty = dict.fromkeys(("ms", "ms_p10", "ms_p90", "gflops", "gbytes_s", "max_rel_err"))
        wrong = {**ROW, **empty, "ok": False, "failure": failure}
        old = {**ROW, **empty, "case": "old", "ok": False}
        records = [wrong, {**wrong, "peer": "a <peer>", "peer_ms": 2.0, "speedup": 2.0}, old]
        page, _ = self.page({"environment": {}, "records": records})
        self.assertEqual(page.count('<div class="failed"'), 1)
        self.assertIn("<li>matmul/matmul_64 on cpu: error 0.5, at most 1e-6 allowed</li>"
                      "<li>matmul/old on cpu: wrong</li>", page)
        self.drawings(page)
        for records in ([], [ROW]):
            page, _ = self.page({"environment": {}, "records": records})
            self.assertNotIn('<div class="failed"', page)
            self.drawings(page)

    def test_the_chart_of_products_names_its_axes(self):
        words = {text for drawing in self.drawings(self.stored_page("bench-cpu.json"))
                 for *_, text in boxes(drawing)}
        self.assertLessEqual({"GFLOP/s", "n, of products of n × n matrices in f32"}, words)

    def test_notes_are_grey_and_in_their_sections(self):
        notes = ["matmul/matmul_64: <odd> & rare", "peer x does not load"]
        page, _ = self.page({"environment": {"notes": notes}, "records": [ROW]})
        self.assertRegex(page, r'(?s)id="suite-matmul".*<p class="note">matmul/matmul_64: '
                               r'&lt;odd&gt; &amp; rare</p>.*id="environment".*<p class="note">peer x')
        self.assertRegex(page, r"\.note \{ color: var\(--soft\)")

    def test_goals_are_shown_when_asked_for(self):
        goal = {"what": "time / slowest stage", "unit": "", "seen": 1.14, "allowed": 1.1,
                "least": False, "met": False}
        data = {"environment": {}, "records": [{**ROW, "suite": "batch", "case": "balanced",
                                                "goal": goal}]}
        page, said = self.page(data)
        self.assertNotRegex(page + said, r"(?i)goal|missed")
        page, said = self.page(data, "--goals")
        self.assertIn("<td>time / slowest stage: at most 1.1</td><td>1.14</td><td>missed</td>", page)
        self.assertIn("missed: balanced on cpu: 1.14, goal: time / slowest stage: at most 1.1", said)

    def test_peers_have_their_names_and_versions(self):
        page, _ = self.page(read("bench-networks.json"))
        self.assertIn("oneDNN 2.6.3, OpenBLAS 0.3.21, libtorch 1.13.0", page)
        self.assertIn("oneDNN (own layout) 0.94", page)
        self.assertNotIn("dnnl blocked", page)

    def test_arrays_in_memory_and_in_caches_are_apart(self):
        page = self.stored_page("bench-cpu.json")
        memory = page.partition('<section><h2 id="memory"')[2].partition("</section>")[0]
        caches = page.partition('<section><h2 id="caches"')[2].partition("</section>")[0]
        self.assertIn("add_10M:", memory)
        self.assertIn("add_1M:", caches)
        self.assertNotIn("add_1M", memory)
        self.assertNotIn("add_10M", caches)

    def test_logarithmic_axes_have_dots_and_linear_ones_bars(self):
        page = self.stored_page("bench-cpu.json")
        marks = re.findall(r"<g><title>([^<]*)</title>(.*?)</g>", page, re.S)
        self.assertGreater(len(marks), 100)
        for title, mark in marks:
            self.assertEqual("<path" in mark, "GB/s of" not in title, title)

    def test_pictures_are_dark_where_the_reader_wants_it_and_never_scaled(self):
        page, _ = self.page(read("bench-cpu.json"), "--picasso",
                            os.path.join(RESULTS, "bench-fit-picasso.json"))
        dark = set(re.findall(r'svg \[style\*="(?:fill|stroke): (#\w+)"\]', page))
        for drawing in self.drawings(page):
            self.assertLessEqual(set(re.findall(r"(?:fill|stroke): (#\w+)", drawing)), dark)
        widths = {int(w) for w in re.findall(r'<svg [^>]* width="(\d+)"', page)}
        self.assertEqual(len(widths), 2)
        self.assertLess(min(widths), 366)  # on a telephone with 390
        self.assertNotRegex(page, r"svg \{[^}]*(max-)?width")
        self.assertGreaterEqual(min(sizes(page.partition("</style>")[0])), 11)
        self.assertIn("Picasso 0.11.3, gaussmle", page)

    def test_what_cannot_be_read_or_written_is_said(self):
        for source, target in (("nothing.json", "r.html"), ("b.json", "nowhere/r.html")):
            with open(self.path("b.json"), "w", encoding="utf-8") as file:
                json.dump({"environment": {}, "records": [ROW]}, file)
            result = self.start("report.py", self.path(source), self.path(target))
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, r"^report.py: .*(nothing.json|nowhere/r.html)")


class Earlier(Pages):
    def test_results_of_earlier_versions_can_be_read(self):
        self.assertGreater(len(result_files()), 4)
        for path in result_files():
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
            page, _ = self.page(data)
            self.assertIn(data["environment"]["date"], page)
            self.assertIn(f"<td>{data['records'][0]['case']}</td>", page)
            self.assertNotRegex(page, r'(?i)<script|<link|src=|@import|(href="|url\()[^#]')
            names = re.findall(r'\bid="([^"]*)"', page)
            self.assertEqual(len(names), len(set(names)), path)
            for name in re.findall(r'(?:href="|url\()#([^")]*)', page):
                self.assertIn(name, names)
            self.drawings(page)


class Draw(Pages):
    def draw(self, *arguments):
        result = self.start("draw.py", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(arguments[2], encoding="utf-8") as file:
            drawing = file.read()
        self.check_drawing(drawing)
        self.assertIn("prefers-color-scheme: dark", drawing)
        return result.stdout, drawing

    def test_fits_and_networks_are_drawn_and_printed_as_a_table(self):
        source = os.path.join(RESULTS, "bench-fit.json")
        table, drawing = self.draw("fits", source, self.path("p.svg"))
        self.assertIn("\n| XYNB, 7 × 7, f32 | 4 | 10.9 M/s | 6.20 M/s | 3.03 |", table)
        self.assertIn("<title>XYNB, 7 × 7, f32: 10.9 M/s</title>", drawing)
        source = os.path.join(RESULTS, "bench-networks.json")
        table, drawing = self.draw("networks", source, self.path("p.svg"), "--goals")
        self.assertRegex(table, r"\n\| conv3x3_56 \|.* 1.1 × the fastest peer on the same arrays: "
                                r"1.02 × oneDNN \(reordering\)")
        self.assertIn("1.02 × oneDNN", drawing)

    def test_a_timeline_has_a_row_for_each_queue(self):
        events = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "host"}},
                  {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "cpu"}},
                  {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {"name": "source"}},
                  {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "queue"}},
                  {"ph": "X", "cat": "span", "name": "read", "pid": 0, "tid": 1, "ts": 5000, "dur": 2000},
                  {"ph": "X", "cat": "span", "name": "stream", "pid": 0, "tid": 1, "ts": 0, "dur": 9000},
                  {"ph": "X", "cat": "kernel", "name": "a<b", "pid": 1, "tid": 1, "ts": 7000, "dur": 3000}]
        with open(self.path("t.json"), "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
        arguments = "trace", self.path("t.json"), self.path("p.svg")
        _, drawing = self.draw(*arguments, "--title", "A & B")
        words = [text for *_, text in boxes(drawing)]
        self.assertLess(words.index("source"), words.index("cpu queue"))
        self.assertIn("<title>A &amp; B</title>", drawing)
        self.assertIn("<title>a&lt;b: 3.00 ms</title>", drawing)
        _, drawing = self.draw(*arguments, "--from", "2.5")
        self.assertNotIn("source", [text for *_, text in boxes(drawing)])
        self.assertEqual(self.start("draw.py", *arguments, "--from", "50").returncode, 1)


if __name__ == "__main__":
    unittest.main()
