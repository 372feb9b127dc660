"""Search options that may be left out, scored against the baseline: what it is without any of them."""

import time
import zlib

from kernelwright import space
from kernelwright.search import BASELINE_CONFIG
from kernelwright.search import MultiProcessWorker
from kernelwright.search import Search
from kernelwright.search import SearchConfiguration

TEXT = b"".join(b"%d bottles of beer on the wall, %x; " % (n, n * n * 7919) for n in range(6000))


def objective(config: dict) -> float:
    """Milliseconds to compress. What was knocked out is not in `config`; {} is zlib's own choice."""
    if config == BASELINE_CONFIG:
        options = {}
    else:
        options = {"level": config.get("level", -1), "memLevel": config.get("memory", 8)}
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        packer = zlib.compressobj(strategy=config.get("strategy", 0), **options)
        packed = packer.compress(TEXT) + packer.flush()
        best = min(best, 1e3 * (time.perf_counter() - begin))
    assert zlib.decompress(packed) == TEXT
    return best


if __name__ == "__main__":
    results = Search(
        objective,
        {
            "level": space.range(1, 9, knockout_prob=0.3),
            "memory": space.range(1, 9, knockout_prob=0.3),
            "strategy": space.literal(zlib.Z_RLE, knockout_prob=0.5),
        },
        SearchConfiguration(generations=4, pool_size=10, normalize=True),
        MultiProcessWorker,
    ).start()
    best = results.get_best_result()
    print(f"best: {best['norm_score']:.2f} of zlib's own time ({best['score']:.2f} ms) with {best['params']}")
    baselines = [round(one.scores[0], 2) for one in results.baselines]
    print(f"the baseline, {len(baselines)} times: {baselines}")
