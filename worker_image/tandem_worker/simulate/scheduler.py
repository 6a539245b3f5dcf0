"""Continuous batching with chunked prefill, as vLLM V1 does it. Pure: no clock, no I/O.

Each step gives every running sequence its tokens first, in order of arrival (one each when decoding, a
chunk when still prefilling), then lets waiting ones in while the token budget, the number of sequences and
the KV blocks last. A running sequence for which no block is left takes the blocks of the last one, which
starts over (recompute).
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from tandem_worker.simulate.profile import Profile


class Phase(StrEnum):
    """Where a sequence is."""

    WAITING = "waiting"
    TRANSFERRING = "transferring"  # its KV comes from another engine
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True)
class Limits:
    """The flags that shape a step; all in tokens or sequences."""

    max_batched_tokens: int
    max_sequences: int
    kv_blocks: int
    block_tokens: int = 16
    long_prefill_threshold: int = 0  # 0: none
    chunked_prefill: bool = True


@dataclass(eq=False)
class Sequence:
    """One request inside the engine. Times are monotonic seconds, None until they have come."""

    prompt_tokens: int
    output_tokens: int  # how many it will generate
    arrived_seconds: float
    computed_tokens: int = 0  # tokens whose KV is in the cache
    generated_tokens: int = 0
    external_tokens: int = 0  # of the prompt, by KV transfer
    blocks: int = 0
    preemptions: int = 0
    phase: Phase = Phase.WAITING
    queued_seconds: float | None = None
    scheduled_seconds: float | None = None
    first_token_seconds: float | None = None
    last_token_seconds: float | None = None

    @property
    def known_tokens(self) -> int:
        """Prompt and output so far; what must be in the cache before the next token can come."""
        return self.prompt_tokens + self.generated_tokens

    @property
    def missing_tokens(self) -> int:
        return self.known_tokens - self.computed_tokens


@dataclass(frozen=True)
class Step:
    """What one step computes, and how long it takes."""

    work: tuple[tuple[Sequence, int], ...]  # sequence, tokens
    seconds: float
    prefill_tokens: int
    preempted: int = 0


@dataclass
class Scheduler:
    """Queue, batch and KV blocks of one engine."""

    profile: Profile
    limits: Limits
    waiting: deque[Sequence] = field(default_factory=deque)
    running: list[Sequence] = field(default_factory=list)
    transferring: set[Sequence] = field(default_factory=set)
    blocks_used: int = 0
    preemptions: int = 0

    # --- in and out ---------------------------------------------------------------------------------------
    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def fits_at_all(self, tokens: int) -> bool:
        """Whether a sequence of that length can ever be held."""
        return self._blocks_for(tokens) <= self.limits.kv_blocks

    def begin_transfer(self, sequence: Sequence) -> bool:
        """Set blocks apart for a prompt whose KV is to come; False when there are not enough now."""
        if not self._grow(sequence, sequence.prompt_tokens):
            return False
        sequence.phase = Phase.TRANSFERRING
        self.transferring.add(sequence)
        return True

    def end_transfer(self, sequence: Sequence) -> None:
        """The KV has come. The last prompt token is computed here, which yields the first output token."""
        self.transferring.discard(sequence)
        if sequence.phase is not Phase.TRANSFERRING:
            return  # aborted meanwhile
        sequence.phase = Phase.WAITING
        sequence.external_tokens = sequence.prompt_tokens
        sequence.computed_tokens = sequence.prompt_tokens - 1
        self.waiting.appendleft(sequence)

    def remove(self, sequence: Sequence, *, keep_blocks: bool = False) -> None:
        """End a sequence, wherever it is. `keep_blocks`: until `release_blocks` (its KV is to be fetched)."""
        if sequence.phase is Phase.RUNNING:
            self.running.remove(sequence)
        elif sequence.phase is Phase.WAITING:
            self.waiting.remove(sequence)
        self.transferring.discard(sequence)
        sequence.phase = Phase.ENDED
        if not keep_blocks:
            self.release_blocks(sequence)

    def release_blocks(self, sequence: Sequence) -> None:
        self.blocks_used -= sequence.blocks
        sequence.blocks = 0

    # --- one step -----------------------------------------------------------------------------------------
    def plan(self, now_seconds: float) -> Step | None:
        """Choose the next step's work and take its blocks. None when nothing can run."""
        budget = self.limits.max_batched_tokens
        preempted_before = self.preemptions
        work: dict[Sequence, int] = {}
        for sequence in list(self.running):
            if budget <= 0:
                break
            if sequence.phase is not Phase.RUNNING:
                continue  # preempted a moment ago
            tokens = self._chunk(sequence, budget)
            if tokens and self._make_room(sequence, sequence.computed_tokens + tokens, work):
                work[sequence] = tokens
                budget -= tokens
        # vLLM lets nobody in during a step that had to preempt.
        while self.waiting and budget > 0 and self.preemptions == preempted_before:
            sequence = self.waiting[0]
            if len(self.running) >= self.limits.max_sequences:
                break
            tokens = self._chunk(sequence, budget)
            if not tokens or not self._grow(sequence, sequence.computed_tokens + tokens):
                break
            self.waiting.popleft()
            self.running.append(sequence)
            sequence.phase = Phase.RUNNING
            if sequence.scheduled_seconds is None:
                sequence.scheduled_seconds = now_seconds
            work[sequence] = tokens
            budget -= tokens
        if not work:
            return None
        return self._timed(work.items(), self.preemptions - preempted_before)

    def complete(self, step: Step, now_seconds: float) -> list[Sequence]:
        """Account for a step that has run; returns the sequences that got a token, ended ones included.

        A sequence that was removed while the step ran gets none.
        """
        advanced = []
        for sequence, tokens in step.work:
            if sequence.phase is not Phase.RUNNING:
                continue
            sequence.computed_tokens += tokens
            if sequence.missing_tokens:
                continue
            sequence.generated_tokens += 1
            if sequence.first_token_seconds is None:
                sequence.first_token_seconds = now_seconds
            advanced.append(sequence)
        return advanced

    # --- room ---------------------------------------------------------------------------------------------
    def _chunk(self, sequence: Sequence, budget: int) -> int:
        """Tokens of `sequence` that go into a step with `budget` left; 0 when it must wait."""
        missing = sequence.missing_tokens
        if not self.limits.chunked_prefill:
            return missing if missing <= budget else 0
        threshold = self.limits.long_prefill_threshold
        return min(missing, budget, threshold) if threshold else min(missing, budget)

    def _make_room(self, sequence: Sequence, tokens: int, work: dict[Sequence, int]) -> bool:
        """Blocks for `tokens`, taken from the last running ones if need be; False when it is itself the last."""
        while not self._grow(sequence, tokens):
            victim = self.running.pop()
            self._preempt(victim)
            work.pop(victim, None)
            if victim is sequence:
                return False
        return True

    def _preempt(self, victim: Sequence) -> None:
        self.release_blocks(victim)
        victim.computed_tokens = 0
        victim.phase = Phase.WAITING
        victim.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(victim)

    def _grow(self, sequence: Sequence, tokens: int) -> bool:
        more = self._blocks_for(tokens) - sequence.blocks
        if more <= 0:
            return True
        if self.blocks_used + more > self.limits.kv_blocks:
            return False
        self.blocks_used += more
        sequence.blocks += more
        return True

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_tokens)

    def _timed(self, work: Iterable[tuple[Sequence, int]], preempted: int) -> Step:
        prefill_tokens = prefill_context = decode_sequences = kv_tokens = 0
        chosen = tuple(work)
        for sequence, tokens in chosen:
            if tokens == 1:
                decode_sequences += 1
                kv_tokens += sequence.computed_tokens
            else:
                prefill_tokens += tokens
                # Token i of the chunk attends to what came before the chunk and to i tokens of it.
                prefill_context += tokens * sequence.computed_tokens + tokens * tokens // 2
        seconds = self.profile.step_time_seconds(
            prefill_tokens=prefill_tokens,
            prefill_context=prefill_context,
            decode_sequences=decode_sequences,
            kv_tokens=kv_tokens,
        )
        return Step(chosen, seconds, prefill_tokens, preempted)

    # --- gauges -------------------------------------------------------------------------------------------
    @property
    def kv_usage(self) -> float:
        return self.blocks_used / self.limits.kv_blocks
