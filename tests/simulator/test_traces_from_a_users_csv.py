"""A user's trace for `kubectl tandem replay`: usual columns and times are understood, mistakes are one sentence."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces import from_csv, named

Read = Callable[[str], Trace]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def from_text(text: str) -> Trace:
        path = tmp_path / "requests.csv"
        path.write_text(text)
        return from_csv(path)

    return from_text


def test_seconds(read: Read) -> None:
    found = read("timestamp,prompt,output\n10.5,100,7\n11,200,8\n13.5,300,9\n")
    assert found.name == "requests"
    assert found.arrival.tolist() == [0.0, 0.5, 3.0]
    assert found.prompt.tolist() == [100, 200, 300]
    assert found.output.tolist() == [7, 8, 9]
    assert found.duration_seconds == 4.0  # a mean gap after the last


def test_azures_own_header_and_its_seven_digits(read: Read) -> None:
    found = read(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
    )
    assert found.arrival.tolist() == pytest.approx([0.0, 4.314579], abs=1e-6)


@pytest.mark.parametrize(
    "times",
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T01:00:01.5+01:00"),
        ("1767225600", "1767225601.5"),
        ("1767225600000", "1767225601500"),
    ],
    ids=["ISO 8601 with zones", "epoch", "epoch in milliseconds"],
)
def test_times_in_every_usual_form(read: Read, times: tuple[str, str]) -> None:
    found = read(f"timestamp,prompt_tokens,output_tokens\n{times[0]},5,6\n{times[1]},7,8\n")
    assert found.arrival.tolist() == [0.0, 1.5]


def test_milliseconds_when_the_column_says_so(read: Read) -> None:
    assert read("timestamp_ms,isl,osl\n0,5,6\n1500,7,8\n").arrival.tolist() == [0.0, 1.5]
    assert read("Arrival time (s),isl,osl\n0,5,6\n1500,7,8\n").arrival.tolist() == [0.0, 1500.0]


def test_columns_and_rows_in_any_order_others_ignored_blank_lines_too(read: Read) -> None:
    found = read('user,output_length,input_length,time\n"a, b",9,90,20\n\nc,8,80,10\n')
    assert found.arrival.tolist() == [0.0, 10.0]
    assert found.prompt.tolist() == [80, 90]
    assert found.output.tolist() == [8, 9]


def test_an_answer_of_no_token_counts_as_one(read: Read) -> None:
    assert read("timestamp,prompt,output\n1,5,0\n").output.tolist() == [1]


def test_requests_of_one_instant_keep_their_order(read: Read) -> None:
    assert read("timestamp,prompt,output\n1,9,1\n1,5,2\n1,7,3\n").prompt.tolist() == [9, 5, 7]


def test_one_request_is_a_trace(read: Read) -> None:
    found = read("timestamp,prompt,output\n99,5,6\n")
    assert found.arrival.tolist() == [0.0]
    assert found.duration_seconds == 1.0


HEADER = "timestamp,prompt,output\n1,5,6\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "requests.csv: the file is empty"),
        ("timestamp,prompt,output\n", "requests.csv: there is a header, but no request"),
        ("when,isl,osl\n1,2,3\n", "requests.csv: no column of times among when, isl, osl; name it timestamp"),
        ("time,prompt\n1,2\n", "requests.csv: no column of outputs among time, prompt; name it output_tokens"),
        (HEADER + "soon,5,6\n", "requests.csv, line 3: 'soon' is no time; seconds, milliseconds or ISO 8601 are"),
        (HEADER + "nan,5,6\n", "requests.csv, line 3: 'nan' is no time; seconds, milliseconds or ISO 8601 are"),
        (HEADER + "2,many,6\n", "requests.csv, line 3: 'many' is no number of prompt tokens"),
        (HEADER + "2,inf,6\n", "requests.csv, line 3: 'inf' is no number of prompt tokens"),
        (HEADER + "2,0,6\n", "requests.csv, line 3: 0 prompt tokens are too few"),
        (HEADER + "\n2,5,-1\n", "requests.csv, line 4: -1 output tokens are too few"),
        (HEADER + "2,5\n", "requests.csv, line 3: has 2 of 3 columns"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_with_its_line(read: Read, text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        read(text)
    assert str(error.value) == sentence


def test_a_file_that_is_missing_or_no_text_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.csv: No such file or directory$"):
        from_csv(tmp_path / "nowhere.csv")
    (tmp_path / "binary.csv").write_bytes(b"PK\x03\x04\xff\xfe")
    with pytest.raises(ValueError, match=r"this is no text in UTF-8$"):
        from_csv(tmp_path / "binary.csv")


@given(st.text(alphabet="timestamp,proutu\n0123456789.-: TZ\"'", max_size=120))
@settings(max_examples=200, deadline=None)
def test_whatever_the_file_says_it_is_a_trace_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("any") / "any.csv"
    path.write_text("timestamp,prompt,output\n" + text)
    try:
        found = from_csv(path)
    except ValueError as error:
        assert "\n" not in str(error)
    else:
        assert len(found) > 0 and found.arrival[0] == 0
        assert found.arrival[-1] < found.duration_seconds < float("inf")


def test_a_trace_written_out_comes_back(tmp_path: Path) -> None:
    found = named("azure-code-2023", 1, duration=300.0)
    path = tmp_path / "again.csv"
    lines = zip(found.arrival, found.prompt, found.output, strict=True)
    path.write_text("time_s,prompt,output\n" + "".join(f"{t:.3f},{n:g},{o:g}\n" for t, n, o in lines))
    again = from_csv(path)
    assert np.allclose(again.arrival, found.arrival, atol=1e-3)
    assert np.array_equal(again.prompt, found.prompt) and np.array_equal(again.output, found.output)
