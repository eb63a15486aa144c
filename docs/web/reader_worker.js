// SPDX-License-Identifier: MIT
// Runs libcompute beside the page, so that the page stays responsive while the network is trained.
// Messages from the page:
//   {train: true}         trains the network and loads it as an ONNX model
//   {model: ArrayBuffer}  loads another ONNX model
//   {pixels: [64]}        reads a digit
// Messages to the page: {ready}, {trained}, {loaded}, {scores}, {failed}.
"use strict";

// Threads share memory, which browsers allow only to pages with two headers.
const form = self.crossOriginIsolated ? "threads" : "single";
importScripts(`reader-${form}.js`);

const DATA = "/digits.csv.gz", MODEL = "/digits.onnx";
let reader = null, pixelsAt = 0, scoresAt = 0; // addresses in the program's memory

const call = (name, type, types, values) => reader.ccall(`reader_${name}`, type, types, values);

function check(status) {
  if (status !== 0) throw new Error(call("message", "string", [], []));
}

async function open() {
  const [answer, module] = await Promise.all([
    fetch("digits.csv.gz"),
    createReader({ mainScriptUrlOrBlob: `reader-${form}.js`, print: () => {} }),
  ]);
  if (!answer.ok) throw new Error(`digits.csv.gz: ${answer.status}`);
  reader = module;
  reader.FS.writeFile(DATA, new Uint8Array(await answer.arrayBuffer()));
  pixelsAt = reader._malloc(64 * 4);
  scoresAt = reader._malloc(10 * 4);
  check(call("open", "number", [], []));
  postMessage({
    ready: {
      instructions: call("instructions", "string", [], []),
      threads: call("threads", "number", [], []),
    },
  });
}

function train() {
  const start = performance.now();
  check(call("train", "number", ["string", "string"], [DATA, MODEL]));
  const seconds = (performance.now() - start) / 1000;
  check(call("load", "number", ["string"], [MODEL]));
  const accuracy = call("accuracy", "number", [], []);
  postMessage({ trained: { accuracy, seconds, file: reader.FS.readFile(MODEL) } });
}

function load(bytes) {
  reader.FS.writeFile("/given.onnx", new Uint8Array(bytes));
  check(call("load", "number", ["string"], ["/given.onnx"]));
  postMessage({ loaded: { bytes: bytes.byteLength } });
}

function read(pixels) {
  reader.HEAPF32.set(pixels, pixelsAt / 4);
  check(call("read", "number", ["number", "number"], [pixelsAt, scoresAt]));
  postMessage({ scores: Array.from(reader.HEAPF32.subarray(scoresAt / 4, scoresAt / 4 + 10)) });
}

const opened = open();
onmessage = async ({ data }) => {
  try {
    await opened;
    if (data.train) train();
    if (data.model) load(data.model);
    if (data.pixels) read(data.pixels);
  } catch (error) {
    postMessage({ failed: error.message || String(error) });
  }
};
