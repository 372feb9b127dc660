"""Mirror of native/layout.h: what parent and measuring child exchange through shared memory."""

from __future__ import annotations

import ctypes

RUNS = 3
GROUPS = 8
CONTESTANTS = 16
MAX_TENSORS = 6
CALL_BYTES = 480
NONE = -1
POISON = (0xFF, 0x5A, 0xFF)
"""The byte that outputs are filled with before each run: NaN in every floating dtype, then a finite
number."""

IDLE, LOADING, CHECKING, OPENING, RACING = range(5)
AT_START, AT_END = range(2)

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

    _fields_ = (("nbytes", _i64), ("output", _i64), ("vary", _u64), ("source", _i64 * GROUPS))


class RacePlan(ctypes.Structure):
    """`kwr_race`."""

    _fields_ = (
        ("call", ctypes.c_uint8 * CALL_BYTES),
        ("contestants", _i32),
        ("buffers", _i32),
        ("groups", _i32),
        ("cold", _i32),
        ("allocating", _i32),
        ("threads", _i32),
        ("arena_limit", _i64),
        ("round_ns", _i64),
        ("seed", _u64),
        ("buffer", RaceBuffer * MAX_TENSORS),
    )


class RaceState(ctypes.Structure):
    """`kwr_race_state`."""

    _fields_ = (
        ("sets", _i64),
        ("set_bytes", _i64),
        ("arena_bytes", _i64),
        ("blocks_per_round", _i64),
        ("timed_ns", _i64),
        ("other_ns", _i64),
        ("samples", _i64),
        ("failed", _i32),
        ("status", _i32),
        ("float_control", _u32),
        ("huge_pages", _i32),
        ("calls", _i32 * CONTESTANTS),
        ("estimate_ns", _f64 * CONTESTANTS),
    )


class Sample(ctypes.Structure):
    """`kwr_sample`."""

    _fields_ = (
        ("contestant", _i32),
        ("set", _i32),
        ("group", _i32),
        ("inputs_changed", _i32),
        ("written_outside", _i32),
        ("reserved", _i32),
        ("at", _i64 * MAX_TENSORS),
    )


SIZES = tuple(ctypes.sizeof(kind) for kind in (Progress, CaseEntry, CaseResult, RacePlan, RaceState, Sample))
"""What `kwr_layout` must report after the size of `kw_call`."""
