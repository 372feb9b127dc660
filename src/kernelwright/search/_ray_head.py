"""A Ray cluster of one node: `_ray_head.py CPUS`. Run as a supervised script, never imported.

Started by `ray.init`, the cluster would leave processes behind when the search is killed.
"""

from __future__ import annotations

import sys

from kernelwright.process import connect

if __name__ == "__main__":
    from ray.cluster_utils import Cluster

    channel = connect()
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": int(sys.argv[1]), "include_dashboard": False}
    )
    channel.send({"address": cluster.address})
    channel.receive()  # until the channel is closed
    cluster.shutdown()  # type: ignore[no-untyped-call]
