#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Serves the page of docs/web/ and draws digits in it with a headless Chromium.

    page.py CHROMIUM FOLDER [--threads] [--save FILE]

FOLDER has the page with its built files. --threads serves it with the two headers that threads need. The
digits are read with the ONNX file that the page has written, and again after this file was chosen as the user's; --save
keeps it. Fails if a drawn digit is read as another one, if the page asks for anything from elsewhere,
or if it reports an error. Chromium is driven over a pipe, so that no port of it is open.
"""
import argparse
import base64
import functools
import http.server
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time

SECONDS = 120  # for any wait
TYPES = {".wasm": "application/wasm", ".js": "text/javascript", ".html": "text/html", ".gz": "application/gzip"}
# Strokes in a square of 1: the digit and its lines.
DIGITS = {
    0: [[(.5, .1), (.3, .2), (.25, .5), (.3, .8), (.5, .9), (.7, .8), (.75, .5), (.7, .2), (.5, .1)]],
    1: [[(.5, .1), (.5, .9)]],
    3: [[(.3, .15), (.6, .12), (.7, .3), (.5, .48), (.7, .65), (.65, .85), (.3, .88)]],
    4: [[(.55, .1), (.25, .6), (.8, .6)], [(.62, .4), (.6, .9)]],
    6: [[(.6, .1), (.35, .4), (.3, .75), (.5, .9), (.68, .75), (.6, .58), (.35, .65)]],
    7: [[(.25, .12), (.75, .12), (.45, .9)], [(.35, .5), (.7, .5)]],
}


class Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = TYPES
    isolated = False
    missing = []

    def end_headers(self):
        if self.isolated:
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *_):
        pass

    def log_error(self, *words):
        self.missing.append(self.path)


class Browser:
    """A browser's protocol over two pipes, file descriptors 3 and 4 of the browser."""

    def __init__(self, program, folder):
        to_read, self.to = os.pipe()
        self.source, from_write = os.pipe()
        arguments = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--disable-background-networking", "--no-first-run", "--remote-debugging-pipe",
                     f"--user-data-dir={folder}", "about:blank"]
        shell = 'exec 3<&"$0" 4>&"$1"; shift; exec "$@"'
        self.process = subprocess.Popen(["bash", "-c", shell, str(to_read), str(from_write), *arguments],
                                        pass_fds=(to_read, from_write), stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.left, self.number, self.session, self.events = b"", 0, None, []

    def message(self, until):
        while b"\0" not in self.left:
            if not select.select([self.source], [], [], max(0, until - time.monotonic()))[0]:
                sys.exit("the browser does not answer")
            part = os.read(self.source, 1 << 16)
            if not part:
                sys.exit("the browser has ended")
            self.left += part
        text, self.left = self.left.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while True:
            answer = self.message(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, address):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "DOM"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=address)

    def value(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(self, expression, wanted):
        until = time.monotonic() + SECONDS
        while (value := self.value(expression)) != wanted:
            if time.monotonic() > until or self.value("document.body.dataset.state") == "failed":
                said = self.value("document.getElementById('status').textContent")
                sys.exit(f"{expression} is {value!r}, not {wanted!r}; the page says: {said}")
            time.sleep(.1)

    def mouse(self, kind, x, y):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1,
                  buttons=0 if kind == "mouseReleased" else 1)

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(SECONDS)


def read_digit(browser, lines, answers):
    """Draws lines with the mouse; returns the page's answer, and the number of answers so far."""
    browser.value("document.getElementById('clear').click()")
    box = browser.value("(b => [b.left, b.top, b.width, b.height])(document.getElementById('field').getBoundingClientRect())")
    for line in lines:
        places = [(box[0] + x * box[2], box[1] + y * box[3]) for x, y in line]
        browser.mouse("mousePressed", *places[0])
        for place in places[1:]:
            browser.mouse("mouseMoved", *place)
        browser.mouse("mouseReleased", *places[-1])
        answers += 1
        browser.wait("document.body.dataset.answers", str(answers))
    return browser.value("document.getElementById('answer').textContent"), answers


def read_all(browser, answers, what):
    wrong = 0
    for digit, lines in DIGITS.items():
        answer, answers = read_digit(browser, lines, answers)
        wrong += answer != str(digit)
        if answer != str(digit):
            print(f"{what}: a {digit} is read as {answer}")
    print(f"{what}: {len(DIGITS) - wrong} of {len(DIGITS)} drawn digits are right")
    return wrong, answers


def read_by_keys(browser, answers):
    """Draws a 1 with the keyboard: down, 20 steps, up."""
    browser.value("document.getElementById('clear').click(); document.getElementById('field').focus()")
    for key in [" "] + ["ArrowDown"] * 20 + [" "]:
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key=key, code="Space" if key == " " else key)
    browser.wait("document.body.dataset.answers", str(answers + 1))
    answer = browser.value("document.getElementById('answer').textContent")
    print(f"a 1 drawn with the keyboard is read as {answer}")
    return answer != "1", answers + 1


def choose_file(browser, path, state):
    """Chooses a file as a user does; `True` if the page gets into the state."""
    root = browser.call("DOM.getDocument")["root"]["nodeId"]
    field = browser.call("DOM.querySelector", nodeId=root, selector="#model")["nodeId"]
    browser.call("DOM.setFileInputFiles", nodeId=field, files=[os.path.abspath(path)])
    until = time.monotonic() + SECONDS
    while (now := browser.value("document.body.dataset.state")) != state:
        if time.monotonic() > until or now == "failed":
            print(f"{path}: the page is {now}, not {state}")
            return False
        time.sleep(.1)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("chromium")
    parser.add_argument("folder")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--save")
    o = parser.parse_args()
    Handler.isolated = o.threads
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=o.folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}/"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(o.chromium, profile)
        browser.open(here + "index.html")
        browser.wait("document.readyState", "complete")
        browser.wait("document.body.dataset.state", "ready")
        print("machine:", browser.value("document.getElementById('machine').textContent"))
        print(browser.value("document.getElementById('status').textContent"))
        failed, answers = read_all(browser, 0, "its own ONNX file")
        wrong, answers = read_by_keys(browser, answers)
        failed += wrong
        model = o.save or os.path.join(profile, "digits.onnx")
        with open(model, "wb") as file:
            file.write(base64.b64decode(browser.value("btoa(String.fromCharCode(...trained))")))
        failed += not choose_file(browser, model, "loaded")
        browser.wait("document.body.dataset.answers", str(answers + 1))
        wrong, answers = read_all(browser, answers + 1, "the file of the user")
        failed += wrong
        with open(os.path.join(profile, "damaged.onnx"), "wb") as file:
            file.write(b"not a model")
        failed += not choose_file(browser, file.name, "failed")
        print("a damaged file:", browser.value("document.getElementById('status').textContent"))
        isolated = browser.value("self.crossOriginIsolated")
        asked = [e["params"]["request"]["url"] for e in browser.events if e.get("method") == "Network.requestWillBeSent"]
        elsewhere = [url for url in asked if not url.startswith((here, "data:", "blob:"))]
        wrongs = [e["params"] for e in browser.events if e.get("method") == "Runtime.exceptionThrown"]
        browser.close()
    if elsewhere or wrongs or Handler.missing or isolated != o.threads:
        sys.exit(f"requests elsewhere: {elsewhere}; exceptions: {wrongs}; missing: {Handler.missing}; isolated: {isolated}")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
