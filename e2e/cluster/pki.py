"""Keys and certificates of one cluster, made by openssl: one authority, one certificate per component."""

import base64
import shutil
import subprocess
from pathlib import Path

from e2e.cluster.errors import ClusterError

# Subject per client; groups (O) as the API server's bootstrap roles expect them.
CLIENTS = {
    "admin": "/O=system:masters/CN=admin",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "kube-proxy": "/CN=system:kube-proxy",
    "coredns": "/CN=system:coredns",
    "kwok": "/O=system:masters/CN=kwok",
    "kubelet": "/O=system:nodes/CN=system:node:node-1",
    "kubelet-client": "/O=system:masters/CN=kube-apiserver-kubelet-client",
    "front-proxy": "/CN=front-proxy-client",
}
_CONFIG = """[req]
distinguished_name = subject
[subject]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth,clientAuth
"""


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise ClusterError(f"openssl {arguments[0]} failed: {done.stderr.strip().splitlines()[-1:]}")


def make(folder: Path, *, names: list[str], clients: list[str]) -> None:
    """Write ca, apiserver, service-account and client keys into `folder`.

    `names`: subject alternative names of the API server, as ``IP:...`` or ``DNS:...``.
    """
    if not shutil.which("openssl"):
        raise ClusterError("openssl is missing: apt-get install -y openssl")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    config = folder / "openssl.cnf"
    config.write_text(_CONFIG)
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "365"]
    new += ["-config", str(config)]
    ca = ["-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key"), "-extensions", "leaf"]

    def files(name: str) -> list[str]:
        return ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt")]

    _openssl(*new, "-extensions", "authority", "-subj", "/CN=tandem-cluster", *files("ca"))
    _openssl(
        *new, *ca, "-subj", "/CN=kube-apiserver", "-addext", f"subjectAltName={','.join(names)}",
        *files("apiserver"),
    )  # fmt: skip
    for client in clients:
        _openssl(*new, *ca, "-subj", CLIENTS[client], *files(client))
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(folder / "sa.key"))
    _openssl("ec", "-in", str(folder / "sa.key"), "-pubout", "-out", str(folder / "sa.pub"))


def write_kubeconfig(target: Path, *, pki: Path, client: str, server: str, context: str) -> None:
    """A kubeconfig that holds its certificates, so that it can be copied anywhere on this machine."""

    def data(file: str) -> str:
        return base64.b64encode((pki / file).read_bytes()).decode()

    target.touch(mode=0o600)
    target.write_text(
        "apiVersion: v1\nkind: Config\n"
        f"current-context: {context}\n"
        f"contexts: [{{name: {context}, context: {{cluster: {context}, user: {client}}}}}]\n"
        f"clusters:\n- name: {context}\n  cluster:\n    server: {server}\n"
        f"    certificate-authority-data: {data('ca.crt')}\n"
        f"users:\n- name: {client}\n  user:\n"
        f"    client-certificate-data: {data(f'{client}.crt')}\n"
        f"    client-key-data: {data(f'{client}.key')}\n"
    )
