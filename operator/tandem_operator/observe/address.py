"""Where a pod serves HTTP."""


def base_url(ip: str, port: int) -> str:
    """Of a pod with this address, which may be IPv6."""
    host = f"[{ip}]" if ":" in ip else ip
    return f"http://{host}:{port}"
