"""Issue 6, item 7: for which traffic one GPU for prompts and one for answers beat two that do both."""

import numpy as np
import pytest

from tandem_autoscaler.model.mixed_step import Chunking
from tandem_autoscaler.simulator.break_even import Cell, cell, main, promise_for, table, traffic
from tandem_autoscaler.simulator.catalogue import hardware

PREFILL, DECODE = hardware("h100-llama-8b"), hardware("h200-llama-8b")


def test_lengths_and_shares_are_those_of_the_cell() -> None:
    trace = traffic(1000, 250, 10.0, requests=4000)
    assert np.mean(trace.prompt) == pytest.approx(1000, rel=0.05)
    assert np.mean(trace.output) == pytest.approx(250, rel=0.05)
    assert len(trace) / trace.arrival[-1] == pytest.approx(10.0, rel=0.05)


def test_apart_is_worth_more_than_the_published_75_percent_where_prompts_would_hold_answers_up() -> None:
    found = cell(PREFILL, DECODE, promise_for(PREFILL, 4000, 0.010), 4000, 0.95)
    gain = found.gain(tuned=True)
    assert gain is not None and gain > 0.6


def test_it_turns_round_where_the_promise_is_loose() -> None:
    found = cell(PREFILL, DECODE, promise_for(PREFILL, 1000, 0.040), 1000, 0.8)
    gain = found.gain(tuned=True)
    assert gain is not None and gain < 0.0


def test_what_cannot_be_served_is_named_and_no_percentage() -> None:
    def of(together: float, apart: float) -> Cell:
        return Cell(100, 10, together, together, apart, Chunking())

    told = table([of(0.0, 1.0), of(0.0, 0.0), of(2.0, 1.0)], (0.5, 0.8, 0.9), tuned=True)
    assert told.splitlines()[-1] == "| 100 | only apart | neither | -50 % |"


def test_a_model_without_both_gpus_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "nothing"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
