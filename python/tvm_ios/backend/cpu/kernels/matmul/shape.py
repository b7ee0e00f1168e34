# SPDX-License-Identifier: Apache-2.0
"""How the register tiles of a microkernel, MR x NR, cover a matrix product."""

from __future__ import annotations

from .....lowering.product import Matmul
from .....sizes.arithmetic import ceil_div
from .....sizes.size import Size, hint_of, is_open
from ...core import Core
from ...isa import amx, bfmmla
from ..factors import Factors, Multiplication
from ..row_tiles import heights_of
from ..tiling import RegisterTile, choose_tile, tile_matmul_register_tile

_MAX_STRIDED_DEPTH = 2048  # rows of a wide matrix, each in its own page
_MIN_PACKED_ROWS = 64
_MAX_K_BLOCKS = 16
_MOST_K_BLOCK_ROWS = 256
# Of L2, for what is read of the whole depth or of a k-block.
_DEPTH_SHARE, _K_BLOCK_SHARE = 0.75, 0.45
_OPEN_SUMS, _MOST_BLOCKS = 24, 4  # of a tile of open rows: low ones fit any number better
_MANY_ROWS = 100  # for which the tile of tile matmuls is chosen


class MatmulShape:
    """The register tiles of a product; a tile is (matrix, chunk of column blocks, group of rows).

    Partly filled blocks come last. All rows are multiplied by a chunk of columns before the next
    chunk begins, so that the chunk's weights, which every group of rows reads, stay in L2.

    Where rows or columns are open, so are the numbers of tiles.

    If there is a ``low``, the sums begin with what the third tensor says for each column, and the
    tensors of the epilogue's ``arguments`` come after it.
    """

    def __init__(self, matmul: Matmul, core: Core, factors: Factors, low: bool = False) -> None:
        self.matmul, self.lanes, self.factors = matmul, core.lanes, factors
        self.multiplication = Multiplication.of(factors, core)
        self.vector = core.lanes * self.multiplication.words
        self.low, self.arguments = low, 3 if low else 2
        self.open_rows = isinstance(matmul.rows, Size)
        self.open_columns = isinstance(matmul.columns, Size)
        parts: list[int] = [part for part in matmul.parts if isinstance(part, int)]
        self.full = [part // core.lanes for part in parts]
        # (result, columns) of each partly filled block.
        tails = enumerate(part % core.lanes for part in parts)
        self.tails = [(result, width) for result, width in tails if width]
        self.tile_matmul_pairs = self._count_tile_matmul_pairs(core)
        self.tile_matmul = core.tile_matmul if self.tile_matmul_pairs else None
        self.tile = self._choose_tile(core)
        self.full_chunks, self.rest_blocks = divmod(sum(self.full), self.tile.nr)
        self.chunks = self.full_chunks + (self.rest_blocks > 0) + len(self.tails)
        if self.open_columns:
            self.chunks = ceil_div(matmul.columns, self.tile.nr * core.lanes)
        self.row_tiles = ceil_div(matmul.rows, self.tile.mr)
        self.heights = heights_of(self.tile.mr)
        self.num_tiles = matmul.batch * self.chunks * self.row_tiles
        self.num_k_blocks = self._count_k_blocks(core)
        self.kc = matmul.depth // self.num_k_blocks
        right_bytes = self.multiplication.words * hint_of(matmul.packed(core.lanes).num_bytes)
        self.far_weights = matmul.weights and right_bytes > core.l1_bytes
        self.prefetches = (
            matmul.weights
            and min(self.chunks, hint_of(self.row_tiles)) > 1
            and matmul.depth >= core.lanes
            and right_bytes > core.l2_bytes // 4
        )
        self.packs = (
            not matmul.weights
            and not is_open((matmul.depth, matmul.columns))
            and matmul.depth > _MAX_STRIDED_DEPTH
            and hint_of(matmul.rows) >= _MIN_PACKED_ROWS
        )

    def _count_tile_matmul_pairs(self, core: Core) -> int:
        """Return how many pairs a row of a left matrix has; 0 without tile matmul."""
        if self.factors != "pairs" or core.tile_matmul is None:
            return 0
        if core.tile_matmul == amx.PRODUCTS:
            return amx.whole_pairs(self.matmul.depth)
        return bfmmla.PAIRS if self.matmul.depth % bfmmla.PAIRS == 0 else 0

    def _choose_tile(self, core: Core) -> RegisterTile:
        """Choose the register tile for the weights of one chunk."""
        m = self.matmul
        count = max(hint_of(m.columns) // core.lanes if self.open_columns else sum(self.full), 1)
        rows = hint_of(m.rows)
        if self.tile_matmul:
            rows = max(rows, _MANY_ROWS) if self.open_rows else rows
            return tile_matmul_register_tile(self.tile_matmul, rows, count)
        if self.open_rows:
            rows = _OPEN_SUMS // min(count, _MOST_BLOCKS)
        return choose_tile(
            core,
            rows,
            count,
            block_bytes=4 * self.vector * hint_of(m.depth),
            spare=self.multiplication.spare,
            split=self.multiplication.split,
        )

    def _count_k_blocks(self, core: Core) -> int:
        """Return how many k-blocks the depth is divided into; KC of each is whole vectors."""
        m, chunk = self.matmul, self.tile.nr * core.lanes
        if is_open((m.rows, m.depth, m.columns)):
            return 1  # rows that are computed again would be added again
        read = 4 * m.depth * (m.rows + 2 * chunk)  # one chunk is multiplied, one is prefetched
        fits = read <= core.l2_bytes * _DEPTH_SHARE
        # Results of others may be stored in reduced precision, and sums of bytes are no results.
        if (
            fits
            or self.factors != "single"
            or not m.weights
            or m.batch > 1
            or m.rows > _MOST_K_BLOCK_ROWS
        ):
            return 1
        counts = (n for n in range(2, _MAX_K_BLOCKS + 1) if m.depth % (n * core.lanes) == 0)
        return next((n for n in counts if read <= n * core.l2_bytes * _K_BLOCK_SHARE), 1)
