# SPDX-License-Identifier: MIT
"""docs/examples/decode compared with onnx's reference evaluator: decode.py TREE PROGRAM FOLDER.

A small GPT is written in two forms with the same weights: as a step with caches of fixed capacity for the program,
and as a whole sequence without caches for the evaluator. Both continue a prompt by a hundred tokens.
"""
import os
import subprocess
import sys

import numpy as np
from onnx.reference import ReferenceEvaluator

TREE, PROGRAM, FOLDER = sys.argv[1:4]
sys.path.insert(0, os.path.join(TREE, "bench", "peers"))
import networks  # noqa: E402

PROMPT, TOKENS, CAPACITY = [5, 17, 3], 100, 128
sizes = networks.Sizes(layers=2, width=32, count=4, words=97, places=CAPACITY)
networks.gpt2_cache("decoder", sizes, CAPACITY).save(FOLDER)
networks.gpt2("sequence", CAPACITY, 0, sizes).save(FOLDER)

result = subprocess.run([PROGRAM, os.path.join(FOLDER, "decoder.onnx"), str(TOKENS), *map(str, PROMPT)],
                        capture_output=True, text=True, check=False)
if result.returncode or " 1 plan" not in result.stderr:
    sys.exit(f"FAILED: decode: {result.stderr}")
tokens = list(map(int, result.stdout.split()))

evaluator = ReferenceEvaluator(os.path.join(FOLDER, "sequence.onnx"))
ids = np.zeros((1, CAPACITY), np.int64)
ids[0, :len(PROMPT) + TOKENS] = PROMPT + tokens
logits = evaluator.run(["logits"], {"ids": ids})[0][0]
# Later tokens do not affect the scores of earlier ones: one evaluation checks all steps.
expected = logits[len(PROMPT) - 1:len(PROMPT) + TOKENS - 1].argmax(axis=1).tolist()
if len(tokens) != TOKENS or tokens != expected:
    sys.exit(f"FAILED: decode gives {tokens}, not {expected}")
print(f"{TOKENS} tokens with one plan, {len(set(tokens))} different ones: {result.stderr.strip()}")
