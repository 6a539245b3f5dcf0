"""What an engine exports, as text: counters and histograms that a test can move."""

import math
from bisect import bisect_left

TTFT = "vllm:time_to_first_token_seconds"
TPOT = "vllm:request_time_per_output_token_seconds"
GAPS = "vllm:inter_token_latency_seconds"
PROMPTS = "vllm:request_prompt_tokens"
OUTPUTS = "vllm:request_generation_tokens"
STEPS = "vllm:iteration_tokens_total"
EDGES = {
    TTFT: (0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0),
    TPOT: (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
    GAPS: (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
    PROMPTS: (1.0, 10.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0),
    OUTPUTS: (1.0, 10.0, 100.0, 200.0, 500.0, 1000.0),
    STEPS: (1.0, 8.0, 64.0),
}


class Exported:
    """One engine's state. Everything is zero at first, as after a start."""

    def __init__(self) -> None:
        self.counts = {name: [0.0] * (len(edges) + 1) for name, edges in EDGES.items()}
        self.sums = dict.fromkeys(EDGES, 0.0)
        self.finished = self.prompt_tokens = self.output_tokens = 0.0
        self.running = self.waiting = self.kv = 0.0
        self.blocks: int | None = None  # of 16 tokens, of its KV cache; None: it does not tell

    def observe(self, name: str, value: float, times: float = 1.0) -> None:
        self.counts[name][bisect_left(EDGES[name], value)] += times
        self.sums[name] += value * times

    def prefill(self, requests: float, *, tokens: float, seconds: float) -> None:
        """Prompts finished on a prefill worker, each `seconds` after it came."""
        self.observe(TTFT, seconds, requests)
        self.observe(PROMPTS, tokens, requests)
        self.finished += requests
        self.prompt_tokens += tokens * requests

    def decode(self, requests: float, *, tokens: float, seconds_per_token: float, batch: float) -> None:
        """Answers finished on a decode worker."""
        self.observe(TTFT, 0.05, requests)
        self.observe(TPOT, seconds_per_token, requests)
        self.observe(GAPS, seconds_per_token, tokens * requests)
        self.observe(OUTPUTS, tokens, requests)
        self.observe(STEPS, batch, tokens * requests / batch)
        self.finished += requests
        self.output_tokens += tokens * requests

    def text(self) -> str:
        """Prometheus text with vLLM's labels."""
        at = 'engine="0",model_name="m"'
        lines = [
            f"vllm:num_requests_running{{{at}}} {self.running}",
            f"vllm:num_requests_waiting{{{at}}} {self.waiting}",
            f"vllm:kv_cache_usage_perc{{{at}}} {self.kv}",
            f"vllm:num_preemptions_total{{{at}}} 0.0",
            f'vllm:request_success_total{{{at},finished_reason="stop"}} {self.finished}',
            f"vllm:prompt_tokens_total{{{at}}} {self.prompt_tokens}",
            f"vllm:generation_tokens_total{{{at}}} {self.output_tokens}",
            f'vllm:prompt_tokens_by_source_total{{{at},source="local_compute"}} {self.prompt_tokens}',
        ]
        if self.blocks is not None:
            lines.append(
                f'vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="{self.blocks}"}} 1.0'
            )
        for name, counts in self.counts.items():
            running = 0.0
            for edge, count in zip((*EDGES[name], math.inf), counts, strict=True):
                running += count
                le = "+Inf" if math.isinf(edge) else repr(edge)
                lines.append(f'{name}_bucket{{{at},le="{le}"}} {running}')
            lines.append(f"{name}_sum{{{at}}} {self.sums[name]}")
            lines.append(f"{name}_count{{{at}}} {running}")
        return "\n".join(lines) + "\n"
