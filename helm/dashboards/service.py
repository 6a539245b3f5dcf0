"""The dashboard of one InferenceService: promises, replicas, decisions, GPU-hours."""

from helm.dashboards.grafana import (
    BAD,
    GOOD,
    GREY,
    REASONS,
    SOURCE,
    WARN,
    Json,
    Panel,
    Query,
    Row,
    by_role,
    dashboard,
    gpu_hours,
    per_second,
    stat,
    variable,
)

_ONE = 'namespace="$namespace", service="$service"'


def _of(metric: str, more: str = "") -> str:
    return f"{metric}{{{_ONE}{', ' if more else ''}{more}}}"


def _latest(metric: str, by: str, more: str = "") -> str:
    """Standbys and restarts leave several series of one fact; the leader's is the largest."""
    return f"max by ({by}) ({_of(metric, more)})"


def _tail(gate: str, engine: str, quantile: str) -> str:
    """A quantile per role, from the gate's histogram, else from vLLM's; of roles that have any."""
    parts = [
        f"histogram_quantile({quantile}, sum by (role, le) (rate({_of(f'{name}_bucket')}[$__rate_interval]))) >= 0"
        for name in (gate, engine)
    ]
    return " or ".join(parts)


def _allowance_used(promise: str, roles: str) -> Panel:
    name = promise.upper()
    attained = _of("role:tandem_attainment:ratio_rate1h", f'promise="{promise}", role=~"{roles}"')
    return stat(
        f"{name}: allowance used, 1 h",
        f"clamp_min(1 - {attained}, 0) / on (namespace, service) group_left () {_of('service:tandem_allowance:ratio')}",
        "percentunit",
        f"Late requests of the last hour over those that slo.percentile allows: above 100 % slo.{promise} is broken.",
        thresholds=((0, GOOD), (0.8, WARN), (1, BAD)),
        none="no traffic",
    )


def _promise(promise: str, gate: str, engine: str, *, logarithmic: bool = False) -> tuple[Panel, ...]:
    name = promise.upper()
    at = f'promise="{promise}"'
    return (
        Panel(
            "timeseries",
            f"{name} of users against the target",
            (
                Query(_latest("tandem_autoscaler_tail_seconds", "promise", at), "users, at slo.percentile"),
                Query(_latest("tandem_autoscaler_target_seconds", "promise", at), "target"),
            ),
            unit="s",
            logarithmic=logarithmic,
            dashed="target",
            colours=(("/users/", GOOD), ("target", BAD)),
            about="As the autoscaler measures it over the last minute; prefill and decode together.",
        ),
        Panel(
            "timeseries",
            f"{name} per role",
            (
                Query(_tail(gate, engine, "0.95"), "p95 {{role}}"),
                Query(_tail(gate, engine, "0.5"), "p50 {{role}}"),
                Query(_latest("tandem_autoscaler_target_seconds", "promise", at), "target"),
            ),
            unit="s",
            logarithmic=logarithmic,
            dashed="target",
            colours=(*by_role(darker="p50"), ("target", BAD)),
        ),
        Panel(
            "timeseries",
            f"{name} within the target",
            (
                Query(_of("role:tandem_attainment:ratio_rate5m", at), "5 min {{role}}"),
                Query(_of("role:tandem_attainment:ratio_rate1h", at), "1 h {{role}}"),
                Query(f"1 - {_of('service:tandem_allowance:ratio')}", "promised"),
            ),
            unit="percentunit",
            maximum=1,
            soft_minimum=0.8,
            dashed="promised",
            colours=(*by_role(darker="1 h"), ("promised", BAD)),
        ),
    )


def _reasons() -> Panel:
    """One band per role, in the colour of its present reason."""
    metric = "tandem_autoscaler_decision"
    return Panel(
        "timeseries",
        "Reasons of the decisions",
        (
            Query(_latest(metric, "role, reason", 'role!="prefill"'), "{{role}}: {{reason}}"),
            Query(_latest(metric, "role, reason", 'role="prefill"'), "{{role}}: {{reason}}"),
        ),
        width=24,
        height=7,
        stacked=True,
        steps=True,
        bands=True,
        legend_right=320,
        unit="none",
        colours=REASONS,
        about="One band per role, prefill above. Green: enough or too many workers. Blue: more are needed. Orange: the "
        "promise is in danger. Red: a limit binds. `kubectl tandem explain` gives the numbers.",
    )


def service_dashboard() -> Json:
    """One InferenceService: promises, replicas, decisions, GPU-hours."""
    rows = (
        Row(
            "Now",
            (
                stat(
                    "Ready",
                    _latest("tandem_operator_service_ready", "service"),
                    "bool_yes_no",
                    thresholds=((0, BAD), (1, GOOD)),
                ),
                _allowance_used("ttft", "prefill|workers"),
                _allowance_used("tpot", "decode|workers"),
                stat(
                    "GPUs",
                    _latest("tandem_operator_gpus", "service"),
                    about="Starting, draining and terminating workers included.",
                ),
                stat("GPU budget", _latest("tandem_operator_gpu_budget", "service"), none="none"),
                gpu_hours(_latest("tandem_operator_gpus", "service")),
            ),
        ),
        Row(
            "Time to first token (TTFT)",
            # A queue makes it a thousand times as long as an idle worker.
            _promise("ttft", "tandem:ttft_seconds", "vllm:time_to_first_token_seconds", logarithmic=True),
        ),
        Row(
            "Time per output token (TPOT)",
            _promise("tpot", "tandem:tpot_seconds", "vllm:request_time_per_output_token_seconds"),
        ),
        Row(
            "Replicas and decisions",
            (
                Panel(
                    "timeseries",
                    "Workers that serve, and the target",
                    (
                        Query(_latest("tandem_operator_workers", "role", 'state="ready"'), "{{role}} ready"),
                        Query(_latest("tandem_autoscaler_target_replicas", "role"), "{{role}} target"),
                    ),
                    steps=True,
                    dashed="/target/",
                    colours=by_role(darker="target"),
                ),
                Panel(
                    "timeseries",
                    "Workers needed, and the limit",
                    (
                        Query(_latest("tandem_autoscaler_needed_replicas", "role"), "{{role}} needed"),
                        Query(_latest("tandem_autoscaler_max_replicas", "role"), "{{role}} maxReplicas"),
                    ),
                    steps=True,
                    dashed="/maxReplicas/",
                    colours=by_role(darker="maxReplicas"),
                    about="needed: by the model, before limits and confirmation.",
                ),
                Panel(
                    "timeseries",
                    "Starting and draining",
                    (
                        Query(
                            _latest("tandem_operator_workers", "role, state", 'state!="ready"'),
                            "{{role}} {{state}}",
                        ),
                    ),
                    stacked=True,
                    steps=True,
                    colours=by_role(darker="draining"),
                ),
                _reasons(),
            ),
        ),
        Row(
            "Load",
            (
                Panel(
                    "timeseries",
                    "Requests in the engines",
                    (
                        Query(f"sum by (role) ({_of('vllm:num_requests_waiting')})", "{{role}} waiting"),
                        Query(f"sum by (role) ({_of('vllm:num_requests_running')})", "{{role}} running"),
                    ),
                    colours=by_role(darker="running"),
                ),
                Panel(
                    "timeseries",
                    "Tokens per second",
                    (
                        Query(per_second(_of("vllm:prompt_tokens_total"), "role"), "{{role}} prompt"),
                        Query(per_second(_of("vllm:generation_tokens_total"), "role"), "{{role}} output"),
                    ),
                    colours=by_role(darker="output"),
                ),
                Panel(
                    "timeseries",
                    "KV cache in use",
                    (
                        Query(
                            f"max by (role) ({_of('vllm:kv_cache_usage_perc')})", "{{role}}, fullest worker"
                        ),
                    ),
                    unit="percentunit",
                    maximum=1,
                    colours=by_role(),
                ),
            ),
        ),
    )
    decided = {
        "name": "Decisions",
        "enable": True,
        "iconColor": GREY,
        "datasource": SOURCE,
        "expr": f"changes({_of('tandem_autoscaler_target_replicas')}[1m]) > 0",
        "step": "1m",
        "titleFormat": "{{role}} is scaled",
        "textFormat": "{{namespace}}/{{service}}",
        "tagKeys": "role",
    }
    return dashboard(
        "tandem-service",
        "Tandem / service",
        "TTFT, TPOT, replicas and decisions of one InferenceService.",
        [
            variable("namespace", "tandem_operator_service_ready"),
            variable("service", "tandem_operator_service_ready", '{namespace="$namespace"}'),
        ],
        rows,
        annotations={"list": [decided]},
    )
