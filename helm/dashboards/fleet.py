"""The dashboard of the fleet: all services, and how operator and autoscaler do."""

from helm.dashboards.grafana import Json, Panel, Query, Row, dashboard, gpu_hours, per_second, stat


def fleet_dashboard() -> Json:
    """All services, and how operator and autoscaler do."""
    of_service = "namespace, service"
    gpus = "sum(max by (namespace, service) (tandem_operator_gpus))"
    budget = "sum(max by (namespace, service) (tandem_operator_gpu_budget))"
    pair = "{{namespace}}/{{service}}"
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
                ),
                stat(
                    "Missing a promise",
                    f"count(max by ({of_service}) (tandem_autoscaler_slo_met) == 0) or vector(0)",
                ),
                stat("GPUs", gpus),
                stat("GPU budgets", budget, about="Of the services that have one."),
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
                ),
                Panel(
                    "timeseries",
                    "GPUs",
                    (Query(f"max by ({of_service}) (tandem_operator_gpus)", pair),),
                    stacked=True,
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
                    stacked=True,
                ),
                Panel(
                    "timeseries",
                    "Output tokens per second",
                    (Query(per_second("vllm:generation_tokens_total", "namespace, service"), pair),),
                    stacked=True,
                ),
                Panel(
                    "table",
                    "Why each role has its size",
                    (
                        Query(
                            "max by (namespace, service, role, reason) (tandem_autoscaler_decision)",
                            instant=True,
                        ),
                    ),
                    unit="none",
                ),
            ),
        ),
        Row(
            "Operator",
            (
                Panel(
                    "timeseries",
                    "Duration of a pass",
                    tuple(
                        Query(
                            f"histogram_quantile({q}, {per_second('tandem_operator_reconcile_seconds_bucket', 'le')})",
                            name,
                        )
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
                    "timeseries", "Queue", (Query("max(tandem_operator_queue_depth)", "services"),), width=6
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
                    width=6,
                    stacked=True,
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
                ),
                Panel(
                    "timeseries",
                    "Pods that do not answer",
                    (Query(f"max by ({of_service}) (tandem_autoscaler_silent_pods) > 0", pair),),
                    width=6,
                    stacked=True,
                ),
                Panel(
                    "timeseries",
                    "Leaders",
                    (
                        Query("sum(tandem_operator_leader)", "operator"),
                        Query("sum(tandem_autoscaler_leader)", "autoscaler"),
                    ),
                    width=6,
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
