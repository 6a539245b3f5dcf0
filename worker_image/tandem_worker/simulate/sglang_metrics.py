"""SGLang's series by name, label and bucket (0.5.23: srt/observability/metrics_collector.py), of the same engine.

One thing is better here than there: SGLang's gauges of a decode batch are written every 40 steps only.
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from tandem_worker.gate.histogram import Histogram
from tandem_worker.simulate.metrics import (
    EXTERNAL_KV_TRANSFER,
    LOCAL_CACHE_HIT,
    LOCAL_COMPUTE,
    NIXL_BYTES,
    NIXL_SECONDS,
    EngineMetrics,
)

_DECADES = (
    0.1,
    0.2,
    0.4,
    0.6,
    0.8,
    1.0,
    2.0,
    4.0,
    6.0,
    8.0,
    10.0,
    20.0,
    40.0,
    60.0,
    80.0,
    100.0,
    200.0,
    400.0,
)
TIME_TO_FIRST_TOKEN = _DECADES
E2E_LATENCY = (*_DECADES, 600.0, 1200.0, 1800.0, 2400.0)
INTER_TOKEN_LATENCY = (
    0.002, 0.004, 0.006, 0.008, 0.010, 0.015, 0.020, 0.025, 0.030, 0.035, 0.040, 0.060, 0.080, 0.100, 0.200, 0.400,
    0.600, 0.800, 1.0, 2.0, 4.0, 6.0, 8.0,
)  # fmt: skip
QUEUE_TIME = (
    0.0, 0.001, 0.005, 0.010, 0.050, 0.100, 0.200, 0.500, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0,
    60.0, 70.0, 80.0, 90.0, *(100.0 * n for n in range(1, 11)), 1200.0, 1400.0, 1600.0, 1800.0, 2000.0, 2500.0, 3000.0,
)  # fmt: skip
TOKENS = (
    100.0, 300.0, 500.0, 700.0, 1000.0, 1500.0, *(1000.0 * n for n in range(2, 11)),
    *(2500.0 * n for n in range(5, 13)), 35e3, 40e3, 60e3, 80e3, 1e5, 2e5, 3e5, 4e5, 6e5, 8e5, 1e6, 1.1e6,
)  # fmt: skip
# What the simulated engine observes -> SGLang's name and edges.
_HISTOGRAMS = {
    "time_to_first_token_seconds": ("time_to_first_token_seconds", TIME_TO_FIRST_TOKEN),
    "inter_token_latency_seconds": ("inter_token_latency_seconds", INTER_TOKEN_LATENCY),
    "request_time_per_output_token_seconds": ("request_time_per_output_token_seconds", INTER_TOKEN_LATENCY),
    "e2e_request_latency_seconds": ("e2e_request_latency_seconds", E2E_LATENCY),
    "request_queue_time_seconds": ("queue_time_seconds", QUEUE_TIME),
    "request_prompt_tokens": ("prompt_tokens_histogram", TOKENS),
    "request_generation_tokens": ("generation_tokens_histogram", TOKENS),
}
# A prefill worker gives no user a token, so these are told by decode workers alone.
_OF_TOKENS = frozenset(
    {"time_to_first_token_seconds", "inter_token_latency_seconds", "request_time_per_output_token_seconds"}
)
_ENGINE_TYPE = {None: "unified", "prefill": "prefill", "decode": "decode"}


class SGLangMetrics(EngineMetrics):
    """The simulated engine's state under SGLang's names. `phase`: "prefill", "decode", or None for both."""

    def __init__(
        self, model_name: str, max_model_len: int, cache_config: dict[str, str], phase: str | None
    ) -> None:
        super().__init__(model_name, max_model_len, cache_config)
        self._phase = phase
        self._kv_tokens = float(cache_config["kv_cache_size_tokens"])
        self._model_labels = {"model_name": model_name, "engine_type": _ENGINE_TYPE[phase]}
        self._rank_labels = {**self._model_labels, "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}
        for name, (_, edges) in _HISTOGRAMS.items():
            self.histograms[name] = Histogram(edges)

    def with_kv_transfer(self) -> None:
        """Its transfers have no series that is looked at; what the engine observes of them is kept aside."""
        self.histograms["nixl_xfer_time_seconds"] = Histogram(NIXL_SECONDS)
        self.histograms["nixl_bytes_transferred"] = Histogram(NIXL_BYTES)

    def collect(self) -> Iterator[Metric]:
        gauges = self.gauges
        yield self._sample(GaugeMetricFamily, "num_running_reqs", gauges.running, self._rank_labels)
        yield self._sample(
            GaugeMetricFamily, "num_queue_reqs", gauges.waiting - gauges.deferred, self._rank_labels
        )
        yield self._sample(GaugeMetricFamily, "token_usage", gauges.kv_usage, self._rank_labels)
        yield self._sample(GaugeMetricFamily, "max_total_num_tokens", self._kv_tokens, self._rank_labels)
        if self._phase == "decode":
            yield self._sample(
                GaugeMetricFamily, "num_decode_prealloc_queue_reqs", gauges.unallocated, self._rank_labels
            )
            yield self._sample(
                GaugeMetricFamily, "num_decode_transfer_queue_reqs", gauges.deferred - gauges.unallocated,
                self._rank_labels,
            )  # fmt: skip
        yield self._sample(CounterMetricFamily, "num_retracted_requests", self.preemptions, self._rank_labels)
        tokens = self.prompt_tokens
        computed = CounterMetricFamily(
            "sglang:realtime_tokens", "Total number of tokens processed.", labels=[*self._rank_labels, "mode"]
        )
        for mode, value in (
            ("prefill_compute", tokens[LOCAL_COMPUTE]),
            ("prefill_cache", tokens[LOCAL_CACHE_HIT]),
            ("decode", self.generation_tokens),
        ):
            computed.add_metric([*self._rank_labels.values(), mode], value)
        yield computed
        streaming = {**self._model_labels, "is_streaming": "true"}
        prompts = sum(tokens[source] for source in (LOCAL_COMPUTE, LOCAL_CACHE_HIT, EXTERNAL_KV_TRANSFER))
        yield self._sample(CounterMetricFamily, "prompt_tokens", prompts, streaming)
        yield self._sample(CounterMetricFamily, "generation_tokens", self.generation_tokens, streaming)
        finished = self.finished["stop"] + self.finished["length"]
        yield self._sample(CounterMetricFamily, "num_requests", finished, streaming)
        yield self._sample(
            CounterMetricFamily, "num_aborted_requests", self.finished["abort"], self._model_labels
        )
        for name, (exported, _) in _HISTOGRAMS.items():
            if self._phase == "prefill" and name in _OF_TOKENS:
                continue
            yield self._exported(exported, self.histograms[name])
        lag = GaugeMetricFamily(
            "tandem:simulator_lag_seconds", "How far the last simulated step ran behind real time."
        )
        lag.add_metric([], self.lag_seconds)
        yield lag

    @staticmethod
    def _sample(
        kind: type[GaugeMetricFamily] | type[CounterMetricFamily],
        name: str,
        value: float,
        labels: dict[str, str],
    ) -> Metric:
        family = kind(f"sglang:{name}", name.replace("_", " "), labels=list(labels))
        family.add_metric(list(labels.values()), value)
        return family

    def _exported(self, name: str, histogram: Histogram) -> Metric:
        labels = self._rank_labels if name == "queue_time_seconds" else self._model_labels
        family = HistogramMetricFamily(f"sglang:{name}", name.replace("_", " "), labels=list(labels))
        buckets = [
            ("+Inf" if edge == float("inf") else str(edge), float(count))
            for edge, count in histogram.cumulative()
        ]
        family.add_metric(list(labels.values()), buckets, histogram.total)
        return family
