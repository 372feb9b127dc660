"""Which knobs each compiler has, and how they reach it."""

from kernelwright.controls._adapter import Adapter
from kernelwright.controls._adapter import adapter
from kernelwright.controls._adapter import Injection
from kernelwright.controls._booster import keep_entries
from kernelwright.controls._booster import pack_entries
from kernelwright.controls._booster import Tried
from kernelwright.controls._booster import try_entries
from kernelwright.controls._booster import write_controls
from kernelwright.controls._canary import canary
from kernelwright.controls._canary import canary_of_objective
from kernelwright.controls._canary import CanaryError
from kernelwright.controls._canary import CanaryReport
from kernelwright.controls._canary import CanaryStage
from kernelwright.controls._clang import ClangSearchSpace
from kernelwright.controls._codec import compiler_arguments
from kernelwright.controls._codec import Controls
from kernelwright.controls._codec import decode_controls
from kernelwright.controls._codec import encode_controls
from kernelwright.controls._codec import load_compiler_config
from kernelwright.controls._codec import save_compiler_config
from kernelwright.controls._counts import Counts
from kernelwright.controls._cpu_adapters import ClangAdapter
from kernelwright.controls._cpu_adapters import GccAdapter
from kernelwright.controls._cpu_resources import cpu_resources
from kernelwright.controls._cubin import cubin_key
from kernelwright.controls._cuda_adapters import NvccAdapter
from kernelwright.controls._cuda_adapters import PtxasAdapter
from kernelwright.controls._cuda_launch import KernelRun
from kernelwright.controls._cuda_launch import PairedTime
from kernelwright.controls._cuda_spaces import NvccSearchSpace
from kernelwright.controls._cuda_spaces import PtxasSearchSpace
from kernelwright.controls._cuda_target import CudaTarget
from kernelwright.controls._cuda_target import PtxTarget
from kernelwright.controls._described import provider_from
from kernelwright.controls._described import register_target
from kernelwright.controls._described import target_from
from kernelwright.controls._errors import ControlsError
from kernelwright.controls._errors import UnknownToolError
from kernelwright.controls._explain import Change
from kernelwright.controls._explain import explain
from kernelwright.controls._explain import Explanation
from kernelwright.controls._file import load_target
from kernelwright.controls._finalists import Candidate
from kernelwright.controls._finalists import candidate_of
from kernelwright.controls._finalists import choose_finalists
from kernelwright.controls._finalists import Finalist
from kernelwright.controls._finalists import judge_together
from kernelwright.controls._finalists import ratio_text
from kernelwright.controls._finalists import Validation
from kernelwright.controls._gcc import GccSearchSpace
from kernelwright.controls._minimal import MinimalControls
from kernelwright.controls._minimal import minimize_controls
from kernelwright.controls._native import NativeTarget
from kernelwright.controls._objective import ControlsObjective
from kernelwright.controls._occupancy import occupancy
from kernelwright.controls._pack import PackEntry
from kernelwright.controls._pack import read_pack
from kernelwright.controls._pack import verify_pack
from kernelwright.controls._pack import write_pack
from kernelwright.controls._pack_file import Damage
from kernelwright.controls._pack_file import PackError
from kernelwright.controls._pack_file import Problem
from kernelwright.controls._precompile import ahead_of
from kernelwright.controls._precompile import precompiling_worker
from kernelwright.controls._provenance import differences
from kernelwright.controls._provenance import provenance_of
from kernelwright.controls._provenance import refuse_unless_same
from kernelwright.controls._provenance import WinnerRefusedError
from kernelwright.controls._provider import CompilerSearchSpace
from kernelwright.controls._resources import read_ptxas_log
from kernelwright.controls._resources import Resources
from kernelwright.controls._resources import resources_of
from kernelwright.controls._rounds import BaselineFailedError
from kernelwright.controls._rounds import judge_in_rounds
from kernelwright.controls._search import ControlsResult
from kernelwright.controls._search import make_search
from kernelwright.controls._search import search_controls
from kernelwright.controls._target import Artifact
from kernelwright.controls._target import BuildFailure
from kernelwright.controls._target import split_config
from kernelwright.controls._target import Target
from kernelwright.controls._validate import validate_target
from kernelwright.controls._validate import ValidationError
from kernelwright.controls._vendor_files import VendorFiles
from kernelwright.controls._winner import config_of
from kernelwright.controls._winner import NotStoredError
from kernelwright.controls._winner import store_winner

__all__ = [
    "Adapter",
    "Artifact",
    "BaselineFailedError",
    "BuildFailure",
    "CanaryError",
    "CanaryReport",
    "CanaryStage",
    "Candidate",
    "Change",
    "ClangAdapter",
    "ClangSearchSpace",
    "CompilerSearchSpace",
    "Controls",
    "ControlsError",
    "ControlsObjective",
    "ControlsResult",
    "Counts",
    "CudaTarget",
    "Damage",
    "Explanation",
    "Finalist",
    "GccAdapter",
    "GccSearchSpace",
    "Injection",
    "KernelRun",
    "MinimalControls",
    "NativeTarget",
    "NotStoredError",
    "NvccAdapter",
    "NvccSearchSpace",
    "PackEntry",
    "PackError",
    "PairedTime",
    "Problem",
    "PtxTarget",
    "PtxasAdapter",
    "PtxasSearchSpace",
    "Resources",
    "Target",
    "Tried",
    "UnknownToolError",
    "Validation",
    "ValidationError",
    "VendorFiles",
    "WinnerRefusedError",
    "adapter",
    "ahead_of",
    "canary",
    "canary_of_objective",
    "candidate_of",
    "choose_finalists",
    "compiler_arguments",
    "config_of",
    "cpu_resources",
    "cubin_key",
    "decode_controls",
    "differences",
    "encode_controls",
    "explain",
    "judge_in_rounds",
    "judge_together",
    "keep_entries",
    "load_compiler_config",
    "load_target",
    "make_search",
    "minimize_controls",
    "occupancy",
    "pack_entries",
    "precompiling_worker",
    "provenance_of",
    "provider_from",
    "ratio_text",
    "read_pack",
    "read_ptxas_log",
    "refuse_unless_same",
    "register_target",
    "resources_of",
    "save_compiler_config",
    "search_controls",
    "split_config",
    "store_winner",
    "target_from",
    "try_entries",
    "validate_target",
    "verify_pack",
    "write_controls",
    "write_pack",
]
