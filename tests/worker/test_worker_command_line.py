"""`tandem-worker` takes vLLM's command line; a mistake is one line, never a traceback."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_worker.engine_flags import EngineFlags
from tandem_worker.exits import UserMistake
from tandem_worker.launch import GATE, LATE_DEMOTION, engine_command, gate_environment

API_SERVER = ("vllm.entrypoints.openai.api_server",)
VLLM_SERVE = ("vllm.entrypoints.cli.main", "serve")


def command(*words: str, module=API_SERVER, gate=True) -> list[str]:
    return engine_command(
        EngineFlags.parse(words), module=module, python="python", gate=gate, shutdown_timeout_seconds=300
    )


def test_the_cpu_builds_module_gets_the_model_as_a_flag():
    assert command("org/m", "--port", "8000") == [
        "python", "-m", *API_SERVER, "--model", "org/m", "--port", "8000",
        "--shutdown-timeout", "300", "--middleware", GATE,
    ]  # fmt: skip


def test_vllm_serve_gets_the_model_as_its_first_word():
    assert command("org/m", "--port", "8000", module=VLLM_SERVE)[2:8] == [
        *VLLM_SERVE,
        "org/m",
        "--port",
        "8000",
        "--shutdown-timeout",
    ]


def test_the_users_shutdown_timeout_stays_and_the_gate_ends_before_it():
    words = ["org/m", "--shutdown_timeout=40"]
    assert command(*words).count("--shutdown-timeout") == 0
    assert gate_environment(EngineFlags.parse(words), {})["TANDEM_SIGTERM_DEADLINE_SECONDS"] == "36.0"


@pytest.mark.parametrize(("asked", "told"), [(False, "0"), (True, "1")])
def test_the_gate_is_told_of_late_demotion_whatever_the_environment_was(asked, told):
    flags = EngineFlags.parse(["org/m"])
    for before in ({}, {LATE_DEMOTION: "1"}, {LATE_DEMOTION: "0"}):
        assert gate_environment(flags, before, late_demotion=asked)[LATE_DEMOTION] == told


def test_without_the_gate_there_is_no_middleware():
    assert "--middleware" not in command("org/m", gate=False)


@given(
    st.lists(
        st.from_regex(r"--[a-z][a-z_-]{0,12}(=[a-z0-9]{1,5})?|[a-z0-9/{}\":]{1,10}", fullmatch=True),
        max_size=8,
    )
)
def test_engine_flags_pass_through_untouched_and_in_order(words):
    given_words = ["org/m", *words]
    built = command(*given_words)
    start = built.index("org/m")
    assert built[start : start + len(given_words)] == given_words


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--max-model-len", "4096"], "max-model-len", 4096),
        (["--max_model_len=4096"], "max-model-len", 4096),
        (["--max-model-len", "1", "--max-model-len", "8k"], "max-model-len", 8000),
        (["--max-model-len", "8K"], "max-model-len", 8192),
        (["-tp", "4"], "tensor-parallel-size", 4),
        (["--max-model-len", "-1"], "max-model-len", -1),
        ([], "max-model-len", None),
    ],
)
def test_numbers_are_read_as_vllm_reads_them(words, name, value):
    assert EngineFlags.parse(["m", *words]).integer(name) == value


@pytest.mark.parametrize(
    ("words", "on"),
    [
        ([], True),
        (["--no-enable-chunked-prefill"], False),
        (["--no-enable-chunked-prefill", "--enable-chunked-prefill"], True),
        (["--enable-chunked-prefill", "--no-enable-chunked-prefill"], False),
        (["--enable-chunked-prefill", "false"], False),
    ],
)
def test_of_a_pair_of_switches_the_last_one_wins(words, on):
    assert EngineFlags.parse(["m", *words]).switch("enable-chunked-prefill", True) is on


def test_no_number_is_a_users_mistake():
    with pytest.raises(UserMistake, match="max-model-len"):
        EngineFlags.parse(["m", "--max-model-len", "long"]).integer("max-model-len")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no MODEL"),
        (["--port", "8000"], "no MODEL"),
        (["m", "--simulate"], "--simulate needs a value"),
        (["m", "--simulate", "no-such-profile"], "h100-llama-8b"),
        (["m", "--simulate", "h100-llama-8b", "--max-num-seqs", "many"], "'many'"),
        (["m", "--simulate", "h100-llama-8b", "--kv-transfer-config", "{"], "no JSON"),
        (
            ["m", "--simulate", "h100-llama-8b", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "512"],
            "chunked prefill",
        ),
        (["m", "--simulate", "h100-llama-8b", "--late-demotion", "--no-gate"], "--no-gate"),
        (["m", "--simulate", "h100-llama-8b", "--late-demotion", "--data-parallel-size", "2"], "one engine"),
        (["m", "--no-preflight"], "vLLM is not installed"),
        (["close", "--deadline", "soon"], "'soon'"),
        (["close", "now"], "unknown argument"),
        (["status"], "no gate"),
    ],
)  # fmt: skip
def test_a_users_mistake_is_one_line_and_exit_2(run_worker, words, says):
    done = run_worker(*words)
    assert done.returncode == 2
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("tandem-worker: ") and says in line
    assert "Traceback" not in done.stderr


def test_a_bad_environment_is_a_users_mistake_too(run_worker):
    done = run_worker("close", TANDEM_DRAIN_DEADLINE_SECONDS="long")
    assert done.returncode == 2 and "TANDEM_DRAIN_DEADLINE_SECONDS" in done.stderr


def test_help_says_what_there_is(run_worker):
    done = run_worker("--help")
    assert done.returncode == 0
    assert all(
        word in done.stdout for word in ("--simulate", "--no-preflight", "--no-gate", "close", "preflight")
    )


def test_a_port_that_is_taken_ends_the_simulated_worker(run_worker, simulated):
    port = simulated().url.rsplit(":", 1)[1]
    done = run_worker("m", "--simulate", "h100-llama-8b", "--host", "127.0.0.1", "--port", port)
    assert done.returncode not in (0, 2)
    assert "Traceback" not in done.stderr and "address already in use" in done.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"step_seconds": None}, "step_seconds"),
        ({"step_seconds": 0}, "step_seconds"),
        ({"kv_cache_tokens": 1.5}, "kv_cache_tokens"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_profile_of_ones_own_is_checked(tmp_path, change, says):
    from tandem_worker.simulate import profile

    data = json.loads((profile.FOLDER / "h100-llama-8b.json").read_text())
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    assert profile.load(str(path)).name == "h100-llama-8b"
    data.update(change)
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    with pytest.raises(UserMistake, match=says):
        profile.load(str(path))


def test_every_built_in_profile_loads():
    from tandem_worker.simulate import profile

    names = profile.built_in()
    assert {"h100-llama-8b", "h200-llama-8b", "a100-llama-8b", "cpu-tiny"} <= set(names)
    assert all(profile.load(name).name == name and profile.load(name).source for name in names)
