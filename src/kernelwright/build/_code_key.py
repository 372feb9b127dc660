"""The code key: a name for what a library runs, whatever it was made from."""

from __future__ import annotations

import hashlib
from pathlib import Path

from kernelwright.errors import FileFormatError


def code_key(library: Path) -> str:
    """32 hex digits over the sections that a process loads, without notes.

    Debug data, comments and build ids are not loaded or are notes, so a rebuild in another folder has the
    same key, and so have two sets of flags that made the compiler write the same code. Raises
    FileFormatError when `library` is not an ELF file.
    """
    # Imported here: most processes find everything built.
    from elftools.common.exceptions import ELFError
    from elftools.elf.constants import SH_FLAGS
    from elftools.elf.elffile import ELFFile

    digest = hashlib.sha256()
    try:
        with library.open("rb") as stream:
            for section in ELFFile(stream).iter_sections():
                if not section["sh_flags"] & SH_FLAGS.SHF_ALLOC or section["sh_type"] == "SHT_NOTE":
                    continue
                shape = (
                    section.name,
                    section["sh_type"],
                    section["sh_flags"],
                    section["sh_addr"],
                    section["sh_size"],
                )
                digest.update(repr(shape).encode())
                if section["sh_type"] != "SHT_NOBITS":
                    digest.update(section.data())
    except ELFError as error:
        raise FileFormatError(library, f"not an ELF library ({error})") from error
    return digest.hexdigest()[:32]
