# SPDX-License-Identifier: MIT
"""Well-known networks as ONNX files with random weights: a small MLP and CNN, ResNet-50, MobileNetV2, EfficientNet-B0, a YOLOv8n-like
detector, BERT-base, and GPT-2's prefill and decoding step, with a past that grows and with caches of fixed capacity.
ResNet-50 and MobileNetV2 also quantized to 8 bits, calibrated on noise; that needs onnxruntime.

    networks.py FOLDER [NAME...]

Structures follow the papers, and shapes follow common exporters; weights are drawn so that values neither
vanish nor overflow. Sizes of the batch (and of a sequence) are symbolic. Needs numpy and onnx from PyPI.
"""
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Builder:
    """A graph under construction; methods append nodes and return the name of the result. Everything that adds weights
    draws from one stream of random numbers, so that the same structure has the same weights in every format."""

    def __init__(self, name, inputs, opset=OPSET):
        self.name, self.inputs, self.opset = name, inputs, opset
        self.random = np.random.default_rng(17)
        self.masks = {}

    def weight(self, *shape, fan=None):
        fan = fan or int(np.prod(shape[1:])) or 1
        return self.constant((self.random.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def conv(self, x, out, inner, size=3, stride=1, groups=1, gain=1.4):
        """A convolution with the batch norm folded into it, as exporters write it."""
        fan = inner // groups * size * size
        w = self.random.standard_normal((out, inner // groups, size, size)) * gain / np.sqrt(fan)
        b = self.random.standard_normal(out) * 0.1
        pad = size // 2
        return self.node("Conv", x, self.constant(w.astype(np.float32)), self.constant(b.astype(np.float32)),
                         kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4, group=groups)

    def linear(self, x, inner, out, gain=1.0):
        w = self.random.standard_normal((inner, out)) * gain / np.sqrt(inner)
        b = self.random.standard_normal(out) * 0.02
        return self.affine(x, w.astype(np.float32), b.astype(np.float32))

    def affine(self, x, w, b):
        return self.node("Add", self.node("MatMul", x, self.constant(w)), self.constant(b))

    def layer_norm(self, x, width):
        return self.node("LayerNormalization", x, self.constant(np.ones(width, np.float32)),
                         self.constant(np.zeros(width, np.float32)), axis=-1, epsilon=1e-5)

    def gelu(self, x):
        """The erf variant, as torch exports it."""
        scaled = self.node("Div", x, self.constant(np.float32(np.sqrt(2))))
        one = self.node("Add", self.node("Erf", scaled), self.constant(np.float32(1)))
        return self.node("Mul", self.node("Mul", x, one), self.constant(np.float32(0.5)))

    def gelu_tanh(self, x):
        cube = self.node("Mul", self.node("Mul", x, x), x)
        inner = self.node("Add", x, self.node("Mul", cube, self.constant(np.float32(0.044715))))
        tanh = self.node("Tanh", self.node("Mul", inner, self.constant(np.float32(np.sqrt(2 / np.pi)))))
        return self.node("Mul", self.node("Mul", x, self.constant(np.float32(0.5))),
                         self.node("Add", tanh, self.constant(np.float32(1))))

    def silu(self, x):
        return self.node("Mul", x, self.node("Sigmoid", x))

    def upsample(self, x):
        """Twice as high and wide, by repeating."""
        return self.node("Resize", x, "", self.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest",
                         coordinate_transformation_mode="asymmetric", nearest_mode="floor")

    def attend(self, q, k, v, size, mask=None, causal=0):
        """Of heads of `size`; causal: the number of tokens; each sees the tokens up to itself."""
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.node("Div", scores, self.constant(np.float32(np.sqrt(size))))
        if causal and causal not in self.masks:
            self.masks[causal] = self.constant(np.triu(np.full((causal, causal), -1e4, np.float32), 1)[None, None])
        mask = self.masks[causal] if causal else mask
        if mask:
            scores = self.node("Add", scores, mask)
        return self.node("MatMul", self.node("Softmax", scores, axis=-1), v)


class Network(Builder):
    """As an ONNX file."""

    def __init__(self, name, inputs, opset=OPSET):
        super().__init__(name, [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs], opset)
        self.nodes, self.weights, self.outputs = [], [], []

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, operator, *inputs, count=1, **attributes):
        outputs = [f"v{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(operator, [i or "" for i in inputs], outputs, **attributes))
        return outputs[0] if count == 1 else outputs

    def output(self, value, name, dtype=TensorProto.FLOAT):
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, dtype, None))

    def save(self, folder):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        onnx.save(model, os.path.join(folder, self.name + ".onnx"))


def image(kind, name, size, channels=3):
    return kind(name, [("image", TensorProto.FLOAT, ["batch", channels, size, size])])


def classifier(n, x, features, classes=1000):
    x = n.node("Flatten", n.node("GlobalAveragePool", x), axis=1)
    w, b = n.weight(classes, features), n.weight(classes, fan=100)
    n.output(n.node("Gemm", x, w, b, transB=1), "scores")
    return n


def mlp(kind=Network):
    n = image(kind, "mlp", 28, 1)
    x = n.node("Relu", n.linear(n.node("Flatten", "image", axis=1), 784, 512))
    n.output(n.linear(x, 512, 10), "scores")
    return n


def cnn(kind=Network):
    n = image(kind, "cnn", 28, 1)
    x = "image"
    for out, inner in ((32, 1), (64, 32)):
        x = n.node("MaxPool", n.node("Relu", n.conv(x, out, inner)), kernel_shape=[2, 2], strides=[2, 2])
    n.output(n.linear(n.node("Flatten", x, axis=1), 64 * 7 * 7, 10), "scores")
    return n


def resnet50(kind=Network):
    n = image(kind, "resnet50", 224)
    x = n.node("Relu", n.conv("image", 64, 3, 7, 2))
    x = n.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inner = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and block == 0 else 1
            y = n.node("Relu", n.conv(x, width, inner, 1))
            y = n.node("Relu", n.conv(y, width, width, 3, stride))
            y = n.conv(y, 4 * width, width, 1, gain=0.5)
            if block == 0:
                x = n.conv(x, 4 * width, inner, 1, stride, gain=1.0)
            x = n.node("Relu", n.node("Add", y, x))
            inner = 4 * width
    return classifier(n, x, inner)


def mobilenetv2(kind=Network):
    n = image(kind, "mobilenetv2", 224)
    six = (n.constant(np.float32(0)), n.constant(np.float32(6)))
    x = n.node("Clip", n.conv("image", 32, 3, 3, 2), *six)
    inner = 32
    for t, out, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                  (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            s, wide, y = (stride if i == 0 else 1), inner * t, x
            if t > 1:
                y = n.node("Clip", n.conv(y, wide, inner, 1), *six)
            y = n.node("Clip", n.conv(y, wide, wide, 3, s, groups=wide), *six)
            y = n.conv(y, out, wide, 1, gain=1.0)
            x = n.node("Add", x, y) if s == 1 and inner == out else y
            inner = out
    x = n.node("Clip", n.conv(x, 1280, inner, 1), *six)
    return classifier(n, x, 1280)


def efficientnet_b0(kind=Network):
    n = image(kind, "efficientnet_b0", 224)
    x = n.silu(n.conv("image", 32, 3, 3, 2))
    inner = 32
    for t, out, count, stride, size in ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
                                        (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)):
        for i in range(count):
            s, wide, y = (stride if i == 0 else 1), inner * t, x
            if t > 1:
                y = n.silu(n.conv(y, wide, inner, 1))
            y = n.silu(n.conv(y, wide, wide, size, s, groups=wide))
            few = max(1, inner // 4)
            gate = n.silu(n.conv(n.node("GlobalAveragePool", y), few, wide, 1))
            y = n.node("Mul", y, n.node("Sigmoid", n.conv(gate, wide, few, 1)))
            y = n.conv(y, out, wide, 1, gain=1.0)
            x = n.node("Add", x, y) if s == 1 and inner == out else y
            inner = out
    x = n.silu(n.conv(x, 1280, inner, 1))
    return classifier(n, x, 1280)


def yolov8n(kind=Network):
    n = image(kind, "yolov8n", 640)

    def block(x, out, inner, size=1, stride=1):
        return n.silu(n.conv(x, out, inner, size, stride))

    def c2f(x, out, inner, count, shortcut):
        half = out // 2
        x = block(x, out, inner)
        parts = n.node("Split", x, n.ints(half, half), axis=1, count=2)
        for _ in range(count):
            y = block(block(parts[-1], half, half, 3), half, half, 3)
            parts.append(n.node("Add", parts[-1], y) if shortcut else y)
        return block(n.node("Concat", *parts, axis=1), out, half * (2 + count))

    x = block(block("image", 16, 3, 3, 2), 32, 16, 3, 2)
    x = c2f(x, 32, 32, 1, True)
    p3 = c2f(block(x, 64, 32, 3, 2), 64, 64, 2, True)
    p4 = c2f(block(p3, 128, 64, 3, 2), 128, 128, 2, True)
    x = c2f(block(p4, 256, 128, 3, 2), 256, 256, 1, True)
    x = block(x, 128, 256)
    pools = [x]
    for _ in range(3):
        pools.append(n.node("MaxPool", pools[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    p5 = block(n.node("Concat", *pools, axis=1), 256, 512)
    t4 = c2f(n.node("Concat", n.upsample(p5), p4, axis=1), 128, 384, 1, False)
    t3 = c2f(n.node("Concat", n.upsample(t4), p3, axis=1), 64, 192, 1, False)
    b4 = c2f(n.node("Concat", block(t3, 64, 64, 3, 2), t4, axis=1), 128, 192, 1, False)
    b5 = c2f(n.node("Concat", block(b4, 128, 128, 3, 2), p5, axis=1), 256, 384, 1, False)
    levels = []
    for x, inner in ((t3, 64), (b4, 128), (b5, 256)):
        box = n.conv(block(block(x, 64, inner, 3), 64, 64, 3), 64, 64, 1)
        kind = n.conv(block(block(x, 80, inner, 3), 80, 80, 3), 80, 80, 1)
        levels.append(n.node("Reshape", n.node("Concat", box, kind, axis=1), n.ints(0, 144, -1)))
    box, kind = n.node("Split", n.node("Concat", *levels, axis=2), n.ints(64, 80), axis=1, count=2)
    box = n.node("Transpose", n.node("Reshape", box, n.ints(0, 4, 16, 8400)), perm=[0, 2, 1, 3])
    box = n.node("Conv", n.node("Softmax", box, axis=1),
                 n.constant(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1)), kernel_shape=[1, 1])
    box = n.node("Reshape", box, n.ints(0, 4, 8400))
    n.output(n.node("Concat", box, n.node("Sigmoid", kind), axis=1), "boxes")
    return n


def heads(n, x, tokens, width, count):
    """[batch, tokens, width] to [batch, heads, tokens, width / heads]."""
    x = n.node("Reshape", x, n.ints(0, tokens, count, width // count))
    return n.node("Transpose", x, perm=[0, 2, 1, 3])


def merge(n, y, width):
    return n.node("Reshape", n.node("Transpose", y, perm=[0, 2, 1, 3]), n.ints(0, 0, width))


def bert(kind=Network, tokens=128, layers=12, width=768, count=12):
    n = kind("bert", [("ids", TensorProto.INT64, ["batch", tokens]), ("mask", TensorProto.INT64, ["batch", tokens])])
    x = n.node("Gather", n.weight(30522, width, fan=100), "ids")
    x = n.layer_norm(n.node("Add", x, n.weight(1, tokens, width, fan=100)), width)
    mask = n.node("Cast", n.node("Unsqueeze", "mask", n.ints(1, 2)), to=TensorProto.FLOAT)
    mask = n.node("Mul", n.node("Sub", n.constant(np.float32(1)), mask), n.constant(np.float32(-10000)))
    for _ in range(layers):
        q, k, v = (heads(n, n.linear(x, width, width), tokens, width, count) for _ in range(3))
        y = merge(n, n.attend(q, k, v, width // count, mask), width)
        x = n.layer_norm(n.node("Add", x, n.linear(y, width, width)), width)
        y = n.linear(n.gelu(n.linear(x, width, 4 * width)), 4 * width, width)
        x = n.layer_norm(n.node("Add", x, y), width)
    n.output(x, "states")
    return n


class Sizes:
    """Sizes of a GPT; `places` is the longest sequence."""

    def __init__(self, layers=12, width=768, count=12, words=50257, places=1024):
        self.layers, self.width, self.count, self.words, self.places = layers, width, count, words, places


def gpt(n, s, tokens, places, attention):
    """The common part of the variants below; attention(i, q, k, v) adds the attention of layer i."""
    width = s.width
    words = n.weight(s.words, width, fan=2500)
    x = n.node("Add", n.node("Gather", words, "ids"), n.node("Gather", n.weight(s.places, width, fan=2500), places))
    for i in range(s.layers):
        y = n.linear(n.layer_norm(x, width), width, 3 * width)
        parts = n.node("Split", y, n.ints(width, width, width), axis=2, count=3)
        y = attention(i, *(heads(n, part, tokens, width, s.count) for part in parts))
        x = n.node("Add", x, n.linear(y, width, width))
        y = n.linear(n.gelu_tanh(n.linear(n.layer_norm(x, width), width, 4 * width)), 4 * width, width)
        x = n.node("Add", x, y)
    n.output(n.node("MatMul", n.layer_norm(x, width), n.node("Transpose", words, perm=[1, 0])), "logits")
    return n


def caches(s, length):
    names = [f"{what}{i}" for i in range(s.layers) for what in ("key", "value")]
    return [("past_" + name, TensorProto.FLOAT, ["batch", s.count, length, s.width // s.count]) for name in names]


def gpt2(name, tokens, past, s=Sizes(), kind=Network):
    """Prefill without a past, or a decoding step of `tokens` after `past`, which grows by them: all sizes fixed."""
    n = kind(name, [("ids", TensorProto.INT64, ["batch", tokens])] + (caches(s, past) if past else []))

    def attention(i, q, k, v):
        if past:
            k = n.node("Concat", f"past_key{i}", k, axis=2)
            v = n.node("Concat", f"past_value{i}", v, axis=2)
        n.output(k, f"present_key{i}")
        n.output(v, f"present_value{i}")
        return merge(n, n.attend(q, k, v, s.width // s.count, causal=0 if past else tokens), s.width)

    return gpt(n, s, tokens, n.ints(*range(past, past + tokens)), attention)


def gpt2_cache(name, s=Sizes(), capacity=256):
    """A decoding step of one token with caches of fixed capacity, as opset 24 has them: `position` is both the token's
    place in the sequence and where its key and value are written."""
    n = Network(name, [("ids", TensorProto.INT64, ["batch", 1]), ("position", TensorProto.INT64, [1])] +
                caches(s, capacity), opset=24)
    length = n.node("Add", "position", n.ints(1))

    def attention(i, q, k, v):
        k, v = (n.node("TensorScatter", f"past_{what}{i}", new, "position") for what, new in (("key", k), ("value", v)))
        n.output(k, f"present_key{i}")
        n.output(v, f"present_value{i}")
        return merge(n, n.node("Attention", q, k, v, "", "", "", length), s.width)

    return gpt(n, s, 1, "position", attention)


def quantized(network, name):
    """The network with QuantizeLinear and DequantizeLinear around its operators, and a scale for each filter."""
    from onnxruntime import quantization

    class Noise(quantization.CalibrationDataReader):
        def __init__(self):
            random = np.random.default_rng(0)
            self.images = iter([{"image": random.standard_normal((1, 3, 224, 224)).astype(np.float32)} for _ in range(2)])

        def get_next(self):
            return next(self.images, None)

    class Quantized:
        @staticmethod
        def save(folder):
            path = os.path.join(folder, f"{name}.onnx")
            with tempfile.TemporaryDirectory() as scratch:
                plain = network()
                plain.save(scratch)
                quantization.quantize_static(os.path.join(scratch, f"{plain.name}.onnx"), path, Noise(), per_channel=True,
                                             quant_format=quantization.QuantFormat.QDQ,
                                             activation_type=quantization.QuantType.QUInt8,
                                             weight_type=quantization.QuantType.QInt8)

    return Quantized


NETWORKS = {
    "mlp": mlp,
    "cnn": cnn,
    "resnet50": resnet50,
    "mobilenetv2": mobilenetv2,
    "efficientnet_b0": efficientnet_b0,
    "yolov8n": yolov8n,
    "bert": bert,
    "gpt2_prefill": lambda kind=Network: gpt2("gpt2_prefill", 64, 0, kind=kind),
    "gpt2_decode": lambda kind=Network: gpt2("gpt2_decode", 1, 64, kind=kind),
    "gpt2_cache": lambda: gpt2_cache("gpt2_cache"),
    "resnet50_int8": lambda: quantized(resnet50, "resnet50_int8"),
    "mobilenetv2_int8": lambda: quantized(mobilenetv2, "mobilenetv2_int8"),
}


def main():
    folder, names = sys.argv[1], sys.argv[2:] or [name for name in NETWORKS if not name.endswith("_int8")]
    os.makedirs(folder, exist_ok=True)
    for name in names:
        NETWORKS[name]().save(folder)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(NETWORKS):
        sys.exit(__doc__ + "\nNames: " + " ".join(NETWORKS))
    main()
