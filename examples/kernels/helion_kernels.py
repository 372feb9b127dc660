"""A kernel in Helion: SiLU of one half of a row, times the other."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def silu_and_mul(x: torch.Tensor, out: torch.Tensor) -> None:
    """out = silu(x[:, :width]) · x[:, width:], a tile at a time."""
    rows, width = out.size()
    for tile_row, tile in hl.tile([rows, width]):
        gate = x[tile_row, tile].to(torch.float32)
        value = x[tile_row, tile.index + width].to(torch.float32)
        out[tile_row, tile] = (gate * torch.sigmoid(gate) * value).to(out.dtype)
