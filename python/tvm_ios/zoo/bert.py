# SPDX-License-Identifier: Apache-2.0
"""BERT's encoder (Devlin et al., arXiv 1810.04805, section 3), for sequences without padding."""

from __future__ import annotations

from functools import partial

from .builder import Builder
from .network import Input, Inputs, Network
from .values import Handle, Value

VOCABULARY, SEGMENTS, POSITIONS = 30522, 2, 512
EPSILON = 1e-12


def bert(
    net: Builder[Handle],
    tokens: Value[Handle],
    segments: Value[Handle],
    *,
    layers: int,
    hidden: int,
    heads: int,
) -> Value[Handle]:
    """Describe the encoder.

    Parameters
    ----------
    net : Builder
        The builder.
    tokens, segments : Value
        The vocabulary index of each token, and the index of its sentence, 0 or 1; of shape (batch,
        length).
    layers, hidden, heads : int
        The paper's L, H and A.

    Returns
    -------
    Value
        The last layer's vectors, of shape (batch, length, hidden).
    """
    x = _embed(net, tokens, segments, hidden)
    for _ in range(layers):
        x = _add_norm(net, x, _attention(net, x, heads))
        inner = net.gelu(net.dense(x, 4 * hidden))
        x = _add_norm(net, x, net.dense(inner, hidden))
    return x


def _embed(
    net: Builder[Handle], tokens: Value[Handle], segments: Value[Handle], hidden: int
) -> Value[Handle]:
    """Emit the sum of token, segment and position embeddings (figure 2)."""
    x = net.embedding(tokens, VOCABULARY, hidden)
    x = net.add(x, net.embedding(segments, SEGMENTS, hidden))
    x = net.add(x, net.positions(tokens.shape[1], POSITIONS, hidden))
    return net.layer_norm(x, epsilon=EPSILON)


def _attention(net: Builder[Handle], x: Value[Handle], heads: int) -> Value[Handle]:
    """Emit multi-head attention (Vaswani et al., arXiv 1706.03762, section 3.2)."""
    batch, length, hidden = x.shape
    split = (batch, length, heads, hidden // heads)
    query, key, value = (net.reshape(net.dense(x, hidden), split) for _ in range(3))
    query = net.transpose(query, (0, 2, 1, 3))
    scores = net.matmul(query, net.transpose(key, (0, 2, 3, 1)))
    weights = net.softmax(net.scale(scores, (hidden // heads) ** -0.5))
    mixed = net.matmul(weights, net.transpose(value, (0, 2, 1, 3)))
    joined = net.reshape(net.transpose(mixed, (0, 2, 1, 3)), x.shape)
    return net.dense(joined, hidden)


def _add_norm(net: Builder[Handle], x: Value[Handle], branch: Value[Handle]) -> Value[Handle]:
    return net.layer_norm(net.add(x, branch), epsilon=EPSILON)


def _texts(batch: int, length: int) -> tuple[Input, ...]:
    return tuple(Input(name, (batch, length), "int32") for name in ("tokens", "segments"))


def _network(name: str, layers: int, hidden: int, heads: int) -> Network:
    describe = partial(bert, layers=layers, hidden=hidden, heads=heads)
    return Network(name, Inputs("length", 128, _texts), describe)


BERT_BASE = _network("bert_base", 12, 768, 12)
BERT_BASE_8 = _network("bert_base_8", 8, 768, 12)
BERT_TINY = _network("bert_tiny", 2, 128, 2)  # of Turc et al., arXiv 1908.08962
