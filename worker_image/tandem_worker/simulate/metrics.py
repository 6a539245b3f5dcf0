"""vLLM's series by name, label and bucket (0.32: v1/metrics/loggers.py, buckets.py; the NIXL connector's stats.py)."""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tandem_worker.gate.histogram import Histogram

REQUEST_LATENCY = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip
TIME_TO_FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
INTER_TOKEN_LATENCY = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
ITERATION_TOKENS = (1.0, 8.0, *(float(2**n) for n in range(4, 15)))
NUM_PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
NIXL_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)
NIXL_BYTES = tuple(float(2 ** (10 + n)) for n in range(1, 25, 2))

FINISHED_REASONS = ("stop", "length", "abort", "error", "repetition")
LOCAL_COMPUTE, LOCAL_CACHE_HIT, EXTERNAL_KV_TRANSFER = (
    "local_compute",
    "local_cache_hit",
    "external_kv_transfer",
)
SOURCES = (LOCAL_COMPUTE, LOCAL_CACHE_HIT, EXTERNAL_KV_TRANSFER)


def request_tokens(max_model_len: int) -> tuple[float, ...]:
    """1, 2, 5, 10, ... up to the longest sequence."""
    edges: list[float] = []
    power = 1
    while True:
        for mantissa in (1, 2, 5):
            if mantissa * power > max_model_len:
                return tuple(edges)
            edges.append(float(mantissa * power))
        power *= 10


@dataclass
class Gauges:
    """State of the engine now."""

    running: int = 0
    waiting: int = 0
    deferred: int = 0  # of the waiting: those whose KV is on its way
    unallocated: int = 0  # of the deferred: those that no blocks have been set apart for yet
    kv_usage: float = 0.0


class EngineMetrics(Collector):
    """All series of one engine. Observing costs one bisect: a step observes hundreds of values."""

    def __init__(self, model_name: str, max_model_len: int, cache_config: dict[str, str]) -> None:
        self._labels = {"model_name": model_name, "engine": "0"}
        self._cache_config = {**cache_config, "engine": "0"}
        self.gauges = Gauges()
        tokens = request_tokens(max_model_len)
        self._texts: dict[str, str] = {}
        self.histograms: dict[str, Histogram] = {}
        for name, edges, text in (
            ("time_to_first_token_seconds", TIME_TO_FIRST_TOKEN, "Time to first token in seconds."),
            ("inter_token_latency_seconds", INTER_TOKEN_LATENCY, "Inter-token latency in seconds."),
            (
                "request_time_per_output_token_seconds",
                INTER_TOKEN_LATENCY,
                "Time per output token, per request.",
            ),
            ("e2e_request_latency_seconds", REQUEST_LATENCY, "End-to-end request latency in seconds."),
            ("request_queue_time_seconds", REQUEST_LATENCY, "Time spent in the WAITING phase."),
            ("request_inference_time_seconds", REQUEST_LATENCY, "Time spent in the RUNNING phase."),
            ("request_prefill_time_seconds", REQUEST_LATENCY, "Time spent in the PREFILL phase."),
            ("request_decode_time_seconds", REQUEST_LATENCY, "Time spent in the DECODE phase."),
            ("request_prompt_tokens", tokens, "Number of prefill tokens processed."),
            ("request_generation_tokens", tokens, "Number of generation tokens processed."),
            ("request_params_max_tokens", tokens, "The max_tokens request parameter."),
            ("request_num_preemptions", NUM_PREEMPTIONS, "How often a request was preempted."),
            ("iteration_tokens_total", ITERATION_TOKENS, "Tokens per engine step."),
        ):
            self._add(name, edges, text)
        self.prompt_tokens = dict.fromkeys(SOURCES, 0)
        self.generation_tokens = 0
        self.preemptions = 0
        self.finished = dict.fromkeys(FINISHED_REASONS, 0)
        self.rejected_for_queue = 0
        self.lag_seconds = 0.0

    def with_kv_transfer(self) -> None:
        """The series of the NIXL connector, which only an engine that has one shows."""
        self._add("nixl_xfer_time_seconds", NIXL_SECONDS, "Transfer duration of NIXL KV cache transfers.")
        self._add("nixl_bytes_transferred", NIXL_BYTES, "Bytes per NIXL KV cache transfer.")

    def _add(self, name: str, edges: tuple[float, ...], text: str) -> None:
        self.histograms[name] = Histogram(edges)
        self._texts[name] = text

    def observe(self, name: str, value: float) -> None:
        self.histograms[name].observe(value)

    def collect(self) -> Iterator[Metric]:
        gauges = self.gauges
        yield self._gauge(
            "num_requests_running", "Number of requests in model execution batches.", gauges.running
        )
        yield self._gauge(
            "num_requests_waiting", "Number of requests waiting to be processed.", gauges.waiting
        )
        by_reason = {"capacity": gauges.waiting - gauges.deferred, "deferred": gauges.deferred}
        yield self._by_label(
            GaugeMetricFamily,
            "num_requests_waiting_by_reason",
            "Waiting requests by reason.",
            "reason",
            by_reason,
        )
        yield self._gauge(
            "kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", gauges.kv_usage
        )
        yield self._counter(
            "num_preemptions", "Cumulative number of preemption from the engine.", self.preemptions
        )
        yield self._counter(
            "prompt_tokens", "Number of prefill tokens processed.", sum(self.prompt_tokens.values())
        )
        yield self._by_label(
            CounterMetricFamily,
            "prompt_tokens_by_source",
            "Prompt tokens by source.",
            "source",
            self.prompt_tokens,
        )
        yield self._counter(
            "generation_tokens", "Number of generation tokens processed.", self.generation_tokens
        )
        yield self._by_label(
            CounterMetricFamily,
            "request_success",
            "Requests that have ended.",
            "finished_reason",
            self.finished,
        )
        rejections = CounterMetricFamily(
            "vllm:admission_rejections",
            "Attempts rejected by a queue limit.",
            labels=["model_name", "reason"],
        )
        rejections.add_metric([self._labels["model_name"], "max_num_queued_reqs"], self.rejected_for_queue)
        yield rejections
        for name, histogram in self.histograms.items():
            yield self._histogram(name, self._texts[name], histogram)
        info = GaugeMetricFamily(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            labels=list(self._cache_config),
        )
        info.add_metric(list(self._cache_config.values()), 1)
        yield info
        lag = GaugeMetricFamily(
            "tandem:simulator_lag_seconds", "How far the last simulated step ran behind real time."
        )
        lag.add_metric([], self.lag_seconds)
        yield lag

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _by_label(
        self,
        kind: type[GaugeMetricFamily] | type[CounterMetricFamily],
        name: str,
        text: str,
        label: str,
        values: dict[str, int],
    ) -> Metric:
        family = kind(f"vllm:{name}", text, labels=[*self._labels, label])
        for value_of_label, value in values.items():
            family.add_metric([*self._labels.values(), value_of_label], value)
        return family

    def _histogram(self, name: str, text: str, histogram: Histogram) -> Metric:
        family = HistogramMetricFamily(f"vllm:{name}", text, labels=list(self._labels))
        buckets = [
            ("+Inf" if edge == float("inf") else str(edge), float(n)) for edge, n in histogram.cumulative()
        ]
        family.add_metric(list(self._labels.values()), buckets, histogram.total)
        return family
