// SPDX-License-Identifier: MIT
// The page of index.html: a field for drawing, and the answers of reader_worker.js.
"use strict";

const SIDE = 32;   // of the bitmap from which the network's pictures are counted
const CELLS = 8;   // of a picture; each counts the inked dots of 4×4
const PEN = 22;    // width of the pen in the field's dots
const STEP = 10;   // of the pen per arrow key

const field = document.getElementById("field");
const status = document.getElementById("status");
const answer = document.getElementById("answer");
const context = field.getContext("2d", { willReadFrequently: true });
const worker = new Worker("reader_worker.js");
const pen = { x: field.width / 2, y: field.height / 4, down: false };
let trained = null;

// ---- Drawing --------------------------------------------------------------------------------

function clear() {
  context.fillStyle = "white";
  context.fillRect(0, 0, field.width, field.height);
  answer.textContent = "–";
  showScores(new Array(10).fill(0));
}

function line(x, y) {
  context.strokeStyle = "black";
  context.lineWidth = PEN;
  context.lineCap = context.lineJoin = "round";
  context.beginPath();
  context.moveTo(pen.x, pen.y);
  context.lineTo(x, y);
  context.stroke();
  [pen.x, pen.y] = [x, y];
}

function place(event) {
  const box = field.getBoundingClientRect();
  return [((event.clientX - box.left) * field.width) / box.width,
    ((event.clientY - box.top) * field.height) / box.height];
}

// The inked rectangle, or null: [left, top, width, height].
function inked(dots) {
  let left = field.width, top = field.height, right = -1, bottom = -1;
  for (let y = 0; y < field.height; y++)
    for (let x = 0; x < field.width; x++)
      if (dots[4 * (y * field.width + x)] < 128) {
        left = Math.min(left, x);
        right = Math.max(right, x);
        top = Math.min(top, y);
        bottom = Math.max(bottom, y);
      }
  return right < 0 ? null : [left, top, right - left + 1, bottom - top + 1];
}

// The drawing as the data's authors made theirs: the digit's rectangle becomes a bitmap of 32×32,
// and each cell of 4×4 dots is the number of inked ones. A narrow digit stays narrow.
function pixels() {
  const dots = context.getImageData(0, 0, field.width, field.height).data;
  const box = inked(dots);
  if (!box) return null;
  const [left, top, width, height] = box, side = Math.max(width, height);
  const cells = new Array(CELLS * CELLS).fill(0);
  for (let y = 0; y < SIDE; y++)
    for (let x = 0; x < SIDE; x++) {
      const fromX = Math.floor(left + width / 2 + ((x + 0.5) / SIDE - 0.5) * side);
      const fromY = Math.floor(top + height / 2 + ((y + 0.5) / SIDE - 0.5) * side);
      const inside = fromX >= 0 && fromX < field.width && fromY >= 0 && fromY < field.height;
      if (inside && dots[4 * (fromY * field.width + fromX)] < 128)
        cells[Math.floor(y / 4) * CELLS + Math.floor(x / 4)]++;
    }
  return cells;
}

function read() {
  const drawn = pixels();
  if (drawn) worker.postMessage({ pixels: drawn });
}

field.addEventListener("pointerdown", (event) => {
  field.setPointerCapture(event.pointerId);
  pen.down = true;
  [pen.x, pen.y] = place(event);
  line(pen.x, pen.y);
});
field.addEventListener("pointermove", (event) => {
  if (event.buttons && pen.down) line(...place(event));
});
field.addEventListener("pointerup", () => {
  pen.down = false;
  read();
});

// Arrow keys move the pen; Space puts it down or lifts it.
field.addEventListener("keydown", (event) => {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const step = steps[event.key];
  if (!step && event.key !== " ") return;
  event.preventDefault();
  if (!step) {
    pen.down = !pen.down;
    status.textContent = pen.down ? "The pen is down." : "The pen is up.";
    if (pen.down) line(pen.x, pen.y);
    else read();
    return;
  }
  const x = Math.min(Math.max(pen.x + STEP * step[0], 0), field.width);
  const y = Math.min(Math.max(pen.y + STEP * step[1], 0), field.height);
  if (pen.down) line(x, y);
  else [pen.x, pen.y] = [x, y];
});

// ---- Answers --------------------------------------------------------------------------------

function showScores(scores) {
  const rows = document.querySelectorAll("#scores tr");
  scores.forEach((score, digit) => {
    rows[digit].querySelector("meter").value = score;
    rows[digit].querySelector("output").textContent = `${(100 * score).toFixed(1)} %`;
  });
}

worker.onmessage = ({ data }) => {
  if (data.ready) {
    const { instructions, threads } = data.ready;
    document.getElementById("machine").textContent =
      `${instructions}, ${threads} ${threads === 1 ? "thread" : "threads"}`;
    status.textContent = "Training the network …";
    worker.postMessage({ train: true });
  }
  if (data.trained) {
    const { accuracy, seconds, file } = data.trained;
    trained = file;
    status.textContent = `Trained in ${seconds.toFixed(1)} s: ${(100 * accuracy).toFixed(1)} % ` +
      `of 360 other digits are right. The model is an ONNX file of ${file.length} bytes.`;
    document.getElementById("save").disabled = false;
    document.body.dataset.state = "ready";
  }
  if (data.loaded) {
    status.textContent = `Your ONNX file of ${data.loaded.bytes} bytes is loaded.`;
    document.body.dataset.state = "loaded";
    read();
  }
  if (data.scores) {
    showScores(data.scores);
    answer.textContent = String(data.scores.indexOf(Math.max(...data.scores)));
    document.body.dataset.answers = String(Number(document.body.dataset.answers || 0) + 1);
  }
  if (data.failed) {
    status.textContent = `Failed: ${data.failed}`;
    document.body.dataset.state = "failed";
  }
};
worker.onerror = (event) => {
  status.textContent = `Failed: ${event.message || "the program cannot be loaded"}`;
  document.body.dataset.state = "failed";
};

document.getElementById("clear").addEventListener("click", clear);
document.getElementById("save").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([trained]));
  link.download = "digits.onnx";
  link.click();
  URL.revokeObjectURL(link.href);
});
document.getElementById("model").addEventListener("change", async (event) => {
  if (event.target.files.length === 0) return;
  const bytes = await event.target.files[0].arrayBuffer();
  worker.postMessage({ model: bytes }, [bytes]);
});

for (let digit = 0; digit < 10; digit++) {
  const row = document.getElementById("scores").insertRow();
  row.innerHTML = `<th scope="row">${digit}</th>` +
    `<td><meter min="0" max="1" value="0" aria-label="score of ${digit}"></meter></td>` +
    `<td><output></output></td>`;
}
clear();
