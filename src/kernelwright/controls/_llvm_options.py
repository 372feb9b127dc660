"""LLVM's own options that may change the speed of a kernel: a curated set, out of some two thousand.

The rest verifies, prints, belongs to other targets or to profiles, crashes, or changes results. What is here
is offered only where the clang at hand lists it, with the type it states. `force-vector-width` looks as if
it changed speed alone, but lets the vectoriser reorder sums of floating point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Values in place of those around the default: for options whose default, 0, means that a heuristic decides,
#: and for those whose list has values of other targets.
Values = tuple[Any, ...]


@dataclass(frozen=True)
class Area:
    """Options of one kind: the variants they are in besides `wide`, and each option's values where stated."""

    variants: frozenset[str]
    options: Mapping[str, Values | None]


_ALL = frozenset({"default", "attention", "memory_bound"})
_LOOPS = frozenset({"default", "attention"})
_STREAMS = frozenset({"default", "memory_bound"})
_WIDE: frozenset[str] = frozenset()

AREAS: tuple[Area, ...] = (
    # Vectors and how many of them are in flight.
    Area(
        _ALL,
        {
            "force-vector-interleave": (1, 2, 4, 8),
            "force-target-max-vector-interleave": (1, 2, 4, 8),
            "vectorizer-maximize-bandwidth": None,
            "enable-interleaved-mem-accesses": None,
            "enable-loadstore-runtime-interleave": None,
            "small-loop-cost": None,
            "enable-epilogue-vectorization": None,
            "epilogue-vectorization-minimum-VF": (4, 8, 16, 32),
            "slp-max-reg-size": (128, 256, 512),
        },
    ),
    # Unrolling.
    Area(
        _ALL,
        {
            "unroll-runtime": None,
            "unroll-allow-partial": None,
            "unroll-count": (2, 4, 8, 16),
            "unroll-max-count": (2, 4, 8, 16),
            "unroll-threshold": (50, 150, 300, 600, 1200, 2400),
            "unroll-partial-threshold": (50, 150, 300, 600, 1200),
            "unroll-runtime-multi-exit": None,
            "unroll-runtime-epilog": None,
            "unroll-allow-remainder": None,
        },
    ),
    # What a main loop in registers lives of: nests, scheduling, allocation.
    Area(
        _LOOPS,
        {
            "enable-unroll-and-jam": None,
            "unroll-and-jam-count": (2, 4, 8),
            "unroll-and-jam-threshold": None,
            "enable-loopinterchange": None,
            "enable-misched": None,
            "misched-topdown": None,
            "misched-bottomup": None,
            "misched-cluster": None,
            "misched-regpressure": None,
            "misched": ("converge", "ilpmax", "ilpmin"),
            "pre-RA-sched": ("list-ilp", "list-hybrid", "list-burr", "source", "linearize"),
            "post-RA-scheduler": None,
            "regalloc": ("basic", "greedy"),
            "split-spill-mode": ("size", "speed"),
            "enable-local-reassign": None,
            "consider-local-interval-cost": None,
            "disable-spill-hoist": None,
            "slp-threshold": (-8, -4, -2, 0, 2, 4, 8),
            "slp-vectorize-hor": None,
            "slp-vectorize-hor-store": None,
            "slp-recursion-max-depth": None,
            "slp-min-tree-size": None,
            "inline-threshold": None,
        },
    ),
    # Streams of loads and stores.
    Area(
        _STREAMS,
        {
            "max-interleave-group-factor": (2, 4, 8),
            "enable-masked-interleaved-mem-accesses": None,
            "runtime-memory-check-threshold": None,
            "vectorizer-min-trip-count": None,
            "enable-loop-distribute": None,
            "prefer-predicate-over-epilogue": ("scalar-epilogue", "predicate-else-scalar-epilogue"),
            "disable-memcpy-idiom": None,
            "disable-lsr": None,
            "combiner-store-merging": None,
        },
    ),
    # Where code lies.
    Area(
        _ALL,
        {
            "align-loops": (16, 32, 64),
            "align-all-nofallthru-blocks": (3, 4, 5, 6),
            "align-all-functions": (4, 5, 6),
            "x86-experimental-pref-innermost-loop-alignment": (4, 5, 6),
            "x86-branches-within-32B-boundaries": None,
            "enable-ext-tsp-block-placement": None,
        },
    ),
    Area(
        _WIDE,
        {
            "adce-remove-loops": None,
            "available-load-scan-limit": None,
            "avoid-speculation": None,
            "bonus-inst-threshold": None,
            "cgp-split-large-offset-gep": None,
            "disable-block-placement": None,
            "disable-branch-fold": None,
            "disable-cgp-ext-ld-promotion": None,
            "disable-cgp-select2branch": None,
            "disable-constant-hoisting": None,
            "disable-early-ifcvt": None,
            "disable-early-taildup": None,
            "disable-licm-promotion": None,
            "disable-machine-cse": None,
            "disable-machine-licm": None,
            "disable-machine-sink": None,
            "disable-peephole": None,
            "disable-postra-machine-sink": None,
            "disable-sched-critical-path": None,
            "disable-sched-height": None,
            "disable-sched-reg-pressure": None,
            "disable-sched-stalls": None,
            "disable-tail-duplicate": None,
            "disable-vector-combine": None,
            "disable-x86-domain-reassignment": None,
            "disable-x86-lea-opt": None,
            "enable-cond-stores-vec": None,
            "enable-gvn-memdep": None,
            "enable-if-conversion": None,
            "enable-load-in-loop-pre": None,
            "enable-load-pre": None,
            "enable-pre": None,
            "enable-shrink-wrap": None,
            "enable-tail-merge": None,
            "exhaustive-register-search": None,
            "extra-vectorizer-passes": None,
            "force-target-max-scalar-interleave": (1, 2, 4),
            "hoist-common-insts": None,
            "indvars-widen-indvars": None,
            "inlinehint-threshold": None,
            "interleave-small-loop-scalar-reduction": None,
            "join-globalcopies": None,
            "jump-threading-threshold": None,
            "loop-load-elimination-scev-check-threshold": None,
            "lsr-complexity-limit": None,
            "lsr-insns-cost": None,
            "machine-sink-split": None,
            "max-speculation-depth": None,
            "max-uses-for-sinking": None,
            "memory-check-merge-threshold": None,
            "misched-cyclicpath": None,
            "partial-reg-update-clearance": None,
            "phi-node-folding-threshold": None,
            "rotation-max-header-size": None,
            "simplifycfg-merge-cond-stores": None,
            "sink-common-insts": None,
            "sink-insts-to-avoid-spills": None,
            "slp-look-ahead-users-budget": None,
            "slp-max-look-ahead-depth": None,
            "slp-max-store-lookup": None,
            "slp-max-vf": (2, 4, 8, 16),
            "spec-exec-max-speculation-cost": None,
            "speculate-one-expensive-inst": None,
            "tail-dup-placement": None,
            "tail-dup-placement-threshold": None,
            "tail-dup-size": None,
            "tail-merge-size": None,
            "tail-merge-threshold": None,
            "tiny-trip-count-interleave-threshold": None,
            "twoaddr-reschedule": None,
            "two-entry-phi-node-folding-threshold": None,
            "undef-reg-clearance": None,
            "unroll-allow-peeling": None,
            "unroll-max-iteration-count-to-analyze": None,
            "unroll-max-percent-threshold-boost": None,
            "unroll-peel-max-count": None,
            "unswitch-threshold": None,
            "vectorize-num-stores-pred": None,
            "vectorize-scev-check-threshold": None,
            "x86-cmov-converter": None,
            "x86-cmov-converter-threshold": None,
            "x86-early-ifcvt": None,
            "x86-pad-for-align": None,
        },
    ),
)
#: These let results of floating point change.
UNSAFE: Mapping[str, Values | None] = {"force-vector-width": (1, 2, 4, 8, 16)}


def options_of(variant: str, *, unsafe: bool) -> dict[str, Values | None]:
    """The names of a variant's options, with values where they are stated."""
    found: dict[str, Values | None] = {}
    for area in AREAS:
        if variant == "wide" or variant in area.variants:
            found |= area.options
    return {**found, **UNSAFE} if unsafe else found
