"""The dashboard of the fleet: all services, and how operator and autoscaler do."""

from helm.dashboards.grafana import (
    BAD,
    GOOD,
    GREY,
    REASONS,
    Json,
    Panel,
    Query,
    Row,
    by_role,
    dashboard,
    gpu_hours,
    per_second,
    stat,
)


def _sizes() -> Panel:
    """A row for each role of each service: its target, what it needs, and why the target is what it is."""
    of_role = "namespace, service, role"
    columns = ("namespace", "service", "role", "target", "needed", "reason")
    shown = {"Value #B": "target", "Value #C": "needed"}
    return Panel(
        "table",
        "Why each role has its size",
        (
            Query(f"max by ({of_role}, reason) (tandem_autoscaler_decision)", instant=True),
            Query(f"max by ({of_role}) (tandem_autoscaler_target_replicas)", instant=True),
            Query(f"max by ({of_role}) (tandem_autoscaler_needed_replicas)", instant=True),
        ),
        unit="none",
        width=12,
        height=10,
        about="`kubectl tandem explain` gives a decision's numbers.",
        transformations=(
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    # The time of the reading is noise, and so is a value that is always 1.
                    "excludeByName": {"Time": True, "Value #A": True},
                    "renameByName": shown,
                    "indexByName": {
                        next((name for name, title in shown.items() if title == column), column): at
                        for at, column in enumerate(columns)
                    },
                },
            },
        ),
        sorted_by=("namespace", "service", "role"),
        overrides=(
            *(
                {
                    "matcher": {"id": "byName", "options": name},
                    "properties": [{"id": "custom.width", "value": pixels}],
                }
                for name, pixels in (
                    ("namespace", 120),
                    ("service", 120),
                    ("role", 90),
                    ("target", 80),
                    ("needed", 80),
                )
            ),
            {
                "matcher": {"id": "byName", "options": "reason"},
                "properties": [
                    {"id": "custom.cellOptions", "value": {"type": "color-text"}},
                    {
                        "id": "mappings",
                        "value": [
                            {"type": "regex", "options": {"pattern": name, "result": {"color": colour}}}
                            # The first that fits counts, of colours the last.
                            for name, colour in reversed(REASONS)
                        ],
                    },
                ],
            },
        ),
    )


def fleet_dashboard() -> Json:
    """All services, and how operator and autoscaler do."""
    of_service = "namespace, service"
    gpus = "sum(max by (namespace, service) (tandem_operator_gpus))"
    budget = "sum(max by (namespace, service) (tandem_operator_gpu_budget))"
    pair = "{{namespace}}/{{service}}"
    # Longer than elsewhere: a fleet at rest has few passes.
    passes = "sum by (le) (rate(tandem_operator_reconcile_seconds_bucket[5m]))"
    tick = "tandem_autoscaler_tick_seconds"
    mean_tick = f"{per_second(f'{tick}_sum')} / {per_second(f'{tick}_count')}"
    rows = (
        Row(
            "Now",
            (
                stat("Services", f"count(max by ({of_service}) (tandem_operator_service_ready))"),
                stat(
                    "Not ready",
                    f"count(max by ({of_service}) (tandem_operator_service_ready) == 0) or vector(0)",
                    thresholds=((0, GOOD), (1, BAD)),
                ),
                stat(
                    "Missing a promise",
                    f"count(max by ({of_service}) (tandem_autoscaler_slo_met) == 0) or vector(0)",
                    thresholds=((0, GOOD), (1, BAD)),
                ),
                stat("GPUs", gpus),
                stat("GPU budgets", budget, about="Of the services that have one.", none="none"),
                gpu_hours(gpus),
            ),
        ),
        Row(
            "Services",
            (
                Panel(
                    "timeseries",
                    "TTFT within the target, 5 min",
                    (
                        Query(
                            'role:tandem_attainment:ratio_rate5m{promise="ttft", role=~"prefill|workers"}',
                            pair,
                        ),
                    ),
                    unit="percentunit",
                    maximum=1,
                    soft_minimum=0.8,
                ),
                Panel(
                    "timeseries",
                    "TPOT within the target, 5 min",
                    (
                        Query(
                            'role:tandem_attainment:ratio_rate5m{promise="tpot", role=~"decode|workers"}',
                            pair,
                        ),
                    ),
                    unit="percentunit",
                    maximum=1,
                    soft_minimum=0.8,
                ),
                Panel(
                    "timeseries",
                    "GPUs",
                    (
                        Query(f"max by ({of_service}) (tandem_operator_gpus)", pair),
                        Query("max(tandem_autoscaler_gpu_budget)", "budget of all"),
                    ),
                    stacked=True,
                    steps=True,
                    dashed="budget of all",
                    colours=(("budget of all", BAD),),
                ),
                Panel(
                    "timeseries",
                    "Workers by role and state",
                    (
                        Query(
                            "sum by (role, state) (max by (namespace, service, role, state) (tandem_operator_workers))",
                            "{{role}} {{state}}",
                        ),
                    ),
                    width=6,
                    height=10,
                    stacked=True,
                    steps=True,
                    colours=(*by_role(), ("/starting/", "light-green"), ("/draining/", GREY)),
                ),
                Panel(
                    "timeseries",
                    "Output tokens per second",
                    (Query(per_second("vllm:generation_tokens_total", "namespace, service"), pair),),
                    width=6,
                    height=10,
                    stacked=True,
                ),
                _sizes(),
            ),
        ),
        Row(
            "Operator",
            (
                Panel(
                    "timeseries",
                    "Duration of a pass, 5 min",
                    tuple(
                        Query(f"histogram_quantile({q}, {passes})", name)
                        for q, name in ((0.5, "p50"), (0.99, "p99"))
                    ),
                    unit="s",
                    width=6,
                ),
                Panel(
                    "timeseries",
                    "Passes per second",
                    (Query(per_second("tandem_operator_reconciles_total", "outcome"), "{{outcome}}"),),
                    width=6,
                    stacked=True,
                ),
                Panel(
                    "timeseries",
                    "Queue",
                    (Query("max(tandem_operator_queue_depth)", "services"),),
                    width=4,
                    steps=True,
                    soft_maximum=1,
                ),
                Panel(
                    "timeseries",
                    "Writes per second",
                    (
                        Query(
                            per_second("tandem_operator_writes_total", "verb, resource"),
                            "{{verb}} {{resource}}",
                        ),
                    ),
                    stacked=True,
                    legend_right=210,
                ),
            ),
        ),
        Row(
            "Autoscaler",
            (
                Panel(
                    "timeseries",
                    "Duration of a tick, mean",
                    (Query(mean_tick, "seconds"),),
                    unit="s",
                    width=6,
                ),
                Panel(
                    "timeseries",
                    "Failures per second",
                    tuple(
                        Query(per_second(f"tandem_autoscaler_{name}_total"), name.replace("_", " "))
                        for name in ("failed_ticks", "failed_services", "write_errors")
                    ),
                    width=6,
                    soft_maximum=0.1,
                ),
                Panel(
                    "timeseries",
                    "Pods that do not answer",
                    (Query(f"max by ({of_service}) (tandem_autoscaler_silent_pods)", pair),),
                    width=6,
                    stacked=True,
                    steps=True,
                    soft_maximum=1,
                ),
                Panel(
                    "timeseries",
                    "Leaders",
                    (
                        Query("sum(tandem_operator_leader)", "operator"),
                        Query("sum(tandem_autoscaler_leader)", "autoscaler"),
                    ),
                    width=6,
                    steps=True,
                    soft_maximum=2,
                    about="One each, or nobody decides; two would be two writers.",
                ),
            ),
        ),
    )
    return dashboard(
        "tandem-fleet",
        "Tandem / fleet",
        "All InferenceServices, and the state of operator and autoscaler.",
        [],
        rows,
    )
