"""`down` takes the cluster's iptables chains away and nothing else."""

from e2e.cluster.network import removal_script

SAVED = """*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:KUBE-FORWARD - [0:0]
:TANDEM-GUARD - [0:0]
:SOMEONE-ELSE - [0:0]
-A INPUT -s 198.51.100.7/32 -j DROP
-A FORWARD -j TANDEM-GUARD
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -j SOMEONE-ELSE
-A KUBE-FORWARD -j ACCEPT
-A TANDEM-GUARD -s 10.88.0.0/16 -j REJECT
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
-A PREROUTING -p tcp -j DNAT --to-destination 127.0.0.1:80
COMMIT
"""


def test_jumps_into_the_clusters_chains_and_the_chains_are_removed() -> None:
    lines = removal_script(SAVED).splitlines()
    assert "-D FORWARD -j TANDEM-GUARD" in lines
    assert '-D FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD' in lines
    assert {"-X KUBE-FORWARD", "-X TANDEM-GUARD"} <= set(lines)


def test_a_chain_is_emptied_before_any_chain_is_deleted() -> None:
    lines = removal_script(SAVED).splitlines()
    last_flush = max(i for i, line in enumerate(lines) if line.startswith("-F"))
    first_delete = min(i for i, line in enumerate(lines) if line.startswith("-X"))
    assert last_flush < first_delete


def test_rules_of_others_are_not_named() -> None:
    script = removal_script(SAVED)
    assert "SOMEONE-ELSE" not in script
    assert "198.51.100.7" not in script
    assert "*nat" not in script


def test_a_machine_without_the_cluster_needs_no_change() -> None:
    assert removal_script("*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n") == ""
