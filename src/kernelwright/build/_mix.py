"""What the instructions of a library do: widths, loads, stores, arithmetic, spills, its main loop.

From the binary alone, so that a configuration can be judged without a run. Needs the extra `disassembly`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelwright.build._disassembly import _iced
from kernelwright.build._disassembly import _register_widths
from kernelwright.build._disassembly import WIDTHS
from kernelwright.errors import FileFormatError

#: Bits of the registers in WIDTHS.
_BITS = (0, 128, 256, 512)


@dataclass(frozen=True)
class Loop:
    """An innermost loop: from the target of its backward jump to that jump.

    `text` is its instructions as the GNU assembler writes them, `bits` the widest register in it, `bytes`
    what it loads and stores apart from the stack, `spills` and `reloads` those of the function's that lie in
    it.
    """

    instructions: int
    bits: int
    bytes: int
    spills: int
    reloads: int
    text: tuple[str, ...]


@dataclass(frozen=True)
class Mix:
    """The instructions of a library's functions, counted by what they do; an instruction may count twice.

    `kinds`: `scalar`, `xmm`, `ymm`, `zmm` (the widest register touched), `load`, `store`, `fma`, `multiply`,
    `divide` (with square roots), `gather` (with scatters), `shuffle`, `branch`, `call`. `bits` is the widest
    register. A spill is a register stored to a slot of the stack that is read back in the same function; what
    the program itself keeps on the stack in such a way counts too. Pushes of saved registers do not.
    `main_loop` is the innermost loop with the widest registers, of those the longest; None without a loop.
    """

    instructions: int
    kinds: dict[str, int]
    bits: int
    spills: int
    reloads: int
    loops: int
    main_loop: Loop | None


def instruction_mix(library: Path) -> Mix:
    """Count the instructions of a library by what they do.

    Raises MissingExtraError without iced-x86, FileFormatError when `library` is not an x86-64 library.
    """
    iced = _iced()
    counts: Counter[str] = Counter()
    loops: list[Loop] = []
    total = spills = reloads = 0
    for function in _functions(library, iced):
        look = _Function(iced, function)
        total += len(function)
        counts.update(look.kinds())
        spills += len(look.spills)
        reloads += len(look.reloads)
        loops += look.loops()
    kinds = {name: counts[name] for name in (*WIDTHS, *_KINDS)}
    widest = max((index for index, name in enumerate(WIDTHS) if counts[name]), default=0)
    # Of equal ones the first, so that the answer does not depend on anything but the binary.
    main = max(loops, key=lambda loop: (loop.bits, loop.instructions), default=None)
    return Mix(total, kinds, _BITS[widest], spills, reloads, len(loops), main)


_KINDS = ("load", "store", "fma", "multiply", "divide", "gather", "shuffle", "branch", "call")
#: What begins a mnemonic (of a vector instruction after its `v`), by what it does.
_BY_NAME = {
    "fma": ("fmadd", "fmsub", "fnmadd", "fnmsub", "dpbf16", "tdp"),
    "multiply": ("mul", "pmul", "imul", "pmadd"),
    "divide": ("div", "idiv", "sqrt"),
    "gather": ("gather", "pgather", "scatter", "pscatter"),
    "shuffle": ("shuf", "pshuf", "perm", "unpck", "punpck", "insert", "extract", "broadcast", "pbroadcast"),
}


class _Function:
    """One function's instructions, looked at."""

    def __init__(self, iced: ModuleType, instructions: Sequence[Any]) -> None:
        self._iced = iced
        self._instructions = instructions
        self._names = {
            getattr(iced.Mnemonic, name): name.lower() for name in dir(iced.Mnemonic) if name.isupper()
        }
        self._width_of = _register_widths()
        self._info = iced.InstructionInfoFactory()
        self._frame = self._bases()
        written: dict[tuple[int, int], list[int]] = {}
        read: dict[tuple[int, int], list[int]] = {}
        for index, instruction in enumerate(instructions):
            slot = self._slot(instruction)
            if slot is not None:
                into = written if self._access(instruction)[1] else read
                into.setdefault(slot, []).append(index)
        both = written.keys() & read.keys()
        #: Where in the function something is spilled, and where it is loaded again.
        self.spills = frozenset(index for slot in both for index in written[slot])
        self.reloads = frozenset(index for slot in both for index in read[slot])

    def _bases(self) -> frozenset[int]:
        """The registers that point to the stack: rbp where the function sets it from rsp."""
        registers = self._iced.Register
        framed = any(
            one.mnemonic == self._iced.Mnemonic.MOV
            and one.op0_register == registers.RBP
            and one.op1_register == registers.RSP
            for one in self._instructions
        )
        return frozenset({registers.RSP, registers.RBP} if framed else {registers.RSP})

    def kinds(self) -> Counter[str]:
        flow = self._iced.FlowControl
        counts: Counter[str] = Counter()
        for instruction in self._instructions:
            counts[WIDTHS[self._width(instruction)]] += 1
            loads, stores = self._access(instruction)
            counts["load"] += loads
            counts["store"] += stores
            name = self._names[instruction.mnemonic].removeprefix("v")
            for kind, beginnings in _BY_NAME.items():
                counts[kind] += name.startswith(beginnings)
            counts["branch"] += instruction.flow_control in (
                flow.CONDITIONAL_BRANCH,
                flow.UNCONDITIONAL_BRANCH,
                flow.INDIRECT_BRANCH,
            )
            counts["call"] += instruction.flow_control in (flow.CALL, flow.INDIRECT_CALL)
        return counts

    def loops(self) -> list[Loop]:
        """The backward jumps that have no other in them."""
        places = {instruction.ip: index for index, instruction in enumerate(self._instructions)}
        found: list[tuple[int, int]] = []
        flow = self._iced.FlowControl
        for index, instruction in enumerate(self._instructions):
            if instruction.flow_control not in (flow.CONDITIONAL_BRANCH, flow.UNCONDITIONAL_BRANCH):
                continue
            start = places.get(instruction.near_branch_target)
            if start is not None and start <= index:
                found.append((start, index))
        inner = [
            one
            for one in found
            if not any(one != two and one[0] <= two[0] <= two[1] <= one[1] for two in found)
        ]
        return [self._loop(start, end) for start, end in inner]

    def _loop(self, start: int, end: int) -> Loop:
        body = self._instructions[start : end + 1]
        formatter = self._iced.Formatter(self._iced.FormatterSyntax.GAS)
        inside = range(start, end + 1)
        return Loop(
            instructions=len(body),
            bits=_BITS[max(map(self._width, body))],
            bytes=sum(map(self._bytes, body)),
            spills=sum(index in self.spills for index in inside),
            reloads=sum(index in self.reloads for index in inside),
            text=tuple(formatter.format(instruction) for instruction in body),
        )

    def _width(self, instruction: Any) -> int:
        operands = [instruction.op_register(index) for index in range(instruction.op_count)]
        return max((self._width_of.get(register, 0) for register in operands), default=0)

    def _bytes(self, instruction: Any) -> int:
        if not any(self._access(instruction)) or instruction.memory_base in self._frame:
            return 0
        return int(self._iced.MemorySizeExt.size(instruction.memory_size))

    def _access(self, instruction: Any) -> tuple[bool, bool]:
        """Whether it loads, whether it stores; addresses that are only computed or prefetched do neither."""
        kinds = self._iced.OpAccess
        loads = stores = False
        for memory in self._info.info(instruction).used_memory():
            loads |= memory.access in (kinds.READ, kinds.COND_READ, kinds.READ_WRITE, kinds.READ_COND_WRITE)
            stores |= memory.access in (
                kinds.WRITE,
                kinds.COND_WRITE,
                kinds.READ_WRITE,
                kinds.READ_COND_WRITE,
            )
        return loads, stores

    def _slot(self, instruction: Any) -> tuple[int, int] | None:
        """The slot of the stack that a plain load or store touches; None for an indexed one, and others."""
        if instruction.memory_base not in self._frame or instruction.memory_index != self._iced.Register.NONE:
            return None
        if instruction.is_stack_instruction or self._access(instruction) in ((False, False), (True, True)):
            return None
        return int(instruction.memory_base), int(instruction.memory_displacement)


def _functions(library: Path, iced: ModuleType) -> Iterator[list[Any]]:
    """The instructions of each function that the symbol table names; of all `.text` where it names none."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with library.open("rb") as stream:
            elf = ELFFile(stream)
            if elf["e_machine"] != "EM_X86_64":
                raise FileFormatError(library, f"not for x86-64 but {elf['e_machine']}")
            text: Any = elf.get_section_by_name(".text")
            if text is None:
                return
            begin, data = text["sh_addr"], text.data()
            # Any: the kind of a section is known by its name here, and not to the type checker.
            table: Any = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
            spans = {
                (symbol["st_value"], symbol["st_size"])
                for symbol in (table.iter_symbols() if table is not None else ())
                if symbol["st_info"]["type"] == "STT_FUNC"
                and symbol["st_size"]
                and begin <= symbol["st_value"] < begin + len(data)
            }
    except ELFError as error:
        raise FileFormatError(library, f"not an ELF library ({error})") from error
    for address, size in sorted(spans) or [(begin, len(data))]:
        code = data[address - begin : address - begin + size]
        yield [one for one in iced.Decoder(64, code, ip=address) if not one.is_invalid]
