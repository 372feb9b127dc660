"""Mirror of native/layout.h: what parent and measuring child exchange through shared memory."""

from __future__ import annotations

import ctypes

RUNS = 3
GROUPS = 8
CONTESTANTS = 16
KEPT = 8
FENCE_BYTES = 64
FENCE = 0xA5
WARM_SETS = 2
MAX_TENSORS = 6
CALL_BYTES = 480
NONE = -1
POISON = (0xFF, 0x5A, 0xFF)
"""The byte that outputs are filled with before each run: NaN in every floating dtype, then a finite
number."""

IDLE, LOADING, CHECKING, OPENING, RACING = range(5)
AT_START, AT_END = range(2)
OUTPUTS, ALL, LAST = range(3)

_i32, _i64, _u32, _u64, _f64 = (
    ctypes.c_int32,
    ctypes.c_int64,
    ctypes.c_uint32,
    ctypes.c_uint64,
    ctypes.c_double,
)


PROGRESS = ("phase", "index", "run", "ticks", "faults", "fault_buffer", "fault_at")


class Progress(ctypes.Structure):
    """`kwr_progress`, at the start of the board."""

    _fields_ = tuple((name, _i64) for name in PROGRESS)


class CaseBuffer(ctypes.Structure):
    """`kwr_buffer`."""

    _fields_ = (("nbytes", _i64), ("input", _i64), ("output", _i64 * RUNS))


class CaseEntry(ctypes.Structure):
    """`kwr_case`."""

    _fields_ = (
        ("call", ctypes.c_uint8 * CALL_BYTES),
        ("buffers", _i32),
        ("runs", _i32),
        ("placement", _i32 * RUNS),
        ("threads", _i32 * RUNS),
        ("poison", _i32 * RUNS),
        ("null_if_empty", _i32 * RUNS),
        ("buffer", CaseBuffer * MAX_TENSORS),
    )


class CaseResult(ctypes.Structure):
    """`kwr_case_result`."""

    _fields_ = (
        ("runs_done", _i32),
        ("status", _i32 * RUNS),
        ("float_control", _u32 * RUNS),
        ("block_changed", _i32 * RUNS),
        ("inputs_changed", _i32 * RUNS),
        ("written_outside", _i32 * RUNS),
        ("float_control_before", _u32),
        ("outside_at", _i64 * RUNS),
        ("elapsed_ns", _i64 * RUNS),
    )


class RaceBuffer(ctypes.Structure):
    """`kwr_race_buffer`."""

    _fields_ = (
        ("nbytes", _i64),
        ("output", _i64),
        ("item", _i64),
        ("vary", _u64),
        ("source", _i64 * GROUPS),
    )


class RacePlan(ctypes.Structure):
    """`kwr_race`."""

    _fields_ = (
        ("call", ctypes.c_uint8 * CALL_BYTES),
        ("buffers", _i32),
        ("groups", _i32),
        ("cold", _i32),
        ("allocating", _i32),
        ("threads", _i32),
        ("judged", _i32),
        ("arena_limit", _i64),
        ("batch_ns", _i64),
        ("seed", _u64),
        ("buffer", RaceBuffer * MAX_TENSORS),
    )


class RaceState(ctypes.Structure):
    """`kwr_race_state`."""

    _fields_ = (
        ("sets", _i64),
        ("set_bytes", _i64),
        ("arena_bytes", _i64),
        ("windows", _i64),
        ("calls", _i64),
        ("ran", _i64),
        ("last", _i64),
        ("status", _i64),
        ("float_control", _u32),
        ("float_control_found", _u32),
        ("huge_pages", _i32),
        ("reserved", _i32),
        ("estimate_ns", _f64),
    )


class Look(ctypes.Structure):
    """`kwr_look`."""

    _fields_ = (("set", _i64), ("kind", _i64), ("at", _i64 * MAX_TENSORS))


SIZES = tuple(ctypes.sizeof(kind) for kind in (Progress, CaseEntry, CaseResult, RacePlan, RaceState, Look))
"""What `kwr_layout` must report after the size of `kw_call`."""
