# SPDX-License-Identifier: MIT
"""Training steps in torch, eager, with channels last or compiled, for compare.py's suite "train": the networks of
bench/train_steps.c, from the weights and the batch that it has written.

    training.py ENGINE NETWORK FOLDER THREADS DEVICE

obeys the same commands on stdin as compute-train-steps: "losses N" and "run SECONDS".
"""
import json
import os
import sys

import numpy as np

import engines

TOKENS, WIDTH, HEADS, WORDS, LAYERS = 128, 256, 8, 1024, 4


def networks():
    """Name: (network, optimizer of its parameters). Parts are in the order in which libcompute has them."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Residual(nn.Module):
        def __init__(self, body, shortcut, after):
            super().__init__()
            self.body, self.shortcut, self.after = body, shortcut, after

        def forward(self, x):
            return self.after(self.body(x) + self.shortcut(x))

    class Attention(nn.Module):
        def forward(self, x):
            q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in x.split(WIDTH, 2))
            return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    class Mean(nn.Module):
        def forward(self, x):
            return x.mean(1)

    def conv(inner, out, size, stride=1):
        return nn.Conv2d(inner, out, size, stride, size // 2, bias=False)

    def block(inner, out):
        stride = 1 if inner == out else 2
        body = nn.Sequential(conv(inner, out, 3, stride), nn.BatchNorm2d(out), nn.ReLU(), conv(out, out, 3),
                             nn.BatchNorm2d(out))
        short = nn.Identity() if inner == out else nn.Sequential(conv(inner, out, 1, stride), nn.BatchNorm2d(out))
        return Residual(body, short, nn.ReLU())

    def mlp():
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))

    def cnn():
        parts = [part for out, inner in ((32, 1), (64, 32)) for part in (
            nn.Conv2d(inner, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2))]
        return nn.Sequential(*parts, nn.Flatten(), nn.Linear(64 * 7 * 7, 10))

    def resnet18():
        pairs = ((64, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512), (512, 512))
        return nn.Sequential(conv(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), *(block(*pair) for pair in pairs),
                             nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))

    def transformer():
        parts = [nn.Embedding(WORDS, WIDTH)]
        for _ in range(LAYERS):
            parts += [Residual(body, nn.Identity(), nn.Identity()) for body in (
                nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), Attention(), nn.Linear(WIDTH, WIDTH)),
                nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                              nn.Linear(4 * WIDTH, WIDTH)))]
        return nn.Sequential(*parts, nn.LayerNorm(WIDTH), Mean(), nn.Linear(WIDTH, 10))

    def adam(parameters):
        return torch.optim.Adam(parameters, 1e-3, fused=True)

    def sgd(parameters):
        return torch.optim.SGD(parameters, 0.01, 0.9, weight_decay=5e-4, fused=True)

    return {"mlp": (mlp, adam), "cnn": (cnn, adam), "resnet18": (resnet18, sgd), "transformer": (transformer, adam)}


class Training:
    def __init__(self, engine, network, folder, threads, device):
        import torch
        from torch.nn.functional import cross_entropy
        torch.set_num_threads(threads)
        torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, False
        self.torch, self.device = torch, "cpu" if device == "cpu" else "cuda"
        build, optimizer = networks()[network]
        self.version = torch.__version__
        self.model = build().to(self.device)
        self.read_weights(os.path.join(folder, "weights.npz"))
        with np.load(os.path.join(folder, "batch.npz")) as batch:
            self.x, self.labels = (torch.from_numpy(batch[name]).to(self.device) for name in ("x", "labels"))
        if engine in ("torch_cl", *engines.COMPILED):
            if engine == "torch_cl" and not any(isinstance(part, torch.nn.Conv2d) for part in self.model.modules()):
                raise ValueError("nothing here has channels")
            self.model = self.model.to(memory_format=torch.channels_last)
            if self.x.ndim == 4:
                self.x = self.x.contiguous(memory_format=torch.channels_last)
        self.optimizer = optimizer(self.model.parameters())

        def loss(x, labels):
            return cross_entropy(self.model(x), labels)
        if engine in engines.COMPILED:
            if self.device == "cpu":
                raise ValueError("only for GPUs")
            loss = torch.compile(loss, mode=engines.COMPILED[engine], dynamic=False)
        if engine == "torch_compile":
            if self.device == "cpu":
                engines.require_compiler()
            loss = torch.compile(loss)
        self.loss = loss

    def read_weights(self, path):
        """In order: libcompute's order of parameters is torch's."""
        import torch
        with np.load(path) as file:
            arrays = [file[name] for name in file.files if "running_" not in name and "num_batches" not in name]
        parameters = list(self.model.parameters())
        if [tuple(p.shape) for p in parameters] != [a.shape for a in arrays]:
            raise ValueError("the weights are those of another network")
        with torch.no_grad():
            for parameter, array in zip(parameters, arrays):
                parameter.copy_(torch.from_numpy(array))

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss(self.x, self.labels)
        loss.backward()
        self.optimizer.step()
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        return loss.detach()


def main():
    engine, network, folder, threads, device = sys.argv[1:]

    class Steps:
        def __init__(self):
            self.training = Training(engine, network, folder, int(threads), device)
            self.version = self.training.version

        def obey(self, command, argument):
            if command == "losses":
                return {"losses": [float(self.training.step()) for _ in range(int(argument))]}
            return {"times": engines.settled(engines.timed(self.training.step, float(argument)))}

    engines.serve(Steps)


if __name__ == "__main__":
    main()
