"""Memory shared with a measuring child, made once a session and sparse: pages exist where they are used."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
from typing import TypeVar

import torch
from torch import Tensor

Record = TypeVar("Record", bound=ctypes.Structure)

PAGE = 4096
_F_SEAL_FUTURE_WRITE = 0x10


class SharedMemory:
    """An anonymous file of `size` bytes, mapped here; a bump allocator hands out places in it.

    `descriptor` is what a child maps; with `child_may_write=False` neither it nor anything that opens the
    file anew can write or map it for writing (sealed, Linux 5.1). Nobody can change the file's size.
    """

    def __init__(self, name: str, size: int, *, child_may_write: bool) -> None:
        self.size = size
        self._writable = child_may_write
        self._top = 0
        self._handle = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.descriptor = self._handle
        try:
            os.ftruncate(self._handle, size)
            self._mapping = mmap.mmap(self._handle, size)
            # Nobody can make it shorter under us: touching what is gone would end this process.
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
            if not child_may_write:
                seals |= _F_SEAL_FUTURE_WRITE
                self.descriptor = os.open(f"/proc/self/fd/{self._handle}", os.O_RDONLY | os.O_CLOEXEC)
            fcntl.fcntl(self._handle, fcntl.F_ADD_SEALS, seals | fcntl.F_SEAL_SEAL)
            self._bytes = torch.frombuffer(self._mapping, dtype=torch.uint8)
        except BaseException:
            self._close_descriptors()
            raise
        self.address = self._bytes.data_ptr()

    @property
    def top(self) -> int:
        """Where the next place will be."""
        return self._top

    def take(self, nbytes: int, align: int = 64) -> int:
        """The offset of `nbytes` that nobody else has. Raises MemoryError."""
        at = (self._top + align - 1) // align * align
        if at + nbytes > self.size:
            raise MemoryError(f"the referee's shared memory of {self.size} bytes is used up")
        self._top = at + nbytes
        return at

    def release(self, top: int) -> None:
        """Forget everything from offset `top` on; pages that a child may write are given back.

        A sealed file keeps its pages until it is closed: they serve what is put there next.
        """
        first = (top + PAGE - 1) // PAGE * PAGE
        last = (self._top + PAGE - 1) // PAGE * PAGE
        if last > first and self._writable:
            self._mapping.madvise(mmap.MADV_REMOVE, first, last - first)
        self._top = top

    def rewind(self, top: int) -> None:
        """Forget everything from offset `top` on, but keep the pages: what comes next is as long."""
        self._top = top

    def record(self, kind: type[Record], offset: int) -> Record:
        """The structure at `offset`, in place."""
        return kind.from_address(self.address + offset)

    def records(self, kind: type[Record], offset: int, count: int) -> ctypes.Array[Record]:
        """`count` structures at `offset`, in place."""
        return (kind * count).from_address(self.address + offset)

    def put(self, tensor: Tensor, nbytes: int) -> int:
        """Copy `nbytes` of the memory that `tensor` begins at; their offset here."""
        at = self.take(nbytes)
        if nbytes:
            ctypes.memmove(self.address + at, tensor.data_ptr(), nbytes)
        return at

    def view(self, offset: int, nbytes: int, dtype: torch.dtype) -> Tensor:
        """The memory at `offset` as a flat tensor, in place."""
        return self._bytes[offset : offset + nbytes].view(dtype)

    def close(self) -> None:
        """Give the memory back; views of it must not be used any more."""
        self._close_descriptors()
        if self._writable:
            self._mapping.madvise(mmap.MADV_REMOVE, 0, self.size)
        self._bytes = torch.empty(0, dtype=torch.uint8)
        with contextlib.suppress(BufferError):  # a view that is still held keeps the mapping
            self._mapping.close()

    def _close_descriptors(self) -> None:
        for handle in {self.descriptor, self._handle}:
            os.close(handle)
