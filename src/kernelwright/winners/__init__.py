"""What was proven here: plain records; no code runs from them."""

from kernelwright.winners._record import CONTROLS
from kernelwright.winners._record import Record
from kernelwright.winners._store import all_records
from kernelwright.winners._store import export
from kernelwright.winners._store import find
from kernelwright.winners._store import folder
from kernelwright.winners._store import forget
from kernelwright.winners._store import import_
from kernelwright.winners._store import lookup
from kernelwright.winners._store import on_change
from kernelwright.winners._store import Shelf
from kernelwright.winners._store import shelves
from kernelwright.winners._store import store
from kernelwright.winners._store import this_machine

__all__ = [
    "CONTROLS",
    "Record",
    "Shelf",
    "all_records",
    "export",
    "find",
    "folder",
    "forget",
    "import_",
    "lookup",
    "on_change",
    "shelves",
    "store",
    "this_machine",
]
