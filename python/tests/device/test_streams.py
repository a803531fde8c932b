"""Streams and events."""

import pytest
import torch


def test_a_stream_is_current_within_its_context() -> None:
    default, stream = torch.tpu.default_stream(), torch.tpu.Stream()
    assert torch.tpu.current_stream() == default != stream
    with torch.tpu.stream(stream):
        assert torch.tpu.current_stream() == stream == torch.accelerator.current_stream()
        with torch.tpu.stream(None):
            assert torch.tpu.current_stream() == stream
    assert torch.tpu.current_stream() == default
    torch.tpu.set_stream(stream)
    assert torch.tpu.current_stream() == stream
    torch.tpu.set_stream(default)
    assert hash(default) == hash(torch.tpu.current_stream())
    assert isinstance(stream, torch.Stream)
    assert repr(stream) == f"<torch.tpu.Stream device=tpu:0 stream_id={stream.stream_id}>"


def test_torchs_own_stream_serves_too() -> None:
    with torch.Stream("tpu") as stream:
        assert stream.device == torch.device("tpu:0")
        assert torch.tpu.current_stream() == stream
    assert torch.tpu.current_stream() == torch.tpu.default_stream()


def test_streams_wait_for_each_other() -> None:
    stream, x = torch.tpu.Stream(priority=-1), torch.ones(64, 64, device="tpu")
    with torch.tpu.stream(stream):
        y = x @ x
        event = stream.record_event()
    torch.tpu.current_stream().wait_stream(stream)
    torch.tpu.current_stream().wait_event(event)
    event.wait()
    y.record_stream(torch.tpu.current_stream())
    stream.synchronize()
    assert stream.query()
    assert event.query()
    assert (y == 64).all()


def test_an_event_has_happened_once_its_stream_is_done() -> None:
    # The plugin tells an event of a result some time after those who wait for the result go on.
    stream, x = torch.tpu.Stream(), torch.ones(64, 64, device="tpu")
    for _ in range(1000):
        with torch.tpu.stream(stream):
            y = x @ x
            event = stream.record_event()
        stream.synchronize()
        assert stream.query()
        assert event.query()
    assert (y == 64).all()


def test_events_measure_the_work_between_them() -> None:
    start, end = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
    x = torch.randn(256, 256, device="tpu")
    (x @ x).cpu()
    start.record()
    for _ in range(20):
        x = torch.tanh(x @ x)
    end.record()
    end.synchronize()
    assert start.query()
    assert end.query()
    once = start.elapsed_time(end)
    assert 0 < once < 60_000
    assert end.elapsed_time(start) == -once
    assert isinstance(end, torch.tpu.Event)


def test_events_that_cannot_measure_say_so() -> None:
    timed = [torch.tpu.Event(enable_timing=True) for _ in range(2)]
    with pytest.raises(ValueError, match="must be recorded before"):
        timed[0].elapsed_time(timed[1])
    plain = [torch.tpu.Event() for _ in range(2)]
    for event in plain:
        event.record()
    with pytest.raises(ValueError, match="enable_timing=True"):
        plain[0].elapsed_time(plain[1])
    with pytest.raises(ValueError, match="cannot be shared between processes"):
        torch.tpu.Event(interprocess=True)


def test_an_event_that_was_never_recorded_has_happened() -> None:
    event = torch.tpu.Event()
    assert event.query()
    event.synchronize()
