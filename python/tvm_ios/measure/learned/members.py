# SPDX-License-Identifier: Apache-2.0
"""The operators of many stages in one array, and what connects them within each stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...graph.dag import Candidate


@dataclass(frozen=True)
class Members:
    """The operators of many stages, concatenated.

    Attributes
    ----------
    op, stage : numpy.ndarray
        int64 [members]: the operator, and the stage that it belongs to.
    begin : numpy.ndarray
        int64 [stages]: the first member of each stage.
    size : numpy.ndarray
        float64 [stages]: the number of members.
    edges : numpy.ndarray
        int64 [m, 2]: producer and consumer, of all operators of the network.
    num_ops : int
        The number of operators of the network.
    """

    op: np.ndarray
    stage: np.ndarray
    begin: np.ndarray
    size: np.ndarray
    edges: np.ndarray
    num_ops: int

    @staticmethod
    def of(candidates: Sequence[Candidate], edges: np.ndarray, num_ops: int) -> Members:
        """Concatenate the operators of candidates.

        Parameters
        ----------
        candidates : sequence of Candidate
        edges : numpy.ndarray
            int64 [m, 2]: producer and consumer.
        num_ops : int
            The number of operators of the network.
        """
        sizes = np.array([len(c.ops) for c in candidates], "int64")
        op = np.fromiter((i for c in candidates for i in c.ops), "int64", int(sizes.sum()))
        begin = np.cumsum(sizes) - sizes
        stage = np.repeat(np.arange(len(sizes)), sizes)
        return Members(op, stage, begin, sizes.astype("float64"), edges, num_ops)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of the members' values in each stage."""
        return np.add.reduceat(values, self.begin) if len(self.begin) else np.zeros(0)

    def max(self, values: np.ndarray) -> np.ndarray:
        """Return the largest of the members' values in each stage."""
        return np.maximum.reduceat(values, self.begin) if len(self.begin) else np.zeros(0)

    @cached_property
    def inner_edges(self) -> np.ndarray:
        """The pairs (producer, consumer) of members of one stage, int64 [edges, 2]."""
        order = np.argsort(self.edges[:, 1], kind="stable")
        producers = self.edges[order, 0]
        count = np.bincount(self.edges[:, 1], minlength=self.num_ops)
        first = np.cumsum(count) - count
        repeats = count[self.op]
        consumer = np.repeat(np.arange(len(self.op)), repeats)
        within = np.arange(len(consumer)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        producer = producers[first[self.op[consumer]] + within] if len(consumer) else consumer
        # Members are sorted by stage and operator, because a candidate's operators are sorted.
        keys = self.stage * self.num_ops + self.op
        wanted = self.stage[consumer] * self.num_ops + producer
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        found = keys[place] == wanted if len(keys) else np.zeros(0, bool)
        return np.stack([place[found], consumer[found]], axis=1)

    @cached_property
    def group(self) -> np.ndarray:
        """The first member of each member's group, int64 [members]."""
        producer, consumer = self.inner_edges.T
        label = np.arange(len(self.op))
        while True:
            before = label.copy()
            np.minimum.at(label, producer, label[consumer])
            np.minimum.at(label, consumer, label[producer])
            if np.array_equal(before, label):
                return label

    @cached_property
    def depth(self) -> np.ndarray:
        """The length of the longest chain that ends in each member, int64 [members]."""
        producer, consumer = self.inner_edges.T
        depth = np.ones(len(self.op), "int64")
        while True:
            before = depth.copy()
            np.maximum.at(depth, consumer, depth[producer] + 1)
            if np.array_equal(before, depth):
                return depth

    def by_levels(self, total: np.ndarray, least: np.ndarray) -> np.ndarray:
        """Return the sum over a stage's levels of the time that each takes, float64 [stages].

        A level consists of the members of one depth.

        Parameters
        ----------
        total : numpy.ndarray
            float64 [members]: times that add up within a level.
        least : numpy.ndarray
            float64 [members]: times of which a level takes the longest, if that is more.
        """
        if not len(self.op):
            return np.zeros(0)
        key = self.stage * (int(self.depth.max()) + 1) + self.depth
        level, place = np.unique(key, return_inverse=True)
        longest = np.zeros(len(level))
        np.maximum.at(longest, place, least)
        times = np.maximum(np.bincount(place, total, len(level)), longest)
        first = np.zeros(len(level), "int64")
        first[place] = self.stage
        return np.bincount(first, times, len(self.begin))
