"""Which exported metric means what, newest name first. The first one present wins; they are never added up.

vLLM renames and removes metrics between releases (vllm#32661, #27133): an autoscaler that knows one name reads
nothing after an upgrade. New aliases go here and nowhere else. An engine of another kind is one more alias: SGLang's
names are those of 0.5.23 (`srt/observability/metrics_collector.py`), its router's those of sglang-router 0.3.2.
"""

from typing import Final

# --- histograms -------------------------------------------------------------------------------------------
HISTOGRAMS: Final[dict[str, tuple[str, ...]]] = {
    # From request received to first content, with an edge exactly on the target (our gate).
    "gate_ttft": ("tandem:ttft_seconds",),
    "gate_tpot": ("tandem:tpot_seconds",),
    # Observed with the first token, each request once and where its prompt was computed; two edges per octave.
    "gate_prompt_tokens": ("tandem:prompt_tokens",),
    # SGLang's prefill workers have none of the three that follow: its decode workers see the request from its arrival.
    "ttft": ("vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"),
    # Per token and request. `time_per_output_token_seconds` meant the same until vLLM 0.11.
    "tpot": (
        "vllm:request_time_per_output_token_seconds", "vllm:time_per_output_token_seconds",
        "sglang:request_time_per_output_token_seconds",
    ),
    # Per output event, which holds several tokens under speculative decoding (vllm#52853).
    "inter_token": ("vllm:inter_token_latency_seconds", "sglang:inter_token_latency_seconds"),
    "queue": ("vllm:request_queue_time_seconds", "sglang:queue_time_seconds"),
    "prefill": ("vllm:request_prefill_time_seconds",),
    "prompt_tokens": ("vllm:request_prompt_tokens", "sglang:prompt_tokens_histogram"),
    "output_tokens": ("vllm:request_generation_tokens", "sglang:generation_tokens_histogram"),
    # Its count is the number of engine steps.
    "step_tokens": ("vllm:iteration_tokens_total",),
}  # fmt: skip

# --- counters: summed over the label sets of a pod ----------------------------------------------------------
COUNTERS: Final[dict[str, tuple[str, ...]]] = {
    "prompt_tokens_total": ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total"),
    "output_tokens_total": ("vllm:generation_tokens_total", "sglang:generation_tokens_total"),
    "finished_total": ("vllm:request_success_total", "sglang:num_requests_total"),
    "preemptions_total": ("vllm:num_preemptions_total", "sglang:num_retracted_requests_total"),
    "gate_requests_total": ("tandem:requests_total",),
    # Time with at least one prompt inside the engine that has no first token yet.
    "gate_prefill_busy_seconds_total": ("tandem:prefill_busy_seconds_total",),
    # The router counts a P/D request when the decode worker begins to answer, so this is no arrival count.
    "router_requests_total": (
        "vllm_router_pd_requests_total",
        "vllm_router_requests_total",
        "smg_router_requests_total",
    ),
}

# Counters of which only some label values count: signal -> (name, label, value), newest first.
LABELLED_COUNTERS: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "prompt_tokens_computed_total": (
        ("vllm:prompt_tokens_by_source_total", "source", "local_compute"),
        ("sglang:realtime_tokens_total", "mode", "prefill_compute"),
    ),
    "prompt_tokens_received_total": (
        ("vllm:prompt_tokens_by_source_total", "source", "external_kv_transfer"),
    ),
    # Demand that met an empty pool: what scaling from zero needs.
    "router_unserved_total": (
        ("vllm_router_pd_errors_total", "error_type", "server_selection"),
        ("smg_http_responses_total", "error_code", "server_selection_failed"),
    ),
}

# Gauges of which only some label values count. A request that waits for its KV transfer is "deferred": on a decode
# worker that says nothing about room.
LABELLED_GAUGES: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "waiting_for_room": (("vllm:num_requests_waiting_by_reason", "reason", "capacity"),),
}
LABELLED: Final = {**LABELLED_COUNTERS, **LABELLED_GAUGES}

# --- gauges -----------------------------------------------------------------------------------------------
GAUGES: Final[dict[str, tuple[str, ...]]] = {
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs"),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs"),
    "gate_in_flight": ("tandem:requests_in_flight",),
    "router_running": ("vllm_router_running_requests",),
    # Tokens in the KV cache. vLLM tells them as a share of CAPACITY.
    "kv_tokens": ("sglang:num_used_tokens",),
}
# Ratios are averaged over the engines of a pod, everything else is summed.
RATIOS: Final[dict[str, tuple[str, ...]]] = {
    "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
}

# Metric -> the labels whose product is the size of an engine's KV cache in tokens; those of a pod's engines add up.
CAPACITY: Final[dict[str, tuple[str, str]]] = {"vllm:cache_config_info": ("num_gpu_blocks", "block_size")}


def all_names() -> frozenset[str]:
    """Every metric name that is read, without the suffixes of histograms."""
    tables = (HISTOGRAMS, COUNTERS, GAUGES, RATIOS)
    plain = {name for table in tables for aliases in table.values() for name in aliases}
    return frozenset(plain | labelled_names())


def labelled_names() -> frozenset[str]:
    """Every metric whose labels are looked at: only some values of them count, or they are what is told."""
    return frozenset(name for series in LABELLED.values() for name, _, _ in series) | CAPACITY.keys()
