"""`kubectl tandem diagnose`: what a live service is bound by, and what would help most.

command.py       the flags, and the steps
watch.py         a while of the service through the API server, as the autoscaler sees it
proxy.py         the pods' metrics through the API server's proxy
from_status.py   the same facts from the status alone, where the pods cannot be read
apply.py         the advised chunks written into the service, when asked
report.py        for people;  document.py: for programs

What the facts mean is decided in `tandem_autoscaler.diagnose`.
"""
