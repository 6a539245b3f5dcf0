"""The dashboard of one InferenceService: promises, replicas, decisions, GPU-hours."""

from helm.dashboards.grafana import (
    SOURCE,
    Json,
    Panel,
    Query,
    Row,
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
    """A quantile per role, from the gate's histogram, else from vLLM's."""
    parts = [
        f"histogram_quantile({quantile}, sum by (role, le) (rate({_of(f'{name}_bucket')}[$__rate_interval])))"
        for name in (gate, engine)
    ]
    return " or ".join(parts)


def _promise(promise: str, gate: str, engine: str) -> tuple[Panel, ...]:
    name = promise.upper()
    at = f'promise="{promise}"'
    return (
        Panel(
            "timeseries",
            f"{name} of users against the target",
            (
                Query(_latest("tandem_autoscaler_tail_seconds", "promise", at), "at slo.percentile"),
                Query(_latest("tandem_autoscaler_target_seconds", "promise", at), "target"),
            ),
            unit="s",
            dashed="target",
            about="As the autoscaler measures it over the last minute; prefill and decode together.",
        ),
        Panel(
            "timeseries",
            f"{name} per role",
            (
                Query(_tail(gate, engine, "0.95"), "p95 {{role}}"),
                Query(_tail(gate, engine, "0.5"), "p50 {{role}}"),
            ),
            unit="s",
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
            dashed="promised",
        ),
    )


def service_dashboard() -> Json:
    """One InferenceService: promises, replicas, decisions, GPU-hours."""
    rows = (
        Row(
            "Now",
            (
                stat("Ready", _latest("tandem_operator_service_ready", "service"), "bool_yes_no"),
                stat(
                    "TTFT within target, 1 h",
                    _of("role:tandem_attainment:ratio_rate1h", 'promise="ttft", role=~"prefill|workers"'),
                    "percentunit",
                ),
                stat(
                    "TPOT within target, 1 h",
                    _of("role:tandem_attainment:ratio_rate1h", 'promise="tpot", role=~"decode|workers"'),
                    "percentunit",
                ),
                stat(
                    "GPUs",
                    _latest("tandem_operator_gpus", "service"),
                    about="Starting, draining and terminating workers included.",
                ),
                stat("GPU budget", _latest("tandem_operator_gpu_budget", "service")),
                gpu_hours(_latest("tandem_operator_gpus", "service")),
            ),
        ),
        Row(
            "Time to first token (TTFT)",
            _promise("ttft", "tandem:ttft_seconds", "vllm:time_to_first_token_seconds"),
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
                    "Replicas",
                    (
                        Query(_latest("tandem_operator_workers", "role", 'state="ready"'), "{{role}} ready"),
                        Query(_latest("tandem_autoscaler_target_replicas", "role"), "{{role}} target"),
                        Query(_latest("tandem_autoscaler_needed_replicas", "role"), "{{role}} needed"),
                    ),
                    dashed="target|needed",
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
                ),
                Panel(
                    "timeseries",
                    "Reasons of the decisions",
                    (Query(_latest("tandem_autoscaler_decision", "role, reason"), "{{role}}: {{reason}}"),),
                    stacked=True,
                    about="Each is explained in docs/metrics.md; `kubectl tandem explain` gives the numbers.",
                ),
            ),
        ),
        Row(
            "Load",
            (
                Panel(
                    "timeseries",
                    "Requests in the engines",
                    (
                        Query(f"sum by (role) ({_of('vllm:num_requests_running')})", "{{role}} running"),
                        Query(f"sum by (role) ({_of('vllm:num_requests_waiting')})", "{{role}} waiting"),
                    ),
                ),
                Panel(
                    "timeseries",
                    "Tokens per second",
                    (
                        Query(per_second(_of("vllm:prompt_tokens_total"), "role"), "{{role}} prompt"),
                        Query(per_second(_of("vllm:generation_tokens_total"), "role"), "{{role}} output"),
                    ),
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
                ),
            ),
        ),
    )
    decided = {
        "name": "Decisions",
        "enable": True,
        "iconColor": "blue",
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
