"""What an option of ptxas or nvcc looks like, what it sets, and which steer a build instead of tuning it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kernelwright.controls._tools import check_flag
from kernelwright.controls._tools import Complaint
from kernelwright.controls._tools import register_tool
from kernelwright.controls._tools import Tool

#: In front of an option that nvcc hands to ptxas.
FOR_PTXAS = "-Xptxas="
#: What makes a cap on registers or threads win over `__launch_bounds__`, which else win without a word.
OVERRIDE = "--override-directive-values"

#: Short names of options that may stand in a configuration; `-name` is `--name` besides.
_PTXAS_NAMES: Mapping[str, str] = {
    "-O": "--opt-level",
    "-Ofc": "--Ofast-compile",
    "-c": "--compile-only",
    "-dlcm": "--def-load-cache",
    "-dscm": "--def-store-cache",
    "-flcm": "--force-load-cache",
    "-fscm": "--force-store-cache",
    "-no-bb-merge": "--dont-merge-basicblocks",
    "-opt-fp-atomics": "--optimize-float-atomics",
    "-disable-optimizer-consts": "--disable-optimizer-constants",
    "-regUsageLevel": "--register-usage-level",
    "-ret-end": "--return-at-end",
    "-func-maxrregcount": "--device-function-maxrregcount",
    "-pic": "--position-independent-code",
    "-ewp": "--extensible-whole-program",
    "-e": "--entry",
    "-o": "--output-file",
    "-arch": "--gpu-name",
    "-optf": "--options-file",
    "-ias": "--input-as-string",
    "-m": "--machine",
    "-h": "--help",
    "-V": "--version",
}
_NVCC_NAMES: Mapping[str, str] = {
    "-O": "--optimize",
    "-Ofc": "--Ofast-compile",
    "-dlto": "--dlink-time-opt",
    "--lto": "--dlink-time-opt",
    "-lto": "--dlink-time-opt",
    "-jtd": "--jump-table-density",
    "-rdc": "--relocatable-device-code",
    "-ewp": "--extensible-whole-program",
    "-G": "--device-debug",
    "-c": "--compile",
    "-o": "--output-file",
    "-odir": "--output-directory",
    "-arch": "--gpu-architecture",
    "-code": "--gpu-code",
    "-gencode": "--generate-code",
    "-optf": "--options-file",
    "-ccbin": "--compiler-bindir",
    "-arbin": "--archiver-binary",
    "-Xcompiler": "--compiler-options",
    "-Xlinker": "--linker-options",
    "-Xarchive": "--archive-options",
    "-Xnvlink": "--nvlink-options",
    "-Xnvprune": "--nvprune-options",
    "-Xtileiras": "--tileiras-options",
    "-include": "--pre-include",
    "-isystem": "--system-include",
    "-ldir": "--libdevice-directory",
    "-noprof": "--dont-use-profile",
    "-dc": "--device-c",
    "-dw": "--device-w",
    "-dlink": "--device-link",
    "-E": "--preprocess",
    "-clean": "--clean-targets",
    "-h": "--help",
    "-V": "--version",
}
#: What says where a build reads, writes and for which machine, or which programs it runs: the target's own.
_PTXAS_STEERS = re.compile(
    r"--(output-file|gpu-name|options-file|entry|compile-only|input-as-string|machine|apply-controls|help"
    r"|version|list-\w+|jobserver)"
)
_NVCC_STEERS = re.compile(
    r"--(output-\w+|gpu-\w+|generate-\w+(-\w+)*|options-file|apply-controls|compiler-bindir|archiver-binary"
    r"|(compiler|linker|archive|nvlink|nvprune|tileiras)-options|pre-include|system-include|libdevice-directory"
    r"|target-directory|dont-use-profile|cuda|cubin|fatbin|ptx|optix-ir|ltoir|tile\w*(-\w+)*|preprocess|compile"
    r"|device-(c|w|link)|link|lib|run(-args)?|shared|library(-path)?|include-path|qpp-config|machine|m64|x|time"
    r"|keep(-dir)?|save-temps|clean-targets|dryrun|forward-unknown-\w+(-\w+)*|entries|list-\w+(-\w+)*|help"
    r"|version|jobserver|fdevice-(syntax-only|time-trace\S*|sanitize)|dependency-\w+(-\w+)*|objdir-as-tempdir"
    r"|define-macro|undefine-macro|relocatable-link|profile|debug)"
)
_NVCC_GLUED = re.compile(r"-[DUIlL](?!to$)\S+")


def ptxas_subject(option: str) -> str:
    """What an option of ptxas sets, by its long name."""
    return _subject(option, _PTXAS_NAMES)


def nvcc_subject(option: str) -> str:
    """What an option of nvcc sets, by its long name; one for ptxas with `-Xptxas=` in front."""
    if option.startswith(FOR_PTXAS):
        return FOR_PTXAS + ptxas_subject(option.removeprefix(FOR_PTXAS))
    return _subject(option, _NVCC_NAMES)


def check_ptxas(option: str) -> Complaint:
    """What is wrong with an option of ptxas; see `check_flag`."""
    wrong = check_flag(option)
    if wrong is None and _PTXAS_STEERS.fullmatch(ptxas_subject(option)):
        return 0, f"{option!r} says what is built, which is the target's to say; options only tune it"
    return wrong


def check_nvcc(option: str) -> Complaint:
    """What is wrong with an option of nvcc; one for ptxas is written `-Xptxas=OPTION`, each in a line."""
    wrong = check_flag(option)
    if wrong is not None:
        return wrong
    if option.startswith(FOR_PTXAS):
        inner = option.removeprefix(FOR_PTXAS)
        if "," in inner:
            return option.index(","), f"{option!r} is several options; write {FOR_PTXAS}… once for each"
        wrong = check_ptxas(inner)
        return None if wrong is None else (wrong[0] + len(FOR_PTXAS), wrong[1])
    if re.match(r"(-Xptxas|--ptxas-options)\b", option):
        return 0, f"{option!r} is not how options for ptxas are written; write {FOR_PTXAS}OPTION"
    if _NVCC_STEERS.fullmatch(nvcc_subject(option)) or _NVCC_GLUED.fullmatch(option):
        return 0, f"{option!r} says what is built, which is the target's to say; options only tune it"
    return None


def _subject(option: str, names: Mapping[str, str]) -> str:
    level = re.fullmatch(r"-O\d", option)
    stem = "-O" if level else option.partition("=")[0]
    if stem in names:
        return names[stem]
    return stem if stem.startswith("--") else f"-{stem}"


register_tool(Tool("ptxas", check_ptxas, ptxas_subject))
register_tool(Tool("nvcc", check_nvcc, nvcc_subject, macros=True))
