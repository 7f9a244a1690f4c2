"""One large Gaussian process on Slurm, by dask-jobqueue. Run it on the login node, or better in a
job of its own.

    pip install "mnngp[dask]" dask-jobqueue
    python slurm.py data.npz                 # arrays X (n, d), y (n,) and new (m, d)

Not run by the authors of this page, who have no Slurm: check the names of queue, account and
interface with your site.
"""

import sys

import numpy as np
from dask_jobqueue import SLURMCluster
from distributed import Client

from mnngp import MaxoutGPRegressor
from mnngp.inference import ClusterConjugateGradients

CORES = 32


def main() -> None:
    """Start the cluster, fit, save and predict."""
    cluster = SLURMCluster(
        queue="compute",
        account="your-account",
        cores=1,  # one task at a time, ...
        processes=1,
        job_cpu=CORES,  # ... which has all cores of the node
        memory="128GB",
        walltime="04:00:00",
        interface="ib0",  # the cluster's own network, not the one that leads outside
        job_script_prologue=[f"export OMP_NUM_THREADS={CORES}", "source ~/mnngp/bin/activate"],
        protocol="tls://",
        security=True,  # keys of this run alone, made here and given to the jobs
    )
    cluster.scale(jobs=16)
    with Client(cluster) as client:
        client.wait_for_workers(16)
        data = np.load(sys.argv[1])
        solver = ClusterConjugateGradients(scheduler=client)
        model = MaxoutGPRegressor(solver=solver, random_state=0, progress=True).fit(
            data["X"], data["y"]
        )
        print(model.report_)
        model.save("model.mnngp")
        np.save("prediction.npy", model.predict(data["new"]))


if __name__ == "__main__":
    main()
