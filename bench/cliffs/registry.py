# SPDX-License-Identifier: MIT
"""The drawing functions of all operators and graphs."""

from draft import MICROSOFT

OPERATORS, GRAPHS = {}, {}  # name: (function, operator set, weight)

# Operators of the reader without a case, and why.
NOT_DRAWN = {
    "Constant": "initializers are the constants of all cases",
    "Optional OptionalGetElement OptionalHasElement": "types without elements",
    "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert": "lists, which SplitToSequence stands for",
    "SequenceLength SequenceMap": "lists, which SequenceAt and ConcatFromSequence stand for",
    "CumProd BitCast CausalConvWithState LinearAttention SwiGLU ai.onnx.preview.FlexAttention": "newer than the peers",
    "com.microsoft.BiasAdd com.microsoft.BiasSplitGelu com.microsoft.GroupNorm": "no peer has it on a CPU",
    "com.microsoft.LayerNormalization com.microsoft.SimplifiedLayerNormalization": "no peer has it in this domain",
    "com.microsoft.EmbedLayerNormalization com.microsoft.SkipLayerNormalization": "drawn as a graph",
    "com.microsoft.DynamicQuantizeLSTM com.microsoft.QAttention": "packed weights of one peer's format",
}


def draws(*operators, opset=18, weight=1):
    """The names of com.microsoft have its prefix."""

    def register(function):
        for name in operators:
            OPERATORS[name] = (function, opset, weight)
        return function

    return register


def graph(weight=1, opset=18):
    def register(function):
        GRAPHS[function.__name__] = (function, opset, weight)
        return function

    return register


def split(operator):
    """(operator, attributes of the node)"""
    domain, _, name = operator.rpartition(".")
    return name, ({"domain": MICROSOFT} if domain else {})
